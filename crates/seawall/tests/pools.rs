//! Making, opening and refusing pools.

use seawall::{Error, Logging, Map, MapField, OpenError, Options, Persist, Ptr, ReadError};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

#[derive(Clone, Copy, Debug, PartialEq, Persist)]
struct Root {
    count: u64,
    words: [u64; 4],
}

mod other {
    use seawall::Persist;

    #[derive(Clone, Copy, Persist)]
    pub(crate) struct Root {
        pub(crate) count: u64,
        pub(crate) words: [u64; 5],
    }
}

fn folder() -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().expect("room");
    let path = folder.path().join("a.pool");
    (folder, path)
}

fn count(pool: &seawall::Pool<Root>) -> u64 {
    pool.read(|view, root| view.get(root.at(Root::COUNT))).expect("whole")
}

fn add(pool: &seawall::Pool<Root>, by: u64) {
    let added = pool.transaction(|tx, root| tx.update(root.at(Root::COUNT), |count| count + by));
    added.expect("it fits");
}

#[test]
fn a_pool_is_made_once_and_found_again_by_its_path_and_type() {
    let (_folder, path) = folder();
    for run in 0..3 {
        let pool = seawall::open::<Root>(&path, Options::default()).expect("room");
        assert_eq!(count(&pool), run);
        add(&pool, 1);
    }
}

#[test]
fn of_those_who_open_a_new_pool_at_once_one_makes_it_and_no_other_is_told_to_remove_it() {
    let (_folder, path) = folder();
    for round in 0..50 {
        let start = Barrier::new(3);
        let opened = || {
            start.wait();
            let pool = seawall::open::<Root>(&path, Options::default());
            start.wait();
            pool.map(|_| ()).map_err(|error| error.to_string())
        };
        let all = std::thread::scope(|scope| {
            let threads = [(); 3].map(|()| scope.spawn(opened));
            threads.map(|thread| thread.join().expect("no panic"))
        });
        let refused: Vec<_> = all.iter().filter_map(|one| one.as_ref().err()).collect();
        let is_told = |text: &&String| text.contains("in use") || text.contains("just making");
        assert!(refused.len() == 2 && refused.iter().all(is_told), "{round}: {all:?}");
        std::fs::remove_file(&path).expect("it was made");
    }
}

#[test]
fn what_was_committed_is_there_after_an_end_without_a_close() {
    let (_folder, path) = folder();
    let copy = path.with_extension("copy");
    let pool = seawall::open::<Root>(&path, Options::default()).expect("room");
    add(&pool, 7);
    std::fs::copy(&path, &copy).expect("room");
    add(&pool, 1);
    let copied = seawall::open::<Root>(&copy, Options::default()).expect("it recovers");
    assert_eq!((count(&copied), count(&pool)), (7, 8));
}

#[test]
fn a_copy_that_is_made_in_a_read_is_whole_while_others_write() {
    let (_folder, path) = folder();
    let pool = seawall::open::<Root>(&path, Options::default()).expect("room");
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                while !is_over.load(Relaxed) {
                    let added = pool.transaction(|tx, root| {
                        let value = tx.get(root)?.count + 1;
                        tx.set(root, Root { count: value, words: [value; 4] })
                    });
                    added.expect("it fits");
                }
            });
        }
        for number in 0..20 {
            let copy = path.with_extension(number.to_string());
            let made = pool.read(|_, _| Ok::<_, ReadError>(std::fs::copy(&path, &copy)));
            made.expect("whole").expect("room");
            let copied = seawall::open::<Root>(&copy, Options::default()).expect("it recovers");
            let root = copied.read(|view, root| view.get(root)).expect("whole");
            assert_eq!(root.words, [root.count; 4]);
        }
        is_over.store(true, Relaxed);
    });
}

#[test]
fn a_transaction_that_fails_or_panics_changes_nothing() {
    let (_folder, path) = folder();
    let pool = seawall::open::<Root>(&path, Options::default()).expect("room");
    add(&pool, 5);
    for logging in [Logging::Redo, Logging::Undo] {
        let failed = pool.transaction_with(logging, |tx, root| {
            tx.set(root.at(Root::COUNT), 9)?;
            Err::<(), _>(Error::Types)
        });
        assert_eq!(failed, Err(Error::Types));
        let panics = AssertUnwindSafe(|| {
            pool.transaction_with(logging, |tx, root| -> Result<(), Error> {
                tx.set(root.at(Root::COUNT), 9)?;
                panic!("a bug of the program")
            })
        });
        assert!(catch_unwind(panics).is_err());
        assert_eq!(count(&pool), 5);
    }
    add(&pool, 1);
    assert_eq!(count(&pool), 6);
}

#[test]
fn a_pool_of_other_types_is_refused_with_the_field_and_left_alone() {
    let (_folder, path) = folder();
    drop(seawall::open::<Root>(&path, Options::default()).expect("room"));
    let before = std::fs::read(&path).expect("it is there");
    let refused = seawall::open::<other::Root>(&path, Options::default()).expect_err("another");
    assert!(matches!(refused, OpenError::Content { .. }), "{refused}");
    assert!(refused.to_string().contains("words was [u64; 4] and is [u64; 5]"), "{refused}");
    assert_eq!(std::fs::read(&path).expect("it is there"), before);
}

#[test]
fn files_that_are_no_pools_or_in_use_are_refused_with_their_name() {
    let (_folder, path) = folder();
    std::fs::write(&path, vec![b'x'; 8192]).expect("room");
    let refused = seawall::open::<Root>(&path, Options::default()).expect_err("no pool");
    assert!(matches!(refused, OpenError::Content { .. }), "{refused}");
    assert!(refused.to_string().contains("a.pool: "), "{refused}");
    std::fs::remove_file(&path).expect("it is there");
    let _pool = seawall::open::<Root>(&path, Options::default()).expect("room");
    let refused = seawall::open::<Root>(&path, Options::default()).expect_err("in use");
    assert!(matches!(refused, OpenError::File(_)), "{refused}");
    assert!(refused.to_string().contains("in use"), "{refused}");
    let refused = seawall::open::<Root>(path.with_extension("b"), Options::default().threads(0));
    assert!(refused.expect_err("no threads").to_string().contains("threads is 0"));
    assert!(!path.with_extension("b").exists());
}

#[test]
fn a_pool_grows_as_it_is_filled_up_to_its_limit() {
    let (_folder, path) = folder();
    let options = Options::default().threads(1).bytes_max(4 << 20).log_bytes(1 << 20);
    #[derive(Clone, Copy, Persist)]
    struct Filled {
        names: Map<u64, [u8]>,
    }
    let pool = seawall::open::<Filled>(&path, options).expect("room");
    let before = pool.bytes();
    let mut keys = 0;
    let full = loop {
        let filled = pool
            .transaction(|tx, root| root.at(Filled::NAMES).insert(tx, &keys, &[7; 1000]).map(drop));
        match filled {
            Ok(()) => keys += 1,
            Err(error) => break error,
        }
    };
    assert!(matches!(full, Error::Full { .. }), "{full}");
    assert!(pool.bytes() > before && keys > 2000, "{keys} keys: {full}");
    let freed = pool.transaction(|tx, root| root.at(Filled::NAMES).clear(tx));
    assert!(matches!(freed, Err(Error::TooLarge { .. })) || freed.is_ok());
    let len = pool.read(|view, root| root.at(Filled::NAMES).len(view)).expect("whole");
    assert!(len == keys || len == 0);
}

#[test]
#[should_panic(expected = "in the pool already")]
fn a_call_within_a_call_is_refused_instead_of_waiting_for_ever() {
    let (_folder, path) = folder();
    let pool = seawall::open::<Root>(&path, Options::default()).expect("room");
    let _ = pool.read(|_, _: Ptr<'_, Root>| Ok::<_, Error>(count(&pool)));
}
