//! HOPS: persist buffers, `ofence` and `dfence`.
//!
//! "An Analysis of Persistent Memory Use with WHISPER" (ASPLOS'17), section 6. A store to
//! persistent memory goes to the L1 and to the persist buffer of its thread, whose entries carry
//! the thread's timestamp (its epoch); the data wait at the memory controller of the line, the
//! order is kept beside the L1. An ofence advances the timestamp and starts an asynchronous flush,
//! a dfence a synchronous one ("Hands-Off Persistence System", section 2.2). The entries of the
//! oldest epoch are written all at once, those of the next when all of them are acknowledged; an
//! epoch that depends on another thread's waits until the global timestamps, at the shared cache,
//! show that one durable; a core reads them only now and then (HPCA'22: each 500 cycles). A dfence
//! waits until the buffer is empty. Dependences are learnt from coherence: a core that takes a line
//! from a core that had it exclusively depends on that core's current epoch, whichever wrote the
//! line; it is split if it is open. A core that has evicted the line is still asked, as the
//! directory's entry is sticky.
//!
//! Dirty persistent lines are dropped when they leave the shared cache. A fetch from memory waits
//! while a counting filter at the controller contains the line. An address stays in the filter
//! until its whole epoch is durable, so that a read of the line from memory follows that epoch.
//!
//! The paper is silent on a fetch of a line whose epoch is open: here the controller requests the
//! end of that epoch. It is also silent on the wrap of a timestamp: here the core drains its
//! buffer, and the other cores drop their dependences on it. [`engine`] writes the buffers.

use crate::config::Machine;
use crate::core::Waiter;
use crate::design::{Design, Store};
use crate::engine::counters::Reason;
use crate::families::buffers::{Buffered, Buffers, Call, Sizes, Source};
use crate::families::params::parameters;
use crate::hw::{Event, Gate, Hw, Request, Token};
use crate::{Cycle, Epoch, LineId};
use seawall_memory::Model;
use serde::{Deserialize, Serialize};

mod engine;

pub(super) const ABOUT: &str = "HOPS: persist buffers, ofence and dfence (ASPLOS'17).";
pub(super) const MODEL: Option<Model> = Some(Model::Hops);

parameters! {
    /// A write is acknowledged when the controller's queue accepts it (PWQ mode), not when it is in
    /// the cells (NVM mode).
    adr: bool = false;
    /// Entries of each thread's persist buffer.
    entries: usize = 32, in 1..=255;
    /// An epoch is written as soon as it is closed; otherwise its entries wait for one of the two
    /// thresholds below (HPCA'22's code).
    asynchronous: bool = true;
    /// Entries from which on a buffer is written while its thread runs.
    flush_from: usize = 16, in 1..=255;
    /// Cycles after which a buffer is written whatever it holds (HPCA'22's code).
    interval: u64 = 2000, in 1..=1_000_000;
    /// Cycles between two polls of the global timestamps (HPCA'22).
    poll: u64 = 500, in 1..=1_000_000;
    /// Bits of a timestamp.
    timestamp_bits: u32 = 16, in 2..=31;
    /// Base-2 logarithm of the counters of each controller's filter.
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
    /// An epoch does not wait for the epochs of other threads on which it depends.
    DropsDependences,
    /// An epoch is written before the one before it is acknowledged.
    SendsAtOnce,
    /// An open epoch is not split when another thread depends on it.
    KeepsEpochsWhole,
    /// The epoch that wrote a line is forgotten when the core loses the line.
    ForgetsOwners,
    /// Memory is read while a newer version is buffered.
    IgnoresFilter,
    /// A dfence does not wait.
    DrainsEarly,
    /// Dirty lines that leave the shared cache are written, ahead of earlier stores.
    WritesEvictions,
    /// A store joins the entry of an older epoch.
    KeepsOneVersion,
    /// Timestamps are compared across a wrap.
    IgnoresWrap,
}

pub(super) fn design(params: &Params, machine: &Machine, _: LineId) -> Hops {
    let Params { entries, filter_bits, flush_from, interval, merges, .. } = *params;
    let sizes = Sizes { entries, filter_bits, flush_from, interval, merges };
    Hops {
        asynchronous: params.asynchronous,
        poll: params.poll,
        epochs: 1 << params.timestamp_bits,
        flaw: params.flaw,
        buffers: Buffers::new(machine, sizes),
        global: vec![0; machine.core.count],
    }
}

/// The parts of a core beside its buffer.
#[derive(Default)]
pub(crate) struct Own {
    /// Whether the timestamp has no number left: the buffer drains, and stores wait.
    is_wrapping: bool,
    /// Whether a message about the global timestamps is on its way.
    is_asking: bool,
}

/// The messages between the parts of the design.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Message {
    /// A message common to the designs with persist buffers.
    Buffers(Call),
    /// The global timestamps learn that `core`'s epoch is durable.
    Durable { core: u8, epoch: Epoch },
    /// `core` requests the global timestamps.
    Ask { core: u8 },
    /// The global timestamps reach `core`.
    Answer { core: u8 },
}

impl From<Call> for Message {
    fn from(call: Call) -> Message {
        Message::Buffers(call)
    }
}

/// Persist buffers of all cores, filters of all controllers, and the global timestamps.
pub(crate) struct Hops {
    asynchronous: bool,
    poll: u64,
    epochs: Epoch,
    flaw: Flaw,
    buffers: Buffers<Own>,
    global: Vec<Epoch>,
}

impl Hops {
    fn is_flaw(&self, flaw: Flaw) -> bool {
        self.flaw == flaw
    }

    /// The epoch to which the answer to `request` belongs, unless it is known to be durable.
    fn source(&self, hw: &Hw<Message>, request: &Request) -> Option<Source> {
        if self.is_flaw(Flaw::ForgetsOwners) && hw.owner(request.slot).is_none() {
            return None;
        }
        self.buffers.source(hw, request).filter(|source| source.epoch > self.global[source.core])
    }

    fn joins(&self, core: usize, line: LineId) -> Option<u8> {
        if self.is_flaw(Flaw::KeepsOneVersion) {
            let mut entries = self.buffers.cores[core].buffer.entries().iter().rev();
            let entry = entries.find(|entry| entry.line == line && !entry.is_sent);
            return entry.map(|entry| entry.slot);
        }
        self.buffers.joins(core, line)
    }
}

impl Buffered for Hops {
    type Own = Own;

    fn buffers(&mut self) -> &mut Buffers<Own> {
        &mut self.buffers
    }

    /// False if the timestamp has no number left: closing waits until the buffer is empty.
    fn close(&mut self, hw: &mut Hw<Message>, core: usize, now: Cycle) -> bool {
        let front = &mut self.buffers.cores[core];
        let is_last = (front.timeline.current() + 1).is_multiple_of(self.epochs);
        let must_wrap = is_last && self.flaw != Flaw::IgnoresWrap;
        if must_wrap {
            front.own.is_wrapping = true;
            front.demand(front.timeline.current());
        } else {
            let closed = self.buffers.close(hw, core, now);
            if self.asynchronous {
                self.buffers.cores[core].demand(closed);
            }
        }
        self.write(hw, core, now);
        !must_wrap || !self.buffers.cores[core].own.is_wrapping
    }
}

impl Design for Hops {
    type Message = Message;
    const DROPS_EVICTIONS: bool = true;

    fn store(&mut self, hw: &mut Hw<Message>, who: Waiter, at: Store, _: Cycle) -> Gate {
        if !hw.is_pm(at.line) {
            return Gate::Go;
        }
        let joins = self.joins(who.core, at.line).is_some();
        let front = &mut self.buffers.cores[who.core];
        if front.own.is_wrapping {
            return front.wait(who, Reason::EpochIds);
        }
        if joins || front.buffer.has_room() {
            return Gate::Go;
        }
        front.wait(who, Reason::BufferFull)
    }

    fn stored(&mut self, hw: &mut Hw<Message>, core: usize, at: Store, _: u64, now: Cycle) {
        if !hw.is_pm(at.line) {
            return;
        }
        // The data go to the controller, the entry's place in the order stays here.
        hw.mesh.data(core, hw.memory_tile(at.line), now);
        let joins = self.joins(core, at.line);
        if self.buffers.append(hw, core, at, joins, now) {
            self.write(hw, core, now);
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
        let front = &mut self.buffers.cores[who.core];
        let last = front.timeline.current() - 1;
        front.demand(last);
        self.write(hw, who.core, now);
        self.buffers.wait_for(hw, last, who, now)
    }

    fn remote(&mut self, hw: &mut Hw<Message>, request: &Request) -> Gate {
        let (who, now) = (request.who, request.now);
        if !hw.is_pm(request.line) || self.is_flaw(Flaw::DropsDependences) {
            return Gate::Go;
        }
        let Some(source) = self.source(hw, request) else { return Gate::Go };
        if self.buffers.cores[who.core].timeline.follows(source) {
            return Gate::Go;
        }
        let splits = !self.is_flaw(Flaw::KeepsEpochsWhole);
        let gate = self.part(hw, who, (source, splits), now);
        if gate != Gate::Go {
            return gate;
        }
        self.buffers.depend(hw, who.core, source, now);
        hw.counters.conflicts_inter += 1;
        hw.counters.dependences += 1;
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

    fn evict(&mut self, hw: &mut Hw<Message>, _: Waiter, slot: LineId, now: Cycle) -> Gate {
        if self.is_flaw(Flaw::WritesEvictions) && hw.is_pm(slot) {
            if let Some((owner, way)) = hw.owner(slot) {
                hw.clean(owner, way, slot);
            }
            if hw.llc.entry(slot).dirty {
                hw.write_back(slot, hw.home_tile(slot), now, Token::NONE);
            }
        }
        Gate::Go
    }

    fn exited(&mut self, hw: &mut Hw<Message>, core: usize, now: Cycle) {
        let last = self.buffers.cores[core].timeline.current();
        self.wanted(hw, core, last, now);
    }

    fn written(&mut self, hw: &mut Hw<Message>, token: Token, acknowledged: Cycle) {
        if token != Token::NONE {
            let call = Call::Acknowledged { core: token.core, slot: token.bank };
            hw.queue.event(acknowledged, Event::Design(call.into()));
        }
    }

    fn message(&mut self, hw: &mut Hw<Message>, message: Message, now: Cycle) {
        match message {
            Message::Durable { core, epoch } => self.global[usize::from(core)] = epoch,
            Message::Ask { core } => {
                let read = now + hw.config.llc.latency;
                let back = hw.mesh.control(engine::TIMESTAMPS, core.into(), read);
                hw.queue.event(back, Event::Design(Message::Answer { core }));
            }
            Message::Answer { core } => self.answered(hw, core.into(), now),
            Message::Buffers(Call::Acknowledged { core, slot }) => {
                self.buffers.acknowledged(hw, core.into(), slot, now);
                self.write(hw, core.into(), now);
            }
            Message::Buffers(Call::Periodic { core }) => {
                self.buffers.periodic(hw, core.into(), now);
                self.write(hw, core.into(), now);
            }
            Message::Buffers(Call::Wanted { core, epoch }) => {
                self.wanted(hw, core.into(), epoch, now);
            }
        }
    }
}
