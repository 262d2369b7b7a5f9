//! The compiled half of the Python package `seawall`.
//!
//! It offers the experiments of [`seawall_lab`] by the names and options of the command line
//! (`commands`), runs them beside the interpreter, which goes on to see Ctrl-C (`watched`), and
//! hands back what they found (`outcome`). `names` has what can be named, `programs` the processes
//! of programs of others, `explorations` and `sweep` have parts and points, one by one, and `pool`
//! has maps in a file. A transaction of a pool is a `block`, which knows by `frames` what is inside
//! of it. The other half, in `python/seawall`, makes functions, tables and types of it.

#![forbid(unsafe_code)]
#![allow(missing_docs, reason = "python/seawall/_seawall.pyi describes what Python sees")]

mod block;
mod commands;
mod explorations;
mod failure;
mod frames;
mod maps;
mod names;
mod outcome;
mod pool;
mod programs;
mod sweep;
mod turn;
mod watched;

use pyo3::prelude::*;

/// The release, and the commit if this is built in a checkout.
const VERSION: &str = env!("SEAWALL_VERSION");

/// The module `seawall._seawall`.
#[pymodule]
mod _seawall {
    use pyo3::prelude::*;

    #[pymodule_export]
    use super::block::Block;
    #[pymodule_export]
    use super::commands::{describe, run};
    #[pymodule_export]
    use super::explorations::{explore_part, explore_parts, explore_together};
    #[pymodule_export]
    use super::failure::Error;
    #[pymodule_export]
    use super::names::{build, design, machine, names, show_design, show_machine};
    #[pymodule_export]
    use super::outcome::Outcome;
    #[pymodule_export]
    use super::pool::PoolFile;
    #[pymodule_export]
    use super::programs::{serve, serve_by};
    #[pymodule_export]
    use super::sweep::{Stop, SweepFile, run_point};

    #[pymodule_init]
    fn init(module: &Bound<'_, PyModule>) -> PyResult<()> {
        seawall_report::name_build(super::VERSION);
        module.add("__version__", env!("CARGO_PKG_VERSION"))
    }
}
