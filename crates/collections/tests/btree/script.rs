//! Small trees, the operations of a script, and what they must leave.

use seawall_collections::{BTreeError, Tree};
use seawall_memory::{Addr, Image, Memory};
use seawall_runtime::{Heap, HeapOptions, Session};
use std::collections::BTreeMap;

/// A tree whose nodes are soon full.
pub(crate) type Small = Tree<3, 3>;
pub(crate) const NAME: &str = "btree";
/// Few version words, so that nodes share them.
pub(crate) const VERSIONS: u64 = 8;

/// What a tree holds.
pub(crate) type State = BTreeMap<u64, u64>;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    Insert(u64, u64),
    /// Adds to the value.
    Update(u64, u64),
    Remove(u64),
}

impl Step {
    /// Runs it; gives the value before.
    pub(crate) fn run<M: Memory, const SLOTS: usize, const KEYS: usize>(
        self,
        tree: &Tree<SLOTS, KEYS>,
        session: &mut Session<'_, M>,
    ) -> Result<Option<u64>, BTreeError> {
        match self {
            Step::Insert(key, value) => tree.insert(session, key, value),
            Step::Update(key, by) => tree.update(session, key, |value| value.wrapping_add(by)),
            Step::Remove(key) => tree.remove(session, key),
        }
    }

    /// What it makes of a state; gives the value before.
    pub(crate) fn apply(self, state: &mut State) -> Option<u64> {
        match self {
            Step::Insert(key, value) => state.insert(key, value),
            Step::Update(key, by) => {
                let value = state.get_mut(&key)?;
                Some(std::mem::replace(value, value.wrapping_add(by)))
            }
            Step::Remove(key) => state.remove(&key),
        }
    }
}

pub(crate) fn options(threads: u64, chunks: u64) -> HeapOptions {
    HeapOptions {
        bytes: chunks << 16,
        bytes_max: chunks << 16,
        threads,
        log_bytes: 8 << 10,
        root_bytes: 16,
        ..HeapOptions::default()
    }
}

pub(crate) fn dram_bytes(options: &HeapOptions) -> u64 {
    options.dram_bytes() + Small::dram_bytes(VERSIONS)
}

/// A heap with an empty tree.
pub(crate) fn made<const SLOTS: usize, const KEYS: usize>(
    options: &HeapOptions,
) -> (Image, Heap, Tree<SLOTS, KEYS>) {
    let image = Image::new(options.pm_bytes(), dram_bytes(options));
    let heap = Heap::create(&image, NAME, 7, options).expect("good options");
    let mut session = heap.join(&image);
    let tree = Tree::create(&mut session, heap.root(), dram(&heap), VERSIONS).expect("room");
    session.leave();
    (image, heap, tree)
}

pub(crate) fn dram(heap: &Heap) -> Addr {
    Addr::dram(heap.dram_bytes())
}

/// Opens heap and tree again after a crash, and looks at all of them.
pub(crate) fn reopen<M: Memory, const SLOTS: usize, const KEYS: usize>(
    memory: &M,
    bytes: u64,
) -> Result<(Heap, Tree<SLOTS, KEYS>, State), String> {
    let (heap, _) = Heap::open(memory, NAME, bytes).map_err(|error| error.to_string())?;
    let tree = Tree::open(&mut heap.join(memory), heap.root(), dram(&heap), VERSIONS);
    let tree = tree.map_err(|error| error.to_string())?;
    let state = checked(memory, &heap, &tree)?;
    Ok((heap, tree, state))
}

/// What the tree holds, if all is sound and nothing in the heap but its nodes.
pub(crate) fn checked<M: Memory, const SLOTS: usize, const KEYS: usize>(
    memory: &M,
    heap: &Heap,
    tree: &Tree<SLOTS, KEYS>,
) -> Result<State, String> {
    let (mut state, mut previous) = (State::new(), None);
    let found = tree.check(memory, heap, |key, value| {
        assert!(previous.is_none_or(|previous| previous < key), "not in order");
        previous = Some(key);
        state.insert(key, value);
    });
    let found = found.map_err(|error| error.to_string())?;
    let mut objects = 0;
    heap.objects(memory, |_| objects += 1).map_err(|error| error.to_string())?;
    if objects != found.leaves + found.inners {
        return Err(format!("{objects} objects are live, and the tree is {found:?}"));
    }
    Ok(state)
}
