//! How long work may go on.

use crate::spawn::ProgramError;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Work may go on until somebody asks it to stop, or its time is over. Whoever waits, copies or
/// repeats looks at it every [`Limit::LOOK`].
#[derive(Clone, Debug)]
pub struct Limit {
    stop: Arc<AtomicBool>,
    end: Option<Instant>,
}

impl Limit {
    /// The longest time from one look to the next.
    pub const LOOK: Duration = Duration::from_millis(20);

    /// Until `stop` becomes true.
    pub fn new(stop: &Arc<AtomicBool>) -> Limit {
        Limit { stop: stop.clone(), end: None }
    }

    /// The same, and no longer than this time from now on.
    #[must_use]
    pub fn within(&self, time: Option<Duration>) -> Limit {
        let end = time.and_then(|time| Instant::now().checked_add(time));
        Limit { stop: self.stop.clone(), end: self.end.into_iter().chain(end).min() }
    }

    /// An error if the work must end.
    ///
    /// # Errors
    /// Why.
    pub fn check(&self) -> Result<(), ProgramError> {
        if self.stop.load(Ordering::Relaxed) {
            return Err(ProgramError::Stopped);
        }
        match self.left() {
            Some(Duration::ZERO) => Err(ProgramError::TimeOver),
            _ => Ok(()),
        }
    }

    /// The time that is left, if it is limited.
    pub fn left(&self) -> Option<Duration> {
        self.end.map(|end| end.saturating_duration_since(Instant::now()))
    }
}
