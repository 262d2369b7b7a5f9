//! Crashes of the parallel kernels under buffered strict persistency: each must leave a consistent
//! cut of the run.
//!
//! The programs say nothing about persistency, their locks and barriers are in persistent memory,
//! and the hardware cuts them where it likes (MICRO'15, section 5.2). The saved states of the
//! processors say where each program goes on; the recording is replayed to there, and the image of
//! the crash must be what the replay leaves.

use crate::LabError;
use crate::cell::crash::Broken;
use crate::commands::kernels::point::{KernelPoint, simulate};
use crate::engine::timeline::Recorded;
use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use seawall_sim::{Machine, Recording};
use seawall_workloads::{Kernel, KernelVisitor, with_kernel};
use std::cell::RefCell;
use std::collections::BTreeSet;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// A crash comes up to this many cycles after the store that it is attached to: long enough for
/// every step by which an epoch becomes durable.
const DELAY_CYCLES_MAX: u64 = 20_000;

/// Separates the crash points from everything else that a seed decides.
const CRASH_STREAM: u64 = 0x6b65_726e_656c_2121;

/// What crashes of a kernel left.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cuts {
    /// The size that was crashed.
    pub size: u64,
    pub crashes: u64,
    /// Stores that all cuts had in them, all together: 0 if nothing was durable in any crash.
    pub stores_in_cuts: u64,
    /// The crashes that left no consistent cut.
    pub broken: Vec<Broken>,
}

/// Runs `point` twice, the second time with crashes, each after a random store of the run.
///
/// What a design leaves that does not save the states of its processors
/// ([`promises_cuts`](seawall_sim::Choice::promises_cuts)) cannot be judged, and is broken.
///
/// # Errors
/// As [`run_kernel`](crate::run_kernel).
pub fn crash_kernel(
    machine: &Machine,
    point: &KernelPoint,
    crashes: u64,
    stop: &Arc<AtomicBool>,
) -> Result<Cuts, LabError> {
    let stores = crate::run_kernel(machine, point, stop)?.counters.written();
    crash_after(machine, point, stores, crashes, stop)
}

/// The same for a run that is known to have this number of `stores`.
pub(crate) fn crash_after(
    machine: &Machine,
    point: &KernelPoint,
    stores: u64,
    crashes: u64,
    stop: &Arc<AtomicBool>,
) -> Result<Cuts, LabError> {
    with_kernel(&point.kernel, Crashed { machine, point, stores, crashes, stop })?
}

struct Crashed<'a> {
    machine: &'a Machine,
    point: &'a KernelPoint,
    stores: u64,
    crashes: u64,
    stop: &'a Arc<AtomicBool>,
}

impl Crashed<'_> {
    /// Distinct stores, spread over the whole run, each with its delay.
    fn points(&self) -> Vec<(u64, u64)> {
        let mut rng = Xoshiro256PlusPlus::seed_from_u64(self.point.seed ^ CRASH_STREAM);
        let mut stores = BTreeSet::new();
        while (stores.len() as u64) < self.crashes.min(self.stores) {
            stores.insert(rng.random_range(1..=self.stores));
        }
        stores.into_iter().map(|n| (n, rng.random_range(0..=DELAY_CYCLES_MAX))).collect()
    }
}

impl KernelVisitor for Crashed<'_> {
    type Output = Result<Cuts, LabError>;

    fn visit<K: Kernel>(self) -> Self::Output {
        let mut watching = None;
        let simulated =
            simulate::<K>(self.machine, self.point, Recorded::default(), self.stop, |pm| {
                let recording = Recording::at(pm.to_vec(), self.point.threads, self.points());
                let recording = Rc::new(RefCell::new(recording));
                watching = Some(recording.clone());
                Some(recording)
            })?;
        let recording = watching.expect("a simulation asks who watches");
        let recording = recording.borrow();
        let broken = recording.broken().iter();
        Ok(Cuts {
            size: simulated.input.size,
            crashes: recording.crashes(),
            stores_in_cuts: recording.stores_in_cuts(),
            broken: broken
                .map(|(cycle, what)| Broken { cycle: *cycle, what: what.clone() })
                .collect(),
        })
    }
}
