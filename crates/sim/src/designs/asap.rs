//! ASAP: persist buffers that flush ahead of their turn.
//!
//! "ASAP: A Speculative Approach to Persistence" (HPCA'22). The persist buffer beside each L1 is
//! that of HOPS, but all its entries go to memory at once, *early* if older epochs, or epochs of
//! other threads on which theirs depends, are not committed. Controllers keep in a recovery table
//! what undoes early writes after a crash ([`table`]). An epoch is complete when all its flushes
//! are acknowledged, and safe when all epochs before it have committed. When it is both, its core
//! informs the controllers to which it wrote early; when they have answered, it is committed and
//! durable. The cores whose epochs depend on it get a message each; no core polls.
//!
//! A full recovery table refuses early flushes. The core then flushes in order, nothing early,
//! until the refused entry has been sent again as a safe flush, which never needs a record. The
//! size of a core's epoch table bounds its uncommitted epochs; a fence waits for an entry of the
//! table.
//!
//! Dependences are learnt from coherence, and a dependence on an open epoch splits it, as in HOPS.
//! A fetch from memory of a line whose epoch has not committed waits at a counting filter and
//! requests the end of that epoch, as in HOPS too. The paper filters only refused lines, and keeps
//! victims of the L1 in a write-back buffer until their flushes are at the controller; here the
//! filter does both, and no early value is ever read from memory. [`flush`] has the cores' side,
//! [`controllers`] the other.

use crate::config::Machine;
use crate::core::Waiter;
use crate::design::{Design, Store};
use crate::engine::counters::Reason;
use crate::families::buffers::{Buffered, Buffers, Call, Front, Sizes, Source};
use crate::families::params::parameters;
use crate::hw::{Gate, Hw, Request, Token};
use crate::memory::versions::LineData;
use crate::{Cycle, Epoch, LineId};
use seawall_memory::Model;
use serde::{Deserialize, Serialize};
use table::Table;

mod controllers;
mod flush;
mod table;

pub(super) const ABOUT: &str = "ASAP: early flushes that controllers can undo (HPCA'22).";
pub(super) const MODEL: Option<Model> = Some(Model::Hops);

parameters! {
    /// A write is acknowledged when the controller's queue accepts it, not when it is in the cells.
    adr: bool = true;
    /// Entries of each core's persist buffer.
    entries: usize = 32, in 1..=128;
    /// Entries from which on a buffer is flushed even if nothing waits for it (HPCA'22's code).
    flush_from: usize = 2, in 1..=128;
    /// Cycles after which a buffer is flushed whatever it holds (unpublished: that of HOPS).
    interval: u64 = 2000, in 1..=1_000_000;
    /// Epochs of a core that are not committed, the open one included: its epoch table.
    epochs: usize = 32, in 2..=65_536;
    /// Records of each controller's recovery table.
    records: usize = 32, in 0..=250;
    /// The old value of a line is read from memory into its undo record; otherwise it is there at
    /// once and at no cost, as in HPCA'22's code.
    undo_reads: bool = true;
    /// Base-2 logarithm of the counters of each controller's filter (unpublished).
    filter_bits: u32 = 10, in 4..=20;
    /// Stores of an epoch to one line share an entry that has not been sent.
    merges: bool = true;
    /// A planted bug in the mechanism, to test the checks.
    flaw: Flaw = Flaw::None;
}

/// A planted bug in the mechanism.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Flaw {
    /// No planted bug.
    #[default]
    None,
    /// A crash leaves early writes in memory.
    ForgetsUndo,
    /// An undo record is freed when the early write is durable.
    ReleasesUndoEarly,
    /// A second early value of a line replaces the first one in memory.
    SpeculatesTwice,
    /// A safe write passes the early one that came before it.
    WritesPastUndo,
    /// Delayed values are not written when their epoch commits.
    DelaysLost,
    /// An epoch is committed before the controllers know.
    CommitsEarly,
    /// An epoch does not wait for the epochs of other threads on which it depends.
    DropsDependences,
    /// An open epoch is not split when another thread depends on it.
    KeepsEpochsWhole,
    /// Memory is read while the epoch of the line is not committed.
    IgnoresFilter,
    /// A refused flush counts as done.
    IgnoresNack,
    /// A version of a line does not wait for an older one of its epoch, which may be refused.
    PassesOlder,
    /// A drain does not wait.
    DrainsEarly,
}

pub(super) fn design(params: &Params, machine: &Machine, _: LineId) -> Asap {
    let Params { entries, filter_bits, flush_from, interval, merges, .. } = *params;
    let sizes = Sizes { entries, filter_bits, flush_from, interval, merges };
    let table = |_| Table::new(params.records, params.flaw);
    Asap {
        epochs: params.epochs,
        undo_reads: params.undo_reads,
        flaw: params.flaw,
        buffers: Buffers::new(machine, sizes),
        tables: (0..machine.memory.controllers).map(table).collect(),
    }
}

/// The parts of a core beside its buffer.
#[derive(Default)]
pub(crate) struct Own {
    /// The slots of entries that were refused and have not been sent again.
    refused: Vec<u8>,
    /// The number of controllers that have not answered to the commit of the oldest epoch.
    committing: u32,
    /// The epoch that ends as soon as the table has room for the next.
    ending: Epoch,
}

/// The epoch before which everything is committed; 0 if another thread's must commit first.
fn safe(front: &Front<Own>) -> Epoch {
    let is_free = front.timeline.oldest_depends_on().is_none();
    Epoch::from(is_free) * (front.timeline.durable + 1)
}

/// The messages between the parts of the design.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Message {
    /// A message common to the designs with persist buffers.
    Buffers(Call),
    /// An entry of `core`'s buffer is at its controller.
    Flush { core: u8, slot: u8, is_early: bool },
    /// The old value of its line has been read.
    Read { core: u8, slot: u8 },
    /// The controller's table is full: it refuses the entry.
    Refused { core: u8, slot: u8 },
    /// The commit of `core`'s epoch reaches `controller`.
    Commit { core: u8, epoch: Epoch, controller: u8 },
    /// A controller has committed the epoch.
    Committed { core: u8 },
    /// `core` learns that the epoch of `of`, on which one of its own depends, has committed.
    Resolved { core: u8, of: u8, epoch: Epoch },
}

impl From<Call> for Message {
    fn from(call: Call) -> Message {
        Message::Buffers(call)
    }
}

/// Persist buffers and epoch tables of all cores, recovery tables and filters of all controllers.
pub(crate) struct Asap {
    epochs: usize,
    undo_reads: bool,
    flaw: Flaw,
    buffers: Buffers<Own>,
    tables: Vec<Table>,
}

impl Asap {
    fn is_flaw(&self, flaw: Flaw) -> bool {
        self.flaw == flaw
    }
}

impl Design for Asap {
    type Message = Message;
    const DROPS_EVICTIONS: bool = true;

    fn store(&mut self, hw: &mut Hw<Message>, who: Waiter, at: Store, _: Cycle) -> Gate {
        let joins = self.buffers.joins(who.core, at.line).is_some();
        let front = &mut self.buffers.cores[who.core];
        if !hw.is_pm(at.line) || joins || front.buffer.has_room() {
            return Gate::Go;
        }
        front.wait(who, Reason::BufferFull)
    }

    fn stored(&mut self, hw: &mut Hw<Message>, core: usize, at: Store, _: u64, now: Cycle) {
        if !hw.is_pm(at.line) {
            return;
        }
        let joins = self.buffers.joins(core, at.line);
        if self.buffers.append(hw, core, at, joins, now) {
            self.advance(hw, core, now);
        }
    }

    fn order(&mut self, hw: &mut Hw<Message>, who: Waiter, now: Cycle) -> Gate {
        let is_empty = self.buffers.cores[who.core].timeline.is_open_empty();
        let gate = self.end(hw, who, now);
        hw.counters.fences += u64::from(gate == Gate::Go && !is_empty);
        gate
    }

    fn drain(&mut self, hw: &mut Hw<Message>, who: Waiter, now: Cycle) -> Gate {
        let gate = self.order(hw, who, now);
        if gate != Gate::Go || self.is_flaw(Flaw::DrainsEarly) {
            return gate;
        }
        let last = self.buffers.cores[who.core].timeline.current() - 1;
        self.demand(hw, who.core, last, now);
        self.buffers.wait_for(hw, last, who, now)
    }

    fn remote(&mut self, hw: &mut Hw<Message>, request: &Request) -> Gate {
        let (who, now) = (request.who, request.now);
        if !hw.is_pm(request.line) || self.is_flaw(Flaw::DropsDependences) {
            return Gate::Go;
        }
        let Some(source) = self.buffers.source(hw, request) else { return Gate::Go };
        let is_durable = self.buffers.cores[source.core].timeline.is_durable(source.epoch);
        if is_durable || self.buffers.cores[who.core].timeline.follows(source) {
            return Gate::Go;
        }
        let splits = !self.is_flaw(Flaw::KeepsEpochsWhole);
        let gate = self.part(hw, who, (source, splits), now);
        if gate != Gate::Go {
            return gate;
        }
        if self.buffers.cores[source.core].timeline.is_durable(source.epoch) {
            return Gate::Go;
        }
        self.buffers.depend(hw, who.core, source, now);
        self.buffers.cores[source.core].timeline.state(source.epoch).dependents |= 1 << who.core;
        hw.counters.conflicts_inter += 1;
        hw.counters.dependences += 1;
        self.demand(hw, source.core, source.epoch, now);
        Gate::Go
    }

    fn miss(&mut self, hw: &mut Hw<Message>, who: Waiter, line: LineId, now: Cycle) -> Gate {
        if self.is_flaw(Flaw::IgnoresFilter) {
            return Gate::Go;
        }
        self.buffers.fetch(hw, who, line, now)
    }

    fn may_prefetch(&self, hw: &Hw<Message>, _: usize, line: LineId) -> bool {
        self.buffers.may_prefetch(hw, line)
    }

    fn exited(&mut self, hw: &mut Hw<Message>, core: usize, now: Cycle) {
        let last = self.buffers.cores[core].timeline.current();
        self.wanted(hw, core, last, now);
    }

    fn written(&mut self, hw: &mut Hw<Message>, token: Token, now: Cycle) {
        self.in_queue(hw, token, now);
    }

    fn message(&mut self, hw: &mut Hw<Message>, message: Message, now: Cycle) {
        match message {
            Message::Flush { core, slot, is_early } => {
                self.flushed(hw, core.into(), slot, is_early, now);
            }
            Message::Read { core, slot } => self.old_read(hw, core.into(), slot, now),
            Message::Refused { core, slot } => self.refused(hw, core.into(), slot, now),
            Message::Commit { core, epoch, controller } => {
                let owner = Source { core: core.into(), epoch };
                self.commits(hw, owner, controller.into(), now);
            }
            Message::Committed { core } => self.committed(hw, core.into(), now),
            Message::Resolved { core, of, epoch } => {
                let source = Source { core: of.into(), epoch };
                self.buffers.cores[usize::from(core)].timeline.resolve(source);
                self.advance(hw, core.into(), now);
            }
            Message::Buffers(Call::Acknowledged { core, slot }) => {
                self.buffers.acknowledged(hw, core.into(), slot, now);
                self.advance(hw, core.into(), now);
            }
            Message::Buffers(Call::Periodic { core }) => {
                self.buffers.periodic(hw, core.into(), now);
                self.advance(hw, core.into(), now);
            }
            Message::Buffers(Call::Wanted { core, epoch }) => {
                self.wanted(hw, core.into(), epoch, now);
            }
        }
    }

    fn save(&self, _: &Hw<Message>, image: &mut [LineData]) {
        if !self.is_flaw(Flaw::ForgetsUndo) {
            self.tables.iter().for_each(|table| table.restore(image));
        }
    }
}
