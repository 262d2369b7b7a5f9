//! Installs what programs are built with: headers, a static library, files for pkg-config and
//! CMake, and manual pages.
//!
//! The static library of rustc has Rust's standard library in it, with thousands of global names.
//! It is linked into one object, of which only what the list names stays global: so it can be
//! linked beside any other library.

use crate::table::DevelopmentFiles;
use crate::{ClibError, LibraryEntry, at, compiler, manual, symbols};
use std::ffi::{OsStr, OsString};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// What a program needs besides the static library; the shared one has asked for them itself.
const NEEDS: &str = "-lgcc_s -lpthread -ldl -lm";

/// A library to install beside its shared object.
#[derive(Clone, Debug)]
pub struct Installation<'a> {
    /// Its line in the table.
    pub entry: &'static LibraryEntry,
    /// The workspace.
    pub root: &'a Path,
    /// The static library that rustc made.
    pub archive: &'a Path,
    /// The folder with `lib`, `include` and `share`.
    pub folder: &'a Path,
    /// Where that will be when programs are built, for pkg-config.
    pub prefix: &'a Path,
}

impl Installation<'_> {
    /// Writes all files, if the library has any; gives their paths.
    ///
    /// # Errors
    /// When a tool is missing or fails, or when a file cannot be read or written.
    pub fn install(&self) -> Result<Vec<PathBuf>, ClibError> {
        let Some(files) = &self.entry.development else { return Ok(Vec::new()) };
        let mut written = vec![self.static_library()?];
        for header in std::iter::once(&files.header).chain(files.more_headers) {
            written.push(self.copy(header, "include")?);
        }
        let name = self.entry.name;
        let (cmake, lib) = (files.cmake, format!("lib/cmake/{}", files.cmake));
        let texts = [
            (format!("lib/pkgconfig/{name}.pc"), self.pkg_config(files)),
            (format!("{lib}/{cmake}-config.cmake"), self.cmake(files)),
            (format!("{lib}/{cmake}-config-version.cmake"), cmake_version(files.version)),
        ];
        for (path, text) in texts {
            written.push(self.write(&path, &text)?);
        }
        for page in files.pages {
            let section = page.rsplit('.').next().unwrap_or("7");
            written.push(self.copy(page, &format!("share/man/man{section}"))?);
        }
        let header = self.root.join(files.header);
        let text = fs::read_to_string(&header).map_err(at(&header))?;
        for page in manual::pages(&text, &format!("libseawall {}", files.version)) {
            written.push(self.write(&format!("share/man/man3/{}.3", page.name), &page.text)?);
        }
        Ok(written)
    }

    fn write(&self, path: &str, text: &str) -> Result<PathBuf, ClibError> {
        let path = self.folder.join(path);
        let folder = path.parent().unwrap_or(self.folder);
        fs::create_dir_all(folder).map_err(at(folder))?;
        fs::write(&path, text).map_err(at(&path))?;
        Ok(path)
    }

    fn copy(&self, file: &str, into: &str) -> Result<PathBuf, ClibError> {
        let from = self.root.join(file);
        let text = fs::read_to_string(&from).map_err(at(&from))?;
        let name = from.file_name().unwrap_or_default().to_string_lossy().into_owned();
        self.write(&format!("{into}/{name}"), &text)
    }

    /// Makes `lib/lib<name>.a`; gives its path.
    fn static_library(&self) -> Result<PathBuf, ClibError> {
        let name = format!("lib{}.a", self.entry.name);
        let lib = self.folder.join("lib");
        fs::create_dir_all(&lib).map_err(at(&lib))?;
        let hidden = |what: &str| lib.join(format!(".{name}.{}.{what}", std::process::id()));
        let (object, list, fresh) = (hidden("o"), hidden("list"), hidden("new"));
        let path = lib.join(&name);
        let made = self.link_static(&object, &list, &fresh);
        let made = made.and_then(|()| fs::rename(&fresh, &path).map_err(at(&path)));
        for file in [&object, &list, &fresh] {
            let _ = fs::remove_file(file);
        }
        made.map(|()| path)
    }

    fn link_static(&self, object: &Path, list: &Path, fresh: &Path) -> Result<(), ClibError> {
        let path = self.root.join(self.entry.symbols);
        let text = fs::read_to_string(&path).map_err(at(&path))?;
        let names: Vec<&str> = symbols(&text).collect();
        fs::write(list, names.join("\n")).map_err(at(list))?;
        let mut link: Vec<OsString> =
            ["-r", "-nostdlib", "-Wl,--gc-sections"].map(OsString::from).into();
        link.extend(names.iter().map(|name| OsString::from(format!("-Wl,-u,{name}"))));
        link.extend(["-o".into(), object.into(), self.archive.into()]);
        self.run(&compiler(), &link)?;
        let mut keep = OsString::from("--keep-global-symbols=");
        keep.push(list);
        // The standard library is also there as code of LLVM, which some kinds of `ar` try to read.
        let less = ["--strip-debug", "--remove-section=.llvmbc", "--remove-section=.llvmcmd"];
        let options = std::iter::once(keep).chain(less.map(OsString::from));
        let options: Vec<OsString> = options.chain([object.into()]).collect();
        self.run("objcopy".as_ref(), &options)?;
        self.run("ar".as_ref(), &["rcs".into(), fresh.into(), object.into()])
    }

    fn run(&self, tool: &OsStr, arguments: &[OsString]) -> Result<(), ClibError> {
        let done = Command::new(tool).args(arguments).output();
        let tool = tool.to_string_lossy().into_owned();
        let done = done.map_err(|source| ClibError::NoCompiler { tool: tool.clone(), source })?;
        if done.status.success() {
            return Ok(());
        }
        let says = String::from_utf8_lossy(&done.stderr).trim().to_owned();
        Err(ClibError::Link { tool, soname: format!("lib{}.a", self.entry.name), says })
    }

    fn pkg_config(&self, files: &DevelopmentFiles) -> String {
        let DevelopmentFiles { description, version, .. } = files;
        let (name, prefix) = (self.entry.name, self.prefix.display());
        format!(
            "prefix={prefix}\nlibdir=${{prefix}}/lib\nincludedir=${{prefix}}/include\n\n\
             Name: {name}\nDescription: {description}\nVersion: {version}\n\
             Libs: -L${{libdir}} -l{name}\nLibs.private: {NEEDS}\nCflags: -I${{includedir}}\n"
        )
    }

    fn cmake(&self, files: &DevelopmentFiles) -> String {
        let (cmake, name, soname) = (files.cmake, self.entry.name, self.entry.soname);
        format!(
            "# Targets {cmake}::{cmake} (shared) and {cmake}::{cmake}_static.\n\
             get_filename_component(_{cmake}_prefix \"${{CMAKE_CURRENT_LIST_DIR}}/../../..\" \
             ABSOLUTE)\n\
             if(NOT TARGET {cmake}::{cmake})\n  add_library({cmake}::{cmake} SHARED IMPORTED)\n  \
             set_target_properties({cmake}::{cmake} PROPERTIES\n    \
             IMPORTED_LOCATION \"${{_{cmake}_prefix}}/lib/{soname}\"\n    \
             IMPORTED_SONAME \"{soname}\"\n    \
             INTERFACE_INCLUDE_DIRECTORIES \"${{_{cmake}_prefix}}/include\")\n  \
             add_library({cmake}::{cmake}_static STATIC IMPORTED)\n  \
             set_target_properties({cmake}::{cmake}_static PROPERTIES\n    \
             IMPORTED_LOCATION \"${{_{cmake}_prefix}}/lib/lib{name}.a\"\n    \
             INTERFACE_LINK_LIBRARIES \"{libraries}\"\n    \
             INTERFACE_INCLUDE_DIRECTORIES \"${{_{cmake}_prefix}}/include\")\nendif()\n\
             unset(_{cmake}_prefix)\n",
            libraries = NEEDS.replace(' ', ";"),
        )
    }
}

/// Before version 1 each minor version is another library.
fn cmake_version(version: &str) -> String {
    let minor = version.rsplit_once('.').map_or(version, |(minor, _)| minor);
    format!(
        "set(PACKAGE_VERSION \"{version}\")\n\
         if(PACKAGE_FIND_VERSION VERSION_GREATER PACKAGE_VERSION OR\n   \
         PACKAGE_FIND_VERSION VERSION_LESS \"{minor}\")\n  \
         set(PACKAGE_VERSION_COMPATIBLE FALSE)\nelse()\n  \
         set(PACKAGE_VERSION_COMPATIBLE TRUE)\nendif()\n\
         if(PACKAGE_FIND_VERSION VERSION_EQUAL PACKAGE_VERSION)\n  \
         set(PACKAGE_VERSION_EXACT TRUE)\nendif()\n"
    )
}
