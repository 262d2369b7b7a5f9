//! A persistency design of one's own beside `clwb` and `lbpp`, and a power failure after each
//! drain, which finds the fence that does not wait.
//! `cargo run --features simulate --example my_design`; a crate of its own has `seawall-memory` and
//! `seawall-sim` beside `seawall` among its dependencies.

use seawall::{Permission, Persist, PersistDesign, Simulation, WriteBacks, simulate};
use seawall_memory::{Addr, Memory, MemoryExt};
use seawall_sim::{Choice, Crash, Machine, Observer, Simulation as Simulator};
use std::cell::RefCell;
use std::rc::Rc;

/// A synchronous `clwb`: a flush completes when its line is durable.
#[derive(Clone)]
struct Synchronous;

impl PersistDesign for Synchronous {
    fn flush(&mut self, core: usize, line: u32, lines: &mut WriteBacks<'_>) -> Permission {
        if lines.write_back(core, line) { Permission::Wait } else { Permission::Go }
    }
}

/// A mistake: fences do not wait for the write-backs that flushes have started.
#[derive(Clone)]
struct Hasty;

impl PersistDesign for Hasty {
    fn flush(&mut self, core: usize, line: u32, lines: &mut WriteBacks<'_>) -> Permission {
        lines.write_back(core, line);
        Permission::Go
    }

    fn order(&mut self, _: usize, _: &mut WriteBacks<'_>) -> Permission {
        Permission::Go
    }
}

/// Lets the power fail at each output, and counts the lines that must be durable and are not.
#[derive(Default)]
struct PowerFails {
    drained: usize,
    lost: usize,
}

impl Observer for PowerFails {
    fn output(&mut self, _: usize, number: u64, now: u64) -> Option<u64> {
        self.drained = number as usize;
        Some(now)
    }

    fn crash(&mut self, _: u64, crash: Crash) {
        let lines = crash.pm.chunks(64).take(8 * self.drained);
        self.lost += lines.filter(|line| line[0] != 7).count();
    }
}

/// Stores to 8 lines, flushes and drains them, 20 times. Returns the cycles, and how many lines
/// power failures after the drains have lost.
fn drained(on: Simulator<'_>) -> Result<(u64, usize), seawall_sim::SimError> {
    let watch = Rc::<RefCell<PowerFails>>::default();
    let run = on.watched_by(watch.clone()).run(vec![Box::new(|memory| {
        for number in 0..20 {
            for line in number * 8..number * 8 + 8 {
                memory.store(Addr::pm(64 * line), 7u64);
                memory.flush(Addr::pm(64 * line), 8);
            }
            memory.drain();
            memory.output(number + 1);
        }
    })])?;
    let lost = watch.borrow().lost;
    Ok((run.cycles, lost))
}

#[derive(Clone, Copy, Persist)]
struct Counter {
    count: u64,
}

/// The cycles of 100 transactions on a pool.
fn transactions(on: &Simulation) -> Result<u64, seawall::SimulateError> {
    let run = simulate::<Counter>(
        on,
        |_| Ok(()),
        |pool| {
            (0..100).try_for_each(|_| {
                pool.transaction(|tx, root| tx.update(root.at(Counter::COUNT), |n| n + 1))
            })
        },
    );
    run.map(|run| run.cycles)
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let machine = Machine::load("micro15")?;
    let known = |name: &str| {
        let design = Choice::parse(name)?;
        drained(Simulator::new(&machine, &design, vec![0; 64 * 160], vec![0; 64]))
    };
    let own = |design: Box<dyn PersistDesign>| {
        drained(Simulator::of_design(&machine, design, vec![0; 64 * 160], vec![0; 64]))
    };
    let (clwb, lbpp) = (known("clwb")?, known("lbpp")?);
    let (synchronous, hasty) = (own(Box::new(Synchronous))?, own(Box::new(Hasty))?);
    for (name, (cycles, lost)) in
        [("clwb", clwb), ("lbpp", lbpp), ("synchronous", synchronous), ("hasty", hasty)]
    {
        println!("{name}: {cycles} cycles, {lost} lines lost");
    }
    assert!(hasty.0 < clwb.0 && clwb.0 < synchronous.0);
    assert!([clwb, lbpp, synchronous].iter().all(|(_, lost)| *lost == 0) && hasty.1 > 0);
    for (name, on) in [
        ("clwb", Simulation::of("clwb")),
        ("lbpp", Simulation::of("lbpp")),
        ("synchronous", Simulation::with(Synchronous)),
    ] {
        println!("{name}: {} cycles for 100 transactions", transactions(&on)?);
    }
    Ok(())
}

#[cfg(test)]
#[test]
fn it_ends_well() {
    main().unwrap();
}
