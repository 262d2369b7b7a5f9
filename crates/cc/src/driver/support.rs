//! The support library: what stands for the parts of the C library that a machine of seawall must
//! see. It is compiled and instrumented like a program, with the program's compiler, and linked
//! into its image.
//!
//! The objects are kept in the user's folder of caches, because each link needs the same ones. The
//! name of a file there has a digest of everything that its contents depend on.

use super::arguments::Arguments;
use super::compiler::{self, Brand, Compiler};
use super::error::CcError;
use super::source::Second;
use super::{Instrument, Language};
use std::env;
use std::ffi::OsString;
use std::fs::{self, Metadata};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

macro_rules! files {
    ($($name:literal,)*) => { &[$(($name, include_str!(concat!("../../support/", $name)))),*] };
}

/// The files of `support/` with their texts: what ends in `.c` is compiled.
const SUPPORT: &[(&str, &str)] = files![
    "attributes.c",
    "c11.c",
    "conditions.c",
    "cores.c",
    "cxx.c",
    "exit.c",
    "files.c",
    "futex.c",
    "heap.c",
    "host.c",
    "keys.c",
    "locks.c",
    "memory.c",
    "page.h",
    "refused.c",
    "region.c",
    "scan.c",
    "sort.c",
    "stdio.c",
    "strings.c",
    "support.h",
    "threads.c",
    "time.c",
    "waiting.c",
    "wide.c",
];

/// The folder of the support library in debug information.
pub const SUPPORT_FOLDER: &str = "seawall/support";

/// How they are compiled.
const OPTIONS: [&str; 5] = ["-O2", "-std=gnu11", "-fno-builtin", "-fPIC", "-pthread"];
/// Clang does not know it: there, `-fno-builtin` is enough.
const GCC_ONLY: &str = "-fno-tree-loop-distribute-patterns";

/// Its code is a section of its own, whose ends `region.c` knows.
const TOGETHER: &str = "SECTIONS { seawall_support : { *(.text .text.*) } }";

/// The object of the support library; it may be a new file in `folder`.
pub(super) fn object(
    compiler: &Compiler,
    instrument: Instrument,
    folder: &Path,
) -> Result<Option<PathBuf>, CcError> {
    if !SUPPORT.iter().any(|(name, _)| name.ends_with(".c")) {
        return Ok(None);
    }
    let cached = cache_folder().map(|cache| cache.join(format!("{:016x}.o", digest(compiler))));
    if let Some(cached) = cached.as_ref().filter(|cached| cached.is_file()) {
        return Ok(Some(cached.clone()));
    }
    let made = build(compiler, instrument, folder)?;
    if let Some(cached) = cached {
        // Without a cache each link compiles them: slow, but not wrong.
        let _ = keep(&made, &cached);
    }
    Ok(Some(made))
}

/// Compiles all of them into one object.
fn build(compiler: &Compiler, instrument: Instrument, folder: &Path) -> Result<PathBuf, CcError> {
    if !compiler.is_for_glibc()? {
        return Err(CcError::Twin(compiler.refuse_other_library()));
    }
    for (name, text) in SUPPORT {
        let path = folder.join(name);
        fs::write(&path, text).map_err(CcError::file(&path))?;
    }
    // Messages name the file, and not the folder that it was in for a moment.
    let mut shown = OsString::from("-ffile-prefix-map=");
    shown.push(folder);
    shown.push(format!("={SUPPORT_FOLDER}"));
    let more = match compiler.brand()? {
        Brand::Gcc { .. } => Some(OsString::from(GCC_ONLY)),
        Brand::Clang => None,
    };
    let options = OPTIONS.map(OsString::from).into_iter().chain([shown]).chain(more);
    let arguments = Arguments::parse(options);
    let second = Second { compiler, arguments: &arguments, instrument, input: None };
    let object = folder.join("support.o");
    let script = folder.join("support.ld");
    fs::write(&script, TOGETHER).map_err(CcError::file(&script))?;
    let mut words: Vec<OsString> = vec!["-r".into(), "-nostdlib".into()];
    words.extend(["-Wl,-T".into(), script.into(), "-o".into()]);
    words.push(object.clone().into());
    for (name, _) in SUPPORT.iter().filter(|(name, _)| name.ends_with(".c")) {
        let parts = folder.join(format!("{name}.d"));
        fs::create_dir(&parts).map_err(CcError::file(&parts))?;
        words.push(second.object(&folder.join(name), Some("c"), &parts)?.into());
    }
    let output = compiler.quietly(words)?;
    match output.status.success() {
        true => Ok(object),
        false => Err(CcError::Twin(format!(
            "the support library of seawall cannot be linked: {}",
            compiler::reason(&output)
        ))),
    }
}

fn keep(object: &Path, cached: &Path) -> io::Result<()> {
    put_whole(&mut fs::File::open(object)?, cached)
}

/// Writes a file whole, so that others find all of it or nothing.
pub(super) fn put_whole(from: &mut dyn io::Read, to: &Path) -> io::Result<()> {
    let folder = to.parent().unwrap_or(Path::new("."));
    fs::create_dir_all(folder)?;
    let mut file = tempfile::NamedTempFile::new_in(folder)?;
    io::copy(from, &mut file)?;
    file.persist(to)?;
    Ok(())
}

/// `XDG_CACHE_HOME/seawall/cc`, or the same in `~/.cache`.
pub(super) fn cache_folder() -> Option<PathBuf> {
    let named = env::var_os("XDG_CACHE_HOME").map(PathBuf::from).filter(|path| path.is_absolute());
    let home = || Some(PathBuf::from(env::var_os("HOME")?).join(".cache"));
    Some(named.or_else(home)?.join("seawall").join("cc"))
}

/// Of the texts, the compiler, and the program that runs here, which instruments.
fn digest(compiler: &Compiler) -> u64 {
    let mut hasher = DefaultHasher::new();
    SUPPORT.hash(&mut hasher);
    (OPTIONS, GCC_ONLY, TOGETHER).hash(&mut hasher);
    (compiler.language == Language::C, compiler.words()).hash(&mut hasher);
    for program in [env::current_exe().ok(), in_path(&compiler.words()[0])] {
        let program = program.and_then(|program| program.canonicalize().ok());
        let changed = program.as_ref().and_then(|program| fs::metadata(program).ok());
        let changed = changed.as_ref().map(|data: &Metadata| (data.len(), data.modified().ok()));
        let changed: Option<(u64, Option<SystemTime>)> = changed;
        (program, changed).hash(&mut hasher);
    }
    hasher.finish()
}

/// The file of a command.
fn in_path(program: &str) -> Option<PathBuf> {
    if program.contains('/') {
        return Some(program.into());
    }
    let folders = env::var_os("PATH")?;
    env::split_paths(&folders).map(|folder| folder.join(program)).find(|path| path.is_file())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_file_of_the_support_library_is_embedded() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("support");
        let files = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name());
        let mut files: Vec<_> = files.map(|name| name.into_string().unwrap()).collect();
        files.sort();
        assert_eq!(files, SUPPORT.iter().map(|(name, _)| *name).collect::<Vec<_>>());
    }

    #[test]
    fn commands_are_found_as_a_shell_finds_them() {
        assert_eq!(in_path("/bin/sh"), Some("/bin/sh".into()));
        assert!(in_path("sh").is_some_and(|path| path.ends_with("sh")));
        assert_eq!(in_path("no such command"), None);
    }
}
