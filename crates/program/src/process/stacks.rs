//! Stacks at fixed addresses, and the thread-local variables of threads that are fibers.
//!
//! A thread of the program needs a real thread's block of thread-local variables, since the C
//! library has its own there. So each has a real thread that does nothing but sleep; the fiber
//! borrows the base of its `%fs`. It runs on a stack of the program's, whose address does not
//! depend on where the system puts things.

use crate::process::layout;
use crate::process::runtime::OneThread;
use std::arch::naked_asm;
use std::cell::{Cell, OnceCell};
use std::io;

/// Where the stacks of threads are, one after the other.
pub(crate) const STACKS: u64 = 0x3000_0000_0000;
/// Bytes of a stack; untouched pages cost nothing.
const STACK_BYTES: u64 = 8 << 20;
/// From one stack to the next; between them nothing is mapped.
const STACK_STEP: u64 = 16 << 20;
/// Where the sleeping threads have their stacks, with their thread-local variables at the end.
const SLEEPERS: u64 = 0x3800_0000_0000;
const SLEEPER_BYTES: usize = 8 << 20;

/// The base of `%fs` of the running code.
pub(crate) fn fs() -> u64 {
    let base: u64;
    // SAFETY: on x86-64 Linux the first word of the block points to the block itself.
    unsafe {
        std::arch::asm!("mov {}, fs:0", out(reg) base, options(nostack, preserves_flags, readonly));
    }
    base
}

/// Sets the base of `%fs`.
#[inline]
pub(crate) fn set_fs(base: u64) {
    // SAFETY: `base` is that of a thread that sleeps and never ends, or of the first thread.
    // `process` has made sure that the processor and the system allow the instruction.
    unsafe {
        std::arch::asm!("wrfsbase {}", in(reg) base, options(nostack, preserves_flags));
    }
}

/// Whether programs may set `%fs` themselves.
pub(crate) fn can_set_fs() -> bool {
    const HWCAP2_FSGSBASE: u64 = 1 << 1;
    // SAFETY: reads the auxiliary vector.
    let capabilities = unsafe { libc::getauxval(libc::AT_HWCAP2) };
    capabilities & HWCAP2_FSGSBASE != 0
}

/// Maps memory at a fixed address.
pub(crate) fn map_at(at: u64, bytes: usize) -> io::Result<()> {
    let protection = libc::PROT_READ | libc::PROT_WRITE;
    let flags =
        libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE | libc::MAP_FIXED_NOREPLACE;
    // SAFETY: nothing is replaced; the memory belongs to the caller.
    let got = unsafe { libc::mmap(at as *mut _, bytes, protection, flags, -1, 0) };
    if got as u64 == at { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// The upper end of the stack that has `at`; `at` if it is on no thread's.
pub(crate) fn end_of(at: u64) -> u64 {
    let offset = at.wrapping_sub(STACKS + layout::shift()) % STACK_STEP;
    let is_stack = (STACKS..SLEEPERS).contains(&at) && offset < STACK_BYTES;
    if is_stack { at - offset + STACK_BYTES } else { at }
}

/// Whether `at` is on the stack of a thread, or in its thread-local variables.
pub(crate) fn is_of_a_thread(at: u64) -> bool {
    let end = SLEEPERS + (SLEEPERS - STACKS);
    (STACKS..end).contains(&at)
}

/// A new stack for thread `number`; returns its upper end.
pub(crate) fn stack(number: usize) -> io::Result<u64> {
    let (at, bytes) = of_thread(number);
    map_at(at, bytes as usize)?;
    Ok(at + bytes)
}

/// Where the stack of thread `number` begins, and its bytes.
pub(crate) fn of_thread(number: usize) -> (u64, u64) {
    (STACKS + layout::shift() + number as u64 * STACK_STEP, STACK_BYTES)
}

/// The bases of `%fs` of threads that sleep already.
static PREPARED: OneThread<Vec<u64>> = OneThread(OnceCell::new());

/// Makes the threads that sleep for the first `count` threads of a program, once. They need not
/// live: a copy of this process has their memory alone, and that is what is borrowed.
pub(crate) fn prepare(count: usize) -> io::Result<()> {
    let bases = (0..count).map(new_sleeper).collect::<io::Result<_>>()?;
    let _ = PREPARED.0.set(bases);
    Ok(())
}

/// A real thread that sleeps, for its thread-local variables; returns the base of its `%fs`.
pub(crate) fn sleeper(number: usize) -> io::Result<u64> {
    let prepared = PREPARED.0.get().and_then(|bases| bases.get(number));
    prepared.map_or_else(|| new_sleeper(number), |base| Ok(*base))
}

fn new_sleeper(number: usize) -> io::Result<u64> {
    struct Told {
        base: Cell<u64>,
        is_there: libc::sem_t,
    }
    extern "C" fn sleep(told: *mut libc::c_void) -> *mut libc::c_void {
        // SAFETY: the creator waits until the base is there; after that this is not used any more.
        unsafe {
            let told = told as *mut Told;
            (*told).base.set(fs());
            libc::sem_post(&raw mut (*told).is_there);
        }
        loop {
            // SAFETY: waits for a signal; there is none.
            unsafe { libc::pause() };
        }
    }
    let at = SLEEPERS + layout::shift() + number as u64 * STACK_STEP;
    map_at(at, SLEEPER_BYTES)?;
    // SAFETY: attributes and semaphore are initialised before use, and the stack is memory of its
    // own. Waiting only fails if a signal comes.
    unsafe {
        let mut told = Told { base: Cell::new(0), is_there: std::mem::zeroed() };
        libc::sem_init(&raw mut told.is_there, 0, 0);
        let mut attributes = std::mem::zeroed();
        libc::pthread_attr_init(&raw mut attributes);
        libc::pthread_attr_setstack(&raw mut attributes, at as *mut _, SLEEPER_BYTES);
        let mut thread = std::mem::zeroed();
        let argument = (&raw mut told).cast();
        let failed = libc::pthread_create(&raw mut thread, &raw const attributes, sleep, argument);
        if failed != 0 {
            return Err(io::Error::from_raw_os_error(failed));
        }
        while libc::sem_wait(&raw mut told.is_there) != 0 {}
        Ok(told.base.get())
    }
}

/// Calls `function(argument)` on the stack that ends at `top`; `base` gets the caller's stack
/// pointer, for [`leave`].
///
/// # Safety
/// The stack must be mapped and unused, and `base` must stay where it is.
#[unsafe(naked)]
pub(crate) unsafe extern "C" fn on_stack(
    function: extern "C" fn(u64),
    argument: u64,
    top: u64,
    base: *mut u64,
) {
    naked_asm!(
        "push rbp",
        "push rbx",
        "push r12",
        "push r13",
        "push r14",
        "push r15",
        "mov [rcx], rsp",
        "mov rbx, rsp",
        "mov rsp, rdx",
        "xor ebp, ebp",
        "mov rax, rdi",
        "mov rdi, rsi",
        "call rax",
        "mov rsp, rbx",
        "pop r15",
        "pop r14",
        "pop r13",
        "pop r12",
        "pop rbx",
        "pop rbp",
        "ret",
    )
}

/// Returns from [`on_stack`] at once, whatever is on the stack.
///
/// # Safety
/// `base` must be what the `on_stack` that runs has stored; nothing on the stack is unwound.
#[unsafe(naked)]
pub(crate) unsafe extern "C" fn leave(base: u64) -> ! {
    naked_asm!(
        "mov rsp, rdi",
        "pop r15",
        "pop r14",
        "pop r13",
        "pop r12",
        "pop rbx",
        "pop rbp",
        "ret",
    )
}
