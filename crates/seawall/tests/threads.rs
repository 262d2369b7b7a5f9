//! Threads of the system: transactions exclude each other, and nothing is lost.

use seawall::{Error, Map, MapField, Options, Persist};

#[derive(Clone, Copy, Persist)]
struct Root {
    count: u64,
    twin: u64,
    names: Map<u64, u64>,
}

#[test]
fn no_update_is_lost_and_no_read_sees_half_of_one() {
    let folder = tempfile::tempdir().expect("room");
    let pool = seawall::open::<Root>(folder.path().join("a.pool"), Options::default());
    let pool = &pool.expect("room");
    std::thread::scope(|scope| {
        for thread in 0..6 {
            scope.spawn(move || {
                for step in 0..200 {
                    if thread % 3 == 2 {
                        let twins = pool.read(|view, root| {
                            let names = root.at(Root::NAMES).len(view)?;
                            let root = view.get(root)?;
                            Ok::<_, Error>((root.count, root.twin, names))
                        });
                        let (count, twin, names) = twins.expect("whole");
                        assert_eq!((count, count), (twin, names));
                        continue;
                    }
                    let added = pool.transaction(|tx, root| {
                        tx.update(root.at(Root::COUNT), |count| count + 1)?;
                        root.at(Root::NAMES).insert(tx, &(thread * 1000 + step), &step)?;
                        tx.update(root.at(Root::TWIN), |twin| twin + 1)
                    });
                    added.expect("it fits");
                }
            });
        }
    });
    let count = pool.read(|view, root| view.get(root.at(Root::COUNT)));
    assert_eq!(count, Ok(800));
}

#[test]
fn more_threads_than_the_pool_was_made_for_take_turns() {
    let folder = tempfile::tempdir().expect("room");
    let options = Options::default().threads(2);
    let pool = &seawall::open::<Root>(folder.path().join("a.pool"), options).expect("room");
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                for _ in 0..50 {
                    let added = pool
                        .transaction(|tx, root| tx.update(root.at(Root::COUNT), |count| count + 1));
                    added.expect("it fits");
                }
            });
        }
    });
    assert_eq!(pool.read(|view, root| view.get(root.at(Root::COUNT))), Ok(400));
}
