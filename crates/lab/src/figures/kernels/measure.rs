//! What a figure of kernels makes of its runs: ratios, means, and the conflicts of a series.

use super::text;
use super::{KernelFigure, KernelFigureRecord, KernelRun, KernelSeries, RunRecord, Runs};
use crate::engine::spent::Spent;
use crate::figures::FigureOptions;
use crate::figures::programs::{MeasuredPrograms, ProgramValue};
use seawall_sim::{Choice, Machine};

/// A kernel under a series, over the baseline.
struct Ratios {
    kernel: &'static str,
    /// The whole of it, and its parallel part; none of a retired one that did not run.
    ours: Option<[f64; 2]>,
    /// Of the program that it stands for.
    program: Option<f64>,
}

impl Ratios {
    /// That of the program, where there is one.
    fn compared(&self) -> Option<f64> {
        self.program.or(self.ours.map(|[whole, _]| whole))
    }
}

/// A figure with the runs that it is made of.
pub(super) struct View<'a> {
    pub(super) figure: &'a KernelFigure,
    pub(super) machine: &'a Machine,
    pub(super) runs: &'a Runs,
    pub(super) options: &'a FigureOptions,
    pub(super) programs: Option<&'a MeasuredPrograms>,
}

/// What was published of a point, what is measured, and the programs beside it.
type Values = (Option<f64>, f64, Vec<ProgramValue>);

impl View<'_> {
    pub(super) fn records(&self) -> Vec<KernelFigureRecord> {
        self.figure.series.iter().filter_map(|series| self.of(series)).flatten().collect()
    }

    /// The records of a series, once all its runs are there.
    fn of(&self, series: &KernelSeries) -> Option<Vec<KernelFigureRecord>> {
        let mut records = Vec::new();
        let (mut conflicts, mut ratios) = ([0; 2], Vec::new());
        for entry in self.figure.entries().ok()? {
            let programs = self
                .programs
                .map_or(Vec::new(), |programs| programs.values(entry.name, &series.design));
            let program = programs.iter().find(|program| program.held).map(|held| held.value);
            let stated = series.stated.get(entry.name).copied();
            let in_place = self.figure.in_place_of(entry.name, series, self.programs, self.options);
            if let Some(value) = in_place {
                ratios.push(Ratios { kernel: entry.name, ours: None, program });
                let record = self.record(series, entry.name, (stated, value, programs), None);
                records.push(KernelFigureRecord { retired: true, ..record });
                continue;
            }
            let [ours, base] = [&series.design, &self.figure.baseline]
                .map(|design| self.run(series, entry.name, design));
            let (ours, base) = (ours?, base?);
            let ratio = ours.cycles as f64 / base.cycles as f64;
            let run = self.run_record(ours, base);
            ratios.push(Ratios { kernel: entry.name, ours: Some([ratio, run.parallel]), program });
            conflicts = [conflicts[0] + run.conflicts[0], conflicts[1] + run.conflicts[1]];
            let core_cycles = ours.cycles * self.threads(series) as u64;
            let spent = Some(Spent { core_cycles, stalls: ours.stalls });
            let record = self.record(series, entry.name, (stated, ratio, programs), Some(run));
            records.push(KernelFigureRecord { spent, ..record });
        }
        records.extend(self.means(series, &ratios));
        let is_whole = ratios.iter().all(|ratios| ratios.ours.is_some());
        records.extend(self.conflicts(series, conflicts, is_whole));
        Some(records)
    }

    fn run(&self, series: &KernelSeries, kernel: &str, design: &str) -> Option<&KernelRun> {
        let design = Choice::parse(design).ok()?.text;
        let extent = self.figure.extent.name();
        self.runs.get(&(kernel.to_owned(), design, self.threads(series), extent))
    }

    fn threads(&self, series: &KernelSeries) -> usize {
        series.threads.unwrap_or(self.machine.core.count)
    }

    /// The means of a series.
    fn means(&self, series: &KernelSeries, ratios: &[Ratios]) -> Vec<KernelFigureRecord> {
        let mut records = Vec::new();
        let named = &self.figure.named;
        let is_named = |ratios: &&Ratios| named.iter().any(|name| name == ratios.kernel);
        for (point, paper) in [(text::MEAN, Some(series.paper)), (text::NAMED, None)] {
            let of: Vec<&Ratios> = match point {
                text::NAMED => ratios.iter().filter(is_named).collect(),
                _ => ratios.iter().collect(),
            };
            if of.is_empty() {
                continue;
            }
            let has_programs = of.iter().any(|ratios| ratios.program.is_some());
            let with_programs = mean(of.iter().filter_map(|ratios| ratios.compared()));
            let programs = has_programs.then(|| self.of_programs(with_programs));
            let ours: Option<Vec<[f64; 2]>> = of.iter().map(|ratios| ratios.ours).collect();
            let retired = ours.is_none();
            let ours = ours.map_or(with_programs, |all| mean(all.iter().map(|[whole, _]| *whole)));
            let values = (paper, ours, programs.into_iter().collect());
            let record = self.record(series, point, values, None);
            records.push(KernelFigureRecord { retired, ..record });
        }
        let parallel: Option<Vec<f64>> =
            ratios.iter().map(|ratios| ratios.ours.map(|[_, parallel]| parallel)).collect();
        records.extend(parallel.map(|all| {
            let values = (None, mean(all.into_iter()), Vec::new());
            self.record(series, text::PARALLEL, values, None)
        }));
        records
    }

    /// What the figure holds of the conflicts of a series, if it does; `is_whole`: all kernels ran.
    fn conflicts(
        &self,
        series: &KernelSeries,
        [inter, intra]: [u64; 2],
        is_whole: bool,
    ) -> Option<KernelFigureRecord> {
        let stated = self.figure.conflicts.as_ref().filter(|it| it.series == series.name)?;
        let percent = 100.0 * inter as f64 / (inter + intra).max(1) as f64;
        let of_programs = self.programs.and_then(|programs| programs.inter_percent(&series.design));
        let in_place = of_programs.filter(|_| !is_whole);
        let programs = of_programs.map(|value| self.of_programs(value)).into_iter().collect();
        let values = (Some(stated.inter_percent), in_place.unwrap_or(percent), programs);
        let record = self.record(series, text::CONFLICTS, values, None);
        let record = KernelFigureRecord { retired: in_place.is_some(), ..record };
        Some(held_to(record, stated.tolerance))
    }

    /// What stands beside the mean of the kernels.
    fn of_programs(&self, value: f64) -> ProgramValue {
        let again = self.programs.is_some_and(MeasuredPrograms::are_again);
        let (name, doubts) = (text::WITH_PROGRAMS.into(), Vec::new());
        ProgramValue { name, value, held: true, again, doubts }
    }

    fn record(
        &self,
        series: &KernelSeries,
        point: &str,
        (paper, measured, programs): Values,
        run: Option<RunRecord>,
    ) -> KernelFigureRecord {
        let record = KernelFigureRecord {
            figure: self.figure.name.clone(),
            series: series.name.clone(),
            point: point.to_owned(),
            paper,
            measured,
            retired: false,
            programs,
            tolerance: 0.0,
            holds: None,
            varied: Vec::new(),
            run,
            spent: None,
            design: series.design.clone(),
            machine: self.figure.machine_name(),
            threads: self.threads(series),
            seed: self.options.seed,
            quick: self.options.is_quick,
        };
        held_to(record, series.tolerance.unwrap_or(self.figure.tolerance))
    }

    fn run_record(&self, run: &KernelRun, base: &KernelRun) -> RunRecord {
        let counters = &run.counters;
        let memory = &self.machine.memory;
        let moved = (counters.line_writes + counters.llc_misses) * memory.line_cycles;
        RunRecord {
            size: run.input.size,
            cycles: run.cycles,
            start: run.start,
            parallel: (run.cycles - run.start) as f64 / (base.cycles - base.start) as f64,
            is_right: run.result.is_ok(),
            stores: counters.stores + counters.locked,
            epochs: counters.epochs,
            conflicts: [counters.conflicts_inter, counters.conflicts_intra],
            lines: [counters.line_writes, counters.log_lines],
            channels_busy: 100.0 * moved as f64 / (memory.controllers as u64 * run.cycles) as f64,
        }
    }
}

fn mean(values: impl Iterator<Item = f64>) -> f64 {
    let (count, sum) = values.fold((0, 0.0), |(count, sum), value| (count + 1, sum + value));
    sum / f64::from(count.max(1))
}

fn held_to(mut record: KernelFigureRecord, tolerance: f64) -> KernelFigureRecord {
    record.tolerance = tolerance;
    let value = record.compared();
    record.holds = record.paper.map(|paper| (value - paper).abs() <= tolerance);
    record
}
