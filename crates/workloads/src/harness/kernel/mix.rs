//! The instructions that a compiled program executes between the heap accesses of a kernel, and the
//! loads and stores of its stack.
//!
//! The counts and their measurement: `validation/programs.md`.
//!
//! In MICRO'15 an epoch has a fixed number of dynamic stores of a whole program, including those to
//! the stack, and its cost is relative to everything that the processor executes meanwhile. Our
//! kernels have only the heap accesses. So each kernel declares the counts of the program whose
//! pattern it has, measured on one thread, and a [`Mixed`] memory adds the difference: every heap
//! store is accompanied by its part of the instructions, and stack accesses go to lines of the
//! thread in persistent memory, which a machine that restarts from a checkpoint must keep as well.
//! If the program does more for the same piece of work than the kernel (a compressor that works on
//! bytes and not on words), it makes more heap stores, to data private to the thread, on as many
//! lines as the program was seen to write. Heap loads are the kernel's own; of the others only the
//! instructions are counted.

use crate::{Input, Layout};
use seawall_memory::{Addr, LINE_BYTES, Memory, Width, layer};
use std::cell::Cell;

/// The counts of a part of a program: x86-64, compiled with -O2, one thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Counts {
    /// Instructions, those that access memory included.
    pub instructions: u64,
    /// Stores outside the stack.
    pub heap_stores: u64,
    /// Loads from the stack.
    pub stack_loads: u64,
    /// Stores to the stack.
    pub stack_stores: u64,
    /// Heap stores of the program per 1000 of the kernel's in the same part, if it does more for
    /// the same piece of work (a transaction, a packet, a body): the additional ones are private to
    /// the thread.
    pub per_1000: u64,
}

/// The counts of the program whose pattern a kernel has.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Mix {
    /// The program and its input.
    pub program: &'static str,
    /// The counts of the part that its threads run together.
    pub run: Counts,
    /// The counts of the part that one thread runs before; `None` if the program's start is
    /// parallel too, or short.
    pub start: Option<Counts>,
    /// The mean number of lines outside the stack that 10000 stores of the parallel part write.
    pub heap_lines: u64,
    /// The mean number of lines of the stack that they write.
    pub stack_lines: u64,
    /// Instructions that it issued in 1000 cycles on a present out-of-order core, wider than the
    /// simulated ones: approximately the limit of its dependences.
    pub parallelism: u32,
}

/// The stacks and private data of a run, in the pool behind the data of the kernel.
#[derive(Clone, Copy, Debug)]
pub struct Stacks {
    mix: Mix,
    first: u64,
    threads: u64,
}

impl Stacks {
    /// Places the private data of each thread of `input`, and a word, and extends `layout`.
    pub fn place(mix: Mix, input: &Input, layout: &mut Layout) -> Stacks {
        let first = layout.pm_bytes.next_multiple_of(LINE_BYTES);
        let stacks = Stacks { mix, first, threads: input.threads as u64 };
        layout.pm_bytes = stacks.of(stacks.threads).plus(LINE_BYTES).offset();
        stacks
    }

    /// `memory` with the stack of its thread, and the instructions of the parallel part.
    pub fn run<M: Memory>(self, memory: &M) -> Mixed<'_, M> {
        self.over(memory, self.mix.run)
    }

    /// `memory` with the stack of its thread, and the instructions of the sequential start, if that
    /// was counted.
    pub fn start<M: Memory>(self, memory: &M) -> Option<Mixed<'_, M>> {
        Some(self.over(memory, self.mix.start?))
    }

    /// A zero word on a line of its own.
    pub fn word(self) -> Addr {
        self.of(self.threads)
    }

    fn of(self, thread: u64) -> Addr {
        Addr::pm(self.first + thread * (self.mix.stack_lines + self.mix.heap_lines) * LINE_BYTES)
    }

    fn over<M: Memory>(self, memory: &M, counts: Counts) -> Mixed<'_, M> {
        let stack = self.of(memory.thread() as u64);
        let heap = stack.plus(self.mix.stack_lines * LINE_BYTES);
        let ring = |first, lines| Ring { first, words: lines * LINE_BYTES / 8, at: Cell::new(0) };
        Mixed {
            memory,
            counts,
            stack: ring(stack, self.mix.stack_lines),
            heap: ring(heap, self.mix.heap_lines),
            owed: Default::default(),
        }
    }
}

/// Words that are written cyclically.
#[derive(Debug)]
struct Ring {
    first: Addr,
    words: u64,
    at: Cell<u64>,
}

impl Ring {
    /// The address of the last word written.
    fn last(&self) -> Addr {
        self.first.plus(8 * self.at.get())
    }

    fn write<M: Memory>(&self, memory: &M) {
        self.at.set((self.at.get() + 1) % self.words);
        memory.store_bits(self.last(), Width::B8, self.at.get());
    }
}

/// The accesses and instructions that are due, times the divisor of their counts.
#[derive(Debug, Default)]
struct Owed {
    instructions: Cell<i64>,
    stack_loads: Cell<i64>,
    stack_stores: Cell<i64>,
    heap_stores: Cell<i64>,
}

/// Takes the whole units of what is due.
fn take(owed: &Cell<i64>, per: u64) -> i64 {
    let whole = (owed.get() / per as i64).max(0);
    owed.set(owed.get() - whole * per as i64);
    whole
}

/// A memory on which every heap store is accompanied by its part of [`Counts`].
#[derive(Debug)]
pub struct Mixed<'a, M> {
    memory: &'a M,
    counts: Counts,
    stack: Ring,
    heap: Ring,
    owed: Owed,
}

impl<M: Memory> Mixed<'_, M> {
    /// The kernel has made a heap store: one more piece of the program's work. An exchange that
    /// changes nothing does not count, so that waiting for a lock is no work.
    fn stored(&self) {
        let owed = &self.owed.heap_stores;
        owed.set(owed.get() + self.counts.per_1000 as i64 - 1000);
        self.complete();
        for _ in 0..take(owed, 1000) {
            self.heap.write(self.memory);
            self.complete();
        }
    }

    /// Executes what accompanies a heap store.
    fn complete(&self) {
        let Counts { instructions, stack_loads, stack_stores, heap_stores: per, .. } = self.counts;
        let Owed { instructions: work, stack_loads: loads, stack_stores: stores, .. } = &self.owed;
        for (owed, due) in [(work, instructions), (loads, stack_loads), (stores, stack_stores)] {
            owed.set(owed.get() + due as i64);
        }
        self.done(1);
        for _ in 0..take(stores, per) {
            self.stack.write(self.memory);
            self.done(1);
        }
        for _ in 0..take(loads, per) {
            self.memory.load_bits(self.stack.last(), Width::B8);
            self.done(1);
        }
        match take(work, per) {
            0 => {}
            count => self.memory.work(count as u32),
        }
    }

    /// Records that this number of instructions was executed.
    fn done(&self, instructions: u32) {
        let owed = &self.owed.instructions;
        owed.set(owed.get() - i64::from(instructions) * self.counts.heap_stores as i64);
    }
}

impl<M: Memory> layer::Layer for Mixed<'_, M> {
    type Below = M;
    const WORD_BY_WORD: bool = true;

    fn below(&self) -> &M {
        self.memory
    }

    #[inline]
    fn load_bits(&self, at: Addr, width: Width) -> u64 {
        self.done(1);
        self.memory.load_bits(at, width)
    }

    #[inline]
    fn store_bits(&self, at: Addr, width: Width, value: u64) {
        self.memory.store_bits(at, width, value);
        self.stored();
    }

    fn compare_exchange(&self, at: Addr, current: u64, new: u64) -> Result<u64, u64> {
        let was = self.memory.compare_exchange(at, current, new);
        match was.is_ok() {
            true => self.stored(),
            false => self.done(1),
        }
        was
    }

    fn swap(&self, at: Addr, new: u64) -> u64 {
        let was = self.memory.swap(at, new);
        match was != new {
            true => self.stored(),
            false => self.done(1),
        }
        was
    }

    fn fetch_add(&self, at: Addr, by: u64) -> u64 {
        let was = self.memory.fetch_add(at, by);
        self.stored();
        was
    }

    /// The kernel's own estimate is part of the mix and not added to it.
    fn work(&self, instructions: u32) {
        self.done(instructions);
        self.memory.work(instructions);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use seawall_memory::{Image, MemoryExt};

    const MIX: Mix = Mix {
        program: "a test",
        run: Counts {
            instructions: 50,
            heap_stores: 10,
            stack_loads: 5,
            stack_stores: 20,
            per_1000: 3000,
        },
        start: None,
        heap_lines: 7,
        stack_lines: 2,
        parallelism: 1000,
    };

    #[test]
    fn what_a_thread_has_to_itself_is_as_many_lines_as_were_counted_behind_the_kernel() {
        let input = Input { threads: 3, size: 1, seed: 1 };
        let mut layout = Layout { pm_bytes: 100, dram_bytes: 0 };
        let stacks = Stacks::place(MIX, &input, &mut layout);
        let image = Image::new(layout.pm_bytes, 0);
        let memory = stacks.run(&image);
        (0..1000u64).for_each(|value| memory.store(Addr::pm(0), value));
        let (pm, _) = image.into_parts();
        let written = |line: &[u8]| line.iter().any(|byte| *byte != 0);
        let lines: Vec<bool> = pm.chunks(LINE_BYTES as usize).map(written).collect();
        let all = MIX.stack_lines + MIX.heap_lines;
        assert_eq!(lines.len() as u64, 2 + 3 * all + 1, "a kernel of two lines, and the word");
        for (line, is_written) in (0..).zip(lines) {
            let is_own = (2..2 + all).contains(&line);
            assert_eq!(is_written, line == 0 || is_own, "line {line}");
        }
    }

    #[test]
    fn an_exchange_that_changes_nothing_is_no_piece_of_work() {
        let input = Input { threads: 1, size: 1, seed: 1 };
        let mut layout = Layout { pm_bytes: 64, dram_bytes: 0 };
        let stacks = Stacks::place(MIX, &input, &mut layout);
        let image = Image::new(layout.pm_bytes, 0);
        let memory = stacks.run(&image);
        assert_eq!(memory.compare_exchange(Addr::pm(0), 1, 2), Err(0));
        assert_eq!(memory.swap(Addr::pm(0), 0), 0);
        assert_eq!(memory.heap.at.get(), 0);
        memory.fetch_add(Addr::pm(0), 1);
        assert_eq!(memory.heap.at.get(), 2, "three for one");
    }
}
