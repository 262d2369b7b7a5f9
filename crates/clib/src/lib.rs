//! Links a static library of ours into the shared object that C programs load.
//!
//! A `cdylib` of rustc will not do: it has no soname, and rustc gives the linker a version script
//! of its own, while programs that were linked with the library of another ask for its soname and
//! for symbols of its version. So a crate is built as a `staticlib`, and `cc` links it with a
//! script that names what is exported; all else, Rust's standard library too, stays inside. C
//! sources may be linked with it, for what stable Rust cannot define: functions with any number of
//! arguments.
//!
//! [`LIBRARIES`] is the table of the libraries. [`SharedLibrary::link`] makes one, and an
//! [`Installation`] what programs are built with; [`built_beside_this_test`] finds the static
//! library that cargo has built for a test, and a [`Trial`] runs a program on it and on that of the
//! system.

#![forbid(unsafe_code)]

mod assembly;
mod exports;
mod install;
mod manual;
mod table;
mod trial;

pub use assembly::{PROFILE, assembly};
pub use exports::{ExportedSymbol, exports};
pub use install::Installation;
pub use table::{DevelopmentFiles, LIBRARIES, LibraryEntry};
pub use trial::{Trial, TrialProgram, Whose, told};

use std::ffi::OsString;
use std::fmt::Write;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The variable that names the C compiler; `cc` if it is not set.
pub const COMPILER_VARIABLE: &str = "CC";

/// What a library is linked from.
#[derive(Clone, Copy, Debug)]
pub enum LibraryCode<'a> {
    /// The static library that rustc made.
    Archive(&'a Path),
    /// Its [`assembly`], of which `seawall cc` makes code for the machines of seawall beside that
    /// of the processor.
    Assembly {
        /// The assembly.
        file: &'a Path,
        /// The program `seawall`.
        seawall: &'a Path,
    },
}

/// What [`SharedLibrary::link`] links.
#[derive(Clone, Debug)]
pub struct SharedLibrary<'a> {
    /// Its Rust part.
    pub code: LibraryCode<'a>,
    /// C sources that become part of it.
    pub sources: &'a [PathBuf],
    /// The name that programs ask for, as in `libpmem.so.1`; also the name of the file.
    pub soname: &'a str,
    /// The version of all symbols, as in `LIBPMEM_1.0`.
    pub version: &'a str,
    /// The names of the exported symbols, one a line; see [`symbols`].
    pub symbols: &'a str,
}

/// Why no shared object could be made, or a static library not be found.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ClibError {
    /// The compiler cannot be started.
    #[error(
        "cannot run the C compiler {tool:?}: {source}; install one (Debian: apt install gcc), or \
         name one in {COMPILER_VARIABLE}"
    )]
    NoCompiler {
        /// What was to be run.
        tool: String,
        /// Why not.
        source: io::Error,
    },
    /// The compiler ran, and failed.
    #[error("{tool} cannot link {soname}; it says:\n{says}")]
    Link {
        /// The compiler.
        tool: String,
        /// The library.
        soname: String,
        /// Its standard error.
        says: String,
    },
    /// A file that is needed is missing, or cannot be written.
    #[error("{path}: {source}")]
    File {
        /// The file.
        path: String,
        /// Why.
        source: io::Error,
    },
    /// The assembly of a library could not be built.
    #[error("cargo cannot build the assembly of {package}; it says:\n{says}")]
    Assembly {
        /// The package.
        package: String,
        /// Its standard error.
        says: String,
    },
    /// The static library has not been built.
    #[error("there is no {name} in {folder}; `cargo build -p {package}` makes it")]
    NotBuilt {
        /// The file.
        name: String,
        /// Where it was looked for.
        folder: String,
        /// Its package.
        package: String,
    },
    /// Symbols that are on the list, and that nothing defines.
    #[error("{soname} lacks {symbols}; define them, or take them off the list")]
    Lacks {
        /// The library.
        soname: String,
        /// Their names.
        symbols: String,
    },
    /// A file that is no shared object.
    #[error("{path} is no shared object of 64 bits: {why}")]
    NotAnObject {
        /// The file.
        path: String,
        /// Why.
        why: String,
    },
    /// A soname without `.so`.
    #[error("{soname:?} is no name of a shared object; it must be like libpmem.so.1")]
    Soname {
        /// The name.
        soname: String,
    },
}

impl SharedLibrary<'_> {
    /// Links it in `folder`, which is made if need be, with a link for compilers beside it
    /// (`libpmem.so`). What was there under these names is replaced at once, at the end: programs
    /// that use it are not disturbed. Gives its path.
    ///
    /// # Errors
    /// When there is no compiler, when it fails (a symbol that is not defined is a failure), or
    /// when a file cannot be written.
    pub fn link(&self, folder: &Path) -> Result<PathBuf, ClibError> {
        let (base, _) = self
            .soname
            .split_once(".so")
            .ok_or_else(|| ClibError::Soname { soname: self.soname.to_owned() })?;
        // The linker takes a file that it does not find for a script, and says strange things.
        let (LibraryCode::Archive(file) | LibraryCode::Assembly { file, .. }) = self.code;
        fs::metadata(file).map_err(at(file))?;
        fs::create_dir_all(folder).map_err(at(folder))?;
        let hidden = |what: &str| folder.join(format!(".{}.{}.{what}", self.soname, process_id()));
        let (script, fresh) = (hidden("map"), hidden("new"));
        fs::write(&script, version_script(self.version, self.symbols)).map_err(at(&script))?;
        let linked = self.run_compiler(&script, &fresh).and_then(|()| self.check(&fresh));
        let _ = fs::remove_file(&script);
        if linked.is_err() {
            let _ = fs::remove_file(&fresh);
        }
        linked?;
        let path = folder.join(self.soname);
        fs::rename(&fresh, &path).map_err(at(&path))?;
        let (link, name) = (folder.join(format!("{base}.so")), self.soname);
        if link != path {
            std::os::unix::fs::symlink(name, &fresh).map_err(at(&link))?;
            fs::rename(&fresh, &link).map_err(at(&link))?;
        }
        Ok(path)
    }

    fn run_compiler(&self, script: &Path, output: &Path) -> Result<(), ClibError> {
        let (tool, first) = match self.code {
            LibraryCode::Archive(_) => (compiler(), None),
            LibraryCode::Assembly { seawall, .. } => (seawall.into(), Some("cc")),
        };
        let arguments = self.arguments(script, output);
        let done = Command::new(&tool).args(first).args(arguments).output();
        let tool = tool.to_string_lossy().into_owned();
        let done = done.map_err(|source| ClibError::NoCompiler { tool: tool.clone(), source })?;
        if done.status.success() {
            return Ok(());
        }
        let says = String::from_utf8_lossy(&done.stderr).trim().to_owned();
        Err(ClibError::Link { tool, soname: self.soname.to_owned(), says })
    }

    /// A linker says nothing of a symbol in the script that does not exist.
    fn check(&self, linked: &Path) -> Result<(), ClibError> {
        let exported = exports(linked)?;
        let is_there = |name: &str| exported.iter().any(|symbol| symbol.name == name);
        let lacking: Vec<&str> = symbols(self.symbols).filter(|name| !is_there(name)).collect();
        if lacking.is_empty() {
            return Ok(());
        }
        Err(ClibError::Lacks { soname: self.soname.to_owned(), symbols: lacking.join(", ") })
    }

    fn arguments(&self, script: &Path, output: &Path) -> Vec<OsString> {
        let mut arguments: Vec<OsString> = ["-shared", "-fPIC", "-O2"].map(OsString::from).into();
        arguments.push(format!("-Wl,-soname,{}", self.soname).into());
        arguments.push(joined("-Wl,--version-script=", script));
        arguments.extend(["-o".into(), output.into()]);
        arguments.extend(self.sources.iter().map(OsString::from));
        match self.code {
            LibraryCode::Archive(archive) => {
                arguments.push("-Wl,--whole-archive".into());
                arguments.push(archive.into());
                arguments.push("-Wl,--no-whole-archive".into());
            }
            // As it names the files of its lines.
            LibraryCode::Assembly { file, .. } => {
                arguments.extend(["-Wa,-gdwarf-5".into(), file.into()]);
            }
        }
        let rest = ["-Wl,--gc-sections", "-Wl,-z,defs", "-Wl,-z,relro,-z,now"];
        arguments.extend(rest.map(OsString::from));
        let libraries = ["-lpthread", "-ldl", "-lm", "-lc", "-lgcc_s"];
        arguments.extend(libraries.map(OsString::from));
        arguments
    }
}

/// The C compiler: what `CC` names, else `cc`.
pub fn compiler() -> OsString {
    let named = std::env::var_os(COMPILER_VARIABLE);
    named.filter(|name| !name.is_empty()).unwrap_or_else(|| "cc".into())
}

/// The names in a list, one a line; empty lines, and those that begin with `#`, are none.
pub fn symbols(list: &str) -> impl Iterator<Item = &str> {
    list.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#'))
}

/// The static library `name` (as in `libseawall_libpmem.a`) of `package`, which cargo builds
/// beside the integration tests of a crate that has both `lib` and `staticlib` among its types.
///
/// # Errors
/// When it is not there.
pub fn built_beside_this_test(name: &str, package: &str) -> Result<PathBuf, ClibError> {
    let own = std::env::current_exe().map_err(at(Path::new("this program")))?;
    // The test itself is in `deps`, and there is the library that cargo built for it, with a hash
    // in its name. One without is in the folder above, where `cargo build` puts it. The newest was
    // built from the sources as they are: cargo builds again what is older.
    let deps = own.parent().unwrap_or(Path::new("."));
    let above = deps.parent().unwrap_or(deps);
    let stem = name.trim_end_matches(".a");
    let is_it = |file: &OsString| {
        let file = file.to_string_lossy();
        let hash = file.strip_prefix(stem).and_then(|rest| rest.strip_suffix(".a"));
        hash.is_some_and(|hash| hash.is_empty() || hash.starts_with('-'))
    };
    let files = [deps, above].into_iter().filter_map(|folder| fs::read_dir(folder).ok()).flatten();
    let found = files.flatten().filter(|entry| is_it(&entry.file_name()));
    let dated = found.filter_map(|entry| Some((entry.metadata().ok()?.modified().ok()?, entry)));
    let newest = dated.max_by_key(|(time, _)| *time).map(|(_, entry)| entry.path());
    newest.ok_or_else(|| ClibError::NotBuilt {
        name: name.to_owned(),
        folder: deps.display().to_string(),
        package: package.to_owned(),
    })
}

fn version_script(version: &str, list: &str) -> String {
    let mut script = format!("{version} {{\n    global:\n");
    for symbol in symbols(list) {
        let _ = writeln!(script, "        {symbol};");
    }
    script + "    local:\n        *;\n};\n"
}

fn joined(option: &str, path: &Path) -> OsString {
    let mut whole = OsString::from(option);
    whole.push(path);
    whole
}

fn process_id() -> u32 {
    std::process::id()
}

fn at(path: &Path) -> impl FnOnce(io::Error) -> ClibError {
    let path = path.display().to_string();
    move |source| ClibError::File { path, source }
}

#[cfg(test)]
mod tests;
