//! The tables of a cycle for relocation hardware (FFCCD, ISCA'22, sections 4.2 and 4.3): where
//! objects go, and after a crash which lines of copies have persisted.
//!
//! They lie behind the entries of the forwarding table: the reached bitmap, the addresses of
//! forwarding entries, the filters, and two forwarding entries for each page: its own, and one for
//! the next page, if the last object reaches into that. Only the bitmap has a meaning after a
//! crash. The tables cover the maximum size of the pool and are cleared in one step, so they are
//! for pools of the paper's size, up to 1 GiB.

use super::forwarding_table::{ENTRY_BYTES, Entry, Move, Table};
use super::options::Protocol;
use crate::alloc::size_class::CHUNK_BYTES;
use crate::heap::layout::Layout;
use seawall_memory::relocation::{FILTER_BYTES, FILTERS, Forwarding, RELOCATION_PAGE, Relocation};
use seawall_memory::{Addr, LINE_BYTES, Memory, MemoryExt};

/// The part of a table that hardware reads.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Hardware {
    pub(crate) registers: Relocation,
    entries: Addr,
    /// The part of the last page's last object that reaches into the next page.
    tail: Option<Tail>,
}

/// The end of an object whose page has an entry, in the next page.
#[derive(Clone, Copy, Debug)]
struct Tail {
    page: u64,
    /// Its destination, and its bytes.
    to: Addr,
    bytes: u64,
    /// The number of an entry for it alone.
    number: u64,
}

impl Table {
    /// The chunks of a table for that many pages, with the tables for hardware behind its entries.
    pub(crate) fn chunks_for(layout: &Layout, pages: u64, protocol: Protocol) -> u64 {
        let of_hardware = match protocol {
            Protocol::Ffccd => Hardware::bytes(layout, pages),
            Protocol::Espresso | Protocol::Sfccd => 0,
        };
        (LINE_BYTES + (pages + 1) * ENTRY_BYTES + of_hardware).div_ceil(CHUNK_BYTES)
    }
}

impl Hardware {
    /// The bytes of the tables for hardware, for that many pages.
    fn bytes(layout: &Layout, pages: u64) -> u64 {
        let directory = Relocation::directory_bytes(pool_pages(layout));
        directory + FILTERS * FILTER_BYTES + 2 * pages * Forwarding::BYTES
    }

    /// The tables for hardware in a table for that many pages.
    pub(crate) fn of(layout: &Layout, table: &Table, pages: u64) -> Hardware {
        let directory = table.entry(pages + 1);
        let filters = directory.plus(Relocation::directory_bytes(pool_pages(layout)));
        let registers = Relocation { directory, pages: pool_pages(layout), filters };
        Hardware { registers, entries: filters.plus(FILTERS * FILTER_BYTES), tail: None }
    }

    /// Clears them: no line has persisted, no object moves; durable after the next fence. The
    /// entries need no clearing, as they are found by their addresses only.
    pub(super) fn clear<M: Memory>(&self, memory: &M) {
        let lines = self.entries.offset() - self.registers.directory.offset();
        for at in (0..lines).step_by(LINE_BYTES as usize) {
            memory.write_nt(self.registers.directory.plus(at), &[0; LINE_BYTES as usize]);
        }
    }

    /// Adds the destinations of the objects of page number `number` of the table.
    pub(super) fn add<M: Memory>(
        &mut self,
        memory: &M,
        layout: &Layout,
        (number, entry): (u64, &Entry),
    ) {
        let page = layout.chunk(entry.chunk).offset() / RELOCATION_PAGE + entry.page;
        let Some(first) = entry.moves(layout).next() else { return };
        let mut forwarding = Forwarding::to(first.to);
        match self.tail.filter(|tail| tail.page == page) {
            Some(Tail { to, bytes, .. }) => forwarding.add_tail(to, bytes),
            None => self.add_tail(memory),
        }
        self.tail = None;
        for Move { from, to, bytes, .. } in entry.moves(layout) {
            let is_said = forwarding.add(from, to, bytes);
            assert!(is_said, "objects of a page go to less than a page");
            let end = from.offset() + bytes;
            let over = end.saturating_sub((page + 1) * RELOCATION_PAGE);
            if over > 0 {
                let (to, number) = (to.plus(bytes - over), 2 * number + 1);
                self.tail = Some(Tail { page: page + 1, to, bytes: over, number });
            }
        }
        self.write(memory, page, 2 * number, &forwarding);
    }

    /// Adds the destination of the last object's end, if the page of that end has not been added.
    pub(super) fn add_tail<M: Memory>(&mut self, memory: &M) {
        if let Some(Tail { page, to, bytes, number }) = self.tail.take() {
            let mut forwarding = Forwarding::to(Addr::NULL);
            forwarding.add_tail(to, bytes);
            self.write(memory, page, number, &forwarding);
        }
    }

    /// Makes the filters visible to the hardware, which reads them in memory and can be asked from
    /// then on.
    pub(super) fn show<M: Memory>(&self, memory: &M) {
        memory.persist(self.registers.filters, self.registers.filter_bytes());
    }

    /// Writes entry number `number`, for the page.
    fn write<M: Memory>(&self, memory: &M, page: u64, number: u64, forwarding: &Forwarding) {
        let at = self.entries.plus(number * Forwarding::BYTES);
        memory.write_nt(at, &forwarding.bytes());
        memory.store(self.registers.place(page), at);
        for bit in Relocation::filter_bits(page) {
            let filter = self.registers.filter(self.registers.filter_of(page));
            let word = filter.plus(bit / 64 * 8);
            memory.store(word, memory.load::<u64>(word) | 1 << (bit % 64));
        }
    }

    /// Whether the line at `at`, of a copy, has persisted, with the copy or with later stores. Of a
    /// line that several copies share, one of them has persisted.
    pub(super) fn has_reached<M: Memory>(&self, memory: &M, at: Addr) -> bool {
        let page = self.registers.page_of(at).expect("the directory is for the pool");
        let line = at.offset() % RELOCATION_PAGE / LINE_BYTES;
        memory.load::<u64>(self.registers.reached(page)) >> line & 1 == 1
    }
}

/// The pages of the pool at its maximum size.
fn pool_pages(layout: &Layout) -> u64 {
    layout.pm_bytes(layout.numbers.chunks_max) / RELOCATION_PAGE
}

const _: () = assert!(CHUNK_BYTES.is_multiple_of(RELOCATION_PAGE));
