//! BBB: persist buffers with a battery.
//!
//! "BBB: Simplifying Persistent Programming using Battery-Backed Buffers" (HPCA'21), the
//! memory-side organisation. Beside each L1 is a buffer whose entries a battery saves. A store gets
//! its entry before it is visible, and is durable from then on; flushes and fences only order the
//! store buffer. A line is in one buffer at most: stores to it join its entry, and the entry moves,
//! without a write to memory, to the core that writes the line next. From three quarters of its
//! entries on a buffer is written to memory, oldest entry first. An entry whose write is on its way
//! is kept, and saved, until the controller has accepted it; it takes no store and does not move:
//! the next store of its own core to the line gets a new entry behind it, and a store of another
//! core waits.
//!
//! Dirty persistent lines that leave the shared cache, which is inclusive of the buffers, are
//! dropped: the entry of such a line is written then, and a fetch of the line waits for that write.

use crate::config::Machine;
use crate::core::Waiter;
use crate::design::{Design, Store};
use crate::engine::counters::Reason;
use crate::families::buffers::{Buffer, Entry};
use crate::families::params::parameters;
use crate::hw::{Event, Gate, Hw, Request, Token};
use crate::memory::versions::LineData;
use crate::{Cycle, LineId};
use rustc_hash::FxHashMap;
use seawall_memory::Model;
use serde::{Deserialize, Serialize};

pub(super) const ABOUT: &str = "BBB: persist buffers with a battery beside the L1s (HPCA'21).";
pub(super) const MODEL: Option<Model> = Some(Model::Eadr);

parameters! {
    /// The controller's queue is durable (ADR), as in the paper: an entry is free once the queue
    /// has accepted its write. If false, once the write is in the cells.
    adr: bool = true;
    /// Entries of each core's buffer.
    entries: usize = 32, in 1..=255;
    /// The share of the entries, in per cent: when that many are not on their way, the oldest are
    /// written.
    drain_from: usize = 75, in 1..=100;
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
    /// The entry of a line stays where it is when another core writes the line.
    ForgetsMoves,
    /// A store gets its entry some time after it is visible.
    AllocatesLate,
    /// An entry is freed when its write is sent.
    DropsAtSend,
    /// A store joins an entry whose write is on its way.
    JoinsSent,
    /// A line leaves the shared cache before its entry is written.
    ForgetsEvictions,
    /// A store that finds the buffer full takes no entry.
    IgnoresRoom,
    /// A core writes a line while another's write of it is on its way.
    PassesWrites,
}

/// The delay of an entry in cycles under [`Flaw::AllocatesLate`].
const LATE: Cycle = 100;

pub(super) fn design(params: &Params, machine: &Machine, _: LineId) -> Bbb {
    let cores = machine.core.count;
    Bbb {
        drain_from: (params.entries * params.drain_from).div_ceil(100),
        flaw: params.flaw,
        buffers: vec![Buffer::new(params.entries); cores],
        holders: FxHashMap::default(),
        full: vec![Vec::new(); cores],
        written: Vec::new(),
    }
}

/// The messages between the parts of the design.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Message {
    /// The controller has accepted the entry in that slot of `core`'s buffer.
    Accepted { core: u8, slot: u8 },
    /// A store of `core` gets its entry, under the planted bug only.
    Late { core: u8, line: LineId },
}

/// The buffers of all cores.
pub(crate) struct Bbb {
    /// The number of entries not on their way from which on the oldest of them is written.
    drain_from: usize,
    flaw: Flaw,
    buffers: Vec<Buffer>,
    /// The core whose buffer has a line.
    holders: FxHashMap<LineId, u8>,
    /// The waiters for room in the buffer of each core.
    full: Vec<Vec<Waiter>>,
    /// The waiters for the write of a line's entry.
    written: Vec<(LineId, Waiter)>,
}

impl Bbb {
    fn is_flaw(&self, flaw: Flaw) -> bool {
        self.flaw == flaw
    }

    fn holder(&self, line: LineId) -> Option<usize> {
        self.holders.get(&line).map(|core| usize::from(*core))
    }

    /// The slot of the entry of `core` that a store to `line` joins.
    fn joins(&self, core: usize, line: LineId) -> Option<u8> {
        let takes_sent = self.is_flaw(Flaw::JoinsSent);
        let mut entries = self.buffers[core].entries().iter();
        let entry = entries.find(|entry| entry.line == line && (takes_sent || !entry.is_sent));
        entry.map(|entry| entry.slot)
    }

    /// The entry of `line` in another buffer than `core`'s, if it can move.
    fn elsewhere(&self, core: usize, line: LineId) -> Option<(usize, &Entry)> {
        let other = self.holder(line).filter(|other| *other != core)?;
        let mut entries = self.buffers[other].entries().iter();
        entries.find(|entry| entry.line == line).map(|entry| (other, entry))
    }

    /// Allocates an entry for the store of `core` to `line`, with the line's present data.
    fn allocate(&mut self, hw: &mut Hw<Message>, core: usize, line: LineId, at: (LineData, Cycle)) {
        let (data, now) = at;
        let moves = self.elsewhere(core, line).filter(|(_, entry)| !entry.is_sent);
        let moves = moves.map(|(other, entry)| (other, entry.slot));
        if let Some((other, slot)) = moves.filter(|_| !self.is_flaw(Flaw::ForgetsMoves)) {
            // The data came with the line; the old buffer gets a message.
            let told = hw.mesh.control(core, other, now);
            self.give_up(hw, other, slot, told);
        }
        if !self.buffers[core].has_room() {
            return;
        }
        hw.counters.buffered_stores += 1;
        self.buffers[core].push(line, 0, data, now);
        let entries = self.buffers[core].entries().len();
        hw.detail.note(|tally| tally.buffered(core, entries, now));
        self.holders.insert(line, core as u8);
        self.drain_oldest(hw, core, now);
    }

    /// Writes the oldest entries of `core` until fewer than the threshold are not on their way.
    fn drain_oldest(&mut self, hw: &mut Hw<Message>, core: usize, now: Cycle) {
        let waiting = self.buffers[core].waiting();
        for number in self.drain_from..=waiting {
            let Some(entry) = self.buffers[core].oldest_waiting() else { return };
            let (slot, at) = (entry.slot, now + (number - self.drain_from) as Cycle);
            self.send(hw, core, slot, at);
        }
    }

    fn send(&mut self, hw: &mut Hw<Message>, core: usize, slot: u8, at: Cycle) {
        let line = self.buffers[core].send_slot(slot).line;
        let data = *self.buffers[core].data(slot);
        if self.is_flaw(Flaw::DropsAtSend) {
            self.give_up(hw, core, slot, at);
            hw.write_from_buffer(line, &data, core, (at, 0), Token::NONE);
        } else {
            hw.write_from_buffer(line, &data, core, (at, 0), Token::of(core, slot.into()));
        }
    }

    /// Frees the entry in the buffer of `core`, which learns of it at `now`.
    fn give_up(&mut self, hw: &mut Hw<Message>, core: usize, slot: u8, now: Cycle) {
        let line = self.buffers[core].remove(slot).line;
        let entries = self.buffers[core].entries().len();
        hw.detail.note(|tally| tally.buffered(core, entries, now));
        let is_gone = !self.buffers[core].entries().iter().any(|entry| entry.line == line);
        if is_gone && self.holder(line) == Some(core) {
            self.holders.remove(&line);
        }
        // An entry behind it, of a later store, has not been sent and may move.
        let waiting = std::mem::take(&mut self.written);
        for (wanted, who) in waiting {
            if wanted == line {
                let told = hw.mesh.control(core, who.core, now);
                hw.wake(who, told);
            } else {
                self.written.push((wanted, who));
            }
        }
        for who in std::mem::take(&mut self.full[core]) {
            hw.wake(who, now);
        }
    }
}

impl Design for Bbb {
    type Message = Message;
    const DROPS_EVICTIONS: bool = true;

    fn store(&mut self, hw: &mut Hw<Message>, who: Waiter, at: Store, _: Cycle) -> Gate {
        if !hw.is_pm(at.line) || self.joins(who.core, at.line).is_some() {
            return Gate::Go;
        }
        let is_sent = self.elsewhere(who.core, at.line).is_some_and(|(_, entry)| entry.is_sent);
        if is_sent && !matches!(self.flaw, Flaw::PassesWrites | Flaw::ForgetsMoves) {
            self.written.push((at.line, who));
            return Gate::Wait(Reason::InterConflict);
        }
        if self.buffers[who.core].has_room() || self.is_flaw(Flaw::IgnoresRoom) {
            return Gate::Go;
        }
        self.full[who.core].push(who);
        Gate::Wait(Reason::BufferFull)
    }

    fn stored(&mut self, hw: &mut Hw<Message>, core: usize, at: Store, _: u64, now: Cycle) {
        let line = at.line;
        if !hw.is_pm(line) {
            return;
        }
        let data = *hw.data(core, at.way, line);
        if let Some(slot) = self.joins(core, line) {
            self.buffers[core].join(slot, data);
            hw.counters.merged_stores += 1;
        } else if self.is_flaw(Flaw::AllocatesLate) {
            let message = Message::Late { core: core as u8, line };
            hw.queue.event(now + LATE, Event::Design(message));
        } else {
            self.allocate(hw, core, line, (data, now));
        }
    }

    fn order(&mut self, hw: &mut Hw<Message>, _: Waiter, _: Cycle) -> Gate {
        hw.counters.fences += 1;
        Gate::Go
    }

    fn drain(&mut self, hw: &mut Hw<Message>, who: Waiter, now: Cycle) -> Gate {
        self.order(hw, who, now)
    }

    fn miss(&mut self, hw: &mut Hw<Message>, who: Waiter, line: LineId, _: Cycle) -> Gate {
        if self.holder(line).is_none() || self.is_flaw(Flaw::ForgetsEvictions) {
            return Gate::Go;
        }
        self.written.push((line, who));
        hw.counters.buffered_misses += 1;
        Gate::Wait(Reason::BufferedLine)
    }

    fn may_prefetch(&self, hw: &Hw<Message>, _: usize, line: LineId) -> bool {
        hw.llc.find(line).is_some() || self.holder(line).is_none()
    }

    fn may_displace(&self, _: &Hw<Message>, slot: LineId) -> bool {
        self.holder(slot).is_none()
    }

    fn remote(&mut self, hw: &mut Hw<Message>, request: &Request) -> Gate {
        let moves = self.elsewhere(request.who.core, request.line).is_some();
        hw.counters.conflicts_inter += u64::from(moves);
        Gate::Go
    }

    fn evict(&mut self, hw: &mut Hw<Message>, _: Waiter, slot: LineId, now: Cycle) -> Gate {
        let Some(core) = self.holder(slot) else { return Gate::Go };
        let mut entries = self.buffers[core].entries().iter();
        let entry = entries.find(|entry| entry.line == slot && !entry.is_sent);
        if let Some(entry) = entry.map(|entry| entry.slot)
            && !self.is_flaw(Flaw::ForgetsEvictions)
        {
            let told = hw.mesh.control(hw.home_tile(slot), core, now);
            self.send(hw, core, entry, told);
        }
        Gate::Go
    }

    fn written(&mut self, hw: &mut Hw<Message>, token: Token, acknowledged: Cycle) {
        let message = Message::Accepted { core: token.core, slot: token.bank };
        hw.queue.event(acknowledged, Event::Design(message));
    }

    fn message(&mut self, hw: &mut Hw<Message>, message: Message, now: Cycle) {
        match message {
            Message::Accepted { core, slot } => self.give_up(hw, core.into(), slot, now),
            Message::Late { core, line } => {
                let data = hw.newest()[line as usize];
                self.allocate(hw, core.into(), line, (data, now));
            }
        }
    }

    /// Each buffer is saved oldest entry first.
    fn save(&self, _: &Hw<Message>, image: &mut [LineData]) {
        for buffer in &self.buffers {
            for entry in buffer.entries() {
                image[entry.line as usize] = *buffer.data(entry.slot);
            }
        }
    }
}
