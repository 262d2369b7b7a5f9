//! The host's instructions for a simulated reference, which depend on no clock and no neighbour.
//!
//! Valgrind counts those of this program while it runs a point alone, with some references and with
//! three times as many; the difference is free of what a run costs once.

use super::BenchOptions;
use crate::LabError;
use crate::cell::Point;
use seawall_sim::SimError;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// References of the smaller run.
const REFERENCES: u64 = 100_000;

/// What a run of a point alone prints in front of its references.
pub(super) const ALONE: &str = "references";

/// Refuses to begin where nothing can be counted.
///
/// # Errors
/// Without Valgrind.
pub(super) fn check() -> Result<(), LabError> {
    Command::new("valgrind").arg("--version").output().map(drop).map_err(failed)
}

/// Instructions for a reference of `point`.
///
/// # Errors
/// Without Valgrind, or if it fails.
pub(super) fn per_reference(
    point: &Point,
    options: &BenchOptions,
    stop: &Arc<AtomicBool>,
) -> Result<f64, LabError> {
    let few = count(point, options, REFERENCES, stop)?;
    let many = count(point, options, 3 * REFERENCES, stop)?;
    Ok((many.instructions - few.instructions) as f64 / (many.references - few.references) as f64)
}

fn failed(what: impl ToString) -> LabError {
    LabError::Valgrind { what: what.to_string() }
}

/// What Valgrind has seen.
struct Seen {
    references: u64,
    instructions: u64,
}

fn count(
    point: &Point,
    options: &BenchOptions,
    references: u64,
    stop: &Arc<AtomicBool>,
) -> Result<Seen, LabError> {
    let own = std::env::current_exe().map_err(failed)?;
    let mut command = Command::new("valgrind");
    command.args(["--tool=callgrind", "--callgrind-out-file=/dev/null"]).arg(own);
    command.args(["bench", "sim", "--alone", "-w", &point.workload, "-d", &point.design.text]);
    command.args(["--machine", &options.machine, "--cores", &point.threads.to_string()]);
    command.args(["--references", &references.to_string()]);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let child = command.spawn().map_err(failed)?;
    let (out, log) = output(child, stop)?;
    let number = |text: &str, name: &str| {
        let after = text.split(name).nth(1)?;
        after.split_whitespace().find_map(|word| word.parse::<u64>().ok())
    };
    let seen = number(&out, ALONE).zip(number(&log, "Collected :"));
    let (references, instructions) = seen.ok_or_else(|| failed(log.trim()))?;
    Ok(Seen { references, instructions })
}

/// What the child prints, once it has ended; it is killed if a stop is requested.
fn output(mut child: Child, stop: &Arc<AtomicBool>) -> Result<(String, String), LabError> {
    loop {
        let ended = child.try_wait().map_err(failed)?;
        if ended.is_some() {
            break;
        }
        if stop.load(Ordering::Relaxed) {
            let _ = child.kill();
            let _ = child.wait();
            return Err(SimError::Stopped.into());
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    let output = child.wait_with_output().map_err(failed)?;
    let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
    Ok((text(output.stdout), text(output.stderr)))
}
