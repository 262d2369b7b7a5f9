//! How long each operation took: a histogram of each thread, added up at the end.

use hdrhistogram::Histogram;
use serde::Serialize;
use std::fmt;
use std::time::Instant;

/// Times are distinguished to one part in a hundred.
const DIGITS: u8 = 2;

/// What a thread measures, if it does.
pub(super) struct Times(Option<Histogram<u64>>);

impl Times {
    pub(super) fn new(measures: bool) -> Times {
        Times(measures.then(|| Histogram::new(DIGITS).expect("a number of digits that it has")))
    }

    #[inline]
    pub(super) fn time(&mut self, run: impl FnOnce()) {
        let Some(histogram) = &mut self.0 else { return run() };
        let begun = Instant::now();
        run();
        let nanos = begun.elapsed().as_nanos() as u64;
        histogram.record(nanos).expect("a histogram that grows");
    }

    fn add(&mut self, other: &Times) {
        match (&mut self.0, &other.0) {
            (Some(all), Some(other)) => all.add(other).expect("a histogram that grows"),
            (all, other) => *all = all.take().or_else(|| other.clone()),
        }
    }
}

/// How long operations took, of all threads, in nanoseconds, to one part in a hundred.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct LatencyReport {
    /// Half of them took no longer.
    pub p50_ns: u64,
    /// 99 of 100 took no longer.
    pub p99_ns: u64,
    /// 999 of 1000 took no longer.
    pub p999_ns: u64,
    pub longest_ns: u64,
}

impl LatencyReport {
    /// Of what the threads measured; none if they did not.
    pub(super) fn of<'a>(threads: impl Iterator<Item = &'a Times>) -> Option<LatencyReport> {
        let mut all = Times(None);
        threads.for_each(|thread| all.add(thread));
        let all = all.0?;
        let part = |part| all.value_at_quantile(part);
        let [p50_ns, p99_ns, p999_ns] = [0.5, 0.99, 0.999].map(part);
        Some(LatencyReport { p50_ns, p99_ns, p999_ns, longest_ns: all.max() })
    }
}

impl fmt::Display for LatencyReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let LatencyReport { p50_ns, p99_ns, p999_ns, longest_ns } = *self;
        let micros = |nanos: u64| nanos as f64 / 1e3;
        write!(
            f,
            "half of the operations within {:.2} us, 99 % {:.2}, 99.9 % {:.2}, the longest {:.1}",
            micros(p50_ns),
            micros(p99_ns),
            micros(p999_ns),
            micros(longest_ns)
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn times_of_threads_are_added_up_and_told_apart_to_a_part_in_a_hundred() {
        let mut times = Times::new(true);
        times.time(|| std::thread::sleep(Duration::from_millis(2)));
        assert!(LatencyReport::of([times].iter()).unwrap().p50_ns >= 1_980_000);
        let threads = [1_u64, 1000].map(|scale| {
            let mut times = Times::new(true);
            let histogram = times.0.as_mut().unwrap();
            (1..=500).for_each(|time| histogram.record(time * scale).unwrap());
            times
        });
        let report = LatencyReport::of(threads.iter()).unwrap();
        let near = |time: u64, right: u64| time.abs_diff(right) <= right / 100;
        assert!(near(report.p50_ns, 500), "{report:?}: all of the first thread come first");
        assert!(near(report.p99_ns, 490_000) && near(report.p999_ns, 499_000), "{report:?}");
        assert!(near(report.longest_ns, 500_000), "{report}");
        assert!(report.to_string().contains("99.9 % 49"), "{report}");
    }

    #[test]
    fn who_does_not_measure_runs_all_the_same_and_reports_nothing() {
        let (mut times, mut runs) = (Times::new(false), 0);
        times.time(|| runs += 1);
        assert_eq!((runs, LatencyReport::of([times].iter())), (1, None));
    }
}
