//! What gem5 was measured to do: the numbers of validation/gem5-ht.toml, whose conditions are in
//! validation/gem5.md.

use serde::Deserialize;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Gem5 {
    /// Version and configuration, for tables.
    pub(crate) what: String,
    pub(crate) speed: Vec<Gem5Speed>,
    pub(crate) run: Vec<Gem5Run>,
}

/// How fast it is.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Gem5Speed {
    pub(crate) cores: usize,
    pub(crate) references_per_second: f64,
}

/// What the program took in it.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Gem5Run {
    pub(crate) cores: usize,
    /// The machine of seawall that stands for its.
    pub(crate) machine: String,
    /// Operations of each thread.
    pub(crate) operations: u64,
    pub(crate) value: Vec<Gem5Value>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Gem5Value {
    pub(crate) of: Quantity,
    pub(crate) expected: f64,
    /// Where `expected` is from, in words.
    pub(crate) from: String,
    /// Why it is known not to hold, if it is.
    pub(crate) gap: Option<String>,
}

/// What is compared, of an operation where nothing else is said.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Quantity {
    Cycles,
    InstructionsPerCycle,
    L1Misses,
    LlcMisses,
    /// Lines read from memory, in GB/s.
    Bandwidth,
}

impl Quantity {
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Quantity::Cycles => "cycles an operation",
            Quantity::InstructionsPerCycle => "instructions a cycle",
            Quantity::L1Misses => "misses of the L1 an operation",
            Quantity::LlcMisses => "misses of the last level an operation",
            Quantity::Bandwidth => "GB/s read from memory",
        }
    }
}

impl Gem5 {
    pub(crate) fn read() -> Gem5 {
        let text = include_str!("../../validation/gem5-ht.toml");
        toml::from_str(text).expect("a test reads validation/gem5-ht.toml")
    }
}
