//! The order in which the threads of a run take turns: at random, by priorities, or as chosen.
//!
//! - Random turns are what tests of threads usually do: they rarely hit a bug that needs one
//!   particular interruption, but reach unusual states.
//! - Priorities (Burckhardt, Kothari, Musuvathi, Nagarakatte, "A Randomized Scheduler with
//!   Probabilistic Guarantees of Finding Bugs", ASPLOS'10): the runnable thread of highest priority
//!   runs, and at `d - 1` random moments the running one drops to the lowest priority. A run of `n`
//!   threads and `k` steps hits a bug of depth `d` with probability at least 1 / (n k^(d-1)).
//! - Chosen: a thread runs until it waits or ends, and then the next one in order runs, except for
//!   the choices that are listed. [`Schedules`](crate::Schedules) makes all lists up to a bound.

use seawall_memory::Model;
use serde::{Deserialize, Serialize};
use std::cmp::Ordering;
use std::fmt;
use std::str::FromStr;

/// How to run the threads.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Schedule {
    /// Threads, at least 1.
    pub threads: usize,
    /// How the threads take turns.
    pub turns: Turns,
    /// Seed of the random choices. It also decides which lines of copies that hardware makes leave
    /// the caches by themselves; with 0 none does.
    pub seed: u64,
    /// Seam calls of all threads together after which the run is given up.
    pub steps: u64,
    /// The model of the machine that runs the threads.
    pub model: Model,
    /// Stores that a thread's buffer holds where a search looks for loads that come before them; 0
    /// if there is nothing to look for.
    pub buffer: usize,
}

impl Default for Schedule {
    fn default() -> Schedule {
        Schedule {
            threads: 1,
            turns: Turns::Random,
            seed: 1,
            steps: 20_000_000,
            model: Model::Px86,
            buffer: 0,
        }
    }
}

/// How the threads take turns.
#[derive(Clone, Debug, PartialEq, Eq, Default, Serialize, Deserialize)]
pub enum Turns {
    /// Turns of random length.
    #[default]
    Random,
    /// By random priorities, with this number of priority changes.
    Priorities(u32),
    /// Each thread until it waits or ends, then the next one, except for these choices, in order.
    Chosen(Vec<Departure>),
}

/// Where a run departs from the default. Calls of the seam are counted over all threads, from 1, in
/// the order in which they take effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Departure {
    /// The call.
    pub call: u64,
    /// What is different.
    pub kind: DepartureKind,
}

/// What is different about a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub enum DepartureKind {
    /// Before it this thread runs, if it can: an interruption if the running thread could go on.
    Run(u16),
    /// Before it the non-temporal store of this earlier call has not left its buffer; it leaves
    /// after it, if no fence of its thread comes first.
    Late(u64),
    /// The load returns not the newest store to its word but one so far behind it, as it takes
    /// effect before earlier stores of its thread leave the store buffer.
    Behind(u32),
    /// It meets the words of a write that is being made and began with this earlier call: they are
    /// made from the last to the first.
    Reversed(u64),
}

impl Departure {
    /// The call and the thread that runs before it, if that is what was chosen.
    pub(crate) fn thread(self) -> Option<(u64, usize)> {
        match self.kind {
            DepartureKind::Run(thread) => Some((self.call, thread.into())),
            _ => None,
        }
    }

    /// The call and how far behind it reads, if that is what was chosen.
    pub(crate) fn behind(self) -> Option<(u64, u32)> {
        match self.kind {
            DepartureKind::Behind(stores) => Some((self.call, stores)),
            _ => None,
        }
    }

    /// The call of a late store, and the call that it leaves after, if that is what was chosen.
    pub(crate) fn late(self) -> Option<(u64, u64)> {
        match self.kind {
            DepartureKind::Late(store) => Some((store, self.call)),
            _ => None,
        }
    }

    /// The call that begins a reversed write, if that is what was chosen.
    pub(crate) fn reversed(self) -> Option<u64> {
        match self.kind {
            DepartureKind::Reversed(write) => Some(write),
            _ => None,
        }
    }

    /// Whether a choice of this kind at this call may come next in a list.
    pub(crate) fn may_precede(self, call: u64, kind: DepartureKind) -> bool {
        let rank = |kind| match kind {
            DepartureKind::Run(_) => 0,
            DepartureKind::Late(_) => 1,
            DepartureKind::Reversed(_) => 2,
            DepartureKind::Behind(_) => 3,
        };
        let several = matches!(kind, DepartureKind::Late(_) | DepartureKind::Reversed(_));
        match (self.call.cmp(&call), rank(self.kind).cmp(&rank(kind))) {
            (Ordering::Less, _) | (Ordering::Equal, Ordering::Less) => true,
            (Ordering::Equal, Ordering::Equal) => several && self.kind < kind,
            _ => false,
        }
    }
}

impl fmt::Display for Departure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let call = self.call;
        match self.kind {
            DepartureKind::Run(thread) => write!(f, "{call}.{thread}"),
            DepartureKind::Late(store) => write!(f, "{call}l{store}"),
            DepartureKind::Behind(stores) => write!(f, "{call}b{stores}"),
            DepartureKind::Reversed(write) => write!(f, "{call}r{write}"),
        }
    }
}

impl FromStr for Departure {
    type Err = ();

    fn from_str(text: &str) -> Result<Departure, ()> {
        let at = text.find(|letter: char| !letter.is_ascii_digit()).ok_or(())?;
        let (call, kind) = text.split_at(at);
        let (letter, number) = kind.split_at_checked(1).ok_or(())?;
        let number = number.parse::<u64>().map_err(|_| ())?;
        let kind = match letter {
            "." => DepartureKind::Run(number.try_into().map_err(|_| ())?),
            "l" => DepartureKind::Late(number),
            "r" => DepartureKind::Reversed(number),
            "b" => DepartureKind::Behind(number.try_into().map_err(|_| ())?),
            _ => return Err(()),
        };
        Ok(Departure { call: call.parse().map_err(|_| ())?, kind })
    }
}

/// The turns of a schedule in short, with the seed: `r7`, `p7.2` (two priority changes), `s`
/// (nothing chosen), `s40.1_52.0` (before call 40 thread 1 runs, before call 52 thread 0), `s9b1`
/// (the load of call 9 returns the store before the newest one), `s9l4` (the non-temporal store of
/// call 4 leaves after call 9), `s9r4` (call 9 meets the write that begins with call 4, whose words
/// are made from the last to the first).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TurnsName(pub Turns, pub u64);

impl fmt::Display for TurnsName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let TurnsName(turns, seed) = self;
        match turns {
            Turns::Random => write!(f, "r{seed}"),
            Turns::Priorities(changes) => write!(f, "p{seed}.{changes}"),
            Turns::Chosen(all) => {
                f.write_str("s")?;
                for (at, choice) in all.iter().enumerate() {
                    write!(f, "{}{choice}", if at == 0 { "" } else { "_" })?;
                }
                Ok(())
            }
        }
    }
}

impl FromStr for TurnsName {
    type Err = ();

    fn from_str(text: &str) -> Result<TurnsName, ()> {
        let (kind, rest) = text.split_at_checked(1).ok_or(())?;
        let number = |text: &str| text.parse::<u64>().map_err(|_| ());
        let name = match kind {
            "r" => TurnsName(Turns::Random, number(rest)?),
            "p" => {
                let (seed, changes) = rest.split_once('.').ok_or(())?;
                let changes = changes.parse().map_err(|_| ())?;
                TurnsName(Turns::Priorities(changes), number(seed)?)
            }
            "s" if rest.is_empty() => TurnsName(Turns::Chosen(Vec::new()), 0),
            "s" => {
                let all: Result<Vec<Departure>, ()> = rest.split('_').map(str::parse).collect();
                let all = all?;
                if !all.is_sorted_by(|first, second| first.may_precede(second.call, second.kind)) {
                    return Err(());
                }
                TurnsName(Turns::Chosen(all), 0)
            }
            _ => return Err(()),
        };
        Ok(name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_name_of_turns_parses_to_the_same_turns() {
        for text in ["r7", "p7.2", "s", "s40.1", "s40.1_52.0", "s9b1_12.0", "s9l4", "s9.1_9r8"] {
            assert_eq!(text.parse::<TurnsName>().unwrap().to_string(), text);
        }
        for text in ["", "x1", "r", "p7", "s40", "s40.1_", "s52.0_40.1", "s9c1", "s9b", "\u{e9}"] {
            assert!(text.parse::<TurnsName>().is_err(), "{text}");
        }
    }
}
