//! Parallel kernels that survive crashes by checkpoints, as Ribbon's parallel programs do
//! (PACT'20). Any kernel with phases can be one.
//!
//! The kernel itself contains no persistency calls. After each of its phases the threads meet, and
//! update a copy of all its memory: each compares its share of the lines with the copy, writes
//! those that differ, flushes them and drains. When all have finished, one thread commits the
//! checkpoint by a word. There are two copies, written in turn, so the last complete one is never
//! modified. The kernel's own memory is not flushed and is ignored after a crash:
//! [`recover`](Checkpointed::recover) restores it from the copy, and [`run`](Kernel::run) continues
//! with the phase after it.

use crate::kernels::sync::Team;
use crate::{Damage, Flaw, Input, Kernel, Mix, Words};
use seawall_memory::{Addr, LINE_BYTES, Memory, MemoryExt};
use seawall_runtime::Arena;
use std::ops::RangeInclusive;

/// A kernel that runs in phases; between two phases its whole state is in its memory.
pub trait Phased: Kernel {
    /// Its name with checkpoints.
    const CHECKPOINTED: &'static str;
    /// What it does with checkpoints, in one line.
    const ABOUT_CHECKPOINTED: &'static str;

    /// The number of phases, at least 1.
    fn phases(&self) -> u64;

    /// Runs the calling thread's part of a phase, when all threads have run the phases before.
    fn phase<M: Memory>(&self, memory: &M, number: u64);
}

/// A kernel with checkpoints.
#[derive(Clone, Copy, Debug)]
pub struct Checkpointed<K> {
    kernel: K,
    /// The kernel's memory, and the copies of it.
    memory: Addr,
    copies: [Addr; 2],
    lines: u64,
    /// One more than the number of phases in the last complete checkpoint, which is in the copy of
    /// this number modulo 2; 0 if there is none.
    commit: Addr,
    team: Team,
    flaw: Flaw,
}

impl<K: Phased> Checkpointed<K> {
    /// The kernel with a planted bug: [`Flaw::NoFlush`] leaves a copy unflushed, [`Flaw::NoOrder`]
    /// does not wait for it before the commit.
    #[must_use]
    pub fn with_flaw(self, flaw: Flaw) -> Checkpointed<K> {
        Checkpointed { flaw, ..self }
    }

    /// After a crash, on one thread: restores the kernel's memory from the last complete
    /// checkpoint; returns the number of phases in it. The restored memory need not be durable.
    ///
    /// # Errors
    /// If there was no checkpoint.
    pub fn recover<M: Memory>(&self, memory: &M) -> Result<u64, Damage> {
        let commit = memory.load::<u64>(self.commit);
        if !(1..=self.kernel.phases() + 1).contains(&commit) {
            return Err(Damage(format!("{commit} is the number of no checkpoint")));
        }
        self.team.reset(memory);
        let copy = self.copies[commit as usize % 2];
        for line in 0..self.lines {
            self.update(memory, (copy, self.memory), line);
        }
        Ok(commit - 1)
    }

    /// Copies a line of `from` to `to`; returns false if they were equal.
    fn update<M: Memory>(&self, memory: &M, (from, to): (Addr, Addr), line: u64) -> bool {
        let [from, to] = [from, to].map(|start| start.plus(line * LINE_BYTES));
        let words = memory.load_line(from);
        let is_new = words != memory.load_line(to);
        if is_new {
            for (at, word) in (0..).zip(words) {
                memory.store(to.plus(8 * at), word);
            }
        }
        is_new
    }

    /// Makes the state after `phases` phases durable; all threads take part.
    fn checkpoint<M: Memory>(&self, memory: &M, phases: u64) {
        self.team.meet(memory);
        self.copy(memory, phases, self.team.share(memory, self.lines));
        self.team.meet(memory);
        if memory.thread() == 0 {
            self.commit(memory, phases);
        }
        self.team.meet(memory);
    }

    fn copy<M: Memory>(&self, memory: &M, phases: u64, lines: std::ops::Range<u64>) {
        let copy = self.copies[(phases + 1) as usize % 2];
        for line in lines {
            if self.update(memory, (self.memory, copy), line) && self.flaw != Flaw::NoFlush {
                memory.flush(copy.plus(line * LINE_BYTES), LINE_BYTES);
            }
        }
        if self.flaw != Flaw::NoOrder {
            memory.drain();
        }
    }

    fn commit<M: Memory>(&self, memory: &M, phases: u64) {
        memory.store(self.commit, phases + 1);
        memory.persist(self.commit, 8);
        memory.output(phases);
    }
}

impl<K: Phased> Kernel for Checkpointed<K> {
    const NAME: &'static str = K::CHECKPOINTED;
    const ABOUT: &'static str = K::ABOUT_CHECKPOINTED;
    const UNIT: &'static str = K::UNIT;
    const SIZE: u64 = K::SIZE;
    const QUICK: u64 = K::QUICK;
    const SMALL: u64 = K::SMALL;
    const SIZES: RangeInclusive<u64> = K::SIZES;
    /// The kernel's own mix, without the checkpoints.
    const MIX: Mix = K::MIX;

    fn place(input: &Input, arena: &mut Arena) -> Checkpointed<K> {
        let memory = arena.pm(0);
        let kernel = K::place(input, arena);
        let lines = (arena.pm_bytes() - memory.offset()) / LINE_BYTES;
        let copies = [arena.pm(lines * LINE_BYTES), arena.pm(lines * LINE_BYTES)];
        let commit = arena.pm(LINE_BYTES);
        let team = Team::place(input, arena, 1);
        Checkpointed { kernel, memory, copies, lines, commit, team, flaw: Flaw::None }
    }

    /// The input is the first checkpoint.
    fn fill<M: Memory>(&self, memory: &M) {
        self.kernel.fill(memory);
        self.copy(memory, 0, 0..self.lines);
        memory.store(self.commit, 1u64);
        memory.persist(self.commit, 8);
    }

    /// Runs the phases after the last checkpoint.
    fn run<M: Memory>(&self, memory: &M) {
        let done = memory.load::<u64>(self.commit).saturating_sub(1);
        for number in done..self.kernel.phases() {
            self.kernel.phase(memory, number);
            self.checkpoint(memory, number + 1);
        }
        self.team.meet(memory);
    }

    fn check<M: Memory>(&self, memory: &M) -> Result<(), Damage> {
        self.kernel.check(memory)
    }

    fn results(&self) -> Vec<Words> {
        self.kernel.results()
    }
}
