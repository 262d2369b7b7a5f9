//! What a crash image offers to a recovery that is a compiled program: it runs in a process of its
//! own, on the words that it would read here, and what it did is then done here.

use super::{CrashImage, Prefer};
use crate::site::Site;
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
}
