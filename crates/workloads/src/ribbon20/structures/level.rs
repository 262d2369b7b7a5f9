//! Level hashing: a hash table that inserts and deletes without a log, and grows in place.
//!
//! "Write-Optimized and High-Performance Hashing Index Scheme for Persistent Memory" (Zuo, Hua and
//! Wu, OSDI'18, sections 3.1 to 3.4). There are two levels of buckets; the bottom one has half the
//! number. A key has two buckets in the top level, by two hashes, and below each the corresponding
//! bucket and its neighbour. A bucket has four slots, each with a token that marks it valid. An
//! insert that finds all four buckets full moves one entry to its other bucket; if none can move,
//! the table grows: a new top level of twice the size is added, the old top level becomes the
//! bottom level, and the entries of the old bottom level are inserted anew.
//!
//! The persist order is the published one: a slot before its token, and a copy's token before that
//! of the original is cleared. So a crash can leave an entry twice, which recovery repairs. An
//! update writes the new entry to a free slot of the bucket and exchanges two tokens by one store;
//! only without a free slot does it log the old entry.
//!
//! Differences from the publication: the levels are consecutive in an area that has room for all of
//! them, so that the whole state of growing is one word, and nothing is allocated. Growing copies
//! the entries and leaves the originals in the old bottom level, which is not reused: if an entry
//! finds no room, growing is undone. A slot is a key, a tag and a word computed from both. Locks
//! are stripes of buckets, in DRAM. A search takes none; a change of a key has read the tokens of
//! all its buckets, and a logged update increments the version of the bucket when it truncates its
//! log: so changes of a key by different threads persist in order also if hardware orders them only
//! by lines that both access.
//!
//! | place | content |
//! |---|---|
//! | state, a line | twice the number of times that it grew, odd while it grows |
//! | logs, a line a thread | slot (0: none), its tag and check before the update |
//! | bucket, two lines | tokens in 4 bits, version in the others; slots 0, 1; next line: 2, 3 |

mod recovery;

use crate::shared::epoch_log::OrderFlaw;
use crate::shared::inconsistency::within;
use crate::shared::{Change, Full, Inconsistency};
use seawall_memory::{Addr, LINE_BYTES, Memory, MemoryExt};
use seawall_runtime::{Arena, Held, Stripe};

const BUCKET_BYTES: u64 = 2 * LINE_BYTES;
const SLOTS: u64 = 4;
/// The offsets of the slots in a bucket.
const SLOT_AT: [u64; SLOTS as usize] = [8, 32, LINE_BYTES, LINE_BYTES + 24];
const SLOT_BYTES: u64 = 24;
const TOKENS: u64 = (1 << SLOTS) - 1;
/// The unit of the version in a word of tokens.
const VERSION: u64 = 1 << SLOTS;

const KEY: u64 = 0;
const TAG: u64 = 8;
const CHECK: u64 = 16;

const LOG_SLOT: u64 = 0;
const LOG_TAG: u64 = 8;
const LOG_CHECK: u64 = 16;

/// The base-2 logarithm of the buckets in the top level of a new table.
const FIRST: u64 = 1;
/// Stripes per thread, so that two threads rarely conflict by chance.
const STRIPES: u64 = 64;
const SEEDS: [u64; 2] = [0x8f1b_bcdc_bfa5_3e0b, 0x2545_f491_4f6c_dd1d];

/// The parameters of a [`LevelHash`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LevelShape {
    /// Threads that may use it, 1 to 1024.
    pub threads: u64,
    /// The greatest number of keys at a time, 1 to 2^30; the table starts with room for twelve.
    pub capacity: u64,
}

impl LevelShape {
    /// Rejects parameters out of range.
    ///
    /// # Errors
    /// [`Inconsistency::Shape`], which names the parameter.
    pub fn check(self) -> Result<LevelShape, Inconsistency> {
        within("threads", self.threads, 1, 1024)?;
        within("capacity", self.capacity, 1, 1 << 30)?;
        Ok(self)
    }

    /// The base-2 logarithm of the buckets in the largest top level: at most a third of its slots
    /// is taken.
    fn last(self) -> u64 {
        u64::from(self.capacity.div_ceil(2).next_power_of_two().ilog2()).max(FIRST + 1)
    }
}

/// A Level hash table from key to tag.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LevelHash {
    shape: LevelShape,
    state: Addr,
    logs: Addr,
    buckets: Addr,
    stripes: Addr,
    stripe_mask: u64,
}

/// The possible buckets of a key: two of the top level, and those below them.
#[derive(Clone, Copy, Debug)]
struct Homes {
    buckets: [Addr; 4],
    stripes: [u64; 2],
}

/// A slot of a bucket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Place {
    bucket: Addr,
    slot: u64,
}

impl Place {
    fn at(self) -> Addr {
        self.bucket.plus(SLOT_AT[self.slot as usize])
    }
}

/// The homes of a key while its stripes are held.
struct Hold {
    top: u64,
    homes: Homes,
    first: Held,
    second: Option<Held>,
}

/// Room for an entry.
enum Room {
    At(Place),
    /// There may be room when this stripe is unlocked.
    Wait(Stripe),
    None,
}

/// Spreads the bits of a word (the end of MurmurHash3).
fn mix(word: u64) -> u64 {
    let word = (word ^ word >> 33).wrapping_mul(0xff51_afd7_ed55_8ccd);
    let word = (word ^ word >> 33).wrapping_mul(0xc4ce_b9fe_1a85_ec53);
    word ^ word >> 33
}

/// The check word of a key and a tag.
fn check_of(key: u64, tag: u64) -> u64 {
    mix(key.wrapping_add(1)) ^ mix(tag)
}

/// The first `bits` bits of a hash, fewer than 64.
fn top_bits(hash: u64, bits: u64) -> u64 {
    hash.checked_shr(64 - bits as u32).unwrap_or(0)
}

fn taken(tokens: u64) -> impl Iterator<Item = u64> {
    (0..SLOTS).filter(move |slot| tokens >> slot & 1 == 1)
}

fn vacant<M: Memory>(memory: &M, bucket: Addr) -> Option<Place> {
    let free = !memory.load::<u64>(bucket) & TOKENS;
    (free != 0).then(|| Place { bucket, slot: u64::from(free.trailing_zeros()) })
}

fn persist<M: Memory>(memory: &M, at: Addr, value: u64) {
    memory.store(at, value);
    memory.flush(at, 8);
    memory.order();
}

/// Writes an entry to an invalid slot, and makes it persist before its token is set.
fn write<M: Memory>(memory: &M, place: Place, (key, tag): (u64, u64), flaw: OrderFlaw) {
    let at = place.at();
    memory.store(at.plus(KEY), key);
    memory.store(at.plus(TAG), tag);
    memory.store(at.plus(CHECK), check_of(key, tag));
    if flaw != OrderFlaw::NoFlush {
        memory.flush(at, SLOT_BYTES);
    }
    if flaw != OrderFlaw::NoOrder {
        memory.order();
    }
}

/// Sets or clears tokens of a bucket.
fn flip<M: Memory>(memory: &M, bucket: Addr, tokens: u64) {
    persist(memory, bucket, memory.load::<u64>(bucket) ^ tokens);
}

fn put<M: Memory>(memory: &M, place: Place, entry: (u64, u64), flaw: OrderFlaw) {
    write(memory, place, entry, flaw);
    flip(memory, place.bucket, 1 << place.slot);
}

impl LevelHash {
    /// Places the table; in a zeroed pool it is empty.
    pub fn place(shape: LevelShape, arena: &mut Arena) -> LevelHash {
        let most = 1 << (shape.last() - 1);
        let stripes = (STRIPES * shape.threads.next_power_of_two()).min(most);
        LevelHash {
            shape,
            state: arena.pm(LINE_BYTES),
            logs: arena.pm(shape.threads * LINE_BYTES),
            buckets: arena.pm(((2 << shape.last()) - 1) * BUCKET_BYTES),
            stripes: arena.dram(stripes * LINE_BYTES),
            stripe_mask: stripes - 1,
        }
    }

    /// Its parameters.
    pub const fn shape(&self) -> LevelShape {
        self.shape
    }

    fn bucket(&self, level: u64, index: u64) -> Addr {
        self.buckets.plus(((1 << level) - 1 + index) * BUCKET_BYTES)
    }

    /// The index of a key's bucket in a level: in the first half by the first hash, in the second
    /// half by the second.
    fn index(key: u64, hash: usize, level: u64) -> u64 {
        let half = level.saturating_sub(1);
        let offset = if hash == 1 && level > 0 { 1 << half } else { 0 };
        offset + top_bits(mix(key.wrapping_add(SEEDS[hash])), half)
    }

    fn homes(&self, key: u64, top: u64) -> Homes {
        let [first, second] = [0, 1].map(|hash| LevelHash::index(key, hash, top));
        Homes {
            buckets: [
                self.bucket(top, first),
                self.bucket(top, second),
                self.bucket(top - 1, first / 2),
                self.bucket(top - 1, second / 2),
            ],
            stripes: [first / 2, second / 2].map(|index| index & self.stripe_mask),
        }
    }

    fn stripe(&self, index: u64) -> Stripe {
        Stripe::at(self.stripes.plus(index * LINE_BYTES))
    }

    /// The place and key of each entry of these levels.
    fn entries<M: Memory, const N: usize>(
        &self,
        memory: &M,
        levels: [u64; N],
    ) -> impl Iterator<Item = (Place, u64)> {
        let buckets = levels
            .into_iter()
            .flat_map(move |level| (0..1 << level).map(move |index| self.bucket(level, index)));
        let places = buckets
            .flat_map(|bucket| taken(memory.load(bucket)).map(move |slot| Place { bucket, slot }));
        places.map(|place| (place, memory.load(place.at().plus(KEY))))
    }

    /// The number of the top level, and whether the table is growing.
    fn state<M: Memory>(&self, memory: &M) -> (u64, bool) {
        let state = memory.load::<u64>(self.state);
        (FIRST + state / 2, state % 2 == 1)
    }

    /// Locks the stripes of all possible buckets of a key.
    fn hold<M: Memory>(&self, memory: &M, key: u64) -> Hold {
        memory.work(12);
        loop {
            let (top, _) = self.state(memory);
            let homes = self.homes(key, top);
            let [low, high] = [0, 1].map(|place| homes.stripes[place]);
            let (low, high) = (low.min(high), low.max(high));
            let first = self.stripe(low).acquire(memory);
            let second = (low != high).then(|| self.stripe(high).acquire(memory));
            let hold = Hold { top, homes, first, second };
            if self.state(memory).0 == top {
                return hold;
            }
            hold.release(memory);
        }
    }

    /// The place of a key. The tokens of all its buckets are read in any case.
    fn find<M: Memory>(memory: &M, homes: &Homes, key: u64) -> Option<Place> {
        let tokens = homes.buckets.map(|bucket| memory.load::<u64>(bucket));
        let places = homes.buckets.into_iter().zip(tokens);
        let mut places = places
            .flat_map(|(bucket, tokens)| taken(tokens).map(move |slot| Place { bucket, slot }));
        places.find(|place| memory.load::<u64>(place.at().plus(KEY)) == key)
    }

    /// The tag of a key; `None` if it does not exist. Takes no lock.
    #[track_caller]
    pub fn search<M: Memory>(&self, memory: &M, key: u64) -> Option<u64> {
        memory.work(12);
        loop {
            let (top, _) = self.state(memory);
            let homes = self.homes(key, top);
            // Writers hold both stripes of an entry, so the version of either one shows them.
            let stripe = self.stripe(homes.stripes[0]);
            let version = stripe.version(memory);
            let found = LevelHash::find(memory, &homes, key);
            let tag = found.map(|place| memory.load(place.at().plus(TAG)));
            if stripe.is_still(memory, version) && self.state(memory).0 == top {
                return tag;
            }
        }
    }

    /// Inserts a key; returns false and changes nothing if it exists.
    ///
    /// # Errors
    /// [`Full`] if there is no room: only with more keys than the shape permits, or far
    /// more collisions than are probable. The content of the table is then unchanged.
    #[track_caller]
    pub fn insert<M: Memory, F: FnMut(u64, u64)>(
        &self,
        memory: &M,
        key: u64,
        mut change: Change<F>,
    ) -> Result<bool, Full> {
        loop {
            let hold = self.hold(memory, key);
            if LevelHash::find(memory, &hold.homes, key).is_some() {
                hold.release(memory);
                return Ok(false);
            }
            match self.room(memory, hold.top, &hold.homes, Some(change.flaw)) {
                Room::At(place) => {
                    (change.note)(key, change.tag);
                    put(memory, place, (key, change.tag), change.flaw);
                    hold.release(memory);
                    return Ok(true);
                }
                Room::Wait(stripe) => {
                    hold.release(memory);
                    stripe.version(memory);
                }
                Room::None => {
                    let top = hold.top;
                    hold.release(memory);
                    self.grow(memory, top, change.flaw)?;
                }
            }
        }
    }

    /// A slot for an entry with these homes, for which another entry can be moved. `shared` is
    /// `None` if no other thread uses the table; otherwise it is the planted bug.
    fn room<M: Memory>(
        &self,
        memory: &M,
        top: u64,
        homes: &Homes,
        shared: Option<OrderFlaw>,
    ) -> Room {
        let count = |bucket| (memory.load::<u64>(bucket) & TOKENS).count_ones();
        let [first, second, ..] = homes.buckets;
        let emptier = if count(second) < count(first) { [second, first] } else { [first, second] };
        let below = [homes.buckets[2], homes.buckets[3]];
        let found = emptier.into_iter().chain(below).find_map(|bucket| vacant(memory, bucket));
        if let Some(place) = found {
            return Room::At(place);
        }
        let mut wait = None;
        for (nth, bucket) in homes.buckets.into_iter().enumerate() {
            let level = top - nth as u64 / 2;
            for place in (0..SLOTS).map(|slot| Place { bucket, slot }) {
                match self.make_way(memory, (level, top), place, homes, shared) {
                    Room::At(place) => return Room::At(place),
                    Room::Wait(stripe) => wait = Some(stripe),
                    Room::None => {}
                }
            }
        }
        wait.map_or(Room::None, Room::Wait)
    }

    /// Moves the entry at `place` to its other bucket of the same level, if that has room.
    fn make_way<M: Memory>(
        &self,
        memory: &M,
        (level, top): (u64, u64),
        place: Place,
        homes: &Homes,
        shared: Option<OrderFlaw>,
    ) -> Room {
        let at = place.at();
        let [key, tag] = [KEY, TAG].map(|offset| memory.load::<u64>(at.plus(offset)));
        let indices = [0, 1].map(|hash| LevelHash::index(key, hash, top) >> (top - level));
        let other = indices.into_iter().find(|index| self.bucket(level, *index) != place.bucket);
        let Some(index) = other else { return Room::None };
        let unit = (index >> (level + 1 - top)) & self.stripe_mask;
        let is_ours = shared.is_none() || homes.stripes.contains(&unit);
        let held = if is_ours { None } else { self.stripe(unit).try_acquire(memory) };
        if !is_ours && held.is_none() {
            return Room::Wait(self.stripe(unit));
        }
        let free = vacant(memory, self.bucket(level, index));
        if let Some(to) = free {
            put(memory, to, (key, tag), shared.unwrap_or(OrderFlaw::None));
            flip(memory, place.bucket, 1 << place.slot);
        }
        if let Some(held) = held {
            held.release(memory);
        }
        free.map_or(Room::None, |_| Room::At(place))
    }

    /// Adds a new top level, unless another thread has done so since the top level was `top`.
    fn grow<M: Memory>(&self, memory: &M, top: u64, flaw: OrderFlaw) -> Result<(), Full> {
        let all: Vec<Held> =
            (0..=self.stripe_mask).map(|index| self.stripe(index).acquire(memory)).collect();
        let outcome = match self.state(memory).0 == top {
            true if top == self.shape.last() => Err(Full),
            true => {
                persist(memory, self.state, 2 * (top + 1 - FIRST) + 1);
                self.end_growing(memory, top + 1, flaw)
            }
            false => Ok(()),
        };
        for held in all {
            held.release(memory);
        }
        outcome
    }

    /// Ends growing to `top`: with the entries of the level below the bottom one in the other two
    /// or, if one of them finds no room, by undoing the growth. No other thread uses the table.
    fn end_growing<M: Memory>(&self, memory: &M, top: u64, flaw: OrderFlaw) -> Result<(), Full> {
        let outcome = self.rehash(memory, top, flaw);
        let top = match outcome {
            Ok(()) => top,
            Err(Full) => {
                self.clear_top(memory, top);
                top - 1
            }
        };
        persist(memory, self.state, 2 * (top - FIRST));
        outcome
    }

    /// Copies the entries of the level below the bottom one, which stays unchanged.
    fn rehash<M: Memory>(&self, memory: &M, top: u64, flaw: OrderFlaw) -> Result<(), Full> {
        for (from, key) in self.entries(memory, [top - 2]) {
            let homes = self.homes(key, top);
            if LevelHash::find(memory, &homes, key).is_none() {
                let Room::At(place) = self.room(memory, top, &homes, None) else {
                    return Err(Full);
                };
                put(memory, place, (key, memory.load(from.at().plus(TAG))), flaw);
            }
        }
        Ok(())
    }

    /// Removes all entries of the top level, whose originals are below the bottom one, and those of
    /// the bottom level that have an original there.
    fn clear_top<M: Memory>(&self, memory: &M, top: u64) {
        for bucket in (0..1 << top).map(|index| self.bucket(top, index)) {
            let tokens = memory.load::<u64>(bucket) & TOKENS;
            if tokens != 0 {
                flip(memory, bucket, tokens);
            }
        }
        self.drop_copies(memory, top - 1);
    }

    /// Sets the tag of a key; returns false and changes nothing if it does not exist.
    #[track_caller]
    pub fn update<M: Memory, F: FnMut(u64, u64)>(
        &self,
        memory: &M,
        key: u64,
        mut change: Change<F>,
    ) -> bool {
        let hold = self.hold(memory, key);
        let found = LevelHash::find(memory, &hold.homes, key);
        if let Some(place) = found {
            (change.note)(key, change.tag);
            match vacant(memory, place.bucket) {
                Some(free) => {
                    write(memory, free, (key, change.tag), change.flaw);
                    flip(memory, place.bucket, 1 << place.slot | 1 << free.slot);
                }
                None => self.update_logged(memory, place, (key, change.tag), change.flaw),
            }
        }
        hold.release(memory);
        found.is_some()
    }

    fn log(&self, thread: u64) -> Addr {
        self.logs.plus(thread * LINE_BYTES)
    }

    /// Overwrites the entry at `place` after logging its old content.
    fn update_logged<M: Memory>(
        &self,
        memory: &M,
        place: Place,
        (key, tag): (u64, u64),
        flaw: OrderFlaw,
    ) {
        let (at, log) = (place.at(), self.log(memory.thread() as u64));
        for (from, to) in [(TAG, LOG_TAG), (CHECK, LOG_CHECK)] {
            memory.store(log.plus(to), memory.load::<u64>(at.plus(from)));
        }
        memory.flush(log, LINE_BYTES);
        memory.order();
        memory.store(log.plus(LOG_SLOT), at.bits());
        if flaw != OrderFlaw::NoFlush {
            memory.flush(log, LINE_BYTES);
        }
        if flaw != OrderFlaw::NoOrder {
            memory.order();
        }
        memory.store(at.plus(TAG), tag);
        memory.store(at.plus(CHECK), check_of(key, tag));
        memory.flush(at, SLOT_BYTES);
        memory.order();
        memory.store(place.bucket, memory.load::<u64>(place.bucket).wrapping_add(VERSION));
        memory.flush(place.bucket, 8);
        persist(memory, log.plus(LOG_SLOT), 0);
    }

    /// Deletes a key; returns false and changes nothing if it does not exist.
    #[track_caller]
    pub fn delete<M: Memory, F: FnMut(u64, u64)>(
        &self,
        memory: &M,
        key: u64,
        mut change: Change<F>,
    ) -> bool {
        let hold = self.hold(memory, key);
        let found = LevelHash::find(memory, &hold.homes, key);
        if let Some(place) = found {
            (change.note)(key, 0);
            flip(memory, place.bucket, 1 << place.slot);
        }
        hold.release(memory);
        found.is_some()
    }
}

impl Hold {
    fn release<M: Memory>(self, memory: &M) {
        if let Some(second) = self.second {
            second.release(memory);
        }
        self.first.release(memory);
    }
}
