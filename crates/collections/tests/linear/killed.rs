//! Histories of processes that are killed again and again, on one pool file: the next one recovers
//! it and goes on, and some order has to explain what all of them saw.
//!
//! This binary runs itself as the process (see `the_process_that_is_killed`). It writes each
//! operation to a file when it is called, and again when it is back: what a process has written
//! outlives it. A killed process loses no store that it made, so this shows what recovery makes of
//! transactions that were cut off, and no missing flush: the explorer does that.

use super::cells::Cells;
use super::checker::{Act, Answer, Op, check};
use super::native::times;
use super::{Keyed, Plan, Recorder, Small, crashed, dram_bytes, options, recovered, work};
use crate::subject::NAME;
use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use seawall_collections::{KvMap, Map};
use seawall_memory::{Image, Memory};
use seawall_native::{Pool, PoolOptions};
use seawall_runtime::{Heap, Session};
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

const ERA: &str = "SEAWALL_LINEAR_ERA";
const PATIENCE: Duration = Duration::from_secs(60);
/// A process is killed up to this long after its first operation.
const MICROS_MAX: u64 = 8_000;
const ERAS: u64 = 6;

/// An operation as it is written, in 64 bytes: a kill can cut a write to a file in two where one
/// page of the file ends, which is never within a record.
type Record = [u64; 8];
const RECORD_BYTES: usize = size_of::<Record>();

fn record_of(op: &Op) -> Record {
    let (act, value) = match op.act {
        Act::Get => (0, 0),
        Act::Insert(value) => (1, value),
        Act::Remove => (2, 0),
    };
    let (answer, old) = match op.answer {
        Answer::Lost => (0, 0),
        Answer::There(there) => (1, u64::from(there)),
        Answer::Value(None) => (2, 0),
        Answer::Value(Some(old)) => (3, old),
    };
    let what = (op.thread as u64) << 32 | answer << 16 | act;
    [op.call, op.back, what, op.key, value, old, 0, 0]
}

/// None for one that was killed before it was written.
fn op_of([call, back, words, key, value, old, ..]: Record) -> Option<Op> {
    let act = match words & 0xffff {
        0 => Act::Get,
        1 => Act::Insert(value),
        _ => Act::Remove,
    };
    let answer = match words >> 16 & 0xffff {
        0 => Answer::Lost,
        1 => Answer::There(old != 0),
        2 => Answer::Value(None),
        _ => Answer::Value(Some(old)),
    };
    let thread = (words >> 32) as usize;
    (call > 0).then_some(Op { thread, key, act, answer, call, back, cut: back == u64::MAX })
}

/// Writes operations to a file that threads share.
struct Written<'a> {
    file: &'a File,
    count: &'a AtomicUsize,
    clock: &'a AtomicU64,
}

impl Recorder for Written<'_> {
    fn now(&self) -> u64 {
        self.clock.fetch_add(1, Ordering::SeqCst)
    }

    fn begin(&self, op: Op) -> usize {
        let number = self.count.fetch_add(1, Ordering::Relaxed);
        self.end(number, op);
        number
    }

    fn end(&self, number: usize, op: Op) {
        let bytes: Vec<u8> = record_of(&op).iter().flat_map(|word| word.to_le_bytes()).collect();
        self.file.write_all_at(&bytes, (number * RECORD_BYTES) as u64).expect("room");
    }
}

/// What a process that was killed has written, in the order of its calls.
fn written(file: &Path) -> Vec<Op> {
    let bytes = std::fs::read(file).unwrap_or_default();
    let (words, _) = bytes.as_chunks::<8>();
    let words: Vec<u64> = words.iter().map(|word| u64::from_le_bytes(*word)).collect();
    let (records, _) = words.as_chunks();
    let mut ops: Vec<Op> = records.iter().copied().filter_map(op_of).collect();
    ops.sort_by_key(|op| op.call);
    ops
}

/// A process and what it works on.
#[derive(Clone)]
struct Era {
    kind: &'static str,
    plan: Plan,
    /// The moment at which it begins.
    moment: u64,
    pool: PathBuf,
}

impl Era {
    fn to_text(&self) -> String {
        let Plan { threads, keys, count, seed, base } = self.plan;
        let (kind, moment, pool) = (self.kind, self.moment, self.pool.display());
        format!("{kind} {threads} {keys} {count} {seed} {base} {moment} {pool}")
    }

    fn from_text(text: &str) -> Era {
        let parts: Vec<&str> = text.splitn(8, ' ').collect();
        let kind = KINDS.into_iter().find(|kind| *kind == parts[0]).expect("a kind");
        let number = |at: usize| parts[at].parse::<u64>().expect("a number");
        let (threads, keys, count) = (number(1) as usize, number(2), number(3));
        let plan = Plan { threads, keys, count, seed: number(4), base: number(5) };
        Era { kind, plan, moment: number(6), pool: parts[7].into() }
    }

    fn records(&self) -> PathBuf {
        self.pool.with_extension("ops")
    }

    fn pool_options(&self) -> PoolOptions {
        let dram_bytes = dram_bytes(&options(self.plan.threads));
        PoolOptions { dram_bytes, ..PoolOptions::default() }
    }

    fn make<K: Keyed>(&self) {
        let options = options(self.plan.threads);
        let pool = Pool::create(&self.pool, options.pm_bytes(), &self.pool_options());
        let pool = pool.expect("room");
        let memory = pool.memory(0);
        let heap = Heap::create(&memory, NAME, 7, &options).expect("good options");
        let mut session = heap.join(&memory);
        K::create(&mut session);
        session.leave();
    }

    /// In the process: all threads work, and wait to be killed.
    fn work<K: Keyed>(&self) {
        let pool = Pool::open(&self.pool, &self.pool_options(), |_, _| Ok(())).expect("a pool");
        let memory = pool.memory(0);
        let (heap, _) = Heap::open(&memory, NAME, pool.bytes()).expect("it recovers");
        let mut session = heap.join(&memory);
        let target = K::open(&mut session).expect("it is there");
        session.leave();
        let file = File::create(self.records()).expect("room");
        let (count, clock) = (AtomicUsize::new(0), AtomicU64::new(self.moment));
        let recorder = Written { file: &file, count: &count, clock: &clock };
        let thread = |thread: usize, target: K| {
            work((&pool.memory(thread), &heap, &target), &self.plan, &recorder);
        };
        let thread = &thread;
        std::thread::scope(|scope| {
            for number in 0..self.plan.threads {
                let target = target.clone();
                scope.spawn(move || thread(number, target));
            }
        });
        std::thread::sleep(PATIENCE);
    }

    fn start(&self) -> Child {
        let _ = std::fs::remove_file(self.records());
        Command::new(std::env::current_exe().expect("a path"))
            .args(["--exact", "linear::killed::the_process_that_is_killed"])
            .env(ERA, self.to_text())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .spawn()
            .expect("a process")
    }

    /// Starts the process, and kills it so many microseconds after its first operation.
    fn kill(&self, micros: u64) -> Vec<Op> {
        let (mut child, started) = (self.start(), Instant::now());
        while std::fs::metadata(self.records()).map_or(0, |file| file.len()) == 0 {
            assert!(started.elapsed() < PATIENCE, "no operation in {PATIENCE:?}");
            assert_eq!(child.try_wait().expect("a child"), None, "it ended by itself");
            std::thread::sleep(Duration::from_micros(100));
        }
        std::thread::sleep(Duration::from_micros(micros));
        child.kill().expect("a child");
        let status = child.wait().expect("a child");
        assert_eq!(status.signal(), Some(9), "it ended by itself: {status}");
        written(&self.records())
    }
}

/// Kills processes one after the other, and looks at a copy of what each left. Gives how many
/// operations there were, and how many of them were cut off.
fn checked<K: Keyed>(kind: &'static str, plan: Plan) -> Result<(usize, usize), String> {
    let folder = tempfile::tempdir().expect("room");
    let mut era = Era { kind, plan, moment: 1, pool: folder.path().join("a.pool") };
    era.make::<K>();
    let mut rng = Xoshiro256PlusPlus::seed_from_u64(plan.seed);
    let (mut history, mut cut) = (Vec::new(), 0);
    for number in 0..ERAS {
        let ops = era.kill(rng.random_range(0..MICROS_MAX));
        let mut done = vec![0; plan.threads];
        ops.iter().filter(|op| !op.cut).for_each(|op| done[op.thread] += 1);
        cut += ops.iter().filter(|op| op.cut).count();
        let last = ops.iter().map(|op| op.call.max(if op.cut { 0 } else { op.back })).max();
        let crash = last.unwrap_or(era.moment) + 1;
        let pm = std::fs::read(&era.pool).expect("it is there");
        let bytes = pm.len() as u64;
        let image = Image::from_pm(pm, dram_bytes(&options(plan.threads)));
        let (_, _, found) = recovered::<K, _>(&image, bytes, &era.plan)?;
        history.extend(crashed(&ops, &done, crash, &era.plan, &found));
        check(&history).map_err(|refusal| format!("era {number}: {refusal}"))?;
        era.moment = crash + 3;
        era.plan.base += plan.threads as u64 * plan.count;
    }
    Ok((history.len(), cut))
}

/// 8, 16 and 32 threads in turn.
fn plan(seed: u64) -> Plan {
    Plan { threads: 8 << ((seed - 1) % 3), keys: 16, count: 400, seed, base: 1 }
}

const KINDS: [&str; 5] = ["map", "kv", "tree", "cells", "torn"];

fn all<K: Keyed>(kind: &'static str) {
    let (mut operations, mut cut) = (0, 0);
    for seed in 1..=3 * times() {
        let checked = checked::<K>(kind, plan(seed));
        let (some, few) = checked.unwrap_or_else(|why| panic!("{kind}, seed {seed}: {why}"));
        (operations, cut) = (operations + some, cut + few);
    }
    println!("{operations} operations, {cut} of them cut off");
    assert!(cut > 0, "nothing was cut off");
}

#[test]
fn the_process_that_is_killed() {
    let Ok(text) = std::env::var(ERA) else { return };
    let era = Era::from_text(&text);
    match era.kind {
        "map" => era.work::<Map>(),
        "kv" => era.work::<KvMap>(),
        "tree" => era.work::<Small>(),
        "cells" => era.work::<Cells>(),
        _ => era.work::<Torn>(),
    }
    panic!("not killed");
}

#[test]
fn some_order_explains_what_killed_processes_saw_in_a_map() {
    all::<Map>("map");
}

#[test]
fn some_order_explains_what_killed_processes_saw_in_a_map_of_byte_strings() {
    all::<KvMap>("kv");
}

#[test]
fn some_order_explains_what_killed_processes_saw_in_a_tree() {
    all::<Small>("tree");
}

#[test]
fn some_order_explains_what_killed_processes_saw_in_a_heap() {
    all::<Cells>("cells");
}

/// A map that replaces a value in two transactions. One thread alone sees nothing of that.
#[derive(Clone)]
struct Torn(Map);

impl Keyed for Torn {
    fn create<M: Memory>(session: &mut Session<'_, M>) -> Torn {
        Torn(<Map as Keyed>::create(session))
    }

    fn open<M: Memory>(session: &mut Session<'_, M>) -> Result<Torn, String> {
        <Map as Keyed>::open(session).map(Torn)
    }

    fn act<M: Memory>(&self, session: &mut Session<'_, M>, key: u64, act: Act) -> Answer {
        let Act::Insert(_) = act else { return self.0.act(session, key, act) };
        let old = self.0.act(session, key, Act::Remove);
        self.0.act(session, key, act);
        old
    }
}

#[test]
fn a_value_that_is_replaced_in_two_transactions_is_caught_by_a_kill() {
    let plan = |seed| Plan { threads: 1, keys: 4, count: 1_000_000, seed, base: 1 };
    let why = (1..=20).find_map(|seed| checked::<Torn>("torn", plan(seed)).err());
    assert!(why.expect("it is caught").contains("no order explains key"));
}
