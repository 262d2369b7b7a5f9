//! Types are told apart: at the root, in the heap's table, when objects are freed and found.

use super::{Account, NAME, Node, Root, made, options, restarted};
use seawall_memory::{Image, MemoryExt};
use seawall_runtime::typed::{self, Bytes, Persist, derived};
use seawall_runtime::{AccessError, Heap, HeapError, HeapOptions, Logging, TxError};

fn account(balance: i64) -> Account {
    Account { owner: Bytes(*b"alice"), balance }
}

#[test]
fn the_root_of_another_program_is_refused_and_left_alone() {
    #[derive(Clone, Copy, Persist)]
    struct Other {
        top: u64,
    }
    let image = made::<Root<'_>>(4, |image, pool| {
        pool.join(image).transaction(|tx| tx.set(pool.root().at(Root::COUNT), 5))?;
        Ok(())
    });
    let image = restarted::<Root<'_>>(image);
    let before = image.clone().into_pm();
    let bytes = options::<Root<'_>>(4).pm_bytes();
    let refused = typed::open::<Other, (), _>(&image, NAME, bytes, |_| Err(TxError::Types.into()));
    let error = refused.expect_err("another root");
    assert!(matches!(error, HeapError::Shape { .. }), "{error:?}");
    let text = error.to_string();
    assert!(text.contains("8 bytes") && text.contains("24 bytes"), "{text}");
    assert!(text.contains("another program"), "{text}");
    assert_eq!(image.into_pm(), before);
}

#[test]
fn a_root_that_the_options_do_not_have_is_refused_before_anything_is_made() {
    let untyped = HeapOptions { root_bytes: 24, ..HeapOptions::default() };
    let image = Image::new(untyped.pm_bytes(), untyped.dram_bytes());
    let refused = typed::create::<Root<'_>, (), _>(&image, NAME, 7, &untyped, |_| Ok(()));
    assert!(matches!(refused, Err(HeapError::Shape { .. })), "{refused:?}");
    assert!(image.into_pm().iter().all(|byte| *byte == 0));
}

#[test]
fn objects_are_found_by_their_type_also_after_a_restart() {
    let image = made::<Root<'_>>(4, |image, pool| {
        let mut session = pool.join(image);
        for kind in [Logging::Redo, Logging::Undo] {
            session.transaction_with(kind, |tx| {
                tx.alloc(account(1))?;
                tx.alloc(Node { value: 7, below: None })?;
                tx.alloc(account(2))?;
                tx.alloc([account(3); 2])?;
                tx.alloc(9u64).map(drop)
            })?;
        }
        Ok(())
    });
    let image = restarted::<Root<'_>>(image);
    let bytes = options::<Root<'_>>(4).pm_bytes();
    typed::open::<Root<'_>, _, HeapError>(&image, NAME, bytes, |pool| {
        let mut session = pool.join(&image);
        let mut found = Vec::new();
        session.for_each(|_, account: Account| found.push(account.balance))?;
        assert_eq!(found, [1, 2, 1, 2]);
        let mut nodes = Vec::new();
        session.for_each(|ptr, node: Node<'_>| nodes.push((ptr, node.value)))?;
        assert_eq!(nodes.iter().map(|(_, value)| *value).collect::<Vec<_>>(), [7, 7]);
        assert_eq!(session.get(nodes[1].0)?.value, 7);
        session.for_each(|_, _: [u64; 2]| panic!("nobody allocated one"))?;
        let mut arrays = 0;
        session.for_each(|_, _: [Account; 2]| arrays += 1)?;
        assert_eq!(arrays, 2);
        // An object allocated now is of the number that the first run gave.
        session.transaction(|tx| tx.alloc(account(4)))?;
        found.clear();
        session.for_each(|_, account: Account| found.push(account.balance))?;
        found.sort_unstable();
        assert_eq!(found, [1, 1, 2, 2, 4]);
        Ok(())
    })
    .unwrap();
}

#[test]
fn a_type_stays_known_if_its_first_transaction_fails_and_its_object_does_not() {
    made::<Root<'_>>(4, |image, pool| {
        let mut session = pool.join(image);
        for kind in [Logging::Undo, Logging::Redo] {
            let failed = session.transaction_with(kind, |tx| {
                tx.update(pool.root().at(Root::COUNT), |count| count + 1)?;
                tx.alloc(account(1))?;
                Err::<(), TxError>(TxError::Types)
            });
            assert_eq!(failed, Err(TxError::Types));
        }
        assert_eq!(session.get(pool.root())?.count, 0);
        session.for_each(|_, _: Account| panic!("it was not allocated"))?;
        session.transaction(|tx| tx.alloc(account(2)))?;
        let mut found = 0;
        session.for_each(|_, _: Account| found += 1)?;
        assert_eq!(found, 1);
        Ok(())
    });
}

#[test]
fn only_whole_live_objects_of_the_right_type_are_freed() {
    made::<Root<'_>>(4, |image, pool| {
        let mut session = pool.join(image);
        let (array, one) = session.transaction(|tx| {
            let array = tx.alloc([account(1); 2])?;
            Ok::<_, TxError>((array, tx.alloc(account(2))?))
        })?;
        session.transaction(|tx| {
            let first = array.index(0);
            assert!(!tx.is_live(first)? && tx.is_live(array)? && tx.is_live(one)?);
            assert!(matches!(tx.free(first), Err(TxError::Shape { .. })));
            let inside = array.index(1);
            assert!(!tx.is_live(inside)?);
            assert!(matches!(tx.free(inside), Err(TxError::NoObject { .. })));
            tx.free(one)?;
            assert!(!tx.is_live(one)?);
            assert!(matches!(tx.free(one), Err(TxError::NoObject { .. })));
            Ok::<_, TxError>(())
        })?;
        session.for_each(|_, _: Account| panic!("it was freed"))?;
        Ok(())
    });
}

/// As many types as numbers.
#[derive(Clone, Copy, Debug, PartialEq, Persist)]
struct Numbered<const N: u16> {
    value: u64,
}

macro_rules! alloc_numbered {
    ($session:ident: $($number:literal)*) => {
        vec![$($session.transaction(|tx| {
            tx.alloc(Numbered::<$number> { value: $number }).map(drop)
        })),*]
    };
}

#[test]
fn a_heap_has_126_types_and_says_so() {
    made::<u64>(4, |image, pool| {
        let mut session = pool.join(image);
        let outcomes = alloc_numbered! { session:
            0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24 25 26 27 28 29 30 31
            32 33 34 35 36 37 38 39 40 41 42 43 44 45 46 47 48 49 50 51 52 53 54 55 56 57 58 59 60
            61 62 63 64 65 66 67 68 69 70 71 72 73 74 75 76 77 78 79 80 81 82 83 84 85 86 87 88 89
            90 91 92 93 94 95 96 97 98 99 100 101 102 103 104 105 106 107 108 109 110 111 112 113
            114 115 116 117 118 119 120 121 122 123 124 125 126 127
        };
        assert!(outcomes[..126].iter().all(Result::is_ok), "{outcomes:?}");
        assert_eq!(outcomes[126..], [Err(TxError::Types), Err(TxError::Types)]);
        let mut last = Vec::new();
        session.for_each(|_, value: Numbered<125>| last.push(value.value))?;
        assert_eq!(last, [125]);
        session.for_each(|_, _: Numbered<126>| panic!("it has no number"))?;
        let objects = &mut 0;
        pool.heap().objects(image, |_| *objects += 1)?;
        assert_eq!(*objects, 126, "what failed was not allocated");
        Ok(())
    });
}

/// What no derived type can be: of the shape of an [`Account`] and another size.
#[derive(Clone, Copy)]
struct Impostor(u64);

impl<'p> Persist<'p> for Impostor {
    const SIZE: u64 = 8;
    const ALIGN: u64 = 8;
    const NAME: u64 = <Account as Persist<'p>>::NAME;
    const SHAPE: u64 = <Account as Persist<'p>>::SHAPE;

    fn name_to(text: &mut String) {
        text.push_str("Impostor");
    }

    fn load<S: derived::Source>(from: &S, at: derived::Addr) -> Impostor {
        Impostor(from.load(at))
    }

    fn store<S: derived::Sink>(self, to: &mut S, at: derived::Addr) {
        to.store(at, self.0);
    }
}

#[test]
fn a_shape_of_another_size_is_refused() {
    made::<u64>(4, |image, pool| {
        pool.join(image).transaction(|tx| tx.alloc(account(1)))?;
        let mut session = pool.join(image);
        let refused = session.transaction(|tx| tx.alloc(Impostor(1)).map(drop));
        assert!(matches!(refused, Err(TxError::Shape { .. })), "{refused:?}");
        session.for_each(|_, _: Impostor| panic!("there is none"))?;
        Ok(())
    });
}

#[test]
fn a_flipped_bit_in_the_table_of_types_is_damage() {
    let image = made::<u64>(4, |image, pool| {
        let mut session = pool.join(image);
        session.transaction(|tx| tx.alloc(account(1)))?;
        session.retire();
        Ok(())
    });
    let shape = <Account as Persist<'_>>::SHAPE;
    let pm = image.into_pm();
    let at = pm.chunks(8).position(|word| word == shape.to_le_bytes()).expect("an entry");
    let bytes = options::<u64>(4).pm_bytes();
    for bit in 0..128 {
        let mut pm = pm.clone();
        pm[8 * at + bit / 8] ^= 1 << (bit % 8);
        let image = Image::from_pm(pm, options::<u64>(4).dram_bytes());
        let outcome = typed::open::<u64, (), HeapError>(&image, NAME, bytes, |pool| {
            pool.join(&image).for_each(|_, _: Account| {})?;
            Ok(())
        });
        let Err(HeapError::Tx(TxError::Access(AccessError::Damaged { .. }))) = outcome else {
            panic!("bit {bit}: {outcome:?}")
        };
    }
}

#[test]
fn a_struct_that_was_renamed_in_the_program_opens_its_pools() {
    mod later {
        use super::*;
        #[derive(Clone, Copy, Persist)]
        #[persist(name = "Account")]
        pub(super) struct Renamed {
            pub(super) owner: Bytes<5>,
            pub(super) balance: i64,
        }
    }
    made::<u64>(4, |image, pool| {
        let mut session = pool.join(image);
        session.transaction(|tx| tx.alloc(account(8)))?;
        let mut found = Vec::new();
        session.for_each(|_, account: later::Renamed| found.push(account))?;
        assert_eq!((found[0].owner, found[0].balance), (Bytes(*b"alice"), 8));
        Ok(())
    });
}

#[test]
fn a_heap_that_is_open_can_be_entered_by_its_root_only() {
    let mut heap = None;
    let image = made::<Root<'_>>(4, |_, pool| {
        heap = Some(pool.heap());
        Ok(())
    });
    let heap = heap.expect("it was made");
    let entered = typed::enter::<Root<'_>, _, HeapError>(heap, &image, |pool| {
        pool.join(&image).transaction(|tx| tx.set(pool.root().at(Root::COUNT), 5))?;
        Ok(pool.join(&image).get(pool.root())?.count)
    });
    assert_eq!(entered, Ok(5));
    let refused = typed::enter::<u64, (), HeapError>(heap, &image, |_| Ok(()));
    assert!(matches!(refused, Err(HeapError::Shape { .. })), "{refused:?}");
}

#[test]
#[should_panic(expected = "the memory is that of another pool")]
fn the_memory_of_another_pool_is_refused_when_joining() {
    let options = options::<u64>(1);
    let other = Image::new(options.pm_bytes(), options.dram_bytes());
    Heap::create(&other, NAME, 8, &options).expect("good options");
    made::<u64>(1, |_, pool| {
        pool.join(&other);
        Ok(())
    });
}

#[test]
fn untyped_objects_are_of_no_type() {
    made::<u64>(4, |image, pool| {
        let mut untyped = Heap::join(&pool.heap(), image);
        untyped.transaction(|tx| tx.alloc(16).map(drop))?;
        untyped.leave();
        let mut session = pool.join(image);
        session.transaction(|tx| tx.alloc(account(1)))?;
        let mut found = 0;
        session.for_each(|_, _: Account| found += 1)?;
        assert_eq!(found, 1);
        assert_eq!(image.load::<u64>(pool.root().addr()), 0);
        Ok(())
    });
}

#[derive(Clone, Copy, Debug, PartialEq, Persist)]
#[persist(lines)]
struct Apart {
    value: u64,
}

#[test]
fn what_lies_together_keeps_its_types_and_lives() {
    let sharing = |together| HeapOptions { together, ..super::options::<Root<'static>>(4) };
    for together in [true, false] {
        let options = sharing(together);
        let image = Image::new(options.pm_bytes(), options.dram_bytes());
        typed::create::<Root<'_>, _, HeapError>(&image, NAME, 7, &options, |pool| {
            let mut session = pool.join(&image);
            session.transaction(|tx| {
                let node = Node { value: 7, below: None };
                let (node, number) = tx.alloc_together(node, 5u64)?;
                let near = tx.alloc_near(node, account(1))?;
                let apart = tx.alloc_near(node, Apart { value: 3 })?;
                let shares = |line| line == node.addr().line();
                let lines = [number.addr().line(), near.addr().line(), apart.addr().line()];
                assert!(!together || lines.map(shares) == [true, true, false]);
                assert!(apart.addr().offset().is_multiple_of(64));
                let (apart, _) = tx.alloc_together(Apart { value: 4 }, 6u64)?;
                assert!(apart.addr().offset().is_multiple_of(64));
                tx.free(number)
            })?;
            Ok(())
        })
        .expect("room for all");
        let image = Image::from_pm(image.into_pm(), options.dram_bytes());
        let bytes = options.pm_bytes();
        typed::open::<Root<'_>, _, HeapError>(&image, NAME, bytes, |pool| {
            let mut session = pool.join(&image);
            let (mut accounts, mut numbers, mut nodes) = (Vec::new(), Vec::new(), Vec::new());
            session.for_each::<Account>(|_, account| accounts.push(account))?;
            session.for_each::<u64>(|_, number| numbers.push(number))?;
            session.for_each::<Node<'_>>(|at, node| nodes.push((at, node.value)))?;
            assert_eq!((accounts, numbers), (vec![account(1)], vec![6]));
            assert_eq!(nodes.iter().map(|(_, value)| *value).collect::<Vec<_>>(), [7]);
            let (node, _) = nodes[0];
            session.transaction(|tx| tx.free(node))?;
            let freed = session.transaction(|tx| tx.alloc_near(node, 1u64).map(drop));
            assert!(matches!(freed, Err(TxError::NoObject { .. })), "{freed:?}");
            Ok(())
        })
        .expect("a whole heap");
    }
}
