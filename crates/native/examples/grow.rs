//! A pool that grows, and keeps what it said through a crash.
//!
//! `grow FILE fill STEPS` makes a pool and lets it grow by so many steps, or until the disk is
//! full, saying after each how long it is; then kill it, or the power.
//! `grow FILE check BYTES` opens the pool and looks for all that had been said: exit code 0 if it
//! is there, 1 if not.

use seawall_memory::{Addr, MemoryExt};
use seawall_native::{Pool, PoolOptions};
use std::path::Path;
use std::process::ExitCode;

const STEP_BYTES: u64 = 1 << 18;

/// The last word of each step holds where the step ends.
fn last_word(end: u64) -> Addr {
    Addr::pm(end - 8)
}

/// Each step is written before the next one is made: nothing follows the last growth, so that only
/// the growth itself can have made it durable.
fn fill(path: &Path, steps: u64) -> Result<(), String> {
    let options = PoolOptions { bytes_max: 1 << 40, ..PoolOptions::default() };
    let pool = Pool::create(path, STEP_BYTES, &options).map_err(|error| error.to_string())?;
    let memory = pool.memory(0);
    println!("{}", pool.durability());
    for end in (1..=steps).map(|step| step * STEP_BYTES) {
        memory.store(last_word(end), end);
        memory.persist(last_word(end), 8);
        if let Err(error) = pool.grow(end + STEP_BYTES) {
            println!("{error}");
            break;
        }
        println!("grown to {} bytes", end + STEP_BYTES);
    }
    Ok(())
}

fn check(path: &Path, bytes: u64) -> Result<(), String> {
    let long_enough = |_: &[u8], there: u64| match there >= bytes {
        true => Ok(()),
        false => Err(format!("has {there} bytes, and had said {bytes}")),
    };
    let pool = Pool::open(path, &PoolOptions::default(), long_enough);
    let pool = pool.map_err(|error| error.to_string())?;
    let memory = pool.memory(0);
    for end in (1..bytes / STEP_BYTES).map(|step| step * STEP_BYTES) {
        let found: u64 = memory.load(last_word(end));
        if found != end {
            return Err(format!("the step that ends at {end} is lost: it holds {found}"));
        }
    }
    println!("all of {bytes} bytes is there, of {} in the file", pool.bytes());
    Ok(())
}

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let number = |text: &str| text.parse().map_err(|_| format!("{text}: not a number"));
    let done = match words[..] {
        [path, "fill", steps] => number(steps).and_then(|steps| fill(Path::new(path), steps)),
        [path, "check", bytes] => number(bytes).and_then(|bytes| check(Path::new(path), bytes)),
        _ => Err("usage: grow FILE fill STEPS | grow FILE check BYTES".to_string()),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(text) => {
            eprintln!("{text}");
            ExitCode::FAILURE
        }
    }
}
