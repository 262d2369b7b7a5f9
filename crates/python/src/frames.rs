//! Which calls are inside the block of a `with` statement.
//!
//! A block is a piece of a function, and what it calls. A generator, or a task of asyncio, that
//! stands still in its block is not called by anybody: what its thread does meanwhile is outside.
//!
//! So a block is known by the calls at the time when it was entered, from the innermost one. Where
//! that has returned, as a method `__enter__` has that enters the block for its caller, the block
//! is that of its caller. One that can stand still has not returned, as far as can be seen; if
//! contextlib has called it, though, what it did before its `yield` was an `__enter__`.

use pyo3::intern;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use std::collections::HashSet;

/// `inspect`'s `CO_GENERATOR`, `CO_COROUTINE` and `CO_ASYNC_GENERATOR`.
const CAN_STAND_STILL: u32 = 0x20 | 0x80 | 0x200;

/// The calls that had not returned when a block was entered.
pub(crate) struct Frames {
    /// Without those of contextlib and what it called; the innermost first.
    calls: Vec<Py<PyAny>>,
    /// The function of the innermost context manager of contextlib that had the block entered.
    manager: Option<Py<PyAny>>,
}

/// The calls that have not returned, the innermost first.
fn stack(py: Python<'_>) -> PyResult<impl Iterator<Item = PyResult<Bound<'_, PyAny>>>> {
    static INNERMOST: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    let innermost = INNERMOST.import(py, "sys", "_getframe")?;
    // There is none where something that is not of Python calls, such as a thread's own start.
    let mut next = innermost.call0().ok();
    Ok(std::iter::from_fn(move || {
        let frame = next.take()?;
        match frame.getattr(intern!(py, "f_back")) {
            Ok(caller) => next = (!caller.is_none()).then_some(caller),
            Err(error) => return Some(Err(error)),
        }
        Some(Ok(frame))
    }))
}

fn can_stand_still(frame: &Bound<'_, PyAny>) -> PyResult<bool> {
    let code = frame.getattr(intern!(frame.py(), "f_code"))?;
    let flags: u32 = code.getattr(intern!(frame.py(), "co_flags"))?.extract()?;
    Ok(flags & CAN_STAND_STILL != 0)
}

fn is_of_contextlib(frame: &Bound<'_, PyAny>) -> PyResult<bool> {
    static CONTEXTLIB: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    let names = CONTEXTLIB.import(frame.py(), "contextlib", "__dict__")?;
    Ok(frame.getattr(intern!(frame.py(), "f_globals"))?.is(names))
}

impl Frames {
    pub(crate) fn now(py: Python<'_>) -> PyResult<Frames> {
        let (mut calls, mut manager) = (Vec::new(), None);
        let mut frames = stack(py)?.peekable();
        while let Some(frame) = frames.next() {
            let frame = frame?;
            if is_of_contextlib(&frame)? {
                continue;
            }
            let is_called = match frames.peek() {
                Some(Ok(caller)) => is_of_contextlib(caller)? && can_stand_still(&frame)?,
                _ => false,
            };
            if is_called {
                manager.get_or_insert(frame.unbind());
            } else {
                calls.push(frame.unbind());
            }
        }
        Ok(Frames { calls, manager })
    }

    /// Whether this call is inside the block; if not, where that stands.
    pub(crate) fn outside(&self, py: Python<'_>) -> PyResult<Option<String>> {
        let mut calls = Vec::new();
        for frame in stack(py)? {
            let frame = frame?;
            if self.calls.first().is_some_and(|innermost| frame.is(innermost)) {
                return Ok(None);
            }
            calls.push(frame);
        }
        let called: HashSet<_> = calls.iter().map(Bound::as_ptr).collect();
        for frame in &self.calls {
            let frame = frame.bind(py);
            if called.contains(&frame.as_ptr()) {
                return Ok(None);
            }
            if can_stand_still(frame)? {
                return place(frame).map(Some);
            }
        }
        self.place(py).map(Some)
    }

    /// Where the block stands.
    pub(crate) fn place(&self, py: Python<'_>) -> PyResult<String> {
        let innermost = self.calls.first().map(|frame| place(frame.bind(py)));
        innermost.unwrap_or_else(|| Ok("a place without Python".to_owned()))
    }

    /// Whether a context manager ends that contextlib does not end, as nobody has it any more.
    pub(crate) fn are_dropped(&self, py: Python<'_>) -> PyResult<bool> {
        let Some(manager) = &self.manager else { return Ok(false) };
        let caller = manager.bind(py).getattr(intern!(py, "f_back"))?;
        Ok(caller.is_none() || !is_of_contextlib(&caller)?)
    }

    /// Whether one of the calls can.
    pub(crate) fn can_stand_still(&self, py: Python<'_>) -> PyResult<bool> {
        for frame in &self.calls {
            if can_stand_still(frame.bind(py))? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Py<PyAny>> {
        self.calls.iter().chain(&self.manager)
    }
}

/// The file and the line at which a call is.
fn place(frame: &Bound<'_, PyAny>) -> PyResult<String> {
    let code = frame.getattr(intern!(frame.py(), "f_code"))?;
    let file: String = code.getattr(intern!(frame.py(), "co_filename"))?.extract()?;
    let line = frame.getattr(intern!(frame.py(), "f_lineno"))?;
    Ok(format!("{file}:{line}"))
}
