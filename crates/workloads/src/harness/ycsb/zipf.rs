//! Numbers that follow Zipf's law with exponent 0.99, YCSB's constant, without a table and for any
//! count, which can grow.
//!
//! Hoermann and Derflinger, "Rejection-Inversion to Generate Variates from Monotone Discrete
//! Distributions" (ACM TOMACS 1996): draw from the continuous law, round, and reject the excess
//! over the discrete law. With this exponent the integral's inverse is a power of 100 and the
//! integral a root of the same degree, so it needs the four basic operations of arithmetic only,
//! and draws the same numbers on every machine.

use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::Rng;

/// One over the difference of the exponent from 1.
const DEGREE: u32 = 100;

/// Ranks from 0, the most probable.
#[derive(Clone, Copy, Debug)]
pub(super) struct Zipf {
    count: u64,
    /// The integral of the law from 1 to the two ends of the range of drawing.
    from: f64,
    to: f64,
    /// A draw nearer than this to its rounded value is not rejected.
    near: f64,
}

fn power(base: f64, exponent: u32) -> f64 {
    let (mut result, mut square, mut rest) = (1.0, base, exponent);
    while rest > 0 {
        if rest % 2 == 1 {
            result *= square;
        }
        square *= square;
        rest /= 2;
    }
    result
}

/// The root of degree 100 of a number of at least 1, by Newton's method from above.
fn root(of: f64) -> f64 {
    // 2 to the power 1/100, rounded up.
    let mut root = power(1.006_955_550_056_72, of.log2_ceil());
    loop {
        let next = root - (root - of / power(root, DEGREE - 1)) / f64::from(DEGREE);
        if next >= root {
            return root;
        }
        root = next;
    }
}

trait Log2 {
    fn log2_ceil(self) -> u32;
}

impl Log2 for f64 {
    /// The least power of two that is larger, computed from its bits.
    fn log2_ceil(self) -> u32 {
        ((self.to_bits() >> 52) as u32).saturating_sub(1022)
    }
}

/// The law, not normalised: x to the power -0.99.
fn density(x: f64) -> f64 {
    root(x) / x
}

fn integral(x: f64) -> f64 {
    (root(x) - 1.0) * f64::from(DEGREE)
}

fn inverse(y: f64) -> f64 {
    power(1.0 + y / f64::from(DEGREE), DEGREE)
}

impl Zipf {
    /// The law for `count` ranks, at least one.
    pub(super) fn new(count: u64) -> Zipf {
        let mut zipf = Zipf {
            count,
            from: integral(1.5) - 1.0,
            to: 0.0,
            near: 2.0 - inverse(integral(2.5) - density(2.0)),
        };
        zipf.resize(count);
        zipf
    }

    pub(super) fn count(&self) -> u64 {
        self.count
    }

    pub(super) fn resize(&mut self, count: u64) {
        (self.count, self.to) = (count, integral(count as f64 + 0.5));
    }

    pub(super) fn rank(&self, rng: &mut Xoshiro256PlusPlus) -> u64 {
        loop {
            let uniform = (rng.next_u64() >> 11) as f64 / (1u64 << 53) as f64;
            let drawn = self.to + uniform * (self.from - self.to);
            let x = inverse(drawn);
            let rank = ((x + 0.5) as u64).clamp(1, self.count);
            let at = rank as f64;
            if at - x <= self.near || drawn >= integral(at + 0.5) - density(at) {
                return rank - 1;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand_xoshiro::rand_core::SeedableRng;

    #[test]
    fn roots_and_powers_undo_each_other() {
        for number in [1.0, 1.5, 2.0, 2.5, 1000.5, 268_435_456.5] {
            let back = power(root(number), DEGREE);
            assert!((back / number - 1.0).abs() < 1e-12, "{number}: {back}");
            let again = inverse(integral(number));
            assert!((again / number - 1.0).abs() < 1e-11, "{number}: {again}");
        }
    }

    #[test]
    fn ranks_come_as_often_as_the_law_says() {
        for count in [1, 2, 3, 50, 1000] {
            let mut zipf = Zipf::new(1);
            zipf.resize(count);
            let mut rng = Xoshiro256PlusPlus::seed_from_u64(7);
            let mut found = vec![0u64; count as usize];
            let draws = 400_000;
            for _ in 0..draws {
                found[zipf.rank(&mut rng) as usize] += 1;
            }
            let weight = |rank: u64| ((rank + 1) as f64).powf(-0.99);
            let all: f64 = (0..count).map(weight).sum();
            for rank in 0..count {
                let wanted = weight(rank) / all * f64::from(draws);
                let off = (found[rank as usize] as f64 - wanted).abs();
                assert!(off < 5.0 * wanted.sqrt() + 1.0, "rank {rank} of {count}: {off}");
            }
        }
    }
}
