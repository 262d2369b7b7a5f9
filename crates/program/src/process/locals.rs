//! Thread-local variables, which a thread on a core that was used before must find as new.

use libc::c_void;

unsafe extern "C" {
    /// The address of a thread-local variable, by module and offset (ELF Handling For Thread-Local
    /// Storage, section 3.4.2).
    fn __tls_get_addr(index: *const usize) -> *mut c_void;
}

/// The thread-local variables of a module, and how they begin.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ThreadLocals {
    /// The number of the module.
    pub(crate) module: usize,
    pub(crate) initial: u64,
    pub(crate) initial_bytes: u64,
    pub(crate) bytes: u64,
}

impl ThreadLocals {
    /// Makes them what they are at the start of a thread, for the one whose base `%fs` has.
    ///
    /// # Safety
    /// That thread must not run, and the module must be loaded.
    pub(crate) unsafe fn reset(&self) {
        // The linker may have put them anywhere, and makes them when they are first asked for.
        // SAFETY: the module has thread-local variables, and this is its number.
        let at = unsafe { __tls_get_addr([self.module, 0].as_ptr()) }.cast::<u8>();
        let (initial, rest) = (self.initial_bytes as usize, self.bytes as usize);
        // SAFETY: each thread has a block of this length there, and the module is loaded.
        unsafe {
            std::ptr::copy_nonoverlapping(self.initial as *const u8, at, initial);
            std::ptr::write_bytes(at.add(initial), 0, rest - initial);
        }
    }
}
