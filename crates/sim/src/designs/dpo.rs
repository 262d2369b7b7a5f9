//! DPO: delegated persist ordering.
//!
//! "Delegated Persist Ordering" (MICRO'16). The persist buffer of a core holds its stores to
//! persistent memory and its fences in order, and sends them to the controller at once, without
//! waiting for durability. A fence goes into the controller's queue as a marker, and the queue
//! reorders writes only between markers; it does not distinguish cores, so a marker orders the
//! writes of all cores. The buffers are in the coherence domain: a core that takes a line from
//! another core's buffer gets the ID of its entry (core and number). Such dependences accumulate
//! (`AccumDP`) into the next entry of the buffer, which is not sent before the entries on which it
//! depends have reached the controller; the ID of every entry that has is broadcast.
//!
//! The design was made for one controller. With several, a marker goes to all of them and takes
//! effect in all at once, when the farthest knows that all have it; writes behind it start when all
//! have completed the writes before it; a core sends the entries behind its marker when the marker
//! is in place. So each fence costs messages between all pairs of controllers: it does not scale.
//!
//! In the paper a dependence orders the entries behind the reader's next fence, as on a relaxed
//! machine. The model here (that of HOPS) orders all later stores of the reader, so an entry with a
//! dependence gets a marker of its own in front. For that, the address of an entry that has left
//! stays in a filter of its core until everything that had reached the controllers by then is
//! durable (the paper has a Bloom filter in each fence entry). Dirty lines that leave the shared
//! cache are dropped; a fetch of a line that is in a buffer waits until it has left the buffer. A
//! drain, which is not in the paper, is a fence that waits until everything before its marker is
//! durable. [`engine`] sends the entries.

use crate::config::Machine;
use crate::core::Waiter;
use crate::design::{Design, Store};
use crate::engine::counters::Reason;
use crate::families::buffers::Filter;
use crate::families::params::parameters;
use crate::hw::{Event, Gate, Hw, Request, Token};
use crate::memory::controller::Written;
use crate::memory::versions::LineData;
use crate::noc::mesh::Tile;
use crate::{Cycle, Epoch, LineId};
use engine::Sender;
use seawall_memory::Model;
use serde::{Deserialize, Serialize};
use std::collections::VecDeque;

mod engine;

pub(super) const ABOUT: &str =
    "DPO: persist buffers that leave the order to the controller's queue (MICRO'16).";
pub(super) const MODEL: Option<Model> = Some(Model::Hops);

parameters! {
    /// A write is durable when the controller's queue accepts it, not when it is in the cells; the
    /// queue then needs no markers.
    adr: bool = false;
    /// Entries of each core's persist buffer, fences included (HPCA'21).
    entries: usize = 8, in 1..=255;
    /// Base-2 logarithm of the counters of each core's filter (unpublished).
    filter_bits: u32 = 10, in 4..=20;
    /// Stores to one line without a fence in between share an entry that has not been sent.
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
    /// A core that takes a line learns no ID.
    DropsDependences,
    /// A fence forgets the dependences that loads have accumulated.
    ForgetsAccumulated,
    /// The queues reorder across markers.
    IgnoresMarkers,
    /// Only the first controller gets markers.
    MarksOneController,
    /// Another core's write creates no dependence once it has left its buffer.
    ForgetsSent,
    /// A store joins an entry in front of a later fence.
    JoinsAcrossFences,
    /// Memory is read while a newer version is in a buffer.
    IgnoresBuffered,
    /// A drain does not wait.
    DrainsEarly,
}

pub(super) fn design(params: &Params, machine: &Machine, _: LineId) -> Dpo {
    let cores = machine.core.count;
    let controllers = machine.memory.controllers;
    let of_core = || Buffer {
        entries: VecDeque::new(),
        free: (0..params.entries as u8).rev().collect(),
        last: 0,
        gone: 0,
        segment: 0,
        accumulated: vec![0; cores],
        is_behind: false,
        has_stored: false,
        sender: Sender::new(controllers),
        drain: Drain::Done,
        full: Vec::new(),
        filter: Filter::new(1 << params.filter_bits),
    };
    Dpo {
        controllers,
        merges: params.merges,
        flaw: params.flaw,
        buffers: (0..cores).map(|_| of_core()).collect(),
        fetches: Vec::new(),
    }
}

/// An entry of a persist buffer.
struct Entry {
    slot: u8,
    number: u32,
    content: Content,
    /// The IDs that must have gone before: a core, and the number of its entry.
    depends_on: Vec<(u8, u32)>,
    /// Whether a marker must be in front of it.
    needs_marker: bool,
    is_sent: bool,
    /// Whether it has its place in the order of the controllers.
    is_gone: bool,
}

enum Content {
    Store { line: LineId, data: LineData, segment: Epoch },
    Fence { is_drain: bool },
}

impl Entry {
    fn has(&self, line: LineId) -> bool {
        matches!(self.content, Content::Store { line: other, .. } if other == line)
    }
}

/// The progress of a core's last drain.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Drain {
    /// The drain is complete, and no store has followed.
    Done,
    /// Stores have followed since the last drain.
    Stale,
    /// The fence of the drain is on its way.
    Waits(Waiter),
}

/// The parts of a core beside its L1.
struct Buffer {
    entries: VecDeque<Entry>,
    free: Vec<u8>,
    /// The number of the newest entry.
    last: u32,
    /// All entries up to this number are gone.
    gone: u32,
    /// Counts the fences and dependences across which no store can be merged.
    segment: Epoch,
    /// `AccumDP`: for each core the newest entry that the next one here depends on.
    accumulated: Vec<u32>,
    /// Whether the next store comes after another core's store that has left its buffer.
    is_behind: bool,
    /// Whether there has been a store since the last fence.
    has_stored: bool,
    sender: Sender,
    drain: Drain,
    /// The waiters for an entry.
    full: Vec<Waiter>,
    /// Lines that have left the buffer, until they and everything before them are durable.
    filter: Filter,
}

impl Buffer {
    fn depends(&self) -> bool {
        self.is_behind || self.accumulated.iter().any(|number| *number > 0)
    }

    fn push(&mut self, content: Content) {
        let depends_on = self.accumulated.iter_mut().enumerate();
        let depends_on = depends_on.filter(|(_, number)| **number > 0);
        let depends_on: Vec<_> =
            depends_on.map(|(core, number)| (core as u8, std::mem::take(number))).collect();
        let needs_marker = std::mem::take(&mut self.is_behind) || !depends_on.is_empty();
        self.last += 1;
        self.entries.push_back(Entry {
            slot: self.free.pop().expect("room"),
            number: self.last,
            content,
            depends_on,
            needs_marker,
            is_sent: false,
            is_gone: false,
        });
    }
}

/// The messages between the parts of the design.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Message {
    /// The queue at `from` has accepted the write in this slot of `core`'s buffer.
    Accepted { core: u8, slot: u8, from: u8 },
    /// All cores know that the entry in this slot has gone.
    Gone { core: u8, slot: u8 },
    /// A marker of `core` takes effect; `slot` is its fence, if it belongs to one.
    Marker { core: u8, slot: Option<u8> },
    /// `core` learns that its marker is in place.
    InPlace { core: u8, slot: Option<u8> },
    /// Controllers have completed the writes before a marker, and inform each other.
    Complete,
    /// The first controller learns that everything before a drain of `core` is durable.
    Drained { core: u8 },
    /// The acknowledgement of the drain reaches the core.
    Told { core: u8 },
    /// A line that has left `core`'s buffer is durable, and everything before it too.
    Settled { core: u8, line: LineId },
}

/// The persist buffers of all cores.
pub(crate) struct Dpo {
    controllers: usize,
    merges: bool,
    flaw: Flaw,
    buffers: Vec<Buffer>,
    /// The waiters to fetch a line that is in a buffer.
    fetches: Vec<(LineId, Waiter)>,
}

impl Dpo {
    fn is_flaw(&self, flaw: Flaw) -> bool {
        self.flaw == flaw
    }

    fn is_buffered(&self, line: LineId) -> bool {
        self.buffers.iter().any(|buffer| buffer.entries.iter().any(|entry| entry.has(line)))
    }

    /// The entry that a store of `core` to `line` joins.
    fn joins(&mut self, core: usize, line: LineId) -> Option<&mut LineData> {
        let crosses = self.is_flaw(Flaw::JoinsAcrossFences);
        let buffer = &mut self.buffers[core];
        if !self.merges || buffer.depends() && !crosses {
            return None;
        }
        let current = buffer.segment;
        let waiting = buffer.entries.iter_mut().rev().take_while(|entry| !entry.is_sent);
        waiting.filter(|entry| entry.has(line)).find_map(|entry| match &mut entry.content {
            Content::Store { data, segment, .. } if crosses || *segment == current => Some(data),
            _ => None,
        })
    }

    /// `core` takes `line`, and learns the entries on which that makes it depend.
    fn learn(&mut self, hw: &mut Hw<Message>, core: usize, line: LineId, now: Cycle) {
        if self.is_flaw(Flaw::DropsDependences) {
            return;
        }
        for other in (0..self.buffers.len()).filter(|other| *other != core) {
            let mut entries = self.buffers[other].entries.iter().rev();
            let found = entries.find(|entry| entry.has(line)).map(|entry| entry.number);
            let is_sent =
                self.buffers[other].filter.may_have(line) && !self.is_flaw(Flaw::ForgetsSent);
            if found.is_none() && !is_sent {
                continue;
            }
            let snooped = hw.mesh.control(hw.home_tile(line), other, now);
            hw.mesh.control(other, core, snooped);
            hw.counters.conflicts_inter += 1;
            hw.counters.dependences += u64::from(found.is_some());
            let buffer = &mut self.buffers[core];
            match found {
                Some(number) => {
                    buffer.accumulated[other] = buffer.accumulated[other].max(number);
                }
                None => buffer.is_behind = true,
            }
            if buffer.drain == Drain::Done {
                buffer.drain = Drain::Stale;
            }
        }
    }

    /// Puts a fence into the buffer of `who`'s core.
    fn fence(&mut self, hw: &mut Hw<Message>, who: Waiter, is_drain: bool, now: Cycle) -> Gate {
        let forgets = self.is_flaw(Flaw::ForgetsAccumulated);
        let buffer = &mut self.buffers[who.core];
        if buffer.free.is_empty() {
            buffer.full.push(who);
            return Gate::Wait(Reason::BufferFull);
        }
        if forgets {
            buffer.accumulated.fill(0);
        }
        buffer.push(Content::Fence { is_drain });
        hw.detail.note(|tally| tally.buffered(who.core, buffer.entries.len(), now));
        buffer.segment += 1;
        buffer.has_stored = false;
        hw.counters.fences += 1;
        self.send(hw, who.core, now);
        Gate::Go
    }
}

impl Design for Dpo {
    type Message = Message;
    const DROPS_EVICTIONS: bool = true;

    fn store(&mut self, hw: &mut Hw<Message>, who: Waiter, at: Store, _: Cycle) -> Gate {
        let has_room = !self.buffers[who.core].free.is_empty();
        if has_room || !hw.is_pm(at.line) || self.joins(who.core, at.line).is_some() {
            return Gate::Go;
        }
        self.buffers[who.core].full.push(who);
        Gate::Wait(Reason::BufferFull)
    }

    fn stored(&mut self, hw: &mut Hw<Message>, core: usize, at: Store, _: u64, now: Cycle) {
        let line = at.line;
        if !hw.is_pm(line) {
            return;
        }
        let data = *hw.data(core, at.way, line);
        if let Some(joined) = self.joins(core, line) {
            *joined = data;
            hw.counters.merged_stores += 1;
            return;
        }
        hw.counters.buffered_stores += 1;
        let buffer = &mut self.buffers[core];
        buffer.segment += Epoch::from(buffer.depends());
        buffer.push(Content::Store { line, data, segment: buffer.segment });
        hw.detail.note(|tally| tally.buffered(core, buffer.entries.len(), now));
        buffer.has_stored = true;
        buffer.drain = Drain::Stale;
        self.send(hw, core, now);
    }

    fn order(&mut self, hw: &mut Hw<Message>, who: Waiter, now: Cycle) -> Gate {
        let buffer = &self.buffers[who.core];
        if buffer.has_stored || buffer.depends() {
            return self.fence(hw, who, false, now);
        }
        Gate::Go
    }

    fn drain(&mut self, hw: &mut Hw<Message>, who: Waiter, now: Cycle) -> Gate {
        match self.buffers[who.core].drain {
            Drain::Done => return Gate::Go,
            Drain::Stale if self.is_flaw(Flaw::DrainsEarly) => return self.order(hw, who, now),
            Drain::Stale => {}
            Drain::Waits(_) => return Gate::Wait(Reason::Fence),
        }
        let gate = self.fence(hw, who, true, now);
        if gate != Gate::Go {
            return gate;
        }
        self.buffers[who.core].drain = Drain::Waits(who);
        Gate::Wait(Reason::Fence)
    }

    fn remote(&mut self, hw: &mut Hw<Message>, request: &Request) -> Gate {
        if hw.is_pm(request.line) {
            self.learn(hw, request.who.core, request.line, request.now);
        }
        Gate::Go
    }

    fn miss(&mut self, hw: &mut Hw<Message>, who: Waiter, line: LineId, now: Cycle) -> Gate {
        if !hw.is_pm(line) {
            return Gate::Go;
        }
        if self.is_buffered(line) && !self.is_flaw(Flaw::IgnoresBuffered) {
            self.fetches.push((line, who));
            hw.counters.buffered_misses += 1;
            return Gate::Wait(Reason::BufferedLine);
        }
        self.learn(hw, who.core, line, now);
        Gate::Go
    }

    fn may_prefetch(&self, hw: &Hw<Message>, _: usize, line: LineId) -> bool {
        !hw.is_pm(line) || hw.llc.find(line).is_some() || !self.is_buffered(line)
    }

    fn arrived(&mut self, hw: &mut Hw<Message>, token: Token, from: Tile, written: Written) {
        let message = Message::Accepted { core: token.core, slot: token.bank, from: from as u8 };
        hw.queue.event(written.accepted, Event::Design(message));
    }

    fn message(&mut self, hw: &mut Hw<Message>, message: Message, now: Cycle) {
        self.receive(hw, message, now);
    }
}
