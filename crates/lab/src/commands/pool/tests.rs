//! What is said of a pool whose structures its types describe, whole and torn.

use super::*;
use fields::{BTree, MapField};
use seawall_native::{Pool, PoolOptions};
use seawall_runtime::HeapOptions;
use seawall_runtime::typed::{self, Persist};

#[derive(Clone, Copy, Persist)]
struct Maps {
    entries: BTree<[u8], [u8]>,
    counts: BTree<str, u64>,
}

/// Writes a pool to the file, and gives its bytes as they were when half of that was done.
fn written(path: &Path) -> Vec<u8> {
    let options =
        HeapOptions { threads: 1, bytes: 8 << 20, bytes_max: 8 << 20, ..typed::options::<Maps>() };
    let dram_bytes = options.dram_bytes() + fields::DRAM_BYTES;
    let mapped = PoolOptions { dram_bytes, ..PoolOptions::default() };
    let pool = Pool::create(path, options.pm_bytes(), &mapped).unwrap();
    let memory = pool.memory(0);
    typed::create::<Maps, _, HeapError>(&memory, "maps", 7, &options, |pool| {
        let (mut session, root) = (pool.join(&memory), pool.root());
        let mut between = Vec::new();
        for round in 0..4000u64 {
            let key = format!("{:05}", round * 7919 % 3000);
            let value = vec![round as u8; 100 + (round % 50) as usize];
            session.transaction(|tx| {
                root.at(Maps::ENTRIES).insert(tx, key.as_bytes(), &value)?;
                root.at(Maps::COUNTS).insert(tx, &key[..2], &round)
            })?;
            if round == 2000 {
                between = std::fs::read(path).unwrap();
            }
        }
        assert_eq!(root.at(Maps::ENTRIES).len(&mut session)?, 3000);
        Ok(between)
    })
    .unwrap()
}

#[test]
fn a_torn_copy_is_damaged_though_its_heap_is_sound_and_a_whole_one_is_sound() {
    let folder = tempfile::tempdir().unwrap();
    let (file, copy) = (folder.path().join("maps.pool"), folder.path().join("copy.pool"));
    let between = written(&file);
    let after = std::fs::read(&file).unwrap();
    let said = |bytes: &[u8]| {
        std::fs::write(&copy, bytes).unwrap();
        let report = examine(&copy).unwrap();
        (report.is_damaged(), report.verdict())
    };
    for whole in [&between, &after] {
        let (is_damaged, verdict) = said(whole);
        let is_brief = !is_damaged && !verdict.contains("not looked at");
        assert!(is_brief && verdict.contains("copy.pool: sound"), "{verdict}");
    }
    let used = after.iter().rposition(|byte| *byte != 0).unwrap();
    let torn = (1..16).map(|part| {
        let cut = used * part / 16 / 4096 * 4096;
        said(&[&between[..cut], &after[cut..]].concat()).1
    });
    let torn: Vec<String> = torn.collect();
    let of_trees =
        torn.iter().filter(|verdict| verdict.contains("DAMAGED") && verdict.contains("tree"));
    assert!(of_trees.count() > 3, "{torn:?}");
}

#[test]
fn a_pool_in_use_is_not_examined_and_its_user_is_told_how_to_copy_it() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("a.pool");
    let _pool = Pool::create(&file, 8192, &PoolOptions::default()).unwrap();
    let error = examine(&file).unwrap_err().to_string();
    assert!(
        error.contains("a.pool: in use") && error.contains("between two transactions"),
        "{error}"
    );
}
