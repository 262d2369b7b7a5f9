//! The forwarding table of a cycle: for each page that is emptied, an entry with the blocks that
//! hold objects, and their destinations. It is durable before the first object moves, so an object
//! has one destination across crashes (FFCCD, ISCA'22, section 4.3.1).
//!
//! | word | content |
//! |---|---|
//! | 0 | checked: number of the page, from 1 at the first chunk, times 2; and 1 if it is in force |
//! | 1 | checked: chunk that the objects go to (high), block of it for the first (11 bits) |
//! | 2, 3 | which blocks that start in the page hold objects: a bit each |
//! | 4, 5 | unused |
//! | 6 | checked: CRC-32C of words 1 to 3, each as 8 bytes, and of the number of the page |
//! | 7 | unused |
//! | 8..23 | a byte for each block: the state of its object's move (`relocate`) |
//!
//! The objects of a page go to consecutive blocks, so three lines suffice: 4.7 % of the page. (The
//! paper's table has a byte for each 16 bytes of the page.) A plain store marks an object as moved,
//! so each has a byte of its own. A log record puts an entry in force, together with the states of
//! the destinations.
//!
//! An object is live while the states of both its blocks say so: freeing it zeroes the state of the
//! destination, and no block of a page that is emptied is handed out.

use super::options::Protocol;
use super::pages;
use crate::AccessError;
use crate::alloc::chunk::{self, Chunk};
use crate::alloc::size_class::Class;
use crate::heap::layout::Layout;
use crate::heap::{Heap, checked_word};
use seawall_memory::{Addr, LINE_BYTES, Memory, MemoryExt};

const DESTINATION: u64 = 8;
const OBJECTS: u64 = 16;
const SUM: u64 = 48;
const STATES: u64 = LINE_BYTES;
/// Bytes of an entry.
pub(crate) const ENTRY_BYTES: u64 = 3 * LINE_BYTES;
/// Bits of the first destination block.
const BLOCK_BITS: u32 = 11;

/// The table of the current cycle.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Table {
    /// The first of its own chunks.
    pub(crate) chunk: u64,
    start: Addr,
}

/// A page that is emptied, and the destinations of its objects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Entry {
    /// Its address in the table.
    pub(crate) at: Addr,
    pub(crate) chunk: u64,
    pub(crate) page: u64,
    pub(crate) class: Class,
    pub(crate) objects: u128,
    /// The destination of the objects: chunk, and block of the first.
    pub(crate) to: (u64, u64),
}

/// An object of a page that is emptied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Move {
    /// The entry of its page, and its bit there.
    pub(crate) entry: Addr,
    pub(crate) bit: u32,
    pub(crate) from: Addr,
    pub(crate) to: Addr,
    /// The state of its destination block: 0 if the object has been freed.
    pub(crate) state: Addr,
    pub(crate) bytes: u64,
}

impl Table {
    pub(crate) fn at(layout: &Layout, chunk: u64) -> Table {
        Table { chunk, start: layout.chunk(chunk) }
    }

    /// Clears the table, for that many pages and one more, which ends it; durable after the next
    /// fence.
    pub(crate) fn clear<M: Memory>(&self, memory: &M, pages: u64, protocol: Protocol) {
        let mut head = [0; LINE_BYTES as usize];
        let word = checked_word::encode(self.start, pages << 3 | protocol.number());
        head[..8].copy_from_slice(&word.to_le_bytes());
        memory.write_nt(self.start, &head);
        for entry in 0..=pages {
            memory.write_nt(self.entry(entry), &[0; ENTRY_BYTES as usize]);
        }
    }

    /// Sets the number of pages and the protocol; durable after the next fence.
    pub(crate) fn set_head<M: Memory>(&self, memory: &M, pages: u64, protocol: Protocol) {
        memory.store(self.start, checked_word::encode(self.start, pages << 3 | protocol.number()));
        memory.flush(self.start, 8);
    }

    /// The number of pages and the protocol.
    pub(crate) fn head<M: Memory>(&self, memory: &M) -> Option<(u64, Protocol)> {
        let value = checked_word::load(memory, self.start).ok()?;
        Some((value >> 3, Protocol::of_number(value & 7)?))
    }

    /// The address of the entry of page number `number`.
    pub(crate) fn entry(&self, number: u64) -> Addr {
        self.start.plus(LINE_BYTES + number * ENTRY_BYTES)
    }
}

impl Entry {
    /// The first word of the entry, in force or not.
    pub(crate) fn head(&self, is_in_force: bool) -> u64 {
        let number = self.chunk * pages::PAGES + self.page + 1;
        checked_word::encode(self.at, number << 1 | u64::from(is_in_force))
    }

    /// Word 6 of the entry.
    fn sum(&self) -> u64 {
        let mut bytes = [0; 32];
        let number = self.chunk * pages::PAGES + self.page + 1;
        bytes[..8].copy_from_slice(&(self.to.0 << BLOCK_BITS | self.to.1).to_le_bytes());
        bytes[8..24].copy_from_slice(&self.objects.to_le_bytes());
        bytes[24..].copy_from_slice(&number.to_le_bytes());
        checked_word::encode(self.at.plus(SUM), u64::from(crc32c::crc32c(&bytes)))
    }

    /// Writes the entry, not in force; durable after the next fence.
    pub(crate) fn write<M: Memory>(&self, memory: &M) {
        let destination = self.at.plus(DESTINATION);
        let to = checked_word::encode(destination, self.to.0 << BLOCK_BITS | self.to.1);
        let mut line = [0; LINE_BYTES as usize];
        line[..8].copy_from_slice(&self.head(false).to_le_bytes());
        line[8..16].copy_from_slice(&to.to_le_bytes());
        line[16..32].copy_from_slice(&self.objects.to_le_bytes());
        line[48..56].copy_from_slice(&self.sum().to_le_bytes());
        memory.write_nt(self.at, &line);
    }

    /// Loads the entry at `at`, if it is in force.
    ///
    /// # Errors
    /// When it is damaged in a way that no crash causes.
    pub(crate) fn load<M: Memory>(
        memory: &M,
        heap: &Heap,
        at: Addr,
    ) -> Result<Option<Entry>, AccessError> {
        let damaged = || AccessError::Damaged {
            what: format!("the entry at {at} of the table of moved objects does not add up"),
        };
        let head = checked_word::load(memory, at).map_err(|_| damaged())?;
        if head & 1 == 0 {
            return Ok(None);
        }
        let to = checked_word::load(memory, at.plus(DESTINATION)).map_err(|_| damaged())?;
        let to = (to >> BLOCK_BITS, to & ((1 << BLOCK_BITS) - 1));
        let (chunk, page) = page_of(head).ok_or_else(damaged)?;
        let class = class_of(memory, heap, chunk).ok_or_else(damaged)?;
        let objects = bits(memory, at.plus(OBJECTS));
        let entry = Entry { at, chunk, page, class, objects, to };
        let fits = to.1 + u64::from(objects.count_ones()) <= class.blocks();
        let is_sound = class_of(memory, heap, to.0) == Some(class) && to.0 != chunk && fits;
        let blocks = pages::blocks_of(class, page);
        let is_in_page = objects.checked_shr((blocks.end - blocks.start) as u32).unwrap_or(0) == 0;
        let is_summed = memory.load::<u64>(at.plus(SUM)) == entry.sum();
        let is_sound = is_sound && is_in_page && is_summed;
        // An object that was freed before the page was taken off the table is no longer live.
        let live = entry.live_in_page(memory, &heap.layout);
        if is_sound && live.is_some_and(|live| live & !objects == 0) {
            return Ok(Some(entry));
        }
        Err(damaged())
    }

    /// Loads the entry at `at` unchecked: DRAM says that it is in force.
    pub(crate) fn known<M: Memory>(
        memory: &M,
        at: Addr,
        (chunk, page, class): (u64, u64, Class),
    ) -> Entry {
        let to = checked_word::claimed(memory, at.plus(DESTINATION));
        let to = (to >> BLOCK_BITS, to & ((1 << BLOCK_BITS) - 1));
        Entry { at, chunk, page, class, objects: bits(memory, at.plus(OBJECTS)), to }
    }

    /// Finds the object whose destination is at `at` in `chunk`, to which objects are moved.
    pub(crate) fn of_destination<M: Memory>(
        memory: &M,
        heap: &Heap,
        chunk: u64,
        at: Addr,
    ) -> Option<(Entry, Move)> {
        let class = class_of(memory, heap, chunk)?;
        let block = pages::block_at(&heap.layout, class, chunk, at)?;
        let mut next: Addr = memory.load(heap.layout.first_entry(chunk));
        while let Some((source, page)) = page_of(checked_word::claimed(memory, next)) {
            let entry = Entry::known(memory, next, (source, page, class));
            match entry.to.0 {
                to if to == chunk => {
                    let bit = block.checked_sub(entry.to.1).and_then(|rank| entry.bit_of(rank));
                    if let Some(bit) = bit {
                        return Some((entry, entry.object(&heap.layout, bit)?));
                    }
                }
                // A page that nothing is moved from can lie between others.
                _ if entry.objects == 0 => {}
                _ => return None,
            }
            next = next.plus(ENTRY_BYTES);
        }
        None
    }

    /// The address of the state of a move, for the object of a block.
    pub(crate) fn state(at: Addr, bit: u32) -> Addr {
        at.plus(STATES + u64::from(bit))
    }

    /// The blocks of the page whose states say that they hold objects; `None` if a state is
    /// damaged.
    pub(crate) fn live_in_page<M: Memory>(&self, memory: &M, layout: &Layout) -> Option<u128> {
        let blocks = pages::blocks_of(self.class, self.page);
        let mut states = vec![0; (blocks.end - blocks.start) as usize];
        memory.read(layout.chunk(self.chunk).plus(blocks.start), &mut states);
        let mut live = 0;
        for (bit, state) in states.into_iter().enumerate() {
            if !chunk::is_state(state) {
                return None;
            }
            live |= u128::from(state != 0) << bit;
        }
        Some(live)
    }

    /// The bit of object number `rank`, from 0, if the page has that many.
    fn bit_of(&self, rank: u64) -> Option<u32> {
        if rank >= u64::from(self.objects.count_ones()) {
            return None;
        }
        let rest = (0..rank).fold(self.objects, |objects, _| objects & (objects - 1));
        Some(rest.trailing_zeros())
    }

    /// The object of block number `bit`.
    pub(crate) fn object(&self, layout: &Layout, bit: u32) -> Option<Move> {
        if self.objects >> bit & 1 == 0 {
            return None;
        }
        let rank = (self.objects & ((1 << bit) - 1)).count_ones();
        let block = pages::blocks_of(self.class, self.page).start + u64::from(bit);
        let to = self.to.1 + u64::from(rank);
        Some(Move {
            entry: self.at,
            bit,
            from: pages::start_of(layout, self.class, self.chunk, block),
            to: pages::start_of(layout, self.class, self.to.0, to),
            state: layout.chunk(self.to.0).plus(to),
            bytes: self.class.bytes(),
        })
    }

    /// The addresses of an object's two states: of its block in the page, and of its destination.
    pub(crate) fn states(&self, layout: &Layout, object: &Move) -> [Addr; 2] {
        let block = pages::blocks_of(self.class, self.page).start + u64::from(object.bit);
        [layout.chunk(self.chunk).plus(block), object.state]
    }

    /// All its objects.
    pub(crate) fn moves(&self, layout: &Layout) -> impl Iterator<Item = Move> {
        (0..128).filter_map(|bit| self.object(layout, bit))
    }
}

/// The chunk and the page in the value of a head, if any.
pub(crate) fn page_of(head: u64) -> Option<(u64, u64)> {
    let number = (head >> 1).checked_sub(1)?;
    Some((number / pages::PAGES, number % pages::PAGES))
}

/// The class of the blocks of a chunk, if it has blocks.
pub(crate) fn class_of<M: Memory>(memory: &M, heap: &Heap, chunk: u64) -> Option<Class> {
    let count = heap.chunks(memory).ok()?;
    if chunk >= count {
        return None;
    }
    match chunk::load(memory, &heap.layout, chunk) {
        Ok(Chunk::Small(class)) => Some(class),
        _ => None,
    }
}

/// Loads two words.
fn bits<M: Memory>(memory: &M, at: Addr) -> u128 {
    u128::from(memory.load::<u64>(at)) | u128::from(memory.load::<u64>(at.plus(8))) << 64
}

/// The destination chunk of the entry at `at`.
pub(crate) fn destination_of<M: Memory>(memory: &M, at: Addr) -> Option<u64> {
    let word = checked_word::load(memory, at.plus(DESTINATION)).ok()?;
    Some(word >> BLOCK_BITS)
}
