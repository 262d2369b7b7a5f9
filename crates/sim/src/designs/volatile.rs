//! No persistency at all: what the same program costs on the same memory when nobody asks that
//! anything survives. The upper bound that persistency designs are measured against.

use crate::LineId;
use super::{Design, Model, Parameters};
use crate::config::Machine;
use serde::{Deserialize, Serialize};

pub(super) const ABOUT: &str =
    "No persistency: flushes and barriers cost nothing and promise nothing.";
pub(super) const MODEL: Model = Model::None;

/// It has no parameters.
#[derive(Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct Params {}

impl Parameters for Params {}

pub(super) fn design(_: &Params, _: &Machine, _: LineId) -> Volatile {
    Volatile
}

/// The design has no state.
pub(crate) struct Volatile;

impl Design for Volatile {
    type Message = ();
    const COMBINES: bool = true;
}
