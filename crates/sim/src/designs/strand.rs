//! StrandWeaver: the strands of a thread persist independently of each other.
//!
//! "Relaxed Persist Ordering Using Strand Persistency" (Gogte, Wang, Diestelhorst, Chen,
//! Narayanasamy, Wenisch, ISCA'20). A store to persistent memory takes effect in the L1 and puts
//! the write of its line into the persist queue beside the store queue; the queue passes writes and
//! persist barriers, in order, to one of a few strand buffers. A barrier holds up later entries of
//! its strand buffer only; NewStrand switches to the next strand buffer, round robin; JoinStrand
//! holds up later stores until all writes are durable, and the program only if it drains. A
//! buffer's entry holds no data: the line is read from the L1 when its write is issued. So:
//!
//! - A store to a line whose write stands in another strand, or before a barrier, waits until that
//!   write is issued; one of the same strand and epoch joins it.
//! - A request of another core for a line waits until the strand buffers have written everything up
//!   to the tail at the last store to it; so does a victim of the core's caches whose write is not
//!   durable.
//!
//! Two things differ from the paper. There the program requests each write (CLWB); here the
//! hardware starts one for each store, so that programs for it need no flushes, and a store belongs
//! to a strand as a CLWB does there. And there only requests for ownership wait; here reads wait
//! too, and for the writes of the same epoch as well, because our programs pass their work on by a
//! load of a persisted lock version, not by a JoinStrand before each release of a lock. [`engine`]
//! moves the queues.

use crate::caches::private::Way;
use crate::caches::shared::Slot;
use crate::config::Machine;
use crate::core::Waiter;
use crate::design::{Design, Store};
use crate::engine::counters::Reason;
use crate::families::params::parameters;
use crate::hw::{Event, Gate, Hw, Request, Token};
use crate::{Cycle, Epoch, LineId};
use engine::{Item, Strands};
use seawall_memory::Model;
use serde::{Deserialize, Serialize};

mod engine;

pub(super) const ABOUT: &str = "StrandWeaver: barriers order inside a strand only (ISCA'20).";
pub(super) const MODEL: Option<Model> = Some(Model::Strand);

parameters! {
    /// A write is acknowledged when the controller's queue accepts it, not when it is in the cells.
    adr: bool = false;
    /// Entries of each core's persist queue: writes, barriers and new strands.
    queue: usize = 16, in 1..=255;
    /// Strand buffers of a core.
    buffers: usize = 4, in 1..=8;
    /// Entries of a strand buffer: writes and barriers.
    entries: usize = 4, in 1..=31;
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
    /// A barrier holds up nothing.
    PassesBarriers,
    /// A barrier begins a strand.
    StrandsAtBarriers,
    /// A store joins a write of its line that is in another strand or before a barrier.
    JoinsOlder,
    /// A JoinStrand does not wait.
    JoinsNothing,
    /// A JoinStrand waits for the last strand only.
    JoinsOne,
    /// A request of another core waits until the write of its line is issued, not until it and
    /// those before it are durable.
    AnswersEarly,
}

pub(super) fn design(params: &Params, machine: &Machine, _: LineId) -> StrandWeaver {
    let strands = Strands::new(params.queue, params.buffers, params.entries);
    StrandWeaver { flaw: params.flaw, cores: vec![strands; machine.core.count] }
}

/// The persist queues and strand buffers of all cores.
pub(crate) struct StrandWeaver {
    flaw: Flaw,
    cores: Vec<Strands>,
}

/// The write in this slot of `core`'s strand buffers is durable.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Acknowledged {
    core: u8,
    slot: u8,
}

/// An access that waits for a core's writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Wait {
    who: Waiter,
    line: LineId,
    /// The number of the last write to wait for.
    upto: Epoch,
    /// Whether the waiter takes the line away: the core's own stores to it then yield.
    takes: bool,
}

impl StrandWeaver {
    /// The core whose stores the line in `slot` holds, and the number of the last write that had
    /// been queued by then.
    fn source(&self, hw: &Hw<Acknowledged>, slot: Slot) -> Option<(usize, Epoch)> {
        if let Some((core, way)) = hw.owner(slot) {
            let epoch = hw.private[core].copy(way).epoch;
            if epoch > 0 {
                return Some((core, epoch));
            }
        }
        let entry = hw.llc.entry(slot);
        (entry.epoch > 0).then(|| (entry.writer.into(), entry.epoch))
    }

    /// As [`source`](Self::source), unless all those writes are durable.
    fn unwritten(&self, hw: &Hw<Acknowledged>, slot: Slot) -> Option<(usize, Epoch)> {
        self.source(hw, slot).filter(|(core, upto)| !self.cores[*core].is_durable(*upto))
    }

    fn wait(&mut self, core: usize, wait: Wait, reason: Reason) -> Gate {
        let waits = &mut self.cores[core].waits;
        if !waits.contains(&wait) {
            waits.push(wait);
        }
        Gate::Wait(reason)
    }

    fn wait_for_room(&mut self, who: Waiter, reason: Reason) -> Gate {
        self.cores[who.core].stalled.push(who);
        Gate::Wait(reason)
    }

    /// Puts a barrier or a new strand behind the core's stores.
    fn mark(&mut self, hw: &mut Hw<Acknowledged>, who: Waiter, item: Item, now: Cycle) -> Gate {
        if !self.cores[who.core].has_room() {
            return self.wait_for_room(who, Reason::BufferFull);
        }
        self.cores[who.core].mark(item);
        self.move_on(hw, who.core, now);
        Gate::Go
    }
}

impl Design for StrandWeaver {
    type Message = Acknowledged;
    const HAS_STRANDS: bool = true;

    fn store(&mut self, hw: &mut Hw<Acknowledged>, who: Waiter, at: Store, now: Cycle) -> Gate {
        if !hw.is_pm(at.line) {
            return Gate::Go;
        }
        let own = &mut self.cores[who.core];
        if own.waits.iter().any(|wait| wait.takes && wait.line == at.line) {
            return self.wait_for_room(who, Reason::InterConflict);
        }
        if own.given.0 == at.line && own.given.1 > now {
            return Gate::At(own.given.1, Reason::InterConflict);
        }
        match own.waiting_write(at.line) {
            Some(place) if place == own.place || self.flaw == Flaw::JoinsOlder => Gate::Go,
            Some(_) => {
                if own.refused.replace(at.line) != Some(at.line) {
                    hw.counters.conflicts_intra += 1;
                }
                self.wait_for_room(who, Reason::IntraConflict)
            }
            None if own.has_room() => Gate::Go,
            None => self.wait_for_room(who, Reason::BufferFull),
        }
    }

    fn stored(&mut self, hw: &mut Hw<Acknowledged>, core: usize, at: Store, _: u64, now: Cycle) {
        if !hw.is_pm(at.line) {
            return;
        }
        let own = &mut self.cores[core];
        own.refused = None;
        if own.waiting_write(at.line).is_some() {
            hw.counters.merged_stores += 1;
        } else {
            hw.counters.buffered_stores += 1;
            own.push(at.line);
        }
        hw.private[core].copy_mut(at.way).epoch = own.last;
        self.move_on(hw, core, now);
    }

    fn order(&mut self, hw: &mut Hw<Acknowledged>, who: Waiter, now: Cycle) -> Gate {
        if self.cores[who.core].is_epoch_empty {
            return Gate::Go;
        }
        let is_flaw = self.flaw == Flaw::StrandsAtBarriers;
        let item = if is_flaw { Item::Strand } else { Item::Barrier };
        let gate = self.mark(hw, who, item, now);
        hw.counters.fences += u64::from(gate == Gate::Go);
        gate
    }

    fn strand(&mut self, hw: &mut Hw<Acknowledged>, who: Waiter, now: Cycle) -> Gate {
        if self.cores[who.core].is_strand_empty {
            return Gate::Go;
        }
        let gate = self.mark(hw, who, Item::Strand, now);
        hw.counters.strands += u64::from(gate == Gate::Go);
        gate
    }

    fn join_strands(&mut self, hw: &mut Hw<Acknowledged>, who: Waiter, _: Cycle) -> Gate {
        let own = &self.cores[who.core];
        let upto = match self.flaw {
            Flaw::JoinsNothing => 0,
            Flaw::JoinsOne => own.newest_of_strand(),
            _ => own.last,
        };
        let is_joined = match self.flaw {
            Flaw::JoinsOne => upto == 0,
            _ => own.is_durable(upto),
        };
        if is_joined {
            hw.counters.fences += 1;
            return Gate::Go;
        }
        self.wait(who.core, Wait { who, line: LineId::MAX, upto, takes: false }, Reason::Fence)
    }

    fn drain(&mut self, hw: &mut Hw<Acknowledged>, who: Waiter, now: Cycle) -> Gate {
        self.join_strands(hw, who, now)
    }

    fn remote(&mut self, hw: &mut Hw<Acknowledged>, request: &Request) -> Gate {
        let Request { who, line, slot, .. } = *request;
        if !hw.is_pm(line) {
            return Gate::Go;
        }
        let others = self.unwritten(hw, slot).filter(|(core, _)| *core != who.core);
        let Some((core, upto)) = others else { return Gate::Go };
        if self.flaw == Flaw::AnswersEarly {
            let is_issued = self.cores[core].waiting_write(line).is_none();
            self.cores[core].stalled.extend((!is_issued).then_some(who));
            return if is_issued { Gate::Go } else { Gate::Wait(Reason::InterConflict) };
        }
        let wait = Wait { who, line, upto, takes: true };
        hw.counters.conflicts_inter += u64::from(!self.cores[core].waits.contains(&wait));
        self.wait(core, wait, Reason::InterConflict)
    }

    fn may_prefetch(&self, hw: &Hw<Acknowledged>, core: usize, line: LineId) -> bool {
        let Some(slot) = hw.llc.find(line) else { return true };
        !hw.is_pm(line) || self.unwritten(hw, slot).is_none_or(|(other, _)| other == core)
    }

    fn may_displace(&self, hw: &Hw<Acknowledged>, slot: Slot) -> bool {
        !hw.is_pm(slot) || self.unwritten(hw, slot).is_none()
    }

    fn spill(
        &mut self,
        hw: &mut Hw<Acknowledged>,
        who: Waiter,
        way: Way,
        line: LineId,
        _: Cycle,
    ) -> Gate {
        let copy = hw.private[who.core].copy(way);
        if !hw.is_pm(line) || !copy.is_dirty() {
            return Gate::Go;
        }
        let wait = Wait { who, line, upto: copy.epoch, takes: false };
        self.wait(who.core, wait, Reason::Replacement)
    }

    fn evict(&mut self, hw: &mut Hw<Acknowledged>, who: Waiter, slot: Slot, _: Cycle) -> Gate {
        if !hw.is_pm(slot) {
            return Gate::Go;
        }
        let Some((core, upto)) = self.unwritten(hw, slot) else { return Gate::Go };
        let wait = Wait { who, line: slot, upto, takes: false };
        hw.counters.conflicts_replacement += u64::from(!self.cores[core].waits.contains(&wait));
        self.wait(core, wait, Reason::Replacement)
    }

    fn written(&mut self, hw: &mut Hw<Acknowledged>, token: Token, acknowledged: Cycle) {
        let (core, slot) = (token.core, token.bank);
        let own = &self.cores[usize::from(core)];
        let home = hw.home_tile(own.line_in(slot));
        let back = hw.mesh.control(home, core.into(), acknowledged);
        hw.queue.event(back, Event::Design(Acknowledged { core, slot }));
    }

    fn message(&mut self, hw: &mut Hw<Acknowledged>, message: Acknowledged, now: Cycle) {
        let core = usize::from(message.core);
        self.cores[core].acknowledged(message.slot);
        self.move_on(hw, core, now);
    }
}
