//! Threads that sleep until another one wakes them, as with the kernel's futexes.
//!
//! A thread looks at a word of the program, and goes to sleep if it has the value that was
//! expected; nothing comes between the look and the sleep. Another thread wakes those that have
//! slept longest on the word. While it sleeps, a thread makes no access to memory.
//!
//! The queue is a list of the host: a look and a wake are operations of the machine, which performs
//! them in the order of its time, and what the host does right behind one is done at that time. The
//! kernel's own accesses, to its table of queues, are not simulated.

use crate::process::pages::pages;
use crate::process::runtime::{Sleeper, Thread, runtime};
use crate::process::values;

/// The deadline that never comes.
pub(crate) const NEVER: u64 = u64::MAX;

/// Sleeps if the 32 bits at `at` equal `value`: 0 when it was woken, or the negative number of an
/// error.
pub(crate) fn wait(thread: &Thread, at: u64, value: u32, deadline: u64) -> i64 {
    pages().know(thread, at, 4);
    values::take_over_word(thread, at & !7);
    thread.through(|machine| machine.full_fence());
    let word = thread.through(|machine| machine.look(at & !7));
    if (word >> (8 * (at % 8))) as u32 != value {
        return -i64::from(libc::EAGAIN);
    }
    let sleeper = Sleeper { at, thread: thread.number };
    runtime().sleepers.borrow_mut().push(sleeper);
    let deadline = (deadline != NEVER).then_some(deadline);
    let is_woken = thread.through(|machine| machine.sleep(deadline));
    if is_woken {
        return 0;
    }
    let place = runtime().sleepers.borrow().iter().position(|it| *it == sleeper);
    let Some(place) = place else {
        // It was woken just before its time was over, and will be told.
        thread.through(|machine| machine.park());
        return 0;
    };
    runtime().sleepers.borrow_mut().remove(place);
    -i64::from(libc::ETIMEDOUT)
}

/// Wakes at most `most` threads that sleep on `at`, in the order in which they came; how many. The
/// word need not be there any more.
pub(crate) fn wake(thread: &Thread, at: u64, most: u64) -> u64 {
    thread.through(|machine| machine.full_fence());
    if pages().known(at).is_none() {
        return 0;
    }
    thread.through(|machine| machine.turn(at & !7));
    let is_meant = |sleeper: &mut Sleeper| sleeper.at == at;
    let woken: Vec<Sleeper> = runtime()
        .sleepers
        .borrow_mut()
        .extract_if(.., is_meant)
        .take(usize::try_from(most).unwrap_or(usize::MAX))
        .collect();
    for sleeper in &woken {
        thread.through(|machine| machine.unpark(sleeper.thread));
    }
    woken.len() as u64
}
