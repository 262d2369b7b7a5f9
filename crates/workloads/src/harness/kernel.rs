//! What a kernel is: a parallel program on ordinary loads and stores, with no persistency call.
//!
//! The second half of "Efficient Persist Barriers for Multicores" (Joshi et al., MICRO'15, sections
//! 5.2 and 7.2) runs programs that were never written for persistent memory: hardware cuts them
//! into epochs. So a kernel never flushes, orders or drains, and nothing in it recovers.
//!
//! **Where its data lives.** All of memory is NVM in that machine: whatever the program in C would
//! keep on its heap or in globals is in the pool, arrays of one thread and words of locks and
//! barriers included. What a compiler would keep in registers or on the stack is a local of Rust,
//! which no machine sees. The [`Mix`] of a kernel says what the program in C executes beside its
//! heap accesses; [`Stacks`] add it to a run.
//!
//! Every kernel checks its result against a plain computation on one thread, on vectors of the host
//! and made from the same seed. The result holds under any schedule; where what a program finds
//! depends on the schedule, the head of its file says what is compared.

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
    /// Hardware threads that will run it, 1 to 1024.
    pub threads: usize,
    /// The amount of work, in the kernel's own [unit](Kernel::UNIT).
    pub size: u64,
    /// Seed of the input.
    pub seed: u64,
}

impl Input {
    /// The kernel's own size for `threads` threads, seed 1.
    pub fn of<K: Kernel>(threads: usize) -> Input {
        Input { threads, size: K::SIZE, seed: 1 }
    }

    /// Refuses numbers that `K` cannot run with; its other functions rely on it.
    ///
    /// # Errors
    /// The number, and what it may be.
    pub fn check<K: Kernel>(&self) -> Result<(), BadSetup> {
        BadSetup::find(&[
            ("threads", self.threads as u64, 1, crate::harness::workload::THREADS_MAX),
            ("size", self.size, *K::SIZES.start(), *K::SIZES.end()),
        ])
    }

    /// Generator `index` of the seed.
    pub(crate) fn stream(&self, index: u64) -> Xoshiro256PlusPlus {
        stream(self.seed, index)
    }

    /// The part of `count` things that is `thread`'s: contiguous, equal but for one.
    pub(crate) fn share(&self, thread: usize, count: u64) -> Range<u64> {
        let (thread, threads) = (thread as u64, self.threads as u64);
        count * thread / threads..count * (thread + 1) / threads
    }
}

/// A parallel program above the seam.
///
/// The value itself is only a handful of addresses and sizes, the same for every thread.
pub trait Kernel: Clone + Send + Sync + 'static {
    /// Its name.
    const NAME: &'static str;
    /// What it does, in one line.
    const ABOUT: &'static str;
    /// What [`Input::size`] counts.
    const UNIT: &'static str;
    /// The size that exercises a shared cache of tens of megabytes on 32 cores.
    const SIZE: u64;
    /// A size for a quick look, done in a second or two of the host.
    const QUICK: u64;
    /// A size that is done in moments, for tests.
    const SMALL: u64;
    /// The sizes that it can run with.
    const SIZES: RangeInclusive<u64>;
    /// What the program whose pattern it has executes beside its heap accesses, as measured.
    const MIX: Mix;

    /// Places everything that the program uses.
    fn place(input: &Input, arena: &mut Arena) -> Self;

    /// Writes the input into zeroed memory, on one thread, untimed.
    fn fill<M: Memory>(&self, memory: &M);

    /// Runs the part of thread [`memory.thread()`](Memory::thread) to its end. All threads of the
    /// input must run it, at the same time: they wait for each other.
    fn run<M: Memory>(&self, memory: &M);

    /// Compares the result with that of a plain sequential computation.
    ///
    /// # Errors
    /// What differs. It never panics or loops, whatever the [results](Kernel::results) hold.
    fn check<M: Memory>(&self, memory: &M) -> Result<(), Damage>;

    /// Words that [`check`](Kernel::check) compares one by one: after a run, it refuses a change of
    /// any. It may look at more, such as links.
    fn results(&self) -> Vec<Words>;

    /// Memory needed for `input`.
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

    /// How many there are.
    pub const fn count(self) -> u64 {
        self.count
    }

    /// Where word `index` is.
    ///
    /// # Panics
    /// When there is no such word.
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

    /// Adds with a locked instruction; returns what was there.
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

    /// Refuses contents that differ from `expected`, the plain computation's.
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
