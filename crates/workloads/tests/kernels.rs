//! The kernels give the result of the plain computation under any schedule, their checks see a
//! changed word, and they share what they are meant to share.

use crate::machines::Shared;
use seawall_memory::{Addr, Memory, Width};
use seawall_workloads::{Input, KERNELS, Kernel, KernelVisitor, with_kernel};
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;

/// Calls the visitor that `make` gives for every kernel.
fn each<V: KernelVisitor>(make: impl Fn() -> V) -> Vec<(&'static str, V::Output)> {
    let visit = |name| (name, with_kernel(name, make()).expect("a kernel of the table"));
    KERNELS.iter().map(|entry| visit(entry.name)).collect()
}

fn small<K: Kernel>(threads: usize, seed: u64) -> Input {
    let input = Input { threads, size: K::SMALL, seed };
    input.check::<K>().expect("a size that the kernel can run with");
    input
}

/// What a thread did: locked operations count as stores.
#[derive(Default)]
struct Counts {
    loads: u64,
    stores: BTreeMap<u64, u64>,
    work: u64,
}

/// Counts what a thread does, and allows only what a kernel may do.
struct Counting<'a> {
    memory: &'a Shared,
    loads: Cell<u64>,
    work: Cell<u64>,
    stores: RefCell<BTreeMap<u64, u64>>,
}

impl Counting<'_> {
    fn count_load(&self, at: Addr) {
        assert!(at.is_pm(), "all memory is persistent");
        self.loads.set(self.loads.get() + 1);
    }

    fn count_store(&self, at: Addr) {
        assert!(at.is_pm(), "all memory is persistent");
        *self.stores.borrow_mut().entry(at.line().0).or_default() += 1;
    }
}

impl Memory for Counting<'_> {
    fn thread(&self) -> usize {
        self.memory.thread()
    }
    fn load_bits(&self, at: Addr, width: Width) -> u64 {
        self.count_load(at);
        self.memory.load_bits(at, width)
    }
    fn store_bits(&self, at: Addr, width: Width, value: u64) {
        self.count_store(at);
        self.memory.store_bits(at, width, value);
    }
    fn compare_exchange(&self, at: Addr, current: u64, new: u64) -> Result<u64, u64> {
        self.count_store(at);
        self.memory.compare_exchange(at, current, new)
    }
    fn swap(&self, at: Addr, new: u64) -> u64 {
        self.count_store(at);
        self.memory.swap(at, new)
    }
    fn fetch_add(&self, at: Addr, by: u64) -> u64 {
        self.count_store(at);
        self.memory.fetch_add(at, by)
    }
    fn flush(&self, _: Addr, _: u64) {
        panic!("a kernel does not flush");
    }
    fn order(&self) {
        panic!("a kernel does not order");
    }
    fn drain(&self) {
        panic!("a kernel does not drain");
    }
    fn work(&self, instructions: u32) {
        self.work.set(self.work.get() + u64::from(instructions));
    }
    fn grow(&self, _: u64) -> bool {
        panic!("a kernel has all its memory at the start");
    }
    fn spin_while(&self, at: Addr, value: u64) -> u64 {
        self.count_load(at);
        self.memory.spin_while(at, value)
    }
    fn output(&self, _: u64) {
        panic!("a kernel tells the world nothing");
    }
}

/// Runs all threads of `input` at once; gives the memory and what each thread did.
fn run<K: Kernel>(input: &Input) -> (Shared, K, Vec<Counts>) {
    let layout = K::layout(input);
    let memory = Shared::new(layout.pm_bytes, layout.dram_bytes);
    let kernel = K::create(&memory, input);
    let mut counts = Vec::new();
    std::thread::scope(|scope| {
        let started: Vec<_> = (0..input.threads)
            .map(|thread| {
                let (memory, kernel) = (memory.of(thread), kernel.clone());
                scope.spawn(move || {
                    let counting = Counting {
                        memory: &memory,
                        loads: Cell::default(),
                        work: Cell::default(),
                        stores: RefCell::default(),
                    };
                    kernel.run(&counting);
                    let Counting { loads, work, stores, .. } = counting;
                    let (loads, work) = (loads.get(), work.get());
                    Counts { loads, stores: stores.into_inner(), work }
                })
            })
            .collect();
        counts.extend(started.into_iter().map(|thread| thread.join().expect("it does not panic")));
    });
    (memory, kernel, counts)
}

struct Threads;

impl KernelVisitor for Threads {
    type Output = ();

    fn visit<K: Kernel>(self) {
        for threads in 1..=5 {
            for seed in 1..=3 {
                let input = small::<K>(threads, seed);
                let (memory, kernel, _) = run::<K>(&input);
                assert_eq!(kernel.check(&memory), Ok(()), "{}: {input:?}", K::NAME);
            }
        }
    }
}

#[test]
fn kernels_give_the_plain_result_whatever_the_threads_and_the_schedule() {
    each(|| Threads);
}

struct Smallest;

impl KernelVisitor for Smallest {
    type Output = ();

    fn visit<K: Kernel>(self) {
        for size in *K::SIZES.start()..K::SIZES.start() + 4 {
            for threads in [1, 3] {
                let (memory, kernel, _) = run::<K>(&Input { threads, size, seed: 1 });
                assert_eq!(kernel.check(&memory), Ok(()), "{} of size {size}", K::NAME);
            }
        }
    }
}

#[test]
fn kernels_can_be_as_small_as_they_say_and_have_more_threads_than_things_to_do() {
    each(|| Smallest);
}

struct Changes;

impl KernelVisitor for Changes {
    type Output = ();

    fn visit<K: Kernel>(self) {
        let input = small::<K>(2, 4);
        let unrun = K::layout(&input);
        let unrun = Shared::new(unrun.pm_bytes, unrun.dram_bytes);
        assert!(K::create(&unrun, &input).check(&unrun).is_err(), "{} was not run", K::NAME);
        let (memory, kernel, _) = run::<K>(&input);
        for (area, words) in kernel.results().into_iter().enumerate() {
            let step = words.count().div_ceil(25).next_multiple_of(2) as usize - 1;
            for index in (0..words.count()).step_by(step) {
                let at = words.at(index);
                let was = memory.load::<u64>(at);
                for changed in [was ^ 1, was ^ 1 << (index % 64), u64::MAX, 0] {
                    memory.store(at, changed);
                    let seen = kernel.check(&memory).is_err();
                    let what = format!("{}: word {index} of result {area}", K::NAME);
                    assert_eq!(seen, changed != was, "{what} from {was:#x} to {changed:#x}");
                }
                memory.store(at, was);
            }
        }
        assert_eq!(kernel.check(&memory), Ok(()), "{}", K::NAME);
    }
}

#[test]
fn a_check_sees_any_word_of_the_result_that_is_changed() {
    each(|| Changes);
}

#[test]
fn a_size_that_a_kernel_cannot_run_with_is_refused_by_name() {
    struct Zero;
    impl KernelVisitor for Zero {
        type Output = String;
        fn visit<K: Kernel>(self) -> String {
            let input = Input { size: 0, ..Input::of::<K>(1) };
            input.check::<K>().expect_err("nothing to do").to_string()
        }
    }
    for (name, message) in each(|| Zero) {
        assert!(message.starts_with("size is 0; it must be "), "{name}: {message}");
    }
}

/// What four threads share.
struct Sharing;

/// In per cent of the lines that are written: those that more threads than one write.
struct Shares {
    lines: f64,
    stores: f64,
}

impl KernelVisitor for Sharing {
    type Output = Shares;

    fn visit<K: Kernel>(self) -> Shares {
        let (_, _, threads) = run::<K>(&small::<K>(4, 1));
        let mut lines: BTreeMap<u64, (u32, u64)> = BTreeMap::new();
        for (line, stores) in threads.iter().flat_map(|counts| &counts.stores) {
            let entry = lines.entry(*line).or_default();
            *entry = (entry.0 + 1, entry.1 + stores);
        }
        let all = |of: fn(&Counts) -> u64| threads.iter().map(of).sum::<u64>();
        let stores: u64 = lines.values().map(|(_, stores)| stores).sum();
        let shared = lines.values().filter(|(writers, _)| *writers > 1);
        let per_cent = |part: u64, whole: u64| 100.0 * part as f64 / whole as f64;
        let shares = Shares {
            lines: per_cent(shared.clone().count() as u64, lines.len() as u64),
            stores: per_cent(shared.map(|(_, stores)| stores).sum(), stores),
        };
        println!(
            "{:9} {:9} {:9} {:9} {:7} {:6.1} {:6.1}",
            K::NAME,
            stores / 4,
            all(|counts| counts.loads) / 4,
            all(|counts| counts.work) / 4,
            lines.len(),
            shares.lines,
            shares.stores,
        );
        shares
    }
}

#[test]
fn kernels_share_lines_as_the_programs_that_they_stand_for() {
    println!("per thread:  stores     loads      work   lines  % shared lines, stores to them");
    for (name, shares) in each(|| Sharing) {
        let (lines, stores) = match name {
            "ssca2" => (30.0, 60.0),
            "vacation" | "intruder" | "canneal" => (20.0, 20.0),
            "dedup" | "freqmine" | "barnes" | "radix" => (3.0, 3.0),
            _ => (0.1, 0.1),
        };
        let is_enough = shares.lines > lines && shares.stores > stores;
        assert!(is_enough, "{name}: {:.1} % of lines, {:.1} %", shares.lines, shares.stores);
    }
}
