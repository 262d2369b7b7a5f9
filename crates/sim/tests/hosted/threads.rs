//! Threads that start later, and ends of programs that do not return.

use super::{PAGE, SPACE, alone, boxed, host, idle, map, pm, words};
use seawall_memory::{Memory, MemoryExt};
use seawall_sim::{Choice, DESIGNS, Machine, Program, Reason, SimError, SimMemory, Simulation};
use std::cell::Cell;
use std::rc::Rc;

#[test]
fn a_parked_core_is_idle_and_goes_on_when_another_unparks_it() {
    let main = boxed(|memory| {
        map(memory);
        memory.work(4000);
        let now = memory.measured().cycles;
        memory.unpark(1);
        memory.park();
        assert!(memory.measured().cycles >= now + 1000);
        memory.end();
    });
    let worker = boxed(|memory| {
        memory.park();
        memory.work(4000);
        memory.unpark(0);
        memory.park();
    });
    let mut programs = vec![main, worker];
    programs.extend((2..4).map(|_| idle()));
    let outcome = host("desktop", "clwb", programs).unwrap();
    assert!((2000..2010).contains(&outcome.cycles), "{}", outcome.cycles);
    let idle: Vec<u64> = outcome.stalls.iter().map(|stalls| stalls.get(Reason::Idle)).collect();
    assert!((1000..1010).contains(&idle[0]) && (1000..1010).contains(&idle[1]), "{idle:?}");
    assert_eq!(idle[2..], [outcome.cycles; 2], "never unparked");
    assert_eq!(outcome.stalls[0].total(), idle[0]);
}

#[test]
fn an_unpark_that_comes_first_is_kept_and_two_are_one() {
    let early = boxed(|memory| {
        map(memory);
        memory.unpark(1);
        memory.unpark(1);
        memory.work(40_000);
        memory.unpark(1);
    });
    let late = boxed(|memory| {
        memory.work(4000);
        memory.park();
        assert!(memory.measured().cycles < 1010, "it does not wait");
        memory.park();
        assert!(memory.measured().cycles >= 10_000, "the second was the first");
    });
    host("desktop", "clwb", vec![early, late]).unwrap();
}

#[test]
fn cores_that_are_all_parked_are_a_deadlock_that_names_them() {
    let programs = vec![boxed(|_| {}), idle(), idle()];
    let ended = host("desktop", "clwb", programs).unwrap_err();
    let SimError::Deadlock { cores, .. } = ended else { panic!("{ended}") };
    let found: Vec<String> = cores.iter().map(ToString::to_string).collect();
    let parked = |core: usize| format!("core {core} is parked until another core unparks it");
    assert_eq!(found, [1, 2].map(parked), "compiled code has no call of the machine");
}

#[test]
fn the_end_of_the_program_ends_the_programs_of_all_cores_and_keeps_their_stores() {
    for design in DESIGNS {
        let main = boxed(|memory| {
            map(memory);
            memory.store(pm(0), 1u64);
            memory.work(20_000);
            memory.end();
        });
        let busy = boxed(|memory| {
            map(memory);
            for number in 1u64.. {
                memory.store(pm(64), number);
                memory.fetch_add(pm(128), 1);
                memory.work(100);
            }
        });
        let spins = boxed(|memory| {
            map(memory);
            memory.spin_while(pm(256), 0);
        });
        let outcome = host("desktop", design.name, vec![main, busy, spins]).unwrap();
        let found = words(&outcome.pm);
        assert_eq!(found[0], 1, "{}", design.name);
        assert!(found[16] > 2 && found[8].abs_diff(found[16]) <= 1, "{}", design.name);
        assert!(outcome.cycles >= 5000 && outcome.cycles < 9000, "{}", design.name);
    }
}

#[test]
fn a_core_that_ends_within_a_locked_instruction_leaves_its_line_to_others() {
    let machine = Machine::load("desktop").unwrap();
    let design = Choice::parse("strict").unwrap();
    for cycles in (0..3000).step_by(50) {
        let main = boxed(move |memory| {
            map(memory);
            memory.work(cycles);
            memory.store(pm(8), 1u64);
            memory.end();
        });
        let other = boxed(|memory| {
            map(memory);
            loop {
                memory.fetch_add(pm(0), 1);
            }
        });
        let outcome = Simulation::of_host(&machine, &design, SPACE).run(vec![main, other]).unwrap();
        assert_eq!(words(&outcome.pm)[1], 1, "{cycles}");
    }
}

/// Says when it is dropped.
struct Flag(Rc<Cell<bool>>);

impl Drop for Flag {
    fn drop(&mut self) {
        self.0.set(true);
    }
}

#[test]
fn stacks_of_foreign_code_are_forgotten_however_the_run_ends() {
    let (machine, design) = (Machine::load("desktop").unwrap(), Choice::parse("clwb").unwrap());
    let ends: [fn(&SimMemory); 4] = [
        |memory| memory.end(),
        |memory| memory.park(),
        |memory| loop {
            memory.load::<u64>(pm(0));
        },
        |memory| memory.map(1 << 46, true, &[0; PAGE as usize + 1]),
    ];
    for (number, end) in ends.into_iter().enumerate() {
        let is_dropped = Rc::new(Cell::new(false));
        let flag = Flag(is_dropped.clone());
        let main = boxed(move |memory| {
            map(memory);
            end(memory);
        });
        let other = boxed(move |memory| {
            let _flag = flag;
            memory.park();
        });
        let run = Simulation::of_host(&machine, &design, SPACE).at_most(10_000);
        let run = std::panic::AssertUnwindSafe(|| run.run(vec![main, other]).is_ok());
        let ended = std::panic::catch_unwind(run);
        assert_eq!(ended.ok(), [Some(true), Some(false), Some(false), None][number]);
        assert!(!is_dropped.get(), "end {number}");
    }
}

#[test]
fn programs_that_return_give_their_stacks_back() {
    let is_dropped = Rc::new(Cell::new(false));
    let flag = Flag(is_dropped.clone());
    alone("clwb", move |_| drop(flag));
    assert!(is_dropped.get());
}

#[test]
fn a_program_has_the_stack_that_it_asks_for() {
    fn deep(levels: u64) -> u64 {
        let frame = std::hint::black_box([levels; 64]);
        if levels == 0 { frame[0] } else { deep(levels - 1) + frame[63] }
    }
    let (machine, design) = (Machine::load("desktop").unwrap(), Choice::parse("clwb").unwrap());
    let program: Program = boxed(|_| assert_eq!(deep(4000), 4000 * 4001 / 2));
    let run = Simulation::of_host(&machine, &design, SPACE).with_stacks(8 << 20);
    run.run(vec![program]).unwrap();
}

#[test]
fn a_program_knows_the_machine_that_it_runs_on() {
    alone("clwb", |memory| {
        let machine = Machine::load("desktop").unwrap();
        assert_eq!(memory.cores(), machine.core.count);
        assert_eq!(memory.nanoseconds(1 << 20), ((1 << 20) as f64 / machine.ghz) as u64);
    });
}

#[test]
fn a_sleep_ends_at_its_deadline_or_when_another_wakes_it_and_not_again_at_the_deadline() {
    let sleeper = boxed(|memory| {
        map(memory);
        let ends = |memory: &SimMemory| memory.nanoseconds(memory.measured().cycles);
        assert!(!memory.sleep(Some(1000)), "nobody wakes it");
        assert!((1000..1010).contains(&ends(memory)), "{}", ends(memory));
        assert!(!memory.sleep(Some(1000)), "that is past");
        assert!(memory.sleep(Some(9000)), "the other wakes it");
        assert!((5000..5100).contains(&ends(memory)), "{}", ends(memory));
        memory.work(4 * 20);
        assert!(!memory.sleep(Some(12_000)), "the deadline of a sleep that is over is no other's");
        assert!((12_000..12_010).contains(&ends(memory)), "{}", ends(memory));
    });
    let other = boxed(|memory| {
        while memory.nanoseconds(memory.measured().cycles) < 5000 {
            memory.work(10);
            memory.turn();
        }
        memory.unpark(0);
    });
    let outcome = host("desktop", "clwb", vec![sleeper, other]).unwrap();
    let stalls = &outcome.stalls[0];
    assert!(stalls.get(Reason::Lock) > outcome.cycles * 9 / 10, "{stalls:?}");
    assert_eq!(stalls.get(Reason::Idle), 0);
}

#[test]
fn after_its_turn_a_program_sees_all_that_came_before_and_nothing_happens_until_it_goes_on() {
    let seen = Rc::new(Cell::new(0));
    let [early, late] = [Rc::clone(&seen), Rc::clone(&seen)];
    let slow = boxed(move |memory| {
        memory.work(4000);
        memory.turn();
        early.set(memory.measured().cycles);
    });
    let first = boxed(move |memory| {
        memory.work(8000);
        assert_eq!(late.get(), 0, "the host has come here first");
        memory.turn();
        assert!(late.get() > 0, "but it is not first in simulated time");
    });
    host("desktop", "clwb", vec![first, slow]).unwrap();
}
