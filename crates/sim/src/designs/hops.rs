//! HOPS: persist buffers, `ofence` and `dfence`.
//!
//! "An Analysis of Persistent Memory Use with WHISPER" (ASPLOS'17), section 6. A store to
//! persistent memory goes to the L1 and to the persist buffer of its thread, whose entries carry
//! the thread's timestamp (its epoch); the data wait at the memory controller of the line, the
//! order is kept beside the L1. An ofence advances the timestamp and starts an asynchronous flush,
//! a dfence a synchronous one ("Hands-Off Persistence System", section 2.2). The entries of the
//! oldest epoch are written all at once, those of the next when all of them are acknowledged; an
//! epoch that depends on another thread's waits until the global timestamps, at the shared cache,
//! say that it is durable. A dfence waits until the buffer is empty. Dependences are learnt from
//! coherence: who takes a line from a core that had it exclusively depends on that core's current
//! epoch, which is split if it is open; what the core wrote is remembered when its L1 has given the
//! line up.
//!
//! Dirty persistent lines are dropped when they leave the shared cache. A fetch from memory waits
//! while a counting filter at the controller says that the line is buffered. An address stays in it
//! until its whole epoch is durable, so that who reads the line from memory follows that epoch.
//!
//! The paper is silent on a fetch of a line whose epoch is open: here the controller asks for the
//! end of that epoch. So it is on the wrap of a timestamp: the core drains its buffer, and the
//! others forget what they know of it. What writes the buffer when is in [`engine`].

use super::buffers::{Buffer, Filter, Source, Timeline};
use super::params::parameters;
use super::{Design, Model, Store};
use crate::config::Machine;
use crate::counters::Reason;
use crate::hw::{Event, Gate, Hw, Request, Token, Waiter};
use crate::{Cycle, Epoch, LineId};
use serde::{Deserialize, Serialize};

mod engine;

pub(super) const ABOUT: &str = "HOPS: persist buffers, ofence and dfence (ASPLOS'17).";
pub(super) const MODEL: Model = Model::Hops;

parameters! {
    /// A write is acknowledged when the controller's queue accepts it (PWQ mode), not when it is in
    /// the cells (NVM mode).
    adr: bool = false;
    /// Entries of each thread's persist buffer.
    entries: usize = 32, in 1..=255;
    /// An epoch is written as soon as it is closed; otherwise its entries wait for one of the
    /// reasons below (HPCA'22's code).
    asynchronous: bool = true;
    /// Entries from which on a buffer is written while its thread runs.
    flush_from: usize = 16, in 1..=255;
    /// Cycles after which a buffer is written whatever it holds (HPCA'22's code).
    interval: u64 = 2000, in 1..=1_000_000;
    /// Cycles between two looks at the global timestamps (HPCA'22).
    poll: u64 = 500, in 1..=1_000_000;
    /// Bits of a timestamp.
    timestamp_bits: u32 = 16, in 2..=31;
    /// Base-2 logarithm of the counters of each controller's filter.
    filter_bits: u32 = 10, in 4..=20;
    /// Stores of an epoch to one line share an entry that has not been sent.
    merges: bool = true;
    /// A deliberate mistake in the mechanism, to test the checks.
    flaw: Flaw = Flaw::None;
}

/// A deliberate mistake in the mechanism.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Flaw {
    /// None.
    #[default]
    None,
    /// An epoch does not wait for those of other threads that it depends on.
    DropsDependences,
    /// An epoch is written before the one before it is acknowledged.
    SendsAtOnce,
    /// An open epoch is not split when another thread depends on it.
    KeepsEpochsWhole,
    /// What a core wrote is forgotten when its L1 gives the line up.
    ForgetsOwners,
    /// Memory is read while a newer version is buffered.
    IgnoresFilter,
    /// A dfence does not wait.
    DrainsEarly,
    /// Dirty lines that leave the shared cache are written, before what was stored earlier.
    WritesEvictions,
    /// A store joins the entry of an older epoch.
    KeepsOneVersion,
    /// Timestamps are compared across a wrap.
    IgnoresWrap,
}

pub(super) fn design(params: &Params, machine: &Machine, _: LineId) -> Hops {
    let cores = machine.core.count;
    Hops {
        config: Config {
            asynchronous: params.asynchronous,
            flush_from: params.flush_from.min(params.entries),
            interval: params.interval,
            poll: params.poll,
            epochs: 1 << params.timestamp_bits,
            merges: params.merges,
            flaw: params.flaw,
        },
        cores: (0..cores).map(|_| Thread::new(params.entries)).collect(),
        filters: vec![Filter::new(1 << params.filter_bits); machine.memory.controllers],
        global: vec![0; cores],
    }
}

struct Config {
    asynchronous: bool,
    flush_from: usize,
    interval: u64,
    poll: u64,
    epochs: Epoch,
    merges: bool,
    flaw: Flaw,
}

/// What a core has beside its L1.
struct Thread {
    buffer: Buffer,
    timeline: Timeline,
    /// Entries up to this epoch are to be written.
    demanded: Epoch,
    /// The timestamp has no number left: the buffer drains, and stores wait.
    is_wrapping: bool,
    /// A message about the global timestamps is on its way.
    is_asking: bool,
    /// The next periodic flush is set.
    has_timer: bool,
    /// Who waits for all up to an epoch to be durable.
    drains: Vec<(Epoch, Waiter)>,
    /// Who waits for an entry, or for the timestamp.
    waiting: Vec<Waiter>,
}

impl Thread {
    fn new(entries: usize) -> Thread {
        Thread {
            buffer: Buffer::new(entries),
            timeline: Timeline::new(),
            demanded: 0,
            is_wrapping: false,
            is_asking: false,
            has_timer: false,
            drains: Vec::new(),
            waiting: Vec::new(),
        }
    }
}

/// What the parts of the design tell each other.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Message {
    /// The entry in that slot of `core`'s buffer is durable.
    Acknowledged { core: u8, slot: u8 },
    /// `core`'s epoch is durable: the global timestamps learn of it.
    Durable { core: u8, epoch: Epoch },
    /// `core` asks for the global timestamps.
    Ask { core: u8 },
    /// They are at `core`.
    Answer { core: u8 },
    /// `core`'s buffer is to be written.
    Periodic { core: u8 },
    /// A fetch waits for `core`'s epoch, which is to end and to be written.
    Wanted { core: u8, epoch: Epoch },
}

/// Persist buffers of all cores, filters of all controllers, and the global timestamps.
pub(crate) struct Hops {
    config: Config,
    cores: Vec<Thread>,
    filters: Vec<Filter>,
    global: Vec<Epoch>,
}

impl Hops {
    fn is_flaw(&self, flaw: Flaw) -> bool {
        self.config.flaw == flaw
    }

    /// Whose epoch the answer to `request` belongs to, as far as it is not known to be durable.
    fn source(&self, hw: &Hw<Message>, request: &Request) -> Option<Source> {
        let source = match hw.owner(request.slot) {
            Some((core, _)) => {
                let timeline = &self.cores[core].timeline;
                let is_old = timeline.is_open_empty();
                Source { core, epoch: timeline.current() - Epoch::from(is_old) }
            }
            None if self.is_flaw(Flaw::ForgetsOwners) => return None,
            None => {
                let entry = hw.llc.entry(request.slot);
                Source { core: entry.writer.into(), epoch: entry.epoch }
            }
        };
        let is_known = source.epoch == 0 || source.core == request.who.core;
        (!is_known && source.epoch > self.global[source.core]).then_some(source)
    }

    /// Closes the open epoch of `core` and opens the next. False if the timestamp has no number
    /// left: it waits until the buffer is empty.
    fn close(&mut self, hw: &mut Hw<Message>, core: usize, now: Cycle) -> bool {
        let thread = &mut self.cores[core];
        let is_last = (thread.timeline.current() + 1).is_multiple_of(self.config.epochs);
        if is_last && self.config.flaw != Flaw::IgnoresWrap {
            thread.is_wrapping = true;
            thread.demanded = thread.timeline.current();
        } else {
            let closed = thread.timeline.close();
            if self.config.asynchronous {
                thread.demanded = thread.demanded.max(closed);
            }
        }
        self.write(hw, core, now);
        !is_last || self.config.flaw == Flaw::IgnoresWrap || !self.cores[core].is_wrapping
    }

    fn wait(&mut self, core: usize, who: Waiter, reason: Reason) -> Gate {
        self.cores[core].waiting.push(who);
        Gate::Wait(reason)
    }

    fn joins(&self, core: usize, line: LineId) -> Option<usize> {
        let Thread { buffer, timeline, .. } = &self.cores[core];
        if self.is_flaw(Flaw::KeepsOneVersion) {
            return buffer.entries.iter().rposition(|entry| entry.line == line && !entry.is_sent);
        }
        self.config.merges.then(|| buffer.joins(line, timeline.current())).flatten()
    }
}

impl Design for Hops {
    type Message = Message;
    const DROPS_EVICTIONS: bool = true;

    fn store(&mut self, hw: &mut Hw<Message>, who: Waiter, at: Store, _: Cycle) -> Gate {
        if !hw.is_pm(at.line) {
            return Gate::Go;
        }
        let thread = &self.cores[who.core];
        if thread.is_wrapping {
            return self.wait(who.core, who, Reason::EpochIds);
        }
        if thread.buffer.has_room() || self.joins(who.core, at.line).is_some() {
            return Gate::Go;
        }
        self.wait(who.core, who, Reason::BufferFull)
    }

    fn stored(&mut self, hw: &mut Hw<Message>, core: usize, at: Store, _: u64, now: Cycle) {
        let line = at.line;
        if !hw.is_pm(line) {
            return;
        }
        let data = *hw.data(core, at.way, line);
        let joins = self.joins(core, line);
        let thread = &mut self.cores[core];
        let epoch = thread.timeline.current();
        hw.l1[core].copy_mut(at.way).epoch = epoch;
        // The data go to the controller, the place in the order stays here.
        hw.mesh.data(core, hw.memory_tile(line), now);
        if let Some(place) = joins {
            hw.counters.merged_stores += 1;
            thread.buffer.entries[place].data = data;
            return;
        }
        hw.counters.buffered_stores += 1;
        thread.buffer.push(line, epoch, data, now);
        let open = thread.timeline.open();
        open.left += 1;
        open.lines.push(line);
        self.filters[hw.memory.home(line)].add(line);
        self.set_timer(hw, core, now);
        self.write(hw, core, now);
    }

    fn order(&mut self, hw: &mut Hw<Message>, who: Waiter, now: Cycle) -> Gate {
        if self.cores[who.core].timeline.is_open_empty() {
            return Gate::Go;
        }
        if self.cores[who.core].is_wrapping || !self.close(hw, who.core, now) {
            return self.wait(who.core, who, Reason::EpochIds);
        }
        hw.counters.fences += 1;
        Gate::Go
    }

    fn drain(&mut self, hw: &mut Hw<Message>, who: Waiter, now: Cycle) -> Gate {
        let gate = self.order(hw, who, now);
        if gate != Gate::Go || self.is_flaw(Flaw::DrainsEarly) {
            return gate;
        }
        let thread = &mut self.cores[who.core];
        let last = thread.timeline.current() - 1;
        if thread.timeline.is_durable(last) {
            return Gate::Go;
        }
        thread.demanded = thread.demanded.max(last);
        thread.drains.push((last, who));
        self.write(hw, who.core, now);
        Gate::Wait(Reason::Fence)
    }

    fn remote(&mut self, hw: &mut Hw<Message>, request: &Request) -> Gate {
        let (who, now) = (request.who, request.now);
        if !hw.is_pm(request.line) || self.is_flaw(Flaw::DropsDependences) {
            return Gate::Go;
        }
        let Some(source) = self.source(hw, request) else { return Gate::Go };
        if self.cores[who.core].timeline.follows(source) {
            return Gate::Go;
        }
        let is_open = source.epoch == self.cores[source.core].timeline.current();
        if is_open && !self.is_flaw(Flaw::KeepsEpochsWhole) {
            if self.cores[source.core].is_wrapping || !self.close(hw, source.core, now) {
                return self.wait(source.core, who, Reason::InterConflict);
            }
            hw.counters.epoch_splits += 1;
        }
        let is_empty = self.cores[who.core].timeline.is_open_empty();
        if !is_empty && (self.cores[who.core].is_wrapping || !self.close(hw, who.core, now)) {
            return self.wait(who.core, who, Reason::EpochIds);
        }
        self.cores[who.core].timeline.depend(source);
        hw.counters.conflicts_inter += 1;
        hw.counters.dependences += 1;
        Gate::Go
    }

    fn miss(&mut self, hw: &mut Hw<Message>, who: Waiter, line: LineId, now: Cycle) -> Gate {
        let filter = &mut self.filters[hw.memory.home(line)];
        if !hw.is_pm(line) || !filter.may_have(line) || self.config.flaw == Flaw::IgnoresFilter {
            return Gate::Go;
        }
        filter.wait(line, who);
        hw.counters.buffered_misses += 1;
        let asked = hw.mesh.control(who.core, hw.memory_tile(line), now);
        self.ask_for(hw, line, asked);
        Gate::Wait(Reason::BufferedLine)
    }

    fn may_prefetch(&self, hw: &Hw<Message>, _: usize, line: LineId) -> bool {
        !hw.is_pm(line)
            || hw.llc.find(line).is_some()
            || !self.filters[hw.memory.home(line)].may_have(line)
    }

    fn evict(&mut self, hw: &mut Hw<Message>, _: Waiter, slot: LineId, now: Cycle) -> Gate {
        if self.is_flaw(Flaw::WritesEvictions) && hw.is_pm(slot) {
            hw.recall(slot, now);
            if hw.llc.entry(slot).dirty {
                hw.write_back(slot, hw.home_tile(slot), now, Token::NONE);
            }
        }
        Gate::Go
    }

    fn exited(&mut self, hw: &mut Hw<Message>, core: usize, now: Cycle) {
        let thread = &mut self.cores[core];
        thread.demanded = thread.timeline.current();
        if thread.timeline.is_open_empty() || thread.is_wrapping {
            self.write(hw, core, now);
        } else {
            self.close(hw, core, now);
        }
    }

    fn written(&mut self, hw: &mut Hw<Message>, token: Token, acknowledged: Cycle) {
        if token != Token::NONE {
            let message = Message::Acknowledged { core: token.core, slot: token.bank };
            hw.queue.event(acknowledged, Event::Design(message));
        }
    }

    fn message(&mut self, hw: &mut Hw<Message>, message: Message, now: Cycle) {
        match message {
            Message::Acknowledged { core, slot } => self.acknowledged(hw, core.into(), slot, now),
            Message::Durable { core, epoch } => self.global[usize::from(core)] = epoch,
            Message::Ask { core } => {
                let back = hw.mesh.control(engine::TIMESTAMPS, core.into(), now);
                hw.queue.event(back, Event::Design(Message::Answer { core }));
            }
            Message::Answer { core } => self.answered(hw, core.into(), now),
            Message::Periodic { core } => self.periodic(hw, core.into(), now),
            Message::Wanted { core, epoch } => self.wanted(hw, core.into(), epoch, now),
        }
    }
}
