//! Persistency designs of users: a public trait with few hooks, for hardware that is not in the
//! table, and its adapter to the hooks of the machine. It exists so that an idea can be tried
//! beside the published designs from a crate of one's own.
//!
//! Programs see the machine as x86: they flush lines and order or drain them, and non-temporal
//! stores leave their write-combining buffer at fences. A line is durable when it is in the cells.

use crate::core::Waiter;
use crate::design::{Design, Store};
use crate::engine::counters::Reason;
use crate::hw::{Event, Gate, Hw, Token};
use crate::run::{RunOutcome, Setup};
use crate::{Cycle, LineId, SimError};

/// What a core does after a hook.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Permission {
    /// The instruction takes effect now.
    Go,
    /// The core waits. The hook is called again for the same instruction after the next
    /// acknowledgement that the core receives, or when the design wakes it. If neither comes, the
    /// run ends with [`SimError::Deadlock`].
    Wait,
}

/// A persistency design: what a flush does, and what a fence waits for.
///
/// All hooks are called in time order. Lines have numbers, persistent lines first. A design keeps
/// what it knows about each core itself; without any override but [`flush`](PersistDesign::flush),
/// fences wait as on x86.
///
/// ```
/// use seawall_memory::{Addr, Memory, MemoryExt};
/// use seawall_sim::{Machine, Permission, PersistDesign, Simulation, WriteBacks};
///
/// /// As clwb: a flush starts the write-back, a fence waits for it.
/// struct Mine;
///
/// impl PersistDesign for Mine {
///     fn flush(&mut self, core: usize, line: u32, lines: &mut WriteBacks<'_>) -> Permission {
///         lines.write_back(core, line);
///         Permission::Go
///     }
/// }
///
/// let machine = Machine::load("desktop")?;
/// let run = Simulation::of_design(&machine, Box::new(Mine), vec![0; 4096], vec![0; 64]);
/// let outcome = run.run(vec![Box::new(|memory| {
///     memory.store(Addr::pm(64), 7u64);
///     memory.flush(Addr::pm(64), 8);
///     memory.drain();
/// })])?;
/// assert_eq!(outcome.counters.flushes, 1);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub trait PersistDesign {
    /// A flush of `line` is at the head of `core`'s store buffer: the stores before it are in the
    /// caches, those behind it wait for it. Called once the core can have another line on its way.
    fn flush(&mut self, core: usize, line: u32, lines: &mut WriteBacks<'_>) -> Permission;

    /// An order (`sfence`) is at the head of `core`'s store buffer: the stores behind it wait for
    /// it. The default waits until no write of the core is under way.
    fn order(&mut self, core: usize, lines: &mut WriteBacks<'_>) -> Permission {
        match lines.under_way(core) {
            0 => Permission::Go,
            _ => Permission::Wait,
        }
    }

    /// As [`order`](PersistDesign::order), but the program waits too: after it, what was flushed
    /// must be durable. The default does the same.
    fn drain(&mut self, core: usize, lines: &mut WriteBacks<'_>) -> Permission {
        self.order(core, lines)
    }

    /// `core` is about to run a locked operation, which is a fence on x86; its store buffer is
    /// empty. The default does the same as [`order`](PersistDesign::order).
    fn locked(&mut self, core: usize, lines: &mut WriteBacks<'_>) -> Permission {
        self.order(core, lines)
    }

    /// `core` has stored to `line`, which is now dirty in its cache. The default does nothing; a
    /// design that writes through starts the write-back here.
    fn stored(&mut self, core: usize, line: u32, lines: &mut WriteBacks<'_>) {
        let _ = (core, line, lines);
    }

    /// `core` has received an acknowledgement: one of its writes is durable. If it waits, it is
    /// woken afterwards. The default does nothing.
    fn written(&mut self, core: usize, lines: &mut WriteBacks<'_>) {
        let _ = (core, lines);
    }
}

/// What a [`PersistDesign`] can do with the machine, in the cycle of a hook.
pub struct WriteBacks<'a> {
    hw: &'a mut Hw<Message>,
    cores: &'a mut [Writes],
    now: Cycle,
}

impl std::fmt::Debug for WriteBacks<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("WriteBacks").field("now", &self.now).finish_non_exhaustive()
    }
}

impl WriteBacks<'_> {
    /// The present, in cycles from the start.
    pub fn now(&self) -> Cycle {
        self.now
    }

    /// The number of writes of `core` whose acknowledgements it has not received: lines written
    /// back, and non-temporal stores that have left their buffer.
    pub fn under_way(&self, core: usize) -> usize {
        self.cores[core].under_way
    }

    /// Starts the write-back of `line` for `core`, from the cache where it is dirty. If it is clean
    /// but a write of it is under way, `core` waits for that one. Returns whether `core` will
    /// receive an acknowledgement; if not, the line is durable.
    pub fn write_back(&mut self, core: usize, line: u32) -> bool {
        let slot = self.hw.llc.find(line);
        let is_sent = slot.is_some_and(|slot| self.hw.flush(core, slot, self.now).0);
        let follows = is_sent || self.follow(core, line);
        self.cores[core].under_way += usize::from(follows);
        follows
    }

    /// Wakes `core` if it waits: its hook is called again in this cycle.
    pub fn wake(&mut self, core: usize) {
        if let Some(who) = self.cores[core].waits.take() {
            self.hw.wake(who, self.now);
        }
    }

    /// Sends `core` the acknowledgement of the write of `line` that is under way, if any.
    fn follow(&mut self, core: usize, line: LineId) -> bool {
        let (at, message) = match self.hw.memory.durable_at(line, self.now) {
            None => return false,
            // The write has not reached its controller: look again shortly.
            Some(Cycle::MAX) => (self.now + 8, Message::Look { core, line }),
            Some(durable) => {
                let home = self.hw.home_tile(line);
                let back = self.hw.mesh.control(home, core, durable);
                (back, Message::Acknowledged { core })
            }
        };
        self.hw.queue.event(at, Event::Design(message));
        true
    }
}

/// The writes of one core under way, and the instruction that waits.
#[derive(Clone, Default)]
struct Writes {
    under_way: usize,
    waits: Option<Waiter>,
}

/// An event of the adapter.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Message {
    /// The acknowledgement of a write reaches its core.
    Acknowledged { core: usize },
    /// Has the write of `line` that another core sent reached its controller?
    Look { core: usize, line: LineId },
}

/// A user's design, as the machine sees it.
struct Custom {
    design: Box<dyn PersistDesign>,
    limit: usize,
    cores: Vec<Writes>,
}

/// Runs a simulation under a user's design.
pub(crate) fn run(setup: Setup, design: Box<dyn PersistDesign>) -> Result<RunOutcome, SimError> {
    let core = &setup.machine.core;
    let (limit, cores) = (core.flushes(), vec![Writes::default(); core.count]);
    crate::machine::run(setup, |_, _| Custom { design, limit, cores }, false)
}

impl Custom {
    /// Calls a hook of the design for an instruction of `who`.
    fn ask(
        &mut self,
        hw: &mut Hw<Message>,
        who: Waiter,
        now: Cycle,
        hook: impl FnOnce(&mut dyn PersistDesign, &mut WriteBacks<'_>) -> Permission,
    ) -> Gate {
        let step = hook(&mut *self.design, &mut WriteBacks { hw, cores: &mut self.cores, now });
        match step {
            Permission::Go => Gate::Go,
            Permission::Wait => self.wait(who, Reason::Fence),
        }
    }

    fn wait(&mut self, who: Waiter, reason: Reason) -> Gate {
        self.cores[who.core].waits = Some(who);
        Gate::Wait(reason)
    }
}

impl Design for Custom {
    type Message = Message;
    const USES_FLUSHES: bool = true;
    const COMBINES: bool = true;

    fn stored(&mut self, hw: &mut Hw<Message>, core: usize, at: Store, _: u64, now: Cycle) {
        self.design.stored(core, at.line, &mut WriteBacks { hw, cores: &mut self.cores, now });
    }

    fn locked(&mut self, hw: &mut Hw<Message>, who: Waiter, now: Cycle) -> Gate {
        self.ask(hw, who, now, |design, lines| design.locked(who.core, lines))
    }

    fn flush(&mut self, hw: &mut Hw<Message>, who: Waiter, line: LineId, now: Cycle) -> Gate {
        if self.cores[who.core].under_way >= self.limit {
            return self.wait(who, Reason::FlushesFull);
        }
        self.ask(hw, who, now, |design, lines| design.flush(who.core, line, lines))
    }

    fn combined(&mut self, hw: &mut Hw<Message>, core: usize, line: LineId) -> Token {
        self.cores[core].under_way += 1;
        Token::of(core, hw.llc.bank(line))
    }

    fn order(&mut self, hw: &mut Hw<Message>, who: Waiter, now: Cycle) -> Gate {
        let gate = self.ask(hw, who, now, |design, lines| design.order(who.core, lines));
        hw.counters.fences += u64::from(gate == Gate::Go);
        gate
    }

    fn drain(&mut self, hw: &mut Hw<Message>, who: Waiter, now: Cycle) -> Gate {
        let gate = self.ask(hw, who, now, |design, lines| design.drain(who.core, lines));
        hw.counters.fences += u64::from(gate == Gate::Go);
        gate
    }

    fn written(&mut self, hw: &mut Hw<Message>, token: Token, acknowledged: Cycle) {
        let core = usize::from(token.core);
        let home = hw.bank_tile(token.bank.into());
        let back = hw.mesh.control(home, core, acknowledged);
        hw.queue.event(back, Event::Design(Message::Acknowledged { core }));
    }

    fn message(&mut self, hw: &mut Hw<Message>, message: Message, now: Cycle) {
        let mut lines = WriteBacks { hw, cores: &mut self.cores, now };
        let core = match message {
            Message::Look { core, line } if lines.follow(core, line) => return,
            Message::Look { core, .. } | Message::Acknowledged { core } => core,
        };
        lines.cores[core].under_way -= 1;
        self.design.written(core, &mut lines);
        lines.wake(core);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Choice, Crash, Machine, Observer, Program, Simulation};
    use seawall_memory::{Addr, Memory, MemoryExt};
    use std::cell::RefCell;
    use std::rc::Rc;

    /// Flushes as `clwb`.
    struct Plain;

    impl PersistDesign for Plain {
        fn flush(&mut self, core: usize, line: u32, lines: &mut WriteBacks<'_>) -> Permission {
            lines.write_back(core, line);
            Permission::Go
        }
    }

    /// Flushes do nothing; every store is written back.
    struct Through;

    impl PersistDesign for Through {
        fn flush(&mut self, _: usize, _: u32, _: &mut WriteBacks<'_>) -> Permission {
            Permission::Go
        }

        fn stored(&mut self, core: usize, line: u32, lines: &mut WriteBacks<'_>) {
            lines.write_back(core, line);
        }
    }

    /// The persistent bytes at the last output.
    #[derive(Default)]
    struct Last(Vec<u8>);

    impl Observer for Last {
        fn output(&mut self, _: usize, _: u64, now: Cycle) -> Option<Cycle> {
            Some(now)
        }

        fn crash(&mut self, _: Cycle, crash: Crash) {
            self.0 = crash.pm;
        }
    }

    const AT: Addr = Addr::pm(64);

    fn simulation(machine: &Machine, design: impl PersistDesign + 'static) -> Simulation<'_> {
        Simulation::of_design(machine, Box::new(design), vec![0; 4096], vec![0; 64])
    }

    fn crashed(design: impl PersistDesign + 'static, programs: Vec<Program>) -> Vec<u8> {
        let (machine, last) = (Machine::load("desktop").unwrap(), Rc::<RefCell<Last>>::default());
        simulation(&machine, design).watched_by(last.clone()).run(programs).unwrap();
        last.take().0
    }

    #[test]
    fn a_drain_waits_for_flushes_and_non_temporal_stores() {
        let image = crashed(
            Plain,
            vec![Box::new(|memory| {
                memory.store(AT, 7u64);
                memory.flush(AT, 8);
                memory.write_nt(Addr::pm(256), &[8; 8]);
                memory.drain();
                memory.output(1);
            })],
        );
        assert_eq!((image[64], image[256]), (7, 8));
    }

    #[test]
    fn a_flush_of_a_line_that_another_core_has_flushed_waits_for_that_write() {
        let ready = Addr::dram(0);
        let writer: Program = Box::new(move |memory| {
            memory.store(AT, 7u64);
            memory.flush(AT, 8);
            memory.store(ready, 1u64);
        });
        let other: Program = Box::new(move |memory| {
            while memory.load::<u64>(ready) == 0 {}
            memory.flush(AT, 8);
            memory.drain();
            memory.output(1);
        });
        assert_eq!(crashed(Plain, vec![writer, other])[64], 7);
    }

    #[test]
    fn a_design_that_writes_through_needs_no_flush() {
        let program = |memory: &crate::SimMemory<'_>| {
            memory.store(AT, 7u64);
            memory.drain();
            memory.output(1);
        };
        assert_eq!(crashed(Through, vec![Box::new(program)])[64], 7);
        assert_eq!(crashed(Plain, vec![Box::new(program)])[64], 0);
    }

    #[test]
    fn the_default_takes_as_long_as_clwb() {
        let machine = Machine::load("micro15").unwrap();
        let program = |memory: &crate::SimMemory<'_>| {
            for number in 0..60 {
                memory.store(Addr::pm(64 * number), 7u64);
                memory.flush(Addr::pm(64 * number), 8);
                if number % 4 == 0 {
                    memory.order();
                }
            }
            memory.drain();
        };
        let mine = simulation(&machine, Plain).run(vec![Box::new(program)]).unwrap();
        let clwb = Choice::parse("clwb").unwrap();
        let theirs = Simulation::new(&machine, &clwb, vec![0; 4096], vec![0; 64]);
        assert_eq!(mine, theirs.run(vec![Box::new(program)]).unwrap());
    }

    #[test]
    fn a_core_that_nobody_wakes_is_a_deadlock() {
        struct Never;
        impl PersistDesign for Never {
            fn flush(&mut self, _: usize, _: u32, _: &mut WriteBacks<'_>) -> Permission {
                Permission::Wait
            }
        }
        let machine = Machine::load("desktop").unwrap();
        let run = simulation(&machine, Never).run(vec![Box::new(|memory| {
            memory.flush(AT, 8);
            memory.drain();
        })]);
        assert!(matches!(run, Err(SimError::Deadlock { .. })), "{run:?}");
    }
}
