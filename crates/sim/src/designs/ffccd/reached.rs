//! The Reached Bitmap Buffer of each controller (ISCA'22, section 4.2): the reached bitmaps of the
//! pages whose lines it has written most recently. A battery saves them.
//!
//! A missing page takes an entry. The page that had the entry is first written to the directory,
//! and the bits of the new one are fetched from there; if that page is itself on its way to the
//! directory, the fetch waits for it. A write that is not durable yet holds the entry of its page,
//! so that its bit is set in a buffer.
//!
//! If several controllers have lines of a page, each buffers the bits of its own lines, and a write
//! to the directory changes no other bits: the paper has one controller.

use super::{Flaw, Params};
use crate::hw::Hw;
use crate::memory::versions::LineData;
use crate::{Cycle, LineId};
use seawall_memory::relocation::{RELOCATION_PAGE, Relocation};
use seawall_memory::{Addr, LINE_BYTES};

/// Lines of a page.
const LINES: LineId = (RELOCATION_PAGE / LINE_BYTES) as LineId;

/// The address of a line.
pub(super) fn at(line: LineId) -> Addr {
    Addr::pm(u64::from(line) * LINE_BYTES)
}

/// A page in a buffer.
struct Entry {
    page: LineId,
    bits: u64,
    /// When its bits have been fetched.
    ready: Cycle,
    /// When all writes that hold it are durable.
    held: Cycle,
    used: u64,
}

/// A page on its way to the directory.
struct Leaving {
    page: LineId,
    bits: u64,
    /// When it leaves the buffer.
    from: Cycle,
}

/// A bit that will be set when its write is durable.
struct Coming {
    at: Cycle,
    line: LineId,
}

/// The buffer of a controller.
#[derive(Default)]
struct Buffer {
    entries: Vec<Entry>,
    leaving: Vec<Leaving>,
    coming: Vec<Coming>,
}

fn bit(line: LineId) -> u64 {
    1 << (line % LINES)
}

/// The line and the word of the directory that hold the bits of a page.
fn word_of(registers: &Relocation, page: LineId) -> (LineId, usize) {
    let at = registers.reached(page.into()).offset();
    ((at / LINE_BYTES) as LineId, (at % LINE_BYTES / 8) as usize)
}

impl Buffer {
    /// Sets the bits whose writes are durable by `now`.
    fn settle(&mut self, now: Cycle) {
        let Buffer { entries, leaving, coming } = self;
        coming.retain(|coming| {
            if coming.at > now {
                return true;
            }
            let page = coming.line / LINES;
            for entry in entries.iter_mut().filter(|entry| entry.page == page) {
                entry.bits |= bit(coming.line);
            }
            for gone in leaving.iter_mut().filter(|gone| gone.page == page) {
                gone.bits |= bit(coming.line);
            }
            false
        });
    }

    /// All bits of a page, including those whose writes are not durable yet.
    fn all_bits(&self, entry: &Entry) -> u64 {
        let coming = self.coming.iter().filter(|coming| coming.line / LINES == entry.page);
        coming.fold(entry.bits, |bits, coming| bits | bit(coming.line))
    }
}

/// The buffers of all controllers.
pub(super) struct Reached {
    flaw: Flaw,
    entries: usize,
    cycles: Cycle,
    buffers: Vec<Buffer>,
    clock: u64,
}

impl Reached {
    pub(super) fn new(params: &Params, controllers: usize) -> Reached {
        Reached {
            flaw: params.flaw,
            entries: params.rbb_entries,
            cycles: params.rbb_cycles,
            buffers: (0..controllers).map(|_| Buffer::default()).collect(),
            clock: 0,
        }
    }

    /// Empties all buffers.
    pub(super) fn clear(&mut self) {
        self.buffers.fill_with(Buffer::default);
    }

    /// Finds or fetches the page of a line whose write has arrived; returns when the buffer has it.
    pub(super) fn find(
        &mut self,
        hw: &mut Hw<()>,
        registers: &Relocation,
        line: LineId,
        now: Cycle,
    ) -> Cycle {
        let (controller, page) = (hw.memory.home(line), line / LINES);
        self.clock += 1;
        let buffer = &mut self.buffers[controller];
        buffer.settle(now);
        buffer.leaving.retain(|gone| {
            gone.from > now || hw.memory.durable_at(word_of(registers, gone.page).0, now).is_some()
        });
        let found = now + self.cycles;
        if let Some(entry) = buffer.entries.iter_mut().find(|entry| entry.page == page) {
            hw.counters.reached_hits += 1;
            entry.used = self.clock;
            return found.max(entry.ready);
        }
        hw.counters.reached_misses += 1;
        let gone = buffer.leaving.iter().filter(|gone| gone.page == page);
        let free = gone.map(|gone| gone.from).fold(found, Cycle::max);
        let from = self.make_room(hw, registers, controller, now, free);
        let (bits, ready) = self.fetch(hw, registers, (controller, page), from);
        let entry = Entry { page, bits, ready, held: ready, used: self.clock };
        self.buffers[controller].entries.push(entry);
        ready
    }

    /// Frees an entry, from `at` on or as soon as no write holds it; returns when.
    fn make_room(
        &mut self,
        hw: &mut Hw<()>,
        registers: &Relocation,
        controller: usize,
        now: Cycle,
        at: Cycle,
    ) -> Cycle {
        let buffer = &mut self.buffers[controller];
        if buffer.entries.len() < self.entries {
            return at;
        }
        let oldest = buffer.entries.iter().enumerate().min_by_key(|(_, entry)| entry.used);
        let entry = buffer.entries.swap_remove(oldest.map_or(0, |(number, _)| number));
        let from = at.max(entry.held);
        if self.flaw == Flaw::ForgetsEvicted {
            return from;
        }
        let bits = (own(hw, controller, entry.page), buffer.all_bits(&entry));
        // Bits that have not been fetched yet are in the directory, or on their way there.
        let set = if entry.ready <= now { entry.bits } else { 0 };
        let page = entry.page;
        buffer.leaving.push(Leaving { page, bits: set, from });
        hw.write_bits(word_of(registers, page), bits, hw.controller_tile(controller), from);
        from
    }

    /// Reads the bits of a page from `from` on; returns them, and when they have arrived.
    fn fetch(
        &self,
        hw: &mut Hw<()>,
        registers: &Relocation,
        (controller, page): (usize, LineId),
        from: Cycle,
    ) -> (u64, Cycle) {
        let (line, word) = word_of(registers, page);
        let (here, there) = (hw.controller_tile(controller), hw.memory_tile(line));
        let asked = hw.mesh.control(here, there, from);
        let read = hw.memory.read(line, asked);
        let ready = hw.mesh.data(there, here, read);
        let bits = hw.in_memory(line)[word] & own(hw, controller, page);
        (if self.flaw == Flaw::ForgetsFetch { 0 } else { bits }, ready)
    }

    /// Sets the bit of `line`, which was just found, at `at`; its write is durable at `durable`.
    pub(super) fn set(&mut self, hw: &Hw<()>, line: LineId, at: Cycle, durable: Cycle) {
        let buffer = &mut self.buffers[hw.memory.home(line)];
        buffer.coming.push(Coming { at, line });
        let mut entries = buffer.entries.iter_mut();
        let entry = entries.find(|entry| entry.page == line / LINES).expect("it was found");
        entry.held = entry.held.max(durable);
    }

    /// Merges the bits that are set by `now` into the directory in `image`.
    pub(super) fn save(&self, now: Cycle, registers: &Relocation, image: &mut [LineData]) {
        if self.flaw == Flaw::ForgetsBuffer {
            return;
        }
        let mut lay = |page: LineId, bits: u64| {
            let (line, word) = word_of(registers, page);
            image[line as usize][word] |= bits;
        };
        for buffer in &self.buffers {
            let fetched = buffer.entries.iter().filter(|entry| entry.ready <= now);
            fetched.for_each(|entry| lay(entry.page, entry.bits));
            buffer.leaving.iter().for_each(|gone| lay(gone.page, gone.bits));
            let set = buffer.coming.iter().filter(|coming| coming.at <= now);
            set.for_each(|coming| lay(coming.line / LINES, bit(coming.line)));
        }
    }
}

/// The bits of the lines of `page` that belong to `controller`.
fn own(hw: &Hw<()>, controller: usize, page: LineId) -> u64 {
    let lines = (0..LINES).map(|number| page * LINES + number);
    lines.filter(|line| hw.memory.home(*line) == controller).fold(0, |own, line| own | bit(line))
}
