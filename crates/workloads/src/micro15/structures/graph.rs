//! A directed graph whose edges are entries, in lists by source (MICRO'15, Table 2, "SDG": the
//! scalable graph).
//!
//! An insert or delete of an edge changes the list and out-degree of its source and the in-degree
//! of its target: two lines of two vertices, hence a transaction. It locks both vertices, in order.

use super::entry::{self, ENTRY_BYTES, ENTRY_WORDS};
use crate::shared::epoch_log::{Logs, Tx};
use crate::shared::inconsistency::{Reached, within};
use crate::shared::{Change, Full, Inconsistency};
use crate::shared::{LockVersion, LockVersions, Slots};
use seawall_memory::{Addr, LINE_BYTES, Memory, MemoryExt};
use seawall_runtime::{Arena, Guard, Locks};
use std::collections::BTreeMap;

const HEAD: u64 = 0;
const OUT: u64 = 8;
const IN: u64 = 16;

const NEXT: u64 = 0;
const KEY: u64 = 8;
const TAG: u64 = 16;
const PAYLOAD: u64 = 3;

const LOG_WORDS: u64 = 8;

/// The parameters of a [`Graph`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GraphShape {
    /// Threads that may use it, 1 to 1024.
    pub threads: u64,
    /// Vertices, each with a lock; 1 to 2^24.
    pub vertices: u64,
    /// The capacity in edges, 1 to 2^32.
    pub capacity: u64,
}

impl GraphShape {
    /// Rejects parameters out of range.
    ///
    /// # Errors
    /// [`Inconsistency::Shape`], which names the parameter.
    pub fn check(self) -> Result<GraphShape, Inconsistency> {
        within("threads", self.threads, 1, 1024)?;
        within("vertices", self.vertices, 1, 1 << 24)?;
        within("capacity", self.capacity, 1, 1 << 32)?;
        Ok(self)
    }
}

/// An edge, from its source to its target.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Edge {
    /// The vertex it leaves.
    pub source: u64,
    /// The vertex it enters.
    pub target: u64,
}

impl Edge {
    /// The edge's key in notes and contents.
    pub const fn key(self) -> u64 {
        self.source << 32 | self.target
    }
}

/// A graph of tagged edges.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Graph {
    shape: GraphShape,
    vertices: Addr,
    locks: Locks,
    versions: LockVersions,
    logs: Logs,
    slots: Slots,
}

/// The locks of an edge's vertices.
struct Held {
    outer: Guard,
    inner: Option<Guard>,
    versions: [LockVersion; 2],
}

impl Held {
    fn versions(&self) -> &[LockVersion] {
        if self.inner.is_some() { &self.versions } else { &self.versions[..1] }
    }
}

impl Graph {
    /// Places the graph; in a zeroed pool it has no edges, after [`recover`](Graph::recover).
    pub fn place(shape: GraphShape, arena: &mut Arena) -> Graph {
        let slots = Slots::enough(shape.capacity, shape.threads);
        Graph {
            shape,
            vertices: arena.pm(shape.vertices * LINE_BYTES),
            locks: Locks::place(arena, shape.vertices, shape.threads, 2),
            versions: LockVersions::place(arena, shape.vertices),
            logs: Logs::place(arena, shape.threads, LOG_WORDS),
            slots: Slots::place(arena, slots, ENTRY_BYTES, shape.threads),
        }
    }

    /// Its parameters.
    pub const fn shape(&self) -> GraphShape {
        self.shape
    }

    fn vertex(&self, vertex: u64) -> Addr {
        self.vertices.plus(vertex * LINE_BYTES)
    }

    #[track_caller]
    fn hold<M: Memory>(&self, memory: &M, edge: Edge) -> Held {
        let first = edge.source.min(edge.target);
        let second = edge.source.max(edge.target);
        let outer = self.locks.acquire(memory, first, 0);
        let inner = (first != second).then(|| self.locks.acquire(memory, second, 1));
        let versions = [self.versions.read(memory, first), self.versions.read(memory, second)];
        Held { outer, inner, versions }
    }

    #[track_caller]
    fn release<M: Memory>(&self, memory: &M, held: Held) {
        if let Some(inner) = held.inner {
            self.locks.release(memory, inner);
        }
        self.locks.release(memory, held.outer);
    }

    fn find<M: Memory>(&self, memory: &M, edge: Edge) -> Option<(Addr, Addr)> {
        let mut link = self.vertex(edge.source).plus(HEAD);
        loop {
            let at = memory.load::<Addr>(link);
            if at.is_null() {
                return None;
            }
            if memory.load::<u64>(at.plus(KEY)) == edge.key() {
                return Some((link, at));
            }
            link = at.plus(NEXT);
        }
    }

    /// The tag of `edge`, which it reads; `None` if there is no such edge.
    ///
    /// # Panics
    /// If a vertex does not exist.
    #[track_caller]
    pub fn search<M: Memory>(&self, memory: &M, edge: Edge) -> Option<u64> {
        let guard = self.locks.acquire(memory, edge.source, 0);
        let _ = self.versions.read(memory, edge.source);
        let found = self.find(memory, edge).map(|(_, at)| {
            entry::read(memory, at);
            memory.load(at.plus(TAG))
        });
        self.locks.release(memory, guard);
        found
    }

    /// Inserts `edge`; returns false and changes nothing if it exists.
    ///
    /// # Errors
    /// [`Full`] if there is no room.
    ///
    /// # Panics
    /// If a vertex does not exist.
    #[track_caller]
    pub fn insert<M: Memory, F: FnMut(u64, u64)>(
        &self,
        memory: &M,
        edge: Edge,
        change: Change<F>,
    ) -> Result<bool, Full> {
        let held = self.hold(memory, edge);
        let outcome = match self.find(memory, edge) {
            Some(_) => Ok(false),
            None => self.add(memory, edge, change, &held).map(|()| true),
        };
        self.release(memory, held);
        outcome
    }

    #[track_caller]
    fn add<M: Memory, F: FnMut(u64, u64)>(
        &self,
        memory: &M,
        edge: Edge,
        mut change: Change<F>,
        held: &Held,
    ) -> Result<(), Full> {
        let at = self.slots.take(memory).ok_or(Full)?;
        let (source, target) = (self.vertex(edge.source), self.vertex(edge.target));
        (change.note)(edge.key(), change.tag);
        memory.store(at.plus(NEXT), memory.load::<Addr>(source.plus(HEAD)));
        memory.store(at.plus(KEY), edge.key());
        memory.store(at.plus(TAG), change.tag);
        entry::fill(memory, at, PAYLOAD, edge.key(), change.tag);
        let mut tx = Tx::begin(memory, &self.logs, change.flaw);
        tx.fresh(at, ENTRY_WORDS);
        tx.store(source.plus(HEAD), at.bits());
        tx.store(source.plus(OUT), tx.load(source.plus(OUT)) + 1);
        tx.store(target.plus(IN), tx.load(target.plus(IN)) + 1);
        tx.commit(held.versions());
        Ok(())
    }

    /// Deletes `edge`; returns false and changes nothing if it does not exist.
    ///
    /// # Panics
    /// If a vertex does not exist.
    #[track_caller]
    pub fn delete<M: Memory, F: FnMut(u64, u64)>(
        &self,
        memory: &M,
        edge: Edge,
        mut change: Change<F>,
    ) -> bool {
        let held = self.hold(memory, edge);
        let found = self.find(memory, edge);
        if let Some((link, at)) = found {
            let (source, target) = (self.vertex(edge.source), self.vertex(edge.target));
            (change.note)(edge.key(), 0);
            let mut tx = Tx::begin(memory, &self.logs, change.flaw);
            tx.store(link, tx.load(at.plus(NEXT)));
            tx.store(source.plus(OUT), tx.load(source.plus(OUT)) - 1);
            tx.store(target.plus(IN), tx.load(target.plus(IN)) - 1);
            tx.commit(held.versions());
        }
        self.release(memory, held);
        if let Some((_, at)) = found {
            self.slots.give(memory, at);
        }
        found.is_some()
    }

    /// Finishes what a crash interrupted and rebuilds the free lists, in a pool of `pm_bytes`.
    ///
    /// # Errors
    /// If the pool is damaged beyond what a crash can do.
    pub fn recover<M: Memory>(&self, memory: &M, pm_bytes: u64) -> Result<(), Inconsistency> {
        self.logs.recover(memory, pm_bytes)?;
        let mut reached = Reached::none(&self.slots);
        self.walk(memory, &mut reached, |_, _| Ok(()))?;
        self.slots.rebuild(memory, &reached.live);
        Ok(())
    }

    /// Checks every invariant and returns the tag of each edge by its key. No operation may be in
    /// flight.
    ///
    /// # Errors
    /// The invariant that does not hold.
    pub fn contents<M: Memory>(&self, memory: &M) -> Result<BTreeMap<u64, u64>, Inconsistency> {
        let mut contents = BTreeMap::new();
        self.walk(memory, &mut Reached::none(&self.slots), |at, edge| {
            let tag = memory.load(at.plus(TAG));
            entry::check(memory, at, PAYLOAD, edge.key(), tag)?;
            match contents.insert(edge.key(), tag) {
                None => Ok(()),
                Some(_) => Err(Inconsistency::Broken(format!("{edge:?} is there twice"))),
            }
        })?;
        Ok(contents)
    }

    fn walk<M: Memory>(
        &self,
        memory: &M,
        reached: &mut Reached<'_>,
        mut each: impl FnMut(Addr, Edge) -> Result<(), Inconsistency>,
    ) -> Result<(), Inconsistency> {
        let mut entering = vec![0; self.shape.vertices as usize];
        for source in 0..self.shape.vertices {
            let mut leaving = 0;
            let mut next = memory.load::<u64>(self.vertex(source).plus(HEAD));
            while next != 0 {
                let at = reached.reach(next, || format!("the list of vertex {source}"))?;
                let key = memory.load::<u64>(at.plus(KEY));
                let edge = Edge { source, target: key & u64::from(u32::MAX) };
                match entering.get_mut(edge.target as usize) {
                    Some(entering) if edge.key() == key => *entering += 1,
                    _ => {
                        return Err(Inconsistency::Broken(format!(
                            "the list of vertex {source} holds an edge of key {key:#x}"
                        )));
                    }
                }
                each(at, edge)?;
                leaving += 1;
                next = memory.load(at.plus(NEXT));
            }
            self.degree(memory, source, OUT, "out", leaving)?;
        }
        for (vertex, entering) in entering.into_iter().enumerate() {
            self.degree(memory, vertex as u64, IN, "in", entering)?;
        }
        Ok(())
    }

    fn degree<M: Memory>(
        &self,
        memory: &M,
        vertex: u64,
        field: u64,
        name: &str,
        found: u64,
    ) -> Result<(), Inconsistency> {
        let stored = memory.load(self.vertex(vertex).plus(field));
        if stored == found {
            return Ok(());
        }
        Err(Inconsistency::Count {
            what: format!("the {name}-degree of vertex {vertex}"),
            stored,
            found,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use seawall_memory::Image;

    fn place() -> (Image, Graph, u64) {
        let mut arena = Arena::new();
        let shape = GraphShape { threads: 1, vertices: 5, capacity: 25 };
        let graph = Graph::place(shape.check().expect("a good shape"), &mut arena);
        let image = Image::new(arena.pm_bytes(), arena.dram_bytes());
        graph.recover(&image, arena.pm_bytes()).expect("an empty pool");
        (image, graph, arena.pm_bytes())
    }

    proptest! {
        #[test]
        fn it_does_what_a_set_of_edges_does(
            steps in proptest::collection::vec((0u8..3, 0u64..5, 0u64..5), 0..120),
        ) {
            let (image, graph, bytes) = place();
            let mut model = BTreeMap::new();
            for (number, (action, source, target)) in steps.into_iter().enumerate() {
                let (edge, tag) = (Edge { source, target }, number as u64 + 1);
                let old = model.get(&edge.key()).copied();
                match action {
                    0 => prop_assert_eq!(graph.search(&image, edge), old),
                    1 => {
                        let inserted = graph.insert(&image, edge, Change::of(tag));
                        prop_assert_eq!(inserted, Ok(old.is_none()));
                        model.entry(edge.key()).or_insert(tag);
                    }
                    _ => {
                        prop_assert_eq!(graph.delete(&image, edge, Change::of(tag)), old.is_some());
                        model.remove(&edge.key());
                    }
                }
            }
            prop_assert_eq!(graph.contents(&image), Ok(model.clone()));
            prop_assert_eq!(graph.recover(&image, bytes), Ok(()));
            prop_assert_eq!(graph.contents(&image), Ok(model));
        }

        #[test]
        fn wild_bytes_are_damage_and_never_a_panic_or_a_loop(
            wild in proptest::collection::vec((any::<u16>(), any::<u64>()), 1..40), small: bool,
        ) {
            let (image, graph, bytes) = place();
            for target in 0..5 {
                let edge = Edge { source: target % 2, target };
                prop_assert_eq!(graph.insert(&image, edge, Change::of(target + 1)), Ok(true));
            }
            for (word, value) in wild {
                let value = if small { value % bytes / 64 * 64 } else { value };
                image.store(Addr::pm(u64::from(word) * 8 % (bytes - 8)), value);
            }
            let _ = graph.contents(&image);
            let _ = graph.recover(&image, bytes);
        }
    }

    #[test]
    fn a_wrong_degree_is_named() {
        let (image, graph, _) = place();
        graph.insert(&image, Edge { source: 1, target: 3 }, Change::of(1)).expect("room");
        image.store(graph.vertex(3).plus(IN), 0u64);
        let message = graph.contents(&image).unwrap_err().to_string();
        assert_eq!(message, "the in-degree of vertex 3 says 0, there are 1");
    }
}
