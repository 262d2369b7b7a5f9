//! `syscall` instructions of the program.

use crate::process::failure::refuse;
use crate::process::image;
use crate::process::registers::Registers;
use crate::process::runtime::{SystemCall, runtime};
use libc::c_void;

/// A `syscall` instruction of the program: what the support library does for `syscall()`.
pub(crate) fn system_call(registers: &mut Registers) {
    let Registers { rdi, rsi, rdx, r10, r8, r9, rax, .. } = *registers;
    let kept = &runtime().system_call;
    let function = kept.get().unwrap_or_else(|| {
        let found = image::symbol(c"sw_syscall");
        let found = found.unwrap_or_else(|| refuse("a system call instruction"));
        // SAFETY: the support library defines it with this signature.
        let function = unsafe { std::mem::transmute::<*mut c_void, SystemCall>(found) };
        kept.set(Some(function));
        function
    });
    registers.rax = function(rax, rdi, rsi, rdx, r10, r8, r9) as u64;
}
