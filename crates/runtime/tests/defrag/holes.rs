//! Pages that the system has are let be: not loaded, not stored to, not flushed, until they have
//! been asked for again. Natively such an access takes the page back, or ends the process if the
//! disk is full.

use super::{List, Thread, options, push, retain, values, ways};
use seawall_memory::relocation::{Relocation, RelocationUnit};
use seawall_memory::{Addr, Image, Memory, MemoryExt, Space, Width, layer, lines_of};
use seawall_runtime::defrag::{DefragOptions, Defragmenter, Step};
use seawall_runtime::typed;
use seawall_runtime::{HeapError, HeapOptions, TxError};
use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;

const PAGE: u64 = 4096;

/// An image that the system takes pages of.
struct Holed {
    image: Image,
    holes: RefCell<BTreeSet<u64>>,
    /// How many pages it was given, and gave back.
    given: Cell<(u64, u64)>,
    /// From here on there is no room for more.
    is_full: Cell<bool>,
}

impl Holed {
    fn new(options: &HeapOptions) -> Holed {
        Holed {
            image: Image::new(options.pm_bytes(), options.dram_bytes()),
            holes: RefCell::default(),
            given: Cell::default(),
            is_full: Cell::new(false),
        }
    }

    #[track_caller]
    fn access(&self, at: Addr, len: u64) {
        for line in lines_of(at, len) {
            let page = line.start().offset() / PAGE;
            let is_hole = at.is_pm() && self.holes.borrow().contains(&page);
            assert!(!is_hole, "{at} is in a page that the system has");
        }
    }
}

impl layer::Layer for Holed {
    type Below = Image;
    const WORD_BY_WORD: bool = true;

    fn below(&self) -> &Image {
        &self.image
    }

    fn load_bits(&self, at: Addr, width: Width) -> u64 {
        self.access(at, width.bytes());
        self.image.load_bits(at, width)
    }

    fn store_bits(&self, at: Addr, width: Width, value: u64) {
        self.access(at, width.bytes());
        self.image.store_bits(at, width, value);
    }

    fn compare_exchange(&self, at: Addr, current: u64, new: u64) -> Result<u64, u64> {
        self.access(at, 8);
        self.image.compare_exchange(at, current, new)
    }

    fn swap(&self, at: Addr, new: u64) -> u64 {
        self.access(at, 8);
        self.image.swap(at, new)
    }

    fn fetch_add(&self, at: Addr, by: u64) -> u64 {
        self.access(at, 8);
        self.image.fetch_add(at, by)
    }

    fn spin_while(&self, at: Addr, value: u64) -> u64 {
        self.access(at, 8);
        self.image.spin_while(at, value)
    }

    fn flush(&self, at: Addr, len: u64) {
        self.access(at, len);
        self.image.flush(at, len);
    }

    fn space(&self) -> Option<impl Space> {
        Some(self)
    }

    fn relocation(&self) -> Option<impl RelocationUnit> {
        Some(self)
    }
}

impl Space for &Holed {
    fn grow(&self, bytes: u64) -> bool {
        self.image.grow(bytes)
    }

    fn will_write(&self, at: Addr, len: u64) {
        self.access(at, len);
    }

    fn discard(&self, at: Addr, len: u64) {
        assert!(at.offset().is_multiple_of(PAGE) && len.is_multiple_of(PAGE), "{at}, {len}");
        let pages = at.offset() / PAGE..(at.offset() + len) / PAGE;
        let (taken, given) = self.given.get();
        self.given.set((taken + pages.end - pages.start, given));
        self.holes.borrow_mut().extend(pages);
    }

    fn bring_back(&self, at: Addr, len: u64) -> bool {
        let pages = at.offset() / PAGE..(at.offset() + len).div_ceil(PAGE);
        let holes = pages.filter(|page| self.holes.borrow().contains(page));
        let holes: Vec<u64> = holes.collect();
        if self.is_full.get() && !holes.is_empty() {
            return false;
        }
        let (taken, given) = self.given.get();
        self.given.set((taken, given + holes.len() as u64));
        for page in holes {
            self.holes.borrow_mut().remove(&page);
            self.image.discard(Addr::pm(page * PAGE), PAGE);
        }
        true
    }
}

impl RelocationUnit for &Holed {
    fn forwards(&self) -> bool {
        (&self.image).forwards()
    }

    fn relocate(&self, to: Addr, from: Addr, len: u64) {
        self.access(to, len);
        self.access(from, len);
        (&self.image).relocate(to, from, len);
    }

    fn set(&self, registers: Option<Relocation>) {
        (&self.image).set(registers);
    }

    fn forward(&self, at: Addr) -> Addr {
        (&self.image).forward(at)
    }
}

fn defragmenter(how: DefragOptions) -> Defragmenter {
    Defragmenter::of::<List>(how).unwrap()
}

/// Pushes and removes in rounds that leave pages, and whole chunks, without anything, with a step
/// of defragmentation now and then; gives the values that are left, or how far it came.
fn churn(
    thread: &mut Thread<'_, Holed>,
    defragmenter: &mut Defragmenter,
    rounds: u64,
) -> Result<Vec<u64>, HeapError> {
    let mut expected: Vec<u64> = Vec::new();
    for round in 0..rounds {
        for part in 0..12 {
            let first = (round * 12 + part) * 100;
            push(thread, first..first + 100)?;
            expected.splice(0..0, (first..first + 100).rev());
            for _ in 0..30 {
                match defragmenter.step(thread.untyped()) {
                    Ok(Step::Rest | Step::Done) => break,
                    Ok(_) => {}
                    Err(error) => panic!("{error}"),
                }
            }
        }
        let keeps = |value: u64| value.is_multiple_of(16) && (value / 1200 + 3 > round);
        retain(thread, keeps)?;
        expected.retain(|value| keeps(*value));
        let _ = defragmenter.run(thread.untyped());
        if round % 3 == 2 {
            thread.untyped().retire();
        }
    }
    Ok(expected)
}

#[test]
fn nothing_touches_a_page_that_the_system_has() {
    for how in ways() {
        let options = options(64);
        let memory = Holed::new(&options);
        let heap = typed::create::<List, _, HeapError>(&memory, "holes", 7, &options, |pool| {
            Ok(pool.heap())
        });
        let mut thread = Thread::join(heap.unwrap(), &memory).unwrap();
        let mut defragmenter = defragmenter(how);
        let expected = churn(&mut thread, &mut defragmenter, 12).unwrap();
        assert_eq!(values(&mut thread), Ok(expected), "{how}");
        let (taken, given) = memory.given.get();
        assert!(taken > 200 && given > 100, "{how}: {taken} taken, {given} given back");
        assert!(defragmenter.counts().discarded >= taken, "{how}: {taken}");
    }
}

/// A thread of it.
struct Numbered<'m> {
    holed: &'m Holed,
    thread: usize,
}

impl layer::Layer for Numbered<'_> {
    type Below = Holed;

    fn below(&self) -> &Holed {
        self.holed
    }

    fn thread(&self) -> usize {
        self.thread
    }
}

#[test]
fn the_system_gets_nothing_while_a_scope_is_open_that_may_have_an_address_there() {
    for how in ways() {
        let options = options(32);
        let holed = Holed::new(&options);
        let [one, other] = [0, 1].map(|thread| Numbered { holed: &holed, thread });
        let heap =
            typed::create::<List, _, HeapError>(&one, "holes", 7, &options, |pool| Ok(pool.heap()));
        let heap = heap.unwrap();
        let mut thread = Thread::join(heap, &one).unwrap();
        let mut beside = Thread::join(heap, &other).unwrap();
        push(&mut thread, 0..3_000).unwrap();
        retain(&mut thread, |value| value % 50 == 0).unwrap();
        let mut defragmenter = defragmenter(how);
        let seen = beside.enter::<_, HeapError>(|session, root| {
            for _ in 0..500 {
                thread.defragment(&mut defragmenter).unwrap();
            }
            let first = session.get(root)?.first.expect("a node");
            Ok((session.get(first)?.value, holed.given.get().0))
        });
        assert_eq!(seen, Ok((2_950, 0)), "{how}");
        defragmenter.run(thread.untyped()).unwrap();
        assert!(holed.given.get().0 > 0, "{how}");
        beside.enter(|session, root| super::put(session, root, 9)).unwrap();
        assert_eq!(values(&mut beside).map(|values| values.len()), Ok(61), "{how}");
    }
}

#[test]
fn without_room_for_pages_that_the_system_has_the_heap_is_full_and_goes_on() {
    let options = options(64);
    let memory = Holed::new(&options);
    let heap =
        typed::create::<List, _, HeapError>(&memory, "holes", 7, &options, |pool| Ok(pool.heap()));
    let mut thread = Thread::join(heap.unwrap(), &memory).unwrap();
    let mut defragmenter = defragmenter(DefragOptions::default());
    let expected = churn(&mut thread, &mut defragmenter, 6).unwrap();
    memory.is_full.set(true);
    let mut count = 0;
    let full = loop {
        match push(&mut thread, [1_000_000 + count]) {
            Ok(()) => count += 1,
            Err(error) => break error,
        }
    };
    assert!(matches!(full, TxError::Full { .. }), "{full}");
    let _ = defragmenter.run(thread.untyped());
    assert_eq!(
        values(&mut thread).map(|values| values.len() as u64),
        Ok(expected.len() as u64 + count)
    );
    memory.is_full.set(false);
    push(&mut thread, 2_000_000..2_002_000).unwrap();
    let there = expected.len() as u64 + count + 2_000;
    assert_eq!(values(&mut thread).map(|values| values.len() as u64), Ok(there));
}
