//! Steps of a flow on a square grid, with the sharing of SPLASH-2's "ocean" (Woo et al., ISCA'95):
//! stencils on strips of rows whose edges the neighbours read, red-black over-relaxation until the
//! largest change is small, and one lock for that largest change.
//!
//! It has the sharing pattern, not the physics: one grid, no multigrid, and three of the many
//! fields of the original. In the pool: the grids and the errors. A point depends only on points
//! that do not change in the same phase, so the check compares bits.

use super::sync::Team;
use crate::{Counts, Damage, Input, Kernel, Mix, Phased, Words};
use rand_xoshiro::rand_core::Rng;
use seawall_memory::Memory;
use seawall_runtime::Arena;
use std::ops::{Range, RangeInclusive};

const STEPS: u64 = 2;
/// The greatest number of relaxations of a step.
const SWEEPS: u64 = 5;
/// A step relaxes until no point changes by more.
const TOLERANCE: f64 = 1e-6;
const OVER_RELAXATION: f64 = 1.2;
const VISCOSITY: f64 = 0.05;
const TIME_STEP: f64 = 0.01;

/// The flow.
#[derive(Clone, Copy, Debug)]
pub struct Ocean {
    team: Team,
    size: u64,
    vorticity: Words,
    source: Words,
    stream: Words,
    errors: Words,
}

/// The points around the one at `index` of a grid whose rows are `width` long.
fn around(index: u64, width: u64) -> [u64; 4] {
    [index - width, index - 1, index + 1, index + width]
}

fn sum(values: [f64; 4]) -> f64 {
    (values[0] + values[1]) + (values[2] + values[3])
}

fn diffused(value: f64, sum: f64) -> f64 {
    value + VISCOSITY * (sum - 4.0 * value)
}

fn relaxed(value: f64, sum: f64, source: f64) -> f64 {
    value + OVER_RELAXATION * ((sum - source) / 4.0 - value)
}

fn advanced(vorticity: f64, stream: f64, source: f64) -> f64 {
    source + TIME_STEP * (stream - vorticity)
}

impl Ocean {
    const fn width(&self) -> u64 {
        self.size + 2
    }

    fn row(&self, row: u64) -> Range<u64> {
        row * self.width() + 1..row * self.width() + 1 + self.size
    }

    /// The points of a row with this colour.
    fn coloured(&self, row: u64, colour: u64) -> impl Iterator<Item = u64> + use<> {
        self.row(row).skip(((row + colour) % 2) as usize).step_by(2)
    }

    fn sum<M: Memory>(&self, memory: &M, grid: Words, index: u64) -> f64 {
        memory.work(8);
        sum(around(index, self.width()).map(|index| grid.real(memory, index)))
    }

    fn diffuse<M: Memory>(&self, memory: &M, index: u64) {
        let value = self.vorticity.real(memory, index);
        let value = diffused(value, self.sum(memory, self.vorticity, index));
        self.source.put_real(memory, index, value);
    }

    /// Relaxes the point; returns its change.
    fn relax<M: Memory>(&self, memory: &M, index: u64) -> f64 {
        let value = self.stream.real(memory, index);
        let sum = self.sum(memory, self.stream, index);
        let new = relaxed(value, sum, self.source.real(memory, index));
        self.stream.put_real(memory, index, new);
        (new - value).abs()
    }

    fn advance<M: Memory>(&self, memory: &M, index: u64) {
        let [vorticity, stream, source] =
            [self.vorticity, self.stream, self.source].map(|grid| grid.real(memory, index));
        memory.work(6);
        self.vorticity.put_real(memory, index, advanced(vorticity, stream, source));
    }

    /// Relaxes once; returns the largest change of all threads.
    fn sweep<M: Memory>(&self, memory: &M, rows: &Range<u64>, number: u64) -> f64 {
        let mut largest = 0.0f64;
        for colour in 0..2 {
            for index in rows.clone().flat_map(|row| self.coloured(row + 1, colour)) {
                largest = largest.max(self.relax(memory, index));
            }
            self.team.meet(memory);
        }
        self.team.alone(memory, 0, || {
            if largest > self.errors.real(memory, number) {
                self.errors.put_real(memory, number, largest);
            }
        });
        self.team.meet(memory);
        self.errors.real(memory, number)
    }

    fn plain_start(&self) -> Vec<f64> {
        let mut rng = self.team.input.stream(0);
        let mut grid = vec![0.0; (self.width() * self.width()) as usize];
        for index in (1..=self.size).flat_map(|row| self.row(row)) {
            grid[index as usize] = (rng.next_u64() >> 11) as f64 / (1u64 << 52) as f64 - 1.0;
        }
        grid
    }

    /// Vorticity, stream and errors at the end.
    fn plain(&self) -> [Vec<f64>; 3] {
        let mut vorticity = self.plain_start();
        let (mut source, mut stream) = (vec![0.0; vorticity.len()], vec![0.0; vorticity.len()]);
        let mut errors = vec![0.0; (STEPS * SWEEPS) as usize];
        let sum_at = |grid: &[f64], index: u64| {
            sum(around(index, self.width()).map(|index| grid[index as usize]))
        };
        let points = || (1..=self.size).flat_map(|row| self.row(row));
        for step in 0..STEPS {
            for index in points() {
                let sum = sum_at(&vorticity, index);
                source[index as usize] = diffused(vorticity[index as usize], sum);
            }
            for number in step * SWEEPS..(step + 1) * SWEEPS {
                let mut largest = 0.0f64;
                for (colour, row) in (0..2).flat_map(|c| (1..=self.size).map(move |row| (c, row))) {
                    for index in self.coloured(row, colour) {
                        let sum = sum_at(&stream, index);
                        let point = &mut stream[index as usize];
                        let new = relaxed(*point, sum, source[index as usize]);
                        largest = largest.max((new - *point).abs());
                        *point = new;
                    }
                }
                errors[number as usize] = largest;
                if largest < TOLERANCE {
                    break;
                }
            }
            for index in points().map(|index| index as usize) {
                vorticity[index] = advanced(vorticity[index], stream[index], source[index]);
            }
        }
        [vorticity, stream, errors]
    }
}

impl Kernel for Ocean {
    const NAME: &'static str = "ocean";
    const ABOUT: &'static str = "stencils and red-black relaxation on strips of a grid";
    const UNIT: &'static str = "points of a side";
    const SIZE: u64 = 1280;
    const QUICK: u64 = 128;
    const SMALL: u64 = 20;
    const SIZES: RangeInclusive<u64> = 1..=1 << 14;
    const MIX: Mix = Mix {
        program: "ocean of Splash-3, contiguous partitions, 130 x 130",
        run: Counts {
            instructions: 57_377_841,
            heap_stores: 4_166_528,
            stack_loads: 95_351,
            stack_stores: 19_019,
            per_1000: 1000,
        },
        start: None,
        heap_lines: 1476,
        stack_lines: 2,
        parallelism: 3950,
    };

    fn place(input: &Input, arena: &mut Arena) -> Ocean {
        let team = Team::place(input, arena, 1);
        let points = (input.size + 2) * (input.size + 2);
        let [vorticity, source, stream] = [(); 3].map(|()| Words::place(arena, points));
        let errors = Words::place(arena, STEPS * SWEEPS);
        Ocean { team, size: input.size, vorticity, source, stream, errors }
    }

    fn fill<M: Memory>(&self, memory: &M) {
        for (index, value) in (0..).zip(self.plain_start()) {
            self.vorticity.put_real(memory, index, value);
        }
    }

    fn run<M: Memory>(&self, memory: &M) {
        for step in 0..self.phases() {
            self.phase(memory, step);
        }
    }

    fn check<M: Memory>(&self, memory: &M) -> Result<(), Damage> {
        let bits = |values: Vec<f64>| values.into_iter().map(f64::to_bits);
        let [vorticity, stream, errors] = self.plain().map(bits);
        self.vorticity.compare(memory, "vorticity", vorticity)?;
        self.stream.compare(memory, "stream", stream)?;
        self.errors.compare(memory, "error", errors)
    }

    fn results(&self) -> Vec<Words> {
        vec![self.vorticity, self.stream, self.errors]
    }
}

impl Phased for Ocean {
    const CHECKPOINTED: &'static str = "ocean-checkpoint";
    const ABOUT_CHECKPOINTED: &'static str = "ocean with a checkpoint after each step";

    fn phases(&self) -> u64 {
        STEPS
    }

    fn phase<M: Memory>(&self, memory: &M, step: u64) {
        let rows = self.team.share(memory, self.size);
        let mine = || rows.clone().flat_map(|row| self.row(row + 1));
        for index in mine() {
            self.diffuse(memory, index);
        }
        self.team.meet(memory);
        for number in step * SWEEPS..(step + 1) * SWEEPS {
            if self.sweep(memory, &rows, number) < TOLERANCE {
                break;
            }
        }
        for index in mine() {
            self.advance(memory, index);
        }
        self.team.meet(memory);
    }
}
