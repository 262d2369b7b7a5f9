//! A pool: its file, the heap in it, and what threads share while it is open.
//!
//! The pool is a heap of this project in the kind for programs that store in place
//! (`HeapOptions::in_place`), so nothing that a call has done is stored again after a crash. Its
//! offsets are those of the file, as programs compute addresses from them. Neither library opens
//! the other's pools.

use crate::error::Failure;
use crate::object::{self, PoolTx};
use crate::settings::{self, Settings};
use crate::types::{LAYOUT_BYTES, Oid, POOL_BYTES_MIN, Pop};
use seawall_lanes::{LaneGuard, Lanes, lanes_for};
use seawall_memory::{Addr, Image, Memory, MemoryExt, Process};
use seawall_native::{
    DOMAIN_VARIABLE, Domain, Durability, FlushKind, NativeMemory, Needs, Pool, PoolFile,
    PoolOptions,
};
use seawall_runtime::{CHUNK_BYTES, Heap, HeapInfo, HeapOptions, Logging};
use std::collections::hash_map::RandomState;
use std::fs::Permissions;
use std::hash::BuildHasher;
use std::os::unix::fs::{FileExt, PermissionsExt};
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::AtomicPtr;

/// The name of the heap, by which this library knows its pools.
pub(crate) const NAME: &str = "libpmemobj";
/// The largest pool, in bytes: what a heap can have, but for its logs.
const POOL_BYTES_MAX: u64 = 15 << 40;
/// Lanes of a pool, and of one that is small.
const LANES: u64 = 1024;
const FEW_LANES: u64 = 256;
/// Bytes of a pool from which it has all lanes.
const MANY_LANES_MIN: u64 = 512 << 20;
/// The part of a pool that logs may take, if they need not be as small as they can be.
const LOG_SHARE: u64 = 32;

/// Bytes of the root object of the heap.
const ROOT_BYTES: u64 = root_words::LAYOUT + LAYOUT_BYTES as u64;

/// What the root object of the heap holds, by offset.
pub(crate) mod root_words {
    use seawall_memory::Addr;

    /// The offset of the program's root object, or 0.
    pub(crate) const ROOT: u64 = 0;
    /// The bytes that it was asked for with.
    pub(crate) const ROOT_BYTES: u64 = 8;
    /// Grows with each opening: locks that another run left are free.
    pub(crate) const RUN: u64 = 16;
    /// The layout's name, with a final zero.
    pub(crate) const LAYOUT: u64 = 64;

    /// The address of a word.
    pub(crate) fn at(root: Addr, word: u64) -> Addr {
        root.plus(word)
    }
}

/// An open pool.
pub(crate) struct ObjectPool {
    process: Process,
    pub(crate) file: &'static Pool,
    pub(crate) heap: Heap,
    pub(crate) lanes: Lanes,
    pub(crate) base: usize,
    pub(crate) bytes: u64,
    pub(crate) uuid: u64,
    pub(crate) run: u64,
    pub(crate) flush: FlushKind,
    pub(crate) user_data: AtomicPtr<libc::c_void>,
    /// Held while the root object is found, made or grown.
    pub(crate) root_lock: Mutex<()>,
    pub(crate) settings: Settings,
}

impl ObjectPool {
    /// Makes a pool of `bytes` bytes in a new file, or in the whole of one that there is if `bytes`
    /// is 0.
    pub(crate) fn create(
        path: &Path,
        layout: &[u8],
        bytes: u64,
        mode: u32,
    ) -> Result<ObjectPool, Failure> {
        if layout.len() >= LAYOUT_BYTES {
            return Err(Failure::invalid(format!(
                "Layout too long: {} bytes, of at most {}",
                layout.len(),
                LAYOUT_BYTES - 1
            )));
        }
        if bytes != 0 && bytes < POOL_BYTES_MIN {
            return Err(Failure::invalid(format!(
                "size {bytes} smaller than {POOL_BYTES_MIN}, the smallest pool"
            )));
        }
        let settings = settings::from_environment()?;
        if bytes == 0 {
            let file = PoolFile::open(path)?;
            let bytes = empty(&file)?;
            return ObjectPool::make_in(file, bytes, layout, settings);
        }
        if i64::try_from(bytes).is_err() {
            let text = format!("{}: no file has {bytes} bytes", path.display());
            return Err(Failure::new(libc::EFBIG, text));
        }
        let file = PoolFile::create(path, 0o600)?;
        let allowed = file.file().set_permissions(Permissions::from_mode(mode & 0o7777));
        allowed.map_err(|error| io_failure(path, &error))?;
        ObjectPool::make_in(file, bytes, layout, settings)
    }

    /// Makes a pool of `bytes` bytes in a file of no more, which are zero.
    fn make_in(
        file: PoolFile,
        bytes: u64,
        layout: &[u8],
        settings: Settings,
    ) -> Result<ObjectPool, Failure> {
        if bytes < POOL_BYTES_MIN {
            return Err(Failure::invalid(format!(
                "{}: {bytes} bytes, smaller than {POOL_BYTES_MIN}, the smallest pool",
                file.name()
            )));
        }
        if bytes > POOL_BYTES_MAX {
            let text = format!("{}: no room for {bytes} bytes", file.name());
            return Err(Failure::new(libc::ENOSPC, text));
        }
        let options = options_for(bytes, settings::lanes_wanted()?);
        let open = PoolOptions { dram_bytes: options.dram_bytes(), ..PoolOptions::default() };
        let file = fitting(Pool::create_in(file, bytes, &open)?)?;
        let memory = file.memory(0);
        let heap = Heap::create(&memory, NAME, new_uuid(), &options)?;
        let place = root_words::at(heap.root(), root_words::LAYOUT);
        memory.write(place, layout);
        memory.persist(place, LAYOUT_BYTES as u64);
        Ok(ObjectPool::start(file, heap, settings))
    }

    /// Opens the pool in the file, and recovers it; `layout` names what it must be of.
    pub(crate) fn open(path: &Path, layout: Option<&[u8]>) -> Result<ObjectPool, Failure> {
        let settings = settings::from_environment()?;
        let file = fitting(Pool::open_as(path, None, |head, bytes| {
            needs(head, bytes).map_err(|failure| failure.text)
        })?)?;
        let heap = opened(&file.memory(0), file.bytes(), layout)?;
        Ok(ObjectPool::start(file, heap, settings))
    }

    fn start(file: Pool, heap: Heap, settings: Settings) -> ObjectPool {
        // Early flushes would make msync write more pages under each fence.
        let heap = if file.domain() == Domain::Page { heap } else { heap.flushing_early() };
        let file: &'static Pool = Box::leak(Box::new(file));
        let memory = file.memory(0);
        let run_at = root_words::at(heap.root(), root_words::RUN);
        let run = memory.load::<u64>(run_at).wrapping_add(2).max(2) & !1;
        memory.store(run_at, run);
        memory.persist(run_at, 8);
        ObjectPool {
            process: file.process(),
            file,
            heap,
            lanes: Lanes::new(file, heap),
            base: file.base() as usize,
            bytes: file.bytes(),
            uuid: heap.uuid() as u64,
            run,
            flush: file.instruction().kind,
            user_data: AtomicPtr::default(),
            root_lock: Mutex::new(()),
            settings,
        }
    }

    /// Ends the pool: no thread uses it any more, nor any address in it.
    pub(crate) fn close(self) {
        let ObjectPool { file, lanes, .. } = self;
        lanes.end();
        // SAFETY: it is from `Box::leak`, and all that borrowed it has ended.
        drop(unsafe { Box::from_raw(std::ptr::from_ref(file).cast_mut()) });
    }

    /// Gives up a pool that is the parent's, in the child of a fork: its file is closed here. What
    /// a transaction of the forking thread leads to stays.
    pub(crate) fn give_up(&'static self) {
        // SAFETY: it is from `Box::leak`, and a pool is reached by its file in its process only.
        drop(unsafe { Box::from_raw(std::ptr::from_ref(self.file).cast_mut()) });
    }

    /// Refuses to go on in the child of a fork, whose parent has the pool.
    #[inline]
    pub(crate) fn check_process(&self) -> Result<(), Failure> {
        if self.process.is_this() { Ok(()) } else { Err(Failure::inherited()) }
    }

    pub(crate) fn pop(&self) -> Pop {
        self.base as Pop
    }

    pub(crate) fn oid(&self, at: Addr) -> Oid {
        Oid { pool: self.uuid, offset: at.offset() }
    }

    /// Where the program sees that address.
    pub(crate) fn place(&self, at: Addr) -> *mut u8 {
        (self.base + at.offset() as usize) as *mut u8
    }

    pub(crate) fn holds(&self, place: *const u8) -> bool {
        (place as usize).wrapping_sub(self.base) < self.bytes as usize
    }

    /// The address of these bytes, if the pool has them.
    pub(crate) fn address_of(&self, place: *const u8, bytes: u64) -> Option<Addr> {
        let offset = (place as usize).wrapping_sub(self.base) as u64;
        (offset < self.bytes && bytes <= self.bytes - offset).then(|| Addr::pm(offset))
    }

    /// A memory to read by, outside of all lanes.
    pub(crate) fn reader(&self) -> NativeMemory<'static> {
        self.file.memory(self.heap.threads() as usize)
    }

    /// A lane for one call.
    #[inline]
    pub(crate) fn call_lane(&'static self) -> LaneGuard {
        let before_waiting = crate::tx::give_up_space;
        LaneGuard::take_beside(&self.lanes, crate::thread::number(), before_waiting)
    }

    /// Runs a transaction of one call, atomic with respect to crashes. To log the old values takes
    /// half of the instructions, and a fence for each set of places that the body announces; to
    /// log the new ones takes one for all that it stores.
    pub(crate) fn atomically<T>(
        &'static self,
        logging: Logging,
        body: impl FnMut(&mut PoolTx<'_>) -> Result<T, Failure>,
    ) -> Result<T, Failure> {
        let mut lane = self.call_lane();
        self.atomically_in(&mut lane, logging, body)
    }

    /// As [`atomically`](ObjectPool::atomically), in a lane that the caller has.
    pub(crate) fn atomically_in<T>(
        &'static self,
        lane: &mut LaneGuard,
        logging: Logging,
        mut body: impl FnMut(&mut PoolTx<'_>) -> Result<T, Failure>,
    ) -> Result<T, Failure> {
        lane.with_room(|session| session.transaction_with(logging, |tx| body(tx)))
    }
}

/// The pool in the domain that fits its file: a program of libpmemobj is promised that what it has
/// persisted survives a power failure, so an ordinary file on a disk is written by `msync`, unless
/// the program's user says that it is persistent memory, or names the domain.
fn fitting(file: Pool) -> Result<Pool, Failure> {
    let forced = std::env::var("PMEM_IS_PMEM_FORCE").unwrap_or_default();
    let is_named = std::env::var_os(DOMAIN_VARIABLE).is_some_and(|name| !name.is_empty());
    let by_page = match forced.as_str() {
        "1" => false,
        "0" => true,
        _ => file.durability() == Durability::KilledProcess,
    };
    if is_named || !by_page {
        return Ok(file);
    }
    Ok(file.in_domain(Domain::Page)?)
}

/// Removes what a file holds whose first page is zero, and keeps its length, which it returns: what
/// programs may make a pool in.
fn empty(file: &PoolFile) -> Result<u64, Failure> {
    let fail = |error| io_failure(Path::new(&file.name()), &error);
    let bytes = file.bytes()?;
    let mut head = [0; 4096];
    file.file().read_exact_at(&mut head, 0).map_err(fail)?;
    if head.iter().any(|byte| *byte != 0) {
        let text = format!("{}: not empty, so no pool is made in it", file.name());
        return Err(Failure::new(libc::EEXIST, text));
    }
    file.file().set_len(0).and_then(|()| file.file().set_len(bytes)).map_err(fail)?;
    Ok(bytes)
}

pub(crate) fn io_failure(path: &Path, error: &std::io::Error) -> Failure {
    let text = format!("{}: {error}", path.display());
    Failure::new(error.raw_os_error().unwrap_or(libc::EIO), text)
}

/// The header of a pool of so many bytes.
pub(crate) fn described<M: Memory>(memory: &M, bytes: u64) -> Result<HeapInfo, Failure> {
    let info = Heap::read(memory, NAME, bytes)?;
    if !info.stores_in_place() || info.root_bytes() < ROOT_BYTES {
        return Err(Failure::invalid("a pool of that name, and not of this library"));
    }
    Ok(info)
}

/// Opens the heap of a pool of so many bytes, and recovers it: what `pmemobj_open` opens, and what
/// `pmemobj_check` calls whole if its objects are, too.
pub(crate) fn opened<M: Memory>(
    memory: &M,
    bytes: u64,
    layout: Option<&[u8]>,
) -> Result<Heap, Failure> {
    if let Some(layout) = layout {
        check_layout(memory, &described(memory, bytes)?, layout)?;
    }
    let (heap, _) = Heap::open(memory, NAME, bytes)?;
    let root: u64 = memory.load(root_words::at(heap.root(), root_words::ROOT));
    if root != 0 && object::find_in(memory, (heap.data(), bytes), root).is_err() {
        return Err(Failure::invalid("the pool is damaged: its root object is none"));
    }
    Ok(heap)
}

/// What the pool needs that begins with the bytes of `head`.
fn needs(head: &[u8], bytes: u64) -> Result<Needs, Failure> {
    let image = Image::from_pm(head.to_vec(), 0);
    let info = described(&image, bytes)?;
    Ok(Needs { used: bytes, backed: bytes, dram_bytes: info.dram_bytes(), bytes_max: bytes })
}

pub(crate) fn check_layout<M: Memory>(
    memory: &M,
    heap: &HeapInfo,
    layout: &[u8],
) -> Result<(), Failure> {
    let mut found = [0; LAYOUT_BYTES];
    memory.read(root_words::at(heap.root(), root_words::LAYOUT), &mut found);
    let end = found.iter().position(|byte| *byte == 0).unwrap_or(LAYOUT_BYTES);
    if &found[..end] == layout {
        return Ok(());
    }
    Err(Failure::invalid(format!(
        "wrong layout (\"{}\"), the pool was made with layout \"{}\"",
        String::from_utf8_lossy(layout),
        String::from_utf8_lossy(&found[..end])
    )))
}

/// The options of a heap that fills a pool of so many bytes, with so many lanes at most. Small
/// pools have small logs, which grow with what a transaction needs.
fn options_for(bytes: u64, lanes: Option<u64>) -> HeapOptions {
    let usual = if bytes < MANY_LANES_MIN { FEW_LANES } else { LANES };
    let threads =
        lanes.map_or(usual, |lanes| (lanes_for(lanes.min(usual) as usize) as u64).min(usual));
    let share = (bytes / LOG_SHARE / (3 * threads)).clamp(4 << 10, 64 << 10);
    let log_bytes = 1 << share.ilog2();
    let with = |chunks: u64| HeapOptions {
        bytes: chunks * CHUNK_BYTES,
        bytes_max: chunks * CHUNK_BYTES,
        threads,
        log_bytes,
        root_bytes: ROOT_BYTES,
        in_place: true,
        ..HeapOptions::default()
    };
    let chunks = bytes / CHUNK_BYTES;
    let rest = with(chunks).pm_bytes() - chunks * CHUNK_BYTES;
    with((bytes - rest) / CHUNK_BYTES)
}

/// Bits that no other pool has; the low half is not zero.
fn new_uuid() -> u128 {
    let half = || u128::from(RandomState::new().hash_one(std::process::id()));
    half() << 64 | half() | 1
}
