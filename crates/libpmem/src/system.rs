//! What the calls need of the system: mappings, space, errno, standard error.

use rustix::mm::{MapFlags, ProtFlags, mmap, mmap_anonymous, munmap};
use seawall_native::{FlushKind, RawHandles};
use std::ffi::{c_int, c_void};
use std::fs::File;
use std::io::{self, Write};
use std::mem::MaybeUninit;
use std::os::fd::AsRawFd;
use std::ptr::{null_mut, without_provenance_mut};

/// Mappings start at a multiple of this, so that the system may use huge pages.
const ALIGNMENT: usize = 2 << 20;

/// A mapping that was made.
#[derive(Clone, Copy, Debug)]
pub(crate) struct NewMapping {
    pub(crate) base: *mut c_void,
    /// With `MAP_SYNC`: persistent memory.
    pub(crate) is_sync: bool,
}

/// Maps `bytes` of `file`, to be read and written, near `hint`; with `MAP_SYNC` where that works.
pub(crate) fn map(file: &File, bytes: usize, hint: Option<usize>) -> io::Result<NewMapping> {
    if bytes == 0 {
        return Err(io::Error::from_raw_os_error(libc::EINVAL));
    }
    let place = free_place(bytes, hint)?;
    let access = ProtFlags::READ | ProtFlags::WRITE;
    // SAFETY: the place is a wish, so that no existing mapping is replaced.
    let sync =
        unsafe { mmap(place, bytes, access, MapFlags::SHARED_VALIDATE | MapFlags::SYNC, file, 0) };
    if let Ok(base) = sync {
        return Ok(NewMapping { base, is_sync: true });
    }
    // SAFETY: as above.
    let base = unsafe { mmap(place, bytes, access, MapFlags::SHARED, file, 0)? };
    Ok(NewMapping { base, is_sync: false })
}

/// An aligned address where so much is free now. Another thread may take it before it is used; then
/// the system chooses a place that is less aligned.
fn free_place(bytes: usize, hint: Option<usize>) -> io::Result<*mut c_void> {
    let no_room = || io::Error::from_raw_os_error(libc::ENOMEM);
    let whole = bytes.checked_add(ALIGNMENT).ok_or_else(no_room)?;
    let flags = MapFlags::PRIVATE | MapFlags::NORESERVE;
    let wish = hint.map_or(null_mut(), without_provenance_mut);
    // SAFETY: the address is a wish, and the mapping that is removed is the one just made.
    let start = unsafe {
        let start = mmap_anonymous(wish, whole, ProtFlags::empty(), flags)?;
        munmap(start, whole)?;
        start
    };
    Ok(start.map_addr(|at| at.checked_next_multiple_of(ALIGNMENT).unwrap_or(at)))
}

/// Removes what is mapped in these bytes.
///
/// # Safety
/// Nobody uses the bytes from now on.
pub(crate) unsafe fn unmap(base: *mut c_void, bytes: usize) -> io::Result<()> {
    // SAFETY: the caller vouches for it.
    unsafe { Ok(munmap(base, bytes)?) }
}

/// Makes the file at least `bytes` long, and gives all of them space.
pub(crate) fn allocate(file: &File, bytes: u64) -> io::Result<()> {
    let bytes = bytes.try_into().map_err(|_| io::Error::from_raw_os_error(libc::EFBIG))?;
    loop {
        // SAFETY: the descriptor is open as long as `file` is, and no memory is touched.
        match unsafe { libc::posix_fallocate(file.as_raw_fd(), 0, bytes) } {
            0 => return Ok(()),
            libc::EINTR => {}
            number => return Err(io::Error::from_raw_os_error(number)),
        }
    }
}

/// Handles for lines that the program hands over to be flushed.
pub(crate) fn handles(flush: FlushKind) -> io::Result<RawHandles> {
    // SAFETY: `Setup` chose the instruction. Lines are all that is reached through the handles; who
    // calls `pmem_flush` vouches for them, and `ribbon` lets none outlast its mapping.
    unsafe { RawHandles::new(flush) }
}

/// Does `start`, whose threads run no signal handler of the program.
pub(crate) fn without_signals<T>(start: impl FnOnce() -> T) -> T {
    let mut all = MaybeUninit::<libc::sigset_t>::uninit();
    let mut before = MaybeUninit::<libc::sigset_t>::uninit();
    // SAFETY: the first call fills the set, and the second fills the other one.
    let failed = unsafe {
        libc::sigfillset(all.as_mut_ptr());
        libc::pthread_sigmask(libc::SIG_BLOCK, all.as_ptr(), before.as_mut_ptr())
    };
    let done = start();
    if failed == 0 {
        // SAFETY: the call above has filled it.
        unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, before.as_ptr(), null_mut()) };
    }
    done
}

/// Prepares for [`fence_everywhere`]; false where the system does not have it.
pub(crate) fn can_fence_everywhere() -> bool {
    membarrier(libc::MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED)
}

/// When it returns, each processor that runs a thread of this process has executed a full fence.
pub(crate) fn fence_everywhere() {
    if !membarrier(libc::MEMBARRIER_CMD_PRIVATE_EXPEDITED) {
        let error = io::Error::last_os_error();
        say(&format!("membarrier was there and is not any more ({error}); the program ends"));
        std::process::abort();
    }
}

fn membarrier(command: c_int) -> bool {
    // SAFETY: it touches no memory of the process.
    unsafe { libc::syscall(libc::SYS_membarrier, command, 0, 0) == 0 }
}

/// What is to be done around forks, and at the end of the process.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Hooks {
    pub(crate) before_fork: extern "C" fn(),
    pub(crate) in_parent: extern "C" fn(),
    pub(crate) in_child: extern "C" fn(),
    pub(crate) at_end: extern "C" fn(),
}

impl Hooks {
    /// Has it done from now on; false where the system has no memory for that.
    pub(crate) fn set(self) -> bool {
        let Hooks { before_fork, in_parent, in_child, at_end } = self;
        // SAFETY: the functions stay where they are: threads of the library keep it loaded.
        unsafe {
            libc::pthread_atfork(Some(before_fork), Some(in_parent), Some(in_child)) == 0
                && libc::atexit(at_end) == 0
        }
    }
}

pub(crate) fn set_errno(number: c_int) {
    // SAFETY: it is this thread's own, and always there.
    unsafe { *libc::__errno_location() = number };
}

/// A line on standard error; that nobody reads it is no error.
pub(crate) fn say(text: &str) {
    let _ = writeln!(io::stderr(), "libpmem of seawall: {text}");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mapping_is_aligned_for_huge_pages_and_shows_the_file() {
        let file = tempfile::tempfile().unwrap();
        allocate(&file, 3 << 20).unwrap();
        let mapping = map(&file, 3 << 20, None).unwrap();
        assert_eq!(mapping.base.addr() % ALIGNMENT, 0);
        // SAFETY: the byte is mapped, and then nobody uses the mapping.
        unsafe {
            mapping.base.cast::<u8>().add(5000).write_volatile(7);
            unmap(mapping.base, 3 << 20).unwrap();
        }
        let mut byte = [0];
        std::os::unix::fs::FileExt::read_exact_at(&file, &mut byte, 5000).unwrap();
        assert_eq!(byte, [7]);
    }

    #[test]
    fn what_no_address_space_holds_is_refused() {
        let file = tempfile::tempfile().unwrap();
        for bytes in [1 << 62, usize::MAX] {
            let error = map(&file, bytes, None).unwrap_err();
            assert_eq!(error.raw_os_error(), Some(libc::ENOMEM));
        }
        assert_eq!(map(&file, 0, None).unwrap_err().raw_os_error(), Some(libc::EINVAL));
    }
}
