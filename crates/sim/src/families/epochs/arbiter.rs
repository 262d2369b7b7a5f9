//! The flush of an epoch: one arbiter per core, beside its caches, and a handshake with all banks.
//!
//! MICRO'15, section 4.1 and figure 8. (1) The core sends the epoch's dirty lines to their banks,
//! then FlushEpoch to every bank; a bank that has it has seen every line of the epoch (EpochCMP).
//! (2) Each bank writes its lines of the epoch to memory. (3) When all their PersistAcks are back,
//! or at once if it has no line, it sends BankAck. (4) When all banks have sent theirs, the epoch
//! is durable: PersistCMP goes to all banks, dependent epochs are informed, and the next epoch can
//! be flushed. One epoch per core is in flush at a time.

use super::state::Waiting;
use super::{EpochFlaw, Epochs, Mark, Message};
use crate::caches::shared::Slot;
use crate::hw::{Event, Hw, Token};
use crate::timeline::EpochEnd;
use crate::{Cycle, Epoch, LineId};
use rustc_hash::FxHashSet;

/// The flush under way at one core.
pub(crate) struct Arbiter {
    flushing: Option<Epoch>,
    /// The lines of the epoch that the banks must write, each once.
    lines: Vec<LineId>,
    listed: FxHashSet<LineId>,
    /// The banks that have lines to write, a bit each.
    writing: u64,
    /// Per bank: the lines without PersistAck, and when the last one came.
    banks: Vec<BankFlush>,
    /// The number of missing BankAcks, and when the last one so far reached the arbiter.
    missing: u32,
    last: Cycle,
    /// Whether the end of the flush has been scheduled.
    closing: bool,
}

#[derive(Clone, Default)]
struct BankFlush {
    /// Lines to be written, and the number of them that are not acknowledged.
    to_write: Vec<LineId>,
    lines: u32,
    last: Cycle,
}

impl Arbiter {
    pub(crate) fn new(banks: usize) -> Arbiter {
        Arbiter {
            flushing: None,
            lines: Vec::new(),
            listed: FxHashSet::default(),
            writing: 0,
            banks: vec![BankFlush::default(); banks],
            missing: 0,
            last: 0,
            closing: false,
        }
    }

    /// The lines of the epoch that was flushed last.
    pub(super) fn lines(&self) -> &[LineId] {
        &self.lines
    }
}

impl Epochs {
    /// Requests that all epochs of `core` up to `epoch` become durable.
    pub(super) fn demand(&mut self, hw: &mut Hw<Message>, core: usize, epoch: Epoch, now: Cycle) {
        if epoch > self.cores[core].demanded {
            self.cores[core].demanded = epoch;
            self.start_flush(hw, core, now);
        }
    }

    fn dependences_left(&mut self, core: usize, epoch: Epoch) -> usize {
        if self.config.flaw == EpochFlaw::DropsDependences {
            return 0;
        }
        if self.cores[core].dependences(epoch) == 0 {
            return 0;
        }
        let mut dependences = std::mem::take(self.cores[core].dependences_mut(epoch));
        dependences.retain(|(on, number)| self.is_live(*on, *number));
        let left = dependences.len();
        *self.cores[core].dependences_mut(epoch) = dependences;
        left
    }

    /// Starts to flush `core`'s oldest epoch, if a flush is requested and the epoch is complete and
    /// depends on nothing.
    pub(super) fn start_flush(&mut self, hw: &mut Hw<Message>, core: usize, now: Cycle) {
        let epochs = &self.cores[core];
        let epoch = epochs.durable + 1;
        let wanted = epoch <= epochs.demanded && epoch < epochs.current;
        if self.arbiters[core].flushing.is_some() || !wanted {
            return;
        }
        let logged = self.bulk.as_ref().is_none_or(|bulk| bulk.is_settled(core, epoch));
        if !logged && self.config.flaw != EpochFlaw::FlushesBeforeLog {
            return;
        }
        if !self.has_room_to_name(core) {
            return;
        }
        if self.dependences_left(core, epoch) > 0 {
            for at in 0..self.cores[core].dependences(epoch) {
                let (on, number) = self.cores[core].dependences_mut(epoch)[at];
                let asked = hw.mesh.control(core, on, now);
                let message = Message::FlushRequest { core: on as u8, epoch: number };
                hw.queue.event(asked, Event::Design(message));
            }
            return;
        }
        self.arbiters[core].flushing = Some(epoch);
        self.name_early(hw, core, epoch, now);
        let flushed = self.flush_l1(hw, core, epoch, now);
        let lines = self.arbiters[core].lines.len() as u64;
        hw.recorder.note(move |tape| tape.flushes(core, epoch, Some(lines), now));
        self.tell_banks(hw, core, flushed);
    }

    /// Step 1, first half: the core's dirty lines of the epoch go to their banks.
    fn flush_l1(&mut self, hw: &mut Hw<Message>, core: usize, epoch: Epoch, now: Cycle) -> Cycle {
        let tagged = self.cores[core].take_lines(epoch);
        let groups = groups_of_core(hw, core, &tagged);
        let mut at = now + groups * self.config.search_cycles;
        let arbiter = &mut self.arbiters[core];
        arbiter.lines.clear();
        arbiter.listed.clear();
        for &line in &tagged {
            let Some(slot) = hw.llc.find(line) else { continue };
            let mut arrives = 0;
            if let Some(way) = hw.private[core].find(line) {
                let copy = *hw.private[core].copy(way);
                if copy.is_dirty() && copy.epoch == epoch {
                    hw.clean(core, way, slot);
                    arrives = hw.mesh.data(core, hw.home_tile(line), at);
                    at += 1;
                }
            }
            let entry = hw.llc.entry(slot);
            let is_here = usize::from(entry.writer) == core && entry.epoch == epoch;
            if is_here && entry.dirty && arbiter.listed.insert(line) {
                arbiter.lines.push(line);
                let bank = hw.llc.bank(line);
                arbiter.writing |= 1 << bank;
                let flush = &mut arbiter.banks[bank];
                flush.to_write.push(line);
                flush.lines += 1;
                flush.last = flush.last.max(arrives);
            }
        }
        self.cores[core].give_back_lines(epoch, tagged);
        at
    }

    /// Step 1, second half: FlushEpoch to all banks; those without lines answer with BankAck.
    fn tell_banks(&mut self, hw: &mut Hw<Message>, core: usize, at: Cycle) {
        let arbiter = &mut self.arbiters[core];
        let tiles = &mut self.tiles;
        hw.mesh.broadcast(core, at, tiles);
        let mut writing = std::mem::take(&mut arbiter.writing);
        arbiter.missing = writing.count_ones();
        while writing != 0 {
            let bank = writing.trailing_zeros() as usize;
            writing &= writing - 1;
            let told = tiles[hw.bank_tile(bank)];
            let flush = &mut arbiter.banks[bank];
            let starts = told.max(flush.last);
            flush.last = 0;
            let message = Message::FlushEpoch { core: core as u8, bank: bank as u8 };
            hw.queue.event(starts, Event::Design(message));
        }
        // BankAcks are gathered from every tile at once, including banks with lines, which the
        // gathering cannot leave out; these send another when they are done.
        tiles.iter_mut().for_each(|told| *told += 1);
        arbiter.last = hw.mesh.gather(core, tiles);
        self.finish_if_complete(hw, core);
    }

    /// Step 2: the bank writes its lines of the epoch to memory.
    pub(super) fn flush_bank(
        &mut self,
        hw: &mut Hw<Message>,
        core: usize,
        bank: usize,
        now: Cycle,
    ) {
        let epoch = self.arbiters[core].flushing.expect("a flush is under way");
        let mut lines = std::mem::take(&mut self.arbiters[core].banks[bank].to_write);
        let searched = groups(lines.iter().map(|line| hw.llc.set(*line)));
        let at = now + searched * self.config.search_cycles;
        for &line in &lines {
            // No line of an epoch that is not durable leaves, except by a planted bug.
            match hw.llc.find(line).filter(|slot| self.holds(hw, *slot, core, epoch)) {
                Some(slot) => self.write_line(hw, core, bank, slot, at),
                None => self.bank_wrote(hw, core, bank, at),
            }
        }
        lines.clear();
        self.arbiters[core].banks[bank].to_write = lines;
    }

    fn holds(&self, hw: &Hw<Message>, slot: Slot, core: usize, epoch: Epoch) -> bool {
        let entry = hw.llc.entry(slot);
        entry.dirty && usize::from(entry.writer) == core && entry.epoch == epoch
    }

    fn write_line(
        &mut self,
        hw: &mut Hw<Message>,
        core: usize,
        bank: usize,
        slot: Slot,
        at: Cycle,
    ) {
        let found = hw.look_up(bank, at);
        let line = slot;
        let early = self.config.flaw == EpochFlaw::AcknowledgesEarly;
        let token = if early { Token::NONE } else { Token::of(core, bank) };
        hw.write_back(line, hw.bank_tile(bank), found, token);
        if early {
            self.bank_wrote(hw, core, bank, found);
        }
    }

    /// Step 3: a PersistAck is back at its bank.
    pub(super) fn bank_wrote(&mut self, hw: &mut Hw<Message>, core: usize, bank: usize, at: Cycle) {
        let arbiter = &mut self.arbiters[core];
        let flush = &mut arbiter.banks[bank];
        flush.lines -= 1;
        flush.last = flush.last.max(at);
        if flush.lines == 0 {
            let back = hw.mesh.control(hw.bank_tile(bank), core, flush.last);
            flush.last = 0;
            arbiter.last = arbiter.last.max(back);
            arbiter.missing -= 1;
        }
        self.finish_if_complete(hw, core);
    }

    fn finish_if_complete(&mut self, hw: &mut Hw<Message>, core: usize) {
        let arbiter = &mut self.arbiters[core];
        if arbiter.flushing.is_some() && !arbiter.closing && arbiter.missing == 0 {
            arbiter.closing = true;
            let message = Message::EpochDurable { core: core as u8 };
            hw.queue.event(arbiter.last, Event::Design(message));
        }
    }

    /// All BankAcks are here; in bulk mode, the register of names must know of it first.
    pub(super) fn flushed(&mut self, hw: &mut Hw<Message>, core: usize, now: Cycle) {
        match self.arbiters[core].flushing {
            Some(epoch) if self.bulk.is_some() => self.lines_durable(hw, core, epoch, now),
            _ => self.durable(hw, core, now),
        }
    }

    /// Step 4: the epoch is durable.
    pub(super) fn durable(&mut self, hw: &mut Hw<Message>, core: usize, now: Cycle) {
        let epoch = self.arbiters[core].flushing.take().expect("a flush is under way");
        self.arbiters[core].closing = false;
        hw.counters.epochs += 1;
        hw.counters.epochs_conflicting += u64::from(self.cores[core].is_conflicting(epoch));
        for on in self.cores[core].take_informs(epoch) {
            let told = hw.mesh.control(core, on, now);
            hw.queue.event(told, Event::Design(Message::Inform { core: on as u8 }));
        }
        self.cores[core].durable = epoch;
        let mark = if self.bulk.is_some() {
            hw.recorder.note(move |tape| tape.done(core, epoch, EpochEnd::Name, now));
            self.await_name(hw, core, epoch, now);
            Mark::Durable
        } else {
            self.cores[core].named = epoch;
            hw.recorder.note(move |tape| tape.durable(core, epoch, now));
            Mark::Named
        };
        // PersistCMP; from then on the banks know it by the epochs in their tags.
        hw.mesh.broadcast(core, now, &mut self.tiles);
        if self.config.invalidates && self.bulk.is_none() {
            let lines = std::mem::take(&mut self.arbiters[core].lines);
            self.invalidate_lines(hw, core, epoch, &lines, now);
            self.arbiters[core].lines = lines;
        }
        let tiles = self.tiles;
        let told = |who: &Waiting| if who.who.core == core { now } else { tiles[who.tile] };
        self.wake(hw, core, epoch, mark, told);
        self.start_flush(hw, core, now);
    }
}

impl Epochs {
    /// Removes the lines of a durable epoch from the caches, if they hold no newer version. This
    /// must not happen earlier: a read of a line from memory does not learn the epoch on which it
    /// depends.
    pub(super) fn invalidate_lines(
        &mut self,
        hw: &mut Hw<Message>,
        core: usize,
        epoch: Epoch,
        lines: &[LineId],
        now: Cycle,
    ) {
        for &line in lines {
            let Some(slot) = hw.llc.find(line) else { continue };
            let entry = hw.llc.entry(slot);
            let is_it = usize::from(entry.writer) == core && entry.epoch == epoch && !entry.dirty;
            if is_it && entry.ready <= now && self.live_in_core(hw, slot).is_none() {
                hw.recall(slot, now);
                hw.llc.invalidate(slot);
            }
        }
    }
}

/// The number of groups of 64 sets that `core` must search for `lines`, in both of its levels.
fn groups_of_core(hw: &Hw<Message>, core: usize, lines: &[LineId]) -> u64 {
    let near = groups(lines.iter().map(|line| *line as usize % hw.config.l1_sets()));
    let Some(l2) = hw.config.l2 else { return near };
    let far = lines.iter().filter(|line| hw.private[core].find_far(**line).is_some());
    near + groups(far.map(|line| *line as usize % l2.sets()))
}

/// The number of groups of 64 sets that contain the sets, as marked in the flush engine's bitmap.
fn groups(sets: impl Iterator<Item = usize>) -> u64 {
    let marked = sets.fold(0u64, |marked, set| marked | 1 << (set / 64 % 64));
    marked.count_ones().into()
}
