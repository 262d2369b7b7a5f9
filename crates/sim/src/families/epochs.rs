//! Epoch persistency in hardware: the common part of `epoch`, `lb`, `lb-idt`, `lb-pf` and `lbpp`,
//! and, with epochs made by hardware, of `bsp-lb` and its variants.
//!
//! "Efficient Persist Barriers for Multicores" (MICRO'15), sections 2 to 4. A barrier closes the
//! core's epoch; every line carries the core and epoch that wrote it; an epoch is flushed when a
//! conflict requires it. There are three conflicts: another thread reads or writes a line of an
//! epoch that is not durable (inter-thread), the same thread writes a line of an older one
//! (intra-thread), a line must leave the shared cache before its epoch is durable (replacement).
//! With dependence tracking (IDT) an inter-thread conflict is recorded in a register pair instead
//! of waited for; with proactive flushing (PF) an epoch is flushed as soon as it is complete. An
//! open epoch on which another thread depends is split, so that dependences never form a cycle.
//!
//! An older version of a line must not be lost when its ownership moves: it goes to the shared
//! cache, and a newer version can follow it there only when the older one is durable (the paper is
//! silent; the reading is that of TSOPER, HPCA'21).
//!
//! The paper lets a line of the oldest epoch leave alone. Then its tag is lost, and a thread
//! that reads the line from memory is not ordered behind the rest of that epoch (the litmus test
//! G40 shows it), so here the epoch is made durable first.
//!
//! The flush itself is in [`arbiter`]; the epochs of bulk mode are in [`bulk`].

use crate::caches::patience::LOOKS_AGAIN;
use crate::caches::shared::Slot;
use crate::config::Machine;
use crate::core::Waiter;
use crate::design::{Design, Store};
use crate::engine::counters::Reason;
use crate::hw::{Event, Gate, Hw, Request, Token};
use crate::memory::versions::LineData;
use crate::noc::mesh::Times;
use crate::{Cycle, Epoch, LineId};

mod arbiter;
mod bulk;
mod names;
mod own;
mod params;
mod recovery;
mod state;

use arbiter::Arbiter;
use bulk::Bulk;
use state::{CoreEpochs, Mark, Waiting};

pub(crate) use bulk::BulkConfig;
pub(crate) use params::{bulk_params, epoch_params};

/// The differences between the five designs, and the sizes of their tables.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Config {
    /// Whether a barrier waits until its epoch is durable (unbuffered epoch persistency).
    pub(crate) waits: bool,
    /// Whether inter-thread dependences are tracked in registers.
    pub(crate) tracks: bool,
    /// Whether complete epochs are flushed at once.
    pub(crate) proactive: bool,
    /// Whether a flush removes the line from the caches, as `clflush` does.
    pub(crate) invalidates: bool,
    /// The number of epochs that can be in flight per core.
    pub(crate) in_flight: u32,
    /// Dependence and inform registers per epoch.
    pub(crate) registers: usize,
    /// Cycles to search a group of 64 sets for lines of an epoch.
    pub(crate) search_cycles: u64,
    /// The planted bug, to prove that the checks find it.
    pub(crate) flaw: EpochFlaw,
}

/// A planted bug in the mechanism.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum EpochFlaw {
    /// No planted bug.
    #[default]
    None,
    /// The arbiter forgets the dependence registers.
    DropsDependences,
    /// A bank sends BankAck before its PersistAcks are back.
    AcknowledgesEarly,
    /// A store does not wait for the older epoch that wrote its line.
    IgnoresIntraConflicts,
    /// A line leaves the shared cache before its epoch is durable.
    IgnoresReplacement,
    /// An access neither waits for another thread's epoch nor records the dependence.
    IgnoresInterConflicts,
    /// An open epoch is not split when another thread depends on it.
    KeepsEpochsWhole,
    /// A newer version overwrites one that is not durable.
    LosesVersions,
    /// Lines are written in place before their old values are in the log.
    FlushesBeforeLog,
    /// The header of a record is written before its old lines are durable.
    SendsHeadersEarly,
    /// An epoch is named durable before its lines are.
    NamesEarly,
    /// Recovery restores a line from every entry that has one.
    UndoesAll,
    /// A line written by an epoch that is not durable is not logged again by the next.
    LogsOnce,
    /// Records of an epoch may be overwritten as soon as it is closed.
    TruncatesEarly,
    /// An epoch counts as named before the line that names it is durable.
    ForgetsNames,
    /// The line of names is written for a part of the cores at a time.
    NamesInParts,
    /// The state of a processor leaves it late, and an epoch is named without it.
    NamesBeforeState,
    /// A header counts a version as durable that is not named yet.
    TrustsUnnamed,
    /// A line leaves the shared cache before its epoch is named, which takes long.
    ForgetsTags,
    /// No bug: names take long.
    NamesSlowly,
    /// The state saved with an epoch is that behind the next store.
    SavesStatesLate,
}

/// The messages between the parts of the design.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Message {
    /// A bank or another arbiter requests of `core`'s arbiter to make its epochs up to `epoch`
    /// durable.
    FlushRequest { core: u8, epoch: Epoch },
    /// FlushEpoch and the epoch's lines have reached `bank`.
    FlushEpoch { core: u8, bank: u8 },
    /// The last BankAck is at `core`'s arbiter.
    EpochDurable { core: u8 },
    /// An epoch on which an epoch of `core` depends is durable, or `core` can have another epoch
    /// without its name.
    Inform { core: u8 },
    /// An epoch is durable, and the register of names is told.
    Report { core: u8, epoch: Epoch },
    /// The register of names has it, and `core`'s arbiter is told.
    Reported { core: u8 },
    /// A line of the design itself is durable, and `core` is informed.
    Settled { core: u8, what: u8 },
}

/// The hardware of all designs.
pub(crate) struct Epochs {
    config: Config,
    program_lines: LineId,
    /// The hardware that makes epochs; `None` if programs make them.
    bulk: Option<Bulk>,
    cores: Vec<CoreEpochs>,
    arbiters: Vec<Arbiter>,
    /// Times by tile, for messages to and from all banks.
    tiles: Times,
}

/// A version of a line that is not durable yet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Version {
    core: usize,
    epoch: Epoch,
}

impl Epochs {
    pub(crate) fn new(config: Config, machine: &Machine, program_lines: LineId) -> Epochs {
        let cores = machine.core.count;
        Epochs {
            config,
            program_lines,
            bulk: None,
            cores: (0..cores).map(|_| CoreEpochs::new(config.in_flight)).collect(),
            arbiters: (0..cores).map(|_| Arbiter::new(machine.llc.banks)).collect(),
            tiles: [0; 64],
        }
    }

    fn is_live(&self, core: usize, epoch: Epoch) -> bool {
        epoch > self.cores[core].durable
    }

    /// The version in the shared cache, if it is not durable.
    fn live_in_bank(&self, hw: &Hw<Message>, slot: Slot) -> Option<Version> {
        version_in_bank(hw, slot).filter(|version| self.is_live(version.core, version.epoch))
    }

    /// The version of the core with write permission, if it is not durable.
    fn live_in_core(&self, hw: &Hw<Message>, slot: Slot) -> Option<Version> {
        let (core, way) = hw.owner(slot)?;
        let epoch = hw.private[core].copy(way).epoch;
        (epoch != 0 && self.is_live(core, epoch)).then_some(Version { core, epoch })
    }

    /// The version in the shared cache, if it is not named durable.
    fn unnamed_in_bank(&self, hw: &Hw<Message>, slot: Slot) -> Option<Version> {
        let is_unnamed = |version: &Version| version.epoch > self.cores[version.core].named;
        version_in_bank(hw, slot).filter(is_unnamed)
    }

    /// `core`'s epochs up to `epoch` have that mark: wakes those who wait for it or less, each when
    /// it is told.
    fn wake(
        &mut self,
        hw: &mut Hw<Message>,
        core: usize,
        epoch: Epoch,
        mark: Mark,
        told: impl Fn(&Waiting) -> Cycle,
    ) {
        self.cores[core].waiters.retain(|waiting| {
            let is_over = waiting.mark <= mark && waiting.epoch <= epoch;
            if is_over {
                hw.wake(waiting.who, told(waiting));
            }
            !is_over
        });
    }

    /// Sends a request for `version` from the bank of `line`; `who` waits until it is durable.
    fn ask_and_wait(
        &mut self,
        hw: &mut Hw<Message>,
        who: Waiter,
        version: Version,
        line: LineId,
        now: Cycle,
        reason: Reason,
    ) -> Gate {
        self.ask_and_wait_for(hw, (who, Mark::Durable), version, line, now, reason)
    }

    /// As [`ask_and_wait`](Epochs::ask_and_wait), until it has that mark.
    fn ask_and_wait_for(
        &mut self,
        hw: &mut Hw<Message>,
        (who, mark): (Waiter, Mark),
        version: Version,
        line: LineId,
        now: Cycle,
        reason: Reason,
    ) -> Gate {
        let Version { core, epoch } = version;
        if reason.is_conflict() {
            self.cores[core].mark_flushed_for_conflict(epoch);
        }
        let home = hw.home_tile(line);
        let at = if core == who.core {
            now
        } else {
            let asked = hw.mesh.control(who.core, home, now + hw.private[who.core].miss_latency());
            hw.mesh.control(home, core, asked)
        };
        self.cores[core].waiters.push(Waiting { epoch, mark, who, tile: home });
        hw.recorder.note(move |tape| tape.waits(who.core, (core, epoch), reason, now));
        let core = core as u8;
        hw.queue.event(at, Event::Design(Message::FlushRequest { core, epoch }));
        Gate::Wait(reason)
    }

    /// A conflict needs `version` durable: marks it and ensures that its epoch is complete. The
    /// error is the epoch to wait for first, if no epoch number is free for a split.
    fn meet(&mut self, hw: &mut Hw<Message>, version: Version, now: Cycle) -> Result<(), Epoch> {
        let Version { core, epoch } = version;
        self.cores[core].mark_conflicting(epoch);
        let keeps_whole = self.config.flaw == EpochFlaw::KeepsEpochsWhole;
        if epoch < self.cores[core].current || keeps_whole {
            return Ok(());
        }
        if !self.cores[core].has_free_number() {
            return Err(self.cores[core].durable + 1);
        }
        hw.counters.epoch_splits += 1;
        self.complete(hw, core, now);
        Ok(())
    }

    /// Closes the requester's epoch, unless it is empty.
    fn barrier(&mut self, hw: &mut Hw<Message>, who: Waiter, now: Cycle) -> Gate {
        if self.cores[who.core].is_empty() {
            return Gate::Go;
        }
        let gate = self.close(hw, who, now);
        hw.counters.fences += u64::from(gate == Gate::Go);
        gate
    }

    /// Closes the requester's epoch, once a number is free for the next.
    fn close(&mut self, hw: &mut Hw<Message>, who: Waiter, now: Cycle) -> Gate {
        let epochs = &self.cores[who.core];
        if !epochs.has_free_number() {
            let version = Version { core: who.core, epoch: epochs.durable + 1 };
            return self.ask_and_wait(hw, who, version, 0, now, Reason::EpochIds);
        }
        self.complete(hw, who.core, now);
        Gate::Go
    }

    /// Closes `core`'s epoch and opens the next.
    fn complete(&mut self, hw: &mut Hw<Message>, core: usize, now: Cycle) {
        let epoch = self.cores[core].close();
        hw.recorder.note(move |tape| tape.closes(core, epoch, now));
        self.save_state(hw, core, epoch, now);
        if self.config.proactive {
            self.demand(hw, core, epoch, now);
        }
    }

    fn inter_conflict(&mut self, hw: &mut Hw<Message>, request: &Request, on: Version) -> Gate {
        let (who, now) = (request.who, request.now);
        let reason = Reason::InterConflict;
        if self.config.flaw == EpochFlaw::IgnoresInterConflicts || self.follows(who.core, on) {
            return Gate::Go;
        }
        if let Err(first) = self.meet(hw, on, now) {
            let first = Version { core: on.core, epoch: first };
            return self.ask_and_wait(hw, who, first, request.line, now, reason);
        }
        hw.counters.conflicts_inter += 1;
        if self.config.tracks {
            if self.note_dependence(who.core, on) {
                hw.counters.dependences += 1;
                let of = (who.core, self.cores[who.core].current);
                hw.recorder.note(move |tape| tape.depends(of, (on.core, on.epoch), now));
                return Gate::Go;
            }
            hw.counters.register_overflows += 1;
        }
        self.ask_and_wait(hw, who, on, request.line, now, reason)
    }

    /// True if `core`'s open epoch is known to depend on `on`.
    fn follows(&self, core: usize, on: Version) -> bool {
        self.cores[core].depends_on(self.cores[core].current, on.core, on.epoch)
    }

    /// Records in a register pair that `core`'s open epoch depends on `on`. False if none is free.
    fn note_dependence(&mut self, core: usize, on: Version) -> bool {
        let epoch = self.cores[core].current;
        let registers = self.config.registers;
        if self.cores[core].dependences(epoch) >= registers
            || self.cores[on.core].informs(on.epoch) >= registers
        {
            return false;
        }
        self.cores[core].add_dependence(epoch, on.core, on.epoch);
        self.cores[on.core].add_inform(on.epoch, core);
        true
    }

    /// A line is about to leave the shared cache: its epoch must be named, as the log of the next
    /// epoch that writes it has to say whether it is.
    fn keep_tag(&mut self, hw: &mut Hw<Message>, who: Waiter, slot: Slot, now: Cycle) -> Gate {
        let unnamed = self.unnamed_in_bank(hw, slot);
        let Some(version) = unnamed.filter(|_| self.config.flaw != EpochFlaw::ForgetsTags) else {
            return Gate::Go;
        };
        self.ask_and_wait_for(hw, (who, Mark::Named), version, slot, now, Reason::Replacement)
    }

    /// A newer version of the line in `slot` is about to enter the shared cache: the older one
    /// there must be durable, unless the same epoch wrote both.
    fn keep_version(&mut self, hw: &mut Hw<Message>, who: Waiter, slot: Slot, now: Cycle) -> Gate {
        if self.config.flaw == EpochFlaw::LosesVersions {
            return Gate::Go;
        }
        let (Some(new), Some(old)) = (self.live_in_core(hw, slot), self.live_in_bank(hw, slot))
        else {
            return Gate::Go;
        };
        if new == old {
            return Gate::Go;
        }
        let line = slot;
        self.ask_and_wait(hw, who, old, line, now, Reason::Replacement)
    }
}

/// The version that the tag of a line in the shared cache names.
fn version_in_bank(hw: &Hw<Message>, slot: Slot) -> Option<Version> {
    let entry = hw.llc.entry(slot);
    let version = Version { core: entry.writer.into(), epoch: entry.epoch };
    (entry.epoch != 0).then_some(version)
}

impl Design for Epochs {
    type Message = Message;

    fn store(&mut self, hw: &mut Hw<Message>, who: Waiter, at: Store, now: Cycle) -> Gate {
        let gate = self.may_store(hw, who, at, now);
        if gate == Gate::Go {
            self.stores(hw, who.core, at, now);
        }
        gate
    }

    fn may_store(&mut self, hw: &mut Hw<Message>, who: Waiter, at: Store, now: Cycle) -> Gate {
        if !hw.is_pm(at.line) || self.config.flaw == EpochFlaw::IgnoresIntraConflicts {
            return Gate::Go;
        }
        let gate = self.close_if_full(hw, who, now);
        if gate != Gate::Go {
            return gate;
        }
        let core = who.core;
        let current = self.cores[core].current;
        let own = hw.private[core].copy(at.way).epoch;
        if own == current {
            return Gate::Go;
        }
        if hw.patience.is_due_to_another(core, at.line) {
            return Gate::At(now + LOOKS_AGAIN, Reason::InterConflict);
        }
        let slot = at.line;
        let in_bank = self.live_in_bank(hw, slot).filter(|version| version.core == core);
        let older = [own, in_bank.map_or(0, |version| version.epoch)];
        let older = older.into_iter().filter(|epoch| *epoch != current).max().unwrap_or(0);
        if !self.is_live(core, older) {
            return self.has_room_to_log(hw, who, at.line, now);
        }
        hw.counters.conflicts_intra += 1;
        let version = Version { core, epoch: older };
        self.ask_and_wait(hw, who, version, at.line, now, Reason::IntraConflict)
    }

    fn stores(&mut self, hw: &mut Hw<Message>, core: usize, at: Store, now: Cycle) {
        let is_first = hw.private[core].copy(at.way).epoch != self.cores[core].current;
        let ignores = self.config.flaw == EpochFlaw::IgnoresIntraConflicts;
        if hw.is_pm(at.line) && is_first && !ignores {
            self.log_old(hw, core, at, now);
        }
    }

    fn stored(&mut self, hw: &mut Hw<Message>, core: usize, at: Store, stores: u64, now: Cycle) {
        if let Some(bulk) = &mut self.bulk {
            bulk.stored(core, stores);
        }
        if !hw.is_pm(at.line) {
            return;
        }
        let copy = hw.private[core].copy_mut(at.way);
        let epochs = &mut self.cores[core];
        if copy.epoch != epochs.current {
            copy.epoch = epochs.current;
            epochs.wrote(at.line);
            let epoch = epochs.current;
            hw.recorder.note(move |tape| tape.opens(core, epoch, now));
        }
    }

    fn order(&mut self, hw: &mut Hw<Message>, who: Waiter, now: Cycle) -> Gate {
        if self.bulk.is_some() {
            return Gate::Go;
        }
        if self.config.waits { self.drain(hw, who, now) } else { self.barrier(hw, who, now) }
    }

    fn drain(&mut self, hw: &mut Hw<Message>, who: Waiter, now: Cycle) -> Gate {
        let gate = self.barrier(hw, who, now);
        let last = self.cores[who.core].current - 1;
        if gate != Gate::Go || last <= self.cores[who.core].named {
            return gate;
        }
        let version = Version { core: who.core, epoch: last };
        self.ask_and_wait_for(hw, (who, Mark::Named), version, 0, now, Reason::Fence)
    }

    fn remote(&mut self, hw: &mut Hw<Message>, request: &Request) -> Gate {
        if !hw.is_pm(request.line) {
            return Gate::Go;
        }
        let newest = self.live_in_core(hw, request.slot).or(self.live_in_bank(hw, request.slot));
        if let Some(version) = newest.filter(|version| version.core != request.who.core) {
            let gate = self.inter_conflict(hw, request, version);
            if gate != Gate::Go {
                return gate;
            }
        }
        self.keep_version(hw, request.who, request.slot, request.now)
    }

    fn may_prefetch(&self, hw: &Hw<Message>, core: usize, line: LineId) -> bool {
        let Some(slot) = hw.llc.find(line).filter(|_| hw.is_pm(line)) else { return true };
        let versions = [self.live_in_core(hw, slot), self.live_in_bank(hw, slot)];
        versions.iter().flatten().all(|version| version.core == core)
    }

    fn may_displace(&self, hw: &Hw<Message>, slot: Slot) -> bool {
        let lives = self.live_in_core(hw, slot).or(self.unnamed_in_bank(hw, slot)).is_some();
        !hw.is_pm(slot) || !lives
    }

    fn spill(
        &mut self,
        hw: &mut Hw<Message>,
        who: Waiter,
        way: usize,
        line: LineId,
        now: Cycle,
    ) -> Gate {
        if !hw.is_pm(line) || !hw.private[who.core].copy(way).is_dirty() {
            return Gate::Go;
        }
        let slot = line;
        self.keep_version(hw, who, slot, now)
    }

    fn evict(&mut self, hw: &mut Hw<Message>, who: Waiter, slot: Slot, now: Cycle) -> Gate {
        let line = slot;
        if !hw.is_pm(line) || self.config.flaw == EpochFlaw::IgnoresReplacement {
            return Gate::Go;
        }
        let gate = self.keep_version(hw, who, slot, now);
        if gate != Gate::Go {
            return gate;
        }
        let Some(version) = self.live_in_core(hw, slot).or(self.live_in_bank(hw, slot)) else {
            return self.keep_tag(hw, who, slot, now);
        };
        hw.counters.conflicts_replacement += 1;
        if let Err(first) = self.meet(hw, version, now) {
            let first = Version { epoch: first, ..version };
            return self.ask_and_wait(hw, who, first, line, now, Reason::Replacement);
        }
        self.ask_and_wait(hw, who, version, line, now, Reason::Replacement)
    }

    fn written(&mut self, hw: &mut Hw<Message>, token: Token, acknowledged: Cycle) {
        if Epochs::is_own(token) {
            return Epochs::acknowledge(hw, token, acknowledged);
        }
        self.bank_wrote(hw, token.core.into(), token.bank.into(), acknowledged);
    }

    fn message(&mut self, hw: &mut Hw<Message>, message: Message, now: Cycle) {
        match message {
            Message::FlushRequest { core, epoch } => self.demand(hw, core.into(), epoch, now),
            Message::FlushEpoch { core, bank } => {
                self.flush_bank(hw, core.into(), bank.into(), now)
            }
            Message::EpochDurable { core } => self.flushed(hw, core.into(), now),
            Message::Inform { core } => self.start_flush(hw, core.into(), now),
            Message::Report { core, epoch } => self.reported(hw, core.into(), epoch, now),
            Message::Reported { core } => self.durable(hw, core.into(), now),
            Message::Settled { core, .. } if Epochs::is_register(core) => {
                self.names_written(hw, now)
            }
            Message::Settled { core, what } => self.settled(hw, core.into(), what, now),
        }
    }

    fn own_lines(&self) -> LineId {
        self.bulk.as_ref().map_or(0, |bulk| bulk.layout.lines())
    }

    fn recover(&self, image: &mut [LineData]) -> Vec<u64> {
        let undoes_all = self.config.flaw == EpochFlaw::UndoesAll;
        match &self.bulk {
            Some(bulk) => recovery::recover(&bulk.layout, image, undoes_all),
            None => Vec::new(),
        }
    }
}
