//! What recovery read, decided and wrote on a failing image: a short trace of it.
//!
//! Of its reads only those are told that met what the crash had changed: a word whose last store is
//! lost, or one that came early; if nothing is lost, one that was stored last. They are what
//! recovery decided on. If it read none of these, what it read last is told.

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

/// Last reads that are told of a recovery that read nothing of what the crash had changed.
const LAST_READS: usize = 4;

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

/// The telling steps among these accesses, given what the crashes lost and what came early, or if
/// nothing was lost, what was stored last.
pub(crate) fn steps(
    accesses: &[Access],
    lost: &[StoreNote],
    early: &[StoreNote],
    last: &[StoreNote],
) -> Vec<RecoveryStep> {
    let meets = |stores: &[StoreNote], at: Addr, width: Width| {
        let (from, to) = (at.offset(), at.offset() + width.bytes());
        stores.iter().rposition(|store| store.at < to && store.at + store.bytes > from)
    };
    let mut all: Vec<RecoveryStep> = Vec::new();
    // Fences that follow no write say nothing.
    let (mut has_written, mut has_told) = (false, false);
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
                    (None, None) => match meets(last, at, width) {
                        Some(store) => {
                            let StoreNote { place, .. } = &last[store];
                            format!("reads {at} = {value:#x}, stored at {place}")
                        }
                        None => continue,
                    },
                }
            }
            Did::Wrote(at, _, value) => format!("writes {at} = {value:#x}"),
            Did::Fenced(_) if !has_written => continue,
            Did::Fenced(fence) => format!("{fence:?}").to_lowercase(),
        };
        has_told |= matches!(did, Did::Read(..));
        has_written = match did {
            Did::Wrote(..) => true,
            Did::Fenced(_) => false,
            Did::Read(..) => has_written,
        };
        let (what, place) = (of_thread(*thread, what), place.to_string());
        match all.last_mut() {
            Some(last) if (&last.what, &last.place) == (&what, &place) => last.times += 1,
            _ => all.push(RecoveryStep { what, place, times: 1 }),
        }
    }
    if !has_told {
        all.extend(last_reads(accesses));
    }
    let from = all.len().saturating_sub(STEPS);
    all.split_off(from)
}

fn of_thread(thread: Option<usize>, what: String) -> String {
    match thread {
        Some(thread) => format!("thread {thread} {what}"),
        None => what,
    }
}

/// The different reads that came last, each with how often it came in all, so that a loop without
/// an end shows the word that it waits for.
fn last_reads(accesses: &[Access]) -> Vec<RecoveryStep> {
    let mut all: Vec<(Access, usize)> = Vec::new();
    let reads = accesses.iter().filter(|access| matches!(access.did, Did::Read(..)));
    for access in reads.rev() {
        let same = |(other, _): &&mut (Access, usize)| {
            (other.thread, other.did, other.place) == (access.thread, access.did, access.place)
        };
        if let Some((_, times)) = all.iter_mut().find(same) {
            *times += 1;
        } else if all.len() < LAST_READS {
            all.push((*access, 1));
        }
    }
    let told = |(Access { thread, did, place }, times)| {
        let Did::Read(at, _, value) = did else { unreachable!("only reads are collected") };
        let what = of_thread(thread, format!("reads {at} = {value:#x}"));
        RecoveryStep { what, place: place.to_string(), times }
    };
    all.into_iter().rev().map(told).collect()
}
