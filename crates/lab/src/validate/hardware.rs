//! Curves that were measured of real DIMMs, beside what those of a machine file do.
//!
//! What was measured is data, `validation/optane.toml`, with its sources. It is asked of every
//! machine that has such DIMMs. A point holds if it is within the tolerance. A point that is named
//! as a gap there is known not to hold, and is no failure; if it holds after all, the entry is out
//! of date, which is one.

use super::ValidatePoint;
use super::scenes::{Scene, line_at};
use super::traffic::Traffic;
use crate::chart::{Axis, Chart, Series};
use seawall_memory::{Addr, Memory};
use seawall_sim::{Machine, SimError, SimMemory};
use serde::Deserialize;
use std::collections::BTreeMap;

/// The part of these points in the report.
pub(super) const PART: &str = "dimms";

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Data {
    tolerance: f64,
    curve: Vec<Curve>,
    lone: Vec<Lone>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Curve {
    name: String,
    source: String,
    test: Test,
    over: Over,
    dimms: usize,
    region: Option<u64>,
    points: Vec<(f64, f64)>,
    #[serde(default)]
    fixed: Vec<f64>,
    #[serde(default)]
    gap: Vec<Gap>,
}

/// A point that the model misses, and why.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Gap {
    at: f64,
    why: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Test {
    Read,
    Write,
    WriteRatio,
    StoreBandwidth,
    StoreRatio,
    LoadBandwidth,
    Rewrite,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Over {
    Region,
    Block,
    Threads,
    Question,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Lone {
    name: String,
    source: String,
    test: LoneTest,
    hardware: f64,
    #[serde(default)]
    is_fixed: bool,
    gap: Option<String>,
}

#[derive(Clone, Copy, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum LoneTest {
    Flush,
    Stream,
    Load,
    LoadNext,
    LoadDram,
}

/// A curve with what was measured of the model.
struct Measured {
    curve: Curve,
    model: Vec<f64>,
}

/// All that is known of the hardware, and what the machine does.
pub(super) struct Hardware {
    tolerance: f64,
    curves: Vec<Measured>,
    lone: Vec<(Lone, f64)>,
}

fn data() -> Data {
    let text = include_str!("../../../../validation/optane.toml");
    toml::from_str(text).expect("a test reads validation/optane.toml")
}

impl Hardware {
    /// Runs every curve on the DIMMs of `machine`; `None` if it has none.
    pub(super) fn measure(machine: &Machine, seed: u64) -> Result<Option<Hardware>, SimError> {
        if machine.memory.nvm.dimms.is_none() {
            return Ok(None);
        }
        let data = data();
        let model = |curve: &Curve| -> Vec<f64> {
            curve.points.iter().filter_map(|(x, _)| curve.run(machine, *x, seed)).collect()
        };
        let curves = data.curve.into_iter();
        let curves = curves.map(|curve| Measured { model: model(&curve), curve }).collect();
        let lone = data.lone.into_iter();
        let lone = lone.map(|lone| Ok((lone.test.run(machine)?, lone)));
        let lone: Result<Vec<_>, SimError> =
            lone.map(|row| row.map(|(ns, lone)| (lone, ns))).collect();
        Ok(Some(Hardware { tolerance: data.tolerance, curves, lone: lone? }))
    }

    /// Every point of every curve: `expected` is the hardware.
    pub(super) fn points(&self) -> Vec<ValidatePoint> {
        let mut points = Vec::new();
        let mut add = |what: String, source: &str, fixed, gap: Option<&str>, hardware, model| {
            let point = ValidatePoint::new(PART, "hardware", what);
            let from = if fixed { "; a number of the machine file comes from it" } else { "" };
            let point = point.expect(&format!("{source}{from}"), hardware);
            let point = point.found(model, self.tolerance);
            points.push(match gap {
                Some(why) => point.known_gap(why),
                None => point,
            });
        };
        for Measured { curve, model } in &self.curves {
            for ((x, hardware), model) in curve.points.iter().zip(model) {
                let gap = curve.gap.iter().find(|gap| gap.at == *x).map(|gap| &*gap.why);
                let what = format!("{}: {}", curve.name, curve.over.shown(*x));
                add(what, &curve.source, curve.fixed.contains(x), gap, *hardware, *model);
            }
        }
        for (lone, model) in &self.lone {
            let gap = lone.gap.as_deref();
            add(lone.name.clone(), &lone.source, lone.is_fixed, gap, lone.hardware, *model);
        }
        points
    }

    /// A chart for each test over regions, blocks or threads that has more than two points.
    pub(super) fn charts(&self) -> Vec<Chart> {
        let mut by_test: BTreeMap<(Test, &str), Vec<&Measured>> = BTreeMap::new();
        for measured in self.curves.iter().filter(|measured| measured.model.len() > 2) {
            if let Some(words) = measured.curve.over.words() {
                by_test.entry((measured.curve.test, words)).or_default().push(measured);
            }
        }
        by_test.into_iter().map(|((test, over), curves)| chart(test, over, &curves)).collect()
    }
}

fn chart(test: Test, over: &str, curves: &[&Measured]) -> Chart {
    let (file, y) = match test {
        Test::Read => ("read", "ns a load of 64 B"),
        Test::Write => ("write", "ns a store of 64 B"),
        Test::LoadBandwidth | Test::StoreBandwidth => ("bandwidth", "GB/s"),
        Test::StoreRatio | Test::WriteRatio => ("ratio", "bytes stored a byte written"),
        Test::Rewrite => ("rewrite", ""),
    };
    let title = format!("{y}: hardware dashed, model marked");
    let x =
        if over == "threads" { Axis::linear(over) } else { Axis::log(&format!("{over} (KiB)")) };
    let unit = if over == "threads" { 1.0 } else { 1024.0 };
    let mut chart = Chart::new(&format!("dimms-{file}-{over}"), &title, x, Axis::ratio(y));
    for Measured { curve, model } in curves {
        let hardware: Vec<(f64, f64)> = curve.points.iter().map(|(x, y)| (x / unit, *y)).collect();
        let ours = hardware.iter().zip(model).map(|((x, _), y)| (*x, *y)).collect();
        let dimms =
            if curve.dimms == 1 { "one DIMM".into() } else { format!("{} DIMMs", curve.dimms) };
        chart = chart
            .with(Series::formula(&curve.source, hardware))
            .with(Series::measured(&dimms, ours));
    }
    chart
}

impl Over {
    fn words(self) -> Option<&'static str> {
        match self {
            Over::Region => Some("region"),
            Over::Block => Some("block"),
            Over::Threads => Some("threads"),
            Over::Question => None,
        }
    }

    fn shown(self, x: f64) -> String {
        let bytes = |x: f64| match x as u64 {
            x if x >= 1 << 30 => format!("{} GiB", x >> 30),
            x if x >= 1 << 20 => format!("{} MiB", x >> 20),
            x if x >= 1 << 10 => format!("{} KiB", x >> 10),
            x => format!("{x} B"),
        };
        match self {
            Over::Region | Over::Block => bytes(x),
            Over::Threads => format!("{x}"),
            Over::Question => format!("({x})"),
        }
    }
}

impl Curve {
    fn run(&self, machine: &Machine, x: f64, seed: u64) -> Option<f64> {
        let mut traffic = Traffic::new(machine, self.dimms, seed)?;
        let (region, block) = match self.over {
            Over::Block => (self.region.unwrap_or(1 << 30), x as u64),
            _ => (x as u64, 64),
        };
        Some(match self.test {
            Test::Read => traffic.read(region, block),
            Test::Write => traffic.write(region, block),
            Test::WriteRatio => {
                traffic.write(region, block);
                traffic.write_ratio()
            }
            Test::StoreBandwidth => traffic.stream(x as usize, true),
            Test::StoreRatio => {
                traffic.stream(x as usize, true);
                traffic.write_ratio()
            }
            Test::LoadBandwidth => traffic.stream(x as usize, false),
            Test::Rewrite => traffic.rewrite()[(x as usize).clamp(1, 3) - 1],
        })
    }
}

impl LoneTest {
    /// Mean nanoseconds over cores and lines.
    fn run(self, machine: &Machine) -> Result<f64, SimError> {
        let cores = (0..machine.core.count).step_by(machine.core.count.div_ceil(5));
        let places = cores.flat_map(|core| (1..1500).step_by(67).map(move |line| (core, line)));
        let (mut sum, mut count) = (0, 0);
        for (core, line) in places {
            sum += self.cycles(machine, core, line)?;
            count += 1;
        }
        Ok(sum as f64 / f64::from(count) / machine.ghz)
    }

    fn cycles(self, machine: &Machine, core: usize, line: u64) -> Result<u64, SimError> {
        let scene = Scene::lone(machine, "clwb:adr=true").cold();
        let (at, far, next) = (line_at(line), line_at(line ^ 8), line_at(line ^ 1));
        let second = move |memory: &SimMemory, other: Addr| {
            memory.load::<u64>(at);
            memory.drain();
            memory.output(1);
            memory.load::<u64>(other);
            memory.output(2);
        };
        let program = move |memory: &SimMemory| match self {
            LoneTest::Flush => {
                memory.store(at, 1u64);
                memory.load::<u64>(at);
                memory.work(16_000);
                memory.output(1);
                memory.persist(at, 8);
                memory.output(2);
            }
            LoneTest::Stream => {
                memory.output(1);
                memory.write_nt(at, &[1; 64]);
                memory.drain();
                memory.output(2);
            }
            LoneTest::Load => second(memory, far),
            LoneTest::LoadNext => second(memory, next),
            LoneTest::LoadDram => {
                memory.output(1);
                memory.load::<u64>(Addr::dram(line % 900 * 64));
                memory.output(2);
            }
        };
        scene.between(core, vec![(core, Box::new(program))])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::validate::ValidateReport;

    fn report(machine: &Machine) -> ValidateReport {
        let hardware = Hardware::measure(machine, 1).unwrap().unwrap();
        let (points, charts) = (hardware.points(), hardware.charts());
        ValidateReport { machine: "optane24".into(), points, charts }
    }

    #[test]
    fn every_point_is_as_the_hardware_or_a_known_gap() {
        let report = report(&Machine::load("optane24").unwrap());
        assert_eq!(report.failures(), 0, "{report}");
        assert!(report.charts.len() >= 4);
    }
}
