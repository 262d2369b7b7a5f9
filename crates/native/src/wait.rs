//! Waiting for a word: a look or more, then for as long as it takes.
//!
//! A thread that waits only for a short time looks again and again, as going to sleep and being
//! woken costs microseconds. In a program with ten times as many threads as processors, a thread
//! that waits for a lock waits for one that is not running; it sleeps, and is woken (a futex on
//! Linux), so that only threads with work run.

use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Acquire;
#[cfg(target_os = "linux")]
use std::sync::atomic::{AtomicU32, Ordering::SeqCst, fence};
#[cfg(target_os = "linux")]
use std::time::{Duration, Instant};

/// Looks at a word this often before giving the CPU to another thread.
const SPINS_MAX: u32 = 128;
/// Yields the CPU for this long before going to sleep: the longest time for which a lock is held
/// where no other program wants the processors. Where others do, one yield takes longer.
#[cfg(target_os = "linux")]
const PATIENCE: Duration = Duration::from_micros(200);

/// What the word holds when it is not `value` any more; none if that takes long.
#[inline]
pub(crate) fn spin(word: &AtomicU64, value: u64) -> Option<u64> {
    for _ in 0..SPINS_MAX {
        let now = word.load(Acquire);
        if now != value {
            return Some(now);
        }
        std::hint::spin_loop();
    }
    None
}

/// Lets others run until the word is not `value` any more.
pub(crate) fn give_way(word: &AtomicU64, value: u64) -> u64 {
    loop {
        let now = word.load(Acquire);
        if now != value {
            return now;
        }
        std::thread::yield_now();
    }
}

/// The threads of a pool that sleep.
#[derive(Debug, Default)]
pub(crate) struct Sleepers {
    #[cfg(target_os = "linux")]
    count: AtomicU64,
}

#[cfg(target_os = "linux")]
impl Sleepers {
    /// Lets others run for a while, then sleeps until a [`wake`](Sleepers::wake) finds that the low
    /// half of the word differs from that of `value`.
    pub(crate) fn sleep(&self, word: &AtomicU64, value: u64) -> u64 {
        use rustix::thread::futex::{Flags, wait};
        let begun = Instant::now();
        while begun.elapsed() < PATIENCE {
            let now = word.load(Acquire);
            if now != value {
                return now;
            }
            std::thread::yield_now();
        }
        self.count.fetch_add(1, SeqCst);
        // As in `wake`: the look below must not come before the count.
        fence(SeqCst);
        let now = loop {
            let now = word.load(Acquire);
            if now != value {
                break now;
            }
            // It returns at once if the half is another one by now, and also for no reason.
            let _ = wait(low_half(word), Flags::PRIVATE, value as u32, None);
        };
        self.count.fetch_sub(1, SeqCst);
        now
    }

    /// Wakes the threads that sleep until this word changes, which it has.
    #[inline]
    pub(crate) fn wake(&self, word: &AtomicU64) {
        // Either this sees the count of a sleeper, which it raised before its last look at the
        // word, or that look sees the change.
        fence(SeqCst);
        if self.count.load(SeqCst) > 0 {
            wake_all(word);
        }
    }
}

#[cfg(target_os = "linux")]
#[cold]
fn wake_all(word: &AtomicU64) {
    use rustix::thread::futex::{Flags, wake};
    let _ = wake(low_half(word), Flags::PRIVATE, i32::MAX as u32);
}

/// The half of a word that holds its low bits: what a futex is.
#[cfg(target_os = "linux")]
fn low_half(word: &AtomicU64) -> &AtomicU32 {
    let halves = word.as_ptr().cast::<u32>();
    // SAFETY: inside the word, which is aligned and outlives the reference; only the kernel looks
    // at the half, and does so atomically.
    unsafe {
        let half = halves.add(if cfg!(target_endian = "little") { 0 } else { 1 });
        AtomicU32::from_ptr(half)
    }
}

#[cfg(not(target_os = "linux"))]
impl Sleepers {
    pub(crate) fn sleep(&self, word: &AtomicU64, value: u64) -> u64 {
        give_way(word, value)
    }

    #[inline]
    pub(crate) fn wake(&self, _: &AtomicU64) {}
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::Ordering::Release;

    /// Threads in a circle, each of which waits for its turn: far more than there are processors.
    #[test]
    fn who_sleeps_is_woken_each_time_its_turn_has_come() {
        const THREADS: u64 = 64;
        let (sleepers, turn) = (Sleepers::default(), AtomicU64::new(0));
        let words: Vec<AtomicU64> = (0..THREADS).map(|_| AtomicU64::new(0)).collect();
        words[0].store(1, Release);
        std::thread::scope(|scope| {
            for thread in 0..THREADS as usize {
                let (sleepers, words, turn) = (&sleepers, &words, &turn);
                scope.spawn(move || {
                    for round in 0..20 {
                        spin(&words[thread], 0)
                            .unwrap_or_else(|| sleepers.sleep(&words[thread], 0));
                        words[thread].store(0, Release);
                        let before = turn.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
                        assert_eq!(before, round * THREADS + thread as u64);
                        let next = &words[(thread + 1) % words.len()];
                        next.store(1, Release);
                        sleepers.wake(next);
                    }
                });
            }
        });
        assert_eq!(turn.into_inner(), 20 * THREADS);
    }

    #[test]
    fn what_differs_already_is_given_at_once() {
        let word = AtomicU64::new(7);
        assert_eq!((spin(&word, 6), give_way(&word, 6)), (Some(7), 7));
        assert_eq!(Sleepers::default().sleep(&word, 6), 7);
        assert_eq!(spin(&word, 7), None);
    }
}
