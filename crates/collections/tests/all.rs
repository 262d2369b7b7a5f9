//! The structures that live in a heap: without crashes, with them, and with several threads.

use seawall_explore::Model;

mod fields;
mod full;
mod inspect;
mod linear;
mod map_crash;
mod map_threads;
mod maps;
mod subject;
mod together;
mod wild;

/// In the long run (`SEAWALL_LONG=1`), tests try all that they can.
fn is_long_run() -> bool {
    std::env::var_os("SEAWALL_LONG").is_some()
}

/// Whether number `case` of so many is tried under the model: all of them under px86 and in the
/// long run, else one, in turns.
fn is_tried(model: Model, case: usize, cases: usize) -> bool {
    let number = Model::all().position(|other| other == model).expect("it is one of them");
    model == Model::Px86 || is_long_run() || number % cases == case
}
