//! What Ctrl-C and SIGTERM do: the same to every command.
//!
//! The first one asks a command that can give what it has done to end; any other command ends at
//! once, and so does every command with the second. No result file is emptied: each is written
//! whole at the end, and what was finished of a command that was stopped goes beside it.

use anyhow::Result;
use seawall_lab::on_stop;
use seawall_report::{Form, Output, ReportError, drop_parts, tell};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// What the signals set, and what they find.
#[derive(Clone)]
pub(crate) struct Stop {
    asked: Arc<AtomicBool>,
    /// Results are being written: they are whole, and so will the file be. Who ends the process
    /// keeps the lock, so that nothing is begun that contradicts what was said.
    writes: Arc<Mutex<bool>>,
}

impl Stop {
    /// Watches for signals. Where `is_asked`, the first one sets a flag; elsewhere it ends the
    /// process, unless that is about to end.
    pub(crate) fn watch(outputs: &[(Form, Output)], is_asked: bool) -> Result<Stop> {
        let stop = Stop { asked: Arc::default(), writes: Arc::default() };
        let (flags, files) = (stop.clone(), said_of(outputs));
        let act = move || {
            let writes = flags.writes.lock().unwrap_or_else(PoisonError::into_inner);
            let is_first = !flags.asked.swap(true, Ordering::Relaxed);
            if is_first && (is_asked || *writes) {
                return;
            }
            let _parts = drop_parts();
            match *writes {
                true => tell("stopped while results were written: each file is whole or old"),
                false => tell(format_args!("stopped{files}")),
            }
            std::process::exit(2);
        };
        match on_stop(act) {
            // Without the thread a signal ends the process, and its files are old or whole too.
            Err(source) if is_asked => {
                Err(ReportError::Thread { what: "for signals", source }.into())
            }
            _ => Ok(stop),
        }
    }

    /// What a command that can end early looks at.
    pub(crate) fn flag(&self) -> &Arc<AtomicBool> {
        &self.asked
    }

    /// To be called before the first result is written.
    pub(crate) fn writes(&self) {
        *self.writes.lock().unwrap_or_else(PoisonError::into_inner) = true;
    }
}

fn said_of(outputs: &[(Form, Output)]) -> String {
    let paths = outputs.iter().map(|(_, output)| output.path());
    paths.map(|path| format!("; {} is as it was", path.display())).collect()
}
