//! When the data of a thread are known: which loads the address of a load must wait for.
//!
//! Instrumented code [says](seawall_cc::dependence) how values move from one of its calls to the
//! next. For each register, and for words of memory that were stored lately, this has the cycle at
//! which the load arrives that the value comes from. The machine gets the latest one of an address
//! before it loads from there.

use crate::process::machine::Machine;
use rustc_hash::FxHashMap;
use seawall_cc::dependence::{self, DataStep, LOADED, Place, SLOTS, SlotSet};
use seawall_memory::LINE_BYTES;
use seawall_sim::Cycle;
use std::cell::Cell;
use std::path::PathBuf;

/// Words of memory that are remembered, a power of two.
const WORDS: usize = 256;
const HEAD_BYTES: u64 = 16;

/// What the program says at one of its calls.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Record {
    address: SlotSet,
    before: &'static [u64],
    after: &'static [u64],
}

/// The records of all modules, by the address behind their calls.
#[derive(Debug)]
pub(crate) struct Records(FxHashMap<u64, Record>);

impl Records {
    /// Of modules that are loaded, each with its base.
    pub(crate) fn of(modules: impl Iterator<Item = (PathBuf, u64)>) -> Records {
        let mut records = FxHashMap::default();
        for (path, base) in modules {
            let found = std::fs::read(path).ok().and_then(|file| dependence::records_of(&file));
            if let Some((at, bytes)) = found {
                read(base + at, bytes, &mut records);
            }
        }
        Records(records)
    }

    #[inline]
    pub(crate) fn at(&self, back: u64) -> Record {
        self.0.get(&back).copied().unwrap_or_default()
    }
}

/// Reads the records of a module that is mapped.
fn read(start: u64, bytes: u64, records: &mut FxHashMap<u64, Record>) {
    let (mut at, end) = (start, start + bytes);
    while at + HEAD_BYTES <= end {
        // SAFETY: the section is mapped, as its file says, and stays so.
        let (behind, counts, address) =
            unsafe { (*(at as *const i32), *((at + 4) as *const u32), *((at + 8) as *const u64)) };
        let (before, after) = (u64::from(counts & 0xffff), u64::from(counts >> 16));
        let words = at + HEAD_BYTES;
        let next = words + 8 * (before + after);
        if next > end {
            return;
        }
        // SAFETY: as above; modules stay loaded.
        let words = |at: u64, count: u64| unsafe {
            std::slice::from_raw_parts(at as *const u64, count as usize)
        };
        let record = Record {
            address,
            before: words(at + HEAD_BYTES, before),
            after: words(at + HEAD_BYTES + 8 * before, after),
        };
        records.insert(at.wrapping_add_signed(behind.into()), record);
        at = next;
    }
}

/// An access of the program: from where, of how many bytes, and whether it loads.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Access {
    pub(crate) at: u64,
    pub(crate) bytes: u64,
    pub(crate) loads: bool,
}

impl Access {
    /// The words that it touches, at most those of a line.
    fn words(self) -> impl Iterator<Item = u64> {
        let end = self.at.saturating_add(self.bytes.clamp(1, LINE_BYTES));
        (self.at & !7..end).step_by(8)
    }
}

/// The data of a thread.
pub(crate) struct Data {
    /// When what is in each place is known.
    known: [Cell<Cycle>; SLOTS],
    /// Words of memory, and when their values are known.
    words: Box<[Cell<(u64, Cycle)>; WORDS]>,
    /// The steps from the last call on.
    after: Cell<&'static [u64]>,
    /// The access of the last call.
    access: Cell<Access>,
    /// The stack and the frame pointer there.
    stack: Cell<u64>,
    frame: Cell<u64>,
    /// Whether the machine has been told of a load to wait for.
    has_told: Cell<bool>,
}

impl Default for Data {
    fn default() -> Data {
        Data {
            known: [const { Cell::new(0) }; SLOTS],
            words: Box::new([const { Cell::new((0, 0)) }; WORDS]),
            after: Cell::new(&[]),
            access: Cell::default(),
            stack: Cell::new(0),
            frame: Cell::new(0),
            has_told: Cell::new(false),
        }
    }
}

impl Data {
    /// The last access of the thread is done: its steps follow.
    #[inline]
    pub(crate) fn finish(&self, machine: &dyn Machine) {
        let access = self.access.get();
        if access.loads {
            let arrived = access.words().fold(machine.arrived(), |it, at| it.max(self.word(at)));
            self.known[usize::from(LOADED)].set(arrived);
        }
        if self.has_told.replace(false) {
            machine.wait_for_address(0);
        }
        self.follow(self.after.replace(&[]));
        self.known[usize::from(LOADED)].set(0);
    }

    /// The thread comes to an access, after [`finish`](Data::finish).
    #[inline]
    pub(crate) fn begin(
        &self,
        record: Record,
        access: Access,
        (stack, frame): (u64, u64),
        machine: &dyn Machine,
    ) {
        self.stack.set(stack);
        self.frame.set(frame);
        self.access.set(access);
        self.follow(record.before);
        self.after.set(record.after);
        let known = self.latest(record.address);
        if known > 0 && access.loads {
            machine.wait_for_address(known);
            self.has_told.set(true);
        }
    }

    #[inline]
    fn latest(&self, mut slots: SlotSet) -> Cycle {
        let mut latest = 0;
        while slots != 0 {
            latest = self.known[slots.trailing_zeros() as usize % SLOTS].get().max(latest);
            slots &= slots - 1;
        }
        latest
    }

    #[inline]
    fn follow(&self, mut steps: &[u64]) {
        while let Some(step) = DataStep::take(&mut steps) {
            match step {
                DataStep::Set(to, from) => self.set(to, self.latest(from)),
                DataStep::Fill(to, place) => self.set(to, self.word(self.address(place))),
                DataStep::Spill(place, from) => {
                    self.set_word(self.address(place), self.latest(from))
                }
                DataStep::Store(from) => {
                    let known = self.latest(from);
                    self.access.get().words().for_each(|at| self.set_word(at, known));
                }
            }
        }
    }

    fn set(&self, to: u8, known: Cycle) {
        self.known[usize::from(to) % SLOTS].set(known);
    }

    fn address(&self, Place { from_frame, offset }: Place) -> u64 {
        let base = if from_frame { &self.frame } else { &self.stack };
        base.get().wrapping_add_signed(offset)
    }

    fn word(&self, at: u64) -> Cycle {
        let (word, known) = self.words[(at / 8) as usize % WORDS].get();
        if word == at / 8 { known } else { 0 }
    }

    fn set_word(&self, at: u64, known: Cycle) {
        let place = &self.words[(at / 8) as usize % WORDS];
        if known > 0 || place.get().0 == at / 8 {
            place.set((at / 8, known));
        }
    }
}
