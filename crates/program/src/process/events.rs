//! What an instruction of the program does to the machine.
//!
//! The call comes before the instruction. So a store is finished at the next call of its thread:
//! nobody else has run in between, and the host's memory has the value. A load asks the machine for
//! the value, and if the host's memory has another one, the program must be made to see the
//! machine's ([`values`](super::values)).

use crate::process::callers::Frame;
use crate::process::counted::{self, Counted};
use crate::process::dependence::Access;
use crate::process::failure::fail;
use crate::process::machine::Machine;
use crate::process::masks::{Selected, selected};
use crate::process::pages::pages;
use crate::process::registers::Registers;
use crate::process::runtime::{Thread, runtime};
use crate::process::stored::{Pending, Way};
use crate::process::system_calls::system_call;
use crate::process::values::{self, finish_store, load, load_range, load_too, lock};
use crate::process::values::{take_over_line, unlock};
use crate::request::Fences;
use seawall_cc::abi::{self, Kind};
use seawall_memory::{Fence, LINE_BYTES};

const LOAD: u16 = Kind::Load as u16;
const STORE: u16 = Kind::Store as u16;
const MODIFY: u16 = Kind::Modify as u16;
const LOCKED: u16 = Kind::Locked as u16;
const STREAM: u16 = Kind::Stream as u16;
const CLWB: u16 = Kind::Clwb as u16;
const CLFLUSH_OPT: u16 = Kind::ClflushOpt as u16;
const CLFLUSH: u16 = Kind::Clflush as u16;
const SFENCE: u16 = Kind::Sfence as u16;
const MFENCE: u16 = Kind::Mfence as u16;
const PAUSE: u16 = Kind::Pause as u16;
const REP_MOVS: u16 = Kind::RepMovs as u16;
const REP_STOS: u16 = Kind::RepStos as u16;
const MOVS: u16 = Kind::Movs as u16;
const STOS: u16 = Kind::Stos as u16;
const SYSCALL: u16 = Kind::Syscall as u16;
const MASKED_LOAD: u16 = Kind::MaskedLoad as u16;
const MASKED_STORE: u16 = Kind::MaskedStore as u16;
const MASKED_STREAM: u16 = Kind::MaskedStream as u16;
const SEVERAL: u16 = Kind::Several as u16;
const DIRECT: u16 = Kind::Direct as u16;
const COMPARE: u16 = Kind::Compare as u16;
const COMPARE_PAIR: u16 = Kind::ComparePair as u16;
const BEGIN_COPY: u16 = Kind::BeginCopy as u16;
const END_COPY: u16 = Kind::EndCopy as u16;
const FLOW: u16 = Kind::Flow as u16;
const SAME: u16 = (abi::SAME >> 16) as u16;

/// What a core of four instructions a cycle could run during a `pause`: before Skylake it took
/// about 10 cycles, since then up to 140 (Intel's optimization manual, at its spin-wait loops).
const PAUSE_INSTRUCTIONS: u64 = 40;
/// The flag that makes string instructions go backward.
const DIRECTION: u64 = 1 << 10;

/// An instruction is about to run.
pub(crate) extern "C" fn event(at: u64, what: u32, registers: &mut Registers) {
    let runtime = runtime();
    let thread = runtime.thread();
    let (kind, bytes) = ((what >> 16) as u16, u64::from(what as u16));
    if !runtime.is_on.get() || thread.in_host.get() > 0 {
        if kind == SYSCALL {
            system_call(registers);
        }
        return;
    }
    if kind == FLOW {
        return flows(thread, registers);
    }
    if kind & SAME != 0 {
        return another(thread, kind & !SAME, at, bytes);
    }
    let stack = std::ptr::from_ref(registers) as u64 + size_of::<Registers>() as u64;
    if let BEGIN_COPY | END_COPY = kind {
        return copy(thread, stack, kind == BEGIN_COPY);
    }
    // All that the page says is read before other threads can run.
    let (counted, mask, flags) = (Counted::take(), counted::mask(), counted::flags());
    let records = runtime.records.get();
    let frame = Frame { site: registers.back, stack, base: registers.rbp };
    finish_last(thread, stack);
    match runtime.profile.get() {
        None => charge(thread, stack, counted),
        Some(profile) => profile.reach(thread, frame, || charge(thread, stack, counted)),
    }
    thread.comes_to(frame);
    if let Some(records) = records {
        let access = Access { at, bytes, loads: is_load(kind) };
        let record = records.at(registers.back);
        thread.data.begin(record, access, (stack, registers.rbp), thread.machine());
    }
    match kind {
        LOAD => load(thread, at, bytes),
        STORE => thread.pending.set(Some(Pending::new(at, bytes))),
        MODIFY => {
            load(thread, at, bytes);
            thread.pending.set(Some(Pending::new(at, bytes)));
        }
        LOCKED => lock(thread, at, bytes, None),
        COMPARE => lock(thread, at, bytes, Some(registers.rax.into())),
        COMPARE_PAIR => lock(thread, at, bytes, Some(registers.pair(bytes))),
        STREAM => thread.pending.set(Some(Pending::past(at, bytes, Way::Stream))),
        CLWB | CLFLUSH_OPT => flush(thread, at),
        CLFLUSH => flush_by(thread, at, |machine, line| machine.flush_in_order(line)),
        SFENCE => fence(thread),
        MFENCE => {
            fence(thread);
            thread.through(|machine| machine.full_fence());
        }
        PAUSE => thread.through(|machine| machine.work(PAUSE_INSTRUCTIONS)),
        REP_MOVS | REP_STOS | MOVS | STOS => string(thread, kind, bytes, registers, flags),
        SYSCALL => system_call(registers),
        MASKED_LOAD | MASKED_STORE | MASKED_STREAM => {
            masked(thread, kind, selected(at, what as u16, mask));
        }
        SEVERAL => thread.loaded.borrow_mut().clear(),
        _ => {}
    }
    // The page of a store is known before its value changes.
    if let Some(Pending { at, bytes, .. }) = thread.pending.get() {
        pages().know(thread, at, bytes);
    }
}

/// A copy of memory begins, or has been made: no time passes, and no data moves. What the program
/// has counted is charged at its next instruction.
fn copy(thread: &Thread, stack: u64, begins: bool) {
    let counted = Counted::take();
    finish_last(thread, stack);
    thread.through(|machine| if begins { machine.begin_copy() } else { machine.end_copy() });
    counted.put_back();
}

/// What the last instruction began is finished as that one's.
#[inline]
fn finish_last(thread: &Thread, stack: u64) {
    if runtime().records.get().is_some() {
        thread.data.finish(thread.machine());
    }
    finish(thread, stack);
}

/// Whether what the access reads is data of the program.
#[inline]
fn is_load(kind: u16) -> bool {
    matches!(kind, LOAD | MODIFY | LOCKED | COMPARE | COMPARE_PAIR)
        || matches!(kind, REP_MOVS | MOVS | MASKED_LOAD | SEVERAL)
}

/// Data moves where nothing else happens.
fn flows(thread: &Thread, registers: &Registers) {
    let Some(records) = runtime().records.get() else { return };
    let record = records.at(registers.back);
    let stack = std::ptr::from_ref(registers) as u64 + size_of::<Registers>() as u64;
    thread.data.finish(thread.machine());
    thread.data.begin(record, Access::default(), (stack, registers.rbp), thread.machine());
}

/// Another access of the instruction that the last event was about.
#[cold]
fn another(thread: &Thread, kind: u16, at: u64, bytes: u64) {
    if kind == LOAD {
        return load_too(thread, at, bytes);
    }
    if kind == DIRECT && !at.is_multiple_of(bytes) {
        fail("copied 64 bytes by movdir64b to an address that is no multiple of 64 (SIGSEGV)");
    }
    pages().know(thread, at, bytes);
    let store = match kind {
        STREAM => Pending::past(at, bytes, Way::Stream),
        DIRECT => Pending::past(at, bytes, Way::Direct),
        _ => Pending::new(at, bytes),
    };
    thread.pending_too.borrow_mut().extend(thread.pending.replace(Some(store)));
}

/// An access of the elements that a mask selects.
fn masked(thread: &Thread, kind: u16, selected: Option<Selected>) {
    let Some(selected) = selected else { return };
    let (at, bytes) = (selected.at, selected.bytes);
    if kind == MASKED_LOAD {
        return load_range(thread, at, bytes);
    }
    let way = if kind == MASKED_STREAM { Way::Stream } else { Way::Caches };
    let store = Pending::past(at, bytes, way);
    thread.pending.set(Some(Pending { selected: selected.mask, ..store }));
}

/// Finishes what the thread's last instruction began, and charges what it has done since.
#[inline]
pub(crate) fn settle(thread: &Thread, stack: u64) {
    let counted = Counted::take();
    finish(thread, stack);
    charge(thread, stack, counted);
}

/// Finishes what the thread's last instruction began.
#[inline]
pub(crate) fn finish(thread: &Thread, stack: u64) {
    thread.stack.set(stack);
    if let Some(pending) = thread.pending.take() {
        finish_store(thread, pending);
    } else if let Some(locked) = thread.locked.take() {
        unlock(thread, locked);
    } else {
        values::restore(thread, 0, 0);
    }
}

/// The instructions and the accesses to frames that the program has counted.
#[inline]
pub(crate) fn charge(thread: &Thread, stack: u64, counted: Counted) {
    let Counted { instructions, loads, stores } = counted;
    let total = &runtime().instructions;
    total.set(total.get() + instructions);
    if loads | stores > 0 {
        frame(thread, stack, loads, stores);
    }
    let ahead = thread.ahead.get();
    if instructions > ahead {
        thread.ahead.set(0);
        thread.through(|machine| machine.work(instructions - ahead));
    } else {
        thread.ahead.set(ahead - instructions);
    }
}

#[inline(never)]
fn frame(thread: &Thread, stack: u64, loads: u64, stores: u64) {
    let at = stack & !7;
    let runtime = runtime();
    let page = pages().page(thread, at);
    runtime.count_stores(u64::from(stores > 0), page.is_pm);
    let value = values::host_word(at);
    let few = |count: u64| u32::try_from(count).unwrap_or(u32::MAX);
    thread.issued(loads + stores);
    if thread.through(|machine| machine.frame(at, few(loads), few(stores), value)) {
        page.shadow(at).set(value);
    }
}

pub(crate) fn flush(thread: &Thread, at: u64) {
    flush_by(thread, at, |machine, line| machine.flush(line));
}

fn flush_by(thread: &Thread, at: u64, flush: impl FnOnce(&dyn Machine, u64)) {
    let line = at & !(LINE_BYTES - 1);
    pages().know(thread, line, LINE_BYTES);
    take_over_line(thread, line);
    if pages().is_persistent(line) {
        runtime().count_flush();
        runtime().unread.flushed(thread.number, line, thread.site.get());
    }
    thread.issued(1);
    thread.through(|machine| flush(machine, line));
}

/// The program's `sfence`.
pub(crate) fn fence(thread: &Thread) {
    let fence = match runtime().fences.get() {
        Fences::Order => Fence::Order,
        Fences::Drain => Fence::Drain,
    };
    runtime().count_fence();
    thread.issued(1);
    thread.through(|machine| machine.fence(fence));
}

fn string(thread: &Thread, kind: u16, bytes: u64, registers: &Registers, flags: u64) {
    let is_directed = bytes & u64::from(abi::DIRECTED) != 0;
    let bytes = bytes & !u64::from(abi::DIRECTED);
    let is_backward = is_directed && flags & DIRECTION != 0;
    let count = if matches!(kind, REP_MOVS | REP_STOS) { registers.rcx } else { 1 };
    let (bytes, element) = (count * bytes, bytes);
    if bytes == 0 {
        return;
    }
    let back = if is_backward { bytes - element } else { 0 };
    if matches!(kind, REP_MOVS | MOVS) {
        load_range(thread, registers.rsi - back, bytes);
    }
    thread.pending.set(Some(Pending::new(registers.rdi - back, bytes)));
}

impl Thread {
    /// The machine issues so many instructions for accesses.
    #[inline]
    pub(crate) fn issued(&self, instructions: u64) {
        self.ahead.set(self.ahead.get() + instructions);
    }
}
