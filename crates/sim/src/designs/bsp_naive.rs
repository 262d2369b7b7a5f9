//! Buffered strict persistency by write-through: the naive protocol of MICRO'15, section 7.2.
//!
//! A store is visible at once and goes on through the caches to memory; nothing is coalesced. A
//! core's stores become durable in its order (section 2.1: constraint S1 without S2), and those in
//! its queue are on their way together, as the persistency is buffered: a controller writes a store
//! when the one before it has begun to be written. Where that is at another controller, the core
//! tells it who is next, and it informs that one; so each change of the controller costs a message
//! between the two. Until then the store waits at its controller, which has a place for each in
//! the queues of the cores. A core that requests a line with a store in another core's queue waits
//! until that store is durable, so a value that was read or overwritten never persists later than
//! stores that follow from it. Nothing is logged, as each store is an epoch.

use crate::caches::patience::LOOKS_AGAIN;
use crate::caches::private::Way;
use crate::caches::shared::Slot;
use crate::config::{DeviceConfig, Machine};
use crate::core::Waiter;
use crate::design::{Arrival, Design, Store};
use crate::engine::counters::Reason;
use crate::families::params::parameters;
use crate::hw::writes::Arriving;
use crate::hw::{Event, Gate, Hw, Request, Token};
use crate::memory::controller::Written;
use crate::memory::versions::LineData;
use crate::noc::mesh::Tile;
use crate::{Cycle, LineId};
use seawall_memory::Model;
use serde::{Deserialize, Serialize};
use std::collections::VecDeque;

pub(super) const ABOUT: &str =
    "Naive BSP: stores go through to memory, each behind the one before it.";
pub(super) const MODEL: Option<Model> = Some(Model::Bsp);

parameters! {
    /// A write is durable when the controller's queue accepts it (ADR).
    adr: bool = false;
    /// Stores of a core that are visible and not durable.
    queue: usize = 32, in 1..=1024;
    /// A planted bug in the mechanism, to test the checks.
    flaw: Flaw = Flaw::None;
}

/// A planted bug in the mechanism.
#[derive(Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Flaw {
    /// No planted bug.
    #[default]
    None,
    /// A controller writes a store before the one in front of it.
    IgnoresOrder,
    /// A request does not wait for a store in another core's queue.
    IgnoresConflicts,
    /// A store of several words goes to memory in two messages, the first word ahead of the rest.
    SplitsStores,
}

pub(super) fn design(params: &Params, machine: &Machine, _: LineId) -> Naive {
    let Params { queue, flaw, .. } = *params;
    let queues = vec![Queue::default(); machine.core.count];
    Naive { room: queue, flaw, queues, filter: vec![0; FILTER] }
}

/// The lines that the filter distinguishes.
const FILTER: usize = 4096;

/// A core's stores that are not durable, and their order.
#[derive(Clone, Default)]
struct Queue {
    /// The lines of stores that are not durable, oldest first.
    stores: VecDeque<LineId>,
    /// Stores that no controller has taken yet, oldest first.
    order: VecDeque<Sent>,
    /// Whether the oldest of these may be taken.
    is_next: bool,
    /// Those that are at their controllers.
    held: Vec<Arriving>,
    /// Where the last one that was taken is written, and from when on.
    last: Option<(Tile, Cycle)>,
    waiting: Vec<Waiter>,
}

/// A store on its way to its controller.
#[derive(Clone, Copy)]
struct Sent {
    /// The number of its write.
    number: u64,
    controller: Tile,
    /// When the controller of the store before it knows where it is.
    announced: Cycle,
}

/// Naive BSP.
pub(crate) struct Naive {
    room: usize,
    flaw: Flaw,
    queues: Vec<Queue>,
    /// The number of stores in all queues to each hash of a line, so that most requests need no
    /// search.
    filter: Vec<u32>,
}

/// Messages to a core's queue, and of its stores.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Message {
    /// The core learns that one more of its stores is durable.
    Durable { core: u8 },
    /// The controller of the oldest store that is not taken learns that it is next.
    Next { core: u8 },
}

impl Naive {
    /// The core that has a store to `line` in its queue; at most one has.
    fn holder(&self, line: LineId) -> Option<usize> {
        if self.filter[line as usize % FILTER] == 0 {
            return None;
        }
        self.queues.iter().position(|queue| queue.stores.contains(&line))
    }

    fn wait(&mut self, core: usize, who: Waiter, reason: Reason) -> Gate {
        self.queues[core].waiting.push(who);
        Gate::Wait(reason)
    }

    /// Sends the newest store of `core`, which left `data` in `line`.
    fn send(
        &mut self,
        hw: &mut Hw<Message>,
        core: usize,
        line: LineId,
        data: &LineData,
        now: Cycle,
    ) {
        let (home, bank) = (hw.home_tile(line), hw.llc.bank(line));
        let controller = hw.memory_tile(line);
        let leaves = now + hw.config.l1.latency;
        let sent = hw.mesh.data(core, home, leaves);
        let found = hw.look_up(bank, sent);
        let number = hw.memory.next_number();
        let token = Token::of(core, bank);
        if matches!(self.flaw, Flaw::IgnoresConflicts | Flaw::SplitsStores) {
            // The line can be in the queues twice; each message leaves it dirty.
            hw.write_older(line, data, home, found, token);
        } else {
            hw.write_back(line, home, found, token);
        }
        self.filter[line as usize % FILTER] += 1;
        let queue = &mut self.queues[core];
        queue.stores.push_back(line);
        let before = queue.order.back().map(|sent| sent.controller);
        let announced = match before.or(queue.last.map(|(tile, _)| tile)) {
            Some(tile) if tile != controller => hw.mesh.control(core, tile, leaves),
            _ => now,
        };
        queue.order.push_back(Sent { number, controller, announced });
        if queue.order.len() == 1 {
            self.pass_on(hw, core, now);
        }
    }

    /// The last store of `core` that was taken lets the next one go, which is known.
    fn pass_on(&mut self, hw: &mut Hw<Message>, core: usize, now: Cycle) {
        let queue = &mut self.queues[core];
        let Some(next) = queue.order.front() else { return };
        let at = match queue.last {
            Some((tile, from)) if tile != next.controller => {
                hw.mesh.control(tile, next.controller, from.max(next.announced).max(now))
            }
            Some((_, from)) => from,
            None => now,
        };
        hw.queue.event(at.max(now), Event::Design(Message::Next { core: core as u8 }));
    }
}

impl Design for Naive {
    type Message = Message;
    const COALESCES: bool = false;
    const SEES_ARRIVALS: bool = true;

    fn store(&mut self, hw: &mut Hw<Message>, who: Waiter, at: Store, now: Cycle) -> Gate {
        if hw.is_pm(at.line) && self.queues[who.core].stores.len() >= self.room {
            return self.wait(who.core, who, Reason::WriteThrough);
        }
        if hw.patience.is_due_to_another(who.core, at.line) {
            return Gate::At(now + LOOKS_AGAIN, Reason::InterConflict);
        }
        Gate::Go
    }

    fn stored(&mut self, hw: &mut Hw<Message>, core: usize, at: Store, _: u64, now: Cycle) {
        if !hw.is_pm(at.line) {
            return;
        }
        hw.clean(core, at.way, at.line);
        let data = *hw.data(core, at.way, at.line);
        if self.flaw == Flaw::SplitsStores {
            let mut first = *hw.in_memory(at.line);
            at.lay_over(&mut first);
            self.send(hw, core, at.line, &first, now);
        }
        self.send(hw, core, at.line, &data, now);
    }

    fn drain(&mut self, _: &mut Hw<Message>, who: Waiter, _: Cycle) -> Gate {
        match self.queues[who.core].stores.is_empty() {
            true => Gate::Go,
            false => self.wait(who.core, who, Reason::Fence),
        }
    }

    fn remote(&mut self, _: &mut Hw<Message>, request: &Request) -> Gate {
        match self.holder(request.line) {
            Some(core) if core != request.who.core && self.flaw != Flaw::IgnoresConflicts => {
                self.wait(core, request.who, Reason::InterConflict)
            }
            _ => Gate::Go,
        }
    }

    fn may_prefetch(&self, _: &Hw<Message>, core: usize, line: LineId) -> bool {
        self.holder(line).is_none_or(|holder| holder == core)
    }

    fn may_displace(&self, _: &Hw<Message>, slot: Slot) -> bool {
        self.holder(slot).is_none()
    }

    fn spill(&mut self, _: &mut Hw<Message>, _: Waiter, _: Way, _: LineId, _: Cycle) -> Gate {
        Gate::Go
    }

    fn evict(&mut self, _: &mut Hw<Message>, who: Waiter, slot: Slot, _: Cycle) -> Gate {
        match self.holder(slot) {
            Some(core) => self.wait(core, who, Reason::Replacement),
            None => Gate::Go,
        }
    }

    fn arriving(&mut self, _: &mut Hw<Message>, write: &Arriving, _: Cycle) -> Arrival {
        let Some(queue) = self.queues.get_mut(usize::from(write.token.core)) else {
            return Arrival::USUAL;
        };
        let oldest = queue.order.front().map(|sent| sent.number);
        let is_next = queue.is_next && oldest == Some(write.number);
        if is_next || self.flaw == Flaw::IgnoresOrder {
            return Arrival::USUAL;
        }
        queue.held.push(*write);
        Arrival::Held
    }

    fn arrived(&mut self, hw: &mut Hw<Message>, token: Token, from: Tile, written: Written) {
        let core = usize::from(token.core);
        let begins = match hw.config.memory.nvm {
            // A DIMM reorders what it has: the next one waits until this one is there.
            DeviceConfig { dimms: Some(_), .. } => written.durable,
            nvm => written.durable.saturating_sub(nvm.write).max(written.accepted),
        };
        let queue = &mut self.queues[core];
        queue.order.pop_front();
        (queue.is_next, queue.last) = (false, Some((from, begins)));
        self.pass_on(hw, core, 0);
    }

    fn written(&mut self, hw: &mut Hw<Message>, token: Token, acknowledged: Cycle) {
        let core = usize::from(token.core);
        let back = hw.mesh.control(hw.bank_tile(token.bank.into()), core, acknowledged);
        hw.queue.event(back, Event::Design(Message::Durable { core: token.core }));
    }

    fn message(&mut self, hw: &mut Hw<Message>, message: Message, now: Cycle) {
        match message {
            Message::Durable { core } => {
                let queue = &mut self.queues[usize::from(core)];
                if let Some(line) = queue.stores.pop_front() {
                    self.filter[line as usize % FILTER] -= 1;
                }
                for who in std::mem::take(&mut queue.waiting) {
                    hw.wake(who, now);
                }
            }
            Message::Next { core } => {
                let queue = &mut self.queues[usize::from(core)];
                queue.is_next = true;
                let oldest = queue.order.front().map(|sent| sent.number);
                let held = queue.held.iter().position(|write| Some(write.number) == oldest);
                if let Some(place) = held {
                    hw.comes_again(&queue.held.swap_remove(place), now);
                }
            }
        }
    }
}
