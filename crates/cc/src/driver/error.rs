//! Why there is no instrumented code; every message names the thing and the remedy.

use std::io;
use std::path::PathBuf;

/// Why a compiler driver, or what it embedded, cannot do what it is asked for.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CcError {
    /// The user's compiler, or a program that it needs, does not start.
    #[error("cannot run {program}: {source}; install it, or name a compiler in {variable}")]
    NoProgram {
        /// What was to be run.
        program: String,
        /// What the system says.
        source: io::Error,
        /// The variable of the environment that names another one.
        variable: &'static str,
    },
    /// The compiler that is asked for is the driver itself.
    #[error("{variable} names seawall's own compiler; name gcc or clang there")]
    Circle {
        /// The variable of the environment.
        variable: &'static str,
    },
    /// A host of another processor.
    #[error(
        "programs that `seawall cc` compiles run on x86-64 alone, and this seawall is built for \
         {}: compile and run them on a computer with x86-64; what needs no compiled program works \
         here, too",
        std::env::consts::ARCH
    )]
    OtherProcessor,
    /// A file cannot be read or written.
    #[error("{}: {source}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// What the system says.
        source: io::Error,
    },
    /// No object file of this machine.
    #[error("{} is no ELF file of x86-64{hint}", path.display())]
    NotElf {
        /// The file.
        path: PathBuf,
        /// What it may be instead, after a comma or colon.
        hint: String,
    },
    /// A program that was not compiled by seawall.
    #[error("{} has no code for the machines of seawall: build it with `seawall cc`", .0.display())]
    NoCode(PathBuf),
    /// A program that runs only on the hardware, because of what was noted when it was compiled.
    #[error("{} cannot run on the machines of seawall: {text}", path.display())]
    Noted {
        /// The program or library.
        path: PathBuf,
        /// What was noted.
        text: String,
    },
    /// A program with threads that nobody sees wait.
    #[error(
        "{} uses OpenMP ({library}), whose threads wait in the kernel and cannot be simulated: \
         start threads with pthread_create or std::thread",
        path.display()
    )]
    OpenMp {
        /// The program.
        path: PathBuf,
        /// The library that starts the threads.
        library: String,
    },
    /// Embedded code of another version.
    #[error("{} was compiled by another version of seawall: build it again", .0.display())]
    OtherVersion(PathBuf),
    /// A source, or a link, that seawall has no instrumented code of.
    #[error("{0}")]
    Twin(String),
}

impl CcError {
    /// Refuses hosts whose assembly is not instrumented.
    pub(crate) fn of_this_host() -> Result<(), Self> {
        if cfg!(target_arch = "x86_64") { Ok(()) } else { Err(CcError::OtherProcessor) }
    }

    /// A file that cannot be read or written.
    pub(crate) fn file(path: impl Into<PathBuf>) -> impl FnOnce(io::Error) -> Self {
        let path = path.into();
        move |source| CcError::File { path, source }
    }
}
