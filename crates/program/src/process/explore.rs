//! The served side of an exploration: a process that has loaded the program and forks for each run.

mod chains;
mod machine;
mod server;
mod space;
mod template;

pub(crate) use server::serve;
pub(crate) use space::{is_recovery, is_run, is_stored_to, may_have_changed, name, overlay};
