//! The file that describes a sweep: a machine, what runs on it, designs, and what is varied.
//!
//! A factor is a parameter of the designs or of the machine with a list of values. A key that
//! nobody knows, a value that makes no design or no machine, and a factor that no design has are
//! errors that name the factor and what would be valid.

use super::SweepError;
use crate::commands::compare::plan::{OPERATIONS, OPERATIONS_MAX};
use crate::commands::kernels::point::Extent;
use crate::commands::kernels::{KERNEL_BASELINE, sizes};
use crate::commands::program::{FenceChoice, FromChoice, PmChoice};
use crate::commands::similar::tip;
use crate::engine::options::{CRASHES_MAX, in_range, once, threads_of};
use crate::engine::warm::is_of_reads;
use crate::subject::{Asked, AskedPrograms, Setting};
use crate::{KernelSize, LabError};
use seawall_sim::{Choice, Machine, read_description, toml_in_words};
use serde::Deserialize;
use std::error::Error;
use std::path::Path;
use toml::Value;

/// The experiments that come with seawall: name and text.
pub(crate) const EXPERIMENTS: &[(&str, &str)] = &[
    ("bsp-sweep", include_str!("../../../experiments/bsp-sweep.toml")),
    ("bsp-sweep-quick", include_str!("../../../experiments/bsp-sweep-quick.toml")),
    ("nvm-sweep-quick", include_str!("../../../experiments/nvm-sweep-quick.toml")),
];

/// Which values meet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub(super) enum Factors {
    /// One factor is varied at a time, the others stay as the designs and the machine say.
    #[default]
    One,
    /// Every value of each factor meets every value of the others.
    All,
}

impl TryFrom<String> for Factors {
    type Error = String;

    fn try_from(name: String) -> Result<Factors, String> {
        match &*name {
            "one" => Ok(Factors::One),
            "all" => Ok(Factors::All),
            _ => Err(format!("'{name}' says no factors; give one or all")),
        }
    }
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Text {
    title: String,
    machine: String,
    threads: Option<usize>,
    #[serde(default)]
    kernels: Vec<String>,
    size: Option<String>,
    #[serde(default)]
    extent: Extent,
    #[serde(default)]
    workloads: Vec<String>,
    operations: Option<u64>,
    entries: Option<u64>,
    #[serde(default)]
    programs: Vec<String>,
    #[serde(default)]
    checks: Vec<String>,
    pm: Option<PmChoice>,
    fence: Option<FenceChoice>,
    from: Option<FromChoice>,
    designs: Vec<String>,
    baseline: Option<String>,
    #[serde(default)]
    factors: Factors,
    #[serde(default = "one")]
    seed: u64,
    #[serde(default)]
    crashes: u64,
    #[serde(default)]
    detail: bool,
    factor: Vec<FactorText>,
}

/// What is wrong with a description, and where it is said what one has.
fn said(error: &toml::de::Error) -> String {
    toml_in_words(error) + "; `seawall sweep --help` has what an experiment says"
}

/// An error, and the name that may have been meant.
pub(super) fn with_tip(error: &LabError) -> String {
    format!("{error}{}", meant(error))
}

/// The name that may have been meant, on a line of its own.
fn meant(error: &(dyn Error + 'static)) -> String {
    tip(error).map_or(String::new(), |tip| format!("\n  {tip}"))
}

fn one() -> u64 {
    1
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct FactorText {
    name: String,
    design: Option<Keys>,
    machine: Option<Keys>,
    designs: Option<Vec<String>>,
    values: Vec<Value>,
}

#[derive(Debug, Deserialize)]
#[serde(untagged, expecting = "a key, or a list of keys that change together")]
enum Keys {
    One(String),
    Many(Vec<String>),
}

/// What a factor changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Side {
    Design,
    Machine,
}

/// A parameter, or some that change together, with its values.
#[derive(Clone, Debug)]
pub(super) struct Factor {
    pub(super) name: String,
    side: Side,
    keys: Vec<String>,
    /// The designs that it applies to; none: all.
    designs: Option<Vec<String>>,
    /// For each value one per key.
    values: Vec<Vec<Value>>,
}

/// What runs at each place of the sweep, and has a column of its tables.
#[derive(Clone, Debug)]
pub(super) struct Column {
    pub(super) name: String,
    pub(super) asked: Asked,
}

/// A sweep, read and checked.
#[derive(Clone, Debug)]
pub(super) struct SweepFile {
    pub(super) title: String,
    pub(super) machine_name: String,
    pub(super) machine: Machine,
    threads: Option<usize>,
    pub(super) columns: Vec<Column>,
    pub(super) designs: Vec<Choice>,
    pub(super) baseline: Choice,
    pub(super) mode: Factors,
    pub(super) seed: u64,
    pub(super) crashes: u64,
    /// Whether records have latencies, queues and cores.
    pub(super) detail: bool,
    pub(super) factors: Vec<Factor>,
}

impl Factor {
    fn read(text: FactorText) -> Result<Factor, String> {
        let FactorText { name, design, machine, designs, values } = text;
        let (side, keys) = match (design, machine) {
            (Some(keys), None) => (Side::Design, keys),
            (None, Some(keys)) => (Side::Machine, keys),
            _ => return Err("give the parameter as design = \"KEY\" or machine = \"KEY\"".into()),
        };
        let keys = match keys {
            Keys::One(key) => vec![key],
            Keys::Many(keys) => keys,
        };
        if values.is_empty() || keys.is_empty() {
            return Err("values = [] is too few; give at least one".into());
        }
        if let Some(at) = (0..keys.len()).find(|at| keys[..*at].contains(&keys[*at])) {
            return Err(format!("key {} is there twice; give it once", keys[at]));
        }
        if designs.is_some() && side == Side::Machine {
            return Err("designs = [..] is for parameters of designs; leave it out".into());
        }
        let per_key = |value: Value| match (value, keys.len()) {
            (Value::Array(several), count) if several.len() == count => Ok(several),
            (single, 1) if !single.is_array() => Ok(vec![single]),
            (other, 1) => Err(format!("value {other} must be one number, text or truth")),
            (other, count) => {
                Err(format!("value {other} must be a list of {count}, one for each key"))
            }
        };
        let values: Vec<Vec<Value>> = values.into_iter().map(per_key).collect::<Result<_, _>>()?;
        match (0..values.len()).find(|at| values[..*at].contains(&values[*at])) {
            Some(at) => Err(format!("value {} is there twice; give it once", values[at][0])),
            None => Ok(Factor { name, side, keys, designs, values }),
        }
    }

    /// How many values there are.
    pub(super) fn count(&self) -> usize {
        self.values.len()
    }

    /// The keys that it changes.
    pub(super) fn keys(&self) -> String {
        self.keys.join(", ")
    }

    /// The name of a value in tables.
    pub(super) fn label(&self, value: usize) -> String {
        let text = |value: &Value| match value {
            Value::String(text) => text.clone(),
            other => other.to_string(),
        };
        text(&self.values[value][0])
    }

    /// Whether `design`, as the file names it, has it.
    pub(super) fn applies(&self, design: &Choice) -> bool {
        self.designs.as_ref().is_none_or(|named| named.contains(&design.text))
    }

    /// A key that `other` changes of the same design or machine.
    fn shared(&self, other: &Factor) -> Option<&String> {
        let meet = match (&self.designs, &other.designs) {
            (Some(these), Some(those)) => these.iter().any(|design| those.contains(design)),
            _ => true,
        };
        let mut keys = self.keys.iter().filter(|_| meet && self.side == other.side);
        keys.find(|key| other.keys.contains(key))
    }

    fn settings(&self, value: usize) -> impl Iterator<Item = (&String, &Value)> {
        self.keys.iter().zip(&self.values[value])
    }

    /// Whether a value is that of the base.
    pub(super) fn is_base(&self, value: usize, machine: &Machine, design: &Choice) -> bool {
        let machine = toml::Table::try_from(machine).unwrap_or_default();
        let parameters = design.all_parameters();
        self.settings(value).all(|(key, value)| match self.side {
            Side::Design => parameters.get(key) == Some(value),
            Side::Machine => {
                let mut inner = None;
                for key in key.split('.') {
                    let table = inner.map_or(Some(&machine), Value::as_table);
                    inner = table.and_then(|table| table.get(key));
                }
                inner == Some(value)
            }
        })
    }
}

/// Refuses a key that two factors change, where every value meets every other.
fn check_all(factors: &[Factor]) -> Result<(), LabError> {
    for (at, factor) in factors.iter().enumerate() {
        for other in &factors[..at] {
            if let Some(key) = factor.shared(other) {
                return Err(LabError::Factor {
                    name: factor.name.clone(),
                    what: format!(
                        "{key} is changed by factor '{}' too, and with factors = \"all\" they \
                         meet; leave it out of one, or let them have other designs",
                        other.name
                    ),
                });
            }
        }
    }
    Ok(())
}

impl Text {
    /// Refuses lists that are empty.
    fn check_lists(&self) -> Result<(), LabError> {
        let empty = |what: &'static str, others: &str| LabError::Option {
            option: what,
            value: "empty".into(),
            valid: format!("a list of at least one{others}"),
        };
        let Text { kernels, workloads, programs, .. } = self;
        if self.designs.is_empty() {
            return Err(empty("designs", ""));
        }
        if kernels.is_empty() && workloads.is_empty() && programs.is_empty() {
            return Err(empty("kernels", ", or give workloads or programs"));
        }
        if self.factor.is_empty() {
            return Err(empty("factor", ""));
        }
        if kernels.is_empty() && self.size.is_some() {
            return Err(empty("kernels", " where there is a size"));
        }
        if workloads.is_empty() && (self.operations.is_some() || self.entries.is_some()) {
            return Err(empty("workloads", " where there are operations or entries"));
        }
        let of_programs = [self.pm.is_some(), self.fence.is_some(), self.from.is_some()];
        if programs.is_empty() && (of_programs.contains(&true) || !self.checks.is_empty()) {
            return Err(empty("programs", " where there are checks, pm, fence or from"));
        }
        Ok(())
    }

    /// Kernels, workloads, and programs, whose names are those that they have in `setting`.
    fn columns(&self, setting: Setting) -> Result<Vec<Column>, LabError> {
        let mut columns = Vec::new();
        if !self.kernels.is_empty() {
            let size: KernelSize = self.size.as_deref().unwrap_or("quick").parse()?;
            columns.extend(sizes(&self.kernels, size)?.into_iter().map(|(entry, size)| {
                let name = entry.name.to_owned();
                Column {
                    asked: Asked::Kernel { name: name.clone(), size, extent: self.extent },
                    name,
                }
            }));
        }
        let operations = self.operations.unwrap_or(OPERATIONS);
        in_range("operations", operations, 1, OPERATIONS_MAX)?;
        columns.extend(self.workloads.iter().map(|name| {
            let (name, entries) = (name.clone(), self.entries);
            Column { asked: Asked::Workload { name: name.clone(), operations, entries }, name }
        }));
        if !self.programs.is_empty() {
            let of = AskedPrograms {
                programs: self.programs.clone(),
                checks: self.checks.clone(),
                pm: self.pm,
                fence: self.fence,
                from: self.from,
            };
            let plan = of.plan(&setting)?;
            columns.extend(plan.names().enumerate().map(|(number, name)| Column {
                name: name.to_owned(),
                asked: Asked::Program { number, of: of.clone() },
            }));
        }
        let names: Vec<String> = columns.iter().map(|column| column.name.clone()).collect();
        once("kernel, workload or program", &names)?;
        Ok(columns)
    }
}

impl SweepFile {
    /// The experiment of that name, or the one in that `.toml` file.
    pub(super) fn load(name: &str) -> Result<SweepFile, SweepError> {
        if let Some((_, text)) = EXPERIMENTS.iter().find(|(known, _)| *known == name) {
            return SweepFile::parse(name, text);
        }
        let path = Path::new(name);
        if path.extension().is_none_or(|end| end != "toml") {
            let known: Vec<&str> = EXPERIMENTS.iter().map(|(known, _)| *known).collect();
            return Err(SweepError::Unknown { name: name.into(), known: known.join(", ") });
        }
        let text = read_description(path)
            .map_err(|source| SweepError::Read { path: name.into(), source })?;
        SweepFile::parse(name, &text)
    }

    pub(super) fn parse(name: &str, text: &str) -> Result<SweepFile, SweepError> {
        let wrong = |what: String| SweepError::Experiment { name: name.into(), what };
        let text: Text = toml::from_str(text).map_err(|error| wrong(said(&error)))?;
        SweepFile::read(text).map_err(|error| wrong(with_tip(&error)))
    }

    /// What the text of a file would say, as a table.
    pub(super) fn of_table(name: &str, table: toml::Table) -> Result<SweepFile, SweepError> {
        let wrong = |what: String| SweepError::Experiment { name: name.into(), what };
        let text: Text = table.try_into().map_err(|error| wrong(said(&error)))?;
        SweepFile::read(text).map_err(|error| wrong(with_tip(&error)))
    }

    fn read(mut text: Text) -> Result<SweepFile, LabError> {
        once("design", &text.designs)?;
        text.check_lists()?;
        in_range("crashes", text.crashes, 0, CRASHES_MAX)?;
        let designs: Vec<Choice> =
            text.designs.iter().map(|text| Choice::parse(text)).collect::<Result<_, _>>()?;
        let names: Vec<String> = text.factor.iter().map(|factor| factor.name.clone()).collect();
        once("factor", &names)?;
        let mut factors = Vec::new();
        for factor in std::mem::take(&mut text.factor) {
            let name = factor.name.clone();
            let unknown = factor.designs.iter().flatten().find(|name| !text.designs.contains(name));
            let factor = match unknown {
                Some(design) => {
                    Err(format!("design {design} is not in designs = [..]; add it there"))
                }
                None => Factor::read(factor),
            };
            factors.push(factor.map_err(|what| LabError::Factor { name, what })?);
        }
        if text.factors == Factors::All {
            check_all(&factors)?;
        }
        let machine = Machine::load(&text.machine)?;
        let threads = threads_of("threads", text.threads, &machine)?;
        let columns = text.columns(Setting {
            machine: machine.clone(),
            machine_name: text.machine.clone(),
            design: designs[0].text.clone(),
            threads,
            seed: text.seed,
            crashes: text.crashes,
            detail: text.detail,
        })?;
        let experiment = SweepFile {
            title: text.title,
            machine_name: text.machine,
            machine,
            threads: text.threads,
            columns,
            designs,
            baseline: Choice::parse(text.baseline.as_deref().unwrap_or(KERNEL_BASELINE))?,
            mode: text.factors,
            seed: text.seed,
            crashes: text.crashes,
            detail: text.detail,
            factors,
        };
        Ok(experiment)
    }

    /// The numbers of the machine that are varied and that only accesses to memory feel.
    pub(super) fn latencies_of_reads(&self) -> Vec<&str> {
        let of_machine = self.factors.iter().filter(|factor| factor.side == Side::Machine);
        let keys = of_machine.flat_map(|factor| &factor.keys).map(String::as_str);
        keys.filter(|key| is_of_reads(key)).collect()
    }

    /// The machine under these settings: for each factor the number of its value, or none.
    pub(super) fn machine_of(&self, settings: &[Option<usize>]) -> Result<Machine, LabError> {
        let mut changed = Vec::new();
        let mut names = Vec::new();
        for (factor, value) in self.set(settings, Side::Machine) {
            let settings = factor.settings(value).map(|(key, value)| (key.clone(), value.clone()));
            changed.extend(settings);
            names.push(format!("{} = {}", factor.name, factor.label(value)));
        }
        let name = format!("{} with {}", self.machine_name, names.join(", "));
        Ok(self.machine.with(&name, &changed)?)
    }

    /// The same machine, as a command line names it.
    pub(super) fn machine_name_with(&self, settings: &[Option<usize>]) -> String {
        let mut name = self.machine_name.clone();
        for (factor, value) in self.set(settings, Side::Machine) {
            for (key, value) in factor.settings(value) {
                name += &format!(":{key}={value}");
            }
        }
        name
    }

    /// A design under these settings.
    pub(super) fn design_of(
        &self,
        design: &Choice,
        settings: &[Option<usize>],
    ) -> Result<Choice, LabError> {
        let mut changed = design.clone();
        for (factor, value) in self.set(settings, Side::Design) {
            if !factor.applies(design) {
                continue;
            }
            for (key, value) in factor.settings(value) {
                changed = changed.with(key, value).map_err(|error| LabError::Factor {
                    name: factor.name.clone(),
                    what: format!(
                        "{error}; or name the designs that have it in designs = [..]{}",
                        meant(&error)
                    ),
                })?;
            }
        }
        Ok(changed)
    }

    /// Threads of a run on `machine`: those of the file, but no more than its cores.
    pub(super) fn threads_on(&self, machine: &Machine) -> usize {
        self.threads.unwrap_or(machine.core.count).min(machine.core.count)
    }

    fn set(
        &self,
        settings: &[Option<usize>],
        side: Side,
    ) -> impl Iterator<Item = (&Factor, usize)> {
        let set = self.factors.iter().zip(settings.to_vec());
        set.filter_map(move |(factor, value)| Some((factor, value?)))
            .filter(move |(factor, _)| factor.side == side)
    }
}
