//! The instrumented twin of what a link makes: the same command, with the instrumented twin of each
//! object, archive and library in its place.
//!
//! The image of a program is a shared object, because the process that runs it loads it. Its own
//! symbols bind to itself (`-Bsymbolic`), as those of a program do, and it exports all of them, so
//! that libraries find the program's `malloc` and the support library's `pthread_create`.

use super::archive;
use super::arguments::What;
use super::compiler;
use super::error::CcError;
use super::libraries;
use super::section::{self, Elf, Record};
use super::{Work, flags, support};
use object::read::Object;
use object::{ObjectSymbol, elf};
use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::io::Read;
use std::path::{Path, PathBuf};

/// What a link makes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Made {
    Program,
    Library,
    /// An object of objects.
    Partial,
}

/// The link of a twin, as far as it is put together.
struct Link<'a> {
    work: &'a Work<'a>,
    made: Made,
    words: Vec<OsString>,
    folders: Vec<PathBuf>,
    is_static: bool,
    /// True once anything is instrumented, or was to be.
    has_twin: bool,
    opaque: Vec<String>,
    errors: Vec<String>,
    /// Parts that count only if the linker takes them.
    watched: Vec<Watched>,
}

/// An archive, or a member of one, that is not instrumented.
struct Watched {
    archive: PathBuf,
    /// Any, if there is none.
    member: Option<String>,
    name: String,
    error: Option<String>,
}

/// What the output has in its section; nothing if no part of it was compiled by seawall.
pub(super) fn record(work: &Work<'_>) -> Result<Option<Record>, CcError> {
    let made = made(work);
    let folders = work.arguments.library_folders().map(Path::to_owned);
    let folders = folders.chain(libraries::folders_after("LIBRARY_PATH")).collect();
    let mut link = Link {
        work,
        made,
        words: Vec::new(),
        folders,
        is_static: work.arguments.options().any(|text| text == "-static" || text == "-static-pie"),
        has_twin: false,
        opaque: Vec::new(),
        errors: Vec::new(),
        watched: Vec::new(),
    };
    link.collect()?;
    if !link.has_twin {
        return Ok(None);
    }
    if link.errors.is_empty() {
        match link.image() {
            Ok(body) if link.errors.is_empty() => {
                link.opaque.sort();
                link.opaque.dedup();
                return Ok(Some(Record::Code { opaque: link.opaque, body }));
            }
            Ok(_) => {}
            Err(CcError::Twin(why)) => link.errors.push(why),
            Err(error) => return Err(error),
        }
    }
    link.errors.dedup();
    Ok(Some(Record::Error(link.errors.join("\n"))))
}

fn made(work: &Work<'_>) -> Made {
    let linker = work.arguments.linker_words().map(|word| word.to_string_lossy().into_owned());
    let words: Vec<String> = work.arguments.options().chain(linker).collect();
    let has = |names: &[&str]| words.iter().any(|word| names.contains(&word.as_str()));
    if has(&["-r", "--relocatable", "-i"]) {
        Made::Partial
    } else if has(&["-shared", "--shared", "-Bshareable"]) {
        Made::Library
    } else {
        Made::Program
    }
}

impl Link<'_> {
    /// Puts each argument, or its twin, into the command.
    fn collect(&mut self) -> Result<(), CcError> {
        let is_program = self.made == Made::Program;
        for argument in &self.work.arguments.all {
            match &argument.what {
                What::Source(path, language) => {
                    self.has_twin = true;
                    let folder = self.work.new_folder()?;
                    match self.work.second().object(path, language.as_deref(), &folder) {
                        Ok(object) => self.words.push(object.into()),
                        Err(CcError::Twin(why)) => self.errors.push(why),
                        Err(error) => return Err(error),
                    }
                }
                What::Input(path) => match self.twins(path)? {
                    Some(twins) => self.words.extend(twins),
                    None => self.words.push(path.into()),
                },
                What::Library(name) => {
                    let plain = argument.words.clone();
                    self.library(name, plain)?;
                }
                What::Linker(words) => self.linker_words(words)?,
                What::Option if flags::is_linked(argument, is_program) => {
                    self.words.extend(argument.words.iter().cloned());
                }
                What::LibraryFolder(_) => self.words.extend(argument.words.iter().cloned()),
                What::Option | What::Output(_) | What::Language | What::Assembler(_) => {}
            }
        }
        Ok(())
    }

    /// The words for the linker; there may be files among them.
    fn linker_words(&mut self, words: &[OsString]) -> Result<(), CcError> {
        const BETWEEN_FILES: [&str; 10] = [
            "--whole-archive",
            "--no-whole-archive",
            "--start-group",
            "--end-group",
            "-(",
            "-)",
            "--as-needed",
            "--no-as-needed",
            "--push-state",
            "--pop-state",
        ];
        let mut may_be_file = true;
        for word in flags::linker_words(words, self.made == Made::Program) {
            let text = word.to_string_lossy().into_owned();
            let plain = ["-Xlinker".into(), word.clone()];
            match text.as_str() {
                "-Bstatic" | "-dn" | "-non_shared" => self.is_static = true,
                "-Bdynamic" | "-dy" | "-call_shared" => self.is_static = false,
                _ => {}
            }
            let is_option = text.starts_with('-');
            if let Some(name) = text.strip_prefix("-l").filter(|name| !name.is_empty()) {
                self.library(name.as_ref(), plain.to_vec())?;
            } else if may_be_file && !is_option && Path::new(&word).is_file() {
                match self.twins(Path::new(&word))? {
                    Some(twins) => self.words.extend(twins),
                    None => self.words.extend(plain),
                }
            } else {
                self.words.extend(plain);
            }
            may_be_file = match is_option {
                true => {
                    BETWEEN_FILES.contains(&text.as_str())
                        || text.starts_with("-B")
                        || text.starts_with("-l")
                }
                false => true,
            };
        }
        Ok(())
    }

    /// The twin of a library in the place of its name, or these words.
    fn library(&mut self, name: &OsStr, plain: Vec<OsString>) -> Result<(), CcError> {
        let twins = match libraries::find(name, &self.folders, self.is_static) {
            Some(path) => self.twins(&path)?,
            None => None,
        };
        self.words.extend(twins.unwrap_or(plain));
        Ok(())
    }

    /// What stands for a file; nothing if it stands for itself.
    fn twins(&mut self, path: &Path) -> Result<Option<Vec<OsString>>, CcError> {
        let mut start = [0; 18];
        let mut file = match File::open(path) {
            Ok(file) => file,
            // The user's link has found it, so it is the linker's business.
            Err(_) => return Ok(None),
        };
        let length = file.read(&mut start).unwrap_or(0);
        if start.starts_with(b"!<") {
            return self.archive(path);
        }
        if length < start.len() || !start.starts_with(&elf::ELFMAG) {
            return Ok(None);
        }
        let is_shared = u16::from_le_bytes([start[16], start[17]]) == elf::ET_DYN;
        let records = match section::records_of(path) {
            Ok(Some(records)) => records,
            Ok(None) => {
                if !is_shared {
                    self.opaque.push(path.display().to_string());
                }
                return Ok(None);
            }
            Err(error) => vec![Record::Error(error.to_string())],
        };
        self.has_twin = true;
        let folder = self.work.new_folder()?;
        let mut twins = Vec::new();
        for (number, record) in records.into_iter().enumerate() {
            match record {
                Record::Error(text) => self.errors.push(text),
                Record::Code { opaque, body } => {
                    // What a library is not seen to do is told by the library.
                    if !is_shared {
                        self.opaque.extend(opaque);
                    }
                    let name = path.file_name().unwrap_or("twin".as_ref());
                    let twin = match number {
                        0 => folder.join(name),
                        number => folder.join(format!("{number}.o")),
                    };
                    fs::write(&twin, body).map_err(CcError::file(&twin))?;
                    twins.push(twin.into());
                }
            }
        }
        Ok(Some(twins))
    }

    fn archive(&mut self, path: &Path) -> Result<Option<Vec<OsString>>, CcError> {
        let shown = path.file_name().unwrap_or(path.as_os_str()).to_string_lossy().into_owned();
        let folder = self.work.new_folder()?;
        let twin = match archive::twin(path, &folder) {
            Ok(twin) => twin,
            Err(CcError::Twin(why)) => {
                self.has_twin = true;
                self.errors.push(why);
                return Ok(None);
            }
            Err(error) => return Err(error),
        };
        let Some(twin) = twin else {
            let archive = path.canonicalize().unwrap_or(path.to_owned());
            self.watched.push(Watched { archive, member: None, name: shown, error: None });
            return Ok(None);
        };
        self.has_twin = true;
        let archive = twin.path.canonicalize().unwrap_or(twin.path.clone());
        let members = twin.members.into_iter().map(|member| Watched {
            archive: archive.clone(),
            name: format!("{shown}({})", member.name),
            member: Some(member.file),
            error: member.error,
        });
        self.watched.extend(members);
        Ok(Some(vec![twin.path.into()]))
    }

    /// Links it.
    fn image(&mut self) -> Result<Vec<u8>, CcError> {
        let image = self.work.new_folder()?.join("image");
        let output = self.work.compiler.quietly(self.command(&image)?)?;
        if !output.status.success() {
            let mut why = compiler::reason(&output);
            if !self.opaque.is_empty() {
                why += &format!("\nnot compiled by seawall: {}", self.opaque.join(", "));
            }
            return Err(CcError::Twin(format!(
                "its code for the machines of seawall cannot be linked: {why}"
            )));
        }
        self.watch(&String::from_utf8_lossy(&output.stdout));
        let bytes = fs::read(&image).map_err(CcError::file(&image))?;
        if self.made == Made::Program && !has_main(&bytes) {
            return Err(CcError::Twin("it has no function `main` that can be called".into()));
        }
        Ok(bytes)
    }

    fn command(&self, image: &Path) -> Result<Vec<OsString>, CcError> {
        let mut command: Vec<OsString> = Vec::new();
        let mut add = |words: &[&str]| command.extend(words.iter().map(OsString::from));
        match self.made {
            Made::Program => {
                add(&["-shared", "-Wl,-rpath,$ORIGIN", "-Wl,-Bsymbolic"]);
                // A program may define what the support library defines, and `main` may be in an
                // archive, from where the start of a native program would fetch it.
                add(&["-Wl,-z,muldefs", "-Wl,-u,main"]);
            }
            Made::Library => {
                add(&["-shared", "-Wl,-rpath,$ORIGIN"]);
                if !self.has_soname() {
                    let name = self.work.output().file_name().unwrap_or_default().to_owned();
                    command.extend(["-Xlinker", "-soname", "-Xlinker"].map(OsString::from));
                    command.push(name);
                }
            }
            Made::Partial => add(&["-r"]),
        }
        command.extend(self.words.iter().cloned());
        if self.made == Made::Program {
            let folder = self.work.new_folder()?;
            let support = support::object(self.work.compiler, self.work.instrument, &folder)?;
            command.extend(support.map(OsString::from));
            command.push("-Wl,-z,now".into());
        }
        if self.made != Made::Partial {
            // The older kind of path goes before `LD_LIBRARY_PATH`, where native libraries are.
            command.push("-Wl,--disable-new-dtags".into());
        }
        command.extend(["-Wl,-t,-t", "-o"].map(OsString::from));
        command.push(image.into());
        Ok(command)
    }

    fn has_soname(&self) -> bool {
        self.work.arguments.linker_words().any(|word| {
            let text = word.to_string_lossy();
            ["-soname", "--soname", "-h"].iter().any(|name| text.starts_with(name))
        })
    }

    /// Looks for what the linker took, of which it has printed the names.
    fn watch(&mut self, trace: &str) {
        let taken: Vec<(PathBuf, &str)> = trace.lines().filter_map(taken).collect();
        for watched in std::mem::take(&mut self.watched) {
            let is_taken = taken.iter().any(|(archive, member)| {
                *archive == watched.archive
                    && watched.member.as_deref().is_none_or(|name| name == *member)
            });
            match watched.error {
                _ if !is_taken => {}
                Some(error) => self.errors.push(error),
                None => self.opaque.push(watched.name),
            }
        }
    }
}

/// The archive and the member of a line such as `(lib/libx.a)y.o` or `lib/libx.a(y.o)`.
fn taken(line: &str) -> Option<(PathBuf, &str)> {
    let line = line.trim();
    let (archive, member) = match line.strip_prefix('(') {
        Some(line) => line.split_once(')')?,
        None => line.strip_suffix(')')?.rsplit_once('(')?,
    };
    Some((Path::new(archive).canonicalize().ok()?, member))
}

fn has_main(image: &[u8]) -> bool {
    Elf::parse(image).is_ok_and(|image| {
        image.dynamic_symbols().any(|symbol| symbol.name() == Ok("main") && symbol.is_definition())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_are_read_from_what_linkers_print() {
        let file = std::env::current_exe().unwrap().canonicalize().unwrap();
        let shown = file.display();
        let wanted = Some((file.clone(), "a.o"));
        assert_eq!(taken(&format!("({shown})a.o")), wanted);
        assert_eq!(taken(&format!("{shown}(a.o)")), wanted);
        assert_eq!(taken(&format!("{shown}")), None);
    }
}
