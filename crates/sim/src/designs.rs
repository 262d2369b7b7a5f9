//! Persistency designs: one file each, and the table that names them.
//!
//! A design decides when a store can take effect, what a flush or a fence waits for, what happens
//! when another core requests a line, and what a battery saves. The machine calls the hooks of the
//! design; the default of a hook does nothing. A design is a *strategy*: its answers change what
//! happens. It can move lines, send messages and book resources through [`Hw`], and must not change
//! what a program sees.

use crate::Cycle;
use crate::caches::private::Way;
use crate::caches::shared::Slot;
use crate::config::Machine;
use crate::families::params;
use crate::hw::{Gate, Hw, Request, Token, Waiter};
use crate::machine::{RunOutcome, Setup};
use crate::memory::versions::LineData;
use crate::noc::mesh::Tile;
use crate::relocation::{Arriving, Late, Lookup, Walk};
use crate::{LineId, SimError};
use seawall_memory::relocation::{Forwarding, Relocation};
use seawall_memory::{Addr, Model};

pub use crate::families::params::ParameterDoc;

/// The hooks of a persistency design.
///
/// All hooks are called at cycle `now`, in exact time order. A hook that returns [`Gate::Wait`] has
/// recorded the waiter and wakes it later with [`Hw::wake`]; the machine then repeats the request
/// from the start.
#[allow(unused_variables, reason = "the default of a hook does nothing")]
pub(crate) trait Design: Sized {
    /// The messages between the parts of the design.
    type Message: Copy;
    /// Consecutive stores to one line leave the store buffer together.
    const COALESCES: bool = true;
    /// Programs for this design contain flush instructions.
    const USES_FLUSHES: bool = false;
    /// Non-temporal stores go through a write-combining buffer. If false, they are plain stores,
    /// because hardware that tracks stores would not see them.
    const COMBINES: bool = false;
    /// Programs for this design mark the start of strands. If false, the mark is no instruction.
    const HAS_STRANDS: bool = false;
    /// Has a [relocation unit](seawall_memory::relocation::RelocationUnit): its controllers record
    /// which lines of copies have persisted. If false, programs copy in software.
    const RELOCATES: bool = false;
    /// Persistent memory is written only by what the design sends: a dirty persistent line that
    /// leaves the shared cache is dropped.
    const DROPS_EVICTIONS: bool = false;

    /// The store buffer of `core` is about to write `core`'s copy of `line`, with write permission.
    fn store(&mut self, hw: &mut Hw<Self::Message>, who: Waiter, at: Store, now: Cycle) -> Gate {
        Gate::Go
    }

    /// The store has been performed, together with the stores behind it in the store buffer that
    /// coalesced with it: `stores` in all, to one line.
    fn stored(
        &mut self,
        hw: &mut Hw<Self::Message>,
        core: usize,
        at: Store,
        stores: u64,
        now: Cycle,
    ) {
    }

    /// The program of `core` is about to run a locked operation; its store buffer is empty.
    fn locked(&mut self, hw: &mut Hw<Self::Message>, who: Waiter, now: Cycle) -> Gate {
        Gate::Go
    }

    /// A flush of `line` is at the head of `core`'s store buffer.
    fn flush(&mut self, hw: &mut Hw<Self::Message>, who: Waiter, line: LineId, now: Cycle) -> Gate {
        Gate::Go
    }

    /// The write-combining buffer of `core` sends `line` to memory now. Returns the token with
    /// which [`written`](Design::written) reports that the line is durable.
    fn combined(&mut self, hw: &mut Hw<Self::Message>, core: usize, line: LineId) -> Token {
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

    /// A drain, for which the program of `core` waits, is at the head of its store buffer.
    fn drain(&mut self, hw: &mut Hw<Self::Message>, who: Waiter, now: Cycle) -> Gate {
        Gate::Go
    }

    /// A core requests a line that is in the shared cache.
    fn remote(&mut self, hw: &mut Hw<Self::Message>, request: &Request) -> Gate {
        Gate::Go
    }

    /// A core requests a line that is not in the shared cache: memory will be read.
    fn miss(&mut self, hw: &mut Hw<Self::Message>, who: Waiter, line: LineId, now: Cycle) -> Gate {
        Gate::Go
    }

    /// Whether `core` can fetch `line` ahead of the access that will need it.
    fn may_prefetch(&self, hw: &Hw<Self::Message>, core: usize, line: LineId) -> bool {
        true
    }

    /// Whether the line in `slot` can leave the shared cache at once, to make room for a prefetched
    /// line.
    fn may_displace(&self, hw: &Hw<Self::Message>, slot: Slot) -> bool {
        true
    }

    /// The copy of `line` in `way` of the requesting core's private caches is about to move to the
    /// shared cache. If the shared cache does not have the line and this is the last copy,
    /// [`evict`](Design::evict) follows.
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

    /// The line in `slot` is about to leave the shared cache.
    fn evict(&mut self, hw: &mut Hw<Self::Message>, who: Waiter, slot: Slot, now: Cycle) -> Gate {
        Gate::Go
    }

    /// A write has arrived at the controller on tile `from` and takes its place in the order of the
    /// queue, which accepts it at `accepted`.
    fn arrived(&mut self, hw: &mut Hw<Self::Message>, token: Token, from: Tile, accepted: Cycle) {}

    /// A write reaches its controller. Returns how much later than usual it is accepted, or `None`
    /// if it must come again one cycle later. Called only if the design
    /// [relocates](Design::RELOCATES).
    fn arriving(
        &mut self,
        hw: &mut Hw<Self::Message>,
        write: &Arriving,
        now: Cycle,
    ) -> Option<Late> {
        Some(Late::default())
    }

    /// The write of the last call of [`arriving`](Design::arriving) contains bytes of a copy and
    /// will be durable at `durable`.
    fn persists(
        &mut self,
        hw: &mut Hw<Self::Message>,
        write: &Arriving,
        now: Cycle,
        durable: Cycle,
    ) {
    }

    /// Whether cores look up where objects have moved.
    fn forwards(&self) -> bool {
        false
    }

    /// Returns the destination of the object at `at`, as far as the hardware of `core` knows.
    fn look_up(&mut self, hw: &mut Hw<Self::Message>, core: usize, at: Addr) -> Lookup {
        Lookup::At(at, 0)
    }

    /// `core` has read what `walk` requested: the forwarding entry, or that the page has none.
    /// Returns the destination of the object at `at`.
    fn walked(&mut self, core: usize, at: Addr, walk: &Walk, entry: Option<Forwarding>) -> Addr {
        at
    }

    /// The registers of relocation hardware are set.
    fn set_relocation(&mut self, hw: &mut Hw<Self::Message>, registers: Option<Relocation>) {}

    /// A write is durable; its acknowledgement reaches the sender of the write at `acknowledged`, a
    /// little later than now.
    fn written(&mut self, hw: &mut Hw<Self::Message>, token: Token, acknowledged: Cycle) {}

    /// `core`'s program has returned and its store buffer is empty.
    fn exited(&mut self, hw: &mut Hw<Self::Message>, core: usize, now: Cycle) {}

    /// A message that the design sent to itself arrives.
    fn message(&mut self, hw: &mut Hw<Self::Message>, message: Self::Message, now: Cycle) {}

    /// The power fails: copies what a battery saves into the image of what is durable.
    fn save(&self, hw: &Hw<Self::Message>, image: &mut [LineData]) {}

    /// The number of persistent lines that the design uses itself, behind those of the program.
    fn own_lines(&self) -> LineId {
        0
    }

    /// The recovery by the hardware after power returns and before any program runs. It reads
    /// `image` alone: all persistent lines, the design's own included. Returns the number of stores
    /// of each core that are in the image.
    fn recover(&self, image: &mut [LineData]) -> Vec<u64> {
        Vec::new()
    }
}

/// A store about to be performed: the line, and the way of the storing core's L1 that has it.
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
    /// What it is and where it comes from, in one line.
    pub about: &'static str,
    /// The persistency model that it promises with the default parameters; see [`Choice::model`].
    pub model: Option<Model>,
    /// Its parameters with their defaults.
    pub parameters: fn() -> toml::Table,
    /// The descriptions of its parameters, in the order of declaration.
    pub docs: &'static [ParameterDoc],
    pub(crate) check: fn(&toml::Table) -> Result<(), String>,
    pub(crate) run: fn(Setup, &toml::Table) -> Result<RunOutcome, SimError>,
}

impl DesignEntry {
    /// Another name for it, from the papers.
    pub fn also(&self) -> Option<&'static str> {
        ALSO.iter().find(|(_, meant)| *meant == self.name).map(|(also, _)| *also)
    }

    /// Whether it runs when the user names no design.
    pub fn by_default(&self) -> bool {
        !NAMED_ONLY.contains(&self.name)
    }

    /// Its name, followed by its other name in brackets.
    pub fn names(&self) -> String {
        self.also().map_or(self.name.into(), |also| format!("{} ({also})", self.name))
    }
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
    /// The text that the user gave.
    pub text: String,
    /// Parameters that differ from the defaults.
    pub parameters: toml::Table,
}

impl Choice {
    /// Reads `name` or `name:key=value:key=value`.
    ///
    /// # Errors
    /// An unknown design or parameter (the message lists the known ones), a parameter without a
    /// value or given twice, or a value of the wrong type, out of range, or at odds with another.
    pub fn parse(text: &str) -> Result<Choice, SimError> {
        let mut parts = text.split(':');
        let name = parts.next().unwrap_or_default();
        let is_meant = |entry: &&DesignEntry| entry.name == name || entry.also() == Some(name);
        let entry = DESIGNS.iter().find(is_meant).ok_or_else(|| {
            let known: Vec<String> = DESIGNS.iter().map(DesignEntry::names).collect();
            SimError::UnknownDesign { name: name.into(), known: known.join(", ") }
        })?;
        let wrong = |what: String| SimError::Parameter { design: name.into(), what };
        let mut parameters = toml::Table::new();
        for part in parts {
            let (key, value) = params::read(part).ok_or_else(|| {
                let known = params::known(entry.docs);
                wrong(format!("'{part}' is not of the form key=value; {known}"))
            })?;
            let second = params::shown(&value);
            if let Some(first) = parameters.insert(key.into(), value) {
                let first = params::shown(&first);
                return Err(wrong(format!(
                    "{key}={first} and {key}={second} are given; give {key} once"
                )));
            }
        }
        (entry.check)(&parameters).map_err(wrong)?;
        Ok(Choice { entry, text: text.into(), parameters })
    }

    /// The value of every parameter: those given, and for the others the defaults, adjusted where a
    /// given value rules the default out.
    pub fn all_parameters(&self) -> toml::Table {
        let mut all = (self.entry.parameters)();
        all.extend(self.parameters.clone());
        params::lower(&mut all);
        all
    }

    /// Returns the same design with `key` set to `value`, in the text too.
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

    /// The value of the design's `log` parameter, or `None` if it has no such parameter.
    fn log(&self) -> Option<bool> {
        self.all_parameters().get("log")?.as_bool()
    }

    /// The persistency model that the design promises with these parameters; `None` if they give it
    /// up (without its log, an epoch in bulk mode is not atomic, and programs do not know where it
    /// ends). A planted bug changes no promise: it breaks one.
    pub fn model(&self) -> Option<Model> {
        if self.log() == Some(false) { None } else { self.entry.model }
    }

    /// The name of [`model`](Choice::model) in tables and JSON; `none` without a model.
    pub fn model_name(&self) -> &'static str {
        self.model().map_or("none", Model::name)
    }

    /// Whether the program must flush what has to persist, as on x86.
    pub fn needs_flushes(&self) -> bool {
        self.model() == Some(Model::Px86)
    }

    /// True if it has hardware that moves objects
    /// ([`Memory::relocation`](seawall_memory::Memory::relocation)).
    pub fn relocates(&self) -> bool {
        self.entry.name == "ffccd"
    }

    /// True if crashes of programs that contain no persistency instructions can be checked: memory
    /// and the saved states of the processors must form a consistent cut.
    pub fn promises_cuts(&self) -> bool {
        self.log() == Some(true)
    }
}

/// Names that papers give to designs of this table: the ideal of HOPS and ASAP has no flush and no
/// fence, and is not crash-safe.
const ALSO: &[(&str, &str)] = &[("ideal", "volatile")];

/// Designs that run only when named: for programs that move no objects they equal another design.
const NAMED_ONLY: &[&str] = &["ffccd"];

/// A line of this macro declares the design's module, its entry in [`DESIGNS`] and its place in all
/// tables.
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
    ffccd "ffccd",
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
        assert_eq!(model("bsp-lb"), Some(Model::Bsp));
        assert_eq!(model("bsp-lb:log=false"), None);
        assert_eq!(model("bsp-lb:flaw='names-early'"), Some(Model::Bsp));
        assert_eq!(model("lb:flaw='loses-versions'"), Some(Model::Bep));
    }

    fn refusal(text: &str) -> String {
        Choice::parse(text).unwrap_err().to_string()
    }

    #[test]
    fn a_choice_is_a_name_or_what_papers_call_it_and_values_need_no_quotes() {
        let parameter =
            |text: &str, key: &str| Choice::parse(text).unwrap().parameters[key].clone();
        assert_eq!(Choice::parse("lbpp").unwrap().entry.name, "lbpp");
        assert_eq!(Choice::parse("ideal").unwrap().model(), None);
        assert_eq!(parameter("clwb:adr=true", "adr").as_bool(), Some(true));
        assert_eq!(parameter("lb:flaw=none", "flaw").as_str(), Some("none"));
        assert_eq!(parameter("lb:flaw='none'", "flaw").as_str(), Some("none"));
        assert_eq!(parameter("hops:poll=1_000", "poll").as_integer(), Some(1000));
    }

    #[test]
    fn what_is_unknown_is_answered_with_what_is_known() {
        let text = refusal("lb3");
        assert!(text.starts_with("no design 'lb3'; known: volatile (ideal), strict"), "{text}");
        let text = refusal("clwb:adrr=true");
        assert_eq!(text, "design clwb: no parameter 'adrr'; known: adr, invalidating, flaw");
        assert_eq!(refusal("ideal:x=1"), "design ideal: no parameter 'x'; it has no parameters");
    }

    #[test]
    fn a_part_that_is_empty_or_has_no_value_is_refused() {
        let known = "is not of the form key=value; known: adr, invalidating, flaw";
        for part in ["", "adr", "=true", " "] {
            assert_eq!(refusal(&format!("clwb:{part}")), format!("design clwb: '{part}' {known}"));
        }
        assert!(refusal("hops::entries=4").contains("'' is not of the form key=value"));
    }

    #[test]
    fn a_value_of_the_wrong_type_is_refused_with_its_key_and_what_is_possible() {
        for value in ["x", "", "true", "1e3", "4.0", "[4]", "4\nadr=true"] {
            let what = format!("design hops: entries={value} is not a whole number; give 1 to 255");
            assert_eq!(refusal(&format!("hops:entries={value}")), what);
        }
        for value in ["yes", "7", ""] {
            let what = format!("design clwb: adr={value} is not a boolean; give true or false");
            assert_eq!(refusal(&format!("clwb:adr={value}")), what);
        }
        let flaws = "none, fences-early, ";
        for value in ["x", "7", "", "none "] {
            let text = refusal(&format!("clwb:flaw='{value}'"));
            let what = format!("design clwb: flaw={value} is unknown; give {flaws}");
            assert!(text.starts_with(&what), "{text}");
        }
    }

    #[test]
    fn a_number_out_of_range_is_refused_with_its_range() {
        for value in ["-1", "0", "256", "99999999999999999999"] {
            let what = format!("design hops: entries={value} is out of range; give 1 to 255");
            assert_eq!(refusal(&format!("hops:entries={value}")), what);
        }
        assert!(refusal("lb:search_cycles=9000000000").contains("give 0 to 10000"));
    }

    #[test]
    fn a_parameter_given_twice_is_refused_with_both_values() {
        let text = refusal("hops:entries=4:entries=5");
        assert_eq!(text, "design hops: entries=4 and entries=5 are given; give entries once");
    }

    #[test]
    fn a_buffer_cannot_be_flushed_from_more_entries_than_it_has() {
        let text = refusal("hops:flush_from=32:entries=8");
        assert!(text.contains("flush_from=32 is more than entries=8; give flush_from 1 to 8"));
        assert!(refusal("asap:flush_from=33").contains("flush_from=33 is more than entries=32"));
        let hops = Choice::parse("hops:entries=8").unwrap();
        assert_eq!(hops.all_parameters()["flush_from"].as_integer(), Some(8));
        assert!(hops.with("flush_from", &9.into()).is_err());
        assert!(hops.with("flush_from", &8.into()).is_ok());
    }

    #[test]
    fn the_values_of_every_parameter_of_every_design_are_known_and_its_default_is_one() {
        for entry in DESIGNS {
            let values = (entry.parameters)();
            for doc in entry.docs {
                let default = params::shown(&values[doc.name]);
                let given = |value: &str| format!("{}:{}={value}", entry.name, doc.name);
                assert!(Choice::parse(&given(&default)).is_ok(), "{}", given(&default));
                let text = refusal(&given("?"));
                let start = format!("design {}: {}=? is ", entry.name, doc.name);
                assert!(text.starts_with(&start) && text.contains("; give "), "{text}");
            }
        }
    }
}
