//! Objects that move as published: no locked operations, a check at each access through a pointer,
//! and no move of an object that no thread accesses while others move.

use super::{List, Node, Thread, defragmenter, node, retain, sparse_list, values, ways};
use seawall_memory::{Addr, Image, layer};
use seawall_runtime::defrag::{
    DefragError, DefragOptions, Defragmenter, Manner, Protocol, Step, with_collector,
};
use seawall_runtime::{Heap, HeapError, TxError};
use std::cell::Cell;

/// Counts compare-and-exchanges and instructions.
struct Counted<'m> {
    image: &'m Image,
    exchanges: Cell<u64>,
    work: Cell<u64>,
}

impl<'m> Counted<'m> {
    fn of(image: &'m Image) -> Counted<'m> {
        Counted { image, exchanges: Cell::new(0), work: Cell::new(0) }
    }
}

impl layer::Layer for Counted<'_> {
    type Below = Image;

    fn below(&self) -> &Image {
        self.image
    }

    fn compare_exchange(&self, at: Addr, old: u64, new: u64) -> Result<u64, u64> {
        self.exchanges.set(self.exchanges.get() + 1);
        seawall_memory::Memory::compare_exchange(self.image, at, old, new)
    }

    fn work(&self, instructions: u32) {
        self.work.set(self.work.get() + u64::from(instructions));
    }
}

/// Steps until all pages are decided: then a scope sees the new address of the first node.
fn decide(thread: &mut Thread<'_, Counted<'_>>, collector: &mut Defragmenter) {
    let first = |thread: &mut Thread<'_, Counted<'_>>| {
        let read = thread.enter(|session, root| {
            let first = session.get(root.at(List::FIRST))?;
            Ok::<_, HeapError>(first.expect("a node").addr())
        });
        read.expect("sound")
    };
    let old = first(thread);
    while first(thread) == old {
        assert_eq!(thread.defragment(collector), Ok(Step::Worked));
    }
}

/// Runs `body` with a thread of a sparse list and a collector that has decided on all pages.
fn decided(
    how: DefragOptions,
    body: impl FnOnce(Thread<'_, Counted<'_>>, Defragmenter, &Counted<'_>, Heap),
) {
    let (image, heap) = sparse_list();
    let memory = Counted::of(&image);
    let mut thread = Thread::join(heap, &memory).unwrap();
    let mut collector = defragmenter(how);
    decide(&mut thread, &mut collector);
    body(thread, collector, &memory, heap);
}

fn software() -> impl Iterator<Item = DefragOptions> {
    ways().filter(|how| how.protocol != Protocol::Ffccd)
}

#[test]
fn threads_that_meet_objects_move_them_without_a_locked_operation() {
    for how in software() {
        let rarely = DefragOptions { check_steps: 1000, ..how };
        decided(rarely, |mut thread, mut collector, memory, _| {
            memory.exchanges.set(0);
            assert_eq!(values(&mut thread).map(|all| all.len()), Ok(10));
            let met = memory.exchanges.get();
            assert_eq!(met > 0, how.form == Manner::Ours, "{how}: {met} locked operations");
            collector.finish(thread.untyped()).unwrap();
            assert_eq!(values(&mut thread).map(|all| all.len()), Ok(10));
            assert!(collector.counts().emptied > 0, "{how}");
        });
    }
}

#[test]
fn steps_that_change_objects_have_no_locked_operation_and_say_so_before() {
    for how in software() {
        let (image, heap) = sparse_list();
        let memory = Counted::of(&image);
        let mut thread = Thread::join(heap, &memory).unwrap();
        let mut collector = defragmenter(how);
        let mut changing = 0;
        let mut step = Step::Worked;
        while step != Step::Done {
            let (changes, moved) = (collector.changes_objects(), collector.counts());
            memory.exchanges.set(0);
            step = thread.defragment(&mut collector).unwrap();
            let now = collector.counts();
            let has_changed = now.moved > moved.moved || now.healed > moved.healed;
            if how.form == Manner::Published {
                assert!(changes || !has_changed, "{how}");
                // Moves have none; a walk over a chunk takes the lock of chunks.
                assert!(now.moved == moved.moved || memory.exchanges.get() == 0, "{how}");
            } else {
                assert!(!changes, "{how}");
            }
            changing += u64::from(has_changed);
        }
        assert!(changing > 1, "{how}");
    }
}

#[test]
fn each_access_through_a_pointer_is_checked() {
    for how in software() {
        let rarely = DefragOptions { check_steps: 1000, ..how };
        decided(rarely, |thread, _, memory, heap| {
            drop(thread);
            let work = |accesses: u64| {
                let mut thread = Thread::join(heap, memory).unwrap();
                let read = thread.enter(|session, root| {
                    let first = session.get(root.at(List::FIRST))?.expect("a node");
                    memory.work.set(0);
                    for _ in 0..accesses {
                        session.get(first.at(Node::VALUE))?;
                    }
                    Ok::<_, HeapError>(memory.work.get())
                });
                read.expect("sound")
            };
            let (one, two, five) = (work(1), work(2), work(5));
            if how.form == Manner::Published {
                assert_eq!(one, 0, "{how}: the pointer was checked when it was loaded");
                assert!(two > 0 && five == 4 * two, "{how}: {one}, {two}, {five}");
            } else {
                assert_eq!((one, two, five), (0, 0, 0), "{how}");
            }
        });
    }
}

#[test]
fn a_cycle_moves_no_object_while_threads_do() {
    let how: DefragOptions = "sfccd-published:1.5:1.25:5".parse().unwrap();
    decided(how, |mut thread, mut collector, _, _| {
        // One node further each five steps: something has moved between two checks.
        for nodes in 1..=8 {
            let read = thread.enter(|session, root| {
                let mut next = session.get(root.at(List::FIRST))?;
                for _ in 0..nodes {
                    next = session.get(next.expect("a node"))?.next;
                }
                Ok::<_, HeapError>(())
            });
            read.expect("sound");
            for _ in 0..5 {
                assert_eq!(thread.defragment(&mut collector), Ok(Step::Worked));
                assert!(!collector.changes_objects(), "{nodes} nodes");
            }
        }
        // Nothing has moved in the last five steps, and must not between two checks.
        let mut steps = 5;
        while !collector.changes_objects() {
            assert_eq!(thread.defragment(&mut collector), Ok(Step::Worked));
            steps += 1;
        }
        assert!((5..=10).contains(&steps), "{steps}");
        collector.finish(thread.untyped()).unwrap();
        assert_eq!(values(&mut thread).map(|all| all.len()), Ok(10));
    });
}

/// Runs a cycle; a node is removed before the change step of that number. Returns whether there was
/// such a step.
fn removes_before(change: usize, how: DefragOptions) -> bool {
    let (image, heap) = sparse_list();
    let memory = Counted::of(&image);
    let mut thread = Thread::join(heap, &memory).unwrap();
    let mut collector = defragmenter(DefragOptions { check_steps: 1, ..how });
    let mut left = values(&mut thread).unwrap();
    let (mut changes, mut step) = (0, Step::Worked);
    while step != Step::Done {
        if collector.changes_objects() {
            if changes == change {
                left.remove(0);
                retain(&mut thread, |value| left.contains(&value)).unwrap();
            }
            changes += 1;
        }
        step = thread.defragment(&mut collector).unwrap();
    }
    assert_eq!(values(&mut thread), Ok(left), "{how}, before change {change}");
    changes > change
}

#[test]
fn what_a_thread_changes_before_a_change_step_stays() {
    for how in software().filter(|how| how.form == Manner::Published) {
        let changes = (0..).take_while(|change| removes_before(*change, how)).count();
        assert!(changes > 1, "{how}: objects and pointers change in steps of their own");
    }
}

#[test]
fn a_thread_of_its_own_cannot_move_objects_as_published() {
    let (image, heap) = sparse_list();
    let how: DefragOptions = "espresso-published".parse().unwrap();
    let image = std::sync::Mutex::new(image);
    let copy = || image.lock().unwrap().clone();
    let (body, moved) = with_collector(heap, copy, defragmenter(how), |_| 7);
    assert_eq!(body, 7);
    let error = moved.unwrap_err();
    assert!(matches!(error, DefragError::Unlocked { .. }), "{error}");
    assert!(error.to_string().contains("take espresso for a thread"), "{error}");
}

#[test]
fn the_text_of_a_way_as_published_is_read_as_it_is_written() {
    for text in ["sfccd-published", "ffccd-published:1.7:1.5", "espresso-published:1.5:1.25:90"] {
        assert_eq!(text.parse::<DefragOptions>().unwrap().to_string(), text);
    }
    for text in ["sfccd:1.5:1.25:90", "sfccd-published:1.5", "sfccd-cached", "sfccd:1:2:3:4"] {
        assert!(text.parse::<DefragOptions>().is_err(), "{text}");
    }
}

#[test]
fn larger_pages_hold_a_part_of_more() {
    let (image, heap) = sparse_list();
    let small = heap.stats(&image).unwrap();
    assert_eq!(heap.stats_on_pages(&image, 4096), Ok(small));
    let large = heap.stats_on_pages(&image, 1 << 16).unwrap();
    assert!(large.pages > small.pages && large.pages % (1 << 16) == 0, "{large:?}");
    assert_eq!(large.live, small.live);
    // A node on a page of its own takes that page.
    let mut thread = Thread::join(heap, &image).unwrap();
    retain(&mut thread, |value| value == 0).unwrap();
    thread
        .enter(|session, root| {
            let one = session.get(root.at(List::FIRST))?.expect("a node");
            assert_eq!(session.get(one)?.filling, node(0, None).filling);
            Ok::<_, TxError>(())
        })
        .unwrap();
    drop(thread);
    assert_eq!(heap.stats_on_pages(&image, 1 << 21).unwrap().pages % (1 << 21), 0);
}
