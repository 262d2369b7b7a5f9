//! The trait of a kernel: a parallel program on ordinary loads and stores, without persistency
//! calls.
//!
//! The second half of "Efficient Persist Barriers for Multicores" (Joshi et al., MICRO'15, sections
//! 5.2 and 7.2) runs programs that were never written for persistent memory: hardware divides them
//! into epochs. So a kernel never flushes, orders or drains, and has no recovery.
//!
//! **The place of its data.** All memory of that machine is NVM: the data that the C program keeps
//! on its heap or in globals are in the pool, including arrays of one thread and the words of locks
//! and barriers. Data that a compiler keeps in registers or on the stack are Rust locals, which the
//! machine does not see. The [`Mix`] of a kernel counts what the C program executes beside its heap
//! accesses; [`Stacks`] adds it to a run.
//!
//! Every kernel checks its result against a plain computation on one thread, on vectors of the host
//! and with the same seed. The result holds under any schedule; if the result of a program depends
//! on the schedule, the head of its file says which part is compared.

use crate::harness::workload::{BadSetup, stream};
use crate::{Damage, Layout};
use rand_xoshiro::Xoshiro256PlusPlus;
use seawall_memory::{Addr, Memory, MemoryExt};
use seawall_runtime::Arena;
use std::ops::{Range, RangeInclusive};

mod mix;

pub use mix::{Counts, Mix, Mixed, Stacks};

/// The parameters of a run of a kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Input {
    /// The number of hardware threads, 1 to 1024.
    pub threads: usize,
    /// The amount of work, in the kernel's own [unit](Kernel::UNIT).
    pub size: u64,
    /// Seed of the input.
    pub seed: u64,
}

impl Input {
    /// The kernel's default size for `threads` threads, seed 1.
    pub fn of<K: Kernel>(threads: usize) -> Input {
        Input { threads, size: K::SIZE, seed: 1 }
    }

    /// Rejects numbers with which `K` cannot run; its other functions rely on it.
    ///
    /// # Errors
    /// The number, and its valid range.
    pub fn check<K: Kernel>(&self) -> Result<(), BadSetup> {
        BadSetup::find(&[
            ("threads", self.threads as u64, 1, crate::harness::workload::THREADS_MAX),
            ("size", self.size, *K::SIZES.start(), *K::SIZES.end()),
        ])
    }

    /// Random generator `index` of the seed.
    pub(crate) fn stream(&self, index: u64) -> Xoshiro256PlusPlus {
        stream(self.seed, index)
    }

    /// The share of `thread` in `count` items: contiguous, and equal up to one item.
    pub(crate) fn share(&self, thread: usize, count: u64) -> Range<u64> {
        let (thread, threads) = (thread as u64, self.threads as u64);
        count * thread / threads..count * (thread + 1) / threads
    }
}

/// A parallel program above the seam.
///
/// The value itself is a few addresses and sizes, the same for every thread.
pub trait Kernel: Clone + Send + Sync + 'static {
    /// Its name.
    const NAME: &'static str;
    /// What it does, in one line.
    const ABOUT: &'static str;
    /// The unit of [`Input::size`].
    const UNIT: &'static str;
    /// The size that exercises a shared cache of tens of megabytes on 32 cores.
    const SIZE: u64;
    /// A size for a quick run, one or two seconds on the host.
    const QUICK: u64;
    /// A size for tests, a fraction of a second on the host.
    const SMALL: u64;
    /// The valid sizes.
    const SIZES: RangeInclusive<u64>;
    /// The instructions and stack accesses of the original program, as measured.
    const MIX: Mix;

    /// Places all data of the program.
    fn place(input: &Input, arena: &mut Arena) -> Self;

    /// Writes the input into zeroed memory, on one thread, untimed.
    fn fill<M: Memory>(&self, memory: &M);

    /// Runs the part of thread [`memory.thread()`](Memory::thread) to its end. All threads of the
    /// input must run it, at the same time: they wait for each other.
    fn run<M: Memory>(&self, memory: &M);

    /// Compares the result with that of a plain sequential computation.
    ///
    /// The difference. The check never panics or loops, whatever the [results](Kernel::results)
    /// contain.
    fn check<M: Memory>(&self, memory: &M) -> Result<(), Damage>;

    /// The words that [`check`](Kernel::check) compares one by one: after a run, it rejects a
    /// change of any of them. It may check more, such as links.
    fn results(&self) -> Vec<Words>;

    /// The memory needed for `input`.
    fn layout(input: &Input) -> Layout {
        let mut arena = Arena::new();
        Self::place(input, &mut arena);
        Layout::of(&arena)
    }

    /// Places the program and writes its input into zeroed memory.
    fn create<M: Memory>(memory: &M, input: &Input) -> Self {
        let kernel = Self::place(input, &mut Arena::new());
        kernel.fill(memory);
        kernel
    }
}

/// An array of words of 8 bytes in the pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Words {
    at: Addr,
    count: u64,
}

impl Words {
    /// Places `count` words, starting on a line.
    pub(crate) fn place(arena: &mut Arena, count: u64) -> Words {
        Words { at: arena.pm(count * 8), count }
    }

    /// The number of words.
    pub const fn count(self) -> u64 {
        self.count
    }

    /// The address of word `index`.
    ///
    /// # Panics
    /// If there is no such word.
    #[inline]
    #[track_caller]
    pub const fn at(self, index: u64) -> Addr {
        assert!(index < self.count, "an index beyond its array");
        self.at.plus(8 * index)
    }

    /// The words of `range`.
    pub(crate) fn part(self, range: Range<u64>) -> Words {
        assert!(range.start <= range.end && range.end <= self.count, "{range:?} of {self:?}");
        Words { at: self.at.plus(8 * range.start), count: range.end - range.start }
    }

    #[inline]
    #[track_caller]
    pub(crate) fn get<M: Memory>(self, memory: &M, index: u64) -> u64 {
        memory.load(self.at(index))
    }

    #[inline]
    #[track_caller]
    pub(crate) fn put<M: Memory>(self, memory: &M, index: u64, value: u64) {
        memory.store(self.at(index), value);
    }

    /// Adds with a locked instruction; returns the old value.
    #[inline]
    #[track_caller]
    pub(crate) fn claim<M: Memory>(self, memory: &M, index: u64, by: u64) -> u64 {
        memory.fetch_add(self.at(index), by)
    }

    #[inline]
    #[track_caller]
    pub(crate) fn real<M: Memory>(self, memory: &M, index: u64) -> f64 {
        f64::from_bits(self.get(memory, index))
    }

    #[inline]
    #[track_caller]
    pub(crate) fn put_real<M: Memory>(self, memory: &M, index: u64, value: f64) {
        self.put(memory, index, value.to_bits());
    }

    /// Rejects contents that differ from `expected`, the result of the plain computation.
    pub(crate) fn compare<M: Memory>(
        self,
        memory: &M,
        what: &str,
        expected: impl IntoIterator<Item = u64>,
    ) -> Result<(), Damage> {
        for (index, expected) in (0..self.count).zip(expected) {
            let found = self.get(memory, index);
            if found != expected {
                let text = format!("{what} {index} is {found:#x}, should be {expected:#x}");
                return Err(Damage(text));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_cover_everything_once() {
        for (threads, count) in [(1, 0), (3, 2), (4, 1000), (7, 13)] {
            let input = Input { threads, size: 1, seed: 1 };
            let all: Vec<u64> =
                (0..threads).flat_map(|thread| input.share(thread, count)).collect();
            assert_eq!(all, (0..count).collect::<Vec<_>>());
        }
    }
}
