//! Values come back as they were stored, wherever they are in a pool.

use super::{Account, NAME, Node, Root, made, restarted};
use proptest::prelude::*;
use seawall_memory::{Addr, Image, Memory, MemoryExt};
use seawall_runtime::typed::{self, Bytes, Persist, Ptr, Tx};
use seawall_runtime::{AccessError, HeapError, Logging, TxError};

/// Fields of all sizes, so that words are shared and padded.
#[derive(Clone, Copy, Debug, PartialEq, Persist)]
struct Mixed {
    a: u8,
    b: i64,
    c: u16,
    name: Bytes<11>,
    d: i32,
    e: [u8; 3],
    f: f64,
    g: [Inner; 2],
    h: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Persist)]
struct Inner {
    x: u32,
    y: i8,
}

#[derive(Clone, Copy, Debug, PartialEq, Persist)]
struct Pair<T, const N: usize> {
    left: T,
    rest: [T; N],
}

#[derive(Clone, Copy, Debug, PartialEq, Persist)]
#[persist(lines)]
struct Whole {
    value: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Persist)]
struct Large {
    head: u64,
    body: Bytes<5000>,
    tail: u32,
}

fn inner() -> impl Strategy<Value = Inner> {
    any::<(u32, i8)>().prop_map(|(x, y)| Inner { x, y })
}

fn mixed() -> impl Strategy<Value = Mixed> {
    let simple = any::<(u8, i64, u16, [u8; 11], i32, [u8; 3], bool)>();
    (simple, -1e9f64..1e9, [inner(), inner()]).prop_map(|((a, b, c, name, d, e, h), f, g)| Mixed {
        a,
        b,
        c,
        name: Bytes(name),
        d,
        e,
        f,
        g,
        h,
    })
}

fn kinds() -> [Logging; 2] {
    [Logging::Redo, Logging::Undo]
}

proptest! {
    #[test]
    fn a_struct_comes_back_within_after_and_when_opened_again(
        first in mixed(), second in mixed(), place in 0usize..3, x: u32,
    ) {
        for kind in kinds() {
            let image = made::<Option3>(4, |image, pool| {
                let mut session = pool.join(image);
                let root = pool.root();
                let array = session.transaction_with(kind, |tx| {
                    let array = tx.alloc([first; 3])?;
                    assert_eq!(tx.get(array)?, [first; 3]);
                    tx.set(root.at(Option3::ARRAY), Some(array))?;
                    Ok::<_, TxError>(array)
                })?;
                assert_eq!(session.get(array)?, [first; 3]);
                session.transaction_with(kind, |tx| {
                    tx.set(array.index(place), second)?;
                    let x_at = array.index(place).at(Mixed::G).index(1).at(Inner::X);
                    tx.set(x_at, x)?;
                    assert_eq!(tx.get(x_at)?, x);
                    Ok::<_, TxError>(())
                })?;
                Ok(())
            });
            let image = restarted::<Option3>(image);
            let bytes = super::options::<Option3>(4).pm_bytes();
            let mut wanted = [first; 3];
            wanted[place] = second;
            wanted[place].g[1].x = x;
            typed::open::<Option3, _, _>(&image, NAME, bytes, |pool| {
                let session = pool.join(&image);
                let array = session.get(pool.root())?.array.expect("it was set");
                assert_eq!(session.get(array)?, wanted);
                Ok::<_, HeapError>(())
            })
            .unwrap();
        }
    }

    #[test]
    fn a_field_is_stored_without_its_neighbours(before in mixed(), after in mixed()) {
        for kind in kinds() {
            made::<Option3>(4, |image, pool| {
                let mut session = pool.join(image);
                let ptr = session.transaction_with(kind, |tx| tx.alloc(before))?;
                session.transaction_with(kind, |tx| {
                    tx.set(ptr.at(Mixed::C), after.c)?;
                    tx.set(ptr.at(Mixed::E), after.e)?;
                    tx.set(ptr.at(Mixed::NAME), after.name)?;
                    tx.update(ptr.at(Mixed::A), |a| a ^ 1)
                })?;
                let (c, e, name, a) = (after.c, after.e, after.name, before.a ^ 1);
                assert_eq!(session.get(ptr)?, Mixed { a, c, e, name, ..before });
                Ok(())
            });
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Persist)]
struct Option3<'p> {
    array: Option<Ptr<'p, [Mixed; 3]>>,
}

#[test]
fn structs_lie_as_in_c() {
    assert_eq!([Mixed::A.offset(), Mixed::B.offset(), Mixed::C.offset()], [0, 8, 16]);
    assert_eq!([Mixed::NAME.offset(), Mixed::D.offset(), Mixed::E.offset()], [18, 32, 36]);
    assert_eq!([Mixed::F.offset(), Mixed::G.offset(), Mixed::H.offset()], [40, 48, 64]);
    assert_eq!((Mixed::SIZE, Mixed::ALIGN, Inner::SIZE), (72, 8, 8));
    assert_eq!((Whole::SIZE, Whole::ALIGN), (64, 64));
    assert_eq!((Pair::<u16, 3>::SIZE, Pair::<u16, 3>::REST.offset()), (8, 2));
}

#[test]
fn a_struct_with_parameters_is_a_type_for_each_of_them() {
    let shapes = [
        <Pair<u16, 3> as Persist<'_>>::SHAPE,
        <Pair<u16, 4> as Persist<'_>>::SHAPE,
        <Pair<i16, 3> as Persist<'_>>::SHAPE,
        <[u16; 4] as Persist<'_>>::SHAPE,
    ];
    for (place, shape) in shapes.iter().enumerate() {
        assert!(!shapes[place + 1..].contains(shape), "{place}");
    }
    made::<Pair<u32, 2>>(4, |image, pool| {
        let mut session = pool.join(image);
        let value = Pair { left: 1, rest: [2, 3] };
        session.transaction(|tx| tx.set(pool.root(), value))?;
        assert_eq!(session.get(pool.root().at(Pair::REST).index(1))?, 3);
        Ok(())
    });
}

/// With a parameter, a bound, and a pointer to itself.
#[derive(Clone, Copy, Debug, PartialEq, Persist)]
struct Stack<'p, T: Persist<'p>> {
    r#type: T,
    below: Option<Ptr<'p, Stack<'p, T>>>,
}

#[test]
fn a_struct_with_parameters_may_point_to_itself_and_be_the_root() {
    made::<Stack<'_, [i16; 3]>>(4, |image, pool| {
        let mut session = pool.join(image);
        session.transaction_with(Logging::Undo, |tx| {
            let below = tx.alloc(Stack { r#type: [1, 2, 3], below: None })?;
            tx.set(pool.root(), Stack { r#type: [4, 5, 6], below: Some(below) })
        })?;
        let below = session.get(pool.root())?.below.expect("it was set");
        assert_eq!(session.get(below.at(Stack::TYPE).index(2))?, 3);
        assert_eq!(session.get(pool.root().at(Stack::TYPE))?, [4, 5, 6]);
        Ok(())
    });
}

#[test]
fn objects_of_whole_lines_share_none() {
    made::<u64>(4, |image, pool| {
        let mut session = pool.join(image);
        for value in 0..40 {
            let ptr = session.transaction(|tx| tx.alloc(Whole { value }))?;
            assert!(ptr.addr().offset().is_multiple_of(64));
            assert_eq!(session.get(ptr)?.value, value);
        }
        Ok(())
    });
}

#[test]
fn large_objects_are_written_past_the_log_and_come_back() {
    for kind in kinds() {
        made::<u64>(4, |image, pool| {
            let mut session = pool.join(image);
            let value = Large { head: 1, body: Bytes([7; 5000]), tail: 9 };
            let ptr = session.transaction_with(kind, |tx| tx.alloc(value))?;
            assert_eq!(session.get(ptr)?, value);
            session.transaction_with(kind, |tx| tx.set(ptr.at(Large::TAIL), 10))?;
            assert_eq!(session.get(ptr)?, Large { tail: 10, ..value });
            Ok(())
        });
    }
}

#[test]
fn what_lies_between_fields_is_zero() {
    let image = made::<Root<'_>>(4, |image, pool| {
        let mut untyped = pool.heap().join(image);
        let dirty = untyped.transaction(|tx| {
            let at = tx.alloc(16)?;
            tx.write(at, &[1; 16])?;
            Ok::<_, TxError>(at)
        })?;
        untyped.transaction(|tx| tx.free(dirty))?;
        untyped.leave();
        let mut session = pool.join(image);
        let owner = Bytes([0xff; 5]);
        let ptr = session.transaction(|tx| tx.alloc(Account { owner, balance: -1 }))?;
        assert_eq!(ptr.addr(), dirty);
        Ok(())
    });
    let pm = image.into_pm();
    let start = pm.windows(5).rposition(|bytes| bytes == [0xff; 5]).expect("an account") - 11;
    assert_eq!(pm[start..start + 8], [255, 255, 255, 255, 255, 0, 0, 0]);
}

fn push<'p, M: Memory>(
    tx: &mut Tx<'p, '_, '_, M>,
    top: Ptr<'p, Option<Ptr<'p, Node<'p>>>>,
    value: u16,
) -> Result<(), TxError> {
    let below = tx.get(top)?;
    let node = tx.alloc(Node { value, below })?;
    tx.set(top, Some(node))
}

#[test]
fn transactions_that_fail_change_nothing_and_nested_ones_only_themselves() {
    for kind in kinds() {
        made::<Root<'_>>(4, |image, pool| {
            let mut session = pool.join(image);
            let top = pool.root().at(Root::TOP);
            session.transaction_with(kind, |tx| {
                push(tx, top, 1)?;
                let inner = tx.nested(|tx| {
                    push(tx, top, 2)?;
                    assert_eq!(tx.get(tx.get(top)?.expect("pushed"))?.value, 2);
                    Err::<(), TxError>(TxError::Types)
                });
                assert_eq!(inner, Err(TxError::Types));
                tx.nested(|tx| push(tx, top, 3))
            })?;
            let failed = session.transaction_with(kind, |tx| {
                push(tx, top, 4)?;
                Err::<(), TxError>(TxError::Types)
            });
            assert_eq!(failed, Err(TxError::Types));
            let (mut values, mut next) = (Vec::new(), session.get(top)?);
            while let Some(node) = next {
                values.push(session.get(node)?.value);
                next = session.get(node.at(Node::BELOW))?;
            }
            assert_eq!(values, [3, 1]);
            Ok(())
        });
    }
}

#[test]
fn an_ordered_transaction_can_be_waited_for_later() {
    made::<Root<'_>>(4, |image, pool| {
        let mut session = pool.join(image);
        let count = pool.root().at(Root::COUNT);
        let ((), pending) = session.begin(Logging::Redo, |tx| tx.set(count, 3))?;
        assert_eq!(session.get(count)?, 3);
        session.wait(pending);
        Ok(())
    });
}

#[derive(Clone, Copy, Persist)]
struct Bare<'p> {
    node: Ptr<'p, Node<'p>>,
    bits: u64,
}

#[test]
fn pointers_that_lead_nowhere_are_not_followed() {
    let image = made::<Bare<'_>>(4, |image, pool| {
        let mut session = pool.join(image);
        let never_set = session.get(pool.root())?.node;
        let nowhere = |error: &AccessError| matches!(error, AccessError::NoData { bytes: 16, .. });
        assert!(session.get(never_set).is_err_and(|error| nowhere(&error)));
        assert!(session.get(never_set.at(Node::VALUE)).is_err());
        session.transaction(|tx| {
            let set = tx.set(never_set, Node { value: 1, below: None });
            assert!(matches!(set, Err(TxError::Access(error)) if nowhere(&error)));
            assert!(matches!(tx.free(never_set), Err(TxError::NoObject { .. })));
            tx.set(pool.root().at(Bare::BITS), 1)
        })?;
        Ok(())
    });
    // A flipped bit in a pointer: any word is tried.
    let root = typed_root(&image);
    for bits in (0..64).map(|bit| 1u64 << bit).chain([u64::MAX, u64::MAX - 7, (4 << 16) + 3]) {
        let image = restarted::<Bare<'_>>(image.clone());
        image.store(root, bits);
        let bytes = super::options::<Bare<'_>>(4).pm_bytes();
        typed::open::<Bare<'_>, _, _>(&image, NAME, bytes, |pool| {
            let mut session = pool.join(&image);
            let node = session.get(pool.root())?.node;
            let _ = session.get(node);
            let _ = session.transaction(|tx| {
                let _ = tx.is_live(node)?;
                tx.free(node)
            });
            Ok::<_, HeapError>(())
        })
        .unwrap();
    }
}

fn typed_root(image: &Image) -> Addr {
    let bytes = super::options::<Bare<'_>>(4).pm_bytes();
    seawall_runtime::Heap::read(image, NAME, bytes).expect("a heap").root()
}
