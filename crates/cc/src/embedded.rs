//! Reading what the [driver](crate::driver) has put into a program: its image, and those of the
//! libraries that it is linked with.

use crate::driver::error::CcError;
use crate::driver::libraries::{folders_after, is_of_openmp, is_of_the_system};
use crate::driver::section::{self, Elf, Record};
use object::elf;
use object::read::ReadCache;
use object::read::elf::Dyn;
use object::{LittleEndian, Object as _, ObjectSymbol as _, SymbolKind};
use std::collections::VecDeque;
use std::env;
use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::{self, Read};
use std::ops::Range;
use std::path::{Path, PathBuf};

/// The instrumented code of a program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Embedded {
    /// The name of the program's file.
    pub program: String,
    /// A shared object with the program's `main`.
    pub image: Vec<u8>,
    /// The libraries that the image needs.
    pub libraries: Vec<TwinLibrary>,
    /// Whether the system loads the program at one address, always (`-no-pie`).
    pub is_fixed: bool,
    /// Objects, members of archives and shared libraries that are not instrumented: what these do
    /// to memory is not seen.
    pub opaque: Vec<String>,
}

/// The instrumented code of a shared library.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TwinLibrary {
    /// The name by which the loader looks for it, in the folder of the image.
    pub name: String,
    /// A shared object.
    pub image: Vec<u8>,
}

impl Embedded {
    /// Writes the image and the libraries into a folder, where the loader finds them by each other;
    /// gives the path of the image, which is `PROGRAM.seawall.so`.
    pub fn write(&self, folder: &Path) -> io::Result<PathBuf> {
        for library in &self.libraries {
            fs::write(folder.join(&library.name), &library.image)?;
        }
        let image = folder.join(format!("{}.seawall.so", self.program));
        fs::write(&image, &self.image)?;
        Ok(image)
    }

    /// Whether the program itself, not a library, defines a function that others can see.
    pub fn defines(&self, function: &str) -> bool {
        let Ok(image) = object::File::parse(&*self.image) else { return false };
        let mut symbols = image.dynamic_symbols();
        symbols.any(|symbol| {
            let is_function = symbol.is_definition() && symbol.kind() == SymbolKind::Text;
            is_function && symbol.name() == Ok(function)
        })
    }
}

/// Functions of the standard library of C++ that the compiler has made from its headers: their
/// addresses in a module.
pub fn functions_of_cxx(module: &Path) -> Vec<Range<u64>> {
    /// What their names begin with: `std` and `__gnu_cxx`, functions and methods.
    const NAMES: [&str; 6] =
        ["_ZNSt", "_ZNKSt", "_ZSt", "_ZNSa", "_ZN9__gnu_cxx", "_ZNK9__gnu_cxx"];
    let bytes = fs::read(module).unwrap_or_default();
    let Ok(module) = object::File::parse(&*bytes) else { return Vec::new() };
    let is_of_cxx = |name: &str| NAMES.iter().any(|start| name.starts_with(start));
    let symbols = module.symbols().chain(module.dynamic_symbols());
    let functions = symbols.filter(|symbol| {
        let is_function = symbol.is_definition() && symbol.kind() == SymbolKind::Text;
        is_function && symbol.name().is_ok_and(is_of_cxx)
    });
    functions.map(|symbol| symbol.address()..symbol.address() + symbol.size()).collect()
}

/// Reads what a program has embedded, and what its libraries have.
pub fn embedded(path: &Path) -> Result<Embedded, CcError> {
    CcError::of_this_host()?;
    let native = Needs::read(path)?.ok_or_else(|| not_elf(path))?;
    let (image, mut opaque) = image_of(path)?.ok_or_else(|| CcError::NoCode(path.to_owned()))?;
    let mut libraries: Vec<TwinLibrary> = Vec::new();
    let mut names = Vec::new();
    let mut queue: VecDeque<Needs> = [native].into();
    while let Some(needs) = queue.pop_front() {
        for name in &needs.names {
            if is_of_openmp(name) {
                return Err(CcError::OpenMp { path: path.to_owned(), library: name.clone() });
            }
            if names.contains(name) || is_of_the_system(name) {
                continue;
            }
            names.push(name.clone());
            // The loader ends a program of which a library is missing; here only its code counts.
            let Some(file) = needs.find(name) else { continue };
            match image_of(&file)? {
                None => opaque.push(name.clone()),
                Some((image, parts)) => {
                    let base = name.rsplit('/').next().unwrap_or(name).to_owned();
                    opaque.extend(parts.into_iter().map(|part| format!("{base}: {part}")));
                    libraries.push(TwinLibrary { name: base, image });
                    queue.extend(Needs::read(&file)?.map(|next| next.after(&needs)));
                }
            }
        }
    }
    let program = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    Ok(Embedded { program, image, libraries, is_fixed: is_fixed(path), opaque })
}

/// Whether the header of a program says that it is at one address.
fn is_fixed(path: &Path) -> bool {
    let mut start = [0; 18];
    let is_read = File::open(path).is_ok_and(|mut file| file.read_exact(&mut start).is_ok());
    is_read && start[16..] == elf::ET_EXEC.to_le_bytes()
}

fn not_elf(path: &Path) -> CcError {
    let mut start = [0; 2];
    let is_script =
        File::open(path).is_ok_and(|mut file| file.read(&mut start).is_ok()) && start == *b"#!";
    let name = path.file_name().unwrap_or_default();
    let built = path.with_file_name(".libs").join(name);
    let hint = match (is_script, built.is_file()) {
        (true, true) => format!(": it is a script of libtool; take {}", built.display()),
        (true, false) => ": it is a script; take the program that it runs".into(),
        _ => String::new(),
    };
    CcError::NotElf { path: path.to_owned(), hint }
}

/// A shared object, and the names of its parts that are not instrumented.
type Image = (Vec<u8>, Vec<String>);

/// What a file has embedded.
fn image_of(path: &Path) -> Result<Option<Image>, CcError> {
    let Some(records) = section::records_of(path)? else { return Ok(None) };
    match records.into_iter().next() {
        Some(Record::Code { opaque, body }) => Ok(Some((body, opaque))),
        Some(Record::Error(text)) => Err(CcError::Noted { path: path.to_owned(), text }),
        None => Ok(None),
    }
}

/// Which libraries a file needs, and where the loader looks for them.
#[derive(Debug, Default)]
struct Needs {
    names: Vec<String>,
    /// `DT_RPATH`, which libraries inherit, unless there is the newer kind.
    old_folders: Vec<PathBuf>,
    /// `DT_RUNPATH`.
    new_folders: Vec<PathBuf>,
}

impl Needs {
    /// Nothing if it is no ELF file of this machine.
    fn read(path: &Path) -> Result<Option<Self>, CcError> {
        let file = File::open(path).map_err(CcError::file(path))?;
        let cache = ReadCache::new(file);
        let Ok(file) = Elf::parse(&cache) else { return Ok(None) };
        let endian = LittleEndian;
        let mut needs = Needs::default();
        let dynamic = file.elf_section_table().dynamic(endian, &cache).ok().flatten();
        let Some((entries, strings)) = dynamic else { return Ok(Some(needs)) };
        let strings = file.elf_section_table().strings(endian, &cache, strings).ok();
        let Some(strings) = strings else { return Ok(Some(needs)) };
        let origin = path.canonicalize().unwrap_or(path.to_owned());
        let origin = origin.parent().unwrap_or(Path::new("/")).display().to_string();
        for entry in entries {
            let text = || {
                let offset = entry.val32(endian).unwrap_or(0);
                let text = strings.get(offset).unwrap_or_default();
                String::from_utf8_lossy(text).into_owned()
            };
            let folders = || {
                let text = text().replace("${ORIGIN}", &origin).replace("$ORIGIN", &origin);
                text.split(':').filter(|one| !one.is_empty()).map(PathBuf::from).collect()
            };
            match entry.tag32(endian) {
                Some(elf::DT_NEEDED) => needs.names.push(text()),
                Some(elf::DT_RPATH) => needs.old_folders = folders(),
                Some(elf::DT_RUNPATH) => needs.new_folders = folders(),
                _ => {}
            }
        }
        if !needs.new_folders.is_empty() {
            needs.old_folders.clear();
        }
        Ok(Some(needs))
    }

    /// With what is inherited from who needs it.
    fn after(mut self, parent: &Needs) -> Self {
        if self.new_folders.is_empty() {
            self.old_folders.extend(parent.old_folders.iter().cloned());
        }
        self
    }

    /// The file that the loader would load.
    fn find(&self, name: &str) -> Option<PathBuf> {
        if name.contains('/') {
            return Some(PathBuf::from(name)).filter(|path| path.is_file());
        }
        let named = folders_in(&env::var_os("LD_LIBRARY_PATH").unwrap_or_default());
        let usual = folders_after("");
        let folders = [&self.old_folders, &named, &self.new_folders, &usual];
        let mut files = folders.into_iter().flatten().map(|folder| folder.join(name));
        files.find(|path| path.is_file())
    }
}

/// The folders of `LD_LIBRARY_PATH`. One without a name is the current one, but a variable that is
/// empty says nothing.
fn folders_in(variable: &OsStr) -> Vec<PathBuf> {
    match variable.is_empty() {
        true => Vec::new(),
        false => env::split_paths(variable).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_empty_variable_names_no_folder() {
        assert!(folders_in("".as_ref()).is_empty());
        assert_eq!(folders_in("/a:".as_ref()), [Path::new("/a"), Path::new("")]);
    }

    #[test]
    fn a_program_of_another_compiler_has_no_code() {
        let error = embedded(&env::current_exe().unwrap()).unwrap_err();
        assert!(matches!(error, CcError::NoCode(_)), "{error}");
        assert!(error.to_string().ends_with("build it with `seawall cc`"));
    }

    #[test]
    fn scripts_of_libtool_say_where_the_program_is() {
        let folder = tempfile::tempdir().unwrap();
        let script = folder.path().join("prog");
        fs::write(&script, "#!/bin/sh\n").unwrap();
        let said = embedded(&script).unwrap_err().to_string();
        assert!(said.contains("take the program that it runs"), "{said}");
        fs::create_dir(folder.path().join(".libs")).unwrap();
        fs::write(folder.path().join(".libs/prog"), "").unwrap();
        let said = embedded(&script).unwrap_err().to_string();
        assert!(said.contains(".libs/prog"), "{said}");
    }

    #[test]
    fn the_libraries_of_this_test_are_found() {
        let needs = Needs::read(&env::current_exe().unwrap()).unwrap().unwrap();
        let libc = needs.names.iter().find(|name| name.starts_with("libc.so")).unwrap();
        assert!(needs.find(libc).is_some());
    }
}
