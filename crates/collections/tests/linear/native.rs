//! 8, 16 and 32 threads as fast as this machine runs them. `SEAWALL_LINEAR=100` makes it a hundred
//! times as many runs.

use super::cells::Cells;
use super::checker::{Act, Answer, Op, check};
use super::{Kept, Keyed, Plan, Small, crashed, dram_bytes, options, recovered, work};
use crate::subject::NAME;
use seawall_collections::{KvMap, Map};
use seawall_memory::{Addr, Image, Memory};
use seawall_native::{Domain, Pool, PoolOptions};
use seawall_runtime::{Heap, Session};
use std::cell::RefCell;
use std::sync::Barrier;
use std::sync::atomic::{AtomicU64, Ordering};

/// How many times as many runs as usual.
pub(super) fn times() -> u64 {
    std::env::var("SEAWALL_LINEAR").map_or(1, |times| times.parse().expect("a number of times"))
}

/// A pool in the file system for temporary files.
pub(super) fn pool(threads: usize) -> Pool {
    let options = options(threads);
    let dram_bytes = dram_bytes(&options);
    let how = PoolOptions { domain: Some(Domain::Line), dram_bytes, ..PoolOptions::default() };
    Pool::temporary(options.pm_bytes(), &how).expect("room")
}

/// The history of all threads of a plan, which begin at once.
fn history<K: Keyed>(
    pool: &Pool,
    heap: &Heap,
    target: &K,
    plan: &Plan,
    clock: &AtomicU64,
) -> Vec<Op> {
    let start = Barrier::new(plan.threads);
    let tick = || clock.fetch_add(1, Ordering::SeqCst);
    let thread = |thread: usize, target: K| {
        let (memory, ops) = (pool.memory(thread), RefCell::new(Vec::new()));
        start.wait();
        work((&memory, heap, &target), plan, &Kept { ops: &ops, clock: tick });
        ops.into_inner()
    };
    let thread = &thread;
    std::thread::scope(|scope| {
        let begin = |number| {
            let target = target.clone();
            scope.spawn(move || thread(number, target))
        };
        let threads: Vec<_> = (0..plan.threads).map(begin).collect();
        threads.into_iter().flat_map(|thread| thread.join().expect("it ends")).collect()
    })
}

/// Makes a history and checks it, with what a copy of the pool holds at the end; gives how many
/// operations it had.
fn checked<K: Keyed>(plan: &Plan) -> Result<usize, String> {
    let pool = pool(plan.threads);
    let (options, clock) = (options(plan.threads), AtomicU64::new(0));
    let memory = pool.memory(0);
    let heap = Heap::create(&memory, NAME, 7, &options).expect("good options");
    let mut session = heap.join(&memory);
    let target = K::create(&mut session);
    session.leave();
    let ops = history(&pool, &heap, &target, plan, &clock);
    let mut pm = vec![0; options.pm_bytes() as usize];
    memory.read(Addr::pm(0), &mut pm);
    let image = Image::from_pm(pm, dram_bytes(&options));
    let (_, _, found) = recovered::<K, _>(&image, options.pm_bytes(), plan)?;
    let done = vec![plan.count; plan.threads];
    let all = crashed(&ops, &done, clock.into_inner(), plan, &found);
    check(&all).map_err(|refusal| refusal.to_string())
}

fn many<K: Keyed>(runs: u64) -> usize {
    let mut operations = 0;
    for seed in 1..=runs * times() {
        for (threads, keys) in [(8, 8), (16, 8), (32, 16)] {
            let plan = Plan { threads, keys, count: 150, seed, base: 1 };
            let checked = checked::<K>(&plan);
            operations += checked.unwrap_or_else(|why| panic!("{plan:?}: {why}"));
        }
    }
    println!("{operations} operations");
    operations
}

#[test]
fn some_order_explains_what_up_to_32_real_threads_see_in_a_map() {
    assert!(many::<Map>(6) > 6 * 56 * 150);
}

#[test]
fn some_order_explains_what_up_to_32_real_threads_see_in_a_map_of_byte_strings() {
    assert!(many::<KvMap>(6) > 6 * 56 * 150);
}

#[test]
fn some_order_explains_what_up_to_32_real_threads_see_in_a_tree() {
    assert!(many::<Small>(6) > 6 * 56 * 150);
}

#[test]
fn some_order_explains_what_up_to_32_real_threads_see_in_a_heap() {
    assert!(many::<Cells>(6) > 6 * 56 * 150);
}

/// A map whose insertions look up what they replace in a step of its own.
#[derive(Clone)]
struct TwoSteps(Map);

impl Keyed for TwoSteps {
    fn create<M: Memory>(session: &mut Session<'_, M>) -> TwoSteps {
        TwoSteps(<Map as Keyed>::create(session))
    }

    fn open<M: Memory>(session: &mut Session<'_, M>) -> Result<TwoSteps, String> {
        <Map as Keyed>::open(session).map(TwoSteps)
    }

    fn act<M: Memory>(&self, session: &mut Session<'_, M>, key: u64, act: Act) -> Answer {
        let Act::Insert(_) = act else { return self.0.act(session, key, act) };
        let old = self.0.act(session, key, Act::Get);
        std::thread::yield_now();
        self.0.act(session, key, act);
        old
    }
}

#[test]
fn an_insertion_in_two_steps_is_caught() {
    let plan = |seed| Plan { threads: 8, keys: 8, count: 150, seed, base: 1 };
    let caught = (1..=50).find_map(|seed| checked::<TwoSteps>(&plan(seed)).err());
    let why = caught.expect("threads meet");
    assert!(why.contains("no order explains key"), "{why}");
}
