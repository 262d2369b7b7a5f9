//! LB with proactive flushing under buffered strict persistency (MICRO'15, section 5.2).

use super::Model;
use crate::families::epochs::bulk_params;

pub(super) const ABOUT: &str =
    "BSP in bulk mode (MICRO'15) with proactive flushing.";
pub(super) const MODEL: Model = Model::BufferedStrict;

bulk_params! {
    tracks: false,
    proactive: true,
}
