//! A struct, a map, a tree, a list and a text in it: one transaction changes all of them or none,
//! whenever power fails, on every machine.

use seawall::{
    Access, BTree, BTreeField, Error, Exploration, Map, MapField, Memory, Persist, Ptr, ReadError,
    Simulation, Text, TextField, Thread, Vector, VectorField, explore, simulate,
};
use std::collections::BTreeMap;

#[derive(Clone, Copy, Persist)]
struct Shelf<'p> {
    name: Text,
    prices: Map<str, u32>,
    by_number: BTree<i16, str>,
    by_title: BTree<str, i16>,
    sold: Vector<u32>,
    first: Option<Ptr<'p, Book<'p>>>,
    count: u64,
}

#[derive(Clone, Copy, Persist)]
struct Book<'p> {
    number: i16,
    next: Option<Ptr<'p, Book<'p>>>,
}

fn title(number: i16) -> String {
    format!("a title with the number {number}")
}

fn add<M: Memory>(shelf: &mut Thread<'_, Shelf<'_>, M>, number: i16) -> Result<(), Error> {
    shelf.transaction(|tx, root| {
        root.at(Shelf::NAME).set(tx, &format!("of {number}"))?;
        root.at(Shelf::PRICES).insert(tx, &title(number), &(number as u32))?;
        root.at(Shelf::BY_NUMBER).insert(tx, &-number, &title(number))?;
        root.at(Shelf::BY_TITLE).insert(tx, &title(number), &number)?;
        root.at(Shelf::SOLD).push(tx, number as u32)?;
        let next = tx.get(root.at(Shelf::FIRST))?;
        let book = tx.alloc(Book { number, next })?;
        tx.set(root.at(Shelf::FIRST), Some(book))?;
        tx.update(root.at(Shelf::COUNT), |count| count + 1)
    })
}

/// What is on the shelf, if all parts of it agree.
fn content<'p, A: Access<'p>>(
    access: &mut A,
    root: Ptr<'p, Shelf<'p>>,
) -> Result<Vec<i16>, A::Error> {
    let shelf = access.read(root)?;
    let (mut numbers, mut next) = (Vec::new(), shelf.first);
    while let Some(book) = next {
        let book = access.read(book)?;
        numbers.push(book.number);
        next = book.next;
    }
    let sold: Vec<u32> = numbers.iter().rev().map(|number| *number as u32).collect();
    let by_number: Vec<_> = numbers.iter().map(|number| (-number, title(*number))).collect();
    let mut prices: Vec<_> = root.at(Shelf::PRICES).iter(access)?.collect();
    prices.sort();
    let titles: BTreeMap<_, _> = numbers.iter().map(|number| (title(*number), *number)).collect();
    let mut expected: Vec<_> = sold.iter().map(|sold| (title(*sold as i16), *sold)).collect();
    expected.sort();
    let name = numbers.first().map_or(String::new(), |number| format!("of {number}"));
    let agree = shelf.count == numbers.len() as u64
        && root.at(Shelf::NAME).get(access)? == name
        && root.at(Shelf::SOLD).to_vec(access)? == sold
        && root.at(Shelf::BY_NUMBER).range(access, ..)?.eq(by_number)
        && root.at(Shelf::BY_TITLE).iter(access)?.eq(titles)
        && prices == expected;
    let what = || format!("the parts of {numbers:?} do not agree");
    if agree { Ok(numbers) } else { Err(ReadError::Damaged { what: what() }.into()) }
}

#[test]
fn no_crash_keeps_a_part_of_a_transaction_over_all_kinds_of_fields() {
    let explored = explore::<Shelf<'_>, _>(
        &Exploration::default().crashes_of_recovery(0),
        |shelf| add(shelf, 1),
        |shelf| {
            for number in 2..4 {
                add(shelf, number)?;
                shelf.output(number as u64 - 2);
            }
            Ok(())
        },
        |shelf| shelf.read(|view, root| content(view, root)),
        |numbers, crash| {
            let least = crash.outputs[0] as usize + 1;
            let is_right = (least..=least + 1).contains(&numbers.len());
            if is_right { Ok(()) } else { Err(format!("{numbers:?}")) }
        },
    );
    let explored = explored.unwrap();
    assert!(explored.states > 100, "{explored}");
}

#[test]
fn two_threads_take_turns_and_no_crash_breaks_them() {
    #[derive(Clone, Copy, Persist)]
    struct Pair {
        counts: [u64; 2],
    }
    let run = |is_broken: bool| {
        explore::<Pair, _>(
            &Exploration::default().threads(2).runs(12).states(2000).crashes_of_recovery(0),
            |_| Ok(()),
            move |pool| {
                let parts = if is_broken { [0..1, 1..2] } else { [0..2, 0..0] };
                for part in parts {
                    pool.transaction(|tx, root| {
                        part.clone().try_for_each(|at| {
                            tx.update(root.at(Pair::COUNTS).index(at), |count| count + 1)
                        })
                    })?;
                }
                pool.output(0);
                Ok(())
            },
            |pool| pool.read(|view, root| view.get(root.at(Pair::COUNTS))),
            |[one, other], crash| {
                let done: u64 = crash.outputs.iter().sum();
                let is_right = one == other && (done..=2).contains(one);
                if is_right { Ok(()) } else { Err(format!("{one} and {other} after {done}")) }
            },
        )
    };
    assert!(run(false).unwrap().runs > 1);
    let found = run(true).expect_err("two transactions are not one").to_string();
    assert!(found.contains("1 and 0"), "{found}");
}

#[test]
fn the_same_program_takes_the_same_cycles_every_time() {
    let cycles = |design: &str| {
        let how = Simulation::of(design).threads(2);
        let run = simulate::<Shelf<'_>>(
            &how,
            |shelf| add(shelf, 1),
            |shelf| (2..12).try_for_each(|number| add(shelf, number)),
        );
        run.unwrap().cycles
    };
    assert_eq!(cycles("clwb"), cycles("clwb"));
    assert!(cycles("volatile") < cycles("clwb"));
    let unknown = simulate::<Shelf<'_>>(&Simulation::of("clbw"), |_| Ok(()), |_| Ok(()));
    assert!(unknown.unwrap_err().to_string().contains("clbw"));
}

#[test]
fn storing_a_copy_of_a_struct_leaves_the_structures_in_it_alone() {
    let folder = tempfile::tempdir().expect("room");
    let pool = seawall::open::<Shelf<'_>>(folder.path().join("a.pool"), Default::default());
    let pool = pool.expect("room");
    let kept = pool.transaction(|tx, root| {
        let empty = tx.get(root)?;
        root.at(Shelf::PRICES).insert(tx, "a", &1)?;
        root.at(Shelf::SOLD).push(tx, 7)?;
        tx.set(root, Shelf { count: 3, ..empty })?;
        let price = root.at(Shelf::PRICES).get(tx, "a")?;
        Ok::<_, Error>((price, root.at(Shelf::SOLD).to_vec(tx)?, tx.get(root)?.count))
    });
    assert_eq!(kept, Ok((Some(1), vec![7], 3)));
}
