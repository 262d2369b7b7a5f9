//! Insert, delete and search edges in a graph (MICRO'15, Table 2, "SDG", the scalable graph):
//! edges uniform in twice the initial number, about four a vertex at the start.

use super::structures::{Edge, Graph, GraphShape};
use crate::harness::history::{Contents, initial_tag};
use crate::harness::workload::{Action, initial_keys};
use crate::shared::Change;
use crate::{Damage, Layout, Setup, Worker, Workload};
use seawall_memory::Memory;
use seawall_runtime::{Arena, pool};

/// The graph benchmark.
#[derive(Clone, Copy, Debug)]
pub struct Sdg {
    graph: Graph,
    edges: u64,
}

fn shape(setup: &Setup) -> GraphShape {
    GraphShape {
        threads: setup.threads as u64,
        vertices: (setup.entries / 4).clamp(16, 1 << 24),
        capacity: 2 * setup.entries,
    }
}

/// Edge `number`: different for different numbers, and never from a vertex to itself, as long as
/// a vertex has fewer edges than there are vertices.
fn edge(vertices: u64, number: u64) -> Edge {
    let source = number % vertices;
    Edge { source, target: (source + 1 + number / vertices) % vertices }
}

impl Workload for Sdg {
    const NAME: &'static str = "sdg";
    const ABOUT: &'static str = "insert, delete and search edges in a scalable graph";
    const ENTRIES: u64 = 4096;
    const SEARCH_PERCENT: u32 = 33;

    fn layout(setup: &Setup) -> Layout {
        let mut arena = Arena::new();
        Graph::place(shape(setup), &mut arena);
        Layout::of(&arena)
    }

    fn create<M: Memory>(memory: &M, setup: &Setup) -> Sdg {
        let mut arena = Arena::new();
        let shape = shape(setup);
        let graph = Graph::place(shape, &mut arena);
        graph.recover(memory, arena.pm_bytes()).expect("a zeroed pool is an empty graph");
        for (number, key) in initial_keys(setup).into_iter().enumerate() {
            let change = Change::of(initial_tag(number as u64));
            let edge = edge(shape.vertices, key);
            graph.insert(memory, edge, change).expect("room for the initial edges");
        }
        graph.recover(memory, arena.pm_bytes()).expect("a graph just filled");
        let edges = 2 * setup.entries;
        let roots = [shape.threads, shape.vertices, shape.capacity, edges];
        pool::create(memory, Sdg::NAME, setup.uuid(), arena.pm_bytes(), &roots);
        Sdg { graph, edges }
    }

    fn open<M: Memory>(memory: &M, layout: Layout) -> Result<Sdg, Damage> {
        let [threads, vertices, capacity, edges, ..] =
            pool::open(memory, Sdg::NAME, layout.pm_bytes)?;
        let mut arena = Arena::new();
        let shape = GraphShape { threads, vertices, capacity }.check()?;
        let graph = Graph::place(shape, &mut arena);
        layout.hold(&arena)?;
        graph.recover(memory, arena.pm_bytes())?;
        Ok(Sdg { graph, edges })
    }

    type Local<'m, M: Memory + 'm> = ();

    fn join<M: Memory>(&self, _: &M) {}

    fn step<M: Memory>(&self, memory: &M, (): &mut (), worker: &mut Worker) {
        let action = worker.action();
        let edge = edge(self.graph.shape().vertices, worker.below(self.edges));
        memory.work(20);
        match action {
            Action::Search => {
                self.graph.search(memory, edge);
            }
            Action::Insert => {
                let _ = self.graph.insert(memory, edge, worker.change());
            }
            Action::Delete => {
                self.graph.delete(memory, edge, worker.change());
            }
        }
    }

    fn contents<M: Memory>(&self, memory: &M) -> Result<Contents, Damage> {
        Ok(self.graph.contents(memory)?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn the_edges_are_all_different_and_none_is_a_loop() {
        for entries in [1, 4, 16, 100, 4096] {
            let setup = Setup { entries, ..Setup::of::<Sdg>(1) };
            let vertices = shape(&setup).vertices;
            let edges: BTreeSet<Edge> = (0..2 * entries).map(|key| edge(vertices, key)).collect();
            assert_eq!(edges.len() as u64, 2 * entries);
            assert!(edges.iter().all(|edge| edge.source != edge.target));
        }
    }
}
