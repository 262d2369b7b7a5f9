//! The machine that records: memory that keeps a trace of all operations on it.
//!
//! A store takes effect at its call, and a load returns the newest store to its word, unless the
//! schedule chose otherwise: loads that come before earlier stores of their thread have left its
//! store buffer ([`Visible`](crate::visible::Visible)), and non-temporal stores that stay in a
//! write-combining buffer ([`Combining`](crate::combining::Combining)).

use crate::access::{Access, FENCES, Met, shared_word};
use crate::combining::{Combined, CombinedStore};
use crate::run::Shared;
use crate::site::Site;
use crate::trace::{Event, Kind, Trace};
use crate::visible::Version;
use seawall_fiber::Pause;
use seawall_memory::relocation::{Relocation, RelocationUnit};
use seawall_memory::{Addr, Fence, LINE_BYTES, Line, Memory, Space, ThreadSlots, Width, lines_of};
use std::cell::Cell;
use std::ops::Range;
use std::panic::Location;
use std::rc::Rc;

/// One thread's handle on the recording memory.
pub struct Traced<'a> {
    shared: Rc<Shared>,
    thread: usize,
    /// The call that makes non-temporal stores, while it does.
    non_temporal: Cell<Option<Site>>,
    /// The instruction that calls, of a compiled program.
    instruction: Cell<Option<Site>>,
    pause: &'a Pause<'a>,
}

impl<'a> Traced<'a> {
    pub(crate) fn new(shared: Rc<Shared>, thread: usize, pause: &'a Pause<'a>) -> Traced<'a> {
        Traced {
            shared,
            thread,
            non_temporal: Cell::new(None),
            instruction: Cell::new(None),
            pause,
        }
    }

    /// The place of a call: of the instruction that makes it, if a compiled program does.
    fn site(&self, caller: &'static Location<'static>) -> Site {
        self.instruction.get().unwrap_or(Site::Call(caller))
    }

    /// Counts a seam call, after other threads have run if it is their turn.
    fn step(&self) {
        self.shared.step(|| self.pause.pause());
        let mut combining = self.shared.combining.borrow_mut();
        if !combining.is_empty() {
            let due = combining.due(self.shared.calls());
            self.leave(due);
        }
    }

    /// These stores leave their buffer for memory.
    fn leave(&self, stores: Vec<Combined>) {
        for Combined { thread, operation, at, width, value, caller, .. } in stores {
            let mut trace = self.shared.trace.borrow_mut();
            if let Some(store) = self.put_by(thread, &mut trace, at, width, value) {
                let (thread, kind) = (thread as u16, Kind::StoreNt { store });
                trace.events.push(Event { thread, operation, kind, at: caller });
            }
        }
    }

    /// The thread's non-temporal stores (to the line, if one is given) are ordered from now on;
    /// true if there were any.
    fn settle(&self, line: Option<Line>) -> bool {
        let mut combining = self.shared.combining.borrow_mut();
        if combining.is_empty() {
            return false;
        }
        let (leaving, any) = combining.settle(self.thread, line);
        self.leave(leaving);
        any
    }

    /// This call meets the non-temporal stores of other threads.
    fn meet(&self, at: Addr, is_flush: bool) {
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
    fn note_access(&self, at: Addr, writes: bool) {
        self.note_access_behind(at, writes, 0..0);
    }

    /// As [`note_access`](Self::note_access), for a load that could be so far behind.
    fn note_access_behind(&self, at: Addr, writes: bool, behind: Range<u32>) {
        let shared = &*self.shared;
        if shared.notes_accesses {
            let call = shared.calls();
            let (thread, word) = (self.thread as u16, shared_word(at));
            let others = shared.others(self.thread);
            let behind = (behind.start, behind.end);
            let access = Access { call, thread, word, writes, others, behind };
            shared.trace.borrow_mut().accesses.push(access);
        }
    }

    /// Records that this call may change what a crash leaves, or is seen from outside.
    fn note_fence(&self) {
        self.note_full_fence();
        self.shared.note_progress(self.thread);
    }

    /// As above, of a fence that a loop may have which waits for another thread.
    fn note_full_fence(&self) {
        self.settle(None);
        self.note_access(FENCES, true);
    }

    fn event(&self, trace: &mut Trace, kind: Kind, at: Site) {
        let operation = self.shared.operation[self.thread].get();
        trace.events.push(Event { thread: self.thread as u16, operation, kind, at });
    }

    #[track_caller]
    fn note(&self, kind: Kind) {
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

    /// How far behind the newest store this load could be; and, if that was chosen for it and what
    /// it would read `fits` it, the word as that older store left it.
    fn look_behind(
        &self,
        at: Addr,
        caller: Site,
        fits: impl Fn(u64) -> bool,
    ) -> (Range<u32>, Option<u64>) {
        let mut visible = self.shared.visible.borrow_mut();
        let Some(visible) = visible.as_mut() else { return (0..0, None) };
        let (mine, word) = (self.thread, at.bits() / 8);
        let possible = visible.behind(mine, word);
        let behind = self.shared.behind();
        let older = visible.older(word, behind).filter(|older| fits(older.value));
        if let Some(older) = older {
            visible.load(mine, word, behind);
            self.note_read_behind(at, older, caller);
        }
        (possible, older.map(|older| older.value))
    }

    /// Notes that the thread reads the newest store to the word.
    fn look(&self, at: Addr, caller: Site) {
        let is_ordered = self.settle(Some(at.line())) || self.shared.notes_loads;
        if is_ordered && at.is_pm() {
            let mut trace = self.shared.trace.borrow_mut();
            let (line, word) = (trace.line(at.line()), (at.offset() / 8) as u32);
            return self.event(&mut trace, Kind::Read { line, word, from: None }, caller);
        }
        if let Some(visible) = self.shared.visible.borrow_mut().as_mut() {
            visible.load(self.thread, at.bits() / 8, 0);
        }
        self.note_read(at, caller);
    }

    fn store_nt(&self, at: Addr, width: Width, value: u64, caller: Site) {
        let (thread, operation) = (self.thread, self.shared.operation[self.thread].get());
        let store = CombinedStore { thread, operation, at, width, value, caller };
        if self.shared.combining.borrow_mut().store(self.shared.calls(), store) {
            let mut trace = self.shared.trace.borrow_mut();
            if let Some(store) = self.put(&mut trace, at, width, value) {
                self.event(&mut trace, Kind::StoreNt { store }, caller);
            }
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

    /// Stores, and returns the number of the store if it was to persistent memory.
    #[track_caller]
    fn put(&self, trace: &mut Trace, at: Addr, width: Width, value: u64) -> Option<u32> {
        self.put_by(self.thread, trace, at, width, value)
    }

    #[track_caller]
    fn put_by(
        &self,
        thread: usize,
        trace: &mut Trace,
        at: Addr,
        width: Width,
        value: u64,
    ) -> Option<u32> {
        let change = self.shared.region(at).store(at, width, value);
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
        let store = trace.add_store(at, width, change);
        let line = trace.stores[store as usize].line as usize;
        let mut writer = self.shared.writer.borrow_mut();
        if writer.len() <= line {
            writer.resize(line + 1, u16::MAX);
        }
        writer[line] = thread as u16;
        self.shared.word_writer.borrow_mut().insert(change.word, thread as u16);
        Some(store)
    }

    #[track_caller]
    fn locked(&self, at: Addr, change: impl Fn(u64) -> Option<u64>) -> u64 {
        self.step();
        let caller = self.site(Location::caller());
        self.meet(at, false);
        if change(self.shared.region(at).load(at, Width::B8)).is_some() {
            self.settle(None);
        }
        let newest = self.shared.region(at).load(at, Width::B8);
        let (behind, older) = self.look_behind(at, caller, |older| change(older).is_none());
        let new = change(newest).filter(|_| older.is_none());
        self.note_access_behind(at, new.is_some(), behind);
        let Some(new) = new else {
            if older.is_none() {
                self.look(at, caller);
            }
            let old = older.unwrap_or(newest);
            self.shared.note_repeat(self.thread, (at, old, caller), || self.pause.pause());
            return old;
        };
        self.note_fence();
        let mut trace = self.shared.trace.borrow_mut();
        let store = self.put(&mut trace, at, Width::B8, new);
        if let Some(visible) = self.shared.visible.borrow_mut().as_mut() {
            visible.locked(self.thread);
        }
        self.event(&mut trace, Kind::Locked { store }, caller);
        newest
    }
}

/// For compiled programs: their locked instructions run on the host between two calls, their stores
/// may cover any bytes of a word, and their memory has contents before the machine knows it.
impl Traced<'_> {
    /// The next calls are made by the instruction at this address.
    pub fn at_instruction(&self, address: u64) {
        self.instruction.set(Some(Site::Instruction(address)));
    }

    /// Sets words from `at` on without a trace: the program had them before.
    pub fn fill(&self, at: Addr, words: impl Iterator<Item = u64>) {
        let region = self.shared.region(at);
        let (first, _) = region.place(at, Width::B8);
        (first as u32..).zip(words).for_each(|(word, value)| region.set_word(word, value));
    }

    /// Stores the bits of `mask` of an aligned word.
    #[track_caller]
    pub fn store_bits_of(&self, at: Addr, mask: u64, value: u64) {
        self.step();
        self.note_access(at, true);
        self.meet(at, false);
        self.settle(Some(at.line()));
        let newest = self.shared.region(at).load(at, Width::B8);
        let mut trace = self.shared.trace.borrow_mut();
        let merged = newest & !mask | value & mask;
        if let Some(store) = self.put(&mut trace, at, Width::B8, merged) {
            self.event(&mut trace, Kind::Store { store }, self.site(Location::caller()));
        }
    }

    /// Begins a locked instruction on one or two aligned words: returns the newest values.
    pub fn lock(&self, at: Addr, words: usize) -> [u64; 2] {
        self.step();
        self.settle(None);
        let mut found = [0; 2];
        for (word, found) in each(at, words).zip(&mut found) {
            self.meet(word, false);
            *found = self.shared.region(word).load(word, Width::B8);
        }
        found
    }

    /// Ends it, with the new words if it stored; if not, it was a plain load. Nothing may come
    /// between.
    #[track_caller]
    pub fn unlock(&self, at: Addr, words: usize, new: Option<[u64; 2]>) {
        let caller = self.site(Location::caller());
        each(at, words).for_each(|word| self.note_access(word, new.is_some()));
        let Some(new) = new else {
            each(at, words).for_each(|word| self.look(word, caller));
            let found = self.shared.region(at).load(at, Width::B8);
            return self
                .shared
                .note_repeat(self.thread, (at, found, caller), || self.pause.pause());
        };
        self.note_fence();
        for (word, new) in each(at, words).zip(new) {
            let mut trace = self.shared.trace.borrow_mut();
            let store = self.put(&mut trace, word, Width::B8, new);
            self.event(&mut trace, Kind::Locked { store }, caller);
        }
        if let Some(visible) = self.shared.visible.borrow_mut().as_mut() {
            visible.locked(self.thread);
        }
    }

    /// The system comes to the queue of those that sleep on this aligned word: the newest value of
    /// the word. Schedules differ in the order of such looks, and of these and stores to the word.
    #[track_caller]
    pub fn look_at_queue(&self, at: Addr) -> u64 {
        self.step();
        self.note_access(at, true);
        self.meet(at, false);
        self.look(at, self.site(Location::caller()));
        self.shared.region(at).load(at, Width::B8)
    }

    /// Waits until all earlier stores are visible, and all earlier loads are complete (`mfence`).
    #[track_caller]
    pub fn full_fence(&self) {
        self.step();
        self.note_full_fence();
        self.note(Kind::Locked { store: None });
        if let Some(visible) = self.shared.visible.borrow_mut().as_mut() {
            visible.locked(self.thread);
        }
    }

    /// Takes the run so far, where it is over before its threads are.
    pub fn take_trace(&self) -> Trace {
        self.shared.trace.replace(Trace::empty(self.shared.threads()))
    }
}

fn each(at: Addr, words: usize) -> impl Iterator<Item = Addr> {
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
        self.meet(at, false);
        let (behind, older) = self.look_behind(at, caller, |_| true);
        self.note_access_behind(at, false, behind);
        let value = match older {
            Some(word) => word >> (at.offset() % 8 * 8) & width.mask(),
            None => {
                self.look(at, caller);
                self.shared.region(at).load(at, width) | self.shared.told(at, width)
            }
        };
        self.shared.note_repeat(self.thread, (at, value, caller), || self.pause.pause());
        value
    }

    fn store_bits(&self, at: Addr, width: Width, value: u64) {
        self.step();
        self.note_access(at, true);
        self.meet(at, false);
        if let Some(caller) = self.non_temporal.get() {
            return self.store_nt(at, width, value, caller);
        }
        self.settle(Some(at.line()));
        let mut trace = self.shared.trace.borrow_mut();
        if let Some(store) = self.put(&mut trace, at, width, value) {
            self.event(&mut trace, Kind::Store { store }, self.site(Location::caller()));
        }
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
                self.note_access(line.start(), true);
                self.meet(line.start(), true);
                let line = self.shared.trace.borrow_mut().line(line);
                self.note(Kind::Flush { line });
            }
        }
    }

    fn write_nt(&self, at: Addr, from: &[u8]) {
        self.non_temporal.set(Some(self.site(Location::caller())));
        self.write(at, from);
        self.non_temporal.set(None);
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
        self.note_fence();
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
        self.note_fence();
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
        self.note_fence();
        for line in lines_of(at, len) {
            self.note_access(line.start(), true);
            for word in (0..LINE_BYTES).step_by(8).map(|byte| line.start().plus(byte)) {
                let mut trace = self.shared.trace.borrow_mut();
                if let Some(store) = self.put(&mut trace, word, Width::B8, 0) {
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
        self.note_fence();
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
            self.note_access(line.start(), true);
            let start = line.start().max(to);
            let end = line.start().plus(LINE_BYTES).min(to.plus(len));
            for at in (start.bits()..end.bits()).step_by(8).map(Addr::from_bits) {
                let source = from.plus(at.bits() - to.bits());
                self.note_access(source, false);
                self.note_read(source, caller);
                let mut trace = self.shared.trace.borrow_mut();
                let word = self.shared.region(source).load(source, Width::B8);
                if let Some(store) = self.put(&mut trace, at, Width::B8, word) {
                    self.event(&mut trace, Kind::Store { store }, caller);
                }
            }
            let registers = self.shared.relocation.get();
            let mut trace = self.shared.trace.borrow_mut();
            let copied = registers.and_then(|registers| trace.add_copied(&registers, start));
            if let Some(copied) = copied.filter(|copied| self.shared.write_back(*copied)) {
                self.event(&mut trace, Kind::WroteBack { line: copied.line }, caller);
            }
        }
    }

    fn forward(&self, at: Addr) -> Addr {
        let registers = self.shared.relocation.get();
        registers.map_or(at, |registers| registers.look_up(*self, at))
    }
}
