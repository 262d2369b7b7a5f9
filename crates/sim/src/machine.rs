//! The running machine: its parts, a design and the programs, and the loop that schedules them.
//!
//! A program's load first requests its turn: it proceeds only when nothing that waits comes
//! earlier. Its stores need no turn, because they only enter its own store buffer; that buffer
//! drains in turns of its own. So the order of everything that one core can see of another is
//! exact.

use crate::caches::private::State;
use crate::caches::shared::NO_LINE;
use crate::core::Waiter;
use crate::core::write_combining::Origin;
use crate::core::{Kind, Waits};
use crate::design::Design;
use crate::engine::counters::Reason;
use crate::engine::event_queue::Turn;
use crate::hw::{Event, Hw, Persistence};
use crate::memory::versions::LineData;
use crate::run::{Crash, Observer, RunOutcome, Setup, SimError};
use crate::seam::{CorePort as _, SimMemory};
use crate::{Cycle, LineId, Machine};
use seawall_fiber::Fiber;
use std::cell::RefCell;
use std::fmt::Write as _;
use std::io;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use trace::Trace;

/// Lines of a page of 4 KiB.
const PAGE_LINES: LineId = 64;

mod front;
mod non_temporal;
mod relocation;
mod stores;
mod trace;

/// A machine with a design.
pub(crate) struct System<D: Design> {
    pub(super) hw: Hw<D::Message>,
    pub(super) design: D,
    pub(super) observer: Rc<RefCell<dyn Observer>>,
    pub(super) trace: Trace,
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
    let mut cells = to_lines(&setup.pm);
    let design = design(&setup.machine, cells.len() as LineId);
    let program_lines = cells.len() as LineId;
    cells.resize(cells.len() + design.own_lines() as usize, [0; 8]);
    let pm_lines = cells.len() as LineId;
    cells.extend(to_lines(&setup.dram));
    let pm_bytes = setup.pm.len();
    let drops_evictions = D::DROPS_EVICTIONS;
    let persistence = Persistence { program_lines, pm_lines, adr, drops_evictions };
    let mut hw = Hw::new(&setup.machine, cells, persistence);
    if setup.warm {
        warm(&mut hw, setup.programs.len().max(1));
    }
    let programs = setup.programs.len();
    let trace = Trace::new(setup.observer.borrow().watches_accesses(), setup.machine.core.count);
    let machine = Rc::new(RefCell::new(System {
        design,
        observer: setup.observer,
        trace,
        running: programs,
        stop: setup.stop,
        cycles_max: setup.cycles_max,
        hw,
    }));
    let mut fibers: Vec<Fiber> = Vec::new();
    for (core, program) in setup.programs.into_iter().enumerate() {
        machine.borrow_mut().hw.queue.program(0, core);
        let machine = machine.clone();
        let fiber = Fiber::new(move |pause| {
            let memory = SimMemory::new(machine.clone(), core, pause);
            program(&memory);
            machine.borrow_mut().finished(core);
        });
        let no_stack = |error: io::Error| SimError::Stack { program: core, why: error.to_string() };
        fibers.push(fiber.map_err(no_stack)?);
    }
    turn_by_turn(&machine, &mut fibers)?;
    drop(fibers);
    let machine = machine.borrow();
    Ok(machine.outcome(programs, pm_bytes))
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
        while !self.stop.load(Ordering::Relaxed) {
            let Some((now, turn)) = self.hw.queue.pop() else {
                if self.leave_at_rest() {
                    continue;
                }
                return if self.running == 0 { Next::Done } else { Next::End(self.deadlock()) };
            };
            if now > self.cycles_max && self.running > 0 {
                return Next::End(SimError::TooLong { cycles: self.cycles_max });
            }
            match turn {
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
                let line = self.hw.memory.line_of(number);
                let Some(written) = self.accept(number, now) else {
                    return self.hw.queue.event(now + 1, event);
                };
                let from = self.hw.memory_tile(line);
                if origin != Origin::CACHE {
                    let back = self.hw.mesh.control(from, origin.0.into(), written.accepted);
                    self.hw.queue.event(back, Event::Taken { core: origin.0 });
                }
                if token != crate::hw::Token::NONE {
                    self.design.arrived(&mut self.hw, token, from, written.accepted);
                    let from = from as u8;
                    let event = Event::WriteDurable { from, tile, token };
                    self.hw.queue.event(written.durable, event);
                }
            }
            Event::WriteDurable { from, tile, token } => {
                let back = self.hw.mesh.control(from.into(), tile.into(), now);
                self.design.written(&mut self.hw, token, back);
            }
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
                image.truncate(self.hw.program_lines as usize);
                let pm = to_bytes(&image);
                self.observer.borrow_mut().crash(now, Crash { pm, stores });
            }
        }
    }

    fn deadlock(&self) -> SimError {
        let mut who = String::new();
        for (core, state) in self.hw.cores.iter().enumerate() {
            if state.waits != Waits::Done && (state.clock > 0 || state.started) {
                let head = state.buffer.entries.front().map(|entry| entry.kind);
                let _ = write!(who, "core {core} waits for {:?}", state.waits);
                if let (Some(head), Some(reason)) = (head, state.buffer.reason) {
                    let _ = write!(who, " behind {head:?} ({})", reason.name());
                }
                who.push_str("; ");
            }
        }
        SimError::Deadlock { cycle: self.hw.queue.now(), who }
    }

    fn outcome(&self, programs: usize, pm_bytes: usize) -> RunOutcome {
        let finished: Vec<Cycle> =
            self.hw.cores[..programs].iter().map(|core| core.clock).collect();
        let cycles = finished.iter().copied().max().unwrap_or(0);
        let stalls = self.hw.cores[..programs].iter().map(|core| {
            let mut stalls = core.stalls;
            stalls.add(Reason::Idle, cycles - core.clock);
            stalls
        });
        let counters = self.hw.all_counters();
        let mut pm = to_bytes(&self.hw.newest());
        pm.truncate(pm_bytes);
        RunOutcome { cycles, finished, stalls: stalls.collect(), counters, pm }
    }

    /// The program of `core` has returned; its store buffer drains in the background.
    pub(super) fn program_returned(&mut self, core: usize) {
        self.hw.cores[core].wait_for_loads();
        self.hw.cores[core].waits = Waits::Done;
        self.running -= 1;
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

/// Fills the shared cache with as much of memory as fits, persistent lines first. Without one, the
/// private caches of the cores that run `programs` are filled: with the first page those of the
/// first core, with the next those of the second. No line has an owner, as none has been written.
fn warm<M: Copy>(hw: &mut Hw<M>, programs: usize) {
    for line in (0..hw.program_lines).chain(hw.pm_lines..hw.values.lines()) {
        let (place, None) = hw.llc.victim(line) else { continue };
        if !hw.config.llc.directory_only {
            hw.llc.fill(place, line, 0);
            continue;
        }
        let core = (line / PAGE_LINES) as usize % programs;
        let (way, victim) = hw.private[core].far_victim(line);
        if victim == NO_LINE {
            hw.llc.fill(place, line, 0);
            hw.llc.entry_mut(line).sharers = 1 << core;
            hw.private[core].fill(way, line, State::Shared, (0, Reason::LoadL2));
        }
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
    lines.iter().flatten().flat_map(|word| word.to_le_bytes()).collect()
}
