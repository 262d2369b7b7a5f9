//! How commands are run and their results shown: what every command of seawall has in common.
//!
//! An [`Experiment`] goes from options to a [`Report`]; a report is text for people, JSON Lines for
//! programs, plots, and a page for a browser. This crate has the tables, the plots, the page, the
//! files (which are written whole or not at all) and the progress. All that it knows of persistent
//! memory is what a pool file begins with, so that none is overwritten.

#![forbid(unsafe_code)]
// They panic when standard error is closed.
#![cfg_attr(not(test), deny(clippy::print_stderr, clippy::print_stdout))]

mod bars;
mod chart;
mod dots;
mod error;
mod experiment;
mod html;
mod output;
pub mod perfetto;
mod progress;
mod table;
mod version;

pub use bars::{Bars, Group, TimePart};
pub use chart::{Axis, Chart, Curve, beside};
pub use dots::{Dot, DotFate, Dots};
pub use error::ReportError;
pub use experiment::{
    Experiment, Report, ResultFile, Written, command_line, json_lines, one_plot, write_results,
};
pub use html::{
    HtmlChart, HtmlColumn, HtmlExcerpt, HtmlFate, HtmlForm, HtmlMark, HtmlNote, HtmlPage, HtmlPart,
    HtmlRow, HtmlSection, Shown,
};
pub use output::{Files, Finished, Form, Output, drop_parts, tell, write_file};
pub use progress::{Progress, ProgressState};
pub use table::{Fitted, Room, columns_at_most, plain_table, text_of, text_sparing, within};
pub use version::{is_of_release, name_build, version};
