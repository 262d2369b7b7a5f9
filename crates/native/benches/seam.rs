//! What the seam costs on this machine, against the bare instructions, in one run.
//!
//! `cargo bench -p seawall-native`. Each row runs two ways of doing a thing in turn, pass by pass,
//! and prints the median time of each and the median of the ratios of the pairs. Files are in the
//! folder for temporary files (`TMPDIR`); on a tmpfs the lines end in DRAM.

use seawall_memory::{Addr, Memory, MemoryExt};
use seawall_native::{Cpu, NativeMemory, Pool, PoolOptions};
use std::hint::black_box;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::{Acquire, Release};
use std::time::Instant;

const PASSES: usize = 41;
const BYTES: u64 = 1 << 18;
const LINE: u64 = 64;

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// Nanoseconds of one of `count` repetitions.
fn time(count: u64, mut action: impl FnMut(u64)) -> f64 {
    let start = Instant::now();
    (0..count).for_each(&mut action);
    start.elapsed().as_secs_f64() * 1e9 / count as f64
}

/// Prints a row: two ways of doing `count` things.
fn pair(name: &str, count: u64, mut ours: impl FnMut(u64), mut bare: impl FnMut(u64)) {
    let (mut one, mut other, mut ratios) = (Vec::new(), Vec::new(), Vec::new());
    for pass in 0..PASSES + 2 {
        let (a, b) = (time(count, &mut ours), time(count, &mut bare));
        if pass >= 2 {
            one.push(a);
            other.push(b);
            ratios.push(a / b);
        }
    }
    println!("{name:36} {:9.2} {:9.2} {:7.2}", median(one), median(other), median(ratios));
}

#[cfg(target_arch = "x86_64")]
mod bare {
    use std::arch::asm;

    pub(super) fn sfence() {
        // SAFETY: a fence touches nothing.
        unsafe { asm!("sfence", options(nostack, preserves_flags)) };
    }

    /// # Safety
    /// `at` lies in live memory, and the CPU has `clwb`.
    pub(super) unsafe fn clwb(at: *mut u8) {
        // SAFETY: the caller vouches for it.
        unsafe { asm!("clwb [{}]", in(reg) at, options(nostack, preserves_flags)) };
    }

    /// # Safety
    /// `at` is the start of a line of live memory.
    pub(super) unsafe fn line_by_words(at: *mut u8, value: u64) {
        for word in 0..8 {
            // SAFETY: the caller vouches for the line.
            unsafe {
                asm!("movnti [{}], {}", in(reg) at.add(8 * word), in(reg) value,
                    options(nostack, preserves_flags));
            }
        }
    }

    /// # Safety
    /// As [`line_by_words`], and the CPU has AVX-512.
    #[target_feature(enable = "avx512f")]
    pub(super) unsafe fn line_at_once(at: *mut u8, value: u64) {
        use std::arch::x86_64::{_mm512_set1_epi64, _mm512_stream_si512};
        // SAFETY: the caller vouches for the line.
        unsafe { _mm512_stream_si512(at.cast(), _mm512_set1_epi64(value as i64)) };
    }
}

/// A line of memory of our own.
#[derive(Clone, Default)]
#[repr(align(64))]
struct OwnLine {
    _words: [u64; 8],
}

fn plain_accesses(memory: &NativeMemory<'_>) {
    let words: Vec<AtomicU64> = (0..BYTES / 8).map(AtomicU64::new).collect();
    let index = |i: u64| (i.wrapping_mul(0x9e37_79b9) % (BYTES / 8)) as usize;
    pair(
        "load 8 bytes / a bare load",
        1 << 16,
        |i| {
            black_box(memory.load::<u64>(Addr::pm(8 * index(i) as u64)));
        },
        |i| {
            black_box(words[index(i)].load(Acquire));
        },
    );
    pair(
        "store 8 bytes / a bare store",
        1 << 16,
        |i| memory.store(Addr::pm(8 * index(i) as u64), i),
        |i| words[index(i)].store(i, Release),
    );
}

/// The line where repetition `i` of `count` lines begins; the last of them is inside `BYTES`.
fn line(i: u64, count: u64) -> u64 {
    i * count % (BYTES / LINE - count) * LINE
}

#[cfg(target_arch = "x86_64")]
fn persists(memory: &NativeMemory<'_>) {
    pair("drain, nothing pending / sfence", 1 << 14, |_| memory.drain(), |_| bare::sfence());
    pair("order, nothing pending / sfence", 1 << 14, |_| memory.order(), |_| bare::sfence());
    let mut own = vec![OwnLine::default(); (BYTES / LINE) as usize];
    let base: *mut u8 = own.as_mut_ptr().cast();
    for count in [1, 4, 16] {
        let seam = |i: u64| {
            let start = Addr::pm(line(i, count));
            (0..count).for_each(|n| memory.store(start.plus(n * LINE), i));
            memory.persist(start, count * LINE);
        };
        let bare = |i: u64| {
            for n in 0..count {
                // SAFETY: the lines are in `own`; `main` saw that the CPU has clwb.
                unsafe {
                    let at = base.add((line(i, count) + n * LINE) as usize);
                    at.cast::<u64>().write_volatile(i);
                    bare::clwb(at);
                }
            }
            bare::sfence();
        };
        pair(&format!("store + persist, {count} lines / clwb"), 1 << 10, seam, bare);
    }
}

#[cfg(target_arch = "x86_64")]
fn past_caches(memory: &NativeMemory<'_>) {
    let mut own = vec![OwnLine::default(); (BYTES / LINE) as usize];
    let base: *mut u8 = own.as_mut_ptr().cast();
    let bytes = [7u8; 8 * LINE as usize];
    for count in [1, 2, 3, 4, 6, 8] {
        // These lines of the pool are never read, so they stay out of the caches.
        let seam = |i: u64| {
            let at = Addr::pm(2 * BYTES + line(i, count));
            memory.write_nt(at, &bytes[..(count * LINE) as usize]);
            memory.drain();
        };
        let place = |i, n| (line(i, count) + n * LINE) as usize;
        let words = |i: u64| {
            // SAFETY: the lines are in `own`.
            (0..count).for_each(|n| unsafe { bare::line_by_words(base.add(place(i, n)), i) });
            bare::sfence();
        };
        pair(&format!("write_nt {count} lines / movnti"), 1 << 10, seam, words);
        if std::arch::is_x86_feature_detected!("avx512f") {
            let whole = |i: u64| {
                // SAFETY: as above, and the CPU has AVX-512.
                (0..count).for_each(|n| unsafe { bare::line_at_once(base.add(place(i, n)), i) });
                bare::sfence();
            };
            pair(&format!("write_nt {count} lines / AVX-512"), 1 << 10, seam, whole);
        }
    }
}

/// Milliseconds of making, growing and opening pools; one median each, as nothing is like it.
fn pools() {
    const MIB: u64 = 1 << 20;
    let folder = tempfile::tempdir().expect("a folder for pools");
    let path = folder.path().join("a.pool");
    let growing = PoolOptions { bytes_max: 1 << 40, ..PoolOptions::default() };
    let clock = |what: &str, action: &mut dyn FnMut() -> Option<Pool>| {
        let mut times = Vec::new();
        for _ in 0..9 {
            let start = Instant::now();
            let pool = action();
            times.push(start.elapsed().as_secs_f64() * 1e3);
            drop(pool);
        }
        println!("{what:36} {:9.3} ms", median(times));
    };
    let create = |bytes: u64| {
        let _ = std::fs::remove_file(&path);
        Some(Pool::create(&path, bytes, &growing).expect("room for a pool"))
    };
    clock("create 1 MiB that may be 1 TiB", &mut || create(MIB));
    clock("create 1 GiB", &mut || create(1 << 30));
    clock("open 1 GiB", &mut || Pool::open(&path, &growing, |_, _| Ok(())).ok());
    let _ = std::fs::remove_file(&path);
    let pool = Pool::create(&path, MIB, &growing).expect("room for a pool");
    let memory = pool.memory(0);
    for step in [MIB / 16, MIB, 16 * MIB] {
        clock(&format!("grow by {} KiB", step >> 10), &mut || {
            assert!(memory.grow(pool.bytes() + step));
            None
        });
    }
}

fn main() {
    let pool = Pool::temporary(4 * BYTES, &PoolOptions::default()).expect("room for a pool");
    let memory = pool.memory(0);
    (0..BYTES / 2).for_each(|i| memory.store(Addr::pm(8 * i), 0u64));
    let cpu = Cpu::detect();
    let (kind, folder) = (pool.instruction().kind, std::env::temp_dir());
    println!("{}, flush {kind}, files in {}", Cpu::model_name(), folder.display());
    println!("{:36} {:>9} {:>9} {:>7}", "ours / bare", "ours, ns", "bare, ns", "ratio");
    plain_accesses(&memory);
    #[cfg(target_arch = "x86_64")]
    if cpu.clwb {
        persists(&memory);
        past_caches(&memory);
    }
    pools();
}
