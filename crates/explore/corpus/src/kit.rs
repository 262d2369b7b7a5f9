//! What the small programs share: places in the pool, short words for 8-byte accesses, judgements.

use seawall_memory::{Addr, LINE_BYTES, Memory, MemoryExt, Width};

/// The start of line `number` of the pool.
pub(crate) const fn line(number: u64) -> Addr {
    Addr::pm(LINE_BYTES * number)
}

/// Word `index` of the object at `at`.
pub(crate) const fn word(at: Addr, index: u64) -> Addr {
    at.plus(8 * index)
}

/// Accesses of 8 bytes, in short.
pub(crate) trait Words: Memory {
    /// The word at `at`.
    #[track_caller]
    fn get(&self, at: Addr) -> u64 {
        self.load_bits(at, Width::B8)
    }

    /// Stores a word.
    #[track_caller]
    fn put(&self, at: Addr, value: u64) {
        self.store_bits(at, Width::B8, value);
    }

    /// Stores a word and starts to write it back.
    #[track_caller]
    fn put_flush(&self, at: Addr, value: u64) {
        self.put(at, value);
        self.flush(at, 8);
    }

    /// Stores a word that is durable on return.
    #[track_caller]
    fn put_persist(&self, at: Addr, value: u64) {
        self.put(at, value);
        self.persist(at, 8);
    }

    /// The word at `at` as a pointer that must not be null.
    #[track_caller]
    fn follow(&self, at: Addr) -> Result<Addr, String> {
        match self.get(at) {
            0 => Err(format!("the pointer at {at} is null")),
            bits => Ok(Addr::from_bits(bits)),
        }
    }
}

impl<M: Memory> Words for M {}

/// An invariant, with the words for its failure.
pub(crate) fn ensure(holds: bool, otherwise: &str) -> Result<(), String> {
    if holds { Ok(()) } else { Err(otherwise.into()) }
}

/// For programs of one thread: what was found is what some number of operations leave, and no
/// fewer than were promised. `states[n]` is what `n` operations leave.
pub(crate) fn some_state<S: AsRef<[u64]>>(
    found: &[u64],
    promised: &[u64],
    states: &[S],
) -> Result<(), String> {
    let matching = (0..states.len()).rev().find(|&n| states[n].as_ref() == found);
    match matching {
        None => {
            let whole: Vec<String> =
                states.iter().take(4).map(|state| format!("{:?}", state.as_ref())).collect();
            let more = if states.len() > 4 { ", ..." } else { "" };
            Err(format!(
                "after recovery there is {found:?}; whole operations leave {}{more}",
                whole.join(" or ")
            ))
        }
        Some(n) if (n as u64) < promised[0] => {
            Err(format!("only {n} of {} completed operations are there", promised[0]))
        }
        Some(_) => Ok(()),
    }
}

/// For programs whose operation `n` puts `values[n]`, and which leave 0 where there is none yet.
pub(crate) fn inserted(found: &[u64], promised: &[u64], values: &[u64]) -> Result<(), String> {
    let states: Vec<Vec<u64>> = (0..=values.len())
        .map(|done| {
            let value = |(n, &value): (usize, &u64)| if n < done { value } else { 0 };
            values.iter().enumerate().map(value).collect()
        })
        .collect();
    some_state(found, promised, &states)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_state_must_be_whole_and_have_what_was_promised() {
        assert_eq!(inserted(&[5, 0], &[1], &[5, 6]), Ok(()));
        assert_eq!(inserted(&[5, 6], &[1], &[5, 6]), Ok(()));
        let lost = inserted(&[5, 0], &[2], &[5, 6]).unwrap_err();
        assert_eq!(lost, "only 1 of 2 completed operations are there");
        assert!(inserted(&[0, 6], &[0], &[5, 6]).is_err());
        assert!(inserted(&[5, 7], &[0], &[5, 6]).is_err());
    }
}
