//! The part of a run that is measured.

use super::{PAGE, boxed, dram, host, idle, map, pm};
use seawall_memory::{Memory, MemoryExt};
use seawall_sim::{Reason, SimMemory};
use std::cell::RefCell;
use std::rc::Rc;

fn stores(memory: &SimMemory) {
    for number in 0..300 {
        memory.store(pm(8 * number), number);
        memory.load::<u64>(dram(64 * (number % 200)));
        memory.fetch_add(pm(64), 1);
    }
}

#[test]
fn the_outcome_is_of_the_region_alone() {
    let measures = Rc::new(RefCell::new(Vec::new()));
    let seen = measures.clone();
    let main = boxed(move |memory| {
        map(memory);
        stores(memory);
        seen.borrow_mut().push(memory.measured());
        memory.roi_begin();
        memory.store(pm(0), 1u64);
        memory.work(4000);
        memory.unpark(1);
        memory.park();
        memory.roi_end();
        seen.borrow_mut().push(memory.measured());
        stores(memory);
        memory.end();
    });
    let worker = boxed(|memory| {
        memory.park();
        memory.work(4000);
        memory.unpark(0);
        memory.park();
    });
    let outcome = host("desktop", "clwb", vec![main, worker, idle()]).unwrap();
    let measures = measures.borrow();
    let [from, to] = &measures[..] else { panic!("two") };
    assert_eq!(outcome.cycles, to.cycles - from.cycles);
    assert_eq!(outcome.counters, to.counters.since(&from.counters));
    assert_eq!((outcome.counters.stores, outcome.counters.locked), (1, 0));
    for reason in Reason::ALL {
        let main = to.stalls[0].get(reason) - from.stalls[0].get(reason);
        assert_eq!(outcome.stalls[0].get(reason), main, "{}", reason.name());
    }
    assert!(outcome.finished.iter().all(|at| *at <= outcome.cycles));
    for core in 0..2 {
        let idle = outcome.stalls[core].get(Reason::Idle);
        assert!((990..1010).contains(&idle), "core {core} works half of the time: {idle}");
    }
    assert_eq!(outcome.stalls[2].get(Reason::Idle), outcome.cycles, "idle from the beginning");
    assert!(outcome.stalls.iter().all(|stalls| stalls.total() <= outcome.cycles));
}

#[test]
fn a_region_without_an_end_ends_with_the_run() {
    let run = |begins: bool| {
        let main = boxed(move |memory| {
            map(memory);
            memory.work(40_000);
            if begins {
                memory.roi_begin();
            }
            stores(memory);
        });
        host("desktop", "lbpp", vec![main]).unwrap()
    };
    let (region, mut all) = (run(true), run(false));
    assert_eq!(region.cycles, all.cycles - 10_000);
    all.counters.instructions -= 40_000;
    assert_eq!((region.stalls, region.counters), (all.stalls, all.counters));
    assert_eq!(region.finished, [region.cycles]);
}

#[test]
fn warm_caches_have_the_lines_of_the_pages_mapped_so_far() {
    for (machine, source) in [("micro15", Reason::LoadLlc), ("memsys17-i7", Reason::LoadL2)] {
        let run = |warms: bool| {
            let main = boxed(move |memory| {
                map(memory);
                memory.store(pm(8), 5u64);
                memory.full_fence();
                if warms {
                    memory.warm();
                }
                memory.roi_begin();
                assert_eq!(memory.load::<u64>(pm(8)), 5);
                for line in 0..64 {
                    memory.load::<u64>(pm(PAGE + 64 * line));
                    memory.load::<u64>(dram(64 * line));
                }
                memory.end();
            });
            let programs = vec![main, idle()];
            host(machine, "volatile", programs).unwrap()
        };
        let (cold, warm) = (run(false), run(true));
        // A prefetcher leaves the loads of a cold run few misses.
        assert!(cold.counters.llc_misses > 0, "{machine}");
        assert_eq!(warm.counters.llc_misses, 0, "{machine}");
        assert_eq!(warm.stalls[0].get(Reason::LoadMemory), 0, "{machine}");
        assert!(warm.cycles * 2 < cold.cycles, "{machine} {}", source.name());
    }
}
