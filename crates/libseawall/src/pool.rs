//! Pools: the file, the heap in it, and what threads share while it is open.
//!
//! A `sw_pool` is a small shell that is never freed, so that a call with a pool which was closed is
//! an error. What is in it goes when the pool is closed.

use crate::options::{Options, Wanted};
use crate::status::{Failure, Status, boundary, boundary_with, give};
use crate::thread;
use crate::tx::TxSlot;
use libc::{c_char, c_void};
use seawall_collections::BTree;
use seawall_lanes::{LaneGuard, LanePurpose, LaneSession, Lanes};
use seawall_memory::{Addr, Image, Process};
use seawall_native::{Domain, FlushKind, NativeMemory, Needs, Pool, PoolOptions};
use seawall_runtime::defrag::{DefragOptions, Defragmenter};
use seawall_runtime::described::Described;
use seawall_runtime::{AccessError, Heap, HeapError};
use std::collections::hash_map::RandomState;
use std::ffi::{CStr, CString, OsStr};
use std::hash::BuildHasher;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::ptr::null_mut;
use std::sync::Mutex;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release, SeqCst};
use std::sync::atomic::{AtomicBool, AtomicPtr};

/// The name of the heap, by which this library knows its pools.
const NAME: &str = "libseawall";
/// Says that a shell is one.
const MAGIC: u64 = u64::from_le_bytes(*b"sw_pool\0");

/// `struct sw_pool`
pub(crate) struct SwPool {
    magic: u64,
    open: AtomicPtr<OpenPool>,
    /// The shell that was made before.
    before: AtomicPtr<SwPool>,
}

/// The shell that was made last: so tools that look for lost memory find them all.
static LAST: AtomicPtr<SwPool> = AtomicPtr::new(null_mut());

impl SwPool {
    /// A shell around an open pool.
    fn new(pool: OpenPool) -> *mut SwPool {
        let open = AtomicPtr::new(Box::into_raw(Box::new(pool)));
        let shell =
            Box::leak(Box::new(SwPool { magic: MAGIC, open, before: AtomicPtr::default() }));
        let handle: *mut SwPool = shell;
        // SAFETY: it is never freed.
        unsafe { &*handle }.before.store(LAST.swap(handle, SeqCst), SeqCst);
        handle
    }
}

/// What is behind the handle of an open pool.
pub(crate) struct OpenPool {
    process: Process,
    file: &'static Pool,
    pub(crate) heap: Heap,
    pub(crate) lanes: Lanes,
    /// One for each lane: the transaction that runs in it.
    pub(crate) slots: Box<[TxSlot]>,
    pub(crate) flush: FlushKind,
    pub(crate) domain: Domain,
    durability: CString,
    /// The types of objects, if those move.
    pub(crate) described: Option<Described>,
    pub(crate) ratios: DefragOptions,
    /// The collector, once there is one.
    pub(crate) defragmenter: Mutex<Option<Defragmenter>>,
    /// Set by a panic: what it left half done must not be used.
    is_broken: AtomicBool,
}

/// Bits that no other pool has.
fn new_uuid() -> u128 {
    let half = || u128::from(RandomState::new().hash_one(std::process::id()));
    half() << 64 | half()
}

/// The DRAM that trees share, behind that of the heap.
pub(crate) fn tree_words(heap: &Heap) -> Addr {
    Addr::dram(heap.dram_bytes().next_multiple_of(64))
}

fn dram_bytes(of_heap: u64) -> u64 {
    of_heap.next_multiple_of(64) + BTree::dram_bytes(BTree::VERSIONS)
}

impl OpenPool {
    fn create(path: &Path, wanted: Wanted) -> Result<OpenPool, Failure> {
        wanted.heap.check()?;
        let options = PoolOptions {
            domain: wanted.domain,
            dram_bytes: dram_bytes(wanted.heap.dram_bytes()),
            bytes_max: wanted.heap.pm_bytes_max(),
        };
        let file = Pool::create(path, wanted.heap.pm_bytes(), &options)?;
        let heap = Heap::create(&file.memory(0), NAME, new_uuid(), &wanted.heap);
        let heap = heap.map_err(|error| named(path, error))?;
        Ok(OpenPool::of(file, heap, wanted))
    }

    fn open(path: &Path, wanted: Wanted) -> Result<OpenPool, Failure> {
        let mut refused = None;
        let file = Pool::open_as(path, wanted.domain, |head, bytes| {
            needs(head, bytes, &wanted).map_err(|failure| refused.insert(failure).text.clone())
        });
        let file = match (file, refused) {
            (Ok(file), _) => file,
            (Err(_), Some(failure)) => return Err(failure.of_file(&path.display().to_string())),
            (Err(error), None) => return Err(error.into()),
        };
        let bytes = file.bytes();
        let opened = Heap::open(&file.memory(0), NAME, bytes);
        let (heap, _) = opened.map_err(|error| named(path, error))?;
        if let Some(described) = &wanted.described {
            let checked = described.check(&heap, &file.memory(0));
            checked.map_err(|error| named(path, error))?;
        }
        Ok(OpenPool::of(file, heap, wanted))
    }

    fn of(file: Pool, heap: Heap, wanted: Wanted) -> OpenPool {
        let Wanted { described, ratios, .. } = wanted;
        // Early flushes would make msync write more pages under each fence.
        let heap = if file.domain() == Domain::Page { heap } else { heap.flushing_early() };
        let file: &'static Pool = Box::leak(Box::new(file));
        OpenPool {
            process: file.process(),
            file,
            heap,
            lanes: Lanes::new(file, heap),
            slots: (0..heap.threads()).map(|_| TxSlot::default()).collect(),
            flush: file.instruction().kind,
            domain: file.domain(),
            durability: CString::new(file.durability().to_string()).unwrap_or_default(),
            described,
            ratios,
            defragmenter: Mutex::default(),
            is_broken: AtomicBool::new(false),
        }
    }

    /// The memory, for what no thread changes meanwhile.
    pub(crate) fn memory(&self) -> NativeMemory<'static> {
        self.file.memory(0)
    }

    /// Ends the pool, when no lane is in use.
    fn close(self) {
        let OpenPool { file, lanes, is_broken, .. } = self;
        if is_broken.into_inner() {
            // Its sessions are not to be used, not even to end them. They borrow from a file that
            // is unmapped below, but nothing reaches them any more.
            std::mem::forget(lanes);
        } else {
            lanes.end();
        }
        // SAFETY: it is from `Box::leak`, and all that borrowed it has ended.
        drop(unsafe { Box::from_raw(std::ptr::from_ref(file).cast_mut()) });
    }

    /// Gives up a pool that is the parent's, in the child of a fork: its file is closed here. What
    /// a transaction leads to that was open at the fork stays.
    fn give_up(&'static self) {
        // SAFETY: it is from `Box::leak`, and a pool is reached by its file in its process only.
        drop(unsafe { Box::from_raw(std::ptr::from_ref(self.file).cast_mut()) });
    }

    /// The bytes of the file that are in use.
    pub(crate) fn bytes(&self) -> u64 {
        self.file.bytes()
    }

    /// Where the program sees that address.
    fn place(&self, at: Addr) -> *mut u8 {
        self.file.base().wrapping_add(at.offset() as usize)
    }

    /// Where these bytes are, if all are in the pool.
    pub(crate) fn offset_of(&self, place: *const u8, bytes: usize) -> Option<u64> {
        let offset = (place as usize).wrapping_sub(self.file.base() as usize) as u64;
        let all = self.bytes();
        (offset < all && bytes as u64 <= all - offset).then_some(offset)
    }

    /// The address of `bytes` bytes from there, if all are in the file: only then can anything
    /// below be asked about them.
    pub(crate) fn address(&self, at: u64, offset: u64, bytes: u64) -> Result<Addr, Failure> {
        let start = at.checked_add(offset).filter(|_| at != 0);
        let end = start.and_then(|start| start.checked_add(bytes));
        match (start, end) {
            (Some(start), Some(end)) if end <= self.bytes() => Ok(Addr::pm(start)),
            _ => Err(Failure::invalid(format!(
                "{bytes} bytes at {offset} behind ref {at:#x} are not in this pool; use a ref that \
                 it gave, and stay inside its object"
            ))),
        }
    }

    /// Does `action` in a session, with no transaction of this thread open. Short of room, tries
    /// again with what other lanes return.
    pub(crate) fn with_session<T>(
        &'static self,
        handle: *const SwPool,
        mut action: impl FnMut(&mut LaneSession) -> Result<T, Failure>,
    ) -> Result<T, Failure> {
        if thread::has_open(handle as usize) {
            return Err(Failure::misuse(
                "this thread has a transaction open in the pool: use the call that takes that \
                 (sw_tx_...), or commit it before",
            ));
        }
        let mut lane = LaneGuard::take(&self.lanes, LanePurpose::Call, thread::number());
        lane.with_room(|session| session.in_scope(&mut action))
    }
}

fn named(path: &Path, error: HeapError) -> Failure {
    Failure::from(error).of_file(&path.display().to_string())
}

/// The needs of the pool that begins with the bytes of `head`.
fn needs(head: &[u8], bytes: u64, wanted: &Wanted) -> Result<Needs, Failure> {
    let image = Image::from_pm(head.to_vec(), 0);
    let info = Heap::read(&image, NAME, bytes)?;
    if info.root_shape() != wanted.heap.root_shape {
        let text = format!(
            "the pool was made with another layout than {:?}, or other types of its root; name \
             them in options.layout, types and root",
            wanted.layout
        );
        return Err(Failure::new(Status::OtherLayout, text));
    }
    let used = Heap::bytes_used(&image, bytes)?;
    let (backed, bytes_max) = (info.bytes_backed(used), info.pm_bytes_max());
    Ok(Needs { used, backed, dram_bytes: dram_bytes(info.dram_bytes()), bytes_max })
}

/// The pool behind a handle, which is this process's own.
pub(crate) fn opened(handle: *const SwPool) -> Result<&'static OpenPool, Failure> {
    match behind(handle) {
        Some(pool) if pool.process.is_this() && !pool.is_broken.load(Relaxed) => Ok(pool),
        pool => Err(unusable(handle, pool)),
    }
}

/// The pool behind a handle, if that is one and not closed.
#[inline]
fn behind(handle: *const SwPool) -> Option<&'static OpenPool> {
    if handle.is_null() || !handle.is_aligned() {
        return None;
    }
    // SAFETY: a handle that this library gave stays readable.
    let shell = unsafe { &*handle };
    if shell.magic != MAGIC {
        return None;
    }
    // SAFETY: it is null, or a pool that is open: no thread may use one that is being closed.
    unsafe { shell.open.load(Acquire).as_ref() }
}

#[cold]
fn unusable(handle: *const SwPool, pool: Option<&OpenPool>) -> Failure {
    match pool {
        Some(pool) if !pool.process.is_this() => AccessError::Inherited.into(),
        Some(_) => {
            let text = "an earlier call has failed half way, as its text said; close the pool, and \
                        open it again, or a copy";
            Failure::new(Status::Damaged, text)
        }
        None if handle.is_null() || !handle.is_aligned() => Failure::null("the pool"),
        // SAFETY: as in `behind`.
        None if unsafe { (*handle).magic } != MAGIC => {
            Failure::invalid("the pool is none; pass what sw_pool_open has given")
        }
        None => Failure::misuse("the pool is closed; open it again"),
    }
}

/// Keeps all calls but `sw_pool_close` from a pool in which one has panicked.
pub(crate) fn set_broken(handle: *const SwPool) {
    if let Ok(pool) = opened(handle) {
        pool.is_broken.store(true, SeqCst);
    }
}

/// Runs a call on a pool.
pub(crate) fn on_pool(
    handle: *const SwPool,
    call: impl FnOnce(&'static OpenPool) -> Result<Status, Failure>,
) -> Status {
    boundary_with(|| set_broken(handle), || call(opened(handle)?))
}

/// Gives a new handle, by `open`, for the file at `path`.
///
/// # Safety
/// The path is null or a C string, the options are null or whole, and `into` is null or can be
/// written.
unsafe fn pool_by(
    path: *const c_char,
    options: *const Options,
    into: *mut *mut SwPool,
    open: impl FnOnce(&Path, Wanted) -> Result<OpenPool, Failure>,
) -> Status {
    boundary(|| {
        if into.is_null() {
            return Err(Failure::null("the place for the pool"));
        }
        // SAFETY: the caller vouches for it.
        unsafe { give(into, null_mut()) };
        if path.is_null() {
            return Err(Failure::null("the path"));
        }
        // SAFETY: as above.
        let (path, wanted) = unsafe { (CStr::from_ptr(path), Wanted::of(options)?) };
        let pool = open(Path::new(OsStr::from_bytes(path.to_bytes())), wanted)?;
        // SAFETY: as above.
        unsafe { give(into, SwPool::new(pool)) };
        Ok(Status::Ok)
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn sw_pool_create(
    path: *const c_char,
    options: *const Options,
    pool: *mut *mut SwPool,
) -> Status {
    // SAFETY: the program vouches for its pointers.
    unsafe { pool_by(path, options, pool, OpenPool::create) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn sw_pool_open(
    path: *const c_char,
    options: *const Options,
    pool: *mut *mut SwPool,
) -> Status {
    // SAFETY: as above.
    unsafe { pool_by(path, options, pool, OpenPool::open) }
}

#[unsafe(no_mangle)]
extern "C" fn sw_pool_close(handle: *mut SwPool) -> Status {
    boundary(|| {
        let pool = behind(handle).ok_or_else(|| unusable(handle, None))?;
        let is_inherited = !pool.process.is_this();
        if !is_inherited && !pool.is_broken.load(SeqCst) && !pool.lanes.take_all() {
            let text = "a transaction or a call is in progress in the pool; end them before it is \
                        closed";
            return Err(Failure::new(Status::Busy, text));
        }
        // SAFETY: the shell is there.
        let open = unsafe { &(*handle).open }.swap(null_mut(), Release);
        if is_inherited {
            pool.give_up();
            return Ok(Status::Ok);
        }
        // SAFETY: it is from `Box::into_raw`, and no lane of it is in use.
        unsafe { Box::from_raw(open) }.close();
        Ok(Status::Ok)
    })
}

#[unsafe(no_mangle)]
extern "C" fn sw_pool_durability_text(handle: *const SwPool) -> *const c_char {
    let mut text = c"".as_ptr();
    on_pool(handle, |pool| {
        text = pool.durability.as_ptr();
        Ok(Status::Ok)
    });
    text
}

#[unsafe(no_mangle)]
unsafe extern "C" fn sw_pool_root(
    handle: *const SwPool,
    root: *mut u64,
    bytes: *mut u64,
) -> Status {
    on_pool(handle, |pool| {
        // SAFETY: the program vouches for both places.
        unsafe {
            give(root, pool.heap.root().offset());
            give(bytes, pool.heap.root_bytes());
        }
        Ok(Status::Ok)
    })
}

#[unsafe(no_mangle)]
extern "C" fn sw_direct(handle: *const SwPool, at: u64) -> *mut c_void {
    let mut place = null_mut();
    if at == 0 {
        return place;
    }
    on_pool(handle, |pool| {
        let address = pool.address(at, 0, 1)?;
        if address < pool.heap.root() {
            let text = format!("ref {at:#x} is no data of this pool; use a ref that it gave");
            return Err(Failure::invalid(text));
        }
        pool.check_stays(address)?;
        place = pool.place(address).cast();
        Ok(Status::Ok)
    });
    place
}

#[unsafe(no_mangle)]
extern "C" fn sw_ref_of(handle: *const SwPool, place: *const c_void) -> u64 {
    let mut found = 0;
    if place.is_null() {
        return found;
    }
    on_pool(handle, |pool| {
        let outside = || Failure::invalid("the address is not in this pool; use one of sw_direct");
        found = pool.offset_of(place.cast(), 1).ok_or_else(outside)?;
        Ok(Status::Ok)
    });
    found
}
