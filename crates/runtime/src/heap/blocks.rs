//! The allocator of one thread: blocks of the size classes, and runs of chunks.
//!
//! What is allocated is said by the pool alone: a byte of state for each block (0 free, else the
//! type of what lives there), an entry for each chunk. Both change only through the log, in the
//! transaction that links the object in or unlinks it, so no crash leaks or doubles a block.
//! Which of the free blocks is handed out next is nobody's business after a crash: each thread has
//! lists of them in its own DRAM, filled from the states of chunks that it owns.
//!
//! A chunk has at most one owner, who alone allocates from it; so two threads never find the same
//! free block. Others free into it and count that in DRAM; the owner looks again when it runs dry.
//! A thread takes chunks that nobody owns (after a restart: all), then free ones, under a lock.
//! Splitting a run of free chunks is a small transaction of its own.

use super::chunks::{self, Chunk};
use super::class::{CHUNK_BYTES, Class, STATE_BYTES};
use super::layout::CHUNK_LOCK;
use super::shelf::{GRANULE_BYTES, Placement, Shelves, needs_lines};
use crate::tx::direct::DIRECT_BYTES;
use crate::tx::log::Wait;
use crate::tx::record::Builder;
use crate::{HeapError, HeapFlaw, Session, Tx};
use rustc_hash::FxHashMap;
use seawall_memory::{Addr, Memory};

/// Chunks of its own that a thread looks at for blocks that others freed before it goes on.
const PROBES: usize = 64;
/// Chunks that nobody owns which a thread looks at before it takes a fresh one. Each costs a read
/// of its states, from cold memory after an opening; so full chunks delay nobody by much, and a
/// pool with room in it grows by a ninth at most before that room is found.
const ADOPTIONS: usize = 8;

/// Space that is allocated, or about to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Block {
    pub(crate) at: Addr,
    pub(crate) chunk: u64,
    pub(crate) kind: Kind,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// A block of a class.
    Small(Class),
    /// So many whole chunks.
    Large(u64),
    /// So many granules of a shelf.
    Shelf(u64),
}

impl Block {
    pub(crate) fn bytes(&self) -> u64 {
        match self.kind {
            Kind::Small(class) => class.bytes(),
            Kind::Large(chunks) => chunks * CHUNK_BYTES,
            Kind::Shelf(granules) => granules * GRANULE_BYTES,
        }
    }

    pub(crate) fn end(&self) -> Addr {
        self.at.plus(self.bytes())
    }

    pub(crate) fn holds(&self, at: Addr) -> bool {
        at >= self.at && at < self.end()
    }
}

/// What one thread knows of free space.
#[derive(Clone, Debug)]
pub(crate) struct Blocks {
    /// Free blocks of each class, in chunks that this thread owns; the last is taken first.
    free: Vec<Vec<u64>>,
    /// The chunks of each class that it owns, and which of them to look at next.
    mine: Vec<(Vec<u64>, usize)>,
    /// For each class, the chunk from which to look for ones that nobody owns.
    adopted: Vec<u64>,
    pub(crate) shelves: Shelves,
}

impl Blocks {
    pub(crate) fn new() -> Blocks {
        Blocks {
            free: vec![Vec::new(); Class::COUNT],
            mine: vec![(Vec::new(), 0); Class::COUNT],
            adopted: vec![0; Class::COUNT],
            shelves: Shelves::default(),
        }
    }
}

/// Where the state of the block at `at` is.
pub(crate) fn state_at(chunk_start: Addr, class: Class, at: Addr) -> Addr {
    chunk_start.plus(class.block_of(at.offset() - chunk_start.offset() - STATE_BYTES))
}

impl<M: Memory> Session<'_, M> {
    /// Takes a block of `class`; it is free for everybody else until a transaction says not.
    pub(crate) fn take_small(&mut self, class: Class) -> Result<Block, HeapError> {
        let number = class.number();
        if self.blocks.free[number].is_empty() {
            self.refill(class)?;
        }
        let at = Addr::pm(self.blocks.free[number].pop().expect("just filled"));
        let chunk = self.heap.layout.chunk_of(at).expect("a block lies in a chunk");
        Ok(Block { at, chunk, kind: Kind::Small(class) })
    }

    #[cold]
    #[inline(never)]
    fn refill(&mut self, class: Class) -> Result<(), HeapError> {
        if self.look_again(class, PROBES) || self.adopt(class, ADOPTIONS) {
            return Ok(());
        }
        match self.fresh_chunk(class) {
            Err(HeapError::Full { .. })
                if self.look_again(class, usize::MAX) || self.adopt(class, usize::MAX) =>
            {
                Ok(())
            }
            other => other,
        }
    }

    /// Looks at up to `probes` chunks of this thread for blocks that others freed.
    fn look_again(&mut self, class: Class, probes: usize) -> bool {
        let probes = probes.min(self.blocks.mine[class.number()].0.len());
        for _ in 0..probes {
            let (mine, next) = &mut self.blocks.mine[class.number()];
            *next = (*next + 1) % mine.len();
            let chunk = mine[*next];
            let freed = self.heap.layout.freed(chunk);
            if self.memory.load::<u64>(freed) > 0 {
                self.memory.swap(freed, 0);
                if self.scan(class, chunk) {
                    return true;
                }
            }
        }
        false
    }

    /// Makes chunks of the class that nobody owns this thread's, until one has a free block; looks
    /// at up to `probes` chunks.
    fn adopt(&mut self, class: Class, probes: usize) -> bool {
        self.with_chunk_lock(|session| Ok(session.adopt_locked(class, probes))).unwrap_or(false)
    }

    /// As [`adopt`](Session::adopt); the chunk lock is held, as whenever a chunk gets an owner.
    fn adopt_locked(&mut self, class: Class, probes: usize) -> bool {
        let layout = self.heap.layout;
        let chunks = self.chunks();
        for _ in 0..probes {
            let chunk = self.blocks.adopted[class.number()];
            if chunk >= chunks {
                return false;
            }
            let entry = chunks::load(self.memory, &layout, chunk);
            let length = entry.as_ref().map_or(1, |entry| entry.length());
            self.blocks.adopted[class.number()] = chunk + length;
            let owner = layout.owner(chunk);
            if entry == Ok(Chunk::Small(class)) && self.may_own(owner, chunk, class) {
                self.forget(class, chunk, self.memory.load(owner));
                self.memory.store(owner, self.thread + 1);
                self.blocks.mine[class.number()].0.push(chunk);
                if self.scan(class, chunk) {
                    return true;
                }
            }
        }
        false
    }

    /// Takes blocks of the chunk off the list: those that this session freed while the chunk was an
    /// earlier one's of its thread.
    fn forget(&mut self, class: Class, chunk: u64, owner: u64) {
        if owner == self.thread + 1 {
            let layout = self.heap.layout;
            let is_other = |at: &u64| layout.chunk_of(Addr::pm(*at)) != Some(chunk);
            self.blocks.free[class.number()].retain(is_other);
        }
    }

    /// True if nobody owns the chunk, or an earlier session of this thread did.
    fn may_own(&self, owner: Addr, chunk: u64, class: Class) -> bool {
        match self.memory.load::<u64>(owner) {
            0 => true,
            thread if thread == self.thread + 1 => {
                !self.blocks.mine[class.number()].0.contains(&chunk)
            }
            _ => false,
        }
    }

    /// Puts the free blocks of a chunk into the list; the list has none of them.
    fn scan(&mut self, class: Class, chunk: u64) -> bool {
        let start = self.heap.layout.chunk(chunk);
        let mut states = vec![0; class.blocks() as usize];
        self.memory.read(start, &mut states);
        let first = start.offset() + STATE_BYTES;
        let free = &mut self.blocks.free[class.number()];
        let before = free.len();
        for (block, state) in states.iter().enumerate().rev() {
            let at = first + block as u64 * class.bytes();
            let is_taken = || self.buffers.taken.iter().any(|block| block.at == Addr::pm(at));
            if *state == 0 && !is_taken() {
                free.push(at);
            }
        }
        free.len() > before
    }

    fn fresh_chunk(&mut self, class: Class) -> Result<(), HeapError> {
        let chunk = self.fresh(Chunk::Small(class), STATE_BYTES)?;
        self.blocks.mine[class.number()].0.push(chunk);
        self.scan(class, chunk);
        Ok(())
    }

    /// Takes a chunk for `content`, which starts with so many bytes of states, all zero.
    pub(crate) fn fresh(&mut self, content: Chunk, states: u64) -> Result<u64, HeapError> {
        let chunk = self.with_chunk_lock(|session| {
            let (chunk, entry) = session.find_run(1)?;
            let layout = session.heap.layout;
            let is_shelf = content == Chunk::Shelf;
            if entry != Chunk::Clean || is_shelf && !session.has_zeros(chunk, states) {
                session.memory.write(layout.chunk(chunk), &vec![0; states as usize]);
                session.memory.flush(layout.chunk(chunk), states);
                session.memory.order();
            }
            let rest = Chunk::Run(entry.length() - 1);
            session.write_entries(&[(chunk, content), (chunk + 1, rest)], false)?;
            session.memory.store(layout.owner(chunk), session.thread + 1);
            Ok(chunk)
        })?;
        self.memory.will_write(self.heap.layout.chunk(chunk), CHUNK_BYTES);
        Ok(chunk)
    }

    /// True if that many bytes at the start of the chunk are zero.
    fn has_zeros(&self, chunk: u64, states: u64) -> bool {
        let mut bytes = vec![0; states as usize];
        self.memory.read(self.heap.layout.chunk(chunk), &mut bytes);
        bytes.iter().all(|byte| *byte == 0)
    }

    /// Takes `length` chunks in a row.
    pub(crate) fn take_large(&mut self, length: u64) -> Result<Block, HeapError> {
        let chunk = self.with_chunk_lock(|session| {
            let (chunk, found) = session.find_run(length)?;
            let rest = Chunk::Run(found.length() - length);
            let entries = [(chunk, Chunk::Run(length)), (chunk + length, rest)];
            session.write_entries(&entries, false)?;
            session.own_run(chunk, length, session.thread + 1);
            Ok(chunk)
        })?;
        Ok(Block { at: self.heap.layout.chunk(chunk), chunk, kind: Kind::Large(length) })
    }

    fn own_run(&self, chunk: u64, length: u64, owner: u64) {
        for chunk in chunk..chunk + length {
            self.memory.store(self.heap.layout.owner(chunk), owner);
        }
    }

    pub(crate) fn with_chunk_lock<T>(
        &mut self,
        action: impl FnOnce(&mut Self) -> Result<T, HeapError>,
    ) -> Result<T, HeapError> {
        let guard = self.heap.layout.locks.acquire(self.memory, CHUNK_LOCK, 1);
        let outcome = action(self);
        self.heap.layout.locks.release(self.memory, guard);
        outcome
    }

    /// Writes chunk entries, of which those of no length are left out, as one transaction; says
    /// that what the chunks held is void, if `is_void`.
    pub(crate) fn write_entries(
        &mut self,
        entries: &[(u64, Chunk)],
        is_void: bool,
    ) -> Result<(), HeapError> {
        let mut builder = Builder::default();
        builder.clear();
        for (chunk, entry) in entries.iter().filter(|(_, entry)| entry.length() > 0) {
            let at = self.heap.layout.chunk_entry(*chunk);
            builder.push_word(at, entry.encode(at));
            if is_void {
                let start = self.heap.layout.chunk(*chunk);
                builder.push_freed(start, entry.length() * CHUNK_BYTES);
            }
        }
        self.log.commit(self.memory, &mut builder, Wait::Durable)
    }

    /// Finds `length` free chunks in a row, joins the runs they are in, and gives the first with
    /// what is there. Grows the pool if there are none. The chunk lock is held.
    fn find_run(&mut self, length: u64) -> Result<(u64, Chunk), HeapError> {
        let layout = self.heap.layout;
        let chunks = self.chunks();
        let cursor: u64 = self.memory.load(layout.cursor);
        for (from, to) in [(cursor, chunks), (0, chunks)] {
            if let Some((chunk, found)) = self.search_run(from, to, length)? {
                return Ok(self.found_run(chunk, found, length));
            }
        }
        if self.release_empty()? || self.grow(length) {
            if let Some((chunk, found)) = self.search_run(0, self.chunks(), length)? {
                return Ok(self.found_run(chunk, found, length));
            }
            if self.grow(length)
                && let Some((chunk, found)) = self.search_run(0, self.chunks(), length)?
            {
                return Ok(self.found_run(chunk, found, length));
            }
        }
        Err(HeapError::Full { chunks, wanted: length })
    }

    /// The next search starts behind the chunks that were found: within them there is no entry that
    /// counts.
    fn found_run(&self, chunk: u64, found: Chunk, length: u64) -> (u64, Chunk) {
        let next = (chunk + length) % self.chunks().max(1);
        self.memory.store(self.heap.layout.cursor, next);
        (chunk, found)
    }

    /// Makes chunks of this thread and of nobody whose blocks are all free fit for anything; true
    /// if there were any. The chunk lock is held.
    fn release_empty(&mut self) -> Result<bool, HeapError> {
        let layout = self.heap.layout;
        let mut released = self.release_empty_shelves()?;
        for number in 0..Class::COUNT {
            let class = Class::new(number as u64).expect("a class");
            while self.adopt_locked(class, usize::MAX) {}
            let mut free: FxHashMap<u64, u64> = FxHashMap::default();
            for at in &self.blocks.free[number] {
                *free.entry(layout.chunk_of(Addr::pm(*at)).expect("a block")).or_default() += 1;
            }
            let mine = self.blocks.mine[number].0.clone();
            for chunk in mine.into_iter().filter(|chunk| free.get(chunk) == Some(&class.blocks())) {
                self.write_entries(&[(chunk, Chunk::Run(1))], true)?;
                let keeps = |at: &u64| layout.chunk_of(Addr::pm(*at)) != Some(chunk);
                self.blocks.free[number].retain(keeps);
                self.blocks.mine[number].0.retain(|mine| *mine != chunk);
                self.memory.store(layout.owner(chunk), 0u64);
                released = true;
            }
        }
        Ok(released)
    }

    /// Walks the chunks of `from..to` for `length` free ones in a row.
    fn search_run(
        &mut self,
        from: u64,
        to: u64,
        length: u64,
    ) -> Result<Option<(u64, Chunk)>, HeapError> {
        let layout = self.heap.layout;
        let (mut chunk, mut first, mut joined) = (from, from, 0);
        while chunk < to {
            let entry = chunks::load_within(self.memory, &layout, chunk, to)?;
            let is_free = entry.is_free() && self.memory.load::<u64>(layout.owner(chunk)) == 0;
            if is_free {
                if joined == 0 {
                    first = chunk;
                }
                joined += entry.length();
            } else {
                joined = 0;
            }
            chunk += entry.length();
            if joined >= length {
                let is_one = first + joined == chunk && entry.length() == joined;
                return Ok(Some((first, if is_one { entry } else { Chunk::Run(joined) })));
            }
        }
        Ok(None)
    }

    /// Makes the pool longer by an eighth, or at least by `length` chunks.
    fn grow(&mut self, length: u64) -> bool {
        let layout = self.heap.layout;
        let chunks = self.chunks();
        let most = layout.numbers.chunks_max;
        for more in [(chunks / 8).max(length), length] {
            let wanted = (chunks + more).min(most);
            let is_enough = wanted >= chunks + length;
            if is_enough && self.heap.flaw == HeapFlaw::EarlyGrowth {
                self.count_chunks(wanted);
            }
            if is_enough && self.memory.grow(layout.pm_bytes(wanted)) {
                self.count_chunks(wanted);
                return true;
            }
        }
        false
    }

    fn count_chunks(&self, chunks: u64) {
        let at = self.heap.layout.chunks;
        self.memory.store(at, super::checked::encode(at, chunks));
        self.memory.persist(at, 8);
    }

    /// The space is free again, for this thread first: it was taken and never linked, or a
    /// transaction that freed it has committed.
    pub(crate) fn give_back(&mut self, blocks: &[Block]) {
        for block in blocks {
            let owner = self.heap.layout.owner(block.chunk);
            match block.kind {
                Kind::Large(length) => self.own_run(block.chunk, length, 0),
                Kind::Small(class) if self.memory.load::<u64>(owner) == self.thread + 1 => {
                    self.blocks.free[class.number()].push(block.at.offset());
                }
                Kind::Shelf(count) if self.give_back_granules(block, count) => {}
                Kind::Small(_) | Kind::Shelf(_) => {
                    self.memory.fetch_add(self.heap.layout.freed(block.chunk), 1);
                }
            }
        }
    }

    /// Owns no chunk any more: others may take them.
    pub(crate) fn disown(&mut self) {
        let Blocks { mine, shelves, .. } = std::mem::replace(&mut self.blocks, Blocks::new());
        let blocks = mine.into_iter().flat_map(|(chunks, _)| chunks);
        for chunk in blocks.chain(shelves.chunks()) {
            self.memory.store(self.heap.layout.owner(chunk), 0u64);
        }
    }
}

impl<M: Memory> Tx<'_, '_, M> {
    /// Allocates `bytes` bytes (at least 1) of no type, whose content is anything. If the
    /// transaction does not commit, nothing was allocated.
    ///
    /// # Errors
    /// [`HeapError::Full`] when there is no room and the pool cannot grow.
    pub fn alloc(&mut self, bytes: u64) -> Result<Addr, HeapError> {
        self.alloc_tagged(bytes, false, chunks::UNTYPED)
    }

    /// As [`alloc`](Tx::alloc), starting at a cache line, of which nothing else has a part.
    ///
    /// # Errors
    /// As [`alloc`](Tx::alloc).
    pub fn alloc_lines(&mut self, bytes: u64) -> Result<Addr, HeapError> {
        self.alloc_tagged(bytes, true, chunks::UNTYPED)
    }

    /// As [`alloc`](Tx::alloc), for the type of that number.
    pub(crate) fn alloc_tagged(
        &mut self,
        bytes: u64,
        lines: bool,
        tag: u8,
    ) -> Result<Addr, HeapError> {
        let lines = lines || self.session.placement == Placement::Lines && needs_lines(bytes);
        let block = match Class::of(bytes.max(1), lines) {
            Some(class) => self.session.take_small(class)?,
            None => self.session.take_large(bytes.div_ceil(CHUNK_BYTES))?,
        };
        Ok(self.note(block, tag))
    }

    /// Notes that an object of that type is in the block that was taken.
    pub(crate) fn note(&mut self, block: Block, tag: u8) -> Addr {
        self.session.buffers.taken.push(block);
        let start = self.session.heap.layout.chunk(block.chunk);
        match block.kind {
            Kind::Small(class) => self.put_state(state_at(start, class, block.at), tag),
            Kind::Large(length) => self.put_entry(block.chunk, Chunk::Large(length, tag)),
            Kind::Shelf(count) => self.put_granules(&block, count, tag),
        }
        block.at
    }

    /// Frees the object at `at`, when the transaction commits. Nothing may point to it then.
    ///
    /// # Errors
    /// [`HeapError::NoObject`] when no object starts there, or it was freed before.
    pub fn free(&mut self, at: Addr) -> Result<(), HeapError> {
        let (block, _) = self.object(at)?;
        self.free_block(block);
        Ok(())
    }

    /// As [`free`](Tx::free), for an object that was found already.
    pub(crate) fn free_block(&mut self, block: Block) {
        let start = self.session.heap.layout.chunk(block.chunk);
        match block.kind {
            Kind::Small(class) => self.put_state(state_at(start, class, block.at), 0),
            Kind::Large(length) => self.put_entry(block.chunk, Chunk::Run(length)),
            Kind::Shelf(count) => self.put_granules(&block, count, 0),
        }
        if block.bytes() >= DIRECT_BYTES && self.session.heap.flaw != HeapFlaw::NoFreed {
            self.session.buffers.new.push_freed(block.at, block.bytes());
        }
        self.session.buffers.freed.push(block);
    }

    /// The object that starts at `at`, as this transaction sees it, and its type.
    pub(crate) fn object(&self, at: Addr) -> Result<(Block, u8), HeapError> {
        let layout = &self.session.heap.layout;
        let none = HeapError::NoObject { at };
        let chunk = layout.chunk_of(at).filter(|chunk| self.session.has_chunk(*chunk));
        let Some(chunk) = chunk else { return Err(none) };
        let entry_at = layout.chunk_entry(chunk);
        let start = layout.chunk(chunk);
        let entry = self.session.decode(entry_at, self.load_word(entry_at))?;
        if !self.session.has_chunk(chunk + entry.length() - 1) {
            chunks::check_end(chunk, entry, self.session.chunks())?;
        }
        match entry {
            Chunk::Small(class) => {
                let into = at.offset() - start.offset();
                let Some(into) = into.checked_sub(STATE_BYTES) else { return Err(none) };
                let block = class.block_of(into);
                if block * class.bytes() != into || block >= class.blocks() {
                    return Err(none);
                }
                let state = start.plus(block);
                let word = self.load_word(Addr::from_bits(state.bits() & !7));
                let state = (word >> (8 * (state.bits() % 8))) as u8;
                if !chunks::is_state(state) {
                    return Err(chunks::no_state(at, state));
                }
                match chunks::tag(state) {
                    Some(tag) => Ok((Block { at, chunk, kind: Kind::Small(class) }, tag)),
                    None => Err(none),
                }
            }
            Chunk::Large(length, tag) if at == start => {
                Ok((Block { at, chunk, kind: Kind::Large(length) }, tag))
            }
            Chunk::Shelf => self.object_of_shelf(at, chunk),
            _ => Err(none),
        }
    }

    fn put_state(&mut self, at: Addr, tag: u8) {
        let (word, byte) = (Addr::from_bits(at.bits() & !7), at.bits() % 8);
        let state = chunks::state(tag);
        self.put_bytes(word, 1 << byte, u64::from(state) << (8 * byte));
    }

    fn put_entry(&mut self, chunk: u64, entry: Chunk) {
        let at = self.session.heap.layout.chunk_entry(chunk);
        self.put_bytes(at, 0xff, entry.encode(at));
    }
}
