//! A process that forks while it has a pool: the pool is the parent's, whatever the child does with
//! its copy of the handle, and no thread of the parent is waited for in the child.
//!
//! The flusher of the first test is held in the middle of its fence; in the second one forks come
//! at any moment.

use rustix::process::{Pid, Signal, WaitOptions, kill_process, waitpid};
use seawall_memory::{Addr, Fence, FlushBy, Handles, Memory, MemoryExt, layer};
use seawall_native::{Domain, NativeMemory, OfProcess, Pool, PoolError, PoolOptions};
use seawall_ribbon::{EarlySource, Mode, Ribbon, RibbonCounters, RibbonOptions, RibbonPool};
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::{Acquire, Release};
use std::time::{Duration, Instant};

const PATIENCE: Duration = Duration::from_secs(60);
const LINES: u64 = 12;

unsafe extern "C" {
    fn fork() -> i32;
    fn _exit(code: i32) -> !;
}

/// Runs `child` in a forked process; returns that process. The child ends with what `child` gives,
/// or 99 if it panics, and takes nothing of this process down with it.
fn forked(child: impl FnOnce() -> i32) -> Pid {
    // SAFETY: `fork` of the C library leaves its own locks usable in the child. The child runs
    // `child` alone, which waits for no other thread of this process, and ends without returning.
    unsafe {
        match fork() {
            0 => _exit(catch_unwind(AssertUnwindSafe(child)).unwrap_or(99)),
            id => Pid::from_raw(id).expect("a fork"),
        }
    }
}

/// How a child ended; one that hangs is killed, and fails the test.
fn wait_for(child: Pid) -> i32 {
    let began = Instant::now();
    while began.elapsed() < PATIENCE {
        if let Some((_, status)) = waitpid(Some(child), WaitOptions::NOHANG).unwrap() {
            return status.exit_status().unwrap_or(-1);
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    let _ = kill_process(child, Signal::KILL);
    panic!("the child hangs");
}

/// A pool whose flushers can be held in their fence.
struct Held {
    pool: Pool,
    threads: usize,
    holds: Arc<AtomicBool>,
    is_held: Arc<AtomicBool>,
}

struct HeldMemory<'a> {
    memory: NativeMemory<'a>,
    by: Option<&'a Held>,
}

impl Handles for Held {
    type Handle<'a> = HeldMemory<'a>;
    fn handle(&self, thread: usize) -> HeldMemory<'_> {
        let by = (thread >= self.threads).then_some(self);
        HeldMemory { memory: self.pool.memory(thread), by }
    }
    fn flushes_nothing(&self) -> Option<String> {
        self.pool.flushes_nothing()
    }
    fn add_dram(&mut self, bytes: u64) -> io::Result<Addr> {
        self.pool.add_dram(bytes)
    }
}

impl<'a> layer::Layer for HeldMemory<'a> {
    type Below = NativeMemory<'a>;

    fn below(&self) -> &NativeMemory<'a> {
        &self.memory
    }

    fn fence(&self, fence: Fence) {
        while let Some(by) = self.by
            && fence == Fence::Drain
            && by.holds.load(Acquire)
        {
            by.is_held.store(true, Release);
            std::thread::yield_now();
        }
        self.memory.fence(fence);
    }
}

fn options(flushers: u64) -> RibbonOptions {
    RibbonOptions { mode: Mode::Always, threads: 4, flushers, chunk: 1, ..Ribbon::auto() }
}

fn temporary() -> Pool {
    let options = PoolOptions { domain: Some(Domain::Line), ..PoolOptions::default() };
    Pool::temporary(1 << 20, &options).expect("there is room")
}

fn write(memory: &impl Memory, from: u64, value: u64) {
    for line in 0..LINES {
        memory.store(Addr::pm(from + 64 * line), value);
        memory.flush(Addr::pm(from + 64 * line), 8);
    }
}

fn holds(memory: &impl Memory, from: u64, value: u64) -> bool {
    (0..LINES).all(|line| memory.load::<u64>(Addr::pm(from + 64 * line)) == value)
}

fn threads_here() -> usize {
    std::fs::read_dir("/proc/self/task").map_or(1, Iterator::count)
}

/// The child's part: it drops what it has, and waits for nobody. Gives 0, or the number of what is
/// wrong.
fn child<P: Handles>(pool: RibbonPool<P>) -> i32 {
    let counters = pool.counters();
    drop(pool);
    match (counters == RibbonCounters::default(), threads_here()) {
        (false, _) => 1,
        (_, 1) => 0,
        _ => 2,
    }
}

#[test]
fn a_child_drops_handle_and_pool_whose_flusher_is_in_the_middle_of_a_fence() {
    let (holds_on, is_held) = (Arc::new(AtomicBool::new(true)), Arc::new(AtomicBool::new(false)));
    let below =
        Held { pool: temporary(), threads: 4, holds: holds_on.clone(), is_held: is_held.clone() };
    let pool = options(1).flush_for(below).unwrap();
    let memory = pool.memory(0);
    write(&memory, 0, 7);
    while !is_held.load(Acquire) {
        std::thread::yield_now();
    }
    assert!(pool.counters().depth > 0);
    let mut memory = Some(memory);
    let id = forked(|| {
        drop(memory.take());
        let is_alone = pool.counters() == RibbonCounters::default() && threads_here() == 1;
        i32::from(!is_alone)
    });
    assert_eq!(wait_for(id), 0);
    holds_on.store(false, Release);
    let Some(memory) = memory else { unreachable!("only the child takes it") };
    memory.drain();
    assert!(holds(&memory, 0, 7));
    drop(memory);
    assert_eq!(pool.counters().flushers, 1, "the parent has its flusher");
}

#[test]
fn forks_at_any_moment_end_well_on_both_sides() {
    for round in 0..20u64 {
        let pool = temporary().flush(options(2)).unwrap();
        let memory = pool.memory(0);
        for value in 0..round % 5 * 20 {
            write(&memory, 0, value);
            memory.drain();
        }
        write(&memory, 0, 1000 + round);
        drop(memory);
        let mut pool = Some(pool);
        let id = forked(|| child(pool.take().expect("the child's copy")));
        let Some(pool) = pool else { unreachable!("only the child takes it") };
        let memory = pool.memory(1);
        for value in 1..=50 {
            write(&memory, 1 << 18, value);
            memory.drain();
        }
        assert_eq!(wait_for(id), 0, "round {round}");
        assert!(holds(&memory, 0, 1000 + round) && holds(&memory, 1 << 18, 50));
    }
}

#[test]
fn a_child_has_no_cleaner_and_the_parents_goes_on() {
    for round in 1..=10u64 {
        // Where the machine tells nothing of its stores, as on Arm, the handles do, and flusher 0
        // cleans.
        let with = |flushers| temporary().flush(options(flushers).early(EarlySource::Auto));
        let pool = with(0).or_else(|_| with(1)).unwrap();
        let has_cleaner = pool.counters().cleaner.is_some();
        let cleaned = |pool: &RibbonPool<Pool>| pool.counters().cleaner.map_or(0, |c| c.cleaned);
        write(&pool.memory(0), 0, round);
        let mut pool = Some(pool);
        let id = forked(|| child(pool.take().expect("the child's copy")));
        let Some(pool) = pool else { unreachable!("only the child takes it") };
        assert_eq!(wait_for(id), 0, "round {round}");
        let (memory, before, began) = (pool.memory(1), cleaned(&pool), Instant::now());
        for value in 1.. {
            write(&memory, 1 << 18, value);
            if !has_cleaner || cleaned(&pool) > before {
                break;
            }
            assert!(began.elapsed() < PATIENCE, "the parent's cleaner does nothing");
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}

/// The process that `child` runs in, made by the bare system call, of which the C library knows
/// nothing.
#[cfg(target_os = "linux")]
fn forked_unseen(child: impl FnOnce() -> i32) -> Pid {
    // SAFETY: as for `fork`; the child calls nothing that needs the C library to know of it.
    unsafe {
        match libc::syscall(libc::SYS_clone, libc::SIGCHLD, 0, 0, 0, 0) {
            0 => _exit(catch_unwind(AssertUnwindSafe(child)).unwrap_or(99)),
            id => Pid::from_raw(id as i32).expect("a child"),
        }
    }
}

/// What a child finds of its parent's pool. Gives 0, or the number of
/// what is wrong.
fn look(pool: &Pool) -> i32 {
    let error = pool.grow(2 << 20).err().map(|error| error.to_string());
    match (pool.is_inherited(), error) {
        (true, Some(error)) if error.contains("before this process was forked") => 0,
        (false, _) => 1,
        _ => 2,
    }
}

#[test]
fn a_child_is_told_that_the_pool_is_its_parents_however_it_was_made() {
    let options = PoolOptions { bytes_max: 4 << 20, ..PoolOptions::default() };
    let pool = Pool::temporary(1 << 20, &options).unwrap();
    assert!(!pool.is_inherited());
    assert_eq!(wait_for(forked(|| look(&pool))), 0);
    #[cfg(target_os = "linux")]
    assert_eq!(wait_for(forked_unseen(|| look(&pool))), 0);
    let grandchild = forked(|| wait_for(forked(|| look(&pool))));
    assert_eq!(wait_for(grandchild), 0);
    assert!(!pool.is_inherited() && pool.grow(2 << 20).is_ok());
}

#[test]
fn what_a_process_has_for_itself_a_child_makes_anew() {
    static NUMBERS: OfProcess<u32> = OfProcess::new();
    assert_eq!((NUMBERS.get(), *NUMBERS.get_or_make(|| 1)), (None, 1));
    let inherited = || NUMBERS.inherited().copied().collect::<Vec<u32>>();
    let id = forked(|| {
        let is_new = NUMBERS.get().is_none() && inherited() == [1];
        let makes = *NUMBERS.get_or_make(|| 2) == 2 && NUMBERS.get() == Some(&2);
        let grandchild = || i32::from(NUMBERS.get().is_some() || inherited() != [2, 1]);
        i32::from(!is_new || !makes || wait_for(forked(grandchild)) != 0)
    });
    assert_eq!(wait_for(id), 0);
    assert_eq!((NUMBERS.get(), *NUMBERS.get_or_make(|| 3), inherited()), (Some(&1), 1, vec![]));
}

/// Number of the signal that ended the process.
fn signal_of(child: Pid) -> Option<i32> {
    let (_, status) = waitpid(Some(child), WaitOptions::empty()).unwrap()?;
    status.terminating_signal()
}

#[test]
fn a_store_of_a_child_to_its_parents_pool_ends_it() {
    let pool = temporary();
    let base = pool.base();
    // SAFETY: it is the pool's first byte where there is a pool, and nothing elsewhere.
    let store = || unsafe { base.write_volatile(1) };
    let stores = [
        forked(|| {
            store();
            0
        }),
        forked(|| {
            // As large as the hole that the pool would leave.
            let all: Vec<Pool> = (0..20).map(|_| temporary()).collect();
            let more: Vec<Vec<u8>> = (0..20).map(|_| vec![1; 1 << 20]).collect();
            store();
            all.len() as i32 + more.len() as i32
        }),
        #[cfg(target_os = "linux")]
        forked_unseen(|| {
            store();
            0
        }),
    ];
    for child in stores {
        assert_eq!(signal_of(child), Some(Signal::SEGV.as_raw()));
    }
    // SAFETY: the pool is there.
    assert_eq!(unsafe { base.read_volatile() }, 0);
}

#[test]
fn a_child_has_pools_of_its_own_and_its_child_has_not() {
    let folder = tempfile::tempdir().unwrap();
    let (path, of_child) = (folder.path().join("pool"), folder.path().join("of the child"));
    let options = PoolOptions::default();
    let _pool = Pool::create(&path, 1 << 20, &options).unwrap();
    let id = forked(|| {
        let in_use = Pool::open(&path, &options, |_, _| Ok(())).err();
        let is_named = matches!(in_use, Some(PoolError::InUse { path: name })
            if name == path.display().to_string());
        let own = Pool::create(&of_child, 1 << 20, &options).unwrap();
        write(&own.memory(0), 0, 5);
        let is_good = is_named && !own.is_inherited() && holds(&own.memory(0), 0, 5);
        if is_good { wait_for(forked(|| look(&own))) } else { 9 }
    });
    assert_eq!(wait_for(id), 0);
    let left = Pool::open(&of_child, &options, |_, _| Ok(())).unwrap();
    assert!(holds(&left.memory(0), 0, 5));
}

#[test]
fn a_child_that_drops_its_copy_leaves_the_pool_locked_for_the_parent() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("pool");
    let options = PoolOptions::default();
    let mut pool = Some(Pool::create(&path, 1 << 20, &options).unwrap());
    let id = forked(|| {
        drop(pool.take());
        0
    });
    assert_eq!(wait_for(id), 0);
    let open = || Pool::open(&path, &options, |_, _| Ok(()));
    assert!(matches!(open(), Err(PoolError::InUse { .. })));
    drop(pool);
    assert!(open().is_ok());
}
