//! What the program is told to have done when a signal would end it: where it was, and why.

use crate::process::failure;
use crate::process::image;
use crate::process::runtime::runtime;
use crate::process::{layout, regions, stacks};
use libc::{c_int, c_void, siginfo_t};

const SIGNALS: &[(c_int, &str)] = &[
    (libc::SIGSEGV, "touched memory that it does not have (SIGSEGV)"),
    (libc::SIGBUS, "touched memory behind the end of a file (SIGBUS)"),
    (libc::SIGFPE, "divided by zero, or overflowed a division (SIGFPE)"),
    (libc::SIGILL, "ran an instruction that this processor does not have (SIGILL)"),
    (libc::SIGABRT, "was aborted (SIGABRT)"),
];
/// What a check did that used what the process before it knew.
const STALE: &str = "touched an address that only the process before it had (SIGSEGV)";
const STACK_BYTES: usize = 64 << 10;

/// Tells of such signals from now on.
pub(crate) fn watch() {
    let stack = Vec::leak(vec![0u8; STACK_BYTES]);
    // SAFETY: the stack lives as long as the process, and the handler has the right signature.
    unsafe {
        let stack =
            libc::stack_t { ss_sp: stack.as_mut_ptr().cast(), ss_flags: 0, ss_size: STACK_BYTES };
        libc::sigaltstack(&raw const stack, std::ptr::null_mut());
        for (signal, _) in SIGNALS {
            let mut action: libc::sigaction = std::mem::zeroed();
            action.sa_sigaction = tell as *const () as usize;
            action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK | libc::SA_RESETHAND;
            libc::sigaction(*signal, &raw const action, std::ptr::null_mut());
        }
    }
}

/// Ends the process with the place of the fault. It does more than a handler may, as there is
/// nothing to go back to; if that hangs, the time limit of the run ends it.
extern "C" fn tell(signal: c_int, about: *mut siginfo_t, context: *mut c_void) {
    stacks::set_fs(runtime().host_fs.get());
    // SAFETY: the system passes what has happened.
    let touched = unsafe { (*about).si_addr() } as u64;
    // SAFETY: the system passes the context of the fault.
    let context = unsafe { &*(context as *const libc::ucontext_t) };
    let at = context.uc_mcontext.gregs[libc::REG_RIP as usize] as u64;
    let thread = runtime().thread();
    if image::offset_of(at).is_some() {
        thread.site.set(at);
        thread.stack.set(context.uc_mcontext.gregs[libc::REG_RSP as usize] as u64);
    }
    let starts = [&regions::STARTS[..], &[stacks::STACKS]].concat();
    if signal == libc::SIGSEGV && layout::is_of_run(touched, &starts) {
        failure::fail(STALE);
    }
    let what = SIGNALS.iter().find(|(known, _)| *known == signal);
    failure::fail(what.map_or("was ended by a signal", |(_, what)| what));
}
