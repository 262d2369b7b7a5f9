//! A pool: one file mapped as persistent memory, and the DRAM beside it.
//!
//! The file belongs to one process at a time (a lock on it says so), is never created over an
//! existing one, and has all its space before the first store. What its bytes mean is not known
//! here: that is the business of the crate `seawall-runtime`.

use crate::domain::{Domain, Durability, caches_persist_here};
use crate::error::{PoolError, explain};
use crate::file::{PoolFile, check_size};
use crate::flush::{Flush, FlushKind};
use crate::map::{self, Mapping};
use crate::memory::NativeMemory;
use crate::space::Space;
use crate::wait::Sleepers;
use seawall_memory::{Addr, FlushBy, Handles, LINE_BYTES, Process, ThreadSlots};
#[cfg(target_os = "linux")]
use seawall_memory::{RecentStores, StoreSource};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;

/// The smallest pool, in bytes.
pub const POOL_BYTES_MIN: u64 = 4096;

/// How to map a pool.
#[derive(Clone, Debug, Default)]
pub struct PoolOptions {
    /// Durability domain; by default the one `SEAWALL_DOMAIN` names, else what fits the file.
    pub domain: Option<Domain>,
    /// Bytes of volatile memory, zeroed; untouched pages cost nothing.
    pub dram_bytes: u64,
    /// Bytes that the pool may have grown to while it is open, if more than it has; 0 for as many
    /// as it has. Costs a range of addresses and no space: 64 TiB are no problem.
    pub bytes_max: u64,
}

/// What the first bytes of a pool say that it needs ([`Pool::open_as`]).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Needs {
    /// Bytes of the file that are in use.
    pub used: u64,
    /// As many of them, from the first, as must have their space at once; at least the first page.
    /// Holes behind them stay, and whoever uses one brings it back first
    /// ([`Space::bring_back`](seawall_memory::Space::bring_back)).
    pub backed: u64,
    /// As [`PoolOptions::dram_bytes`].
    pub dram_bytes: u64,
    /// As [`PoolOptions::bytes_max`].
    pub bytes_max: u64,
}

/// A mapped pool file; unmapped and unlocked when dropped.
///
/// Dropping makes nothing durable: what was drained is, what was not is not. The lock keeps out
/// other pools only: if another program truncates the file, the next access ends this process
/// (SIGBUS).
///
/// It belongs to the process that opened it. One forked from that has neither its bytes nor its
/// lock: there dropping it changes nothing, growing is an error, and an access by a handle or by
/// address ends that process (SIGSEGV). A program that calls `daemon` opens its pools after that.
pub struct Pool {
    space: Space,
    dram: Mapping,
    flush: Flush,
    domain: Domain,
    durability: Durability,
    slots: ThreadSlots,
    sleepers: Sleepers,
}

impl Pool {
    /// Creates the file at `path` with `bytes` zeroed bytes, all of them allocated, and maps it.
    ///
    /// When it returns, file and name are on the disk; a crash before may leave neither, or a file
    /// of zeros.
    ///
    /// # Errors
    /// When the file exists (it is left alone), the disk is full, or the system refuses; no file
    /// is left behind then.
    pub fn create(path: &Path, bytes: u64, options: &PoolOptions) -> Result<Pool, PoolError> {
        check_size(&path.display().to_string(), bytes)?;
        Pool::create_in(PoolFile::create(path, 0o666)?, bytes, options)
    }

    /// As [`create`](Pool::create), in a file that is empty or of at most `bytes` zeros.
    ///
    /// # Errors
    /// As there; the file is removed if [`PoolFile::create`] has made it.
    pub fn create_in(file: PoolFile, bytes: u64, options: &PoolOptions) -> Result<Pool, PoolError> {
        check_size(&file.name(), bytes)?;
        let mut pool = Pool::map(file, (bytes, bytes), options)?;
        pool.space.finish_file()?;
        Ok(pool)
    }

    /// Opens the pool file at `path`, whole.
    ///
    /// `check` is shown its first [`POOL_BYTES_MIN`] bytes and its size before anything is done to
    /// it, and answers what is wrong with them, if anything.
    ///
    /// # Errors
    /// When the file is missing, no file, too small, in use, not permitted, or refused by `check`.
    /// No byte of it has changed then.
    pub fn open(
        path: &Path,
        options: &PoolOptions,
        check: impl FnOnce(&[u8], u64) -> Result<(), String>,
    ) -> Result<Pool, PoolError> {
        Pool::open_used(path, options, |head, bytes| check(head, bytes).map(|()| bytes))
    }

    /// As [`open`](Pool::open), but of the file only as many bytes as `check` answers are in use:
    /// the pool has no more, and only they are sure to have their space. What the file has behind
    /// them is cut off when the pool grows.
    ///
    /// # Errors
    /// As there.
    pub fn open_used(
        path: &Path,
        options: &PoolOptions,
        check: impl FnOnce(&[u8], u64) -> Result<u64, String>,
    ) -> Result<Pool, PoolError> {
        let PoolOptions { dram_bytes, bytes_max, .. } = *options;
        let needs = |used| Needs { used, backed: used, dram_bytes, bytes_max };
        Pool::open_as(path, options.domain, |head, bytes| check(head, bytes).map(needs))
    }

    /// As [`open_used`](Pool::open_used), with options that `check` derives from the first bytes.
    ///
    /// # Errors
    /// As there.
    pub fn open_as(
        path: &Path,
        domain: Option<Domain>,
        check: impl FnOnce(&[u8], u64) -> Result<Needs, String>,
    ) -> Result<Pool, PoolError> {
        let file = PoolFile::open(path)?;
        let bytes = file.bytes()?;
        let mut head = vec![0; POOL_BYTES_MIN as usize];
        let read = file.file().read_exact_at(&mut head, 0);
        read.map_err(|error| explain(&file.name(), "read it", 0, error))?;
        let needs = check(&head, bytes);
        let needs = needs.map_err(|why| PoolError::Rejected { path: file.name(), why })?;
        let Needs { used, backed, dram_bytes, bytes_max } = needs;
        let options = PoolOptions { domain, dram_bytes, bytes_max };
        let used = used.clamp(POOL_BYTES_MIN, bytes);
        Pool::map(file, (backed.clamp(POOL_BYTES_MIN, used), used), &options)
    }

    /// A pool of `bytes` zeroed bytes in a file without a name, in the folder for temporary files;
    /// it is gone when the pool is dropped or the process ends, however that happens.
    ///
    /// # Errors
    /// When the disk is full or the system refuses.
    pub fn temporary(bytes: u64, options: &PoolOptions) -> Result<Pool, PoolError> {
        let path = std::env::temp_dir().join("(temporary pool)");
        let name = path.display().to_string();
        check_size(&name, bytes)?;
        let file = tempfile::tempfile();
        let file = file.map_err(|error| explain(&name, "create it", bytes, error))?;
        let mut pool = Pool::map(PoolFile::unnamed(file, &path)?, (bytes, bytes), options)?;
        pool.durability = Durability::Nothing;
        Ok(pool)
    }

    /// Maps so many bytes, of which the first have space.
    fn map(
        file: PoolFile,
        (backed, bytes): (u64, u64),
        options: &PoolOptions,
    ) -> Result<Pool, PoolError> {
        let name = file.name();
        let wanted = match options.domain {
            None => Domain::from_environment()?,
            given => given,
        };
        let space = Space::new(file, (backed, bytes), options.bytes_max)?;
        let dram = Mapping::anonymous(options.dram_bytes);
        let fail = |error| explain(&name, "get memory beside it", options.dram_bytes, error);
        let dram = dram.map_err(fail)?.not_inherited();
        let (domain, flush, durability) = chosen(&space, wanted)?;
        let (slots, sleepers) = (ThreadSlots::of(space.process()), Sleepers::default());
        Ok(Pool { space, dram, flush, domain, durability, slots, sleepers })
    }

    /// The pool in another durability domain, before anything is stored in it.
    ///
    /// # Errors
    /// When `SEAWALL_FLUSH` is wrong; the pool is closed then.
    pub fn in_domain(mut self, domain: Domain) -> Result<Pool, PoolError> {
        (self.domain, self.flush, self.durability) = chosen(&self.space, Some(domain))?;
        Ok(self)
    }

    /// The handle of hardware thread `thread`; take one in each thread.
    pub fn memory(&self, thread: usize) -> NativeMemory<'_> {
        let who = (thread, &self.slots, &self.sleepers);
        NativeMemory::new(&self.space, &self.dram, self.flush.kind, self.domain, who)
    }

    /// Whether this process was forked from the one that opened the pool. Then it may drop it, and
    /// nothing else: an access ends it (SIGSEGV).
    #[inline]
    pub fn is_inherited(&self) -> bool {
        self.slots.are_inherited()
    }

    /// The process that opened it.
    pub fn process(&self) -> Process {
        self.space.process()
    }

    /// Where the pool's first byte is mapped: for programs that hold pointers into it, which store
    /// by them past the seam. It stays there while the pool is open, also when it grows.
    pub fn base(&self) -> *mut u8 {
        self.space.mapping().base()
    }

    /// Persistent bytes: the size of the file as it is now, or of what of it is in use.
    pub fn bytes(&self) -> u64 {
        self.space.bytes()
    }

    /// Bytes that it may grow to while it is open.
    pub fn bytes_max(&self) -> u64 {
        self.space.mapping().bytes()
    }

    /// Makes the pool at least `bytes` long, in whole pages, if it is not;
    /// [`MemoryExt::grow`](seawall_memory::MemoryExt::grow) does the same. Any thread may at any
    /// time.
    ///
    /// The new bytes are zero, and all of them are allocated; when it returns they are there after
    /// any crash that drained data survives. One before may leave a longer pool. It costs system
    /// calls and a write of the file's size: grow in steps that are large.
    ///
    /// # Errors
    /// When that is more than [`bytes_max`](Pool::bytes_max), the disk is full, or the system
    /// refuses: the pool is as it was then. When the file was truncated meanwhile.
    pub fn grow(&self, bytes: u64) -> Result<(), PoolError> {
        self.space.grow(bytes)
    }

    /// The pool with its flushes handed to another layer: `Ribbon::auto()` of `seawall-ribbon`.
    ///
    /// # Errors
    /// As `how` says; the pool is closed then.
    pub fn flush<F: FlushBy<Pool>>(self, how: F) -> Result<F::Pool, F::Error> {
        how.flush_for(self)
    }

    /// The flush instruction in use.
    pub fn instruction(&self) -> &Flush {
        &self.flush
    }

    /// The durability domain in use.
    pub fn domain(&self) -> Domain {
        self.domain
    }

    /// What drained data survives; its text is fit to be printed.
    pub fn durability(&self) -> Durability {
        self.durability
    }

    /// True if drained data survives a power failure.
    pub fn is_durable(&self) -> bool {
        self.durability.is_durable()
    }
}

impl Handles for Pool {
    type Handle<'a> = NativeMemory<'a>;

    fn handle(&self, thread: usize) -> NativeMemory<'_> {
        self.memory(thread)
    }

    fn flushes_nothing(&self) -> Option<String> {
        let is_so = self.flush.kind == FlushKind::None;
        is_so.then(|| format!("domain {}: {}", self.domain, self.flush.why))
    }

    fn add_dram(&mut self, bytes: u64) -> io::Result<Addr> {
        let begin = self.dram.bytes().next_multiple_of(LINE_BYTES);
        let all = begin.checked_add(bytes).ok_or(io::ErrorKind::OutOfMemory)?;
        self.dram.lengthen(all)?;
        Ok(Addr::dram(begin))
    }

    #[cfg(target_os = "linux")]
    fn recent_stores(&self, source: StoreSource) -> Result<Box<dyn RecentStores + '_>, String> {
        crate::stores::watch(source, self.space.window())
    }
}

/// The domain of a pool, by default the one that fits its file; how it is flushed, and what drained
/// data survives.
fn chosen(space: &Space, wanted: Option<Domain>) -> Result<(Domain, Flush, Durability), PoolError> {
    let line = Flush::from_environment()?;
    let medium = map::medium(space.file(), space.mapping());
    let caches_persist = caches_persist_here();
    let domain = wanted.unwrap_or_else(|| Domain::fitting(medium, caches_persist));
    let flush = match domain {
        Domain::Line => line,
        Domain::Page => Flush { kind: FlushKind::None, why: "msync writes pages".into() },
        Domain::None => Flush { kind: FlushKind::None, why: "the caches persist".into() },
    };
    let flushes = flush.kind != FlushKind::None;
    let durability = Durability::of(medium, domain, flushes, caches_persist);
    Ok((domain, flush, durability))
}

#[cfg(test)]
mod tests {
    use super::*;
    use seawall_memory::{Memory, MemoryExt};
    use std::fs::OpenOptions;

    fn anything(_: &[u8], _: u64) -> Result<(), String> {
        Ok(())
    }

    #[test]
    fn what_one_process_drained_the_next_one_finds() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.pool");
        let options = PoolOptions { dram_bytes: 64, ..PoolOptions::default() };
        let pool = Pool::create(&path, 8192, &options).unwrap();
        pool.memory(0).store(Addr::pm(4096), 7u64);
        pool.memory(0).persist(Addr::pm(4096), 8);
        pool.memory(0).store(Addr::dram(0), 9u64);
        drop(pool);
        let pool = Pool::open(&path, &options, anything).unwrap();
        assert_eq!(pool.bytes(), 8192);
        assert_eq!(pool.memory(1).load::<u64>(Addr::pm(4096)), 7);
        assert_eq!(pool.memory(1).load::<u64>(Addr::dram(0)), 0, "DRAM does not survive");
    }

    #[test]
    fn more_dram_is_zero_behind_what_there_was() {
        let options = PoolOptions { dram_bytes: 100, ..PoolOptions::default() };
        let mut pool = Pool::temporary(4096, &options).unwrap();
        pool.memory(0).store(Addr::dram(8), 7u64);
        assert!(pool.add_dram(1 << 62).is_err());
        let begin = pool.add_dram(1 << 20).unwrap();
        assert_eq!(begin, Addr::dram(128));
        let memory = pool.memory(0);
        assert_eq!((memory.load::<u64>(Addr::dram(8)), memory.load::<u64>(begin)), (7, 0));
        memory.store(begin.plus((1 << 20) - 8), 9u64);
    }

    #[test]
    fn an_existing_file_is_never_created_over() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("notes.txt");
        std::fs::write(&path, "precious").unwrap();
        let error = Pool::create(&path, 8192, &PoolOptions::default()).err().unwrap();
        assert!(matches!(error, PoolError::Exists { .. }), "{error}");
        assert!(error.to_string().contains("notes.txt"));
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "precious");
    }

    #[test]
    fn a_pool_belongs_to_one_user_at_a_time() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.pool");
        let first = Pool::create(&path, 8192, &PoolOptions::default()).unwrap();
        let error = Pool::open(&path, &PoolOptions::default(), anything).err().unwrap();
        assert!(matches!(error, PoolError::InUse { .. }), "{error}");
        drop(first);
        Pool::open(&path, &PoolOptions::default(), anything).unwrap();
    }

    #[test]
    fn a_copy_of_the_file_in_a_child_about_to_start_keeps_no_lock() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.pool");
        let pool = Pool::create(&path, 8192, &PoolOptions::default()).unwrap();
        let copy = pool.space.file().try_clone().unwrap();
        drop(pool);
        Pool::open(&path, &PoolOptions::default(), anything).unwrap();
        drop(copy);
    }

    #[test]
    fn what_is_no_pool_is_refused_and_left_as_it_was() {
        let folder = tempfile::tempdir().unwrap();
        let open = |path: &Path| {
            let refuse = |head: &[u8], bytes: u64| Err(format!("{} of {bytes}", head.len()));
            Pool::open(path, &PoolOptions::default(), refuse).err().unwrap()
        };
        let path = folder.path().join("x.pool");
        assert!(matches!(open(&path), PoolError::NotFound { .. }));
        assert!(matches!(open(folder.path()), PoolError::NotAFile { .. }));
        assert!(matches!(open(Path::new("/dev/null")), PoolError::NotAFile { .. }));
        for (bytes, small) in [(0, true), (4095, true), (5000, false)] {
            std::fs::write(&path, vec![3; bytes]).unwrap();
            let error = open(&path);
            assert_eq!(matches!(error, PoolError::TooSmall { .. }), small, "{error}");
            let refused = error.to_string().contains("4096 of 5000");
            assert_eq!(matches!(error, PoolError::Rejected { .. }) && refused, !small, "{error}");
            assert_eq!(std::fs::read(&path).unwrap(), vec![3; bytes]);
        }
    }

    #[test]
    fn what_is_behind_the_bytes_in_use_gets_no_space_and_is_cut_off_by_growth() {
        use std::os::unix::fs::MetadataExt;
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.pool");
        drop(Pool::create(&path, 8192, &PoolOptions::default()).unwrap());
        let file = OpenOptions::new().write(true).open(&path).unwrap();
        file.write_all_at(&[7; 64], 1 << 20).unwrap();
        file.set_len(1 << 40).unwrap();
        let options = PoolOptions { bytes_max: 1 << 21, ..PoolOptions::default() };
        let pool = Pool::open_used(&path, &options, |_, _| Ok(8192)).unwrap();
        let status = file.metadata().unwrap();
        assert_eq!((pool.bytes(), status.len()), (8192, 1 << 40));
        assert!(status.blocks() * 512 < 1 << 19, "{} blocks", status.blocks());
        pool.grow(1 << 21).unwrap();
        assert_eq!((pool.bytes(), file.metadata().unwrap().len()), (1 << 21, 1 << 21));
        assert_eq!(pool.memory(0).load::<u64>(Addr::pm(1 << 20)), 0, "new bytes are zero");
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn holes_behind_what_must_have_space_stay_until_they_are_brought_back() {
        use std::os::unix::fs::MetadataExt;
        const KIB: u64 = 1 << 10;
        let folders = [std::env::temp_dir(), "/dev/shm".into()];
        for folder in folders.iter().filter_map(|folder| tempfile::tempdir_in(folder).ok()) {
            let path = folder.path().join("a.pool");
            let taken = || std::fs::metadata(&path).unwrap().blocks() * 512;
            let pool = Pool::create(&path, 1024 * KIB, &PoolOptions::default()).unwrap();
            pool.memory(0).write(Addr::pm(0), &vec![7; 1024 << 10]);
            pool.memory(0).discard(Addr::pm(512 * KIB), 256 * KIB);
            drop(pool);
            let discarded = taken();
            if discarded > 900 * KIB || !map::can_bring_back() {
                continue;
            }
            let open = |backed| {
                let needs = Needs { used: 1024 * KIB, backed, dram_bytes: 0, bytes_max: 0 };
                Pool::open_as(&path, None, |_, _| Ok(needs)).unwrap()
            };
            let pool = open(4 * KIB);
            let (memory, hole) = (pool.memory(0), (Addr::pm(512 * KIB), 256 * KIB));
            assert_eq!((taken(), memory.hole(Addr::pm(0), 1024 * KIB)), (discarded, Some(hole)));
            assert_eq!(memory.hole(Addr::pm(0), 512 * KIB), None);
            assert!(memory.bring_back(hole.0, 64 * KIB));
            assert!((discarded + 64 * KIB..900 * KIB).contains(&taken()), "{}", taken());
            drop(pool);
            drop(open(1024 * KIB));
            assert!(taken() >= 1024 * KIB, "{} bytes", taken());
        }
    }

    #[test]
    fn a_disk_that_is_too_small_is_an_error_and_leaves_no_file() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("huge.pool");
        let error = Pool::create(&path, 1 << 50, &PoolOptions::default()).err().unwrap();
        assert!(matches!(error, PoolError::Full { .. }), "{error}");
        assert!(!path.exists());
        assert!(matches!(
            Pool::temporary(1 << 50, &PoolOptions::default()),
            Err(PoolError::Full { .. })
        ));
    }

    #[test]
    fn a_temporary_pool_and_an_ordinary_file_are_not_called_durable() {
        let options = PoolOptions { domain: Some(Domain::Line), ..PoolOptions::default() };
        let pool = Pool::temporary(8192, &options).unwrap();
        assert_eq!((pool.durability(), pool.is_durable()), (Durability::Nothing, false));
        let folder = tempfile::tempdir().unwrap();
        let pool = Pool::create(&folder.path().join("a"), 8192, &options).unwrap();
        assert_eq!(pool.is_durable(), pool.space.mapping().is_sync());
    }
}
