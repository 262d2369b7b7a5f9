//! Lists that grow and shrink while their objects move: each thread has one, and a collector moves
//! nodes of all of them and gives pages back. After a kill each list is the one after the
//! operations that its thread announced, or one more; every live object is in a list.

use crate::{KILLS_OF_A_POOL, MICROS_MAX, Plan, folder, kills};
use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use seawall_memory::{Image, Memory};
use seawall_native::{Domain, Pool, PoolOptions, Witness};
use seawall_runtime::defrag::{DefragOptions, Defragmenter, Protocol, with_collector};
use seawall_runtime::typed::{self, Persist, Ptr, Session, Thread};
use seawall_runtime::{Heap, HeapError, HeapOptions, Recovered, TxError};

/// Rounds of kills at most until pools have grown and shrunk.
const ROUNDS_MAX: usize = 5;
const NAME: &str = "moving";
const THREADS: usize = 2;
/// Operations of a phase: in every second one a list grows, in the others it shrinks.
const PHASE: u64 = 1_000;
/// Values are taken out so far from the front at most.
const DEPTH: u64 = 64;

#[derive(Clone, Copy, Persist)]
struct Lists<'p> {
    first: [Option<Ptr<'p, Node<'p>>>; THREADS],
}

#[derive(Clone, Copy, Persist)]
struct Node<'p> {
    value: u64,
    next: Option<Ptr<'p, Node<'p>>>,
    filling: [u64; 10],
}

/// What an operation does.
enum Act {
    Push(u64),
    /// Takes out the value at that place, or the last one of those in front of it.
    Take(u64),
}

fn act(plan: &Plan, thread: usize, number: u64) -> Act {
    let seed = plan.seed ^ (thread as u64) << 56 ^ number.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let mut rng = Xoshiro256PlusPlus::seed_from_u64(seed);
    let grows = (number / PHASE).is_multiple_of(2);
    let pushes = rng.random_bool(if grows { 0.9 } else { 0.1 });
    if pushes { Act::Push(rng.random()) } else { Act::Take(rng.random_range(0..DEPTH)) }
}

/// What the operation makes of a list, the front last.
fn apply(list: &mut Vec<u64>, act: Act) {
    match act {
        Act::Push(value) => list.push(value),
        Act::Take(_) if list.is_empty() => {}
        Act::Take(place) => {
            list.remove(list.len() - 1 - (place as usize).min(list.len() - 1));
        }
    }
}

fn options() -> HeapOptions {
    HeapOptions {
        bytes: 4 << 16,
        bytes_max: 64 << 16,
        threads: THREADS as u64 + 1,
        log_bytes: 16 << 10,
        defragment: true,
        ..typed::options::<Lists<'_>>()
    }
}

fn pool_options() -> PoolOptions {
    PoolOptions {
        domain: Some(Domain::Line),
        dram_bytes: options().dram_bytes(),
        bytes_max: options().pm_bytes_max(),
    }
}

fn make(plan: &Plan) {
    let options = options();
    let pool = Pool::create(&plan.file, options.pm_bytes(), &pool_options()).unwrap();
    let made = typed::create::<Lists<'_>, _, HeapError>(
        &pool.memory(0),
        NAME,
        plan.seed.into(),
        &options,
        |_| Ok(()),
    );
    made.unwrap();
}

fn opened<M: Memory>(memory: &M, bytes: u64) -> Heap {
    let heap = typed::open::<Lists<'_>, _, HeapError>(memory, NAME, bytes, |pool| Ok(pool.heap()));
    heap.unwrap()
}

/// Opens the pool and works in it until the process is killed.
pub(crate) fn work(plan: &Plan, protocol: Protocol) {
    let pool = Pool::open(&plan.file, &pool_options(), |_, _| Ok(())).unwrap();
    let heap = opened(&pool.memory(0), pool.bytes());
    let witness = Witness::create(&plan.witness(), THREADS).unwrap();
    let often = DefragOptions { protocol, trigger: 1.05, target: 1.0, ..DefragOptions::default() };
    let defragmenter = Defragmenter::of::<Lists<'_>>(often).unwrap();
    let run = |thread: usize| {
        let memory = pool.memory(thread).with_witness(&witness);
        let mut joined = Thread::<Lists<'_>, _>::join(heap, &memory).unwrap();
        for number in plan.done[thread].. {
            let act = act(plan, thread, number);
            let done = joined.enter(|session, root| {
                let link = root.at(Lists::FIRST).index(thread);
                step(session, link, act)
            });
            done.unwrap();
            memory.output(number + 1);
        }
    };
    let (_, outcome) = with_collector(
        heap,
        || pool.memory(THREADS),
        defragmenter,
        |_| {
            std::thread::scope(|scope| {
                (0..THREADS).for_each(|thread| drop(scope.spawn(move || run(thread))));
            });
        },
    );
    outcome.unwrap();
}

fn step<'p, M: Memory>(
    session: &mut Session<'p, '_, M>,
    first: Ptr<'p, Option<Ptr<'p, Node<'p>>>>,
    act: Act,
) -> Result<(), TxError> {
    session.transaction(|tx| match act {
        Act::Push(value) => {
            let next = tx.get(first)?;
            let node = tx.alloc(Node { value, next, filling: [value; 10] })?;
            tx.set(first, Some(node))
        }
        Act::Take(place) => {
            let (mut link, mut passed) = (first, 0);
            while let Some(node) = tx.get(link)? {
                let next = tx.get(node.at(Node::NEXT))?;
                if passed == place || next.is_none() {
                    tx.set(link, next)?;
                    return tx.free(node);
                }
                link = node.at(Node::NEXT);
                passed += 1;
            }
            Ok(())
        }
    })
}

/// The lists in a copy of the pool, the fronts last; the same after a second opening.
fn look(plan: &Plan, reached: &mut Reached) -> Vec<Vec<u64>> {
    let pm = std::fs::read(&plan.file).unwrap();
    reached.grown += u64::from(pm.len() as u64 > options().pm_bytes());
    let image = Image::from_pm(pm, options().dram_bytes());
    let (lists, recovered) = lists(&image);
    reached.moved += u64::from(recovered.moved > 0);
    let image = Image::from_pm(image.into_pm(), options().dram_bytes());
    let (again, recovered) = self::lists(&image);
    assert_eq!((recovered.replayed, recovered.rolled_back), (0, 0));
    assert_eq!(again, lists, "opened twice");
    lists
}

fn lists(image: &Image) -> (Vec<Vec<u64>>, Recovered) {
    let bytes = image.pm_bytes();
    let opened = typed::open::<Lists<'_>, _, HeapError>(image, NAME, bytes, |pool| {
        let session = pool.join(image);
        let reach = session.reach(pool.root())?;
        assert!(reach.dangling.is_empty() && reach.lost.is_empty(), "{reach:?}");
        let root = session.get(pool.root())?;
        let mut lists = Vec::new();
        for first in root.first {
            let (mut list, mut next) = (Vec::new(), first);
            while let Some(node) = next {
                let node = session.get(node)?;
                assert_eq!(node.filling, [node.value; 10], "a torn node");
                list.push(node.value);
                next = node.next;
            }
            list.reverse();
            lists.push(list);
        }
        Ok((lists, pool.recovered()))
    });
    opened.unwrap()
}

/// The operations, one more than was announced perhaps, that lead from `list` to what was seen.
fn explain(
    plan: &Plan,
    thread: usize,
    announced: u64,
    (list, seen): (&mut Vec<u64>, &[u64]),
) -> Result<u64, String> {
    for number in plan.done[thread]..announced {
        apply(list, act(plan, thread, number));
    }
    if list == seen {
        return Ok(announced);
    }
    apply(list, act(plan, thread, announced));
    match list == seen {
        true => Ok(announced + 1),
        false => Err(format!("thread {thread} after {announced} operations: {seen:?}")),
    }
}

/// How far the kills of a run reached.
#[derive(Debug, Default)]
struct Reached {
    kills: u64,
    operations: u64,
    in_flight: u64,
    /// Kills that found objects on their way, and pools that had grown.
    moved: u64,
    grown: u64,
    /// Kills that found pages given back to the system.
    shrunk: u64,
}

/// True if not all of the file has space.
fn has_holes(plan: &Plan) -> bool {
    use std::os::unix::fs::MetadataExt;
    let status = std::fs::metadata(&plan.file).unwrap();
    status.blocks() * 512 < status.len()
}

fn kill_many(protocol: Protocol, kills: u64) -> Reached {
    let folder = folder();
    let mut rng = Xoshiro256PlusPlus::seed_from_u64(protocol as u64);
    let mut reached = Reached::default();
    for pool in 0..kills.div_ceil(KILLS_OF_A_POOL) {
        let file = folder.path().join(format!("{pool}.pool"));
        let done = vec![0; THREADS];
        let (moves, seed) = (Some(protocol), rng.random());
        let mut plan = Plan { moves, threads: THREADS, seed, done, file };
        make(&plan);
        let mut lists = vec![Vec::new(); THREADS];
        for _ in 0..KILLS_OF_A_POOL.min(kills - reached.kills) {
            // A child that opens fills all holes: so they are counted before the next one.
            plan.run_and_kill(u64::from(rng.random_bool(0.9)), rng.random_range(0..MICROS_MAX));
            reached.shrunk += u64::from(has_holes(&plan));
            let (announced, seen) = (plan.announced(), look(&plan, &mut reached));
            for (thread, list) in lists.iter_mut().enumerate() {
                let seen = seen[thread].as_slice();
                let done = explain(&plan, thread, announced[thread], (list, seen));
                let done = done.unwrap_or_else(|why| panic!("{why}"));
                reached.operations += done - plan.done[thread];
                reached.in_flight += u64::from(done > announced[thread]);
                plan.done[thread] = done;
            }
            reached.kills += 1;
        }
        std::fs::remove_file(&plan.file).unwrap();
    }
    reached
}

#[test]
fn kills_while_lists_grow_and_shrink_and_their_nodes_move_lose_nothing() {
    let (mut grown, mut shrunk) = (0, 0);
    // A busy machine may be slow to give pages back: then few kills meet a hole.
    for _ in 0..ROUNDS_MAX {
        for protocol in [Protocol::Espresso, Protocol::Sfccd] {
            let count = kills() / 2;
            let reached = kill_many(protocol, count);
            println!("{protocol}: {reached:?}");
            assert!(reached.kills == count && reached.operations > 10 * count, "{reached:?}");
            assert!(count < 100 || reached.moved > 0, "{reached:?}");
            (grown, shrunk) = (grown + reached.grown, shrunk + reached.shrunk);
        }
        if grown > 0 && shrunk > 0 {
            return;
        }
    }
    panic!("{grown} had grown and {shrunk} had shrunk");
}

#[test]
fn a_list_that_lost_or_invented_an_operation_would_be_noticed() {
    let folder = folder();
    let file = folder.path().join("a.pool");
    let (moves, done) = (Some(Protocol::Sfccd), vec![0; THREADS]);
    let plan = Plan { moves, threads: THREADS, seed: 5, done, file };
    make(&plan);
    plan.run_and_kill(2_000, 0);
    let (announced, seen) = (plan.announced(), look(&plan, &mut Reached::default()));
    for thread in (0..THREADS).filter(|thread| announced[*thread] > 100) {
        let judge = |count: u64| explain(&plan, thread, count, (&mut Vec::new(), &seen[thread]));
        judge(announced[thread]).unwrap();
        for wrong in [announced[thread] - 20, announced[thread] + 20] {
            judge(wrong).expect_err("20 operations too many or few");
        }
    }
}
