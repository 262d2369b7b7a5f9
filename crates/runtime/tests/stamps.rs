//! The line of the common stamps, which each commit writes, is asked for early where a few threads
//! commit in turns, and only there.

use seawall_memory::{Addr, Image, Space, layer};
use seawall_runtime::{Heap, HeapOptions, Logging, TxError};
use seawall_testkit::script::NAME;
use std::cell::Cell;

/// A thread of the simplest machine, which counts the words that are announced.
struct Asked<'m> {
    image: &'m Image,
    thread: usize,
    words: Cell<u64>,
}

impl layer::Layer for Asked<'_> {
    type Below = Image;

    fn below(&self) -> &Image {
        self.image
    }

    fn thread(&self) -> usize {
        self.thread
    }

    fn space(&self) -> Option<impl Space> {
        Some(self)
    }
}

impl Space for &Asked<'_> {
    fn grow(&self, bytes: u64) -> bool {
        Space::grow(&self.image, bytes)
    }

    fn will_write(&self, at: Addr, len: u64) {
        self.words.set(self.words.get() + u64::from(!at.is_pm() && len == 8));
    }

    fn discard(&self, at: Addr, len: u64) {
        Space::discard(&self.image, at, len);
    }

    fn bring_back(&self, at: Addr, len: u64) -> bool {
        Space::bring_back(&self.image, at, len)
    }

    fn hole(&self, at: Addr, len: u64) -> Option<(Addr, u64)> {
        Space::hole(&self.image, at, len)
    }
}

/// What each thread commits.
#[derive(Clone, Copy, Debug)]
enum Change {
    Store(Logging),
    /// Allocates, so that only words of the allocator change.
    Allocate,
}

/// How often the first of so many threads asks in 100 commits, which all of them do in turns.
fn asked(threads: usize, change: Change) -> u64 {
    let options = HeapOptions { threads: 16, root_bytes: 64 * 16, ..HeapOptions::default() };
    let image = Image::new(options.pm_bytes(), options.dram_bytes());
    let heap = Heap::create(&image, NAME, 7, &options).expect("good options");
    let handle = |thread| Asked { image: &image, thread, words: Cell::new(0) };
    let memories: Vec<Asked<'_>> = (0..threads).map(handle).collect();
    let mut sessions: Vec<_> = memories.iter().map(|memory| heap.join(memory)).collect();
    for round in 0..100u64 {
        for (session, place) in sessions.iter_mut().zip(0..) {
            let at = heap.root().plus(64 * place);
            let done = match change {
                Change::Store(logging) => {
                    session.transaction_with(logging, |tx| tx.store(at, round))
                }
                Change::Allocate => session.transaction(|tx| tx.alloc(64).map(drop)),
            };
            done.unwrap_or_else(|error: TxError| panic!("{error}"));
        }
    }
    drop(sessions);
    memories[0].words.get()
}

#[test]
fn a_commit_asks_early_for_the_stamps_where_a_few_threads_take_turns() {
    let stores = [Logging::Redo, Logging::Undo].map(Change::Store);
    for change in stores.into_iter().chain([Change::Allocate]) {
        assert_eq!(asked(1, change), 0, "nobody else has the line");
        for threads in [2, 4] {
            assert!(asked(threads, change) > 90, "{threads} threads, {change:?}");
        }
        assert_eq!(asked(16, change), 0, "another thread would take it back");
    }
}
