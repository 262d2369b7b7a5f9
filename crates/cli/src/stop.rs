//! What Ctrl-C does, SIGTERM, SIGQUIT, and SIGHUP where it is not ignored: the same to every
//! command.
//!
//! The first one asks a command that can give what it has done to end; any other command ends at
//! once, and so does every command with the second. No result file is emptied: each is written
//! whole at the end, and what was finished of a command that was stopped goes beside it. No file of
//! a program stays in a temporary folder.

use seawall_lab::on_stop;
use seawall_program::drop_folders;
use seawall_report::{Form, Output, drop_parts, tell};
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// What the signals set, and what they find.
#[derive(Clone)]
pub(crate) struct Stop {
    asked: Arc<AtomicBool>,
    /// Who ends the process keeps the lock, so that nothing is begun that contradicts what was
    /// said.
    now: Arc<Mutex<Now>>,
}

/// What a signal interrupts.
enum Now {
    /// Options are read, and the work is planned.
    Begins,
    Runs {
        /// The command can give what it has done.
        has_partial: bool,
        /// What becomes of its files, if it is ended.
        files: String,
    },
    /// Results are being written: they are whole, and so will the file be.
    Writes,
}

impl Now {
    /// Ends the process.
    fn end(&self) -> ! {
        let (_parts, _folders) = (drop_parts(), drop_folders());
        match self {
            Now::Begins => tell("stopped before anything was run"),
            Now::Runs { files, .. } => tell(format_args!("stopped{files}")),
            Now::Writes => tell("stopped while results were written: each file is whole or old"),
        }
        std::process::exit(2);
    }
}

impl Stop {
    /// Watches for signals. The first one that comes before the command runs counts as one that
    /// comes then. Without a thread for that, a signal ends the process without a word, and its
    /// files are old or whole too.
    pub(crate) fn watch() -> (Stop, io::Result<()>) {
        let stop = Stop { asked: Arc::default(), now: Arc::new(Mutex::new(Now::Begins)) };
        let signalled = stop.clone();
        (stop, on_stop(move || signalled.act()))
    }

    /// Each signal comes here, in a thread of its own.
    fn act(&self) {
        let now = self.now();
        let is_first = !self.asked.swap(true, Ordering::Relaxed);
        if !is_first || matches!(*now, Now::Runs { has_partial: false, .. }) {
            now.end();
        }
    }

    fn now(&self) -> MutexGuard<'_, Now> {
        self.now.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// To be called before the command runs. Where `has_partial`, the first signal sets a flag;
    /// elsewhere it ends the process.
    pub(crate) fn runs(&self, outputs: &[(Form, Output)], has_partial: bool) {
        let mut now = self.now();
        *now = Now::Runs { has_partial, files: said_of(outputs) };
        if !has_partial && self.asked.load(Ordering::Relaxed) {
            now.end();
        }
    }

    /// What a command that can end early looks at.
    pub(crate) fn flag(&self) -> &Arc<AtomicBool> {
        &self.asked
    }

    /// To be called before the first result is written.
    pub(crate) fn writes(&self) {
        *self.now() = Now::Writes;
    }
}

fn said_of(outputs: &[(Form, Output)]) -> String {
    let paths = outputs.iter().map(|(_, output)| output.path());
    paths.map(|path| format!("; {} is as it was", path.display())).collect()
}
