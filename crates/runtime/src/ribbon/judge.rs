//! Off when it does not pay: a thread's trials of flushing with flushers and without.
//!
//! What a way costs is the thread's time in flushes and fences, for each line. A trial is a few
//! windows of fences, its own way and the other one in turn (own, other, other, own, ...), so that a
//! slow drift of the machine meets both; their medians are compared, so that an interrupt decides
//! nothing. It ends early when the other way is far worse. Then the clock is left alone: for at
//! least a hundred times as many fences as the trial had, for more if the other way was costly, and
//! for longer each time that the outcome is the same. So trials take below 1 % of the time.
//!
//! A thread tries for itself; what happens when all change their way at once it sees in the next
//! trial only.

use super::Mode;

/// Fences in a window, and those at its begin that are not counted.
const WINDOW: u32 = 18;
const RUN_IN: u32 = 2;
/// Windows of each way in a trial.
const PAIRS: usize = 5;
/// After so many of each the trial ends if the other way costs more than this often as much.
const PAIRS_CLEAR: usize = 2;
const CLEAR: f64 = 1.5;
/// The other way wins if it costs less than this part of the own.
const WINS: f64 = 0.97;
/// Fences before the first trial: short programs have none.
const FIRST: u64 = 1024;
/// Fences from a trial to the next, for each fence of a trial and each that it cost in excess.
const REST: f64 = 128.0;
const REST_MAX: u64 = 1 << 24;
const REPEATS_MAX: u32 = 4;

/// One thread's decision.
#[derive(Clone, Debug)]
pub(super) struct Judge {
    /// The present way, outside of windows of the other one.
    decouples: bool,
    /// Fences until something happens.
    left: u64,
    trial: Option<Trial>,
    /// Trials in a row that changed nothing.
    repeats: u32,
    pub(super) switches: u64,
}

#[derive(Clone, Debug, Default)]
struct Trial {
    /// Windows that are over.
    windows: usize,
    fences: u32,
    spent: u64,
    lines: u64,
    prices: [Vec<f64>; 2],
}

/// How the thread goes on after a fence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Conduct {
    pub(super) decouples: bool,
    /// Whether the next window is timed.
    pub(super) times: bool,
    /// Fences until the judge is asked again; never, if this is `u64::MAX`.
    pub(super) ask_in: u64,
}

/// Window `index` goes the thread's own way: own, other, other, own, own, ...
fn is_own(index: usize) -> bool {
    index.div_ceil(2).is_multiple_of(2)
}

fn median(prices: &[f64]) -> f64 {
    let mut sorted = prices.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted[sorted.len() / 2]
}

impl Judge {
    pub(super) fn new(mode: Mode) -> (Judge, Conduct) {
        let decouples = mode == Mode::Always;
        let left = if mode == Mode::Auto { FIRST } else { u64::MAX };
        let judge = Judge { decouples, left, trial: None, repeats: 0, switches: 0 };
        let conduct = judge.conduct();
        (judge, conduct)
    }

    fn conduct(&self) -> Conduct {
        let other = self.trial.as_ref().is_some_and(|trial| !is_own(trial.windows));
        let times = self.trial.is_some();
        let ask_in = if times { 1 } else { self.left };
        Conduct { decouples: self.decouples != other, times, ask_in }
    }

    /// The fences that it wanted are over. In a trial the last one, and the flushes before it, were
    /// of `lines` lines and took `spent`; `has_time` is false if the clock stands still.
    pub(super) fn ask(&mut self, spent: u64, lines: u64, has_time: bool) -> Conduct {
        if !has_time {
            (self.decouples, self.left, self.trial) = (true, u64::MAX, None);
        } else if let Some(trial) = &mut self.trial {
            trial.fences += 1;
            if trial.fences > RUN_IN {
                trial.spent += spent;
                trial.lines += lines;
            }
            if trial.fences == WINDOW {
                self.window_is_over();
            }
        } else {
            self.trial = Some(Trial::default());
        }
        self.conduct()
    }

    fn window_is_over(&mut self) {
        let Some(trial) = &mut self.trial else { return };
        let way = usize::from(!is_own(trial.windows));
        trial.prices[way].push(trial.spent as f64 / trial.lines.max(1) as f64);
        trial.windows += 1;
        (trial.fences, trial.spent, trial.lines) = (0, 0, 0);
        let pairs = trial.windows / 2;
        if !trial.windows.is_multiple_of(2) || pairs < PAIRS_CLEAR {
            return;
        }
        let (own, other) = (median(&trial.prices[0]), median(&trial.prices[1]));
        if pairs == PAIRS || other > CLEAR * own {
            self.trial_is_over(own, other, pairs);
        }
    }

    fn trial_is_over(&mut self, own: f64, other: f64, pairs: usize) {
        self.trial = None;
        let changes = other < WINS * own;
        if changes {
            self.decouples = !self.decouples;
            self.switches += 1;
            self.repeats = 0;
        } else {
            self.repeats = (self.repeats + 1).min(REPEATS_MAX);
        }
        let best = own.min(other).max(f64::MIN_POSITIVE);
        let excess = ((own + other) / best - 2.0).max(0.0);
        let fences = pairs as f64 * f64::from(WINDOW);
        let rest = REST * fences * (2.0 + excess);
        self.left = (rest as u64).min(REST_MAX) << self.repeats;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Runs so many fences at these prices of a line; gives the fences that were decoupled, all
    /// time, the time that the cheaper way would have taken, and the judge.
    fn run(inline: u64, decoupled: u64, fences: u64) -> (u64, u64, u64, Judge) {
        let (mut judge, mut conduct) = Judge::new(Mode::Auto);
        let (mut left, mut count, mut time) = (conduct.ask_in, 0, 0);
        for _ in 0..fences {
            let price = if conduct.decouples { decoupled } else { inline };
            count += u64::from(conduct.decouples);
            time += price;
            left -= 1;
            if left == 0 {
                conduct = judge.ask(price, 1, true);
                left = conduct.ask_in;
            }
        }
        (count, time, fences * inline.min(decoupled), judge)
    }

    #[test]
    fn the_cheaper_way_is_gone_and_trials_cost_below_one_percent() {
        for (inline, decoupled) in [(157, 140), (157, 160), (157, 400), (157, 40_000), (157, 20)] {
            let (count, time, best, judge) = run(inline, decoupled, 4_000_000);
            assert_eq!(judge.decouples, decoupled < inline, "{inline} {decoupled}");
            let share = count as f64 / 4e6;
            assert!(if judge.decouples { share > 0.99 } else { share < 0.01 }, "{share}");
            assert!((time as f64) < best as f64 * 1.01, "{inline} {decoupled}: {time} {best}");
        }
    }

    #[test]
    fn equal_ways_change_nothing() {
        let (_, _, _, judge) = run(100, 99, 1_000_000);
        assert_eq!((judge.decouples, judge.switches), (false, 0));
    }

    #[test]
    fn a_way_that_became_cheaper_is_found() {
        let (_, _, _, mut judge) = run(100, 200, 100_000);
        let mut conduct = judge.conduct();
        let mut fences = 0u64;
        while !(conduct.decouples && !conduct.times) {
            fences += conduct.ask_in;
            conduct = judge.ask(if conduct.decouples { 50 } else { 100 }, 1, true);
        }
        assert!(fences < 1 << 20, "{fences}");
        assert_eq!(judge.switches, 1);
    }

    #[test]
    fn without_time_flushers_do_it_and_a_fixed_mode_asks_nothing() {
        let (mut judge, conduct) = Judge::new(Mode::Auto);
        assert!(!conduct.decouples && conduct.ask_in == FIRST);
        let conduct = judge.ask(0, 1, false);
        assert_eq!(conduct, Conduct { decouples: true, times: false, ask_in: u64::MAX });
        for mode in [Mode::Always, Mode::Never] {
            let conduct = Judge::new(mode).1;
            assert_eq!((conduct.decouples, conduct.ask_in), (mode == Mode::Always, u64::MAX));
        }
    }
}
