//! Mapping files and anonymous memory, and making sure that the bytes of a file really exist.
//!
//! A file is mapped with `MAP_SYNC` first: it succeeds only on persistent memory with DAX, and then
//! a written-back line is durable. Otherwise the mapping is an ordinary shared one. Space is
//! allocated before mapping, so that a full disk is an error that names the file, never a SIGBUS in
//! the middle of a store.

use crate::domain::Medium;
use crate::process::NotInherited;
use rustix::mm::{MapFlags, MsyncFlags, ProtFlags};
use std::fs::File;
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt};

/// Bytes mapped into this process until dropped; starts at a page.
pub(crate) struct Mapping {
    base: *mut u8,
    bytes: u64,
    sync: bool,
    not_inherited: Option<NotInherited>,
}

// SAFETY: the mapping belongs to nobody's stack, and all access to it is by atomics or by the
// flush instructions, which any thread may run.
unsafe impl Send for Mapping {}
// SAFETY: as above.
unsafe impl Sync for Mapping {}

impl Mapping {
    /// Maps the first `bytes` of `file`, shared; with `MAP_SYNC` where that works.
    pub(crate) fn of_file(file: &File, bytes: u64) -> io::Result<Mapping> {
        let len = usize::try_from(bytes).map_err(|_| io::ErrorKind::OutOfMemory)?;
        if let Some(base) = map_sync(file, len) {
            return Ok(Mapping { base, bytes, sync: true, not_inherited: None });
        }
        let access = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: no address is asked for, so that no existing mapping is replaced.
        let base = unsafe {
            rustix::mm::mmap(std::ptr::null_mut(), len, access, MapFlags::SHARED, file, 0)?
        };
        Ok(Mapping { base: base.cast(), bytes, sync: false, not_inherited: None })
    }

    /// Maps `bytes` of zeroed memory; untouched pages cost nothing.
    pub(crate) fn anonymous(bytes: u64) -> io::Result<Mapping> {
        let len = usize::try_from(bytes.max(1)).map_err(|_| io::ErrorKind::OutOfMemory)?;
        let access = ProtFlags::READ | ProtFlags::WRITE;
        let flags = MapFlags::PRIVATE | MapFlags::NORESERVE;
        // SAFETY: no address is asked for, so that no existing mapping is replaced.
        let base = unsafe { rustix::mm::mmap_anonymous(std::ptr::null_mut(), len, access, flags)? };
        Ok(Mapping { base: base.cast(), bytes, sync: false, not_inherited: None })
    }

    /// Keeps it from the children of this process, where an access to these addresses ends them
    /// (SIGSEGV).
    pub(crate) fn not_inherited(mut self) -> Mapping {
        // SAFETY: it is a mapping of ours.
        self.not_inherited = Some(unsafe { NotInherited::new(self.base, self.len()) });
        self
    }

    /// Bytes that are mapped.
    fn len(&self) -> usize {
        self.bytes.max(1) as usize
    }

    /// Makes anonymous memory longer, if it is not so long; it may be somewhere else then.
    pub(crate) fn lengthen(&mut self, bytes: u64) -> io::Result<()> {
        let bytes = bytes.max(self.bytes);
        let len = usize::try_from(bytes.max(1)).map_err(|_| io::ErrorKind::OutOfMemory)?;
        let before = self.len();
        #[cfg(target_os = "linux")]
        {
            let flags = rustix::mm::MremapFlags::MAYMOVE;
            // SAFETY: these are the base and length of a mapping of ours, and the only reference to
            // it shows that no handle on it exists that would have to follow.
            let base = unsafe { rustix::mm::mremap(self.base.cast(), before, len, flags)? };
            (self.base, self.bytes) = (base.cast(), bytes);
        }
        #[cfg(not(target_os = "linux"))]
        {
            let mut longer = Mapping::anonymous(len as u64)?;
            // SAFETY: both are mapped for at least `before` bytes, and apart.
            unsafe { std::ptr::copy_nonoverlapping(self.base, longer.base, before) };
            std::mem::swap(&mut self.base, &mut longer.base);
            std::mem::swap(&mut self.bytes, &mut longer.bytes);
        }
        if let Some(kept) = &self.not_inherited {
            // SAFETY: it is a mapping of ours.
            unsafe { kept.set(self.base, len) };
        }
        Ok(())
    }

    pub(crate) fn base(&self) -> *mut u8 {
        self.base
    }

    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// True if a line is durable once written back.
    pub(crate) fn is_sync(&self) -> bool {
        self.sync
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        if self.not_inherited.as_ref().is_some_and(NotInherited::is_inherited) {
            // It is not there. Whatever is at its addresses is something else.
            return;
        }
        // SAFETY: these are the base and length of a mapping of ours, and handles borrow it. An
        // error leaves it mapped, which does no harm.
        let _ = unsafe { rustix::mm::munmap(self.base.cast(), self.len()) };
    }
}

#[cfg(target_os = "linux")]
fn map_sync(file: &File, len: usize) -> Option<*mut u8> {
    let access = ProtFlags::READ | ProtFlags::WRITE;
    let flags = MapFlags::SHARED_VALIDATE | MapFlags::SYNC;
    // SAFETY: no address is asked for, so that no existing mapping is replaced.
    let base = unsafe { rustix::mm::mmap(std::ptr::null_mut(), len, access, flags, file, 0) };
    base.ok().map(|base| base.cast())
}

#[cfg(not(target_os = "linux"))]
fn map_sync(_: &File, _: usize) -> Option<*mut u8> {
    None
}

/// Writes the pages from `first` to `last` (byte offsets, both included) of the mapping at `base`
/// to the disk; durable when it returns.
///
/// # Safety
/// Both offsets lie in one live file mapping that starts at `base`.
#[cold]
pub(crate) unsafe fn sync_pages(base: *mut u8, first: u64, last: u64) -> io::Result<()> {
    let start = first / page_bytes() * page_bytes();
    // SAFETY: the caller vouches for the range; rounding down stays in the mapping, whose base is
    // at a page.
    unsafe {
        let at = base.add(start as usize).cast();
        rustix::mm::msync(at, (last + 1 - start) as usize, MsyncFlags::SYNC)?;
    }
    Ok(())
}

/// Brings the pages of `len` bytes at `place` in, to be written; a system that cannot, or will not,
/// leaves them to be brought in one by one.
///
/// # Safety
/// The bytes lie in one live file mapping that starts at a page.
#[cold]
pub(crate) unsafe fn bring_in(place: *mut u8, len: u64) {
    // SAFETY: the caller vouches for the range.
    let _ = unsafe { populate(place, len) };
}

/// As [`bring_in`], for pages that were discarded; false when there is no room for them. So the
/// disk being full is no signal in the middle of a store.
///
/// # Safety
/// As [`bring_in`].
#[cold]
pub(crate) unsafe fn bring_back(place: *mut u8, len: u64) -> bool {
    // SAFETY: the caller vouches for the range.
    unsafe { populate(place, len) }.is_ok()
}

/// Returns the blocks of whole pages in these bytes to the file system, where it can make holes
/// and [`bring_back`] can find out whether there is room again.
///
/// # Safety
/// As [`bring_in`]; the content of the bytes is not needed, and no thread writes to them meanwhile.
#[cold]
pub(crate) unsafe fn discard(place: *mut u8, len: u64) {
    #[cfg(target_os = "linux")]
    {
        use rustix::mm::{Advice, madvise};
        let page = page_bytes() as usize;
        let before = (page - place as usize % page) % page;
        let whole = (len as usize).saturating_sub(before) / page * page;
        // SAFETY: the caller vouches for the range, in which the whole pages are.
        unsafe {
            let start = place.add(before.min(len as usize));
            if whole > 0 && populate(start, page as u64).is_ok() {
                let _ = madvise(start.cast(), whole, Advice::LinuxRemove);
            }
        }
    }
    #[cfg(not(target_os = "linux"))]
    let _ = (place, len);
}

/// # Safety
/// As [`bring_in`].
#[cfg(target_os = "linux")]
unsafe fn populate(place: *mut u8, len: u64) -> rustix::io::Result<()> {
    use rustix::mm::{Advice, madvise};
    let before = place as usize % page_bytes() as usize;
    // SAFETY: the caller vouches for the range; rounding down stays in the mapping, whose base is
    // at a page.
    unsafe {
        let start = place.sub(before);
        madvise(start.cast(), len as usize + before, Advice::LinuxPopulateWrite)
    }
}

#[cfg(not(target_os = "linux"))]
unsafe fn populate(_: *mut u8, _: u64) -> Result<(), ()> {
    Ok(())
}

/// Bytes in a page. The C library is asked, as rustix looks for the vDSO, which is not there under
/// Valgrind.
pub fn page_bytes() -> u64 {
    // SAFETY: it reads a number that the system has given to the process.
    let bytes = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
    bytes.try_into().unwrap_or(4096)
}

/// Gives the bytes of `file` from `from` to `bytes` real space on the disk, changing no byte that
/// is there; what lies before `from` has it already.
///
/// What cannot fit is refused before anything is allocated, so that a wrong size does not fill the
/// disk for everybody else until it is found out, and the signal that a passed limit sends
/// (SIGXFSZ) does not end the process.
pub(crate) fn reserve(file: &File, from: u64, bytes: u64) -> io::Result<()> {
    let limit = rustix::process::getrlimit(rustix::process::Resource::Fsize).current;
    if bytes > file.metadata()?.len() && limit.is_some_and(|limit| bytes > limit) {
        return Err(io::ErrorKind::FileTooLarge.into());
    }
    let space = rustix::fs::fstatvfs(file)?;
    // Some file systems do not know how much they hold, and say 0.
    let free = space.f_bfree.saturating_mul(space.f_frsize);
    if space.f_blocks > 0 && missing(file, bytes)?.min(bytes - from.min(bytes)) > free {
        return Err(io::ErrorKind::StorageFull.into());
    }
    #[cfg(target_os = "linux")]
    {
        use rustix::fs::{FallocateFlags, fallocate};
        use rustix::io::Errno;
        if has_no_hole(file, from, bytes) {
            return Ok(());
        }
        match fallocate(file, FallocateFlags::empty(), from, bytes - from) {
            Err(Errno::OPNOTSUPP | Errno::NOSYS) => {}
            Err(Errno::INTR) => return reserve(file, from, bytes),
            done => return Ok(done?),
        }
    }
    write_zeros(file, bytes)
}

/// How many of the first `bytes` of `file` have no space, at least.
pub(crate) fn missing(file: &File, bytes: u64) -> io::Result<u64> {
    Ok(bytes.saturating_sub(file.metadata()?.blocks().saturating_mul(512)))
}

/// True if every byte from `from` to `bytes` certainly has its space; asking costs less than
/// allocating again what is there. Some file systems know of no holes, so blocks are counted first;
/// a file in memory has no others, and would be looked at page by page.
#[cfg(target_os = "linux")]
fn has_no_hole(file: &File, from: u64, bytes: u64) -> bool {
    let Ok(status) = file.metadata() else { return false };
    let counted = status.blocks().saturating_mul(512) >= status.len() && status.len() >= bytes;
    let hole = || rustix::fs::seek(file, rustix::fs::SeekFrom::Hole(from));
    counted && (is_in_memory(file) || hole().is_ok_and(|hole| hole >= bytes))
}

/// The first bytes of `file` from `from` to `to` that may have no space, and how many: file systems
/// do not tell apart what is allocated and was never written to.
#[cfg(target_os = "linux")]
pub(crate) fn hole(file: &File, from: u64, to: u64) -> Option<(u64, u64)> {
    use rustix::fs::{SeekFrom, seek};
    let is_whole = is_in_memory(file) && has_no_hole(file, from, to);
    if from >= to || is_whole {
        return None;
    }
    // Without an answer, all may be missing.
    let start = seek(file, SeekFrom::Hole(from)).unwrap_or(from);
    let end = seek(file, SeekFrom::Data(start)).unwrap_or(to).min(to);
    (start < end).then(|| (start, end - start))
}

#[cfg(not(target_os = "linux"))]
pub(crate) fn hole(_: &File, _: u64, _: u64) -> Option<(u64, u64)> {
    None
}

/// True if [`bring_back`] finds out whether there is room.
pub(crate) fn can_bring_back() -> bool {
    let page = page_bytes();
    // SAFETY: the mapping is of one page.
    let populates = |mapping: Mapping| unsafe { populate(mapping.base(), page) }.is_ok();
    cfg!(target_os = "linux") && Mapping::anonymous(page).is_ok_and(populates)
}

/// For file systems that cannot allocate ahead: appends zeros up to `bytes`. Holes that an existing
/// file has stay holes.
fn write_zeros(file: &File, bytes: u64) -> io::Result<()> {
    let zeros = vec![0; 1 << 20];
    let mut at = file.metadata()?.len();
    while at < bytes {
        let count = zeros.len().min((bytes - at) as usize);
        file.write_all_at(&zeros[..count], at)?;
        at += count as u64;
    }
    Ok(())
}

/// Where the bytes of `file` are, which `mapping` maps.
pub(crate) fn medium(file: &File, mapping: &Mapping) -> Medium {
    if is_in_memory(file) {
        Medium::InMemory
    } else if mapping.is_sync() {
        Medium::PersistentMemory
    } else {
        Medium::Disk
    }
}

/// True if `file` lives in a file system that a reboot empties.
fn is_in_memory(file: &File) -> bool {
    #[cfg(target_os = "linux")]
    {
        const TMPFS: u64 = 0x0102_1994;
        const RAMFS: u64 = 0x8584_58f6;
        let kind = rustix::fs::fstatfs(file).map(|status| status.f_type as u64 & 0xffff_ffff);
        kind.is_ok_and(|kind| kind == TMPFS || kind == RAMFS)
    }
    #[cfg(not(target_os = "linux"))]
    {
        let _ = file;
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reserved_space_is_real_and_keeps_what_was_there() {
        let file = tempfile::tempfile().unwrap();
        file.write_all_at(b"keep", 10).unwrap();
        reserve(&file, 0, 1 << 20).unwrap();
        let status = file.metadata().unwrap();
        assert_eq!(status.len(), 1 << 20);
        assert!(status.blocks() * 512 >= 1 << 20, "{} blocks", status.blocks());
        let mut back = [0; 4];
        file.read_exact_at(&mut back, 10).unwrap();
        assert_eq!(&back, b"keep");
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn holes_are_found_and_filled_and_a_whole_file_is_let_be() {
        let folders = [std::env::temp_dir(), "/dev/shm".into()];
        for folder in folders.iter().filter(|folder| folder.is_dir()) {
            let file = tempfile::tempfile_in(folder).unwrap();
            file.set_len(1 << 20).unwrap();
            file.write_all_at(&[1; 8192], 4096).unwrap();
            assert!(!has_no_hole(&file, 0, 1 << 20), "{}", folder.display());
            reserve(&file, 0, 1 << 20).unwrap();
            assert!(file.metadata().unwrap().blocks() * 512 >= 1 << 20, "{}", folder.display());
            file.write_all_at(&vec![1; 1 << 20], 0).unwrap();
            assert!(has_no_hole(&file, 0, 1 << 20), "{}", folder.display());
            assert!(!has_no_hole(&file, 0, (1 << 20) + 1), "it ends before");
        }
    }

    #[test]
    fn more_than_the_disk_has_is_refused_before_any_of_it_is_taken() {
        let file = tempfile::tempfile().unwrap();
        let space = rustix::fs::fstatvfs(&file).unwrap();
        let whole = space.f_blocks.saturating_mul(space.f_frsize);
        let error = reserve(&file, 0, whole + 1).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::StorageFull);
        assert_eq!(file.metadata().unwrap().len(), 0);
    }

    #[test]
    fn zeros_fill_up_a_file_and_keep_what_was_there() {
        let file = tempfile::tempfile().unwrap();
        file.write_all_at(b"keep", 0).unwrap();
        write_zeros(&file, (1 << 20) + 9).unwrap();
        assert_eq!(file.metadata().unwrap().len(), (1 << 20) + 9);
        let mut back = [0; 5];
        file.read_exact_at(&mut back, 0).unwrap();
        assert_eq!(&back, b"keep\0");
    }

    #[test]
    fn a_store_through_a_mapping_is_in_the_file_after_sync() {
        let file = tempfile::tempfile().unwrap();
        reserve(&file, 0, 10_000).unwrap();
        let mapping = Mapping::of_file(&file, 10_000).unwrap();
        // SAFETY: 9000 is inside the mapping, which nobody else uses.
        unsafe {
            mapping.base().add(9000).write_volatile(7);
            sync_pages(mapping.base(), 9000, 9000).unwrap();
        }
        let mut back = [0; 1];
        file.read_exact_at(&mut back, 9000).unwrap();
        assert_eq!(back, [7]);
    }

    #[test]
    fn more_memory_than_there_is_is_an_error() {
        assert!(Mapping::anonymous(1 << 62).is_err());
    }
}
