//! A thread has read a pointer to a node of a FAST & FAIR tree and is suspended. Meanwhile the node
//! is merged with its neighbour and reused; the thread resumes before any store that turns it into
//! another node, and after all of them.

use super::{Subject, tag_of};
use seawall_explore::{Model, Schedule, Schedules, Traced, record};
use seawall_memory::{Addr, Image, LINE_BYTES, Memory, MemoryExt, Width, layer};
use seawall_runtime::Arena;
use seawall_workloads::ribbon20::structures::FastFairTree;
use std::cell::Cell;
use std::collections::BTreeMap;
use std::rc::Rc;

/// The memory of a thread that is suspended once: after one of the pointers that it reads before it
/// locks anything.
struct Visitor<'m> {
    memory: &'m Traced<'m>,
    pm_bytes: u64,
    /// A word of DRAM, zero until the thread resumes.
    gate: Addr,
    pointers_left: Cell<u64>,
    stood: Rc<Cell<bool>>,
}

impl<'m> layer::Layer for Visitor<'m> {
    type Below = Traced<'m>;
    const WORD_BY_WORD: bool = true;

    fn below(&self) -> &Traced<'m> {
        self.memory
    }

    fn load_bits(&self, at: Addr, width: Width) -> u64 {
        let value = self.memory.load_bits(at, width);
        let is_pointer = at.is_pm() && (1..self.pm_bytes).contains(&value);
        let left = self.pointers_left.get();
        if is_pointer && value.is_multiple_of(LINE_BYTES) && left > 0 {
            self.pointers_left.set(left - 1);
            self.stood.set(self.stood.get() || left == 1);
            while left == 1 && self.memory.spin_while(self.gate, 0) == 0 {}
        }
        value
    }

    fn compare_exchange(&self, at: Addr, current: u64, new: u64) -> Result<u64, u64> {
        self.pointers_left.set(0);
        self.memory.compare_exchange(at, current, new)
    }
}

/// The fate of the node.
struct Change {
    /// Inserted and deleted at first.
    keys: &'static [u64],
    without: &'static [u64],
    /// Deleted while the thread is suspended, so that the node is merged with its neighbour, and
    /// inserted there until that is full.
    join: u64,
    filled: &'static [u64],
    /// Inserted then: the split reuses the node.
    split: u64,
}

/// Leaves of [10, 20, 30], [40, 50, 60] and [70, ...].
const THREE: &[u64] = &[10, 20, 30, 40, 50, 60, 70, 80, 90, 100, 110, 120];

const CHANGES: [Change; 3] = [
    // The node becomes the half that has key 40, then the other half; then the root, and the root
    // becomes a leaf.
    Change { keys: THREE, without: &[10, 20, 50], join: 60, filled: &[1, 2, 3, 41, 42], split: 43 },
    Change {
        keys: THREE,
        without: &[10, 20, 50],
        join: 60,
        filled: &[41, 42, 43, 44, 45],
        split: 46,
    },
    Change {
        keys: THREE.split_at(8).0,
        without: &[10, 20, 80, 70, 50],
        join: 60,
        filled: &[1, 2, 3, 41, 42],
        split: 43,
    },
];

/// The operation of a thread, and its effect on the tree's contents.
type Errand = (fn(&FastFairTree, &Visitor<'_>), fn(&mut BTreeMap<u64, u64>));

const ERRANDS: [Errand; 5] = [
    (|tree, memory| assert_eq!(tree.search(memory, 40), Some(tag_of(40, 0))), |_| {}),
    (
        |tree, memory| {
            let mut keys = Vec::new();
            tree.scan(memory, 30, 20, |key, _| keys.push(key));
            assert!(keys.starts_with(&[30, 40]) && keys.is_sorted(), "{keys:?}");
        },
        |_| {},
    ),
    (
        |tree, memory| assert!(Subject::insert(tree, memory, 49, 9)),
        |contents| {
            contents.insert(49, 9);
        },
    ),
    (
        |tree, memory| assert!(Subject::update(tree, memory, 40, 9)),
        |contents| {
            contents.insert(40, 9);
        },
    ),
    (
        |tree, memory| assert!(Subject::delete(tree, memory, 40)),
        |contents| {
            contents.remove(&40);
        },
    ),
];

/// Every run in which the thread is suspended after its `nth` pointer; `None` if it has fewer.
fn runs(change: &'static Change, (errand, effect): Errand, nth: u64) -> Option<usize> {
    let mut arena = Arena::new();
    let tree = <FastFairTree as Subject>::place(2, 64, &mut arena);
    let gate = arena.dram(LINE_BYTES);
    let pm_bytes = arena.pm_bytes();
    let image = Image::new(pm_bytes, arena.dram_bytes());
    Subject::recover(&tree, &image);
    let put = |key: &u64| assert!(Subject::insert(&tree, &image, *key, tag_of(*key, 0)));
    change.keys.iter().for_each(put);
    change.without.iter().for_each(|key| assert!(Subject::delete(&tree, &image, *key)));
    let mut wanted = Subject::contents(&tree, &image);
    wanted.remove(&change.join);
    wanted.extend(change.filled.iter().chain([&change.split]).map(|key| (*key, tag_of(*key, 0))));
    effect(&mut wanted);

    let stood = Rc::new(Cell::new(false));
    let preemptions = Schedules { interruptions: 1, limit: 5000, ..Schedules::new(Model::Strict) };
    let base = Schedule { threads: 2, ..Schedule::default() };
    let runs = preemptions.all(&base, |schedule| {
        let (ended, wanted, stood) = (Rc::new(Cell::new(0)), wanted.clone(), stood.clone());
        record(image.clone(), schedule, move |memory| {
            if memory.thread() == 0 {
                let (pointers_left, stood) = (Cell::new(nth), stood.clone());
                errand(&tree, &Visitor { memory, pm_bytes, gate, pointers_left, stood });
            } else {
                assert!(Subject::delete(&tree, memory, change.join));
                let add =
                    |key: &u64| assert!(Subject::insert(&tree, memory, *key, tag_of(*key, 0)));
                change.filled.iter().for_each(add);
                memory.store(gate, 1u64);
                add(&change.split);
            }
            ended.set(ended.get() + 1);
            if ended.get() == 2 {
                assert_eq!(Subject::contents(&tree, memory), wanted);
            }
        })
    });
    let runs = runs.unwrap_or_else(|error| panic!("pointer {nth}: {error}"));
    assert!(runs.tried.complete);
    stood.get().then_some(runs.runs.len())
}

#[test]
fn who_is_on_the_way_to_a_node_that_becomes_another_finds_the_right_one() {
    for change in &CHANGES {
        for errand in ERRANDS {
            let all: Vec<usize> = (1..).map_while(|nth| runs(change, errand, nth)).collect();
            assert!(all.len() > 3, "{all:?}");
        }
    }
}
