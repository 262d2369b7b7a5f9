//! What recovery read, decided and wrote on a failing image: a short trace of it.
//!
//! Of its reads only those are told that met what the crash had changed: a word whose last store is
//! lost, or one that came early. They are what recovery decided on.

use crate::finding::StoreNote;
use crate::site::Site;
use seawall_memory::{Addr, Fence, Width};
use serde::Serialize;
use std::fmt;

/// An access of recovery.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Access {
    /// The thread, if there are several.
    pub(crate) thread: Option<usize>,
    pub(crate) did: Did,
    pub(crate) place: Site,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Did {
    Read(Addr, Width, u64),
    Wrote(Addr, Width, u64),
    Fenced(Fence),
}

/// Accesses of one recovery that are looked at, the last ones.
pub(crate) const LOGGED: usize = 1 << 16;

/// Steps of recovery that a finding holds, the last ones.
const STEPS: usize = 40;

/// A step of recovery.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct RecoveryStep {
    /// What it did, in words.
    pub what: String,
    /// The call, as file:line.
    pub place: String,
    /// How often in a row.
    pub times: usize,
}

impl fmt::Display for RecoveryStep {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let RecoveryStep { what, place, times } = self;
        match times {
            1 => write!(f, "{what}, {place}"),
            _ => write!(f, "{what}, {place}, {times} times"),
        }
    }
}

/// The telling steps among these accesses, given what the crashes lost and what came early.
pub(crate) fn steps(
    accesses: &[Access],
    lost: &[StoreNote],
    early: &[StoreNote],
) -> Vec<RecoveryStep> {
    let meets = |stores: &[StoreNote], at: Addr, width: Width| {
        let (from, to) = (at.offset(), at.offset() + width.bytes());
        stores.iter().rposition(|store| store.at < to && store.at + store.bytes > from)
    };
    let mut all: Vec<RecoveryStep> = Vec::new();
    // Fences that follow no write say nothing.
    let mut has_written = false;
    for Access { thread, did, place } in accesses {
        let what = match *did {
            Did::Read(at, width, value) => {
                match (meets(lost, at, width), meets(early, at, width)) {
                    (Some(store), _) => {
                        let StoreNote { new, place, .. } = &lost[store];
                        format!("reads {at} = {value:#x}: lost is {new:#x} of {place}")
                    }
                    (None, Some(store)) => {
                        let StoreNote { place, .. } = &early[store];
                        format!("reads {at} = {value:#x}, which came early from {place}")
                    }
                    (None, None) => continue,
                }
            }
            Did::Wrote(at, _, value) => format!("writes {at} = {value:#x}"),
            Did::Fenced(_) if !has_written => continue,
            Did::Fenced(fence) => format!("{fence:?}").to_lowercase(),
        };
        has_written = match did {
            Did::Wrote(..) => true,
            Did::Fenced(_) => false,
            Did::Read(..) => has_written,
        };
        let what = match thread {
            Some(thread) => format!("thread {thread} {what}"),
            None => what,
        };
        let place = place.to_string();
        match all.last_mut() {
            Some(last) if (&last.what, &last.place) == (&what, &place) => last.times += 1,
            _ => all.push(RecoveryStep { what, place, times: 1 }),
        }
    }
    let from = all.len().saturating_sub(STEPS);
    all.split_off(from)
}
