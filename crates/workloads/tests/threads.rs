//! Operations of several threads do not interfere.

use crate::machines::Shared;
use seawall_workloads::{
    Collect, Cost, Flaw, History, Setup, Visitor, WORKLOADS, Worker, Workload, with_workload,
};
use std::sync::Arc;

const THREADS: usize = 4;
const OPERATIONS: u64 = 1500;

struct Run;

impl Visitor for Run {
    type Output = ();

    fn visit<W: Workload>(self) {
        let setup = Setup {
            threads: THREADS,
            seed: 3,
            entries: 12,
            search_percent: 20,
            mix: None,
            collect: Collect::Nobody,
            cost: Cost::Lean,
            flaw: Flaw::None,
        };
        let layout = W::layout(&setup);
        let memory = Shared::new(layout.pm_bytes, layout.dram_bytes);
        let workload = W::create(&memory, &setup);
        let before = workload.contents(&memory).expect("just made");
        let history = Arc::new(History::new());
        std::thread::scope(|scope| {
            for thread in 0..THREADS {
                let (memory, workload) = (memory.of(thread), workload.clone());
                let mut worker = Worker::new(&setup, thread, history.clone());
                scope.spawn(move || {
                    let mut local = workload.join(&memory);
                    while worker.number < OPERATIONS {
                        workload.step(&memory, &mut local, &mut worker);
                        worker.number += 1;
                    }
                });
            }
        });
        let after = workload.contents(&memory).expect("no operation broke the structure");
        let explained = history.explain(&before, &after, &[OPERATIONS; THREADS]);
        assert_eq!(explained, Ok(vec![OPERATIONS; THREADS]), "{}", W::NAME);
    }
}

#[test]
fn every_operation_of_every_thread_is_there_in_the_end() {
    for entry in WORKLOADS {
        with_workload(entry.name, Run).expect("a workload of the table");
    }
}
