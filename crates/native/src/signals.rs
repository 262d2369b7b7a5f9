//! Signals by which a user ends a program: Ctrl-C (SIGINT) and what `kill` sends (SIGTERM).
//!
//! They are blocked in every thread and waited for by one of its own, so that what they lead to is
//! ordinary code, which may lock, print and exit, and not a signal handler.

use std::io;
use std::mem::MaybeUninit;
use std::thread::Builder;

/// Calls `act` for each such signal, in a thread of its own. To be called before other threads are
/// started: those that run already would end the process.
///
/// # Errors
/// When the system gives no thread.
pub fn on_stop(mut act: impl FnMut() + Send + 'static) -> io::Result<()> {
    let mut set = MaybeUninit::<libc::sigset_t>::uninit();
    // SAFETY: the first call fills the set, which the others then read and change.
    let set = unsafe {
        libc::sigemptyset(set.as_mut_ptr());
        libc::sigaddset(set.as_mut_ptr(), libc::SIGINT);
        libc::sigaddset(set.as_mut_ptr(), libc::SIGTERM);
        set.assume_init()
    };
    block(&set, libc::SIG_BLOCK);
    let wait = move || loop {
        let mut signal = 0;
        // SAFETY: the set is whole, and the number of the signal goes to a place of ours.
        if unsafe { libc::sigwait(&set, &mut signal) } == 0 {
            act();
        }
    };
    let started = Builder::new().name("signals".into()).spawn(wait);
    if started.is_err() {
        block(&set, libc::SIG_UNBLOCK);
    }
    started.map(drop)
}

fn block(set: &libc::sigset_t, how: libc::c_int) {
    // SAFETY: the set is whole, and what was blocked before is not asked for.
    unsafe { libc::pthread_sigmask(how, set, std::ptr::null_mut()) };
}
