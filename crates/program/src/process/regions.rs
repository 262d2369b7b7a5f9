//! Where the program's memory is: pools, heap and other mappings, all at fixed addresses.
//!
//! A shared mapping of a file is a [pool](Pool). It is mapped privately, so that the file stays as
//! it is: what is durable is the machine's to say.

use crate::process::pool::{self, Pool, READS_AND_WRITES};
use crate::process::runtime::runtime;
use crate::process::sweep::written;
use crate::request::{PAGE, Persistent};
use libc::{c_int, c_void};
use std::cell::{Cell, RefCell};
use std::fs::File;
use std::io;
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::rc::Rc;

/// Pools, one after the other.
const POOLS: u64 = 0x1000_0000_0000;
/// The heap of the program.
const HEAP: u64 = 0x2000_0000_0000;
const HEAP_BYTES_MAX: u64 = 64 << 30;
/// Other mappings.
const OTHERS: u64 = 0x2800_0000_0000;
const STEP: u64 = 2 << 20;

/// Where the next mapping goes, and the pools.
struct Regions {
    pools: RefCell<Vec<Pool>>,
    declared: RefCell<Vec<(u64, u64)>>,
    next_pool: Cell<u64>,
    heap_end: Cell<u64>,
    next_other: Cell<u64>,
}

struct Static(Regions);

// SAFETY: as for `Runtime`: one OS thread uses it.
unsafe impl Sync for Static {}

static REGIONS: Static = Static(Regions {
    pools: RefCell::new(Vec::new()),
    declared: RefCell::new(Vec::new()),
    next_pool: Cell::new(POOLS),
    heap_end: Cell::new(HEAP),
    next_other: Cell::new(OTHERS),
});

/// The pools that the program has mapped, in that order.
pub(crate) fn pools() -> Vec<Pool> {
    REGIONS.0.pools.borrow().clone()
}

/// Those of an open file.
pub(crate) fn pools_of(fd: c_int) -> Vec<Pool> {
    if REGIONS.0.pools.borrow().is_empty() {
        return Vec::new();
    }
    let number = describe(fd).map(|(number, _)| number);
    pools().into_iter().filter(|pool| Some(pool.number) == number).collect()
}

/// Lets the process itself write to the page at `at`, if it is a pool's.
pub(crate) fn let_write(at: u64) {
    if pool::is_restricted() && pool_at(at).is_some() {
        let page = at / PAGE * PAGE;
        pool::set(page..page + PAGE, READS_AND_WRITES);
    }
}

/// The pool that is mapped at `at`.
pub(crate) fn pool_at(at: u64) -> Option<Pool> {
    REGIONS.0.pools.borrow().iter().find(|pool| pool.is_at(at)).cloned()
}

/// Whether the page at `at` is persistent memory.
pub(crate) fn is_persistent(at: u64) -> bool {
    let regions = &REGIONS.0;
    let holds = |start: u64, bytes: u64| (start..start + bytes).contains(&at);
    let is_pool = || regions.pools.borrow().iter().any(|pool| pool.is_at(at));
    let is_declared = || regions.declared.borrow().iter().any(|range| holds(range.0, range.1));
    match runtime().persistent.get() {
        Persistent::All => true,
        Persistent::Heap => {
            (HEAP..OTHERS + HEAP_BYTES_MAX).contains(&at) || is_pool() || is_declared()
        }
        Persistent::Files => is_pool() || is_declared(),
    }
}

/// More memory at the end of the heap; null if there is none.
pub(crate) fn grow_heap(bytes: usize) -> *mut c_void {
    let end = &REGIONS.0.heap_end;
    let at = end.get();
    let bytes = (bytes as u64).next_multiple_of(PAGE);
    if at + bytes > HEAP + HEAP_BYTES_MAX
        || crate::process::stacks::map_at(at, bytes as usize).is_err()
    {
        return std::ptr::null_mut();
    }
    end.set(at + bytes);
    at as *mut c_void
}

/// The heap so far: its start and its bytes.
pub(crate) fn heap() -> (u64, u64) {
    (HEAP, REGIONS.0.heap_end.get() - HEAP)
}

/// The program's `mmap`; a negative error number if it fails.
pub(crate) fn map(
    hint: u64,
    bytes: usize,
    protection: c_int,
    flags: c_int,
    fd: c_int,
    offset: i64,
) -> i64 {
    if bytes == 0 {
        return -i64::from(libc::EINVAL);
    }
    let length = (bytes as u64).next_multiple_of(PAGE);
    let is_fixed = flags & (libc::MAP_FIXED | libc::MAP_FIXED_NOREPLACE) != 0;
    let is_pool = fd >= 0 && flags & libc::MAP_TYPE != libc::MAP_PRIVATE;
    let regions = &REGIONS.0;
    let described = is_pool.then(|| describe(fd)).flatten();
    if let Some((number, _)) = &described {
        if protection & libc::PROT_WRITE != 0 && !is_writable(fd) {
            return -i64::from(libc::EACCES);
        }
        let mapped = regions.pools.borrow();
        let same = mapped.iter().find(|pool| {
            pool.number == *number && pool.offset == offset as u64 && length <= pool.bytes
        });
        if let Some(pool) = same.filter(|pool| !is_fixed || pool.at == hint) {
            pool.open(length, protection);
            return pool.at as i64;
        }
    }
    let next = if is_pool { &regions.next_pool } else { &regions.next_other };
    let at = if is_fixed { hint } else { next.get() };
    let mut private =
        flags & !libc::MAP_TYPE & !libc::MAP_SYNC | libc::MAP_PRIVATE | libc::MAP_FIXED;
    let mut allowed = protection | libc::PROT_READ;
    if is_pool {
        // What the crash has left of it is put there first, and a file may be longer than memory.
        allowed |= libc::PROT_WRITE;
        private |= libc::MAP_NORESERVE;
    }
    // A pool stays mapped, but what the program has locked by its descriptor does not stay so.
    let is_writable = is_pool && is_writable(fd);
    let own = is_pool.then(|| File::open(format!("/proc/self/fd/{fd}"))).transpose();
    let Ok(own) = own else { return -i64::from(libc::EACCES) };
    let fd = own.as_ref().map_or(fd, File::as_raw_fd);
    // SAFETY: the range is the runtime's own, or the program asks to replace its own.
    let got = unsafe { libc::mmap(at as *mut c_void, bytes, allowed, private, fd, offset) };
    if got == libc::MAP_FAILED {
        return -i64::from(io::Error::last_os_error().raw_os_error().unwrap_or(libc::ENOMEM));
    }
    if !is_fixed {
        next.set((at + length + PAGE).next_multiple_of(STEP));
    }
    if let (Some((number, path)), Some(file)) = (described, own) {
        let (file, maps, offset) = (Rc::new(file), Rc::default(), offset as u64);
        let cut = Rc::new(Cell::new(u64::MAX));
        let bytes = length;
        let pool = Pool { path, file, is_writable, number, at, bytes, offset, maps, cut };
        regions.pools.borrow_mut().push(pool.clone());
        crate::process::explore::overlay(&pool);
        pool.open(length, protection);
    }
    at as i64
}

/// Where the bytes of an open file from `offset` on are mapped, -1 being where it stands, and how
/// many of them there are, at most `bytes`; nothing if the file itself has them. A recovery finds
/// all that a crash has left in mappings.
pub(crate) fn mapped(fd: c_int, offset: i64, bytes: u64) -> Option<(u64, u64)> {
    let is_recovery = crate::process::explore::is_recovery();
    if bytes == 0 || REGIONS.0.pools.borrow().is_empty() && !is_recovery {
        return None;
    }
    let (file, path) = describe(fd)?;
    let file_bytes = std::fs::metadata(format!("/proc/self/fd/{fd}")).ok()?.len();
    let offset = match offset {
        // SAFETY: it asks only where the file stands.
        -1 => unsafe { libc::lseek(fd, 0, libc::SEEK_CUR) },
        given => given,
    };
    let offset = u64::try_from(offset).ok()?;
    let find = || {
        let pools = pools();
        pools.into_iter().find(|pool| pool.number == file && pool.there().contains(&offset))
    };
    let left = file_bytes.checked_sub(offset).filter(|left| *left > 0)?;
    let pool = find().or_else(|| {
        if is_recovery && crate::process::explore::may_have_changed(&path) {
            map(0, file_bytes as usize, libc::PROT_WRITE, libc::MAP_SHARED, fd, 0);
        }
        find()
    })?;
    if pool.maps.get() == 0 {
        // The file is there though the program has no mapping of it.
        pool.open(pool.bytes, libc::PROT_WRITE);
    }
    let at = pool.at + offset - pool.offset;
    Some((at, bytes.min(left).min(pool.at + pool.bytes - at)))
}

/// Whether the program may write to an open file.
fn is_writable(fd: c_int) -> bool {
    // SAFETY: only asks.
    unsafe { libc::fcntl(fd, libc::F_GETFL) & libc::O_ACCMODE == libc::O_RDWR }
}

/// Device, inode and path of an open file.
fn describe(fd: c_int) -> Option<((u64, u64), PathBuf)> {
    let link = PathBuf::from(format!("/proc/self/fd/{fd}"));
    let metadata = std::fs::metadata(&link).ok()?;
    let path = std::fs::read_link(&link).ok()?;
    let is_file = metadata.is_file() && path != Path::new("/dev/zero");
    is_file.then(|| ((metadata.dev(), metadata.ino()), path))
}

/// The program's `munmap`.
pub(crate) fn unmap(at: u64, bytes: usize) -> i64 {
    let length = (bytes as u64).next_multiple_of(PAGE);
    let range = at..at + length;
    let is_in = |pool: &Pool| at < pool.at + pool.bytes && pool.at < range.end;
    let closed: Vec<Pool> = pools().into_iter().filter(is_in).collect();
    if !closed.is_empty() {
        closed.iter().for_each(|pool| pool.close(&range));
        return 0;
    }
    // SAFETY: the program gives up its own mapping.
    match unsafe { libc::munmap(at as *mut c_void, bytes) } {
        0 => 0,
        _ => -i64::from(io::Error::last_os_error().raw_os_error().unwrap_or(libc::EINVAL)),
    }
}

/// What the file of a pool has where the page at `at` has something else, which nothing has given
/// it that was seen: the page has been written to, and the machine does not know it yet.
pub(crate) fn original(at: u64) -> Option<Vec<u8>> {
    let pool = pool_at(at)?;
    written(at, PAGE).first()?;
    pool.page(at).ok()
}

/// Declares memory persistent that is no file's; before it is touched.
pub(crate) fn declare(at: u64, bytes: u64) {
    REGIONS.0.declared.borrow_mut().push((at, bytes));
}

/// An address as the user knows it: a file and an offset in it.
pub(crate) fn describe_address(at: u64) -> String {
    match pool_at(at) {
        Some(pool) => format!("{}+{:#x}", pool.path.display(), pool.offset_of(at)),
        None => format!("{at:#x}"),
    }
}
