//! Buffered strict persistency ("Memory Persistency", Pelley, Chen, Wenisch, ISCA'14), as the
//! hardware of "Efficient Persist Barriers for Multicores" (MICRO'15), section 5.2, keeps it.
//!
//! A crash leaves a consistent cut of the execution: of each thread the stores up to some point and
//! none after it, and for each of them everything that the thread's earlier loads and stores
//! conflicted with. A barrier adds nothing; a drain waits until all that the thread has stored is
//! in every cut.
//!
//! In bulk mode hardware chooses epochs of many stores, which its undo log makes atomic. It may end
//! one anywhere: after a number of stores, at a conflict, when the log is full, or when a cache
//! evicts a line. So any store may be the last of its epoch, and a program is promised only a cut.
//!
//! That is [`bep`](super::bep) with a barrier after every write; its head defines conflicts, by
//! line. Programs need no persistency calls: they get strict persistency, buffered.

use super::bep::Bep;
use super::order::PersistOrder;
use super::{Act, Persistency, Step};
use crate::wide::Part;

#[derive(Clone, Default)]
pub(super) struct Bsp {
    bep: Bep,
    /// The write that is being made, and its thread: its barrier comes when something else happens.
    write: Option<(u16, Part)>,
}

impl Persistency for Bsp {
    fn follow(&mut self, step: Step, order: &mut PersistOrder) {
        let write = step.act.stores().map(|target| (step.thread, target.part));
        if let Some((thread, _)) = self.write.take_if(|last| Some(*last) != write) {
            self.bep.follow(Step { thread, act: Act::Order }, order);
        }
        self.bep.follow(step, order);
        match write {
            Some((_, part)) if part.is_torn() => self.write = write,
            Some(_) => self.bep.follow(Step { act: Act::Order, ..step }, order),
            None => {}
        }
    }

    fn copy(&self) -> Box<dyn Persistency> {
        Box::new(self.clone())
    }
}
