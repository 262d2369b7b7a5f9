//! Off when it does not pay: a thread's trials of flushing with flushers and without, and of having
//! its lines cleaned early and not.
//!
//! What a way costs is the time from a fence to a fence some groups later, for each line flushed:
//! the program's own work is in it, and so is what a flush or a fence makes the program wait for
//! afterwards, which a clock around them does not see. A trial is a few such windows, the thread's
//! own way and the other one in turn (own, other, other, own, ...), so that a slow drift of the
//! machine meets both. The other way wins if it does in nearly all pairs, and clearly in the
//! median, so that an interrupt decides nothing; it loses early if it wins none of the first pairs.
//! Operations that differ make short windows differ: as soon as each way has won some of the pairs,
//! the trial is made again with windows four times as long, and again.
//! Then the clock is left alone: for more than a hundred times as many fences as the trial had, for
//! more if the other way was costly, and for longer each time that the outcome is the same. So
//! trials take below 1 % of the time of a long run; those of a cleaner, whose looks last longer
//! than the pauses that are counted between them, may take more.
//!
//! Where lines may be cleaned early, the two decisions are tried in turn, each while the other
//! stays as it is.
//!
//! The cleaner of a pool, which no thread waits for, tries whether to look for recent stores.
//!
//! A thread tries for itself; what happens when all change their way at once it sees in the next
//! trial only.

use super::Mode;
use seawall_runtime::AbTest;

/// Fences in a window, at first and at most, and those before it that are not counted.
const WINDOW: u64 = 16;
const WINDOW_MAX: u64 = 256;
const LONGER: u64 = 4;
const RUN_IN: u64 = 2;
/// Times that the run-in is made again, as the way that is tried has no effect yet.
const WAITS: u32 = 32;
/// Windows of each way in a trial.
const PAIRS: usize = 7;
/// Of these, those that the other way has to win, and with fewer than how many it has lost; and the
/// part of the own price it has to be below.
const PAIRS_WON: usize = 6;
const PAIRS_OPEN: usize = 3;
const WINS: f64 = 0.97;
/// After this many pairs the trial ends if the other way has won none.
const PAIRS_LOST: usize = 3;
/// After this many pairs the trial ends if the other way has always cost `CLEAR` times as much.
const PAIRS_CLEAR: usize = 2;
const CLEAR: f64 = 1.25;
/// Fences before the first trial: short programs have none.
const FIRST: u64 = 256;
/// Fences from a trial to the next, for each fence of a trial and each that it cost in excess.
const REST: f64 = 128.0;
const REST_MAX: u64 = 1 << 24;
const REPEATS_MAX: u32 = 4;

/// The decisions, as places in [`Judge::ways`].
const DECOUPLES: usize = 0;
const EARLY: usize = 1;

const OF_THREADS: [&[usize]; 2] = [&[DECOUPLES], &[EARLY, DECOUPLES]];
const OF_CLEANER: &[usize] = &[EARLY];

/// One thread's decisions.
#[derive(Clone, Debug)]
pub(super) struct Judge {
    /// The present ways, outside of windows of the other one.
    ways: [bool; 2],
    /// What is tried now or next.
    matter: usize,
    /// All that is tried, in turn.
    matters: &'static [usize],
    /// Fences to the next trial.
    rest: u64,
    trial: Option<Trial>,
    /// Trials in a row that changed nothing, of each matter.
    repeats: [u32; 2],
    pub(super) switches: u64,
}

#[derive(Clone, Debug)]
struct Trial {
    /// Fences in a window.
    window: u64,
    /// Fences of it so far, those with shorter windows too.
    fences: u64,
    test: AbTest<PAIRS>,
    /// When the present window began, and the lines flushed by then; none in the run-in.
    began: Option<(u64, u64)>,
    /// Times that its run-in was made again.
    waited: u32,
}

impl Trial {
    fn new(window: u64, fences: u64) -> Trial {
        Trial { window, fences, test: AbTest::default(), began: None, waited: 0 }
    }
}

/// How the thread goes on after a fence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Conduct {
    pub(super) decouples: bool,
    pub(super) early: bool,
    /// Fences until the judge is asked again; never, if this is `u64::MAX`.
    pub(super) ask_in: u64,
}

impl Judge {
    /// `may_clean` is whether lines may be cleaned early.
    pub(super) fn new(mode: Mode, may_clean: bool) -> (Judge, Conduct) {
        Judge::of(mode, OF_THREADS[usize::from(may_clean)])
    }

    /// For the cleaner of a pool, whose fences are its looks: whether the program flushes its lines
    /// in less time while the cleaner looks. It always looks unless the mode is auto.
    pub(super) fn of_cleaner(mode: Mode) -> (Judge, Conduct) {
        Judge::of(mode, OF_CLEANER)
    }

    fn of(mode: Mode, matters: &'static [usize]) -> (Judge, Conduct) {
        let (trial, repeats, switches) = (None, [0, 0], 0);
        let (ways, matter, rest) = ([false, false], matters[0], FIRST);
        let mut judge = Judge { ways, matter, matters, rest, trial, repeats, switches };
        if mode != Mode::Auto {
            judge.ways = [mode == Mode::Always, judge.may_clean()];
            judge.rest = u64::MAX;
        }
        let conduct = judge.conduct();
        (judge, conduct)
    }

    fn may_clean(&self) -> bool {
        self.matters.contains(&EARLY)
    }

    fn conduct(&self) -> Conduct {
        let mut ways = self.ways;
        let ask_in = match &self.trial {
            None => self.rest,
            Some(trial) => {
                ways[self.matter] ^= trial.test.is_other();
                if trial.began.is_some() { trial.window } else { RUN_IN }
            }
        };
        Conduct { decouples: ways[DECOUPLES], early: ways[EARLY], ask_in }
    }

    /// The fences that it wanted are over, the last of them at `now`, after `lines` lines in all.
    /// A clock at 0 is one that stands still.
    pub(super) fn ask(&mut self, now: u64, lines: u64) -> Conduct {
        if now == 0 {
            (self.ways, self.rest, self.trial) = ([true, self.may_clean()], u64::MAX, None);
        } else if let Some(trial) = &mut self.trial {
            match trial.began.take() {
                None => (trial.began, trial.waited) = (Some((now, lines)), 0),
                // A window without a line says nothing: it begins anew.
                Some((_, before)) if lines <= before => {}
                Some((began, before)) => {
                    let price = now.saturating_sub(began) as f64 / (lines - before) as f64;
                    trial.test.record(price);
                    trial.fences += trial.window + RUN_IN;
                    self.window_is_over();
                }
            }
        } else {
            self.trial = Some(Trial::new(WINDOW, 0));
        }
        self.conduct()
    }

    /// The way that is tried has no effect yet. If its window has not begun, and it has not been so
    /// too often, the run-in has to be made again; else the judge has to be asked.
    pub(super) fn wait(&mut self) -> Option<Conduct> {
        let trial = self.trial.as_mut()?;
        if trial.began.is_some() || trial.waited == WAITS {
            return None;
        }
        trial.waited += 1;
        Some(self.conduct())
    }

    fn window_is_over(&mut self) {
        let Some(trial) = &self.trial else { return };
        let Some([own, other]) = trial.test.pairs() else { return };
        let pairs = own.len();
        if pairs < PAIRS_CLEAR {
            return;
        }
        let is_clear = own.iter().zip(other).all(|(own, other)| *other > CLEAR * own);
        let won = trial.test.won();
        let lost = pairs - won;
        let (window, fences) = (trial.window, trial.fences);
        let [own, other] = trial.test.medians();
        if is_clear || lost > PAIRS - PAIRS_OPEN || (won == 0 && pairs == PAIRS_LOST) {
            self.trial_is_over(own, other, fences, false);
        } else if pairs == PAIRS && won >= PAIRS_WON && other < WINS * own {
            self.trial_is_over(own, other, fences, true);
        } else if pairs == PAIRS || (won >= PAIRS_OPEN && lost > PAIRS - PAIRS_WON) {
            match window < WINDOW_MAX {
                true => self.trial = Some(Trial::new(window * LONGER, fences)),
                false => self.trial_is_over(own, other, fences, false),
            }
        }
    }

    fn trial_is_over(&mut self, own: f64, other: f64, fences: u64, wins: bool) {
        self.trial = None;
        if wins {
            self.ways[self.matter] ^= true;
            self.switches += 1;
            self.repeats[self.matter] = 0;
        } else {
            self.repeats[self.matter] = (self.repeats[self.matter] + 1).min(REPEATS_MAX);
        }
        let best = own.min(other).max(f64::MIN_POSITIVE);
        let excess = ((own + other) / best - 2.0).max(0.0);
        let rest = REST * fences as f64 * (1.0 + excess / 2.0);
        self.rest = (rest as u64).min(REST_MAX) << self.repeats[self.matter];
        let mut others = self.matters.iter().filter(|matter| **matter != self.matter);
        self.matter = *others.next().unwrap_or(&self.matter);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand_xoshiro::Xoshiro256PlusPlus;
    use rand_xoshiro::rand_core::{Rng, SeedableRng};

    /// Runs `fences` fences at these prices of a line; returns the fences that were decoupled, all
    /// time, the time that the cheaper way would have taken, and the judge.
    fn run(inline: u64, decoupled: u64, fences: u64) -> (u64, u64, u64, Judge) {
        let (mut judge, mut conduct) = Judge::new(Mode::Auto, false);
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
            assert_eq!(judge.ways[DECOUPLES], decoupled < inline, "{inline} {decoupled}");
            let share = count as f64 / 4e6;
            assert!(if judge.ways[DECOUPLES] { share > 0.99 } else { share < 0.01 }, "{share}");
            assert!((time as f64) < best as f64 * 1.01, "{inline} {decoupled}: {time} {best}");
        }
    }

    #[test]
    fn a_trial_ends_when_the_other_way_has_won_none_of_three_pairs_or_costs_far_more_in_two() {
        for (inline, decoupled, pairs) in [(157, 160, 3), (157, 190, 3), (157, 200, 2)] {
            let (count, ..) = run(inline, decoupled, 5_000);
            assert_eq!(count, pairs * (WINDOW + RUN_IN), "{inline} {decoupled}");
        }
    }

    #[test]
    fn a_window_waits_for_the_way_that_it_tries_but_not_for_ever_and_nothing_else_does() {
        let mut judge = Judge::new(Mode::Auto, true).0;
        assert!(judge.wait().is_none(), "no trial");
        judge.ask(1, 1);
        for is_early in [false, true] {
            assert_eq!(
                judge.conduct(),
                Conduct { decouples: false, early: is_early, ask_in: RUN_IN }
            );
            for _ in 0..WAITS {
                assert_eq!(judge.wait(), Some(judge.conduct()));
            }
            assert!(judge.wait().is_none());
            let began = judge.ask(2, 2);
            assert_eq!((began.early, began.ask_in), (is_early, WINDOW));
            assert!(judge.wait().is_none(), "the window has begun");
            judge.ask(3, 3);
        }
    }

    #[test]
    fn equal_ways_change_nothing() {
        let (_, _, _, judge) = run(100, 99, 1_000_000);
        assert_eq!((judge.ways[DECOUPLES], judge.switches), (false, 0));
    }

    #[test]
    fn a_gain_that_differing_operations_hide_in_short_windows_is_found() {
        let mut random = Xoshiro256PlusPlus::seed_from_u64(1);
        let mut decided = 0;
        for _ in 0..20 {
            let (mut judge, mut conduct) = Judge::new(Mode::Auto, false);
            let (mut now, mut lines, mut fences) = (1.0, 0, 0);
            while fences < 200_000 && !judge.ways[DECOUPLES] {
                for _ in 0..conduct.ask_in {
                    // A change of 17 lines, or one of two lines that has as much to search.
                    let changed = if random.next_u64() % 2 == 0 { 17 } else { 2 };
                    let price = if conduct.decouples { 34.0 } else { 40.0 };
                    now += 400.0 + f64::from(changed) * price;
                    lines += changed as u64;
                    fences += 1;
                }
                conduct = judge.ask(now as u64, lines);
            }
            decided += u64::from(judge.ways[DECOUPLES]);
        }
        assert!(decided >= 18, "{decided} of 20 threads found a tenth to gain");
    }

    #[test]
    fn a_few_interrupts_decide_nothing() {
        let (mut judge, mut conduct) = Judge::new(Mode::Auto, false);
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
        let (mut judge, conduct) = Judge::new(Mode::Auto, false);
        assert_eq!(conduct, Conduct { decouples: false, early: false, ask_in: FIRST });
        assert_eq!(judge.ask(0, 1), Conduct { decouples: true, early: false, ask_in: u64::MAX });
        for mode in [Mode::Always, Mode::Never] {
            let conduct = Judge::new(mode, false).1;
            assert_eq!((conduct.decouples, conduct.ask_in), (mode == Mode::Always, u64::MAX));
        }
    }

    /// Runs fences that cost what `price` says of the two ways; returns the part of them that was
    /// decoupled, the part with lines cleaned early, and by how much all cost more than the best.
    fn run_both(price: impl Fn(bool, bool) -> u64, fences: u64) -> (f64, f64, f64) {
        let (mut judge, mut conduct) = Judge::new(Mode::Auto, true);
        let (mut left, mut counts, mut time) = (conduct.ask_in, [0, 0], 0);
        for fence in 1..=fences {
            counts[0] += u64::from(conduct.decouples);
            counts[1] += u64::from(conduct.early);
            time += price(conduct.decouples, conduct.early);
            left -= 1;
            if left == 0 {
                conduct = judge.ask(time, fence);
                left = conduct.ask_in;
            }
        }
        let all = [(false, false), (false, true), (true, false), (true, true)];
        let best = all.map(|(decouples, early)| price(decouples, early)).into_iter().min();
        let part = |count: u64| count as f64 / fences as f64;
        let excess = time as f64 / (best.unwrap_or(1) * fences) as f64 - 1.0;
        (part(counts[0]), part(counts[1]), excess)
    }

    #[test]
    fn cleaning_early_is_kept_where_it_pays_and_left_where_it_does_not() {
        for gain in [-40_000, -300, -30, 0, 20, 60] {
            let price = |decouples, early| {
                let saved = if early { gain } else { 0 };
                (200 + 40 * i64::from(decouples) - saved) as u64
            };
            let (decoupled, early, excess) = run_both(price, 4_000_000);
            assert!(decoupled < 0.01 && excess < 0.02, "{gain}: {decoupled} {excess}");
            assert!(if gain > 0 { early > 0.97 } else { early < 0.01 }, "{gain}: {early}");
        }
    }

    #[test]
    fn each_matter_is_decided_whatever_the_other_one_is() {
        let price =
            |decouples: bool, early: bool| 200 - 50 * u64::from(decouples) - 50 * u64::from(early);
        let (decoupled, early, _) = run_both(price, 4_000_000);
        assert!(decoupled > 0.9 && early > 0.9, "{decoupled} {early}");
    }

    #[test]
    fn a_cleaner_tries_its_own_matter_again_and_again_and_no_other() {
        for pays in [true, false] {
            let (mut judge, mut conduct) = Judge::of_cleaner(Mode::Auto);
            let (mut now, mut looks) = (0, 0);
            for _ in 0..1000 {
                looks += conduct.ask_in;
                now += conduct.ask_in * if conduct.early == pays { 80 } else { 100 };
                conduct = judge.ask(now, looks);
                assert!(!conduct.decouples);
            }
            assert_eq!((judge.ways[EARLY], judge.switches), (pays, u64::from(pays)));
        }
        for mode in [Mode::Always, Mode::Never] {
            let conduct = Judge::of_cleaner(mode).1;
            assert_eq!((conduct.early, conduct.ask_in), (true, u64::MAX));
        }
    }

    #[test]
    fn without_time_lines_are_cleaned_early_and_a_fixed_mode_does_as_it_is_told() {
        let (mut judge, conduct) = Judge::new(Mode::Auto, true);
        assert!(!conduct.early && judge.ask(0, 1).early);
        for mode in [Mode::Always, Mode::Never] {
            assert!(Judge::new(mode, true).1.early && !Judge::new(mode, false).1.early);
        }
    }
}
