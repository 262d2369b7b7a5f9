//! Functions of a program that make stores durable, and in which no run has done anything to
//! persistent memory: what an exploration says of all crashes it does not say of theirs.
//!
//! Such functions flush, fence, store past the caches, or call one that does. Others are not named:
//! most functions that have not run have nothing to do with persistent memory.

use crate::commands::program::sites::{self, Line};
use seawall_program::ReachedSites;
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};

/// A function that has not run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct UnreachedFunction {
    /// Its name.
    pub function: String,
    /// The file, without its folders.
    pub file: String,
    /// The first line of it that flushes or fences.
    pub line: u32,
}

/// Functions that are named; more are counted.
const NAMED_MAX: usize = 6;

/// The functions of these sites in which nothing has run, in the order of the sources.
pub(super) fn unreached(modules: &[ReachedSites]) -> Vec<UnreachedFunction> {
    let mut functions: BTreeMap<(String, String), u32> = BTreeMap::new();
    let mut reached = BTreeSet::new();
    for ReachedSites { module, sites, reached: addresses } in modules {
        for line in sites::lines(module, addresses) {
            reached.extend(own(&line).map(|(function, (file, _))| (file, function.to_owned())));
        }
        let addresses: Vec<u64> = sites.iter().map(|site| site.at).collect();
        for (site, line) in sites.iter().zip(sites::lines(module, &addresses)) {
            // A function that is inlined where it is called is a call there, too.
            let levels = if site.is_call { 1 } else { 2 };
            for (function, (file, line)) in own(&line).take(levels) {
                let first = functions.entry((file, function.to_owned())).or_insert(line);
                *first = line.min(*first);
            }
        }
    }
    functions.retain(|function, _| !reached.contains(function));
    let named = |((file, function), line)| UnreachedFunction { function, file, line };
    let mut named: Vec<UnreachedFunction> = functions.into_iter().map(named).collect();
    named.sort_by(|one, other| (&one.file, one.line).cmp(&(&other.file, other.line)));
    named
}

/// The functions of an instruction that are in the user's sources.
fn own(line: &Line) -> impl Iterator<Item = (&str, (String, u32))> {
    line.own_chain().filter(|(_, (_, line))| *line > 0)
}

/// Which functions these are, in words.
pub(super) fn in_words(functions: &[UnreachedFunction]) -> Option<String> {
    let name = |it: &UnreachedFunction| format!("{} ({}:{})", it.function, it.file, it.line);
    let names: Vec<String> = functions.iter().take(NAMED_MAX).map(name).collect();
    let more = match functions.len().saturating_sub(NAMED_MAX) {
        0 => String::new(),
        more => format!(", and {more} more"),
    };
    (!names.is_empty()).then(|| {
        format!(
            "not tried, as no run stores, flushes or fences in them: {}{more}",
            names.join(", ")
        )
    })
}
