//! The keeper of a process's temporary folders: none stays, whenever the process is killed.
//!
//! A process that is killed removes nothing, and it may be killed at any moment: while a program
//! runs, between two programs, before the first. So its folders are made by another process, which
//! does nothing but wait: it makes one when it is asked to, and removes all that are left when the
//! pipe closes by which it is asked, as the system closes it at every kind of end. A folder that
//! was asked for, and whose name the asker did not live to read, is among them.

use crate::spawn::server;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::os::fd::AsFd;
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::os::unix::process::{CommandExt as _, parent_id};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::Duration;

/// Asks for a folder.
const MAKE: u8 = b'+';
/// Says that a folder, whose path follows, is none of the asker's any more.
const FORGET: u8 = b'-';
/// Begins the answer that is a path.
const MADE: u8 = b'y';
/// Begins the answer that is the reason why there is none.
const FAILED: u8 = b'n';
/// Ends paths and answers.
const END: u8 = 0;

/// How long the keeper waits before it looks whether its asker is still there: the pipe may be open
/// in a process that the asker has forked.
const LOOK: Timespec = Timespec { tv_sec: 0, tv_nsec: 500_000_000 };

/// A keeper of this process's folders, as this process sees it.
#[derive(Debug)]
pub(super) struct Keeper {
    process: Child,
    requests: Option<ChildStdin>,
    answers: ChildStdout,
    /// The process that it was started by; it keeps nothing for others.
    asker: u32,
}

impl Keeper {
    pub(super) fn start() -> io::Result<Keeper> {
        let words = server("program-folders")?;
        let (program, words) = words.split_first().expect("a server has a program");
        let asker = std::process::id();
        let mut command = Command::new(program);
        command.args(words).arg(asker.to_string()).process_group(0);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut process = command.spawn()?;
        let answers = process.stdout.take().expect("a pipe");
        let requests = process.stdin.take();
        Ok(Keeper { process, requests, answers, asker })
    }

    /// Whether it was started by this process, and not by one that has forked this one.
    pub(super) fn is_own(&self) -> bool {
        self.asker == std::process::id()
    }

    /// A new folder.
    pub(super) fn make(&mut self) -> io::Result<PathBuf> {
        self.ask(&[MAKE])?;
        let mut first = [0];
        self.answers.read_exact(&mut first)?;
        let answer = until_end(&mut self.answers)?;
        match first[0] {
            MADE => Ok(OsString::from_vec(answer).into()),
            FAILED => Err(io::Error::other(String::from_utf8_lossy(&answer).into_owned())),
            _ => Err(io::Error::other("the process that keeps temporary folders answers nonsense")),
        }
    }

    /// Says that a folder was removed. If the keeper is gone, there is nobody to tell.
    pub(super) fn forget(&mut self, folder: &Path) {
        let _ = self.ask(&[&[FORGET], folder.as_os_str().as_bytes(), &[END]].concat());
    }

    fn ask(&mut self, request: &[u8]) -> io::Result<()> {
        self.requests.as_mut().expect("it was not ended").write_all(request)
    }
}

impl Drop for Keeper {
    /// Lets it remove what is left, and waits until it has.
    fn drop(&mut self) {
        if self.is_own() {
            self.requests = None;
            let _ = self.process.wait();
        }
    }
}

fn until_end(from: &mut impl Read) -> io::Result<Vec<u8>> {
    let (mut bytes, mut byte) = (Vec::new(), [0]);
    loop {
        from.read_exact(&mut byte)?;
        if byte[0] == END {
            return Ok(bytes);
        }
        bytes.push(byte[0]);
    }
}

/// Keeps the folders of the process `asker`, which has started this one and asks by its standard
/// input, and removes them when that has ended.
pub fn keep_folders(asker: u32) -> ! {
    let mut answers = io::stdout().lock();
    let mut folders = Vec::new();
    if let Ok(mut requests) = unbuffered(io::stdin()) {
        while let Ok(true) = has_request(asker)
            && let Ok(()) = serve(&mut requests, &mut answers, &mut folders)
        {}
    }
    folders.iter().for_each(|folder| remove(folder));
    std::process::exit(0)
}

/// A pipe of which nothing is read ahead: [`has_request`] would not see a request that is.
fn unbuffered(pipe: impl AsFd) -> io::Result<File> {
    Ok(pipe.as_fd().try_clone_to_owned()?.into())
}

/// Waits for a request, or the end of them; false if the asker is gone.
fn has_request(asker: u32) -> io::Result<bool> {
    let stdin = io::stdin();
    while parent_id() == asker {
        match poll(&mut [PollFd::new(&stdin, PollFlags::IN)], Some(&LOOK)) {
            Ok(0) | Err(Errno::INTR) => {}
            Ok(_) => return Ok(true),
            Err(error) => return Err(error.into()),
        }
    }
    Ok(false)
}

/// Does what the next request says; fails at their end.
fn serve(
    requests: &mut impl Read,
    answers: &mut impl Write,
    folders: &mut Vec<PathBuf>,
) -> io::Result<()> {
    let mut request = [0];
    requests.read_exact(&mut request)?;
    if request[0] == FORGET {
        let folder = PathBuf::from(OsString::from_vec(until_end(requests)?));
        folders.retain(|known| *known != folder);
        return Ok(());
    }
    let answer = match tempfile::Builder::new().prefix("seawall-").tempdir() {
        Ok(folder) => {
            folders.push(folder.keep());
            let folder = folders.last().expect("it was pushed").as_os_str();
            [&[MADE], folder.as_bytes(), &[END]].concat()
        }
        Err(error) => [&[FAILED], error.to_string().as_bytes(), &[END]].concat(),
    };
    answers.write_all(&answer)?;
    answers.flush()
}

/// Removes a folder, in which those who end with the asker may still make files.
pub(super) fn remove(folder: &Path) {
    const TIMES: usize = 1000;
    for _ in 0..TIMES {
        match fs::remove_dir_all(folder) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                std::thread::sleep(Duration::from_millis(2));
            }
            _ if folder.exists() => {}
            _ => return,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_two_requests_that_come_at_once_the_second_is_still_waited_for() {
        let (from, mut to) = io::pipe().unwrap();
        to.write_all(&[FORGET, b'x', END, MAKE]).unwrap();
        let mut requests = unbuffered(&from).unwrap();
        let (mut answers, mut folders) = (Vec::new(), vec!["x".into()]);
        serve(&mut requests, &mut answers, &mut folders).unwrap();
        assert!(folders.is_empty() && answers.is_empty());
        let now = Timespec { tv_sec: 0, tv_nsec: 0 };
        assert_eq!(poll(&mut [PollFd::new(&from, PollFlags::IN)], Some(&now)).unwrap(), 1);
        serve(&mut requests, &mut answers, &mut folders).unwrap();
        assert_eq!((answers[0], folders.len()), (MADE, 1));
        folders.iter().for_each(|folder| remove(folder));
    }
}
