//! Undo transactions that flush what they have changed of long ranges: every crash leaves what was
//! before or behind a transaction, also of bytes that older records of the log have.
//! And what undo transactions store: each word once.

use crate::steps::{Step, explore};
use seawall_explore::{Kind, Model, Schedule, Search, record};
use seawall_memory::{Addr, Image, Memory};
use seawall_runtime::{Heap, HeapFlaw, HeapOptions, Logging, Session, TxError};
use seawall_testkit::script::NAME;

const BYTES: u64 = 6000;

/// A transaction that writes its number, from 1, to these bytes of the root.
#[derive(Clone, Copy)]
struct Fill(Logging, u64, u64);

/// Ranges that begin and end within words, over older values and below newer ones.
const FILLS: [Fill; 5] = [
    Fill(Logging::Redo, 0, 3200),
    Fill(Logging::Undo, 3, 2900),
    Fill(Logging::Redo, 2890, 2910),
    Fill(Logging::Undo, 2000, 5003),
    Fill(Logging::Redo, 64, 72),
];

impl Step for Fill {
    /// Runs of bytes of one value: the value, and how many.
    type State = Vec<(u8, u64)>;

    fn run<M: Memory>(&self, session: &mut Session<'_, M>, number: u64) -> Result<(), TxError> {
        let Fill(logging, from, to) = *self;
        let at = session.heap().root().plus(from);
        let content = vec![number as u8 + 1; (to - from) as usize];
        session.transaction_with(logging, |tx| tx.write(at, &content))
    }

    fn look<M: Memory>(memory: &M, heap: &Heap) -> Result<Self::State, String> {
        let mut bytes = vec![0; BYTES as usize];
        memory.read(heap.root(), &mut bytes);
        let runs = bytes.chunk_by(|one, next| one == next);
        Ok(runs.map(|run| (run[0], run.len() as u64)).collect())
    }
}

fn heap() -> (Image, Heap) {
    let options = HeapOptions {
        bytes: 1 << 16,
        threads: 1,
        log_bytes: 16 << 10,
        root_bytes: BYTES,
        ..HeapOptions::default()
    };
    let image = Image::new(options.pm_bytes(), options.dram_bytes());
    let heap = Heap::create(&image, NAME, 7, &options).expect("good options");
    (image, heap.flushing_early())
}

#[test]
fn no_crash_separates_a_flushed_range_from_the_end_of_its_transaction() {
    for model in Model::all() {
        let how = Search { depth: 1, budget: 4_000, samples: 20, ..Search::new(model) };
        let found = explore(heap(), &FILLS, &how, HeapFlaw::None);
        found.unwrap_or_else(|finding| panic!("{model}: {finding}"));
    }
}

#[test]
fn a_range_that_is_not_durable_or_not_void_in_the_log_is_caught() {
    for flaw in [HeapFlaw::StaleRange, HeapFlaw::UnflushedStores, HeapFlaw::EarlyEndMark] {
        let how = Search { depth: 0, budget: 4_000, samples: 20, ..Search::new(Model::Px86) };
        assert!(explore(heap(), &FILLS, &how, flaw).is_err(), "{flaw:?} was not caught");
    }
}

#[test]
fn an_undo_transaction_stores_each_of_its_words_once() {
    let (image, heap) = heap();
    let root = heap.root();
    let trace = record(image, &Schedule::default(), move |memory| {
        let content = [1; 256];
        let written =
            heap.join(memory).transaction_with(Logging::Undo, |tx| tx.write(root, &content));
        written.unwrap_or_else(|error: TxError| panic!("{error}"));
    })
    .expect("it ends");
    let is_data = |at: Addr| at >= root && at < Addr::pm(root.offset() + BYTES);
    let stores = trace.stores().iter().filter(|store| is_data(store.at)).count();
    assert_eq!(stores, 256 / 8);
}

#[test]
fn new_values_of_a_long_range_are_not_in_the_log() {
    let (image, heap) = heap();
    let root = heap.root();
    let trace = record(image, &Schedule::default(), move |memory| {
        let mut session = heap.join(memory);
        for (bytes, number) in [(1000u64, 0), (4000, 1)] {
            let content = vec![1; bytes as usize];
            let written = session.transaction_with(Logging::Undo, |tx| tx.write(root, &content));
            written.unwrap_or_else(|error: TxError| panic!("{error}"));
            memory.output(number);
        }
    })
    .expect("it ends");
    let (mut stored, mut fences) = (vec![0], vec![0]);
    for event in trace.events() {
        match event.kind {
            Kind::Store { store } | Kind::StoreNt { store } => {
                let store = &trace.stores()[store as usize];
                let is_data = store.at >= root && store.at < Addr::pm(root.offset() + BYTES);
                *stored.last_mut().expect("one") += u64::from(!is_data && store.at.is_pm());
            }
            Kind::Order | Kind::Drain => *fences.last_mut().expect("one") += 1,
            Kind::Output { .. } => {
                stored.push(0);
                fences.push(0);
            }
            _ => {}
        }
    }
    assert_eq!(fences[..2], [2, 3]);
    // Old values and new ones of 125 words; old ones of 500.
    assert!(stored[0] > 250 && stored[1] > 500 && stored[1] < 600, "{stored:?}");
}
