//! Two threads that name types at the same time, in every order and with every crash.

use super::{Account, NAME, Node, Root};
use seawall_explore::{
    CrashImage, CrashPoint, Model, Schedule, Schedules, Search, Trace, Traced, check, record,
    search,
};
use seawall_memory::{Image, Memory};
use seawall_runtime::typed::{self, Bytes};
use seawall_runtime::{Heap, HeapError, HeapFlaw, HeapOptions};

fn options() -> HeapOptions {
    HeapOptions { bytes: 3 << 16, threads: 2, log_bytes: 4096, ..typed::options::<Root<'_>>() }
}

/// Both threads make a node that nothing links; each makes something of its own, and links it.
fn program(memory: &Traced<'_>, heap: Heap) {
    typed::enter::<Root<'_>, _, HeapError>(heap, memory, |pool| {
        let mut session = pool.join(memory);
        if memory.thread() == 0 {
            session.transaction(|tx| {
                let account = tx.alloc(Account { owner: Bytes(*b"alice"), balance: 5 })?;
                tx.set(pool.root().at(Root::ACCOUNT), Some(account))
            })?;
        } else {
            session.transaction(|tx| {
                let node = tx.alloc(Node { value: 7, below: None })?;
                tx.set(pool.root().at(Root::TOP), Some(node))
            })?;
        }
        memory.output(0);
        session.transaction(|tx| tx.alloc(u16::MAX))?;
        memory.output(1);
        Ok(())
    })
    .expect("room");
}

/// How many accounts, nodes and numbers there are, and whether each is what it should be.
fn recover(image: &CrashImage) -> Result<[usize; 3], String> {
    let found = typed::open::<Root<'_>, _, HeapError>(image, NAME, options().pm_bytes(), |pool| {
        let mut session = pool.join(image);
        let root = session.get(pool.root())?;
        let (mut accounts, mut nodes, mut numbers, mut objects) = (vec![], vec![], 0, 0);
        session.for_each(|ptr, _: Account| accounts.push(ptr))?;
        session.for_each(|ptr, _: Node<'_>| nodes.push(ptr))?;
        session.for_each(|_, number: u16| numbers += usize::from(number == u16::MAX))?;
        pool.heap().objects(image, |_| objects += 1)?;
        let are_linked = root.account.as_slice() == accounts && root.top.as_slice() == nodes;
        let counts = [accounts.len(), nodes.len(), numbers];
        Ok((counts, are_linked && counts.iter().sum::<usize>() == objects))
    });
    match found.map_err(|error| error.to_string())? {
        (counts, true) => Ok(counts),
        (counts, false) => Err(format!("objects are of the wrong type: {counts:?}")),
    }
}

fn judge([accounts, nodes, numbers]: &[usize; 3], point: &CrashPoint) -> Result<(), String> {
    let done = |thread: usize, outputs| usize::from(point.outputs[thread] >= outputs);
    if *accounts >= done(0, 1) && *nodes >= done(1, 1) && *numbers >= done(0, 2) + done(1, 2) {
        return Ok(());
    }
    Err(format!("{accounts} accounts, {nodes} nodes and {numbers} numbers are left"))
}

fn explore(flaw: HeapFlaw) -> (usize, Option<String>) {
    let options = options();
    let run = |schedule: &Schedule| {
        let image = Image::new(options.pm_bytes(), options.dram_bytes());
        let heap = Heap::create(&image, NAME, 7, &options).expect("good options").with_flaw(flaw);
        record(image, schedule, move |memory| program(memory, heap))
    };
    let base = Schedule { threads: 2, ..Schedule::default() };
    let interrupted = Schedules { interruptions: 1, limit: 60, ..Schedules::new(Model::Px86) };
    let found = match interrupted.all(&base, run) {
        Ok(found) => found,
        Err(error) => return (0, Some(error.to_string())),
    };
    let how = Search { depth: 0, budget: 2_000, samples: 10, ..Search::new(Model::Px86) };
    let bad = |trace: &Trace| search(trace, &how, &check(recover, judge)).finding;
    let finding = found.runs.iter().find_map(|(_, trace)| bad(trace));
    (found.runs.len(), finding.map(|finding| finding.to_string()))
}

#[test]
fn two_threads_that_name_types_at_once_give_each_its_own_number() {
    let (runs, finding) = explore(HeapFlaw::None);
    assert_eq!(finding, None);
    assert!(runs > 20, "{runs} runs");
}

#[test]
fn types_that_are_named_without_the_lock_are_caught() {
    let (_, finding) = explore(HeapFlaw::UnlockedType);
    let finding = finding.expect("a thread read an entry that was half written");
    assert!(finding.contains("the entry of a type"), "{finding}");
}
