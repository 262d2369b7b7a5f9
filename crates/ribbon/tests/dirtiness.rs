//! What counting the dirty bytes of flushed lines finds, against a set of dirty addresses.

use proptest::prelude::*;
use seawall_memory::relocation::Relocate;
use seawall_memory::{Addr, Image, Line, Memory, MemoryExt, layer, lines_of};
use seawall_native::{Pool, PoolOptions};
use seawall_ribbon::{Dirtiness, DirtyCounts};
use seawall_sim::{Choice, Machine, Program, Simulation};
use std::collections::BTreeSet;

const PM_BYTES: u64 = 1 << 17;
/// Accesses stay in two places, on both sides of a border between pieces of the table.
const PLACES: [u64; 2] = [256, (1 << 16) - 128];

#[derive(Clone, Debug)]
enum Op {
    Store(Addr, u8),
    Write(Addr, u64),
    Direct(Addr, u64),
    Relocate(Addr, Addr, u64),
    Exchange(Addr, bool),
    Swap(Addr),
    Add(Addr),
    Flush(Addr, u64),
    Persist(Addr, u64),
}

/// Bytes that are dirty, and what a count of them one by one gives.
#[derive(Default)]
struct Model {
    dirty: BTreeSet<u64>,
    counts: DirtyCounts,
}

impl Model {
    fn store(&mut self, at: Addr, len: u64) {
        if at.is_pm() {
            self.dirty.extend(at.bits()..at.bits() + len);
        }
    }

    fn flush(&mut self, at: Addr, len: u64) {
        if !at.is_pm() {
            return;
        }
        let lines: BTreeSet<u64> = (at.bits()..at.bits() + len).map(|byte| byte / 64).collect();
        for line in &lines {
            let bytes = (64 * line..64 * line + 64).filter(|byte| self.dirty.remove(byte)).count();
            if bytes == 0 {
                self.counts.clean += 1;
            } else {
                self.counts.lines += 1;
                self.counts.bytes += bytes as u64;
                self.counts.eighths[bytes.div_ceil(8) - 1] += 1;
            }
        }
        self.counts.straddling += u64::from(lines.len() as u64 > len.div_ceil(64));
    }

    fn direct(&mut self, at: Addr, len: u64) {
        if at.is_pm() {
            self.dirty.retain(|byte| !(at.bits()..at.bits() + len).contains(byte));
            self.counts.direct_bytes += len;
            self.counts.direct_lines += lines_of(at, len).count() as u64;
        }
    }
}

fn place(align: u64) -> impl Strategy<Value = Addr> {
    (0..PLACES.len(), 0u64..256, prop::bool::weighted(0.1)).prop_map(move |(place, into, dram)| {
        let offset = (PLACES[place] + into) / align * align;
        if dram { Addr::dram(offset % 4096) } else { Addr::pm(offset) }
    })
}

fn op() -> impl Strategy<Value = Op> {
    let range = || (place(1), 0u64..200);
    prop_oneof![
        (place(8), 0u8..4).prop_map(|(at, width)| Op::Store(at, width)),
        range().prop_map(|(at, len)| Op::Write(at, len)),
        range().prop_map(|(at, len)| Op::Direct(at, len)),
        (place(1), range()).prop_map(|(to, (from, len))| Op::Relocate(to, from, len)),
        (place(8), any::<bool>()).prop_map(|(at, is_equal)| Op::Exchange(at, is_equal)),
        place(8).prop_map(Op::Swap),
        place(8).prop_map(Op::Add),
        range().prop_map(|(at, len)| Op::Flush(at, len)),
        range().prop_map(|(at, len)| Op::Persist(at, len)),
    ]
}

fn run<M: Memory>(memory: &M, model: &mut Model, op: &Op) {
    match *op {
        Op::Store(at, width) => {
            match width {
                0 => memory.store(at, 1u8),
                1 => memory.store(at, 1u16),
                2 => memory.store(at, 1u32),
                _ => memory.store(at, 1u64),
            }
            model.store(at, 1 << width);
        }
        Op::Write(at, len) => {
            memory.write(at, &vec![7; len as usize]);
            model.store(at, len);
        }
        Op::Direct(at, len) => {
            memory.write_nt(at, &vec![9; len as usize]);
            model.direct(at, len);
        }
        Op::Relocate(to, from, len) => {
            memory.relocate(to, from, len);
            model.direct(to, len);
        }
        Op::Exchange(at, is_equal) => {
            let now: u64 = memory.load(at);
            let changed = memory.compare_exchange(at, now ^ u64::from(!is_equal), 3).is_ok();
            assert_eq!(changed, is_equal);
            model.store(at, if is_equal { 8 } else { 0 });
        }
        Op::Swap(at) => {
            memory.swap(at, 4);
            model.store(at, 8);
        }
        Op::Add(at) => {
            memory.fetch_add(at, 1);
            model.store(at, 8);
        }
        Op::Flush(at, len) => {
            memory.flush(at, len);
            model.flush(at, len);
        }
        Op::Persist(at, len) => {
            memory.persist(at, len);
            model.flush(at, len);
        }
    }
}

proptest! {
    #[test]
    fn the_counts_are_those_of_a_set_of_dirty_bytes(
        ops in proptest::collection::vec((op(), 0usize..2), 0..80),
    ) {
        let image = Image::new(PM_BYTES, 4096 + 256);
        let dirtiness = Dirtiness::new(PM_BYTES);
        let handles = [dirtiness.join(&image), dirtiness.clone().join(&image)];
        let mut model = Model::default();
        for (op, handle) in ops {
            run(&handles[handle], &mut model, &op);
            prop_assert_eq!(dirtiness.counts(), model.counts, "{:?}", op);
        }
        for line in (0..PM_BYTES / 64).map(Line) {
            let bytes = dirtiness.dirty_bytes(line);
            let is_dirty = |bit: &u64| model.dirty.contains(&(line.start().bits() + bit));
            let known = (0..64).filter(is_dirty).fold(0, |mask, bit| mask | 1u64 << bit);
            prop_assert_eq!(bytes, known, "{:?}", line);
        }
        prop_assert_eq!(dirtiness.counts() - model.counts, DirtyCounts::default());
    }
}

#[test]
fn threads_count_side_by_side_on_a_real_machine() {
    const ROUNDS: u64 = 20_000;
    let options = PoolOptions { dram_bytes: 4096, ..PoolOptions::default() };
    let pool = Pool::temporary(1 << 16, &options).expect("there is room");
    let dirtiness = Dirtiness::new(1 << 16);
    std::thread::scope(|scope| {
        for thread in 0..2 {
            let (pool, dirtiness) = (&pool, &dirtiness);
            scope.spawn(move || {
                let memory = pool.memory(thread);
                let memory = dirtiness.join(&memory);
                for round in 0..ROUNDS {
                    let at = Addr::pm(64 * (4 + 8 * thread as u64 + round % 8));
                    memory.store(at, round);
                    memory.store(at.plus(24), 1u32);
                    memory.flush(at, 32);
                }
            });
        }
    });
    let counts = dirtiness.counts();
    assert_eq!((counts.lines, counts.clean, counts.bytes), (2 * ROUNDS, 0, 24 * ROUNDS));
    assert_eq!((counts.eighths[1], counts.straddling), (2 * ROUNDS, 0));
}

#[test]
fn only_the_lines_of_an_area_are_counted() {
    let image = Image::new(PM_BYTES, 0);
    let [all, area] = [Dirtiness::new(PM_BYTES), Dirtiness::within(Addr::pm(100), 200)];
    let through_all = all.join(&image);
    let memory = area.join(&through_all);
    for at in [0, 56, 64, 256, 312, 320, 1 << 16].map(Addr::pm) {
        memory.store(at, 1u64);
    }
    memory.flush(Addr::pm(0), 640);
    memory.flush(Addr::pm(1 << 16), 8);
    let (all, area) = (all.counts(), area.counts());
    assert_eq!((all.lines, all.bytes, all.clean), (5, 56, 6));
    assert_eq!((area.lines, area.bytes, area.clean), (2, 24, 2), "lines 1 to 4");
    assert_eq!(layer::Layer::below(&memory).load::<u64>(Addr::pm(1 << 16)), 1);
    assert_eq!(Dirtiness::new(0).counts().dirtiness(), 0.0);
}

#[test]
fn on_a_simulated_machine_threads_that_share_lines_are_counted_alike_every_time() {
    let machine = Machine::load("micro15").expect("a machine");
    let design = Choice::parse("clwb").expect("a design");
    let count = || {
        let dirtiness = Dirtiness::new(4096);
        let program = |dirtiness: Dirtiness| -> Program {
            Box::new(move |below| {
                let memory = dirtiness.join(below);
                for round in 0..200u64 {
                    memory.fetch_add(Addr::pm(64 * (1 + round % 5)), 1);
                    memory.store(Addr::pm(64 * (1 + round % 7) + 8 * memory.thread() as u64), 1u64);
                    memory.flush(Addr::pm(64 * (1 + round % 3)), 64);
                    memory.drain();
                }
            })
        };
        let programs = (0..4).map(|_| program(dirtiness.clone())).collect();
        let simulation = Simulation::new(&machine, &design, vec![0; 4096], Vec::new());
        simulation.run(programs).expect("it ends");
        dirtiness.counts()
    };
    let first = count();
    assert!(first.lines > 0 && first.dirtiness() > 0.12, "{first:?}");
    assert_eq!(first.lines + first.clean, 4 * 200);
    assert_eq!(count(), first);
}
