//! Who has waited for a line for too long.
//!
//! A request for a line that its owner does not have yet is repeated at the cycle after the line's
//! arrival, and the first core's is served first. So two cores that try a lock again and again can
//! hand its line to each other forever, and a third one, maybe the one that has the lock, never
//! gets it. In hardware a request keeps its place at the line's home. Here a request that has been
//! repeated for that long goes before the others of its cycle; all else is as if this were not.
//!
//! The same holds where a request waits until the owner's version of the line is durable. The owner
//! hears of it first, and could write the next version before the request is repeated, each time.
//! Such a request goes before the owner's next store to the line, if the design asks for that
//! ([`Patience::is_due_to_another`]): those do in which a request can wait for a version.

use crate::core::Waiter;
use crate::{Cycle, LineId};

/// Nothing waits for so long if each of some dozen cores has the line once in between.
const PATIENCE: Cycle = 10_000;

/// Cycles after which an owner looks again whether a line is still due to another core.
pub(crate) const LOOKS_AGAIN: Cycle = 20;

/// A request that is to be repeated.
#[derive(Clone, Copy)]
struct Wait {
    who: Waiter,
    line: LineId,
    /// When it was made first.
    since: Cycle,
    /// When it will be repeated.
    again: Cycle,
}

/// The last refused request of each program and store buffer.
#[derive(Default)]
pub(crate) struct Patience {
    /// By [`place`].
    waits: Vec<Option<Wait>>,
    /// The last cycle at which a request that has waited for too long is repeated.
    impatient_until: Cycle,
    /// Requests that a design lets wait, or has let wait, for their line.
    of_versions: Vec<(Waiter, LineId)>,
}

/// The place of a program, or of a store buffer.
fn place(who: Waiter) -> usize {
    2 * who.core + usize::from(who.is_program)
}

impl Patience {
    /// The request of `who` at `now` is to be repeated at `again`.
    pub(crate) fn refused(&mut self, who: Waiter, line: LineId, now: Cycle, again: Cycle) {
        let since = self.since(who, line, now);
        if since + PATIENCE < again {
            self.impatient_until = self.impatient_until.max(again);
        }
        if self.waits.len() <= place(who) {
            self.waits.resize(place(who) + 1, None);
        }
        self.waits[place(who)] = Some(Wait { who, line, since, again });
    }

    /// Whether the request of `who` at `now` is to let one pass that is made in the same cycle.
    pub(crate) fn lets_pass(&self, who: Waiter, line: LineId, now: Cycle) -> bool {
        if now > self.impatient_until {
            return false;
        }
        let mut others = self.waits.iter().flatten().filter(|wait| {
            wait.line == line && wait.again == now && wait.since + PATIENCE < now && wait.who != who
        });
        others.any(|wait| wait.since < self.since(who, line, now))
    }

    /// The design lets the request of `who` wait until a version of the line is durable, or lets
    /// the line leave the core that has it.
    #[inline]
    pub(crate) fn answered(&mut self, who: Waiter, line: LineId, can_leave: bool) {
        if can_leave && self.of_versions.is_empty() {
            return;
        }
        self.of_versions.retain(|request| request.0 != who && (!can_leave || request.1 != line));
        if !can_leave {
            self.of_versions.push((who, line));
        }
    }

    /// Whether `core` has to leave the line to another before it writes it again.
    #[inline]
    pub(crate) fn is_due_to_another(&self, core: usize, line: LineId) -> bool {
        self.of_versions.iter().any(|(who, of)| *of == line && who.core != core)
    }

    /// When a request that is made at `now` was made first.
    fn since(&self, who: Waiter, line: LineId, now: Cycle) -> Cycle {
        let last = self.waits.get(place(who)).copied().flatten();
        let is_it = |wait: &Wait| wait.line == line && wait.again == now;
        last.filter(is_it).map_or(now, |wait| wait.since)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: Waiter = Waiter { core: 0, is_program: true };
    const B: Waiter = Waiter { core: 1, is_program: true };

    #[test]
    fn a_request_that_was_repeated_for_long_goes_first() {
        let mut patience = Patience::default();
        let mut now = 0;
        while now <= PATIENCE {
            patience.refused(B, 7, now, now + 100);
            now += 100;
            assert!(!patience.lets_pass(A, 7, now) || now > PATIENCE);
        }
        assert!(patience.lets_pass(A, 7, now));
        assert!(!patience.lets_pass(A, 8, now), "another line");
        assert!(!patience.lets_pass(A, 7, now + 1), "nothing is made in that cycle");
        assert!(!patience.lets_pass(B, 7, now), "it is the one");
    }

    #[test]
    fn a_request_that_waits_for_a_version_goes_before_the_next() {
        let mut patience = Patience::default();
        patience.answered(A, 7, false);
        assert!(patience.is_due_to_another(1, 7));
        assert!(!patience.is_due_to_another(0, 7), "it is the one that waits");
        assert!(!patience.is_due_to_another(1, 8), "another line");
        patience.answered(A, 8, false);
        assert!(!patience.is_due_to_another(1, 7), "it waits for one line");
        patience.answered(B, 8, true);
        assert!(!patience.is_due_to_another(1, 8));
    }

    #[test]
    fn of_two_that_have_waited_the_older_one_goes_first() {
        let mut patience = Patience::default();
        patience.refused(A, 7, 0, 3 * PATIENCE);
        patience.refused(B, 7, 1, 3 * PATIENCE);
        assert!(patience.lets_pass(B, 7, 3 * PATIENCE));
        assert!(!patience.lets_pass(A, 7, 3 * PATIENCE));
    }
}
