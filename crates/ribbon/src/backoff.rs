//! Leaving out what was in vain: the next 2, 4, 8, ... times, at most 1024.

const VAIN_MAX: u8 = 10;

/// Of one line.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Backoff {
    vain: u8,
    /// Times that it is still left out.
    left_out: u16,
}

impl Backoff {
    pub(super) fn was_in_vain(&mut self) {
        self.vain = (self.vain + 1).min(VAIN_MAX);
        self.left_out = 1 << self.vain;
    }

    pub(super) fn has_paid(&mut self) {
        self.vain = self.vain.saturating_sub(1);
    }

    /// True if it is left out this time.
    pub(super) fn leaves_out(&mut self) -> bool {
        let is_left_out = self.left_out > 0;
        self.left_out = self.left_out.saturating_sub(1);
        is_left_out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_always_in_vain_is_left_out_ever_longer_and_tried_again_for_ever() {
        let mut backoff = Backoff::default();
        let mut times_left_out = || {
            assert!(!backoff.leaves_out());
            backoff.was_in_vain();
            let mut ahead = backoff;
            std::iter::from_fn(|| ahead.leaves_out().then_some(()))
                .inspect(|()| {
                    backoff.leaves_out();
                })
                .count()
        };
        let times: Vec<usize> = (0..12).map(|_| times_left_out()).collect();
        assert_eq!(times, [2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 1024, 1024]);
        backoff.has_paid();
        backoff.was_in_vain();
        backoff.has_paid();
        backoff.has_paid();
        backoff.was_in_vain();
        assert_eq!(backoff.left_out, 512);
    }
}
