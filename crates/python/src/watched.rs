//! Long work beside the interpreter: on a thread of its own, so that the one of Python can look at
//! signals and show progress.
//!
//! The work never waits for Python. Ctrl-C, or an exception of whoever shows progress, asks it to
//! end; what does not end soon is left to itself, and what it finds is dropped.

use crate::failure::Failure;
use pyo3::prelude::*;
use seawall_report::{Progress, ProgressState};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// How often signals and progress are looked at.
const LOOK: Duration = Duration::from_millis(50);
/// How long work that is to end may take to do so.
const END: Duration = Duration::from_millis(800);

/// What came of work.
pub(crate) enum Watched<T> {
    /// It went to its end.
    Done(T),
    /// It was stopped by this exception, and what it has is here.
    Stopped(T, PyErr),
}

/// Does `work` on another thread; `follow` is called with what is done, all, and a note.
///
/// # Errors
/// That of the work, or the exception that stopped it if it has nothing to show.
pub(crate) fn watch<T: Send + 'static>(
    py: Python<'_>,
    follow: Option<&Bound<'_, PyAny>>,
    progress: Progress,
    stop: &Arc<AtomicBool>,
    work: impl FnOnce(&Progress, &Arc<AtomicBool>) -> Result<T, Failure> + Send + 'static,
) -> PyResult<Watched<T>> {
    let (sender, results) = channel();
    let progress = Arc::new(progress);
    let (shown, flag) = (progress.clone(), stop.clone());
    let thread = std::thread::Builder::new().name("seawall".into()).spawn(move || {
        let done = catch_unwind(AssertUnwindSafe(|| work(&progress, &flag)));
        // Nobody waits any more for work that was left to itself.
        let _ = sender.send(done.unwrap_or_else(|panic| Err(Failure::new(said(&*panic)))));
    });
    thread.map_err(|error| {
        Failure::new(format!(
            "no thread can be started: {error}; allow more memory and threads (ulimit -v, ulimit \
             -u)"
        ))
    })?;
    let (results, mut last) = (Mutex::new(results), ProgressState::default());
    let mut look = |is_last| {
        py.check_signals()?;
        follow.map_or(Ok(()), |follow| tell(follow, &shown, &mut last, is_last))
    };
    loop {
        match next(py, &results, LOOK) {
            Ok(done) => {
                let done = done?;
                return Ok(match look(true) {
                    Ok(()) => Watched::Done(done),
                    Err(error) => Watched::Stopped(done, error),
                });
            }
            Err(RecvTimeoutError::Disconnected) => {
                return Err(Failure::new("the thread of the work is gone").into());
            }
            Err(RecvTimeoutError::Timeout) => {}
        }
        if let Err(error) = look(false) {
            stop.store(true, Ordering::Relaxed);
            return match next(py, &results, END) {
                Ok(Ok(done)) => Ok(Watched::Stopped(done, error)),
                _ => Err(error),
            };
        }
    }
}

/// The result, if it comes in time; Python runs meanwhile.
fn next<T: Send>(
    py: Python<'_>,
    results: &Mutex<Receiver<T>>,
    time: Duration,
) -> Result<T, RecvTimeoutError> {
    py.detach(|| results.lock().unwrap_or_else(PoisonError::into_inner).recv_timeout(time))
}

/// Tells whoever shows progress, if there is something new.
fn tell(
    follow: &Bound<'_, PyAny>,
    progress: &Progress,
    last: &mut ProgressState,
    is_last: bool,
) -> PyResult<()> {
    let now = progress.state();
    if now == *last && !is_last {
        return Ok(());
    }
    follow.call1((now.done, now.all, now.note.as_str()))?;
    *last = now;
    Ok(())
}

/// What a panic says, which is a bug of seawall.
fn said(panic: &(dyn std::any::Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    let text = text.or(panic.downcast_ref::<&str>().copied()).unwrap_or("no message");
    format!("seawall has failed: {text}; please report this")
}
