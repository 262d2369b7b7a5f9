//! A process that forks while flushers run: the child has none of them and goes on by itself, and
//! the parent goes on with them.
//!
//! Here and not beside the flushers, because a fork is `unsafe` and the runtime has none of that.
//! The flusher of the first test is held in the middle of its fence, so that what it had taken on
//! at the fork is certain to be lost in the child; in the second one forks come at any moment. A
//! pool without flushers is the parent's, whatever the child does with its copy.

use rustix::process::{Pid, Signal, WaitOptions, kill_process, waitpid};
use seawall_memory::{Addr, Fence, FlushBy, Handles, Memory, MemoryExt, layer};
use seawall_native::{Domain, NativeMemory, Pool, PoolError, PoolOptions};
use seawall_ribbon::{EarlySource, Mode, Ribbon, RibbonOptions, RibbonPool};
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::{Acquire, Release};
use std::time::{Duration, Instant};

const PATIENCE: Duration = Duration::from_secs(60);
const LINES: u64 = 12;
const CHILD_BEGINS: u64 = 1 << 16;

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

/// The child's part: it goes on with a thread's handle, begins another one, and drops the pool.
/// Gives 0, or the number of what is wrong.
fn child<P: Handles>(pool: RibbonPool<P>, began: impl FnOnce(&RibbonPool<P>) -> bool) -> i32 {
    let goes_on = began(&pool);
    let other = pool.memory(3);
    for value in 1..=50 {
        write(&other, CHILD_BEGINS, value);
        other.drain();
    }
    let is_there = holds(&other, CHILD_BEGINS, 50);
    drop(other);
    let counters = pool.counters();
    drop(pool);
    match (goes_on, is_there, counters.flushers, threads_here()) {
        (true, true, 0, 1) => 0,
        (false, ..) => 1,
        (_, false, ..) => 2,
        (_, _, 0, _) => 4,
        _ => 3,
    }
}

#[test]
fn a_child_does_what_a_flusher_had_taken_on_and_the_parent_waits_for_it() {
    let (holds_on, is_held) = (Arc::new(AtomicBool::new(true)), Arc::new(AtomicBool::new(false)));
    let below =
        Held { pool: temporary(), threads: 4, holds: holds_on.clone(), is_held: is_held.clone() };
    let pool = options(1).flush_for(below).unwrap();
    let id = {
        let memory = pool.memory(0);
        write(&memory, 0, 7);
        while !is_held.load(Acquire) {
            std::thread::yield_now();
        }
        assert!(pool.counters().depth > 0);
        let id = forked(|| {
            memory.drain();
            let counters = pool.counters();
            let is_done = counters.counts.takeovers == 1 && counters.depth == 0;
            let is_alone = counters.flushers == 0 && threads_here() == 1;
            i32::from(!(is_done && is_alone && holds(&memory, 0, 7)))
        });
        holds_on.store(false, Release);
        memory.drain();
        assert!(holds(&memory, 0, 7));
        id
    };
    assert_eq!(wait_for(id), 0);
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
        let id = forked(|| {
            let pool = pool.take().expect("the child's copy");
            child(pool, |pool| {
                let memory = pool.memory(0);
                write(&memory, 1 << 17, 9);
                memory.drain();
                holds(&memory, 0, 1000 + round) && holds(&memory, 1 << 17, 9)
            })
        });
        let Some(pool) = pool else { unreachable!("only the child takes it") };
        let memory = pool.memory(1);
        for value in 1..=50 {
            write(&memory, 1 << 18, value);
            memory.drain();
        }
        assert_eq!(wait_for(id), 0, "round {round}");
        assert!(holds(&memory, 0, 1000 + round) && holds(&memory, 1 << 18, 50));
        assert!(holds(&memory, CHILD_BEGINS, 50), "what the child stored is in the file");
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
        let id = forked(|| child(pool.take().expect("the child's copy"), |_| true));
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
        assert!(holds(&memory, CHILD_BEGINS, 50), "what the child stored is in the file");
    }
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
