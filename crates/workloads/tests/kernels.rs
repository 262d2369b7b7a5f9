//! The kernels compute the result of the plain computation under any schedule, without a
//! persistency call, and their checks detect a changed word. Their sharing:
//! `crates/lab/tests/kernels.rs`.

use crate::machines::Shared;
use seawall_memory::{Absent, Addr, Fence, Memory, MemoryExt, Space, Width, layer};
use seawall_workloads::{Input, KERNELS, Kernel, KernelVisitor, with_kernel};
use std::sync::Barrier;

/// Calls the visitor that `make` returns for every kernel.
fn each<V: KernelVisitor>(make: impl Fn() -> V) -> Vec<(&'static str, V::Output)> {
    let visit = |name| (name, with_kernel(name, make()).expect("a kernel of the table"));
    KERNELS.iter().map(|entry| visit(entry.name)).collect()
}

fn small<K: Kernel>(threads: usize, seed: u64) -> Input {
    let input = Input { threads, size: K::SMALL, seed };
    input.check::<K>().expect("a size that the kernel can run with");
    input
}

/// Permits only the calls of a kernel.
struct Strict<'a>(&'a Shared);

/// Rejects an address that would not persist.
fn held(at: Addr) -> Addr {
    assert!(at.is_pm(), "all memory is persistent");
    at
}

impl layer::Layer for Strict<'_> {
    type Below = Shared;
    const WORD_BY_WORD: bool = true;

    fn below(&self) -> &Shared {
        self.0
    }

    fn load_bits(&self, at: Addr, width: Width) -> u64 {
        self.0.load_bits(held(at), width)
    }
    fn store_bits(&self, at: Addr, width: Width, value: u64) {
        self.0.store_bits(held(at), width, value);
    }
    fn compare_exchange(&self, at: Addr, current: u64, new: u64) -> Result<u64, u64> {
        self.0.compare_exchange(held(at), current, new)
    }
    fn swap(&self, at: Addr, new: u64) -> u64 {
        self.0.swap(held(at), new)
    }
    fn fetch_add(&self, at: Addr, by: u64) -> u64 {
        self.0.fetch_add(held(at), by)
    }
    fn flush(&self, _: Addr, _: u64) {
        panic!("a kernel does not flush");
    }
    fn fence(&self, _: Fence) {
        panic!("a kernel does not fence");
    }
    fn space(&self) -> Option<impl Space> {
        panic!("a kernel has all its memory at the start") as Option<Absent>
    }
    fn spin_while(&self, at: Addr, value: u64) -> u64 {
        self.0.spin_while(held(at), value)
    }
    fn output(&self, _: u64) {
        panic!("a kernel tells the world nothing");
    }
}

/// Runs all threads of `input` at once.
fn run<K: Kernel>(input: &Input) -> (Shared, K) {
    let layout = K::layout(input);
    let memory = Shared::new(layout.pm_bytes, layout.dram_bytes);
    let kernel = K::create(&memory, input);
    let start = Barrier::new(input.threads);
    std::thread::scope(|scope| {
        for thread in 0..input.threads {
            let (memory, kernel, start) = (memory.of(thread), kernel.clone(), &start);
            scope.spawn(move || {
                start.wait();
                kernel.run(&Strict(&memory));
            });
        }
    });
    (memory, kernel)
}

struct Threads;

impl KernelVisitor for Threads {
    type Output = ();

    fn visit<K: Kernel>(self) {
        for threads in 1..=5 {
            for seed in 1..=3 {
                let input = small::<K>(threads, seed);
                let (memory, kernel) = run::<K>(&input);
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
                let (memory, kernel) = run::<K>(&Input { threads, size, seed: 1 });
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
        let (memory, kernel) = run::<K>(&input);
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
