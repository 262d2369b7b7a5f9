//! Every memory image that a crash may leave, and the recovery run on each.
//!
//! A program written against [`Memory`](seawall_memory::Memory) runs once on [`Traced`], which
//! records what it does. A persistency [`Model`] says which images a crash at any moment of that
//! run may leave; [`search()`] runs a check (recovery, then invariants) on them in one process, the
//! telling ones first, and makes the first failing one small. [`replay()`] builds it again.
//!
//! With several threads, [`Schedules`] runs the program under every schedule up to bounds: so many
//! interruptions, and so many delays in store buffers. It is no proof beyond these bounds, nor for
//! other inputs; what was covered is said in words ([`Tried`], [`SearchOutcome`]).
//!
//! ```
//! use seawall_explore::{CrashImage, Model, Schedule, Search, check, record, search};
//! use seawall_memory::{Addr, Image, Memory, MemoryExt};
//!
//! const DATA: Addr = Addr::pm(64);
//! const FLAG: Addr = Addr::pm(128);
//! let run = record(Image::new(4096, 0), &Schedule::default(), |memory| {
//!     memory.store(DATA, 7u64);
//!     memory.flush(DATA, 8); // forgot: memory.order()
//!     memory.store(FLAG, 1u64);
//!     memory.persist(FLAG, 8);
//! })?;
//! let recover = |image: &CrashImage| match image.load::<u64>(FLAG) {
//!     1 if image.load::<u64>(DATA) != 7 => Err("flag without data".into()),
//!     flag => Ok(flag),
//! };
//! let outcome = search(&run, &Search::new(Model::Px86), &check(recover, |_, _| Ok(())));
//! let finding = outcome.finding.expect("a crash can keep the flag and lose the data");
//! assert_eq!(finding.choice.to_string(), "px86/3/1-1");
//! # Ok::<(), seawall_explore::RunError>(())
//! ```

#![forbid(unsafe_code)]

mod access;
mod ahead;
mod below;
mod check;
mod combining;
mod covered;
mod crash;
mod crashed;
mod crashed_programs;
mod crew;
mod dispatch;
mod finding;
mod guard;
mod images;
mod interleavings;
pub mod litmus;
mod lost;
mod models;
mod open;
mod options;
mod outcome;
mod phases;
mod places;
mod prefixes;
mod reached;
mod recorder;
mod recovered;
mod recoveries;
mod relocated;
mod replay;
mod replay_string;
mod run;
mod schedule;
mod scope;
mod search;
mod shrink;
mod site;
mod spare;
mod together;
mod trace;
mod traced;
mod traced_programs;
mod tree;
mod verdict;
mod visible;
mod waiting;
mod walk;
mod waste;
mod wide;
mod words;

pub use check::{Check, check};
pub use covered::{Covered, Estimate, Machines, Silence};
pub use crashed::CrashImage;
pub use finding::{CutRecovery, EventNote, Finding, InFlight, StoreNote, TIMELINE, TurnNote};
pub use images::reachable;
pub use interleavings::{Interleavings, Schedules, Tried};
pub use options::Search;
pub use outcome::{PointsTried, Reached, SearchOutcome};
pub use recorder::{Recorder, record};
pub use recovered::RecoveryStep;
pub use recoveries::Recoveries;
pub use replay::replay;
pub use replay_string::{CrashChoice, CrashPath, ReplayError, parse_replay};
pub use run::RunError;
pub use schedule::{Departure, DepartureKind, Schedule, Turns, TurnsName};
pub use scope::{FailedRun, Onlooker, Recorded, Scope, explore};
pub use search::{search, search_on, search_watched};
pub use seawall_memory::{Model, UnknownModel};
pub use site::{Site, SourceLine};
pub use together::{RECOVERY_THREADS_MAX, RecoveryThread};
pub use trace::{Event, Kind, Store, Trace};
pub use traced::Traced;
pub use walk::{CrashPoint, Told};
pub use waste::{Waste, WasteKind, waste};
