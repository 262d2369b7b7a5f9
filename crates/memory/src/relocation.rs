//! The interface between hardware that moves objects and the software that chooses their new
//! places: the registers of FFCCD (ISCA'22, sections 4.2 and 4.3), and the tables that they point
//! to.
//!
//! The tables are in the pool, so that they are there after a crash:
//!
//! | table | address | content |
//! |---|---|---|
//! | reached bitmap | `directory` | a word a page of 4 KiB, a bit a line: a copy has persisted |
//! | places of entries | after it, at a line | for each page an [`Addr`]; null if it stays |
//! | forwarding entry | at a line | a line, and a byte for each slot (16 bytes) of the page |
//! | filters | `filters` | eight Bloom filters of 1 KiB, each for 128 MiB, the last for the rest |
//!
//! Only hardware changes the bitmap while the registers are set. Software may add entries, places
//! and filter bits until its first [look-up](RelocationUnit::forward); by then the filters must be
//! durable.
//!
//! | word of the first line of a forwarding entry | content |
//! |---|---|
//! | 0 | destination of the first object that starts in the page (the paper's major distance) |
//! | 1 | destination of the page's first byte, if an object of the page before reaches into it |
//! | 2 | number of bytes of that object in this page |
//! | 3 to 6 | a bit for each slot: set if it is in an object that starts in the page and moves |
//!
//! Byte `n` of the following four lines is the distance of slot `n`'s destination from the first
//! destination, in slots (the paper's minor distance).

use crate::{Addr, LINE_BYTES, Memory, MemoryExt};

/// Bytes of a page of the relocation hardware.
pub const RELOCATION_PAGE: u64 = 4 << 10;
/// Bytes of a slot, the unit of minor distances.
pub const RELOCATION_SLOT: u64 = 16;
/// Slots of a page.
const SLOTS: u64 = RELOCATION_PAGE / RELOCATION_SLOT;
/// The number of filters, among which the pages are divided.
pub const FILTERS: u64 = 8;
/// Bytes of a filter.
pub const FILTER_BYTES: u64 = 1 << 10;
/// Pages of a filter: eight filters cover the largest pool of the paper, 1 GiB.
const FILTER_PAGES: u64 = 1 << 15;
/// Bits of a page in its filter.
const HASHES: usize = 2;

/// Hardware that moves objects, behind the door [`Memory::relocation`]. It remembers which lines of
/// [relocated](RelocationUnit::relocate) copies have persisted.
pub trait RelocationUnit {
    /// Whether the hardware also looks up [where objects go](RelocationUnit::forward).
    fn forwards(&self) -> bool;

    /// Sets the registers, for all cores; `None` while no object moves. The tables that they lead
    /// to must already be durable. A crash loses the registers.
    #[track_caller]
    fn set(&self, registers: Option<Relocation>);

    /// Copies `len` bytes from `from` to `to` (the `relocate` instruction of FFCCD), both multiples
    /// of 8, line by line of the copy.
    ///
    /// It orders nothing and needs no flush: after a crash the reached bitmap shows for each line
    /// of the copy whether it has persisted, with all that the copy wrote there or with what was
    /// stored to it since.
    #[track_caller]
    fn relocate(&self, to: Addr, from: Addr, len: u64);

    /// The new place of what is at `at` (the `checklookup` instruction of FFCCD), whether or not it
    /// has moved yet; `at` if it stays, and where the hardware does not
    /// [forward](RelocationUnit::forwards).
    #[track_caller]
    fn forward(&self, at: Addr) -> Addr;
}

/// Relocation on every machine: by its unit, or in software.
pub trait Relocate: Memory {
    /// Whether hardware remembers which lines of copies have persisted.
    #[inline]
    fn relocates(&self) -> bool {
        self.relocation().is_some()
    }

    /// Whether hardware looks up where objects go.
    #[inline]
    fn forwards(&self) -> bool {
        self.relocation().is_some_and(|unit| unit.forwards())
    }

    /// As [`RelocationUnit::set`]; a no-op without the hardware.
    #[track_caller]
    fn set_relocation(&self, registers: Option<Relocation>) {
        if let Some(unit) = self.relocation() {
            unit.set(registers);
        }
    }

    /// As [`RelocationUnit::relocate`]; software writes, flushes and orders.
    #[track_caller]
    fn relocate(&self, to: Addr, from: Addr, len: u64) {
        if let Some(unit) = self.relocation() {
            return unit.relocate(to, from, len);
        }
        let mut bytes = vec![0; len as usize];
        self.read(from, &mut bytes);
        self.write(to, &bytes);
        self.flush(to, len);
        self.order();
    }

    /// As [`RelocationUnit::forward`]; `at` without the hardware.
    #[inline]
    #[track_caller]
    fn forward(&self, at: Addr) -> Addr {
        match self.relocation() {
            Some(unit) => unit.forward(at),
            None => at,
        }
    }
}

impl<M: Memory> Relocate for M {}

/// The registers: the same for all cores, and lost in a crash.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Relocation {
    /// The start of the reached bitmap, at a line; the places of entries follow it.
    pub directory: Addr,
    /// The number of pages that both tables cover, from the start of the pool.
    pub pages: u64,
    /// The start of the filters, at a line.
    pub filters: Addr,
}

impl Relocation {
    /// Bytes of the reached bitmap and of the places together.
    pub const fn directory_bytes(pages: u64) -> u64 {
        2 * (8 * pages).next_multiple_of(LINE_BYTES)
    }

    /// The page that contains `at`, if the directory covers it.
    pub fn page_of(&self, at: Addr) -> Option<u64> {
        let page = at.offset() / RELOCATION_PAGE;
        (at.is_pm() && page < self.pages).then_some(page)
    }

    /// The word of the reached bitmap for a page.
    pub fn reached(&self, page: u64) -> Addr {
        self.directory.plus(8 * page)
    }

    /// The word that holds the address of the forwarding entry of a page.
    pub fn place(&self, page: u64) -> Addr {
        self.directory.plus(Relocation::directory_bytes(self.pages) / 2 + 8 * page)
    }

    /// Returns the destination of `at`, or `at` if it stays: the look-up of the hardware, done by
    /// loads.
    pub fn look_up<M: Memory>(&self, memory: &M, at: Addr) -> Addr {
        let Some(page) = self.page_of(at) else { return at };
        let filter = self.filter(self.filter_of(page));
        let has = |bit| memory.load::<u64>(filter.plus(bit / 64 * 8)) >> (bit % 64) & 1 == 1;
        if !Relocation::filter_bits(page).into_iter().all(has) {
            return at;
        }
        let place: Addr = memory.load(self.place(page));
        if place.is_null() {
            return at;
        }
        let mut bytes = [0; Forwarding::BYTES as usize];
        for line in [0, Forwarding::line_of(at)] {
            let from = (line * LINE_BYTES) as usize;
            memory.read(place.plus(line * LINE_BYTES), &mut bytes[from..from + 64]);
        }
        Forwarding::of_bytes(&bytes).of(at).unwrap_or(at)
    }

    /// The number of the filter of a page.
    pub fn filter_of(&self, page: u64) -> u64 {
        (page / FILTER_PAGES).min(FILTERS - 1)
    }

    /// Bytes of the filters that cover pages, from the first.
    pub fn filter_bytes(&self) -> u64 {
        FILTER_BYTES * (1 + self.filter_of(self.pages.saturating_sub(1)))
    }

    /// The start of a filter.
    pub fn filter(&self, number: u64) -> Addr {
        self.filters.plus(number * FILTER_BYTES)
    }

    /// The bits that are set in the filter of a page which has a forwarding entry.
    pub fn filter_bits(page: u64) -> [u64; HASHES] {
        let hash = page.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        [hash >> 51, (hash >> 38) % (8 * FILTER_BYTES)]
    }
}

/// A forwarding entry: the destinations of the objects in a page.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Forwarding {
    first: Addr,
    tail: (Addr, u64),
    moves: [u64; SLOTS as usize / 64],
    minor: [u8; SLOTS as usize],
}

impl Forwarding {
    /// Bytes of an entry, whole lines.
    pub const BYTES: u64 = LINE_BYTES + SLOTS;

    /// An entry without objects. The first one will go to `first`, none to a lower address.
    pub fn to(first: Addr) -> Forwarding {
        let moves = [0; SLOTS as usize / 64];
        Forwarding { first, tail: (Addr::NULL, 0), moves, minor: [0; SLOTS as usize] }
    }

    /// Adds an object of `bytes` bytes that starts in the page, at `from`, and goes to `to`.
    /// Returns false, with nothing changed, if the format cannot express it: addresses and length
    /// are whole slots, and the destinations of a page are less than a page above the first one.
    pub fn add(&mut self, from: Addr, to: Addr, bytes: u64) -> bool {
        let into = from.offset() % RELOCATION_PAGE;
        let length = bytes.min(RELOCATION_PAGE - into);
        let distance = to.offset().wrapping_sub(self.first.offset());
        let is_aligned = (into | distance | bytes).is_multiple_of(RELOCATION_SLOT);
        if !is_aligned || distance.saturating_add(length) > RELOCATION_PAGE {
            return false;
        }
        for at in (0..length).step_by(RELOCATION_SLOT as usize) {
            let slot = ((into + at) / RELOCATION_SLOT) as usize;
            self.moves[slot / 64] |= 1 << (slot % 64);
            self.minor[slot] = ((distance + at) / RELOCATION_SLOT) as u8;
        }
        true
    }

    /// Adds the end of an object that starts in the page before: the first `bytes` bytes of this
    /// page, which go to `to`.
    pub fn add_tail(&mut self, to: Addr, bytes: u64) {
        self.tail = (to, bytes);
    }

    /// The entry in its format in memory.
    pub fn bytes(&self) -> [u8; Forwarding::BYTES as usize] {
        let mut bytes = [0; Forwarding::BYTES as usize];
        let words = [self.first.bits(), self.tail.0.bits(), self.tail.1];
        for (into, word) in bytes.chunks_exact_mut(8).zip(words.into_iter().chain(self.moves)) {
            into.copy_from_slice(&word.to_le_bytes());
        }
        bytes[LINE_BYTES as usize..].copy_from_slice(&self.minor);
        bytes
    }

    /// The entry with these bytes in memory. For [`of`](Forwarding::of) an address only the first
    /// line and the [line](Forwarding::line_of) of its slot matter.
    pub fn of_bytes(bytes: &[u8; Forwarding::BYTES as usize]) -> Forwarding {
        let word = |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().expect("8 bytes"));
        let mut forwarding = Forwarding::to(Addr::from_bits(word(0)));
        forwarding.tail = (Addr::from_bits(word(8)), word(16));
        for (number, moves) in forwarding.moves.iter_mut().enumerate() {
            *moves = word(24 + 8 * number);
        }
        forwarding.minor.copy_from_slice(&bytes[LINE_BYTES as usize..]);
        forwarding
    }

    /// The line of an entry, from 1, that contains the minor distance of `at`.
    pub fn line_of(at: Addr) -> u64 {
        1 + at.offset() % RELOCATION_PAGE / RELOCATION_SLOT / LINE_BYTES
    }

    /// The destination of `at`, an address in the page of the entry; `None` if it stays.
    pub fn of(&self, at: Addr) -> Option<Addr> {
        let into = at.offset() % RELOCATION_PAGE;
        if into < self.tail.1 {
            return Some(self.tail.0.plus(into));
        }
        let slot = (into / RELOCATION_SLOT) as usize;
        let to = u64::from(self.minor[slot]) * RELOCATION_SLOT + into % RELOCATION_SLOT;
        (self.moves[slot / 64] >> (slot % 64) & 1 == 1).then(|| self.first.plus(to))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn bytes_go_where_the_entry_says_and_all_others_stay(
            gaps in proptest::collection::vec((0u64..4, 1u64..12), 1..40),
            tail in 0u64..3,
            at in 0u64..4096,
        ) {
            let (page, first) = (Addr::pm(5 * RELOCATION_PAGE), Addr::pm(0x10_0430));
            let mut forwarding = Forwarding::to(first);
            forwarding.add_tail(Addr::pm(0x7730), 16 * tail);
            let (mut from, mut to) = (16 * tail, 0);
            let mut goes = (at < from).then(|| Addr::pm(0x7730).plus(at));
            for (gap, slots) in gaps {
                from += 16 * gap;
                let bytes = 16 * slots;
                if from >= RELOCATION_PAGE {
                    break;
                }
                assert!(forwarding.add(page.plus(from), first.plus(to), bytes));
                if at >= from && at < from + bytes {
                    goes = Some(first.plus(to + at - from));
                }
                (from, to) = (from + bytes, to + bytes);
            }
            let bytes = forwarding.bytes();
            let read = Forwarding::of_bytes(&bytes);
            prop_assert_eq!(&read, &forwarding);
            prop_assert_eq!(read.of(page.plus(at)), goes);
            let mut needed = [0; Forwarding::BYTES as usize];
            for line in [0, Forwarding::line_of(page.plus(at)) as usize] {
                needed[64 * line..][..64].copy_from_slice(&bytes[64 * line..][..64]);
            }
            prop_assert_eq!(Forwarding::of_bytes(&needed).of(page.plus(at)), goes);
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
    fn a_distance_that_the_format_cannot_express_is_refused() {
        let mut forwarding = Forwarding::to(Addr::pm(8192));
        assert!(!forwarding.add(Addr::pm(0), Addr::pm(8192 + RELOCATION_PAGE), 16));
        assert!(!forwarding.add(Addr::pm(0), Addr::pm(8192 + RELOCATION_PAGE - 16), 32));
        assert!(!forwarding.add(Addr::pm(0), Addr::pm(8176), 16));
        assert!(!forwarding.add(Addr::pm(8), Addr::pm(8192), 16));
        assert!(!forwarding.add(Addr::pm(0), Addr::pm(8192), 24));
        assert_eq!(forwarding, Forwarding::to(Addr::pm(8192)));
    }
}
