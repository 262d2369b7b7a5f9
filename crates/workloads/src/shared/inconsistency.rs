//! The errors that recovery and checks report for the bytes of a pool.

use super::epoch_log::LogError;
use super::slots::Slots;
use seawall_memory::Addr;

/// An invariant of a structure that does not hold.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Inconsistency {
    /// A parameter in the pool's roots that no program writes.
    #[error("the pool's roots say {what} = {value}, which must be {range}")]
    Shape {
        /// The parameter.
        what: &'static str,
        /// Its value.
        value: u64,
        /// Its valid range.
        range: String,
    },
    /// The pool is too small for the structure that its roots describe.
    #[error("the pool's structure takes {wanted} bytes, the pool has {actual}")]
    Size {
        /// The bytes that the shape needs.
        wanted: u64,
        /// The bytes of the pool.
        actual: u64,
    },
    /// A log that no transaction wrote.
    #[error(transparent)]
    Log(#[from] LogError),
    /// A pointer to an address that is no entry.
    #[error("{what} points to {to:#x}, where no entry is")]
    Pointer {
        /// The holder of the pointer.
        what: String,
        /// Its value.
        to: u64,
    },
    /// An entry that is reached twice: a cycle, or two owners.
    #[error("{what} reaches the entry at {at} a second time")]
    Twice {
        /// The holder of the second pointer.
        what: String,
        /// The entry.
        at: Addr,
    },
    /// An entry whose words were not written by one operation.
    #[error("the entry at {at} (key {key}, tag {tag:#x}) is torn: its word {word} is wrong")]
    Torn {
        /// The entry.
        at: Addr,
        /// Its key.
        key: u64,
        /// Its tag.
        tag: u64,
        /// Index of the first wrong word.
        word: u64,
    },
    /// A counter that differs from the number of entries.
    #[error("{what} says {stored}, there are {found}")]
    Count {
        /// The counter.
        what: String,
        /// Its value.
        stored: u64,
        /// The number found.
        found: u64,
    },
    /// Any other invariant.
    #[error("{0}")]
    Broken(String),
}

/// Rejects a `value` outside `low..=high`.
pub(crate) fn within(
    what: &'static str,
    value: u64,
    low: u64,
    high: u64,
) -> Result<u64, Inconsistency> {
    if (low..=high).contains(&value) {
        return Ok(value);
    }
    Err(Inconsistency::Shape { what, value, range: format!("{low} to {high}") })
}

/// The entries that a walk has reached: each can be reached once.
pub(crate) struct Reached<'a> {
    slots: &'a Slots,
    /// One mark per slot.
    pub(crate) live: Vec<bool>,
}

impl<'a> Reached<'a> {
    pub(crate) fn none(slots: &'a Slots) -> Reached<'a> {
        Reached { slots, live: vec![false; slots.count() as usize] }
    }

    /// Marks the entry to which the pointer `to` of `what` points, which is not null.
    pub(crate) fn reach(
        &mut self,
        to: u64,
        what: impl Fn() -> String,
    ) -> Result<Addr, Inconsistency> {
        let at = Addr::from_bits(to);
        let Some(slot) = self.slots.index(at) else {
            return Err(Inconsistency::Pointer { what: what(), to });
        };
        if std::mem::replace(&mut self.live[slot as usize], true) {
            return Err(Inconsistency::Twice { what: what(), at });
        }
        Ok(at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use seawall_runtime::Arena;

    #[test]
    fn a_walk_refuses_wild_pointers_and_second_visits() {
        let slots = Slots::place(&mut Arena::new(), 4, 512, 1);
        let first = (0..10_000).map(Addr::pm).find(|at| slots.index(*at) == Some(0));
        let first = first.expect("the area is near the start").bits();
        let mut reached = Reached::none(&slots);
        let what = || "the test".to_owned();
        assert!(reached.reach(first, what).is_ok());
        assert!(matches!(reached.reach(first, what), Err(Inconsistency::Twice { .. })));
        assert!(matches!(reached.reach(first + 8, what), Err(Inconsistency::Pointer { .. })));
        assert!(matches!(reached.reach(u64::MAX, what), Err(Inconsistency::Pointer { .. })));
        assert_eq!(reached.live, [true, false, false, false]);
    }
}
