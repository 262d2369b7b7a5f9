//! Pages that the system has are let be: not loaded, not stored to, not flushed, until they have
//! been asked for again. Natively such an access takes the page back, or ends the process if the
//! disk is full.

use super::{List, Thread, options, push, retain, values, ways};
use seawall_memory::relocation::{Relocation, RelocationUnit};
use seawall_memory::{Addr, Image, Memory, MemoryExt, Space, Width, layer, lines_of};
use seawall_runtime::defrag::{DefragOptions, Defragmenter, Step};
use seawall_runtime::typed;
use seawall_runtime::{Heap, HeapError, HeapOptions, TxError};
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

    /// The same pool after a crash, on a full disk. A sparse copy has no page that is zero, but for
    /// those that a program must have to read which are needed.
    fn crashed(self, options: &HeapOptions, is_sparse_copy: bool) -> Holed {
        let heap = Heap::read(&self.image, "holes", options.pm_bytes()).unwrap();
        let backed = heap.bytes_backed(options.pm_bytes());
        let pm = self.image.into_pm();
        if is_sparse_copy {
            let pages = (0..).zip(pm.chunks(PAGE as usize)).skip((backed / PAGE) as usize);
            let zeros = pages.filter(|(_, page)| page.iter().all(|byte| *byte == 0));
            self.holes.borrow_mut().extend(zeros.map(|(page, _)| page));
        }
        let image = Image::from_pm(pm, options.dram_bytes());
        Holed { image, given: Cell::default(), is_full: Cell::new(true), ..self }
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

    fn hole(&self, at: Addr, len: u64) -> Option<(Addr, u64)> {
        let (first, end) = (at.offset() / PAGE, (at.offset() + len).div_ceil(PAGE));
        let holes = self.holes.borrow();
        let start = *holes.range(first..end).next()?;
        let behind = (start..end).find(|page| !holes.contains(page)).unwrap_or(end);
        Some((Addr::pm(start * PAGE), (behind - start) * PAGE))
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

/// A list from which cycles have returned pages, beside objects of zeros, and what it has. If
/// `is_cut`, the power fails amid the next cycle.
fn churned(options: &HeapOptions, how: DefragOptions, is_cut: bool) -> (Holed, Vec<u64>) {
    let memory = Holed::new(options);
    let heap =
        typed::create::<List, _, HeapError>(&memory, "holes", 7, options, |pool| Ok(pool.heap()));
    let mut thread = Thread::join(heap.unwrap(), &memory).unwrap();
    let zeros = thread.untyped().transaction(|tx| {
        [20_000, 70_000].into_iter().try_fold(Vec::new(), |mut zeros, bytes| {
            zeros.push(tx.alloc(bytes)?);
            tx.write(*zeros.last().expect("it"), &vec![0; bytes as usize])?;
            Ok::<_, TxError>(zeros)
        })
    });
    let mut defragmenter = defragmenter(how);
    let expected = churn(&mut thread, &mut defragmenter, 7).unwrap();
    if is_cut {
        (0..60).for_each(|_| drop(defragmenter.step(thread.untyped())));
    }
    assert!(memory.holes.borrow().len() > 50, "{how}");
    // Recovery repeats this one.
    let zeros = zeros.unwrap();
    let stored = thread
        .untyped()
        .transaction(|tx| zeros.iter().try_for_each(|at| tx.store(at.plus(3 * PAGE), 0u64)));
    assert_eq!(stored, Ok::<_, TxError>(()));
    drop(thread);
    (memory, expected)
}

fn reopened(memory: &Holed, options: &HeapOptions) -> Result<Heap, HeapError> {
    typed::open::<List, _, _>(memory, "holes", options.pm_bytes(), |pool| Ok(pool.heap()))
}

#[test]
fn a_pool_with_holes_is_opened_on_a_full_disk_and_fills_them_when_there_is_room() {
    let options = options(64);
    for (how, is_cut) in ways().flat_map(|how| [(how, false), (how, true)]) {
        let (memory, expected) = churned(&options, how, is_cut);
        let memory = memory.crashed(&options, false);
        let before = memory.holes.borrow().len();
        let heap = reopened(&memory, &options).unwrap();
        assert_eq!((memory.holes.borrow().len(), memory.given.get()), (before, (0, 0)), "{how}");
        let mut thread = Thread::join(heap, &memory).unwrap();
        assert_eq!(values(&mut thread).as_ref(), Ok(&expected), "{how}");
        let full = (0..).find_map(|value| push(&mut thread, [value]).err()).unwrap();
        assert!(matches!(full, TxError::Full { .. }), "{full}");
        memory.is_full.set(false);
        let mut defragmenter = defragmenter(how);
        churn(&mut thread, &mut defragmenter, 4).unwrap();
        assert!(memory.given.get().1 > 50, "{how}: {:?}", memory.given.get());
    }
}

#[test]
fn a_sparse_copy_gets_space_for_what_is_in_use_when_it_is_opened_or_is_refused() {
    let options = options(64);
    for (how, is_cut) in ways().flat_map(|how| [(how, false), (how, true)]) {
        let (memory, expected) = churned(&options, how, is_cut);
        let memory = memory.crashed(&options, true);
        let sparse = memory.holes.borrow().len() as u64;
        let error = reopened(&memory, &options).unwrap_err();
        assert!(matches!(error, HeapError::NoRoom { bytes } if bytes >= PAGE), "{how}: {error}");
        let memory = memory.crashed(&options, true);
        memory.is_full.set(false);
        let heap = reopened(&memory, &options).unwrap();
        let filled = memory.given.get().1;
        assert!((20..sparse - 20).contains(&filled), "{how}: {filled} of {sparse}");
        let mut objects = Vec::new();
        heap.objects(&memory, |object| objects.push(object)).unwrap();
        for object in objects.iter().filter(|object| object.type_number.is_none()) {
            memory.read(object.at, &mut vec![0; object.bytes as usize]);
        }
        let mut thread = Thread::join(heap, &memory).unwrap();
        assert_eq!(values(&mut thread), Ok(expected), "{how}");
        churn(&mut thread, &mut defragmenter(how), 4).unwrap();
    }
}
