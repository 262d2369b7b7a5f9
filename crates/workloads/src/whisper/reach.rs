//! The slots that recovery and checks reach in a pool of untrusted bytes.

use crate::Damage;
use crate::shared::Slots;
use seawall_memory::{Addr, Memory};

/// Marks the reached slots, so that a walk ends and the other slots are free.
pub(crate) struct Reach<'a> {
    slots: &'a Slots,
    live: Vec<bool>,
}

impl<'a> Reach<'a> {
    /// No slot is reached yet.
    pub(crate) fn none(slots: &'a Slots) -> Reach<'a> {
        Reach { slots, live: vec![false; slots.count() as usize] }
    }

    /// Marks the slot at `to`, to which `what` points.
    pub(crate) fn reach(&mut self, to: u64, what: impl FnOnce() -> String) -> Result<Addr, Damage> {
        let at = Addr::from_bits(to);
        let Some(index) = self.slots.index(at) else {
            return Err(Damage(format!("{} points to {to:#x}, where nothing starts", what())));
        };
        if std::mem::replace(&mut self.live[index as usize], true) {
            return Err(Damage(format!("{} reaches what is at {at} a second time", what())));
        }
        Ok(at)
    }

    /// Frees all slots that were not reached.
    pub(crate) fn rebuild<M: Memory>(self, memory: &M) {
        self.slots.rebuild(memory, &self.live);
    }
}

/// Rejects a root value that no program writes.
pub(crate) fn within(what: &'static str, value: u64, low: u64, high: u64) -> Result<u64, Damage> {
    if (low..=high).contains(&value) {
        return Ok(value);
    }
    Err(Damage(format!("the pool's roots say {what} = {value}, which must be {low} to {high}")))
}

/// Word `word` of the bytes that operation `tag` wrote for `key`.
pub(crate) fn word(key: u64, tag: u64, word: u64) -> u64 {
    (tag ^ key << 17 ^ word << 50).wrapping_mul(0x9e37_79b9_7f4a_7c15)
}
