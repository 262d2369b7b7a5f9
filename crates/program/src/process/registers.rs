//! The frame of saved registers that an [entry](super::entries) makes.

/// The program's registers while an entry is called, by their places on its stack.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct Registers {
    pub(crate) rbp: u64,
    pub(crate) rdi: u64,
    pub(crate) r11: u64,
    pub(crate) r10: u64,
    pub(crate) r9: u64,
    pub(crate) r8: u64,
    pub(crate) rsi: u64,
    pub(crate) rdx: u64,
    pub(crate) rcx: u64,
    pub(crate) flags: u64,
    pub(crate) rax: u64,
    /// Where the program goes on.
    pub(crate) back: u64,
}

impl Registers {
    /// What `cmpxchg8b` (8 bytes) and `cmpxchg16b` compare with.
    pub(crate) fn pair(&self, bytes: u64) -> u128 {
        let half = 4 * bytes;
        let low = u128::from(self.rax) & (u128::MAX >> (128 - half));
        low | u128::from(self.rdx) << half
    }
}
