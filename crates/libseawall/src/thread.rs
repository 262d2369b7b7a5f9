//! What is known of a thread: its numbers, and the transactions that it has open.

use seawall_lanes::ThreadNumbers;
use std::cell::RefCell;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

static NUMBERS: ThreadNumbers = ThreadNumbers::new();

/// Grows with each thread.
static THREADS: AtomicU64 = AtomicU64::new(1);

struct Thread {
    /// The least that was free when the thread first called: the lane that it prefers.
    number: usize,
    /// No other thread of this process has it, now or later.
    id: u64,
    /// The transactions that it has open: their pools, and their numbers there.
    open: RefCell<Vec<(usize, u64)>>,
}

impl Thread {
    fn new() -> Thread {
        Thread {
            number: NUMBERS.take(),
            id: THREADS.fetch_add(1, Relaxed),
            open: RefCell::default(),
        }
    }
}

impl Drop for Thread {
    /// Rolls back what the thread has left open.
    fn drop(&mut self) {
        for (pool, number) in self.open.take() {
            crate::tx::leave_behind(pool, number, self.id);
        }
        NUMBERS.give_back(self.number);
    }
}

thread_local! {
    static THREAD: Thread = Thread::new();
}

/// The number of this thread; 0 for one whose variables have ended.
pub(crate) fn number() -> usize {
    THREAD.try_with(|thread| thread.number).unwrap_or(0)
}

/// What tells this thread from all others; `None` for one whose variables have ended.
pub(crate) fn id() -> Option<u64> {
    THREAD.try_with(|thread| thread.id).ok()
}

/// Whether this thread has a transaction open in that pool.
pub(crate) fn has_open(pool: usize) -> bool {
    let has = |thread: &Thread| thread.open.borrow().iter().any(|(open, _)| *open == pool);
    THREAD.try_with(has).unwrap_or(false)
}

/// Notes that it has.
pub(crate) fn note_open(pool: usize, number: u64) {
    let _ = THREAD.try_with(|thread| thread.open.borrow_mut().push((pool, number)));
}

/// Notes that this transaction is over.
pub(crate) fn note_over(pool: usize, number: u64) {
    let _ = THREAD.try_with(|thread| {
        thread.open.borrow_mut().retain(|open| *open != (pool, number));
    });
}
