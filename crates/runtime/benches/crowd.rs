//! More threads than processors: the same number of operations by 64 threads and by 1024, in turns.
//!
//! `cargo bench -p seawall-runtime --bench crowd`. Each thread allocates and frees blocks of its
//! own; what they share is the clock of transactions, the logs' generations, and the lock of
//! chunks. Threads that are started and join are a part of the time. Prints medians and their
//! ratio.

use seawall_memory::{Addr, Memory};
use seawall_native::{Pool, PoolOptions};
use seawall_runtime::{Heap, HeapOptions, Session, TxError};
use std::time::Instant;

const OPERATIONS: u64 = 200 << 10;
const ROUNDS: usize = 7;

fn work<M: Memory>(session: &mut Session<'_, M>, operations: u64) -> Result<(), TxError> {
    let mut mine: Vec<Addr> = Vec::new();
    for number in 0..operations {
        if number % 2 == 1 {
            let at = mine.pop().expect("pushed before");
            session.transaction(|tx| tx.free(at))?;
        } else {
            mine.push(session.transaction(|tx| {
                let at = tx.alloc(40)?;
                tx.store(at, number)?;
                Ok::<_, TxError>(at)
            })?);
        }
    }
    Ok(())
}

/// Seconds for all operations by so many threads.
fn seconds(threads: u64) -> f64 {
    let options = HeapOptions {
        threads,
        bytes: 128 << 20,
        bytes_max: 128 << 20,
        log_bytes: 4096,
        ..HeapOptions::default()
    };
    let pool = PoolOptions {
        dram_bytes: options.dram_bytes(),
        bytes_max: options.pm_bytes_max(),
        ..PoolOptions::default()
    };
    let pool = Pool::temporary(options.pm_bytes(), &pool).expect("room for the pool");
    let heap = Heap::create(&pool.memory(0), "crowd", 1, &options).expect("good options");
    let begun = Instant::now();
    std::thread::scope(|scope| {
        for thread in 0..threads as usize {
            let pool = &pool;
            scope.spawn(move || {
                let memory = pool.memory(thread);
                let mut session = heap.join(&memory);
                work(&mut session, OPERATIONS / threads).expect("room");
            });
        }
    });
    begun.elapsed().as_secs_f64()
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

fn main() {
    let few_and_many: Vec<[f64; 2]> = (0..ROUNDS).map(|_| [64, 1024].map(seconds)).collect();
    let few = median(few_and_many.iter().map(|pair| pair[0]).collect());
    let many = median(few_and_many.iter().map(|pair| pair[1]).collect());
    let ratio = median(few_and_many.iter().map(|pair| pair[1] / pair[0]).collect());
    println!("{OPERATIONS} operations, medians of {ROUNDS} rounds");
    println!("  64 threads    {few:.3} s");
    println!("  1024 threads  {many:.3} s");
    println!("  ratio         {ratio:.2}");
}
