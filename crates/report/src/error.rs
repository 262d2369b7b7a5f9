//! What can go wrong with the files of a command.

use std::io;
use std::path::Path;

/// Why results cannot be shown or written.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReportError {
    /// A file cannot be read or written.
    #[error("{path}: {source}; {}", remedy(source))]
    File {
        /// The file.
        path: String,
        /// What the system said.
        source: io::Error,
    },
    /// A file is written, but does not get its name.
    #[error("{path}: {source}; all that was to be there is in {part}: move it where it is wanted")]
    NotPlaced {
        /// The file.
        path: String,
        /// The file beside it.
        part: String,
        /// What the system said.
        source: io::Error,
    },
    /// Results would replace what is no result.
    #[error("{by}: {path} is {what}, no result of an earlier run: remove it, or name another file")]
    Precious {
        /// The option that names it.
        by: String,
        /// The file.
        path: String,
        /// What it is.
        what: &'static str,
    },
    /// What would be written takes the place of what is read, or of what else is written.
    #[error("{first} and {second} name the same file, {path}: give each its own")]
    SameFile {
        /// The option that names it.
        first: String,
        /// The other.
        second: String,
        /// The file, as the other names it.
        path: String,
    },
    /// The plot cannot be drawn.
    #[error("the plot cannot be drawn: {0}")]
    Plot(String),
    /// There is no thread for something.
    #[error(
        "no thread {what} ({source}); end other programs, or allow more memory and threads \
         (ulimit -v, ulimit -u)"
    )]
    Thread {
        /// What it is for.
        what: &'static str,
        /// What the system said.
        source: io::Error,
    },
}

fn remedy(source: &io::Error) -> &'static str {
    match source.kind() {
        io::ErrorKind::FileTooLarge => {
            "raise the limit for files (ulimit -f), or name a file on another disk"
        }
        _ => "check that the folder exists, is writable and has room",
    }
}

impl ReportError {
    /// An error of the file at `path`.
    pub fn file(path: &Path) -> impl FnOnce(io::Error) -> ReportError {
        let path = path.display().to_string();
        move |source| ReportError::File { path, source }
    }

    /// What the plotting library says.
    pub fn plot(error: Box<dyn std::error::Error>) -> ReportError {
        ReportError::Plot(error.to_string())
    }
}
