//! Which epochs are durable, for recovery: one line in memory names the last one of every core.
//!
//! MICRO'15 is silent about this line; what it says is that an epoch is done when its last BankAck
//! is there (section 4.1), and that the state of the processor is saved along with its lines
//! (section 5.2). Here, when both are durable, the arbiter reports the epoch to a register at the
//! memory controller of the line, which answers at once; then the epoch is done, and dependents are
//! informed. So the register learns of epochs in the order of their dependences. It writes all that
//! it knows as one line; while such a write is on its way, it gathers for the next. An epoch is
//! named when the line that has it is durable. A name therefore implies those of all epochs on
//! which its own depends, and no epoch waits for a name to be written.
//!
//! Until an epoch is named, its log records, its saved state and its lines' tags in the shared
//! cache stay: a crash can still undo it. A core has some epochs that are done and not named; if it
//! has more, the next one is not flushed yet.

use super::bulk::{Bulk, SLOW};
use super::{EpochFlaw, Epochs, Mark, Message};
use crate::hw::{Event, Hw, Token};
use crate::memory::versions::LineData;
use crate::{Cycle, Epoch, LineId};
use std::collections::VecDeque;

/// The most epochs of a core that are done and not named.
pub(super) const UNNAMED_MAX: u32 = 16;

/// The core of a token of the register.
const REGISTER: u8 = u8::MAX;

/// The line of names: the low 8 bits of the last durable epoch of each core.
pub(super) fn names_line(named: &[Epoch]) -> LineData {
    let mut bytes = [0; 64];
    bytes.iter_mut().zip(named).for_each(|(byte, epoch)| *byte = *epoch as u8);
    let (words, _) = bytes.as_chunks();
    std::array::from_fn(|word| u64::from_le_bytes(words[word]))
}

/// The low bits that the line has of a core.
pub(super) fn name_in(line: &LineData, core: usize) -> u8 {
    (line[core / 8] >> (8 * (core % 8))) as u8
}

/// The register.
pub(super) struct Names {
    line: LineId,
    /// By core: the last epoch that it has learnt of, and the last one in the line on its way.
    known: Vec<Epoch>,
    sent: Vec<Epoch>,
    is_writing: bool,
    /// The number of lines written.
    writes: u64,
}

/// An epoch that is done and not named.
#[derive(Clone)]
pub(super) struct Unnamed {
    epoch: Epoch,
    /// The record behind its last one.
    end: u64,
    /// Lines that leave the caches when it is named.
    lines: Vec<LineId>,
}

/// The epochs of one core that are done and not named.
pub(super) type Pending = VecDeque<Unnamed>;

impl Names {
    pub(super) fn new(line: LineId, cores: usize) -> Names {
        let none = vec![0; cores];
        Names { line, known: none.clone(), sent: none, is_writing: false, writes: 0 }
    }

    /// Writes what the register knows, if that is new and no write is on its way.
    fn write(&mut self, hw: &mut Hw<Message>, now: Cycle, flaw: EpochFlaw) {
        if self.is_writing || self.known == self.sent {
            return;
        }
        if flaw == EpochFlaw::NamesInParts {
            // Those of the even and of the odd cores in turn.
            let turn = self.writes as usize % 2;
            let parts = self.sent.iter_mut().zip(&self.known).skip(turn).step_by(2);
            parts.for_each(|(sent, known)| *sent = *known);
        } else {
            self.sent.copy_from_slice(&self.known);
        }
        self.writes += 1;
        self.is_writing = true;
        let tile = hw.memory_tile(self.line);
        let token = Token { core: REGISTER, bank: Bulk::OWN };
        let is_slow = matches!(flaw, EpochFlaw::ForgetsTags | EpochFlaw::NamesSlowly);
        let sent = if is_slow { now + SLOW } else { now };
        hw.write_own(self.line, &names_line(&self.sent), tile, sent, token);
    }
}

impl Epochs {
    /// Whether an acknowledgement is for the register.
    pub(super) fn is_register(core: u8) -> bool {
        core == REGISTER
    }

    /// Whether a core can have one more epoch that is done and not named.
    pub(super) fn has_room_to_name(&self, core: usize) -> bool {
        let pending = |bulk: &Bulk| bulk.pending(core).len() < UNNAMED_MAX as usize;
        self.bulk.as_ref().is_none_or(pending)
    }

    /// The lines of `epoch` and the state of its processor are durable: reports that to the
    /// register.
    pub(super) fn report(&mut self, hw: &mut Hw<Message>, core: usize, epoch: Epoch, now: Cycle) {
        let bulk = self.bulk.as_ref().expect("in bulk mode");
        let arrives = hw.mesh.control(core, hw.memory_tile(bulk.names.line), now);
        let message = Message::Report { core: core as u8, epoch };
        hw.queue.event(arrives, Event::Design(message));
    }

    /// The register learns of an epoch, and answers.
    pub(super) fn reported(&mut self, hw: &mut Hw<Message>, core: usize, epoch: Epoch, now: Cycle) {
        self.learn(hw, core, epoch, now);
        let bulk = self.bulk.as_ref().expect("in bulk mode");
        let told = hw.mesh.control(hw.memory_tile(bulk.names.line), core, now);
        let message = Message::Reported { core: core as u8 };
        hw.queue.event(told, Event::Design(message));
    }

    fn learn(&mut self, hw: &mut Hw<Message>, core: usize, epoch: Epoch, now: Cycle) {
        let flaw = self.config.flaw;
        let names = &mut self.bulk.as_mut().expect("in bulk mode").names;
        names.known[core] = names.known[core].max(epoch);
        names.write(hw, now, flaw);
    }

    /// Plants the bug of naming an epoch too early.
    pub(super) fn name_early(
        &mut self,
        hw: &mut Hw<Message>,
        core: usize,
        epoch: Epoch,
        now: Cycle,
    ) {
        if self.bulk.is_some() && self.config.flaw == EpochFlaw::NamesEarly {
            self.learn(hw, core, epoch, now);
        }
    }

    /// `epoch` is done: it waits for its name.
    pub(super) fn await_name(
        &mut self,
        hw: &mut Hw<Message>,
        core: usize,
        epoch: Epoch,
        now: Cycle,
    ) {
        let lines =
            if self.config.invalidates { self.arbiters[core].lines().to_vec() } else { Vec::new() };
        let bulk = self.bulk.as_mut().expect("in bulk mode");
        let end = bulk.end_of(core, epoch);
        bulk.pending_mut(core).push_back(Unnamed { epoch, end, lines });
        let names = &bulk.names;
        let is_written = !names.is_writing && names.sent[core] >= epoch;
        if is_written || self.config.flaw == EpochFlaw::ForgetsNames {
            self.named(hw, core, epoch, now, now);
        }
    }

    /// The line of names is durable: what it names is.
    pub(super) fn names_written(&mut self, hw: &mut Hw<Message>, now: Cycle) {
        let names = &mut self.bulk.as_mut().expect("in bulk mode").names;
        names.is_writing = false;
        let (tile, named) = (hw.memory_tile(names.line), names.sent.clone());
        let mut told = self.tiles;
        hw.mesh.broadcast(tile, now, &mut told);
        for (core, epoch) in named.into_iter().enumerate() {
            if epoch > self.cores[core].named {
                self.named(hw, core, epoch, now, told[core]);
            }
        }
        let flaw = self.config.flaw;
        let names = &mut self.bulk.as_mut().expect("in bulk mode").names;
        names.write(hw, now, flaw);
    }

    /// The epochs of `core` up to `epoch` are named: nothing undoes them any more. The core learns
    /// of it at `told`.
    fn named(&mut self, hw: &mut Hw<Message>, core: usize, epoch: Epoch, now: Cycle, told: Cycle) {
        self.cores[core].named = epoch.min(self.cores[core].durable);
        loop {
            let pending = self.bulk.as_mut().expect("in bulk mode").pending_mut(core);
            let Some(first) = pending.pop_front_if(|first| first.epoch <= epoch) else { break };
            let Unnamed { epoch, end, lines } = first;
            self.truncate(hw, core, end, told);
            self.invalidate_lines(hw, core, epoch, &lines, now);
        }
        let named = self.cores[core].named;
        hw.recorder.note(move |tape| tape.durable(core, named, now));
        self.wake(hw, core, named, Mark::Named, |_| told);
        hw.queue.event(told.max(now), Event::Design(Message::Inform { core: core as u8 }));
    }
}
