//! Insert, delete and search in red-black trees (MICRO'15, Table 2, "RBTree"): keys uniform in
//! twice the entries, so that the population is stable.
//!
//! One lock serialises all threads that share a tree, so the keys are spread over several trees.

use super::structures::{Forest, ForestShape};
use crate::harness::history::{Contents, initial_tag};
use crate::harness::workload::{Action, initial_keys};
use crate::shared::Change;
use crate::{Damage, Layout, Setup, Worker, Workload};
use seawall_memory::Memory;
use seawall_runtime::{Arena, pool};

/// The number of trees, unless there are fewer entries.
const TREES: u64 = 64;

/// The red-black tree benchmark.
#[derive(Clone, Copy, Debug)]
pub struct RbTree {
    forest: Forest,
    keys: u64,
}

fn shape(setup: &Setup) -> ForestShape {
    ForestShape {
        threads: setup.threads as u64,
        trees: TREES.min(setup.entries.div_ceil(4)).max(1),
        capacity: 2 * setup.entries,
    }
}

impl Workload for RbTree {
    const NAME: &'static str = "rbtree";
    const ABOUT: &'static str = "insert, delete and search in red-black trees";
    const ENTRIES: u64 = 4096;
    const SEARCH_PERCENT: u32 = 33;

    fn layout(setup: &Setup) -> Layout {
        let mut arena = Arena::new();
        Forest::place(shape(setup), &mut arena);
        Layout::of(&arena)
    }

    fn create<M: Memory>(memory: &M, setup: &Setup) -> RbTree {
        let mut arena = Arena::new();
        let shape = shape(setup);
        let forest = Forest::place(shape, &mut arena);
        forest.recover(memory, arena.pm_bytes()).expect("a zeroed pool holds empty trees");
        for (number, key) in initial_keys(setup).into_iter().enumerate() {
            let change = Change::of(initial_tag(number as u64));
            forest.insert(memory, key, change).expect("room for the initial entries");
        }
        forest.recover(memory, arena.pm_bytes()).expect("trees just filled");
        let keys = 2 * setup.entries;
        let roots = [shape.threads, shape.trees, shape.capacity, keys];
        pool::create(memory, RbTree::NAME, setup.uuid(), arena.pm_bytes(), &roots);
        RbTree { forest, keys }
    }

    fn open<M: Memory>(memory: &M, layout: Layout) -> Result<RbTree, Damage> {
        let [threads, trees, capacity, keys, ..] =
            pool::open(memory, RbTree::NAME, layout.pm_bytes)?;
        let mut arena = Arena::new();
        let shape = ForestShape { threads, trees, capacity }.check()?;
        let forest = Forest::place(shape, &mut arena);
        layout.hold(&arena)?;
        forest.recover(memory, arena.pm_bytes())?;
        Ok(RbTree { forest, keys })
    }

    type Local<'m, M: Memory + 'm> = ();

    fn join<M: Memory>(&self, _: &M) {}

    fn step<M: Memory>(&self, memory: &M, (): &mut (), worker: &mut Worker) {
        let (action, key) = (worker.action(), worker.below(self.keys));
        memory.work(20);
        match action {
            Action::Search => {
                self.forest.search(memory, key);
            }
            Action::Insert => {
                let _ = self.forest.insert(memory, key, worker.change());
            }
            Action::Delete => {
                self.forest.delete(memory, key, worker.change());
            }
        }
    }

    fn contents<M: Memory>(&self, memory: &M) -> Result<Contents, Damage> {
        Ok(self.forest.contents(memory)?)
    }
}
