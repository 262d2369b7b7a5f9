//! Numbers of threads, small and used again: the lanes that threads prefer.

use seawall_native::OfProcess;
use std::collections::BTreeSet;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The numbers that threads have given back, and the least that none has had.
type Numbers = Mutex<(BTreeSet<usize>, usize)>;

/// The numbers of a process. In the child of a fork they begin anew, as a thread that did not come
/// along may have locked those of the parent; two threads may have one number then, as a preferred
/// lane is no promise.
pub struct ThreadNumbers(OfProcess<Numbers>);

impl ThreadNumbers {
    /// None is taken.
    #[allow(clippy::new_without_default, reason = "for statics, which no default makes")]
    pub const fn new() -> ThreadNumbers {
        ThreadNumbers(OfProcess::new())
    }

    fn lock(&self) -> MutexGuard<'_, (BTreeSet<usize>, usize)> {
        let numbers = self.0.get_or_make(Numbers::default);
        numbers.lock().unwrap_or_else(PoisonError::into_inner)
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
