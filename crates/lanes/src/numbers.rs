//! Numbers of threads, small and used again: the lanes that threads prefer.

use std::collections::BTreeSet;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The numbers that threads have given back, and the least that none has had.
#[derive(Debug)]
pub struct ThreadNumbers(Mutex<(BTreeSet<usize>, usize)>);

impl ThreadNumbers {
    /// None is taken.
    #[allow(clippy::new_without_default, reason = "for statics, which no default makes")]
    pub const fn new() -> ThreadNumbers {
        ThreadNumbers(Mutex::new((BTreeSet::new(), 0)))
    }

    fn lock(&self) -> MutexGuard<'_, (BTreeSet<usize>, usize)> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes the least that is free.
    pub fn take(&self) -> usize {
        let (free, next) = &mut *self.lock();
        free.pop_first().unwrap_or_else(|| {
            *next += 1;
            *next - 1
        })
    }

    /// Gives one back that was taken.
    pub fn give_back(&self, number: usize) {
        self.lock().0.insert(number);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_least_that_is_free_is_taken() {
        let numbers = ThreadNumbers::new();
        assert_eq!([0; 3].map(|_| numbers.take()), [0, 1, 2]);
        numbers.give_back(1);
        numbers.give_back(0);
        assert_eq!([0; 3].map(|_| numbers.take()), [0, 1, 3]);
    }
}
