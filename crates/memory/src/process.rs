//! Which process a memory belongs to: the child of a fork has a copy of every handle, and must not
//! work with what is its parent's.
//!
//! The answer is one comparison, as each transaction asks: the number of a process is in a word
//! that reads as zero, or as another number, in every process forked from it. Who maps memory
//! (`seawall-native`) sees to that; memory that lives and dies with its process needs no such word.

use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

static OF_ANY: AtomicU64 = AtomicU64::new(0);

/// A process, told apart from those forked from it.
#[derive(Clone, Copy, Debug)]
pub struct Process {
    word: &'static AtomicU64,
    number: u64,
}

impl Process {
    /// Whichever process asks: of memory that a fork copies.
    pub const ANY: Process = Process { word: &OF_ANY, number: 0 };

    /// The process in which `word` is `number`. It is in no process forked from that one.
    pub const fn new(word: &'static AtomicU64, number: u64) -> Process {
        Process { word, number }
    }

    /// Whether it is the process that asks.
    #[inline]
    pub fn is_this(&self) -> bool {
        self.word.load(Relaxed) == self.number
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_is_this_one_while_its_word_holds_its_number() {
        static WORD: AtomicU64 = AtomicU64::new(3);
        let process = Process::new(&WORD, 3);
        assert!(process.is_this() && Process::ANY.is_this());
        WORD.store(0, Relaxed);
        assert!(!process.is_this() && Process::ANY.is_this());
    }
}
