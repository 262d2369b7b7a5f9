//! How commands are run and their results shown: what every command of seawall has in common.
//!
//! An [`Experiment`] goes from options to a [`Report`]; a report is text for people, JSON Lines for
//! programs, and plots. This crate has the tables, the plots, the files (which are written whole or
//! not at all) and the progress. All that it knows of persistent memory is what a pool file begins
//! with, so that none is overwritten.

#![forbid(unsafe_code)]
// They panic when standard error is closed.
#![cfg_attr(not(test), deny(clippy::print_stderr, clippy::print_stdout))]

mod bars;
mod chart;
mod dots;
mod error;
mod experiment;
mod output;
pub mod perfetto;
mod progress;
mod table;

pub use bars::{Bars, Group, TimePart};
pub use chart::{Axis, Chart, Curve, beside};
pub use dots::{Dot, DotFate, Dots};
pub use error::ReportError;
pub use experiment::{Experiment, Report, ResultFile, Written, json_lines, one_plot};
pub use output::{Files, Finished, Form, Output, drop_parts, tell, write_file};
pub use progress::Progress;
pub use table::{plain_table, text_of};
