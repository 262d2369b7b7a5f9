//! What Ribbon costs and gains on this machine, against the same program without it, in one run.
//!
//! `cargo bench -p seawall-runtime`. Each row runs a program on the machine's memory as it is and
//! through a Ribbon in turn, pass by pass, and prints the median time of a line of each, the median
//! and the quartiles of the ratios of the pairs, and the ratio of the tenth-best passes, which on a
//! busy machine says more: below 1.00 Ribbon is faster. One application thread, one flusher. Files
//! are in the folder for temporary files (`TMPDIR`); on a tmpfs the lines end in DRAM, which is not
//! what Ribbon was made for.

use seawall_memory::{Addr, Memory, MemoryExt};
use seawall_native::{Pool, PoolOptions};
use seawall_ribbon::threads::with_flushers;
use seawall_ribbon::{EarlyStores, Mode, Ribbon, RibbonOptions};
use seawall_runtime::Arena;
use std::hint::black_box;
use std::time::Instant;

const PASSES: usize = 101;
/// Lines of a pass, about.
const LINES: u64 = 1 << 14;
const DATA_LINES: u64 = 4096;

/// A program: groups of lines, each made durable as a whole.
#[derive(Clone, Copy)]
struct Program {
    name: &'static str,
    group: u64,
    /// Flushes at the end of the group, not after each line.
    late: bool,
    /// Steps of arithmetic for each line.
    work: u64,
}

impl Program {
    /// Nanoseconds of a line.
    fn time(self, memory: &impl Memory, data: Addr) -> f64 {
        let groups = (LINES / self.group).max(1);
        let start = Instant::now();
        for group in 0..groups {
            let first = group * self.group % (DATA_LINES - self.group + 1);
            for line in first..first + self.group {
                let at = data.plus(64 * line);
                memory.store(at, group);
                let worked = (0..self.work).fold(line, |sum, step| black_box(sum ^ step));
                memory.store(at.plus(8), worked);
                if !self.late {
                    memory.flush(at, 16);
                }
            }
            if self.late {
                memory.flush(data.plus(64 * first), 64 * self.group);
            }
            memory.drain();
        }
        start.elapsed().as_secs_f64() * 1e9 / (groups * self.group) as f64
    }

    fn row(self, kind: &str, mode: Mode, early: EarlyStores) {
        let options = RibbonOptions { mode, early, ..RibbonOptions::for_processors(1, 1) };
        let mut arena = Arena::new();
        let ribbon = Ribbon::place(&mut arena, &options).expect("good options");
        let data = arena.pm(DATA_LINES * 64);
        let places = PoolOptions { dram_bytes: arena.dram_bytes(), ..PoolOptions::default() };
        let pool = Pool::temporary(arena.pm_bytes(), &places).expect("there is room");
        let times: Vec<(f64, f64)> = with_flushers(
            &ribbon,
            |thread| pool.memory(thread),
            |crew| {
                let plain = pool.memory(0);
                let below = pool.memory(0);
                let through = crew.join(&below);
                let pass = |_| (self.time(&plain, data), self.time(&through, data));
                (0..PASSES + 4).map(pass).skip(4).collect()
            },
        );
        let counts = ribbon.counts(&pool.memory(0));
        let all = (counts.pushed + counts.inline + counts.full + counts.skipped).max(1);
        let part = |lines: u64| 100 * lines / all;
        let tenth = |mut times: Vec<f64>| {
            times.sort_by(f64::total_cmp);
            times[times.len() / 10]
        };
        let best = tenth(times.iter().map(|time| time.1).collect())
            / tenth(times.iter().map(|time| time.0).collect());
        let ratios = quartiles(times.iter().map(|(plain, through)| through / plain).collect());
        println!(
            "{:34} {kind:8} {:8.1} {:8.1}   {:.3} ({:.3} to {:.3})  {best:.3}  {:3}% {:3}% {:3}%",
            self.name,
            quartiles(times.iter().map(|time| time.0).collect())[1],
            quartiles(times.iter().map(|time| time.1).collect())[1],
            ratios[1],
            ratios[0],
            ratios[2],
            part(counts.by_flushers),
            part(counts.by_owners),
            part(counts.skipped),
        );
    }
}

fn quartiles(mut values: Vec<f64>) -> [f64; 3] {
    values.sort_by(f64::total_cmp);
    [1, 2, 3].map(|quarter| values[quarter * (values.len() - 1) / 4])
}

fn main() {
    println!(
        "{:34} {:8} {:>8} {:>8}   {:24} best   lines by flushers, at fences, skipped",
        "lines a fence", "Ribbon", "without", "with", "ratio, quartiles"
    );
    let program = |name, group, late, work| Program { name, group, late, work };
    for program in [
        program("1", 1, false, 0),
        program("4", 4, false, 0),
        program("64", 64, false, 0),
        program("64, with work", 64, false, 200),
        program("1024", 1024, false, 0),
        program("1024, with work", 1024, false, 200),
    ] {
        program.row("auto", Mode::Auto, EarlyStores::None);
        program.row("+ early", Mode::Auto, EarlyStores::Hook);
        program.row("always", Mode::Always, EarlyStores::None);
    }
    for program in [
        program("64, flushed late, with work", 64, true, 200),
        program("1024, flushed late, with work", 1024, true, 200),
    ] {
        program.row("auto", Mode::Auto, EarlyStores::None);
        program.row("+ early", Mode::Auto, EarlyStores::Hook);
        program.row("early", Mode::Never, EarlyStores::Hook);
    }
}
