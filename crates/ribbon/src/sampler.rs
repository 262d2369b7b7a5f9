//! Stores sampled as a processor's counters sample them: the source of early cleaning that Ribbon
//! has (PACT'20, "proactive flushing"), over any `Memory`, so that simulated machines have it too.
//!
//! A counter of the thread's retired stores overflows once per period; microcode then writes
//! a record with the address of the store, for which the thread waits ([`RECORD_WORK`]). Records go
//! to flusher 0 by the ring that the hook uses, a few at a time, and it cleans their lines. A ring
//! that is full loses records, as such a buffer does. Nothing else costs the thread
//! time: the counter counts, and the reader of the records sorts them. Disabled, the
//! counter costs nothing either.
//!
//! **It needs no proof.** Any line may be written back at any time, and no flush of
//! the program is left out. So there are no owner words, and no rules.
//!
//! **The period** varies from half to one and a half of what was asked for, as users of such
//! counters let it: otherwise a loop whose stores it divides would show the same few of them for
//! ever. It follows from the thread's number alone, so runs repeat. A loop that writes bytes counts
//! a store for each 8 of them.
//!
//! **Backing off.** A line that is sampled again before the thread has fenced anything was cleaned
//! in vain, and is left out the next 2, 4, 8, ... times. Records of a line that the flusher has not
//! been shown yet are one.

use super::Fifo;
use super::backoff::Backoff;
use super::ring::EarlyRing;
use seawall_memory::{Addr, Line, Memory};

/// Instructions that a sample takes the time of: 250 ns at 2.2 GHz and four a cycle, 275 at 2.0.
///
/// A PEBS record takes the program 200 to 300 ns ("Quantitative Evaluation of Intel PEBS Overhead
/// for Online System-Noise Analysis", Akiyama and Hirofuchi, ROSS'17).
const RECORD_WORK: u32 = 2200;

/// Bytes of a store.
const STORE_BYTES: u64 = 8;
/// Lines that something is known of; another one with the same low bits drives a line out.
const ENTRIES: u64 = 4096;

#[derive(Clone, Copy, Debug)]
struct Entry {
    line: Line,
    /// The last request to clean it, from 1.
    request: u64,
    /// The fence before that.
    fence: u64,
    backoff: Backoff,
}

/// A thread's counter, and what is known of the lines that it has shown.
#[derive(Debug)]
pub(super) struct Sampler {
    every: u64,
    /// Stores up to the one that is sampled next.
    left: u64,
    random: u64,
    entries: Box<[Entry]>,
    ring: EarlyRing,
    pub(super) in_vain: u64,
}

impl Sampler {
    pub(super) fn new<M: Memory>(memory: &M, fifo: Fifo, every: u32) -> Sampler {
        let (line, backoff) = (Line(u64::MAX), Backoff::default());
        let entry = Entry { line, request: 0, fence: 0, backoff };
        let mut sampler = Sampler {
            every: every.into(),
            left: 0,
            random: memory.thread() as u64,
            entries: vec![entry; ENTRIES as usize].into_boxed_slice(),
            ring: EarlyRing::new(memory, fifo),
            in_vain: 0,
        };
        sampler.left = sampler.period();
        sampler
    }

    /// The next period: from half to one and a half of the mean, by Knuth's linear congruences, of
    /// which only the upper bits are used.
    fn period(&mut self) -> u64 {
        let next = self.random.wrapping_mul(6_364_136_223_846_793_005);
        self.random = next.wrapping_add(1_442_695_040_888_963_407);
        let least = self.every - self.every / 2;
        least + (self.random >> 32) * (2 * (self.every / 2) + 1) / (1 << 32)
    }

    /// The thread has stored to these bytes, after `fences` fences. True if the flusher gets new
    /// requests, which it does when there are `chunk` of them.
    pub(super) fn stored<M: Memory>(
        &mut self,
        memory: &M,
        (at, len): (Addr, u64),
        fences: u64,
        chunk: u64,
    ) -> bool {
        let (stores, mut counted) = (len.div_ceil(STORE_BYTES), 0);
        while self.left <= stores - counted {
            counted += self.left;
            self.left = self.period();
            memory.work(RECORD_WORK);
            let line = at.plus((counted - 1) * STORE_BYTES).line();
            self.sampled(memory, line, fences);
        }
        self.left -= stores - counted;
        self.ring.show(memory, chunk)
    }

    fn sampled<M: Memory>(&mut self, memory: &M, line: Line, fences: u64) {
        let is_full = self.ring.is_full(memory);
        let entry = &mut self.entries[(line.0 % ENTRIES) as usize];
        if entry.line != line {
            *entry = Entry { line, request: 0, fence: fences, backoff: Backoff::default() };
        }
        if !self.ring.has_shown(entry.request) {
            return;
        }
        if entry.request > 0 {
            let is_in_vain = entry.fence == fences;
            entry.request = 0;
            if is_in_vain {
                entry.backoff.was_in_vain();
                self.in_vain += 1;
            } else {
                entry.backoff.has_paid();
            }
        }
        if entry.backoff.leaves_out() || is_full {
            return;
        }
        (entry.request, entry.fence) = (self.ring.push(memory, line), fences);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Ribbon, RibbonOptions};
    use seawall_memory::Image;
    use seawall_runtime::Arena;

    fn periods(every: u32) -> Vec<u64> {
        let mut arena = Arena::new();
        let ribbon = Ribbon::place(&mut arena, &RibbonOptions::default()).unwrap();
        let image = Image::new(arena.pm_bytes(), arena.dram_bytes());
        let mut sampler = Sampler::new(&image, ribbon.fifo(0), every);
        (0..10_000).map(|_| sampler.period()).collect()
    }

    #[test]
    fn periods_lie_around_what_was_asked_for_in_no_order() {
        for (every, least, most) in [(1, 1, 1), (2, 1, 3), (5, 3, 7), (64, 32, 96)] {
            let periods = periods(every);
            assert!(periods.iter().all(|period| (least..=most).contains(period)), "{every}");
            let mean = periods.iter().sum::<u64>() as f64 / periods.len() as f64;
            assert!((mean / f64::from(every) - 1.0).abs() < 0.02, "{every}: {mean}");
            let rises = periods.windows(2).filter(|pair| pair[1] > pair[0]).count();
            assert!(every == 1 || (2000..6000).contains(&rises), "{every}: {rises}");
        }
    }
}
