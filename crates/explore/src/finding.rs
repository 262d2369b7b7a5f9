//! A failing image in words, and the string that builds it again.

use crate::crashed::Cursor;
use crate::models::{Cut, Model, UnknownModel};
use crate::search::{Check, Search, verdict};
use crate::shrink::describe;
use crate::trace::{Event, Store, Trace};
use crate::walk::Walk;
use seawall_memory::Line;
use serde::{Serialize, Serializer};
use std::fmt;
use std::str::FromStr;

/// Stores of each kind that the text form lists before it only counts.
const LISTED: usize = 8;

/// One image of one run: where power failed, and which lines lost how many of their last stores.
///
/// As text `MODEL/EVENT/LOST`, LOST being `LINE-STORES` joined by dots (lines in hexadecimal), or
/// `none`: `px86/345/40-2.41-1`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Choice {
    /// The model that allows the image.
    pub model: Model,
    /// Events that took effect before the crash.
    pub event: usize,
    /// Lines that lost stores, and how many each, in order of address.
    pub lost: Vec<(Line, u32)>,
}

/// Why a choice gives no image.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ReplayError {
    /// Not the text of a choice.
    #[error("`{0}` is no replay string: it should look like px86/345/40-2.41-1")]
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

impl fmt::Display for Choice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}/", self.model, self.event)?;
        if self.lost.is_empty() {
            return f.write_str("none");
        }
        for (index, (line, stores)) in self.lost.iter().enumerate() {
            let dot = if index == 0 { "" } else { "." };
            write!(f, "{dot}{:x}-{stores}", line.0)?;
        }
        Ok(())
    }
}

impl FromStr for Choice {
    type Err = ReplayError;

    fn from_str(text: &str) -> Result<Choice, ReplayError> {
        let malformed = || ReplayError::Malformed(text.into());
        let mut parts = text.split('/');
        let (Some(model), Some(event), Some(lost), None) =
            (parts.next(), parts.next(), parts.next(), parts.next())
        else {
            return Err(malformed());
        };
        let model = model.parse()?;
        let event = event.parse().map_err(|_| malformed())?;
        let one = |part: &str| {
            let (line, stores) = part.split_once('-')?;
            Some((Line(u64::from_str_radix(line, 16).ok()?), stores.parse().ok()?))
        };
        let lost = match lost {
            "none" => Some(Vec::new()),
            _ => lost.split('.').map(one).collect(),
        };
        Ok(Choice { model, event, lost: lost.ok_or_else(malformed)? })
    }
}

impl Serialize for Choice {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// A store, in words.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct StoreNote {
    /// Where, as `pm:0x..`.
    pub address: String,
    /// How many bytes.
    pub bytes: u64,
    /// What was there before.
    pub old: u64,
    /// What it wrote.
    pub new: u64,
    /// Thread that stored.
    pub thread: u16,
    /// Operation of that thread, from 0.
    pub operation: u32,
    /// The call, as file:line.
    pub place: String,
}

/// What a thread was doing when power failed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct InFlight {
    /// The thread.
    pub thread: usize,
    /// Its operations whose output had been seen; so the number of the one in flight.
    pub operation: u64,
    /// The last call that took effect, as file:line; empty if there was none.
    pub place: String,
}

/// An image that the check refuses.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// Builds the image again.
    pub choice: Choice,
    /// What the check said.
    pub message: String,
    /// Events of the whole run.
    pub events: usize,
    /// The thread of the last event before the crash; its call is where power failed.
    pub last_thread: Option<u16>,
    /// Every thread at the crash.
    pub in_flight: Vec<InFlight>,
    /// Stores before the crash that are not in the image, in the order of the run.
    pub lost: Vec<StoreNote>,
    /// Stores that are in the image though an earlier one is lost, and without which the check is
    /// content, in the order of the run.
    pub early: Vec<StoreNote>,
    /// Other stores that are in the image though an earlier one is lost.
    pub early_others: usize,
}

fn place(event: &Event) -> String {
    format!("{}:{}", event.at.file(), event.at.line())
}

fn note(trace: &Trace, store: &Store) -> StoreNote {
    let event = &trace.events[store.event as usize];
    StoreNote {
        address: store.at.to_string(),
        bytes: store.width.bytes(),
        old: store.old,
        new: store.new,
        thread: event.thread,
        operation: event.operation,
        place: place(event),
    }
}

impl Finding {
    pub(crate) fn describe(walk: &Walk<'_>, cut: &Cut, decisive: &Cut, message: String) -> Finding {
        let trace = walk.trace;
        let done = &trace.events[..walk.point.event];
        let mut rank = vec![0; trace.lines.len()];
        let (mut lost, mut early, mut early_others) = (Vec::new(), Vec::new(), 0);
        for store in done.iter().filter_map(|event| event.kind.store()) {
            let store = &trace.stores[store as usize];
            let rank = &mut rank[store.line as usize];
            *rank += 1;
            if *rank > cut.get(store.line) {
                lost.push(note(trace, store));
            } else if !lost.is_empty() && *rank > decisive.get(store.line) {
                early_others += 1;
            } else if !lost.is_empty() {
                early.push(note(trace, store));
            }
        }
        let mut lines: Vec<(Line, u32)> = Vec::new();
        for (index, log) in trace.lines.iter().enumerate() {
            let gone = walk.stored.get(index as u32) - cut.get(index as u32);
            if gone > 0 {
                lines.push((log.line, gone));
            }
        }
        lines.sort_unstable();
        let in_flight = (0..trace.threads).map(|thread| InFlight {
            thread,
            operation: walk.point.outputs[thread],
            place: done
                .iter()
                .rfind(|e| usize::from(e.thread) == thread)
                .map_or(String::new(), place),
        });
        Finding {
            choice: Choice { model: walk.model, event: walk.point.event, lost: lines },
            message,
            events: trace.events.len(),
            last_thread: done.last().map(|event| event.thread),
            in_flight: in_flight.collect(),
            lost,
            early,
            early_others,
        }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}", self.message)?;
        let (event, model) = (self.choice.event, self.choice.model);
        writeln!(f, "  power fails after event {event} of {} (model {model})", self.events)?;
        for InFlight { thread, operation, place } in &self.in_flight {
            let last = self.last_thread.is_some_and(|last| usize::from(last) == *thread);
            let here = if last { ", the last to act," } else { "" };
            match place.as_str() {
                "" => writeln!(f, "    thread {thread} has not begun")?,
                _ => writeln!(f, "    thread {thread}{here} in operation {operation}, at {place}")?,
            }
        }
        list(f, "lost: stored before the crash, not durable", &self.lost)?;
        list(f, "early: durable, stored after a lost one, and it matters", &self.early)?;
        match self.early_others {
            0 => Ok(()),
            more => writeln!(f, "    ({more} more stores are early and make no difference)"),
        }
    }
}

fn list(f: &mut fmt::Formatter<'_>, title: &str, stores: &[StoreNote]) -> fmt::Result {
    if stores.is_empty() {
        return Ok(());
    }
    writeln!(f, "  {title}:")?;
    for store in stores.iter().take(LISTED) {
        let StoreNote { address, bytes, old, new, thread, operation, place } = store;
        writeln!(
            f,
            "    {address} ({bytes} bytes) {old:#x} -> {new:#x}, \
             thread {thread} operation {operation}, {place}"
        )?;
    }
    match stores.len().saturating_sub(LISTED) {
        0 => Ok(()),
        more => writeln!(f, "    and {more} more"),
    }
}

/// Builds the one image that `choice` names, checks it, and describes it if it fails.
///
/// # Errors
/// When the run cannot leave such an image, so it is not the run that the choice was made from.
pub fn replay(
    trace: &Trace,
    options: &Search,
    choice: &Choice,
    check: &Check<'_>,
) -> Result<Option<Finding>, ReplayError> {
    let other = |why: String| ReplayError::OtherRun { choice: choice.to_string(), why };
    if choice.event > trace.events.len() {
        return Err(other(format!("it has {} events", trace.events.len())));
    }
    let mut walk = Walk::new(trace, choice.model);
    walk.advance_to(choice.event);
    let mut cut = walk.stored.clone();
    for &(line, stores) in &choice.lost {
        let index = trace.find_line(line).ok_or_else(|| other(format!("{line:?} is not in it")))?;
        let kept = walk.stored.get(index).checked_sub(stores);
        let kept = kept.ok_or_else(|| other(format!("{line:?} has fewer stores")))?;
        cut.set(index, kept);
    }
    if !walk.state.allows(&cut) {
        return Err(other(format!("{} forbids it", choice.model)));
    }
    let mut cursor = Cursor::new(trace, options.steps);
    cursor.move_to(&cut);
    let said = verdict(&mut cursor, check, &walk.point);
    Ok(said.err().map(|message| describe(&walk, &mut cursor, check, &cut, message)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_choice_survives_being_printed() {
        for text in ["px86/345/40-2.41-1", "bep/0/none"] {
            assert_eq!(text.parse::<Choice>().unwrap().to_string(), text);
        }
    }

    #[test]
    fn a_malformed_choice_is_an_error_that_says_so() {
        for text in ["", "px86", "px86/x/none", "px86/1/zz-1", "px86/1/1", "px86/1/none/2"] {
            assert!(text.parse::<Choice>().is_err(), "{text}");
        }
        assert!(matches!("tso/1/none".parse::<Choice>(), Err(ReplayError::Model(_))));
    }
}
