//! Curves measured on real DIMMs, compared with those of a machine file.
//!
//! The measurements are data, `optane.toml` beside this file, with their sources. Every machine
//! with such DIMMs is compared with them. A point holds if it is within the tolerance. A point that
//! is listed there as a gap is known not to hold, and is no failure; if it holds nevertheless, the
//! entry is out of date, which is a failure.

use super::plot::{Plot, PlotAxis, PlotCurve};
use super::point::ValidationPoint;
use super::scenes::{Scene, line_at};
use super::traffic::Traffic;
use crate::{Machine, SimError, SimMemory};
use seawall_memory::{Addr, Memory, MemoryExt};
use serde::Deserialize;
use std::collections::BTreeMap;

/// The numbers of threads at which the bandwidth is drawn.
const THREADS: [usize; 10] = [1, 2, 3, 4, 6, 8, 12, 17, 20, 24];
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

/// A curve with the model's measurements.
struct Measured {
    curve: Curve,
    model: Vec<f64>,
}

/// The bandwidth of the model by number of threads.
struct Threads {
    dimms: usize,
    stores: bool,
    gbs: Vec<(f64, f64)>,
}

/// All hardware curves, with the machine's measurements.
pub(super) struct Hardware {
    tolerance: f64,
    threads: Vec<Threads>,
    curves: Vec<Measured>,
    lone: Vec<(Lone, f64)>,
}

fn data() -> Data {
    let text = include_str!("optane.toml");
    toml::from_str(text).expect("a test reads optane.toml")
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
        let threads = [(1, true), (6, true), (1, false), (6, false)];
        let threads = threads.map(|(dimms, stores)| Threads::measure(machine, dimms, stores, seed));
        let (tolerance, threads) = (data.tolerance, threads.into());
        Ok(Some(Hardware { tolerance, threads, curves, lone: lone? }))
    }

    /// Every point of every curve; `expected` is the hardware's value.
    pub(super) fn points(&self) -> Vec<ValidationPoint> {
        let mut points = Vec::new();
        let mut add = |what: String, source: &str, fixed, gap: Option<&str>, hardware, model| {
            let point = ValidationPoint::new(PART, "hardware", what);
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
        points.extend(self.threads.iter().filter_map(Threads::shape));
        points
    }

    /// A plot for each test over regions or blocks, and one of all bandwidths over threads.
    pub(super) fn plots(&self) -> Vec<Plot> {
        let mut by_test: BTreeMap<(Test, &str), Vec<&Measured>> = BTreeMap::new();
        let is_curve = |of: &&Measured| matches!(of.curve.test, Test::Read | Test::Write);
        for measured in self.curves.iter().filter(is_curve) {
            if let Some(words) = measured.curve.over.words() {
                by_test.entry((measured.curve.test, words)).or_default().push(measured);
            }
        }
        let plots = by_test.into_iter().map(|((test, over), curves)| plot(test, over, &curves));
        plots.chain([self.threads_plot()]).collect()
    }

    fn threads_plot(&self) -> Plot {
        let title = "Threads from end to end; dashed: the most of the hardware";
        let (x, y) = (PlotAxis::linear("threads"), PlotAxis::linear("GB/s"));
        let mut plot = Plot::new("dimms-bandwidth", title, x, y);
        for curve in &self.threads {
            plot = plot.with(PlotCurve::measured(&curve.name(), curve.gbs.clone()));
        }
        let ends = |most: f64| vec![(1.0, most), (*THREADS.last().unwrap_or(&1) as f64, most)];
        let test = |test| matches!(test, Test::StoreBandwidth | Test::LoadBandwidth);
        for Measured { curve, .. } in self.curves.iter().filter(|of| test(of.curve.test)) {
            let most = curve.points.iter().map(|(_, gbs)| *gbs).fold(0.0, f64::max);
            plot = plot.with(PlotCurve::formula(&format!("{most} GB/s"), ends(most)));
        }
        plot
    }
}

impl Threads {
    fn measure(machine: &Machine, dimms: usize, stores: bool, seed: u64) -> Threads {
        let gbs = |threads: usize| {
            let mut traffic = Traffic::new(machine, dimms, seed)?;
            Some((threads as f64, traffic.stream(threads, stores)))
        };
        Threads { dimms, stores, gbs: THREADS.into_iter().filter_map(gbs).collect() }
    }

    fn name(&self) -> String {
        let what = if self.stores { "stores" } else { "loads" };
        let dimms = if self.dimms == 1 { "one DIMM" } else { "six DIMMs" };
        format!("{what}, {dimms}")
    }

    /// On one DIMM, few threads reach the greatest store bandwidth, and more threads less: the
    /// position of the maximum is known.
    fn shape(&self) -> Option<ValidationPoint> {
        if !self.stores || self.dimms != 1 {
            return None;
        }
        let most = self.gbs.iter().max_by(|a, b| a.1.total_cmp(&b.1))?;
        let last = self.gbs.last()?;
        let is_so = most.0 <= 4.0 && last.1 < 0.69 * most.1;
        let what = "threads that store: 1 to 4 store most, 24 less than 69 % of it: 1 for yes";
        let point = ValidationPoint::new(PART, "shape", what.into());
        Some(point.expect("FAST'20, one DIMM", 1.0).found(f64::from(u8::from(is_so)), 0.0))
    }
}

fn plot(test: Test, over: &str, curves: &[&Measured]) -> Plot {
    let (file, y) = match test {
        Test::Read => ("read", "ns a load of 64 B"),
        _ => ("write", "ns a store of 64 B"),
    };
    let title = format!("{y}: hardware dashed, model marked");
    let x = PlotAxis::log(&format!("{over} (KiB)"));
    let mut plot = Plot::new(&format!("dimms-{file}-{over}"), &title, x, PlotAxis::ratio(y));
    for Measured { curve, model } in curves {
        let hardware: Vec<(f64, f64)> =
            curve.points.iter().map(|(x, y)| (x / 1024.0, *y)).collect();
        let ours = hardware.iter().zip(model).map(|((x, _), y)| (*x, *y)).collect();
        let dimms =
            if curve.dimms == 1 { "one DIMM".into() } else { format!("{} DIMMs", curve.dimms) };
        plot = plot
            .with(PlotCurve::formula(&curve.source, hardware))
            .with(PlotCurve::measured(&dimms, ours));
    }
    plot
}

impl Over {
    fn words(self) -> Option<&'static str> {
        match self {
            Over::Region => Some("region"),
            Over::Block => Some("block"),
            Over::Threads | Over::Question => None,
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
    /// The mean over cores and lines in nanoseconds.
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

    #[test]
    fn every_point_is_as_the_hardware_or_a_known_gap() {
        let machine = Machine::load("optane24").unwrap();
        let hardware = Hardware::measure(&machine, 1).unwrap().unwrap();
        let points = hardware.points();
        let failed: Vec<_> = points.iter().filter(|point| point.fails()).collect();
        assert!(failed.is_empty(), "{failed:?}");
        assert_eq!(hardware.plots().len(), 5);
    }

    /// The error of one point of a curve on `optane24` with one number of its DIMMs changed.
    fn error(setting: &str, value: i64, test: Test, over: Over, (dimms, x): (usize, f64)) -> f64 {
        let machine = Machine::load("optane24").unwrap();
        let path = format!("memory.nvm.dimms.{setting}");
        let machine = machine.with("test", &[(path, value.into())]).unwrap();
        let is_it = |curve: &Curve| {
            let same = (curve.test, curve.over, curve.dimms) == (test, over, dimms);
            same && curve.points.iter().any(|point| point.0 == x)
        };
        let curve = data().curve.into_iter().find(is_it).unwrap();
        let hardware = curve.points.iter().find(|point| point.0 == x).unwrap().1;
        (curve.run(&machine, x, 1).unwrap() / hardware - 1.0).abs() * 100.0
    }

    #[test]
    fn without_one_of_the_mechanisms_a_curve_is_missed() {
        let kib = 1024.0;
        for (setting, value, test, over, at) in [
            ("buffer_xplines", 1, Test::Read, Over::Region, (1, 16.0 * kib)),
            ("translate", 0, Test::Read, Over::Region, (1, 1024.0 * 1024.0 * kib)),
            ("fetch", 0, Test::Read, Over::Region, (1, 1024.0 * kib)),
            ("combining_sets", 1, Test::Write, Over::Region, (1, 4.0 * kib)),
            ("combining_lines", 256, Test::Write, Over::Region, (1, 16.0 * kib)),
            ("combining_lines", 64, Test::StoreRatio, Over::Threads, (1, 8.0)),
            ("media_write_cycles", 85, Test::Write, Over::Region, (1, 1024.0 * kib)),
            ("media_read_cycles", 1, Test::LoadBandwidth, Over::Threads, (1, 4.0)),
            ("wear_writes", 65535, Test::Rewrite, Over::Question, (1, 1.0)),
            ("wear_block_kib", 1, Test::Rewrite, Over::Question, (1, 2.0)),
        ] {
            let error = error(setting, value, test, over, at);
            assert!(error > 15.0, "{setting} = {value} misses it by {error:.0} % only");
        }
    }
}
