//! Options, counts and errors of defragmentation: the protocol that moves objects (FFCCD, ISCA'22,
//! section 3), how software copies them, and when a cycle begins.

use crate::HeapError;
use std::fmt;
use std::str::FromStr;

/// How an object is moved, so that no crash loses it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Protocol {
    /// Two fences: when the copy is written, and when it is said to be (Espresso, ASPLOS'18).
    Espresso,
    /// One fence: when the copy is written. That it is said to be is durable with the next fence
    /// of whoever changes it (SFCCD, with its fence in another place; see `moves`).
    #[default]
    Sfccd,
    /// None: the hardware remembers which lines of a copy have persisted. Needs
    /// a [relocation unit](seawall_memory::Memory::relocation).
    Ffccd,
}

impl Protocol {
    /// All of them, the slowest first.
    pub const ALL: [Protocol; 3] = [Protocol::Espresso, Protocol::Sfccd, Protocol::Ffccd];

    /// Its name, as in options and outputs.
    pub const fn name(self) -> &'static str {
        match self {
            Protocol::Espresso => "espresso",
            Protocol::Sfccd => "sfccd",
            Protocol::Ffccd => "ffccd",
        }
    }

    /// What a pool says of it. (2 was one fence behind the byte.)
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

/// A name that is no protocol's.
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
    /// By non-temporal stores, which fetch no line of the destination; those of `sfccd` up to eight
    /// a fence.
    #[default]
    PastCaches,
    /// As published, to compare with: by plain stores, with a flush of each line, one a fence.
    Cached,
}

/// Behind the name of a protocol, for [`Copies::Cached`].
const CACHED: &str = "-cached";

impl Copies {
    /// What threads are told of a cycle's.
    pub(crate) fn bits(self) -> u64 {
        u64::from(self == Copies::Cached) << 3
    }

    pub(crate) fn of_bits(bits: u64) -> Copies {
        if bits >> 3 & 1 == 1 { Copies::Cached } else { Copies::PastCaches }
    }
}

/// Why nothing is moved.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum DefragError {
    /// Something about the heap.
    #[error(transparent)]
    Heap(#[from] HeapError),
    /// Options that make no sense.
    #[error(
        "trigger {trigger} and target {target}; the trigger must be more than 1, and the target 1 \
         to the trigger"
    )]
    Ratios {
        /// Bytes of pages a live byte at which a cycle begins.
        trigger: f64,
        /// Those that it is to leave.
        target: f64,
    },
    /// A heap whose objects do not move.
    #[error("the heap was made without `defragment`; make one with it, and move the data there")]
    Immobile,
    /// A protocol that this machine cannot run.
    #[error(
        "the protocol ffccd needs hardware that remembers which lines of a copy have persisted; \
         simulate it (`seawall compare --designs ffccd`), or take sfccd"
    )]
    Hardware,
    /// The system has no thread to defragment in.
    #[error(
        "no thread to defragment in ({why}); end other programs, or allow more memory and threads \
         (ulimit -v, ulimit -u)"
    )]
    NoThread {
        /// What the system said.
        why: String,
    },
    /// An object whose pointers are not known.
    #[error(
        "there are objects of type {name}, which no pointer from the root's type leads to; name it \
         with Defragmenter::also"
    )]
    UnknownType {
        /// The type.
        name: String,
    },
}

/// When a cycle begins, how far it goes, and how objects move.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct DefragOptions {
    /// A cycle begins when there are so many bytes of pages for each live byte, more than 1.
    pub trigger: f64,
    /// And is to leave so many: 1 to `trigger`.
    pub target: f64,
    /// How objects move.
    pub protocol: Protocol,
    /// How they are copied, if not by hardware.
    pub copies: Copies,
}

impl Default for DefragOptions {
    /// As Redis has it, and the paper's "normal".
    fn default() -> DefragOptions {
        let (protocol, copies) = (Protocol::Sfccd, Copies::PastCaches);
        DefragOptions { trigger: 1.5, target: 1.25, protocol, copies }
    }
}

impl From<Protocol> for DefragOptions {
    /// The usual ones.
    fn from(protocol: Protocol) -> DefragOptions {
        DefragOptions { protocol, ..DefragOptions::default() }
    }
}

impl DefragOptions {
    /// Refuses ratios that make no sense.
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

/// A text that says no way to defragment.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum DefragOptionsError {
    /// The protocol.
    #[error(transparent)]
    Protocol(#[from] UnknownProtocol),
    /// The ratios.
    #[error(transparent)]
    Ratios(#[from] DefragError),
    /// What is behind the protocol.
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
    /// Cycles that have ended, of those that moved objects.
    pub cycles: u64,
    /// Pages that were emptied.
    pub emptied: u64,
    /// Pages that were to be emptied and stayed as they were: somebody wrote to them.
    pub touched: u64,
    /// Objects that cycles moved in passing; those that somebody needed are not among them.
    pub moved: u64,
    /// Pointers that walks brought up to date.
    pub healed: u64,
    /// Pages of 4 KiB that were given back to the system, some perhaps more than once.
    pub discarded: u64,
}
