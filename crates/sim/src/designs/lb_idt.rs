//! LB+IDT (MICRO'15, sections 3.1 and 4.2): an inter-thread conflict is recorded in a pair of
//! registers and enforced by the arbiters, instead of waited for.

use crate::families::epochs::epoch_params;
use seawall_memory::Model;

pub(super) const ABOUT: &str = "LB with inter-thread dependence tracking.";
pub(super) const MODEL: Option<Model> = Some(Model::Bep);

epoch_params! {
    waits: false,
    tracks: true,
    proactive: false,
}
