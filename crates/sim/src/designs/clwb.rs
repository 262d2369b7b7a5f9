//! Today's x86: `clwb` starts the write-back of a line, `sfence` waits for the acknowledgements.
//!
//! A flush leaves the store buffer without waiting for its data, which it fetches from the cache
//! where they are dirty. A core has at most `core.flushes` lines on their way; beyond that the next
//! flush, clean or not, waits in the store buffer and holds up the stores behind it. A fence stays
//! at the head of the store buffer until every flush of its core is durable, which holds up later
//! stores but not later loads (as measured on x86 processors). A locked operation waits in the same
//! way. At a fence, non-temporal stores leave their write-combining buffer, and the fence waits for
//! them as for flushes. A line that is clean because another flush of it is under way is not
//! durable yet: its flush waits for that write. With `adr` a line is durable when the controller's
//! queue has accepted it, without it when it is in the cells (as in MICRO'15).

use crate::Cycle;
use crate::LineId;
use crate::config::Machine;
use crate::core::Waiter;
use crate::design::Design;
use crate::engine::counters::Reason;
use crate::families::params::parameters;
use crate::hw::{Gate, Hw, Token};
use seawall_memory::Model;
use serde::{Deserialize, Serialize};

pub(super) const ABOUT: &str = "x86: clwb and sfence; adr=true makes the controllers' queues safe.";
pub(super) const MODEL: Option<Model> = Some(Model::Px86);

parameters! {
    /// A write is durable when the controller's queue accepts it (ADR), not when it is in the
    /// cells.
    adr: bool = false;
    /// A flush removes the line from all caches (`clflushopt`).
    invalidating: bool = false;
    /// A flush begins only when the last one is durable; with `invalidating` this is `clflush`.
    serial: bool = false;
    /// A planted bug, to test the checks.
    flaw: Flaw = Flaw::None;
}

/// A planted bug in the mechanism.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Flaw {
    /// No planted bug.
    #[default]
    None,
    /// A fence does not wait for flushes on their way to memory.
    FencesEarly,
    /// A flush of a clean line does not wait for the write of it that is under way.
    ForgetsOthersFlushes,
    /// A fence does not wait for non-temporal stores on their way to memory.
    ForgetsStreams,
    /// A core has any number of flushes under way.
    Unlimited,
}

pub(super) fn design(params: &Params, machine: &Machine, _: LineId) -> Clwb {
    let Params { flaw, invalidating, serial, .. } = *params;
    let limit = match flaw {
        Flaw::Unlimited => usize::MAX,
        _ if serial => 1,
        _ => machine.core.flushes(),
    };
    Clwb { flaw, invalidating, limit, cores: vec![Flushes::default(); machine.core.count] }
}

/// The flushes and non-temporal lines of one core for which no fence has waited yet.
#[derive(Clone, Default)]
struct Flushes {
    /// The number of lines that have not reached their controller.
    on_the_way: usize,
    /// When the acknowledgements of the other lines return, in ascending order.
    returning: Vec<Cycle>,
    /// The fence that waits for all of them, or the flush that waits for one.
    waits: Option<(Waiter, Awaited)>,
}

/// The event that wakes a waiting access.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Awaited {
    One,
    All,
}

impl Flushes {
    fn acknowledged(&mut self, back: Cycle) {
        let at = self.returning.partition_point(|other| *other <= back);
        self.returning.insert(at, back);
    }

    /// Removes the acknowledgements that have returned by `now`.
    fn forget(&mut self, now: Cycle) {
        let back = self.returning.partition_point(|back| *back <= now);
        self.returning.drain(..back);
    }
}

/// The flushes in flight of each core.
pub(crate) struct Clwb {
    flaw: Flaw,
    invalidating: bool,
    limit: usize,
    cores: Vec<Flushes>,
}

impl Clwb {
    fn fence(&mut self, who: Waiter, now: Cycle) -> Gate {
        let flushes = &mut self.cores[who.core];
        if flushes.on_the_way > 0 && self.flaw != Flaw::FencesEarly {
            flushes.waits = Some((who, Awaited::All));
            return Gate::Wait(Reason::Fence);
        }
        flushes.forget(now);
        flushes.returning.last().map_or(Gate::Go, |back| Gate::At(*back, Reason::Fence))
    }

    /// Whether the core can start another flush.
    fn room(&mut self, who: Waiter, now: Cycle) -> Gate {
        let flushes = &mut self.cores[who.core];
        flushes.forget(now);
        if flushes.on_the_way + flushes.returning.len() < self.limit {
            return Gate::Go;
        }
        match flushes.returning.first() {
            Some(back) => Gate::At(*back, Reason::FlushesFull),
            None => {
                flushes.waits = Some((who, Awaited::One));
                Gate::Wait(Reason::FlushesFull)
            }
        }
    }
}

impl Design for Clwb {
    type Message = ();
    const USES_FLUSHES: bool = true;
    const COMBINES: bool = true;

    fn flush(&mut self, hw: &mut Hw<()>, who: Waiter, line: LineId, now: Cycle) -> Gate {
        let room = self.room(who, now);
        if room != Gate::Go {
            return room;
        }
        let home = hw.home_tile(line);
        let Some(slot) = hw.llc.find(line) else {
            return self.follow(hw, who, line, home, now);
        };
        if self.invalidating
            && let Some(ready) = hw.still_coming(slot, now)
        {
            return Gate::At(ready + 1, Reason::Fence);
        }
        let (is_dirty, at_bank) = hw.flush(who.core, slot, now);
        self.cores[who.core].on_the_way += usize::from(is_dirty);
        if self.invalidating {
            hw.recall(slot, at_bank);
            hw.llc.invalidate(slot);
        }
        if is_dirty { Gate::Go } else { self.follow(hw, who, line, home, now) }
    }

    fn combined(&mut self, hw: &mut Hw<()>, core: usize, line: LineId) -> Token {
        if self.flaw == Flaw::ForgetsStreams {
            return Token::NONE;
        }
        self.cores[core].on_the_way += 1;
        Token::of(core, hw.llc.bank(line))
    }

    fn order(&mut self, hw: &mut Hw<()>, who: Waiter, now: Cycle) -> Gate {
        let gate = self.fence(who, now);
        hw.counters.fences += u64::from(gate == Gate::Go);
        gate
    }

    fn drain(&mut self, hw: &mut Hw<()>, who: Waiter, now: Cycle) -> Gate {
        self.order(hw, who, now)
    }

    fn locked(&mut self, _: &mut Hw<()>, who: Waiter, now: Cycle) -> Gate {
        self.fence(who, now)
    }

    fn written(&mut self, hw: &mut Hw<()>, token: Token, acknowledged: Cycle) {
        let core = usize::from(token.core);
        let home = hw.bank_tile(token.bank.into());
        let back = hw.mesh.control(home, core, acknowledged);
        let flushes = &mut self.cores[core];
        flushes.on_the_way -= 1;
        flushes.acknowledged(back);
        match flushes.waits {
            Some((who, Awaited::One)) => hw.wake(who, back),
            Some((who, Awaited::All)) if flushes.on_the_way == 0 => {
                let last = flushes.returning.last().copied();
                hw.wake(who, last.unwrap_or(back));
            }
            _ => return,
        }
        flushes.waits = None;
    }
}

impl Clwb {
    /// The line is clean: the flush completes with the last write of it that is under way.
    fn follow(
        &mut self,
        hw: &mut Hw<()>,
        who: Waiter,
        line: LineId,
        home: usize,
        now: Cycle,
    ) -> Gate {
        let under_way = hw.memory.durable_at(line, now);
        match under_way.filter(|_| self.flaw != Flaw::ForgetsOthersFlushes) {
            None => Gate::Go,
            // The write has not reached its controller: repeat the request shortly.
            Some(Cycle::MAX) => Gate::At(now + 8, Reason::Fence),
            Some(durable) => {
                let back = hw.mesh.control(home, who.core, durable);
                self.cores[who.core].acknowledged(back);
                Gate::Go
            }
        }
    }
}
