//! What is counted of a program's use of persistent memory.

use seawall_any::{AccessCounts, Watch, Watched};
use seawall_memory::{Addr, Clock, Image, Memory, MemoryExt, layer};
use std::cell::{Cell, RefCell};
use std::rc::Rc;

/// A memory of two threads with a clock, both in the hand of the test.
struct Clocked {
    image: Image,
    thread: Cell<usize>,
    now: Cell<u64>,
}

impl layer::Layer for Clocked {
    type Below = Image;

    fn below(&self) -> &Image {
        &self.image
    }

    fn thread(&self) -> usize {
        self.thread.get()
    }
    fn clock(&self) -> Option<impl Clock> {
        Some(self)
    }
}

impl Clock for &Clocked {
    fn now(&self) -> u64 {
        self.now.get()
    }
    fn charge(&self, account: u8) -> u8 {
        account
    }
}

#[test]
fn epochs_their_lines_and_what_they_depend_on_are_counted_within_the_window() {
    let image = Image::new(1024, 256);
    let clocked = Clocked { image, thread: Cell::new(0), now: Cell::new(1000) };
    let watch = Rc::new(RefCell::new(Watch::new(1024, 2, 100)));
    let memory = Watched::new(&clocked, watch.clone());
    memory.store(Addr::pm(0), 1u64);
    memory.order();
    assert_eq!(*watch.borrow().counts(), AccessCounts::default(), "a warm-up does not count");
    for thread in [1, 0] {
        clocked.thread.set(thread);
        memory.begin();
    }
    // The line was written 100 cycles before: near enough. Two words of it are one line.
    clocked.now.set(1100);
    memory.store(Addr::pm(0), 2u64);
    memory.store(Addr::pm(8), 2u64);
    memory.drain();
    memory.order();
    memory.store(Addr::dram(0), 3u64);
    memory.order();
    // Too late for itself, and two lines.
    clocked.now.set(1201);
    memory.write(Addr::pm(56), &[1; 16]);
    memory.order();
    memory.done();
    memory.done();
    // Another thread, which depends on it and not on itself.
    clocked.thread.set(1);
    clocked.now.set(1250);
    memory.store(Addr::pm(64), 5u64);
    memory.load::<u64>(Addr::dram(8));
    memory.drain();
    memory.done();
    let expected = AccessCounts {
        pm: 5,
        accesses: 7,
        epochs: 3,
        single: 2,
        own: 1,
        cross: 1,
        lines: 4,
        transactions: vec![2, 1],
    };
    assert_eq!(*watch.borrow().counts(), expected);
}
