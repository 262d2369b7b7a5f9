//! What hardware that moves objects shares with the software that decides where they go: the
//! registers of FFCCD (ISCA'22, sections 4.2 and 4.3), and the forms of what they lead to.
//!
//! All of it lies in the pool, so that it is there after a crash:
//!
//! | what | where | form |
//! |---|---|---|
//! | directory | `directory` | two words for each page of 4 KiB of the pool, from the first |
//! | reached bitmap | word 0 of a page | a bit for each line: its copy has persisted |
//! | place of the forwarding entry | word 1 of a page | an [`Addr`], null for pages that stay |
//! | forwarding entry | at a line | a line and a byte for each 16 bytes of the page, see below |
//! | filters | `filters` | eight Bloom filters of 1 KiB, each for an eighth of the pages |
//!
//! Word 0 of a forwarding entry is the address that its first object goes to (the paper's major
//! distance, in bytes here); the 256 bits after it say at which 16 bytes of the page an object
//! starts; byte `n` of the four lines behind that line says how many times 16 bytes from the first
//! destination the object that starts at the `n`th 16 bytes goes (its minor distance).

use crate::{Addr, LINE_BYTES};

/// Bytes of a page, as relocation hardware has them.
pub const RELOCATION_PAGE: u64 = 4 << 10;
/// Bytes that a minor distance counts.
pub const RELOCATION_SLOT: u64 = 16;
/// Slots of a page.
const SLOTS: u64 = RELOCATION_PAGE / RELOCATION_SLOT;
/// Filters that the pages are divided among.
pub const FILTERS: u64 = 8;
/// Bytes of a filter.
pub const FILTER_BYTES: u64 = 1 << 10;
/// Bits that a page has in its filter.
const HASHES: usize = 2;

/// The registers: they are the same for all cores, and lost in a crash.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Relocation {
    /// Where the directory starts, at a line.
    pub directory: Addr,
    /// Pages that it is for, from the start of the pool.
    pub pages: u64,
    /// Where the filters start, at a line.
    pub filters: Addr,
}

impl Relocation {
    /// Bytes of the directory.
    pub const fn directory_bytes(pages: u64) -> u64 {
        (16 * pages).next_multiple_of(LINE_BYTES)
    }

    /// The page that `at` is in, if the directory has it.
    pub fn page_of(&self, at: Addr) -> Option<u64> {
        let page = at.offset() / RELOCATION_PAGE;
        (at.is_pm() && page < self.pages).then_some(page)
    }

    /// The word that has a bit for each line of a page whose copy has persisted.
    pub fn reached(&self, page: u64) -> Addr {
        self.directory.plus(16 * page)
    }

    /// The word that says where the forwarding entry of a page is.
    pub fn place(&self, page: u64) -> Addr {
        self.directory.plus(16 * page + 8)
    }

    /// The number of the filter that a page is in.
    pub fn filter_of(&self, page: u64) -> u64 {
        page / self.pages.div_ceil(FILTERS)
    }

    /// Where a filter starts.
    pub fn filter(&self, number: u64) -> Addr {
        self.filters.plus(number * FILTER_BYTES)
    }

    /// The bits of its filter that are set if a page is in it.
    pub fn filter_bits(page: u64) -> [u64; HASHES] {
        let hash = page.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        [hash >> 51, (hash >> 38) % (8 * FILTER_BYTES)]
    }
}

/// A forwarding entry: where the objects go that start in a page.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Forwarding {
    first: Addr,
    starts: [u64; SLOTS as usize / 64],
    minor: [u8; SLOTS as usize],
}

impl Forwarding {
    /// Bytes of an entry, whole lines.
    pub const BYTES: u64 = LINE_BYTES + SLOTS;

    /// An entry without objects; the first will go to `first`, and none to a lower address.
    pub fn to(first: Addr) -> Forwarding {
        Forwarding { first, starts: [0; SLOTS as usize / 64], minor: [0; SLOTS as usize] }
    }

    /// The object at `from` goes to `to`, less than a page behind the first. False, and nothing is
    /// changed, if the form cannot say so.
    pub fn add(&mut self, from: Addr, to: Addr) -> bool {
        let slot = from.offset() % RELOCATION_PAGE / RELOCATION_SLOT;
        let distance = to.offset().wrapping_sub(self.first.offset());
        let is_aligned = (from.offset() | distance).is_multiple_of(RELOCATION_SLOT);
        if !is_aligned || distance >= RELOCATION_PAGE {
            return false;
        }
        self.starts[slot as usize / 64] |= 1 << (slot % 64);
        self.minor[slot as usize] = (distance / RELOCATION_SLOT) as u8;
        true
    }

    /// The entry as it lies in memory.
    pub fn bytes(&self) -> [u8; Forwarding::BYTES as usize] {
        let mut bytes = [0; Forwarding::BYTES as usize];
        bytes[..8].copy_from_slice(&self.first.bits().to_le_bytes());
        for (into, word) in bytes[8..].chunks_exact_mut(8).zip(self.starts) {
            into.copy_from_slice(&word.to_le_bytes());
        }
        bytes[LINE_BYTES as usize..].copy_from_slice(&self.minor);
        bytes
    }

    /// What lies in memory as an entry.
    pub fn of_bytes(bytes: &[u8; Forwarding::BYTES as usize]) -> Forwarding {
        let word = |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().expect("8 bytes"));
        let mut forwarding = Forwarding::to(Addr::from_bits(word(0)));
        for (number, starts) in forwarding.starts.iter_mut().enumerate() {
            *starts = word(8 + 8 * number);
        }
        forwarding.minor.copy_from_slice(&bytes[LINE_BYTES as usize..]);
        forwarding
    }

    /// Where the object goes that starts at `at`, which lies in the page of the entry.
    pub fn of(&self, at: Addr) -> Option<Addr> {
        let slot = (at.offset() % RELOCATION_PAGE / RELOCATION_SLOT) as usize;
        let starts = at.offset().is_multiple_of(RELOCATION_SLOT)
            && self.starts[slot / 64] >> (slot % 64) & 1 == 1;
        starts.then(|| self.first.plus(u64::from(self.minor[slot]) * RELOCATION_SLOT))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn objects_go_where_the_entry_says_and_nothing_else_does(
            starts in proptest::collection::btree_set(0u64..256, 1..40),
            at in 0u64..4096,
        ) {
            let (page, first) = (Addr::pm(5 * RELOCATION_PAGE), Addr::pm(0x10_0430));
            let mut forwarding = Forwarding::to(first);
            for (number, slot) in (0..).zip(&starts) {
                assert!(forwarding.add(page.plus(16 * slot), first.plus(16 * number)));
            }
            let read = Forwarding::of_bytes(&forwarding.bytes());
            prop_assert_eq!(&read, &forwarding);
            let rank = starts.iter().position(|slot| 16 * slot == at);
            let goes = rank.map(|rank| first.plus(16 * rank as u64));
            prop_assert_eq!(read.of(page.plus(at)), goes);
        }

        #[test]
        fn a_page_has_its_bits_in_its_filter(page in 0u64..1 << 30, pages in 1u64..1 << 30) {
            let registers =
                Relocation { directory: Addr::pm(0), pages, filters: Addr::pm(1 << 40) };
            prop_assert!(Relocation::filter_bits(page).iter().all(|bit| *bit < 8 * FILTER_BYTES));
            prop_assert!(registers.filter_of(page % pages) < FILTERS);
        }
    }

    #[test]
    fn a_distance_that_the_form_has_no_room_for_is_refused() {
        let mut forwarding = Forwarding::to(Addr::pm(8192));
        assert!(!forwarding.add(Addr::pm(0), Addr::pm(8192 + RELOCATION_PAGE)));
        assert!(!forwarding.add(Addr::pm(0), Addr::pm(8176)));
        assert!(!forwarding.add(Addr::pm(8), Addr::pm(8192)));
        assert_eq!(forwarding, Forwarding::to(Addr::pm(8192)));
    }
}
