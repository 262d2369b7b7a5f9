//! Thread-local variables, which a thread on a core that was used before must find as new.

/// The thread-local variables of a module: where they are from the base of `%fs`, and how they
/// begin.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ThreadLocals {
    pub(crate) from_base: u64,
    pub(crate) initial: u64,
    pub(crate) initial_bytes: u64,
    pub(crate) bytes: u64,
}

impl ThreadLocals {
    /// Makes those of a thread what they are at its start.
    ///
    /// # Safety
    /// `base` must be that of a thread which does not run.
    pub(crate) unsafe fn reset(&self, base: u64) {
        let at = base.wrapping_add(self.from_base) as *mut u8;
        let (initial, rest) = (self.initial_bytes as usize, self.bytes as usize);
        // SAFETY: each thread has a block of this length here, and the module is loaded.
        unsafe {
            std::ptr::copy_nonoverlapping(self.initial as *const u8, at, initial);
            std::ptr::write_bytes(at.add(initial), 0, rest - initial);
        }
    }
}
