//! A walk over a structure: it ends even if pointers form a cycle, and collects the entries.

use crate::{Contents, Damage};

/// The state of a check of a structure.
pub struct Walk<'c> {
    /// The number of objects not yet seen.
    pub(crate) left: u64,
    pub(crate) contents: &'c mut Contents,
    pub(crate) parts: u64,
    pub(crate) part: u64,
}

impl Walk<'_> {
    /// Counts one more object, called `what`.
    pub(crate) fn object(&mut self, what: &str) -> Result<(), Damage> {
        self.left = self.left.checked_sub(1).ok_or_else(|| {
            Damage(format!("more objects are linked than there are: a {what} for a second time"))
        })?;
        Ok(())
    }

    /// Adds an entry.
    pub(crate) fn entry(&mut self, key: u64, tag: u64) -> Result<(), Damage> {
        let global = key.checked_mul(self.parts).and_then(|key| key.checked_add(self.part));
        let Some(global) = global else {
            return Err(Damage(format!("there is a key {key}")));
        };
        match self.contents.insert(global, tag) {
            None => Ok(()),
            Some(_) => Err(Damage(format!("key {global} is there twice"))),
        }
    }

    /// Returns an error unless `holds`.
    pub(crate) fn ensure(&self, holds: bool, what: impl FnOnce() -> String) -> Result<(), Damage> {
        if holds { Ok(()) } else { Err(Damage(format!("part {}: {}", self.part, what()))) }
    }
}
