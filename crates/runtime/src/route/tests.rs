//! The choice on a memory whose clock charges what a test says.

use super::*;
use seawall_memory::{Fence, ThreadSlots, Width};
use std::cell::{Cell, RefCell};

/// What things cost, in ticks.
#[derive(Clone, Copy, Default)]
struct Prices {
    cached_line: u64,
    uncached_line: u64,
    fence: u64,
    /// The program's next work is slower by this for every cached line.
    pollution: u64,
}

/// A memory that keeps no bytes, only time.
#[derive(Default)]
struct Clock {
    prices: Cell<Prices>,
    now: Cell<u64>,
    polluted_lines: Cell<u64>,
    looks: Cell<u64>,
    calls: RefCell<Vec<&'static str>>,
    /// Every this many fences the machine is away for a long time; 0 for never.
    interrupts: Cell<u64>,
    fences: Cell<u64>,
    stands_still: bool,
}

impl Clock {
    fn with(prices: Prices) -> Clock {
        let clock = Clock::default();
        clock.prices.set(prices);
        clock
    }

    fn pass(&self, ticks: u64) {
        self.now.set(self.now.get() + ticks);
    }

    fn call(&self, name: &'static str) {
        let mut calls = self.calls.borrow_mut();
        if calls.len() < 100 {
            calls.push(name);
        }
    }
}

fn lines_in(bytes: &[u8]) -> u64 {
    bytes.len() as u64 / LINE_BYTES
}

impl Memory for Clock {
    fn thread(&self) -> usize {
        0
    }
    fn slots(&self) -> Option<&ThreadSlots> {
        None
    }
    fn load_bits(&self, _: Addr, _: Width) -> u64 {
        0
    }
    fn store_bits(&self, _: Addr, _: Width, _: u64) {}
    fn compare_exchange(&self, _: Addr, _: u64, new: u64) -> Result<u64, u64> {
        Ok(new)
    }
    fn swap(&self, _: Addr, new: u64) -> u64 {
        new
    }
    fn fetch_add(&self, _: Addr, by: u64) -> u64 {
        by
    }
    fn spin_while(&self, _: Addr, value: u64) -> u64 {
        value
    }
    fn output(&self, _: u64) {}

    fn write(&self, _: Addr, from: &[u8]) {
        self.call("write");
        self.pass(self.prices.get().cached_line * lines_in(from));
        self.polluted_lines.set(self.polluted_lines.get() + lines_in(from));
    }

    fn write_nt(&self, _: Addr, from: &[u8]) {
        self.call("write_nt");
        self.pass(self.prices.get().uncached_line * lines_in(from));
    }

    fn flush(&self, _: Addr, _: u64) {
        self.call("flush");
    }

    fn fence(&self, _: Fence) {
        self.call("order");
        self.pass(self.prices.get().fence);
        self.fences.set(self.fences.get() + 1);
        let every = self.interrupts.get();
        if every != 0 && self.fences.get().is_multiple_of(every) {
            self.pass(1_000_000);
        }
    }

    fn work(&self, instructions: u32) {
        let slower = self.prices.get().pollution * self.polluted_lines.take();
        self.pass(u64::from(instructions) + slower);
    }

    fn clock(&self) -> Option<impl seawall_memory::Clock> {
        self.looks.set(self.looks.get() + 1);
        (!self.stands_still).then_some(self)
    }
}

impl seawall_memory::Clock for &Clock {
    fn now(&self) -> u64 {
        self.now.get() + 1
    }

    fn charge(&self, account: u8) -> u8 {
        account
    }
}

/// Writes `records` of `lines` lines each into a log that never comes back, with work in between.
fn log(route: &mut Route, memory: &Clock, records: u64, lines: u64) {
    let bytes = vec![7; (lines * LINE_BYTES) as usize];
    let first = route.counts().cached_lines + route.counts().uncached_lines + 64;
    for record in 0..records {
        route.write(memory, Addr::pm((first + record * lines) * LINE_BYTES), &bytes);
        memory.order();
        route.fenced(memory);
        memory.work(50);
    }
}

fn share_uncached(before: RouteCounts, after: RouteCounts) -> f64 {
    let uncached = (after.uncached_records - before.uncached_records) as f64;
    let cached = (after.cached_records - before.cached_records) as f64;
    uncached / (uncached + cached)
}

const RECORDS: u64 = 100_000;

#[test]
fn a_cached_record_is_written_back_and_an_uncached_one_goes_past_the_caches() {
    for (choice, expected) in [
        (RouteChoice::Cached, &["write", "flush", "order"][..]),
        (RouteChoice::Uncached, &["write_nt", "order"]),
    ] {
        let (memory, mut route) = (Clock::default(), Route::new(choice));
        log(&mut route, &memory, 1, 2);
        assert_eq!(*memory.calls.borrow(), expected, "{choice}");
        assert_eq!(memory.looks.get(), 0, "a fixed path does not look at the clock");
    }
    let (memory, mut route) = (Clock::default(), Route::new(RouteChoice::Cached));
    log(&mut route, &memory, 3, 2);
    let counts = route.counts();
    assert_eq!((counts.cached_records, counts.cached_lines, counts.uncached_lines), (3, 6, 0));
}

#[test]
fn the_cheaper_path_is_found_whichever_it_is() {
    for (cached_line, uncached_line) in [(20, 90), (90, 20), (100, 110), (110, 100)] {
        let memory = Clock::with(Prices { cached_line, uncached_line, fence: 30, pollution: 0 });
        let mut route = Route::new(RouteChoice::Adaptive);
        log(&mut route, &memory, 2000, 1);
        let before = route.counts();
        log(&mut route, &memory, RECORDS, 1);
        let share = share_uncached(before, route.counts());
        let wrong = if uncached_line < cached_line { 1.0 - share } else { share };
        assert!(wrong < 0.015, "{cached_line} or {uncached_line}: {wrong} by the dearer path");
    }
}

#[test]
fn a_price_that_the_program_pays_between_records_counts() {
    let memory =
        Clock::with(Prices { cached_line: 20, uncached_line: 60, fence: 30, pollution: 80 });
    let mut route = Route::new(RouteChoice::Adaptive);
    log(&mut route, &memory, RECORDS, 1);
    assert!(share_uncached(RouteCounts::default(), route.counts()) > 0.98);
    memory.prices.set(Prices { pollution: 0, ..memory.prices.get() });
    let (memory, mut route) = (Clock::with(memory.prices.get()), Route::new(RouteChoice::Adaptive));
    log(&mut route, &memory, RECORDS, 1);
    assert!(share_uncached(RouteCounts::default(), route.counts()) < 0.02, "without pollution");
}

#[test]
fn prices_that_change_during_the_run_are_followed() {
    let prices = Prices { cached_line: 20, uncached_line: 90, fence: 30, pollution: 0 };
    let (memory, mut route) = (Clock::with(prices), Route::new(RouteChoice::Adaptive));
    log(&mut route, &memory, RECORDS, 1);
    memory.prices.set(Prices { cached_line: 90, uncached_line: 20, ..prices });
    log(&mut route, &memory, RECORDS, 1);
    let before = route.counts();
    log(&mut route, &memory, RECORDS, 1);
    assert_eq!(before.switches, 2);
    assert!(share_uncached(before, route.counts()) > 0.98);
}

#[test]
fn each_size_takes_its_own_path() {
    let prices = Prices { cached_line: 100, uncached_line: 60, fence: 30, pollution: 0 };
    let cheap_when_long = Prices { cached_line: 40, ..prices };
    let (memory, mut route) = (Clock::with(prices), Route::new(RouteChoice::Adaptive));
    for _ in 0..3000 {
        memory.prices.set(prices);
        log(&mut route, &memory, 1, 1);
        memory.prices.set(cheap_when_long);
        log(&mut route, &memory, 1, 6);
    }
    let before = route.counts();
    memory.prices.set(prices);
    log(&mut route, &memory, 500, 1);
    memory.prices.set(cheap_when_long);
    log(&mut route, &memory, 500, 7);
    let after = route.counts();
    assert!(after.uncached_lines - before.uncached_lines < 700, "short ones past the caches");
    assert!(after.cached_lines - before.cached_lines > 3200, "long ones through them");
    assert_eq!([1, 2, 3, 4, 5, 8, 9, 1 << 40].map(class_of), [0, 1, 2, 2, 3, 3, 4, CLASSES - 1]);
}

#[test]
fn measuring_is_rare_and_looks_at_the_clock_are_rarer() {
    let prices = Prices { cached_line: 50, uncached_line: 50, fence: 30, pollution: 0 };
    let (memory, mut route) = (Clock::with(prices), Route::new(RouteChoice::Adaptive));
    log(&mut route, &memory, RECORDS, 1);
    let (before, looks) = (route.counts(), memory.looks.get());
    log(&mut route, &memory, 10 * RECORDS, 1);
    let measured = route.counts().measured_records - before.measured_records;
    assert!(measured > 0, "it does measure again");
    assert!(measured * 100 <= 3 * 10 * RECORDS, "{measured} records were measured");
    assert!((memory.looks.get() - looks) * 10 < measured, "{} looks", memory.looks.get());
}

#[test]
fn a_machine_that_is_away_now_and_then_changes_nothing() {
    let prices = Prices { cached_line: 40, uncached_line: 90, fence: 30, pollution: 0 };
    for every in [331, 1000, 5000] {
        let (memory, mut route) = (Clock::with(prices), Route::new(RouteChoice::Adaptive));
        memory.interrupts.set(every);
        log(&mut route, &memory, RECORDS, 1);
        let share = share_uncached(RouteCounts::default(), route.counts());
        assert!(share < 0.03, "away every {every} fences: {share}");
    }
}

#[test]
fn without_time_every_record_goes_past_the_caches() {
    let memory = Clock { stands_still: true, ..Clock::default() };
    let mut route = Route::new(RouteChoice::Adaptive);
    log(&mut route, &memory, 5000, 1);
    assert_eq!(route.counts().cached_records, 0);
    assert_eq!(memory.looks.get(), 1);
}

#[test]
fn a_measurement_whose_records_stop_coming_holds_nobody_up() {
    let prices = Prices { cached_line: 40, uncached_line: 90, fence: 30, pollution: 0 };
    let (memory, mut route) = (Clock::with(prices), Route::new(RouteChoice::Adaptive));
    log(&mut route, &memory, FIRST + 10, 1);
    log(&mut route, &memory, RECORDS, 8);
    let before = route.counts();
    log(&mut route, &memory, 1000, 8);
    assert!(share_uncached(before, route.counts()) < 0.5, "the others were measured all the same");
}

#[test]
fn a_short_log_is_measured_from_its_second_lap() {
    // A line costs the uncached path more if the cached one left it in the cache.
    struct Ring(Clock, RefCell<Vec<bool>>);
    let ring = Ring(Clock::default(), RefCell::new(vec![false; 200]));
    let mut route = Route::new(RouteChoice::Adaptive);
    for record in 0..100_000 {
        let (slot, before) = (record % 200, route.counts().cached_records);
        let was_cached = ring.1.borrow()[slot];
        let uncached_line = if was_cached { 190 } else { 90 };
        ring.0.prices.set(Prices { cached_line: 150, uncached_line, fence: 10, pollution: 0 });
        route.write(&ring.0, Addr::pm(4096 + slot as u64 * 64), &[0; 64]);
        ring.1.borrow_mut()[slot] = route.counts().cached_records > before;
        ring.0.order();
        route.fenced(&ring.0);
    }
    assert!(share_uncached(RouteCounts::default(), route.counts()) > 0.95, "{:?}", route.counts());
}

#[test]
fn a_choice_is_read_from_its_name_and_an_unknown_name_is_told() {
    for choice in RouteChoice::ALL {
        assert_eq!(choice.to_string().parse(), Ok(choice));
    }
    let error = "nt".parse::<RouteChoice>().unwrap_err().to_string();
    assert!(error.contains("'nt'") && error.contains("uncached, adaptive"), "{error}");
}
