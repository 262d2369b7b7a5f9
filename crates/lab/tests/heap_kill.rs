//! kill -9 in the middle of work on a heap: what was announced is there, and nothing else.
//!
//! This binary runs itself as the child to be killed (see `the_process_that_works_on_a_heap`). Its
//! threads do seeded transactions of every kind on one pool file and count them in a witness; the
//! parent kills it at a random moment, opens a copy of the file, and holds it to a model: the state
//! of each thread's objects is the one after what it announced, or one operation more; every live
//! object is linked exactly once. The next child recovers the file itself and goes on where the
//! last one was killed, so recovery is killed, too.
//!
//! The same is done to lists of typed objects, in a pool that grows, and is defragmented and
//! shrinks, beside the program (`moving`).
//!
//! A killed process loses no store that it made: this cannot show a missing flush or order, which
//! `seawall-explore` does. `SEAWALL_KILLS=10000 cargo test --release -p seawall-lab --test
//! heap_kill` is the long run; it prints how far the kills reached.

#[path = "heap_kill/model.rs"]
mod model;
#[path = "heap_kill/moving.rs"]
mod moving;
#[path = "heap_kill/work.rs"]
mod work;

use model::{Seen, State};
use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use seawall_memory::Image;
use seawall_native::Witness;
use seawall_runtime::Heap;
use seawall_runtime::defrag::Protocol;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use work::{NAME, options};

const PLAN: &str = "SEAWALL_HEAP_KILL_PLAN";
const PATIENCE: Duration = Duration::from_secs(60);
pub(crate) const MICROS_MAX: u64 = 6_000;
/// Kills of one pool before the next is made.
pub(crate) const KILLS_OF_A_POOL: u64 = 25;

#[derive(Clone, Debug)]
pub(crate) struct Plan {
    /// The protocol by which objects move; none in an untyped heap.
    pub(crate) moves: Option<Protocol>,
    pub(crate) threads: usize,
    pub(crate) seed: u64,
    /// For each thread, the operations that are done.
    pub(crate) done: Vec<u64>,
    pub(crate) file: PathBuf,
}

impl Plan {
    fn to_text(&self) -> String {
        let done: Vec<String> = self.done.iter().map(u64::to_string).collect();
        let moves = self.moves.map_or("still", Protocol::name);
        let (threads, seed, file) = (self.threads, self.seed, self.file.display());
        format!("{moves} {threads} {seed} {} {file}", done.join(","))
    }

    fn from_text(text: &str) -> Plan {
        let parts: Vec<&str> = text.splitn(5, ' ').collect();
        Plan {
            moves: parts[0].parse().ok(),
            threads: parts[1].parse().unwrap(),
            seed: parts[2].parse().unwrap(),
            done: parts[3].split(',').map(|count| count.parse().unwrap()).collect(),
            file: parts[4].into(),
        }
    }

    pub(crate) fn witness(&self) -> PathBuf {
        self.file.with_extension("witness")
    }

    /// What each thread has announced, in all children so far.
    pub(crate) fn announced(&self) -> Vec<u64> {
        let new = Witness::read(&self.witness()).unwrap_or_default();
        let of = |thread: usize| new.get(thread).copied().unwrap_or(0).max(self.done[thread]);
        (0..self.threads).map(of).collect()
    }

    fn start(&self) -> Child {
        let _ = std::fs::remove_file(self.witness());
        Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "the_process_that_works_on_a_heap"])
            .env(PLAN, self.to_text())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .spawn()
            .unwrap()
    }

    /// Starts a child and kills it `micros` after it announced `least` operations; at 0, after its
    /// start, so that opening is killed, too.
    pub(crate) fn run_and_kill(&self, least: u64, micros: u64) {
        let mut child = self.start();
        let started = Instant::now();
        let announced = || self.announced().into_iter().sum::<u64>();
        let done: u64 = self.done.iter().sum();
        while announced() < done + least {
            assert!(started.elapsed() < PATIENCE, "{least} not announced in {PATIENCE:?}");
            assert!(child.try_wait().unwrap().is_none(), "the child ended by itself");
            std::thread::sleep(Duration::from_micros(100));
        }
        std::thread::sleep(Duration::from_micros(micros));
        child.kill().unwrap();
        let status = child.wait().unwrap();
        assert_eq!(status.signal(), Some(9), "the child ended by itself: {status}");
    }
}

/// How far the kills of a run reached.
#[derive(Debug, Default)]
struct Reached {
    kills: u64,
    operations: u64,
    in_flight: u64,
    replayed: u64,
    rolled_back: u64,
    grown: u64,
}

/// Opens a copy of the pool, twice.
fn look(path: &Path, threads: usize, reached: &mut Reached) -> Seen {
    let pm = std::fs::read(path).unwrap();
    let bytes = pm.len() as u64;
    let image = Image::from_pm(pm, options(threads).dram_bytes());
    let (heap, recovered) = Heap::open(&image, NAME, bytes).unwrap();
    reached.replayed += recovered.replayed;
    reached.rolled_back += recovered.rolled_back;
    reached.grown += u64::from(bytes > options(threads).pm_bytes());
    let seen = Seen::of(&image, &heap, threads).unwrap_or_else(|damage| panic!("{damage}"));
    let image = Image::from_pm(image.into_pm(), heap.dram_bytes());
    let (heap, recovered) = Heap::open(&image, NAME, bytes).unwrap();
    assert_eq!((recovered.replayed, recovered.rolled_back), (0, 0));
    assert_eq!(Seen::of(&image, &heap, threads).as_ref(), Ok(&seen), "opened twice");
    seen
}

/// A folder in memory, if there is one.
pub(crate) fn folder() -> tempfile::TempDir {
    let memory = Path::new("/dev/shm");
    let place = if memory.is_dir() { memory.to_owned() } else { std::env::temp_dir() };
    tempfile::tempdir_in(place).unwrap()
}

fn kill_many(threads: usize, kills: u64) -> Reached {
    let folder = folder();
    let mut rng = Xoshiro256PlusPlus::seed_from_u64(threads as u64);
    let mut reached = Reached::default();
    for pool in 0..kills.div_ceil(KILLS_OF_A_POOL) {
        let file = folder.path().join(format!("{pool}.pool"));
        let (moves, done) = (None, vec![0; threads]);
        let mut plan = Plan { moves, threads, seed: rng.random(), done, file };
        work::make(&plan);
        let mut states: Vec<State> = (0..threads).map(|_| State::default()).collect();
        for _ in 0..KILLS_OF_A_POOL.min(kills - reached.kills) {
            let least = u64::from(rng.random_bool(0.7));
            plan.run_and_kill(least, rng.random_range(0..MICROS_MAX));
            let announced = plan.announced();
            let seen = look(&plan.file, threads, &mut reached);
            for (thread, state) in states.iter_mut().enumerate() {
                (plan.done[thread]..announced[thread])
                    .for_each(|number| state.apply(plan.seed, thread, number));
                reached.operations += announced[thread] - plan.done[thread];
            }
            let more = seen
                .judge(&states, &plan, &announced)
                .unwrap_or_else(|why| panic!("after {announced:?} of {}: {why}", plan.to_text()));
            for (thread, state) in states.iter_mut().enumerate().filter(|(at, _)| more[*at]) {
                state.apply(plan.seed, thread, announced[thread]);
                reached.in_flight += 1;
            }
            plan.done =
                announced.iter().zip(&more).map(|(count, more)| count + u64::from(*more)).collect();
            reached.kills += 1;
        }
        std::fs::remove_file(&plan.file).unwrap();
    }
    reached
}

pub(crate) fn kills() -> u64 {
    std::env::var("SEAWALL_KILLS").map_or(20, |count| count.parse().expect("a number of kills"))
}

fn kill_and_tell(threads: usize) {
    let reached = kill_many(threads, kills() / 2);
    println!("{threads} threads: {reached:?}");
    assert!(reached.kills == kills() / 2 && reached.operations > reached.kills, "{reached:?}");
    assert!(reached.replayed > 0, "{reached:?}");
}

#[test]
fn the_process_that_works_on_a_heap() {
    if let Ok(text) = std::env::var(PLAN) {
        let plan = Plan::from_text(&text);
        match plan.moves {
            None => work::work(&plan),
            Some(protocol) => moving::work(&plan, protocol),
        }
        panic!("not killed");
    }
}

#[test]
fn kills_of_one_thread_lose_nothing_that_was_announced() {
    kill_and_tell(1);
}

#[test]
fn kills_of_two_threads_lose_nothing_that_was_announced() {
    kill_and_tell(2);
}

#[test]
fn what_was_lost_invented_or_leaked_would_be_noticed() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("a.pool");
    let plan = Plan { moves: None, threads: 1, seed: 5, done: vec![0], file };
    work::make(&plan);
    plan.run_and_kill(200, 0);
    let announced = plan.announced();
    let seen = look(&plan.file, 1, &mut Reached::default());
    let state_after = |count: u64| {
        let mut state = State::default();
        (0..count).for_each(|number| state.apply(plan.seed, 0, number));
        vec![state]
    };
    seen.judge(&state_after(announced[0]), &plan, &announced).unwrap();
    for wrong in [announced[0] + 50, announced[0] - 50] {
        seen.judge(&state_after(wrong), &plan, &[wrong])
            .expect_err("50 operations too many or few");
    }
    let pm = std::fs::read(&plan.file).unwrap();
    let bytes = pm.len() as u64;
    let image = Image::from_pm(pm, options(1).dram_bytes());
    let (heap, _) = Heap::open(&image, NAME, bytes).unwrap();
    heap.join(&image).transaction(|tx| tx.alloc(100)).unwrap();
    Seen::of(&image, &heap, 1).expect_err("a leaked object");
}
