//! A module for each command of seawall.

pub mod bench;
pub(crate) mod compare;
pub mod explore;
pub(crate) mod kernels;
pub(crate) mod list;
pub mod litmus;
pub mod pool;
pub(crate) mod program;
pub mod run;
pub(crate) mod similar;
pub(crate) mod sweep;
pub mod validate;
pub(crate) mod whisper;
