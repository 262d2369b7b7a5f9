//! Buffered strict persistency ("Memory Persistency", Pelley, Chen, Wenisch, ISCA'14), as the
//! hardware of "Efficient Persist Barriers for Multicores" (MICRO'15), section 5.2, keeps it.
//!
//! A crash leaves a consistent cut of the execution: of each thread the stores up to some point and
//! none behind it, and with what a thread stored everything that its loads and stores met before. A
//! barrier adds nothing; a drain waits until all that the thread has stored is in every cut.
//!
//! In bulk mode hardware chooses epochs of many stores, which its undo log makes atomic. It ends
//! them where it likes: after so many stores, where threads meet, when the log is full, for a
//! victim of a cache. So any store may be the last of its epoch, and a program is promised no more
//! than a cut.
//!
//! That is [`bep`](super::bep) with a barrier behind every store: what meets what, and by line, is
//! told there. Programs need no persistency calls: they find strict persistency, late.

use super::bep::Bep;
use super::order::PersistOrder;
use super::{Act, Persistency, Step};

#[derive(Clone, Default)]
pub(super) struct Bsp(Bep);

impl Persistency for Bsp {
    fn follow(&mut self, step: Step, order: &mut PersistOrder) {
        self.0.follow(step, order);
        if step.act.stores().is_some() {
            self.0.follow(Step { act: Act::Order, ..step }, order);
        }
    }

    fn copy(&self) -> Box<dyn Persistency> {
        Box::new(self.clone())
    }
}
