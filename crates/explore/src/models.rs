//! Persistency models as executable definitions: which images may a crash leave?
//!
//! A model follows what threads do, in memory order, and records the order in which the stores may
//! persist ([`order`]); the images that a crash may leave follow from that. All models here keep
//! the stores of one line in order, as Px86 does (POPL'20): a line moves as a unit. (The exceptions
//! are the words of a write that is [wider](crate::wide) than one, which have no order among each
//! other, and, under the x86 models, non-temporal stores.)
//!
//! The same definitions serve recorded runs of programs and litmus tests. Adding a model is one
//! file, its line in the table below, and its name in `seawall_memory::Model`.

use crate::trace::{Event, Kind, Trace};
use crate::wide::Part;
use crate::words::LineIndex;
use order::PersistOrder;
use seawall_memory::Model;
use views::Place;

mod lanes;
pub(crate) mod order;
mod threads;
pub(crate) mod views;

/// Something that takes effect, and its thread.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Step {
    pub(crate) thread: u16,
    pub(crate) act: Act,
}

/// Where a store goes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Target {
    pub(crate) line: LineIndex,
    /// What persists in order: the line, or one word of it.
    pub(crate) log: LineIndex,
    pub(crate) is_lane: bool,
    pub(crate) word: u32,
    pub(crate) part: Part,
}

impl Target {
    /// A word of a line that persists as a whole.
    pub(crate) fn of_line(line: LineIndex, word: u32) -> Target {
        Target { line, log: line, is_lane: false, word, part: Part::Alone }
    }
}

/// What takes effect. A word is one of 8 bytes that no crash tears.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Act {
    Store(Target),
    /// A non-temporal store leaves the write-combining buffer, here or at any later moment up to
    /// the next fence.
    StoreNt(Target),
    /// A load that returned the store at `from` (0: what was there at the start), or the newest.
    Load {
        line: LineIndex,
        word: u32,
        from: Option<Place>,
    },
    /// Through volatile memory the thread comes to depend on all that was stored up to there.
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
    /// A compare-and-exchange that failed, besides its load: the store buffer is empty.
    Failed,
    /// A successful locked operation, and its store if it was to persistent memory.
    Locked {
        store: Option<Target>,
    },
}

impl Act {
    /// Where it stores to, if it does.
    pub(crate) fn stores(self) -> Option<Target> {
        match self {
            Act::Store(target) | Act::StoreNt(target) => Some(target),
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

/// A model and the persist order that it has recorded so far.
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
        State { model: start(model), order: PersistOrder::default() }
    }

    pub(crate) fn follow(&mut self, step: Step) {
        self.model.follow(step, &mut self.order);
    }

    pub(crate) fn follow_event(&mut self, trace: &Trace, event: &Event) {
        let target = |store: u32| {
            let store = &trace.stores[store as usize];
            let is_lane = trace.lines[store.line as usize].lane.is_some();
            let (line, word) = (trace.line_of(store.line), store.change.word);
            Target { line, log: store.line, is_lane, word, part: store.part }
        };
        let act = match event.kind {
            Kind::Store { store } => Act::Store(target(store)),
            Kind::StoreNt { store } => Act::StoreNt(target(store)),
            Kind::Locked { store } => Act::Locked { store: store.map(target) },
            Kind::Read { line, word, from } => Act::Load { line, word, from },
            Kind::Failed => Act::Failed,
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

macro_rules! models {
    ($($Name:ident in $module:ident;)*) => {
        $(mod $module;)*

        /// The definition of a model, at the start of a run.
        fn start(model: Model) -> Box<dyn Persistency> {
            match model {
                $(Model::$Name => Box::new($module::$Name::default()),)*
            }
        }
    };
}

models! {
    Px86 in px86;
    Strict in strict;
    Epoch in epoch;
    Bep in bep;
    Bsp in bsp;
    Hops in hops;
    Strand in strand;
    Eadr in eadr;
}
