//! A program between the steps of a cycle: at each of them, and over several.

use super::{List, Node, Root, Thread, defragmenter, node, push, put, retain, sparse_list, values};
use seawall_memory::{Image, Memory, layer};
use seawall_runtime::defrag::{Protocol, Step};
use seawall_runtime::typed::{Ptr, Session};
use seawall_runtime::{AccessError, HeapError, Logging, TxError};

/// The collector's handle on a memory whose other handles are thread 0's.
pub(super) struct Second<'m> {
    pub(super) image: &'m Image,
}

impl layer::Layer for Second<'_> {
    type Below = Image;

    fn below(&self) -> &Image {
        self.image
    }

    fn thread(&self) -> usize {
        1
    }
}

type Nodes<'p> = Vec<(Ptr<'p, Node<'p>>, u64)>;

fn nodes<'p, M: Memory>(
    session: &Session<'p, '_, M>,
    root: Root<'p>,
) -> Result<Nodes<'p>, AccessError> {
    let (mut found, mut next) = (Vec::new(), session.get(root.at(List::FIRST))?);
    while let Some(ptr) = next {
        let of = session.get(ptr)?;
        assert_eq!(of.filling, [of.value * 3; 11]);
        found.push((ptr, of.value));
        next = of.next;
    }
    Ok(found)
}

/// Writes to a node, frees one, and makes one.
fn change<'p, M: Memory>(
    session: &mut Session<'p, '_, M>,
    root: Root<'p>,
    known: &mut Nodes<'p>,
    number: u64,
) -> Result<(), TxError> {
    let place = number as usize % known.len();
    let (ptr, value) = known[place];
    match number % 3 {
        0 => {
            let next = session.get(ptr)?.next;
            known[place].1 = value + 1;
            session.transaction(|tx| tx.set(ptr, node(value + 1, next)))
        }
        1 if known.len() > 4 => {
            let after = session.get(ptr)?.next;
            let link = match place.checked_sub(1) {
                Some(before) => known[before].0.at(Node::NEXT),
                None => root.at(List::FIRST),
            };
            known.remove(place);
            session.transaction_with(Logging::Undo, |tx| {
                tx.set(link, after)?;
                tx.free(ptr)
            })
        }
        _ => {
            put(session, root, 1_000 + number)?;
            let first = session.get(root.at(List::FIRST))?.expect("a node");
            known.insert(0, (first, 1_000 + number));
            Ok(())
        }
    }
}

/// Lets a scope begin after so many steps, in which steps are taken and (if it `changes`) the list
/// is changed in between; gives how many steps the cycle had.
fn beside(begins: u64, changes: bool, protocol: Protocol) -> Option<u64> {
    let (image, heap) = sparse_list();
    let second = Second { image: &image };
    let mut collector = heap.join(&second);
    let mut defragmenter = defragmenter(protocol);
    let mut steps = 0;
    let mut step = |defragmenter: &mut super::Defragmenter| {
        steps += 1;
        defragmenter.step(&mut collector).expect("there is room")
    };
    for _ in 0..begins {
        if matches!(step(&mut defragmenter), Step::Done | Step::Rest) {
            return None;
        }
    }
    let mut thread = Thread::join(heap, &image).unwrap();
    let left = thread.enter(|session, root| {
        let mut known = nodes(session, root)?;
        for number in 0.. {
            let taken = step(&mut defragmenter);
            if changes {
                change(session, root, &mut known, begins + number)?;
            }
            // All pointers that it had are those that it loads, and lead to what they led to.
            assert_eq!(nodes(session, root)?, known, "{number} steps after {begins}");
            for (ptr, value) in &known {
                assert_eq!(session.get(ptr.at(Node::VALUE))?, *value);
            }
            if taken != Step::Worked {
                break;
            }
        }
        Ok::<_, HeapError>(known.into_iter().map(|(_, value)| value).collect::<Vec<_>>())
    });
    let left = left.unwrap();
    while !matches!(step(&mut defragmenter), Step::Done | Step::Rest) {}
    assert_eq!(values(&mut thread), Ok(left));
    Some(steps)
}

#[test]
fn in_a_scope_objects_keep_their_addresses_and_values_whatever_steps_are_taken() {
    for protocol in Protocol::ALL {
        for changes in [false, true] {
            let begun = (0..).map_while(|begins| beside(begins, changes, protocol)).count();
            assert!(begun > 20, "{begun} steps");
        }
    }
}

#[test]
fn a_page_that_is_written_to_while_a_cycle_begins_stays() {
    let (image, heap) = sparse_list();
    let second = Second { image: &image };
    let mut collector = heap.join(&second);
    let mut defragmenter = defragmenter(Protocol::Sfccd);
    let mut thread = Thread::join(heap, &image).unwrap();
    let phase = |thread: &mut Thread<'_, Image>| {
        // A scope that writes to every node as it is.
        thread.enter(|session, root| {
            for (ptr, _) in nodes(session, root)? {
                let same = session.get(ptr)?;
                session.transaction(|tx| tx.set(ptr, same))?;
            }
            Ok::<_, HeapError>(())
        })
    };
    while defragmenter.counts().cycles == 0 {
        let _ = defragmenter.step(&mut collector).unwrap();
        phase(&mut thread).unwrap();
    }
    let counts = defragmenter.counts();
    assert!(counts.touched > 0 && counts.moved == 0, "{counts:?}");
    assert_eq!(values(&mut thread).map(|values| values.len()), Ok(10));
}

#[test]
fn a_cycle_that_was_left_after_any_step_is_ended_by_another_defragmenter() {
    for (first, other) in
        [(Protocol::Sfccd, Protocol::Espresso), (Protocol::Ffccd, Protocol::Sfccd)]
    {
        is_ended_by_another(first, other);
    }
}

fn is_ended_by_another(first: Protocol, other: Protocol) {
    for left_after in 0.. {
        let (image, heap) = sparse_list();
        let second = Second { image: &image };
        let mut collector = heap.join(&second);
        let mut first = defragmenter(first);
        let is_over = (0..left_after).any(|_| {
            let step = first.step(&mut collector).expect("there is room");
            step == Step::Done
        });
        drop(first);
        let mut thread = Thread::join(heap, &image).unwrap();
        let expected: Vec<u64> = (0..400).rev().filter(|value| value % 40 == 0).collect();
        assert_eq!(values(&mut thread), Ok(expected.clone()), "{left_after}");
        push(&mut thread, 1_000..1_200).unwrap();
        retain(&mut thread, |value| value < 1_000).unwrap();
        let mut other = defragmenter(other);
        for _ in 0..3 {
            other.run(&mut collector).expect("there is room");
        }
        assert_eq!(values(&mut thread), Ok(expected), "{left_after}");
        let stats = heap.stats(&image).unwrap();
        assert!(stats.pages <= 2 * 4096, "{stats:?} after {left_after}");
        if is_over {
            assert!(left_after > 20, "{left_after} steps");
            break;
        }
    }
}

/// Lets an undo transaction begin after so many steps and fail after as many more as are taken
/// until the cycle waits for it; false once that is behind the cycle.
fn fails_beside(begins: u64) -> bool {
    let (image, heap) = sparse_list();
    let second = Second { image: &image };
    let mut collector = heap.join(&second);
    let mut defragmenter = defragmenter(Protocol::Sfccd);
    for _ in 0..begins {
        if defragmenter.step(&mut collector).expect("room") == Step::Done {
            return false;
        }
    }
    let mut thread = Thread::join(heap, &image).unwrap();
    let failed = thread.enter(|session, root| {
        session.transaction_with(Logging::Undo, |tx| {
            // What is stored over has not been loaded in this scope.
            let first = tx.get(root.at(List::FIRST))?.expect("a node");
            tx.set(first.at(Node::NEXT), None)?;
            while defragmenter.step(&mut collector).expect("room") == Step::Worked {}
            Err::<(), _>(TxError::Types)
        })
    });
    assert!(matches!(failed, Err(TxError::Types)), "{failed:?}");
    defragmenter.finish(&mut collector).expect("room");
    let expected: Vec<u64> = (0..400).rev().filter(|value| value % 40 == 0).collect();
    assert_eq!(values(&mut thread), Ok(expected), "{begins}");
    true
}

#[test]
fn a_rollback_brings_no_pointer_back_that_a_cycle_has_brought_up_to_date() {
    let steps = (0..).find(|begins| !fails_beside(*begins)).expect("an end");
    assert!(steps > 20, "{steps}");
}
