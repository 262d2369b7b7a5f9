//! A Ribbon in a cell (PACT'20): threads that leave their flushes to flushers on further cores.
//!
//! Its words lie in DRAM behind those of the workload, so the workload's memory is what it is
//! without. Crashes are injected and checked as without: outputs are those of the threads, and
//! recovery knows nothing of a Ribbon. The last thread that is done ends the flushers.

use super::{BYTES_MAX, Point};
use crate::LabError;
use crate::engine::options::named;
use clap::Args;
use clap::builder::TypedValueParser;
use seawall_any::AnyMemory;
use seawall_memory::{Addr, Memory};
use seawall_ribbon::{EarlyStores, Mode, Ribbon, RibbonCounts, RibbonOptions};
use seawall_runtime::Arena;
use seawall_sim::{Machine, Program, SimMemory};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::cell::Cell;
use std::fmt::Write;
use std::rc::Rc;

/// Where threads measure what pays: cycles from one estimate of the number of flushers to the next,
/// and of each of its samples. Simulated runs are short, so this is far below the paper's second.
const PERIOD: u64 = 1_000_000;
const WINDOW: u64 = 50_000;
/// The default number of flushers.
const FLUSHERS: u64 = 4;

/// A Ribbon around the threads of simulated cells.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, Args)]
#[serde(deny_unknown_fields)]
pub struct CellRibbon {
    /// Number of flusher threads, one core each
    #[arg(long, requires = "mode", default_value_t = FLUSHERS, value_name = "N")]
    pub flushers: u64,
    /// Run designs with flushes (clwb) once more, with flushes left to other threads, where that
    /// pays, always, or never (and count)
    #[arg(long = "ribbon", required = false, value_parser = mode_parser(), value_name = "MODE",
          num_args = 0..=1, require_equals = true, default_missing_value = "auto")]
    #[serde(serialize_with = "mode_text", deserialize_with = "mode")]
    pub mode: Mode,
    /// Let them clean lines early, where that pays: all that are stored to, and skip the flush
    /// (hook), or of sampled stores, one in 256 or N, and skip none (samples, samples:N)
    #[arg(long, requires = "mode", default_value = "none", hide_default_value = true,
          value_name = "STORES", num_args = 0..=1, require_equals = true,
          default_missing_value = "hook")]
    #[serde(default, serialize_with = "early_text", deserialize_with = "early")]
    pub early: EarlyStores,
}

pub(crate) fn mode_parser() -> impl TypedValueParser<Value = Mode> {
    named("mode", Mode::ALL, Mode::name)
}

fn mode_text<S: Serializer>(mode: &Mode, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(mode.name())
}

fn mode<'de, D: Deserializer<'de>>(text: D) -> Result<Mode, D::Error> {
    let name = String::deserialize(text)?;
    let known = || Mode::ALL.map(Mode::name).join(", ");
    let found = Mode::ALL.into_iter().find(|mode| mode.name() == name);
    found.ok_or_else(|| serde::de::Error::custom(format!("no mode `{name}`; known: {}", known())))
}

fn early_text<S: Serializer>(early: &EarlyStores, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(early)
}

fn early<'de, D: Deserializer<'de>>(text: D) -> Result<EarlyStores, D::Error> {
    String::deserialize(text)?.parse().map_err(serde::de::Error::custom)
}

impl CellRibbon {
    /// The same for the threads of a [`Point`], or of a program.
    pub fn options(&self) -> RibbonOptions {
        let CellRibbon { flushers, mode, early } = *self;
        let (period, window) = if mode == Mode::Auto { (PERIOD, WINDOW) } else { (0, 0) };
        RibbonOptions { flushers, mode, early, period, window, ..RibbonOptions::default() }
    }
}

/// The options of `seawall compare` that give such a Ribbon, each after a space.
pub(crate) fn command(options: &RibbonOptions) -> String {
    let mut text = format!(" --ribbon={} --flushers {}", options.mode.name(), options.flushers);
    if options.early != EarlyStores::None {
        let _ = write!(text, " --early={}", options.early);
    }
    text
}

/// How the lines were flushed that the threads of a cell asked for.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Flushed {
    /// Per cent that flushers executed.
    pub by_flushers: f64,
    /// Per cent that were known to be clean, and not flushed.
    pub skipped: f64,
    /// Lines that flushers cleaned early, in per cent of those asked for.
    pub cleaned: f64,
}

impl Flushed {
    pub(crate) fn of(cell: &super::Cell) -> Option<Flushed> {
        cell.ribbon.map(Flushed::of_counts)
    }

    pub(crate) fn of_counts(counts: RibbonCounts) -> Flushed {
        let share = |count: u64| 100.0 * count as f64 / counts.asked().max(1) as f64;
        Flushed {
            by_flushers: share(counts.by_flushers),
            skipped: share(counts.skipped),
            cleaned: share(counts.cleaned),
        }
    }
}

/// What is said of a Ribbon below a table: what it is, how lines were flushed in each of these
/// cells, and which designs are without.
pub(crate) fn summary(
    ribbon: &CellRibbon,
    cells: impl Iterator<Item = (String, Flushed)>,
    without: &[String],
) -> String {
    let CellRibbon { flushers, mode, early } = ribbon;
    let where_they_run = match flushers {
        1 => "1 flusher on a core of its own".to_owned(),
        count => format!("{count} flushers on cores of their own"),
    };
    let early = match early {
        EarlyStores::None => String::new(),
        early => format!(", lines cleaned early by {early}"),
    };
    let mut text = format!("ribbon: {}, {where_they_run}{early}\n", mode.name());
    for (cell, Flushed { by_flushers, skipped, cleaned }) in cells {
        let _ = writeln!(
            text,
            "  {cell}: {by_flushers:.0} % of the lines flushed by flushers, {skipped:.0} % \
             skipped, {cleaned:.0} % cleaned early"
        );
    }
    if !without.is_empty() {
        let _ =
            writeln!(text, "  without, as programs flush no lines there: {}", without.join(", "));
    }
    text
}

/// A Ribbon that is placed, and how many threads have left it.
#[derive(Clone)]
pub(super) struct Crew {
    ribbon: Ribbon,
    left: Addr,
    threads: u64,
    /// Set when the last thread leaves.
    counts: Rc<Cell<RibbonCounts>>,
}

/// Refuses a Ribbon that the design of `point` has no use for, or `machine` no cores.
pub(crate) fn check(machine: &Machine, point: &Point) -> Result<(), LabError> {
    let Some(options) = &point.ribbon else { return Ok(()) };
    if !point.design.needs_flushes() {
        return Err(LabError::NothingToFlush { design: point.design.text.clone() });
    }
    let (threads, cores) = (point.threads as u64, machine.core.count as u64);
    if options.flushers > cores.saturating_sub(threads) {
        return Err(LabError::Flushers { threads, flushers: options.flushers, cores });
    }
    Ok(())
}

impl Crew {
    /// Takes DRAM for the Ribbon of `point`, if it has one, behind what `dram` holds.
    pub(super) fn place(point: &Point, dram: &mut Vec<u8>) -> Result<Option<Crew>, LabError> {
        let Some(options) = &point.ribbon else { return Ok(None) };
        let threads = point.threads as u64;
        let mut arena = Arena::new();
        arena.dram(dram.len() as u64);
        let options = RibbonOptions { threads, ..options.clone() };
        let ribbon = Ribbon::place(&mut arena, &options)?;
        let left = arena.dram(8);
        if arena.dram_bytes() > BYTES_MAX {
            return Err(LabError::Option {
                option: "owner_words",
                value: options.owner_words.to_string(),
                valid: format!("fewer: the Ribbon would take more than {BYTES_MAX} bytes"),
            });
        }
        dram.resize(arena.dram_bytes() as usize, 0);
        Ok(Some(Crew { ribbon, left, threads, counts: Rc::default() }))
    }

    /// Runs `work` with the handle of a thread in the Ribbon.
    pub(super) fn run(&self, memory: &SimMemory<'_>, work: impl FnOnce(&AnyMemory<'_, '_>)) {
        let joined = AnyMemory::simulated_ribbon(self.ribbon.join(memory));
        work(&joined);
        drop(joined);
        if memory.fetch_add(self.left, 1) + 1 == self.threads {
            self.counts.set(self.ribbon.counts(memory));
            self.ribbon.close(memory);
        }
    }

    /// The programs of its flushers.
    pub(super) fn flushers(&self) -> impl Iterator<Item = Program> {
        (0..self.ribbon.options().flushers).map(|index| -> Program {
            let ribbon = self.ribbon.clone();
            Box::new(move |memory| ribbon.serve(memory, index))
        })
    }

    pub(super) fn counts(&self) -> RibbonCounts {
        self.counts.get()
    }
}
