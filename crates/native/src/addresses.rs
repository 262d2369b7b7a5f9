//! `trait Memory` without a pool: an address of persistent memory is one of the process itself.
//!
//! For layers above the seam that work on what C programs have mapped, as a Ribbon does. Their own
//! words are in DRAM, which is anonymous memory here, and each access to it is checked.

use crate::access::{load_at, store_at};
use crate::cpu;
use crate::flush::{self, FlushKind};
use crate::map::Mapping;
use crate::memory::TimeStamps;
use crate::process::this_process;
use crate::raw::raw_flush;
use crate::wait;
use seawall_memory::{Addr, Clock, Fence, Handles, LINE_BYTES, Memory, ThreadSlots, Width};
use std::io;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::SeqCst;

/// Handles on the memory of this process, by its addresses: `Addr::pm(a)` is the byte at `a`.
pub struct RawHandles {
    dram: Mapping,
    flush: FlushKind,
    slots: ThreadSlots,
}

impl RawHandles {
    /// No address from here on can be given to a handle.
    pub const END: usize = 1 << 47;

    /// Without DRAM at first.
    ///
    /// # Safety
    /// The CPU runs `flush`, as one that [`Flush`](crate::Flush) chose. Whoever uses a handle
    /// gives it only addresses of persistent memory that are mapped at that time, and as each
    /// access needs them.
    ///
    /// # Errors
    /// When the system has no memory.
    pub unsafe fn new(flush: FlushKind) -> io::Result<RawHandles> {
        let dram = Mapping::anonymous(0)?;
        Ok(RawHandles { dram, flush, slots: ThreadSlots::of(this_process()) })
    }
}

impl Handles for RawHandles {
    type Handle<'a> = RawMemory<'a>;

    fn handle(&self, thread: usize) -> RawMemory<'_> {
        RawMemory { of: self, thread }
    }

    fn flushes_nothing(&self) -> Option<String> {
        (self.flush == FlushKind::None).then(|| "nothing is flushed".to_owned())
    }

    fn add_dram(&mut self, bytes: u64) -> io::Result<Addr> {
        let begin = self.dram.bytes().next_multiple_of(LINE_BYTES);
        let all = begin.checked_add(bytes).ok_or(io::ErrorKind::OutOfMemory)?;
        self.dram.lengthen(all)?;
        Ok(Addr::dram(begin))
    }
}

/// One thread's handle of [`RawHandles`]; any thread may have it.
pub struct RawMemory<'a> {
    of: &'a RawHandles,
    thread: usize,
}

impl RawMemory<'_> {
    #[inline]
    #[track_caller]
    fn place(&self, at: Addr, bytes: u64) -> *mut u8 {
        let offset = at.offset();
        assert!(offset.is_multiple_of(bytes), "{bytes} bytes at {at} are not aligned");
        if at.is_pm() {
            return std::ptr::with_exposed_provenance_mut(offset as usize);
        }
        let there = self.of.dram.bytes();
        assert!(offset < there, "{at} is not within the {there} bytes of DRAM");
        // SAFETY: the access is aligned and begins inside of the mapping, which is whole pages.
        unsafe { self.of.dram.base().add(offset as usize) }
    }

    /// The word of a locked instruction, which orders all flushes but those of `clflush`.
    #[inline]
    #[track_caller]
    fn locked(&self, at: Addr) -> &AtomicU64 {
        if self.of.flush == FlushKind::Clflush {
            flush::fence(self.of.flush);
        }
        // SAFETY: aligned; inside of DRAM, or the caller of `new` vouches for it.
        unsafe { AtomicU64::from_ptr(self.place(at, 8).cast()) }
    }
}

impl Memory for RawMemory<'_> {
    #[inline]
    fn thread(&self) -> usize {
        self.thread
    }

    fn slots(&self) -> Option<&ThreadSlots> {
        Some(&self.of.slots)
    }

    #[inline]
    #[track_caller]
    fn load_bits(&self, at: Addr, width: Width) -> u64 {
        // SAFETY: aligned; inside of DRAM, or the caller of `new` vouches for it.
        unsafe { load_at(self.place(at, width.bytes()), width) }
    }

    #[inline]
    #[track_caller]
    fn store_bits(&self, at: Addr, width: Width, value: u64) {
        // SAFETY: as above.
        unsafe { store_at(self.place(at, width.bytes()), width, value) }
    }

    #[inline]
    #[track_caller]
    fn compare_exchange(&self, at: Addr, current: u64, new: u64) -> Result<u64, u64> {
        self.locked(at).compare_exchange(current, new, SeqCst, SeqCst)
    }

    #[inline]
    #[track_caller]
    fn swap(&self, at: Addr, new: u64) -> u64 {
        self.locked(at).swap(new, SeqCst)
    }

    #[inline]
    #[track_caller]
    fn fetch_add(&self, at: Addr, by: u64) -> u64 {
        self.locked(at).fetch_add(by, SeqCst)
    }

    #[inline]
    fn flush(&self, at: Addr, len: u64) {
        if at.is_pm() {
            let place = std::ptr::without_provenance(at.offset() as usize);
            // SAFETY: the caller of `new` vouches for the bytes and for the instruction.
            unsafe { raw_flush(self.of.flush, place, len as usize) };
        }
    }

    #[inline]
    fn fence(&self, fence: Fence) {
        if fence != Fence::Strand {
            flush::fence(self.of.flush);
        }
    }

    #[inline]
    fn work(&self, _: u32) {}

    #[track_caller]
    fn spin_while(&self, at: Addr, value: u64) -> u64 {
        // SAFETY: as in `locked`.
        let word = unsafe { AtomicU64::from_ptr(self.place(at, 8).cast()) };
        wait::spin(word, value).unwrap_or_else(|| wait::give_way(word, value))
    }

    fn output(&self, _: u64) {}

    #[inline]
    fn clock(&self) -> Option<impl Clock> {
        cpu::HAS_TICKS.then_some(TimeStamps)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Cpu, Flush};
    use seawall_memory::MemoryExt;

    fn handles(dram_bytes: u64) -> RawHandles {
        let flush = Flush::choose(None, &Cpu::detect()).unwrap();
        // SAFETY: the tests give it addresses of variables of their own.
        let mut handles = unsafe { RawHandles::new(flush.kind) }.unwrap();
        handles.add_dram(dram_bytes).unwrap();
        handles
    }

    #[test]
    fn an_address_of_the_process_is_one_of_persistent_memory() {
        let mut words = [1u64, 2];
        let at = Addr::pm(words.as_mut_ptr().expose_provenance() as u64);
        let handles = handles(64);
        let memory = handles.handle(3);
        assert_eq!((memory.load::<u64>(at), memory.load::<u64>(at.plus(8))), (1, 2));
        memory.store(at, 7u64);
        assert_eq!(memory.fetch_add(at, 1), 7);
        assert_eq!(memory.compare_exchange(at, 7, 0), Err(8));
        memory.persist(at, 16);
        assert_eq!(memory.spin_while(at, 0), 8);
        assert_eq!((memory.thread(), words), (3, [8, 2]));
    }

    #[test]
    fn dram_is_zero_shared_and_ends_where_it_ends() {
        let mut handles = handles(64);
        let more = handles.add_dram(8).unwrap();
        assert_eq!(more, Addr::dram(64));
        handles.handle(0).store(more, 5u64);
        assert_eq!(handles.handle(1).swap(more, 6), 5);
        assert_eq!(handles.handle(1).load::<u64>(Addr::dram(0)), 0);
        let past = std::panic::catch_unwind(|| handles.handle(0).load::<u64>(Addr::dram(72)));
        assert!(past.is_err());
        let crooked = std::panic::catch_unwind(|| handles.handle(0).load::<u64>(Addr::dram(4)));
        assert!(crooked.is_err());
    }
}
