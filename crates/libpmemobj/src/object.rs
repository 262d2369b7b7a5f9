//! Objects: the 16 bytes before each, and how they are allocated and freed in a transaction.
//!
//! A block of the heap holds a header and the object behind it. The header has the bytes that were
//! asked for, what the object is, and the number of its type, which is 64 bits here and 7 in the
//! heap. An object whose allocation class aligns it can begin further behind: the block then begins
//! with the distance to its header, and the header has it, too.

use crate::error::Failure;
use crate::persist;
use crate::pool::ObjectPool;
use crate::types::{ALIGNMENT_MAX, BYTES_MAX, Constructor, Oid, flags};
use libc::c_void;
use seawall_memory::{Addr, Memory, MemoryExt};
use seawall_native::NativeMemory;
use seawall_runtime::Tx;

pub(crate) const HEADER_BYTES: u64 = 16;
/// Flag in the word of the bytes: the root object, which no iteration shows.
const ROOT: u64 = 1 << 63;
/// Flag there: of an allocation class that the program made, which says how many bytes are usable.
const EXACT: u64 = 1 << 62;
/// Flag in the first word of a block: the header is so many bytes behind.
const FORWARD: u64 = 1 << 61;
/// Where the header has that distance, in units of 16 bytes.
const BACK_SHIFT: u32 = 48;
const BACK_MASK: u64 = 0x3ff << BACK_SHIFT;
const BYTES_MASK: u64 = (1 << BACK_SHIFT) - 1;

pub(crate) type PoolTx<'s> = Tx<'s, 'static, NativeMemory<'static>>;

/// An object to allocate.
#[derive(Clone, Copy)]
pub(crate) struct Wanted {
    pub(crate) bytes: u64,
    pub(crate) type_number: u64,
    pub(crate) flags: u64,
    pub(crate) is_root: bool,
    /// Whether no more bytes are usable than were asked for.
    is_exact: bool,
    /// At least [`HEADER_BYTES`].
    alignment: u64,
}

impl Wanted {
    pub(crate) fn new(bytes: usize, type_number: u64, flags: u64) -> Wanted {
        Wanted {
            bytes: bytes as u64,
            type_number,
            flags,
            is_root: false,
            is_exact: false,
            alignment: HEADER_BYTES,
        }
    }

    /// The root object, with so many bytes, of which those that are new are zero.
    pub(crate) fn root(bytes: u64) -> Wanted {
        Wanted { is_root: true, ..Wanted::new(bytes as usize, 0, flags::ZERO) }
    }

    /// An object as one that exists.
    pub(crate) fn like(object: &Found) -> Wanted {
        let Found { at, bytes, type_number, is_root, is_exact, .. } = *object;
        let own = 1 << at.offset().trailing_zeros();
        let is_aligned = object.block.plus(HEADER_BYTES) != at;
        let alignment = if is_aligned { ALIGNMENT_MAX.min(own) } else { HEADER_BYTES };
        Wanted { bytes, type_number, flags: 0, is_root, is_exact, alignment }
    }

    /// The object as its allocation class makes it, if the flags name one.
    pub(crate) fn in_class(self, pool: &ObjectPool) -> Result<Wanted, Failure> {
        let number = self.flags >> 48;
        if number == 0 || self.bytes > BYTES_MAX {
            return Ok(self);
        }
        let Some(class) = pool.settings.class(number)? else { return Ok(self) };
        let too_large = || Failure::invalid("the object has more units than its allocation class");
        let bytes = class.usable(self.bytes).ok_or_else(too_large)?;
        let type_number = if class.has_type() { self.type_number } else { 0 };
        let alignment = class.alignment().max(HEADER_BYTES);
        Ok(Wanted { bytes, type_number, is_exact: true, alignment, ..self })
    }

    /// Refuses what no pool can have.
    pub(crate) fn check(&self) -> Result<(), Failure> {
        if self.bytes == 0 {
            return Err(Failure::invalid("allocation with size 0"));
        }
        if self.bytes > BYTES_MAX {
            return Err(Failure::new(libc::ENOMEM, "requested size too large"));
        }
        Ok(())
    }

    pub(crate) fn block_bytes(&self) -> u64 {
        self.bytes + self.alignment
    }

    /// Where the object is in its block.
    fn place_in(&self, block: Addr) -> Addr {
        Addr::pm((block.offset() + HEADER_BYTES).next_multiple_of(self.alignment))
    }

    /// Bytes that the program may use of what is allocated.
    pub(crate) fn usable(&self) -> u64 {
        if self.is_exact {
            return self.bytes;
        }
        seawall_runtime::block_bytes(self.block_bytes()) - HEADER_BYTES
    }

    fn is_zeroed(&self) -> bool {
        self.flags & flags::ZERO != 0
    }
}

/// What a constructor is called with.
#[derive(Clone, Copy)]
pub(crate) struct Construct {
    pub(crate) with: Constructor,
    pub(crate) argument: *mut c_void,
}

impl Construct {
    pub(crate) const NOTHING: Construct = Construct { with: None, argument: std::ptr::null_mut() };

    /// Calls the constructor for the object at `at`.
    #[inline]
    pub(crate) fn call(&self, pool: &ObjectPool, at: Addr) -> Result<(), Failure> {
        let Some(constructor) = self.with else { return Ok(()) };
        // SAFETY: the program vouches for its constructor, and the object is there.
        match unsafe { constructor(pool.pop(), pool.place(at).cast(), self.argument) } {
            0 => pool.check_process(),
            _ => Err(Failure::new(libc::ECANCELED, "the constructor refused the object")),
        }
    }
}

/// Allocates an object in the transaction; gives its address. The commit flushes what is written
/// here: the header, and zeros.
pub(crate) fn allocate(
    pool: &ObjectPool,
    tx: &mut PoolTx<'_>,
    wanted: Wanted,
) -> Result<Addr, Failure> {
    wanted.check()?;
    let block = tx.alloc_bare(wanted.block_bytes())?;
    let usable = if wanted.is_zeroed() { wanted.usable() } else { 0 };
    let at = write_header(pool, block, wanted);
    tx.flush_at_commit(block, at.offset() - block.offset() + usable);
    if usable > 0 {
        // SAFETY: the block is this transaction's, and so long.
        unsafe { pool.place(at).write_bytes(0, usable as usize) };
    }
    Ok(at)
}

/// Writes the header in a block that no other thread sees yet; gives where the object is. All from
/// the block's beginning to there is to be flushed.
pub(crate) fn write_header(pool: &ObjectPool, block: Addr, wanted: Wanted) -> Addr {
    let at = wanted.place_in(block);
    let skip = at.offset() - HEADER_BYTES - block.offset();
    let root = if wanted.is_root { ROOT } else { 0 };
    let exact = if wanted.is_exact { EXACT } else { 0 };
    let back = (skip / 16) << BACK_SHIFT;
    let header = pool.place(block.plus(skip)).cast::<u64>();
    // SAFETY: the block is the caller's, aligned, and longer than this.
    unsafe {
        if skip > 0 {
            pool.place(block).cast::<u64>().write(skip | FORWARD);
        }
        header.write(wanted.bytes | root | exact | back);
        header.add(1).write(wanted.type_number);
    }
    at
}

/// An object that exists.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Found {
    pub(crate) at: Addr,
    /// Bytes that the program asked for, and that it may use.
    pub(crate) bytes: u64,
    pub(crate) usable: u64,
    pub(crate) type_number: u64,
    pub(crate) is_root: bool,
    is_exact: bool,
    /// The block that it is in.
    pub(crate) block: Addr,
}

impl Found {
    /// What the header at that address says, but for its block.
    fn by_header<M: Memory>(memory: &M, header: Addr) -> Found {
        let first: u64 = memory.load(header);
        let type_number = memory.load(header.plus(8));
        let bytes = (first & BYTES_MASK).min(BYTES_MAX);
        let is_exact = first & EXACT != 0;
        let usable = if is_exact {
            bytes
        } else {
            seawall_runtime::block_bytes(bytes + HEADER_BYTES) - HEADER_BYTES
        };
        let skip = 16 * ((first & BACK_MASK) >> BACK_SHIFT);
        let block = Addr::pm(header.offset().wrapping_sub(skip));
        let (at, is_root) = (header.plus(HEADER_BYTES), first & ROOT != 0);
        Found { at, bytes, usable, type_number, is_root, is_exact, block }
    }

    /// The object in a block.
    fn in_block<M: Memory>(memory: &M, block: Addr) -> Found {
        let first: u64 = memory.load(block);
        let skip = if first & FORWARD != 0 { (first & BYTES_MASK).min(ALIGNMENT_MAX) } else { 0 };
        Found::by_header(memory, block.plus(skip & !15))
    }
}

/// The object that starts at `offset`, by its header: whether there is one is found out when it is
/// freed. All its bytes are in the pool.
#[inline]
pub(crate) fn find(pool: &ObjectPool, offset: u64) -> Result<Found, Failure> {
    pool.check_process()?;
    find_in(&pool.reader(), (pool.heap.data(), pool.bytes), offset)
}

/// As [`find`], in a pool whose objects are between these places.
pub(crate) fn find_in<M: Memory>(
    memory: &M,
    (first, end): (Addr, u64),
    offset: u64,
) -> Result<Found, Failure> {
    let none = || Failure::invalid(format!("no object starts at offset {offset:#x}"));
    let header = offset.checked_sub(HEADER_BYTES).ok_or_else(none)?;
    let first = first.offset();
    if header < first || !header.is_multiple_of(16) || offset > end {
        return Err(none());
    }
    let found = Found::by_header(memory, Addr::pm(header));
    if found.usable > end - offset || found.block.offset() < first {
        return Err(none());
    }
    Ok(found)
}

/// The first object behind the one at `at`, or of all, but for the root object.
pub(crate) fn next(pool: &ObjectPool, at: Option<Addr>) -> Oid {
    let memory = pool.reader();
    let found = |at: Addr| find_in(&memory, (pool.heap.data(), pool.bytes), at.offset()).ok();
    let mut block = at.and_then(found).map(|found| found.block);
    loop {
        match pool.heap.object_after(&memory, block) {
            Ok(Some(object)) => {
                block = Some(object.at);
                let found = Found::in_block(&memory, object.at);
                if !found.is_root {
                    return pool.oid(found.at);
                }
            }
            Ok(None) => return Oid::NULL,
            Err(error) => {
                Failure::invalid(error.to_string()).report();
                return Oid::NULL;
            }
        }
    }
}

/// Copies the first bytes of an object to a new one, and flushes them with the commit.
pub(crate) fn copy(pool: &ObjectPool, tx: &mut PoolTx<'_>, from: Addr, to: Addr, bytes: u64) {
    // SAFETY: both objects are so long, and the new one is this transaction's. In a damaged pool
    // they can overlap.
    unsafe { std::ptr::copy(pool.place(from), pool.place(to), bytes as usize) };
    tx.flush_at_commit(to, bytes);
}

/// Copies bytes of the program to a new object.
///
/// # Safety
/// `from` can be read, for so many bytes.
pub(crate) unsafe fn fill(
    pool: &ObjectPool,
    tx: &mut PoolTx<'_>,
    to: Addr,
    from: *const u8,
    bytes: u64,
) {
    // SAFETY: the object is this transaction's, and as the caller says.
    unsafe { std::ptr::copy_nonoverlapping(from, pool.place(to), bytes as usize) };
    tx.flush_at_commit(to, bytes);
}

/// Stores an OID where the program wants it: in the transaction, if that is in the pool. Gives
/// whether it is.
pub(crate) fn store_oid(
    pool: &ObjectPool,
    tx: &mut PoolTx<'_>,
    place: *mut Oid,
    oid: Oid,
) -> Result<bool, Failure> {
    let Some(at) = pool.address_of(place.cast(), crate::types::OID_BYTES) else { return Ok(false) };
    tx.write(at, &oid.bytes())?;
    Ok(true)
}

/// Makes what is before an object durable, before the object is published.
pub(crate) fn flush_header(pool: &ObjectPool, block: Addr, at: Addr) {
    persist::flush(pool, pool.place(block), (at.offset() - block.offset()) as usize);
}
