//! LB++ (MICRO'15): dependence tracking and proactive flushing together.

use crate::families::epochs::epoch_params;
use seawall_memory::Model;

pub(super) const ABOUT: &str = "LB++ (MICRO'15): dependence tracking and proactive flushing.";
pub(super) const MODEL: Option<Model> = Some(Model::Bep);

epoch_params! {
    waits: false,
    tracks: true,
    proactive: true,
}
