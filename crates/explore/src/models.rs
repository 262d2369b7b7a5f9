//! Persistency models as executable definitions: which images may a crash leave?
//!
//! A model follows what threads do, in memory order, and writes down in which order the stores may
//! persist ([`order`]); the images that a crash may leave follow from that. All models here keep
//! the stores of one line in order, as Px86 does (POPL'20): a line moves as a unit.
//!
//! The same definitions serve recorded runs of programs and litmus tests. Adding a model is one
//! file and one line of the table below.

use crate::trace::{Event, Kind, LineIndex, Trace};
use order::PersistOrder;
use std::fmt;
use std::str::FromStr;
use views::Place;

pub(crate) mod order;
mod threads;
pub(crate) mod views;

/// Something that takes effect, and who does it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Step {
    pub(crate) thread: u16,
    pub(crate) act: Act,
}

/// What takes effect. A word is one of 8 bytes that no crash tears.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Act {
    Store {
        line: LineIndex,
        word: u32,
    },
    /// A non-temporal store leaves the write-combining buffer.
    StoreNt {
        line: LineIndex,
        word: u32,
    },
    /// A load that returned the store at `from` (0: what was there at the start), or the newest.
    Load {
        line: LineIndex,
        word: u32,
        from: Option<Place>,
    },
    /// By way of volatile memory the thread learns of all that was stored up to there.
    Learn {
        upto: Place,
    },
    /// `clwb`, `clflushopt`.
    WriteBack {
        line: LineIndex,
    },
    /// `clflush`.
    Flush {
        line: LineIndex,
    },
    /// `sfence`, a persist barrier, `ofence`.
    Order,
    /// A wait for durability: `dfence`; `sfence` on x86.
    Drain,
    /// The thread begins a strand.
    Strand,
    /// The thread joins its strands.
    Join,
    /// `mfence`.
    FullFence,
    /// A successful locked operation, and its store if it was to persistent memory.
    Locked {
        store: Option<(LineIndex, u32)>,
    },
}

impl Act {
    /// The line and word that it stores to, if it does.
    pub(crate) fn stores(self) -> Option<(LineIndex, u32)> {
        match self {
            Act::Store { line, word } | Act::StoreNt { line, word } => Some((line, word)),
            Act::Locked { store } => store,
            _ => None,
        }
    }
}

/// A model at a point of a run.
pub(crate) trait Persistency {
    /// Follows the next step.
    fn follow(&mut self, step: Step, order: &mut PersistOrder);

    /// A load of the word by the thread may return the newest store to it, or an older one that is
    /// not overwritten up to this place of memory.
    fn oldest(&self, _thread: u16, _word: u32) -> Place {
        Place::MAX
    }

    fn copy(&self) -> Box<dyn Persistency>;
}

/// A model and the persist order that it has written down so far.
pub(crate) struct State {
    model: Box<dyn Persistency>,
    pub(crate) order: PersistOrder,
}

impl Clone for State {
    fn clone(&self) -> State {
        State { model: self.model.copy(), order: self.order.clone() }
    }
}

impl State {
    pub(crate) fn new(model: Model) -> State {
        State { model: (model.entry().start)(), order: PersistOrder::default() }
    }

    pub(crate) fn follow(&mut self, step: Step) {
        self.model.follow(step, &mut self.order);
    }

    pub(crate) fn follow_event(&mut self, trace: &Trace, event: &Event) {
        let place = |store: u32| {
            let store = &trace.stores[store as usize];
            (store.line, store.change.word)
        };
        let act = match event.kind {
            Kind::Store { store } => {
                let (line, word) = place(store);
                Act::Store { line, word }
            }
            Kind::StoreNt { store } => {
                let (line, word) = place(store);
                Act::StoreNt { line, word }
            }
            Kind::Locked { store } => Act::Locked { store: store.map(place) },
            Kind::Read { line, word } => Act::Load { line, word, from: None },
            Kind::Sync { stores } => Act::Learn { upto: stores },
            Kind::Flush { line } => Act::WriteBack { line },
            Kind::Order => Act::Order,
            Kind::Drain => Act::Drain,
            Kind::Strand => Act::Strand,
            Kind::Join => Act::Join,
            Kind::WroteBack { line } => {
                return self.order.persist_line(line, self.order.stored(line));
            }
            Kind::FlushElsewhere | Kind::Output { .. } | Kind::Grow { .. } => return,
        };
        self.follow(Step { thread: event.thread, act });
    }

    /// A load of the word by the thread may return the newest store to it, or an older one that is
    /// not overwritten up to this place.
    pub(crate) fn oldest(&self, thread: u16, word: u32) -> Place {
        self.model.oldest(thread, word)
    }
}

/// When what a thread did before is durable for certain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Durable {
    /// After an order, if it was flushed where that is needed.
    Order,
    /// After a drain only.
    Drain,
}

macro_rules! models {
    ($($(#[$doc:meta])* $Name:ident = $name:literal in $module:ident, $durable:ident,
       orders_all_stores: $all:literal, $about:literal;)*) => {
        $(mod $module;)*

        /// A persistency model, by name.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        #[derive(serde::Serialize, serde::Deserialize)]
        #[serde(rename_all = "lowercase")]
        #[non_exhaustive]
        pub enum Model {
            $($(#[$doc])* $Name,)*
        }

        const MODELS: &[Entry] = &[$(Entry {
            model: Model::$Name,
            name: $name,
            about: $about,
            durable: Durable::$durable,
            orders_all_stores: $all,
            start: || Box::new($module::$Name::default()),
        }),*];
    };
}

models! {
    /// x86 with `clwb` / `clflushopt`, `clflush`, `sfence` and locked operations.
    Px86 = "px86" in px86, Order, orders_all_stores: false,
        "x86: lines persist on their own, flush + fence makes them durable";
    /// Every store is durable before the next one is visible.
    Strict = "strict" in strict, Order, orders_all_stores: true,
        "strict persistency: stores persist one by one, in memory order";
    /// Barriers wait; conflicting accesses of a word persist in order.
    Epoch = "epoch" in epoch, Order, orders_all_stores: false,
        "epoch persistency: a barrier waits until its epoch is durable";
    /// Buffered epoch persistency with conflict order, as LB and LB++ keep it.
    Bep = "bep" in bep, Drain, orders_all_stores: false,
        "buffered epoch persistency: epochs persist in order, later than they run";
    /// Buffered strict persistency, with or without epochs made by hardware.
    Bsp = "bsp" in bsp, Drain, orders_all_stores: false,
        "buffered strict persistency: any consistent cut of the run, later than it runs";
    /// Persist buffers with `ofence` and `dfence`.
    Hops = "hops" in hops, Drain, orders_all_stores: false,
        "persist buffers: ofence orders epochs, dfence waits until they are durable";
    /// Buffered epoch persistency in each strand of a thread, nothing between strands.
    Strand = "strand" in strand, Drain, orders_all_stores: false,
        "strand persistency: barriers order inside a strand, joins and drains all strands";
    /// Caches are in the persistence domain: what was visible survives.
    Eadr = "eadr" in eadr, Order, orders_all_stores: true,
        "battery-backed caches: whatever was stored survives";
}

struct Entry {
    model: Model,
    name: &'static str,
    about: &'static str,
    durable: Durable,
    orders_all_stores: bool,
    start: fn() -> Box<dyn Persistency>,
}

/// There is no model of this name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("unknown persistency model `{0}`; the models are {names}", names = names())]
pub struct UnknownModel(String);

fn names() -> String {
    Model::names().join(", ")
}

impl Model {
    /// All models.
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

    /// True if what a thread ordered before an output survives a crash after the output. After a
    /// drain it does under every model.
    pub fn order_is_durable(self) -> bool {
        self.entry().durable == Durable::Order
    }

    /// True if a crash can tell the order of any two stores: threads have to be interrupted at
    /// every store, and a crash has to be tried after each, not only before fences.
    pub fn orders_all_stores(self) -> bool {
        self.entry().orders_all_stores
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
            "unknown persistency model `px87`; the models are px86, strict, epoch, bep, bsp, hops, \
             strand, eadr"
        );
    }
}
