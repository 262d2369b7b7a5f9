//! Crashes of a recovery: what its stores may leave when power fails again.

use super::Explorer;
use crate::models::State;
use crate::open::Layer;
use crate::phases::PHASES;
use crate::recoveries::{End, Settled};
use crate::trace::Trace;
use crate::tree::NodeId;
use crate::walk::{CrashPoint, is_failure_point};
use rustc_hash::FxBuildHasher;
use std::hash::BuildHasher;
use std::ops::ControlFlow;
use std::ptr;
use std::sync::Arc;

impl Explorer<'_> {
    /// Tries crashes of a recovery that ended here, or tells what they led to elsewhere.
    pub(super) fn crashes_of(
        &mut self,
        node: NodeId,
        recording: Arc<Trace>,
        point: &CrashPoint,
    ) -> ControlFlow<()> {
        let depth = self.events.len() - 1;
        let below = self.known[depth].start(&self.path, &recording, self.seen.image());
        let mut torn = self.torn.clone();
        torn.sort_unstable();
        let end = End {
            tree: self.seen.number_of(self.tree()),
            node,
            below,
            torn: FxBuildHasher.hash_one(torn),
            model: self.options.model,
            phase: PHASES.iter().position(|phase| ptr::eq(phase, self.phase)).map(|at| at as u8),
        };
        if !self.known[depth].exceeded
            && let Some(settled) = self.seen.settled(end)
            && settled.findings.iter().all(|&found| self.is_good(found, point))
        {
            for store in &recording.stores {
                self.known[..depth].iter_mut().for_each(|known| known.read(store.change.word));
            }
            self.findings.extend(&settled.findings);
            self.outcome.states += settled.states;
            self.outcome.nested_points += settled.points;
            self.skipped |= settled.skipped;
            self.cut |= settled.cut;
            return ControlFlow::Continue(());
        }
        let flags = (self.skipped, self.cut);
        (self.skipped, self.cut) = (false, false);
        let from = self.findings.len();
        let (states, points) = (self.outcome.states, self.outcome.nested_points);
        self.nested(recording, point)?;
        let mut findings = self.findings.split_off(from);
        findings.sort_unstable();
        findings.dedup();
        self.findings.extend(&findings);
        if !self.known[depth].exceeded && self.left > 0 {
            let (skipped, cut) = (self.skipped, self.cut);
            let (states, points) =
                (self.outcome.states - states, self.outcome.nested_points - points);
            self.seen.settle(end, Settled { findings, states, points, skipped, cut });
        }
        self.skipped |= flags.0;
        self.cut |= flags.1;
        ControlFlow::Continue(())
    }

    /// Tries crashes during the recorded recovery.
    fn nested(&mut self, recording: Arc<Trace>, point: &CrashPoint) -> ControlFlow<()> {
        self.seen.may_store(&recording);
        self.outer.push(std::mem::take(&mut self.path));
        let bytes = self.image().pm_bytes();
        let mut state = State::new(self.options.model);
        let mut flow = ControlFlow::Continue(());
        for event in 0..=recording.events.len() {
            let here =
                is_failure_point(&recording, event, self.options.model, self.options.thorough);
            if here {
                let grown = state.order.take_grown();
                self.outcome.nested_points += u64::from(!grown.is_empty());
                let order = std::mem::take(&mut state.order);
                self.image().open().push(Layer { trace: recording.clone(), order });
                self.events.push(event);
                let grown_to = recording.grown_before(event).unwrap_or(bytes);
                let is_longer = self.set_bytes(grown_to, self.events.len() - 1);
                flow = self.layer(point, is_longer, &grown);
                self.events.pop();
                state.order = self.image().open().pop().order;
            }
            match recording.events.get(event) {
                Some(next) if flow.is_continue() => state.follow_event(&recording, next),
                _ => break,
            }
        }
        self.set_bytes(bytes, self.events.len());
        self.path = self.outer.pop().expect("it was put there");
        flow
    }

    /// Sets the length of the pool, which recovery knows without a read that a tree would record:
    /// the trees of this part from this depth on are begun anew. False if it is as long as before.
    fn set_bytes(&mut self, bytes: u64, from: usize) -> bool {
        let is_new = self.image().set_bytes(bytes);
        if is_new {
            self.clear_trees(self.part, from);
        }
        is_new
    }
}
