//! The litmus files on recorded runs: what `explore` finds for a program is what the files say.
//!
//! Each test runs on the recording machine with every way of interrupting its threads and, where
//! there are store buffers, of letting loads come early. Every image of every run is looked at. The
//! outcomes, in memory and registers, must be exactly those of the file. What a thread has read it
//! reports as an output, so that a crash shows it.

use seawall_explore::litmus::{Column, Instruction, Litmus, Outcome, Place, Register, suite};
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

fn run(memory: &Traced<'_>, code: &[Instruction], told: &[Register], x86: bool) {
    let registers = RefCell::new(BTreeMap::new());
    let tell = |register: Register, value: u64| {
        registers.borrow_mut().insert(register, value);
        // An output empties the buffers of the thread.
        if told.contains(&register) {
            memory.output((u64::from(register.0) << 32) + value);
        }
    };
    for step in code {
        match *step {
            Instruction::Write(at, value) => memory.store(address(at), u64::from(value)),
            Instruction::Stream(at, value) => {
                memory.write_nt(address(at), &u64::from(value).to_le_bytes());
            }
            Instruction::Wide(both, value) => {
                let word = |at: Place| (address(at), u64::MAX, u64::from(value));
                memory.store_words(both.into_iter().map(word));
            }
            Instruction::Line(at, value) => memory.write_line(address(at), [value.into(); 8]),
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
        }
    }
}

/// Gives every run of the threads to `visit`.
fn runs(test: &Litmus, model: Model, mut visit: impl FnMut(&Trace)) {
    let threads = &test.threads;
    let registers = test.columns.iter().filter_map(|column| match column {
        Column::Register(register) => Some(*register),
        Column::Memory(_) => None,
    });
    let told: Vec<Register> = registers.collect();
    let base = Schedule { threads: threads.len(), ..Schedule::default() };
    let steps = threads.iter().map(Vec::len).sum();
    let all = Schedules {
        interruptions: 2 * steps,
        delays: steps,
        buffer: steps,
        limit: usize::MAX,
        ..Schedules::new(model)
    };
    let record = |schedule: &Schedule| -> Result<Trace, RunError> {
        let (code, told) = (threads.clone(), told.clone());
        record(Image::new(1024, 64), schedule, move |memory| {
            run(memory, &code[memory.thread()], &told, is_x86(model));
        })
    };
    let visit = |_: &Schedule, trace: Trace| {
        visit(&trace);
        ControlFlow::Continue(())
    };
    assert!(all.each(&base, record, visit).expect("litmus tests end").complete);
}

/// What each thread has reported in all.
fn outputs(trace: &Trace) -> Vec<Vec<u64>> {
    let mut outputs = vec![Vec::new(); trace.threads()];
    for event in trace.events() {
        if let Kind::Output { number } = event.kind {
            outputs[usize::from(event.thread)].push(number);
        }
    }
    outputs
}

/// The outcome without the registers that locked operations read: they take effect with the store,
/// before a thread can report them.
fn without_locked(test: &Litmus, mut outcome: Outcome) -> Outcome {
    let is_locked = |register: &Register| {
        test.threads.iter().flatten().any(|step| match step {
            Instruction::Add(_, _, into) => *into == Some(*register),
            Instruction::Exchange { into, .. } => into == register,
            _ => false,
        })
    };
    for (column, value) in test.columns.iter().zip(&mut outcome.0) {
        if matches!(column, Column::Register(register) if is_locked(register)) {
            *value = None;
        }
    }
    outcome
}

fn outcomes(test: &Litmus, model: Model) -> BTreeSet<Outcome> {
    let found = RefCell::new(BTreeSet::new());
    runs(test, model, |trace| {
        let outputs = outputs(trace);
        let recover = |image: &CrashImage| {
            let column = |column: &Column| match column {
                Column::Memory(at) => image.load::<u64>(address(*at)),
                Column::Register(_) => 0,
            };
            Ok(test.columns.iter().map(column).collect::<Vec<u64>>())
        };
        let judge = |memory: &Vec<u64>, point: &CrashPoint| {
            let seen = outputs.iter().zip(point.outputs.iter());
            let told: Vec<u64> =
                seen.flat_map(|(all, seen)| &all[..*seen as usize]).copied().collect();
            let value = |(column, memory): (&Column, &u64)| match column {
                Column::Memory(_) => Some(*memory as u32),
                Column::Register(register) => told
                    .iter()
                    .rev()
                    .find(|number| *number >> 32 == u64::from(register.0))
                    .map(|number| *number as u32),
            };
            let outcome = Outcome(test.columns.iter().zip(memory).map(value).collect());
            found.borrow_mut().insert(without_locked(test, outcome));
            Ok(())
        };
        let options = Search { thorough: true, torn_lines: 8, ..Search::new(model) };
        let outcome = search(trace, &options, &check(recover, judge));
        assert_eq!(outcome.reached, Reached::Complete, "{}", test.id);
    });
    found.into_inner()
}

fn has(test: &Litmus, what: impl Fn(&Instruction) -> bool) -> bool {
    test.threads.iter().flatten().any(what)
}

#[test]
fn recorded_runs_leave_what_the_litmus_files_say() {
    let (mut exact, mut within) = (0, 0);
    for test in &suite() {
        for model in Model::all() {
            if is_x86(model) && has(test, |step| matches!(step, Instruction::Flush(_))) {
                continue; // The seam has no word for clflush, and none that is as strong.
            }
            let expected = test.expectation(model.name()).expect("a file has all models");
            let expected = expected.outcomes.iter().flatten().cloned();
            let expected: BTreeSet<Outcome> =
                expected.map(|outcome| without_locked(test, outcome)).collect();
            let found = outcomes(test, model);
            // As `mfence` there is a locked operation, which is stronger.
            let stronger = is_x86(model) && has(test, |step| matches!(step, Instruction::Fence));
            let fits = if stronger { found.is_subset(&expected) } else { found == expected };
            let more: Vec<_> = found.difference(&expected).collect();
            let less: Vec<_> = expected.difference(&found).collect();
            let (id, program) = (&test.id, test.program());
            assert!(fits, "{id} under {model}: more {more:?}, less {less:?}: {program}");
            *if stronger { &mut within } else { &mut exact } += 1;
        }
    }
    assert!(exact > 1300 && within > 20, "{exact} exact, {within} within");
}
