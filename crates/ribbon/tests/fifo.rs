//! The FIFO step by step: full, left behind, taken over, shared by several flushers.

use super::scene::options;
use seawall_memory::{Addr, Clock, Fence, Image, Line, Memory, MemoryExt, layer, lines_of};
use seawall_ribbon::{BATCH_LINES, FlusherStep, Ribbon, RibbonOptions};
use seawall_runtime::Arena;
use std::cell::{Cell, RefCell};
use std::panic::{AssertUnwindSafe, catch_unwind};

/// A thread of an image: notes its flushes, and runs something in the middle of its next drain.
pub(super) struct Thread<'a> {
    image: &'a Image,
    thread: usize,
    flushed: RefCell<Vec<Line>>,
    /// Lines flushed by the last fence.
    fenced: Cell<usize>,
    in_drain: RefCell<Option<Box<dyn FnOnce() + 'a>>>,
}

impl<'a> Thread<'a> {
    pub(super) fn new(image: &'a Image, thread: usize) -> Thread<'a> {
        Thread {
            image,
            thread,
            flushed: RefCell::default(),
            fenced: Cell::new(0),
            in_drain: RefCell::default(),
        }
    }

    fn in_drain(&self, action: impl FnOnce() + 'a) {
        *self.in_drain.borrow_mut() = Some(Box::new(action));
    }

    fn has_made_durable(&self, at: Addr) -> bool {
        self.flushed.borrow()[..self.fenced.get()].contains(&at.line())
    }
}

impl layer::Layer for Thread<'_> {
    type Below = Image;

    fn below(&self) -> &Image {
        self.image
    }

    fn thread(&self) -> usize {
        self.thread
    }
    fn flush(&self, at: Addr, len: u64) {
        self.flushed.borrow_mut().extend(lines_of(at, len));
    }
    fn fence(&self, fence: Fence) {
        if fence == Fence::Drain
            && let Some(action) = self.in_drain.take()
        {
            action();
        }
        self.fenced.set(self.flushed.borrow().len());
    }
}

fn place(options: &RibbonOptions) -> (Image, Ribbon, Addr) {
    let mut arena = Arena::new();
    let ribbon = Ribbon::place(&mut arena, options).expect("good options");
    let data = arena.pm(64 * 64);
    (Image::new(arena.pm_bytes(), arena.dram_bytes()), ribbon, data)
}

fn patient(threads: u64, flushers: u64) -> RibbonOptions {
    RibbonOptions { patience: Some(3), ..options(threads, flushers) }
}

#[test]
fn what_does_not_fit_is_flushed_at_once_and_all_of_it_is_durable_at_the_fence() {
    let (image, ribbon, data) = place(&options(1, 0));
    let thread = Thread::new(&image, 0);
    let memory = ribbon.join(&thread);
    memory.flush(data, 40 * 64);
    assert_eq!(thread.flushed.borrow().len(), 24);
    memory.drain();
    assert!((0..40).all(|line| thread.has_made_durable(data.plus(64 * line))));
    memory.leave();
    let counts = ribbon.counts(&image);
    assert_eq!((counts.pushed, counts.by_owners, counts.full), (16, 16, 24));
}

/// An image with a clock, which goes on when it is looked at.
struct Ticking<'a> {
    image: &'a Image,
    now: Cell<u64>,
}

impl layer::Layer for Ticking<'_> {
    type Below = Image;

    fn below(&self) -> &Image {
        self.image
    }

    fn clock(&self) -> Option<impl Clock> {
        Some(self)
    }
}

impl Clock for &Ticking<'_> {
    fn now(&self) -> u64 {
        self.now.set(self.now.get() + 100);
        self.now.get()
    }

    fn charge(&self, account: u8) -> u8 {
        account
    }
}

#[test]
fn the_first_flusher_has_so_many_work_as_it_tries_and_again_after_a_period() {
    let tried = |period| {
        let options = RibbonOptions { period, window: period / 10, ..options(1, 6) };
        let (image, ribbon, _) = place(&options);
        let clock = Ticking { image: &image, now: Cell::new(0) };
        let mut flusher = ribbon.flusher(&clock, 0);
        let mut active: Vec<u64> = (0..500)
            .map(|_| {
                flusher.step();
                ribbon.active(&image)
            })
            .collect();
        active.dedup();
        active
    };
    assert_eq!(tried(0), [6]);
    let active = tried(10_000);
    assert_eq!(active[..5], [6, 1, 2, 5, 6], "{active:?}");
    assert!(active[5..].windows(4).any(|again| again == [1, 2, 5, 6]), "{active:?}");
}

#[test]
fn a_bell_never_rings_as_it_did_before_though_its_thread_has_left_and_joined_again() {
    let (image, ribbon, data) = place(&options(1, 2));
    let mut flushers = [0, 1].map(|index| ribbon.flusher(&image, index));
    let mut heard: Vec<u64> = Vec::new();
    for round in 0..4 {
        let memory = ribbon.join(&image);
        // At first two bells are rung for one request, and later one.
        if round == 0 {
            flushers[0].lie_down();
        }
        heard.extend(flushers[1].lie_down());
        memory.flush(data, 8);
        while flushers.iter_mut().any(|flusher| flusher.step() != FlusherStep::Idle) {}
        memory.leave();
    }
    let count = heard.len();
    heard.sort_unstable();
    heard.dedup();
    assert_eq!((count, heard.len()), (4, 4));
}

#[test]
fn a_full_fifo_has_room_again_when_flushers_are_done_with_it() {
    let (image, ribbon, data) = place(&options(1, 1));
    let memory = ribbon.join(&image);
    let mut flusher = ribbon.flusher(&image, 0);
    memory.flush(data, 16 * 64);
    assert_eq!(flusher.step(), FlusherStep::Flushed(16));
    memory.flush(data, 16 * 64);
    assert_eq!(flusher.step(), FlusherStep::Flushed(16));
    memory.drain();
    memory.leave();
    let counts = ribbon.counts(&image);
    assert_eq!((counts.by_flushers, counts.full, counts.by_owners), (32, 0, 0));
}

#[test]
fn a_thread_that_leaves_drains_what_it_pushed() {
    let (image, ribbon, data) = place(&options(1, 0));
    let thread = Thread::new(&image, 0);
    let memory = ribbon.join(&thread);
    memory.flush(data, 128);
    assert_eq!(thread.flushed.borrow().len(), 0);
    drop(memory);
    assert!(thread.has_made_durable(data) && thread.has_made_durable(data.plus(64)));
}

#[test]
fn the_fifo_of_a_lost_thread_starts_afresh() {
    let (image, ribbon, data) = place(&options(1, 1));
    let lost = ribbon.join(&image);
    lost.flush(data, 128);
    std::mem::forget(lost);
    let memory = ribbon.join(&image);
    let mut flusher = ribbon.flusher(&image, 0);
    assert_eq!(flusher.step(), FlusherStep::Idle);
    memory.flush(data, 64);
    assert_eq!(ribbon.counts(&image).depth, 1);
    assert_eq!(flusher.step(), FlusherStep::Flushed(1));
    memory.drain();
}

#[test]
fn an_owner_out_of_patience_does_what_a_slow_flusher_has_taken_on() {
    let (image, ribbon, data) = place(&patient(1, 1));
    let thread = Thread::new(&image, 0);
    let memory = ribbon.join(&thread);
    let slow = Thread::new(&image, 1);
    let mut flusher = ribbon.flusher(&slow, 0);
    memory.flush(data, 64);
    slow.in_drain(|| {
        memory.drain();
        assert!(thread.has_made_durable(data));
        memory.flush(data.plus(64), 64);
    });
    assert_eq!(flusher.step(), FlusherStep::Flushed(1));
    drop(flusher);
    drop(slow);
    assert!(!thread.has_made_durable(data.plus(64)));
    memory.drain();
    assert!(thread.has_made_durable(data.plus(64)), "the late flusher was not counted");
    memory.leave();
    assert_eq!(ribbon.counts(&image).takeovers, 1);
}

#[test]
fn flushers_that_died_in_their_work_hang_nobody() {
    let (image, ribbon, data) = place(&patient(1, 2));
    let thread = Thread::new(&image, 0);
    let memory = ribbon.join(&thread);
    memory.flush(data, 64);
    for index in 0..2 {
        memory.flush(data.plus(64 * (index + 1)), 64);
        let lost = Thread::new(&image, 1);
        lost.in_drain(|| panic!("lost"));
        let mut flusher = ribbon.flusher(&lost, index);
        assert!(catch_unwind(AssertUnwindSafe(|| flusher.step())).is_err());
    }
    memory.drain();
    assert!((0..3).all(|line| thread.has_made_durable(data.plus(64 * line))));
    memory.persist(data.plus(512), 8);
    assert!(thread.has_made_durable(data.plus(512)));
    memory.leave();
    assert_eq!(ribbon.counts(&image).takeovers, 1);
}

#[test]
fn one_fence_of_a_flusher_serves_several_threads_and_a_batch_is_limited() {
    let (image, ribbon, data) = place(&options(3, 1));
    let threads: Vec<Thread<'_>> = (0..3).map(|thread| Thread::new(&image, thread)).collect();
    let joined: Vec<_> = threads.iter().map(|thread| ribbon.join(thread)).collect();
    for (line, memory) in (0..).zip(&joined) {
        memory.flush(data.plus(64 * line), 64);
    }
    let server = Thread::new(&image, 3);
    let mut flusher = ribbon.flusher(&server, 0);
    assert_eq!(flusher.step(), FlusherStep::Flushed(3));
    assert_eq!(ribbon.counts(&image).flusher_fences, 1);
    for memory in &joined {
        memory.drain();
        memory.flush(data, 16 * 64);
    }
    assert_eq!(flusher.step(), FlusherStep::Flushed(BATCH_LINES));
    assert_eq!(ribbon.counts(&image).depth, 2 * BATCH_LINES);
}

#[test]
fn flushers_that_are_too_many_rest_and_all_end_when_it_is_closed() {
    let (image, ribbon, _) = place(&options(1, 3));
    ribbon.set_active(&image, 2);
    assert_eq!(ribbon.counts(&image).active, 2);
    let steps: Vec<FlusherStep> =
        (0..3).map(|index| ribbon.flusher(&image, index).step()).collect();
    assert_eq!(steps, [FlusherStep::Idle, FlusherStep::Idle, FlusherStep::Surplus]);
    ribbon.set_active(&image, 0);
    assert_eq!(ribbon.active(&image), 1);
    ribbon.close(&image);
    (0..3).for_each(|index| ribbon.serve(&image, index));
}

#[test]
fn a_flusher_lies_down_only_when_there_is_nothing_and_is_rung_for() {
    let (image, ribbon, data) = place(&options(1, 1));
    let memory = ribbon.join(&image);
    let mut flusher = ribbon.flusher(&image, 0);
    memory.flush(data, 64);
    assert_eq!(flusher.lie_down(), None);
    flusher.step();
    let bell = flusher.lie_down();
    assert_eq!(bell, Some(flusher.bell()));
    memory.flush(data, 64);
    assert_ne!(bell, Some(flusher.bell()));
    let after = flusher.bell();
    memory.flush(data, 64);
    assert_eq!(flusher.bell(), after, "nobody rests: it is not rung again");
    memory.drain();
}

#[test]
fn the_depth_is_what_is_pushed_and_not_done_by_anybody() {
    let (image, ribbon, data) = place(&options(1, 1));
    let memory = ribbon.join(&image);
    let depth = || ribbon.counts(&image).depth;
    memory.flush(data, 5 * 64);
    assert_eq!(depth(), 5, "nobody has taken them on");
    let below = Thread::new(&image, 1);
    below.in_drain(|| assert_eq!(depth(), 5, "they are flushed, and not fenced"));
    assert_eq!(ribbon.flusher(&below, 0).step(), FlusherStep::Flushed(5));
    assert_eq!(depth(), 0);
    memory.flush(data, 3 * 64);
    assert_eq!(depth(), 3);
    memory.drain();
    assert_eq!(depth(), 0, "the owner has done them");
    memory.leave();
}
