//! The memory that recovery sees: a crash image that takes back what recovery did to it.
//!
//! There is one buffer for all images. Moving from image to image applies or takes back single
//! stores of the trace; what recovery and check write is logged and undone; DRAM is zeroed by the
//! same log. No image is ever copied and no process is started.
//!
//! Each access counts against a budget, so a recovery that loops ends as a finding.

use crate::models::Cut;
use crate::trace::{LineIndex, Trace};
use crate::words::Words;
use seawall_memory::{Addr, Memory, Width};
use std::cell::{Cell, RefCell};

/// Persistent memory as a crash left it, with fresh, zeroed DRAM, for one thread.
pub struct CrashImage {
    pm: Words,
    dram: Words,
    pm_undo: RefCell<Vec<(u32, u64)>>,
    dram_used: RefCell<Vec<u32>>,
    steps: Cell<u64>,
    limit: u64,
}

impl CrashImage {
    fn new(trace: &Trace, limit: u64) -> CrashImage {
        CrashImage {
            pm: trace.words(),
            dram: Words::zeroed(trace.dram_bytes),
            pm_undo: RefCell::default(),
            dram_used: RefCell::default(),
            steps: Cell::new(limit),
            limit,
        }
    }

    /// What a second restart finds: persistent memory as it is now, DRAM zeroed.
    pub fn restart(&self) {
        for word in self.dram_used.borrow_mut().drain(..) {
            self.dram.set_word(word, 0);
        }
    }

    /// Bytes of persistent memory.
    pub fn pm_bytes(&self) -> u64 {
        self.pm.bytes()
    }

    /// Bytes of volatile memory.
    pub fn dram_bytes(&self) -> u64 {
        self.dram.bytes()
    }

    fn undo(&self) {
        for (word, old) in self.pm_undo.borrow_mut().drain(..).rev() {
            self.pm.set_word(word, old);
        }
        self.restart();
        self.steps.set(self.limit);
    }

    #[inline]
    fn step(&self) {
        let left = self.steps.get();
        assert!(left > 0, "more than {} memory accesses: it does not end", self.limit);
        self.steps.set(left - 1);
    }

    #[track_caller]
    fn update(&self, at: Addr, change: impl FnOnce(u64) -> Option<u64>) -> u64 {
        let old = self.load_bits(at, Width::B8);
        if let Some(new) = change(old) {
            self.store_bits(at, Width::B8, new);
        }
        old
    }
}

impl Memory for CrashImage {
    fn thread(&self) -> usize {
        0
    }

    #[inline]
    fn load_bits(&self, at: Addr, width: Width) -> u64 {
        self.step();
        if at.is_pm() { self.pm.load(at, width) } else { self.dram.load(at, width) }
    }

    #[inline]
    fn store_bits(&self, at: Addr, width: Width, value: u64) {
        self.step();
        if at.is_pm() {
            let change = self.pm.store(at, width, value);
            if change.old != change.new {
                self.pm_undo.borrow_mut().push((change.word, change.old));
            }
        } else {
            let change = self.dram.store(at, width, value);
            if change.old == 0 && change.new != 0 {
                self.dram_used.borrow_mut().push(change.word);
            }
        }
    }

    fn compare_exchange(&self, at: Addr, current: u64, new: u64) -> Result<u64, u64> {
        let old = self.update(at, |old| (old == current).then_some(new));
        if old == current { Ok(old) } else { Err(old) }
    }

    fn swap(&self, at: Addr, new: u64) -> u64 {
        self.update(at, |_| Some(new))
    }

    fn fetch_add(&self, at: Addr, by: u64) -> u64 {
        self.update(at, |old| Some(old.wrapping_add(by)))
    }

    fn flush(&self, _: Addr, _: u64) {}
    fn order(&self) {}
    fn drain(&self) {}
    fn work(&self, _: u32) {}
    fn output(&self, _: u64) {}

    fn spin_while(&self, at: Addr, value: u64) -> u64 {
        let now = self.load_bits(at, Width::B8);
        assert_ne!(now, value, "the only thread waits for itself at {at}");
        now
    }
}

/// The buffer behind the images, and which of the trace's stores it holds now.
pub(crate) struct Cursor<'t> {
    trace: &'t Trace,
    image: CrashImage,
    held: Vec<u32>,
}

impl<'t> Cursor<'t> {
    pub(crate) fn new(trace: &'t Trace, limit: u64) -> Cursor<'t> {
        let held = vec![0; trace.lines.len()];
        Cursor { trace, image: CrashImage::new(trace, limit), held }
    }

    /// Makes the line hold its first `stores` stores.
    #[inline]
    pub(crate) fn set(&mut self, line: LineIndex, stores: u32) {
        let held = &mut self.held[line as usize];
        let log = &self.trace.lines[line as usize].stores;
        while *held < stores {
            let change = self.trace.stores[log[*held as usize] as usize].change;
            self.image.pm.set_word(change.word, change.new);
            *held += 1;
        }
        while *held > stores {
            *held -= 1;
            let change = self.trace.stores[log[*held as usize] as usize].change;
            self.image.pm.set_word(change.word, change.old);
        }
    }

    pub(crate) fn move_to(&mut self, cut: &Cut) {
        for line in 0..self.held.len() as u32 {
            self.set(line, cut.get(line));
        }
    }

    /// Runs `check` on the image, and takes back what it wrote.
    pub(crate) fn run<T>(&mut self, check: impl FnOnce(&CrashImage) -> T) -> Result<T, String> {
        let result = crate::guard::guarded(|| check(&self.image));
        self.image.undo();
        result
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_check_writes_is_gone_before_the_next() {
        let trace = Trace::new(1, vec![1; 64], 64);
        let mut cursor = Cursor::new(&trace, 100);
        for _ in 0..2 {
            let seen = cursor.run(|image| {
                let seen = (image.load::<u8>(Addr::pm(3)), image.load::<u64>(Addr::dram(8)));
                image.store(Addr::pm(3), 9u8);
                image.store(Addr::pm(0), 9u64);
                image.store(Addr::dram(8), 9u64);
                seen
            });
            assert_eq!(seen, Ok((1, 0)));
        }
    }

    #[test]
    fn a_recovery_that_loops_is_stopped() {
        let trace = Trace::new(1, vec![0; 64], 0);
        let mut cursor = Cursor::new(&trace, 1000);
        let said = cursor.run(|image| while image.load::<u64>(Addr::pm(0)) == 0 {}).unwrap_err();
        assert!(said.starts_with("more than 1000 memory accesses"), "{said}");
        assert_eq!(cursor.run(|image| image.load::<u64>(Addr::pm(0))), Ok(0));
    }
}
