//! Insert, delete and search in a hash table (MICRO'15, Table 2, "Hash"): keys uniform in twice the
//! entries, so that the population is stable.

use super::structures::HashShape;
use crate::harness::history::{Contents, initial_tag};
use crate::harness::workload::initial_keys;
use crate::harness::ycsb::{Accepts, Op};
use crate::shared::Change;
use crate::{Damage, Layout, Setup, Worker, Workload};
use seawall_memory::Memory;
use seawall_runtime::{Arena, pool};

/// The hash-table benchmark.
#[derive(Clone, Copy, Debug)]
pub struct Hash {
    table: super::structures::HashTable,
    keys: u64,
}

fn shape(setup: &Setup) -> HashShape {
    HashShape {
        threads: setup.threads as u64,
        stripes: (setup.entries / 6).clamp(1, 1 << 24),
        capacity: 2 * setup.entries,
    }
}

impl Workload for Hash {
    const NAME: &'static str = "hash";
    const ABOUT: &'static str = "insert, delete and search in a hash table with striped locks";
    const ENTRIES: u64 = 4096;
    const SEARCH_PERCENT: u32 = 33;
    const ACCEPTS: Accepts = Accepts::Keys;

    fn layout(setup: &Setup) -> Layout {
        let mut arena = Arena::new();
        super::structures::HashTable::place(shape(setup), &mut arena);
        Layout::of(&arena)
    }

    fn create<M: Memory>(memory: &M, setup: &Setup) -> Hash {
        let mut arena = Arena::new();
        let shape = shape(setup);
        let table = super::structures::HashTable::place(shape, &mut arena);
        table.recover(memory, arena.pm_bytes()).expect("a zeroed pool is an empty table");
        for (number, key) in initial_keys(setup).into_iter().enumerate() {
            let change = Change::of(initial_tag(number as u64));
            table.insert(memory, key, change).expect("room for the initial entries");
        }
        table.recover(memory, arena.pm_bytes()).expect("a table just filled");
        let keys = 2 * setup.entries;
        let roots = [shape.threads, shape.stripes, shape.capacity, keys];
        pool::create(memory, Hash::NAME, setup.uuid(), arena.pm_bytes(), &roots);
        Hash { table, keys }
    }

    fn open<M: Memory>(memory: &M, layout: Layout) -> Result<Hash, Damage> {
        let [threads, stripes, capacity, keys, ..] =
            pool::open(memory, Hash::NAME, layout.pm_bytes)?;
        let mut arena = Arena::new();
        let shape = HashShape { threads, stripes, capacity }.check()?;
        let table = super::structures::HashTable::place(shape, &mut arena);
        layout.hold(&arena)?;
        table.recover(memory, arena.pm_bytes())?;
        Ok(Hash { table, keys })
    }

    type Local<'m, M: Memory + 'm> = ();

    fn join<M: Memory>(&self, _: &M) {}

    fn step<M: Memory>(&self, memory: &M, (): &mut (), worker: &mut Worker) {
        let (op, key) = worker.request(self.keys);
        memory.work(20);
        if matches!(op, Op::Read | Op::ReadModifyWrite) {
            self.table.search(memory, key);
        }
        match op {
            Op::Insert => {
                let _ = self.table.insert(memory, key, worker.change());
            }
            Op::Delete => {
                self.table.delete(memory, key, worker.change());
            }
            Op::Update | Op::ReadModifyWrite => {
                let _ = self.table.update(memory, key, worker.change());
            }
            Op::Put => {
                if self.table.insert(memory, key, worker.change()) == Ok(false) {
                    let _ = self.table.update(memory, key, worker.change());
                }
            }
            Op::Read | Op::Scan(_) => {}
        }
    }

    fn contents<M: Memory>(&self, memory: &M) -> Result<Contents, Damage> {
        Ok(self.table.contents(memory)?)
    }
}
