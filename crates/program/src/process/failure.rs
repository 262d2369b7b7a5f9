//! How the process ends: with an answer, whatever happens.

use crate::process::runtime::{Thread, runtime};
use crate::process::{image, stacks};
use crate::request::{Answer, Place};

/// Ends the process: what the program does cannot be done here.
pub(crate) fn refuse(what: &str) -> ! {
    fail(&format!("uses {what}, which cannot be simulated"))
}

/// Ends the process with an error of the thread that runs.
pub(crate) fn fail(what: &str) -> ! {
    fail_at(what, vec![place_of(runtime().thread())])
}

/// Ends the process with an error, and places in the image.
pub(crate) fn fail_at(what: &str, places: Vec<Place>) -> ! {
    end(&Answer::Failed { what: what.to_owned(), places })
}

/// Where a thread is.
pub(crate) fn place_of(thread: &Thread) -> Place {
    let stack = thread.stack.get();
    let callers = image::callers(thread.site.get(), stack, stacks::end_of(stack));
    Place { thread: thread.number, callers, does: None }
}

/// Ends the process with its answer.
pub(crate) fn end(answer: &Answer) -> ! {
    let is_written = match runtime().tells.get() {
        Some(tell) => tell(answer),
        None => {
            let text = serde_json::to_string(answer).unwrap_or_default();
            std::fs::write(&*runtime().answer.borrow(), text).is_ok()
        }
    };
    // SAFETY: ends the process at once; nothing of the program is to run any more.
    unsafe { libc::_exit(if is_written { 0 } else { 2 }) }
}
