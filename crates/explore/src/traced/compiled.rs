//! What the recording machine offers to compiled programs beyond the seam.
//!
//! Their locked instructions run on the host between two calls, their stores may cover any bytes of
//! a word, and their memory has contents before the machine knows it.

use super::Traced;
use crate::site::Site;
use crate::trace::{Kind, Trace};
use seawall_memory::{Addr, Width};
use std::panic::Location;

impl Traced<'_> {
    /// The next calls are made by the instruction at this address.
    pub fn at_instruction(&self, address: u64) {
        self.instruction.set(Some(Site::Instruction(address)));
    }

    /// Threads of the run.
    pub fn threads(&self) -> usize {
        self.shared.threads()
    }

    /// Sets words from `at` on without a trace: the program had them before.
    pub fn fill(&self, at: Addr, words: impl Iterator<Item = u64>) {
        let region = self.shared.region(at);
        let (first, _) = region.place(at, Width::B8);
        (first as u32..).zip(words).for_each(|(word, value)| region.set_word(word, value));
    }

    /// Stores the bits of `mask` of an aligned word.
    #[track_caller]
    pub fn store_bits_of(&self, at: Addr, mask: u64, value: u64) {
        self.step();
        self.note_access(at, true);
        self.meet(at, false);
        self.settle(Some(at.line()));
        let newest = self.shared.region(at).load(at, Width::B8);
        let mut trace = self.shared.trace.borrow_mut();
        let merged = newest & !mask | value & mask;
        if let Some(store) = self.put(&mut trace, at, Width::B8, merged) {
            self.event(&mut trace, Kind::Store { store }, self.site(Location::caller()));
        }
    }

    /// Begins a locked instruction on one or two aligned words: returns the newest values.
    pub fn lock(&self, at: Addr, words: usize) -> [u64; 2] {
        self.step();
        self.settle(None);
        let mut found = [0; 2];
        for (word, found) in each(at, words).zip(&mut found) {
            self.meet(word, false);
            *found = self.shared.region(word).load(word, Width::B8);
        }
        found
    }

    /// Ends it, with the new words if it stored; if not, it was a plain load. Nothing may come
    /// between.
    #[track_caller]
    pub fn unlock(&self, at: Addr, words: usize, new: Option<[u64; 2]>) {
        let caller = self.site(Location::caller());
        each(at, words).for_each(|word| self.note_access(word, new.is_some()));
        let Some(new) = new else {
            each(at, words).for_each(|word| self.look(word, caller));
            let found = self.shared.region(at).load(at, Width::B8);
            return self
                .shared
                .note_repeat(self.thread, (at, found, caller), || self.pause.pause());
        };
        self.note_fence();
        for (word, new) in each(at, words).zip(new) {
            let mut trace = self.shared.trace.borrow_mut();
            let store = self.put(&mut trace, word, Width::B8, new);
            self.event(&mut trace, Kind::Locked { store }, caller);
        }
        if let Some(visible) = self.shared.visible.borrow_mut().as_mut() {
            visible.locked(self.thread);
        }
    }

    /// Waits until all earlier stores are visible, and all earlier loads are complete (`mfence`).
    #[track_caller]
    pub fn full_fence(&self) {
        self.step();
        self.note_fence();
        self.note(Kind::Locked { store: None });
        if let Some(visible) = self.shared.visible.borrow_mut().as_mut() {
            visible.locked(self.thread);
        }
    }

    /// The run so far, where it is over before its threads are.
    pub fn so_far(&self) -> Trace {
        self.shared.trace.borrow().clone()
    }
}

fn each(at: Addr, words: usize) -> impl Iterator<Item = Addr> {
    (0..words as u64).map(move |word| at.plus(8 * word))
}
