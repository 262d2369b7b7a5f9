//! LU factorisation without pivoting, with the sharing of SPLASH-2's "lu", contiguous blocks (Woo
//! et al., ISCA'95): blocks of 16 x 16 are contiguous and assigned to threads in a grid; the thread
//! that owns a block writes it, others read it a phase later.
//!
//! In the pool: the matrix. Each element undergoes the same operations in the same order as in the
//! plain, unblocked elimination, so the check compares bits.

use super::sync::Team;
use crate::{Counts, Damage, Input, Kernel, Mix, Phased, Words};
use rand_xoshiro::rand_core::Rng;
use seawall_memory::Memory;
use seawall_runtime::Arena;
use std::ops::RangeInclusive;

/// Rows and columns of a block.
const SIDE: u64 = 16;
const BLOCK: u64 = SIDE * SIDE;

/// The factorisation.
#[derive(Clone, Copy, Debug)]
pub struct Lu {
    team: Team,
    blocks: u64,
    grid: (u64, u64),
    matrix: Words,
}

/// One block of the matrix.
#[derive(Clone, Copy)]
struct Block(Words);

impl Block {
    fn get<M: Memory>(self, memory: &M, row: u64, column: u64) -> f64 {
        self.0.real(memory, row * SIDE + column)
    }

    /// Subtracts `factor` times row `from` of `other` from row `to`, from column `first` on.
    fn subtract<M: Memory>(
        self,
        memory: &M,
        to: u64,
        (other, from): (Block, u64),
        factor: f64,
        first: u64,
    ) {
        for column in first..SIDE {
            let by = factor * other.get(memory, from, column);
            let value = self.get(memory, to, column) - by;
            memory.work(3);
            self.0.put_real(memory, to * SIDE + column, value);
        }
    }

    fn divide<M: Memory>(self, memory: &M, row: u64, column: u64, by: f64) -> f64 {
        let value = self.get(memory, row, column) / by;
        memory.work(4);
        self.0.put_real(memory, row * SIDE + column, value);
        value
    }
}

impl Lu {
    fn block(&self, row: u64, column: u64) -> Block {
        let first = (row * self.blocks + column) * BLOCK;
        Block(self.matrix.part(first..first + BLOCK))
    }

    /// True if this thread owns the block.
    fn is_mine<M: Memory>(&self, memory: &M, row: u64, column: u64) -> bool {
        let (rows, columns) = self.grid;
        row % rows * columns + column % columns == memory.thread() as u64
    }

    fn diagonal<M: Memory>(&self, memory: &M, k: u64) {
        let diagonal = self.block(k, k);
        for pivot in 0..SIDE {
            let by = diagonal.get(memory, pivot, pivot);
            for row in pivot + 1..SIDE {
                let factor = diagonal.divide(memory, row, pivot, by);
                diagonal.subtract(memory, row, (diagonal, pivot), factor, pivot + 1);
            }
        }
    }

    fn in_row<M: Memory>(&self, memory: &M, k: u64, column: u64) {
        let (diagonal, block) = (self.block(k, k), self.block(k, column));
        for pivot in 0..SIDE {
            for row in pivot + 1..SIDE {
                let factor = diagonal.get(memory, row, pivot);
                block.subtract(memory, row, (block, pivot), factor, 0);
            }
        }
    }

    fn in_column<M: Memory>(&self, memory: &M, k: u64, row: u64) {
        let (diagonal, block) = (self.block(k, k), self.block(row, k));
        for pivot in 0..SIDE {
            let by = diagonal.get(memory, pivot, pivot);
            for row in 0..SIDE {
                let factor = block.divide(memory, row, pivot, by);
                block.subtract(memory, row, (diagonal, pivot), factor, pivot + 1);
            }
        }
    }

    fn inside<M: Memory>(&self, memory: &M, k: u64, (row, column): (u64, u64)) {
        let (left, above) = (self.block(row, k), self.block(k, column));
        let block = self.block(row, column);
        for pivot in 0..SIDE {
            for row in 0..SIDE {
                let factor = left.get(memory, row, pivot);
                block.subtract(memory, row, (above, pivot), factor, 0);
            }
        }
    }

    fn order(&self) -> u64 {
        self.blocks * SIDE
    }

    /// The matrix, row by row: random, with a diagonal that needs no pivoting.
    fn plain(&self) -> Vec<f64> {
        let mut rng = self.team.input.stream(0);
        let order = self.order();
        let mut random = || (rng.next_u64() >> 11) as f64 / (1u64 << 53) as f64;
        let all = (0..order * order).map(|index| {
            let extra = if index / order == index % order { order as f64 } else { 0.0 };
            random() + extra
        });
        all.collect()
    }

    /// The index of element (`row`, `column`) in the matrix of blocks.
    fn index(&self, row: u64, column: u64) -> u64 {
        let block = row / SIDE * self.blocks + column / SIDE;
        block * BLOCK + row % SIDE * SIDE + column % SIDE
    }
}

impl Kernel for Lu {
    const NAME: &'static str = "lu";
    const ABOUT: &'static str = "blocked LU factorisation: owners write blocks, others read them";
    const UNIT: &'static str = "rows";
    const SIZE: u64 = 512;
    const QUICK: u64 = 96;
    const SMALL: u64 = 50;
    const SIZES: RangeInclusive<u64> = 1..=1 << 13;
    const MIX: Mix = Mix {
        program: "lu of Splash-3, contiguous blocks of 16, 256 x 256",
        run: Counts {
            instructions: 49_563_642,
            heap_stores: 5_592_608,
            stack_loads: 65_773,
            stack_stores: 40_363,
            per_1000: 1000,
        },
        start: Some(Counts {
            instructions: 9_495_477,
            heap_stores: 267_579,
            stack_loads: 472_964,
            stack_stores: 471_541,
            per_1000: 4080,
        }),
        heap_lines: 114,
        stack_lines: 4,
        parallelism: 4260,
    };

    fn place(input: &Input, arena: &mut Arena) -> Lu {
        let team = Team::place(input, arena, 1);
        let threads = team.threads();
        let is_side = |rows: &u64| threads.is_multiple_of(*rows) && rows * rows <= threads;
        let rows = (1..=threads).rev().find(is_side).unwrap_or(1);
        let blocks = input.size.div_ceil(SIDE);
        let grid = (rows, threads / rows);
        Lu { team, blocks, grid, matrix: Words::place(arena, blocks * blocks * BLOCK) }
    }

    fn fill<M: Memory>(&self, memory: &M) {
        let order = self.order();
        for (place, value) in (0..).zip(self.plain()) {
            self.matrix.put_real(memory, self.index(place / order, place % order), value);
        }
    }

    fn run<M: Memory>(&self, memory: &M) {
        for k in 0..self.blocks {
            self.phase(memory, k);
        }
        self.team.meet(memory);
    }

    fn check<M: Memory>(&self, memory: &M) -> Result<(), Damage> {
        let order = self.order() as usize;
        let mut rows: Vec<Vec<f64>> = self.plain().chunks(order).map(<[f64]>::to_vec).collect();
        for k in 0..order {
            let (done, rest) = rows.split_at_mut(k + 1);
            let pivots = &done[k];
            for row in rest {
                row[k] /= pivots[k];
                let factor = row[k];
                for (value, pivot) in row[k + 1..].iter_mut().zip(&pivots[k + 1..]) {
                    *value -= factor * pivot;
                }
            }
        }
        let mut expected = vec![0; order * order];
        for (row, values) in (0..).zip(&rows) {
            for (column, value) in (0..).zip(values) {
                expected[self.index(row, column) as usize] = value.to_bits();
            }
        }
        self.matrix.compare(memory, "element", expected)
    }

    fn results(&self) -> Vec<Words> {
        vec![self.matrix]
    }
}

impl Phased for Lu {
    const CHECKPOINTED: &'static str = "lu-checkpoint";
    const ABOUT_CHECKPOINTED: &'static str = "lu with a checkpoint after each diagonal block";

    fn phases(&self) -> u64 {
        self.blocks
    }

    fn phase<M: Memory>(&self, memory: &M, k: u64) {
        if self.is_mine(memory, k, k) {
            self.diagonal(memory, k);
        }
        self.team.meet(memory);
        for other in k + 1..self.blocks {
            if self.is_mine(memory, k, other) {
                self.in_row(memory, k, other);
            }
            if self.is_mine(memory, other, k) {
                self.in_column(memory, k, other);
            }
        }
        self.team.meet(memory);
        for row in k + 1..self.blocks {
            for column in k + 1..self.blocks {
                if self.is_mine(memory, row, column) {
                    self.inside(memory, k, (row, column));
                }
            }
        }
    }
}
