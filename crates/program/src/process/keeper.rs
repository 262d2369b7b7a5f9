//! The keeper of a program: what the program has started ends with it.
//!
//! A program may leave processes behind, in groups and sessions of their own. They become children
//! of the keeper, which is their subreaper, so that it finds and kills them all: when the program
//! has ended, when the keeper is asked to end, and when the process is gone that has asked for the
//! program.
//!
//! It also answers for the files that the program has [elsewhere](super::elsewhere).

use super::elsewhere::Elsewhere;
use super::notified::{self, Told};
use crate::folder::{Asker, Roots};
use libc::{c_int, pid_t, sigset_t};
use std::fs;
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::RawFd;
use std::os::unix::net::UnixStream;
use std::time::Duration;

/// Makes this process the keeper of a new one, in which this returns. The files of that one are
/// below `roots`.
///
/// # Errors
/// When the system has no process left.
pub(crate) fn keep(asker: &Asker, roots: &Roots) -> io::Result<()> {
    let (signals, before) = hold_signals();
    let (keepers, programs) = UnixStream::pair()?;
    // SAFETY: these change this process alone, which has one thread.
    let (keeper, child) = unsafe {
        libc::prctl(libc::PR_SET_CHILD_SUBREAPER, 1);
        libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGTERM);
        if libc::getppid() != asker.process as pid_t {
            end_as(libc::SIGKILL);
        }
        (libc::getpid(), libc::fork())
    };
    match child {
        -1 => Err(io::Error::last_os_error()),
        0 => {
            super::end_with_parent();
            // SAFETY: as above; the keeper may have ended before the line above.
            unsafe {
                if libc::getppid() != keeper {
                    libc::_exit(2);
                }
                libc::setpgid(0, 0);
                libc::sigprocmask(libc::SIG_SETMASK, &raw const before, std::ptr::null_mut());
            }
            drop(keepers);
            hand_over(&programs)
        }
        child => {
            drop(programs);
            let told = notified::receive(&keepers)?;
            let elsewhere = Elsewhere::new(roots, child, &asker.folders);
            watch(child, &signals, told.map(|told| (told, elsewhere)))
        }
    }
}

/// Holds back the signals that the keeper waits for; returns them, and what was held before.
fn hold_signals() -> (sigset_t, sigset_t) {
    let mut signals = MaybeUninit::uninit();
    let mut before = MaybeUninit::uninit();
    // SAFETY: the first call fills the set, which the others read, and the last fills the other.
    unsafe {
        libc::sigemptyset(signals.as_mut_ptr());
        for signal in [libc::SIGTERM, libc::SIGCHLD] {
            libc::sigaddset(signals.as_mut_ptr(), signal);
            libc::signal(signal, libc::SIG_DFL);
        }
        libc::sigprocmask(libc::SIG_BLOCK, signals.as_ptr(), before.as_mut_ptr());
        (signals.assume_init(), before.assume_init())
    }
}

/// Has the keeper answer for the files of this process.
fn hand_over(keeper: &UnixStream) -> io::Result<()> {
    // Where the kernel cannot do that, files elsewhere are refused when they are mapped.
    let told = notified::tell().ok();
    notified::send(keeper, told.as_ref())
}

/// Waits until the program has ended, or must end, and answers for its files.
fn watch(program: pid_t, signals: &sigset_t, mut told: Option<(Told, Elsewhere)>) -> ! {
    // SAFETY: makes a file that is read where signals come.
    let come = unsafe { libc::signalfd(-1, signals, libc::SFD_CLOEXEC) };
    close_all_but(&[come, told.as_ref().map_or(come, |(told, _)| told.as_raw_fd())]);
    let status = loop {
        if let Some(status) = reap(program) {
            break status;
        }
        let asks = wait(come, told.as_ref().map(|(told, _)| told.as_raw_fd()));
        if asks.0 && next_signal(come) == libc::SIGTERM {
            break libc::SIGKILL;
        }
        match (&told, asks.1) {
            (Some((told, elsewhere)), Asks::Something) => {
                if let Some(call) = told.next() {
                    told.answer(&call, &elsewhere.judge(&call));
                }
            }
            (_, Asks::NoMore) => told = None,
            _ => {}
        }
    };
    kill_all(program);
    end_as(status)
}

/// What the processes of a program want.
enum Asks {
    Nothing,
    Something,
    NoMore,
}

/// Waits for a signal or a question: whether there is one, and what is asked.
fn wait(come: RawFd, told: Option<RawFd>) -> (bool, Asks) {
    let wanted = |fd| libc::pollfd { fd, events: libc::POLLIN, revents: 0 };
    let mut both = [wanted(come), wanted(told.unwrap_or(-1))];
    // SAFETY: two files, of which one may be none.
    unsafe { libc::poll(both.as_mut_ptr(), 2, -1) };
    let asks = match both[1].revents {
        0 => Asks::Nothing,
        events if events & libc::POLLIN != 0 => Asks::Something,
        _ => Asks::NoMore,
    };
    (both[0].revents != 0, asks)
}

/// The signal that has come.
fn next_signal(come: RawFd) -> c_int {
    let mut about = MaybeUninit::<libc::signalfd_siginfo>::zeroed();
    // SAFETY: the kernel fills what is all zeros.
    unsafe {
        libc::read(come, about.as_mut_ptr().cast(), size_of::<libc::signalfd_siginfo>());
        about.assume_init().ssi_signo as c_int
    }
}

/// Closes what the program has, whose readers must see its end.
fn close_all_but(kept: &[RawFd]) {
    let mut kept: Vec<libc::c_uint> = kept.iter().map(|fd| *fd as libc::c_uint).collect();
    kept.sort_unstable();
    kept.dedup();
    let mut first = 0;
    for last in kept.into_iter().chain([libc::c_uint::MAX]) {
        // SAFETY: no file that is closed is used any more.
        unsafe { libc::syscall(libc::SYS_close_range, first, last.wrapping_sub(1), 0) };
        first = last.wrapping_add(1);
    }
}

/// How the program has ended, if it has; others that have ended are forgotten.
fn reap(program: pid_t) -> Option<c_int> {
    loop {
        let mut status = 0;
        // SAFETY: the status goes to a place of ours.
        match unsafe { libc::waitpid(-1, &raw mut status, libc::WNOHANG) } {
            ended if ended == program => return Some(status),
            ended if ended > 0 => {}
            _ => return None,
        }
    }
}

/// Kills all children, and those who become children by that, until none is left.
fn kill_all(program: pid_t) {
    // SAFETY: the group is the program's own, if it has members.
    unsafe { libc::kill(-program, libc::SIGKILL) };
    loop {
        // SAFETY: nobody asks for the status.
        match unsafe { libc::waitpid(-1, std::ptr::null_mut(), libc::WNOHANG) } {
            -1 => return,
            0 => {
                for child in children() {
                    // SAFETY: a child keeps its number until this process waits for it.
                    unsafe { libc::kill(child, libc::SIGKILL) };
                }
                std::thread::sleep(Duration::from_millis(1));
            }
            _ => {}
        }
    }
}

/// The children of this process.
fn children() -> impl Iterator<Item = pid_t> {
    let own = std::process::id().to_string();
    let all = fs::read_dir("/proc").into_iter().flatten().flatten();
    all.filter_map(move |entry| {
        let number = entry.file_name().to_str()?.parse().ok()?;
        let status = fs::read_to_string(entry.path().join("stat")).ok()?;
        // The name of a program, in parentheses, may have any characters.
        let parent = status.rsplit_once(") ")?.1.split(' ').nth(1)?;
        (parent == own).then_some(number)
    })
}

/// Ends this process as the program has ended.
fn end_as(status: c_int) -> ! {
    let none = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: ends this process at once, without a file of its memory.
    unsafe {
        if libc::WIFSIGNALED(status) {
            let signal = libc::WTERMSIG(status);
            let mut own = MaybeUninit::uninit();
            libc::setrlimit(libc::RLIMIT_CORE, &raw const none);
            libc::signal(signal, libc::SIG_DFL);
            libc::sigemptyset(own.as_mut_ptr());
            libc::sigaddset(own.as_mut_ptr(), signal);
            libc::sigprocmask(libc::SIG_UNBLOCK, own.as_ptr(), std::ptr::null_mut());
            libc::kill(libc::getpid(), signal);
        }
        libc::_exit(libc::WEXITSTATUS(status))
    }
}
