//! The running machine: its parts, a design and the programs, and the loop that schedules them.
//!
//! A program's load first requests its turn: it proceeds only when nothing that waits comes
//! earlier. Its stores need no turn, because they only enter its own store buffer; that buffer
//! drains in turns of its own. So the order of everything that one core can see of another is
//! exact.

use crate::core::{Core, Kind, Waiter, Waits};
use crate::design::Design;
use crate::detail::Detail;
use crate::engine::counters::Reason;
use crate::engine::event_queue::Turn;
use crate::hw::{Event, Hw, Persistence};
use crate::memory::versions::LineData;
use crate::run::{Contents, Crash, Observer, RunOutcome, Setup, SimError};
use crate::seam::{CorePort as _, Places, SimMemory, no_places};
use crate::{Cycle, LineId, Machine};
use locked::Held;
use pages::{PAGE_LINES, Pages};
use region::Region;
use seawall_fiber::Fiber;
use seawall_memory::LINE_BYTES;
use std::cell::RefCell;
use std::io;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use trace::Trace;

mod arrivals;
mod front;
mod hosted;
mod locked;
mod non_temporal;
mod pages;
mod region;
mod relocation;
mod stores;
mod stuck;
mod trace;
mod warm;
mod wide;

/// A machine with a design.
pub(crate) struct System<D: Design> {
    pub(super) hw: Hw<D::Message>,
    pub(super) design: D,
    pub(super) observer: Rc<RefCell<dyn Observer>>,
    pub(super) trace: Trace,
    /// How many persistent lines have offsets for addresses: those of the program, or none in a
    /// simulation in host addresses.
    offset_lines: LineId,
    /// Where the pages of the host are in such a simulation.
    pages: Option<Box<Pages>>,
    /// The locked instruction that the host executes at this moment.
    held: Option<Held>,
    region: Region,
    /// Why the run must end.
    failure: Option<SimError>,
    programs: usize,
    places: Rc<Places>,
    running: usize,
    stop: Arc<AtomicBool>,
    cycles_max: Cycle,
}

/// The next step outside the machine.
enum Next {
    Resume(usize),
    Done,
    End(SimError),
}

/// Builds the machine, runs the programs, and returns the outcome.
pub(crate) fn run<D: Design + 'static>(
    setup: Setup,
    design: impl FnOnce(&Machine, LineId) -> D,
    adr: bool,
) -> Result<RunOutcome, SimError> {
    let program_lines = match &setup.contents {
        Contents::Bytes { pm, .. } => (pm.len() as u64).div_ceil(LINE_BYTES) as LineId,
        Contents::Host(space) => lines_of_pages(space.pm_bytes),
    };
    let design = design(&setup.machine, program_lines);
    let pm_lines = program_lines + design.own_lines();
    let cells = match &setup.contents {
        Contents::Bytes { pm, dram } => {
            let mut cells = to_lines(pm);
            cells.resize(pm_lines as usize, [0; 8]);
            cells.extend(to_lines(dram));
            cells
        }
        // Zeroed memory that the system gives when it is touched.
        Contents::Host(space) => {
            vec![[0; 8]; (pm_lines + lines_of_pages(space.dram_bytes)) as usize]
        }
    };
    let pm_bytes = setup.contents.pm_bytes();
    let grows = pm_bytes.is_none();
    let drops_evictions = D::DROPS_EVICTIONS;
    let persistence = Persistence { program_lines, pm_lines, grows, adr, drops_evictions };
    let mut hw = Hw::new(&setup.machine, cells, persistence);
    let programs = setup.programs.len();
    begin(&mut hw, &setup, programs);
    let trace = Trace::new(setup.observer.borrow().watches_accesses(), setup.machine.core.count);
    let places = no_places(programs);
    let machine = Rc::new(RefCell::new(System {
        design,
        observer: setup.observer,
        trace,
        offset_lines: if grows { 0 } else { program_lines },
        pages: grows.then(Box::default),
        held: None,
        region: Region::default(),
        failure: None,
        programs,
        places: places.clone(),
        running: programs,
        stop: setup.stop,
        cycles_max: setup.cycles_max,
        hw,
    }));
    let mut fibers = Fibers { of_core: Vec::new(), are_foreign: grows };
    for (core, program) in setup.programs.into_iter().enumerate() {
        machine.borrow_mut().hw.queue.program(0, core);
        let (machine, places) = (machine.clone(), places.clone());
        let fiber = Fiber::with_stack(setup.stack_bytes, move |pause| {
            let memory = SimMemory::new(machine.clone(), core, pause, places);
            program(&memory);
            machine.borrow_mut().finished(core);
        });
        let no_stack = |error: io::Error| SimError::Stack { program: core, why: error.to_string() };
        fibers.of_core.push(fiber.map_err(no_stack)?);
    }
    turn_by_turn(&machine, &mut fibers.of_core)?;
    drop(fibers);
    let machine = machine.borrow();
    Ok(machine.outcome(pm_bytes))
}

/// Begins to record what was asked for, and fills the caches.
fn begin<M: Copy>(hw: &mut Hw<M>, setup: &Setup, programs: usize) {
    if setup.has_profile {
        hw.cores.iter_mut().for_each(Core::start_profile);
    }
    if setup.has_detail {
        hw.detail = Detail::of_programs(programs);
    }
    hw.start_timeline(setup.timeline, programs);
    if setup.warm {
        let cores: Vec<usize> = (0..programs.max(1)).collect();
        warm::warm(hw, &cores, |_, _, _| true);
    }
}

/// The fibers of a run.
struct Fibers {
    of_core: Vec<Fiber>,
    /// Whether they run code that cannot be unwound.
    are_foreign: bool,
}

/// Foreign code that has not returned is forgotten.
impl Drop for Fibers {
    fn drop(&mut self) {
        for fiber in self.of_core.drain(..) {
            if self.are_foreign && !fiber.is_done() {
                std::mem::forget(fiber);
            }
        }
    }
}

/// The lines of the whole pages in `bytes`.
fn lines_of_pages(bytes: u64) -> LineId {
    (bytes / (u64::from(PAGE_LINES) * LINE_BYTES)) as LineId * PAGE_LINES
}

fn turn_by_turn<D: Design + 'static>(
    machine: &Rc<RefCell<System<D>>>,
    fibers: &mut [Fiber],
) -> Result<(), SimError> {
    loop {
        let next = machine.borrow_mut().advance();
        match next {
            Next::Resume(core) => {
                if !fibers[core].is_done() {
                    fibers[core].resume();
                }
            }
            Next::Done => return Ok(()),
            Next::End(error) => return Err(error),
        }
    }
}

impl<D: Design> System<D> {
    /// Processes events inside the machine, up to the next turn of a program.
    fn advance(&mut self) -> Next {
        if let Some(error) = self.failure.take() {
            return Next::End(error);
        }
        while !self.stop.load(Ordering::Relaxed) {
            let Some((now, turn)) = self.hw.queue.pop() else {
                if self.leave_at_rest() {
                    continue;
                }
                return if self.running == 0 { Next::Done } else { Next::End(self.deadlock()) };
            };
            if now > self.cycles_max && self.running > 0 {
                return Next::End(self.too_long());
            }
            match turn {
                // One that has ended may still be woken by what it waited for.
                Turn::Program(core) if self.hw.cores[core].waits == Waits::Done => {}
                Turn::Program(core) => return Next::Resume(core),
                Turn::Stores(core) => self.drain_stores(core, now),
                Turn::Event(event) => self.happen(event, now),
            }
        }
        Next::End(SimError::Stopped)
    }

    fn happen(&mut self, event: Event<D::Message>, now: Cycle) {
        match event {
            Event::WriteArrives { number, tile, token, origin } => {
                let write = self.hw.arriving(number, tile, token, origin);
                self.arrives(write, now);
            }
            Event::WriteDurable { from, tile, token } => {
                let back = self.hw.mesh.control(from.into(), tile.into(), now);
                self.design.written(&mut self.hw, token, back);
            }
            Event::Alarm { core, number } => self.alarm(core.into(), number, now),
            Event::Taken { core } => self.taken(core.into(), now),
            Event::Rest { core } => self.rest(core.into(), now),
            Event::Design(message) => self.design.message(&mut self.hw, message, now),
            Event::Crash => {
                if cfg!(debug_assertions) {
                    self.hw.check_directory();
                }
                let mut image = self.hw.image(now);
                self.design.save(&self.hw, &mut image);
                let stores = self.design.recover(&mut image);
                let pm = to_bytes(&image[..self.hw.lines.program as usize]);
                self.observer.borrow_mut().crash(now, Crash { pm, stores });
            }
        }
    }

    /// The program of `core` has returned; its store buffer drains in the background.
    pub(super) fn program_returned(&mut self, core: usize) {
        self.hw.cores[core].wait_for_loads();
        self.hw.cores[core].waits = Waits::Done;
        self.running -= 1;
        if self.running == 0 {
            let clocks = self.hw.cores[..self.programs].iter().map(|core| core.clock);
            let last = clocks.max().unwrap_or(0);
            self.hw.detail.note(|tally| tally.programs_end(last));
        }
        if self.hw.cores[core].buffer.entries.is_empty() {
            let now = self.hw.queue.now().max(self.hw.cores[core].clock);
            self.design.exited(&mut self.hw, core, now);
        }
    }

    /// The head of `core`'s store buffer waits for `reason` from `now` on.
    pub(super) fn store_waits(&mut self, core: usize, reason: Reason, now: Cycle) {
        let state = &mut self.hw.cores[core];
        if matches!(state.waits, Waits::Room | Waits::Empty | Waits::Drain) {
            let before = state.buffer.reason.unwrap_or(Reason::StoreBuffer);
            state.account(now, before);
        }
        if state.watch.is_some() {
            state.count_head(reason);
        }
        state.buffer.reason = Some(reason);
    }

    /// Ends the wait of `core`'s program for its store buffer, if the condition holds now.
    pub(super) fn release_program(&mut self, core: usize, drained: Kind, now: Cycle) {
        let places = self.hw.config.core.store_buffer;
        let state = &self.hw.cores[core];
        let free = match state.waits {
            Waits::Room => state.buffer.len() < places,
            Waits::Empty => state.buffer.entries.is_empty(),
            Waits::Drain => drained == Kind::Drain,
            _ => false,
        };
        if free {
            self.store_waits(core, Reason::StoreBuffer, now);
            let at = now.max(self.hw.cores[core].clock);
            self.hw.queue.program(at, core);
        }
    }

    pub(super) fn waiter(core: usize, is_program: bool) -> Waiter {
        Waiter { core, is_program }
    }
}

fn to_lines(bytes: &[u8]) -> Vec<LineData> {
    let line = |chunk: &[u8]| {
        let mut words = [0; 8];
        for (word, part) in words.iter_mut().zip(chunk.chunks(8)) {
            let mut raw = [0; 8];
            raw[..part.len()].copy_from_slice(part);
            *word = u64::from_le_bytes(raw);
        }
        words
    };
    bytes.chunks(64).map(line).collect()
}

fn to_bytes(lines: &[LineData]) -> Vec<u8> {
    let mut bytes = vec![0; size_of_val(lines)];
    for (into, word) in bytes.chunks_exact_mut(8).zip(lines.iter().flatten()) {
        into.copy_from_slice(&word.to_le_bytes());
    }
    bytes
}
