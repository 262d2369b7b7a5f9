//! kill -9 in the middle of a run on a file: what recovery then finds is what was promised.
//!
//! This binary runs itself as the child to be killed (see `the_process_to_be_killed`). The child
//! counts finished operations in a witness file; the parent kills it at a random moment, recovers
//! the pool, and, for one thread, replays the same seeded operations on the simplest machine: the
//! pool must hold exactly the state after the promised operations, or one more.
//!
//! A killed process loses no store that it made, whether flushed or not. So this shows that
//! recovery mends an operation cut short anywhere, and cannot show a missing flush or order:
//! `seawall-explore` does that. `SEAWALL_KILLS` sets the kills of each structure and thread count.

use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use seawall_any::{AnyMemory, workload};
use seawall_lab::RequestOptions;
use seawall_lab::run::{NativeOptions, NativeReport, RibbonMode, run_native};
use seawall_memory::Image;
use seawall_workloads::history::{initial_tag, tag};
use seawall_workloads::{Collect, Contents, Cost, Flaw, History, Setup, WORKLOADS, Worker};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

const PLAN: &str = "SEAWALL_KILL_PLAN";
const ENTRIES: u64 = 200;
const RUN_MICROS_MAX: u64 = 15_000;
const PATIENCE: Duration = Duration::from_secs(60);

#[derive(Clone)]
struct Plan {
    workload: String,
    threads: usize,
    seed: u64,
    search_percent: u32,
    /// Its flushes are left to other threads.
    has_ribbon: bool,
    file: PathBuf,
}

impl Plan {
    fn to_text(&self) -> String {
        let Plan { workload, threads, seed, search_percent, has_ribbon, file } = self;
        format!("{workload} {threads} {seed} {search_percent} {has_ribbon} {}", file.display())
    }

    fn from_text(text: &str) -> Plan {
        let parts: Vec<&str> = text.splitn(6, ' ').collect();
        Plan {
            workload: parts[0].to_string(),
            threads: parts[1].parse().unwrap(),
            seed: parts[2].parse().unwrap(),
            search_percent: parts[3].parse().unwrap(),
            has_ribbon: parts[4].parse().unwrap(),
            file: parts[5].into(),
        }
    }

    fn witness(&self) -> PathBuf {
        self.file.with_extension("witness")
    }

    fn options(&self) -> NativeOptions {
        NativeOptions {
            threads: self.threads,
            seconds: PATIENCE.as_secs_f64(),
            seed: self.seed,
            requests: RequestOptions {
                search_percent: Some(self.search_percent),
                ..RequestOptions::on_entries(ENTRIES)
            },
            file: Some(self.file.clone()),
            witness: Some(self.witness()),
            ribbon: self.has_ribbon.then_some(RibbonMode::Always),
            flushers: self.has_ribbon.then_some(2),
            ..NativeOptions::default()
        }
    }

    fn start(&self) -> Child {
        Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "the_process_to_be_killed"])
            .env(PLAN, self.to_text())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .spawn()
            .unwrap()
    }

    /// Kills a child `micros` after one of its threads finished `least` operations; gives what it
    /// had promised.
    fn run_and_kill(&self, least: u64, micros: u64) -> Vec<u64> {
        let mut child = self.start();
        let started = Instant::now();
        let running = || witnessed(&self.witness()).iter().any(|count| *count >= least);
        while !running() {
            assert!(started.elapsed() < PATIENCE, "not {least} operations in {PATIENCE:?}");
            assert!(child.try_wait().unwrap().is_none(), "the child ended by itself");
            std::thread::sleep(Duration::from_micros(200));
        }
        std::thread::sleep(Duration::from_micros(micros));
        kill(child);
        witnessed(&self.witness())
    }

    fn recover(&self) -> Result<Contents, String> {
        let options =
            NativeOptions { recover: Some(self.file.clone()), ..NativeOptions::default() };
        match run_native(&self.workload, &options) {
            Ok(NativeReport::Recovery(recovery)) => Ok(recovery.contents),
            Ok(other) => panic!("{other}"),
            Err(error) => Err(error.to_string()),
        }
    }
}

/// The state after each of the last few operations, on the simplest machine.
fn replay(plan: &Plan, first: u64, count: usize) -> Vec<Contents> {
    let kind = workload(&plan.workload).unwrap();
    let setup = Setup {
        threads: 1,
        seed: plan.seed,
        entries: ENTRIES,
        search_percent: plan.search_percent,
        mix: None,
        collect: Collect::Nobody,
        cost: Cost::Lean,
        flaw: Flaw::None,
    };
    let layout = kind.layout(&setup);
    let image = Image::new(layout.pm_bytes, layout.dram_bytes);
    let memory = AnyMemory::image(&image);
    let workload = kind.create(&memory, &setup);
    let mut worker = Worker::new(&setup, 0, Arc::new(History::off()));
    let mut joined = workload.join(&memory);
    let mut states = Vec::new();
    while states.len() < count {
        if worker.number >= first {
            states.push(workload.contents(&memory).unwrap());
        }
        joined.step(&mut worker);
        worker.number += 1;
    }
    states
}

fn witnessed(path: &Path) -> Vec<u64> {
    seawall_native::Witness::read(path).unwrap_or_default()
}

fn kill(mut child: Child) {
    child.kill().unwrap();
    let status = child.wait().unwrap();
    assert_eq!(status.signal(), Some(9), "the child ended by itself: {status}");
}

fn kills() -> u64 {
    std::env::var("SEAWALL_KILLS").ok().map_or(10, |count| count.parse().unwrap())
}

/// Runs `each` for many kills of every structure, with a plan and a random moment.
fn for_many(threads: usize, mut each: impl FnMut(&Plan, u64)) {
    let folder = tempfile::tempdir().unwrap();
    let mut rng = Xoshiro256PlusPlus::seed_from_u64(threads as u64);
    for workload in WORKLOADS.iter().filter(|entry| entry.default).map(|entry| entry.name) {
        for seed in 0..kills() {
            let plan = Plan {
                workload: workload.to_string(),
                threads,
                seed,
                search_percent: 10,
                has_ribbon: false,
                file: folder.path().join(format!("{workload}-{seed}.pool")),
            };
            each(&plan, rng.random_range(0..RUN_MICROS_MAX));
            let _ = std::fs::remove_file(&plan.file);
        }
    }
}

#[test]
fn the_process_to_be_killed() {
    if let Ok(text) = std::env::var(PLAN) {
        let plan = Plan::from_text(&text);
        let report = run_native(&plan.workload, &plan.options());
        panic!("not killed: {}", report.map_or_else(|e| e.to_string(), |r| r.to_string()));
    }
}

#[test]
fn one_killed_thread_leaves_the_state_after_its_promises_or_one_operation_more() {
    for_many(1, |plan, micros| {
        let promised = plan.run_and_kill(1, micros)[0];
        let found = plan.recover().unwrap_or_else(|error| panic!("{}: {error}", plan.to_text()));
        let states = replay(plan, promised, 2);
        assert!(states.contains(&found), "{}: not the state after {promised}", plan.to_text());
        assert_eq!(plan.recover().as_ref(), Ok(&found), "recovered twice, {}", plan.to_text());
    });
}

#[test]
fn a_thread_killed_with_its_flushers_leaves_no_less() {
    for_many(1, |plan, micros| {
        let plan = Plan { has_ribbon: true, ..plan.clone() };
        let promised = plan.run_and_kill(1, micros)[0];
        let found = plan.recover().unwrap_or_else(|error| panic!("{}: {error}", plan.to_text()));
        let states = replay(&plan, promised, 2);
        assert!(states.contains(&found), "{}: not the state after {promised}", plan.to_text());
    });
}

#[test]
fn two_killed_threads_leave_a_structure_whose_invariants_hold() {
    let initial = initial_tag(0)..=initial_tag(ENTRIES);
    for_many(2, |plan, micros| {
        let promised = plan.run_and_kill(1, micros);
        let found = plan.recover().unwrap_or_else(|error| panic!("{}: {error}", plan.to_text()));
        let possible = |entry: u64| {
            let by = |thread| tag(thread, 0)..=tag(thread, promised[thread]);
            by(0).contains(&entry) || by(1).contains(&entry) || initial.contains(&entry)
        };
        let invented = found.values().find(|entry| !possible(**entry));
        assert_eq!(invented, None, "{}: no operation that began put it there", plan.to_text());
        assert_eq!(plan.recover().as_ref(), Ok(&found), "recovered twice, {}", plan.to_text());
    });
}

#[test]
fn a_process_killed_while_it_makes_the_pool_leaves_a_whole_pool_or_a_clear_refusal() {
    let (mut whole, mut refused) = (0, 0);
    for_many(3, |plan, micros| {
        let child = plan.start();
        let started = Instant::now();
        while !plan.file.exists() {
            assert!(started.elapsed() < PATIENCE, "no pool file in {PATIENCE:?}");
        }
        std::thread::sleep(Duration::from_micros(micros / 3));
        kill(child);
        match plan.recover() {
            Ok(_) => whole += 1,
            Err(error) => {
                let name = plan.file.display().to_string();
                assert!(error.starts_with(&name) && error.contains("pool"), "{error}");
                refused += 1;
            }
        }
    });
    assert!(refused > 0, "{whole} pools were whole: no kill came early enough to show anything");
}

#[test]
fn lost_or_invented_operations_would_be_noticed() {
    // Some operations change nothing (a full queue), so several must be missing.
    const MISSING: u64 = 64;
    let folder = tempfile::tempdir().unwrap();
    let plan = Plan {
        workload: "queue".to_string(),
        threads: 1,
        seed: 7,
        search_percent: 0,
        has_ribbon: false,
        file: folder.path().join("queue.pool"),
    };
    let promised = plan.run_and_kill(MISSING, 0)[0];
    let found = plan.recover().unwrap();
    assert!(replay(&plan, promised, 2).contains(&found));
    assert!(!replay(&plan, promised + MISSING, 2).contains(&found), "a loss is not noticed");
    assert!(!replay(&plan, promised - MISSING, 2).contains(&found), "more is not noticed");
}
