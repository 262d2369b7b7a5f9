//! Pools as a crash may leave them, to be damaged, and to be kept as fixtures.

use crate::places::{Places, word};
use crate::script::{LINKS, NAME, ScriptStep, State, options, seen, states};
use seawall_memory::{Addr, Image};
use seawall_runtime::typed::{self, Bytes, Persist, Ptr};
use seawall_runtime::{Heap, HeapError, HeapOptions, Logging, Session, TxError};

/// A pool, and what it must hold when it is opened.
pub struct Subject {
    /// What its tests call it.
    pub name: &'static str,
    /// Its bytes.
    pub pm: Vec<u8>,
    /// What its links lead to.
    pub state: State,
    /// Transactions to replay, and to undo.
    pub pending: (u64, u64),
}

/// The options of every subject's heap.
pub fn pool_options() -> HeapOptions {
    HeapOptions { log_bytes: 4 << 10, ..options(1, 3) }
}

/// A pool for each state that recovery knows.
pub fn all() -> Vec<Subject> {
    vec![clean(), committed(), generations(), open_undo(), large(), typed()]
}

fn first_steps() -> Vec<ScriptStep> {
    vec![
        ScriptStep::Alloc(0, 40),
        ScriptStep::Alloc(1, 100),
        ScriptStep::Alloc(2, 64),
        ScriptStep::Free(0),
        ScriptStep::Update,
    ]
}

fn made() -> (Image, Heap) {
    let options = pool_options();
    let image = Image::new(options.pm_bytes(), options.dram_bytes());
    let heap = Heap::create(&image, NAME, 7, &options).expect("good options");
    (image, heap)
}

fn run(session: &mut Session<'_, Image>, kind: Logging, steps: &[ScriptStep], first: u64) {
    for (number, step) in (first..).zip(steps) {
        step.run(session, kind, number).expect("room");
    }
}

fn state_after(steps: &[ScriptStep]) -> State {
    seen(states(steps).last().expect("one more than steps"))
}

/// All work is done and in place.
fn clean() -> Subject {
    let (image, heap) = made();
    let mut session = heap.join(&image);
    run(&mut session, Logging::Undo, &first_steps(), 1);
    session.retire();
    let pm = image.clone().into_pm();
    Subject { name: "clean", pm, state: state_after(&first_steps()), pending: (0, 0) }
}

/// The bytes of `before` with the logs of `after`: what was committed in between is in the logs
/// alone, as after a crash that lost every line of data.
fn only_logged(before: Vec<u8>, after: &[u8]) -> Vec<u8> {
    let places = Places::of(after);
    let mut pm = before;
    pm[places.logs..places.table].copy_from_slice(&after[places.logs..places.table]);
    pm
}

/// Some transactions are committed, and are in the logs alone.
fn committed() -> Subject {
    let (image, heap) = made();
    let mut session = heap.join(&image);
    let more =
        [ScriptStep::Alloc(3, 48), ScriptStep::Byte(1), ScriptStep::Free(2), ScriptStep::Update];
    run(&mut session, Logging::Redo, &first_steps(), 1);
    session.retire();
    let before = image.clone().into_pm();
    let records = session.log_counts().records;
    run(&mut session, Logging::Redo, &more, 6);
    let pending = (session.log_counts().records - records, 0);
    let pm = only_logged(before, &image.clone().into_pm());
    let steps: Vec<ScriptStep> = first_steps().into_iter().chain(more).collect();
    Subject { name: "committed", pm, state: state_after(&steps), pending }
}

/// So many are that both halves of the log count.
fn generations() -> Subject {
    let (image, heap) = made();
    let mut session = heap.join(&image);
    run(&mut session, Logging::Redo, &first_steps(), 1);
    session.retire();
    let (mut before, mut steps) = (image.clone().into_pm(), first_steps());
    let retired = |pm: &[u8]| word(pm, Places::of(pm).state);
    let first = retired(&before);
    let mut more = 4;
    while more > 0 {
        let number = steps.len() as u64 + 1;
        steps.push(if number.is_multiple_of(2) {
            ScriptStep::Update
        } else {
            ScriptStep::Byte(number % 4)
        });
        run(&mut session, Logging::Redo, &steps[steps.len() - 1..], number);
        let now = image.clone().into_pm();
        if retired(&now) == first || retired(&before) != first {
            more -= u64::from(retired(&before) != first);
            continue;
        }
        before = now;
    }
    let pm = only_logged(before, &image.clone().into_pm());
    let records = (0..2).map(|half| Places::of(&pm).records(&pm, half).len() as u64).sum();
    Subject { name: "generations", pm, state: state_after(&steps), pending: (records, 0) }
}

/// An undo transaction was in the middle of its work.
fn open_undo() -> Subject {
    let (image, heap) = made();
    let mut session = heap.join(&image);
    run(&mut session, Logging::Undo, &first_steps(), 1);
    session.retire();
    let mut pm = Vec::new();
    let failed = session.transaction_with(Logging::Undo, |tx| {
        for slot in 1..LINKS {
            let at: Addr = tx.load(heap.root().plus(16 * slot));
            if !at.is_null() {
                tx.store(at, 0u64)?;
                tx.write(at.plus(16), &[0xee; 20])?;
            }
        }
        pm = tx.memory().clone().into_pm();
        Err::<(), _>(TxError::Types)
    });
    assert_eq!(failed, Err(TxError::Types));
    Subject { name: "undo", pm, state: state_after(&first_steps()), pending: (0, 1) }
}

/// Objects of whole chunks, and of a block that is written past the log.
fn large() -> Subject {
    let (image, heap) = made();
    let mut session = heap.join(&image);
    let mut state = State::default();
    for (slot, bytes) in [(0, 70_000), (1, 4096)] {
        let done = session.transaction(|tx| {
            let at = tx.alloc(bytes)?;
            let mut content = vec![0; if bytes == 4096 { 4096 } else { 24 }];
            content[..24].fill(7 + slot as u8);
            tx.fill(at, &content)?;
            tx.store(heap.root().plus(16 * slot), at)?;
            tx.store(heap.root().plus(16 * slot + 8), 24u64)
        });
        done.unwrap_or_else(|error: TxError| panic!("{error}"));
        state[slot as usize] = vec![7 + slot as u8; 24];
    }
    session.retire();
    Subject { name: "large", pm: image.clone().into_pm(), state, pending: (0, 0) }
}

#[derive(Clone, Copy, Persist)]
struct Links {
    links: [[u64; 2]; LINKS as usize],
}

#[derive(Clone, Copy, Persist)]
struct Leaf {
    value: Bytes<20>,
}

#[derive(Clone, Copy, Persist)]
struct Pair<'p, T: Persist<'p>, const N: usize> {
    value: [u8; 24],
    next: Option<Ptr<'p, T>>,
    more: [u32; N],
}

/// Objects with types: the first type is in place, the second in the log alone.
fn typed() -> Subject {
    let options = HeapOptions { root_shape: Links::SHAPE, ..pool_options() };
    let image = Image::new(options.pm_bytes(), options.dram_bytes());
    let (leaf, pair) = (Leaf { value: Bytes([9; 20]) }, [7; 24]);
    let made = typed::create::<Links, _, _>(&image, NAME, 7, &options, |pool| {
        let mut session = pool.join(&image);
        let links = pool.root().at(Links::LINKS);
        let leaf = session.transaction(|tx| {
            let leaf = tx.alloc(leaf)?;
            tx.set(links.index(0), [leaf.addr().bits(), Leaf::SIZE])?;
            Ok::<_, TxError>(leaf)
        })?;
        session.retire();
        let before = image.clone().into_pm();
        session.transaction(|tx| {
            let pair = tx.alloc(Pair { value: pair, next: Some(leaf), more: [0; 2] })?;
            tx.set(links.index(1), [pair.addr().bits(), 24])
        })?;
        Ok::<_, HeapError>(only_logged(before, &image.clone().into_pm()))
    });
    let pm = made.unwrap_or_else(|error| panic!("{error}"));
    let records: usize = (0..2).map(|half| Places::of(&pm).records(&pm, half).len()).sum();
    let state = [leaf.value.0.to_vec(), pair.to_vec(), Vec::new(), Vec::new()];
    Subject { name: "typed", pm, state, pending: (records as u64, 0) }
}
