//! The machine that records, for compiled programs: their locked instructions run on the host
//! between two calls, their stores may cover any bytes of any words, and their memory has contents
//! before the machine knows it.

use crate::access::Use;
use crate::site::Site;
use crate::trace::{Kind, Trace};
use crate::traced::{Traced, each};
use crate::wide::Part;
use seawall_memory::{Addr, LINE_BYTES, Width};
use std::panic::Location;

impl Traced<'_> {
    /// The next calls are made by the instruction at this address.
    pub fn at_instruction(&self, address: u64) {
        self.instruction.set(Some(Site::Instruction(address)));
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
        self.store_part(at, mask, value & mask, self.part.get());
    }

    /// Stores such words with one instruction: they have no order.
    #[track_caller]
    pub fn store_words(&self, words: impl Iterator<Item = (Addr, u64, u64)>) {
        let pieces: Vec<(Addr, u64, u64)> =
            words.map(|(at, mask, value)| (at, mask, value & mask)).collect();
        let part = match self.part.get() {
            Part::Alone => self.shared.writes.of_words(pieces.len()),
            outer => outer,
        };
        self.store_pieces(pieces, part);
    }

    /// What is stored until `end_copy` is one write, whose pieces have no order.
    pub fn begin_copy(&self) {
        self.part.set(self.shared.writes.of_words(usize::MAX));
    }

    /// Ends what `begin_copy` began.
    pub fn end_copy(&self) {
        self.part.set(Part::Alone);
    }

    /// Writes a line past the caches, as one (`movdir64b`).
    #[track_caller]
    pub fn write_line(&self, at: Addr, from: [u64; LINE_BYTES as usize / 8]) {
        self.step();
        let (part, caller) = (self.shared.writes.whole(), self.site(Location::caller()));
        self.note_access(at, Use::StoreNt);
        for (at, value) in each(at, from.len()).zip(from) {
            self.meet(at, false);
            self.store_nt((at, u64::MAX, value), part, caller);
        }
    }

    /// Begins a locked instruction on one or two aligned words: returns the newest values.
    pub fn lock(&self, at: Addr, words: usize) -> [u64; 2] {
        self.step();
        let mut found = [0; 2];
        for (word, found) in each(at, words).zip(&mut found) {
            self.meet(word, false);
            let newest = self.shared.region(word).load(word, Width::B8);
            *found = self.with_buffered(word, newest);
        }
        found
    }

    /// Ends it, with the new words if it stored; if not, its compare has failed. Nothing may come
    /// between.
    #[track_caller]
    pub fn unlock(&self, at: Addr, words: usize, new: Option<[u64; 2]>) {
        let caller = self.site(Location::caller());
        let does = if new.is_some() { Use::Exchange } else { Use::Load };
        for word in each(at, words) {
            self.note_access(word, does);
            let newest = self.shared.region(word).load(word, Width::B8);
            self.shared.note_returned(self.with_buffered(word, newest));
        }
        let Some(new) = new else {
            each(at, words).skip(1).for_each(|word| self.look(word, caller));
            let found = self.with_buffered(at, self.shared.region(at).load(at, Width::B8));
            return self.fail(at, found, caller);
        };
        let found: Vec<u64> =
            each(at, words).map(|word| self.shared.region(word).load(word, Width::B8)).collect();
        let changes = found != new[..words];
        self.note_locked(changes);
        let part = self.shared.writes.of_words(words);
        for (word, new) in each(at, words).zip(new) {
            let mut trace = self.shared.trace.borrow_mut();
            let store = self.put_by(self.thread, &mut trace, (word, u64::MAX, new), part);
            self.event(&mut trace, Kind::Locked { store }, caller);
        }
        if let Some(visible) = self.shared.visible.borrow_mut().as_mut() {
            visible.locked(self.thread);
        }
        if !changes {
            self.shared.note_repeat(self.thread, (at, new[0], caller), || self.pause.pause());
        }
    }

    /// The system comes to the queue of those that sleep on this aligned word: the newest value of
    /// the word. Schedules differ in the order of such looks, and of these and stores to the word.
    #[track_caller]
    pub fn look_at_queue(&self, at: Addr) -> u64 {
        self.step();
        self.note_access(at, Use::Queue);
        self.meet(at, false);
        self.look(at, self.site(Location::caller()));
        let value = self.shared.region(at).load(at, Width::B8);
        self.shared.note_returned(value);
        value
    }

    /// Sleeps until another thread has set the word, and clears it. Nothing is loaded before that:
    /// what wakes the thread is all that it depends on.
    #[track_caller]
    pub fn sleep_until_set(&self, at: Addr) {
        self.shared.sleep(self.thread, at, || self.pause.pause());
        self.step();
        self.note_access(at, Use::Wake);
        self.meet(at, false);
        self.look(at, self.site(Location::caller()));
        let mut trace = self.shared.trace.borrow_mut();
        self.put_by(self.thread, &mut trace, (at, u64::MAX, 0), Part::Alone);
    }

    /// Waits until all earlier stores are visible, and all earlier loads are complete (`mfence`).
    #[track_caller]
    pub fn full_fence(&self) {
        self.step();
        self.note_full_fence();
        self.note(Kind::Locked { store: None });
        if let Some(visible) = self.shared.visible.borrow_mut().as_mut() {
            visible.locked(self.thread);
        }
    }

    /// Takes the run so far, where it is over before its threads are.
    pub fn take_trace(&self) -> Trace {
        self.shared.trace.replace(Trace::empty(self.shared.threads()))
    }
}
