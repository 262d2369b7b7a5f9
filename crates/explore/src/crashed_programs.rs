//! The memory of a recovery that is a compiled program: it runs elsewhere, on the words that it
//! would read here, and what it did is then done here.

use crate::crashed::{CrashImage, Prefer};
use crate::site::Site;
use crate::wide::Part;
use seawall_memory::{Addr, LINE_BYTES};

impl CrashImage {
    /// The next accesses are made by this instruction.
    pub fn at(&self, site: Site) {
        self.instruction.set(Some(site));
    }

    /// The words of the lines that a crash can have changed, each with the value that recovery
    /// reads if it reads the word before it stores to it. Nothing is decided by asking.
    pub fn assumed(&self) -> Vec<(Addr, u64)> {
        let lines = self.varies.iter().zip(0u64..).filter(|(varies, _)| varies.get());
        let words = lines.flat_map(|(_, line)| 8 * line..8 * line + 8);
        let inside =
            words.take_while(|word| 8 * word < self.pm_bytes().next_multiple_of(LINE_BYTES));
        inside.map(|word| (Addr::pm(8 * word), self.assumed_word(word as u32))).collect()
    }

    fn assumed_word(&self, word: u32) -> u64 {
        let (pass, value) = self.decided[word as usize].get();
        if pass == self.pass.get() {
            return value;
        }
        if let Some(value) = self.only(word) {
            return value;
        }
        let (possible, _) = self.possible(word);
        let chosen = match self.prefer.get() {
            Prefer::Least => possible.first(),
            Prefer::Most => possible.last(),
        };
        chosen.map_or_else(|| self.start.word(word), |chosen| chosen.value)
    }

    /// What is stored until `end_write` is one store of so many words.
    pub fn begin_write(&self, words: usize) {
        self.part.set(self.part_of(words));
    }

    /// Ends what `begin_write` began.
    pub fn end_write(&self) {
        self.part.set(Part::Alone);
    }

    /// Writes a line past the caches, as one (`movdir64b`).
    #[track_caller]
    pub fn write_line(&self, at: Addr, from: [u64; LINE_BYTES as usize / 8]) {
        self.part.set(self.writes.whole());
        self.non_temporal.set(true);
        for (word, value) in (0..).zip(from) {
            self.put_bits(at.plus(8 * word), u64::MAX, value);
        }
        self.non_temporal.set(false);
        self.part.set(Part::Alone);
    }
}
