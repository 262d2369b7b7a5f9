//! Off when it does not pay: a thread's trials of flushing with flushers and without.
//!
//! What a way costs is the time from a fence to a fence some groups later, for each line flushed:
//! the program's own work is in it, and so is what a flush or a fence makes the program wait for
//! afterwards, which a clock around them does not see. A trial is a few such windows, the thread's
//! own way and the other one in turn (own, other, other, own, ...), so that a slow drift of the
//! machine meets both. The other way wins if it does in nearly all pairs, and clearly in the
//! median, so that an interrupt decides nothing; it loses early if it is far worse from the begin.
//! Then the clock is left alone: for more than a hundred times as many fences as the trial had, for
//! more if the other way was costly, and for longer each time that the outcome is the same. So
//! trials take below 1 % of the time of a long run.
//!
//! A thread tries for itself; what happens when all change their way at once it sees in the next
//! trial only.

use super::Mode;

/// Fences in a window, and those before it that are not counted.
const WINDOW: u64 = 16;
const RUN_IN: u64 = 2;
/// Windows of each way in a trial.
const PAIRS: usize = 7;
/// Of these, those that the other way has to win; and the part of the own price it has to be below.
const PAIRS_WON: usize = 6;
const WINS: f64 = 0.97;
/// After so many of each the trial ends if the other way has always cost this often as much.
const PAIRS_CLEAR: usize = 2;
const CLEAR: f64 = 1.25;
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
    /// Fences to the next trial.
    rest: u64,
    trial: Option<Trial>,
    /// Trials in a row that changed nothing.
    repeats: u32,
    pub(super) switches: u64,
}

#[derive(Clone, Debug, Default)]
struct Trial {
    /// Windows that are over.
    windows: usize,
    /// When the present one began, and the lines flushed by then; none in the run-in.
    began: Option<(u64, u64)>,
    prices: [Vec<f64>; 2],
}

/// How the thread goes on after a fence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Conduct {
    pub(super) decouples: bool,
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
        let rest = if mode == Mode::Auto { FIRST } else { u64::MAX };
        let judge = Judge { decouples, rest, trial: None, repeats: 0, switches: 0 };
        let conduct = judge.conduct();
        (judge, conduct)
    }

    fn conduct(&self) -> Conduct {
        let Some(trial) = &self.trial else {
            return Conduct { decouples: self.decouples, ask_in: self.rest };
        };
        let ask_in = if trial.began.is_some() { WINDOW } else { RUN_IN };
        Conduct { decouples: self.decouples == is_own(trial.windows), ask_in }
    }

    /// The fences that it wanted are over, the last of them at `now`, after so many `lines` in all.
    /// A clock at 0 is one that stands still.
    pub(super) fn ask(&mut self, now: u64, lines: u64) -> Conduct {
        if now == 0 {
            (self.decouples, self.rest, self.trial) = (true, u64::MAX, None);
        } else if let Some(trial) = &mut self.trial {
            match trial.began.take() {
                None => trial.began = Some((now, lines)),
                Some((began, before)) => {
                    let lines = lines.saturating_sub(before).max(1) as f64;
                    let price = now.saturating_sub(began) as f64 / lines;
                    trial.prices[usize::from(!is_own(trial.windows))].push(price);
                    trial.windows += 1;
                    self.window_is_over();
                }
            }
        } else {
            self.trial = Some(Trial::default());
        }
        self.conduct()
    }

    fn window_is_over(&mut self) {
        let Some(trial) = &self.trial else { return };
        let pairs = trial.windows / 2;
        if !trial.windows.is_multiple_of(2) || pairs < PAIRS_CLEAR {
            return;
        }
        let [own, other] = &trial.prices;
        let is_clear = own.iter().zip(other).all(|(own, other)| *other > CLEAR * own);
        let won = own.iter().zip(other).filter(|(own, other)| other < own).count();
        let (own, other) = (median(own), median(other));
        if pairs == PAIRS || is_clear {
            let wins = won >= PAIRS_WON && other < WINS * own;
            self.trial_is_over(own, other, pairs, wins);
        }
    }

    fn trial_is_over(&mut self, own: f64, other: f64, pairs: usize, wins: bool) {
        self.trial = None;
        if wins {
            self.decouples = !self.decouples;
            self.switches += 1;
            self.repeats = 0;
        } else {
            self.repeats = (self.repeats + 1).min(REPEATS_MAX);
        }
        let best = own.min(other).max(f64::MIN_POSITIVE);
        let excess = ((own + other) / best - 2.0).max(0.0);
        let fences = pairs as f64 * (WINDOW + RUN_IN) as f64;
        let rest = REST * fences * (2.0 + excess);
        self.rest = (rest as u64).min(REST_MAX) << self.repeats;
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
        for fence in 1..=fences {
            let price = if conduct.decouples { decoupled } else { inline };
            count += u64::from(conduct.decouples);
            time += price;
            left -= 1;
            if left == 0 {
                conduct = judge.ask(time, fence);
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
    fn a_few_interrupts_decide_nothing() {
        let (mut judge, mut conduct) = Judge::new(Mode::Auto);
        let (mut now, mut lines) = (1, 0);
        for ask in 0..10_000 {
            lines += conduct.ask_in.min(WINDOW);
            now += 100 * conduct.ask_in.min(WINDOW);
            now += if ask % 7 == 0 { 100_000 } else { 0 };
            conduct = judge.ask(now, lines);
        }
        assert_eq!(judge.switches, 0);
    }

    #[test]
    fn a_way_that_became_cheaper_is_found() {
        let (_, mut now, _, mut judge) = run(100, 200, 100_000);
        let (mut conduct, mut fences) = (judge.conduct(), 0);
        while judge.switches == 0 {
            fences += conduct.ask_in;
            now += conduct.ask_in * if conduct.decouples { 50 } else { 100 };
            conduct = judge.ask(now, fences);
        }
        assert!(fences < 1 << 20, "{fences}");
        assert!(conduct.decouples);
    }

    #[test]
    fn without_time_flushers_do_it_and_a_fixed_mode_asks_nothing() {
        let (mut judge, conduct) = Judge::new(Mode::Auto);
        assert_eq!(conduct, Conduct { decouples: false, ask_in: FIRST });
        assert_eq!(judge.ask(0, 1), Conduct { decouples: true, ask_in: u64::MAX });
        for mode in [Mode::Always, Mode::Never] {
            let conduct = Judge::new(mode).1;
            assert_eq!((conduct.decouples, conduct.ask_in), (mode == Mode::Always, u64::MAX));
        }
    }
}
