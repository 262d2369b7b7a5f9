//! The functions that the support library calls, in the order of `support/page.h`.

use crate::process::callers::Frame;
use crate::process::counted::Counted;
use crate::process::events::{charge, finish};
use crate::process::failure::{self, refuse};
use crate::process::lifecycle;
use crate::process::mapped::{self as files, Synced};
use crate::process::regions::{self, Wanted};
use crate::process::runtime::{Thread, runtime};
use crate::process::{sleepers, stacks, threads};
use libc::{c_char, c_int, c_void};
use seawall_memory::Fence;
use std::ffi::CStr;

/// The functions.
pub(crate) fn table() -> [usize; 31] {
    [
        thread_start as *const () as usize,
        thread_exit as *const () as usize,
        thread_self as *const () as usize,
        wait_while as *const () as usize,
        nanoseconds as *const () as usize,
        exit as *const () as usize,
        unsupported as *const () as usize,
        map as *const () as usize,
        unmap as *const () as usize,
        sync as *const () as usize,
        grow_heap as *const () as usize,
        host_begin as *const () as usize,
        host_end as *const () as usize,
        work as *const () as usize,
        region as *const () as usize,
        output as *const () as usize,
        order as *const () as usize,
        drain as *const () as usize,
        yield_now as *const () as usize,
        cores as *const () as usize,
        persistent as *const () as usize,
        stack_of as *const () as usize,
        mapped as *const () as usize,
        futex_wait as *const () as usize,
        futex_wake as *const () as usize,
        protect as *const () as usize,
        resize as *const () as usize,
        empty as *const () as usize,
        end_by as *const () as usize,
        sync_files as *const () as usize,
        renamed as *const () as usize,
    ]
}

/// The calling thread, with everything done that it did before the call; `None` while its accesses
/// are not simulated.
fn simulated() -> Option<&'static Thread> {
    let runtime = runtime();
    let thread = runtime.thread();
    if !runtime.is_on.get() || thread.in_host.get() > 0 {
        return None;
    }
    let counted = Counted::take();
    finish(thread, stack());
    match runtime.profile.get() {
        None => charge(thread, stack(), counted),
        Some(profile) => profile.call(thread, stack(), || charge(thread, stack(), counted)),
    }
    thread.is_in(Frame { stack: stack(), ..Frame::default() });
    Some(thread)
}

/// An address on the caller's stack.
fn stack() -> u64 {
    let here = 0u64;
    std::ptr::from_ref(&here) as u64
}

extern "C" fn thread_start(start: extern "C" fn(u64) -> u64, argument: u64) -> u64 {
    let runtime = runtime();
    if !runtime.thread().has_run() {
        refuse("a thread that starts before main");
    }
    if !runtime.is_on.get() && runtime.from_threads.get() {
        lifecycle::begin_region();
    }
    simulated();
    let Some(number) = threads::start(start, argument) else {
        let slots = runtime.slots.get();
        failure::fail(&match runtime.tells.get() {
            None => format!(
                "runs more threads at a time than the machine has cores, {slots}; start fewer, or \
                 take a machine with more (core.count)"
            ),
            Some(_) => format!(
                "runs more threads at a time than its first run, or than can be explored, {slots}; \
                 start fewer"
            ),
        });
    };
    runtime.threads_started.set(runtime.threads_started.get() + 1);
    // What it wrote before is visible to the new thread, as it is after the system's call.
    runtime.thread().through(|machine| machine.full_fence());
    runtime.thread().through(|machine| machine.unpark(number));
    number as u64
}

extern "C" fn thread_exit() {
    simulated();
    let thread = runtime().thread();
    if thread.number == 0 {
        refuse("pthread_exit of the main thread");
    }
    // SAFETY: the thread runs on the stack that `on_stack` has switched to.
    unsafe { stacks::leave(thread.base.get()) }
}

extern "C" fn thread_self() -> u64 {
    runtime().thread().number as u64
}

extern "C" fn wait_while(at: u64, value: u64) -> u64 {
    let runtime = runtime();
    if !runtime.is_on.get() {
        // SAFETY: an aligned word of the program.
        let found = unsafe { std::ptr::read_volatile(at as *const u64) };
        if found == value {
            refuse("a wait before the region of interest that nothing can end");
        }
        return found;
    }
    let thread = simulated().unwrap_or_else(|| refuse("a wait inside a call of the C library"));
    crate::process::values::wait_while(thread, at, value)
}

extern "C" fn nanoseconds() -> u64 {
    simulated().map_or(0, |thread| thread.machine().nanoseconds())
}

extern "C" fn exit(code: c_int) {
    lifecycle::exit(code)
}

extern "C" fn unsupported(name: *const c_char) {
    // SAFETY: the support library passes a string.
    let name = unsafe { CStr::from_ptr(name) };
    refuse(&name.to_string_lossy())
}

extern "C" fn map(
    hint: u64,
    bytes: usize,
    protection: c_int,
    flags: c_int,
    fd: c_int,
    offset: i64,
) -> i64 {
    simulated();
    regions::map(&Wanted { hint, bytes, protection, flags, fd, offset })
}

extern "C" fn unmap(at: u64, bytes: usize) -> i64 {
    simulated();
    regions::unmap(at, bytes)
}

extern "C" fn sync(at: u64, bytes: usize, flags: c_int) -> i64 {
    files::msync(simulated(), at, bytes as u64, flags)
}

extern "C" fn sync_files(which: c_int, fd: c_int, offset: i64, bytes: usize) -> c_int {
    let synced = match which {
        0 => Synced::All,
        1 => Synced::FileSystem(fd),
        2 => Synced::File(fd),
        _ => Synced::Part(fd, u64::try_from(offset).unwrap_or(0), bytes as u64),
    };
    files::sync(simulated(), synced).into()
}

extern "C" fn renamed() {
    simulated();
    if let Some(what) = files::renamed() {
        failure::fail(&what);
    }
}

extern "C" fn grow_heap(bytes: usize) -> *mut c_void {
    regions::grow_heap(bytes)
}

extern "C" fn host_begin() {
    simulated();
    let depth = &runtime().thread().in_host;
    depth.set(depth.get() + 1);
}

extern "C" fn host_end() {
    let depth = &runtime().thread().in_host;
    depth.set(depth.get().saturating_sub(1));
}

extern "C" fn work(instructions: u64) {
    if let Some(thread) = simulated() {
        thread.through(|machine| machine.work(instructions));
    }
}

extern "C" fn region(begins: c_int) {
    if begins != 0 {
        lifecycle::begin_region();
    } else if let Some(thread) = simulated() {
        thread.through(|machine| machine.end_region());
    }
}

extern "C" fn output(number: u64) {
    if let Some(thread) = simulated() {
        thread.through(|machine| machine.output(number));
    }
}

extern "C" fn order() {
    if let Some(thread) = simulated() {
        runtime().count_fence();
        thread.through(|machine| machine.fence(Fence::Order));
    }
}

extern "C" fn drain() {
    if let Some(thread) = simulated() {
        runtime().count_fence();
        thread.through(|machine| machine.fence(Fence::Drain));
    }
}

/// Instructions of a call of `sched_yield`.
const YIELD_INSTRUCTIONS: u64 = 200;

extern "C" fn yield_now() {
    work(YIELD_INSTRUCTIONS);
}

extern "C" fn cores() -> u64 {
    runtime().cores.get() as u64
}

extern "C" fn persistent(at: u64, bytes: u64) {
    regions::declare(at, bytes);
}

extern "C" fn stack_of(thread: u64, end: &mut u64) -> u64 {
    let (start, bytes) = stacks::of_thread(thread as usize);
    *end = start + bytes;
    bytes
}

extern "C" fn mapped(fd: c_int, offset: i64, bytes: &mut usize) -> u64 {
    simulated();
    let Some((at, there)) = regions::mapped(fd, offset, *bytes as u64) else { return 0 };
    *bytes = there as usize;
    at
}

extern "C" fn futex_wait(at: u64, value: u32, deadline: u64) -> i64 {
    if runtime().is_on.get() {
        let thread = simulated().unwrap_or_else(|| refuse("a wait inside a call of the C library"));
        return sleepers::wait(thread, at, value, deadline);
    }
    // SAFETY: an aligned word of the program.
    let found = unsafe { std::ptr::read_volatile(at as *const u32) };
    match (found == value, deadline) {
        (false, _) => -i64::from(libc::EAGAIN),
        // The clock stands still, so that the time is taken to be over.
        (true, sleepers::NEVER) => {
            refuse("a wait before the region of interest that nothing can end")
        }
        (true, _) => -i64::from(libc::ETIMEDOUT),
    }
}

extern "C" fn futex_wake(at: u64, most: u64) -> u64 {
    simulated().map_or(0, |thread| sleepers::wake(thread, at, most))
}

extern "C" fn protect(at: u64, bytes: usize, protection: c_int) -> i64 {
    simulated();
    files::protect(at, bytes as u64, protection)
}

extern "C" fn resize(fd: c_int, bytes: i64) -> c_int {
    simulated();
    u64::try_from(bytes).is_ok_and(|bytes| files::resize(fd, bytes)).into()
}

extern "C" fn empty(fd: c_int, offset: i64, bytes: i64) {
    simulated();
    let number = |number: i64| u64::try_from(number).unwrap_or(0);
    files::empty(fd, &(number(offset)..number(offset.saturating_add(bytes))));
}

extern "C" fn end_by(signal: c_int) {
    lifecycle::end_by(signal)
}
