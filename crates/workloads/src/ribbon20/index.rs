//! The common part of workloads of published indexes, which live in a pool of their own without a
//! heap or a log: a map from keys to the tags of operations, its population, and its mix. Keys are
//! uniform in twice the entries, so that the population is stable; or they are those of a YCSB mix.

use crate::harness::history::{Contents, initial_tag};
use crate::harness::workload::{THREADS_MAX, initial_keys};
use crate::harness::ycsb::{Accepts, Op};
use crate::shared::{Change, Full};
use crate::{Damage, Layout, Setup, Worker, Workload};

use seawall_memory::Memory;
use seawall_runtime::{Arena, pool};

/// The greatest number of keys.
const KEYS_MAX: u64 = 1 << 29;

/// An index from keys to tags: a few addresses.
pub trait Index: Copy + Send + Sync + 'static {
    /// Name of the workload.
    const NAME: &'static str;
    /// One line for the list of workloads.
    const ABOUT: &'static str;
    /// Whether it supports [`scan`](Index::scan).
    const IN_ORDER: bool;

    /// Places an index for keys below `keys`, which is 2 to 2^29.
    fn place(threads: u64, keys: u64, arena: &mut Arena) -> Self;

    /// Recovers; creates an empty index in a zeroed pool.
    ///
    /// # Errors
    /// If the pool is damaged beyond what a crash can do.
    fn recover<M: Memory>(&self, memory: &M) -> Result<(), Damage>;

    /// Checks every invariant and returns the tag of each key.
    ///
    /// # Errors
    /// The invariant that does not hold.
    fn contents<M: Memory>(&self, memory: &M) -> Result<Contents, Damage>;

    /// The tag of a key.
    fn search<M: Memory>(&self, memory: &M, key: u64) -> Option<u64>;

    /// Inserts a key; false if it exists.
    ///
    /// # Errors
    /// If there is no room.
    fn insert<M: Memory, F: FnMut(u64, u64)>(
        &self,
        memory: &M,
        key: u64,
        change: Change<F>,
    ) -> Result<bool, Full>;

    /// Sets the tag of a key; false if it does not exist.
    fn update<M: Memory, F: FnMut(u64, u64)>(
        &self,
        memory: &M,
        key: u64,
        change: Change<F>,
    ) -> bool;

    /// Deletes a key; false if it does not exist.
    fn delete<M: Memory, F: FnMut(u64, u64)>(
        &self,
        memory: &M,
        key: u64,
        change: Change<F>,
    ) -> bool;

    /// Reads up to `most` keys from `from` on; returns their number.
    fn scan<M: Memory>(&self, memory: &M, from: u64, most: u64) -> u64 {
        let _ = (memory, from, most);
        0
    }
}

/// The benchmark of an index.
#[derive(Clone, Copy, Debug)]
pub struct Indexed<I> {
    index: I,
    keys: u64,
}

impl<I: Index> Workload for Indexed<I> {
    const NAME: &'static str = I::NAME;
    const ABOUT: &'static str = I::ABOUT;
    const ENTRIES: u64 = 4096;
    const SEARCH_PERCENT: u32 = 33;
    const ACCEPTS: Accepts = if I::IN_ORDER { Accepts::Ranges } else { Accepts::Keys };

    fn layout(setup: &Setup) -> Layout {
        let mut arena = Arena::new();
        I::place(setup.threads as u64, 2 * setup.entries, &mut arena);
        Layout::of(&arena)
    }

    fn create<M: Memory>(memory: &M, setup: &Setup) -> Indexed<I> {
        let mut arena = Arena::new();
        let (threads, keys) = (setup.threads as u64, 2 * setup.entries);
        let index = I::place(threads, keys, &mut arena);
        index.recover(memory).expect("a zeroed pool is an empty index");
        for (number, key) in (0..).zip(initial_keys(setup)) {
            let change = Change::of(initial_tag(number));
            index.insert(memory, key, change).expect("room for the initial entries");
        }
        pool::create(memory, I::NAME, setup.uuid(), arena.pm_bytes(), &[threads, keys]);
        Indexed { index, keys }
    }

    fn open<M: Memory>(memory: &M, layout: Layout) -> Result<Indexed<I>, Damage> {
        let [threads, keys, ..] = pool::open(memory, I::NAME, layout.pm_bytes)?;
        if !(1..=THREADS_MAX).contains(&threads) || !(2..=KEYS_MAX).contains(&keys) {
            return Err(Damage(format!("the pool's roots say {threads} threads and {keys} keys")));
        }
        let mut arena = Arena::new();
        let index = I::place(threads, keys, &mut arena);
        layout.hold(&arena)?;
        index.recover(memory)?;
        Ok(Indexed { index, keys })
    }

    type Local<'m, M: Memory + 'm> = ();

    fn join<M: Memory>(&self, _: &M) {}

    fn step<M: Memory>(&self, memory: &M, (): &mut (), worker: &mut Worker) {
        let (op, key) = worker.request(self.keys);
        let room = "room for each key";
        memory.work(20);
        match op {
            Op::Read => {
                self.index.search(memory, key);
            }
            Op::Insert => {
                self.index.insert(memory, key, worker.change()).expect(room);
            }
            Op::Delete => {
                self.index.delete(memory, key, worker.change());
            }
            Op::Update => {
                self.index.update(memory, key, worker.change());
            }
            Op::Put => {
                if !self.index.insert(memory, key, worker.change()).expect(room) {
                    self.index.update(memory, key, worker.change());
                }
            }
            Op::Scan(most) => {
                self.index.scan(memory, key, most);
            }
            Op::ReadModifyWrite => {
                self.index.search(memory, key);
                self.index.update(memory, key, worker.change());
            }
        }
    }

    fn contents<M: Memory>(&self, memory: &M) -> Result<Contents, Damage> {
        self.index.contents(memory)
    }
}

/// Forwards the operations of an index to methods of the structure with the same names.
macro_rules! as_the_structure_does {
    ($Structure:ident) => {
        fn recover<M: Memory>(&self, memory: &M) -> Result<(), Damage> {
            Ok($Structure::recover(self, memory)?)
        }

        fn contents<M: Memory>(&self, memory: &M) -> Result<Contents, Damage> {
            Ok($Structure::contents(self, memory)?)
        }

        fn search<M: Memory>(&self, memory: &M, key: u64) -> Option<u64> {
            $Structure::search(self, memory, key)
        }

        fn insert<M: Memory, F: FnMut(u64, u64)>(
            &self,
            memory: &M,
            key: u64,
            change: Change<F>,
        ) -> Result<bool, Full> {
            $Structure::insert(self, memory, key, change)
        }

        fn update<M: Memory, F: FnMut(u64, u64)>(
            &self,
            memory: &M,
            key: u64,
            change: Change<F>,
        ) -> bool {
            $Structure::update(self, memory, key, change)
        }

        fn delete<M: Memory, F: FnMut(u64, u64)>(
            &self,
            memory: &M,
            key: u64,
            change: Change<F>,
        ) -> bool {
            $Structure::delete(self, memory, key, change)
        }
    };
}
pub(crate) use as_the_structure_does;
