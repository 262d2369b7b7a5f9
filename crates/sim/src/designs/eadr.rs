//! eADR, or a battery for the caches: a store is durable once it is visible, so flushes do nothing
//! and fences only order. Store buffers are not saved.

use crate::LineId;
use crate::config::Machine;
use crate::design::Design;
use crate::families::params::parameters;
use crate::hw::Hw;
use crate::memory::versions::LineData;
use seawall_memory::Model;

pub(super) const ABOUT: &str =
    "Caches inside the persistence domain (eADR, flush on fail): nothing needs a flush.";
pub(super) const MODEL: Option<Model> = Some(Model::Eadr);

parameters! {}

pub(super) fn design(_: &Params, _: &Machine, _: LineId) -> Eadr {
    Eadr
}

/// The design has no state.
pub(crate) struct Eadr;

impl Design for Eadr {
    type Message = ();
    const COMBINES: bool = true;

    fn save(&self, hw: &Hw<()>, image: &mut [LineData]) {
        let newest = hw.newest();
        image[..newest.len()].copy_from_slice(&newest);
    }
}
