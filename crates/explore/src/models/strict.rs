//! Strict persistency (Pelley, Chen, Wenisch, ISCA'14).
//!
//! Persist order is memory order, and a store is visible only after the one before it is durable:
//! a crash leaves memory as it was at that moment, and of a write that is wider than a word, and
//! was being made, any words. Visibility is sequentially consistent.

use super::lanes::Flight;
use super::order::{NodeId, PersistOrder};
use super::{Persistency, Step};

#[derive(Clone, Default)]
pub(super) struct Strict {
    all: Option<NodeId>,
    flight: Flight,
}

impl Persistency for Strict {
    fn follow(&mut self, step: Step, order: &mut PersistOrder) {
        let stores = step.act.stores();
        self.flight.follow(stores, order);
        if let Some(target) = stores {
            let all = *self.all.get_or_insert_with(|| order.node(&[]));
            order.store(all, target.log);
            self.flight.store(target, order);
        }
    }

    fn copy(&self) -> Box<dyn Persistency> {
        Box::new(self.clone())
    }
}
