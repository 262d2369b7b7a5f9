//! LB, the lazy barrier of BPFS (MICRO'15, section 2.1): epochs are flushed only when a conflict
//! requires it, and the access that met the conflict waits.

use crate::families::epochs::epoch_params;
use seawall_memory::Model;

pub(super) const ABOUT: &str =
    "Lazy barrier (BPFS): epochs are flushed when a conflict asks for them.";
pub(super) const MODEL: Option<Model> = Some(Model::Bep);

epoch_params! {
    waits: false,
    tracks: false,
    proactive: false,
}
