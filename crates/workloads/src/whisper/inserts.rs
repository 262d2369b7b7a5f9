//! The `map_insert` benchmark of NVML, as WHISPER ran it (ASPLOS'17, section 3.2): four clients,
//! values of 128 bytes, inserts only, each an undo transaction. For an existing key, which is rare,
//! an insert overwrites the value. Each thread has a map of its own.

use super::client::Client;
use super::share::{self, Share};
use super::undo::{Overhead, Undo, UndoTx};
use crate::{Contents, Damage, Flaw, Layout, Setup, Worker, Workload};
use seawall_memory::{Addr, Memory};
use seawall_runtime::Arena;

const REQUEST_BYTES: u64 = 64;
const RESPONSE_BYTES: u64 = 32;
const LOG_ENTRIES: u64 = 8;
const LOG_ENTRY_LINES: u64 = 3;

/// Words of a value.
pub(super) const VALUE_WORDS: u64 = 16;

/// A structure that maps keys to values: one for each thread.
pub trait Inserted: Copy + Send + Sync + 'static {
    /// Name of the workload.
    const NAME: &'static str;
    /// One line for the list of workloads.
    const ABOUT: &'static str;
    /// Function calls per step of the transaction system, and per transaction beside the steps.
    const STEP_CALLS: u64;
    /// See [`STEP_CALLS`](Inserted::STEP_CALLS).
    const CALLS: u64;
    /// Where a thread searches for free blocks.
    type Cursors: Default + 'static;
    /// The place of an absent key.
    type Near;

    /// Places its areas.
    fn place(arena: &mut Arena, share: Share) -> Self;

    /// The value of a key; the error is the place of an absent key.
    fn find<M: Memory>(&self, memory: &M, key: u64) -> Result<Addr, Self::Near>;

    /// Inserts a key with its tag at its place, and commits.
    fn insert<M: Memory>(
        &self,
        tx: UndoTx<'_, M>,
        cursors: &mut Self::Cursors,
        entry: (u64, u64),
        near: Self::Near,
    );

    /// Checks the maps of all threads, and returns their contents.
    ///
    /// # Errors
    /// The invariant that does not hold.
    fn contents<M: Memory>(&self, memory: &M) -> Result<Contents, Damage>;
}

/// The benchmark of a structure.
///
/// After a crash, maps, values and the bitmaps of free blocks are as their threads' last commits
/// left them: a thread's undo log restores what an open transaction had changed. Only the front end
/// is in DRAM, so nothing is rebuilt.
#[derive(Clone, Copy, Debug)]
pub struct MapInsert<S> {
    share: Share,
    undo: Undo,
    pub(super) map: S,
    client: Client,
}

impl<S: Inserted> MapInsert<S> {
    fn place(share: Share) -> (MapInsert<S>, Arena) {
        let mut arena = Arena::new();
        let benchmark = MapInsert {
            share,
            undo: Undo::place(&mut arena, share.threads, LOG_ENTRIES, LOG_ENTRY_LINES),
            map: S::place(&mut arena, share),
            client: Client::place(&mut arena, share.threads),
        };
        (benchmark, arena)
    }

    fn begin<'a, M: Memory>(
        &'a self,
        memory: &'a M,
        key: u64,
        (hash, flaw): (u64, Flaw),
    ) -> UndoTx<'a, M> {
        let overhead = Overhead { client: self.client, hash, calls: S::STEP_CALLS };
        UndoTx::begin(memory, &self.undo, self.share.owner(key), overhead, flaw.of_epochs())
    }
}

impl<S: Inserted> Workload for MapInsert<S> {
    const NAME: &'static str = S::NAME;
    const ABOUT: &'static str = S::ABOUT;
    const ENTRIES: u64 = 8192;
    const SEARCH_PERCENT: u32 = 0;

    fn layout(setup: &Setup) -> Layout {
        Layout::of(&MapInsert::<S>::place(Share::wide(setup)).1)
    }

    fn create<M: Memory>(memory: &M, setup: &Setup) -> MapInsert<S> {
        let (benchmark, arena) = MapInsert::<S>::place(Share::wide(setup));
        let mut cursors = Vec::new();
        cursors.resize_with(setup.threads, S::Cursors::default);
        for (key, tag) in benchmark.share.initial(setup) {
            let Err(near) = benchmark.map.find(memory, key) else { continue };
            let cursors = &mut cursors[benchmark.share.owner(key) as usize];
            let tx = benchmark.begin(memory, key, (key, Flaw::None));
            benchmark.map.insert(tx, cursors, (key, tag), near);
        }
        benchmark.share.seal(memory, S::NAME, setup, &arena);
        benchmark
    }

    fn open<M: Memory>(memory: &M, layout: Layout) -> Result<MapInsert<S>, Damage> {
        let (benchmark, arena) = MapInsert::place(Share::open(memory, S::NAME, layout)?);
        layout.hold(&arena)?;
        benchmark.undo.recover(memory, arena.pm_bytes())?;
        benchmark.contents(memory)?;
        Ok(benchmark)
    }

    type Local<'m, M: Memory + 'm> = S::Cursors;

    fn join<M: Memory>(&self, _: &M) -> S::Cursors {
        S::Cursors::default()
    }

    fn step<M: Memory>(&self, memory: &M, cursors: &mut S::Cursors, worker: &mut Worker) {
        let Some(key) = self.share.pick(worker) else { return };
        let is_read = worker.below(100) < u64::from(worker.search_percent);
        let hash = self.client.request(memory, key, REQUEST_BYTES);
        self.client.calls(memory, hash, S::CALLS);
        let change = worker.change();
        let (tag, mut note) = (change.tag, change.note);
        match (is_read, self.map.find(memory, key)) {
            (true, Ok(value)) => {
                share::read(memory, value, VALUE_WORDS);
            }
            (true, Err(_)) => {}
            (false, found) => {
                note(key, tag);
                let mut tx = self.begin(memory, key, (hash, worker.flaw));
                match found {
                    Err(near) => self.map.insert(tx, cursors, (key, tag), near),
                    Ok(value) => {
                        tx.add(value, VALUE_WORDS);
                        share::fill(memory, value, VALUE_WORDS, key, tag);
                        tx.commit();
                    }
                }
            }
        }
        self.client.respond(memory, hash, RESPONSE_BYTES);
    }

    fn contents<M: Memory>(&self, memory: &M) -> Result<Contents, Damage> {
        self.map.contents(memory)
    }
}
