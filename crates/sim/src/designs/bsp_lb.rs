//! LB under buffered strict persistency (MICRO'15, section 5.2): programs contain no barriers.

use crate::families::epochs::bulk_params;
use seawall_memory::Model;

pub(super) const ABOUT: &str =
    "BSP in bulk mode (MICRO'15) with LB: hardware makes epochs and logs old lines.";
pub(super) const MODEL: Option<Model> = Some(Model::Bsp);

bulk_params! {
    tracks: false,
    proactive: false,
}
