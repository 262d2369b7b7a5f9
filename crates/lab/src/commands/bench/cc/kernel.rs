//! The kernels of the bench: parallel programs without a persistency call, all of whose memory is
//! persistent under a design, as in `seawall kernels --program`.
//!
//! Their threads do all of the work, so that a run on many threads is one from its start to its
//! end. The whole of it is measured.

use super::CcBenchOptions;
use super::workshop::{Built, Workshop};
use crate::LabError;
use seawall_program::{
    FILES, Fences, From, Judge, Limit, NativeRun, Persistent, ProgramError, Ran, Request, Run,
    Start, run_natively,
};
use seawall_sim::Cycle;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Seconds that a simulated run may take.
const SECONDS: u64 = 3600;

/// A program whose size gives the length of its run.
#[derive(Debug)]
pub(super) struct Kernel {
    pub(super) name: &'static str,
    pub(super) source: &'static str,
    /// The size with about so many references.
    size: fn(u64) -> u64,
    /// The size that runs natively about as long as so many references are simulated.
    native_size: fn(u64) -> u64,
}

/// References for each key, in all passes together.
const A_KEY: u64 = 45;
/// References for each point of the grid, in all steps together.
const A_POINT: u64 = 115;

pub(super) static KERNELS: [Kernel; 2] = [
    Kernel {
        name: "radix",
        source: include_str!("../programs/radix.c"),
        size: |references| (references / A_KEY).clamp(64, 1 << 27),
        native_size: |references| (2 * references).clamp(64, 1 << 24),
    },
    Kernel {
        name: "stencil",
        source: include_str!("../programs/stencil.c"),
        size: |references| (references / A_POINT).isqrt().clamp(8, 1 << 13),
        native_size: |references| references.isqrt().clamp(8, 1 << 12),
    },
];

impl Kernel {
    /// One run on the machine, from the start to the end.
    pub(super) fn simulate(
        &self,
        workshop: &Workshop,
        built: &Built,
        threads: usize,
        options: &CcBenchOptions,
        limit: &Limit,
    ) -> Result<Ran, LabError> {
        let request = Request {
            start: Start {
                image: built.image.clone(),
                entry: None,
                words: self.words(threads, (self.size)(options.references)),
            },
            machine: options.machine.clone(),
            design: options.design.clone(),
            ribbon: None,
            persistent: Persistent::All,
            fences: Fences::Order,
            from: From::Start,
            crashes: Vec::new(),
            judge: Judge::Nobody,
            folder: workshop.new_folder()?,
            cycles_max: Cycle::MAX,
            has_profile: false,
            has_detail: false,
            timeline: None,
        };
        let run = Run { request, server: workshop.server(), input: None, seconds: SECONDS };
        let ran = seawall_program::run(&run, limit)?;
        match ran.exit_code {
            0 => Ok(ran),
            code => Err(ProgramError::Failed {
                program: format!("{} on {threads} threads", self.name),
                what: format!("returned {code} under {}", options.design),
                places: Vec::new(),
            }
            .into()),
        }
    }

    fn words(&self, threads: usize, size: u64) -> Vec<String> {
        vec![self.name.into(), format!("-p{threads}"), format!("-n{size}")]
    }

    /// Processor times of two binaries that run in turn on one thread, each as often first.
    pub(super) fn paired(
        &self,
        workshop: &Workshop,
        binaries: &[&PathBuf; 2],
        pairs: usize,
        references: u64,
        limit: &Limit,
    ) -> Result<Vec<[Duration; 2]>, LabError> {
        let words = self.words(1, (self.native_size)(references));
        let time = |which: usize| self.native(workshop, binaries[which], &words[1..], limit);
        // The first run of a file also reads it.
        time(0)?;
        time(1)?;
        let mut times = Vec::new();
        for pair in 0..pairs {
            let first = pair % 2;
            let (one, other) = (time(first)?, time(1 - first)?);
            times.push(if first == 0 { [one, other] } else { [other, one] });
        }
        Ok(times)
    }

    /// The processor time of a native run, which it prints.
    fn native(
        &self,
        workshop: &Workshop,
        binary: &Path,
        words: &[String],
        limit: &Limit,
    ) -> Result<Duration, LabError> {
        let program = format!("{}, a program of the bench,", self.name);
        let (path, words) = (binary.to_owned(), words.to_vec());
        let (folder, seconds) = (workshop.new_folder()?, SECONDS);
        let files = folder.join(FILES);
        let run = NativeRun { program, path, words, input: None, folder, files, seconds };
        let code = run_natively(&run, limit)?;
        let said = fs::read_to_string(run.folder.join("stdout")).unwrap_or_default();
        let spent = said.lines().find_map(|line| line.strip_prefix("nanoseconds ")?.parse().ok());
        match spent.filter(|_| code == 0) {
            Some(spent) => Ok(Duration::from_nanos(spent)),
            None => {
                let (program, what) = (run.program, format!("returned {code} natively"));
                Err(ProgramError::Failed { program, what, places: Vec::new() }.into())
            }
        }
    }
}
