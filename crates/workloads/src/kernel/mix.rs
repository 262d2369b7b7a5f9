//! What a compiled program executes beside the heap accesses of a kernel: instructions between
//! them, and loads and stores of its stack.
//!
//! In MICRO'15 an epoch is so many dynamic stores of a whole program, those to the stack included,
//! and its cost is set against all that the processor does meanwhile. A kernel of ours has only the
//! heap accesses. So each kernel declares what was counted when the program whose pattern it has
//! ran on one thread, and a [`Mixed`] memory adds the difference: every heap store brings its part
//! of the instructions, and stack accesses go to lines of the thread in persistent memory, which a
//! machine that restarts from a checkpoint has to keep as well.

use crate::{Input, Layout};
use seawall_memory::{Addr, LINE_BYTES, Memory, Width};
use std::cell::Cell;

/// What was counted of a part of a program: x86-64, compiled with -O2, one thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Counts {
    /// Instructions, those that access memory included.
    pub instructions: u64,
    /// Loads from anything but the stack.
    pub heap_loads: u64,
    /// Stores to anything but the stack.
    pub heap_stores: u64,
    /// Loads from the stack.
    pub stack_loads: u64,
    /// Stores to the stack.
    pub stack_stores: u64,
}

/// What was counted of the program whose pattern a kernel has.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Mix {
    /// The program and its input.
    pub program: &'static str,
    /// Of the part that its threads do together.
    pub run: Counts,
    /// Of what one thread does before; none if the program's start is parallel too, or short.
    pub start: Option<Counts>,
    /// Lines off the stack that 10000 stores of the parallel part write, in the mean.
    pub heap_lines: f64,
    /// Lines of the stack that they write.
    pub stack_lines: u64,
    /// Instructions that it issued in 1000 cycles, its data in the caches of an out-of-order core of
    /// today, wider than those that are simulated: what its dependences allow.
    pub parallelism: u32,
}

/// The stacks of a run, in the pool behind what the program has on its heap.
#[derive(Clone, Copy, Debug)]
pub struct Stacks {
    mix: Mix,
    first: u64,
    threads: u64,
}

impl Stacks {
    /// Places a stack for every thread of `input`, and a word, and makes `layout` longer by them.
    pub fn place(mix: Mix, input: &Input, layout: &mut Layout) -> Stacks {
        let first = layout.pm_bytes.next_multiple_of(LINE_BYTES);
        let stacks = input.threads as u64 * mix.stack_lines;
        layout.pm_bytes = first + (stacks + 1) * LINE_BYTES;
        Stacks { mix, first, threads: input.threads as u64 }
    }

    /// `memory` with the stack of its thread, and what the program executes in its parallel part.
    pub fn run<M: Memory>(self, memory: &M) -> Mixed<'_, M> {
        self.over(memory, self.mix.run)
    }

    /// `memory` with the stack of its thread, and what the program executes before, if that was
    /// counted.
    pub fn start<M: Memory>(self, memory: &M) -> Option<Mixed<'_, M>> {
        Some(self.over(memory, self.mix.start?))
    }

    /// A zero word behind the stacks, on a line of its own.
    pub fn word(self) -> Addr {
        Addr::pm(self.first + self.threads * self.mix.stack_lines * LINE_BYTES)
    }

    fn over<M: Memory>(self, memory: &M, counts: Counts) -> Mixed<'_, M> {
        let bytes = self.mix.stack_lines * LINE_BYTES;
        let stack = Addr::pm(self.first + memory.thread() as u64 * bytes);
        let owed = [0; 3].map(Cell::new);
        Mixed { memory, counts, stack, words: bytes / 8, top: Cell::new(0), owed }
    }
}

/// A memory on which every heap access brings its part of a [`Mix`] with it.
#[derive(Debug)]
pub struct Mixed<'a, M> {
    memory: &'a M,
    counts: Counts,
    stack: Addr,
    words: u64,
    /// The word of the stack that was written last.
    top: Cell<u64>,
    /// Instructions, stack loads and stack stores that are due, times the heap stores that were counted.
    owed: [Cell<i64>; 3],
}

impl<M: Memory> Mixed<'_, M> {
    /// A heap store was made, and everything that comes with it is due.
    fn stored(&self) {
        let due = [self.counts.instructions, self.counts.stack_loads, self.counts.stack_stores];
        for (owed, due) in self.owed.iter().zip(due) {
            owed.set(owed.get() + due as i64);
        }
        self.done(1);
        let [instructions, loads, stores] = &self.owed;
        for _ in 0..self.take(stores) {
            self.top.set((self.top.get() + 1) % self.words);
            self.memory.store_bits(self.at_top(), Width::B8, self.top.get());
            self.done(1);
        }
        for _ in 0..self.take(loads) {
            self.memory.load_bits(self.at_top(), Width::B8);
            self.done(1);
        }
        let work = self.take(instructions);
        if work > 0 {
            self.memory.work(work as u32);
        }
    }

    /// The whole ones of what is owed, which are so no longer.
    fn take(&self, owed: &Cell<i64>) -> i64 {
        let per = self.counts.heap_stores as i64;
        let whole = (owed.get() / per).max(0);
        owed.set(owed.get() - whole * per);
        whole
    }

    /// So many of the instructions were executed.
    fn done(&self, instructions: u32) {
        let owed = &self.owed[0];
        owed.set(owed.get() - i64::from(instructions) * self.counts.heap_stores as i64);
    }

    fn at_top(&self) -> Addr {
        self.stack.plus(8 * self.top.get())
    }
}

impl<M: Memory> Memory for Mixed<'_, M> {
    fn thread(&self) -> usize {
        self.memory.thread()
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
        self.stored();
        was
    }

    fn swap(&self, at: Addr, new: u64) -> u64 {
        let was = self.memory.swap(at, new);
        self.stored();
        was
    }

    fn fetch_add(&self, at: Addr, by: u64) -> u64 {
        let was = self.memory.fetch_add(at, by);
        self.stored();
        was
    }

    fn flush(&self, at: Addr, len: u64) {
        self.memory.flush(at, len);
    }

    fn order(&self) {
        self.memory.order();
    }

    fn drain(&self) {
        self.memory.drain();
    }

    /// The kernel's own estimate is a part of what the mix says, not more.
    fn work(&self, instructions: u32) {
        self.done(instructions);
        self.memory.work(instructions);
    }

    fn now(&self) -> u64 {
        self.memory.now()
    }

    fn grow(&self, bytes: u64) -> bool {
        self.memory.grow(bytes)
    }

    fn spin_while(&self, at: Addr, value: u64) -> u64 {
        self.memory.spin_while(at, value)
    }

    fn output(&self, number: u64) {
        self.memory.output(number);
    }
}
