//! The common part of designs with persist buffers: the front end of a core, beside its L1, and the
//! filters at the controllers.
//!
//! "An Analysis of Persistent Memory Use with WHISPER" (ASPLOS'17), section 6.3. A store goes to
//! the L1 and into its core's buffer, with the number of its epoch; dependences are learnt from
//! coherence; a fetch from memory waits while its line may be buffered, and requests the end of the
//! epochs for which it waits. Each design decides when entries leave a buffer.

use crate::config::Machine;
use crate::core::Waiter;
use crate::design::{Design, Store};
use crate::engine::counters::Reason;
use crate::hw::{Event, Gate, Hw, Request};
use crate::{Cycle, Epoch, LineId};

mod entries;
mod filter;
mod timeline;

pub(crate) use entries::{Buffer, Entry};
pub(crate) use filter::Filter;
pub(crate) use timeline::{EpochState, Source, Timeline};

/// The sizes and choices of a design.
#[derive(Clone, Copy)]
pub(crate) struct Sizes {
    /// Entries of a buffer.
    pub(crate) entries: usize,
    /// Base-2 logarithm of the counters of a filter.
    pub(crate) filter_bits: u32,
    /// The number of entries from which a buffer is drained without a request.
    pub(crate) flush_from: usize,
    /// Cycles after which a buffer is drained whatever it holds.
    pub(crate) interval: u64,
    /// Whether stores of an epoch to one line share an entry that has not been sent.
    pub(crate) merges: bool,
}

/// Messages common to these designs.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Call {
    /// The entry in this slot of `core`'s buffer has reached its destination.
    Acknowledged { core: u8, slot: u8 },
    /// Time to drain entries that `core`'s buffer has held for long.
    Periodic { core: u8 },
    /// A fetch waits for `core`'s epoch, which must end and drain.
    Wanted { core: u8, epoch: Epoch },
}

/// A design with persist buffers: how its epochs end.
pub(crate) trait Buffered: Design {
    type Own;

    fn buffers(&mut self) -> &mut Buffers<Self::Own>;

    /// Closes the open epoch of `core` and opens the next; returns false if that must wait, until
    /// [`Front::released`].
    fn close(&mut self, hw: &mut Hw<Self::Message>, core: usize, now: Cycle) -> bool;

    /// Ends the epoch of `who`'s core, if it is not empty.
    fn end(&mut self, hw: &mut Hw<Self::Message>, who: Waiter, now: Cycle) -> Gate {
        if self.buffers().cores[who.core].timeline.is_open_empty() || self.close(hw, who.core, now)
        {
            return Gate::Go;
        }
        self.buffers().cores[who.core].wait(who, Reason::EpochIds)
    }

    /// Puts the later stores of `who`'s core into an epoch behind `source`. If `source` is open and
    /// the dependence `splits` open epochs, `source` is closed first.
    fn part(
        &mut self,
        hw: &mut Hw<Self::Message>,
        who: Waiter,
        (source, splits): (Source, bool),
        now: Cycle,
    ) -> Gate {
        let is_open = source.epoch == self.buffers().cores[source.core].timeline.current();
        if is_open && splits {
            if !self.close(hw, source.core, now) {
                return self.buffers().cores[source.core].wait(who, Reason::InterConflict);
            }
            hw.counters.epoch_splits += 1;
        }
        self.end(hw, who, now)
    }
}

/// The parts of a core beside its L1, including those of the design.
pub(crate) struct Front<Own> {
    pub(crate) buffer: Buffer,
    pub(crate) timeline: Timeline,
    /// Entries up to this epoch must drain.
    pub(crate) demanded: Epoch,
    pub(crate) own: Own,
    /// Whether the next [`Call::Periodic`] is scheduled.
    has_timer: bool,
    /// The waiters for an epoch, and all before it, to be durable.
    drains: Vec<(Epoch, Waiter)>,
    /// The waiters for an entry, or for an epoch.
    waiting: Vec<Waiter>,
}

impl<Own> Front<Own> {
    /// An access waits for all epochs up to `epoch`.
    pub(crate) fn demand(&mut self, epoch: Epoch) {
        self.demanded = self.demanded.max(epoch);
    }

    /// Makes `who` wait until an entry or an epoch has left the buffer.
    pub(crate) fn wait(&mut self, who: Waiter, reason: Reason) -> Gate {
        self.waiting.push(who);
        Gate::Wait(reason)
    }

    /// Removes and returns the waiters for an entry or an epoch.
    pub(crate) fn released(&mut self) -> Vec<Waiter> {
        std::mem::take(&mut self.waiting)
    }
}

/// The front ends of all cores and the filters of all controllers.
pub(crate) struct Buffers<Own> {
    pub(crate) cores: Vec<Front<Own>>,
    pub(crate) sizes: Sizes,
    filters: Vec<Filter>,
}

impl<Own: Default> Buffers<Own> {
    pub(crate) fn new(machine: &Machine, sizes: Sizes) -> Buffers<Own> {
        let front = |_| Front {
            buffer: Buffer::new(sizes.entries),
            timeline: Timeline::new(),
            demanded: 0,
            own: Own::default(),
            has_timer: false,
            drains: Vec::new(),
            waiting: Vec::new(),
        };
        Buffers {
            cores: (0..machine.core.count).map(front).collect(),
            sizes: Sizes { flush_from: sizes.flush_from.min(sizes.entries), ..sizes },
            filters: vec![Filter::new(1 << sizes.filter_bits); machine.memory.controllers],
        }
    }
}

impl<Own> Buffers<Own> {
    /// The slot of the entry that a store of `core` to `line` joins.
    pub(crate) fn joins(&self, core: usize, line: LineId) -> Option<u8> {
        let Front { buffer, timeline, .. } = &self.cores[core];
        self.sizes.merges.then(|| buffer.joins(line, timeline.current())).flatten()
    }

    /// `core` has stored to a line at `at`: the store joins the entry in slot `joins`, of the open
    /// epoch, or takes a new one. Returns true if the entry is new.
    pub(crate) fn append<M: Copy + From<Call>>(
        &mut self,
        hw: &mut Hw<M>,
        core: usize,
        at: Store,
        joins: Option<u8>,
        now: Cycle,
    ) -> bool {
        let data = *hw.data(core, at.way, at.line);
        let front = &mut self.cores[core];
        let epoch = front.timeline.current();
        hw.private[core].copy_mut(at.way).epoch = epoch;
        if let Some(slot) = joins {
            hw.counters.merged_stores += 1;
            front.buffer.join(slot, data);
            return false;
        }
        hw.counters.buffered_stores += 1;
        front.buffer.push(at.line, epoch, data, now);
        let entries = front.buffer.entries().len();
        hw.detail.note(|tally| tally.buffered(core, entries, now));
        hw.recorder.note(move |tape| tape.opens(core, epoch, now));
        let open = front.timeline.open();
        open.left += 1;
        open.lines.push(at.line);
        self.filter(hw, core, at.line, now);
        self.set_timer(hw, core, now);
        true
    }

    /// From now on, fetches of `line`, to which `core` has stored, wait.
    fn filter<M: Copy + From<Call>>(
        &mut self,
        hw: &mut Hw<M>,
        core: usize,
        line: LineId,
        now: Cycle,
    ) {
        let filter = &mut self.filters[hw.memory.home(line)];
        filter.add(line);
        if filter.holds_up(line) {
            let told = hw.mesh.control(hw.memory_tile(line), core, now);
            let epoch = self.cores[core].timeline.current();
            hw.queue.event(told, Event::Design(Call::Wanted { core: core as u8, epoch }.into()));
        }
    }

    /// The entry in `slot` of `core`'s buffer has reached its destination.
    pub(crate) fn acknowledged<M: Copy>(
        &mut self,
        hw: &mut Hw<M>,
        core: usize,
        slot: u8,
        now: Cycle,
    ) {
        let front = &mut self.cores[core];
        let entry = front.buffer.remove(slot);
        let entries = front.buffer.entries().len();
        hw.detail.note(|tally| tally.buffered(core, entries, now));
        front.timeline.state(entry.epoch).left -= 1;
        for who in front.released() {
            hw.wake(who, now);
        }
    }

    /// Closes the open epoch of `core` and opens the next; returns the number of the closed one.
    pub(crate) fn close<M: Copy>(&mut self, hw: &Hw<M>, core: usize, now: Cycle) -> Epoch {
        let closed = self.cores[core].timeline.close();
        hw.recorder.note(move |tape| tape.closes(core, closed, now));
        closed
    }

    /// Orders the open epoch of `core` after `source`; one that is not empty is closed first.
    pub(crate) fn depend<M: Copy>(&mut self, hw: &Hw<M>, core: usize, source: Source, now: Cycle) {
        let timeline = &mut self.cores[core].timeline;
        let before = timeline.current();
        timeline.depend(source);
        let current = timeline.current();
        hw.recorder.note(move |tape| {
            if current != before {
                tape.closes(core, before, now);
            }
            tape.depends((core, current), (source.core, source.epoch), now);
        });
    }

    /// Makes `who` wait until all epochs of its core up to `epoch` are durable.
    pub(crate) fn wait_for<M: Copy>(
        &mut self,
        hw: &Hw<M>,
        epoch: Epoch,
        who: Waiter,
        now: Cycle,
    ) -> Gate {
        let front = &mut self.cores[who.core];
        if front.timeline.is_durable(epoch) {
            return Gate::Go;
        }
        front.drains.push((epoch, who));
        let on = (who.core, epoch);
        hw.recorder.note(move |tape| tape.waits(who.core, on, Reason::Fence, now));
        Gate::Wait(Reason::Fence)
    }

    /// The oldest epoch of `core`, which is closed, is durable: its waiters continue.
    pub(crate) fn retire<M: Copy>(
        &mut self,
        hw: &mut Hw<M>,
        core: usize,
        now: Cycle,
    ) -> EpochState {
        let front = &mut self.cores[core];
        let state = front.timeline.retire();
        let epoch = front.timeline.durable;
        hw.recorder.note(move |tape| tape.durable(core, epoch, now));
        hw.counters.epochs += u64::from(!state.lines.is_empty());
        for (_, who) in front.drains.extract_if(.., |(last, _)| *last <= epoch) {
            hw.wake(who, now);
        }
        for line in &state.lines {
            self.unfilter(hw, *line, now);
        }
        state
    }

    /// An epoch that wrote `line` is durable; waiting fetches can continue.
    fn unfilter<M: Copy>(&mut self, hw: &mut Hw<M>, line: LineId, now: Cycle) {
        let filter = &mut self.filters[hw.memory.home(line)];
        filter.remove(line);
        for who in filter.released() {
            let told = hw.mesh.control(hw.memory_tile(line), who.core, now);
            hw.wake(who, told);
        }
    }

    /// The epoch of another core to which the answer to `request` belongs, as its core tells it:
    /// the current one, whichever wrote the line. A core that has evicted the line is still asked
    /// (the directory's entry is sticky); after an answer, the shared cache knows what was told.
    pub(crate) fn source<M: Copy>(&self, hw: &Hw<M>, request: &Request) -> Option<Source> {
        let newest = |core: usize| Source { core, epoch: self.cores[core].timeline.newest() };
        let entry = hw.llc.entry(request.slot);
        let source = match hw.owner(request.slot) {
            Some((core, _)) => newest(core),
            None if entry.epoch > 0 && entry.sharers == 0 => newest(entry.writer.into()),
            None => Source { core: entry.writer.into(), epoch: entry.epoch },
        };
        (source.epoch > 0 && source.core != request.who.core).then_some(source)
    }

    fn may_have<M: Copy>(&self, hw: &Hw<M>, line: LineId) -> bool {
        hw.is_pm(line) && self.filters[hw.memory.home(line)].may_have(line)
    }

    /// `who` requests `line` from memory.
    pub(crate) fn fetch<M: Copy + From<Call>>(
        &mut self,
        hw: &mut Hw<M>,
        who: Waiter,
        line: LineId,
        now: Cycle,
    ) -> Gate {
        if !self.may_have(hw, line) {
            return Gate::Go;
        }
        hw.counters.buffered_misses += 1;
        let home = hw.memory.home(line);
        let tile = hw.controller_tile(home);
        let asked = hw.mesh.control(who.core, tile, now);
        let filter = &mut self.filters[home];
        filter.wait(line, who);
        for (core, front) in self.cores.iter().enumerate() {
            let is_it =
                |other: &LineId| hw.memory.home(*other) == home && filter.shares(line, *other);
            if let Some(epoch) = front.timeline.newest_with(is_it) {
                let told = hw.mesh.control(tile, core, asked);
                let call = Call::Wanted { core: core as u8, epoch };
                hw.queue.event(told, Event::Design(call.into()));
                let (on, reason) = ((core, epoch), Reason::BufferedLine);
                hw.recorder.note(move |tape| tape.waits(who.core, on, reason, now));
            }
        }
        Gate::Wait(Reason::BufferedLine)
    }

    /// True if `line` can be fetched ahead of its use.
    pub(crate) fn may_prefetch<M: Copy>(&self, hw: &Hw<M>, line: LineId) -> bool {
        hw.llc.find(line).is_some() || !self.may_have(hw, line)
    }

    fn set_timer<M: Copy + From<Call>>(&mut self, hw: &mut Hw<M>, core: usize, now: Cycle) {
        if !std::mem::replace(&mut self.cores[core].has_timer, true) {
            let at = now + self.sizes.interval;
            hw.queue.event(at, Event::Design(Call::Periodic { core: core as u8 }.into()));
        }
    }

    /// Drains what `core`'s buffer has held for an interval; schedules the next check after another
    /// interval, unless the buffer is empty.
    pub(crate) fn periodic<M: Copy + From<Call>>(
        &mut self,
        hw: &mut Hw<M>,
        core: usize,
        now: Cycle,
    ) {
        let front = &mut self.cores[core];
        front.has_timer = false;
        let Some(entry) = front.buffer.oldest_waiting() else { return };
        let (since, epoch) = (entry.since, entry.epoch);
        if since + self.sizes.interval <= now {
            front.demand(epoch);
        }
        self.set_timer(hw, core, now);
    }
}
