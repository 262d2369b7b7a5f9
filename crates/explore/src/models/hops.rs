//! HOPS: "An Analysis of Persistent Memory Use with WHISPER" (Nalli, Haria, Hill, Swift, Volos,
//! Keeton, ASPLOS'17), section 5.
//!
//! - `ofence` (order) ends the thread's epoch: its stores enter the persist buffer before those of
//!   the next epoch, and buffers drain in epoch order. It does not wait.
//! - `dfence` (drain) ends it too, and waits until the thread's persist buffer is empty.
//! - A load or store that takes a line away from another thread's persist buffer notes that
//!   thread's epoch as a dependence; an open epoch of the source is split there.
//!
//! Which images that leaves open is the same as for the lazy barriers of MICRO'15 (`bep`): the
//! machines differ in where stores wait, not in what may be lost.

use super::bep::Bep;
use super::order::PersistOrder;
use super::{Persistency, Step};

#[derive(Clone, Default)]
pub(super) struct Hops(Bep);

impl Persistency for Hops {
    fn follow(&mut self, step: Step, order: &mut PersistOrder) {
        self.0.follow(step, order);
    }

    fn copy(&self) -> Box<dyn Persistency> {
        Box::new(self.clone())
    }
}
