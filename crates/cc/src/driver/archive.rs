//! The instrumented twin of a static library: the same members in the same order, each replaced by
//! its instrumented object if it has one.

use super::error::CcError;
use super::section::{self, Record};
use object::read::archive::ArchiveFile;
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A twin on disk.
#[derive(Debug)]
pub(super) struct Twin {
    pub(super) path: PathBuf,
    /// Members of the twin that matter only if the linker takes them.
    pub(super) members: Vec<Member>,
}

/// A member that is not instrumented.
#[derive(Debug)]
pub(super) struct Member {
    /// Its name in the twin, which no other member has.
    pub(super) file: String,
    /// Its name in the library.
    pub(super) name: String,
    /// What was noted when it was compiled.
    pub(super) error: Option<String>,
}

/// Makes the twin of an archive in this folder, which holds nothing else; nothing if no member is
/// instrumented.
pub(super) fn twin(path: &Path, folder: &Path) -> Result<Option<Twin>, CcError> {
    let bytes = fs::read(path).map_err(CcError::file(path))?;
    let Ok(archive) = ArchiveFile::parse(bytes.as_slice()) else { return Ok(None) };
    let mut files = Vec::new();
    let mut members = Vec::new();
    let mut is_instrumented = false;
    for member in archive.members().map_while(Result::ok) {
        let name = String::from_utf8_lossy(member.name()).into_owned();
        let data = match member.is_thin() {
            true => {
                let file = path.parent().unwrap_or(Path::new("")).join(&name);
                fs::read(&file).map_err(CcError::file(&file))?
            }
            false => member.data(bytes.as_slice()).unwrap_or_default().to_vec(),
        };
        let records = section::records(data.as_slice(), path)
            .unwrap_or_else(|error| Some(vec![Record::Error(error.to_string())]));
        is_instrumented |= records.is_some();
        let mut add = |bytes: &[u8], opaque: Vec<String>, error: Option<String>| {
            let file = format!("{}-{}", files.len(), plain(&name));
            let parts = opaque.into_iter().map(|name| (name, None));
            let parts = parts.chain(error.map(|error| (name.clone(), Some(error))));
            let new = parts.map(|(name, error)| Member { file: file.clone(), name, error });
            members.extend(new);
            let file = folder.join(file);
            fs::write(&file, bytes).map_err(CcError::file(&file))?;
            files.push(file);
            Ok(())
        };
        match records {
            None => add(&data, vec![name.clone()], None)?,
            Some(records) => {
                for record in records {
                    match record {
                        Record::Code { opaque, body } => add(&body, opaque, None)?,
                        // Something must be there to be taken, so that this is noticed.
                        Record::Error(error) => add(&data, Vec::new(), Some(error))?,
                    }
                }
            }
        }
    }
    if !is_instrumented {
        return Ok(None);
    }
    let path = folder.join(path.file_name().unwrap_or("lib.a".as_ref()));
    make(&path, &files, folder)?;
    Ok(Some(Twin { path, members }))
}

/// What needs no quotes in a response file, and looks the same when the linker prints it.
fn plain(name: &str) -> String {
    let is_plain = |letter: char| letter.is_ascii_alphanumeric() || "._-".contains(letter);
    let base = name.rsplit('/').next().unwrap_or(name);
    base.chars().map(|letter| if is_plain(letter) { letter } else { '_' }).collect()
}

fn make(path: &Path, files: &[PathBuf], folder: &Path) -> Result<(), CcError> {
    // There may be more names than a command can have. They are plain, and `ar` runs in their
    // folder.
    let names = files.iter().filter_map(|file| file.file_name()?.to_str());
    let list = folder.join("members");
    fs::write(&list, names.collect::<Vec<_>>().join("\n")).map_err(CcError::file(&list))?;
    let words: [OsString; 3] = ["qcs".into(), path.into(), "@members".into()];
    let output =
        Command::new("ar").current_dir(folder).args(words).output().map_err(|source| {
            CcError::NoProgram { program: "ar".into(), source, variable: "PATH" }
        })?;
    match output.status.success() {
        true => Ok(()),
        false => Err(CcError::Twin(format!(
            "ar cannot make the instrumented {}: {}",
            path.display(),
            super::compiler::reason(&output)
        ))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_members_need_no_quotes() {
        assert_eq!(plain("a b/c d.o"), "c_d.o");
        assert_eq!(plain("x.cc.o"), "x.cc.o");
    }
}
