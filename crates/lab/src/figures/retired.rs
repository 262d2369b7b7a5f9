//! Stand-ins that are retired: kernels and workloads far from the programs that they stand for.
//!
//! The file of a figure names them (`retired`). In a series in which the program of one has run,
//! the stand-in does not run: what the program took is there in its place. With `--varied` they
//! run again, and the figure says whether its file still names the right ones.

use super::FigureOptions;
use super::programs::MeasuredPrograms;
use crate::engine::options::once;
use std::collections::BTreeSet;
use std::fmt::Write;

/// A stand-in further from its program than this part of it is retired.
const APART_MAX: f64 = 0.15;

/// What is wrong with `retired` in a figure with these programs, and stand-ins of these names.
pub(super) fn check(
    retired: &[String],
    programs: Option<&MeasuredPrograms>,
    names: &[&str],
) -> Result<(), String> {
    once("retired stand-in", retired).map_err(|error| error.to_string())?;
    for name in retired {
        if !names.contains(&&**name) {
            let known = names.join(", ");
            return Err(format!(
                "retired has '{name}', which is none of its stand-ins ({known}); correct the name"
            ));
        }
        if !programs.is_some_and(|programs| programs.held().any(|held| held == name)) {
            return Err(format!(
                "retired has '{name}', but no program of that name is compared in its place; give \
                 programs = \"..\" with one, or let the stand-in run"
            ));
        }
    }
    Ok(())
}

/// Whether stand-ins of that name do not run where their program has.
pub(super) fn is_left_out(retired: &[String], name: &str, options: &FigureOptions) -> bool {
    !options.is_varied && retired.iter().any(|other| other == name)
}

/// A stand-in that ran in a series, and the program that it stands for.
pub(super) struct Pair<'a> {
    pub(super) name: &'a str,
    pub(super) stand_in: f64,
    pub(super) program: f64,
}

impl Pair<'_> {
    fn is_far(&self) -> bool {
        (self.stand_in / self.program - 1.0).abs() > APART_MAX
    }
}

/// The list that a figure can say something of: of a quick look with other sizes, none.
pub(super) fn known(retired: &[String], is_quick: bool) -> &[String] {
    if is_quick { &[] } else { retired }
}

/// What is said below a figure: which of these stand-ins, `what`, did not run, which of those that
/// did are far from their programs, and where `retired` is not the same.
pub(super) fn text(
    what: &str,
    retired: &[String],
    left_out: &BTreeSet<&str>,
    pairs: &[Pair<'_>],
) -> String {
    let percent = 100.0 * APART_MAX;
    let mut text = String::new();
    let mut line = |before: String, names: Vec<String>, behind: &str| {
        if !names.is_empty() {
            let _ = writeln!(text, "  {before}: {}{behind}", names.join(", "));
        }
    };
    let left_out = left_out.iter().map(|name| (*name).to_owned()).collect();
    line("retired, as they are far from their programs".into(), left_out, "; --varied runs them");
    let is_retired = |name: &str| retired.iter().any(|other| other == name);
    let named = |is_far: bool| -> BTreeSet<&str> {
        pairs.iter().filter(|pair| pair.is_far() == is_far).map(|pair| pair.name).collect()
    };
    let (far, near) = (named(true), named(false));
    let marked = |name: &&str| match retired.is_empty() || is_retired(name) {
        true => (*name).to_owned(),
        false => format!("{name} (not retired)"),
    };
    let before = format!("{what} more than {percent:.0} % from their programs");
    line(before, far.iter().map(marked).collect(), "");
    let near = near.difference(&far).filter(|name| is_retired(name));
    let before = format!("retired, but within {percent:.0} % of their programs here");
    line(before, near.map(|name| (*name).to_owned()).collect(), "");
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(retired: &[&str], pairs: &[(&str, f64)]) -> String {
        let retired: Vec<String> = retired.iter().map(|name| (*name).to_owned()).collect();
        let pairs =
            pairs.iter().map(|(name, stand_in)| Pair { name, stand_in: *stand_in, program: 2.0 });
        text("kernels", &retired, &BTreeSet::new(), &pairs.collect::<Vec<_>>())
    }

    #[test]
    fn where_the_list_is_not_what_is_measured_the_figure_says_so() {
        let pairs = [("lu", 2.4), ("lu", 2.0), ("ocean", 1.6), ("radix", 2.2), ("barnes", 2.0)];
        let far = "  kernels more than 15 % from their programs";
        assert_eq!(told(&["lu", "ocean"], &pairs), format!("{far}: lu, ocean\n"));
        assert_eq!(told(&["lu"], &pairs), format!("{far}: lu, ocean (not retired)\n"));
        assert_eq!(told(&[], &pairs), format!("{far}: lu, ocean\n"), "a figure without a list");
        let near = "  retired, but within 15 % of their programs here: barnes, radix\n";
        let all = ["barnes", "lu", "ocean", "radix"];
        assert_eq!(told(&all, &pairs), format!("{far}: lu, ocean\n{near}"));
        assert_eq!(told(&["barnes"], &[]), "", "nothing ran");
    }
}
