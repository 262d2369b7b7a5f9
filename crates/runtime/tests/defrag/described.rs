//! The list once more, of types that the program describes when it runs.

use super::steps::Second;
use seawall_explore::{CrashImage, CrashPoint, Model, Schedule, Search, check, record, search};
use seawall_memory::{Addr, Image, Memory};
use seawall_runtime::defrag::{DefragError, Defragmenter, Protocol, Step};
use seawall_runtime::described::{Described, DescribedError, Description, DescriptionError};
use seawall_runtime::{Heap, HeapError, HeapOptions, Logging, Session, Tx, TxError};

const NAME: &str = "described";
const NODE: u64 = 104;
const NEXT: u64 = 8;

fn description(name: &str, bytes: u64, pointers: &[u64]) -> Description {
    Description { name: name.to_owned(), bytes, pointers: pointers.to_vec() }
}

/// A root whose second word leads to the first node; a node is a value, a pointer, and filling.
fn list() -> Described {
    list_with(&[NEXT])
}

fn list_with(pointers: &[u64]) -> Described {
    let types = [description("other", 24, &[]), description("node", NODE, pointers)];
    Described::new(&description("root", 16, &[8]), &types).expect("descriptions")
}

fn options(described: &Described) -> HeapOptions {
    HeapOptions {
        bytes: 8 << 16,
        bytes_max: 8 << 16,
        threads: 2,
        log_bytes: 16 << 10,
        root_bytes: 16,
        root_shape: described.root_shape(7),
        defragment: true,
        ..HeapOptions::default()
    }
}

fn node(value: u64, next: Addr) -> Vec<u8> {
    let words = [value, next.bits()].into_iter().chain([value * 3; 11]);
    words.flat_map(u64::to_le_bytes).collect()
}

fn word(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(bytes[at..at + 8].try_into().expect("a word"))
}

fn first(heap: Heap) -> (Addr, u64) {
    (heap.root(), 8)
}

fn push<M: Memory>(
    described: &Described,
    session: &mut Session<'_, M>,
    kind: Logging,
    value: u64,
) -> Result<(), DescribedError> {
    let (root, link) = first(session.heap());
    session.transaction_with(kind, |tx| {
        let mut next = [0; 8];
        described.read(tx, root, link, &mut next)?;
        let new = node(value, Addr::from_bits(u64::from_le_bytes(next)));
        let new = described.alloc(tx, 1, Some(&new))?;
        described.write(tx, root, link, &new.bits().to_le_bytes())
    })
}

/// Removes the values that are not to be kept, in one transaction.
fn retain<M: Memory>(
    described: &Described,
    session: &mut Session<'_, M>,
    kind: Logging,
    keeps: impl Fn(u64) -> bool,
) -> Result<(), DescribedError> {
    let (mut at, mut link) = first(session.heap());
    session.transaction_with(kind, |tx| {
        loop {
            let (mut pointer, mut found) = ([0; 8], vec![0; NODE as usize]);
            described.read(tx, at, link, &mut pointer)?;
            let next = Addr::from_bits(u64::from_le_bytes(pointer));
            if next.is_null() {
                return Ok(());
            }
            described.read(tx, next, 0, &mut found)?;
            if keeps(word(&found, 0)) {
                (at, link) = (next, NEXT);
            } else {
                described.write(tx, at, link, &found[NEXT as usize..][..8])?;
                described.free(tx, next)?;
            }
        }
    })
}

fn values<M: Memory>(
    described: &Described,
    session: &mut Session<'_, M>,
) -> Result<Vec<u64>, String> {
    let (at, link) = first(session.heap());
    let walked = session.transaction(|tx| {
        let (mut values, mut pointer) = (Vec::new(), [0; 8]);
        described.read(tx, at, link, &mut pointer)?;
        while pointer != [0; 8] {
            let mut found = vec![0; NODE as usize];
            described.read(tx, Addr::from_bits(u64::from_le_bytes(pointer)), 0, &mut found)?;
            let value = word(&found, 0);
            if found[16..] != node(value, Addr::NULL)[16..] {
                return Ok::<_, DescribedError>(Err(format!("{value}, then {values:?}")));
            }
            values.push(value);
            pointer.copy_from_slice(&found[NEXT as usize..][..8]);
        }
        Ok(Ok(values))
    });
    walked.map_err(|error| error.to_string())?
}

const KEPT: [u64; 4] = [49, 48, 16, 0];

/// A list of four nodes on three pages.
fn sparse(described: &Described) -> Image {
    let options = options(described);
    let image = Image::new(options.pm_bytes(), options.dram_bytes());
    let heap = Heap::create(&image, NAME, 7, &options).expect("good options");
    let mut session = heap.join(&image);
    (0..60).for_each(|value| push(described, &mut session, Logging::Redo, value).expect("room"));
    retain(described, &mut session, Logging::Redo, |value| KEPT.contains(&value)).expect("room");
    session.retire();
    drop(session);
    Image::from_pm(image.into_pm(), options.dram_bytes())
}

fn open<M: Memory>(described: &Described, memory: &M) -> Result<Heap, HeapError> {
    let (heap, _) = Heap::open(memory, NAME, options(described).pm_bytes())?;
    described.check(&heap, memory)?;
    Ok(heap)
}

/// A cycle; between its steps the list is read, and changed by `change`. Gives the values at the
/// end.
fn cycle<M: Memory>(
    described: &Described,
    memory: &M,
    protocol: Protocol,
    mut change: impl FnMut(&mut Session<'_, M>, u64),
) -> Result<Vec<u64>, String> {
    let heap = open(described, memory).map_err(|error| error.to_string())?;
    let mut session = heap.join(memory);
    let defragmenter = Defragmenter::of_described(described, &heap, protocol.into());
    let mut defragmenter = defragmenter.map_err(|error| error.to_string())?;
    for step in 0.. {
        let outcome = defragmenter.step(&mut session).map_err(|error| error.to_string())?;
        if outcome == Step::Done {
            break;
        }
        assert!(step < 1000 && outcome == Step::Worked, "step {step}: {outcome:?}");
        change(&mut session, step);
    }
    assert!(defragmenter.counts().emptied > 0);
    values(described, &mut session)
}

#[test]
fn described_objects_move_and_their_pointers_follow() {
    for protocol in [Protocol::Espresso, Protocol::Sfccd] {
        let (described, mut steps) = (list(), 0);
        let image = sparse(&described);
        let found = cycle(&described, &image, protocol, |session, step| {
            assert_eq!(values(&described, session), Ok(KEPT.to_vec()), "step {step}");
            steps = step;
        });
        assert_eq!(found, Ok(KEPT.to_vec()), "{protocol}");
        assert!(steps > 5);
    }
}

#[test]
fn a_pointer_that_was_not_described_leads_nowhere_after_a_cycle() {
    let described = list_with(&[]);
    let image = sparse(&described);
    let found = cycle(&described, &image, Protocol::Sfccd, |_, _| ());
    assert_ne!(found, Ok(KEPT.to_vec()));
}

/// What each step of the program leaves: it pushes 100 and more, and takes the last one out again.
fn steps_of(kind: Logging) -> Result<(), String> {
    let described = list();
    let trace = record(sparse(&described), &Schedule::default(), move |memory| {
        let described = list();
        let found = cycle(&described, memory, Protocol::Sfccd, |session, step| {
            let outcome = match step % 2 {
                0 => push(&described, session, kind, 100 + step),
                _ => retain(&described, session, kind, |value| value != 99 + step),
            };
            outcome.expect("room");
            memory.output(step + 1);
        });
        assert_eq!(found.map(|values| values[values.len() - 4..] == KEPT), Ok(true));
    });
    let trace = trace.map_err(|error| error.to_string())?;
    let recover = |image: &CrashImage| {
        let described = list();
        let heap = open(&described, image).map_err(|error| error.to_string())?;
        values(&described, &mut heap.join(image))
    };
    let judge = |found: &Vec<u64>, at: &CrashPoint| {
        let done = at.outputs.last().copied().unwrap_or(0);
        let with = |step: u64| if step % 2 == 1 { vec![99 + step] } else { vec![] };
        let is_after = |steps: u64| *found == [with(steps), KEPT.to_vec()].concat();
        if is_after(done) || is_after(done + 1) { Ok(()) } else { Err(format!("{found:?}")) }
    };
    let how = Search { depth: 1, ..Search::new(Model::Px86) };
    match search(&trace, &how, &check(recover, judge)).finding {
        None => Ok(()),
        Some(finding) => Err(finding.to_string()),
    }
}

#[test]
fn no_crash_of_a_cycle_loses_a_described_object() {
    for kind in [Logging::Redo, Logging::Undo] {
        steps_of(kind).unwrap_or_else(|bad| panic!("{kind:?}: {bad}"));
    }
}

/// The nodes that a transaction sees: their addresses and values.
fn nodes<M: Memory>(
    described: &Described,
    tx: &mut Tx<'_, '_, M>,
) -> Result<Vec<(Addr, u64)>, DescribedError> {
    let (at, link) = first(tx.heap());
    let (mut found, mut pointer) = (Vec::new(), [0; 8]);
    described.read(tx, at, link, &mut pointer)?;
    while pointer != [0; 8] {
        let (at, mut value) = (Addr::from_bits(u64::from_le_bytes(pointer)), [0; 8]);
        described.read(tx, at, 0, &mut value)?;
        described.read(tx, at, NEXT, &mut pointer)?;
        found.push((at, u64::from_le_bytes(value)));
    }
    Ok(found)
}

/// Turns the list round, by the addresses that the transaction knows.
fn turn_round<M: Memory>(
    described: &Described,
    tx: &mut Tx<'_, '_, M>,
    known: &[(Addr, u64)],
) -> Result<(), DescribedError> {
    let (at, link) = first(tx.heap());
    let last = known.last().map_or(Addr::NULL, |(at, _)| *at);
    described.write(tx, at, link, &last.bits().to_le_bytes())?;
    for (place, (at, value)) in known.iter().enumerate() {
        let before = place.checked_sub(1).map_or(Addr::NULL, |place| known[place].0);
        described.write(tx, *at, 0, &node(*value, before))?;
    }
    Ok(())
}

/// Lets a transaction begin after so many steps, which changes the list after as many more as are
/// taken until the cycle waits for it; false once that is behind the cycle.
fn changes_beside(begins: u64, kind: Logging, commits: bool) -> bool {
    let described = list();
    let image = sparse(&described);
    let heap = open(&described, &image).expect("the pool");
    let second = Second { image: &image };
    let mut collector = heap.join(&second);
    let defragmenter = Defragmenter::of_described(&described, &heap, Protocol::Sfccd.into());
    let mut defragmenter = defragmenter.expect("ratios");
    for _ in 0..begins {
        if defragmenter.step(&mut collector).expect("room") == Step::Done {
            return false;
        }
    }
    let mut session = heap.join(&image);
    let mut tx = session.start(kind).expect("no other");
    if commits {
        let known = nodes(&described, &mut tx).expect("the list");
        while defragmenter.step(&mut collector).expect("room") == Step::Worked {
            assert_eq!(nodes(&described, &mut tx).as_ref(), Ok(&known), "{begins}");
        }
        turn_round(&described, &mut tx, &known).expect("room");
        tx.commit().expect("room");
    } else {
        // What is stored over has not been loaded in this transaction.
        let (root, link) = first(heap);
        described.write(&mut tx, root, link, &[0; 8]).expect("room");
        while defragmenter.step(&mut collector).expect("room") == Step::Worked {}
        tx.abort().expect("a sound medium");
    }
    defragmenter.finish(&mut collector).expect("room");
    let mut expected = KEPT.to_vec();
    if commits {
        expected.reverse();
    }
    assert_eq!(values(&described, &mut session), Ok(expected), "{begins}");
    true
}

#[test]
fn in_a_transaction_described_objects_keep_their_addresses_whatever_steps_are_taken() {
    for kind in [Logging::Redo, Logging::Undo] {
        for commits in [true, false] {
            let steps = (0..).find(|begins| !changes_beside(*begins, kind, commits));
            assert!(steps.is_some_and(|steps| steps > 15), "{steps:?}");
        }
    }
}

#[test]
fn what_cannot_be_accessed_is_named() {
    let described = list();
    let image = sparse(&described);
    let heap = open(&described, &image).expect("the pool");
    let mut session = heap.join(&image);
    let outcome = session.transaction(|tx| {
        let new = described.alloc(tx, 1, None)?;
        let bytes = described.alloc(tx, 0, None)?;
        let untyped = tx.alloc(40)?;
        let mut into = [1; 8];
        described.read(tx, new, NEXT, &mut into)?;
        assert_eq!(into, [0; 8], "an object without content is zero");
        let cut = described.read(tx, new, NEXT + 4, &mut into);
        assert_eq!(cut, Err(DescribedError::Cut { at: new, pointer: NEXT }));
        let cut = described.write(tx, new, 0, &[0; 12]);
        assert_eq!(cut, Err(DescribedError::Cut { at: new, pointer: NEXT }));
        let outside = described.write(tx, bytes, 20, &[0; 8]);
        assert!(matches!(outside, Err(DescribedError::Outside { offset: 20, size: 24, .. })));
        let inside = described.read(tx, new.plus(16), 0, &mut into);
        assert!(matches!(inside, Err(DescribedError::Tx(TxError::NoObject { .. }))), "{inside:?}");
        let moves = described.fixed(tx, new, 16, 8);
        assert_eq!(moves, Err(DescribedError::Moves { at: new }));
        assert_eq!(described.fixed(tx, untyped, 16, 8), Ok(untyped.plus(16)));
        assert_eq!(described.fixed(tx, tx.heap().root(), 0, 8), Ok(tx.heap().root()));
        assert!(described.fixed(tx, tx.heap().root(), 0, 16).is_err(), "a pointer of the root");
        Ok::<_, DescribedError>((new, untyped))
    });
    let (new, untyped) = outcome.expect("room");
    assert_eq!(described.stays(&heap, &image, new), Ok(false));
    assert_eq!(described.stays(&heap, &image, untyped.plus(8)), Ok(true));

    let stranger = Described::new(&description("root", 16, &[8]), &[]).expect("descriptions");
    let unknown = session.transaction(|tx| stranger.read(tx, new, 0, &mut [0; 8]));
    assert!(matches!(unknown, Err(DescribedError::Unknown { name, .. }) if name == "node"));
    let mut defragmenter =
        Defragmenter::of_described(&stranger, &heap, Protocol::Sfccd.into()).expect("ratios");
    let refused = defragmenter.run(&mut session);
    assert!(matches!(refused, Err(DefragError::UnknownType { name }) if name == "node"));
    let changed = list_with(&[NEXT, 16]).check(&heap, &image);
    let Err(HeapError::Changed { name, how }) = changed else { panic!("{changed:?}") };
    assert_eq!(name, "node");
    assert!(how.contains("pointers at [8], and has 104 with pointers at [8, 16]"), "{how}");
}

#[test]
fn what_is_no_description_is_refused() {
    let root = description("root", 16, &[]);
    let refused = |types: &[Description]| Described::new(&root, types).unwrap_err();
    let cases = [
        description("", 8, &[]),
        description("a { b", 8, &[]),
        description("none", 0, &[]),
        description("huge", 16 << 20, &[]),
        description("odd", 16, &[4]),
        description("behind", 16, &[16]),
        description("falling", 32, &[8, 0]),
        description("small", 4, &[0]),
    ];
    for case in cases {
        let text = refused(std::slice::from_ref(&case)).to_string();
        assert!(text.starts_with("type ") && text.contains(&case.name), "{text}");
    }
    let twice = refused(&[description("a", 8, &[]), description("a", 16, &[])]);
    assert_eq!(twice, DescriptionError::Twice { name: "a".to_owned() });
    let many: Vec<_> = (0..127).map(|number| description(&format!("t{number}"), 8, &[])).collect();
    assert_eq!(refused(&many), DescriptionError::Many { count: 127 });
}
