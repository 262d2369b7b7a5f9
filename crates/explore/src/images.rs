//! Every image that a crash may leave, as contents of chosen words: what litmus tests ask for.

use crate::models::Model;
use crate::search::{Outcome, Search, search};
use crate::trace::Trace;
use seawall_memory::{Addr, Memory};
use std::cell::RefCell;
use std::collections::BTreeSet;

/// The values that the 8-byte words at `places` may have together after a crash at any point of
/// the run, and what the search for them covered.
pub fn reachable(trace: &Trace, model: Model, places: &[Addr]) -> (BTreeSet<Vec<u64>>, Outcome) {
    let found = RefCell::new(BTreeSet::new());
    let options = Search { thorough: true, ..Search::new(model) };
    let outcome = search(trace, &options, &|image, _| {
        let values = places.iter().map(|&at| image.load(at)).collect();
        found.borrow_mut().insert(values);
        Ok(())
    });
    (found.into_inner(), outcome)
}
