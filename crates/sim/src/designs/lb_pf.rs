//! LB+PF (MICRO'15, sections 3.2 and 4.2): an epoch is flushed as soon as it is complete and the
//! epochs before it are durable.

use crate::families::epochs::epoch_params;
use seawall_memory::Model;

pub(super) const ABOUT: &str = "LB with proactive flushing of complete epochs.";
pub(super) const MODEL: Option<Model> = Some(Model::Bep);

epoch_params! {
    waits: false,
    tracks: false,
    proactive: true,
}
