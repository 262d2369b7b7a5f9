//! The curves: the behaviour of each part under increasing load, beside the formulas.
//!
//! If persistent memory consists of DIMMs with a controller of their own, these curves end at the
//! shared cache: what is behind it follows no formula, and is compared in
//! [`hardware`](super::hardware).

use super::paths::Paths;
use super::plot::{Plot, PlotAxis, PlotCurve};
use super::point::ValidationPoint;
use super::points::{bandwidth_scene, memory_lines, one_way};
use super::scenes::{Lines, Scene, Work, line_at};
use crate::{Cycle, Machine, SimError};

type Xy = Vec<(f64, f64)>;

/// The designs whose fences are compared, as written on the command line.
const FENCES: [&str; 4] = ["clwb", "clwb:adr=true", "epoch", "lbpp"];
const LINES_PER_FENCE_MAX: usize = 64;
const SEARCH_CYCLES: u64 = 8;

/// All measurements, in cycles.
pub(super) struct Curves<'a> {
    machine: &'a Machine,
    /// KiB walked, cycles per load.
    footprint: Xy,
    /// Cores, cycles per line.
    writes: Xy,
    reads: Xy,
    /// For each of [`FENCES`]: lines, cycles until all are durable.
    fences: Vec<Xy>,
    /// Hops between core and bank, cycles per load.
    hops: Xy,
    /// Other cores that share a line, cycles to write it.
    sharers: Xy,
    /// Lines, cycles: of one bank, and spread over all.
    one_bank: Xy,
    all_banks: Xy,
}

/// A level of the footprint curve.
struct Plateau {
    part: &'static str,
    kib: usize,
    cycles: f64,
    formula: &'static str,
}

impl<'a> Curves<'a> {
    pub(super) fn measure(machine: &'a Machine, seed: u64) -> Result<Curves<'a>, SimError> {
        let lines = match machine.memory.nvm.dimms {
            Some(_) => [Vec::new(), Vec::new()],
            None => [one_way(&Paths::new(machine), 16384, 16), spread_lines(machine)],
        };
        Ok(Curves {
            machine,
            footprint: footprint(machine, seed)?,
            writes: bandwidth(machine, Work::Persist)?,
            reads: bandwidth(machine, Work::Load)?,
            fences: fences(machine)?,
            hops: hops(machine)?,
            sharers: sharers(machine)?,
            one_bank: epochs(machine, &lines[0])?,
            all_banks: epochs(machine, &lines[1])?,
        })
    }

    /// True if memory consists of banks, for which formulas are known.
    fn has_banks(&self) -> bool {
        self.machine.memory.nvm.dimms.is_none()
    }

    /// For a chain of loads: the part that answers, the largest memory that it holds completely,
    /// the latency of a load then, and its formula in words.
    fn plateaus(&self) -> Vec<Plateau> {
        let (machine, paths) = (self.machine, Paths::new(self.machine));
        let shared = machine.llc.kib_per_bank * machine.llc.banks;
        let plateau = |part, kib, cycles, formula| Plateau { part, kib, cycles, formula };
        let mean = |latency: &dyn Fn(u64) -> Cycle| Paths::mean(1 << 16, latency);
        let mut all = vec![plateau("l1", machine.l1.kib, paths.l1_load() as f64, "l1.latency")];
        if let Some(l2) = machine.l2.filter(|l2| l2.kib > 2 * machine.l1.kib) {
            let formula = "l1.latency + l2.latency";
            all.push(plateau("l2", l2.kib, paths.l2_load() as f64, formula));
        }
        if !machine.llc.directory_only {
            let kib = if machine.l2.is_some() { shared / 2 } else { shared / 8 };
            let llc = mean(&|line| paths.llc_load(0, line));
            all.push(plateau("llc", kib, llc, "mean path of a hit"));
        }
        let read = machine.memory.nvm.read;
        let memory = mean(&|line| paths.memory_load(0, line, read));
        all.push(plateau("memory", 2 * shared, memory, "mean path of a load from NVM"));
        all
    }

    /// The required shapes of the curves.
    pub(super) fn points(&self) -> Vec<ValidationPoint> {
        let machine = self.machine;
        let at = |kib: usize| {
            let found = self.footprint.iter().find(|(x, _)| *x >= kib as f64);
            found.map_or(f64::NAN, |(_, y)| *y)
        };
        let mut points = Vec::new();
        for Plateau { part, kib, cycles, formula } in self.plateaus() {
            let tolerance = match part {
                "memory" if !self.has_banks() => continue,
                "memory" => 3.0,
                "llc" => 2.0,
                _ => 0.0,
            };
            let what = format!("pointer chase through {kib} KiB, each load");
            let point = ValidationPoint::new(part, "shape", what).expect(formula, cycles);
            points.push(point.found(at(kib), tolerance));
        }
        let controllers = machine.memory.controllers;
        let bandwidths = [
            (&self.writes, Paths::new(machine).write_pace(controllers), "written"),
            (&self.reads, Paths::new(machine).read_pace(controllers), "read"),
        ];
        for (curve, pace, what) in bandwidths.into_iter().filter(|_| self.has_banks()) {
            let (cores, found) = *curve.last().unwrap_or(&(0.0, f64::NAN));
            let what = format!("cycles a line {what}, {cores} cores");
            let point = ValidationPoint::new("memory", "peak bandwidth", what);
            let formula = "max(line_cycles, busy / banks) / controllers";
            points.push(point.expect(formula, pace).found(found, 6.0));
        }
        let falls = |curve: &Xy, what: &str, part: &str| {
            let breaks = curve.windows(2).filter(|pair| pair[1].1 < pair[0].1 * 0.99).count();
            let point = ValidationPoint::new(part, "shape", format!("{what}: points out of order"));
            point.expect("none falls", 0.0).found(breaks as f64, 0.0)
        };
        points.push(falls(&self.footprint, "latency over footprint", "memory"));
        points.push(falls(
            &self.sharers,
            "a write over the cores that share its line",
            "coherence",
        ));
        points.push(falls(&self.hops, "a load over hops to its bank", "mesh"));
        // Beyond one line per memory bank, writes wait for the bank and not for the fence; beyond
        // the limit of a core, flushes wait for each other.
        let banks = machine.memory.controllers * machine.memory.banks;
        let most = banks.min(machine.core.flushes()) as f64;
        for (design, curve) in FENCES.iter().zip(&self.fences) {
            let each = curve.iter().filter(|(x, _)| *x <= most).map(|(x, y)| (-x, y / x));
            let each: Xy = each.rev().collect();
            points.push(falls(&each, "cycles a line over fewer lines a fence", design));
        }
        points
    }

    pub(super) fn plots(&self) -> Vec<Plot> {
        let mut plots = vec![self.footprint_plot()];
        plots.extend(self.has_banks().then(|| self.bandwidth_plot()));
        plots.push(self.fence_plot());
        plots.extend((!self.hops.is_empty()).then(|| self.hops_plot()));
        plots.push(self.sharers_plot());
        plots.extend(self.has_banks().then(|| self.epoch_plot()));
        plots
    }

    fn footprint_plot(&self) -> Plot {
        let across = |y| {
            vec![self.footprint[0], *self.footprint.last().unwrap_or(&(1.0, 0.0))]
                .into_iter()
                .map(|(x, _)| (x, y))
                .collect::<Xy>()
        };
        let plot = Plot::new(
            "load-latency",
            "A chain of dependent loads in random order",
            PlotAxis::log("memory walked (KiB)"),
            PlotAxis::linear("cycles a load"),
        );
        let formulas = self.plateaus().into_iter().fold(plot, |plot, plateau| {
            let name = match plateau.part {
                "l1" => "L1 hit",
                "l2" => "second level",
                "llc" => "mean path, shared cache",
                _ => "mean path, NVM",
            };
            let places = usize::from(plateau.cycles.fract() != 0.0);
            let name = format!("{name}: {:.places$}", plateau.cycles);
            plot.with(PlotCurve::formula(&name, across(plateau.cycles)))
        });
        formulas.with(PlotCurve::measured("measured", self.footprint.clone()))
    }

    fn bandwidth_plot(&self) -> Plot {
        let machine = self.machine;
        let gbs = |cycles: f64| 64.0 * machine.ghz / cycles;
        let curve = |xy: &Xy| xy.iter().map(|(x, y)| (*x, gbs(*y))).collect::<Xy>();
        let paths = Paths::new(machine);
        let ends = |y| vec![(1.0, y), (machine.core.count as f64, y)];
        let plot = Plot::new(
            "bandwidth",
            "NVM bandwidth, balanced over controllers and banks",
            PlotAxis::log("cores"),
            PlotAxis::linear("GB/s"),
        );
        let controllers = machine.memory.controllers;
        let (read, write) = (gbs(paths.read_pace(controllers)), gbs(paths.write_pace(controllers)));
        let plot = if (read - write).abs() < 0.01 {
            plot.with(PlotCurve::formula(&format!("peak: {read:.1}"), ends(read)))
        } else {
            plot.with(PlotCurve::formula(&format!("peak, read: {read:.1}"), ends(read)))
                .with(PlotCurve::formula(&format!("peak, write: {write:.1}"), ends(write)))
        };
        plot.with(PlotCurve::measured("loads", curve(&self.reads)))
            .with(PlotCurve::measured("stores + clwb", curve(&self.writes)))
    }

    fn fence_plot(&self) -> Plot {
        let paths = Paths::new(self.machine);
        let pace = paths.write_pace(self.machine.memory.controllers);
        let lone = self.fences[0][0].1;
        let line = |x: f64| (x, lone + (x - 1.0) * pace);
        let mut plot = Plot::new(
            "persist-latency",
            "From the first flush (or the barrier) until all lines are durable",
            PlotAxis::linear("lines a fence waits for"),
            PlotAxis::linear("cycles"),
        )
        .with(PlotCurve::formula(
            &format!("lone path + {pace:.1} a line"),
            vec![line(1.0), line(LINES_PER_FENCE_MAX as f64)],
        ));
        for (design, curve) in FENCES.iter().zip(&self.fences) {
            plot = plot.with(PlotCurve::measured(design, curve.clone()));
        }
        plot
    }

    fn hops_plot(&self) -> Plot {
        let mesh = &self.machine.mesh;
        let far = self.hops.last().map_or(1.0, |(x, _)| *x);
        let near = (Paths::new(self.machine).l2_load() + self.machine.llc.latency) as f64;
        let flits = Paths::new(self.machine).flits() as f64;
        let hop = 2.0 * (mesh.router_latency + mesh.link_latency) as f64;
        let line = |x: f64| (x, near + flits - 1.0 + hop * x);
        Plot::new(
            "mesh-latency",
            "A lone load that the shared cache answers",
            PlotAxis::linear("hops from core to bank"),
            PlotAxis::linear("cycles"),
        )
        .with(PlotCurve::formula(
            &format!("{near:.0} + {hop:.0} a hop + {:.0} flits behind the head", flits - 1.0),
            vec![line(1.0), line(far)],
        ))
        .with(PlotCurve::measured("measured (0 hops: no message)", self.hops.clone()))
    }

    fn sharers_plot(&self) -> Plot {
        let paths = Paths::new(self.machine);
        let formula = self.sharers.iter().skip(1).map(|(x, _)| {
            let others: Vec<usize> = (1..=*x as usize).collect();
            (*x, (paths.upgrade(0, 7, &others) + paths.own_store()) as f64)
        });
        Plot::new(
            "sharers",
            "A store to a line that other cores share",
            PlotAxis::linear("other cores that share the line"),
            PlotAxis::linear("cycles"),
        )
        .with(PlotCurve::formula("path of the farthest sharer", formula.collect()))
        .with(PlotCurve::measured("measured", self.sharers.clone()))
    }

    fn epoch_plot(&self) -> Plot {
        let paths = Paths::new(self.machine);
        let lines = one_way(&paths, 16384, 16);
        let formula = (1..=lines.len()).map(|count| {
            (count as f64, paths.epoch_flush(0, &lines[..count], SEARCH_CYCLES) as f64)
        });
        Plot::new(
            "epoch-flush",
            "Drain of an epoch under lb: the four-step handshake with all banks",
            PlotAxis::linear("lines in the epoch"),
            PlotAxis::linear("cycles"),
        )
        .with(PlotCurve::formula("sum of the path, one bank, one controller", formula.collect()))
        .with(PlotCurve::measured("lines of one bank", self.one_bank.clone()))
        .with(PlotCurve::measured("lines of all banks", self.all_banks.clone()))
    }
}

fn footprint(machine: &Machine, seed: u64) -> Result<Xy, SimError> {
    let mut wide = machine.clone();
    wide.core.width = 16;
    let scene = Scene { machine: wide, design: "volatile".into(), lines: 0, cold: true };
    let llc = (machine.llc.kib_per_bank * machine.llc.banks) as u64;
    let most = if machine.memory.nvm.dimms.is_none() { 2 * llc } else { llc / 8 };
    let powers = (2..).map(|power| 1u64 << power).take_while(|kib| *kib < most);
    let kib = powers.flat_map(|kib| [kib, kib * 3 / 2]).filter(|kib| *kib <= most).chain([most]);
    kib.map(|kib| Ok((kib as f64, scene.chase(kib * 16, seed)?))).collect()
}

fn bandwidth(machine: &Machine, work: Work) -> Result<Xy, SimError> {
    if machine.memory.nvm.dimms.is_some() {
        return Ok(Xy::new());
    }
    let lines = memory_lines(machine, machine.memory.controllers);
    let cores = (0..).map(|power| 1usize << power).take_while(|cores| *cores < machine.core.count);
    let cores = cores.chain([machine.core.count]);
    let scene = match work {
        Work::Load => bandwidth_scene(machine, "volatile").cold(),
        Work::Persist | Work::Stream => {
            let mut scene = bandwidth_scene(machine, "clwb");
            // Memory must be the bottleneck.
            scene.machine.core.flushes = Some(512);
            scene
        }
    };
    cores.map(|cores| Ok((cores as f64, scene.pace(cores, &lines, work)?))).collect()
}

/// Lines that alternate between controllers and their banks; the farthest is the first, so that
/// every fence waits for it.
fn spread_lines(machine: &Machine) -> Vec<u64> {
    let paths = Paths::new(machine);
    let (controllers, banks) = (machine.memory.controllers, machine.memory.banks);
    let key = |line| Some(paths.memory_bank(line) * controllers + paths.controller(line));
    let lines = Lines::balanced(16384, controllers * banks, key, LINES_PER_FENCE_MAX);
    let mut lines = lines.list;
    // Among the first of each bank, so that all are still used evenly.
    let first = 0..lines.len().min(controllers * banks);
    let farthest = first.max_by_key(|at| paths.persist(0, lines[*at], false));
    lines.swap(0, farthest.unwrap_or(0));
    lines
}

fn counts() -> impl Iterator<Item = usize> {
    [1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, LINES_PER_FENCE_MAX].into_iter()
}

fn fences(machine: &Machine) -> Result<Vec<Xy>, SimError> {
    let lines = spread_lines(machine);
    let curve = |design| {
        let scene = Scene { lines: 16384, ..Scene::lone(machine, design) };
        counts().map(|n| Ok((n as f64, scene.persist(0, &lines[..n])? as f64))).collect()
    };
    FENCES.into_iter().map(curve).collect()
}

fn hops(machine: &Machine) -> Result<Xy, SimError> {
    let paths = Paths::new(machine);
    let scene = Scene::lone(machine, "volatile");
    let mut found = Vec::new();
    if machine.llc.directory_only {
        return Ok(found);
    }
    for hops in 0..machine.core.count as u64 {
        let at = |line: &u64| paths.hops(0, paths.home(*line)) == hops;
        if let Some(line) = (1..scene.lines).find(at) {
            found.push((hops as f64, scene.load(0, line_at(line))? as f64));
        }
    }
    Ok(found)
}

fn sharers(machine: &Machine) -> Result<Xy, SimError> {
    let scene = Scene::lone(machine, "volatile");
    let time = |sharers: usize| {
        let others: Vec<usize> = (1..=sharers).collect();
        Ok((sharers as f64, scene.upgrade(0, 7, &others)? as f64))
    };
    (0..machine.core.count).map(time).collect()
}

fn epochs(machine: &Machine, lines: &[u64]) -> Result<Xy, SimError> {
    let scene = Scene { lines: 16384, ..Scene::lone(machine, "lb") };
    let counts = counts().filter(|count| *count <= lines.len());
    counts.map(|n| Ok((n as f64, scene.persist(0, &lines[..n])? as f64))).collect()
}
