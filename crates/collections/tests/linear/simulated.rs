//! 8 to 32 threads on a simulated machine that crashes again and again: what each crash leaves is
//! looked at, and from one of them the next run goes on, so that a history has several crashes.

use super::cells::Cells;
use super::checker::{Op, check};
use super::{Kept, Keyed, Plan, Small, crashed, dram_bytes, options, recovered, work};
use crate::subject::NAME;
use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use seawall_collections::{KvMap, Map, MapFlaw};
use seawall_memory::{Image, MemoryExt};
use seawall_runtime::{Heap, HeapFlaw};
use seawall_sim::{Choice, Crash, Cycle, Machine, Observer, Program, SimMemory, Simulation};
use std::cell::RefCell;
use std::rc::Rc;

/// A crash comes up to this many cycles after an output: longer than a write to NVM takes.
const OFFSET_CYCLES_MAX: u64 = 3000;
/// No such run takes longer, unless it is stuck.
const CYCLES_MAX: Cycle = 1 << 26;
/// Crashes of a run, about.
const CRASHES: usize = 8;

/// What a crash left, and how many operations of each thread the world had been told of.
struct Left {
    at: Cycle,
    done: Vec<u64>,
    pm: Vec<u8>,
}

/// Asks for crashes after outputs that a seed decides.
struct Crasher {
    rng: Xoshiro256PlusPlus,
    /// One output in so many.
    every: u32,
    done: Vec<u64>,
    left: Vec<Left>,
}

impl Observer for Crasher {
    fn output(&mut self, core: usize, number: u64, now: Cycle) -> Option<Cycle> {
        self.done[core] = number + 1;
        let is_asked = self.rng.random_ratio(1, self.every);
        is_asked.then(|| now + self.rng.random_range(0..OFFSET_CYCLES_MAX))
    }

    fn crash(&mut self, at: Cycle, crash: Crash) {
        self.left.push(Left { at, done: self.done.clone(), pm: crash.pm });
    }
}

/// What differs between the runs of a test.
struct How<K> {
    design: &'static str,
    heap: HeapFlaw,
    flawed: fn(K) -> K,
}

impl<K> How<K> {
    fn sound(design: &'static str) -> How<K> {
        How { design, heap: HeapFlaw::None, flawed: |target| target }
    }
}

/// Runs the threads of a plan from `image`, with stamps from `base` on; gives their operations and
/// what crashes left.
fn run<K: Keyed>(
    how: &How<K>,
    plan: &Plan,
    base: u64,
    (image, heap, target): (Image, Heap, K),
) -> (Vec<Op>, Vec<Left>) {
    let machine = Machine::load("micro15").expect("it ships");
    let design = Choice::parse(how.design).expect("a design");
    let ops = Rc::new(RefCell::new(Vec::new()));
    let (heap, target) = (heap.with_flaw(how.heap), (how.flawed)(target));
    let program = |_| -> Program {
        let (ops, target, plan, heap) = (ops.clone(), target.clone(), *plan, heap);
        Box::new(move |memory: &SimMemory| {
            let clock = || base + memory.now();
            work((memory, &heap, &target), &plan, &Kept { ops: &ops, clock });
        })
    };
    let crasher = Rc::new(RefCell::new(Crasher {
        rng: Xoshiro256PlusPlus::seed_from_u64(plan.seed ^ base),
        every: (plan.threads as u64 * plan.count / CRASHES as u64) as u32,
        done: vec![0; plan.threads],
        left: Vec::new(),
    }));
    let (pm, dram) = image.into_parts();
    Simulation::new(&machine, &design, pm, dram)
        .watched_by(crasher.clone())
        .at_most(CYCLES_MAX)
        .run((0..plan.threads).map(program).collect())
        .expect("it ends");
    let left = std::mem::take(&mut crasher.borrow_mut().left);
    (ops.take(), left)
}

/// Runs, crashes and goes on so many times, and checks the history up to each crash. Gives how
/// many operations the longest history had, and how many crashes were looked at.
fn checked<K: Keyed>(how: &How<K>, plan: &Plan, eras: u64) -> Result<(usize, usize), String> {
    let options = options(plan.threads);
    let (bytes, dram_bytes) = (options.pm_bytes(), dram_bytes(&options));
    let image = Image::new(bytes, dram_bytes);
    let heap = Heap::create(&image, NAME, 7, &options).expect("good options");
    let mut session = heap.join(&image);
    let target = K::create(&mut session);
    session.leave();
    let (mut before, mut crashes) = (Vec::new(), 0);
    let (mut base, mut start) = (0, (image, heap, target));
    for era in 0..eras {
        let plan = Plan { base: 1 + era * plan.threads as u64 * plan.count, ..*plan };
        let (ops, left) = run(how, &plan, base, start);
        check(&[&before[..], &ops].concat()).map_err(|refusal| refusal.to_string())?;
        let goes_on = left.len() * 2 / 3;
        let mut next = None;
        crashes += left.len();
        for (number, Left { at, done, pm }) in left.into_iter().enumerate() {
            let image = Image::from_pm(pm, dram_bytes);
            let (heap, target, found) = recovered::<K, _>(&image, bytes, &plan)?;
            let crash = base + at;
            let history = [&before[..], &crashed(&ops, &done, crash, &plan, &found)].concat();
            check(&history)
                .map_err(|refusal| format!("era {era}, crash at cycle {at}: {refusal}"))?;
            if number == goes_on {
                next = Some((history, crash + 3, (image, heap, target)));
            }
        }
        (before, base, start) = next.ok_or("no crash came")?;
    }
    Ok((before.len(), crashes))
}

/// 8, 16 and 32 threads in turn.
fn plan(seed: u64) -> Plan {
    let threads = 8 << ((seed - 1) % 3);
    Plan { threads, keys: 6, count: 200 / threads as u64, seed, base: 1 }
}

fn all<K: Keyed>(designs: [&'static str; 2]) {
    let (mut operations, mut crashes) = (0, 0);
    for design in designs {
        for seed in 1..=super::native::times() {
            let checked = checked::<K>(&How::sound(design), &plan(seed), 3);
            let (one, some) = checked.unwrap_or_else(|why| panic!("{design}, seed {seed}: {why}"));
            (operations, crashes) = (operations + one, crashes + some);
        }
    }
    println!("{operations} operations, {crashes} crashes");
    assert!(crashes > 3 * CRASHES, "{crashes}");
}

#[test]
fn histories_of_a_map_go_on_through_crashes() {
    all::<Map>(["clwb", "lbpp"]);
}

#[test]
fn histories_of_a_map_of_byte_strings_go_on_through_crashes() {
    all::<KvMap>(["clwb", "hops"]);
}

#[test]
fn histories_of_a_tree_go_on_through_crashes() {
    all::<Small>(["clwb", "lbpp"]);
}

#[test]
fn histories_of_a_heap_go_on_through_crashes() {
    all::<Cells>(["clwb", "hops"]);
}

#[test]
fn a_heap_that_does_not_wait_for_its_log_is_caught_by_what_a_crash_lost() {
    let how = How { heap: HeapFlaw::NoFence, ..How::<Map>::sound("clwb") };
    let why = (1..=4).find_map(|seed| checked(&how, &plan(seed), 1).err()).expect("it is caught");
    assert!(why.contains("crash at cycle") && why.contains("no order explains"), "{why}");
}

#[test]
fn writers_that_take_no_lock_are_caught_by_the_history_of_a_run() {
    let flawed = |map: Map| map.with_flaw(MapFlaw::NoLock);
    let how = How { flawed, ..How::sound("clwb") };
    let why = (1..=8).find_map(|seed| checked(&how, &plan(seed), 1).err()).expect("it is caught");
    assert!(why.contains("no order explains"), "{why}");
}
