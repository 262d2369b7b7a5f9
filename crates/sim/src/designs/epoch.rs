//! Unbuffered epoch persistency (MICRO'15, section 2.1, rules E1 and E2): the persist barrier of
//! [`crate::families::epochs`], which here waits until the epoch that it closes is durable.

use crate::families::epochs::epoch_params;
use seawall_memory::Model;

pub(super) const ABOUT: &str =
    "Unbuffered epoch persistency: a barrier waits until its epoch is durable.";
pub(super) const MODEL: Option<Model> = Some(Model::Epoch);

epoch_params! {
    waits: true,
    tracks: false,
    proactive: false,
}
