//! Stores to persistent memory that were not seen when they were made.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;

/// The most places that are kept.
const PLACES_MAX: usize = 1000;

/// What has been found so far.
#[derive(Default)]
pub(crate) struct Unseen {
    count: Cell<u64>,
    /// The words with the instruction that found each of them first, and how often.
    places: RefCell<BTreeMap<u64, (u64, u64)>>,
}

impl Unseen {
    /// The persistent word at `at` was found changed by the instruction before `site`.
    pub(crate) fn note(&self, at: u64, site: u64) {
        self.count.set(self.count.get() + 1);
        let mut places = self.places.borrow_mut();
        if places.len() < PLACES_MAX || places.contains_key(&at) {
            places.entry(at).or_insert((site, 0)).1 += 1;
        }
    }

    pub(crate) fn count(&self) -> u64 {
        self.count.get()
    }

    /// Words with the place that found each, in order of address.
    pub(crate) fn places(&self) -> Vec<(u64, u64)> {
        self.places.borrow().iter().map(|(at, (site, _))| (*at, *site)).collect()
    }
}
