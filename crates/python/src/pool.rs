//! A pool as Python opens it: named maps of bytes to bytes, which change in transactions.
//!
//! A call that is inside the block of an open transaction, or is told that block, sees its changes
//! and adds to them. Any other sees what is committed, and changes it by itself, once it is its
//! turn. One whose own thread has left the block standing would wait for itself, and is refused.

use crate::block::{Block, Place, lock};
use crate::failure::Failure;
use crate::maps::{Changes, Entry, Maps, Pool, Seen, check_name};
use crate::turn::{Turn, Turns};
use pyo3::exceptions::PyRuntimeWarning;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyWeakrefMethods, PyWeakrefReference};
use seawall::{Domain, Options};
use std::ffi::CString;
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError, RwLock};

/// An open pool.
#[pyclass(frozen, module = "seawall._seawall")]
pub(crate) struct PoolFile {
    pool: RwLock<Option<Pool>>,
    path: PathBuf,
    /// The process that has opened it: a fork must not go on with it, or wait for its locks, which
    /// threads of the other process may have.
    process: u32,
    turns: Turns,
    /// The block that has the turn, if one has it.
    open_block: Mutex<Option<Py<PyWeakrefReference>>>,
}

impl PoolFile {
    pub(crate) fn check_process(&self) -> Result<(), Failure> {
        if self.process == std::process::id() {
            return Ok(());
        }
        let path = self.path.display();
        Err(Failure::new(format!("{path} was opened by another process; open it in this one")))
    }

    /// Refuses a pool that is closed, or of another process.
    pub(crate) fn check(&self, py: Python<'_>) -> Result<(), Failure> {
        self.with(py, |_| Ok(()))
    }

    /// Does `act` while Python goes on.
    pub(crate) fn with<T: Send>(
        &self,
        py: Python<'_>,
        act: impl FnOnce(&Pool) -> Result<T, Failure> + Send,
    ) -> Result<T, Failure> {
        self.check_process()?;
        py.detach(|| {
            let pool = self.pool.read().unwrap_or_else(PoisonError::into_inner);
            let path = self.path.display();
            let closed = || Failure::new(format!("{path} is closed; open it again"));
            act(pool.as_ref().ok_or_else(closed)?)
        })
    }

    /// Waits for the turn to change the pool.
    pub(crate) fn turn(&self, py: Python<'_>) -> PyResult<Turn<'_>> {
        self.turns.take(py, || {
            let stands = self.open_block(py).map(|open| open.get().stands(py)).transpose()?;
            let Some(stands) = stands.flatten() else { return Ok(()) };
            let text = format!(
                "a thread waits for the transaction of {} that stands at {stands}: a block that \
                 waits for another thread which changes the pool waits forever; hand it `tx`, of \
                 `with pool.transaction() as tx`",
                self.path.display()
            );
            let text = CString::new(text).unwrap_or_default();
            PyErr::warn(py, &py.get_type::<PyRuntimeWarning>(), &text, 2)
        })
    }

    /// The block that has the turn.
    pub(crate) fn open_block<'py>(&self, py: Python<'py>) -> Option<Bound<'py, Block>> {
        let weak = lock(&self.open_block).as_ref().map(|weak| weak.clone_ref(py))?;
        weak.bind(py).upgrade_as().ok().flatten()
    }

    /// Makes a block that which has the turn.
    pub(crate) fn set_open_block(&self, block: Py<PyWeakrefReference>) {
        *lock(&self.open_block) = Some(block);
    }

    /// Ends the open block; its turn is given when what returns is dropped.
    pub(crate) fn leave(&self) -> Turn<'_> {
        let block = lock(&self.open_block).take();
        drop(block);
        self.turns.kept()
    }

    /// Why a call beside a block that stands there is refused.
    pub(crate) fn beside(&self, stands: &str) -> Failure {
        Failure::new(format!(
            "a transaction of {} stands in its block at {stands}, and this is outside of that: let \
             the block end first, without a `yield` or an `await` in it, or change the pool by \
             `tx` of `with pool.transaction() as tx`",
            self.path.display()
        ))
    }

    /// Tells of a block that nobody can leave any more, where Python tells of what nobody catches.
    pub(crate) fn say_dropped(&self, py: Python<'_>, changes: usize) {
        if changes > 0 {
            let failure = Failure::new(format!(
                "a transaction of {} was dropped before its block was left, and {changes} changes \
                 with it: begin it by `with`",
                self.path.display()
            ));
            PyErr::from(failure).write_unraisable(py, None);
        }
    }

    /// Where this call is made, and the open block.
    fn place<'py>(&self, py: Python<'py>) -> PyResult<Option<(Bound<'py, Block>, Place)>> {
        let Some(block) = self.open_block(py) else { return Ok(None) };
        let place = block.get().place(py)?;
        Ok(Some((block, place)))
    }

    /// Looks at what this call sees.
    fn look<T: Send>(
        &self,
        py: Python<'_>,
        block: Option<&Bound<'_, Block>>,
        act: impl FnOnce(Seen<'_>) -> Result<T, Failure> + Send,
    ) -> PyResult<T> {
        self.check_process()?;
        let around = match block {
            Some(block) => Some(block.clone()),
            None => match self.place(py)? {
                Some((block, Place::Inside)) => Some(block),
                _ => None,
            },
        };
        Ok(match around.as_ref().map(Bound::get) {
            Some(block) => self.with(py, |pool| block.with(|changes| act(Seen { pool, changes }))),
            None => self.with(py, |pool| act(Seen { pool, changes: &Changes::default() })),
        }?)
    }

    /// Changes what this call may change.
    fn change<T: Send>(
        &self,
        py: Python<'_>,
        block: Option<&Bound<'_, Block>>,
        act: impl FnOnce(&Pool, &mut Changes) -> Result<T, Failure> + Send,
    ) -> PyResult<T> {
        self.check_process()?;
        let place = match block {
            Some(block) => Some((block.clone(), Place::Inside)),
            None => self.place(py)?,
        };
        match place {
            Some((block, Place::Inside)) => {
                let block = block.get();
                Ok(self.with(py, |pool| block.with(|changes| act(pool, changes)))?)
            }
            Some((_, Place::Beside(stands))) => Err(self.beside(&stands).into()),
            Some((_, Place::Elsewhere)) | None => {
                let _turn = self.turn(py)?;
                Ok(self.with(py, |pool| {
                    let mut changes = Changes::default();
                    let done = act(pool, &mut changes)?;
                    changes.make(pool)?;
                    Ok(done)
                })?)
            }
        }
    }
}

#[pymethods]
impl PoolFile {
    /// Opens the pool at `path`, or creates it with these options.
    #[new]
    #[pyo3(signature = (path, bytes_max, log_bytes, domain))]
    fn new(
        py: Python<'_>,
        path: PathBuf,
        bytes_max: Option<u64>,
        log_bytes: Option<u64>,
        domain: Option<&str>,
    ) -> Result<PoolFile, Failure> {
        let mut options = Options::default();
        options.bytes_max = bytes_max.unwrap_or(options.bytes_max);
        options.log_bytes = log_bytes.unwrap_or(options.log_bytes);
        options.domain = domain.map(|name| Domain::parse(name, "domain")).transpose()?;
        let pool = py.detach(|| Pool::new(seawall::open::<Maps>(&path, options)?))?;
        Ok(PoolFile {
            pool: RwLock::new(Some(pool)),
            path,
            process: std::process::id(),
            turns: Turns::default(),
            open_block: Mutex::new(None),
        })
    }

    /// The name of a map, which any text is that it does not refuse.
    fn name(&self, name: String) -> Result<String, Failure> {
        self.check_process()?;
        check_name(&name).map(|()| name)
    }

    /// The value of a key in a map.
    #[pyo3(signature = (block, map, key))]
    fn get<'py>(
        &self,
        py: Python<'py>,
        block: Option<&Bound<'py, Block>>,
        map: &str,
        key: &[u8],
    ) -> PyResult<Option<Bound<'py, PyBytes>>> {
        let value = self.look(py, block, |seen| seen.get(map, key))?;
        Ok(value.map(|value| PyBytes::new(py, &value)))
    }

    /// All entries of a map, in the order of their keys.
    #[pyo3(signature = (block, map))]
    fn items(
        &self,
        py: Python<'_>,
        block: Option<&Bound<'_, Block>>,
        map: &str,
    ) -> PyResult<Vec<Entry>> {
        self.look(py, block, |seen| seen.items(map))
    }

    /// The names of the maps that have entries.
    #[pyo3(signature = (block))]
    fn names(&self, py: Python<'_>, block: Option<&Bound<'_, Block>>) -> PyResult<Vec<String>> {
        self.look(py, block, |seen| seen.names())
    }

    /// How many entries a map has.
    #[pyo3(signature = (block, map))]
    fn count(&self, py: Python<'_>, block: Option<&Bound<'_, Block>>, map: &str) -> PyResult<u64> {
        self.look(py, block, |seen| seen.count(map))
    }

    /// Refuses a map that holds records of another kind than that.
    #[pyo3(signature = (block, map, kind))]
    fn check_kind(
        &self,
        py: Python<'_>,
        block: Option<&Bound<'_, Block>>,
        map: &str,
        kind: &str,
    ) -> PyResult<()> {
        self.look(py, block, |seen| seen.check_kind(map, Some(kind)))
    }

    /// Puts an entry into a map, a record of that kind if there is one.
    #[pyo3(signature = (block, map, key, value, kind))]
    fn put(
        &self,
        py: Python<'_>,
        block: Option<&Bound<'_, Block>>,
        map: &str,
        key: &[u8],
        value: &[u8],
        kind: Option<&str>,
    ) -> PyResult<()> {
        self.change(py, block, |pool, changes| changes.put(pool, map, key, value, kind))
    }

    /// Puts entries into a map, all or none.
    #[pyo3(signature = (block, map, entries, kind))]
    fn put_all(
        &self,
        py: Python<'_>,
        block: Option<&Bound<'_, Block>>,
        map: &str,
        entries: Vec<Entry>,
        kind: Option<&str>,
    ) -> PyResult<()> {
        self.change(py, block, |pool, changes| changes.put_all(pool, map, &entries, kind))
    }

    /// Puts an entry into a map that has none of that key, or returns the value that it has.
    #[pyo3(signature = (block, map, key, value, kind))]
    fn put_new<'py>(
        &self,
        py: Python<'py>,
        block: Option<&Bound<'py, Block>>,
        map: &str,
        key: &[u8],
        value: &[u8],
        kind: Option<&str>,
    ) -> PyResult<Option<Bound<'py, PyBytes>>> {
        let there =
            self.change(py, block, |pool, changes| changes.put_new(pool, map, key, value, kind))?;
        Ok(there.map(|value| PyBytes::new(py, &value)))
    }

    /// Removes an entry, and returns its value.
    #[pyo3(signature = (block, map, key))]
    fn remove<'py>(
        &self,
        py: Python<'py>,
        block: Option<&Bound<'py, Block>>,
        map: &str,
        key: &[u8],
    ) -> PyResult<Option<Bound<'py, PyBytes>>> {
        let value = self.change(py, block, |pool, changes| changes.remove(pool, map, key))?;
        Ok(value.map(|value| PyBytes::new(py, &value)))
    }

    /// Removes all entries of a map.
    #[pyo3(signature = (block, map))]
    fn clear(&self, py: Python<'_>, block: Option<&Bound<'_, Block>>, map: &str) -> PyResult<()> {
        self.change(py, block, |pool, changes| changes.clear(pool, map))
    }

    /// What committed data survives, in words, and whether that includes a power failure.
    fn durability(&self, py: Python<'_>) -> Result<(String, bool), Failure> {
        self.with(py, |pool| {
            let durability = pool.pool.durability();
            Ok((durability.to_string(), durability.is_durable()))
        })
    }

    /// Bytes of the file that are in use.
    fn bytes_used(&self, py: Python<'_>) -> Result<u64, Failure> {
        self.with(py, |pool| Ok(pool.pool.bytes()))
    }

    /// Whether this process has it open.
    fn is_open(&self, py: Python<'_>) -> bool {
        self.check(py).is_ok()
    }

    /// Closes it; what is committed stays. A fork leaves it to the process that it is of.
    fn close(&self, py: Python<'_>) {
        if self.check_process().is_ok() {
            py.detach(|| drop(self.pool.write().unwrap_or_else(PoisonError::into_inner).take()));
        }
    }
}

impl Drop for PoolFile {
    fn drop(&mut self) {
        if self.check_process().is_err() {
            let pool = self.pool.get_mut().unwrap_or_else(PoisonError::into_inner);
            std::mem::forget(pool.take());
        }
    }
}
