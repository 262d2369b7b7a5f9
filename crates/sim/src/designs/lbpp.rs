//! LB++ (MICRO'15): dependence tracking and proactive flushing together.

use super::Model;
use crate::families::epochs::epoch_params;

pub(super) const ABOUT: &str =
    "LB++ (MICRO'15): dependence tracking and proactive flushing.";
pub(super) const MODEL: Model = Model::BufferedEpoch;

epoch_params! {
    waits: false,
    tracks: true,
    proactive: true,
}
