//! Where early cleaning learns which lines were stored to: by what passes the handles, over any
//! [`Memory`](seawall_memory::Memory) ([`EarlyStores`]), or by what a pool's machine says
//! ([`EarlySource`]). The paper (PACT'20) samples stores by hardware counters; both have that.

use super::{RibbonOptions, RibbonPoolError};
use seawall_memory::{Handles, StoreSource};
use std::fmt;
use std::str::FromStr;

/// From a sampled store to the next, by default: the paper does not say. Chosen once, as
/// the least power of four at which sampling slowed none of four programs by more than a tenth
/// (`validation/DEVIATIONS.md`); others it slows more.
pub const SAMPLE_EVERY: u32 = 256;
/// The longest such period.
pub const SAMPLE_EVERY_MAX: u32 = 1 << 20;

/// Which stores early cleaning sees, of those that pass the threads' handles.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub enum EarlyStores {
    /// None: nothing is cleaned early.
    #[default]
    None,
    /// All. A flush of a line that is known to be clean is left out. The price is a look at the
    /// owner table for each line stored, by all threads while one of them does it.
    Hook,
    /// Samples, as the paper takes them by hardware counters. No flush is left out; that of a line
    /// which was cleaned may be cheaper. Costs the thread what a record of such a counter does on
    /// processors, by [`Memory::work`](seawall_memory::Memory::work), and nothing while it is off.
    Samples {
        /// Of how many stores to persistent memory one is sampled, on the mean: 1 to
        /// [`SAMPLE_EVERY_MAX`].
        every: u32,
    },
}

/// `none`, `hook`, `samples`, or `samples:16` with a period other than [`SAMPLE_EVERY`].
impl fmt::Display for EarlyStores {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            EarlyStores::None => f.write_str("none"),
            EarlyStores::Hook => f.write_str("hook"),
            EarlyStores::Samples { every: SAMPLE_EVERY } => f.write_str("samples"),
            EarlyStores::Samples { every } => write!(f, "samples:{every}"),
        }
    }
}

/// A text that names no [`EarlyStores`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "'{0}' names no stores for early cleaning; valid: none, hook, samples, samples:1 to \
         samples:{SAMPLE_EVERY_MAX}"
)]
pub struct UnknownEarlyStores(String);

impl FromStr for EarlyStores {
    type Err = UnknownEarlyStores;

    fn from_str(text: &str) -> Result<EarlyStores, UnknownEarlyStores> {
        let period = |digits: &str| digits.parse().ok().filter(|every| is_period(*every));
        match (text, text.strip_prefix("samples:").and_then(period)) {
            ("none", _) => Ok(EarlyStores::None),
            ("hook", _) => Ok(EarlyStores::Hook),
            ("samples", _) => Ok(EarlyStores::Samples { every: SAMPLE_EVERY }),
            (_, Some(every)) => Ok(EarlyStores::Samples { every }),
            _ => Err(UnknownEarlyStores(text.to_owned())),
        }
    }
}

fn is_period(every: u32) -> bool {
    (1..=SAMPLE_EVERY_MAX).contains(&every)
}

/// Where early cleaning of a pool learns which lines were stored to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum EarlySource {
    /// The first of [`StoreSource::ALL`] that the machine has, else the hook. Soft-dirty marks are
    /// taken off all pages of the process, which other users of them in it would notice.
    Auto,
    /// The machine, by that source and no other. Its lines are flushed ahead; the program's own
    /// flush of them still runs, and may be cheaper.
    Machine(StoreSource),
    /// The program's handles, which see each store. A flush of a line that is known to be clean is
    /// left out: no other source can know that.
    Hook,
}

impl EarlySource {
    /// All of them, as [`Auto`](EarlySource::Auto) tries them.
    pub const ALL: [EarlySource; 5] = [
        EarlySource::Auto,
        EarlySource::Machine(StoreSource::Samples),
        EarlySource::Machine(StoreSource::Pages),
        EarlySource::Machine(StoreSource::SoftDirty),
        EarlySource::Hook,
    ];

    /// The name used on the command line and in every output.
    pub const fn name(self) -> &'static str {
        match self {
            EarlySource::Auto => "auto",
            EarlySource::Machine(source) => source.name(),
            EarlySource::Hook => "hook",
        }
    }
}

impl fmt::Display for EarlySource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A Ribbon whose lines are cleaned early, as an option of a pool: [`RibbonOptions::early`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EarlyRibbon {
    pub(super) options: RibbonOptions,
    pub(super) source: EarlySource,
}

impl RibbonOptions {
    /// With lines cleaned before their flush is asked for, if `source` says that they were stored
    /// to; where that pays, in mode auto. For pools: what simulated machines have is in the field
    /// `early`.
    #[must_use]
    pub fn early(self, source: EarlySource) -> EarlyRibbon {
        EarlyRibbon { options: self, source }
    }
}

/// Which source was taken, and why none before it was.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Taken {
    /// It: never [`EarlySource::Auto`].
    pub source: EarlySource,
    /// Those that were asked before it, with their answers.
    pub refused: Vec<(StoreSource, String)>,
}

impl Taken {
    /// Asks the machine of `pool`.
    pub(super) fn of(source: EarlySource, pool: &impl Handles) -> Result<Taken, RibbonPoolError> {
        let ask = |source| pool.recent_stores(source).map(drop);
        match source {
            EarlySource::Hook => Ok(Taken { source, refused: Vec::new() }),
            EarlySource::Machine(asked) => match ask(asked) {
                Ok(()) => Ok(Taken { source, refused: Vec::new() }),
                Err(why) => {
                    let others = StoreSource::ALL.into_iter().filter(|other| *other != asked);
                    let there = others.filter(|other| ask(*other).is_ok());
                    let there: String = there.map(|other| format!("{other}, ")).collect();
                    Err(RibbonPoolError::Source { asked, why, there: there + "hook" })
                }
            },
            EarlySource::Auto => {
                let mut refused = Vec::new();
                for source in StoreSource::ALL {
                    match ask(source) {
                        Ok(()) => {
                            return Ok(Taken { source: EarlySource::Machine(source), refused });
                        }
                        Err(why) => refused.push((source, why)),
                    }
                }
                Ok(Taken { source: EarlySource::Hook, refused })
            }
        }
    }
}

impl fmt::Display for Taken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.source)?;
        self.refused.iter().try_for_each(|(source, why)| write!(f, "; not {source}: {why}"))
    }
}
