//! Construction of a graph from a list of edges, with the sharing of STAMP's "ssca2" (Cao Minh et
//! al., IISWC'08): tiny critical sections on vertices spread over arrays much larger than a cache,
//! in which almost every line is written by every thread.
//!
//! Kernel 1 of the SSCA2 benchmark: degrees by locked adds, offsets by sums over the threads, then
//! each edge into the lists of both its ends under the lock of the vertex, the words of the locks
//! packed. Kernel 2: the edges of the largest weight, collected in one list. Edges are R-MAT's.
//!
//! In the pool: all data except locals. The order within a list depends on the schedule; the check
//! sorts both lists, and compares all other data directly.

use super::sync::{Team, lock, unlock};
use crate::harness::workload::below;
use crate::{Counts, Damage, Input, Kernel, Mix, Words};
use rand_xoshiro::rand_core::Rng;
use seawall_memory::Memory;
use seawall_runtime::Arena;
use std::ops::RangeInclusive;

/// Edges for each vertex.
const DEGREE: u64 = 8;
const WEIGHTS: u64 = 1 << 8;
const LOW: u64 = u32::MAX as u64;

/// The construction.
#[derive(Clone, Copy, Debug)]
pub struct Ssca2 {
    team: Team,
    vertices: u64,
    edges: u64,
    froms: Words,
    tos: Words,
    weights: Words,
    locks: Words,
    sums: Words,
    largest: Words,
    sides: [Side; 2],
    heavy: Words,
}

/// The lists of one direction: of edges from a vertex, or of edges to it.
#[derive(Clone, Copy, Debug)]
struct Side {
    degrees: Words,
    starts: Words,
    filled: Words,
    lists: Words,
}

#[derive(Clone, Copy)]
struct Edge {
    from: u64,
    to: u64,
    weight: u64,
}

impl Edge {
    /// The vertex in whose list of `side` the edge is, and its entry in the list.
    fn entry(self, side: usize) -> (u64, u64) {
        let (at, other) = [(self.from, self.to), (self.to, self.from)][side];
        (at, other | self.weight << 32)
    }
}

impl Ssca2 {
    /// The edges: each bit of both ends selects a quadrant of the matrix, one of them in 55 of 100
    /// cases.
    fn plain(&self) -> Vec<Edge> {
        let mut rng = self.team.input.stream(0);
        let scatter = |vertex: u64| vertex.wrapping_mul(0x9e37_79b1) % self.vertices;
        let edges = (0..self.edges).map(|_| {
            let (mut from, mut to, mut bit) = (0, 0, 1);
            while bit < self.vertices {
                let (down, right) = match below(&mut rng, 100) {
                    0..55 => (0, 0),
                    55..65 => (0, 1),
                    65..75 => (1, 0),
                    _ => (1, 1),
                };
                (from, to, bit) = (from + down * bit, to + right * bit, bit * 2);
            }
            let weight = 1 + rng.next_u64() % WEIGHTS;
            Edge { from: scatter(from), to: scatter(to), weight }
        });
        edges.collect()
    }

    fn edge<M: Memory>(&self, memory: &M, index: u64) -> Edge {
        let [from, to, weight] =
            [self.froms, self.tos, self.weights].map(|words| words.get(memory, index));
        memory.work(4);
        Edge { from, to, weight }
    }

    /// Turns the degrees of this thread's vertices into the starts of their lists.
    fn add_up<M: Memory>(&self, memory: &M, side: &Side) {
        let own = memory.thread() as u64;
        let mut sum = 0;
        for vertex in self.team.share(memory, self.vertices) {
            sum += side.degrees.get(memory, vertex);
            memory.work(2);
        }
        self.sums.put(memory, own, sum);
        self.team.meet(memory);
        let mut start = 0;
        for thread in 0..own {
            start += self.sums.get(memory, thread);
        }
        for vertex in self.team.share(memory, self.vertices) {
            side.starts.put(memory, vertex, start);
            start += side.degrees.get(memory, vertex);
            memory.work(3);
        }
        self.team.meet(memory);
    }

    fn insert<M: Memory>(&self, memory: &M, side: &Side, (vertex, entry): (u64, u64)) {
        lock(memory, self.locks.at(vertex));
        let filled = side.filled.get(memory, vertex);
        side.filled.put(memory, vertex, filled + 1);
        let place = side.starts.get(memory, vertex) + filled;
        memory.work(4);
        side.lists.put(memory, place, entry);
        unlock(memory, self.locks.at(vertex));
    }

    /// Kernel 2: word 0 of `largest` becomes the largest weight, word 8 the number of its edges.
    fn collect_heavy<M: Memory>(&self, memory: &M) {
        let mut largest = 0;
        for index in self.team.share(memory, self.edges) {
            largest = largest.max(self.weights.get(memory, index));
            memory.work(3);
        }
        self.team.alone(memory, 0, || {
            if largest > self.largest.get(memory, 0) {
                self.largest.put(memory, 0, largest);
            }
        });
        self.team.meet(memory);
        let largest = self.largest.get(memory, 0);
        for index in self.team.share(memory, self.edges) {
            memory.work(3);
            if self.weights.get(memory, index) == largest {
                let place = self.largest.claim(memory, 8, 1);
                self.heavy.put(memory, place, index);
            }
        }
    }

    fn check_side<M: Memory>(&self, memory: &M, side: usize, edges: &[Edge]) -> Result<(), Damage> {
        let what = ["leaving", "coming"][side];
        let mut lists = vec![Vec::new(); self.vertices as usize];
        for (vertex, entry) in edges.iter().map(|edge| edge.entry(side)) {
            lists[vertex as usize].push(entry);
        }
        let Side { degrees, starts, filled, lists: found } = self.sides[side];
        let lengths = || lists.iter().map(|list| list.len() as u64);
        degrees.compare(memory, &format!("degree ({what}) of vertex"), lengths())?;
        filled.compare(memory, &format!("edges placed ({what}) of vertex"), lengths())?;
        let mut start = 0;
        for (vertex, list) in (0..).zip(&mut lists) {
            let is = starts.get(memory, vertex);
            if is != start {
                let text = format!("list ({what}) of vertex {vertex} starts at {is}, not {start}");
                return Err(Damage(text));
            }
            let range = start..start + list.len() as u64;
            let mut found: Vec<u64> = range.map(|place| found.get(memory, place)).collect();
            start += list.len() as u64;
            found.sort_unstable();
            list.sort_unstable();
            if found != *list {
                let text = format!("list ({what}) of vertex {vertex} is {found:?}, not {list:?}");
                return Err(Damage(text));
            }
        }
        Ok(())
    }

    fn check_heavy<M: Memory>(&self, memory: &M, edges: &[Edge]) -> Result<(), Damage> {
        let largest = edges.iter().map(|edge| edge.weight).max().unwrap_or(0);
        let is_heavy = |(_, edge): &(u64, &Edge)| edge.weight == largest;
        let expected: Vec<u64> =
            (0..).zip(edges).filter(is_heavy).map(|(index, _)| index).collect();
        let count = expected.len() as u64;
        let words = [largest, 0, 0, 0, 0, 0, 0, 0, count];
        self.largest.compare(memory, "word of the largest weight", words)?;
        let mut found: Vec<u64> =
            (0..self.edges).map(|place| self.heavy.get(memory, place)).collect();
        found[..expected.len()].sort_unstable();
        let (heavy, beyond) = found.split_at(expected.len());
        if heavy != expected || beyond.iter().any(|word| *word != 0) {
            return Err(Damage(format!("the edges of weight {largest} are not those collected")));
        }
        Ok(())
    }
}

impl Kernel for Ssca2 {
    const NAME: &'static str = "ssca2";
    const ABOUT: &'static str = "graph construction: tiny critical sections on random vertices";
    const UNIT: &'static str = "edges";
    const SIZE: u64 = 1 << 20;
    const QUICK: u64 = 1 << 15;
    const SMALL: u64 = 600;
    const SIZES: RangeInclusive<u64> = 1..=1 << 28;
    const MIX: Mix = Mix {
        program: "kernel 1 of STAMP's ssca2, -s13 -i1.0 -u1.0 -l3 -p3",
        run: Counts {
            instructions: 8_264_120,
            heap_stores: 474_252,
            stack_loads: 240_485,
            stack_stores: 8909,
            per_1000: 1000,
        },
        start: None,
        heap_lines: 1846,
        stack_lines: 1,
        parallelism: 1140,
    };

    fn place(input: &Input, arena: &mut Arena) -> Ssca2 {
        let team = Team::place(input, arena, 1);
        let edges = input.size;
        let vertices = (edges / DEGREE).next_power_of_two().clamp(2, LOW / 2 + 1);
        let [froms, tos, weights] = [(); 3].map(|()| Words::place(arena, edges));
        let locks = Words::place(arena, vertices);
        let sums = Words::place(arena, team.threads());
        let largest = Words::place(arena, 9);
        let sides = [(); 2].map(|()| {
            let [degrees, starts, filled] = [(); 3].map(|()| Words::place(arena, vertices));
            Side { degrees, starts, filled, lists: Words::place(arena, edges) }
        });
        let heavy = Words::place(arena, edges);
        Ssca2 { team, vertices, edges, froms, tos, weights, locks, sums, largest, sides, heavy }
    }

    fn fill<M: Memory>(&self, memory: &M) {
        for (index, edge) in (0..).zip(self.plain()) {
            self.froms.put(memory, index, edge.from);
            self.tos.put(memory, index, edge.to);
            self.weights.put(memory, index, edge.weight);
        }
    }

    fn run<M: Memory>(&self, memory: &M) {
        for index in self.team.share(memory, self.edges) {
            let edge = self.edge(memory, index);
            for (number, side) in self.sides.iter().enumerate() {
                side.degrees.claim(memory, edge.entry(number).0, 1);
            }
        }
        self.team.meet(memory);
        for side in &self.sides {
            self.add_up(memory, side);
        }
        for index in self.team.share(memory, self.edges) {
            let edge = self.edge(memory, index);
            for (number, side) in self.sides.iter().enumerate() {
                self.insert(memory, side, edge.entry(number));
            }
        }
        self.team.meet(memory);
        self.collect_heavy(memory);
    }

    fn check<M: Memory>(&self, memory: &M) -> Result<(), Damage> {
        let edges = self.plain();
        self.check_side(memory, 0, &edges)?;
        self.check_side(memory, 1, &edges)?;
        self.check_heavy(memory, &edges)
    }

    fn results(&self) -> Vec<Words> {
        let lists = self.sides.iter().flat_map(|s| [s.degrees, s.starts, s.filled, s.lists]);
        lists.chain([self.largest, self.heavy]).collect()
    }
}
