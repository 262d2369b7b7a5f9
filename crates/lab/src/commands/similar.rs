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
const ALIKE: f64 = 0.75;

/// The tip that says which name is most like the one that `error` says is unknown, if one is.
pub fn tip(error: &(dyn Error + 'static)) -> Option<String> {
    similar_name(error).map(|name| format!("tip: a similar name exists: '{name}'"))
}

/// The name most like the one that `error` says is unknown, if one is like it.
fn similar_name(error: &(dyn Error + 'static)) -> Option<String> {
    unknown(error).and_then(|(name, known)| most_like(name, known))
}

/// The one of `known` that is most like `name`, if one is like it.
pub(crate) fn most_like(name: &str, known: Vec<String>) -> Option<String> {
    let known = known.into_iter().map(|known| (strsim::jaro_winkler(name, &known), known));
    let best = known.max_by(|(left, _), (right, _)| left.total_cmp(right));
    best.filter(|(likeness, _)| *likeness >= ALIKE).map(|(_, known)| known)
}

/// An unknown name, and those that there are.
type Unknown<'a> = (&'a str, Vec<String>);

/// The unknown name that an error is about.
fn unknown<'a>(error: &'a (dyn Error + 'static)) -> Option<Unknown<'a>> {
    if let Some(error) = error.downcast_ref() {
        return match error {
            SweepError::Lab(error) => unknown(error),
            SweepError::Unknown { name, known } => Some((name, listed(known))),
            _ => None,
        };
    }
    if let Some(error) = error.downcast_ref() {
        return match error {
            LabError::Workload(unknown) => Some((&unknown.name, Listing::Workloads.names())),
            LabError::Kernel(unknown) => Some((&unknown.name, Listing::Kernels.names())),
            LabError::UnknownFigure { name, .. } => Some((name, Listing::Figures.names())),
            LabError::UnknownApplication { name, known } => Some((name, listed(known))),
            LabError::Sim(error) => design(error),
            LabError::Machine(error) => machine(error),
            _ => None,
        };
    }
    if let Some(error) = error.downcast_ref() {
        return match error {
            ExploreError::Workload(unknown) => Some((&unknown.name, Listing::Workloads.names())),
            ExploreError::Case(unknown) => Some((&unknown.0, Listing::Corpus.names())),
            _ => None,
        };
    }
    if let Some(error) = error.downcast_ref() {
        return match error {
            LitmusError::Unknown { name, families } => Some((name, listed(families))),
            LitmusError::Model(unknown) => Some((&unknown.0, Listing::Models.names())),
            LitmusError::Sim(error) => design(error),
            LitmusError::Machine(error) => machine(error),
            _ => None,
        };
    }
    if let Some(NativeError::Workload(unknown)) = error.downcast_ref() {
        return Some((&unknown.name, Listing::Workloads.names()));
    }
    error.downcast_ref().and_then(design).or_else(|| error.downcast_ref().and_then(machine))
}

fn design(error: &SimError) -> Option<Unknown<'_>> {
    match error {
        SimError::UnknownDesign { name, .. } => Some((name, Listing::Designs.names())),
        SimError::UnknownParameter { key, known, .. } => Some((key, listed(known))),
        _ => None,
    }
}

fn machine(error: &MachineError) -> Option<Unknown<'_>> {
    match error {
        MachineError::Unknown { name, .. } => Some((name, Listing::Machines.names())),
        MachineError::NoNumber { key, known, .. } => Some((key, listed(known))),
        _ => None,
    }
}

/// The names of a list as messages have it.
fn listed(known: &str) -> Vec<String> {
    known.trim_start_matches("known: ").split(", ").map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commands::litmus::LitmusOptions;
    use crate::engine::options::SheetOptions;
    use crate::{CompareOptions, FigureOptions, KernelOptions, SweepOptions, WhisperOptions};
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
        assert_eq!(compare(|it| it.designs = names("lbpp:epocs=3")).unwrap(), "epochs");
        assert_eq!(compare(|it| it.machine = "micro15:lcc.banks=3".into()).unwrap(), "llc");
        assert_eq!(compare(|it| it.machine = "micro15:llc.bank=3".into()).unwrap(), "banks");
        let sweep = SweepOptions {
            experiment: "bsp-swep".into(),
            out: None,
            jobs: None,
            plot: None,
            html: None,
            sheet: SheetOptions::default(),
            dask: None,
        };
        assert_eq!(of(&sweep).unwrap(), "bsp-sweep");
        let whisper = WhisperOptions { applications: names("ctre"), ..WhisperOptions::default() };
        assert_eq!(of(&whisper).unwrap(), "ctree");
        let litmus = LitmusOptions { tests: names("epohc"), ..LitmusOptions::default() };
        assert_eq!(of(&litmus).unwrap(), "epoch");
        let litmus = LitmusOptions { models: names("px68"), ..LitmusOptions::default() };
        assert_eq!(of(&litmus).unwrap(), "px86");
        let figures = FigureOptions { figures: names("hpca22-fig9"), ..FigureOptions::default() };
        assert_eq!(of(&figures).unwrap(), "hpca22-fig8");
    }
}
