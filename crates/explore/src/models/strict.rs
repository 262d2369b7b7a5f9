//! Strict persistency (Pelley, Chen, Wenisch, ISCA'14), and eADR on the same traces.
//!
//! Persist order is memory order, and a store is visible only after the one before it is durable:
//! a crash leaves memory as it was at that moment. With battery-backed caches (eADR) the reason is
//! another (what is visible is already safe) but on a sequentially consistent trace the images are
//! the same. The crash has to be tried after each store, as no fence stands between them.

use super::{Cut, Family, Persistency, Visit};
use crate::trace::{Event, Trace};

#[derive(Default)]
pub(super) struct Strict {
    stored: Cut,
}

impl Persistency for Strict {
    fn follow(&mut self, trace: &Trace, event: &Event) {
        if let Some(store) = event.kind.store() {
            let line = trace.stores[store as usize].line;
            self.stored.set(line, self.stored.get(line) + 1);
        }
    }

    fn families(&self, _: usize, visit: &mut Visit<'_>) -> bool {
        let _ = visit(Family { base: self.stored.clone(), windows: Vec::new() });
        true
    }

    fn allows(&self, cut: &Cut) -> bool {
        let lines = self.stored.0.len().max(cut.0.len()) as u32;
        (0..lines).all(|line| self.stored.get(line) == cut.get(line))
    }
}
