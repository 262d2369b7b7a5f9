//! The lines of a page whose content has changed since the last look, by a 32-bit hash of each.
//!
//! A copy of the pages would be exact, at 16 times the memory. Two contents with one hash, once in
//! 4 billion changes, cost a hint. So does a store of what was there before.

use rustc_hash::{FxBuildHasher, FxHashMap};
use seawall_memory::{Addr, LINE_BYTES, Line, Memory, lines_of};
use std::hash::BuildHasher;

/// Lines whose prints are kept together.
const LINES: u64 = 64;
/// So many of these: 16 MiB. Of what does not fit every line counts as changed.
const PAGES_MAX: usize = 1 << 16;

#[derive(Default)]
pub(super) struct Prints {
    pages: FxHashMap<u64, Box<[u32; LINES as usize]>>,
}

impl Prints {
    /// Shows the lines of the range that hold something else than when it was last asked for; at
    /// the first time, than zeros. A line that is not wholly in the range always counts.
    pub(super) fn changed<M: Memory>(
        &mut self,
        memory: &M,
        first: Addr,
        bytes: u64,
        mut found: impl FnMut(Line),
    ) {
        let whole = first.offset()..first.offset() + bytes;
        let mut lines = lines_of(first, bytes).peekable();
        while let Some(page) = lines.peek().map(|line| line.0 / LINES) {
            let prints = self.page(page);
            let mut prints = prints.map(|prints| &mut **prints);
            while let Some(line) = lines.next_if(|line| line.0 / LINES == page) {
                let start = line.start().offset();
                let is_whole = whole.start <= start && start + LINE_BYTES <= whole.end;
                let is_same = match &mut prints {
                    Some(prints) if is_whole => {
                        let print = print_of(memory.load_line(line.start()));
                        let place = &mut prints[(line.0 % LINES) as usize];
                        std::mem::replace(place, print) == print
                    }
                    _ => false,
                };
                if !is_same {
                    found(line);
                }
            }
        }
    }

    fn page(&mut self, page: u64) -> Option<&mut Box<[u32; LINES as usize]>> {
        if self.pages.len() >= PAGES_MAX {
            return self.pages.get_mut(&page);
        }
        let zeros = || Box::new([print_of([0; 8]); LINES as usize]);
        Some(self.pages.entry(page).or_insert_with(zeros))
    }
}

fn print_of(line: [u64; 8]) -> u32 {
    (FxBuildHasher.hash_one(line) >> 16) as u32
}

#[cfg(test)]
mod tests {
    use super::*;
    use seawall_memory::{Image, MemoryExt};

    fn changed(prints: &mut Prints, memory: &Image, first: u64, bytes: u64) -> Vec<u64> {
        let mut all = Vec::new();
        prints.changed(memory, Addr::pm(first), bytes, |line| all.push(line.0));
        all
    }

    #[test]
    fn each_bit_of_a_line_changes_its_print() {
        let (memory, mut prints) = (Image::new(8192, 0), Prints::default());
        assert_eq!(changed(&mut prints, &memory, 0, 8192), [0; 0]);
        for bit in 0..512 {
            let at = Addr::pm(4096 + bit / 64 * 8);
            memory.store(at, memory.load::<u64>(at) ^ 1 << (bit % 64));
            assert_eq!(changed(&mut prints, &memory, 4096, 4096), [64], "bit {bit}");
            assert_eq!(changed(&mut prints, &memory, 0, 8192), [0; 0]);
        }
    }

    #[test]
    fn a_line_that_ends_outside_is_never_read_and_always_shown() {
        let (memory, mut prints) = (Image::new(4096 + 100, 0), Prints::default());
        for _ in 0..2 {
            assert_eq!(changed(&mut prints, &memory, 4096, 100), [65]);
        }
    }

    #[test]
    fn where_nothing_is_remembered_every_line_is_shown() {
        let (memory, mut prints) = (Image::new(8192, 0), Prints::default());
        for page in 1..=PAGES_MAX as u64 {
            prints.page(page);
        }
        assert_eq!(changed(&mut prints, &memory, 0, 4096).len(), 64);
        assert_eq!(changed(&mut prints, &memory, 4096, 4096), [0; 0]);
    }
}
