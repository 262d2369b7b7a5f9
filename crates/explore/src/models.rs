//! Persistency models as executable definitions: which images may a crash leave?
//!
//! A model follows a trace event by event. At any point it gives the images that a crash there may
//! leave, as families: every line has a base (how many of its stores are durable for certain), and
//! some lines have a window, within which each may stand anywhere and independently of the others.
//! All models here keep the stores of one line in order, as Px86 does (POPL'20): a line moves as a
//! unit.
//!
//! Adding a model is one file and one line of the table below.

use crate::trace::{Event, LineIndex, Trace};
use std::fmt;
use std::ops::ControlFlow;
use std::str::FromStr;

mod bep;
mod epochs;
mod px86;
mod strict;

/// How many of the stores of each line are in an image; lines past the end have none.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub(crate) struct Cut(pub(crate) Vec<u32>);

impl Cut {
    #[inline]
    pub(crate) fn get(&self, line: LineIndex) -> u32 {
        self.0.get(line as usize).copied().unwrap_or(0)
    }

    #[inline]
    pub(crate) fn set(&mut self, line: LineIndex, stores: u32) {
        if self.0.len() <= line as usize {
            self.0.resize(line as usize + 1, 0);
        }
        self.0[line as usize] = stores;
    }
}

/// A line that may keep from `low` to `high` of its stores; `low < high`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Window {
    pub(crate) line: LineIndex,
    pub(crate) low: u32,
    pub(crate) high: u32,
}

/// Images that differ only within independent windows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Family {
    pub(crate) base: Cut,
    pub(crate) windows: Vec<Window>,
}

/// Told of each family; stops the walk by breaking.
pub(crate) type Visit<'a> = dyn FnMut(Family) -> ControlFlow<()> + 'a;

/// The state of a model at a point of a trace.
pub(crate) trait Persistency {
    /// Follows the next event.
    fn follow(&mut self, trace: &Trace, event: &Event);

    /// Gives the families that together hold all images a crash may leave now, but for those it
    /// may forget (below). Where epochs make them many, it leaves some out after `limit` families
    /// around one epoch, and then returns false.
    fn families(&self, limit: usize, visit: &mut Visit<'_>) -> bool;

    /// Told after a visit of all families. A model that never promises durability need not give
    /// an image again at later points.
    fn forget_given(&mut self) {}

    /// True if a crash may leave this image now. The caller keeps it within what was stored.
    fn allows(&self, cut: &Cut) -> bool;
}

/// A persistency model, by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, serde::Serialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum Model {
    /// x86 with `clwb` / `clflushopt`, `sfence` and locked operations.
    Px86,
    /// Buffered epoch persistency with conflict order, as LB and LB++ keep it.
    Bep,
    /// Every store is durable before the next one is visible.
    Strict,
    /// Caches are in the persistence domain: what was visible survives.
    Eadr,
}

struct Entry {
    model: Model,
    name: &'static str,
    about: &'static str,
    durable: bool,
    every_store: bool,
    start: fn() -> Box<dyn Persistency>,
}

const MODELS: &[Entry] = &[
    Entry {
        model: Model::Px86,
        name: "px86",
        about: "x86: lines persist on their own, flush + fence makes them durable",
        durable: true,
        every_store: false,
        start: || Box::new(px86::Px86::default()),
    },
    Entry {
        model: Model::Bep,
        name: "bep",
        about: "buffered epoch persistency: epochs persist in order, later than they run",
        durable: false,
        every_store: false,
        start: || Box::new(bep::Bep::default()),
    },
    Entry {
        model: Model::Strict,
        name: "strict",
        about: "strict persistency: stores persist one by one, in memory order",
        durable: true,
        every_store: true,
        start: || Box::new(strict::Strict::default()),
    },
    Entry {
        model: Model::Eadr,
        name: "eadr",
        about: "battery-backed caches: memory survives as it was",
        durable: true,
        every_store: true,
        start: || Box::new(strict::Strict::default()),
    },
];

/// No model of that name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("unknown persistency model `{0}`; the models are {names}", names = names())]
pub struct UnknownModel(pub String);

fn names() -> String {
    Model::names().join(", ")
}

impl Model {
    /// Every model, in the order in which they are listed.
    pub fn all() -> impl Iterator<Item = Model> {
        MODELS.iter().map(|entry| entry.model)
    }

    /// The names of all models.
    pub fn names() -> Vec<&'static str> {
        MODELS.iter().map(|entry| entry.name).collect()
    }

    fn entry(self) -> &'static Entry {
        let found = MODELS.iter().find(|entry| entry.model == self);
        found.expect("every model stands in the table")
    }

    /// The name on the command line.
    pub fn name(self) -> &'static str {
        self.entry().name
    }

    /// What it is, in one line.
    pub fn about(self) -> &'static str {
        self.entry().about
    }

    /// True if what a thread ordered before an output survives a crash after the output.
    pub fn order_is_durable(self) -> bool {
        self.entry().durable
    }

    /// True if a crash has to be tried after each store, not only before fences.
    pub(crate) fn every_store(self) -> bool {
        self.entry().every_store
    }

    pub(crate) fn start(self) -> Box<dyn Persistency> {
        (self.entry().start)()
    }
}

impl fmt::Display for Model {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Model {
    type Err = UnknownModel;

    fn from_str(name: &str) -> Result<Model, UnknownModel> {
        let found = MODELS.iter().find(|entry| entry.name == name);
        found.map(|entry| entry.model).ok_or_else(|| UnknownModel(name.into()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_model_is_found_by_its_name_and_a_wrong_name_lists_the_right_ones() {
        for model in Model::all() {
            assert_eq!(model.name().parse(), Ok(model));
        }
        let wrong = "px87".parse::<Model>().unwrap_err().to_string();
        assert_eq!(
            wrong,
            "unknown persistency model `px87`; the models are px86, bep, strict, eadr"
        );
    }
}
