//! Truncation ahead: the lines that a generation dirtied are flushed in small steps by the commits
//! of the next one, so that no transaction pays for a whole log.
//!
//! While generation g is written, the lists of dirty lines of g - 1 are complete. A commit flushes
//! the end of one of them before its own fence, which then waits for these lines as well; behind
//! the fence the thread stores how many entries are [left](Layout::left). A thread takes its own
//! list first, and then those of threads that are not writing in g - 1 any more: they may be idle.
//! When a half is full, truncation flushes what is left, which mostly is nothing.
//!
//! Nobody holds a lock meanwhile. Whoever stores a number of entries that are left has read that
//! number before, and all entries behind it were durable then. So two threads on one list flush
//! some lines twice at worst, and a number that comes late makes truncation flush more.
//!
//! A step has many lines because the first line under a fence is the dear one. On one AMD server
//! over DRAM, a fence behind a record that goes past the caches takes 109 ns, with one line flushed
//! before it 166 ns, with one line before each fence likewise, and with 32 lines before every 32nd
//! 113 ns on average.
//!
//! A program that never waits for its fences (`Session::begin`) does no steps, and neither does one
//! that has not asked for them ([`Heap::flushing_early`](crate::Heap::flushing_early)).

use super::redo_log::{COUNT_BITS, Log, Wait};
use crate::flaws::HeapFlaw;
use crate::heap::layout::Layout;
use seawall_memory::{LINE_BYTES, Line, Memory, MemoryExt};

/// Bytes of log between two steps.
const STRIDE_BYTES: u64 = 8 * LINE_BYTES;
/// Lines that are flushed for each line of log. A record's entries dirty fewer: each has a head and
/// a word at least, or is a run of words.
const LINES: u64 = 4;
/// Lists that a step looks at, at most.
const LISTS: u64 = 32;

/// How far a thread is with the lists of the generation before that of its last record.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Ahead {
    /// The generation whose lists are flushed.
    generation: u64,
    /// The list: that of the thread which is so many behind this one, in a circle.
    offset: u64,
    is_over: bool,
    /// The entries of the list that are left, once it has been looked at, and the lines of the last
    /// one that are flushed.
    left: Option<u64>,
    into: u64,
    /// Bytes of log since the last step.
    bytes: u64,
}

impl Ahead {
    /// Of a thread that writes records of `generation`, and does steps if it `is_wanted`.
    pub(super) fn new(generation: u64, is_wanted: bool) -> Ahead {
        let generation = generation.saturating_sub(1);
        Ahead { generation, is_over: !is_wanted || generation == 0, ..Ahead::default() }
    }
}

impl Log {
    /// To be called before a record of `size` bytes is written and waited for: does a step if one
    /// is due, of which [`end_step`](Log::end_step) is the rest. Returns whether it did one.
    #[inline]
    pub(super) fn begin_step<M: Memory>(&mut self, memory: &M, size: u64, wait: Wait) -> bool {
        if self.ahead.is_over || wait == Wait::Ordered {
            return false;
        }
        self.ahead.bytes += size;
        self.ahead.bytes >= STRIDE_BYTES && self.step(memory)
    }

    #[cold]
    #[inline(never)]
    fn step<M: Memory>(&mut self, memory: &M) -> bool {
        let lines = LINES * self.ahead.bytes / LINE_BYTES;
        self.ahead.bytes = 0;
        let Some((thread, left)) = self.list_ahead(memory) else { return false };
        self.ahead.left = Some(self.flush_end(memory, thread, left, lines));
        if thread != self.places.thread {
            // As in truncation: behind what that thread stored.
            memory.load::<u64>(self.layout.done(thread));
        }
        if self.flaw.is(HeapFlaw::EarlyStep) {
            self.end_step(memory);
        }
        true
    }

    /// To be called behind the fence of a step: says which entries are left.
    #[cold]
    #[inline(never)]
    pub(super) fn end_step<M: Memory>(&self, memory: &M) {
        let Ahead { generation, left, .. } = self.ahead;
        let thread = self.thread_ahead(self.threads(memory).end);
        memory.store(self.layout.left(thread), tagged(generation, left.unwrap_or(0)));
    }

    fn thread_ahead(&self, threads: u64) -> u64 {
        (self.places.thread + self.ahead.offset) % threads
    }

    /// The list that is to be flushed next, by its thread, and the entries that are left of it.
    fn list_ahead<M: Memory>(&mut self, memory: &M) -> Option<(u64, u64)> {
        let (threads, generation) = (self.threads(memory).end, self.ahead.generation);
        for _ in self.ahead.offset..threads.min(self.ahead.offset + LISTS) {
            let thread = self.thread_ahead(threads);
            let is_writing = self.ahead.left.is_none()
                && thread != self.places.thread
                && memory.load::<u64>(self.layout.busy(thread)) == generation
                && !self.flaw.is(HeapFlaw::HastyStep);
            if !is_writing {
                let count = memory.load(self.layout.dirty_count(thread, generation));
                let left = entries_left(memory, &self.layout, thread, (generation, count));
                if self.ahead.left != Some(left) {
                    self.ahead.into = 0;
                }
                if left > 0 {
                    return Some((thread, left));
                }
            }
            self.ahead = Ahead { offset: self.ahead.offset + 1, left: None, ..self.ahead };
            self.flushed.clear();
        }
        self.ahead.is_over = self.ahead.offset >= threads;
        None
    }

    /// Flushes `lines` lines of the last of `left` entries; returns how many entries are left.
    fn flush_end<M: Memory>(&mut self, memory: &M, thread: u64, left: u64, lines: u64) -> u64 {
        let list = self.layout.dirty(thread, self.ahead.generation);
        let (mut left, mut lines) = (left, lines);
        while left > 0 {
            let listed: u64 = memory.load(list.plus(8 * (left - 1)));
            let count = (listed & ((1 << COUNT_BITS) - 1)) - self.ahead.into;
            let first = (listed >> COUNT_BITS) + self.ahead.into;
            let now = count.min(lines);
            let skipped = u64::from(self.flaw.is(HeapFlaw::LossyStep));
            (first..first + now).skip(skipped as usize).for_each(|line| {
                self.flush_once(memory, Line(line));
            });
            lines -= now;
            if now < count {
                self.ahead.into += now;
                break;
            }
            self.ahead.into = 0;
            left -= 1;
        }
        left
    }
}

/// How many of the `count` entries on a thread's list of dirty lines are not known to be durable.
pub(super) fn entries_left<M: Memory>(
    memory: &M,
    layout: &Layout,
    thread: u64,
    (generation, count): (u64, u64),
) -> u64 {
    let stored = memory.load::<u64>(layout.left(thread));
    let of_this = stored ^ tagged(generation, 0);
    if of_this <= u64::from(u32::MAX) { of_this.min(count) } else { count }
}

/// A number of entries with the low bits of its generation. A list of a log of 1 GiB has 2^26.
fn tagged(generation: u64, left: u64) -> u64 {
    generation << u32::BITS | left
}
