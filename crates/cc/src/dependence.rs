//! What instrumented code says of the flow of its data: on which loads an address depends.
//!
//! Each call of an instruction has a record in the section [`SECTION`] of its module, found by the
//! address behind the call. The record says which registers the address of the access is made of,
//! and how values move between registers, the flags and the frame from one call to the next. The
//! machine keeps for each of these places the cycle at which its value is known.
//!
//! ```text
//! 4 bytes  the address behind the call, from here
//! 2 bytes  words of steps before the access
//! 2 bytes  words of steps from the access on, up to the next call or the end of the block
//! 8 bytes  the places that the address is made of
//! 8 bytes each: the steps
//! ```

use object::{Object as _, ObjectSection as _};

/// The section of records.
pub const SECTION: &str = "seawall_depends";

/// Where the records of a module are, from its base: their first byte, and bytes.
pub fn records_of(module: &[u8]) -> Option<(u64, u64)> {
    let file = object::File::parse(module).ok()?;
    let section = file.section_by_name(SECTION)?;
    Some((section.address(), section.size()))
}

/// A place of data: a general register by its number, or one of the following.
pub type Slot = u8;
/// The flags.
pub const FLAGS: Slot = 16;
/// The first of 32 vector registers.
pub const VECTORS: Slot = 17;
/// What the access of the record has loaded.
pub const LOADED: Slot = 49;
/// What the step before has read from the frame.
pub const FRAME: Slot = 50;
/// The number of places.
pub const SLOTS: usize = 51;

/// Some places, one bit each.
pub type SlotSet = u64;

/// A set of one.
pub const fn only(slot: Slot) -> SlotSet {
    1 << slot
}

/// A word of the frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// Whether it is counted from the frame pointer, not from the stack pointer at the call.
    pub from_frame: bool,
    /// Bytes from there.
    pub offset: i64,
}

/// A movement of data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DataStep {
    /// A place gets what is computed from others.
    Set(Slot, SlotSet),
    /// A place gets a word of the frame.
    Fill(Slot, Place),
    /// A word of the frame gets what is computed from places.
    Spill(Place, SlotSet),
    /// What the access of the record writes is computed from places.
    Store(SlotSet),
}

const SLOT: u32 = 52;
const TAG: u32 = 58;

impl DataStep {
    /// The words of a record that say it.
    pub fn words(self) -> impl Iterator<Item = u64> {
        let (tag, slot, from, place) = match self {
            DataStep::Set(to, from) => (0, to, from, None),
            DataStep::Fill(to, place) => (1, to, 0, Some(place)),
            DataStep::Spill(place, from) => (2, 0, from, Some(place)),
            DataStep::Store(from) => (3, 0, from, None),
        };
        let second = place.map(|it| (it.offset as u64) << 1 | u64::from(it.from_frame));
        [Some(tag << TAG | u64::from(slot) << SLOT | from), second].into_iter().flatten()
    }

    /// Takes a step off the front of words; `None` at their end.
    #[inline]
    pub fn take(words: &mut &[u64]) -> Option<DataStep> {
        let (&word, rest) = words.split_first()?;
        *words = rest;
        let (slot, from) = ((word >> SLOT) as u8 & 63, word & ((1 << SLOTS) - 1));
        let mut place = || {
            let (&word, rest) = words.split_first()?;
            *words = rest;
            Some(Place { from_frame: word & 1 == 1, offset: word as i64 >> 1 })
        };
        Some(match word >> TAG {
            0 => DataStep::Set(slot, from),
            1 => DataStep::Fill(slot, place()?),
            2 => DataStep::Spill(place()?, from),
            _ => DataStep::Store(from),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_are_read_as_they_were_written() {
        let below = Place { from_frame: false, offset: -8 };
        let steps = [
            DataStep::Set(3, only(LOADED) | only(15)),
            DataStep::Fill(FRAME, Place { from_frame: true, offset: 24 }),
            DataStep::Spill(below, only(FLAGS) | only(VECTORS + 31)),
            DataStep::Store(only(FRAME)),
        ];
        let words: Vec<u64> = steps.iter().flat_map(|step| step.words()).collect();
        assert_eq!(words.len(), 6);
        let mut rest = &words[..];
        let read: Vec<DataStep> = std::iter::from_fn(|| DataStep::take(&mut rest)).collect();
        assert_eq!(read, steps);
    }
}
