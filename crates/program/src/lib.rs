//! Runs compiled programs of others on the machines of seawall.
//!
//! [`Run`] starts a process for one run of a program that `seawall cc` has compiled. In that
//! process [`serve`] loads the program and simulates it: each of its instructions that touches
//! memory comes here first (`process/entries.rs`, `events.rs`), and what it reads is what the
//! machine says (`values.rs`).
//!
//! What is in `process` is written for x86-64; on other processors [`serve`] says so and ends. All
//! else, the side that asks, is the same everywhere.
//!
//! Each such process has a keeper (`kept.rs`), and so have the folders of the process that asks
//! (`folder/keeper.rs`), so that nothing of a program stays behind. What waits or copies looks at a
//! [`Limit`].
//!
//! It is not an emulator: the program's instructions run on the host's processor. And it is not a
//! sandbox: the program may do what its user may do.

mod explore;
mod folder;
mod kept;
mod limit;
#[cfg(not(target_arch = "x86_64"))]
mod no_process;
#[cfg(target_arch = "x86_64")]
mod process;
mod request;
mod spawn;

pub use explore::{
    CheckLayout, ExploredProgram, Half, LINES_SHOWN, ProgramAndCheck, ReachedSites, STORES_NOTHING,
    SiteLines,
};
pub use folder::{FILES, ProgramFolder, drop_folders, keep_folders, make_files, pool_in};
pub use kept::{NativeRun, run_natively};
pub use limit::Limit;
#[cfg(not(target_arch = "x86_64"))]
pub use no_process::{check, serve};
#[cfg(target_arch = "x86_64")]
pub use process::{check, serve};
pub use request::{
    Answer, Asks, BrokenCrash, CodeAddress, CrashAfter, Fences, From, Judge, Persistent, Place,
    PlaceTime, Ran, Request, Start, Timed, UnreadFlushes, UnseenStore,
};
pub use spawn::{ProgramError, Run, run, serve_by, server};
