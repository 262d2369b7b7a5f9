//! The child: transactions of every kind, each told by seed, thread and number alone.

use crate::Plan;
use crate::model::{Act, LARGE_SLOTS, SLOTS, act, content};
use seawall_memory::{Addr, Memory, MemoryExt};
use seawall_native::{Domain, NativeMemory, Pool, PoolOptions, Witness};
use seawall_runtime::{Heap, HeapOptions, Logging, Session, Tx, TxError};

pub(crate) const NAME: &str = "kills";
/// In the root, before the links of the threads: an object that all threads replace, and two
/// counters of how often they did.
pub(crate) const SHARED: u64 = 0;
const LINKS: u64 = 64;

pub(crate) fn options(threads: usize) -> HeapOptions {
    HeapOptions {
        bytes: 2 << 16,
        bytes_max: 256 << 16,
        threads: threads as u64,
        log_bytes: 16 << 10,
        root_bytes: LINKS + threads as u64 * 8 * (SLOTS + LARGE_SLOTS),
        ..HeapOptions::default()
    }
}

fn pool_options(threads: usize) -> PoolOptions {
    PoolOptions {
        domain: Some(Domain::Line),
        dram_bytes: options(threads).dram_bytes() + 64,
        bytes_max: options(threads).pm_bytes_max(),
    }
}

pub(crate) fn link(heap: &Heap, thread: usize, slot: u64) -> Addr {
    heap.root().plus(LINKS + 8 * (thread as u64 * (SLOTS + LARGE_SLOTS) + slot))
}

/// Makes an empty pool.
pub(crate) fn make(plan: &Plan) {
    let options = options(plan.threads);
    let pool = Pool::create(&plan.file, options.pm_bytes(), &pool_options(plan.threads)).unwrap();
    Heap::create(&pool.memory(0), NAME, plan.seed.into(), &options).unwrap();
}

/// Opens the pool and works in it until the process is killed.
pub(crate) fn work(plan: &Plan) {
    let pool = Pool::open(&plan.file, &pool_options(plan.threads), |_, _| Ok(())).unwrap();
    let (heap, _) = Heap::open(&pool.memory(0), NAME, pool.bytes()).unwrap();
    let witness = Witness::create(&plan.witness(), plan.threads).unwrap();
    std::thread::scope(|scope| {
        for thread in 0..plan.threads {
            let (pool, witness) = (&pool, &witness);
            scope.spawn(move || {
                let memory = pool.memory(thread).with_witness(witness);
                let mut session = heap.join(&memory);
                for number in plan.done[thread].. {
                    step(&mut session, plan, number).unwrap();
                    memory.output(number + 1);
                }
            });
        }
    });
}

/// Nothing of its own went wrong: the transaction is to fail.
const FAILED: TxError = TxError::Types;

fn step(
    session: &mut Session<'_, NativeMemory<'_>>,
    plan: &Plan,
    number: u64,
) -> Result<(), TxError> {
    let thread = session.memory().thread();
    let (act, kind) = act(plan.seed, thread, number);
    let heap = session.heap();
    let to = |slot| link(&heap, thread, slot);
    match act {
        Act::AllocInto(slot, bytes) => {
            let at: Addr = session.load(to(slot));
            if at.is_null() {
                session.alloc_into(to(slot), bytes, &content(thread, number, bytes))?;
            }
            Ok(())
        }
        Act::FreeFrom(slot) => session.free_from(to(slot)),
        Act::Replace(slot, bytes) => {
            session.transaction_with(kind, |tx| replace(tx, to(slot), thread, number, bytes))
        }
        Act::Update(slot) => {
            session.transaction_with(kind, |tx| update(tx, to(slot), thread, number))
        }
        Act::Nested(slot, other, bytes, fails) => session.transaction_with(kind, |tx| {
            replace(tx, to(slot), thread, number, bytes)?;
            let inner = tx.nested(|tx| {
                update(tx, to(other), thread, number)?;
                replace(tx, to(slot), thread, number, bytes + 64)?;
                if fails { Err(FAILED) } else { Ok(()) }
            });
            if fails && inner == Err(FAILED) { Ok(()) } else { inner }
        }),
        Act::Aborted(slot, bytes) => {
            let failed = session.transaction_with(kind, |tx| {
                replace(tx, to(slot), thread, number, bytes)?;
                update(tx, to(slot), thread, number + 1)?;
                Err::<(), _>(FAILED)
            });
            if failed == Err(FAILED) { Ok(()) } else { failed }
        }
        Act::Shared(bytes) => shared(session, kind, number, bytes),
        Act::Retire => {
            session.retire();
            Ok(())
        }
    }
}

fn replace<M: Memory>(
    tx: &mut Tx<'_, '_, M>,
    link: Addr,
    thread: usize,
    number: u64,
    bytes: u64,
) -> Result<(), TxError> {
    let old: Addr = tx.load(link);
    let at = tx.alloc(bytes)?;
    tx.fill(at, &content(thread, number, bytes))?;
    tx.store(link, at)?;
    if old.is_null() { Ok(()) } else { tx.free(old) }
}

fn update<M: Memory>(
    tx: &mut Tx<'_, '_, M>,
    link: Addr,
    thread: usize,
    number: u64,
) -> Result<(), TxError> {
    let at: Addr = tx.load(link);
    if at.is_null() {
        return Ok(());
    }
    let bytes: u64 = tx.load(at.plus(16));
    tx.write(at, &content(thread, number, bytes))
}

/// Replaces the shared object, under a lock in DRAM behind that of the heap.
fn shared<M: Memory>(
    session: &mut Session<'_, M>,
    kind: Logging,
    number: u64,
    bytes: u64,
) -> Result<(), TxError> {
    let (memory, heap) = (session.memory(), session.heap());
    let (lock, link) = (Addr::dram(heap.dram_bytes()), heap.root().plus(SHARED));
    while memory.compare_exchange(lock, 0, 1).is_err() {
        memory.spin_while(lock, 1);
    }
    let done = session.transaction_with(kind, |tx| {
        replace(tx, link, memory.thread(), number, bytes)?;
        for counter in [link.plus(8), link.plus(16)] {
            let count: u64 = tx.load(counter);
            tx.store(counter, count + 1)?;
        }
        Ok(())
    });
    memory.store(lock, 0u64);
    done
}
