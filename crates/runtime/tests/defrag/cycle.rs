//! Without crashes.

use super::{List, Thread, defragmenter, made, options, push, restarted, retain, values, ways};
use seawall_memory::relocation::RelocationUnit;
use seawall_memory::{Absent, Image, Memory, layer};
use seawall_runtime::defrag::{DefragError, DefragOptions, Defragmenter, Protocol, Step};
use seawall_runtime::{CHUNK_BYTES, Heap, HeapOptions, TxError, typed};

fn every(step: u64, below: u64) -> Vec<u64> {
    (0..below).rev().filter(|value| value % step == 0).collect()
}

#[test]
fn a_sparse_list_becomes_dense_and_keeps_its_values() {
    for how in ways() {
        assert_eq!(how.to_string().parse(), Ok(how));
        let (image, heap) = made(&options(32));
        let mut thread = Thread::join(heap, &image).unwrap();
        push(&mut thread, 0..5_000).unwrap();
        retain(&mut thread, |value| value % 5 == 0).unwrap();
        let before = heap.stats(&image).unwrap();
        let mut defragmenter = defragmenter(how);
        defragmenter.run(thread.untyped()).unwrap();
        let after = heap.stats(&image).unwrap();
        let counts = defragmenter.counts();
        assert!(before.fragmentation() > 3.0, "{before:?}");
        assert!(after.fragmentation() < 1.3, "{after:?} {counts:?}");
        assert!(after.footprint * 2 < before.footprint, "{before:?} {after:?}");
        assert_eq!((after.objects, after.live), (before.objects, before.live));
        assert_eq!(values(&mut thread), Ok(every(5, 5_000)));
        assert_eq!((counts.cycles, counts.touched), (1, 0));
        assert!(counts.discarded > counts.emptied / 2, "{counts:?}");
    }
}

#[test]
fn a_dense_heap_is_left_alone() {
    let (image, heap) = made(&options(32));
    let mut thread = Thread::join(heap, &image).unwrap();
    push(&mut thread, 0..1_000).unwrap();
    let mut defragmenter = defragmenter(Protocol::Sfccd);
    defragmenter.run(thread.untyped()).unwrap();
    assert_eq!(defragmenter.counts().emptied, 0);
}

#[test]
fn space_of_emptied_pages_is_allocated_again_cycle_after_cycle() {
    let (image, heap) = made(&options(24));
    let mut thread = Thread::join(heap, &image).unwrap();
    let mut defragmenter = defragmenter(Protocol::Sfccd);
    for round in 0..20u64 {
        push(&mut thread, (0..5_000).map(|value| round * 5_000 + value)).unwrap();
        retain(&mut thread, |value| value / 5_000 == round && value % 10 == 0).unwrap();
        defragmenter.run(thread.untyped()).unwrap();
        assert_eq!(values(&mut thread).map(|values| values.len()), Ok(500));
        let stats = heap.stats(&image).unwrap();
        assert!(stats.fragmentation() < 1.6, "{stats:?} in round {round}");
    }
    assert_eq!(defragmenter.counts().cycles, 20);
}

#[test]
fn a_pool_that_was_defragmented_is_as_good_after_a_restart() {
    let options = options(32);
    let (image, heap) = made(&options);
    let mut thread = Thread::join(heap, &image).unwrap();
    push(&mut thread, 0..3_000).unwrap();
    retain(&mut thread, |value| value % 7 == 0).unwrap();
    defragmenter(Protocol::Sfccd).run(thread.untyped()).unwrap();
    drop(thread);
    let (image, heap, recovered) = restarted(image, &options);
    assert_eq!(recovered.moved, 0);
    let mut thread = Thread::join(heap, &image).unwrap();
    assert_eq!(values(&mut thread), Ok(every(7, 3_000)));
    push(&mut thread, 0..5_000).unwrap();
    assert_eq!(values(&mut thread).map(|values| values.len()), Ok(5_429));
}

#[test]
fn a_program_that_takes_a_step_an_operation_keeps_its_heap_dense_and_its_values() {
    let (image, heap) = made(&options(64));
    let mut thread = Thread::join(heap, &image).unwrap();
    let mut defragmenter = defragmenter(Protocol::Sfccd);
    let (mut expected, mut worst) = (Vec::new(), 0.0f64);
    for number in 0..12_000u64 {
        push(&mut thread, [number]).unwrap();
        expected.insert(0, number);
        if number % 6 == 5 {
            // All but the oldest of the six newest go.
            retain_newest(&mut thread, 6).unwrap();
            expected.drain(..5);
        }
        let _ = thread.defragment(&mut defragmenter).unwrap();
        if number % 500 == 499 {
            assert_eq!(values(&mut thread), Ok(expected.clone()));
        }
        if number > 3_000 {
            worst = worst.max(heap.stats(&image).unwrap().fragmentation());
        }
    }
    assert!(worst < 2.0, "{worst}");
}

/// Frees all but the last of the first so many nodes.
fn retain_newest<M: Memory>(
    thread: &mut Thread<'_, M>,
    count: u64,
) -> Result<(), seawall_runtime::HeapError> {
    thread.enter(|session, root| {
        for _ in 1..count {
            session.transaction(|tx| {
                let gone = tx.get(root.at(List::FIRST))?.expect("a node");
                let next = tx.get(gone)?.next;
                tx.set(root.at(List::FIRST), next)?;
                tx.free(gone)
            })?;
        }
        Ok(())
    })
}

#[test]
fn a_cycle_waits_for_scopes_and_scopes_for_nothing() {
    let options = options(32);
    let (image, heap) = made(&options);
    let mut thread = Thread::join(heap, &image).unwrap();
    push(&mut thread, 0..2_000).unwrap();
    retain(&mut thread, |value| value % 5 == 0).unwrap();
    drop(thread);
    let mut collector = heap.join(&image);
    let mut defragmenter = defragmenter(Protocol::Sfccd);
    let waits = |defragmenter: &mut Defragmenter, session: &mut seawall_runtime::Session<'_, _>| {
        for _ in 0..100_000 {
            match defragmenter.step(session).unwrap() {
                Step::Worked => {}
                step => return step,
            }
        }
        panic!("no end");
    };
    typed::enter::<List<'_>, _, seawall_runtime::HeapError>(heap, &image, |_| {
        assert_eq!(waits(&mut defragmenter, &mut collector), Step::Waits);
        Ok(())
    })
    .unwrap();
    typed::enter::<List<'_>, _, seawall_runtime::HeapError>(heap, &image, |_| Ok(())).unwrap();
    assert_eq!(waits(&mut defragmenter, &mut collector), Step::Done);
    assert_eq!(defragmenter.counts().cycles, 1);
}

/// A machine without hardware that moves objects.
struct Software<'m> {
    image: &'m Image,
}

impl layer::Layer for Software<'_> {
    type Below = Image;

    fn below(&self) -> &Image {
        self.image
    }

    fn relocation(&self) -> Option<impl RelocationUnit> {
        None::<Absent>
    }
}

#[test]
fn what_cannot_be_is_refused_with_a_remedy() {
    let refused = |trigger, target| {
        let options = DefragOptions { trigger, target, ..DefragOptions::default() };
        Defragmenter::of::<List<'_>>(options).unwrap_err().to_string()
    };
    for (trigger, target) in [(1.0, 1.0), (1.5, 0.9), (1.5, 1.6), (f64::NAN, 1.2)] {
        assert!(refused(trigger, target).contains("the trigger must be"));
    }
    let refused = "ffccd-cached".parse::<DefragOptions>().unwrap_err().to_string();
    assert!(refused.contains("ffccd-cached; it must be"), "{refused}");
    let (image, heap) = made(&HeapOptions { defragment: false, ..options(8) });
    let step = defragmenter(Protocol::Sfccd).step(&mut heap.join(&image));
    assert_eq!(step, Err(DefragError::Immobile));
    let (image, heap) = made(&options(8));
    let software = Software { image: &image };
    let step = defragmenter(Protocol::Ffccd).step(&mut heap.join(&software));
    assert_eq!(step, Err(DefragError::Hardware));
    let mut other = Defragmenter::of::<u64>(DefragOptions::default()).unwrap();
    let step = other.step(&mut heap.join(&image)).unwrap_err().to_string();
    assert!(step.contains("another type"), "{step}");
}

#[test]
fn objects_of_types_that_were_not_named_keep_a_cycle_from_beginning() {
    let (image, heap) = made(&options(32));
    let mut thread = Thread::join(heap, &image).unwrap();
    push(&mut thread, 0..2_000).unwrap();
    retain(&mut thread, |value| value % 5 == 0).unwrap();
    thread.enter(|session, _| session.transaction(|tx| tx.alloc([7u16; 5]).map(drop))).unwrap();
    let error = defragmenter(Protocol::Sfccd).run(thread.untyped()).unwrap_err();
    assert!(matches!(&error, DefragError::UnknownType { name } if name.contains("u16")), "{error}");
    let mut defragmenter = defragmenter(Protocol::Sfccd).also::<[u16; 5]>();
    defragmenter.run(thread.untyped()).unwrap();
    assert_eq!(defragmenter.counts().cycles, 1);
}

/// A heap that has no room but for so many chunks, and of whose objects one in seven is left.
fn full_but_for(chunks: u64, image: &Image, heap: Heap) -> Thread<'_, Image> {
    let mut thread = Thread::join(heap, image).unwrap();
    let bytes = (chunks - 1) * CHUNK_BYTES + 1;
    let held = thread.untyped().transaction(|tx| tx.alloc(bytes)).unwrap();
    let is_full = |error: &TxError| matches!(error, TxError::Full { .. });
    assert!(push(&mut thread, 0..).is_err_and(|error| is_full(&error)));
    retain(&mut thread, |value| value % 7 == 0).unwrap();
    thread.untyped().transaction(|tx| tx.free(held)).unwrap();
    thread
}

#[test]
fn a_cycle_that_has_room_for_a_part_of_what_it_would_move_moves_that_and_the_next_one_more() {
    // A table takes three chunks, what is moved the fourth.
    let (image, heap) = made(&options(64));
    let mut thread = full_but_for(4, &image, heap);
    let before = values(&mut thread).unwrap();
    let mut defragmenter = defragmenter(Protocol::Sfccd);
    let mut refused = 0;
    for _ in 0..100 {
        match defragmenter.run(thread.untyped()) {
            Ok(()) => {}
            Err(DefragError::Heap(TxError::Full { .. })) => refused += 1,
            Err(error) => panic!("{error}"),
        }
        assert_eq!(values(&mut thread).as_ref(), Ok(&before));
        // Each list that is pushed and taken away again makes another survey worth its time.
        push(&mut thread, (0..100).map(|value| 7 * value + 1)).unwrap();
        retain(&mut thread, |value| value % 7 == 0).unwrap();
    }
    let stats = heap.stats(&image).unwrap();
    assert!(refused > 0 && stats.fragmentation() < 1.5, "{refused} {stats:?}");
}

#[test]
fn a_cycle_that_has_no_room_for_its_table_leaves_everything_as_it_is() {
    let (image, heap) = made(&options(64));
    let mut thread = full_but_for(2, &image, heap);
    let before = (values(&mut thread).unwrap(), heap.stats(&image).unwrap());
    let mut defragmenter = defragmenter(Protocol::Sfccd);
    let refused = defragmenter.run(thread.untyped());
    assert!(matches!(refused, Err(DefragError::Heap(TxError::Full { .. }))), "{refused:?}");
    defragmenter.finish(thread.untyped()).unwrap();
    assert_eq!((values(&mut thread).unwrap(), heap.stats(&image).unwrap()), before);
    assert_eq!(defragmenter.counts().cycles, 0);
    push(&mut thread, (0..1_000).map(|value| 7 * value + 1)).unwrap();
}

/// A cycle whose table is placed, and whose first few pages are watched.
fn begun(thread: &mut Thread<'_, Image>, protocol: Protocol) -> Defragmenter {
    let mut defragmenter = defragmenter(protocol);
    while !defragmenter.is_in_cycle() {
        thread.defragment(&mut defragmenter).unwrap();
    }
    for _ in 0..2 {
        assert_eq!(thread.defragment(&mut defragmenter), Ok(Step::Worked));
    }
    defragmenter
}

#[test]
fn chunks_that_are_used_anew_before_their_pages_are_watched_are_left_alone() {
    for protocol in Protocol::ALL {
        let (image, heap) = made(&options(20));
        let mut thread = Thread::join(heap, &image).unwrap();
        push(&mut thread, 0..5_000).unwrap();
        retain(&mut thread, |value| value % 5 == 0).unwrap();
        let mut defragmenter = begun(&mut thread, protocol);
        thread.defragment(&mut defragmenter).unwrap();
        retain(&mut thread, |value| value < 1_000).unwrap();
        let count = (10_000..).take_while(|value| push(&mut thread, [*value]).is_ok()).count();
        assert!(count > 5_000, "{count} nodes until the pool was full");
        let outcome = defragmenter.finish(thread.untyped());
        assert!(outcome.is_ok() && !defragmenter.is_in_cycle(), "{outcome:?}");
        assert_eq!(values(&mut thread).map(|values| values.len()), Ok(count + 200));
        retain(&mut thread, |value| value % 8 == 0).unwrap();
        let _ = defragmenter.run(thread.untyped());
        let left = values(&mut thread).expect("whole nodes").len();
        assert!(left.abs_diff(count / 8) < 50, "{left} of {count}");
    }
}

#[test]
fn chunks_that_become_destinations_before_their_pages_are_watched_are_left_alone() {
    for protocol in Protocol::ALL {
        let (image, heap) = made(&options(64));
        // The bitmap that hardware reads takes ten chunks more.
        let room = if protocol == Protocol::Ffccd { 14 } else { 4 };
        let mut thread = full_but_for(room, &image, heap);
        let mut kept = values(&mut thread).unwrap();
        let mut defragmenter = begun(&mut thread, protocol);
        // The second half of the chunks is empty now, and there is no other room.
        let first = kept[kept.len() / 2];
        kept.retain(|value| *value < first);
        retain(&mut thread, |value| value < first).unwrap();
        while defragmenter.is_in_cycle() {
            assert_ne!(thread.defragment(&mut defragmenter), Ok(Step::Waits));
            assert_eq!(values(&mut thread).as_ref(), Ok(&kept));
        }
        assert!(heap.stats(&image).unwrap().fragmentation() < 1.8);
    }
}

#[test]
fn pages_that_were_written_to_before_a_defragmenter_was_dropped_are_usual_again() {
    for protocol in Protocol::ALL {
        let (image, heap) = made(&options(32));
        let mut thread = Thread::join(heap, &image).unwrap();
        push(&mut thread, 0..5_000).unwrap();
        retain(&mut thread, |value| value % 5 == 0).unwrap();
        drop(begun(&mut thread, protocol));
        retain(&mut thread, |value| value % 10 == 0).unwrap();
        let mut second = defragmenter(protocol);
        second.run(thread.untyped()).unwrap();
        assert_eq!(values(&mut thread), Ok(every(10, 5_000)));
        retain(&mut thread, |value| value % 20 == 0).unwrap();
        second.run(thread.untyped()).unwrap();
        let counts = second.counts();
        assert!(counts.emptied > 16 && counts.touched == 0, "{counts:?}");
        assert_eq!(values(&mut thread), Ok(every(20, 5_000)));
        assert!(heap.stats(&image).unwrap().fragmentation() < 1.6);
    }
}
