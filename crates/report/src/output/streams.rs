//! Outputs that are open already: standard output and standard error by any name, and what
//! `/dev/fd` and `/proc/PID/fd` lead to. They are added to as they are: whoever opened them said
//! what is to become of what is there, and there is no file beside them that would be theirs.

use super::LINKS_MAX;
use std::fs::{self, File, Metadata, OpenOptions};
use std::io::{self, Write};
use std::os::fd::AsFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Component, Path};

/// Something that is open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stream {
    Output,
    Error,
    /// Another of this process, by its number.
    Ours(i32),
    /// One of another process.
    Foreign,
}

impl Stream {
    /// What `path` leads to, if that is open.
    pub(super) fn of(path: &Path) -> Option<Stream> {
        let status = fs::metadata(path).ok();
        let standard = status.as_ref().and_then(standard);
        standard.or_else(|| descriptor(path))
    }

    /// It, to add to.
    pub(super) fn open(self, path: &Path) -> io::Result<Box<dyn Write>> {
        Ok(match self {
            Stream::Output => Box::new(io::stdout()),
            Stream::Error => Box::new(io::stderr()),
            Stream::Ours(number) => Box::new(seawall_native::descriptor(number)?),
            Stream::Foreign => Box::new(OpenOptions::new().append(true).open(path)?),
        })
    }
}

/// Standard output or standard error, if `status` is of what that is.
fn standard(status: &Metadata) -> Option<Stream> {
    let is_it = |stream: io::Result<std::os::fd::OwnedFd>| {
        let of_stream = stream.and_then(|copy| File::from(copy).metadata());
        of_stream.is_ok_and(|it| (it.dev(), it.ino()) == (status.dev(), status.ino()))
    };
    if is_it(io::stdout().as_fd().try_clone_to_owned()) {
        Some(Stream::Output)
    } else if is_it(io::stderr().as_fd().try_clone_to_owned()) {
        Some(Stream::Error)
    } else {
        None
    }
}

/// What is open, if links lead from `path` into a folder of what is.
fn descriptor(path: &Path) -> Option<Stream> {
    let mut path = path.to_owned();
    for _ in 0..LINKS_MAX {
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
        let folder = folder.unwrap_or(Path::new(".")).canonicalize().ok()?;
        let number = path.file_name()?.to_str()?.parse::<i32>().ok();
        if let Some((number, process)) = number.zip(process_of(&folder)) {
            let is_ours = process.is_none_or(|process| process == std::process::id());
            return Some(if is_ours { Stream::Ours(number) } else { Stream::Foreign });
        }
        path = folder.join(fs::read_link(&path).ok()?);
    }
    None
}

/// Whose open files `folder` has, if it has any: none where a system has only our own.
fn process_of(folder: &Path) -> Option<Option<u32>> {
    if folder == Path::new("/dev/fd") {
        return Some(None);
    }
    let parts: Vec<&str> = folder
        .components()
        .filter(|part| *part != Component::RootDir)
        .map(|part| part.as_os_str().to_str())
        .collect::<Option<_>>()?;
    match parts[..] {
        ["proc", process, "fd"] | ["proc", process, "task", _, "fd"] => {
            process.parse().ok().map(Some)
        }
        _ => None,
    }
}
