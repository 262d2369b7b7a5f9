//! What stands for `process` where compiled programs cannot run: it says so.
//!
//! The process of a program is written for one processor: its entries are assembly that keeps
//! x86-64's registers, its threads borrow the base of `%fs`, and what `seawall cc` instruments is
//! the assembly of x86-64. Everything else of the crate is the same everywhere.

use crate::explore::CheckLayout;
use seawall_cc::CcError;
use std::path::Path;

/// Ends with the reason why no program runs here.
pub fn serve(_: &Path) -> ! {
    refuse()
}

/// Ends with the reason why no function of a program runs here.
pub fn check(_: &Path, _: &str, _: &Path, _: CheckLayout) -> ! {
    refuse()
}

fn refuse() -> ! {
    eprintln!("error: {}", CcError::OtherProcessor);
    std::process::exit(2)
}
