//! LB++ under buffered strict persistency (MICRO'15, sections 5.2 and 7.2).

use crate::families::epochs::bulk_params;
use seawall_memory::Model;

pub(super) const ABOUT: &str =
    "BSP in bulk mode (MICRO'15) with dependence tracking and proactive flushing.";
pub(super) const MODEL: Option<Model> = Some(Model::Bsp);

bulk_params! {
    tracks: true,
    proactive: true,
}
