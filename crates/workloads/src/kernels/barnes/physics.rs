//! The arithmetic of bodies, and the plain computation: one thread, one tree of boxes.
//!
//! Barnes and Hut, "A hierarchical O(N log N) force-calculation algorithm" (1986). Both trees use
//! the functions here for the same sums in the same order, and share nothing else.

use crate::Input;
use rand_xoshiro::rand_core::Rng;

pub(super) type Vector = [f64; 3];

/// A cell is far if its side is less than this share of its distance.
const OPENING: f64 = 0.8;
const SOFTENING: f64 = 1e-4;
const TIME_STEP: f64 = 0.005;

#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Mass {
    pub(super) at: Vector,
    pub(super) mass: f64,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Body {
    pub(super) mass: Mass,
    pub(super) velocity: Vector,
}

impl Mass {
    /// Adds a moment: the `at` of a sum is not divided by its mass yet.
    pub(super) fn plus(self, other: Mass) -> Mass {
        let at = [0, 1, 2].map(|axis| self.at[axis] + other.at[axis] * other.mass);
        Mass { at, mass: self.mass + other.mass }
    }

    pub(super) fn centre(self) -> Mass {
        Mass { at: self.at.map(|moment| moment / self.mass), mass: self.mass }
    }

    /// Adds the attraction by this mass at `at` to `force`.
    pub(super) fn pull(self, at: Vector, force: Vector) -> Vector {
        let away = [0, 1, 2].map(|axis| self.at[axis] - at[axis]);
        let square = square(away) + SOFTENING;
        let factor = self.mass / (square * square.sqrt());
        [0, 1, 2].map(|axis| force[axis] + factor * away[axis])
    }
}

fn square(vector: Vector) -> f64 {
    vector[0] * vector[0] + vector[1] * vector[1] + vector[2] * vector[2]
}

impl Body {
    pub(super) fn advance(&mut self, force: Vector) {
        for (axis, pull) in force.into_iter().enumerate() {
            self.velocity[axis] += TIME_STEP * pull;
            self.mass.at[axis] += TIME_STEP * self.velocity[axis];
        }
    }

    /// The words in memory: place, mass, velocity, and padding.
    pub(super) fn words(&self) -> [f64; 8] {
        let ([x, y, z], [u, v, w]) = (self.mass.at, self.velocity);
        [x, y, z, self.mass.mass, u, v, w, 0.0]
    }
}

/// The greatest of `largest` and the coordinates.
pub(super) fn reach(at: Vector, largest: f64) -> f64 {
    at.iter().fold(largest, |largest, value| largest.max(value.abs()))
}

/// True if a cell with half side `half` can be treated as one mass.
pub(super) fn is_far(at: Vector, centre: Vector, half: f64) -> bool {
    let away = [0, 1, 2].map(|axis| centre[axis] - at[axis]);
    let side = 2.0 * half;
    side * side < OPENING * OPENING * square(away)
}

pub(super) fn octant_of(at: Vector, middle: Vector) -> usize {
    let upper = |axis: usize| usize::from(at[axis] >= middle[axis]);
    upper(0) | upper(1) << 1 | upper(2) << 2
}

pub(super) fn child_middle(middle: Vector, half: f64, octant: usize) -> Vector {
    [0, 1, 2].map(|axis| {
        let step = half / 2.0;
        if octant >> axis & 1 == 1 { middle[axis] + step } else { middle[axis] - step }
    })
}

/// Bodies in a ball, denser in the middle, at rest, numbered along a space filling curve.
pub(super) fn start(input: &Input, count: u64) -> Vec<Body> {
    let mut rng = input.stream(0);
    let mut random = || (rng.next_u64() >> 11) as f64 / (1u64 << 52) as f64 - 1.0;
    let mut bodies = Vec::new();
    while (bodies.len() as u64) < count {
        let at = [random(), random(), random()];
        let square = square(at);
        if square <= 1.0 {
            let mass = Mass { at: at.map(|value| value * square), mass: 1.0 / count as f64 };
            bodies.push(Body { mass, velocity: [0.0; 3] });
        }
    }
    bodies.sort_by_key(|body| along_curve(body.mass.at));
    bodies
}

/// Interleaves the high bits of the coordinates.
fn along_curve(at: Vector) -> u64 {
    let mut key = 0;
    for bit in (0..16).rev() {
        for value in at {
            let level = ((value + 1.0) * 32768.0) as u64;
            key = key << 1 | level >> bit & 1;
        }
    }
    key
}

/// A box of the plain tree.
enum Tree {
    Leaf(usize),
    Cell(Box<Cell>),
}

#[derive(Default)]
struct Cell {
    whole: Mass,
    children: [Option<Tree>; 8],
}

/// The cell of `members`; at least two, unless it is the root.
fn grow(bodies: &[Body], members: &[usize], middle: Vector, half: f64) -> Cell {
    let mut parts: [Vec<usize>; 8] = Default::default();
    for member in members {
        parts[octant_of(bodies[*member].mass.at, middle)].push(*member);
    }
    let mut cell = Cell::default();
    let mut sum = Mass::default();
    for (octant, part) in parts.iter().enumerate() {
        cell.children[octant] = match part[..] {
            [] => None,
            [member] => {
                sum = sum.plus(bodies[member].mass);
                Some(Tree::Leaf(member))
            }
            _ => {
                let middle = child_middle(middle, half, octant);
                let below = grow(bodies, part, middle, half / 2.0);
                sum = sum.plus(below.whole);
                Some(Tree::Cell(Box::new(below)))
            }
        };
    }
    cell.whole = sum.centre();
    cell
}

fn force_on(bodies: &[Body], body: usize, cell: &Cell, half: f64, mut force: Vector) -> Vector {
    let at = bodies[body].mass.at;
    if is_far(at, cell.whole.at, half) {
        return cell.whole.pull(at, force);
    }
    for child in cell.children.iter().flatten() {
        if let Tree::Leaf(other) = child
            && *other != body
        {
            force = bodies[*other].mass.pull(at, force);
        }
    }
    for child in cell.children.iter().flatten() {
        if let Tree::Cell(below) = child {
            force = force_on(bodies, body, below, half / 2.0, force);
        }
    }
    force
}

/// Moves all bodies by one step; returns half the side of the box.
pub(super) fn plain_step(bodies: &mut [Body]) -> f64 {
    let half = bodies.iter().fold(0.0, |largest, body| reach(body.mass.at, largest));
    let members: Vec<usize> = (0..bodies.len()).collect();
    let root = grow(bodies, &members, [0.0; 3], half);
    let forces: Vec<Vector> =
        members.iter().map(|body| force_on(bodies, *body, &root, half, [0.0; 3])).collect();
    for (body, force) in bodies.iter_mut().zip(forces) {
        body.advance(force);
    }
    half
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tree_pulls_almost_like_every_body_by_itself() {
        let bodies = start(&Input { threads: 1, size: 300, seed: 5 }, 300);
        let members: Vec<usize> = (0..bodies.len()).collect();
        let root = grow(&bodies, &members, [0.0; 3], 1.0);
        for body in members.iter().copied().step_by(17) {
            let at = bodies[body].mass.at;
            let by_tree = force_on(&bodies, body, &root, 1.0, [0.0; 3]);
            let others = bodies.iter().enumerate().filter(|(other, _)| *other != body);
            let exact = others.fold([0.0; 3], |force, (_, other)| other.mass.pull(at, force));
            let error = [0, 1, 2].map(|axis| by_tree[axis] - exact[axis]);
            assert!(square(error) < 0.01 * square(exact) + 0.01, "{by_tree:?} {exact:?}");
        }
    }
}
