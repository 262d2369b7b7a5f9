//! Buffered strict persistency by write-through: the naive protocol of MICRO'15, section 7.2.
//!
//! A store is visible at once and goes on through the caches to memory, behind earlier stores:
//! nothing is coalesced, and a store is sent when the one before it is durable (section 2.1:
//! constraint S1 without S2). A queue of a few stores per core hides some of the latency. A core
//! that requests a line with a store in another core's queue waits until that store is durable, so
//! a value that was read or overwritten never persists later than stores that follow from it.
//! Nothing is logged, as each store is an epoch.

use crate::caches::patience::LOOKS_AGAIN;
use crate::caches::private::Way;
use crate::caches::shared::Slot;
use crate::config::Machine;
use crate::core::Waiter;
use crate::design::{Design, Store};
use crate::engine::counters::Reason;
use crate::families::params::parameters;
use crate::hw::{Event, Gate, Hw, Request, Token};
use crate::memory::versions::LineData;
use crate::{Cycle, LineId};
use seawall_memory::Model;
use serde::{Deserialize, Serialize};
use std::collections::VecDeque;

pub(super) const ABOUT: &str =
    "Naive BSP: stores go through to memory one after the other, behind the program.";
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
    /// A store is sent before the one in front of it is durable.
    SendsAtOnce,
    /// A request does not wait for a store in another core's queue.
    IgnoresConflicts,
}

pub(super) fn design(params: &Params, machine: &Machine, _: LineId) -> Naive {
    let Params { queue, flaw, .. } = *params;
    Naive { room: queue, flaw, queues: vec![Queue::default(); machine.core.count] }
}

/// A core's stores that are not durable, oldest first; the oldest is on its way.
#[derive(Clone, Default)]
struct Queue {
    stores: VecDeque<(LineId, LineData)>,
    waiting: Vec<Waiter>,
}

/// Naive BSP: at most one store per core is on its way.
pub(crate) struct Naive {
    room: usize,
    flaw: Flaw,
    queues: Vec<Queue>,
}

/// The oldest store of a core is durable.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Durable {
    core: u8,
}

impl Naive {
    /// The core that has a store to `line` in its queue; at most one has.
    fn holder(&self, line: LineId) -> Option<usize> {
        self.queues.iter().position(|queue| queue.stores.iter().any(|(of, _)| *of == line))
    }

    fn wait(&mut self, core: usize, who: Waiter, reason: Reason) -> Gate {
        self.queues[core].waiting.push(who);
        Gate::Wait(reason)
    }

    /// Sends the store at `place` behind the oldest of `core`, if there is one.
    fn send(&mut self, hw: &mut Hw<Durable>, core: usize, place: usize, now: Cycle) {
        let stores = &self.queues[core].stores;
        let Some((line, data)) = stores.get(place).copied() else { return };
        // Under the planted bug two cores can have the line in their queues; both leave it dirty.
        let is_last = self.flaw != Flaw::IgnoresConflicts
            && stores.iter().skip(place + 1).all(|(of, _)| *of != line);
        let home = hw.home_tile(line);
        let bank = hw.llc.bank(line);
        let sent = hw.mesh.data(core, home, now + hw.config.l1.latency);
        let found = hw.look_up(bank, sent);
        let token = Token::of(core, bank);
        if is_last {
            hw.write_back(line, home, found, token);
        } else {
            hw.write_older(line, &data, home, found, token);
        }
    }
}

impl Design for Naive {
    type Message = Durable;
    const COALESCES: bool = false;

    fn store(&mut self, hw: &mut Hw<Durable>, who: Waiter, at: Store, now: Cycle) -> Gate {
        if hw.is_pm(at.line) && self.queues[who.core].stores.len() >= self.room {
            return self.wait(who.core, who, Reason::WriteThrough);
        }
        if hw.patience.is_due_to_another(who.core, at.line) {
            return Gate::At(now + LOOKS_AGAIN, Reason::InterConflict);
        }
        Gate::Go
    }

    fn stored(&mut self, hw: &mut Hw<Durable>, core: usize, at: Store, _: u64, now: Cycle) {
        if !hw.is_pm(at.line) {
            return;
        }
        hw.clean(core, at.way, at.line);
        let data = *hw.data(core, at.way, at.line);
        self.queues[core].stores.push_back((at.line, data));
        let before = self.queues[core].stores.len() - 1;
        if before == 0 || self.flaw == Flaw::SendsAtOnce {
            self.send(hw, core, before, now);
        }
    }

    fn drain(&mut self, _: &mut Hw<Durable>, who: Waiter, _: Cycle) -> Gate {
        match self.queues[who.core].stores.is_empty() {
            true => Gate::Go,
            false => self.wait(who.core, who, Reason::Fence),
        }
    }

    fn remote(&mut self, _: &mut Hw<Durable>, request: &Request) -> Gate {
        match self.holder(request.line) {
            Some(core) if core != request.who.core && self.flaw != Flaw::IgnoresConflicts => {
                self.wait(core, request.who, Reason::InterConflict)
            }
            _ => Gate::Go,
        }
    }

    fn may_prefetch(&self, _: &Hw<Durable>, core: usize, line: LineId) -> bool {
        self.holder(line).is_none_or(|holder| holder == core)
    }

    fn may_displace(&self, _: &Hw<Durable>, slot: Slot) -> bool {
        self.holder(slot).is_none()
    }

    fn spill(&mut self, _: &mut Hw<Durable>, _: Waiter, _: Way, _: LineId, _: Cycle) -> Gate {
        Gate::Go
    }

    fn evict(&mut self, _: &mut Hw<Durable>, who: Waiter, slot: Slot, _: Cycle) -> Gate {
        match self.holder(slot) {
            Some(core) => self.wait(core, who, Reason::Replacement),
            None => Gate::Go,
        }
    }

    fn written(&mut self, hw: &mut Hw<Durable>, token: Token, acknowledged: Cycle) {
        let core = usize::from(token.core);
        let back = hw.mesh.control(hw.bank_tile(token.bank.into()), core, acknowledged);
        hw.queue.event(back, Event::Design(Durable { core: token.core }));
    }

    fn message(&mut self, hw: &mut Hw<Durable>, message: Durable, now: Cycle) {
        let core = usize::from(message.core);
        self.queues[core].stores.pop_front();
        for who in std::mem::take(&mut self.queues[core].waiting) {
            hw.wake(who, now);
        }
        if self.flaw != Flaw::SendsAtOnce {
            self.send(hw, core, 0, now);
        }
    }
}
