//! The hash-table program of the gem5 speed comparison: 64-byte buckets in one shared table, each
//! update two clwb + sfence persists, no locks.
//!
//! Entries are buckets. Threads race for a bucket as in the C original, so operations record no
//! effects and the check is weak: a bucket with a key has a version. The original's random
//! generator is replaced by the worker's; the key is mixed from it in the same way. Instructions
//! and references are as many as those of the original (the twin `ht.c` of the tests of programs).

use crate::harness::history::Contents;
use crate::{Damage, Flaw, Layout, Setup, Worker, Workload};
use rand_xoshiro::rand_core::Rng;
use seawall_memory::{Addr, LINE_BYTES, Memory, MemoryExt};
use seawall_runtime::{Arena, pool};

const KEY: u64 = 0;
const VALUE: u64 = 8;
const VERSION: u64 = 16;

const PROBES: u64 = 4;
/// Instructions that touch no memory, of an operation and of each probe but the first, as gcc 12
/// makes them of the C original at -O2.
const WORK: u32 = 26;
const WORK_A_PROBE: u32 = 17;
/// Global variables that the C original loads after each fence: table, buckets, operations.
const GLOBALS: u64 = 3;
/// The greatest number of buckets: 64 GiB.
const BUCKETS_MAX: u64 = 1 << 30;

/// The racy bucket table.
#[derive(Clone, Copy, Debug)]
pub struct Ht {
    /// The global variables of the C original, which are in other memory.
    globals: Addr,
    table: Addr,
    buckets: u64,
}

impl Ht {
    fn place(buckets: u64, arena: &mut Arena) -> Ht {
        let globals = arena.dram(LINE_BYTES);
        Ht { globals, table: arena.pm(buckets * LINE_BYTES), buckets }
    }

    fn bucket(&self, index: u64) -> Addr {
        self.table.plus(index % self.buckets * LINE_BYTES)
    }

    fn update<M: Memory>(&self, memory: &M, at: Addr, key: u64, worker: &Worker) {
        memory.store(at.plus(VALUE), worker.number);
        let version = memory.load::<u64>(at.plus(VERSION));
        memory.store(at.plus(VERSION), version.wrapping_add(1));
        if worker.flaw != Flaw::NoFlush {
            memory.flush(at, LINE_BYTES);
        }
        if worker.flaw != Flaw::NoOrder {
            memory.drain();
        }
        memory.store(at.plus(KEY), key);
        memory.persist(at, LINE_BYTES);
    }
}

impl Workload for Ht {
    const NAME: &'static str = "ht";
    const ABOUT: &'static str = "the bucket table of the gem5 speed comparison (weak check)";
    const ENTRIES: u64 = 65536;
    const SEARCH_PERCENT: u32 = 0;

    fn layout(setup: &Setup) -> Layout {
        let mut arena = Arena::new();
        Ht::place(setup.entries, &mut arena);
        Layout::of(&arena)
    }

    fn create<M: Memory>(memory: &M, setup: &Setup) -> Ht {
        let mut arena = Arena::new();
        let ht = Ht::place(setup.entries, &mut arena);
        pool::create(memory, Ht::NAME, setup.uuid(), arena.pm_bytes(), &[setup.entries]);
        ht
    }

    fn open<M: Memory>(memory: &M, layout: Layout) -> Result<Ht, Damage> {
        let [buckets, ..] = pool::open(memory, Ht::NAME, layout.pm_bytes)?;
        if !(1..=BUCKETS_MAX).contains(&buckets) {
            return Err(Damage(format!("the pool's roots say {buckets} buckets")));
        }
        let mut arena = Arena::new();
        let ht = Ht::place(buckets, &mut arena);
        layout.hold(&arena)?;
        Ok(ht)
    }

    type Local<'m, M: Memory + 'm> = ();

    fn join<M: Memory>(&self, _: &M) {}

    fn step<M: Memory>(&self, memory: &M, (): &mut (), worker: &mut Worker) {
        let key = worker.rng.next_u64().wrapping_mul(0xff51_afd7_ed55_8ccd);
        memory.work(WORK);
        for number in 0..GLOBALS {
            memory.load::<u64>(self.globals.plus(number * 8));
        }
        for probe in 0..PROBES {
            let at = self.bucket((key >> 20) + probe);
            let found = memory.load::<u64>(at.plus(KEY));
            if found == 0 || found == key || probe == PROBES - 1 {
                self.update(memory, at, key, worker);
                return;
            }
            memory.load::<u64>(at.plus(VALUE));
            memory.work(WORK_A_PROBE);
        }
    }

    fn contents<M: Memory>(&self, memory: &M) -> Result<Contents, Damage> {
        for index in 0..self.buckets {
            let at = self.bucket(index);
            let (key, version) = (memory.load(at.plus(KEY)), memory.load(at.plus(VERSION)));
            if (key, version) != (0u64, 0u64) && version == 0u64 {
                return Err(Damage(format!("bucket {index} has key {key:#x} and no version")));
            }
        }
        Ok(Contents::new())
    }
}
