//! Strict persistency (Pelley, Chen, Wenisch, ISCA'14).
//!
//! Persist order is memory order, and a store is visible only after the one before it is durable:
//! a crash leaves memory as it was at that moment. Visibility is sequentially consistent.

use super::order::{NodeId, PersistOrder};
use super::{Persistency, Step, Target};

#[derive(Clone, Default)]
pub(super) struct Strict {
    all: Option<NodeId>,
}

impl Persistency for Strict {
    fn follow(&mut self, step: Step, order: &mut PersistOrder) {
        if let Some(Target { log: line, .. }) = step.act.stores() {
            let all = *self.all.get_or_insert_with(|| order.node(&[]));
            order.store(all, line);
            order.persist_line(line, order.stored(line));
        }
    }

    fn copy(&self) -> Box<dyn Persistency> {
        Box::new(self.clone())
    }
}
