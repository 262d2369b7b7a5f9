//! Strict persistency by write-through: each store is in NVM before it is visible.
//!
//! MICRO'15, section 2.1: stores persist in program order (S1), and a store cannot be made visible
//! until the store before it has persisted (S2). Here a store is itself durable before it becomes
//! visible, so that a value derived from another thread's value never persists before that value.
//! The line is pinned meanwhile: if it could leave, two cores would write back halves of one line.

use crate::config::Machine;
use crate::core::Waiter;
use crate::design::{Design, Store};
use crate::engine::counters::Reason;
use crate::families::params::parameters;
use crate::hw::{Gate, Hw, Request, Token};
use crate::{Cycle, LineId};
use seawall_memory::Model;

pub(super) const ABOUT: &str =
    "Strict persistency: every store is written through before it is visible.";
pub(super) const MODEL: Option<Model> = Some(Model::Strict);

parameters! {
    /// A write is durable when the controller's queue accepts it (ADR), not when it is in the
    /// cells.
    adr: bool = false;
}

pub(super) fn design(_: &Params, machine: &Machine, _: LineId) -> Strict {
    Strict { writes: vec![Write::default(); machine.core.count] }
}

/// The write-through of one core.
#[derive(Clone, Default)]
struct Write {
    line: Option<LineId>,
    /// When its acknowledgement returns, once that is known.
    done: Option<Cycle>,
    by_program: bool,
    waiting: Vec<Waiter>,
}

/// The write-throughs: at most one per core.
pub(crate) struct Strict {
    writes: Vec<Write>,
}

impl Strict {
    fn pinned(&self, line: LineId) -> Option<usize> {
        self.writes.iter().position(|write| write.line == Some(line))
    }

    fn wait_for(&mut self, core: usize, who: Waiter) -> Gate {
        self.writes[core].waiting.push(who);
        Gate::Wait(Reason::InterConflict)
    }
}

impl Design for Strict {
    type Message = ();
    const COALESCES: bool = false;

    fn store(&mut self, hw: &mut Hw<()>, who: Waiter, at: Store, now: Cycle) -> Gate {
        if !hw.is_pm(at.line) {
            return Gate::Go;
        }
        let write = &mut self.writes[who.core];
        match (write.line, write.done) {
            (None, _) => {
                write.line = Some(at.line);
                write.by_program = who.is_program;
                let mut data = *hw.data(who.core, at.way, at.line);
                if who.is_program {
                    at.lay_over(&mut data);
                } else {
                    hw.cores[who.core].buffer.lay_head_over(&mut data);
                }
                let (bank, home) = (hw.llc.bank(at.line), hw.home_tile(at.line));
                let sent = hw.mesh.data(who.core, home, now + hw.config.l1.latency);
                let through = hw.look_up(bank, sent);
                hw.write_through(at.line, &data, home, through, Token::of(who.core, bank));
                Gate::Wait(Reason::WriteThrough)
            }
            (Some(_), None) => Gate::Wait(Reason::WriteThrough),
            (Some(_), Some(done)) if done > now => Gate::At(done, Reason::WriteThrough),
            (Some(_), Some(_)) => Gate::Go,
        }
    }

    fn stored(&mut self, hw: &mut Hw<()>, core: usize, at: Store, _: u64, now: Cycle) {
        let write = &mut self.writes[core];
        if write.line != Some(at.line) {
            return;
        }
        write.line = None;
        write.done = None;
        // Memory has the value too; the copies in the caches are clean.
        hw.agree(core, at.way, at.line);
        for who in std::mem::take(&mut write.waiting) {
            hw.wake(who, now + 1);
        }
    }

    fn forgone(&mut self, hw: &mut Hw<()>, core: usize, now: Cycle) {
        let write = &mut self.writes[core];
        if let Some(line) = write.line.filter(|_| write.by_program) {
            let way = hw.private[core].find(line).expect("a pinned line stays");
            let at = Store { line, way, word: 0, mask: 0, value: 0 };
            self.stored(hw, core, at, 1, now);
        }
    }

    fn remote(&mut self, _: &mut Hw<()>, request: &Request) -> Gate {
        match self.pinned(request.line) {
            Some(core) if core != request.who.core => self.wait_for(core, request.who),
            _ => Gate::Go,
        }
    }

    fn may_prefetch(&self, _: &Hw<()>, _: usize, line: LineId) -> bool {
        self.pinned(line).is_none()
    }

    fn may_displace(&self, _: &Hw<()>, slot: LineId) -> bool {
        self.pinned(slot).is_none()
    }

    fn spill(&mut self, _: &mut Hw<()>, who: Waiter, _: usize, line: LineId, _: Cycle) -> Gate {
        match self.pinned(line) {
            Some(core) => self.wait_for(core, who),
            None => Gate::Go,
        }
    }

    fn evict(&mut self, _: &mut Hw<()>, who: Waiter, slot: LineId, _: Cycle) -> Gate {
        match self.pinned(slot) {
            Some(core) => self.wait_for(core, who),
            None => Gate::Go,
        }
    }

    fn written(&mut self, hw: &mut Hw<()>, token: Token, acknowledged: Cycle) {
        let core = usize::from(token.core);
        let home = hw.bank_tile(token.bank.into());
        let done = hw.mesh.control(home, core, acknowledged);
        self.writes[core].done = Some(done);
        let is_program = self.writes[core].by_program;
        hw.wake(Waiter { core, is_program }, done);
    }
}
