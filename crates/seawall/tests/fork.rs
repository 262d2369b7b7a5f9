//! Forks of a process that has a pool: the child's calls are errors, and whatever it does with its
//! copy of the pool, the parent loses nothing, also if it is killed soon after.
//!
//! What a process knows of its pool beside the file (generations, free space, locks) is copied by a
//! fork. A child that acted on its copy did so on the parent's file.

use seawall::{Error, Logging, Map, MapField, OpenError, Options, Persist, ReadError};
use seawall_native::PoolError;
use std::cell::RefCell;
use std::io::{Read, Write};
use std::os::unix::process::CommandExt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

#[derive(Clone, Copy, Persist)]
struct Root {
    count: u64,
    map: Map<u64, u64>,
}

type Pool = seawall::Pool<Root>;

const PATIENCE: Duration = Duration::from_secs(60);
/// Keys that are there at the fork, and when the child goes on: meanwhile the logs are written
/// full, and begin anew, several times.
const BEFORE: u64 = 300;
const UNTIL: u64 = 2000;
/// What a child or a parent ends with that has done all as it should.
const GOOD: i32 = 7;

/// Runs `child` in a forked process, which ends with what it gives, or 99 if it panics.
fn forked(child: impl FnOnce() -> i32) -> i32 {
    // SAFETY: the C library leaves its own locks usable in the child, which runs `child` alone and
    // ends without returning.
    match unsafe { libc::fork() } {
        0 => {
            let code = catch_unwind(AssertUnwindSafe(child)).unwrap_or(99);
            // SAFETY: it ends this process, and touches no memory.
            unsafe { libc::_exit(code) }
        }
        id => id,
    }
}

/// The status of a process that has ended; one that hangs is killed, and fails the test.
fn status_of(id: i32) -> i32 {
    let (began, mut status) = (Instant::now(), 0);
    while began.elapsed() < PATIENCE {
        // SAFETY: the status is a variable.
        if unsafe { libc::waitpid(id, &mut status, libc::WNOHANG) } == id {
            return status;
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    // SAFETY: it is a child of this process, which has not waited for it.
    unsafe { libc::kill(id, libc::SIGKILL) };
    panic!("process {id} hangs");
}

fn code_of(id: i32) -> i32 {
    let status = status_of(id);
    assert!(libc::WIFEXITED(status), "status {status:x}");
    libc::WEXITSTATUS(status)
}

/// Opens the pool once who had it has ended: a process that was killed has its files for a moment.
fn open(path: &Path) -> Pool {
    let began = Instant::now();
    loop {
        match seawall::open(path, Options::default()) {
            Err(OpenError::File(PoolError::InUse { .. })) if began.elapsed() < PATIENCE => {
                std::thread::sleep(Duration::from_millis(1));
            }
            opened => return opened.expect("it opens"),
        }
    }
}

fn put(pool: &Pool, key: u64) {
    let put = pool.transaction(|tx, root| {
        tx.update(root.at(Root::COUNT), |count| count + 1)?;
        root.at(Root::MAP).insert(tx, &key, &(3 * key)).map(drop)
    });
    put.expect("it fits");
}

/// How many keys from 0 on are missing or wrong, of those that were announced.
fn missing(pool: &Pool, announced: u64) -> u64 {
    let missing = pool.read(|view, root| {
        let mut missing = announced.abs_diff(view.get(root.at(Root::COUNT))?);
        for key in 0..announced {
            missing += u64::from(root.at(Root::MAP).get(view, &key)? != Some(3 * key));
        }
        Ok::<_, ReadError>(missing)
    });
    missing.expect("whole")
}

fn folder() -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().expect("room");
    let path = folder.path().join("a.pool");
    (folder, path)
}

/// A process opens the pool and puts keys; its child does `act` between two of them; then the
/// process puts some more and is killed. All that it put must be there.
fn holds(what: &str, act: impl Fn(Pool) -> i32) {
    let (_folder, path) = folder();
    for more in 0..12 {
        let _ = std::fs::remove_file(&path);
        let announced = UNTIL + more;
        let parent = forked(|| {
            let mut pool = Some(open(&path));
            (0..BEFORE).for_each(|key| put(pool.as_ref().expect("the parent's"), key));
            let (mut waits, mut goes) = std::io::pipe().expect("a pipe");
            let child = forked(|| {
                waits.read_exact(&mut [0]).expect("the parent goes on");
                act(pool.take().expect("the child's copy"))
            });
            let Some(pool) = &pool else { unreachable!("only the child takes it") };
            (BEFORE..UNTIL).for_each(|key| put(pool, key));
            goes.write_all(&[1]).expect("the child waits");
            let code = code_of(child);
            (UNTIL..announced).for_each(|key| put(pool, key));
            if code == GOOD {
                // SAFETY: it ends this process.
                unsafe { libc::kill(libc::getpid(), libc::SIGKILL) };
            }
            code
        });
        let status = status_of(parent);
        assert!(libc::WIFSIGNALED(status), "{what}, {more}: the child ends with {status:x}");
        assert_eq!(missing(&open(&path), announced), 0, "{what}, {more}");
    }
}

fn is_refused<T: std::fmt::Debug>(outcome: Result<T, Error>) -> bool {
    let Err(error) = outcome else { return false };
    let text = error.to_string();
    let names = text.contains("before this process was forked") && text.contains("daemon");
    names && error == Error::Access(ReadError::Inherited)
}

/// Every call is an error.
fn refuses(pool: &Pool) -> bool {
    let of_pool = [
        pool.transaction(|tx, root| tx.set(root.at(Root::COUNT), 0)),
        pool.transaction_with(Logging::Undo, |tx, root| tx.set(root.at(Root::COUNT), 0)),
        pool.read(|view, root| Ok(view.get(root.at(Root::COUNT)).map(drop)?)),
    ];
    let of_handle = pool.work(|thread| {
        [
            thread.transaction(|tx, root| tx.set(root.at(Root::COUNT), 0)),
            thread.read(|view, root| Ok(view.get(root.at(Root::COUNT)).map(drop)?)),
        ]
    });
    of_pool.into_iter().chain(of_handle).all(is_refused)
}

fn ended(is_good: bool) -> i32 {
    if is_good { GOOD } else { 1 }
}

#[test]
fn a_parent_loses_nothing_however_its_child_ends() {
    holds("drops the pool", |pool| {
        drop(pool);
        GOOD
    });
    holds("works in it", |pool| ended((0..50).all(|_| refuses(&pool))));
    holds("panics", |pool| {
        let _quiet = std::panic::take_hook();
        let panicked = catch_unwind(AssertUnwindSafe(move || {
            let _pool = pool;
            panic!("planted");
        }));
        ended(panicked.is_err())
    });
    holds("ends by exit", |_pool| std::process::exit(GOOD));
    holds("becomes another program", |_pool| {
        drop(Command::new("sh").args(["-c", "exit 7"]).exec());
        1
    });
    holds("leaves a handle in use", |pool| {
        pool.work(|thread| thread.read(|_, _| Ok::<_, ReadError>(())).is_err());
        std::mem::forget(pool);
        GOOD
    });
    holds("has a pool of its own", |pool| {
        let (_folder, path) = folder();
        let own = open(&path);
        (0..100).for_each(|key| put(&own, key));
        ended(refuses(&pool) && missing(&own, 100) == 0)
    });
    holds("forks again", |pool| ended(code_of(forked(|| ended(refuses(&pool)))) == GOOD));
}

/// How the child of a fork in a transaction goes on in the closure.
#[derive(Clone, Copy, PartialEq, Debug)]
enum Way {
    Succeeds,
    Fails,
    Panics,
}

/// In the closure: each access is an error; then the closure ends as `way` says.
fn goes_on<T>(way: Way, refused: bool, value: T) -> Result<T, Error> {
    assert!(refused);
    match way {
        Way::Succeeds => Ok(value),
        Way::Fails => Err(Error::Busy),
        Way::Panics => panic!("planted"),
    }
}

fn in_a_transaction(path: &Path, logging: Logging, way: Way) -> i32 {
    let pool = open(path);
    (0..20).for_each(|key| put(&pool, key));
    let process = std::process::id();
    let outcome = pool.transaction_with(logging, |tx, root| {
        let count = root.at(Root::COUNT);
        tx.update(count, |count| count + 1)?;
        root.at(Root::MAP).insert(tx, &20, &60)?;
        // SAFETY: the child goes on alone in its copy of this closure.
        let child = unsafe { libc::fork() };
        if child > 0 {
            assert_eq!(code_of(child), GOOD);
            return Ok(());
        }
        let nested = tx.nested(|tx| {
            let _ = tx.get(count)?;
            Ok(())
        });
        let refused = [
            tx.get(count).map(drop),
            tx.set(count, 5),
            root.at(Root::MAP).insert(tx, &21, &63).map(drop),
            root.at(Root::MAP).remove(tx, &3).map(drop),
            nested,
        ];
        goes_on(way, refused.into_iter().all(is_refused), ())
    });
    if std::process::id() != process {
        let is_refused = is_refused(outcome) && refuses(&pool);
        drop(pool);
        // SAFETY: it ends the child.
        unsafe { libc::_exit(ended(is_refused)) };
    }
    outcome.expect("the parent's transaction");
    put(&pool, 21);
    // SAFETY: it ends this process.
    unsafe { libc::kill(libc::getpid(), libc::SIGKILL) };
    0
}

#[test]
fn a_transaction_in_which_the_process_forks_is_the_parents() {
    for logging in [Logging::Redo, Logging::Undo] {
        for way in [Way::Succeeds, Way::Fails, Way::Panics] {
            let (_folder, path) = folder();
            let parent = forked(|| {
                let process = std::process::id();
                let run = || in_a_transaction(&path, logging, way);
                let outcome = catch_unwind(AssertUnwindSafe(run));
                // The child that panicked comes here.
                ended(std::process::id() != process && outcome.is_err() && way == Way::Panics)
            });
            let status = status_of(parent);
            assert!(libc::WIFSIGNALED(status), "{logging:?}, {way:?}: {status:x}");
            assert_eq!(missing(&open(&path), 22), 0, "{logging:?}, {way:?}");
        }
    }
}

#[test]
fn a_read_in_which_the_process_forks_is_refused_in_the_child() {
    let (_folder, path) = folder();
    let pool = open(&path);
    put(&pool, 0);
    let process = std::process::id();
    let children = RefCell::new(Vec::new());
    let outcome: Result<(), Error> = pool.read(|view, root| {
        // SAFETY: as above.
        children.borrow_mut().push(unsafe { libc::fork() });
        view.get(root.at(Root::COUNT))?;
        Ok(())
    });
    if std::process::id() != process {
        let is_refused = is_refused(outcome) && refuses(&pool);
        // SAFETY: it ends the child.
        unsafe { libc::_exit(ended(is_refused)) };
    }
    assert_eq!(outcome, Ok(()));
    assert_eq!(code_of(children.into_inner()[0]), GOOD);
}

#[test]
fn a_child_waits_for_no_thread_of_its_parent() {
    let (_folder, path) = folder();
    let pool = open(&path);
    let (begun, has_begun) = channel();
    std::thread::scope(|scope| {
        let (pool, (goes, go)) = (&pool, channel::<()>());
        scope.spawn(move || {
            let held = pool.transaction(|tx, root| {
                begun.send(()).expect("it is waited for");
                let _ = go.recv();
                tx.set(root.at(Root::COUNT), 1)
            });
            held.expect("it fits");
        });
        has_begun.recv().expect("it has begun");
        let child = forked(|| {
            let is_refused = refuses(pool);
            // SAFETY: the child's copy, which nobody uses any more.
            drop(unsafe { std::ptr::read(pool) });
            ended(is_refused)
        });
        assert_eq!(code_of(child), GOOD);
        goes.send(()).expect("it waits");
    });
    let ends = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                while !ends.load(Relaxed) {
                    pool.read(|_, _| Ok::<_, ReadError>(())).expect("whole");
                }
            });
        }
        let codes: Vec<i32> = (0..200).map(|_| code_of(forked(|| ended(refuses(&pool))))).collect();
        ends.store(true, Relaxed);
        assert!(codes.iter().all(|code| *code == GOOD), "{codes:?}");
    });
}

#[test]
fn a_daemon_is_told_to_open_its_pool_later_and_can() {
    let (_folder, path) = folder();
    let (mut said, mut says) = std::io::pipe().expect("a pipe");
    let before = forked(|| {
        let pool = open(&path);
        put(&pool, 0);
        let process = std::process::id();
        // SAFETY: this process has one thread, and only the child returns.
        if unsafe { libc::daemon(1, 1) } != 0 {
            return 1;
        }
        while std::os::unix::process::parent_id() == process {
            std::thread::yield_now();
        }
        let is_refused = refuses(&pool);
        let again = seawall::open::<Root>(&path, Options::default());
        let is_in_use = matches!(again, Err(OpenError::File(error)) if {
            let text = error.to_string();
            text.contains(&path.display().to_string()) && text.contains("open in this one")
        });
        drop(pool);
        let pool = open(&path);
        put(&pool, 1);
        let verdict = is_refused && is_in_use && missing(&pool, 2) == 0;
        says.write_all(&[u8::from(verdict)]).expect("it is read");
        GOOD
    });
    assert_eq!(code_of(before), 0, "the process that called daemon");
    drop(says);
    let mut verdict = [0];
    said.read_exact(&mut verdict).expect("the daemon does not end before");
    assert_eq!(verdict, [1]);
}
