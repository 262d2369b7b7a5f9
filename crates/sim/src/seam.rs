//! The seam on the simulated machine: the handle of the program of one core.
//!
//! Each operation is attempted on the machine. If its turn has not come, or it must wait, the fiber
//! pauses and tries again when the machine resumes it. The machine is reached without generics, so
//! that another front end (recompiled programs) can make the same calls.

use crate::engine::counters::Counters;
use crate::relocation::{Lookup, Walk};
use crate::{Cycle, LineId};
use seawall_fiber::Pause;
use seawall_memory::relocation::{Forwarding, Relocation, RelocationUnit};
use seawall_memory::{Addr, Clock, Fence, LINE_BYTES, Memory, Space, ThreadSlots, Width, lines_of};
use std::cell::{Cell, RefCell};
use std::panic::Location;
use std::rc::Rc;

mod hosted;

pub(crate) use hosted::HostPort;

/// A locked operation on an aligned word of 8 bytes.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Locked {
    /// Store the second value if the word equals the first.
    CompareExchange(u64, u64),
    /// Store the value.
    Swap(u64),
    /// Add the value.
    Add(u64),
}

/// The operations of a simulated core for a front end. After `None` or false, pause and try again.
pub(crate) trait CorePort: HostPort {
    fn load(&mut self, core: usize, at: Addr, width: Width) -> Option<u64>;
    /// Aligned words of one line.
    fn load_words(&mut self, core: usize, at: Addr, into: &mut [u64]) -> bool;
    /// Aligned words of one line, as one access; returns the cycle at which they arrive.
    fn read_wide(&mut self, core: usize, at: Addr, into: &mut [u64]) -> Option<Cycle>;
    fn store(&mut self, core: usize, at: Addr, width: Width, value: u64) -> bool;
    /// A relocated copy of `bytes` bytes in one line, if [`relocates`](CorePort::relocates).
    fn copy(&mut self, core: usize, at: Addr, words: &[u64], bytes: usize) -> bool;
    /// The destination of an object, if the machine [`forwards`](CorePort::forwards).
    fn look_up(&mut self, core: usize, at: Addr) -> Option<Lookup>;
    /// Passes what was read for a look-up, until `done`; returns the destination.
    fn walked(
        &mut self,
        core: usize,
        at: Addr,
        walk: &Walk,
        entry: Option<Forwarding>,
        done: Cycle,
    ) -> Addr;
    fn set_relocation(&mut self, core: usize, registers: Option<Relocation>) -> bool;
    /// A store past the caches, where the machine [`combines`](CorePort::combines) them.
    fn stream(&mut self, core: usize, at: Addr, width: Width, value: u64) -> bool;
    fn locked(&mut self, core: usize, at: Addr, operation: Locked) -> Option<u64>;
    fn flush(&mut self, core: usize, line: LineId) -> bool;
    fn fence(&mut self, core: usize, fence: Fence) -> bool;
    fn output(&mut self, core: usize, number: u64);
    fn work(&mut self, core: usize, instructions: u32);
    fn spin(&mut self, core: usize, at: Addr, value: u64) -> Option<u64>;
    fn line_of(&self, at: Addr) -> LineId;
    fn clock(&self, core: usize) -> Cycle;
    fn counters(&self) -> Counters;
    fn pm_bytes(&self) -> u64;
    fn uses_flushes(&self) -> bool;
    fn has_strands(&self) -> bool;
    fn relocates(&self) -> bool;
    fn forwards(&self) -> bool;
    fn combines(&self, at: Addr) -> bool;
    fn finished(&mut self, core: usize);
}

/// For each program, the call at which it has paused last.
pub(crate) type Places = [Cell<Option<&'static Location<'static>>>];

pub(crate) fn no_places(programs: usize) -> Rc<Places> {
    (0..programs).map(|_| Cell::default()).collect()
}

/// One simulated hardware thread's view of memory.
pub struct SimMemory<'a> {
    machine: Rc<RefCell<dyn CorePort>>,
    core: usize,
    pause: &'a Pause<'a>,
    places: Rc<Places>,
}

impl<'a> SimMemory<'a> {
    pub(crate) fn new(
        machine: Rc<RefCell<dyn CorePort>>,
        core: usize,
        pause: &'a Pause<'a>,
        places: Rc<Places>,
    ) -> SimMemory<'a> {
        SimMemory { machine, core, pause, places }
    }

    /// The counts of the machine so far, of all cores together.
    pub fn counters(&self) -> Counters {
        self.machine.borrow().counters()
    }

    #[inline]
    #[track_caller]
    fn until<T>(&self, mut attempt: impl FnMut(&mut dyn CorePort) -> Option<T>) -> T {
        loop {
            let answer = attempt(&mut *self.machine.borrow_mut());
            match answer {
                Some(value) => return value,
                None => {
                    self.places[self.core].set(Some(Location::caller()));
                    self.pause.pause();
                }
            }
        }
    }
}

impl SimMemory<'_> {
    /// Reads aligned words as the core's hardware does, a line at a time; returns the cycle at
    /// which all have arrived.
    #[track_caller]
    fn read_wide(&self, at: Addr, into: &mut [u64]) -> Cycle {
        let mut done = 0;
        let mut at = at;
        let mut rest = into;
        while !rest.is_empty() {
            let in_line = ((LINE_BYTES - at.bits() % LINE_BYTES) / 8) as usize;
            let (words, more) = rest.split_at_mut(in_line.min(rest.len()));
            let there = self.until(|machine| machine.read_wide(self.core, at, words));
            done = there.max(done);
            at = at.plus(8 * words.len() as u64);
            rest = more;
        }
        done
    }

    /// Reads the forwarding entry of a page, if it has one, as `walk` says; also returns the cycle
    /// at which it has arrived.
    #[track_caller]
    fn walk(&self, walk: &Walk) -> (Option<Forwarding>, Cycle) {
        let mut place = [0];
        let done = self.read_wide(walk.place, &mut place);
        let place = Addr::from_bits(place[0]);
        if place.is_null() {
            return (None, done);
        }
        let (mut first, mut minor) = ([0; 8], [0; 8]);
        let done = self.read_wide(place, &mut first);
        let done = done.max(self.read_wide(walk.minor(place), &mut minor));
        let mut bytes = [0; Forwarding::BYTES as usize];
        let mut put = |at: Addr, words: [u64; 8]| {
            let start = (at.bits() - place.bits()) as usize;
            let into = bytes[start..start + LINE_BYTES as usize].chunks_exact_mut(8);
            into.zip(words).for_each(|(into, word)| into.copy_from_slice(&word.to_le_bytes()));
        };
        put(place, first);
        put(walk.minor(place), minor);
        (Some(Forwarding::of_bytes(&bytes)), done)
    }
}

impl Memory for SimMemory<'_> {
    fn thread(&self) -> usize {
        self.core
    }

    /// The machine starts each thread once.
    fn slots(&self) -> Option<&ThreadSlots> {
        None
    }

    #[inline]
    fn load_bits(&self, at: Addr, width: Width) -> u64 {
        self.until(|machine| machine.load(self.core, at, width))
    }

    #[inline]
    fn store_bits(&self, at: Addr, width: Width, value: u64) {
        self.until(|machine| machine.store(self.core, at, width, value).then_some(()));
    }

    /// Word by word like the default, but the words of a line in one turn.
    fn read(&self, at: Addr, into: &mut [u8]) {
        let mut done = 0;
        while done < into.len() {
            let here = at.plus(done as u64);
            let in_line = (LINE_BYTES - here.bits() % LINE_BYTES) as usize;
            let rest = &mut into[done..];
            let words = rest.len().min(in_line) / 8;
            if !here.bits().is_multiple_of(8) || words == 0 {
                let byte = self.load_bits(here, Width::B1) as u8;
                rest[0] = byte;
                done += 1;
                continue;
            }
            let mut line = [0; 8];
            self.until(|machine| {
                machine.load_words(self.core, here, &mut line[..words]).then_some(())
            });
            for (bytes, word) in rest.chunks_exact_mut(8).zip(&line[..words]) {
                bytes.copy_from_slice(&word.to_le_bytes());
            }
            done += 8 * words;
        }
    }

    /// In persistent memory through the write-combining buffer, if the design has one.
    fn write_nt(&self, at: Addr, from: &[u8]) {
        if !self.combines(at) {
            self.write(at, from);
            return self.flush(at, from.len() as u64);
        }
        let mut done = 0;
        while done < from.len() {
            let (here, left) = (at.plus(done as u64), from.len() - done);
            let width = [Width::B8, Width::B4, Width::B2, Width::B1]
                .into_iter()
                .find(|width| here.bits().is_multiple_of(width.bytes()) && *width as usize <= left)
                .expect("a byte fits everywhere");
            let mut bits = [0; 8];
            bits[..width as usize].copy_from_slice(&from[done..done + width as usize]);
            let value = u64::from_le_bytes(bits);
            self.until(|machine| machine.stream(self.core, here, width, value).then_some(()));
            done += width as usize;
        }
    }

    fn compare_exchange(&self, at: Addr, current: u64, new: u64) -> Result<u64, u64> {
        let operation = Locked::CompareExchange(current, new);
        let old = self.until(|machine| machine.locked(self.core, at, operation));
        if old == current { Ok(old) } else { Err(old) }
    }

    fn swap(&self, at: Addr, new: u64) -> u64 {
        self.until(|machine| machine.locked(self.core, at, Locked::Swap(new)))
    }

    fn fetch_add(&self, at: Addr, by: u64) -> u64 {
        self.until(|machine| machine.locked(self.core, at, Locked::Add(by)))
    }

    fn flush(&self, at: Addr, len: u64) {
        if !at.is_pm() || !self.machine.borrow().uses_flushes() {
            return;
        }
        for line in lines_of(at, len) {
            let line = self.machine.borrow().line_of(line.start());
            self.until(|machine| machine.flush(self.core, line).then_some(()));
        }
    }

    fn fence(&self, fence: Fence) {
        let fence = match fence {
            Fence::Strand | Fence::Join if self.machine.borrow().has_strands() => fence,
            Fence::Strand => return,
            Fence::Join => Fence::Order,
            Fence::Order | Fence::Drain => fence,
        };
        self.until(|machine| machine.fence(self.core, fence).then_some(()));
    }

    fn work(&self, instructions: u32) {
        self.machine.borrow_mut().work(self.core, instructions);
    }

    fn spin_while(&self, at: Addr, value: u64) -> u64 {
        self.until(|machine| machine.spin(self.core, at, value))
    }

    fn output(&self, number: u64) {
        self.machine.borrow_mut().output(self.core, number);
    }

    fn clock(&self) -> Option<impl Clock> {
        Some(self)
    }

    fn space(&self) -> Option<impl Space> {
        Some(self)
    }

    fn relocation(&self) -> Option<impl RelocationUnit> {
        self.machine.borrow().relocates().then_some(self)
    }
}

impl Clock for &SimMemory<'_> {
    fn now(&self) -> u64 {
        self.machine.borrow().clock(self.core)
    }

    fn charge(&self, account: u8) -> u8 {
        account
    }
}

/// Pools have a fixed length, and all of it always has memory.
impl Space for &SimMemory<'_> {
    fn grow(&self, bytes: u64) -> bool {
        bytes <= self.machine.borrow().pm_bytes()
    }

    fn will_write(&self, _: Addr, _: u64) {}

    fn discard(&self, _: Addr, _: u64) {}

    fn bring_back(&self, _: Addr, _: u64) -> bool {
        true
    }

    fn hole(&self, _: Addr, _: u64) -> Option<(Addr, u64)> {
        None
    }
}

impl RelocationUnit for &SimMemory<'_> {
    fn forwards(&self) -> bool {
        self.machine.borrow().forwards()
    }

    fn set(&self, registers: Option<Relocation>) {
        self.until(|machine| machine.set_relocation(self.core, registers).then_some(()));
    }

    /// One line of the copy at a time.
    fn relocate(&self, to: Addr, from: Addr, len: u64) {
        let mut done = 0;
        while done < len {
            let here = to.plus(done);
            let bytes = (LINE_BYTES - here.bits() % LINE_BYTES).min(len - done);
            let mut line = [0; 8];
            let words = &mut line[..bytes.div_ceil(8) as usize];
            self.read_wide(from.plus(done), words);
            self.until(|machine| {
                machine.copy(self.core, here, words, bytes as usize).then_some(())
            });
            done += bytes;
        }
    }

    fn forward(&self, at: Addr) -> Addr {
        if !self.forwards() {
            return at;
        }
        let walk = match self.until(|machine| machine.look_up(self.core, at)) {
            Lookup::At(to, _) => return to,
            Lookup::Walk(walk, _) => walk,
        };
        let (entry, done) = self.walk(&walk);
        self.machine.borrow_mut().walked(self.core, at, &walk, entry, done)
    }
}
