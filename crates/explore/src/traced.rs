//! The machine that records: memory that keeps a trace of all operations on it.
//!
//! A store takes effect at its call, and a load returns the newest store to its word, unless the
//! schedule chose otherwise: loads that come before earlier stores of their thread have left its
//! store buffer ([`Visible`](crate::visible::Visible)), and non-temporal stores that stay in a
//! write-combining buffer ([`Combining`](crate::combining::Combining)).

use crate::access::{FENCES, Met, Use, shared_word};
use crate::combining::{Combined, CombinedStore};
use crate::run::Shared;
use crate::site::Site;
use crate::trace::{Event, Kind, Trace};
use crate::visible::Version;
use crate::wide::{Part, extent};
use seawall_fiber::Pause;
use seawall_memory::relocation::{Relocation, RelocationUnit};
use seawall_memory::{
    Addr, Fence, LINE_BYTES, Line, Memory, Space, ThreadSlots, Width, lines_of, pieces_of,
};
use std::cell::Cell;
use std::ops::Range;
use std::panic::Location;
use std::rc::Rc;

/// One thread's handle on the recording memory.
pub struct Traced<'a> {
    pub(crate) shared: Rc<Shared>,
    pub(crate) thread: usize,
    /// Whether it stores past the caches at the moment.
    non_temporal: Cell<bool>,
    /// What it stores at the moment is a piece of this.
    pub(crate) part: Cell<Part>,
    /// The instruction that calls, of a compiled program.
    pub(crate) instruction: Cell<Option<Site>>,
    pub(crate) pause: &'a Pause<'a>,
}

impl<'a> Traced<'a> {
    pub(crate) fn new(shared: Rc<Shared>, thread: usize, pause: &'a Pause<'a>) -> Traced<'a> {
        Traced {
            shared,
            thread,
            non_temporal: Cell::new(false),
            part: Cell::new(Part::Alone),
            instruction: Cell::new(None),
            pause,
        }
    }

    /// The place of a call: of the instruction that makes it, if a compiled program does.
    pub(crate) fn site(&self, caller: &'static Location<'static>) -> Site {
        self.instruction.get().unwrap_or(Site::Call(caller))
    }

    /// Counts a seam call, after other threads have run if it is their turn.
    pub(crate) fn step(&self) {
        self.shared.step(|| self.pause.pause());
        let mut combining = self.shared.combining.borrow_mut();
        if !combining.is_empty() {
            let due = combining.due(self.shared.calls());
            self.leave(due);
        }
    }

    /// These stores leave their buffer for memory.
    fn leave(&self, stores: Vec<Combined>) {
        for Combined { thread, operation, at, mask, value, part, caller, .. } in stores {
            let mut trace = self.shared.trace.borrow_mut();
            if let Some(store) = self.put_by(thread, &mut trace, (at, mask, value), part) {
                let (thread, kind) = (thread as u16, Kind::StoreNt { store });
                trace.events.push(Event { thread, operation, kind, at: caller });
            }
        }
    }

    /// The thread's non-temporal stores (to the line, if one is given) are ordered from now on.
    fn settle(&self, line: Option<Line>) {
        let mut combining = self.shared.combining.borrow_mut();
        if !combining.is_empty() {
            self.leave(combining.settle(self.thread, line));
        }
    }

    /// The word as the thread sees it, of which memory has this: what its buffer of non-temporal
    /// stores holds of the word is newer.
    pub(crate) fn with_buffered(&self, at: Addr, word: u64) -> u64 {
        let combining = self.shared.combining.borrow();
        if combining.is_empty() {
            return word;
        }
        let (bits, values) = combining.buffered(self.thread, at);
        word & !bits | values
    }

    /// This call meets the non-temporal stores of other threads.
    pub(crate) fn meet(&self, at: Addr, is_flush: bool) {
        let shared = &*self.shared;
        let mut combining = shared.combining.borrow_mut();
        if combining.is_empty() {
            return;
        }
        let met = combining.met(self.thread, at, is_flush);
        if shared.notes_accesses && shared.visible.borrow().is_some() {
            let met = met.into_iter().map(|store| Met { store, call: shared.calls() });
            shared.trace.borrow_mut().met.extend(met);
        }
    }

    /// Records which word this call of the seam uses.
    pub(crate) fn note_access(&self, at: Addr, does: Use) {
        self.shared.note_access(self.thread, at, does, 0..0);
    }

    /// Records that this call may change what a crash leaves, or is seen from outside.
    fn note_told(&self) {
        let owes = self.shared.owes[self.thread].replace(true);
        self.note_fence();
        self.shared.owes[self.thread].set(owes);
    }

    fn note_fence(&self) {
        self.note_full_fence();
        self.shared.note_progress(self.thread);
    }

    /// As above, of a fence that a loop may have which waits for another thread. Where a fence only
    /// makes durable what its thread has asked for, one after nothing changes nothing.
    pub(crate) fn note_full_fence(&self) {
        self.settle(None);
        let owes = self.shared.owes[self.thread].replace(false);
        if owes || !self.shared.notes_failed {
            self.note_access(FENCES, Use::Fence);
        }
    }

    /// As above, of a locked instruction. One that leaves its word as it was may be what a loop
    /// waits with.
    pub(crate) fn note_locked(&self, changes: bool) {
        if changes { self.note_fence() } else { self.note_full_fence() }
    }

    /// The thread's next fence makes something durable.
    fn note_debt(&self) {
        self.shared.owes[self.thread].set(true);
    }

    pub(crate) fn event(&self, trace: &mut Trace, kind: Kind, at: Site) {
        let operation = self.shared.operation[self.thread].get();
        trace.events.push(Event { thread: self.thread as u16, operation, kind, at });
    }

    #[track_caller]
    pub(crate) fn note(&self, kind: Kind) {
        self.event(&mut self.shared.trace.borrow_mut(), kind, self.site(Location::caller()));
    }

    /// Records a load of a word that another thread wrote last: a dependence between epochs if it
    /// is persistent; and in any case the thread now depends on what that thread had stored before.
    fn note_read(&self, at: Addr, from: Site) {
        if self.shared.threads() == 1 {
            return;
        }
        let mut trace = self.shared.trace.borrow_mut();
        let mine = self.thread as u16;
        if !at.is_pm() {
            let writers = self.shared.dram_writer.borrow();
            let last = writers.get(&(at.offset() / 8)).filter(|(writer, _)| *writer != mine);
            if let Some(&(_, stores)) = last {
                self.event(&mut trace, Kind::Sync { stores }, from);
            }
            return;
        }
        let Some(line) = trace.find_line(at.line()) else { return };
        let word = (at.offset() / 8) as u32;
        let other = |writer: Option<&u16>| writer.is_some_and(|&w| w != u16::MAX && w != mine);
        if other(self.shared.writer.borrow().get(line as usize))
            || other(self.shared.word_writer.borrow().get(&word))
        {
            self.event(&mut trace, Kind::Read { line, word, from: None }, from);
        }
    }

    /// How far behind the newest store this load could be; and, if that was chosen for it, the word
    /// as that older store left it.
    fn look_behind(&self, at: Addr, caller: Site) -> (Range<u32>, Option<u64>) {
        let mut visible = self.shared.visible.borrow_mut();
        let Some(visible) = visible.as_mut() else { return (0..0, None) };
        let (mine, word) = (self.thread, at.bits() / 8);
        let possible = visible.behind(mine, word);
        let behind = self.shared.behind();
        let older = visible.older(word, behind);
        if let Some(older) = older {
            visible.load(mine, word, behind);
            self.note_read_behind(at, older, caller);
        }
        (possible, older.map(|older| older.value))
    }

    /// Notes that the thread reads the newest store to the word.
    pub(crate) fn look(&self, at: Addr, caller: Site) {
        if self.shared.notes_loads && at.is_pm() {
            let mut trace = self.shared.trace.borrow_mut();
            let (line, word) = (trace.line(at.line()), (at.offset() / 8) as u32);
            return self.event(&mut trace, Kind::Read { line, word, from: None }, caller);
        }
        if let Some(visible) = self.shared.visible.borrow_mut().as_mut() {
            visible.load(self.thread, at.bits() / 8, 0);
        }
        self.note_read(at, caller);
    }

    /// Stores these bits of an aligned word past the caches.
    pub(crate) fn store_nt(&self, (at, mask, value): (Addr, u64, u64), part: Part, caller: Site) {
        let (thread, operation) = (self.thread, self.shared.operation[self.thread].get());
        let store = CombinedStore { thread, operation, at, mask, value, part, caller };
        self.note_debt();
        let leaving = self.shared.combining.borrow_mut().store(self.shared.calls(), store);
        self.leave(leaving);
    }

    /// Stores these bits of an aligned word, as a piece of a write.
    #[track_caller]
    pub(crate) fn store_part(&self, at: Addr, mask: u64, value: u64, part: Part) {
        self.step();
        self.store_now(at, mask, value, part);
    }

    /// Makes a write of these words, whose pieces have no order.
    #[track_caller]
    pub(crate) fn store_pieces(&self, mut pieces: Vec<(Addr, u64, u64)>, part: Part) {
        let shared = &*self.shared;
        for number in 0..pieces.len() {
            self.step();
            if number == 0 && pieces.len() > 1 && shared.notes_accesses {
                if shared.is_reversed() {
                    pieces.reverse();
                }
                let words = pieces.iter().map(|(at, ..)| shared_word(*at)).collect();
                shared.under_way.borrow_mut()[self.thread] = Some((shared.calls(), words));
            }
            let (at, mask, value) = pieces[number];
            self.store_now(at, mask, value, part);
        }
        shared.under_way.borrow_mut()[self.thread] = None;
    }

    #[track_caller]
    fn store_now(&self, at: Addr, mask: u64, value: u64, part: Part) {
        let does = if self.non_temporal.get() { Use::StoreNt } else { Use::Store };
        self.note_access(at, does);
        self.meet(at, false);
        let caller = self.site(Location::caller());
        if self.non_temporal.get() {
            return self.store_nt((at, mask, value), part, caller);
        }
        self.settle(Some(at.line()));
        let mut trace = self.shared.trace.borrow_mut();
        if let Some(store) = self.put_by(self.thread, &mut trace, (at, mask, value), part) {
            self.event(&mut trace, Kind::Store { store }, caller);
        }
    }

    fn note_read_behind(&self, at: Addr, older: Version, from: Site) {
        let mut trace = self.shared.trace.borrow_mut();
        if at.is_pm() {
            let (line, word) = (trace.line(at.line()), (at.offset() / 8) as u32);
            self.event(&mut trace, Kind::Read { line, word, from: Some(older.stores) }, from);
        } else if older.is_by_another(self.thread) {
            self.event(&mut trace, Kind::Sync { stores: older.stores }, from);
        }
    }

    /// Stores these bits of an aligned word, as a piece of a write; returns the number of the store
    /// if it was to persistent memory.
    #[track_caller]
    pub(crate) fn put_by(
        &self,
        thread: usize,
        trace: &mut Trace,
        (at, mask, value): (Addr, u64, u64),
        part: Part,
    ) -> Option<u32> {
        let change = self.shared.region(at).store_bits(at, mask, value);
        // A loop that waits may store what it has read: its variables may be volatile.
        if change.old != change.new {
            self.shared.note_progress(thread);
        }
        if let Some(visible) = self.shared.visible.borrow_mut().as_mut() {
            let stores = trace.stores.len() as u32 + u32::from(at.is_pm());
            visible.store(thread, at.bits() / 8, change.old, change.new, stores);
        }
        if !at.is_pm() {
            let stores = trace.stores.len() as u32;
            let writer = (thread as u16, stores);
            self.shared.dram_writer.borrow_mut().insert(at.offset() / 8, writer);
            return None;
        }
        let (at, width) = extent(at, mask);
        let store = trace.add_store(at, width, change, part);
        let line = trace.stores[store as usize].line as usize;
        let mut writer = self.shared.writer.borrow_mut();
        if writer.len() <= line {
            writer.resize(line + 1, u16::MAX);
        }
        writer[line] = thread as u16;
        self.shared.word_writer.borrow_mut().insert(change.word, thread as u16);
        Some(store)
    }

    /// A compare-and-exchange has found this word, and failed: a load before which the stores of
    /// its thread have become visible. It completes no flush, so it is no fence.
    pub(crate) fn fail(&self, at: Addr, found: u64, caller: Site) {
        self.look(at, caller);
        if self.shared.notes_failed {
            self.event(&mut self.shared.trace.borrow_mut(), Kind::Failed, caller);
        }
        if let Some(visible) = self.shared.visible.borrow_mut().as_mut() {
            visible.locked(self.thread);
        }
        self.shared.note_repeat(self.thread, (at, found, caller), || self.pause.pause());
    }

    #[track_caller]
    fn locked(&self, at: Addr, change: impl Fn(u64) -> Option<u64>) -> u64 {
        self.step();
        let caller = self.site(Location::caller());
        self.meet(at, false);
        let old = self.with_buffered(at, self.shared.region(at).load(at, Width::B8));
        let new = change(old);
        self.note_access(at, if new.is_some() { Use::Exchange } else { Use::Load });
        self.shared.note_returned(old);
        let Some(new) = new else {
            self.fail(at, old, caller);
            return old;
        };
        self.note_locked(new != old);
        let mut trace = self.shared.trace.borrow_mut();
        let store = self.put_by(self.thread, &mut trace, (at, u64::MAX, new), Part::Alone);
        if let Some(visible) = self.shared.visible.borrow_mut().as_mut() {
            visible.locked(self.thread);
        }
        self.event(&mut trace, Kind::Locked { store }, caller);
        drop(trace);
        if new == old {
            self.shared.note_repeat(self.thread, (at, old, caller), || self.pause.pause());
        }
        old
    }
}

pub(crate) fn each(at: Addr, words: usize) -> impl Iterator<Item = Addr> {
    (0..words as u64).map(move |word| at.plus(8 * word))
}

impl Memory for Traced<'_> {
    fn thread(&self) -> usize {
        self.thread
    }

    /// The run starts each thread once.
    fn slots(&self) -> Option<&ThreadSlots> {
        None
    }

    fn load_bits(&self, at: Addr, width: Width) -> u64 {
        self.step();
        let caller = self.site(Location::caller());
        let (shift, mask) = (at.offset() % 8 * 8, width.mask());
        let (bits, values) = self.shared.combining.borrow().buffered(self.thread, at);
        let value = if bits >> shift & mask == mask {
            self.meet(at, false);
            self.note_access(at, Use::Load);
            values >> shift & mask
        } else {
            let (behind, older) = self.look_behind(at, caller);
            if older.is_none() {
                self.meet(at, false);
            }
            self.shared.note_access(self.thread, at, Use::of_load(older), behind);
            let word = older.unwrap_or_else(|| {
                self.look(at, caller);
                let value = self.shared.region(at).load(at, width) | self.shared.told(at, width);
                value << shift
            });
            (word & !bits | values) >> shift & mask
        };
        self.shared.note_returned(value);
        self.shared.note_repeat(self.thread, (at, value, caller), || self.pause.pause());
        value
    }

    fn store_bits(&self, at: Addr, width: Width, value: u64) {
        let (_, shift) = self.shared.region(at).place(at, width);
        let word = Addr::from_bits(at.bits() & !7);
        let (mask, value) = (width.mask() << shift, (value & width.mask()) << shift);
        self.store_part(word, mask, value, self.part.get());
    }

    fn compare_exchange(&self, at: Addr, current: u64, new: u64) -> Result<u64, u64> {
        let old = self.locked(at, |old| (old == current).then_some(new));
        if old == current { Ok(old) } else { Err(old) }
    }

    fn swap(&self, at: Addr, new: u64) -> u64 {
        self.locked(at, |_| Some(new))
    }

    fn fetch_add(&self, at: Addr, by: u64) -> u64 {
        self.locked(at, |old| Some(old.wrapping_add(by)))
    }

    fn flush(&self, at: Addr, len: u64) {
        self.step();
        if !at.is_pm() {
            self.note(Kind::FlushElsewhere);
        } else if len > 0 {
            let end = at.offset().saturating_add(len);
            assert!(end <= self.shared.pm.bytes(), "flush of {len} bytes from {at}, past the pool");
            for line in lines_of(at, len) {
                self.note_debt();
                self.note_access(line.start(), Use::Flush);
                self.meet(line.start(), true);
                let line = self.shared.trace.borrow_mut().line(line);
                self.note(Kind::Flush { line });
            }
        }
    }

    fn write(&self, at: Addr, from: &[u8]) {
        let pieces: Vec<(Addr, u64, u64)> = pieces_of(at, from).collect();
        let part = match self.part.get() {
            Part::Alone => self.shared.writes.of_words(pieces.len()),
            outer => outer,
        };
        self.store_pieces(pieces, part);
    }

    fn write_nt(&self, at: Addr, from: &[u8]) {
        self.non_temporal.set(true);
        self.write(at, from);
        self.non_temporal.set(false);
    }

    fn fence(&self, fence: Fence) {
        self.step();
        if fence != Fence::Strand {
            self.note_fence();
        }
        self.note(fence.into());
    }

    fn work(&self, _: u32) {}

    fn spin_while(&self, at: Addr, value: u64) -> u64 {
        let shared = &*self.shared;
        loop {
            let now = self.load_bits(at, Width::B8);
            if now != value || shared.is_closing() {
                return now;
            }
            shared.wait(self.thread, at, value, || self.pause.pause());
        }
    }

    fn output(&self, number: u64) {
        self.step();
        self.note_told();
        self.note(Kind::Output { number });
        let operation = &self.shared.operation[self.thread];
        operation.set(operation.get() + 1);
    }

    fn space(&self) -> Option<impl Space> {
        Some(self)
    }

    fn relocation(&self) -> Option<impl RelocationUnit> {
        Some(self)
    }
}

impl Space for &Traced<'_> {
    fn grow(&self, bytes: u64) -> bool {
        self.step();
        self.note_told();
        let pm = &self.shared.pm;
        if bytes > pm.bytes() && bytes <= pm.room() {
            pm.set_bytes(bytes);
            self.note(Kind::Grow { bytes });
        }
        bytes <= pm.bytes()
    }

    fn will_write(&self, _: Addr, _: u64) {}

    /// Sets all words to zero, in one step; a crash may keep or lose each of these stores.
    fn discard(&self, at: Addr, len: u64) {
        self.step();
        self.note_told();
        let part = self.shared.writes.of_words(len as usize / 8);
        for line in lines_of(at, len) {
            self.note_access(line.start(), Use::Store);
            for word in each(line.start(), LINE_BYTES as usize / 8) {
                let mut trace = self.shared.trace.borrow_mut();
                let zero = (word, u64::MAX, 0);
                if let Some(store) = self.put_by(self.thread, &mut trace, zero, part) {
                    self.event(&mut trace, Kind::Store { store }, self.site(Location::caller()));
                }
            }
        }
    }

    fn bring_back(&self, _: Addr, _: u64) -> bool {
        true
    }

    fn hole(&self, _: Addr, _: u64) -> Option<(Addr, u64)> {
        None
    }
}

impl RelocationUnit for &Traced<'_> {
    fn forwards(&self) -> bool {
        true
    }

    fn set(&self, registers: Option<Relocation>) {
        self.step();
        self.note_told();
        self.shared.relocation.set(registers);
        self.shared.told.borrow_mut().clear();
        let mut trace = self.shared.trace.borrow_mut();
        let since = trace.events.len() as u32;
        trace.relocated.settings.push(since);
    }

    /// Copies each line in one step.
    fn relocate(&self, to: Addr, from: Addr, len: u64) {
        let caller = self.site(Location::caller());
        for line in lines_of(to, len) {
            self.step();
            self.note_access(line.start(), Use::Store);
            let start = line.start().max(to);
            let end = line.start().plus(LINE_BYTES).min(to.plus(len));
            for at in (start.bits()..end.bits()).step_by(8).map(Addr::from_bits) {
                let source = from.plus(at.bits() - to.bits());
                self.note_access(source, Use::Load);
                self.note_read(source, caller);
                let mut trace = self.shared.trace.borrow_mut();
                let word = self.shared.region(source).load(source, Width::B8);
                let copy = (at, u64::MAX, word);
                if let Some(store) = self.put_by(self.thread, &mut trace, copy, Part::Alone) {
                    self.event(&mut trace, Kind::Store { store }, caller);
                }
            }
            let registers = self.shared.relocation.get();
            let mut trace = self.shared.trace.borrow_mut();
            let copied = registers.and_then(|registers| trace.add_copied(&registers, start));
            if let Some(copied) = copied.filter(|copied| self.shared.write_back(*copied)) {
                self.note_debt();
                self.event(&mut trace, Kind::WroteBack { line: copied.line }, caller);
            }
        }
    }

    fn forward(&self, at: Addr) -> Addr {
        let registers = self.shared.relocation.get();
        registers.map_or(at, |registers| registers.look_up(*self, at))
    }
}
