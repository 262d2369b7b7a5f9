//! Insert, delete and search in a concurrent B+tree on a heap: what a program that links seawall's
//! runtime would do, where the other workloads are those of papers. Keys are uniform in twice the
//! entries, so that the population stays where it is.
//!
//! A stripe of keys is locked around each change, only so that the history gets changes of one key
//! in their order; the tree itself needs no such lock.

use crate::history::{Contents, initial_tag, tag};
use crate::workload::{Action, initial_keys};
use crate::{Damage, Layout, Setup, Worker, Workload};
use seawall_collections::BTreeError;
use seawall_memory::{Addr, Memory};
use seawall_runtime::epoch::Flaw;
use seawall_runtime::{Arena, CHUNK_BYTES, Heap, HeapError, HeapFlaw, HeapOptions, Locks, Session};

const VERSIONS: u64 = 1 << 12;
const STRIPES: u64 = 64;
/// In the root object: the tree's anchor, and how many keys there are.
const ROOT_BYTES: u64 = 24;
const KEYS: u64 = 16;

/// The B+tree benchmark.
#[derive(Clone, Copy, Debug)]
pub struct BTree {
    heap: Heap,
    versions: Addr,
    stripes: Locks,
    keys: u64,
}

/// What a thread keeps: its place in the heap, and its handle on the tree.
pub struct Joined<'m, M: Memory> {
    session: Session<'m, M>,
    tree: seawall_collections::BTree,
}

fn options(setup: &Setup) -> HeapOptions {
    let chunks = setup.entries.div_ceil(256) + setup.threads as u64 + 8;
    HeapOptions {
        bytes: chunks * CHUNK_BYTES,
        bytes_max: chunks * CHUNK_BYTES,
        threads: setup.threads as u64,
        log_bytes: 8 << 10,
        root_bytes: ROOT_BYTES,
        ..HeapOptions::default()
    }
}

fn heap_flaw(flaw: Flaw) -> HeapFlaw {
    match flaw {
        Flaw::None => HeapFlaw::None,
        Flaw::NoOrder => HeapFlaw::NoFence,
        Flaw::NoFlush => HeapFlaw::NoLogFlush,
    }
}

/// Places what the benchmark needs behind the DRAM of the heap.
fn place(heap_dram: u64, threads: u64) -> (Arena, Addr, Locks) {
    let mut arena = Arena::new();
    arena.dram(heap_dram);
    let versions = arena.dram(seawall_collections::BTree::dram_bytes(VERSIONS));
    let stripes = Locks::place(&mut arena, STRIPES, threads, 1);
    (arena, versions, stripes)
}

impl From<HeapError> for Damage {
    fn from(error: HeapError) -> Damage {
        Damage(error.to_string())
    }
}

impl From<BTreeError> for Damage {
    fn from(error: BTreeError) -> Damage {
        Damage(error.to_string())
    }
}

impl BTree {
    fn at(heap: Heap, keys: u64) -> BTree {
        let (_, versions, stripes) = place(heap.dram_bytes(), heap.threads());
        BTree { heap, versions, stripes, keys }
    }

    fn open_tree<'m, M: Memory>(&self, memory: &'m M) -> Result<Joined<'m, M>, BTreeError> {
        let mut session = self.heap.join(memory);
        let root = self.heap.root();
        let tree =
            seawall_collections::BTree::open(&mut session, root, self.versions, VERSIONS)?;
        Ok(Joined { session, tree })
    }
}

impl Workload for BTree {
    const NAME: &'static str = "btree";
    const ABOUT: &'static str = "insert, delete and search in a concurrent B+tree on a heap";
    const ENTRIES: u64 = 4096;
    const SEARCH_PERCENT: u32 = 33;

    fn layout(setup: &Setup) -> Layout {
        let options = options(setup);
        let (arena, ..) = place(options.dram_bytes(), options.threads);
        Layout { pm_bytes: options.pm_bytes(), dram_bytes: arena.dram_bytes() }
    }

    fn create<M: Memory>(memory: &M, setup: &Setup) -> BTree {
        let heap = Heap::create(memory, BTree::NAME, setup.uuid(), &options(setup));
        let heap = heap.expect("options made from a setup that was checked");
        let this = BTree::at(heap, 2 * setup.entries);
        let mut session = heap.join(memory);
        let root = heap.root();
        let tree =
            seawall_collections::BTree::create(&mut session, root, this.versions, VERSIONS);
        let tree = tree.expect("room for an empty tree");
        for (number, key) in (0..).zip(initial_keys(setup)) {
            let inserted = tree.insert(&mut session, key, initial_tag(number));
            inserted.expect("room for the initial entries");
        }
        let noted = session.redo(|tx| tx.store(root.plus(KEYS), this.keys));
        noted.expect("a word of the root");
        session.retire();
        session.leave();
        BTree { heap: heap.with_flaw(heap_flaw(setup.flaw)), ..this }
    }

    fn open<M: Memory>(memory: &M, layout: Layout) -> Result<BTree, Damage> {
        let heap = Heap::read(memory, BTree::NAME, layout.pm_bytes)?;
        let (arena, ..) = place(heap.dram_bytes(), heap.threads());
        layout.hold_dram(&arena)?;
        let (heap, _) = Heap::open(memory, BTree::NAME, layout.pm_bytes)?;
        if heap.root_bytes() != ROOT_BYTES {
            return Err(Damage("the root of the heap is not that of a tree".to_owned()));
        }
        let keys = memory.load(heap.root().plus(KEYS));
        let this = BTree::at(heap, keys);
        this.open_tree(memory)?;
        Ok(this)
    }

    type Local<'m, M: Memory + 'm> = Joined<'m, M>;

    fn join<'m, M: Memory>(&self, memory: &'m M) -> Joined<'m, M> {
        self.open_tree(memory).expect("a tree that was made or opened")
    }

    fn step<M: Memory>(&self, memory: &M, local: &mut Joined<'_, M>, worker: &mut Worker) {
        let Joined { session, tree } = local;
        let (action, key) = (worker.action(), worker.below(self.keys));
        let sound = "a tree that was made or opened, with room for its keys";
        memory.work(20);
        if action == Action::Search {
            tree.get(session, key).expect(sound);
            return;
        }
        let guard = self.stripes.acquire(memory, key % STRIPES, 0);
        let there = tree.get(session, key).expect(sound).is_some();
        let effect = |tag| worker.history.effect(worker.thread, worker.number, key, tag);
        if action == Action::Insert && !there {
            let tag = tag(worker.thread, worker.number);
            effect(tag);
            tree.insert(session, key, tag).expect(sound);
        } else if action == Action::Delete && there {
            effect(0);
            tree.remove(session, key).expect(sound);
        }
        self.stripes.release(memory, guard);
    }

    fn contents<M: Memory>(&self, memory: &M) -> Result<Contents, Damage> {
        let mut contents = Contents::new();
        let joined = self.open_tree(memory)?;
        joined.tree.check(memory, &self.heap, |key, tag| {
            contents.insert(key, tag);
        })?;
        Ok(contents)
    }
}
