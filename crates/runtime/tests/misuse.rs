//! What programs do by mistake, in safe code: it is refused, and harms nothing that was promised.

use seawall_memory::{Addr, Image, Memory, MemoryExt, Width, layer};
use seawall_native::{Pool, PoolOptions};
use seawall_runtime::typed::{self, Persist, Ptr};
use seawall_runtime::{Heap, HeapError, HeapOptions, Logging, Session, TxError};
use seawall_testkit::script::NAME;
use std::cell::Cell;
use std::collections::BTreeSet;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;

const KINDS: [Logging; 2] = [Logging::Redo, Logging::Undo];

fn options(threads: u64) -> HeapOptions {
    HeapOptions {
        bytes: 8 << 16,
        bytes_max: 8 << 16,
        threads,
        log_bytes: 8192,
        ..HeapOptions::default()
    }
}

fn pool_options(options: &HeapOptions) -> PoolOptions {
    PoolOptions { dram_bytes: options.dram_bytes(), ..PoolOptions::default() }
}

/// A pool of this machine for two threads, and its heap.
fn native() -> (Pool, Heap) {
    let options = options(2);
    let pool = Pool::temporary(options.pm_bytes(), &pool_options(&options)).unwrap();
    let heap = Heap::create(&pool.memory(0), NAME, 7, &options).unwrap();
    (pool, heap)
}

fn image() -> (Image, Heap) {
    let options = options(1);
    let image = Image::new(options.pm_bytes(), options.dram_bytes());
    let heap = Heap::create(&image, NAME, 7, &options).unwrap();
    (image, heap)
}

/// What `action` panics with.
fn panic_of<T>(action: impl FnOnce() -> T) -> String {
    let panic = catch_unwind(AssertUnwindSafe(|| drop(action()))).expect_err("it panics");
    match panic.downcast::<String>() {
        Ok(text) => *text,
        Err(other) => other.downcast_ref::<&str>().expect("a text").to_string(),
    }
}

fn set<M: Memory>(session: &mut Session<'_, M>, at: Addr, value: u64) {
    session.transaction(|tx| tx.store(at, value)).expect("it fits");
}

#[test]
fn a_heap_is_not_made_over_another_nor_over_a_part_of_a_header() {
    let (image, heap) = image();
    set(&mut heap.join(&image), heap.root(), 5);
    let error = Heap::create(&image, NAME, 8, &options(1)).expect_err("there is one");
    assert_eq!(error, HeapError::Exists);
    assert!(error.to_string().contains("open the heap"), "{error}");
    assert_eq!(image.load::<u64>(heap.root()), 5);
    let options = options(1);
    for word in 0..24 {
        let image = Image::new(options.pm_bytes(), options.dram_bytes());
        image.store(Addr::pm(8 * word), 1u64);
        let before = image.clone().into_pm();
        assert_eq!(Heap::create(&image, NAME, 8, &options), Err(HeapError::Exists), "{word}");
        assert!(image.into_pm() == before, "word {word}: something has changed");
    }
}

#[test]
fn what_is_open_is_not_opened_again_until_a_restart() {
    let (image, heap) = image();
    let mut session = heap.join(&image);
    let bytes = image.pm_bytes();
    let error = Heap::open(&image, NAME, bytes).map(|_| ()).expect_err("it is open");
    assert_eq!(error, HeapError::Open);
    set(&mut session, heap.root(), 5);
    drop(session);
    let image = Image::from_pm(image.into_pm(), options(1).dram_bytes());
    let (heap, _) = Heap::open(&image, NAME, bytes).expect("a restart");
    assert_eq!(image.load::<u64>(heap.root()), 5);
    assert_eq!(Heap::open(&image, NAME, bytes).map(|_| ()), Err(HeapError::Open));
}

fn opened(path: &Path, options: &HeapOptions) -> Pool {
    Pool::open(path, &pool_options(options), |_, _| Ok(())).unwrap()
}

#[test]
fn the_memory_of_a_copy_is_not_that_of_its_original() {
    let folder = tempfile::tempdir().unwrap();
    let (one, other) = (folder.path().join("one"), folder.path().join("other"));
    let options = options(1);
    let pool = Pool::create(&one, options.pm_bytes(), &pool_options(&options)).unwrap();
    let heap = Heap::create(&pool.memory(0), NAME, 7, &options).unwrap();
    set(&mut heap.join(&pool.memory(0)), heap.root(), 5);
    std::fs::copy(&one, &other).unwrap();
    let copy = opened(&other, &options);
    let text = panic_of(|| drop(heap.join(&copy.memory(0))));
    assert!(text.contains("another pool"), "{text}");
    let (its_heap, recovered) = Heap::open(&copy.memory(0), NAME, copy.bytes()).unwrap();
    assert_eq!((recovered.replayed, its_heap.uuid()), (1, heap.uuid()));
    panic_of(|| drop(heap.join(&copy.memory(0))));
    panic_of(|| drop(its_heap.join(&pool.memory(0))));
    drop(pool);
    let again = opened(&one, &options);
    panic_of(|| drop(heap.join(&again.memory(0))));
    let memory = copy.memory(0);
    set(&mut its_heap.join(&memory), heap.root(), 6);
}

#[test]
fn entering_with_the_memory_of_another_pool_is_refused_by_that_name() {
    let options = HeapOptions { defragment: true, ..typed::options::<u64>() };
    let image = Image::new(options.pm_bytes(), options.dram_bytes());
    let heap = Heap::create(&image, NAME, 7, &options).unwrap();
    let other = Image::new(4096, 64);
    let text = panic_of(|| typed::enter::<u64, (), HeapError>(heap, &other, |_| Ok(())));
    assert!(text.contains("another pool"), "{text}");
}

#[test]
fn a_second_session_of_a_number_takes_over_and_the_first_changes_nothing_more() {
    let (pool, heap) = native();
    let (one, other) = (pool.memory(0), pool.memory(0));
    let mut first = heap.join(&one);
    let mine = first.transaction(|tx| tx.alloc(40)).expect("room");
    let mut second = heap.join(&other);
    let alloc =
        |session: &mut Session<'_, _>| session.transaction(|tx| tx.alloc(40)).expect("room");
    let mut all = BTreeSet::from([mine]);
    for _ in 0..100 {
        let text = panic_of(|| alloc(&mut first));
        assert!(text.contains("joined since"), "{text}");
        assert!(all.insert(alloc(&mut second)), "a block of two objects");
    }
    panic_of(|| first.retire());
    panic_of(|| first.alloc_into(heap.root(), 8, &[]));
    first.leave();
    assert!(all.insert(alloc(&mut second)), "what the first had is the second's");
    assert_eq!(heap.stats(&one).expect("whole").objects, 102);
}

#[test]
fn a_number_is_one_threads_at_a_time() {
    let (pool, heap) = native();
    let memory = pool.memory(0);
    let mut session = heap.join(&memory);
    let beside = || {
        std::thread::scope(|scope| {
            let join = || panic_of(|| drop(heap.join(&pool.memory(0))));
            scope.spawn(join).join().unwrap()
        })
    };
    let text = beside();
    assert!(text.contains("thread number 0") && text.contains("another thread"), "{text}");
    set(&mut session, heap.root(), 5);
    drop(session);
    std::thread::scope(|scope| {
        let work = || set(&mut heap.join(&pool.memory(0)), heap.root(), 6);
        scope.spawn(work).join().unwrap();
    });
    assert_eq!(memory.load::<u64>(heap.root()), 6);
}

#[test]
fn nobody_joins_in_the_middle_of_a_transaction_of_the_same_number() {
    let (image, heap) = image();
    let mut session = heap.join(&image);
    let outcome: Result<(), TxError> = session.transaction(|tx| {
        tx.store(heap.root(), 5u64)?;
        let text = panic_of(|| heap.join(&image));
        assert!(text.contains("in a transaction"), "{text}");
        tx.store(heap.root().plus(8), 6u64)
    });
    assert_eq!(outcome, Ok(()));
    set(&mut heap.join(&image), heap.root(), 7);
}

#[derive(Clone, Copy, Persist)]
struct Root<'p> {
    number: Option<Ptr<'p, Number>>,
    holder: Option<Ptr<'p, Holder<'p>>>,
}

#[derive(Clone, Copy, Persist)]
struct Number {
    value: [u64; 2],
}

#[derive(Clone, Copy, Persist)]
struct Holder<'p> {
    number: [Option<Ptr<'p, Number>>; 2],
}

#[test]
fn no_pointer_is_made_of_a_number_by_two_sessions() {
    let options = HeapOptions { threads: 1, ..typed::options::<Root>() };
    let image = Image::new(options.pm_bytes(), options.dram_bytes());
    typed::create::<Root, _, HeapError>(&image, NAME, 7, &options, |pool| {
        let mut first = pool.join(&image);
        first.transaction(|tx| tx.alloc(Holder { number: [None; 2] }).map(|_| ()))?;
        let mut second = pool.join(&image);
        panic_of(|| first.transaction(|tx| tx.alloc(Number { value: [0x4141; 2] }).map(|_| ())));
        second.transaction(|tx| {
            let holder = tx.alloc(Holder { number: [None; 2] })?;
            tx.set(pool.root().at(Root::HOLDER), Some(holder))
        })?;
        panic_of(|| first.transaction(|tx| tx.alloc(Number { value: [0x4141; 2] }).map(|_| ())));
        let holder = second.get(pool.root())?.holder.expect("just set");
        assert!(second.get(holder)?.number.iter().all(Option::is_none));
        Ok(())
    })
    .expect("room");
}

#[test]
fn a_pending_transaction_is_waited_for_where_it_was_begun() {
    let (pool, heap) = native();
    let (one, other) = (pool.memory(0), pool.memory(1));
    let (mut first, second) = (heap.join(&one), heap.join(&other));
    let store = |tx: &mut seawall_runtime::Tx<'_, '_, _>| tx.store(heap.root(), 5u64);
    let begun = first.begin::<_, TxError>(Logging::Redo, store);
    let text = panic_of(|| second.wait(begun.expect("it fits").1));
    assert!(text.contains("waited for there"), "{text}");
    let begun = first.begin::<_, TxError>(Logging::Redo, store);
    first.wait(begun.expect("it fits").1);
}

/// Ends by a panic, in the middle of a transaction that has stored 2 and taken the lock.
fn panics<M: Memory>(session: &mut Session<'_, M>, heap: &Heap, kind: Logging, way: usize) {
    let (at, lock) = (heap.root(), heap.stripes().outer(heap.root()));
    let _ = session.transaction_with::<(), TxError>(kind, |tx| {
        tx.lock(lock)?;
        tx.store(at, 2u64)?;
        let gone = tx.alloc(100)?;
        match way {
            0 => panic!("a bug of the program"),
            1 => tx.nested(|tx| {
                tx.store(gone, 3u64)?;
                panic!("a bug of the program")
            }),
            _ => {
                "no number".parse::<u64>().expect("a bug of the program");
                Ok(())
            }
        }
    });
}

#[test]
fn a_panic_in_a_transaction_leaves_no_lock_and_no_value_for_others_to_see() {
    for (kind, way) in KINDS.into_iter().flat_map(|kind| [0, 1, 2].map(|way| (kind, way))) {
        let (pool, heap) = native();
        let (one, other) = (pool.memory(0), pool.memory(1));
        let (mut first, mut second) = (heap.join(&one), heap.join(&other));
        set(&mut first, heap.root(), 1);
        let lock = heap.stripes().outer(heap.root());
        let text = panic_of(|| panics(&mut first, &heap, kind, way));
        assert!(text.contains("a bug of the program"), "{text}");
        assert_eq!(second.load::<u64>(heap.root()), 1, "{kind:?} {way}");
        let seen = second.transaction(|tx| {
            tx.lock(lock)?;
            let seen: u64 = tx.load(heap.root());
            tx.store(heap.root(), seen + 10)?;
            Ok::<_, TxError>(seen)
        });
        assert_eq!(seen, Ok(1), "{kind:?} {way}");
        first.transaction(|tx| tx.lock(lock)).expect("it is free");
        assert_eq!(one.load::<u64>(heap.root()), 11, "a later transaction takes nothing back");
        assert_eq!(heap.stats(&one).expect("whole").objects, 0);
    }
}

#[test]
fn a_thread_that_ends_by_a_panic_takes_nothing_with_it_and_a_restart_brings_nothing_back() {
    for kind in KINDS {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.pool");
        let options = options(2);
        let pool = Pool::create(&path, options.pm_bytes(), &pool_options(&options)).unwrap();
        let heap = Heap::create(&pool.memory(0), NAME, 7, &options).unwrap();
        let memory = pool.memory(1);
        let mut session = heap.join(&memory);
        set(&mut session, heap.root(), 1);
        let ended = std::thread::scope(|scope| {
            let work = || panics(&mut heap.join(&pool.memory(0)), &heap, kind, 0);
            scope.spawn(work).join().is_err()
        });
        assert!(ended);
        session.transaction(|tx| tx.lock(heap.stripes().outer(heap.root()))).expect("it is free");
        set(&mut session, heap.root(), 777);
        drop(session);
        set(&mut heap.join(&pool.memory(0)), heap.root().plus(8), 8);
        drop(pool);
        let pool = opened(&path, &options);
        Heap::open(&pool.memory(0), NAME, pool.bytes()).unwrap();
        let found = [0, 8].map(|offset| pool.memory(0).load::<u64>(heap.root().plus(offset)));
        assert_eq!(found, [777, 8], "{kind:?}");
    }
}

#[test]
fn a_panic_in_what_is_tried_again_leaves_it_as_it_was() {
    let (pool, heap) = native();
    let (one, other) = (pool.memory(0), pool.memory(1));
    let (mut first, mut second) = (heap.join(&one), heap.join(&other));
    // An inner lock comes behind all outer ones, so with it the outer one is only tried.
    let locks = [heap.stripes().outer(heap.root()), heap.stripes().inner(heap.root())];
    let held = Cell::new(Some(locks[0].acquire(&other)));
    let runs = Cell::new(0u64);
    let text = panic_of(|| {
        first.retry::<(), HeapError>(Logging::Redo, |tx| {
            runs.set(runs.get() + 1);
            tx.lock(locks[1])?;
            tx.store(heap.root(), runs.get())?;
            let taken = tx.lock(locks[0]);
            held.take().into_iter().for_each(|held| held.release(&other));
            taken?;
            panic!("in run {}", runs.get())
        })
    });
    assert_eq!(text, "in run 2");
    assert_eq!(second.load::<u64>(heap.root()), 0);
    for lock in locks {
        second.transaction(|tx| tx.lock(lock)).expect("it is free");
    }
}

#[test]
fn a_scope_ends_with_a_panic_and_its_thread_goes_on() {
    let options = HeapOptions { threads: 2, defragment: true, ..typed::options::<Root>() };
    let pool = Pool::temporary(options.pm_bytes(), &pool_options(&options)).unwrap();
    let memory = pool.memory(0);
    let heap =
        typed::create::<Root, _, HeapError>(&memory, NAME, 7, &options, |pool| Ok(pool.heap()));
    let heap = heap.unwrap();
    panic_of(|| typed::enter::<Root, (), HeapError>(heap, &memory, |_| panic!("in a scope")));
    let mut thread = typed::Thread::<Root, _>::join(heap, &memory).unwrap();
    panic_of(|| thread.enter::<(), HeapError>(|_, _| panic!("in a scope")));
    let number = thread.enter::<_, HeapError>(|session, root| {
        session.transaction(|tx| {
            let number = tx.alloc(Number { value: [1, 2] })?;
            tx.set(root.at(Root::NUMBER), Some(number))
        })?;
        let number = session.get(root)?.number.expect("just set");
        Ok(session.get(number)?)
    });
    assert_eq!(number.map(|number| number.value), Ok([1, 2]));
    // A cycle waits for all scopes: it ends if none is left open.
    let options =
        seawall_runtime::defrag::DefragOptions { trigger: 1.01, target: 1.0, ..Default::default() };
    let mut defragmenter = seawall_runtime::defrag::Defragmenter::of::<Root>(options).unwrap();
    for _ in 0..100 {
        let step = thread.defragment(&mut defragmenter).unwrap();
        assert_ne!(step, seawall_runtime::defrag::Step::Waits);
    }
}

/// A thread of a machine that ends with it: it counts what is done after that.
struct Ending<'m> {
    image: &'m Image,
    is_over: &'m Cell<bool>,
}

impl Ending<'_> {
    fn access(&self) {
        assert!(!self.is_over.get(), "an access after the end");
    }
}

impl layer::Layer for Ending<'_> {
    type Below = Image;
    const WORD_BY_WORD: bool = true;

    fn below(&self) -> &Image {
        self.image
    }

    fn load_bits(&self, at: Addr, width: Width) -> u64 {
        self.access();
        self.image.load_bits(at, width)
    }

    fn store_bits(&self, at: Addr, width: Width, value: u64) {
        self.access();
        self.image.store_bits(at, width, value);
    }
}

#[test]
fn a_thread_that_is_torn_down_with_its_machine_touches_nothing_any_more() {
    for kind in KINDS {
        let (image, heap) = image();
        let is_over = Cell::new(false);
        let memory = Ending { image: &image, is_over: &is_over };
        let mut session = heap.join(&memory);
        let text = panic_of(|| {
            session.transaction_with::<(), HeapError>(kind, |tx| {
                tx.store(heap.root(), 2u64)?;
                is_over.set(true);
                panic!("torn down")
            })
        });
        assert_eq!(text, "torn down");
        drop(session);
        is_over.set(false);
        // Should the machine go on all the same, the next one of that number puts it in order.
        set(&mut heap.join(&memory), heap.root().plus(8), 1);
        assert_eq!(image.load::<u64>(heap.root()), 0, "{kind:?}");
    }
}
