//! What can be named: lists of names, machines and designs with other numbers, and this build.

use crate::failure::Failure;
use clap::ValueEnum;
use pyo3::prelude::*;
use seawall_lab::{Choice, Listing, Machine};

/// The names of a list, as `seawall list` has them.
#[pyfunction]
pub(crate) fn names(what: &str) -> Result<Vec<String>, Failure> {
    let listing = Listing::from_str(what, false).map_err(|_| {
        let all = Listing::value_variants().iter().filter_map(ValueEnum::to_possible_value);
        let all: Vec<String> = all.map(|value| value.get_name().to_owned()).collect();
        Failure::new(format!("no list '{what}'; there are {}", all.join(", ")))
    })?;
    Ok(listing.names())
}

/// All numbers of the machine that `text` names, as JSON.
#[pyfunction]
pub(crate) fn machine(text: &str) -> Result<String, Failure> {
    Ok(serde_json::to_string(&Machine::load(text)?)?)
}

/// Name, model, description and all parameters of the design that `text` names, as JSON.
#[pyfunction]
pub(crate) fn design(text: &str) -> Result<String, Failure> {
    let choice = Choice::parse(text)?;
    let parameters = serde_json::to_value(choice.all_parameters())?;
    let about = serde_json::json!({
        "name": choice.entry.name,
        "model": choice.model_name(),
        "about": choice.entry.about,
        "parameters": parameters,
    });
    Ok(about.to_string())
}

/// What `seawall show machine` prints.
#[pyfunction]
pub(crate) fn show_machine(text: &str) -> Result<String, Failure> {
    Ok(seawall_lab::show_machine(text)?)
}

/// What `seawall show design` prints.
#[pyfunction]
pub(crate) fn show_design(text: &str) -> Result<String, Failure> {
    Ok(seawall_lab::show_design(text)?)
}

/// A hash of the file of this module: workers of a sweep must have the same.
#[pyfunction]
pub(crate) fn build(py: Python<'_>) -> Result<&'static str, Failure> {
    Ok(py.detach(seawall_lab::build)?)
}
