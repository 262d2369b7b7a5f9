//! Damaged pools: each is opened or refused by a text, and ends no program.

use crate::support::{compile, number_of, pool_in, pools, printed, run};
use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use seawall_clib::{Whose, told};
use seawall_memory::Image;
use seawall_runtime::Heap;
use std::fs;

/// Where damage is most likely to matter: the header, the root and the words of lanes, the table of
/// chunks, and the states and the first objects of a chunk; and anywhere.
fn place(rng: &mut Xoshiro256PlusPlus, bytes: usize) -> usize {
    let below = match rng.random_range(0..5) {
        0 => 256,
        1 => 64 << 10,
        2 => 4 << 20,
        _ => bytes,
    };
    rng.random_range(0..below)
}

/// `SEAWALL_DAMAGES` tries more.
#[test]
fn a_damaged_pool_is_opened_or_refused_and_ends_no_program() {
    let test = "a_damaged_pool_is_opened_or_refused";
    let (Some(makes), Some(opens)) = (compile(test, "script"), compile(test, "hostile")) else {
        return;
    };
    let folder = pools();
    let pool = pool_in(&folder, "pool");
    let pool = pool.to_str().unwrap();
    // Killed half-way, so that there is something to recover.
    run(&makes, Whose::Ours, &["run", pool, "5", "150", "150"]);
    let whole = fs::read(pool).unwrap();
    assert!(printed(&opens, Whose::Ours, &[pool]).starts_with("1, opened"));
    let used = whole.iter().rposition(|byte| *byte != 0).unwrap();
    let mut rng = Xoshiro256PlusPlus::seed_from_u64(29);
    let mut refused = 0;
    for damage in 0..number_of("SEAWALL_DAMAGES", 60) {
        let mut bytes = whole.clone();
        if damage % 10 == 9 {
            bytes.truncate(rng.random_range(0..bytes.len()));
        } else {
            for _ in 0..rng.random_range(1..20) {
                bytes[place(&mut rng, used)] = rng.random();
            }
        }
        fs::write(pool, bytes).unwrap();
        let output = run(&opens, Whose::Ours, &[pool]);
        let code = output.status.code();
        assert!(matches!(code, Some(0 | 1)), "damage {damage}: {}", told(&output));
        assert!(!output.stdout.starts_with(b"1, refused"), "damage {damage}: {}", told(&output));
        refused += u64::from(code == Some(1));
    }
    assert!(refused > 5, "{refused}");
}

#[test]
fn a_pool_whose_root_object_is_none_is_neither_whole_nor_opened() {
    let test = "a_pool_whose_root_object_is_none_is_neither_whole_nor_opened";
    let (Some(makes), Some(opens)) = (compile(test, "script"), compile(test, "hostile")) else {
        return;
    };
    let folder = pools();
    let pool = pool_in(&folder, "pool");
    let pool = pool.to_str().unwrap();
    printed(&makes, Whose::Ours, &["run", pool, "5", "20"]);
    assert!(printed(&opens, Whose::Ours, &[pool]).starts_with("1, opened"));
    let whole = fs::read(pool).unwrap();
    let head = Image::from_pm(whole[..4096].to_vec(), 0);
    let heap = Heap::read(&head, "libpmemobj", whole.len() as u64).unwrap();
    let root = heap.root().offset() as usize;
    for no_object in [1, 4096, whole.len() as u64 - 8, u64::MAX] {
        let mut bytes = whole.clone();
        bytes[root..root + 8].copy_from_slice(&no_object.to_le_bytes());
        fs::write(pool, bytes).unwrap();
        let output = run(&opens, Whose::Ours, &[pool]);
        let is_refused = told(&output).contains("0, refused: the pool is damaged: its root");
        assert!(is_refused, "{no_object}: {}", told(&output));
    }
}
