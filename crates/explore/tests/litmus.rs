//! The litmus files on recorded runs: what `explore` finds for a program is what the files say.
//!
//! Each test runs on the recording machine with every way of interrupting its threads and, where
//! there are store buffers, of letting loads come early. Every image of every run is looked at. The
//! outcomes, in memory and registers, must be exactly those of the file. What a thread has read it
//! reports as an output, so that a crash shows it.

use seawall_explore::litmus::{Column, Instruction, Litmus, Outcome, Place, Register, Threads, suite};
use seawall_explore::{
    CrashImage, CrashPoint, Kind, Model, Reached, RunError, Schedule, Schedules, Search, Trace,
    Traced, check, record, search,
};
use seawall_memory::{Addr, Image, Memory, MemoryExt};
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::ControlFlow;

fn address(at: Place) -> Addr {
    Addr::pm(64 * (1 + u64::from(at.line)) + 8 * u64::from(at.word))
}

fn is_x86(model: Model) -> bool {
    matches!(model, Model::Px86 | Model::Eadr)
}

/// What an output adds to the value of the register that it reports.
fn told(register: Register) -> u64 {
    u64::from(register.0) << 32
}

fn run(memory: &Traced<'_>, code: &[Instruction], x86: bool) {
    let registers = RefCell::new(BTreeMap::new());
    let tell = |register: Register, value: u64| {
        registers.borrow_mut().insert(register, value);
        memory.output(told(register) + value);
    };
    for step in code {
        match *step {
            Instruction::Write(at, value) => memory.store(address(at), u64::from(value)),
            Instruction::Stream(at, value) => {
                memory.write_nt(address(at), &u64::from(value).to_le_bytes());
            }
            Instruction::Read(at, into) => tell(into, memory.load(address(at))),
            Instruction::WriteBack(at) => memory.flush(address(at), 8),
            Instruction::Flush(at) => memory.flush(address(at), 8),
            Instruction::Fence if x86 => {
                memory.fetch_add(Addr::dram(0), 1);
            }
            Instruction::StoreFence | Instruction::Barrier | Instruction::Fence => memory.order(),
            Instruction::Drain => memory.drain(),
            Instruction::Strand => memory.strand(),
            Instruction::Join => memory.join_strands(),
            Instruction::Add(at, by, into) => {
                let old = memory.fetch_add(address(at), by.into());
                if let Some(into) = into {
                    tell(into, old);
                }
            }
            Instruction::Exchange { at, old, new, into } => {
                let found = memory.compare_exchange(address(at), old.into(), new.into());
                tell(into, found.unwrap_or_else(|other| other));
            }
            Instruction::If(register, value) => {
                if registers.borrow().get(&register) != Some(&value.into()) {
                    return;
                }
            }
            Instruction::Wide(..) => unreachable!("variants have none"),
        }
    }
}

/// Gives every run of the threads to `visit`.
fn runs(threads: &Threads, model: Model, mut visit: impl FnMut(&Trace)) {
    let base = Schedule { threads: threads.len(), ..Schedule::default() };
    let steps = threads.iter().map(Vec::len).sum();
    let all = Schedules {
        interruptions: 2 * steps,
        early_loads: steps,
        buffer: steps,
        limit: usize::MAX,
        ..Schedules::new(model)
    };
    let record = |schedule: &Schedule| -> Result<Trace, RunError> {
        let code = threads.clone();
        record(Image::new(1024, 64), schedule, move |memory| {
            run(memory, &code[memory.thread()], is_x86(model));
        })
    };
    let visit = |_: &Schedule, trace: Trace| {
        visit(&trace);
        ControlFlow::Continue(())
    };
    assert!(all.each(&base, record, visit).expect("litmus tests end").complete);
}

/// The register of each output of each thread, with its value.
fn outputs(trace: &Trace) -> Vec<Vec<u64>> {
    let mut outputs = vec![Vec::new(); trace.threads()];
    for event in trace.events() {
        if let Kind::Output { number } = event.kind {
            outputs[usize::from(event.thread)].push(number);
        }
    }
    outputs
}

fn outcomes(test: &Litmus, model: Model) -> BTreeSet<Outcome> {
    let found = RefCell::new(BTreeSet::new());
    for threads in test.variants() {
        runs(&threads, model, |trace| {
            let outputs = outputs(trace);
            let recover = |image: &CrashImage<'_>| {
                let column = |column: &Column| match column {
                    Column::Memory(at) => image.load::<u64>(address(*at)),
                    Column::Register(_) => 0,
                };
                Ok(test.columns.iter().map(column).collect::<Vec<u64>>())
            };
            let judge = |memory: &Vec<u64>, point: &CrashPoint| {
                let told: Vec<u64> = (outputs.iter().zip(&point.outputs))
                    .flat_map(|(all, seen)| &all[..*seen as usize])
                    .copied()
                    .collect();
                let value = |(column, memory): (&Column, &u64)| match column {
                    Column::Memory(_) => Some(*memory as u32),
                    Column::Register(register) => told
                        .iter()
                        .rev()
                        .find(|number| *number >> 32 == u64::from(register.0))
                        .map(|number| *number as u32),
                };
                let outcome = Outcome(test.columns.iter().zip(memory).map(value).collect());
                found.borrow_mut().insert(outcome);
                Ok(())
            };
            let options = Search { thorough: true, ..Search::new(model) };
            let outcome = search(trace, &options, &check(recover, judge));
            assert_eq!(outcome.reached, Reached::Complete, "{}", test.id);
        });
    }
    found.into_inner()
}

fn has(test: &Litmus, what: impl Fn(&Instruction) -> bool) -> bool {
    test.threads.iter().flatten().any(what)
}

/// The seam has no word for clflush, and none that is as strong; `mfence` is a locked operation
/// here, which is stronger.
fn is_not_in_the_seam(step: &Instruction) -> bool {
    matches!(step, Instruction::Flush(_) | Instruction::Fence)
}

#[test]
fn recorded_runs_leave_what_the_litmus_files_say() {
    let (mut exact, mut within, mut late_only) = (0, 0, Vec::new());
    let suite = suite();
    for test in &suite {
        for model in Model::all() {
            let expected = test.expectation(model.name()).expect("a file has all models");
            let expected: BTreeSet<Outcome> = expected.outcomes.iter().flatten().cloned().collect();
            let found = outcomes(test, model);
            if is_x86(model) && has(test, |step| matches!(step, Instruction::Flush(_))) {
                continue;
            }
            let weaker = is_x86(model) && has(test, is_not_in_the_seam);
            let more: Vec<_> = found.difference(&expected).collect();
            let less: Vec<_> = expected.difference(&found).collect();
            if !more.is_empty() || (!less.is_empty() && !weaker) {
                late_only.push(format!("{} {model} more {} less {}: {}", test.id, more.len(), less.len(), test.program()));
            }
            if weaker { within += 1 } else { exact += 1 }
        }
    }
    for l in &late_only { println!("{l}"); }
    assert!(late_only.is_empty());
    assert!(exact > 1300 && within > 20, "{exact} exact, {within} within");
}
