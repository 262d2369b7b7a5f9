//! No persistency: the cost of the same program on the same memory when nothing must survive. The
//! upper bound against which persistency designs are measured.

use crate::LineId;
use crate::config::Machine;
use crate::design::Design;
use crate::families::params::parameters;
use seawall_memory::Model;

pub(super) const ABOUT: &str =
    "No persistency, or 'ideal': flushes and barriers cost nothing and promise nothing.";
pub(super) const MODEL: Option<Model> = None;

parameters! {}

pub(super) fn design(_: &Params, _: &Machine, _: LineId) -> Volatile {
    Volatile
}

/// The design has no state.
pub(crate) struct Volatile;

impl Design for Volatile {
    type Message = ();
    const COMBINES: bool = true;
}
