//! From the first failing image to a small one that a person can read.
//!
//! Small means few stores lost against "everything up to the crash is durable", at the earliest
//! crash that still fails. Steps alternate until none helps: give lost lines back, whole or
//! in part, as long as the check still fails; and move the crash earlier with the same stores
//! kept. Each try must be an image that the model allows at that point. After a crash of recovery
//! only that last crash is made small. Turns of a recovery by several threads are left out, too.
//!
//! What is left is described by what it lost and by what came too early. Of the early stores only
//! those are shown that the check needs in order to fail: the others are taken away first.

use crate::check::Findings;
use crate::crash::{Crash, stored};
use crate::finding::Finding;
use crate::models::order::Cut;
use crate::options::Search;
use crate::trace::{Kind, Trace};
use crate::verdict::{Court, Verdict};
use crate::words::LineIndex;
use std::sync::Arc;

pub(crate) fn shrink(
    trace: &Arc<Trace>,
    options: &Search,
    check: &dyn Findings,
    crashes: Vec<Crash>,
) -> Finding {
    let mut shrinker = Shrinker { court: Court::new(trace, options, check), crashes };
    while shrinker.restore() | shrinker.earlier() | shrinker.fewer_turns() {}
    let Shrinker { mut court, crashes } = shrinker;
    let message = match court.verdict(&crashes) {
        Verdict::Fails(message) => message,
        Verdict::Cut => "the search was stopped before this could be made small".into(),
        _ => "the check gives a different answer each time".into(),
    };
    describe(&mut court, &crashes, message)
}

/// The failing image in words, its early stores sifted.
pub(crate) fn describe(court: &mut Court<'_>, crashes: &[Crash], message: String) -> Finding {
    let decisive = decisive(court, crashes);
    let scenes = court.scenes(crashes);
    let accesses = court.accesses(crashes);
    let walk = court.walk_to(crashes[0].event);
    Finding::describe(&walk, crashes, &scenes, &decisive, &accesses, message)
}

/// The last crash's image without the early stores that it fails without.
fn decisive(court: &mut Court<'_>, crashes: &[Crash]) -> Cut {
    let at = crashes.len() - 1;
    let Some(trace) = court.scenes(crashes).pop() else { return crashes[at].cut.clone() };
    let stored = stored(&trace, crashes[at].event);
    let mut least = crashes.to_vec();
    let lost = trace.lines.iter().zip(0..).filter_map(|(log, line)| {
        let kept = crashes[at].cut.get(line);
        (kept < stored.get(line)).then(|| log.stores[kept as usize])
    });
    let Some(first) = lost.min() else { return crashes[at].cut.clone() };
    for (log, line) in trace.lines.iter().zip(0..) {
        let late = log.stores.partition_point(|&store| store < first) as u32;
        let kept = least[at].cut.get(line);
        for fewer in late..kept {
            least[at].cut.set(line, fewer);
            if fails(court, &least) {
                break;
            }
            least[at].cut.set(line, kept);
        }
    }
    least.swap_remove(at).cut
}

fn fails(court: &mut Court<'_>, crashes: &[Crash]) -> bool {
    matches!(court.verdict(crashes), Verdict::Fails(_))
}

struct Shrinker<'a> {
    court: Court<'a>,
    crashes: Vec<Crash>,
}

impl<'a> Shrinker<'a> {
    /// What ran before the last crash, and that crash.
    fn last(&mut self) -> Option<(Arc<Trace>, Crash)> {
        let trace = self.court.scenes(&self.crashes).pop()?;
        Some((trace, self.crashes.last()?.clone()))
    }

    /// Takes this for the last crash if the check still fails.
    fn accept(&mut self, last: Crash) -> bool {
        let at = self.crashes.len() - 1;
        let before = std::mem::replace(&mut self.crashes[at], last);
        let helps = fails(&mut self.court, &self.crashes);
        if !helps {
            self.crashes[at] = before;
        }
        helps
    }

    /// Gives lost stores back, line by line; true if any could be.
    fn restore(&mut self) -> bool {
        let Some((trace, mut last)) = self.last() else { return false };
        let stored = stored(&trace, last.event);
        let mut helped = false;
        for line in 0..trace.lines.len() as LineIndex {
            let kept = last.cut.get(line);
            for more in (kept + 1..=stored.get(line)).rev() {
                last.cut.set(line, more);
                if self.accept(last.clone()) {
                    helped = true;
                    break;
                }
                last.cut.set(line, kept);
            }
        }
        helped
    }

    /// Lets the threads of the last recovery run without interruptions; true if that helps.
    fn fewer_turns(&mut self) -> bool {
        let Some(Crash { turns, .. }) = self.crashes.last() else { return false };
        let fewer = (0..turns.len()).map(|out| {
            let mut turns = turns.clone();
            turns.remove(out);
            turns
        });
        let fewer: Vec<_> = fewer.collect();
        fewer.into_iter().any(|turns| {
            let last = self.crashes.last().cloned();
            last.is_some_and(|last| self.accept(Crash { turns, ..last }))
        })
    }

    /// Moves the crash to the earliest point that fails with no other stores kept.
    fn earlier(&mut self) -> bool {
        let Some((trace, Crash { event: last, cut, turns })) = self.last() else { return false };
        let mut stored = Cut(vec![0; trace.lines.len()]);
        let mut changed = true;
        for (event, next) in trace.events[..last].iter().enumerate() {
            if changed {
                let cut =
                    Cut(stored.0.iter().zip(0..).map(|(&s, line)| cut.get(line).min(s)).collect());
                if self.accept(Crash { event, cut, turns: turns.clone() }) {
                    return true;
                }
            }
            let store = next.kind.store();
            if let Some(store) = store {
                stored.0[trace.stores[store as usize].line as usize] += 1;
            }
            changed = store.is_some() || matches!(next.kind, Kind::Output { .. });
        }
        false
    }
}
