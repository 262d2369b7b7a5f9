//! Signals by which a program is ended: Ctrl-C (SIGINT), what `kill` sends (SIGTERM), the end of a
//! terminal (SIGHUP) and Ctrl-\ (SIGQUIT).
//!
//! They are blocked in every thread and waited for by one of its own, so that what they lead to is
//! ordinary code, which may lock, print and exit, and not a signal handler. Also here: two calls on
//! files that the standard library does not have.

use std::fs::File;
use std::io::{self, ErrorKind};
use std::mem::MaybeUninit;
use std::os::fd::FromRawFd;
use std::sync::mpsc::channel;
use std::thread::Builder;

/// The signals.
const ENDS: [libc::c_int; 4] = [libc::SIGINT, libc::SIGTERM, libc::SIGHUP, libc::SIGQUIT];

/// Whether who has started this process wants it to outlive this signal, as `nohup` does. A shell
/// has SIGINT ignored in the background, where Ctrl-C does not reach and `kill` is meant.
fn is_ignored(signal: libc::c_int) -> bool {
    let mut now = MaybeUninit::<libc::sigaction>::uninit();
    // SAFETY: the call fills the structure, which is read only then.
    let known = unsafe { libc::sigaction(signal, std::ptr::null(), now.as_mut_ptr()) == 0 };
    // SAFETY: as above.
    signal == libc::SIGHUP && known && unsafe { now.assume_init() }.sa_sigaction == libc::SIG_IGN
}

/// Calls `act` for each such signal, in a thread of its own. To be called before other threads are
/// started: those that run already would end the process.
///
/// # Errors
/// When the system has no thread left.
pub fn on_stop(mut act: impl FnMut() + Send + 'static) -> io::Result<()> {
    let mut set = MaybeUninit::<libc::sigset_t>::uninit();
    // SAFETY: the first call fills the set, which the others then read and change.
    let set = unsafe {
        libc::sigemptyset(set.as_mut_ptr());
        for signal in ENDS.into_iter().filter(|signal| !is_ignored(*signal)) {
            libc::sigaddset(set.as_mut_ptr(), signal);
        }
        set.assume_init()
    };
    block(&set, libc::SIG_BLOCK);
    let (ready, is_ready) = channel();
    let wait = move || {
        let _ = ready.send(());
        loop {
            let mut signal = 0;
            // SAFETY: the set is whole, and the number of the signal goes to a place of ours.
            if unsafe { libc::sigwait(&set, &mut signal) } == 0 {
                act();
            }
        }
    };
    let started = Builder::new().name("signals".into()).spawn(wait);
    // A thread that starts when there is no memory left panics: it starts before anything is used.
    let started = started.and_then(|_| is_ready.recv().map_err(|_| ErrorKind::OutOfMemory.into()));
    if started.is_err() {
        block(&set, libc::SIG_UNBLOCK);
    }
    started
}

/// Does `act` with signals that end a program held back in this thread, so that they end it after
/// `act` and not within.
pub fn hold_signals<T>(act: impl FnOnce() -> T) -> T {
    let mut set = MaybeUninit::<libc::sigset_t>::uninit();
    let mut before = MaybeUninit::<libc::sigset_t>::uninit();
    // SAFETY: the first call fills the set, which the others then read and change; the last also
    // fills the other one.
    let failed = unsafe {
        libc::sigemptyset(set.as_mut_ptr());
        for signal in ENDS {
            libc::sigaddset(set.as_mut_ptr(), signal);
        }
        libc::pthread_sigmask(libc::SIG_BLOCK, set.as_ptr(), before.as_mut_ptr())
    };
    let done = act();
    if failed == 0 {
        // SAFETY: the call above has filled it.
        block(unsafe { before.assume_init_ref() }, libc::SIG_SETMASK);
    }
    done
}

/// Makes a file that would become too large (`ulimit -f`) an error of the write, not the end of the
/// process.
pub fn ignore_size_limit() {
    // SAFETY: no handler is set that could run.
    unsafe { libc::signal(libc::SIGXFSZ, libc::SIG_IGN) };
}

/// Another handle of what is open for writing under this number: its place in the file is the same.
///
/// # Errors
/// When nothing is open under it, or it is only to be read.
pub fn descriptor(number: i32) -> io::Result<File> {
    // SAFETY: both only ask; a number under which nothing is open is an error.
    let (flags, copy) = unsafe {
        (libc::fcntl(number, libc::F_GETFL), libc::fcntl(number, libc::F_DUPFD_CLOEXEC, 3))
    };
    if flags < 0 || copy < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the number is new, so it has no other owner.
    let file = unsafe { File::from_raw_fd(copy) };
    match flags & libc::O_ACCMODE {
        libc::O_RDONLY => Err(ErrorKind::PermissionDenied.into()),
        _ => Ok(file),
    }
}

fn block(set: &libc::sigset_t, how: libc::c_int) {
    // SAFETY: the set is whole, and what was blocked before is not asked for.
    unsafe { libc::pthread_sigmask(how, set, std::ptr::null_mut()) };
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;
    use std::io::Write;
    use std::os::fd::AsRawFd;

    fn held() -> u64 {
        let status = std::fs::read_to_string("/proc/thread-self/status").unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix("SigBlk:")).unwrap();
        u64::from_str_radix(line.trim(), 16).unwrap()
    }

    #[test]
    fn signals_are_held_back_for_as_long_as_something_is_done() {
        let before = held();
        let within = hold_signals(held);
        for signal in ENDS {
            assert!(within & 1 << (signal - 1) != 0, "signal {signal} is not held back");
        }
        assert_eq!(held(), before);
    }

    #[test]
    fn another_handle_of_a_file_goes_on_where_the_first_has_stopped() {
        let path = tempfile::NamedTempFile::new().unwrap();
        let mut first = File::create(path.path()).unwrap();
        first.write_all(b"a").unwrap();
        descriptor(first.as_raw_fd()).unwrap().write_all(b"b").unwrap();
        first.write_all(b"c").unwrap();
        assert_eq!(std::fs::read(path.path()).unwrap(), b"abc");
        assert!(descriptor(File::open(path.path()).unwrap().as_raw_fd()).is_err(), "only to read");
        assert!(descriptor(1 << 20).is_err(), "nothing is open");
    }
}
