//! A/B tests: of two ways to do the same work, which is cheaper, measured while the work goes on.
//!
//! A *window* is a part of the run whose price is measured; what it spans and in which unit is the
//! caller's choice. Windows by the way in use (A) and by the other one (B) alternate as A, B, B, A,
//! A, B, B, ..., so that a slow drift of the machine meets both alike, and each two of them are a
//! *pair*. The outcome rests on medians and on how many pairs B won, so that an interrupt decides
//! nothing. When a test ends, and by how much B must win, is the caller's rule: a log record costs
//! nearly the same each time ([`Route`](crate::Route)), a program's operations differ (Ribbon).

/// An A/B test of at most `PAIRS` pairs of windows.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct AbTest<const PAIRS: usize> {
    windows: usize,
    prices: [[f64; PAIRS]; 2],
}

impl<const PAIRS: usize> Default for AbTest<PAIRS> {
    fn default() -> Self {
        AbTest { windows: 0, prices: [[0.0; PAIRS]; 2] }
    }
}

impl<const PAIRS: usize> AbTest<PAIRS> {
    /// Whether the next window is one by the other way, B.
    pub fn is_other(&self) -> bool {
        !self.windows.div_ceil(2).is_multiple_of(2)
    }

    /// Records the price of a window.
    ///
    /// # Panics
    /// After `PAIRS` pairs.
    pub fn record(&mut self, price: f64) {
        self.prices[usize::from(self.is_other())][self.windows / 2] = price;
        self.windows += 1;
    }

    /// The prices by A and by B, pair by pair; `None` in the middle of a pair.
    pub fn pairs(&self) -> Option<[&[f64]; 2]> {
        let pairs = self.windows / 2;
        self.windows.is_multiple_of(2).then(|| self.prices.each_ref().map(|by| &by[..pairs]))
    }

    /// The number of pairs that B won; those in a draw count for A.
    pub fn won(&self) -> usize {
        let [own, other] = &self.prices;
        let pairs = own.iter().zip(other).take(self.windows / 2);
        pairs.filter(|(own, other)| other < own).count()
    }

    /// The test with the prices of whole pairs in rising order, those by A and those by B apart.
    #[must_use]
    pub fn sorted(mut self) -> Self {
        for by in &mut self.prices {
            by[..self.windows / 2].sort_unstable_by(f64::total_cmp);
        }
        self
    }

    /// The medians by A and by B; of an even number of pairs, the higher of the two in the middle.
    ///
    /// # Panics
    /// Before the first pair.
    pub fn medians(&self) -> [f64; 2] {
        assert!(self.windows > 1, "an A/B test without a pair has no median");
        self.sorted().prices.map(|by| by[self.windows / 4])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(prices: &[f64]) -> AbTest<4> {
        let mut test = AbTest::default();
        prices.iter().for_each(|price| test.record(*price));
        test
    }

    #[test]
    fn windows_alternate_so_that_a_drift_meets_both_ways_alike() {
        let mut test = of(&[]);
        let mut order = String::new();
        for window in 0..8 {
            order.push(if test.is_other() { 'B' } else { 'A' });
            test.record(f64::from(window));
        }
        assert_eq!(order, "ABBAABBA");
        let [own, other] = test.prices.map(|by| by.iter().sum::<f64>());
        assert_eq!(own, other, "a price that rises from window to window");
    }

    #[test]
    fn a_pair_counts_when_both_of_its_windows_are_over() {
        assert_eq!(of(&[1.0]).pairs(), None);
        assert_eq!(of(&[1.0, 2.0]).pairs(), Some([&[1.0][..], &[2.0][..]]));
        let test = of(&[5.0, 4.0, 6.0, 5.0, 3.0]);
        assert_eq!((test.won(), test.pairs()), (1, None), "the fifth window has no other yet");
        assert_eq!(test.medians(), [5.0, 6.0]);
    }

    #[test]
    fn one_window_of_each_that_an_interrupt_hit_changes_no_median() {
        let quiet = of(&[5.0, 4.0, 4.0, 5.0, 5.0, 4.0]);
        let hit = of(&[5.0, 4.0, 900.0, 5.0, 900.0, 4.0]);
        assert_eq!(quiet.medians(), [5.0, 4.0]);
        assert_eq!(hit.medians(), quiet.medians());
        assert_eq!((quiet.won(), hit.won()), (3, 2));
    }
}
