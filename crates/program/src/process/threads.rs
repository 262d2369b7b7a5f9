//! The program's threads on the machine's cores.
//!
//! Thread 0 is `main`. Each other core waits until a thread is started on it, runs it to its end,
//! and waits again.

use crate::process::events;
use crate::process::failure;
use crate::process::machine::Machine;
use crate::process::runtime::{Thread, runtime};
use crate::process::stacks;
use std::io;

/// Finds a core for a new thread; `None` if all are busy.
pub(crate) fn start(start: extern "C" fn(u64) -> u64, argument: u64) -> Option<usize> {
    let runtime = runtime();
    let thread = runtime.threads[..runtime.slots.get()]
        .iter()
        .skip(1)
        .find(|thread| !thread.is_busy.get())?;
    if thread.fs.get() == 0 {
        thread.fs.set(must(stacks::sleeper(thread.number)));
    }
    let own = stacks::fs();
    stacks::set_fs(thread.fs.get());
    for locals in runtime.locals.borrow().iter() {
        // SAFETY: nothing runs on this core now, and modules stay loaded.
        unsafe { locals.reset() };
    }
    stacks::set_fs(own);
    thread.is_busy.set(true);
    thread.start.set(Some((start, argument)));
    Some(thread.number)
}

fn must<T>(result: io::Result<T>) -> T {
    result.unwrap_or_else(|error| failure::fail(&format!("gets no memory for a thread: {error}")))
}

/// What core `number` does; `main` on the first one.
///
/// # Safety
/// `machine` must live until the process ends or this returns.
pub(crate) unsafe fn run(number: usize, machine: &dyn Machine, main: impl FnOnce()) {
    let thread = &runtime().threads[number];
    // SAFETY: the caller says so.
    thread
        .machine
        .set(Some(unsafe { std::mem::transmute::<&dyn Machine, &'static dyn Machine>(machine) }));
    if number == 0 {
        let top = must(stacks::stack(number));
        thread.fs.set(must(stacks::sleeper(0)));
        thread.is_busy.set(true);
        let mut main = Some(main);
        return on_stack(thread, top, &mut || {
            main.take().expect("called once")();
        });
    }
    let mut stack = None;
    loop {
        if let Some(profile) = runtime().profile.get() {
            profile.leave(thread);
        }
        thread.through(|machine| machine.park());
        let Some((start, argument)) = thread.start.take() else { return };
        let top = *stack.get_or_insert_with(|| must(stacks::stack(number)));
        on_stack(thread, top, &mut || {
            start(argument);
        });
        events::settle(thread, top - 8);
        thread.is_busy.set(false);
    }
}

/// Runs `body` on the thread's stack, until it returns or leaves.
fn on_stack(thread: &Thread, top: u64, body: &mut dyn FnMut()) {
    extern "C" fn call(body: u64) {
        // SAFETY: a pointer to the reference below, which lives until `on_stack` returns.
        let body = unsafe { &mut *(body as *mut &mut dyn FnMut()) };
        body();
    }
    runtime().running.set(thread.number);
    stacks::set_fs(thread.fs.get());
    let mut body: &mut dyn FnMut() = body;
    let argument = std::ptr::from_mut(&mut body) as u64;
    // SAFETY: the stack is the thread's own, and nothing else runs on it now.
    unsafe { stacks::on_stack(call, argument, top, thread.base.as_ptr()) };
}
