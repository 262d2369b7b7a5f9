//! Bodies that attract each other, with the sharing of SPLASH-2's "barnes" (Woo et al., ISCA'95):
//! all threads insert their bodies into one octree, locking only the cell that they change; centres
//! of mass are computed bottom-up, a cell waiting for those below it; then each thread walks the
//! tree for each of its bodies, reading the data of all threads, and moves them.
//!
//! A leaf is one body, so the shape of the tree does not depend on the schedule, and sums are made
//! octant by octant: the check compares bits with a plain tree. Bodies are numbered along a space
//! filling curve, which replaces the zones of equal cost of the original.
//!
//! In the pool: bodies, cells, and the size of the box. The stack of a walk is a local.

use super::sync::{Team, lock, unlock};
use crate::{Counts, Damage, Input, Kernel, Mix, Words};
use seawall_memory::{Addr, Memory, MemoryExt};
use seawall_runtime::Arena;
use std::ops::RangeInclusive;

mod physics;

use physics::{Body, Mass, Vector, child_middle, is_far, octant_of};

const STEPS: u64 = 2;

/// Words of a body, and offsets: its place and mass first, then its velocity.
const BODY: u64 = 8;
const VELOCITY: u64 = 4;

/// Words of a cell, and offsets: centre of mass and mass first, then eight children.
const CELL: u64 = 16;
const CHILDREN: u64 = 4;
const LOCK: u64 = 12;
const DONE: u64 = 13;
/// The cell that the same thread created before.
const BEFORE: u64 = 14;

/// Cells that a thread allocates at once.
const CHUNK: u64 = 8;
/// Halvings of the box after which two bodies count as being at one place.
const DEPTH_MAX: u32 = 64;

/// The system of bodies.
#[derive(Clone, Copy, Debug)]
pub struct Barnes {
    team: Team,
    count: u64,
    bodies: Words,
    /// The largest coordinate, by step.
    sizes: Words,
    /// The number of allocated cells, by step.
    taken: Words,
    cells: Words,
}

/// A child of a cell; 0 is no child.
#[derive(Clone, Copy, PartialEq)]
enum Child {
    None,
    Body(u64),
    Cell(u64),
}

impl Child {
    fn from_word(word: u64) -> Child {
        match (word, word % 2) {
            (0, _) => Child::None,
            (_, 1) => Child::Body(word / 2),
            _ => Child::Cell(word / 2 - 1),
        }
    }

    fn word(self) -> u64 {
        match self {
            Child::None => 0,
            Child::Body(body) => 2 * body + 1,
            Child::Cell(cell) => 2 * cell + 2,
        }
    }
}

/// The cells that a thread has allocated and created.
struct Own {
    next: u64,
    end: u64,
    last: Option<u64>,
}

impl Barnes {
    fn mass<M: Memory>(&self, memory: &M, of: Words, index: u64) -> Mass {
        let word = |offset| of.real(memory, index + offset);
        Mass { at: [word(0), word(1), word(2)], mass: word(3) }
    }

    fn body<M: Memory>(&self, memory: &M, body: u64) -> Mass {
        self.mass(memory, self.bodies, body * BODY)
    }

    fn child_at(&self, cell: u64, octant: usize) -> Addr {
        self.cells.at(cell * CELL + CHILDREN + octant as u64)
    }

    fn new_cell<M: Memory>(&self, memory: &M, step: u64, own: &mut Own) -> u64 {
        if own.next == own.end {
            own.next = self.taken.claim(memory, step, CHUNK);
            own.end = own.next + CHUNK;
        }
        let cell = own.next;
        own.next += 1;
        for word in 0..CELL {
            self.cells.put(memory, cell * CELL + word, 0);
        }
        if let Some(last) = own.last.replace(cell) {
            self.cells.put(memory, cell * CELL + BEFORE, last + 1);
        }
        cell
    }

    fn insert<M: Memory>(&self, memory: &M, step: u64, body: u64, half: f64, own: &mut Own) {
        let at = self.body(memory, body).at;
        let (mut cell, mut middle, mut half) = (0, [0.0; 3], half);
        let mut depth = 0;
        while depth < DEPTH_MAX {
            memory.work(12);
            let octant = octant_of(at, middle);
            let place = self.child_at(cell, octant);
            let seen = memory.load::<u64>(place);
            if let Child::Cell(below) = Child::from_word(seen) {
                middle = child_middle(middle, half, octant);
                (cell, half, depth) = (below, half / 2.0, depth + 1);
                continue;
            }
            lock(memory, self.cells.at(cell * CELL + LOCK));
            let now = memory.load::<u64>(place);
            if now == seen {
                let mut child = Child::Body(body);
                if let Child::Body(other) = Child::from_word(seen) {
                    let below = self.new_cell(memory, step, own);
                    let its = self.body(memory, other).at;
                    let its_octant = octant_of(its, child_middle(middle, half, octant));
                    memory.store(self.child_at(below, its_octant), seen);
                    child = Child::Cell(below);
                }
                memory.store(place, child.word());
            }
            unlock(memory, self.cells.at(cell * CELL + LOCK));
            if now == 0 && seen == 0 {
                return;
            }
        }
        panic!("body {body} is where another is");
    }

    /// Computes the centres of mass of the cells that this thread created, the last first: a cell
    /// waits only for cells that were created after it.
    fn weigh<M: Memory>(&self, memory: &M, own: &Own) {
        let mut next = own.last;
        while let Some(cell) = next {
            let mut sum = Mass::default();
            for octant in 0..8 {
                match Child::from_word(memory.load(self.child_at(cell, octant))) {
                    Child::None => {}
                    Child::Body(body) => sum = sum.plus(self.body(memory, body)),
                    Child::Cell(below) => {
                        memory.spin_while(self.cells.at(below * CELL + DONE), 0);
                        sum = sum.plus(self.mass(memory, self.cells, below * CELL));
                    }
                }
                memory.work(8);
            }
            let centre = sum.centre();
            let [x, y, z] = centre.at;
            for (offset, value) in (0..).zip([x, y, z, centre.mass]) {
                self.cells.put_real(memory, cell * CELL + offset, value);
            }
            self.cells.put(memory, cell * CELL + DONE, 1);
            next = self.cells.get(memory, cell * CELL + BEFORE).checked_sub(1);
        }
    }

    fn force_on<M: Memory>(&self, memory: &M, body: u64, half: f64) -> Vector {
        let at = self.body(memory, body).at;
        let mut force = [0.0; 3];
        let mut stack = vec![(0, half)];
        while let Some((cell, half)) = stack.pop() {
            let whole = self.mass(memory, self.cells, cell * CELL);
            memory.work(12);
            if is_far(at, whole.at, half) {
                force = whole.pull(at, force);
                memory.work(20);
                continue;
            }
            let mut below = Vec::new();
            for octant in 0..8 {
                match Child::from_word(memory.load(self.child_at(cell, octant))) {
                    Child::Body(other) if other != body => {
                        force = self.body(memory, other).pull(at, force);
                        memory.work(20);
                    }
                    Child::Cell(cell) => below.push((cell, half / 2.0)),
                    _ => {}
                }
                memory.work(3);
            }
            stack.extend(below.into_iter().rev());
        }
        force
    }

    /// Half the side of the box: the largest coordinate of all bodies, found by all threads.
    fn measure<M: Memory>(&self, memory: &M, step: u64) -> f64 {
        let mut largest = 0.0f64;
        for body in self.team.share(memory, self.count) {
            largest = physics::reach(self.body(memory, body).at, largest);
            memory.work(6);
        }
        self.team.alone(memory, 0, || {
            if largest > self.sizes.real(memory, step) {
                self.sizes.put_real(memory, step, largest);
            }
        });
        self.team.meet(memory);
        self.sizes.real(memory, step)
    }

    /// Moves a body; its force is known.
    fn advance<M: Memory>(&self, memory: &M, body: u64, force: Vector) {
        let mass = self.body(memory, body);
        let word = |offset| self.bodies.real(memory, body * BODY + VELOCITY + offset);
        let mut moved = Body { mass, velocity: [word(0), word(1), word(2)] };
        moved.advance(force);
        memory.work(12);
        for axis in 0..3 {
            let index = body * BODY + axis as u64;
            self.bodies.put_real(memory, index, moved.mass.at[axis]);
            self.bodies.put_real(memory, index + VELOCITY, moved.velocity[axis]);
        }
    }
}

impl Kernel for Barnes {
    const NAME: &'static str = "barnes";
    const ABOUT: &'static str = "bodies in an octree that all threads build and all read";
    const UNIT: &'static str = "bodies";
    const SIZE: u64 = 1 << 13;
    const QUICK: u64 = 1 << 9;
    const SMALL: u64 = 90;
    const SIZES: RangeInclusive<u64> = 2..=1 << 24;
    const MIX: Mix = Mix {
        program: "barnes of Splash-3, 2048 bodies",
        run: Counts {
            instructions: 98_614_468,
            heap_stores: 8_675_972,
            stack_loads: 10_258_151,
            stack_stores: 10_186_345,
            per_1000: 99_000,
        },
        start: None,
        heap_lines: 35,
        stack_lines: 9,
        parallelism: 3460,
    };

    fn place(input: &Input, arena: &mut Arena) -> Barnes {
        let team = Team::place(input, arena, 1);
        let count = input.size;
        let bodies = Words::place(arena, count * BODY);
        let sizes = Words::place(arena, STEPS);
        let taken = Words::place(arena, STEPS);
        let cells = Words::place(arena, (2 * count + CHUNK * (team.threads() + 8)) * CELL);
        Barnes { team, count, bodies, sizes, taken, cells }
    }

    fn fill<M: Memory>(&self, memory: &M) {
        for (index, body) in (0..).zip(physics::start(&self.team.input, self.count)) {
            for (offset, value) in (0..).zip(body.words()) {
                self.bodies.put_real(memory, index * BODY + offset, value);
            }
        }
    }

    fn run<M: Memory>(&self, memory: &M) {
        for step in 0..STEPS {
            let mut own = Own { next: 0, end: 0, last: None };
            if memory.thread() == 0 {
                self.taken.put(memory, step, 0);
                self.new_cell(memory, step, &mut own);
            }
            let half = self.measure(memory, step);
            for body in self.team.share(memory, self.count) {
                self.insert(memory, step, body, half, &mut own);
            }
            self.team.meet(memory);
            self.weigh(memory, &own);
            self.team.meet(memory);
            let mut forces = Vec::new();
            for body in self.team.share(memory, self.count) {
                forces.push(self.force_on(memory, body, half));
            }
            self.team.meet(memory);
            for (body, force) in self.team.share(memory, self.count).zip(forces) {
                self.advance(memory, body, force);
            }
            self.team.meet(memory);
        }
    }

    fn check<M: Memory>(&self, memory: &M) -> Result<(), Damage> {
        let mut bodies = physics::start(&self.team.input, self.count);
        let mut sizes = Vec::new();
        for _ in 0..STEPS {
            sizes.push(physics::plain_step(&mut bodies).to_bits());
        }
        let words = bodies.iter().flat_map(Body::words).map(f64::to_bits);
        self.bodies.compare(memory, "word of the bodies", words)?;
        self.sizes.compare(memory, "size of the box in step", sizes)
    }

    fn results(&self) -> Vec<Words> {
        vec![self.bodies, self.sizes]
    }
}
