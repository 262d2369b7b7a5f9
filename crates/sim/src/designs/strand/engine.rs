//! The persist queue and the strand buffers of a core: section IV of the StrandWeaver paper.
//!
//! Writes are numbered in the order of their stores. A write is issued when only writes precede it
//! in its strand buffer and no earlier write of its line is under way; entries leave a strand
//! buffer in order, when they are durable.

use super::{Acknowledged, Flaw, StrandWeaver, Wait};
use crate::core::Waiter;
use crate::hw::{Hw, Token};
use crate::{Cycle, Epoch, LineId};
use std::collections::VecDeque;

/// The progress of a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Waiting,
    Issued,
    Durable,
}

/// The write of a line.
#[derive(Clone, Copy, Debug)]
pub(super) struct Write {
    line: LineId,
    number: Epoch,
    /// The number of its epoch, counted over all strands.
    place: u32,
    slot: u8,
    state: State,
}

/// An entry of a queue.
#[derive(Clone, Copy, Debug)]
pub(super) enum Item {
    Write(Write),
    Barrier,
    Strand,
}

impl Item {
    fn write(&self) -> Option<&Write> {
        match self {
            Item::Write(write) => Some(write),
            _ => None,
        }
    }

    fn is_over(&self) -> bool {
        self.write().is_none_or(|write| write.state == State::Durable)
    }
}

/// The persist queue and strand buffers of a core.
#[derive(Clone, Debug)]
pub(super) struct Strands {
    queue: VecDeque<Item>,
    queue_size: usize,
    buffers: Vec<VecDeque<Item>>,
    buffer_size: usize,
    /// The strand buffer that receives the queue's head.
    current: usize,
    free: Vec<u8>,
    /// The number of the newest write.
    pub(super) last: Epoch,
    /// The epoch of the next store.
    pub(super) place: u32,
    pub(super) is_epoch_empty: bool,
    pub(super) is_strand_empty: bool,
    pub(super) waits: Vec<Wait>,
    /// The waiters of this core for room, or for a write to be issued.
    pub(super) stalled: Vec<Waiter>,
    /// The line for which another core waited last, and until when this core yields it.
    pub(super) given: (LineId, Cycle),
    /// The line for which the core's next store waits.
    pub(super) refused: Option<LineId>,
}

impl Strands {
    pub(super) fn new(queue_size: usize, buffers: usize, buffer_size: usize) -> Strands {
        Strands {
            queue: VecDeque::new(),
            queue_size,
            buffers: vec![VecDeque::new(); buffers],
            buffer_size,
            current: 0,
            free: (0..(buffers * buffer_size) as u8).rev().collect(),
            last: 0,
            place: 0,
            is_epoch_empty: true,
            is_strand_empty: true,
            waits: Vec::new(),
            stalled: Vec::new(),
            given: (LineId::MAX, 0),
            refused: None,
        }
    }

    pub(super) fn has_room(&self) -> bool {
        self.queue.len() < self.queue_size
    }

    fn writes(&self) -> impl Iterator<Item = &Write> {
        self.buffers.iter().flatten().chain(&self.queue).filter_map(Item::write)
    }

    fn unwritten(&self) -> impl Iterator<Item = &Write> {
        self.writes().filter(|write| write.state != State::Durable)
    }

    /// True if all writes up to this number are durable.
    pub(super) fn is_durable(&self, upto: Epoch) -> bool {
        self.unwritten().all(|write| write.number > upto)
    }

    /// The epoch of the write of `line` that has not been issued, if there is one.
    pub(super) fn waiting_write(&self, line: LineId) -> Option<u32> {
        let mut waiting = self.writes().filter(|write| write.state == State::Waiting);
        waiting.find(|write| write.line == line).map(|write| write.place)
    }

    /// The newest write in the last strand's buffer that is not durable; 0 if there is none.
    pub(super) fn newest_of_strand(&self) -> Epoch {
        let writes = self.buffers[self.current].iter().filter_map(Item::write);
        let unwritten = writes.filter(|write| write.state != State::Durable);
        unwritten.map(|write| write.number).max().unwrap_or(0)
    }

    /// Appends the write of a line to the queue, which has room.
    pub(super) fn push(&mut self, line: LineId) {
        self.last += 1;
        let (number, place) = (self.last, self.place);
        self.queue.push_back(Item::Write(Write {
            line,
            number,
            place,
            slot: 0,
            state: State::Waiting,
        }));
        (self.is_epoch_empty, self.is_strand_empty) = (false, false);
    }

    /// Appends a barrier or a new strand to the queue, which has room.
    pub(super) fn mark(&mut self, item: Item) {
        self.is_strand_empty |= matches!(item, Item::Strand);
        self.is_epoch_empty = true;
        self.place += 1;
        self.queue.push_back(item);
    }

    fn in_slot(&mut self, slot: u8) -> &mut Write {
        let items = self.buffers.iter_mut().flatten();
        let mut writes = items.filter_map(|item| match item {
            Item::Write(write) if write.state == State::Issued => Some(write),
            _ => None,
        });
        writes.find(|write| write.slot == slot).expect("it is under way")
    }

    pub(super) fn line_in(&self, slot: u8) -> LineId {
        let mut writes = self.writes().filter(|write| write.state == State::Issued);
        writes.find(|write| write.slot == slot).expect("it is under way").line
    }

    pub(super) fn acknowledged(&mut self, slot: u8) {
        self.in_slot(slot).state = State::Durable;
        self.free.push(slot);
    }

    /// Removes what is durable, and fills the strand buffers from the queue.
    fn refill(&mut self) {
        loop {
            for buffer in &mut self.buffers {
                while buffer.front().is_some_and(Item::is_over) {
                    buffer.pop_front();
                }
            }
            let Some(head) = self.queue.front() else { return };
            if matches!(head, Item::Strand) {
                self.current = (self.current + 1) % self.buffers.len();
                self.queue.pop_front();
                continue;
            }
            if self.buffers[self.current].len() >= self.buffer_size {
                return;
            }
            let head = self.queue.pop_front().expect("it was there");
            self.buffers[self.current].push_back(head);
        }
    }

    /// Issues the next write that can be issued.
    fn issue(&mut self, ignores_barriers: bool) -> Option<(LineId, u8)> {
        for buffer in 0..self.buffers.len() {
            for at in 0..self.buffers[buffer].len() {
                let write = match self.buffers[buffer][at] {
                    Item::Write(write) => write,
                    _ if ignores_barriers => continue,
                    _ => break,
                };
                let is_same =
                    |other: &Write| other.state == State::Issued && other.line == write.line;
                if write.state != State::Waiting || self.writes().any(is_same) {
                    continue;
                }
                let slot = self.free.pop().expect("as many as entries");
                let issued = Write { slot, state: State::Issued, ..write };
                self.buffers[buffer][at] = Item::Write(issued);
                return Some((write.line, slot));
            }
        }
        None
    }
}

impl StrandWeaver {
    /// Moves the queues of `core` as far as they go, and wakes the accesses that waited for that.
    pub(super) fn move_on(&mut self, hw: &mut Hw<Acknowledged>, core: usize, now: Cycle) {
        self.cores[core].refill();
        let ignores_barriers = self.flaw == Flaw::PassesBarriers;
        let mut at = now;
        while let Some((line, slot)) = self.cores[core].issue(ignores_barriers) {
            let way = hw.private[core].find(line).expect("a line to be written stays");
            let (bank, home) = (hw.llc.bank(line), hw.home_tile(line));
            hw.clean(core, way, line);
            let sent = hw.mesh.data(core, home, at + hw.private[core].latency(way));
            let found = hw.look_up(bank, sent);
            hw.write_back(line, home, found, Token::of(core, slot.into()));
            at += 1;
        }
        let own = &mut self.cores[core];
        hw.detail.note(|tally| tally.buffered(core, own.writes().count(), now));
        for who in std::mem::take(&mut own.stalled) {
            hw.wake(who, now);
        }
        let (still, over): (Vec<_>, _) =
            std::mem::take(&mut own.waits).into_iter().partition(|wait| !own.is_durable(wait.upto));
        own.waits = still;
        for Wait { who, line, takes, .. } in over {
            let told = hw.mesh.control(core, who.core, now);
            if takes {
                own.given = (line, told + 1);
            }
            hw.wake(who, told);
        }
    }
}
