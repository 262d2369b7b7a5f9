//! Looks keys up, for an instruction counter: twice as many as the argument says, in a map of
//! 100,000 keys; the difference of two counts is that of the look-ups alone.
use seawall_collections::{Map, MapOptions};
use seawall_native::{Pool, PoolOptions};
use seawall_runtime::{Heap, HeapOptions};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let rounds: u64 = std::env::args().nth(1).map_or(Ok(1), |arg| arg.parse())?;
    let threads: u64 = std::env::args().nth(2).map_or(Ok(2), |arg| arg.parse())?;
    let options =
        HeapOptions { bytes: 16 << 20, bytes_max: 16 << 20, threads, ..HeapOptions::default() };
    let pool_options = PoolOptions { dram_bytes: options.dram_bytes(), ..PoolOptions::default() };
    let pool = Pool::temporary(options.pm_bytes(), &pool_options)?;
    let memory = pool.memory(0);
    let heap = Heap::create(&memory, "lookups", 42, &options)?;
    let mut session = heap.join(&memory);
    let map = session.redo(|tx| Map::create(tx, heap.root(), &MapOptions::default()))?;
    let keys = 100_000u64;
    for key in 0..keys {
        map.insert(&mut session, key * 7, key)?;
    }
    let mut found = 0;
    for number in 0..rounds {
        let key = number.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
        let key = (key * keys) >> 32;
        found += map.get(&memory, key * 7).unwrap_or(0) & 1;
    }
    println!("{found}");
    Ok(())
}
