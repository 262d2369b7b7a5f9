//! Where a process that checks has its memory: elsewhere than the process that ran the program.
//!
//! After a crash the next process finds a pool, and nothing at the addresses that the first one
//! had: not its mappings, its heap and stacks, nor, as the system loads code anywhere, its
//! functions. So a check has all of that at other addresses, the same in each of its runs.

use std::io;
use std::sync::atomic::{AtomicU64, Ordering};

/// From a place of the process that ran the program to that of a check: not as far as the next
/// kind of memory is away, and a multiple of all that they are aligned to.
const AWAY: u64 = 0x0054_3200_0000;
/// The stack that the system is told to leave room for in a check: code is loaded below it.
const STACK_ROOM: u64 = (1 << 30) + (64 << 10);
/// Puts code elsewhere where that room is not allowed.
const OTHER_WAY: libc::c_int = libc::ADDR_COMPAT_LAYOUT;

static SHIFT: AtomicU64 = AtomicU64::new(0);

/// What is added to the addresses of this process.
pub(crate) fn shift() -> u64 {
    SHIFT.load(Ordering::Relaxed)
}

/// This process is one that checks; before it has any memory of the program.
pub(crate) fn become_a_checks() {
    SHIFT.store(AWAY, Ordering::Relaxed);
}

/// Whether only the process that ran the program could have had something at `at`, of what begins
/// at one of these addresses there.
pub(crate) fn is_of_run(at: u64, starts: &[u64]) -> bool {
    shift() > 0 && starts.iter().any(|start| (*start..start + AWAY).contains(&at))
}

/// Whether code is elsewhere in this process, whose personality this is.
pub(crate) fn has_moved_code(personality: libc::c_int) -> bool {
    personality & OTHER_WAY != 0 || stack_room().is_ok_and(|room| room.rlim_cur == STACK_ROOM)
}

/// Has the next program of this process loaded elsewhere; returns what its personality has beside
/// what it has.
pub(crate) fn move_code() -> libc::c_int {
    let Ok(mut room) = stack_room() else { return OTHER_WAY };
    room.rlim_cur = STACK_ROOM;
    // SAFETY: the limit is whole, and is refused if it is too large.
    match unsafe { libc::setrlimit(libc::RLIMIT_STACK, &raw const room) } {
        0 => 0,
        _ => OTHER_WAY,
    }
}

fn stack_room() -> io::Result<libc::rlimit> {
    let mut room = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: only asks.
    match unsafe { libc::getrlimit(libc::RLIMIT_STACK, &raw mut room) } {
        0 => Ok(room),
        _ => Err(io::Error::last_os_error()),
    }
}
