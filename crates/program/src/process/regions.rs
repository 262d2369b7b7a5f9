//! Where the program's memory is: pools, heap and other mappings, all at fixed addresses.
//!
//! In a check all of it is [elsewhere](layout). A shared mapping of a file is a [pool](Pool). It is
//! mapped privately, so that the file stays as it is: what is durable is the machine's to say.

use crate::folder::as_known;
use crate::process::failure::fail;
use crate::process::layout;
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

/// The first address of each kind in the process that ran the program.
pub(crate) const STARTS: [u64; 3] = [POOLS, HEAP, OTHERS];

/// Where the next mapping goes, from the first address of its kind on, and the pools.
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
    next_pool: Cell::new(0),
    heap_end: Cell::new(0),
    next_other: Cell::new(0),
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

/// Those of the file system of an open file.
pub(crate) fn pools_beside(fd: c_int) -> Vec<Pool> {
    let device = std::fs::metadata(format!("/proc/self/fd/{fd}")).map(|is| is.dev());
    let is_beside = |pool: &Pool| device.as_ref().is_ok_and(|device| pool.number.0 == *device);
    pools().into_iter().filter(is_beside).collect()
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
    let at = HEAP + layout::shift() + end.get();
    let bytes = (bytes as u64).next_multiple_of(PAGE);
    if end.get() + bytes > HEAP_BYTES_MAX
        || crate::process::stacks::map_at(at, bytes as usize).is_err()
    {
        return std::ptr::null_mut();
    }
    end.set(end.get() + bytes);
    at as *mut c_void
}

/// The heap so far: its start and its bytes.
pub(crate) fn heap() -> (u64, u64) {
    (HEAP + layout::shift(), REGIONS.0.heap_end.get())
}

/// What the program's `mmap` is asked.
pub(crate) struct Wanted {
    pub(crate) hint: u64,
    pub(crate) bytes: usize,
    pub(crate) protection: c_int,
    pub(crate) flags: c_int,
    pub(crate) fd: c_int,
    pub(crate) offset: i64,
}

impl Wanted {
    /// All of a file.
    fn all_of(fd: c_int, bytes: usize) -> Wanted {
        let (protection, flags) = (libc::PROT_WRITE, libc::MAP_SHARED);
        Wanted { hint: 0, bytes, protection, flags, fd, offset: 0 }
    }

    fn length(&self) -> u64 {
        (self.bytes as u64).next_multiple_of(PAGE)
    }

    fn is_fixed(&self) -> bool {
        self.flags & (libc::MAP_FIXED | libc::MAP_FIXED_NOREPLACE) != 0
    }

    fn is_of_file(&self) -> bool {
        self.flags & libc::MAP_ANONYMOUS == 0
    }

    fn is_shared(&self) -> bool {
        self.flags & libc::MAP_TYPE != libc::MAP_PRIVATE
    }

    /// An error number, if the system would have none of it.
    fn error(&self) -> Option<c_int> {
        let kinds = [libc::MAP_SHARED, libc::MAP_PRIVATE, libc::MAP_SHARED_VALIDATE];
        if self.bytes == 0 || !kinds.contains(&(self.flags & libc::MAP_TYPE)) {
            return Some(libc::EINVAL);
        }
        if !self.is_of_file() {
            return None;
        }
        let writes = self.protection & libc::PROT_WRITE != 0 && self.is_shared();
        match access_of(self.fd) {
            None => Some(libc::EBADF),
            Some(libc::O_WRONLY) => Some(libc::EACCES),
            Some(libc::O_RDONLY) if writes => Some(libc::EACCES),
            Some(_) => None,
        }
    }

    /// Maps it where the program wants it, or, if that is not free, at the next place of its kind.
    fn map(&self, fd: c_int, next: &Cell<u64>, start: u64) -> io::Result<u64> {
        let plain = libc::MAP_TYPE | libc::MAP_SYNC | libc::MAP_FIXED_NOREPLACE;
        let mut private = self.flags & !plain | libc::MAP_PRIVATE;
        let mut allowed = self.protection | libc::PROT_READ;
        if self.is_of_file() && self.is_shared() {
            // What the crash has left of it is put there first, and a file may be longer than
            // memory.
            allowed |= libc::PROT_WRITE;
            private |= libc::MAP_NORESERVE;
        }
        let map = |at: u64, how: c_int| {
            let (at, flags) = (at as *mut c_void, private | how);
            // SAFETY: the range is free, or the runtime's own, or the program asks to replace its
            // own.
            match unsafe { libc::mmap(at, self.bytes, allowed, flags, fd, self.offset) } {
                libc::MAP_FAILED => Err(io::Error::last_os_error()),
                at => Ok(at as u64),
            }
        };
        if self.is_fixed() {
            let free = self.flags & libc::MAP_FIXED_NOREPLACE;
            return map(self.hint, libc::MAP_FIXED | free);
        }
        let hint = self.hint.next_multiple_of(PAGE);
        if hint > 0
            && let Ok(at) = map(hint, libc::MAP_FIXED_NOREPLACE)
        {
            return Ok(at);
        }
        let at = map(start + layout::shift() + next.get(), libc::MAP_FIXED)?;
        next.set((next.get() + self.length() + PAGE).next_multiple_of(STEP));
        Ok(at)
    }
}

/// The program's `mmap`; a negative error number if it fails.
pub(crate) fn map(wanted: &Wanted) -> i64 {
    if let Some(error) = wanted.error() {
        return -i64::from(error);
    }
    let Wanted { hint, protection, fd, offset, .. } = *wanted;
    let length = wanted.length();
    let is_pool = wanted.is_of_file() && wanted.is_shared();
    let regions = &REGIONS.0;
    let described = is_pool.then(|| describe(fd)).flatten();
    if let Some((number, _)) = &described {
        let mapped = regions.pools.borrow();
        let same = mapped.iter().find(|pool| {
            pool.number == *number && pool.offset == offset as u64 && length <= pool.bytes
        });
        if let Some(pool) = same.filter(|pool| !wanted.is_fixed() || pool.at == hint) {
            pool.open(length, protection);
            return pool.at as i64;
        }
    }
    // A pool stays mapped, but what the program has locked by its descriptor does not stay so.
    let is_writable = is_pool && is_writable(fd);
    if let Some((number, path)) = described.as_ref().filter(|_| is_writable) {
        check_file(*number, path);
    }
    let own = is_pool.then(|| File::open(format!("/proc/self/fd/{fd}"))).transpose();
    let Ok(own) = own else { return -i64::from(libc::EACCES) };
    let (next, start) = match is_pool {
        true => (&regions.next_pool, POOLS),
        false => (&regions.next_other, OTHERS),
    };
    let at = match wanted.map(own.as_ref().map_or(fd, File::as_raw_fd), next, start) {
        Ok(at) => at,
        Err(error) => return -i64::from(error.raw_os_error().unwrap_or(libc::ENOMEM)),
    };
    if let (Some((number, path)), Some(file)) = (described, own) {
        let (file, maps, offset) = (Rc::new(file), Rc::default(), offset as u64);
        let (cut, bytes) = (Rc::new(Cell::new(u64::MAX)), length);
        let limits = Rc::default();
        let pool = Pool { path, file, is_writable, number, at, bytes, offset, maps, cut, limits };
        regions.pools.borrow_mut().push(pool.clone());
        crate::process::explore::overlay(&pool);
        pool.open(length, protection);
    }
    at as i64
}

/// Refuses a file that a check could not find: its crashes could not be tried.
fn check_file(number: (u64, u64), path: &Path) {
    let files = runtime().files.borrow();
    let Some(files) = &*files else { return };
    let name = name(path);
    let is_there = path.metadata().is_ok_and(|is| (is.dev(), is.ino()) == number);
    let why = match (is_there, path.starts_with(files)) {
        (true, true) => return,
        (true, false) => {
            "of which this system lets it have no copy of its own (seccomp), so that a check could \
             not get what a crash leaves of it: take {pool}"
        }
        (false, _) => {
            "which has no name, so that nothing finds it after a crash: keep what is \
                       to be persistent in a file with a name"
        }
    };
    fail(&format!("maps the file {}, {why}", name.display()));
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
            map(&Wanted::all_of(fd, file_bytes as usize));
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
    access_of(fd) == Some(libc::O_RDWR)
}

/// How a file is open.
fn access_of(fd: c_int) -> Option<c_int> {
    // SAFETY: only asks.
    let flags = unsafe { libc::fcntl(fd, libc::F_GETFL) };
    (flags >= 0).then_some(flags & libc::O_ACCMODE)
}

/// Device, inode and path of an open file.
fn describe(fd: c_int) -> Option<((u64, u64), PathBuf)> {
    let link = PathBuf::from(format!("/proc/self/fd/{fd}"));
    let metadata = std::fs::metadata(&link).ok()?;
    let path = std::fs::read_link(&link).ok()?;
    let is_file = metadata.is_file() && path != Path::new("/dev/zero");
    is_file.then(|| ((metadata.dev(), metadata.ino()), path))
}

/// The program's `munmap`; a negative error number if it fails.
pub(crate) fn unmap(at: u64, bytes: usize) -> i64 {
    let end = at.checked_add(bytes as u64).and_then(|end| end.checked_next_multiple_of(PAGE));
    let Some(end) = end.filter(|_| at.is_multiple_of(PAGE) && bytes > 0) else {
        return -i64::from(libc::EINVAL);
    };
    let range = at..end;
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
        Some(pool) => format!("{}+{:#x}", name(&pool.path).display(), pool.offset_of(at)),
        None => format!("{at:#x}"),
    }
}

/// A file as the program knows it, where its crashes are tried.
fn name(path: &Path) -> PathBuf {
    let files = runtime().files.borrow();
    let inside = files.as_ref().and_then(|files| path.strip_prefix(files).ok());
    inside.map_or_else(|| path.into(), as_known)
}
