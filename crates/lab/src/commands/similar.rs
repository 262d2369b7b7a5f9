//! What may have been meant by a name that there is not.

use crate::commands::explore::ExploreError;
use crate::commands::list::Listing;
use crate::commands::litmus::LitmusError;
use crate::commands::run::NativeError;
use crate::commands::sweep::SweepError;
use crate::error::LabError;
use seawall_sim::{MachineError, SimError};
use std::error::Error;

/// From here on two names are alike, of 0 to 1 (Jaro and Winkler).
const ALIKE: f64 = 0.8;

/// The tip that says which name is most like the one that `error` says is unknown, if one is.
pub fn tip(error: &(dyn Error + 'static)) -> Option<String> {
    similar_name(error).map(|name| format!("tip: a similar name exists: '{name}'"))
}

/// The name most like the one that `error` says is unknown, if one is like it.
fn similar_name(error: &(dyn Error + 'static)) -> Option<String> {
    let (name, listing) = unknown(error)?;
    let known =
        listing.names().into_iter().map(|known| (strsim::jaro_winkler(name, &known), known));
    let best = known.max_by(|(left, _), (right, _)| left.total_cmp(right));
    best.filter(|(likeness, _)| *likeness >= ALIKE).map(|(_, known)| known)
}

/// The unknown name, and what it was to be a name of.
fn unknown<'a>(error: &'a (dyn Error + 'static)) -> Option<(&'a str, Listing)> {
    if let Some(SweepError::Lab(error)) = error.downcast_ref() {
        return unknown(error);
    }
    if let Some(error) = error.downcast_ref() {
        return match error {
            LabError::Workload(unknown) => Some((&unknown.name, Listing::Workloads)),
            LabError::Kernel(unknown) => Some((&unknown.name, Listing::Kernels)),
            LabError::UnknownFigure { name, .. } => Some((name, Listing::Figures)),
            LabError::Sim(error) => design(error),
            LabError::Machine(error) => machine(error),
            _ => None,
        };
    }
    if let Some(error) = error.downcast_ref() {
        return match error {
            ExploreError::Workload(unknown) => Some((&unknown.name, Listing::Workloads)),
            ExploreError::Case(unknown) => Some((&unknown.0, Listing::Corpus)),
            _ => None,
        };
    }
    if let Some(error) = error.downcast_ref() {
        return match error {
            LitmusError::Sim(error) => design(error),
            LitmusError::Machine(error) => machine(error),
            _ => None,
        };
    }
    if let Some(NativeError::Workload(unknown)) = error.downcast_ref() {
        return Some((&unknown.name, Listing::Workloads));
    }
    error.downcast_ref().and_then(design).or_else(|| error.downcast_ref().and_then(machine))
}

fn design(error: &SimError) -> Option<(&str, Listing)> {
    match error {
        SimError::UnknownDesign { name, .. } => Some((name, Listing::Designs)),
        _ => None,
    }
}

fn machine(error: &MachineError) -> Option<(&str, Listing)> {
    match error {
        MachineError::Unknown { name, .. } => Some((name, Listing::Machines)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{CompareOptions, FigureOptions, KernelOptions};
    use seawall_report::Experiment;

    fn of<E: Experiment>(options: &E) -> Option<String>
    where
        E::Error: Error + 'static,
    {
        similar_name(&options.plan().map(|_| ()).unwrap_err())
    }

    fn compare(change: impl FnOnce(&mut CompareOptions)) -> Option<String> {
        let mut options = CompareOptions::default();
        change(&mut options);
        of(&options)
    }

    #[test]
    fn the_name_most_like_an_unknown_one_is_found_and_nothing_where_none_is_like_it() {
        let names = |name: &str| vec![name.to_owned()];
        assert_eq!(compare(|it| it.designs = names("lbp")).unwrap(), "lbpp");
        assert_eq!(compare(|it| it.workloads = names("hsh")).unwrap(), "hash");
        assert_eq!(compare(|it| it.machine = "micro51".into()).unwrap(), "micro15");
        assert_eq!(compare(|it| it.designs = names("zzz")), None);
        let machine = seawall_sim::Machine::load("deskto").unwrap_err();
        assert_eq!(similar_name(&machine).unwrap(), "desktop");
        let kernels = KernelOptions { kernels: names("oceans"), ..KernelOptions::default() };
        assert_eq!(of(&kernels).unwrap(), "ocean");
        let figures = FigureOptions { figures: names("hpca22-fig9"), ..FigureOptions::default() };
        assert_eq!(of(&figures).unwrap(), "hpca22-fig8");
    }
}
