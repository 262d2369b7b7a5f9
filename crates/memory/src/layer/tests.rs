//! Each method of the seam, through a layer that changes nothing.

use crate::layer::{self, Either};
use crate::relocation::{Relocation, RelocationUnit};
use crate::seam::METHODS;
use crate::{Addr, Clock, Fence, Image, LINE_BYTES, Memory, MemoryExt, Parking, Space};
use crate::{ThreadSlots, Width};
use std::cell::RefCell;

/// A machine that records the names of the methods that are called.
struct Recorder {
    calls: RefCell<Vec<&'static str>>,
    slots: ThreadSlots,
}

impl Recorder {
    fn new() -> Recorder {
        Recorder { calls: RefCell::default(), slots: ThreadSlots::new() }
    }

    fn call<T>(&self, name: &'static str, value: T) -> T {
        self.calls.borrow_mut().push(name);
        value
    }
}

impl Memory for Recorder {
    fn thread(&self) -> usize {
        self.call("thread", 7)
    }
    fn slots(&self) -> Option<&ThreadSlots> {
        self.call("slots", Some(&self.slots))
    }
    fn load_bits(&self, _: Addr, _: Width) -> u64 {
        self.call("load_bits", 1)
    }
    fn store_bits(&self, _: Addr, _: Width, _: u64) {
        self.call("store_bits", ());
    }
    fn compare_exchange(&self, _: Addr, _: u64, _: u64) -> Result<u64, u64> {
        self.call("compare_exchange", Err(2))
    }
    fn swap(&self, _: Addr, _: u64) -> u64 {
        self.call("swap", 3)
    }
    fn fetch_add(&self, _: Addr, _: u64) -> u64 {
        self.call("fetch_add", 4)
    }
    fn flush(&self, _: Addr, _: u64) {
        self.call("flush", ());
    }
    fn fence(&self, _: Fence) {
        self.call("fence", ());
    }
    fn work(&self, _: u32) {
        self.call("work", ());
    }
    fn spin_while(&self, _: Addr, _: u64) -> u64 {
        self.call("spin_while", 5)
    }
    fn output(&self, _: u64) {
        self.call("output", ());
    }
    fn read(&self, _: Addr, _: &mut [u8]) {
        self.call("read", ());
    }
    fn load_line(&self, _: Addr) -> [u64; LINE_BYTES as usize / 8] {
        self.call("load_line", [6; 8])
    }
    fn write(&self, _: Addr, _: &[u8]) {
        self.call("write", ());
    }
    fn write_nt(&self, _: Addr, _: &[u8]) {
        self.call("write_nt", ());
    }
    fn clock(&self) -> Option<impl Clock> {
        self.call("clock", Some(Unit))
    }
    fn parking(&self) -> Option<impl Parking> {
        self.call("parking", Some(Unit))
    }
    fn space(&self) -> Option<impl Space> {
        self.call("space", Some(Unit))
    }
    fn relocation(&self) -> Option<impl RelocationUnit> {
        self.call("relocation", Some(Unit))
    }
}

/// What is behind the doors of the recorder.
struct Unit;

impl Clock for Unit {
    fn now(&self) -> u64 {
        8
    }
    fn charge(&self, _: u8) -> u8 {
        9
    }
}

impl Parking for Unit {
    fn sleep_while(&self, _: Addr, _: u64) -> u64 {
        10
    }
    fn wake(&self, _: Addr) {}
}

impl Space for Unit {
    fn grow(&self, _: u64) -> bool {
        true
    }
    fn will_write(&self, _: Addr, _: u64) {}
    fn discard(&self, _: Addr, _: u64) {}
    fn bring_back(&self, _: Addr, _: u64) -> bool {
        false
    }
    fn hole(&self, at: Addr, len: u64) -> Option<(Addr, u64)> {
        Some((at.plus(8), len))
    }
}

impl RelocationUnit for Unit {
    fn forwards(&self) -> bool {
        true
    }
    fn set(&self, _: Option<Relocation>) {}
    fn relocate(&self, _: Addr, _: Addr, _: u64) {}
    fn forward(&self, at: Addr) -> Addr {
        at.plus(8)
    }
}

/// A layer that changes nothing.
struct Bare<M>(M);

impl<M: Memory> layer::Layer for Bare<M> {
    type Below = M;

    fn below(&self) -> &M {
        &self.0
    }
}

/// Calls each method of the seam in turn and checks what it returns.
fn call_each(memory: &impl Memory) {
    let at = Addr::pm(64);
    assert_eq!(memory.thread(), 7);
    assert!(memory.slots().is_some());
    assert_eq!(memory.load_bits(at, Width::B8), 1);
    memory.store_bits(at, Width::B8, 0);
    assert_eq!(memory.compare_exchange(at, 0, 1), Err(2));
    assert_eq!((memory.swap(at, 0), memory.fetch_add(at, 0)), (3, 4));
    memory.flush(at, 8);
    memory.fence(Fence::Order);
    memory.work(1);
    assert_eq!(memory.spin_while(at, 0), 5);
    memory.output(1);
    memory.read(at, &mut [0; 16]);
    assert_eq!(memory.load_line(at), [6; 8]);
    memory.write(at, &[0; 16]);
    memory.write_nt(at, &[0; 16]);
    let clock = memory.clock().expect("a clock");
    assert_eq!((clock.now(), clock.charge(1)), (8, 9));
    assert_eq!(memory.parking().expect("parking").sleep_while(at, 0), 10);
    let space = memory.space().expect("space");
    assert_eq!((space.grow(1), space.bring_back(at, 8)), (true, false));
    assert_eq!(space.hole(at, 8), Some((at.plus(8), 8)));
    let unit = memory.relocation().expect("a unit");
    assert_eq!((unit.forwards(), unit.forward(at)), (true, at.plus(8)));
}

#[test]
fn a_layer_forwards_every_method_of_the_seam() {
    let recorder = Recorder::new();
    call_each(&Bare(Bare(&recorder)));
    assert_eq!(recorder.calls.take(), METHODS);
    call_each(&Either::<&Recorder, Bare<Image>>::Left(&recorder));
    assert_eq!(recorder.calls.take(), METHODS);
    call_each(&Either::<Image, _>::Right(Bare(&recorder)));
    assert_eq!(recorder.calls.take(), METHODS);
}

#[test]
fn the_seam_has_at_most_twenty_methods() {
    assert!(METHODS.len() <= 20, "{METHODS:?}");
}

/// A layer that sees each word.
struct Words<'a>(&'a Recorder);

impl layer::Layer for Words<'_> {
    type Below = Recorder;
    const WORD_BY_WORD: bool = true;

    fn below(&self) -> &Recorder {
        self.0
    }
}

#[test]
fn ranges_come_word_by_word_to_a_layer_that_asks_for_it_and_in_one_piece_to_others() {
    let recorder = Recorder::new();
    Bare(&recorder).write_nt(Addr::pm(60), &[1; 12]);
    assert_eq!(recorder.calls.take(), ["write_nt"]);
    let words = Words(&recorder);
    words.write_nt(Addr::pm(60), &[1; 12]);
    words.read(Addr::pm(56), &mut [0; 16]);
    let expected = ["store_bits", "store_bits", "flush", "load_bits", "load_bits"];
    assert_eq!(recorder.calls.take(), expected);
    assert_eq!(words.load_line(Addr::pm(0)), [1; 8]);
    assert_eq!(recorder.calls.take(), ["load_bits"; 8]);
    assert_eq!(words.now(), 8, "doors are forwarded all the same");
}
