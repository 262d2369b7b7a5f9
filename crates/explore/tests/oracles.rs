//! Three slow and simple machines that say what a crash may leave, written from the definitions and
//! sharing nothing with the models of the crate but the litmus language. The expectations in the
//! litmus files come from them.

mod cuts;
mod persist_order;
mod store_buffer;

pub(crate) use persist_order::Rules;
use seawall_explore::litmus::{Column, Litmus, Outcome, Place, Value};
use std::collections::BTreeSet;

/// All outcomes of the test under the model.
pub(crate) fn outcomes(test: &Litmus, model: &str) -> BTreeSet<Outcome> {
    let mut found = BTreeSet::new();
    for threads in test.variants() {
        match model {
            "px86" => store_buffer::explore(test, &threads, false, &mut found),
            "eadr" => store_buffer::explore(test, &threads, true, &mut found),
            "bsp" => cuts::explore(test, &threads, &mut found),
            _ => persist_order::explore(test, &threads, Rules::of(model), &mut found),
        }
    }
    found
}

/// As [`outcomes`], under rules that no model of the crate has.
pub(crate) fn outcomes_under(test: &Litmus, rules: Rules) -> BTreeSet<Outcome> {
    let mut found = BTreeSet::new();
    for threads in test.variants() {
        persist_order::explore(test, &threads, rules, &mut found);
    }
    found
}

/// The word of a store that writes its whole line, as one.
const WHOLE_LINE: u8 = 8;

/// Whether a store to this word of a line stores to the place, which is of that line.
fn is_of(word: u8, at: Place) -> bool {
    word == at.word || word == WHOLE_LINE
}

fn overlap(one: Place, other: Place) -> bool {
    one.line == other.line && (is_of(one.word, other) || is_of(other.word, one))
}

/// The outcome of a memory and registers.
fn outcome(test: &Litmus, memory: impl Fn(Place) -> Value, registers: &[Option<Value>]) -> Outcome {
    let value = |column: &Column| match *column {
        Column::Memory(at) => Some(memory(at)),
        Column::Register(register) => registers[usize::from(register.0)],
    };
    Outcome(test.columns.iter().map(value).collect())
}
