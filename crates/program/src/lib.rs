//! Runs compiled programs of others on the machines of seawall.
//!
//! [`Run`] starts a process for one run of a program that `seawall cc` has compiled. In that
//! process [`serve`] loads the program and simulates it: each of its instructions that touches
//! memory comes here first (`entries`, `events`), and what it reads is what the machine says
//! (`values`).
//!
//! It is not an emulator: the program's instructions run on the host's processor. And it is not a
//! sandbox: the program may do what its user may do.

mod calls;
mod entries;
mod events;
mod explore;
mod failure;
mod faults;
mod image;
mod lifecycle;
mod locals;
mod machine;
mod masks;
mod pages;
mod parts;
mod process;
mod profile;
mod regions;
mod registers;
mod request;
mod runtime;
mod spawn;
mod stacks;
mod sweep;
mod system_calls;
mod threads;
mod unseen;
mod values;
mod watch;

pub use explore::{ExploredProgram, Half, ProgramAndCheck, SiteLines};
pub use process::{check, serve};
pub use request::{
    Answer, BrokenCrash, CodeAddress, CrashAfter, Fences, From, Judge, Persistent, Place,
    PlaceTime, Ran, Request, Start, UnseenStore,
};
pub use spawn::{ProgramError, Run, run, serve_by, server};
