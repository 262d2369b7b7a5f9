//! How many flushers: from the bandwidth at four numbers of them, as in Ribbon (PACT'20).
//!
//! Few flushers leave bandwidth unused; many get in each other's way in the memory device. So the
//! bandwidth is sampled at the lowest number, one more, one less than the highest, and the highest.
//! A line through the first two and one through the last two meet where the bandwidth has its peak.
//! The paper does not say what happens otherwise; here:
//!
//! | samples | number |
//! |---|---|
//! | one is zero, negative, no number (idle, or no time) | as before |
//! | the lines meet within the range | there, rounded |
//! | they meet above it, and the second line rises | the highest: bandwidth is idle |
//! | the first line falls, and no sample is above the first | the lowest: all are in the way |
//! | parallel and rising | the highest |
//! | parallel and level (within 1 % of the best sample a flusher) | as before |
//! | the second line is steeper than the first: no peak | as before |
//!
//! A range of fewer than three numbers has no two lines: nothing is estimated.

/// Slopes that differ by less than this part of the best sample are the same.
const LEVEL: f64 = 0.01;

/// The number of flushers, from `lower` to `cores`, of the highest bandwidth.
///
/// `samples` are the bandwidths, in any one unit, at `lower`, `lower + 1`, `cores - 1` and `cores`
/// flushers; `previous` (brought into the range) is the answer where they show nothing.
pub fn estimate(samples: [f64; 4], lower: usize, cores: usize, previous: usize) -> usize {
    let cores = cores.max(lower);
    let previous = previous.clamp(lower, cores);
    let usable = samples.iter().all(|sample| sample.is_finite() && *sample > 0.0);
    if cores - lower < 2 || !usable {
        return previous;
    }
    let level = LEVEL * samples.iter().fold(0.0, |best: f64, sample| best.max(*sample));
    let (first, last) = (samples[1] - samples[0], samples[3] - samples[2]);
    if first < -level && samples.iter().all(|sample| *sample <= samples[0]) {
        return lower;
    }
    if (first - last).abs() <= level {
        return if first.min(last) > level { cores } else { previous };
    }
    if first < last {
        return previous;
    }
    let (low, high) = (lower as f64, cores as f64);
    let meet = (samples[2] - samples[0] + first * low - last * (high - 1.0)) / (first - last);
    match meet {
        meet if (low..=high).contains(&meet) => meet.round() as usize,
        meet if meet > high && last > 0.0 => cores,
        _ => previous,
    }
}

/// Takes the samples, one after the other, every now and then.
#[derive(Clone, Debug)]
pub(crate) struct Tuner {
    lower: usize,
    cores: usize,
    period: u64,
    window: u64,
    current: usize,
    /// When the next sample, or period, is over; 0 before the first.
    until: u64,
    /// When it began, and how many lines had been flushed then.
    since: (u64, u64),
    samples: [f64; 4],
    /// Which sample is being taken; 4: none.
    taking: usize,
}

/// What a [`Tuner`] wants.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Tuned {
    pub(crate) active: usize,
    /// Lines flushed in a unit of time, in the span that is just over.
    pub(crate) rate: f64,
}

impl Tuner {
    /// None if there is nothing to choose from.
    pub(crate) fn new(lower: u64, cores: u64, period: u64, window: u64) -> Option<Tuner> {
        let (lower, cores) = (lower.max(1) as usize, cores as usize);
        (period > 0 && cores >= lower + 2).then_some(Tuner {
            lower,
            cores,
            period,
            window,
            current: cores,
            until: 0,
            since: (0, 0),
            samples: [0.0; 4],
            taking: 4,
        })
    }

    /// `lines` have been flushed by `now`. Answers when a sample or a period is over. Never on a
    /// machine without time.
    pub(crate) fn tick(&mut self, now: u64, lines: impl FnOnce() -> u64) -> Option<Tuned> {
        if now < self.until || now == 0 {
            return None;
        }
        let lines = lines();
        let (began, before) = std::mem::replace(&mut self.since, (now, lines));
        let rate = lines.wrapping_sub(before) as f64 / now.saturating_sub(began).max(1) as f64;
        if self.until == 0 {
            self.until = now.saturating_add(self.period);
            return None;
        }
        if self.taking < 4 {
            self.samples[self.taking] = rate;
        }
        self.taking = (self.taking + 1) % 5;
        let active = match self.taking {
            0 => self.lower,
            1 => self.lower + 1,
            2 => self.cores - 1,
            3 => self.cores,
            _ => {
                self.current = estimate(self.samples, self.lower, self.cores, self.current);
                self.current
            }
        };
        let span = if self.taking < 4 { self.window } else { self.period };
        self.until = now.saturating_add(span);
        Some(Tuned { active, rate })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_peak_is_where_the_two_lines_meet() {
        // 10 a flusher up to 8, then down by 2 each: at 1, 2, 15, 16.
        assert_eq!(estimate([10.0, 20.0, 66.0, 64.0], 1, 16, 3), 8);
        // Saturated from 4 on.
        assert_eq!(estimate([10.0, 20.0, 40.0, 40.0], 1, 24, 3), 4);
        // Between 4 and 5, and nearer to 5.
        assert_eq!(estimate([10.0, 20.0, 46.0, 46.0], 1, 24, 3), 5);
    }

    #[test]
    fn bandwidth_that_still_rises_asks_for_all_flushers_and_one_that_falls_for_the_fewest() {
        assert_eq!(estimate([10.0, 20.0, 230.0, 240.0], 1, 24, 3), 24, "parallel, rising");
        assert_eq!(estimate([10.0, 30.0, 930.0, 940.0], 1, 24, 3), 24, "they meet above");
        assert_eq!(estimate([40.0, 39.0, 17.0, 16.0], 1, 24, 3), 1, "parallel, falling");
        assert_eq!(estimate([40.0, 39.0, 10.0, 5.0], 1, 24, 3), 1, "falls faster at the end");
        assert_eq!(estimate([50.0, 45.0, 20.0, 10.0], 20, 24, 22), 20, "they meet below");
        assert_eq!(estimate([40.0, 36.0, 300.0, 290.0], 2, 24, 3), 3, "the peak is elsewhere");
    }

    #[test]
    fn samples_that_tell_nothing_change_nothing() {
        assert_eq!(estimate([0.0, 20.0, 40.0, 40.0], 1, 24, 7), 7, "idle");
        assert_eq!(estimate([f64::NAN, 20.0, 40.0, 40.0], 1, 24, 7), 7);
        assert_eq!(estimate([10.0, 20.0, f64::INFINITY, 40.0], 1, 24, 7), 7);
        assert_eq!(estimate([-1.0, 20.0, 30.0, 40.0], 1, 24, 7), 7);
        assert_eq!(estimate([40.0, 40.1, 40.0, 39.9], 1, 24, 7), 7, "level");
        assert_eq!(estimate([10.0, 11.0, 20.0, 60.0], 1, 24, 7), 7, "steeper at the end");
        assert_eq!(estimate([10.0, 20.0, 20.0, 30.0], 1, 2, 1), 1, "no two lines");
        assert_eq!(estimate([0.0; 4], 4, 8, 100), 8, "into the range");
    }

    proptest! {
        #[test]
        fn any_samples_give_a_number_in_the_range(
            samples: [f64; 4], lower in 1usize..40, more in 0usize..40, previous: usize,
        ) {
            let found = estimate(samples, lower, lower + more, previous);
            prop_assert!((lower..=lower + more).contains(&found));
        }
    }

    /// Runs a device of that bandwidth for a while; returns how often each number was wanted.
    fn tuned(bandwidth: impl Fn(usize) -> f64, steps: u64) -> Vec<usize> {
        let mut tuner = Tuner::new(1, 12, 1000, 50).unwrap();
        let (mut active, mut lines, mut wanted) = (12, 0.0, Vec::new());
        for now in 1..steps {
            lines += bandwidth(active);
            if let Some(tuned) = tuner.tick(now, || lines as u64) {
                active = tuned.active;
                wanted.push(active);
            }
        }
        wanted
    }

    #[test]
    fn a_device_that_contends_is_given_fewer_flushers_from_the_first_period_on() {
        let wanted = tuned(|active| (10 * active.min(5)) as f64 - (active as f64), 4000);
        assert_eq!(wanted[..10], [1, 2, 11, 12, 5, 1, 2, 11, 12, 5]);
    }

    #[test]
    fn an_idle_device_keeps_the_number_and_a_clock_that_stands_still_asks_nothing() {
        assert!(tuned(|_| 0.0, 4000).chunks_exact(5).all(|period| period[4] == 12));
        let mut tuner = Tuner::new(1, 12, 1000, 50).unwrap();
        assert!((0..100).all(|_| tuner.tick(0, || 7).is_none()));
        assert!(Tuner::new(1, 2, 1000, 50).is_none(), "nothing to choose from");
    }
}
