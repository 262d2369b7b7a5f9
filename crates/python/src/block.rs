//! The block of a transaction: what `with` enters and leaves.
//!
//! It is not written in Python because signals are looked at between any two lines of that. A block
//! is in Python's hands alone: one that is dropped before it is left is over, as one that raised.

use crate::failure::Failure;
use crate::frames::Frames;
use crate::maps::Changes;
use crate::pool::PoolFile;
use pyo3::prelude::*;
use pyo3::types::PyWeakrefReference;
use pyo3::{PyTraverseError, PyVisit};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread::ThreadId;

pub(crate) fn lock<T>(of: &Mutex<T>) -> MutexGuard<'_, T> {
    of.lock().unwrap_or_else(PoisonError::into_inner)
}

enum State {
    New,
    Open(Changes),
    Over,
}

/// How a block was entered.
struct Entry {
    frames: Frames,
    thread: ThreadId,
    can_change_threads: OnceLock<bool>,
}

impl Entry {
    /// Whether another thread than that which has entered the block may go on with it.
    fn can_change_threads(&self, py: Python<'_>) -> PyResult<bool> {
        if let Some(known) = self.can_change_threads.get() {
            return Ok(*known);
        }
        let can = self.frames.can_stand_still(py)?;
        Ok(*self.can_change_threads.get_or_init(|| can))
    }
}

/// Where a call is made.
pub(crate) enum Place {
    /// In the block.
    Inside,
    /// Outside, in the thread that has entered it; it stands in that file and line.
    Beside(String),
    /// In another thread.
    Elsewhere,
}

/// The changes of a transaction, as long as its block is open.
#[pyclass(subclass, frozen, weakref, module = "seawall._seawall")]
pub(crate) struct Block {
    file: Py<PoolFile>,
    /// Not held while Python runs, as anything below may call back.
    state: Mutex<State>,
    entry: Mutex<Option<Arc<Entry>>>,
}

impl Block {
    /// Where this call is made.
    pub(crate) fn place(&self, py: Python<'_>) -> PyResult<Place> {
        let entry = lock(&self.entry).clone();
        let Some(entry) = entry else { return Ok(Place::Elsewhere) };
        let is_here = entry.thread == std::thread::current().id();
        if !is_here && !entry.can_change_threads(py)? {
            return Ok(Place::Elsewhere);
        }
        Ok(match entry.frames.outside(py)? {
            None => Place::Inside,
            Some(stands) if is_here => Place::Beside(stands),
            Some(_) => Place::Elsewhere,
        })
    }

    /// Where the block stands, for whoever waits for it.
    pub(crate) fn stands(&self, py: Python<'_>) -> PyResult<Option<String>> {
        let entry = lock(&self.entry).clone();
        entry.map(|entry| entry.frames.place(py)).transpose()
    }

    /// Looks at the changes, or adds to them.
    pub(crate) fn with<T>(
        &self,
        act: impl FnOnce(&mut Changes) -> Result<T, Failure>,
    ) -> Result<T, Failure> {
        match &mut *lock(&self.state) {
            State::Open(changes) => act(changes),
            State::New => Err(Failure::new(
                "this transaction has not begun: `with pool.transaction() as tx` begins one",
            )),
            State::Over => {
                Err(Failure::new("this transaction is over: begin another, or use the pool itself"))
            }
        }
    }
}

#[pymethods]
impl Block {
    #[new]
    fn new(file: Py<PoolFile>) -> Block {
        Block { file, state: Mutex::new(State::New), entry: Mutex::new(None) }
    }

    /// Waits for the transactions of other threads, and begins this one.
    fn __enter__<'py>(slf: Bound<'py, Block>) -> PyResult<Bound<'py, Block>> {
        let (py, this) = (slf.py(), slf.get());
        let file = this.file.get();
        file.check(py)?;
        if !matches!(*lock(&this.state), State::New) {
            let text = "a transaction is entered once: begin another by pool.transaction()";
            return Err(Failure::new(text).into());
        }
        match file.open_block(py).map(|open| open.get().place(py)).transpose()? {
            Some(Place::Inside) => {
                let text = "this is in a transaction of the pool already; end that first";
                return Err(Failure::new(text).into());
            }
            Some(Place::Beside(stands)) => return Err(file.beside(&stands).into()),
            Some(Place::Elsewhere) | None => {}
        }
        let entry = Entry {
            frames: Frames::now(py)?,
            thread: std::thread::current().id(),
            can_change_threads: OnceLock::new(),
        };
        let weak = PyWeakrefReference::new(slf.as_any())?.unbind();
        let turn = file.turn(py)?;
        let mut state = lock(&this.state);
        if !matches!(*state, State::New) {
            return Err(Failure::new("another thread has entered this transaction").into());
        }
        *state = State::Open(Changes::default());
        *lock(&this.entry) = Some(Arc::new(entry));
        file.set_open_block(weak);
        turn.keep();
        drop(state);
        Ok(slf)
    }

    /// Makes the changes, unless the block raised.
    fn __exit__(
        &self,
        py: Python<'_>,
        kind: Option<&Bound<'_, PyAny>>,
        _error: Option<&Bound<'_, PyAny>>,
        _trace: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<bool> {
        let file = self.file.get();
        file.check_process()?;
        let state = py.detach(|| std::mem::replace(&mut *lock(&self.state), State::Over));
        let State::Open(changes) = state else {
            return Err(Failure::new("this transaction is not open").into());
        };
        // Freed when the turn is given, as what the frames hold may call back.
        let entry = lock(&self.entry).take();
        let turn = file.leave();
        let made = match kind {
            None if changes.len() > 0 => file.with(py, |pool| changes.make(pool)),
            _ => Ok(()),
        };
        drop(turn);
        if let Some(entry) = entry
            && kind.is_some()
            && entry.frames.are_dropped(py)?
        {
            file.say_dropped(py, changes.len());
        }
        Ok(made.map(|()| false)?)
    }

    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        visit.call(&self.file)?;
        let Ok(entry) = self.entry.try_lock() else { return Ok(()) };
        entry.iter().flat_map(|entry| entry.frames.iter()).try_for_each(|it| visit.call(it))
    }

    fn __clear__(&self) {
        drop(lock(&self.entry).take());
    }
}

impl Drop for Block {
    fn drop(&mut self) {
        let file = self.file.get();
        let state = self.state.get_mut().unwrap_or_else(PoisonError::into_inner);
        let State::Open(changes) = state else { return };
        if file.check_process().is_err() {
            return;
        }
        drop(file.leave());
        Python::try_attach(|py| file.say_dropped(py, changes.len()));
    }
}
