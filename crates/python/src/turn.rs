//! Whose turn it is to change a pool: one at a time.
//!
//! A turn that is given is taken by whoever comes first, which is most often who has given it, as
//! others must wake up. It is handed to whoever has asked first once that one has waited for
//! [`FAIR`], so that nobody waits for long.
//!
//! Whoever waits looks at signals now and then, so that Ctrl-C ends it. No line of Python runs
//! between the moment a turn is taken and the one at which something is there that gives it back.

use pyo3::prelude::*;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::Thread;
use std::time::{Duration, Instant};

/// How often signals are looked at.
const LOOK: Duration = Duration::from_millis(50);
/// After so long, others have to wait.
const FAIR: Duration = Duration::from_millis(1);
/// Whoever has waited so long is told for what.
const PATIENCE: Duration = Duration::from_secs(5);

/// The turns at a pool.
#[derive(Default)]
pub(crate) struct Turns(Mutex<State>);

#[derive(Default)]
struct State {
    is_taken: bool,
    /// How many have asked.
    asked: u64,
    /// Those who wait, by when they asked.
    waiting: BTreeMap<u64, Arc<Waiter>>,
}

struct Waiter {
    thread: Thread,
    since: Instant,
    has_turn: AtomicBool,
}

/// A turn, given back when this is dropped.
pub(crate) struct Turn<'a>(&'a Turns);

impl Turn<'_> {
    /// Leaves the turn taken, for [`Turns::kept`].
    pub(crate) fn keep(self) {
        std::mem::forget(self);
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        self.0.give();
    }
}

impl Turns {
    /// Waits for a turn while Python goes on, and calls `tell` once if that takes long.
    ///
    /// # Errors
    /// What `tell` or the handler of a signal raises.
    pub(crate) fn take(
        &self,
        py: Python<'_>,
        tell: impl FnOnce() -> PyResult<()>,
    ) -> PyResult<Turn<'_>> {
        let (number, since) = (self.number(), Instant::now());
        let mut tell = Some(tell);
        loop {
            let Some(waiter) = self.ask(number, since) else { return Ok(Turn(self)) };
            if py.detach(|| self.wait(number, &waiter)) {
                return Ok(Turn(self));
            }
            // Nothing is handed to this thread meanwhile, so a handler may ask for a turn itself.
            py.check_signals()?;
            if since.elapsed() > PATIENCE {
                tell.take().map_or(Ok(()), |tell| tell())?;
            }
        }
    }

    /// The turn that somebody has kept.
    pub(crate) fn kept(&self) -> Turn<'_> {
        Turn(self)
    }

    fn give(&self) {
        let mut state = self.state();
        let first = state.waiting.first_key_value().map(|(number, first)| (*number, first.clone()));
        let Some((number, first)) = first else {
            state.is_taken = false;
            return;
        };
        if first.since.elapsed() > FAIR {
            first.has_turn.store(true, Ordering::Release);
            state.waiting.remove(&number);
        } else {
            state.is_taken = false;
        }
        drop(state);
        first.thread.unpark();
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn number(&self) -> u64 {
        let mut state = self.state();
        state.asked += 1;
        state.asked
    }

    /// Takes the turn if nobody has it, else stands in line.
    fn ask(&self, number: u64, since: Instant) -> Option<Arc<Waiter>> {
        let mut state = self.state();
        if !std::mem::replace(&mut state.is_taken, true) {
            return None;
        }
        let (thread, has_turn) = (std::thread::current(), AtomicBool::new(false));
        let waiter = Arc::new(Waiter { thread, since, has_turn });
        state.waiting.insert(number, waiter.clone());
        Some(waiter)
    }

    /// Whether the turn came within `LOOK`; after that, this one no longer stands in line.
    fn wait(&self, number: u64, waiter: &Waiter) -> bool {
        let end = Instant::now() + LOOK;
        loop {
            let left = end.saturating_duration_since(Instant::now());
            std::thread::park_timeout(left);
            if waiter.has_turn.load(Ordering::Acquire) {
                return true;
            }
            let mut state = self.state();
            let is_free = !waiter.has_turn.load(Ordering::Acquire) && !state.is_taken;
            if is_free || left.is_zero() {
                state.is_taken = true;
                // Who stands in line no longer was handed the turn.
                return state.waiting.remove(&number).is_none() || is_free;
            }
        }
    }
}
