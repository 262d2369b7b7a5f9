//! Random swaps of two entries of an array (MICRO'15, Table 2, "SPS"); a search reads one
//! entry.

use super::structures::{Array, ArrayShape};
use crate::harness::history::{Contents, initial_tag};
use crate::harness::workload::Action;
use crate::{Damage, Layout, Setup, Worker, Workload};
use seawall_memory::Memory;
use seawall_runtime::{Arena, pool};

/// The array benchmark.
#[derive(Clone, Copy, Debug)]
pub struct Sps {
    array: Array,
}

fn shape(setup: &Setup) -> ArrayShape {
    let entries = setup.entries.max(2);
    ArrayShape { threads: setup.threads as u64, stripes: entries.min(1024), entries }
}

impl Workload for Sps {
    const NAME: &'static str = "sps";
    const ABOUT: &'static str = "random swaps between entries of an array";
    const ENTRIES: u64 = 4096;
    const SEARCH_PERCENT: u32 = 33;

    fn layout(setup: &Setup) -> Layout {
        let mut arena = Arena::new();
        Array::place(shape(setup), &mut arena);
        Layout::of(&arena)
    }

    fn create<M: Memory>(memory: &M, setup: &Setup) -> Sps {
        let mut arena = Arena::new();
        let shape = shape(setup);
        let array = Array::place(shape, &mut arena);
        array.fill(memory, initial_tag);
        let roots = [shape.threads, shape.stripes, shape.entries];
        pool::create(memory, Sps::NAME, setup.uuid(), arena.pm_bytes(), &roots);
        Sps { array }
    }

    fn open<M: Memory>(memory: &M, layout: Layout) -> Result<Sps, Damage> {
        let [threads, stripes, entries, ..] = pool::open(memory, Sps::NAME, layout.pm_bytes)?;
        let mut arena = Arena::new();
        let shape = ArrayShape { threads, stripes, entries }.check()?;
        let array = Array::place(shape, &mut arena);
        layout.hold(&arena)?;
        array.recover(memory, arena.pm_bytes())?;
        Ok(Sps { array })
    }

    type Local<'m, M: Memory + 'm> = ();

    fn join<M: Memory>(&self, _: &M) {}

    fn step<M: Memory>(&self, memory: &M, (): &mut (), worker: &mut Worker) {
        let entries = self.array.shape().entries;
        let action = worker.action();
        let left = worker.below(entries);
        memory.work(20);
        if action == Action::Search {
            self.array.search(memory, left);
        } else {
            let right = (left + 1 + worker.below(entries - 1)) % entries;
            self.array.swap(memory, left, right, worker.change());
        }
    }

    fn contents<M: Memory>(&self, memory: &M) -> Result<Contents, Damage> {
        Ok(self.array.contents(memory)?)
    }
}
