//! Placement of a netlist by annealing, with the sharing of PARSEC's "canneal" (Bienia et al.,
//! PACT'08): all threads swap random pairs of elements of one netlist much larger than a private
//! cache. The gain of a swap is computed from places that other threads can change meanwhile; the
//! swap itself is atomic, with each place locked by a bit of its word, lower element first.
//!
//! In the pool: places, nets, and the final length. The state of a thread's random generator is a
//! local. A worse place is accepted below a random bound that falls from step to step (threshold
//! accepting), which needs no exponential function.
//!
//! The sequence of swaps depends on the schedule. The check requires that each place is taken once,
//! that no net changed, that the length summed by the threads is that of the placement, and that it
//! is shorter than at the start.

use super::sync::Team;
use crate::harness::workload::below;
use crate::{Counts, Damage, Input, Kernel, Mix, Words};
use rand_xoshiro::Xoshiro256PlusPlus;
use seawall_memory::Memory;
use seawall_runtime::Arena;
use std::ops::RangeInclusive;

/// Nets from an element; the same number lead to it.
const NETS: u64 = 3;
/// The number of falling bounds on the loss of a swap.
const STEPS: u64 = 8;
/// Swaps tried per element and step.
const TRIES: u64 = 1;
/// The bit of a place that is being changed.
const HELD: u64 = 1 << 63;
/// From this number of elements on, annealing without improvement is a fault and not bad luck.
const SURE: u64 = 64;

/// The placement.
#[derive(Clone, Copy, Debug)]
pub struct Canneal {
    team: Team,
    elements: u64,
    side: u64,
    places: Words,
    nets: Words,
    length: Words,
}

impl Canneal {
    /// The other ends of the nets of every element: first of those that leave it.
    fn plain_nets(&self) -> Vec<u64> {
        let mut rng = self.team.input.stream(0);
        let mut nets = vec![0; (self.elements * 2 * NETS) as usize];
        for net in 0..NETS {
            let mut to: Vec<u64> = (0..self.elements).collect();
            for place in (1..to.len()).rev() {
                to.swap(place, below(&mut rng, place as u64 + 1) as usize);
            }
            for (from, to) in (0..).zip(to) {
                nets[(from * 2 * NETS + net) as usize] = to;
                nets[(to * 2 * NETS + NETS + net) as usize] = from;
            }
        }
        nets
    }

    fn distance(&self, left: u64, right: u64) -> u64 {
        (left % self.side).abs_diff(right % self.side)
            + (left / self.side).abs_diff(right / self.side)
    }

    fn place_of<M: Memory>(&self, memory: &M, element: u64) -> u64 {
        loop {
            let place = self.places.get(memory, element);
            if place & HELD == 0 {
                return place;
            }
            memory.spin_while(self.places.at(element), place);
        }
    }

    fn hold<M: Memory>(&self, memory: &M, element: u64) -> u64 {
        loop {
            let place = self.place_of(memory, element);
            let at = self.places.at(element);
            if memory.compare_exchange(at, place, place | HELD).is_ok() {
                return place;
            }
        }
    }

    fn swap<M: Memory>(&self, memory: &M, left: u64, right: u64) {
        let (first, second) = (left.min(right), left.max(right));
        let (first_place, second_place) = (self.hold(memory, first), self.hold(memory, second));
        self.places.put(memory, first, second_place);
        self.places.put(memory, second, first_place);
    }

    /// The growth of the nets of `element` by a move from `from` to `to`.
    fn change<M: Memory>(&self, memory: &M, element: u64, from: u64, to: u64) -> i64 {
        let nets = element * 2 * NETS..(element + 1) * 2 * NETS;
        nets.map(|net| {
            let other = self.place_of(memory, self.nets.get(memory, net));
            memory.work(12);
            self.distance(to, other) as i64 - self.distance(from, other) as i64
        })
        .sum()
    }

    fn try_swap<M: Memory>(&self, memory: &M, rng: &mut Xoshiro256PlusPlus, bound: u64) {
        let left = below(rng, self.elements);
        let right = (left + 1 + below(rng, self.elements - 1)) % self.elements;
        memory.work(20);
        let (from, to) = (self.place_of(memory, left), self.place_of(memory, right));
        let change = self.change(memory, left, from, to) + self.change(memory, right, to, from);
        if change < below(rng, bound + 1) as i64 {
            self.swap(memory, left, right);
        }
    }

    /// The length of the nets from `elements`, with the places of `place_of`.
    fn length_of(
        &self,
        elements: impl Iterator<Item = u64>,
        mut to: impl FnMut(u64) -> u64,
        mut place_of: impl FnMut(u64) -> u64,
    ) -> u64 {
        let mut length = 0;
        for element in elements {
            let place = place_of(element);
            for net in element * 2 * NETS..element * 2 * NETS + NETS {
                length += self.distance(place, place_of(to(net)));
            }
        }
        length
    }
}

impl Kernel for Canneal {
    const NAME: &'static str = "canneal";
    const ABOUT: &'static str = "random swaps of places of a netlist, each atomic by itself";
    const UNIT: &'static str = "elements";
    const SIZE: u64 = 1 << 16;
    const QUICK: u64 = 1 << 13;
    const SMALL: u64 = 200;
    const SIZES: RangeInclusive<u64> = 2..=1 << 28;
    const MIX: Mix = Mix {
        program: "PARSEC's canneal, 10000 elements",
        run: Counts {
            instructions: 191_734_411,
            heap_stores: 2_365_597,
            stack_loads: 11_386_834,
            stack_stores: 8_596_313,
            per_1000: 8300,
        },
        start: Some(Counts {
            instructions: 75_445_587,
            heap_stores: 967_201,
            stack_loads: 9_962_753,
            stack_stores: 7_085_401,
            per_1000: 24_200,
        }),
        heap_lines: 190,
        stack_lines: 3,
        parallelism: 1850,
    };

    fn place(input: &Input, arena: &mut Arena) -> Canneal {
        let team = Team::place(input, arena, 1);
        let elements = input.size;
        let side = (1..).find(|side| side * side >= elements).unwrap_or(1);
        let places = Words::place(arena, elements);
        let nets = Words::place(arena, elements * 2 * NETS);
        let length = Words::place(arena, 1);
        Canneal { team, elements, side, places, nets, length }
    }

    fn fill<M: Memory>(&self, memory: &M) {
        for element in 0..self.elements {
            self.places.put(memory, element, element);
        }
        for (index, other) in (0..).zip(self.plain_nets()) {
            self.nets.put(memory, index, other);
        }
    }

    fn run<M: Memory>(&self, memory: &M) {
        let mut rng = self.team.input.stream(1 + memory.thread() as u64);
        for step in 1..=STEPS {
            let bound = self.side * (STEPS - step) / STEPS;
            for _ in self.team.share(memory, self.elements * TRIES) {
                self.try_swap(memory, &mut rng, bound);
            }
            self.team.meet(memory);
        }
        let length = self.length_of(
            self.team.share(memory, self.elements),
            |net| self.nets.get(memory, net),
            |element| {
                memory.work(8);
                self.places.get(memory, element)
            },
        );
        self.length.claim(memory, 0, length);
    }

    fn check<M: Memory>(&self, memory: &M) -> Result<(), Damage> {
        let nets = self.plain_nets();
        let nets_at = |net: u64| nets[net as usize];
        self.nets.compare(memory, "net", nets.iter().copied())?;
        let mut taken = vec![false; self.elements as usize];
        let mut places = Vec::new();
        for element in 0..self.elements {
            let place = self.places.get(memory, element);
            if place >= self.elements || std::mem::replace(&mut taken[place as usize], true) {
                let text = format!("element {element} has place {place:#x}, of no or two elements");
                return Err(Damage(text));
            }
            places.push(place);
        }
        let all = || 0..self.elements;
        let expected = self.length_of(all(), nets_at, |element| places[element as usize]);
        self.length.compare(memory, "length", [expected])?;
        let before = self.length_of(all(), nets_at, |element| element);
        if self.elements >= SURE && expected >= before {
            return Err(Damage(format!("{expected} is no better than {before} at the start")));
        }
        Ok(())
    }

    fn results(&self) -> Vec<Words> {
        vec![self.places, self.nets, self.length]
    }
}
