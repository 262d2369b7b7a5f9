//! Options, counts and errors of defragmentation: the protocol that moves objects (FFCCD, ISCA'22,
//! section 3), in our form or as published, and when a cycle begins.

use crate::{AccessError, TxError};
use std::fmt;
use std::str::FromStr;

/// The protocol that moves an object so that no crash loses it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Protocol {
    /// Two fences: behind the copy, and behind the mark "copied" (Espresso, ASPLOS'18).
    Espresso,
    /// One fence, behind the copy. The mark "copied" becomes durable with the next fence of the
    /// thread that modifies the object (SFCCD, with its fence in another place; see `relocate`).
    #[default]
    Sfccd,
    /// No fence: the hardware records which lines of a copy have persisted. Needs
    /// a [relocation unit](seawall_memory::Memory::relocation).
    Ffccd,
}

impl Protocol {
    /// All protocols, the slowest first.
    pub const ALL: [Protocol; 3] = [Protocol::Espresso, Protocol::Sfccd, Protocol::Ffccd];

    /// Its name, as in options and outputs.
    pub const fn name(self) -> &'static str {
        match self {
            Protocol::Espresso => "espresso",
            Protocol::Sfccd => "sfccd",
            Protocol::Ffccd => "ffccd",
        }
    }

    /// Its number in a pool. (2 was one fence behind the mark.)
    pub(crate) fn number(self) -> u64 {
        match self {
            Protocol::Espresso => 1,
            Protocol::Ffccd => 3,
            Protocol::Sfccd => 4,
        }
    }

    pub(crate) fn of_number(number: u64) -> Option<Protocol> {
        Protocol::ALL.into_iter().find(|protocol| protocol.number() == number)
    }
}

impl fmt::Display for Protocol {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A name of no protocol.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "unknown protocol {0}; it must be espresso, sfccd or ffccd, or one of these as published: \
     espresso-published, sfccd-published or ffccd-published"
)]
pub struct UnknownProtocol(String);

impl FromStr for Protocol {
    type Err = UnknownProtocol;

    fn from_str(text: &str) -> Result<Protocol, UnknownProtocol> {
        let found = Protocol::ALL.into_iter().find(|protocol| protocol.name() == text);
        found.ok_or_else(|| UnknownProtocol(text.to_owned()))
    }
}

/// How objects are moved.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Manner {
    /// An object is claimed by a locked operation, and so is a pointer that is changed. Software
    /// copies by non-temporal stores, which fetch no line of the destination, and `sfccd` up to
    /// eight objects a fence. A cycle goes on with each step.
    #[default]
    Ours,
    /// As published, for comparison. No locked operation: objects and pointers are changed by plain
    /// stores, under the lock of the program by which it accesses them, and steps that
    /// [change objects](super::Defragmenter::changes_objects) under all these locks. Software
    /// copies through the caches, with a flush of each line, one object a fence. Each access
    /// through a pointer checks where the object is. Objects that no thread accesses are moved, and
    /// pointers that none loads updated, once nothing has moved between two checks.
    Published,
}

/// The suffix of a protocol's name for [`Manner::Published`].
const PUBLISHED: &str = "-published";

impl Manner {
    /// Its bits in the word of the cycle.
    pub(crate) fn bits(self) -> u64 {
        u64::from(self == Manner::Published) << 3
    }

    pub(crate) fn of_bits(bits: u64) -> Manner {
        if bits >> 3 & 1 == 1 { Manner::Published } else { Manner::Ours }
    }
}

/// Why a heap cannot be defragmented.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum DefragError {
    /// An error of the heap.
    #[error(transparent)]
    Heap(#[from] TxError),
    /// Ratios out of range.
    #[error(
        "trigger {trigger} and target {target}; the trigger must be more than 1, and the target 1 \
         to the trigger"
    )]
    Ratios {
        /// The bytes of pages per live byte at which a cycle begins.
        trigger: f64,
        /// The bytes of pages per live byte that a cycle aims at.
        target: f64,
    },
    /// A heap whose objects cannot move.
    #[error("the heap was made without `defragment`; make one with it, and move the data there")]
    Immobile,
    /// A protocol that this machine cannot run.
    #[error(
        "the protocol ffccd needs hardware that remembers which lines of a copy have persisted; \
         simulate it (`seawall compare --designs ffccd`), or take sfccd"
    )]
    Hardware,
    /// A form that has no thread of its own.
    #[error(
        "{way} moves objects without locked operations, under the locks of the program, whose \
         threads have to take the steps (`seawall compare --defragment {way}`); take {protocol} \
         for a thread that defragments"
    )]
    Unlocked {
        /// The way that was asked for.
        way: DefragOptions,
        /// Its protocol.
        protocol: Protocol,
    },
    /// The system cannot start a thread to defragment in.
    #[error(
        "no thread to defragment in ({why}); end other programs, or allow more memory and threads \
         (ulimit -v, ulimit -u)"
    )]
    NoThread {
        /// The error of the system.
        why: String,
    },
    /// An object whose pointers are not known.
    #[error(
        "there are objects of type {name}, which no pointer from the root's type leads to; name it \
         with Defragmenter::also, or describe it"
    )]
    UnknownType {
        /// The type.
        name: String,
    },
}

impl From<AccessError> for DefragError {
    fn from(error: AccessError) -> DefragError {
        DefragError::Heap(error.into())
    }
}

/// When a cycle begins, how far it goes, and how objects move.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct DefragOptions {
    /// A cycle begins at this number of bytes of pages per live byte, more than 1.
    pub trigger: f64,
    /// A cycle aims at this number: 1 to `trigger`.
    pub target: f64,
    /// The protocol that moves objects.
    pub protocol: Protocol,
    /// How they move.
    pub form: Manner,
    /// As published: the steps from one check, whether objects have moved, to the next.
    pub check_steps: u64,
}

impl Default for DefragOptions {
    /// The ratios of Redis, and of the paper's "normal".
    fn default() -> DefragOptions {
        let (protocol, form) = (Protocol::Sfccd, Manner::Ours);
        DefragOptions { trigger: 1.5, target: 1.25, protocol, form, check_steps: 1 }
    }
}

impl From<Protocol> for DefragOptions {
    /// The default options, with that protocol.
    fn from(protocol: Protocol) -> DefragOptions {
        DefragOptions { protocol, ..DefragOptions::default() }
    }
}

impl DefragOptions {
    /// The texts of all protocols, ours and as published, with the usual ratios.
    pub fn names() -> Vec<String> {
        let of = |form, protocol| DefragOptions { protocol, form, ..DefragOptions::default() };
        let all = [Manner::Ours, Manner::Published]
            .into_iter()
            .flat_map(|form| Protocol::ALL.map(|protocol| of(form, protocol).to_string()));
        all.collect()
    }

    /// Refuses ratios out of range.
    ///
    /// # Errors
    /// [`DefragError::Ratios`].
    pub fn check(&self) -> Result<(), DefragError> {
        let DefragOptions { trigger, target, .. } = *self;
        match trigger > 1.0 && target >= 1.0 && target <= trigger {
            true => Ok(()),
            false => Err(DefragError::Ratios { trigger, target }),
        }
    }
}

/// As in options and outputs: `sfccd` with the usual ratios, `sfccd:1.7:1.5` with others;
/// `sfccd-published` as published, and `sfccd-published:1.7:1.5:100` with checks each 100 steps.
impl fmt::Display for DefragOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let DefragOptions { trigger, target, protocol, form, check_steps } = *self;
        write!(f, "{protocol}{}", if form == Manner::Published { PUBLISHED } else { "" })?;
        if *self != (DefragOptions { protocol, form, ..DefragOptions::default() }) {
            write!(f, ":{trigger}:{target}")?;
        }
        if check_steps != DefragOptions::default().check_steps {
            write!(f, ":{check_steps}")?;
        }
        Ok(())
    }
}

/// A text that is no [`DefragOptions`].
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum DefragOptionsError {
    /// An unknown protocol.
    #[error(transparent)]
    Protocol(#[from] UnknownProtocol),
    /// Ratios out of range.
    #[error(transparent)]
    Ratios(#[from] DefragError),
    /// Something else than two ratios behind the protocol.
    #[error(
        "{0}: behind the protocol are two ratios of pages to live bytes, at which a cycle begins \
         and that it is to leave, as in sfccd:1.5:1.25; behind those, for a protocol as published, \
         the steps between two checks"
    )]
    Form(String),
}

impl FromStr for DefragOptions {
    type Err = DefragOptionsError;

    fn from_str(text: &str) -> Result<DefragOptions, DefragOptionsError> {
        let mut parts = text.split(':');
        let name = parts.next().unwrap_or_default();
        let (protocol, form) = match name.strip_suffix(PUBLISHED) {
            Some(protocol) => (protocol.parse()?, Manner::Published),
            None => (name.parse()?, Manner::Ours),
        };
        let mut options = DefragOptions { protocol, form, ..DefragOptions::default() };
        let rest: Vec<&str> = parts.collect();
        let wrong = || DefragOptionsError::Form(text.to_owned());
        if let [trigger, target, check @ ..] = &rest[..] {
            options.trigger = trigger.parse().map_err(|_| wrong())?;
            options.target = target.parse().map_err(|_| wrong())?;
            match check {
                [] => {}
                [steps] if form == Manner::Published => {
                    options.check_steps = steps.parse().map_err(|_| wrong())?;
                }
                _ => return Err(wrong()),
            }
        } else if !rest.is_empty() {
            return Err(wrong());
        }
        options.check()?;
        Ok(options)
    }
}

/// What cycles have done so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct DefragCounts {
    /// Cycles that moved objects and have ended.
    pub cycles: u64,
    /// Pages that were emptied.
    pub emptied: u64,
    /// Pages that were chosen and not emptied, because a thread wrote to them.
    pub touched: u64,
    /// Objects that cycles moved, without those that threads moved when they accessed them.
    pub moved: u64,
    /// Pointers that walks fixed up.
    pub healed: u64,
    /// Pages of 4 KiB that were returned to the system, some perhaps more than once.
    pub discarded: u64,
}
