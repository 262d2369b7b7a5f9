//! Where early cleaning learns which lines were stored to: chosen with the pool's other options.

use super::{RibbonOptions, RibbonPoolError};
use seawall_memory::{Handles, StoreSource};
use std::fmt;

/// Where early cleaning learns which lines were stored to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Source {
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

impl Source {
    /// All of them, as [`Auto`](Source::Auto) tries them.
    pub const ALL: [Source; 5] = [
        Source::Auto,
        Source::Machine(StoreSource::Samples),
        Source::Machine(StoreSource::Pages),
        Source::Machine(StoreSource::SoftDirty),
        Source::Hook,
    ];

    /// The name used on the command line and in every output.
    pub const fn name(self) -> &'static str {
        match self {
            Source::Auto => "auto",
            Source::Machine(source) => source.name(),
            Source::Hook => "hook",
        }
    }
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A Ribbon whose lines are cleaned early, as an option of a pool: [`RibbonOptions::early`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EarlyRibbon {
    pub(super) options: RibbonOptions,
    pub(super) source: Source,
}

impl RibbonOptions {
    /// With lines cleaned before their flush is asked for, if `source` says that they were stored
    /// to; where that pays, in mode auto. For pools: a simulated machine has the hook only, by the
    /// field `early`.
    #[must_use]
    pub fn early(self, source: Source) -> EarlyRibbon {
        EarlyRibbon { options: self, source }
    }
}

/// Which source was taken, and why none before it was.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Taken {
    /// It: never [`Source::Auto`].
    pub source: Source,
    /// Those that were asked before it, with their answers.
    pub refused: Vec<(StoreSource, String)>,
}

impl Taken {
    /// Asks the machine of `pool`.
    pub(super) fn of(source: Source, pool: &impl Handles) -> Result<Taken, RibbonPoolError> {
        let ask = |source| pool.recent_stores(source).map(drop);
        match source {
            Source::Hook => Ok(Taken { source, refused: Vec::new() }),
            Source::Machine(asked) => match ask(asked) {
                Ok(()) => Ok(Taken { source, refused: Vec::new() }),
                Err(why) => {
                    let others = StoreSource::ALL.into_iter().filter(|other| *other != asked);
                    let there = others.filter(|other| ask(*other).is_ok());
                    let there: String = there.map(|other| format!("{other}, ")).collect();
                    Err(RibbonPoolError::Source { asked, why, there: there + "hook" })
                }
            },
            Source::Auto => {
                let mut refused = Vec::new();
                for source in StoreSource::ALL {
                    match ask(source) {
                        Ok(()) => return Ok(Taken { source: Source::Machine(source), refused }),
                        Err(why) => refused.push((source, why)),
                    }
                }
                Ok(Taken { source: Source::Hook, refused })
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
