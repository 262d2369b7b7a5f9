//! What the environment and the machine say, read once: the flush, the domain, the ways to copy.
//!
//! The variables of seawall decide first, then those of libpmem. A value that cannot be is said
//! once on standard error, and `pmem_map_file` fails with it; all other calls go on as if it were
//! not set, since they have no way to fail, and so flush.

use seawall_native::{
    Cpu, DOMAIN_VARIABLE, Domain, FLUSH_VARIABLE, Flush, FlushKind, PAST_CACHES_BYTES,
};
use seawall_ribbon::{Mode, THREADS_MAX};
use std::sync::OnceLock;

const RIBBON_VARIABLE: &str = "SEAWALL_RIBBON";
const FLUSHERS_VARIABLE: &str = "SEAWALL_RIBBON_FLUSHERS";
const COUNTS_VARIABLE: &str = "SEAWALL_RIBBON_COUNTS";

/// A Ribbon that is asked for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct RibbonWish {
    pub(crate) mode: Mode,
    /// `None`: as many as suit this machine.
    pub(crate) flushers: Option<u64>,
    /// Says at the end of the process what was flushed where.
    pub(crate) counts: bool,
}

/// How this process flushes and copies.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Setup {
    /// The instruction of `pmem_flush`.
    pub(crate) flush: FlushKind,
    /// The instruction of `pmem_deep_flush`, and the one that a fence is for.
    pub(crate) deep: FlushKind,
    /// Flushes are `msync`.
    pub(crate) by_page: bool,
    /// Bytes from which a copy goes past the caches; `None` for never.
    pub(crate) past_caches_from: Option<usize>,
    /// `None` also where there is no flush that flushers could make.
    pub(crate) ribbon: Option<RibbonWish>,
    /// A variable that asks for what cannot be.
    pub(crate) fault: Option<String>,
}

impl Setup {
    /// That of this process.
    #[inline]
    pub(crate) fn of_process() -> &'static Setup {
        static SETUP: OnceLock<Setup> = OnceLock::new();
        SETUP.get_or_init(|| {
            let caches_persist = seawall_native::caches_persist_here();
            let setup = Setup::choose(variable, &Cpu::detect(), caches_persist);
            if let Some(fault) = &setup.fault {
                crate::system::say(fault);
            }
            setup
        })
    }

    fn choose(variable: impl Fn(&str) -> Option<String>, cpu: &Cpu, caches_persist: bool) -> Setup {
        let is_set = |name: &str| variable(name).as_deref() == Some("1");
        let mut cpu = *cpu;
        cpu.clwb &= !is_set("PMEM_NO_CLWB");
        cpu.clflushopt &= !is_set("PMEM_NO_CLFLUSHOPT");
        let mut fault = None;
        let chosen = Flush::choose(variable(FLUSH_VARIABLE).as_deref(), &cpu);
        let chosen = chosen.or_else(|error| {
            fault = Some(error.to_string());
            Flush::choose(None, &cpu)
        });
        let deep = chosen.map_or(FlushKind::None, |flush| flush.kind);
        let asked = variable(DOMAIN_VARIABLE).filter(|name| !name.is_empty());
        let asked = asked.and_then(|name| {
            let domain = Domain::parse(&name, DOMAIN_VARIABLE);
            domain.map_err(|error| fault = Some(error.to_string())).ok()
        });
        let domain = asked.unwrap_or(match variable("PMEM_NO_FLUSH").as_deref() {
            Some("1") => Domain::None,
            Some("0") => Domain::Line,
            _ if caches_persist => Domain::None,
            _ => Domain::Line,
        });
        let flush = if domain == Domain::Line { deep } else { FlushKind::None };
        let by_page = domain == Domain::Page;
        let from = variable("PMEM_MOVNT_THRESHOLD").and_then(|value| value.trim().parse().ok());
        let never = is_set("PMEM_NO_MOVNT") || by_page;
        let past_caches_from = (!never).then_some(from.unwrap_or(PAST_CACHES_BYTES));
        let ribbon = ribbon(variable).unwrap_or_else(|wrong| {
            fault = Some(wrong);
            None
        });
        let ribbon = ribbon.filter(|_| flush != FlushKind::None);
        Setup { flush, deep, by_page, past_caches_from, ribbon, fault }
    }
}

/// The Ribbon that is asked for, or what is wrong with what asks for it.
fn ribbon(variable: impl Fn(&str) -> Option<String>) -> Result<Option<RibbonWish>, String> {
    let text = |name: &str| variable(name).filter(|value| !value.is_empty());
    let Some(name) = text(RIBBON_VARIABLE) else { return Ok(None) };
    let Some(mode) = Mode::ALL.into_iter().find(|mode| mode.name() == name) else {
        let valid = Mode::ALL.map(Mode::name).join(", ");
        return Err(format!("{RIBBON_VARIABLE}={name}: no such mode of a Ribbon; valid: {valid}"));
    };
    let number = |text: String| match text.parse() {
        Ok(number) if (1..=THREADS_MAX).contains(&number) => Ok(number),
        _ => Err(format!("{FLUSHERS_VARIABLE}={text}: not possible; give 1 to {THREADS_MAX}")),
    };
    let flushers = text(FLUSHERS_VARIABLE).map(number).transpose()?;
    let counts = text(COUNTS_VARIABLE).as_deref() == Some("1");
    Ok(Some(RibbonWish { mode, flushers, counts }))
}

/// What `PMEM_IS_PMEM_FORCE` said when it was first asked for.
pub(crate) fn forced() -> Option<bool> {
    static FORCED: OnceLock<Option<bool>> = OnceLock::new();
    *FORCED.get_or_init(|| match variable("PMEM_IS_PMEM_FORCE")?.trim() {
        "0" => Some(false),
        "1" => Some(true),
        _ => None,
    })
}

/// The address near which files are to be mapped, by `PMEM_MMAP_HINT`.
pub(crate) fn hint() -> Option<usize> {
    let value = variable("PMEM_MMAP_HINT")?;
    usize::from_str_radix(value.trim().trim_start_matches("0x"), 16).ok()
}

fn variable(name: &str) -> Option<String> {
    std::env::var_os(name).map(|value| value.to_string_lossy().into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    const CPU: Cpu = Cpu {
        clwb: true,
        clflushopt: true,
        clflush: true,
        movdir64b: false,
        cvap: false,
        cvac: false,
    };

    fn setup(variables: &[(&str, &str)], caches_persist: bool) -> Setup {
        let value = |name: &str| {
            let found = variables.iter().find(|(known, _)| *known == name);
            found.map(|(_, value)| (*value).to_owned())
        };
        Setup::choose(value, &CPU, caches_persist)
    }

    #[test]
    fn nothing_set_flushes_by_the_best_instruction() {
        let plain = setup(&[], false);
        assert_eq!((plain.flush, plain.deep, plain.by_page), (FlushKind::Clwb, plain.flush, false));
        assert_eq!(plain.past_caches_from, Some(256));
        assert_eq!(plain.fault, None);
    }

    #[test]
    fn instructions_that_are_forbidden_are_not_used() {
        let kind = |variables: &[(&str, &str)]| setup(variables, false).flush;
        assert_eq!(kind(&[("PMEM_NO_CLWB", "1")]), FlushKind::Clflushopt);
        assert_eq!(kind(&[("PMEM_NO_CLWB", "0")]), FlushKind::Clwb);
        let both = [("PMEM_NO_CLWB", "1"), ("PMEM_NO_CLFLUSHOPT", "1")];
        assert_eq!(kind(&both), FlushKind::Clflush);
        assert_eq!(kind(&[("SEAWALL_FLUSH", "clflush")]), FlushKind::Clflush);
    }

    #[test]
    fn caches_that_persist_are_not_flushed_unless_asked_and_deep_flushes_always_are() {
        let none = (FlushKind::None, FlushKind::Clwb);
        let flushes = |variables: &[(&str, &str)], caches_persist| {
            let setup = setup(variables, caches_persist);
            (setup.flush, setup.deep)
        };
        assert_eq!(flushes(&[], true), none);
        assert_eq!(flushes(&[("PMEM_NO_FLUSH", "0")], true).0, FlushKind::Clwb);
        assert_eq!(flushes(&[("PMEM_NO_FLUSH", "1")], false), none);
        assert_eq!(flushes(&[("SEAWALL_DOMAIN", "none")], false), none);
        let ours = [("SEAWALL_DOMAIN", "line"), ("PMEM_NO_FLUSH", "1")];
        assert_eq!(flushes(&ours, true).0, FlushKind::Clwb);
    }

    #[test]
    fn pages_are_written_by_msync_and_never_past_the_caches() {
        let pages = setup(&[("SEAWALL_DOMAIN", "page")], false);
        assert_eq!((pages.flush, pages.by_page), (FlushKind::None, true));
        assert_eq!(pages.past_caches_from, None);
    }

    #[test]
    fn the_bounds_of_copies_past_the_caches_are_read() {
        let from = |variables: &[(&str, &str)]| setup(variables, false).past_caches_from;
        assert_eq!(from(&[("PMEM_MOVNT_THRESHOLD", "0")]), Some(0));
        assert_eq!(from(&[("PMEM_MOVNT_THRESHOLD", "-1")]), Some(256));
        assert_eq!(from(&[("PMEM_MOVNT_THRESHOLD", "0"), ("PMEM_NO_MOVNT", "1")]), None);
    }

    #[test]
    fn a_ribbon_is_read_with_its_flushers_where_lines_are_flushed() {
        let ribbon = |variables: &[(&str, &str)]| setup(variables, false).ribbon;
        assert_eq!(ribbon(&[]), None);
        assert_eq!(ribbon(&[("SEAWALL_RIBBON", ""), ("SEAWALL_RIBBON_FLUSHERS", "2")]), None);
        let auto = RibbonWish { mode: Mode::Auto, flushers: None, counts: false };
        assert_eq!(ribbon(&[("SEAWALL_RIBBON", "auto")]), Some(auto));
        let always = ("SEAWALL_RIBBON", "always");
        let more = [always, ("SEAWALL_RIBBON_FLUSHERS", "3"), ("SEAWALL_RIBBON_COUNTS", "1")];
        let three = RibbonWish { mode: Mode::Always, flushers: Some(3), counts: true };
        assert_eq!(ribbon(&more), Some(three));
        assert_eq!(ribbon(&[always, ("SEAWALL_DOMAIN", "page")]), None);
        assert_eq!(ribbon(&[always, ("PMEM_NO_FLUSH", "1")]), None);
    }

    #[test]
    fn a_ribbon_that_cannot_be_is_a_fault_that_names_what_can() {
        let fault = |variables: &[(&str, &str)]| {
            let wrong = setup(variables, false);
            assert_eq!(wrong.ribbon, None);
            wrong.fault.unwrap()
        };
        let mode = fault(&[("SEAWALL_RIBBON", "on")]);
        assert!(mode.contains("SEAWALL_RIBBON=on"), "{mode}");
        assert!(mode.contains("auto, always, never"), "{mode}");
        for number in ["0", "1025", "two"] {
            let asked = [("SEAWALL_RIBBON", "auto"), ("SEAWALL_RIBBON_FLUSHERS", number)];
            let flushers = fault(&asked);
            assert!(flushers.contains("SEAWALL_RIBBON_FLUSHERS="), "{flushers}");
            assert!(flushers.contains("1 to 1024"), "{flushers}");
        }
    }

    #[test]
    fn a_value_that_cannot_be_is_a_fault_and_flushes_are_made() {
        for name in ["SEAWALL_DOMAIN", "SEAWALL_FLUSH"] {
            let wrong = setup(&[(name, "disk")], false);
            assert!(wrong.fault.as_ref().unwrap().contains(name), "{wrong:?}");
            assert_eq!(wrong.flush, FlushKind::Clwb);
        }
        assert_eq!(setup(&[("SEAWALL_DOMAIN", ""), ("SEAWALL_FLUSH", "")], false).fault, None);
    }
}
