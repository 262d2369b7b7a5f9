//! The layout of a heap's pool and DRAM: addresses, computed from a few numbers in the pool's
//! header.
//!
//! `docs/format.md` describes the same layout byte by byte. Only the numbers are stored, so a wrong
//! address in the pool is always a wrong checksum of the header.

use crate::alloc::chunk_set::ChunkSet;
use crate::alloc::shelf::LINES_MAX;
use crate::alloc::size_class::{CHUNK_BYTES, Class};
use crate::{Arena, Locks, Stripes};
use seawall_memory::{Addr, LINE_BYTES};

/// The maximum number of types of a heap.
pub(crate) const TYPES_MAX: u64 = 126;
/// Bytes of a type's text in the pool, with the checked word before it.
pub(crate) const TEXT_BYTES: u64 = 256;
/// The maximum number of threads.
pub(crate) const THREADS_MAX: u64 = 1024;
/// The maximum number of chunks: 16 TiB.
pub(crate) const CHUNKS_MAX: u64 = 1 << 28;
/// The minimum bytes of each half of a thread's log.
pub(crate) const LOG_BYTES_MIN: u64 = 4 << 10;
/// The maximum bytes of each half of a thread's log.
pub(crate) const LOG_BYTES_MAX: u64 = 1 << 30;
/// The maximum bytes of the root object.
pub(crate) const ROOT_BYTES_MAX: u64 = 1 << 20;

/// The numbers in the header that determine the layout.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Numbers {
    /// Threads that can use the heap at once.
    pub(crate) threads: u64,
    /// Bytes of each half of a thread's redo log, and of its undo log.
    pub(crate) log_bytes: u64,
    /// The maximum number of chunks.
    pub(crate) chunks_max: u64,
    /// The number for the type of the root object.
    pub(crate) root_shape: u64,
    /// Bytes of the root object.
    pub(crate) root_bytes: u64,
    /// Whether objects can move.
    pub(crate) moves: bool,
}

impl Numbers {
    /// Whether a heap can have this layout. No address of a layout that passes can wrap around.
    pub(crate) fn are_sound(&self) -> bool {
        (1..=THREADS_MAX).contains(&self.threads)
            && (LOG_BYTES_MIN..=LOG_BYTES_MAX).contains(&self.log_bytes)
            && self.log_bytes.is_multiple_of(LINE_BYTES)
            && (1..=CHUNKS_MAX).contains(&self.chunks_max)
            && self.root_bytes <= ROOT_BYTES_MAX
    }
}

/// The addresses of a heap's parts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Layout {
    pub(crate) numbers: Numbers,
    /// The last truncated generation of the logs: a checked word.
    pub(crate) retired: Addr,
    /// The number of chunks: a checked word, in the same line.
    pub(crate) chunks: Addr,
    /// The root object.
    pub(crate) root: Addr,
    types: Addr,
    texts: Addr,
    threads: Addr,
    logs: Addr,
    table: Addr,
    /// The first chunk.
    pub(crate) data: Addr,
    /// In DRAM: the counters of generations and of transactions, each on its own line.
    pub(crate) generation: Addr,
    pub(crate) stamps: Addr,
    /// In DRAM: a copy of `retired`, unchecked.
    pub(crate) retired_now: Addr,
    /// In DRAM: the number of chunks of which the sets know what they hold.
    pub(crate) known: Addr,
    /// In DRAM: the most consecutive free chunks that a search has found, or one of two marks.
    pub(crate) longest: Addr,
    /// In DRAM, in pools whose programs store in place: the greatest number of a thread that has
    /// joined, plus 1. Such pools have room for many more threads than most programs have.
    pub(crate) joined: Addr,
    /// Locks for truncating logs (0) and for handing out chunks (1).
    pub(crate) locks: Locks,
    busy: Addr,
    dirty: Addr,
    owners: Addr,
    sets: Addr,
    /// In DRAM: locks for the structures of the heap.
    pub(crate) stripes: Stripes,
    /// In DRAM, if objects can move: the phase of the cycle, the role of each chunk's pages in it,
    /// and the start of each chunk's part of the forwarding table.
    pub(crate) phase: Addr,
    pages: Addr,
    parts: Addr,
    pub(crate) dram_bytes: u64,
}

/// Sets of chunks: the free ones, those that may be empty, those with free blocks of each class,
/// and shelves by their free lines.
const SETS: u64 = 2 + Class::COUNT as u64 + LINES_MAX;

/// The lock for truncating logs.
pub(crate) const RETIRE_LOCK: u64 = 0;
/// The lock for taking and returning chunks, and for numbering types.
pub(crate) const CHUNK_LOCK: u64 = 1;

impl Layout {
    pub(crate) fn of(numbers: Numbers) -> Layout {
        let mut arena = Arena::new();
        let state = arena.pm(LINE_BYTES);
        let root = arena.pm(numbers.root_bytes);
        let types = arena.pm(16 * TYPES_MAX);
        let texts = arena.pm(TEXT_BYTES * TYPES_MAX);
        let threads = arena.pm(LINE_BYTES * numbers.threads);
        let logs = arena.pm(3 * numbers.log_bytes * numbers.threads);
        let table = arena.pm(8 * numbers.chunks_max);
        let data = Addr::pm(arena.pm_bytes().next_multiple_of(CHUNK_BYTES));
        let generation = arena.dram(LINE_BYTES);
        let stamps = arena.dram(LINE_BYTES);
        let rest = arena.dram(LINE_BYTES);
        let locks = Locks::place(&mut arena, 2, numbers.threads, 2);
        let busy = arena.dram(LINE_BYTES * numbers.threads);
        let dirty = arena.dram(2 * numbers.log_bytes * numbers.threads);
        let owners = arena.dram(16 * numbers.chunks_max);
        let sets = arena.dram(SETS * ChunkSet::bytes(numbers.chunks_max));
        let stripes = Stripes::place(&mut arena, numbers.threads);
        let mut if_moves = |bytes| if numbers.moves { arena.dram(bytes) } else { Addr::NULL };
        let phase = if_moves(2 * LINE_BYTES);
        let pages = if_moves(8 * numbers.chunks_max);
        let parts = if_moves(8 * numbers.chunks_max);
        Layout {
            numbers,
            retired: state,
            chunks: state.plus(8),
            root,
            types,
            texts,
            threads,
            logs,
            table,
            data,
            generation,
            stamps,
            retired_now: rest,
            known: rest.plus(8),
            joined: rest.plus(16),
            longest: rest.plus(24),
            locks,
            busy,
            dirty,
            owners,
            sets,
            stripes,
            phase,
            pages,
            parts,
            dram_bytes: arena.dram_bytes(),
        }
    }

    /// Bytes of a pool with `chunks` chunks.
    pub(crate) fn pm_bytes(&self, chunks: u64) -> u64 {
        self.data.offset() + chunks * CHUNK_BYTES
    }

    /// The number of transactions that the thread has finished.
    pub(crate) fn done(&self, thread: u64) -> Addr {
        self.threads.plus(thread * LINE_BYTES)
    }

    /// The number of the thread's last undo transaction that ended: a checked word, in the same
    /// line.
    pub(crate) fn ended(&self, thread: u64) -> Addr {
        self.done(thread).plus(8)
    }

    /// The extent of log `log` of the thread's three: a checked word, in the same line.
    pub(crate) fn reach(&self, thread: u64, log: u64) -> Addr {
        self.done(thread).plus(16 + 8 * log)
    }

    /// The last generation whose end in the thread's half is recorded, and the line of that end:
    /// two checked words, in the same line.
    pub(crate) fn closed(&self, thread: u64) -> [Addr; 2] {
        [40, 48].map(|offset| self.done(thread).plus(offset))
    }

    /// The half of the thread's redo log for records of `generation`.
    pub(crate) fn log(&self, thread: u64, generation: u64) -> Addr {
        self.logs.plus((3 * thread + generation % 2) * self.numbers.log_bytes)
    }

    /// The thread's undo log.
    pub(crate) fn undo(&self, thread: u64) -> Addr {
        self.logs.plus((3 * thread + 2) * self.numbers.log_bytes)
    }

    /// The entry of type `number`, from 1.
    pub(crate) fn type_entry(&self, number: u64) -> Addr {
        self.types.plus(16 * (number - 1))
    }

    /// The text of type `number`, from 1.
    pub(crate) fn type_text(&self, number: u64) -> Addr {
        self.texts.plus(TEXT_BYTES * (number - 1))
    }

    /// The entry of chunk `chunk`.
    pub(crate) fn chunk_entry(&self, chunk: u64) -> Addr {
        self.table.plus(8 * chunk)
    }

    /// The first byte of chunk `chunk`.
    pub(crate) fn chunk(&self, chunk: u64) -> Addr {
        self.data.plus(chunk * CHUNK_BYTES)
    }

    /// The chunk of `at`, if `at` lies in the space for chunks.
    pub(crate) fn chunk_of(&self, at: Addr) -> Option<u64> {
        if !at.is_pm() {
            return None;
        }
        let chunk = at.offset().checked_sub(self.data.offset())? / CHUNK_BYTES;
        (chunk < self.numbers.chunks_max).then_some(chunk)
    }

    /// In DRAM: the generation that the thread is writing a record of, or 0.
    pub(crate) fn busy(&self, thread: u64) -> Addr {
        self.busy.plus(thread * LINE_BYTES)
    }

    /// In DRAM: the generation of the thread's last record, and the lines of log that the thread
    /// has written in it.
    pub(crate) fn last(&self, thread: u64) -> Addr {
        self.busy(thread).plus(8)
    }

    /// In DRAM, if objects can move: odd while the thread is in a scope of its own, and a new
    /// number for each scope.
    pub(crate) fn scope(&self, thread: u64) -> Addr {
        self.busy(thread).plus(48)
    }

    /// In DRAM, if objects can move: the bytes that the thread has freed.
    pub(crate) fn freed_bytes(&self, thread: u64) -> Addr {
        self.busy(thread).plus(56)
    }

    /// In DRAM: the number of listed dirty lines.
    pub(crate) fn dirty_count(&self, thread: u64, generation: u64) -> Addr {
        self.busy(thread).plus(16 + 16 * (generation % 2))
    }

    /// In DRAM: the entries of a list of dirty lines that are not known to be durable, with the low
    /// bits of the list's generation.
    pub(crate) fn left(&self, thread: u64) -> Addr {
        self.busy(thread).plus(24)
    }

    /// In DRAM: the list of dirty lines.
    pub(crate) fn dirty(&self, thread: u64, generation: u64) -> Addr {
        self.dirty.plus((2 * thread + generation % 2) * self.numbers.log_bytes)
    }

    /// In DRAM: the owner of the chunk, or of the run of chunks that begins there (a thread's
    /// number plus 1), or 0.
    pub(crate) fn owner(&self, chunk: u64) -> Addr {
        self.owners.plus(16 * chunk)
    }

    /// In DRAM: the number of blocks of the chunk that no thread lists, freed since its states, or
    /// its place in the sets, were last looked at.
    pub(crate) fn freed(&self, chunk: u64) -> Addr {
        self.owners.plus(16 * chunk + 8)
    }

    fn set(&self, number: u64) -> ChunkSet {
        let most = self.numbers.chunks_max;
        ChunkSet::new(self.sets.plus(number * ChunkSet::bytes(most)), most)
    }

    /// The chunks that can be taken for any use.
    pub(crate) fn free_chunks(&self) -> ChunkSet {
        self.set(0)
    }

    /// Chunks of blocks and shelves without an owner that may be empty.
    pub(crate) fn loose(&self) -> ChunkSet {
        self.set(1)
    }

    /// Chunks without an owner that may have free blocks of the class.
    pub(crate) fn open(&self, class: Class) -> ChunkSet {
        self.set(2 + class.number() as u64)
    }

    /// Shelves without an owner that may have so many consecutive free lines, and have no more.
    pub(crate) fn shelves(&self, lines: u64) -> ChunkSet {
        self.set(1 + Class::COUNT as u64 + lines)
    }

    /// The chunk of the forwarding table, plus 1, or 0: a checked word of the state line.
    pub(crate) fn moved_table(&self) -> Addr {
        self.retired.plus(16)
    }

    /// In DRAM: the protocol of the current cycle.
    pub(crate) fn protocol(&self) -> Addr {
        self.phase.plus(8)
    }

    /// In DRAM: the chunk that a cycle is reading, plus 1, or 0.
    #[inline]
    pub(crate) fn looked_at(&self) -> Addr {
        self.phase.plus(16)
    }

    /// In DRAM: which counter new shared scopes use.
    pub(crate) fn turn(&self) -> Addr {
        self.phase.plus(LINE_BYTES)
    }

    /// In DRAM: the number of open shared scopes that use the counter of this turn.
    pub(crate) fn counter(&self, turn: u64) -> Addr {
        self.phase.plus(LINE_BYTES + 8 + 8 * (turn % 2))
    }

    /// In DRAM: how many objects have moved as published.
    pub(crate) fn moves(&self) -> Addr {
        self.phase.plus(LINE_BYTES + 32)
    }

    /// In DRAM: the role of the chunk's pages in a cycle of defragmentation.
    #[inline]
    pub(crate) fn pages(&self, chunk: u64) -> Addr {
        self.pages.plus(8 * chunk)
    }

    /// In DRAM: the address of the chunk's first entry in the forwarding table.
    #[inline]
    pub(crate) fn first_entry(&self, chunk: u64) -> Addr {
        self.parts.plus(8 * chunk)
    }

    /// Whether transactions can write there: in the root and the chunks.
    pub(crate) fn holds(&self, at: Addr, bytes: u64, chunks: u64) -> bool {
        let is_data = inside(at, bytes, self.data.offset(), self.pm_bytes(chunks));
        is_data || self.is_root(at, bytes)
    }

    /// Whether the range is in the root object.
    #[inline]
    pub(crate) fn is_root(&self, at: Addr, bytes: u64) -> bool {
        let root = self.root.offset();
        inside(at, bytes, root, root + self.numbers.root_bytes.next_multiple_of(8))
    }

    /// Whether the range is in words that the log writes and that are no data: entries of chunks
    /// and of types.
    pub(crate) fn is_entry(&self, at: Addr, bytes: u64) -> bool {
        let inside = |table: Addr, length: u64| {
            at >= table && at.offset().saturating_add(bytes) <= table.offset() + length
        };
        at.is_pm()
            && (inside(self.table, 8 * self.numbers.chunks_max)
                || (self.numbers.moves && inside(self.moved_table(), 8))
                || inside(self.types, 16 * TYPES_MAX)
                || inside(self.texts, TEXT_BYTES * TYPES_MAX))
    }
}

#[inline]
fn inside(at: Addr, bytes: u64, from: u64, to: u64) -> bool {
    at.is_pm() && at.offset() >= from && at.offset() <= to && bytes <= to - at.offset()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn layout(threads: u64) -> Layout {
        let numbers = Numbers {
            threads,
            log_bytes: LOG_BYTES_MIN,
            chunks_max: 9,
            root_shape: 0,
            root_bytes: 24,
            moves: false,
        };
        assert!(numbers.are_sound());
        Layout::of(numbers)
    }

    #[test]
    fn areas_follow_each_other_without_overlap() {
        let layout = layout(3);
        let mut starts =
            vec![layout.retired, layout.root, layout.type_entry(1), layout.type_text(1)];
        starts.extend((0..3).map(|thread| layout.done(thread)));
        for thread in 0..3 {
            starts.extend([layout.log(thread, 0), layout.log(thread, 1), layout.undo(thread)]);
        }
        starts.extend([layout.chunk_entry(0), layout.chunk(0), layout.chunk(8)]);
        assert!(starts.is_sorted_by(|a, b| a.offset() + 8 <= b.offset()), "{starts:?}");
        assert!(starts.iter().all(|at| at.offset().is_multiple_of(64)));
        assert_eq!(layout.log(2, 1).plus(LOG_BYTES_MIN), layout.undo(2));
        assert!(layout.chunk(0).offset().is_multiple_of(CHUNK_BYTES));
    }

    #[test]
    fn only_the_root_and_the_chunks_hold_data() {
        let layout = layout(1);
        assert!(layout.holds(layout.root, 24, 2) && !layout.holds(layout.root, 25, 2));
        assert!(layout.holds(layout.chunk(1), CHUNK_BYTES, 2));
        assert!(!layout.holds(layout.chunk(1).plus(8), CHUNK_BYTES, 2));
        assert!(!layout.holds(layout.done(0), 8, 2) && !layout.holds(Addr::pm(0), 8, 2));
        assert!(!layout.holds(Addr::from_bits(u64::MAX), 8, 2));
        assert_eq!(layout.chunk_of(layout.chunk(1).plus(9)), Some(1));
        assert_eq!(layout.chunk_of(layout.root), None);
    }

    #[test]
    fn entries_are_those_of_chunks_and_of_types() {
        let layout = layout(1);
        assert!(layout.is_entry(layout.type_entry(1), 16 * TYPES_MAX));
        assert!(layout.is_entry(layout.chunk_entry(8), 8));
        assert!(layout.is_entry(layout.type_text(TYPES_MAX), TEXT_BYTES));
        assert!(!layout.is_entry(layout.type_text(TYPES_MAX), TEXT_BYTES + 8));
        assert!(!layout.is_entry(layout.type_entry(TYPES_MAX), 24));
        assert!(!layout.is_entry(layout.chunk_entry(8), 16));
        for at in [layout.done(0), layout.root, Addr::dram(layout.chunk_entry(0).offset())] {
            assert!(!layout.is_entry(at, 8), "{at}");
        }
        assert!(!layout.is_entry(layout.chunk_entry(0), u64::MAX));
    }

    #[test]
    fn numbers_that_would_wrap_are_not_sound() {
        let good = layout(1).numbers;
        for bad in [
            Numbers { threads: 0, ..good },
            Numbers { threads: u64::MAX, ..good },
            Numbers { log_bytes: LOG_BYTES_MIN + 8, ..good },
            Numbers { log_bytes: 1 << 62, ..good },
            Numbers { chunks_max: 1 << 60, ..good },
            Numbers { root_bytes: u64::MAX, ..good },
        ] {
            assert!(!bad.are_sound(), "{bad:?}");
        }
    }
}
