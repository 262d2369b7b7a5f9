//! What a figure of designs measures: its points, each once, and what a series has of them.

use super::{DesignFigure, FigureRecord, HIGHEST, Metric, Series, part};
use crate::cell::{Cell, CellRibbon, Flushed, Point};
use crate::commands::compare::plan::{self, Plan};
use crate::commands::program::run_key;
use crate::figures::FigureOptions;
use crate::figures::programs::{MeasuredPrograms, ProgramValue};
use crate::figures::retired;
use seawall_ribbon::RibbonOptions;
use seawall_sim::Machine;
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;

/// A plan's point with the machine that it runs on.
pub(super) struct Shared {
    pub(super) machine_name: String,
    pub(super) machine: Machine,
    pub(super) points: Vec<Point>,
    pub(super) cells: Vec<Cell>,
}

pub(super) fn is_same(left: &Point, right: &Point) -> bool {
    let key = |point: &Point| (point.workload.clone(), point.design.text.clone(), point.threads);
    let rest = |point: &Point| (point.operations, point.ribbon.clone());
    // A cell has them filled in.
    let entries = left.entries.zip(right.entries).is_none_or(|(left, right)| left == right);
    key(left) == key(right) && rest(left) == rest(right) && entries
}

/// The points of all figures, each once, machine by machine.
pub(super) fn share(all: &[Runs<'_>]) -> Vec<Shared> {
    let mut shared: Vec<Shared> = Vec::new();
    for runs in all {
        let plan = runs.plan;
        let known = shared.iter().position(|machine| machine.machine_name == plan.machine_name);
        let place = known.unwrap_or_else(|| {
            let (machine_name, machine) = (plan.machine_name.clone(), plan.machine.clone());
            shared.push(Shared { machine_name, machine, points: Vec::new(), cells: Vec::new() });
            shared.len() - 1
        });
        for point in plan.points.iter().filter(|point| runs.is_wanted(point)) {
            if !shared[place].points.iter().any(|other| is_same(other, point)) {
                shared[place].points.push(point.clone());
            }
        }
    }
    shared
}

/// What a series is made of: the figure, its plan and its runs, and the programs beside them.
pub(super) struct Runs<'a> {
    pub(super) figure: &'a DesignFigure,
    pub(super) plan: &'a Plan,
    pub(super) programs: Option<&'a MeasuredPrograms>,
    pub(super) options: &'a FigureOptions,
    pub(super) cells: &'a [Cell],
}

/// What a workload has under a series.
struct OfWorkload<'a> {
    measured: f64,
    cell: &'a Cell,
}

impl<'a> Runs<'a> {
    /// Whether a series has this point, or is compared with it.
    fn is_wanted(&self, point: &Point) -> bool {
        let name = point.workload.as_str();
        let baseline = self.figure.baseline.as_deref();
        let is = |design: &str, ribbon: Option<RibbonOptions>| {
            point.design.text == design && point.ribbon == ribbon
        };
        let is_of = |series: &&Series| {
            is(series.design_of(name), series.ribbon.as_ref().map(CellRibbon::options))
                || baseline.is_some_and(|baseline| is(series.baseline_of(name, baseline), None))
        };
        let mut of = self.figure.series.iter().filter(is_of);
        of.any(|series| !self.is_replaced(series, name))
    }

    /// Whether the program of that name is there in the place of a retired workload.
    fn is_replaced(&self, series: &Series, name: &str) -> bool {
        retired::is_left_out(&self.figure.retired, name, self.options)
            && self.of_program(series, name).is_some()
    }

    fn cell(
        &self,
        workload: &str,
        design: &str,
        ribbon: &Option<RibbonOptions>,
    ) -> Option<&'a Cell> {
        let wanted = |point: &&Point| {
            point.workload == workload && point.design.text == design && point.ribbon == *ribbon
        };
        let wanted = self.plan.points.iter().find(wanted)?;
        self.cells.iter().find(|cell| is_same(&cell.point, wanted))
    }

    fn of_workload(&self, series: &Series, workload: &str) -> Option<OfWorkload<'a>> {
        let ribbon = series.ribbon.as_ref().map(CellRibbon::options);
        let cell = self.cell(workload, series.design_of(workload), &ribbon)?;
        let faster = match &self.figure.baseline {
            Some(baseline) => {
                let baseline = series.baseline_of(workload, baseline);
                cell.throughput / self.cell(workload, baseline, &None)?.throughput
            }
            None => 0.0,
        };
        let measured = match self.figure.metric {
            Metric::Throughput => faster,
            Metric::Time => 1.0 / faster,
            Metric::ConflictingEpochs => cell.conflicting_epochs().unwrap_or(0.0),
        };
        Some(OfWorkload { measured, cell })
    }

    /// What the program of that name has, if it was run under the series.
    fn of_program(&self, series: &Series, name: &str) -> Option<ProgramValue> {
        let run = run_key(series.design_of(name), series.ribbon.as_ref());
        let baseline = series.baseline_of(name, self.figure.baseline.as_deref()?);
        let values = self.programs?.values_over(name, &run, baseline);
        let time = values.into_iter().find(|value| value.held)?;
        Some(match self.figure.metric {
            Metric::Throughput => ProgramValue { value: 1.0 / time.value, ..time },
            _ => time,
        })
    }

    /// The record of a series, once all its runs are there.
    pub(super) fn record(&self, series: &Series) -> Option<FigureRecord> {
        let (figure, plan, options) = (self.figure, self.plan, self.options);
        let mut is_all = true;
        let (mut workloads, mut programs) = (Map::new(), BTreeMap::new());
        let (mut flushed, mut stalls_of) = (BTreeMap::new(), BTreeMap::new());
        let (mut stand_ins, mut values, mut is_right) = (Vec::new(), Vec::new(), true);
        for name in figure.columns(plan) {
            let is_replaced = self.is_replaced(series, name);
            is_all &= !is_replaced;
            let ours = match plan.workloads().contains(&name) && !is_replaced {
                true => Some(self.of_workload(series, name)?),
                false => None,
            };
            if let Some(OfWorkload { measured, cell }) = &ours {
                is_right &= cell.broken.is_empty();
                workloads.insert(name.to_owned(), json!(measured));
                stalls_of.insert(name.to_owned(), cell.spent().to_json());
                flushed.extend(Flushed::of(cell).map(|flushed| (name.to_owned(), flushed)));
                stand_ins.push(*measured);
            }
            let program = self.of_program(series, name);
            let compared = program.as_ref().map(|program| program.value);
            let compared = compared.or(ours.map(|ours| ours.measured));
            values.extend(compared.map(|value| (name, value)));
            programs.extend(program.map(|program| (name.to_owned(), program)));
        }
        let all: Vec<f64> = values.iter().map(|(_, value)| *value).collect();
        let measured = mean(&all, figure.geometric);
        let is_near = series.paper.is_none_or(|paper| (measured - paper).abs() <= figure.tolerance);
        let stand_ins =
            (is_all && !programs.is_empty()).then(|| mean(&stand_ins, figure.geometric));
        Some(FigureRecord {
            figure: figure.name.clone(),
            series: series.name.clone(),
            point: "mean",
            paper: series.paper,
            measured,
            stand_ins,
            tolerance: figure.tolerance,
            holds: is_near && is_right,
            workloads,
            programs,
            flushed,
            stalls: mean_shares(&stalls_of),
            stalls_of,
            paper_workloads: series.workloads.iter().map(|(k, v)| (k.clone(), json!(v))).collect(),
            paper_most: series.paper_most,
            far: self.far(series, &values),
            varied: Vec::new(),
            design: series.design.clone(),
            machine: plan.machine_name.clone(),
            seed: options.seed,
            operations: part(figure.operations.unwrap_or(plan::OPERATIONS), options.is_quick),
            quick: options.is_quick,
        })
    }

    /// Which values are further from the paper's than the figure allows.
    fn far(&self, series: &Series, values: &[(&str, f64)]) -> Vec<String> {
        let Some(most) = self.figure.workload_tolerance else { return Vec::new() };
        let is_far = |(name, value): &&(&str, f64)| {
            series.workloads.get(*name).is_some_and(|paper| (value - paper).abs() > most)
        };
        let mut far: Vec<String> =
            values.iter().filter(is_far).map(|(name, _)| (*name).to_owned()).collect();
        let highest = values.iter().map(|(_, value)| *value).fold(f64::NEG_INFINITY, f64::max);
        if series.paper_most.is_some_and(|paper| (highest - paper).abs() > most) {
            far.push(HIGHEST.to_owned());
        }
        far
    }
}

/// The mean of each share, over the workloads.
fn mean_shares(of: &BTreeMap<String, Map<String, Value>>) -> Map<String, Value> {
    let Some(first) = of.values().next() else { return Map::new() };
    let share = |workload: &Map<String, Value>, reason: &String| {
        workload.get(reason).and_then(Value::as_f64).unwrap_or(0.0)
    };
    let mean = |reason| of.values().map(|it| share(it, reason)).sum::<f64>() / of.len() as f64;
    first.keys().map(|reason| (reason.clone(), json!(mean(reason)))).collect()
}

pub(super) fn mean(values: &[f64], geometric: bool) -> f64 {
    let count = values.len() as f64;
    match geometric {
        true => (values.iter().map(|value| value.ln()).sum::<f64>() / count).exp(),
        false => values.iter().sum::<f64>() / count,
    }
}
