//! Strand persistency: "Memory Persistency" (Pelley, Chen, Wenisch, ISCA'14), section 5, as
//! "Relaxed Persist Ordering Using Strand Persistency" (StrandWeaver: Gogte, Wang, Diestelhorst,
//! Chen, Narayanasamy, Wenisch, ISCA'20) builds it in hardware.
//!
//! - A strand is to persists what a thread is: a persist barrier (order) orders inside it only, and
//!   a new strand starts without what the old one had to follow, its conflicts included.
//! - The stores of one line persist in the order in which they took effect, of any
//!   strands (strong persist atomicity), each with all that is ordered before it. So a strand that
//!   stores to a line of an earlier strand of its thread follows that store, and no more.
//! - A load or store of a line that another *thread* stored to last is a conflict as in `bep`: the
//!   strand persists from there on after what that thread's strand had done up to the store. A load
//!   of what the own thread stored orders nothing: no hardware sees it.
//! - A join orders all that the thread did, in whatever strands, before all that it does then, in
//!   whatever strands. A drain waits until all of that is durable.
//!
//! With one strand a thread this is `bep`.

use super::bep::Bep;
use super::order::PersistOrder;
use super::{Act, Persistency, Step};

#[derive(Clone, Default)]
pub(super) struct Strand(Bep);

impl Persistency for Strand {
    fn follow(&mut self, step: Step, order: &mut PersistOrder) {
        match step.act {
            Act::Strand => self.0.begin_strand(step.thread, order),
            _ => self.0.follow(step, order),
        }
    }

    fn copy(&self) -> Box<dyn Persistency> {
        Box::new(self.clone())
    }
}
