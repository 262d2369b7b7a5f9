//! A toy machine, against which the speed of the simulator is measured.
//!
//! It runs the same programs on the same fibers in the same exact order, and does a small, fixed
//! amount of work for each access: it looks the line up in one level of cache of the core, and
//! moves the value. It has no coherence, no store buffer, no memory and no design. How much longer
//! a full machine takes than this one says more of the simulator than a rate does, as both depend
//! on the host in the same way. Its cycles mean nothing.

use crate::engine::counters::{Counters, Stalls};
use crate::relocation::{Lookup, Walk};
use crate::run::{Contents, Observer, RunOutcome, Setup, SimError};
use crate::seam::{CorePort, Locked, SimMemory, no_places};
use crate::{Cycle, LineId};
use seawall_fiber::Fiber;
use seawall_memory::relocation::{Forwarding, Relocation};
use seawall_memory::{Addr, Fence, LINE_BYTES, Width};
use std::cell::RefCell;
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

mod refused;

/// Sets and ways of a core's cache: 32 KiB.
const SETS: usize = 64;
const WAYS: usize = 8;
/// Cycles of an access.
const HIT: Cycle = 2;
const MISS: Cycle = 100;
/// Cycles between two looks at a word for whose change a program waits.
const LOOK: Cycle = 50;

/// One core.
struct ToyCore {
    clock: Cycle,
    /// The lines of each set, and 1, the last used first; 0 where none is.
    tags: [[LineId; WAYS]; SETS],
}

impl ToyCore {
    /// The cycles of an access to `line`, which is in the cache afterwards.
    #[inline]
    fn access(&mut self, line: LineId) -> Cycle {
        let set = &mut self.tags[line as usize % SETS];
        let found = set.iter().position(|tag| *tag == line + 1);
        set[..=found.unwrap_or(WAYS - 1)].rotate_right(1);
        set[0] = line + 1;
        if found.is_some() { HIT } else { MISS }
    }
}

/// The machine.
struct Toy {
    cores: Vec<ToyCore>,
    /// The words of persistent memory, then those of volatile memory.
    words: Vec<u64>,
    pm_bytes: u64,
    /// The cores that wait for their turn, the earliest first.
    waiting: BinaryHeap<Reverse<(Cycle, usize)>>,
    counters: Counters,
    observer: Rc<RefCell<dyn Observer>>,
    finished: Vec<Cycle>,
}

impl Toy {
    fn new(setup: &mut Setup) -> Toy {
        let Contents::Bytes { pm, dram } = &mut setup.contents else {
            panic!("the toy runs programs of the seam")
        };
        let (pm, dram) = (std::mem::take(pm), std::mem::take(dram));
        let word = |bytes: &[u8]| {
            let mut word = [0; 8];
            word[..bytes.len()].copy_from_slice(bytes);
            u64::from_le_bytes(word)
        };
        let mut words: Vec<u64> = pm.chunks(8).map(word).collect();
        words.extend(dram.chunks(8).map(word));
        let programs = setup.programs.len();
        let core = |_| ToyCore { clock: 0, tags: [[0; WAYS]; SETS] };
        Toy {
            cores: (0..programs).map(core).collect(),
            words,
            pm_bytes: pm.len() as u64,
            waiting: BinaryHeap::new(),
            counters: Counters::default(),
            observer: setup.observer.clone(),
            finished: vec![0; programs],
        }
    }

    /// The word with the byte at `at`, and where in it that is, in bits.
    #[inline]
    fn place(&self, at: Addr) -> (usize, u64) {
        let bytes = at.offset();
        let start = if at.is_pm() { 0 } else { self.pm_bytes.div_ceil(8) as usize };
        (start + (bytes / 8) as usize, bytes % 8 * 8)
    }

    /// The turn of `core` for an access to `line`, whose time passes; false if another core is
    /// earlier.
    #[inline]
    fn turn(&mut self, core: usize, line: LineId) -> bool {
        let clock = self.cores[core].clock;
        if self.waiting.peek().is_some_and(|Reverse(first)| *first < (clock, core)) {
            self.waiting.push(Reverse((clock, core)));
            return false;
        }
        self.cores[core].clock += self.cores[core].access(line);
        true
    }

    /// A turn for one access to memory.
    #[inline]
    fn reference(&mut self, core: usize, at: Addr) -> Option<(usize, u64)> {
        let place = self.place(at);
        if !self.turn(core, (place.0 / 8) as LineId) {
            return None;
        }
        self.counters.references += 1;
        Some(place)
    }

    fn outcome(self) -> RunOutcome {
        let mut pm = Vec::with_capacity(self.pm_bytes as usize + 8);
        let words = self.pm_bytes.div_ceil(8) as usize;
        self.words[..words].iter().for_each(|word| pm.extend_from_slice(&word.to_le_bytes()));
        pm.truncate(self.pm_bytes as usize);
        RunOutcome {
            cycles: self.finished.iter().copied().max().unwrap_or(0),
            stalls: vec![Stalls::default(); self.finished.len()],
            finished: self.finished,
            counters: self.counters,
            sites: Vec::new(),
            timeline: None,
            detail: None,
            pm,
        }
    }
}

/// All bits of an access.
fn mask(width: Width) -> u64 {
    u64::MAX >> (64 - 8 * width.bytes())
}

/// Runs the programs of `setup`; what it says of designs and crashes has no meaning here.
pub(crate) fn run(mut setup: Setup) -> Result<RunOutcome, SimError> {
    let toy = Rc::new(RefCell::new(Toy::new(&mut setup)));
    let mut fibers = Vec::new();
    let places = no_places(setup.programs.len());
    for (core, program) in setup.programs.into_iter().enumerate() {
        let places = places.clone();
        toy.borrow_mut().waiting.push(Reverse((0, core)));
        let port: Rc<RefCell<dyn CorePort>> = toy.clone();
        let fiber = Fiber::with_stack(setup.stack_bytes, move |pause| {
            let memory = SimMemory::new(port.clone(), core, pause, places.clone());
            program(&memory);
            port.borrow_mut().finished(core);
        });
        fibers.push(
            fiber.map_err(|error| SimError::Stack { program: core, why: error.to_string() })?,
        );
    }
    take_turns(&toy, &mut fibers, &setup.stop, setup.cycles_max)?;
    drop(fibers);
    let toy = Rc::into_inner(toy).expect("the fibers are gone").into_inner();
    Ok(toy.outcome())
}

/// Resumes the earliest core until all have finished.
fn take_turns(
    toy: &Rc<RefCell<Toy>>,
    fibers: &mut [Fiber],
    stop: &Arc<AtomicBool>,
    cycles_max: Cycle,
) -> Result<(), SimError> {
    while !stop.load(Ordering::Relaxed) {
        let Some(Reverse((clock, core))) = toy.borrow_mut().waiting.pop() else { return Ok(()) };
        if clock > cycles_max {
            return Err(SimError::TooLong { cycles: cycles_max, cores: Vec::new() });
        }
        fibers[core].resume();
    }
    Err(SimError::Stopped)
}

impl CorePort for Toy {
    fn load(&mut self, core: usize, at: Addr, width: Width) -> Option<u64> {
        let (word, shift) = self.reference(core, at)?;
        Some(self.words[word] >> shift & mask(width))
    }

    fn load_words(&mut self, core: usize, at: Addr, into: &mut [u64]) -> bool {
        let Some((word, _)) = self.reference(core, at) else { return false };
        into.copy_from_slice(&self.words[word..word + into.len()]);
        self.counters.references += into.len() as u64 - 1;
        true
    }

    fn store(&mut self, core: usize, at: Addr, width: Width, value: u64) -> bool {
        let Some((word, shift)) = self.reference(core, at) else { return false };
        let mask = mask(width) << shift;
        self.words[word] = self.words[word] & !mask | value << shift & mask;
        true
    }

    fn locked(&mut self, core: usize, at: Addr, operation: Locked) -> Option<u64> {
        let (word, _) = self.reference(core, at)?;
        let old = self.words[word];
        self.words[word] = match operation {
            Locked::CompareExchange(current, new) if current == old => new,
            Locked::CompareExchange(..) => old,
            Locked::Swap(new) => new,
            Locked::Add(by) => old.wrapping_add(by),
        };
        Some(old)
    }

    fn spin(&mut self, core: usize, at: Addr, value: u64) -> Option<u64> {
        let (word, _) = self.reference(core, at)?;
        let found = self.words[word];
        if found != value {
            return Some(found);
        }
        self.cores[core].clock += LOOK;
        self.waiting.push(Reverse((self.cores[core].clock, core)));
        None
    }

    fn fence(&mut self, core: usize, _: Fence) -> bool {
        self.cores[core].clock += 1;
        true
    }

    fn output(&mut self, core: usize, number: u64) {
        let now = self.cores[core].clock;
        self.observer.borrow_mut().output(core, number, now);
    }

    fn work(&mut self, core: usize, instructions: u32) {
        self.cores[core].clock += Cycle::from(instructions) / 2;
        self.counters.instructions += u64::from(instructions);
    }

    fn line_of(&self, at: Addr) -> LineId {
        (self.place(at).0 * 8 / LINE_BYTES as usize) as LineId
    }

    fn clock(&self, core: usize) -> Cycle {
        self.cores[core].clock
    }

    fn counters(&self) -> Counters {
        self.counters.clone()
    }

    fn pm_bytes(&self) -> u64 {
        self.pm_bytes
    }

    fn uses_flushes(&self) -> bool {
        false
    }

    fn has_strands(&self) -> bool {
        false
    }

    fn relocates(&self) -> bool {
        false
    }

    fn forwards(&self) -> bool {
        false
    }

    fn combines(&self, _: Addr) -> bool {
        false
    }

    fn finished(&mut self, core: usize) {
        self.finished[core] = self.cores[core].clock;
    }

    fn flush(&mut self, _: usize, _: LineId) -> bool {
        refused::call()
    }

    fn read_wide(&mut self, _: usize, _: Addr, _: &mut [u64]) -> Option<Cycle> {
        refused::call()
    }

    fn copy(&mut self, _: usize, _: Addr, _: &[u64], _: usize) -> bool {
        refused::call()
    }

    fn look_up(&mut self, _: usize, _: Addr) -> Option<Lookup> {
        refused::call()
    }

    fn walked(&mut self, _: usize, _: Addr, _: &Walk, _: Option<Forwarding>, _: Cycle) -> Addr {
        refused::call()
    }

    fn set_relocation(&mut self, _: usize, _: Option<Relocation>) -> bool {
        refused::call()
    }

    fn stream(&mut self, _: usize, _: Addr, _: Width, _: u64) -> bool {
        refused::call()
    }
}
