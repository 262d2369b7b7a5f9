//! Options, counts and errors of defragmentation: the protocol that moves objects (FFCCD, ISCA'22,
//! section 3), how software copies them, and when a cycle begins.

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
    "unknown protocol {0}; it must be espresso, sfccd or ffccd, or, with copies as published, \
     espresso-cached or sfccd-cached"
)]
pub struct UnknownProtocol(String);

impl FromStr for Protocol {
    type Err = UnknownProtocol;

    fn from_str(text: &str) -> Result<Protocol, UnknownProtocol> {
        let found = Protocol::ALL.into_iter().find(|protocol| protocol.name() == text);
        found.ok_or_else(|| UnknownProtocol(text.to_owned()))
    }
}

/// How software copies objects.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Copies {
    /// By non-temporal stores, which fetch no line of the destination; `sfccd` copies up to eight
    /// objects a fence.
    #[default]
    PastCaches,
    /// As published, for comparison: by plain stores, with a flush of each line, one object a
    /// fence.
    Cached,
}

/// The suffix of a protocol's name for [`Copies::Cached`].
const CACHED: &str = "-cached";

impl Copies {
    /// Its bits in the word of the cycle.
    pub(crate) fn bits(self) -> u64 {
        u64::from(self == Copies::Cached) << 3
    }

    pub(crate) fn of_bits(bits: u64) -> Copies {
        if bits >> 3 & 1 == 1 { Copies::Cached } else { Copies::PastCaches }
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
    /// How objects are copied, if not by hardware.
    pub copies: Copies,
}

impl Default for DefragOptions {
    /// The ratios of Redis, and of the paper's "normal".
    fn default() -> DefragOptions {
        let (protocol, copies) = (Protocol::Sfccd, Copies::PastCaches);
        DefragOptions { trigger: 1.5, target: 1.25, protocol, copies }
    }
}

impl From<Protocol> for DefragOptions {
    /// The default options, with that protocol.
    fn from(protocol: Protocol) -> DefragOptions {
        DefragOptions { protocol, ..DefragOptions::default() }
    }
}

impl DefragOptions {
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
/// `sfccd-cached` with copies through the caches.
impl fmt::Display for DefragOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let DefragOptions { trigger, target, protocol, copies } = *self;
        write!(f, "{protocol}{}", if copies == Copies::Cached { CACHED } else { "" })?;
        match *self == (DefragOptions { protocol, copies, ..DefragOptions::default() }) {
            true => Ok(()),
            false => write!(f, ":{trigger}:{target}"),
        }
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
         and that it is to leave, as in sfccd:1.5:1.25"
    )]
    Form(String),
}

impl FromStr for DefragOptions {
    type Err = DefragOptionsError;

    fn from_str(text: &str) -> Result<DefragOptions, DefragOptionsError> {
        let mut parts = text.split(':');
        let name = parts.next().unwrap_or_default();
        let (protocol, copies) = match name.strip_suffix(CACHED) {
            Some(protocol) => (protocol.parse()?, Copies::Cached),
            None => (name.parse()?, Copies::PastCaches),
        };
        if protocol == Protocol::Ffccd && copies == Copies::Cached {
            return Err(UnknownProtocol(name.to_owned()).into());
        }
        let mut options = DefragOptions { protocol, copies, ..DefragOptions::default() };
        let ratios: Vec<Option<f64>> = parts.map(|part| part.parse().ok()).collect();
        match ratios[..] {
            [] => {}
            [Some(trigger), Some(target)] => {
                (options.trigger, options.target) = (trigger, target);
            }
            _ => return Err(DefragOptionsError::Form(text.to_owned())),
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
