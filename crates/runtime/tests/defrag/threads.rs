//! Beside real threads, natively.

use super::Node;
use super::node;
use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use seawall_memory::Memory;
use seawall_native::{Pool, PoolOptions};
use seawall_runtime::defrag::{DefragOptions, Defragmenter, Protocol, with_collector};
use seawall_runtime::typed::{self, Persist, Ptr};
use seawall_runtime::{Heap, HeapError, HeapOptions, TxError};
use std::collections::BTreeMap;

const THREADS: usize = 3;
const LISTS: usize = 16;

/// Short lists, each thread's its own.
#[derive(Clone, Copy, Debug, Persist)]
struct Lists<'p> {
    heads: [[Option<Ptr<'p, Node<'p>>>; LISTS]; THREADS],
}

type Found = Vec<Vec<u64>>;

/// Adds and removes at random, more of the one and more of the other in turn, as long as it is to
/// go on; gives what there is.
fn churn<M: Memory>(
    memory: &M,
    heap: Heap,
    seed: u64,
    goes_on: impl Fn(u64) -> bool,
) -> Result<Found, String> {
    let text = |error: TxError| error.to_string();
    let thread = typed::Thread::<Lists<'static>, _>::join(heap, memory);
    let mut thread = thread.map_err(|error| error.to_string())?;
    let mut random = Xoshiro256PlusPlus::seed_from_u64(seed);
    let mut lists: Vec<BTreeMap<u64, u64>> = vec![BTreeMap::new(); LISTS];
    let mine = memory.thread();
    for round in (0..).take_while(|round| goes_on(*round)) {
        let list = random.random_range(0..LISTS);
        let adds = random.random_range(0..100) < if round / 20_000 % 2 == 0 { 80 } else { 20 };
        let place = random.random_range(0..lists[list].len().clamp(1, 100));
        let key = lists[list].keys().rev().nth(place).copied();
        thread
            .enter(|session, root| {
                let head = root.at(Lists::HEADS).index(mine).index(list);
                let (mut link, mut seen) = (head, 0);
                while let Some(ptr) = session.get(link)?.filter(|_| !adds && seen < place) {
                    (link, seen) = (ptr.at(Node::NEXT), seen + 1);
                }
                session.transaction(|tx| {
                    let next = tx.get(link)?;
                    match next.filter(|_| !adds) {
                        None if adds => {
                            let new = tx.alloc(node(round, next))?;
                            tx.set(link, Some(new))
                        }
                        None => Ok(()),
                        Some(gone) => {
                            let next = tx.get(gone)?.next;
                            tx.set(link, next)?;
                            tx.free(gone)
                        }
                    }
                })
            })
            .map_err(text)?;
        match (adds, key) {
            (true, _) => drop(lists[list].insert(round, round)),
            (false, Some(key)) => drop(lists[list].remove(&key)),
            (false, None) => {}
        }
    }
    thread.leave();
    Ok(lists.into_iter().map(|list| list.into_keys().rev().collect()).collect())
}

fn found<M: Memory>(memory: &M, heap: Heap) -> Result<Vec<Found>, String> {
    let entered = typed::enter::<Lists<'_>, _, HeapError>(heap, memory, |pool| {
        let session = pool.join(memory);
        let reach = session.reach(pool.root())?;
        assert_eq!((reach.lost.len(), reach.dangling.len()), (0, 0));
        let mut all = Vec::new();
        for heads in session.get(pool.root())?.heads {
            let mut lists = Vec::new();
            for mut next in heads {
                let mut values = Vec::new();
                while let Some(ptr) = next {
                    let found = session.get(ptr)?;
                    assert_eq!(found.filling, [found.value * 3; 11]);
                    values.push(found.value);
                    next = found.next;
                }
                lists.push(values);
            }
            all.push(lists);
        }
        Ok(all)
    });
    entered.map_err(|error| error.to_string())
}

#[test]
fn threads_find_what_they_left_while_a_collector_moves_it() {
    for protocol in [Protocol::Sfccd, Protocol::Espresso] {
        let options = HeapOptions {
            bytes: 4 << 20,
            bytes_max: 64 << 20,
            threads: THREADS as u64 + 1,
            defragment: true,
            ..typed::options::<Lists<'_>>()
        };
        let (dram_bytes, bytes_max) = (options.dram_bytes(), options.pm_bytes_max());
        let pool = PoolOptions { dram_bytes, bytes_max, ..PoolOptions::default() };
        let pool = Pool::temporary(options.pm_bytes(), &pool).unwrap();
        let made = typed::create::<Lists<'_>, _, HeapError>(
            &pool.memory(0),
            "lists",
            1,
            &options,
            |pool| Ok(pool.heap()),
        );
        let heap = made.unwrap();
        // Begins often, so that there is a cycle most of the time.
        let options = DefragOptions { trigger: 1.05, target: 1.0, protocol, ..Default::default() };
        let defragmenter = Defragmenter::of::<Lists<'_>>(options).unwrap();
        let (expected, counts) = with_collector(
            heap,
            || pool.memory(THREADS),
            defragmenter,
            |collector| {
                // A busy machine may give the collector little time.
                let goes_on = &|round: u64| {
                    let is_early = !round.is_multiple_of(100) || collector.counts().cycles < 3;
                    round < 50_000 || is_early && round < 50_000_000
                };
                std::thread::scope(|scope| {
                    let threads: Vec<_> = (0..THREADS)
                        .map(|thread| {
                            let pool = &pool;
                            scope.spawn(move || {
                                churn(&pool.memory(thread), heap, thread as u64, goes_on)
                            })
                        })
                        .collect();
                    threads.into_iter().map(|thread| thread.join().unwrap()).collect()
                })
            },
        );
        let expected: Result<Vec<Found>, String> = expected;
        let counts = counts.unwrap();
        assert_eq!(found(&pool.memory(0), heap), expected, "{protocol}");
        assert!(counts.cycles > 2 && counts.emptied > 10, "{counts:?}");
    }
}
