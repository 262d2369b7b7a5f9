//! The compiler driver: what the user's compiler does, and the instrumented twin of what it makes.
//!
//! The user's command runs first, as it was typed, and its exit code is the driver's. Only if it
//! leaves an object, a library or a program is a twin made, and put into that file as a
//! [section](section). A build never fails because a twin cannot be made: the file has a note of
//! why instead, which is told when the program is to run on a machine of seawall.
//!
//! An output is taken away while its twin is made, and comes back whole. So an interrupted build
//! leaves no file that looks finished and is not.

pub(crate) mod section;

mod archive;
mod arguments;
mod compiler;
pub(crate) mod error;
mod flags;
mod header;
pub(crate) mod libraries;
mod link;
mod response;
mod source;
pub(crate) mod support;

use arguments::{Arguments, Task};
use compiler::Compiler;
use error::CcError;
use section::{Holder, Record};
use source::Second;
use std::cell::Cell;
use std::error::Error;
use std::ffi::{OsStr, OsString};
use std::fs::{self, Permissions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::{ExitCode, Output};
use tempfile::{NamedTempFile, TempDir};

/// The language of the sources that do not say it, as of `gcc` and `g++`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Language {
    /// C: the compiler of `SEAWALL_CC`, or `gcc`.
    C,
    /// C++: the compiler of `SEAWALL_CXX`, or `g++`.
    Cxx,
}

impl Language {
    /// The language if a command of this name is the driver: `seawallcc` or `seawallc++`, in any
    /// folder, for build systems that want a compiler of one word. `seawall-cc` and `seawall-c++`
    /// are, too; but CMake takes what ends in `-cc` for the compiler of a toolchain, and looks for
    /// `seawall-gcc-ar`.
    pub fn of_command(name: &OsStr) -> Option<Self> {
        match Path::new(name).file_name()?.to_str()? {
            "seawallcc" | "seawall-cc" => Some(Language::C),
            "seawallc++" | "seawall-c++" => Some(Language::Cxx),
            _ => None,
        }
    }
}

/// Turns the assembly of a compiler into instrumented assembly.
pub type Instrument = fn(&str) -> Result<String, Box<dyn Error + Send + Sync>>;

/// Does what `gcc` does with these arguments, and makes the twins. The exit code is that of the
/// compiler, or 2 after a message on standard error.
pub fn run(
    language: Language,
    arguments: impl IntoIterator<Item = OsString>,
    instrument: Instrument,
) -> ExitCode {
    match drive(language, arguments.into_iter().collect(), instrument) {
        Ok(code) => ExitCode::from(code),
        Err(error) => {
            tell("error", &error.to_string());
            ExitCode::from(2)
        }
    }
}

/// Runs the compiler behind the driver alone, without twins; what it prints is in the result.
///
/// # Errors
/// When it does not start.
pub fn run_compiler(
    language: Language,
    arguments: impl IntoIterator<Item = impl AsRef<OsStr>>,
) -> Result<Output, CcError> {
    Compiler::find(language)?.quietly(arguments)
}

fn drive(language: Language, words: Vec<OsString>, instrument: Instrument) -> Result<u8, CcError> {
    let compiler = Compiler::find(language)?;
    let arguments = Arguments::parse(words.iter().cloned());
    let task = arguments.task();
    if task == Task::Other {
        return Ok(compiler::code(compiler.run(&words, None)?));
    }
    let folder = tempfile::Builder::new().prefix("seawall-cc-").tempdir();
    let folder = folder.map_err(CcError::file(std::env::temp_dir()))?;
    let mut work = Work {
        compiler: &compiler,
        arguments: &arguments,
        instrument,
        input: None,
        folder,
        folders: Cell::new(0),
    };
    work.read_input()?;
    let status = compiler.run(&words, work.input.as_deref())?;
    if status.success() {
        match task {
            Task::Compile => work.compile()?,
            _ => work.link()?,
        }
    }
    Ok(compiler::code(status))
}

/// One command.
struct Work<'a> {
    compiler: &'a Compiler,
    arguments: &'a Arguments,
    instrument: Instrument,
    /// What was read from standard input, if a source comes from there.
    input: Option<PathBuf>,
    /// For everything that is made on the way.
    folder: TempDir,
    folders: Cell<usize>,
}

impl Work<'_> {
    /// Standard input is read twice, so it is kept.
    fn read_input(&mut self) -> Result<(), CcError> {
        if self.arguments.sources().any(|(path, _)| path == Path::new("-")) {
            let path = self.folder.path().join("stdin");
            let mut file = fs::File::create(&path).map_err(CcError::file(&path))?;
            io::copy(&mut io::stdin(), &mut file).map_err(CcError::file("standard input"))?;
            self.input = Some(path);
        }
        Ok(())
    }

    fn second(&self) -> Second<'_> {
        Second {
            compiler: self.compiler,
            arguments: self.arguments,
            instrument: self.instrument,
            input: self.input.as_deref(),
        }
    }

    /// A folder that holds nothing yet.
    fn new_folder(&self) -> Result<PathBuf, CcError> {
        let number = self.folders.get();
        self.folders.set(number + 1);
        let folder = self.folder.path().join(number.to_string());
        fs::create_dir(&folder).map_err(CcError::file(&folder))?;
        Ok(folder)
    }

    /// What a link makes.
    fn output(&self) -> &Path {
        self.arguments.output().unwrap_or(Path::new("a.out"))
    }

    fn compile(&self) -> Result<(), CcError> {
        for (source, language) in self.arguments.sources() {
            let usual = object_of(source);
            let output = self.arguments.output().unwrap_or(&usual);
            let Some(held) = Held::take(output)? else { continue };
            let folder = self.new_folder()?;
            let record = match self.second().object(source, language, &folder) {
                Ok(object) => {
                    let body = fs::read(&object).map_err(CcError::file(&object))?;
                    Record::Code { opaque: Vec::new(), body }
                }
                Err(CcError::Twin(why)) => Record::Error(why),
                Err(error) => return Err(error),
            };
            held.put_back(Some(&record), Holder::Object)?;
        }
        Ok(())
    }

    fn link(&self) -> Result<(), CcError> {
        let Some(held) = Held::take(self.output())? else { return Ok(()) };
        let record = link::record(self)?;
        let holder = match held.is_object() {
            true => Holder::Object,
            false => Holder::Image,
        };
        held.put_back(record.as_ref(), holder)
    }
}

/// Where `-c` alone puts the object of a source.
fn object_of(source: &Path) -> PathBuf {
    match source == Path::new("-") {
        true => "-.o".into(),
        false => Path::new(source.file_name().unwrap_or_default()).with_extension("o"),
    }
}

/// An output of the compiler, taken from its place.
struct Held {
    path: PathBuf,
    bytes: Vec<u8>,
    permissions: Permissions,
}

impl Held {
    /// Takes a file; nothing if there is none, as after `-o /dev/null`.
    fn take(path: &Path) -> Result<Option<Self>, CcError> {
        let Ok(path) = path.canonicalize() else { return Ok(None) };
        let data = fs::metadata(&path).map_err(CcError::file(&path))?;
        if !data.is_file() {
            return Ok(None);
        }
        let bytes = fs::read(&path).map_err(CcError::file(&path))?;
        fs::remove_file(&path).map_err(CcError::file(&path))?;
        Ok(Some(Held { path, bytes, permissions: data.permissions() }))
    }

    fn is_object(&self) -> bool {
        self.bytes.get(16..18) == Some(&object::elf::ET_REL.to_le_bytes())
    }

    /// Puts it back with this in its section, at once.
    fn put_back(self, record: Option<&Record>, holder: Holder) -> Result<(), CcError> {
        let failed = |source| CcError::File { path: self.path.clone(), source };
        let shown = self.path.file_name().unwrap_or_default().display();
        let mut bytes = self.bytes;
        if let Some(record) = record {
            if let Record::Error(why) = record {
                tell("warning", &format!("{shown} will not run on the machines of seawall: {why}"));
            }
            match section::attach(&bytes, &record.encode(), holder) {
                Some(more) => bytes = more,
                None => tell("warning", &no_elf(&shown.to_string(), &bytes)),
            }
        }
        let folder = self.path.parent().unwrap_or(Path::new("."));
        let mut file = NamedTempFile::new_in(folder).map_err(failed)?;
        file.write_all(&bytes).map_err(failed)?;
        file.as_file().set_permissions(self.permissions).map_err(failed)?;
        file.persist(&self.path).map_err(|error| failed(error.error))?;
        Ok(())
    }
}

/// Why a file can have no section.
fn no_elf(shown: &str, bytes: &[u8]) -> String {
    match bytes.starts_with(b"BC\xc0\xde") {
        true => format!(
            "{shown} has no code for the machines of seawall, as it is bitcode of LLVM: compile it \
             without -flto and -emit-llvm"
        ),
        false => {
            format!("{shown} is no ELF file of x86-64: it has no code for the machines of seawall")
        }
    }
}

/// Says something on standard error, which may be closed.
fn tell(kind: &str, text: &str) {
    let _ = writeln!(io::stderr(), "seawall cc: {kind}: {text}");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn objects_are_named_as_the_compiler_names_them() {
        assert_eq!(object_of("src/a.b.c".as_ref()), Path::new("a.b.o"));
        assert_eq!(object_of("-".as_ref()), Path::new("-.o"));
    }

    #[test]
    fn the_driver_is_known_by_the_name_of_its_link() {
        let language = |name: &str| Language::of_command(name.as_ref());
        assert_eq!(language("/usr/bin/seawall-cc"), Some(Language::C));
        assert_eq!(language("seawall-c++"), Some(Language::Cxx));
        assert_eq!(language("bin/seawallcc"), Some(Language::C));
        assert_eq!(language("seawallc++"), Some(Language::Cxx));
        assert_eq!(language("seawall"), None);
    }
}
