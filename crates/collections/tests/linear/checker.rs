//! Decides whether a history of operations on keys is linearizable, crashes included.
//!
//! Linearizability is local (Herlihy and Wing, TOPLAS 1990): each key is judged by itself. The
//! search is that of Wing and Gong (JPDC 1993) with the memory of Lowe (CCPE 2017): an operation
//! may come next if no other that is left had returned when it was called; what was left, with the
//! value of the key, is searched once only.
//!
//! An operation that a crash cut off has no answer. It took effect before the crash or never
//! (Aguilera and Frolund's strict linearizability, HPL-2003-241), which is more than durable
//! linearizability (Izraelevitz et al., DISC 2016) asks for. All that had returned is in.

use std::cmp::Reverse;
use std::collections::{BTreeMap, HashSet};
use std::fmt;

/// States of one key's search at most; what needs more is told apart from what is wrong.
const STATES_MAX: usize = 300_000;

/// What is done to a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Act {
    Get,
    Insert(u64),
    Remove,
}

/// What an operation said of the value before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Answer {
    Value(Option<u64>),
    /// Only whether there was one.
    There(bool),
    /// Nothing: it never came.
    Lost,
}

/// An operation: what, when it was called, and when it was back; or when the crash was.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Op {
    pub(crate) thread: usize,
    pub(crate) key: u64,
    pub(crate) act: Act,
    pub(crate) answer: Answer,
    pub(crate) call: u64,
    pub(crate) back: u64,
    /// A crash cut it off: it may have happened or not. What it would have answered holds if so.
    pub(crate) cut: bool,
}

impl Op {
    /// The value after it, if the answer is right when `value` was there before.
    fn step(&self, value: Option<u64>) -> Option<Option<u64>> {
        let fits = match self.answer {
            Answer::Value(said) => said == value,
            Answer::There(said) => said == value.is_some(),
            Answer::Lost => true,
        };
        fits.then_some(match self.act {
            Act::Get => value,
            Act::Insert(new) => Some(new),
            Act::Remove => None,
        })
    }

    fn must_be_in(&self) -> bool {
        !self.cut
    }
}

impl fmt::Display for Op {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Op { thread, act, answer, call, back, cut, .. } = self;
        let end = if *cut { "cut off" } else { "back" };
        write!(f, "called {call:>8}, {end} {back:>8}, thread {thread:>2}: {act:?} -> {answer:?}")
    }
}

/// Why a history is refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Refusal {
    /// No order explains the operations on a key: few of them, behind what may have been there.
    Wrong { key: u64, starts: Vec<Option<u64>>, ops: Vec<Op> },
    /// The search was given up.
    TooHard { key: u64, ops: usize },
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Refusal::Wrong { key, starts, ops } => {
                writeln!(f, "no order explains key {key}, which held one of {starts:?}:")?;
                ops.iter().try_for_each(|op| writeln!(f, "{op}"))
            }
            Refusal::TooHard { key, ops } => {
                write!(f, "key {key}: {ops} operations need more than {STATES_MAX} states; ")?;
                write!(f, "record shorter histories")
            }
        }
    }
}

/// Checks a history of keys none of which is there at the start; gives how many operations it had.
///
/// # Errors
/// The first key whose operations no order explains.
pub(crate) fn check(ops: &[Op]) -> Result<usize, Refusal> {
    let mut keys: BTreeMap<u64, Vec<Op>> = BTreeMap::new();
    for op in ops {
        keys.entry(op.key).or_default().push(*op);
    }
    for (key, ops) in keys {
        match explained(None, &ops) {
            Some(true) => {}
            Some(false) => {
                let (starts, ops) = smallest(ops);
                return Err(Refusal::Wrong { key, starts, ops });
            }
            None => return Err(Refusal::TooHard { key, ops: ops.len() }),
        }
    }
    Ok(ops.len())
}

/// A point of the search: all operations before `next` are in the order or gone, but for `skipped`.
#[derive(Clone, PartialEq, Eq, Hash)]
struct State {
    next: usize,
    skipped: Vec<usize>,
    value: Option<u64>,
}

/// Operations on one key, in the order of their calls.
struct History {
    ops: Vec<Op>,
    /// The first return among those from each on that must be in.
    returns: Vec<u64>,
}

impl History {
    fn new(ops: &[Op]) -> History {
        let mut ops = ops.to_vec();
        ops.retain(|op| op.must_be_in() || op.act != Act::Get);
        ops.sort_by_key(|op| op.call);
        let mut returns = vec![u64::MAX; ops.len() + 1];
        for (at, op) in ops.iter().enumerate().rev() {
            let back = if op.must_be_in() { op.back } else { u64::MAX };
            returns[at] = back.min(returns[at + 1]);
        }
        History { ops, returns }
    }

    /// The first return of what must be in and is left; none if nothing is.
    fn deadline(&self, state: &State) -> Option<u64> {
        let skipped = state.skipped.iter().map(|at| &self.ops[*at]).filter(|op| op.must_be_in());
        let first = skipped.map(|op| op.back).min().unwrap_or(u64::MAX);
        Some(first.min(self.returns[state.next])).filter(|first| *first != u64::MAX)
    }

    /// The state with operation `at` next in the order, and whether that leaves out some that a
    /// crash had cut off before it was called.
    fn with(&self, state: &State, at: usize) -> Option<(State, bool)> {
        let value = self.ops[at].step(state.value)?;
        let mut skipped = state.skipped.clone();
        skipped.extend(state.next..at);
        skipped.retain(|other| *other != at);
        let before = skipped.len();
        let call = self.ops[at].call;
        skipped.retain(|other| self.ops[*other].must_be_in() || self.ops[*other].back >= call);
        let leaves_out = skipped.len() < before;
        Some((State { next: state.next.max(at + 1), skipped, value }, leaves_out))
    }

    /// The states that may follow, the most promising last. One that changes nothing and is right
    /// here is right first.
    fn following(&self, state: &State, deadline: u64) -> Vec<State> {
        let later = (state.next..self.ops.len()).take_while(|at| self.ops[*at].call <= deadline);
        let mut following = Vec::new();
        for at in state.skipped.iter().copied().chain(later) {
            let Some((after, leaves_out)) = self.with(state, at) else { continue };
            let op = &self.ops[at];
            if after.value == state.value && op.must_be_in() && !leaves_out {
                return vec![after];
            }
            following.push((Reverse(op.back), after));
        }
        following.sort_by_key(|(back, _)| *back);
        following.into_iter().map(|(_, after)| after).collect()
    }
}

/// Whether some order explains these operations on one key; nothing if that takes too long.
fn explained(start: Option<u64>, ops: &[Op]) -> Option<bool> {
    let history = History::new(ops);
    let mut seen = HashSet::new();
    let mut open = vec![State { next: 0, skipped: Vec::new(), value: start }];
    while let Some(state) = open.pop() {
        if seen.len() > STATES_MAX {
            return None;
        }
        let Some(deadline) = history.deadline(&state) else { return Some(true) };
        let following = history.following(&state, deadline);
        if seen.insert(state) {
            open.extend(following);
        }
    }
    Some(false)
}

/// The history as it was at `moment`.
fn until(ops: &[Op], moment: u64) -> Vec<Op> {
    let begun = ops.iter().filter(|op| op.call <= moment);
    let open = |op: &Op| match op.back > moment {
        true => Op { cut: true, back: u64::MAX, ..*op },
        false => *op,
    };
    begun.map(open).collect()
}

/// Few of the operations that no order explains, and what may have been there before them: the
/// shortest beginning that is wrong, without what was over before the rest began, and without the
/// gets that it is wrong without. Each of these steps would leave what is right right.
fn smallest(mut ops: Vec<Op>) -> (Vec<Option<u64>>, Vec<Op>) {
    ops.sort_by_key(|op| op.call);
    let mut moments: Vec<u64> = ops.iter().map(|op| op.back).collect();
    moments.sort_unstable();
    let first = moments.partition_point(|moment| !is_wrong(&[None], &until(&ops, *moment)));
    ops = until(&ops, moments[first.min(moments.len() - 1)]);
    let (starts, mut ops) = without_head(ops);
    let mut chunk = ops.len();
    while chunk > 0 {
        for at in (0..ops.len()).step_by(chunk).rev() {
            let stays = |(place, op): &(usize, &Op)| {
                !(at..at + chunk).contains(place) || op.act != Act::Get
            };
            let fewer: Vec<Op> = ops.iter().enumerate().filter(stays).map(|(_, op)| *op).collect();
            if fewer.len() < ops.len() && is_wrong(&starts, &fewer) {
                ops = fewer;
            }
        }
        chunk /= 2;
    }
    (starts, ops)
}

fn is_wrong(starts: &[Option<u64>], ops: &[Op]) -> bool {
    starts.iter().all(|start| explained(*start, ops) == Some(false))
}

/// What of a wrong history is wrong whatever value was there when the rest was over.
fn without_head(ops: Vec<Op>) -> (Vec<Option<u64>>, Vec<Op>) {
    for cut in (1..ops.len()).rev() {
        let (head, tail) = ops.split_at(cut);
        if head.iter().any(|op| op.back >= tail[0].call) {
            continue;
        }
        let starts = ends(head, tail[0].call);
        if !starts.is_empty() && is_wrong(&starts, tail) {
            return (starts, tail.to_vec());
        }
    }
    (vec![None], ops)
}

/// The values that a key may have when all operations on it are over.
fn ends(ops: &[Op], now: u64) -> Vec<Option<u64>> {
    let inserted = ops.iter().filter_map(|op| match op.act {
        Act::Insert(value) => Some(Some(value)),
        _ => None,
    });
    let seen = |value: &Option<u64>| {
        let answer = Answer::Value(*value);
        let get = Op { thread: 0, key: 0, act: Act::Get, answer, call: now, back: now, cut: false };
        explained(None, &[ops, &[get]].concat()) != Some(false)
    };
    inserted.chain([None]).filter(seen).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::{RngExt, SeedableRng};
    use rand_xoshiro::Xoshiro256PlusPlus;

    fn op(act: Act, answer: Answer, call: u64, back: u64) -> Op {
        Op { thread: 0, key: 0, act, answer, call, back, cut: false }
    }

    fn get(value: Option<u64>, call: u64, back: u64) -> Op {
        op(Act::Get, Answer::Value(value), call, back)
    }

    fn insert(value: u64, old: Option<u64>, call: u64, back: u64) -> Op {
        op(Act::Insert(value), Answer::Value(old), call, back)
    }

    fn lost(act: Act, call: u64, crash: u64) -> Op {
        Op { cut: true, ..op(act, Answer::Lost, call, crash) }
    }

    /// Every order of every choice of operations.
    fn oracle(ops: &[Op], order: &mut Vec<usize>) -> bool {
        let chosen = |at: usize| order.contains(&at);
        let whole = (0..ops.len()).all(|at| chosen(at) || !ops[at].must_be_in());
        let in_time = |(first, at): (usize, &usize)| {
            order[first..].iter().all(|later| ops[*later].back >= ops[*at].call)
        };
        if whole && order.iter().enumerate().all(in_time) {
            let end = order.iter().try_fold(None, |value, at| ops[*at].step(value));
            if end.is_some() {
                return true;
            }
        }
        (0..ops.len()).any(|at| {
            let is_new = !order.contains(&at);
            if is_new {
                order.push(at);
            }
            let found = is_new && oracle(ops, order);
            if is_new {
                order.pop();
            }
            found
        })
    }

    /// Operations with answers at random; those that lose theirs do so in one crash, behind which
    /// there are others.
    fn random(rng: &mut Xoshiro256PlusPlus) -> Vec<Op> {
        let crash = rng.random_range(4..12);
        let count = rng.random_range(1..6);
        let one = |value: u64| {
            let call = rng.random_range(0..16);
            let back = call + rng.random_range(0..8);
            let said = Some(rng.random_range(0..count)).filter(|_| rng.random_bool(0.6));
            let act = match rng.random_range(0..5) {
                0 | 1 => Act::Get,
                2 | 3 => Act::Insert(value),
                _ => Act::Remove,
            };
            let answer = match rng.random_bool(0.2) {
                true => Answer::There(said.is_some()),
                false => Answer::Value(said),
            };
            match call <= crash && back > crash {
                true if rng.random_bool(0.5) => lost(act, call, crash),
                true => Op { cut: true, ..op(act, answer, call, crash) },
                false => op(act, answer, call, back),
            }
        };
        (0..count).map(one).collect()
    }

    #[test]
    fn small_histories_are_judged_as_by_trying_every_order() {
        let mut counts = [0; 2];
        for seed in 0..8_000 {
            let ops = random(&mut Xoshiro256PlusPlus::seed_from_u64(seed));
            let expected = oracle(&ops, &mut Vec::new());
            assert_eq!(explained(None, &ops), Some(expected), "seed {seed}: {ops:?}");
            counts[usize::from(expected)] += 1;
        }
        assert!(counts.iter().all(|count| *count > 1_000), "{counts:?}");
    }

    #[test]
    fn a_smallest_history_is_still_wrong_by_the_oracle() {
        let mut shorter = 0;
        for seed in 0..4_000 {
            let ops = random(&mut Xoshiro256PlusPlus::seed_from_u64(seed));
            if let Err(Refusal::Wrong { starts, ops: few, .. }) = check(&ops) {
                shorter += usize::from(few.len() < ops.len());
                for start in starts {
                    let before = start.map(|value| insert(value, None, 0, 0));
                    let moved = few.iter().map(|op| Op {
                        call: op.call + 1,
                        back: op.back.saturating_add(1),
                        ..*op
                    });
                    let all: Vec<Op> = before.into_iter().chain(moved).collect();
                    assert!(!oracle(&all, &mut Vec::new()), "seed {seed}: {ops:?} to {few:?}");
                }
            }
        }
        assert!(shorter > 500, "{shorter}");
    }

    #[test]
    fn a_value_that_was_overwritten_before_the_get_was_called_is_refused() {
        let old = [insert(1, None, 0, 1), insert(2, Some(1), 2, 3), get(Some(1), 4, 5)];
        assert!(check(&old).is_err());
        let meanwhile = [insert(1, None, 0, 1), insert(2, Some(1), 2, 5), get(Some(1), 4, 5)];
        assert_eq!(check(&meanwhile), Ok(3));
        let twice = [insert(1, None, 0, 9), get(Some(1), 1, 2), get(None, 3, 4)];
        assert!(check(&twice).is_err(), "seen, and then not");
    }

    #[test]
    fn what_returned_before_a_crash_is_in_and_what_was_cut_off_is_in_or_not() {
        let after = |value| get(value, 11, 12);
        let cut = [insert(1, None, 0, 1), lost(Act::Insert(2), 2, 10)];
        let with = |last: &[Op]| check(&[&cut[..], last].concat()).is_ok();
        assert!(with(&[after(Some(1))]) && with(&[after(Some(2))]));
        assert!(!with(&[after(None)]), "a durable insertion is lost");
        let seen = get(Some(2), 3, 4);
        assert!(!with(&[seen, after(Some(1))]), "what a get has seen is lost");
        let late = get(Some(2), 13, 14);
        assert!(!with(&[after(Some(1)), late]), "it took effect after the crash");
    }

    #[test]
    fn a_long_history_of_many_threads_takes_few_states() {
        let mut ops = vec![insert(0, None, 0, 1)];
        for number in 1..2_000 {
            let call = 10 * number;
            ops.push(insert(number, Some(number - 1), call, call + 400));
            ops.push(get(Some(number), call, call + 400));
        }
        assert_eq!(check(&ops), Ok(ops.len()));
        ops.truncate(200);
        ops[101].answer = Answer::Value(Some(7));
        let refusal = check(&ops).unwrap_err();
        let Refusal::Wrong { ops, .. } = &refusal else { panic!("{refusal}") };
        assert!(ops.len() < 120 && ops.iter().all(|op| op.act != Act::Get), "{refusal}");
    }
}
