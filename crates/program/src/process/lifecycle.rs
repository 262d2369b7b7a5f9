//! When measuring begins, and how the program ends.

use crate::process::counted::Counted;
use crate::process::failure::{fail, fail_at};
use crate::process::pages::pages;
use crate::process::runtime::runtime;
use crate::process::{events, image, mapped, regions, stacks, sweep};
use crate::request::PAGE;
use crate::spawn::signal_in_words;
use libc::c_int;

/// What of a pool is known when measuring begins, whoever has touched it: as much as the caches of
/// a machine can have.
const WARM_BYTES: u64 = 64 << 20;

/// The program exits.
pub(crate) fn exit(code: c_int) -> ! {
    let runtime = runtime();
    let thread = runtime.thread();
    if runtime.is_on.get() {
        thread.in_host.set(0);
        events::settle(thread, thread.stack.get());
        if let Some(profile) = runtime.profile.get() {
            profile.leave(thread);
        }
        mapped::open_all();
        sweep::sweep(thread);
        if let Some(what) = mapped::renamed() {
            fail_at(&what, Vec::new());
        }
    } else {
        let what = "starts no thread, so that nothing was measured; measure all: --from start";
        fail_at(what, Vec::new());
    }
    runtime.exit_code.set(Some(code));
    thread.through(|machine| machine.end());
    // SAFETY: the thread is on the stack that `on_stack` has switched to.
    unsafe { stacks::leave(thread.base.get()) }
}

/// The program does what ends it by this signal.
pub(crate) fn end_by(signal: c_int) -> ! {
    let what = match signal {
        libc::SIGABRT => "was aborted (SIGABRT)".to_owned(),
        signal => format!("ended itself by {}", signal_in_words(signal)),
    };
    fail(&what)
}

/// Measuring begins.
pub(crate) fn begin_region() {
    let runtime = runtime();
    let thread = runtime.thread();
    runtime.instructions.set(0);
    if runtime.is_on.replace(true) {
        return thread.through(|machine| machine.begin_region());
    }
    pages().as_it_is(|pages| {
        for (at, bytes) in image::writable().into_iter().chain([regions::heap()]) {
            pages.know_all(thread, at, bytes);
        }
        for pool in regions::pools() {
            pages.know_all(thread, pool.at, pool.bytes.min(WARM_BYTES));
            for page in sweep::written(pool.at, pool.bytes) {
                pages.know(thread, page, PAGE);
            }
        }
    });
    clear_counters();
    thread.through(|machine| machine.begin_region());
}

/// The program has counted nothing yet.
pub(crate) fn clear_counters() {
    Counted::take();
}
