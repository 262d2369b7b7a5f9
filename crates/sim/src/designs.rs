//! Persistency designs: one file each, and the table that names them.
//!
//! A design decides when a store may take effect, what a flush or a fence waits for, what happens
//! when another core wants a line, and what a battery saves. The machine calls its hooks; a hook
//! that is not written does nothing. A design is a *strategy* in the sense that its answers change
//! what happens; it may move lines, send messages and book resources through [`Hw`], and must not
//! change what a program sees.

use crate::Cycle;
use crate::cache::{Slot, Way};
use crate::config::Machine;
use crate::hw::{Gate, Hw, Request, Token, Waiter};
use crate::machine::{Outcome, Setup};
use crate::mesh::Tile;
use crate::values::LineData;
use crate::{LineId, SimError};

mod buffers;
mod epochs;
mod params;

pub use params::ParameterDoc;

/// What a design promises about crashes, to be checked on every image that it leaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Model {
    /// Nothing: a crash may leave anything.
    None,
    /// Stores persist in the order in which they become visible.
    Strict,
    /// x86: flushed lines persist by the next fence of the thread that flushed them.
    Px86,
    /// Epochs persist in order and a barrier waits for the epoch before it.
    Epoch,
    /// Epochs persist in order, some time later (buffered epoch persistency).
    BufferedEpoch,
    /// Stores persist in the order in which they become visible, some time later (buffered strict
    /// persistency): once the hardware has recovered, if it has to, memory is a consistent cut of
    /// the run. In bulk mode the saved states of the processors say where it is.
    BufferedStrict,
    /// Epochs persist in order, some time later; persist buffers hold them (`ofence`, `dfence`).
    Hops,
    /// As `BufferedEpoch` inside each strand of a thread; between them only stores of one line are
    /// ordered, and a drain joins them.
    Strand,
    /// What a store has made visible survives.
    Eadr,
}

impl Model {
    /// The name in tables and JSON.
    pub fn name(self) -> &'static str {
        match self {
            Model::None => "none",
            Model::Strict => "strict",
            Model::Px86 => "px86",
            Model::Epoch => "epoch",
            Model::BufferedEpoch => "bep",
            Model::BufferedStrict => "bsp",
            Model::Hops => "hops",
            Model::Strand => "strand",
            Model::Eadr => "eadr",
        }
    }

    /// True if what was ordered before an output is never lost by a crash after it.
    pub fn order_is_durable(self) -> bool {
        matches!(self, Model::Strict | Model::Px86 | Model::Epoch | Model::Eadr)
    }
}

/// The hooks of a persistency design.
///
/// All are called at `now`, in exact time order. A hook that answers [`Gate::Wait`] has noted who
/// asked, and wakes it later with [`Hw::wake`]; the machine then asks again from the start.
#[allow(unused_variables, reason = "the default of a hook does nothing")]
pub(crate) trait Design: Sized {
    /// What its parts tell each other.
    type Message: Copy;
    /// Consecutive stores to one line leave the store buffer as one.
    const COALESCES: bool = true;
    /// Programs for it contain flush instructions.
    const USES_FLUSHES: bool = false;
    /// Non-temporal stores go through a write-combining buffer. Without, they are plain stores, as
    /// hardware that tracks stores would lose sight of them.
    const COMBINES: bool = false;
    /// Programs for it say where strands begin; elsewhere that is no instruction.
    const HAS_STRANDS: bool = false;
    /// Only what the design sends writes persistent memory: a dirty persistent line that leaves the
    /// shared cache is dropped.
    const DROPS_EVICTIONS: bool = false;

    /// `core`'s store buffer wants to write its copy of `line`, which it may.
    fn store(&mut self, hw: &mut Hw<Self::Message>, who: Waiter, at: Store, now: Cycle) -> Gate {
        Gate::Go
    }

    /// The store has been done, and those behind it in the store buffer that left with it: `stores`
    /// in all, to one line.
    fn stored(
        &mut self,
        hw: &mut Hw<Self::Message>,
        core: usize,
        at: Store,
        stores: u64,
        now: Cycle,
    ) {
    }

    /// `core`'s program wants to run a locked operation; its store buffer is empty.
    fn locked(&mut self, hw: &mut Hw<Self::Message>, who: Waiter, now: Cycle) -> Gate {
        Gate::Go
    }

    /// A flush of `line` is at the head of `core`'s store buffer.
    fn flush(&mut self, hw: &mut Hw<Self::Message>, who: Waiter, line: LineId, now: Cycle) -> Gate {
        Gate::Go
    }

    /// What `core` has combined of `line` leaves for memory now: who is told when it is durable.
    fn streamed(&mut self, hw: &mut Hw<Self::Message>, core: usize, line: LineId) -> Token {
        Token::NONE
    }

    /// An order (persist barrier, sfence, ofence) is at the head of `core`'s store buffer.
    fn order(&mut self, hw: &mut Hw<Self::Message>, who: Waiter, now: Cycle) -> Gate {
        Gate::Go
    }

    /// A new strand is at the head of `core`'s store buffer.
    fn strand(&mut self, hw: &mut Hw<Self::Message>, who: Waiter, now: Cycle) -> Gate {
        Gate::Go
    }

    /// A join of strands is at the head of `core`'s store buffer.
    fn join_strands(&mut self, hw: &mut Hw<Self::Message>, who: Waiter, now: Cycle) -> Gate {
        Gate::Go
    }

    /// A drain is at the head of `core`'s store buffer, whose program waits for it.
    fn drain(&mut self, hw: &mut Hw<Self::Message>, who: Waiter, now: Cycle) -> Gate {
        Gate::Go
    }

    /// A core wants a line that the shared cache has.
    fn remote(&mut self, hw: &mut Hw<Self::Message>, request: &Request) -> Gate {
        Gate::Go
    }

    /// The shared cache has not the line that a core wants: memory is to be read.
    fn miss(&mut self, hw: &mut Hw<Self::Message>, who: Waiter, line: LineId, now: Cycle) -> Gate {
        Gate::Go
    }

    /// May `core` fetch `line` ahead of the access that will want it?
    fn may_prefetch(&self, hw: &Hw<Self::Message>, core: usize, line: LineId) -> bool {
        true
    }

    /// May the line in `slot` leave the shared cache at once, for a line
    /// that nobody has asked for yet?
    fn may_displace(&self, hw: &Hw<Self::Message>, slot: Slot) -> bool {
        true
    }

    /// The copy of `line` in `way` of the asking core's L1 is to leave for the shared cache.
    fn spill(
        &mut self,
        hw: &mut Hw<Self::Message>,
        who: Waiter,
        way: Way,
        line: LineId,
        now: Cycle,
    ) -> Gate {
        Gate::Go
    }

    /// The line in `slot` is to leave the shared cache.
    fn evict(&mut self, hw: &mut Hw<Self::Message>, who: Waiter, slot: Slot, now: Cycle) -> Gate {
        Gate::Go
    }

    /// A write has arrived at its controller, whose tile is `from`, and takes its place in the
    /// order of the queue, which accepts it at `accepted`.
    fn arrived(&mut self, hw: &mut Hw<Self::Message>, token: Token, from: Tile, accepted: Cycle) {}

    /// A write is durable; its acknowledgement will be back where the write came from at
    /// `acknowledged`, a little later than now.
    fn written(&mut self, hw: &mut Hw<Self::Message>, token: Token, acknowledged: Cycle) {}

    /// `core`'s program has returned and its store buffer is empty.
    fn exited(&mut self, hw: &mut Hw<Self::Message>, core: usize, now: Cycle) {}

    /// A message that the design sent itself arrives.
    fn message(&mut self, hw: &mut Hw<Self::Message>, message: Self::Message, now: Cycle) {}

    /// The power fails: lays what a battery saves over what is durable.
    fn save(&self, hw: &Hw<Self::Message>, image: &mut [LineData]) {}

    /// Persistent lines that the design keeps for itself, behind the program's.
    fn own_lines(&self) -> LineId {
        0
    }

    /// What the hardware does when the power is back, before any program runs, from `image` alone:
    /// all persistent lines, its own included. Answers how many of each core's stores are in it.
    fn recover(&self, image: &mut [LineData]) -> Vec<u64> {
        Vec::new()
    }
}

/// A store about to be done: the line, and the way of the storing core's L1 that has it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Store {
    pub(crate) line: LineId,
    pub(crate) way: Way,
    pub(crate) word: u8,
    pub(crate) mask: u64,
    pub(crate) value: u64,
}

/// A design of the table.
pub struct DesignEntry {
    /// Name on the command line.
    pub name: &'static str,
    /// One line on what it is, and where it comes from.
    pub about: &'static str,
    /// What it promises with the defaults; see [`Choice::model`].
    pub model: Model,
    /// Its parameters with their defaults.
    pub parameters: fn() -> toml::Table,
    /// Its parameters in words, in the order of declaration.
    pub docs: &'static [ParameterDoc],
    pub(crate) check: fn(&toml::Table) -> Result<(), String>,
    pub(crate) run: fn(Setup, &toml::Table) -> Result<Outcome, SimError>,
}

impl std::fmt::Debug for DesignEntry {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("DesignEntry").field("name", &self.name).finish_non_exhaustive()
    }
}

/// A design with its parameters, as given on the command line: `name` or `name:key=value:...`.
#[derive(Clone, Debug)]
pub struct Choice {
    /// The design.
    pub entry: &'static DesignEntry,
    /// What was asked for, as it was written.
    pub text: String,
    /// Parameters that differ from the defaults.
    pub parameters: toml::Table,
}

impl Choice {
    /// Reads `name` or `name:key=value:key=value`.
    ///
    /// # Errors
    /// An unknown design or parameter (the message lists the known ones), or a value of the wrong
    /// type.
    pub fn parse(text: &str) -> Result<Choice, SimError> {
        let mut parts = text.split(':');
        let name = parts.next().unwrap_or_default();
        let meant = ALSO.iter().find(|(also, _)| *also == name).map_or(name, |(_, meant)| meant);
        let entry = DESIGNS.iter().find(|entry| entry.name == meant).ok_or_else(|| {
            let known: Vec<&str> = DESIGNS.iter().map(|entry| entry.name).collect();
            SimError::UnknownDesign { name: name.into(), known: known.join(", ") }
        })?;
        let mut parameters = toml::Table::new();
        for part in parts {
            let wrong = |what: String| SimError::Parameter { design: name.into(), what };
            // A shell takes the quotes of a text away.
            let quoted = part.split_once('=').map(|(key, text)| format!("{key}=\"{text}\""));
            let as_text = || quoted.and_then(|quoted| toml::from_str(&quoted).ok());
            let table: toml::Table = toml::from_str(part).or_else(|error| {
                let what = || format!("'{part}' is not of the form key=value: {}", error.message());
                as_text().ok_or_else(|| wrong(what()))
            })?;
            parameters.extend(table);
        }
        (entry.check)(&parameters)
            .map_err(|what| SimError::Parameter { design: name.into(), what })?;
        Ok(Choice { entry, text: text.into(), parameters })
    }

    /// The value of every parameter: what was asked for, and the defaults.
    pub fn all_parameters(&self) -> toml::Table {
        let mut all = (self.entry.parameters)();
        all.extend(self.parameters.clone());
        all
    }

    /// The same design with `key` set to `value`; the text says so.
    ///
    /// # Errors
    /// A parameter that the design does not have (the message lists those that it has), or a value
    /// of the wrong type or out of range.
    pub fn with(&self, key: &str, value: &toml::Value) -> Result<Choice, SimError> {
        let mut parameters = self.parameters.clone();
        parameters.insert(key.into(), value.clone());
        (self.entry.check)(&parameters)
            .map_err(|what| SimError::Parameter { design: self.entry.name.into(), what })?;
        let shown = parameters.iter().map(|(key, value)| format!(":{key}={value}"));
        let text = self.entry.name.to_owned() + &shown.collect::<String>();
        Ok(Choice { entry: self.entry, text, parameters })
    }

    /// Whether it has an undo log of its own; none if it could not have one.
    fn log(&self) -> Option<bool> {
        self.all_parameters().get("log")?.as_bool()
    }

    /// What the design promises with these parameters: nothing where they give its promise up
    /// (without its log, an epoch in bulk mode is not atomic, and programs do not know where it
    /// ends). A deliberate flaw changes no promise: it breaks one.
    pub fn model(&self) -> Model {
        if self.log() == Some(false) { Model::None } else { self.entry.model }
    }

    /// True if crashes of programs that say nothing about persistency can be judged: memory and the
    /// saved states of the processors are to be a consistent cut.
    pub fn promises_cuts(&self) -> bool {
        self.log() == Some(true)
    }
}

/// Names that papers give to designs of the table: the ideal of HOPS and ASAP has no flush and no
/// fence, and is not crash-safe.
const ALSO: &[(&str, &str)] = &[("ideal", "volatile")];

/// One line a design makes its module, its entry in [`DESIGNS`] and its place in all tables.
macro_rules! designs {
    ($($module:ident $name:literal),* $(,)?) => {
        $(mod $module;)*

        /// Every design, in the order in which tables print them.
        pub const DESIGNS: &[DesignEntry] = &[$(DesignEntry {
            name: $name,
            about: $module::ABOUT,
            model: $module::MODEL,
            parameters: || params::table(&$module::Params::default()),
            docs: <$module::Params as params::Parameters>::DOCS,
            check: |table| params::parse::<$module::Params>(table).map(drop),
            run: |setup, table| {
                let params = params::parse::<$module::Params>(table);
                let params = params.expect("checked when it was parsed");
                let build =
                    |machine: &Machine, lines: LineId| $module::design(&params, machine, lines);
                crate::machine::run(setup, build, params::adr(&params))
            },
        }),*];
    };
}

designs! {
    volatile "volatile",
    strict "strict",
    epoch "epoch",
    clwb "clwb",
    eadr "eadr",
    lb "lb",
    lb_idt "lb-idt",
    lb_pf "lb-pf",
    lbpp "lbpp",
    hops "hops",
    dpo "dpo",
    asap "asap",
    bbb "bbb",
    strand "strand",
    bsp_naive "bsp-naive",
    bsp_lb "bsp-lb",
    bsp_lb_idt "bsp-lb-idt",
    bsp_lb_pf "bsp-lb-pf",
    bsp_lbpp "bsp-lbpp",
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bulk_mode_without_its_log_promises_nothing_to_programs() {
        let model = |text| Choice::parse(text).unwrap().model();
        assert_eq!(model("bsp-lb"), Model::BufferedStrict);
        assert_eq!(model("bsp-lb:log=false"), Model::None);
        assert_eq!(model("bsp-lb:flaw='names-early'"), Model::BufferedStrict);
        assert_eq!(model("lb:flaw='loses-versions'"), Model::BufferedEpoch);
    }

    #[test]
    fn a_choice_names_what_it_does_not_know() {
        assert_eq!(Choice::parse("lbpp").unwrap().entry.name, "lbpp");
        assert_eq!(Choice::parse("ideal").unwrap().model(), Model::None);
        assert!(Choice::parse("clwb:adr=true").unwrap().parameters["adr"].as_bool().unwrap());
        let error = |text| Choice::parse(text).unwrap_err().to_string();
        assert!(error("lb3").contains("volatile, strict"), "{}", error("lb3"));
        assert!(error("clwb:adrr=true").contains("adr"), "{}", error("clwb:adrr=true"));
        assert!(error("clwb:adr=7").contains("adr") || error("clwb:adr=7").contains("bool"));
        assert!(error("clwb:adr").contains("key=value"));
        assert_eq!(
            Choice::parse("lb:flaw=none").unwrap().parameters["flaw"].as_str(),
            Some("none")
        );
        assert!(error("lb:flaw=nine").contains("ignores-replacement"));
        assert!(error("lbpp:epochs=1").contains("epochs = 1 is out of range; give 2 to 64"));
        assert!(error("lb:search_cycles=9000000000").contains("give 0 to 10000"));
    }
}
