//! A/B tests of what a thread does with its flushes: whether it leaves them to flushers, and
//! whether its lines are cleaned early. What does not pay is off.
//!
//! The price of a window is the time from a fence to a fence some groups later, per line flushed.
//! It includes the program's own work, and what a flush or a fence makes the program wait for
//! afterwards, which a clock around them would miss. A trial is an [A/B test](AbTest) of the way in
//! use (A) and the other one (B). B wins if it wins nearly all pairs, and clearly in the median; it
//! loses early if it wins none of the first pairs. Operations that differ make short windows
//! differ: as soon as A and B have each won some of the pairs, the trial starts again with windows
//! four times as long, and again.
//! Then the clock is not read for more than a hundred times as many fences as the trial had, for
//! more if one way was costly, and for longer each time that the outcome is the same. So
//! trials take below 1 % of the time of a long run; those of a cleaner, whose looks last longer
//! than the pauses that are counted between them, may take more.
//!
//! Where lines may be cleaned early there are two factors. Their trials alternate; each varies one
//! factor and leaves the other as it is.
//!
//! The cleaner of a pool, which no thread waits for, tests whether to look for recent stores.
//!
//! Each thread tests for itself; the effect of all threads changing at once shows in its next trial
//! only.

use super::Mode;
use seawall_runtime::AbTest;

/// Fences in a window, at first and at most; the factor between; and the fences of a run-in, which
/// are not counted.
const WINDOW: u64 = 16;
const WINDOW_MAX: u64 = 256;
const LONGER: u64 = 4;
const RUN_IN: u64 = 2;
/// Maximum extensions of a run-in while the way under test has no effect yet.
const WAITS: u32 = 32;
/// Maximum pairs of windows in a trial.
const PAIRS: usize = 7;
/// Pairs that B must win; B has lost if it can no longer win `PAIRS_OPEN`; and the part of A's
/// median below which B's must be.
const PAIRS_WON: usize = 6;
const PAIRS_OPEN: usize = 3;
const WINS: f64 = 0.97;
/// Pairs after which the trial ends if B has won none.
const PAIRS_LOST: usize = 3;
/// Pairs after which the trial ends if B cost more than `CLEAR` times as much in each.
const PAIRS_CLEAR: usize = 2;
const CLEAR: f64 = 1.25;
/// Fences before the first trial: short programs have none.
const FIRST: u64 = 256;
/// Fences between trials, for each fence of a trial and each that it cost in excess.
const REST: f64 = 128.0;
const REST_MAX: u64 = 1 << 24;
const REPEATS_MAX: u32 = 4;

/// The factors, as indices of [`AbTests::ways`].
const DECOUPLES: usize = 0;
const EARLY: usize = 1;

const OF_THREADS: [&[usize]; 2] = [&[DECOUPLES], &[EARLY, DECOUPLES]];
const OF_CLEANER: &[usize] = &[EARLY];

/// The A/B tests of one thread, or of a cleaner.
#[derive(Clone, Debug)]
pub(super) struct AbTests {
    /// The way in use (A) of each factor.
    ways: [bool; 2],
    /// The factor under test, or to test next.
    factor: usize,
    /// All factors that are tested, in turn.
    factors: &'static [usize],
    /// Fences until the next trial.
    rest: u64,
    trial: Option<Trial>,
    /// Consecutive trials of each factor that changed nothing.
    repeats: [u32; 2],
    pub(super) switches: u64,
}

#[derive(Clone, Debug)]
struct Trial {
    /// Fences in a window.
    window: u64,
    /// Fences of the trial so far, those with shorter windows included.
    fences: u64,
    test: AbTest<PAIRS>,
    /// When the current window began, and the lines flushed by then; `None` during the run-in.
    began: Option<(u64, u64)>,
    /// Extensions of its run-in.
    waited: u32,
}

impl Trial {
    fn new(window: u64, fences: u64) -> Trial {
        Trial { window, fences, test: AbTest::default(), began: None, waited: 0 }
    }
}

/// What the thread does after a fence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Variant {
    pub(super) decouples: bool,
    pub(super) early: bool,
    /// Fences until [`AbTests::next`] is due; never, if this is `u64::MAX`.
    pub(super) fences: u64,
}

impl AbTests {
    /// `may_clean` is whether lines may be cleaned early.
    pub(super) fn new(mode: Mode, may_clean: bool) -> (AbTests, Variant) {
        AbTests::of(mode, OF_THREADS[usize::from(may_clean)])
    }

    /// For the cleaner of a pool, which counts its looks as fences: tests whether the program
    /// flushes its lines in less time while the cleaner looks. It always looks unless the mode is
    /// auto.
    pub(super) fn of_cleaner(mode: Mode) -> (AbTests, Variant) {
        AbTests::of(mode, OF_CLEANER)
    }

    fn of(mode: Mode, factors: &'static [usize]) -> (AbTests, Variant) {
        let (trial, repeats, switches) = (None, [0, 0], 0);
        let (ways, factor, rest) = ([false, false], factors[0], FIRST);
        let mut tests = AbTests { ways, factor, factors, rest, trial, repeats, switches };
        if mode != Mode::Auto {
            tests.ways = [mode == Mode::Always, tests.may_clean()];
            tests.rest = u64::MAX;
        }
        let variant = tests.variant();
        (tests, variant)
    }

    fn may_clean(&self) -> bool {
        self.factors.contains(&EARLY)
    }

    fn variant(&self) -> Variant {
        let mut ways = self.ways;
        let fences = match &self.trial {
            None => self.rest,
            Some(trial) => {
                ways[self.factor] ^= trial.test.is_other();
                if trial.began.is_some() { trial.window } else { RUN_IN }
            }
        };
        Variant { decouples: ways[DECOUPLES], early: ways[EARLY], fences }
    }

    /// The variant after the last one's fences, which ended at `now`, after `lines` lines in all.
    /// A clock that reads 0 stands still.
    pub(super) fn next(&mut self, now: u64, lines: u64) -> Variant {
        if now == 0 {
            (self.ways, self.rest, self.trial) = ([true, self.may_clean()], u64::MAX, None);
        } else if let Some(trial) = &mut self.trial {
            match trial.began.take() {
                None => (trial.began, trial.waited) = (Some((now, lines)), 0),
                // A window without a line has no price: start again with a run-in.
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
        self.variant()
    }

    /// Extends the run-in, for a way under test that has no effect yet; `None` outside of run-ins
    /// and after `WAITS` extensions, when [`next`](AbTests::next) is due.
    pub(super) fn extend_run_in(&mut self) -> Option<Variant> {
        let trial = self.trial.as_mut()?;
        if trial.began.is_some() || trial.waited == WAITS {
            return None;
        }
        trial.waited += 1;
        Some(self.variant())
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
            self.ways[self.factor] ^= true;
            self.switches += 1;
            self.repeats[self.factor] = 0;
        } else {
            self.repeats[self.factor] = (self.repeats[self.factor] + 1).min(REPEATS_MAX);
        }
        let best = own.min(other).max(f64::MIN_POSITIVE);
        let excess = ((own + other) / best - 2.0).max(0.0);
        let rest = REST * fences as f64 * (1.0 + excess / 2.0);
        self.rest = (rest as u64).min(REST_MAX) << self.repeats[self.factor];
        let mut others = self.factors.iter().filter(|factor| **factor != self.factor);
        self.factor = *others.next().unwrap_or(&self.factor);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand_xoshiro::Xoshiro256PlusPlus;
    use rand_xoshiro::rand_core::{Rng, SeedableRng};

    /// Runs `fences` fences at these prices of a line; returns the fences that were decoupled, all
    /// time, the time that the cheaper way would have taken, and the tests.
    fn run(inline: u64, decoupled: u64, fences: u64) -> (u64, u64, u64, AbTests) {
        let (mut tests, mut variant) = AbTests::new(Mode::Auto, false);
        let (mut left, mut count, mut time) = (variant.fences, 0, 0);
        for fence in 1..=fences {
            let price = if variant.decouples { decoupled } else { inline };
            count += u64::from(variant.decouples);
            time += price;
            left -= 1;
            if left == 0 {
                variant = tests.next(time, fence);
                left = variant.fences;
            }
        }
        (count, time, fences * inline.min(decoupled), tests)
    }

    #[test]
    fn the_cheaper_way_is_used_and_trials_cost_below_one_percent() {
        for (inline, decoupled) in [(157, 140), (157, 160), (157, 400), (157, 40_000), (157, 20)] {
            let (count, time, best, tests) = run(inline, decoupled, 4_000_000);
            assert_eq!(tests.ways[DECOUPLES], decoupled < inline, "{inline} {decoupled}");
            let share = count as f64 / 4e6;
            assert!(if tests.ways[DECOUPLES] { share > 0.99 } else { share < 0.01 }, "{share}");
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
        let mut tests = AbTests::new(Mode::Auto, true).0;
        assert!(tests.extend_run_in().is_none(), "no trial");
        tests.next(1, 1);
        for is_early in [false, true] {
            assert_eq!(
                tests.variant(),
                Variant { decouples: false, early: is_early, fences: RUN_IN }
            );
            for _ in 0..WAITS {
                assert_eq!(tests.extend_run_in(), Some(tests.variant()));
            }
            assert!(tests.extend_run_in().is_none());
            let began = tests.next(2, 2);
            assert_eq!((began.early, began.fences), (is_early, WINDOW));
            assert!(tests.extend_run_in().is_none(), "the window has begun");
            tests.next(3, 3);
        }
    }

    #[test]
    fn equal_ways_change_nothing() {
        let (_, _, _, tests) = run(100, 99, 1_000_000);
        assert_eq!((tests.ways[DECOUPLES], tests.switches), (false, 0));
    }

    #[test]
    fn a_gain_that_differing_operations_hide_in_short_windows_is_found() {
        let mut random = Xoshiro256PlusPlus::seed_from_u64(1);
        let mut decided = 0;
        for _ in 0..20 {
            let (mut tests, mut variant) = AbTests::new(Mode::Auto, false);
            let (mut now, mut lines, mut fences) = (1.0, 0, 0);
            while fences < 200_000 && !tests.ways[DECOUPLES] {
                for _ in 0..variant.fences {
                    // A change of 17 lines, or one of two lines that has as much to search.
                    let changed = if random.next_u64() % 2 == 0 { 17 } else { 2 };
                    let price = if variant.decouples { 34.0 } else { 40.0 };
                    now += 400.0 + f64::from(changed) * price;
                    lines += changed as u64;
                    fences += 1;
                }
                variant = tests.next(now as u64, lines);
            }
            decided += u64::from(tests.ways[DECOUPLES]);
        }
        assert!(decided >= 18, "{decided} of 20 threads found a tenth to gain");
    }

    #[test]
    fn a_few_interrupts_decide_nothing() {
        let (mut tests, mut variant) = AbTests::new(Mode::Auto, false);
        let (mut now, mut lines) = (1, 0);
        for ask in 0..10_000 {
            lines += variant.fences.min(WINDOW);
            now += 100 * variant.fences.min(WINDOW);
            now += if ask % 7 == 0 { 100_000 } else { 0 };
            variant = tests.next(now, lines);
        }
        assert_eq!(tests.switches, 0);
    }

    #[test]
    fn a_way_that_became_cheaper_is_found() {
        let (_, mut now, _, mut tests) = run(100, 200, 100_000);
        let (mut variant, mut fences) = (tests.variant(), 0);
        while tests.switches == 0 {
            fences += variant.fences;
            now += variant.fences * if variant.decouples { 50 } else { 100 };
            variant = tests.next(now, fences);
        }
        assert!(fences < 1 << 20, "{fences}");
        assert!(variant.decouples);
    }

    #[test]
    fn without_a_clock_flushers_flush_and_a_fixed_mode_tests_nothing() {
        let (mut tests, variant) = AbTests::new(Mode::Auto, false);
        assert_eq!(variant, Variant { decouples: false, early: false, fences: FIRST });
        assert_eq!(tests.next(0, 1), Variant { decouples: true, early: false, fences: u64::MAX });
        for mode in [Mode::Always, Mode::Never] {
            let variant = AbTests::new(mode, false).1;
            assert_eq!((variant.decouples, variant.fences), (mode == Mode::Always, u64::MAX));
        }
    }

    /// Runs fences at the `price` of both ways in use; returns the part of them that was
    /// decoupled, the part with lines cleaned early, and by how much all cost more than the best.
    fn run_both(price: impl Fn(bool, bool) -> u64, fences: u64) -> (f64, f64, f64) {
        let (mut tests, mut variant) = AbTests::new(Mode::Auto, true);
        let (mut left, mut counts, mut time) = (variant.fences, [0, 0], 0);
        for fence in 1..=fences {
            counts[0] += u64::from(variant.decouples);
            counts[1] += u64::from(variant.early);
            time += price(variant.decouples, variant.early);
            left -= 1;
            if left == 0 {
                variant = tests.next(time, fence);
                left = variant.fences;
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
    fn each_factor_is_decided_whatever_the_other_one_is() {
        let price =
            |decouples: bool, early: bool| 200 - 50 * u64::from(decouples) - 50 * u64::from(early);
        let (decoupled, early, _) = run_both(price, 4_000_000);
        assert!(decoupled > 0.9 && early > 0.9, "{decoupled} {early}");
    }

    #[test]
    fn a_cleaner_tests_its_own_factor_again_and_again_and_no_other() {
        for pays in [true, false] {
            let (mut tests, mut variant) = AbTests::of_cleaner(Mode::Auto);
            let (mut now, mut looks) = (0, 0);
            for _ in 0..1000 {
                looks += variant.fences;
                now += variant.fences * if variant.early == pays { 80 } else { 100 };
                variant = tests.next(now, looks);
                assert!(!variant.decouples);
            }
            assert_eq!((tests.ways[EARLY], tests.switches), (pays, u64::from(pays)));
        }
        for mode in [Mode::Always, Mode::Never] {
            let variant = AbTests::of_cleaner(mode).1;
            assert_eq!((variant.early, variant.fences), (true, u64::MAX));
        }
    }

    #[test]
    fn without_a_clock_lines_are_cleaned_early_and_a_fixed_mode_is_kept() {
        let (mut tests, variant) = AbTests::new(Mode::Auto, true);
        assert!(!variant.early && tests.next(0, 1).early);
        for mode in [Mode::Always, Mode::Never] {
            assert!(AbTests::new(mode, true).1.early && !AbTests::new(mode, false).1.early);
        }
    }
}
