//! Strands cost what their buffers cost: pairs in strands of their own persist side by side, and a
//! join orders without waiting (StrandWeaver, ISCA'20).

use seawall_memory::{Addr, Memory, MemoryExt};
use seawall_sim::{Choice, Cycle, Machine, SimMemory, Simulation};

/// Cycles of a program on one core that stores pairs of words, the second of each behind the first.
fn pairs(design: &str, strands: bool) -> Cycle {
    let machine = Machine::load("desktop").unwrap();
    let program = move |memory: &SimMemory| {
        for pair in 0..200 {
            if strands {
                memory.strand();
            }
            memory.store(Addr::pm(4096 + pair * 128), pair);
            memory.order();
            memory.store(Addr::pm(4096 + pair * 128 + 64), pair);
        }
        memory.drain();
    };
    let choice = Choice::parse(design).unwrap();
    let simulation = Simulation::new(&machine, &choice, vec![0; 1 << 16], vec![0; 64]);
    simulation.run(vec![Box::new(program)]).unwrap().cycles
}

#[test]
fn pairs_in_strands_of_their_own_persist_side_by_side() {
    let one = pairs("strand", false);
    let (four, eight) = (pairs("strand", true), pairs("strand:buffers=8", true));
    println!("one strand {one} cycles, four buffers {four}, eight {eight}");
    assert!(2 * four < one && eight < four, "{one}, {four}, {eight}");
    let alone = pairs("strand:buffers=1", true);
    assert!(10 * alone > 9 * one, "one buffer has one order: {alone}");
    assert_eq!(pairs("hops", true), pairs("hops", false), "no instruction elsewhere");
}

/// Cycles of a program on one core that stores, executes `fence`, and computes.
fn ended(design: &str, fence: fn(&SimMemory)) -> Cycle {
    let machine = Machine::load("desktop").unwrap();
    let program = move |memory: &SimMemory| {
        for store in 0..100 {
            memory.store(Addr::pm(4096 + store * 64), store);
            memory.flush(Addr::pm(4096 + store * 64), 8);
            fence(memory);
            memory.work(4000);
        }
    };
    let choice = Choice::parse(design).unwrap();
    let simulation = Simulation::new(&machine, &choice, vec![0; 1 << 16], vec![0; 64]);
    simulation.run(vec![Box::new(program)]).unwrap().cycles
}

#[test]
fn a_join_does_not_hold_up_the_program_and_elsewhere_is_an_order() {
    let [join, drain] =
        [ended("strand", |memory| memory.join_strands()), ended("strand", |memory| memory.drain())];
    assert!(join < drain, "{join}, {drain}");
    for design in ["clwb", "hops", "lbpp"] {
        let order = ended(design, |memory| memory.order());
        assert_eq!(ended(design, |memory| memory.join_strands()), order, "{design}");
    }
}
