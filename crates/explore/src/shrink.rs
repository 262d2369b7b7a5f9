//! From the first failing image to a small one that a person can read.
//!
//! Small means few stores lost against "everything up to the crash is durable", at the earliest
//! crash that still fails. Two steps alternate until neither helps: give lost lines back, whole or
//! in part, as long as the check still fails; and move the crash earlier with the same stores
//! kept. Each try must be an image that the model allows at that point.
//!
//! What is left is described by what it lost and by what came too early. Of the early stores only
//! those are shown without which the check is content: the others are taken away first.

use crate::crashed::Cursor;
use crate::finding::Finding;
use crate::models::Cut;
use crate::search::{Check, Search, verdict};
use crate::trace::{Kind, Trace};
use crate::walk::Walk;

pub(crate) fn shrink(
    trace: &Trace,
    options: &Search,
    check: &Check<'_>,
    event: usize,
    cut: Cut,
) -> Finding {
    let cursor = Cursor::new(trace, options.steps);
    let mut shrinker = Shrinker { trace, options, check, cursor, event, cut };
    while shrinker.restore() | shrinker.earlier() {}
    let Shrinker { mut cursor, event, cut, .. } = shrinker;
    let mut walk = Walk::new(trace, options.model);
    walk.advance_to(event);
    cursor.move_to(&cut);
    let message = verdict(&mut cursor, check, &walk.point).err();
    let message = message.unwrap_or_else(|| "the check gives a different answer each time".into());
    describe(&walk, &mut cursor, check, &cut, message)
}

/// The failing image in words, its early stores sifted.
pub(crate) fn describe(
    walk: &Walk<'_>,
    cursor: &mut Cursor<'_>,
    check: &Check<'_>,
    cut: &Cut,
    message: String,
) -> Finding {
    let decisive = decisive(walk, cursor, check, cut);
    Finding::describe(walk, cut, &decisive, message)
}

/// The image without the early stores that it fails without.
fn decisive(walk: &Walk<'_>, cursor: &mut Cursor<'_>, check: &Check<'_>, cut: &Cut) -> Cut {
    let trace = walk.trace;
    let lost = trace.lines.iter().enumerate().filter_map(|(line, log)| {
        let line = line as u32;
        let gone = cut.get(line) < walk.stored.get(line);
        gone.then(|| log.stores[cut.get(line) as usize])
    });
    let Some(first) = lost.min() else { return cut.clone() };
    let mut least = cut.clone();
    for (line, log) in trace.lines.iter().enumerate() {
        let line = line as u32;
        let late = log.stores.partition_point(|&store| store < first) as u32;
        for fewer in late..cut.get(line) {
            let mut image = least.clone();
            image.set(line, fewer);
            if !walk.state.allows(&image) {
                continue;
            }
            cursor.move_to(&image);
            if verdict(cursor, check, &walk.point).is_err() {
                least = image;
                break;
            }
        }
    }
    least
}

struct Shrinker<'a> {
    trace: &'a Trace,
    options: &'a Search,
    check: &'a Check<'a>,
    cursor: Cursor<'a>,
    event: usize,
    cut: Cut,
}

impl Shrinker<'_> {
    fn fails(&mut self, walk: &Walk<'_>, cut: &Cut) -> bool {
        if !walk.state.allows(cut) {
            return false;
        }
        self.cursor.move_to(cut);
        verdict(&mut self.cursor, self.check, &walk.point).is_err()
    }

    /// Gives lost stores back, line by line; true if any could be.
    fn restore(&mut self) -> bool {
        let mut walk = Walk::new(self.trace, self.options.model);
        walk.advance_to(self.event);
        let mut helped = false;
        for line in 0..self.trace.lines.len() as u32 {
            let (kept, stored) = (self.cut.get(line), walk.stored.get(line));
            for more in (kept + 1..=stored).rev() {
                let mut cut = self.cut.clone();
                cut.set(line, more);
                if self.fails(&walk, &cut) {
                    self.cut = cut;
                    helped = true;
                    break;
                }
            }
        }
        helped
    }

    /// Moves the crash to the earliest point that fails with no other stores kept.
    fn earlier(&mut self) -> bool {
        let mut walk = Walk::new(self.trace, self.options.model);
        let mut changed = true;
        while walk.point.event < self.event {
            if changed {
                let cut = clip(&self.cut, &walk.stored);
                if self.fails(&walk, &cut) {
                    self.event = walk.point.event;
                    self.cut = cut;
                    return true;
                }
            }
            let kind = walk.next_event().map(|event| event.kind);
            changed = kind
                .is_some_and(|kind| kind.store().is_some() || matches!(kind, Kind::Output { .. }));
            walk.advance();
        }
        false
    }
}

fn clip(cut: &Cut, most: &Cut) -> Cut {
    Cut(cut.0.iter().zip(&most.0).map(|(&kept, &stored)| kept.min(stored)).collect())
}
