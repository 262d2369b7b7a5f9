//! Persistency designs: one file each, and the table that names them. What a design is:
//! [`Design`](crate::design::Design).

use crate::LineId;
use crate::config::Machine;
use crate::families::params;
use crate::run::{RunOutcome, Setup, SimError};
use crate::toy;
use seawall_memory::Model;

pub use crate::families::params::ParameterDoc;

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
    pub(crate) check_values: fn(&toml::Table) -> Result<(), String>,
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

    /// Rejects parameters that it does not have, and values that they cannot have; `design` is what
    /// messages call it.
    fn check(&self, design: &str, parameters: &toml::Table) -> Result<(), SimError> {
        let design = || design.to_owned();
        let is_known = |key: &str| self.docs.iter().any(|doc| doc.name == key);
        if let Some(key) = parameters.keys().find(|key| !is_known(key)) {
            let (key, known) = (key.clone(), params::known(self.docs));
            return Err(SimError::UnknownParameter { design: design(), key, known });
        }
        (self.check_values)(parameters)
            .map_err(|what| SimError::Parameter { design: design(), what })
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
        entry.check(name, &parameters)?;
        Ok(Choice { entry, text: text.into(), parameters })
    }

    /// No design, but a toy of fixed work for each access, whose cycles mean nothing: the time that
    /// a simulation takes can be measured against the toy's. It runs programs of the seam only.
    pub fn toy() -> Choice {
        Choice { entry: &TOY, text: TOY.name.into(), parameters: toml::Table::new() }
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
        self.entry.check(self.entry.name, &parameters)?;
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

/// The entry of the toy; it is no design, and no table has it.
static TOY: DesignEntry = DesignEntry {
    name: "toy",
    about: "Fixed work for each access, to measure the simulator against.",
    model: None,
    parameters: toml::Table::new,
    docs: &[],
    check_values: |_| Ok(()),
    run: |setup, _| toy::run(setup),
};

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
            check_values: |table| params::parse::<$module::Params>(table).map(drop),
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
        assert_eq!(
            text,
            "design clwb: no parameter 'adrr'; known: adr, invalidating, serial, flaw"
        );
        assert_eq!(refusal("ideal:x=1"), "design ideal: no parameter 'x'; it has no parameters");
    }

    #[test]
    fn a_part_that_is_empty_or_has_no_value_is_refused() {
        let known = "is not of the form key=value; known: adr, invalidating, serial, flaw";
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
        let text = "design hops: entries=4 is a text; give a whole number, 1 to 255";
        assert_eq!(refusal("hops:entries='4'"), text);
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
