//! A pool in a file: opened by its path and the type of its root, and nothing else.

use crate::thread::{BEHIND_BYTES, Thread};
use crate::{
    Branded, Domain, Durability, Error, HeapError, Logging, OpenError, Ptr, ReadError, Tx, View,
};
use seawall_memory::Image;
use seawall_native::{NativeMemory, Needs, Pool as File, PoolError, PoolOptions};
use seawall_runtime::{Heap, HeapOptions, typed};
use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;
use std::path::Path;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::ThreadId;

/// What pools of this library are called; what is in one the type of its root says.
const NAME: &str = "seawall";

/// The options that a pool is created with. An existing pool keeps its own, except `domain`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Options {
    /// The most bytes of objects that it may grow to; by default 1 GiB. Costs addresses,
    /// and no space before it is used.
    pub bytes_max: u64,
    /// Threads that may work in it at once, 1 to 1024; by default 64. Each takes 3 times
    /// `log_bytes` of the file.
    pub threads: u64,
    /// Bytes of a log; by default 64 KiB. A transaction that writes more takes space for its log
    /// that objects could have, until it is over, or soon after.
    pub log_bytes: u64,
    /// What makes data durable; by default what fits the file.
    pub domain: Option<Domain>,
}

impl Default for Options {
    fn default() -> Options {
        Options { bytes_max: 1 << 30, threads: 64, log_bytes: 64 << 10, domain: None }
    }
}

impl Options {
    /// With another limit of its size.
    #[must_use]
    pub fn bytes_max(self, bytes_max: u64) -> Options {
        Options { bytes_max, ..self }
    }

    /// Sets the number of threads that may work at once.
    #[must_use]
    pub fn threads(self, threads: u64) -> Options {
        Options { threads, ..self }
    }

    /// Sets the bytes of a log.
    #[must_use]
    pub fn log_bytes(self, log_bytes: u64) -> Options {
        Options { log_bytes, ..self }
    }

    /// With this durability domain.
    #[must_use]
    pub fn domain(self, domain: Domain) -> Options {
        Options { domain: Some(domain), ..self }
    }

    pub(crate) fn heap<R: Branded>(&self) -> HeapOptions {
        HeapOptions {
            bytes: 1 << 20,
            bytes_max: self.bytes_max.max(1 << 20),
            threads: self.threads,
            log_bytes: self.log_bytes,
            ..typed::options::<R>()
        }
    }
}

/// An open pool whose root is an `R`; closed when it is dropped. Threads share it by reference.
pub struct Pool<R> {
    file: File,
    heap: Heap,
    places: Places<R>,
}

impl<R> std::fmt::Debug for Pool<R> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Pool").field("uuid", &self.heap.uuid()).finish_non_exhaustive()
    }
}

/// Opens the pool at `path` and recovers it after a crash; creates it if there is no file. The root
/// of a new pool is an `R` of zeros: numbers are 0, pointers are `None`, maps and lists are empty.
///
/// A crash during creation leaves no pool, or an empty one. The time to open a pool grows with the
/// transactions that were in flight, not with what the pool holds.
///
/// # Errors
/// [`OpenError::File`] when the file cannot be used. [`OpenError::Content`] when it is not a pool
/// or another program's, when its types have changed since it was created (the error names the
/// field), or when it is damaged; the file stays as it was. [`OpenError::Option`] when the pool is
/// new and an option is out of range.
pub fn open<R: Branded>(path: impl AsRef<Path>, options: Options) -> Result<Pool<R>, OpenError> {
    let path = path.as_ref();
    match existing(path, options.domain) {
        Err(OpenError::File(PoolError::NotFound { .. })) => {}
        there => return there,
    }
    match create(path, options) {
        // Another process was quicker.
        Err(OpenError::File(PoolError::Exists { .. })) => existing(path, options.domain),
        made => made,
    }
}

/// Opens the pool at `path`.
fn existing<R: Branded>(path: &Path, domain: Option<Domain>) -> Result<Pool<R>, OpenError> {
    let content = |source| OpenError::Content { path: path.display().to_string(), source };
    let mut refused = None;
    let file = File::open_as(path, domain, |head, bytes| {
        needs(head, bytes).map_err(|error| refused.insert(error).to_string())
    });
    match (file, refused) {
        (Ok(file), _) => opened(file).map_err(content),
        (Err(PoolError::Rejected { .. }), Some(error)) => Err(content(error)),
        (Err(error), _) => Err(error.into()),
    }
}

/// The needs of the pool that begins with the bytes of `head`.
fn needs(head: &[u8], bytes: u64) -> Result<Needs, HeapError> {
    let image = Image::from_pm(head.to_vec(), 0);
    let info = Heap::read(&image, NAME, bytes)?;
    let used = Heap::bytes_used(&image, bytes)?;
    let (backed, dram_bytes) = (info.bytes_backed(used), info.dram_bytes() + BEHIND_BYTES);
    Ok(Needs { used, backed, dram_bytes, bytes_max: info.pm_bytes_max() })
}

fn create<R: Branded>(path: &Path, options: Options) -> Result<Pool<R>, OpenError> {
    let heap = options.heap::<R>();
    heap.check().map_err(OpenError::Option)?;
    let content = |source| OpenError::Content { path: path.display().to_string(), source };
    let pool = PoolOptions {
        domain: options.domain,
        dram_bytes: heap.dram_bytes() + BEHIND_BYTES,
        bytes_max: heap.pm_bytes_max(),
    };
    let file = File::create(path, heap.pm_bytes(), &pool)?;
    let heap = typed::create::<R, _, HeapError>(&file.memory(0), NAME, identity(), &heap, |pool| {
        Ok(pool.heap())
    });
    Ok(Pool::of(file, heap.map_err(content)?))
}

fn opened<R: Branded>(file: File) -> Result<Pool<R>, HeapError> {
    let bytes = file.bytes();
    let heap =
        typed::open::<R, _, HeapError>(&file.memory(0), NAME, bytes, |pool| Ok(pool.heap()))?;
    Ok(Pool::of(file, heap))
}

/// Bits that no other pool has.
fn identity() -> u128 {
    let half = || u128::from(RandomState::new().hash_one(std::process::id()));
    half() << 64 | half()
}

impl<R> Pool<R> {
    fn of(file: File, heap: Heap) -> Pool<R> {
        // Early flushes would make msync write more pages under each fence.
        let heap = if file.domain() == Domain::Page { heap } else { heap.flushing_early() };
        Pool { places: Places::of(&heap), file, heap }
    }
}

impl<R: Branded> Pool<R> {
    /// Runs `body` as a transaction; see [`Thread::transaction`]. The calling thread takes a place
    /// in the pool for this call: a loop of them is quicker with a handle ([`work`](Pool::work)).
    ///
    /// # Errors
    /// As [`Thread::transaction`].
    ///
    /// # Panics
    /// Within another call of this pool by the same thread, which it would wait for.
    pub fn transaction<T, E: From<Error>>(
        &self,
        body: impl for<'p, 'm> FnMut(
            &mut Tx<'p, '_, 'm, NativeMemory<'m>>,
            Ptr<'p, R::In<'p>>,
        ) -> Result<T, E>,
    ) -> Result<T, E> {
        self.work(|thread| thread.transaction(body))
    }

    /// As [`transaction`](Pool::transaction), with a choice of logging.
    ///
    /// # Errors
    /// As [`transaction`](Pool::transaction).
    ///
    /// # Panics
    /// As [`transaction`](Pool::transaction).
    pub fn transaction_with<T, E: From<Error>>(
        &self,
        logging: Logging,
        body: impl for<'p, 'm> FnMut(
            &mut Tx<'p, '_, 'm, NativeMemory<'m>>,
            Ptr<'p, R::In<'p>>,
        ) -> Result<T, E>,
    ) -> Result<T, E> {
        self.work(|thread| thread.transaction_with(logging, body))
    }

    /// Runs `body`, which reads what is committed; see [`Thread::read`]. No transaction runs
    /// meanwhile: a copy of the file that `body` makes is whole.
    ///
    /// # Errors
    /// As [`Thread::read`].
    ///
    /// # Panics
    /// As [`transaction`](Pool::transaction).
    pub fn read<T, E: From<ReadError>>(
        &self,
        body: impl for<'p, 'm> FnOnce(
            &mut View<'p, '_, 'm, NativeMemory<'m>>,
            Ptr<'p, R::In<'p>>,
        ) -> Result<T, E>,
    ) -> Result<T, E> {
        self.work(|thread| thread.read(body))
    }

    /// Lends the calling thread a handle for as long as `body` runs. Waits while as many threads
    /// work as the pool was made for. In a process that was forked from the one that opened the
    /// pool, all that the handle does is an error.
    ///
    /// # Panics
    /// Within another call of this pool by the same thread.
    pub fn work<T>(
        &self,
        body: impl for<'m> FnOnce(&mut Thread<'m, R, NativeMemory<'m>>) -> T,
    ) -> T {
        if self.file.is_inherited() {
            return body(&mut Thread::inherited(&self.file.memory(0)));
        }
        let mut place = self.places.take(&self.file);
        let memory = self.file.memory(place.number);
        let mut thread = match place.thread.take() {
            Some(before) => Thread::resume(self.heap, &memory, *before),
            None => Thread::join(self.heap, &memory).expect("its types are known"),
        };
        let outcome = body(&mut thread);
        place.thread = thread.suspend().map(Box::new);
        outcome
    }

    /// What committed data survives; its text is fit to be printed.
    pub fn durability(&self) -> Durability {
        self.file.durability()
    }

    /// Bytes of the file that are in use.
    pub fn bytes(&self) -> u64 {
        self.file.bytes()
    }
}

impl<R> Drop for Pool<R> {
    fn drop(&mut self) {
        // No thread works in it any more. With its logs truncated it opens at once the next time.
        // In a forked process it is the parent's, which goes on.
        if !std::thread::panicking() && !self.file.is_inherited() {
            let memory = self.file.memory(0);
            self.heap.join(&memory).retire();
        }
    }
}

/// Where threads work: each place has a thread number, and what is known there.
struct Places<R> {
    all: Mutex<All<R>>,
    freed: Condvar,
}

type Known<R> = Option<Box<typed::Suspended<R>>>;

struct All<R> {
    /// The place that was freed last is taken first: it knows most.
    free: Vec<(usize, Known<R>)>,
    taken: Vec<ThreadId>,
    /// The number of threads that wait: waking none would cost a system call, too.
    waiting: usize,
}

/// A place, until it is dropped.
struct Place<'n, R> {
    places: &'n Places<R>,
    file: &'n File,
    number: usize,
    thread: Known<R>,
    holder: ThreadId,
}

impl<R> Places<R> {
    fn of(heap: &Heap) -> Places<R> {
        let free = (0..heap.threads() as usize).rev().map(|number| (number, None)).collect();
        let all = All { free, taken: Vec::new(), waiting: 0 };
        Places { all: Mutex::new(all), freed: Condvar::new() }
    }

    fn all(&self) -> MutexGuard<'_, All<R>> {
        self.all.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn take<'n>(&'n self, file: &'n File) -> Place<'n, R> {
        let holder = std::thread::current().id();
        let mut all = self.all();
        assert!(
            !all.taken.contains(&holder),
            "this thread is in the pool already: use the handle that it has"
        );
        loop {
            if let Some((number, thread)) = all.free.pop() {
                all.taken.push(holder);
                return Place { places: self, file, number, thread, holder };
            }
            all.waiting += 1;
            all = self.freed.wait(all).unwrap_or_else(PoisonError::into_inner);
            all.waiting -= 1;
        }
    }
}

impl<R> Drop for Place<'_, R> {
    fn drop(&mut self) {
        if self.file.is_inherited() {
            // A thread that did not come along may have locked the places.
            return;
        }
        let mut all = self.places.all();
        all.taken.retain(|thread| *thread != self.holder);
        all.free.push((self.number, self.thread.take()));
        if all.waiting > 0 {
            self.places.freed.notify_one();
        }
    }
}
