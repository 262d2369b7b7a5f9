//! The string that names one image of one run, and is enough to build it again.

use crate::crash::{Crash, stored};
use crate::schedule::TurnsName;
use crate::trace::Trace;
use seawall_memory::{Line, Model, UnknownModel};
use serde::{Serialize, Serializer};
use std::fmt;
use std::str::FromStr;

/// One image of one run: where power failed, and which lines lost how many of their last stores.
///
/// As text `MODEL/EVENT/LOST`, LOST being `LINE-STORES` joined by dots (lines in hexadecimal), or
/// `none`: `px86/345/40-2.41-1`; `41w3-1` is one store of word 3 of a line. When power fails again
/// during recovery, `/EVENT/LOST` of the recovery follows. `~CALL.THREAD`, several joined by `_`,
/// behind LOST are the turns of a recovery by several threads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CrashPath {
    /// The model that allows the image.
    pub model: Model,
    /// The crash of the run, then those of the recoveries.
    pub crashes: Vec<CrashChoice>,
}

/// One crash of a [`CrashPath`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CrashChoice {
    /// Events of the run, or of recovery, that took effect before the crash.
    pub event: usize,
    /// Lines that lost stores, and how many each, in order of address; of a line whose words
    /// persist on their own, the number of the word.
    pub lost: Vec<(Line, Option<u8>, u32)>,
    /// Calls of the recovery after it before which another thread than the usual one goes on, and
    /// which, if it runs several.
    pub turns: Vec<(u32, u16)>,
}

/// Why a choice leads to no image.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ReplayError {
    /// Not the text of a choice.
    #[error("`{0}` is no replay string: take the one behind `replay:`, as it was printed")]
    Malformed(String),
    /// The model is not known.
    #[error(transparent)]
    Model(#[from] UnknownModel),
    /// The run has no such image.
    #[error(
        "the run cannot leave the image {choice} ({why}): replay it with the options and the \
         version of the program that printed it"
    )]
    OtherRun {
        /// As given.
        choice: String,
        /// What does not fit.
        why: String,
    },
}

/// The turns and the image in `TURNS/MODEL/EVENT/LOST`, as [`Finding::replay`](crate::Finding)
/// makes it.
///
/// # Errors
/// When it is no such string.
pub fn parse_replay(text: &str) -> Result<(TurnsName, CrashPath), ReplayError> {
    let malformed = || ReplayError::Malformed(text.into());
    let (turns, choice) = text.split_once('/').ok_or_else(malformed)?;
    Ok((turns.parse().map_err(|()| malformed())?, choice.parse()?))
}

impl fmt::Display for CrashPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.model)?;
        for CrashChoice { event, lost, turns } in &self.crashes {
            write!(f, "/{event}/")?;
            if lost.is_empty() {
                f.write_str("none")?;
            }
            for (index, (line, word, stores)) in lost.iter().enumerate() {
                let dot = if index == 0 { "" } else { "." };
                write!(f, "{dot}{:x}", line.0)?;
                if let Some(word) = word {
                    write!(f, "w{word}")?;
                }
                write!(f, "-{stores}")?;
            }
            for (index, (call, thread)) in turns.iter().enumerate() {
                write!(f, "{}{call}.{thread}", if index == 0 { "~" } else { "_" })?;
            }
        }
        Ok(())
    }
}

impl FromStr for CrashPath {
    type Err = ReplayError;

    fn from_str(text: &str) -> Result<CrashPath, ReplayError> {
        let malformed = || ReplayError::Malformed(text.into());
        let (model, crashes) = text.split_once('/').ok_or_else(malformed)?;
        let model = model.parse()?;
        let parts: Vec<&str> = crashes.split('/').collect();
        let (pairs, []) = parts.as_chunks() else { return Err(malformed()) };
        let crashes: Option<Vec<CrashChoice>> =
            pairs.iter().map(|[event, lost]| CrashChoice::parse(event, lost)).collect();
        Ok(CrashPath { model, crashes: crashes.ok_or_else(malformed)? })
    }
}

impl CrashChoice {
    fn parse(event: &str, lost: &str) -> Option<CrashChoice> {
        let one = |part: &str| {
            let (line, stores) = part.split_once('-')?;
            let (line, word) = match line.split_once('w') {
                Some((line, word)) => (line, Some(word.parse().ok().filter(|word| *word < 8)?)),
                None => (line, None),
            };
            Some((Line(u64::from_str_radix(line, 16).ok()?), word, stores.parse().ok()?))
        };
        let turn = |part: &str| {
            let (call, thread) = part.split_once('.')?;
            Some((call.parse().ok()?, thread.parse().ok()?))
        };
        let (lost, turns) = match lost.split_once('~') {
            Some((lost, turns)) => (lost, turns.split('_').map(turn).collect::<Option<_>>()?),
            None => (lost, Vec::new()),
        };
        let lost = match lost {
            "none" => Vec::new(),
            _ => lost.split('.').map(one).collect::<Option<Vec<_>>>()?,
        };
        Some(CrashChoice { event: event.parse().ok()?, lost, turns })
    }

    /// The crash in short form: what it lost of what the trace had stored.
    pub(crate) fn of(trace: &Trace, crash: &Crash) -> CrashChoice {
        let stored = stored(trace, crash.event);
        let gone = trace.lines.iter().zip(0..).filter_map(|(log, line)| {
            let gone = stored.get(line) - crash.cut.get(line);
            (gone > 0).then_some((log.line, log.lane, gone))
        });
        let mut lost: Vec<_> = gone.collect();
        lost.sort_unstable();
        CrashChoice { event: crash.event, lost, turns: crash.turns.clone() }
    }

    /// The crash of this trace, or why it cannot be one.
    pub(crate) fn crash_of(&self, trace: &Trace) -> Result<Crash, String> {
        let events = trace.events.len();
        if self.event > events {
            return Err(format!("it has {events} events"));
        }
        let mut cut = stored(trace, self.event);
        for &(line, word, stores) in &self.lost {
            let index = trace.find_line(line).ok_or_else(|| format!("{line:?} is not in it"))?;
            let index = index + u32::from(word.unwrap_or(0));
            if trace.lines.get(index as usize).is_none_or(|log| log.lane != word) {
                return Err(format!("{line:?} has no word that persists on its own"));
            }
            let kept = cut.get(index).checked_sub(stores);
            cut.set(index, kept.ok_or_else(|| format!("{line:?} has fewer stores"))?);
        }
        Ok(Crash { event: self.event, cut, turns: self.turns.clone() })
    }
}

impl Serialize for CrashPath {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_choice_survives_being_printed() {
        for text in
            ["px86/345/40-2.41w3-1", "bep/0/none", "px86/7/1-1/12/none/3/2-2", "bep/7/1-1~4.1_9.0"]
        {
            assert_eq!(text.parse::<CrashPath>().unwrap().to_string(), text);
        }
    }

    #[test]
    fn a_malformed_choice_is_an_error_that_says_so() {
        for text in ["", "px86", "px86/x/none", "px86/1/zz-1", "px86/1/1", "px86/1/none/2", "px86/"]
        {
            assert!(text.parse::<CrashPath>().is_err(), "{text}");
        }
        assert!(matches!("tso/1/none".parse::<CrashPath>(), Err(ReplayError::Model(_))));
    }
}
