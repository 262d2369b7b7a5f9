//! All operations of a heap, as random scripts on a table of objects: transactions of both kinds,
//! nested, failing and begun early; objects of all sizes, of whole lines, and of chunks; allocation
//! and freeing inside a transaction and as one call; truncating logs, leaving and joining again;
//! and growth, because the heap starts small in a large pool.
//!
//! A slot of the table points to an object or is empty. Each object contains the number of the
//! operation that made it (its tag), and all its bytes are a function of the tag. So a lost,
//! doubled, torn or leaked object is detected: every slot must point to a live object that is
//! whole, and every live object must have exactly one slot. Typed objects are left to the tests of
//! the typed layer.

use crate::harness::history::{Contents, initial_tag, tag};
use crate::harness::workload::{Action, initial_keys};
use crate::{Damage, Flaw, Layout, Setup, Worker, Workload};
use seawall_memory::{Addr, Memory, MemoryExt};
use seawall_runtime::{
    Arena, CHUNK_BYTES, Heap, HeapOptions, Locks, Logging, Session, Tx, TxError,
};
use std::collections::BTreeMap;

const STRIPES: u64 = 64;
/// In the root object: the address of the table, and the number of its slots.
const TABLE: u64 = 0;
const KEYS: u64 = 8;
const ROOT_BYTES: u64 = 16;

/// Chunks of a thread beyond those of the objects: some for every size class.
const CHUNKS_A_THREAD: u64 = 16;
/// Chunks of the largest objects, of `LARGEST_CHUNKS * CHUNK` bytes.
const LARGEST_CHUNKS: u64 = 2;
const LARGEST: u64 = 70_000;
/// The greatest number of chunks of a heap.
const CHUNKS_MAX: u64 = 1 << 28;
/// The greatest number of bytes written of an object: enough to exceed the log.
const WRITTEN_MAX: u64 = 4160;
/// The check reads one word of this many in a long object.
const SAMPLED: u64 = 64;

/// Scripts on a heap.
#[derive(Clone, Copy, Debug)]
pub struct Scripts {
    heap: Heap,
    table: Addr,
    keys: u64,
    stripes: Locks,
}

/// An operation on one slot or two.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Op {
    /// Allocates an object, of whole lines or not, in place of the slot's object.
    Replace { lines: bool },
    /// As `Replace`, but waits for durability later.
    Begin,
    /// Writes another tag into the object.
    Update,
    /// Frees the object.
    Free,
    /// Exchanges the objects of two slots.
    Exchange,
    /// Allocates into an empty slot in one call, or frees from another in one call.
    Call,
    /// Replaces the object of a slot, and that of another slot in a nested transaction.
    Nested { fails: bool },
    /// Changes many objects, and fails.
    Abort,
    /// Truncates the logs.
    Retire,
    /// Leaves the heap, which frees the thread's space, and joins again.
    Rejoin,
}

const OPS: [Op; 16] = [
    Op::Replace { lines: false },
    Op::Replace { lines: false },
    Op::Replace { lines: false },
    Op::Replace { lines: true },
    Op::Begin,
    Op::Update,
    Op::Update,
    Op::Update,
    Op::Free,
    Op::Exchange,
    Op::Call,
    Op::Nested { fails: false },
    Op::Nested { fails: true },
    Op::Abort,
    Op::Retire,
    Op::Rejoin,
];

/// The plan of a new object.
#[derive(Clone, Copy, Debug)]
struct Plan {
    bytes: u64,
    lines: bool,
    tag: u64,
}

fn options(setup: &Setup) -> HeapOptions {
    let table = (16 * setup.entries).div_ceil(CHUNK_BYTES);
    let most = LARGEST_CHUNKS * 2 * setup.entries + table;
    HeapOptions {
        bytes: (1 + table) * CHUNK_BYTES,
        bytes_max: (most + CHUNKS_A_THREAD * setup.threads as u64 + 8) * CHUNK_BYTES,
        threads: setup.threads as u64,
        log_bytes: 16 << 10,
        root_bytes: ROOT_BYTES,
        ..HeapOptions::default()
    }
}

/// Places the locks of the slots behind the DRAM of the heap.
fn place(heap_dram: u64, threads: u64) -> (Arena, Locks) {
    let mut arena = Arena::new();
    arena.dram(heap_dram);
    let stripes = Locks::place(&mut arena, STRIPES, threads, 2);
    (arena, stripes)
}

/// Word `word` of an object.
fn word(tag: u64, bytes: u64, word: u64) -> u64 {
    match word {
        0 => tag,
        1 => bytes,
        _ => (tag ^ word << 50).wrapping_mul(0x9e37_79b9_7f4a_7c15),
    }
}

/// The bytes written of an object: its whole words, up to a maximum.
fn content(tag: u64, bytes: u64) -> Vec<u8> {
    let words = bytes.min(WRITTEN_MAX) / 8;
    (0..words).flat_map(|at| word(tag, bytes, at).to_le_bytes()).collect()
}

fn size(worker: &mut Worker) -> u64 {
    match worker.below(16) {
        0 => LARGEST,
        1..=5 => 4096 + worker.below(1000),
        _ => 16 + worker.below(200),
    }
}

fn kind(worker: &mut Worker) -> Logging {
    if worker.below(2) == 0 { Logging::Redo } else { Logging::Undo }
}

impl Scripts {
    fn at(heap: Heap, table: Addr, keys: u64) -> Scripts {
        let (_, stripes) = place(heap.dram_bytes(), heap.threads());
        Scripts { heap, table, keys, stripes }
    }

    fn slot(&self, key: u64) -> Addr {
        self.table.plus(8 * key)
    }

    /// The tag of the object of a slot; 0 if it has none.
    fn tag<M: Memory>(&self, memory: &M, key: u64) -> u64 {
        let at: Addr = memory.load(self.slot(key));
        if at.is_null() { 0 } else { memory.load(at) }
    }

    /// Allocates an object in place of the slot's object.
    fn replace<M: Memory>(
        &self,
        tx: &mut Tx<'_, '_, M>,
        key: u64,
        plan: Plan,
    ) -> Result<(), TxError> {
        let Plan { bytes, lines, tag } = plan;
        let old: Addr = tx.load(self.slot(key));
        let at = if lines { tx.alloc_lines(bytes)? } else { tx.alloc(bytes)? };
        tx.fill(at, &content(tag, bytes))?;
        tx.store(self.slot(key), at)?;
        if old.is_null() { Ok(()) } else { tx.free(old) }
    }

    /// Writes another tag into the object of a slot, in parts of several widths.
    fn update<M: Memory>(&self, tx: &mut Tx<'_, '_, M>, key: u64, tag: u64) -> Result<(), TxError> {
        let at: Addr = tx.load(self.slot(key));
        if at.is_null() {
            return Ok(());
        }
        let bytes: u64 = tx.load(at.plus(8));
        let content = content(tag, bytes);
        tx.add(&[(at, content.len() as u64 / 2)])?;
        tx.store(at, content[0])?;
        tx.store(at.plus(2), u16::from_le_bytes([content[2], content[3]]))?;
        tx.write(at.plus(1), &content[1..2])?;
        tx.write(at.plus(4), &content[4..])
    }

    fn clear<M: Memory>(&self, tx: &mut Tx<'_, '_, M>, key: u64) -> Result<(), TxError> {
        let at: Addr = tx.load(self.slot(key));
        if at.is_null() {
            return Ok(());
        }
        tx.store(self.slot(key), Addr::NULL)?;
        tx.free(at)
    }

    /// Runs `op` on slots whose locks are held; changed objects get the new tag.
    fn run<M: Memory>(
        &self,
        session: &mut Session<'_, M>,
        op: Op,
        [key, other]: [u64; 2],
        worker: &mut Worker,
    ) -> Result<(), TxError> {
        let memory = session.memory();
        let tag = tag(worker.thread, worker.number);
        let (kind, bytes, bytes_too) = (kind(worker), size(worker), size(worker));
        let lines = op == Op::Replace { lines: true };
        let plan = Plan { bytes, lines, tag };
        let is_there = self.tag(memory, key) != 0;
        let effect = |key, tag| worker.history.effect(worker.thread, worker.number, key, tag);
        match op {
            Op::Replace { .. } => {
                effect(key, tag);
                session.transaction_with(kind, |tx| self.replace(tx, key, plan))
            }
            Op::Begin => {
                effect(key, tag);
                let ((), begun) = session.begin(kind, |tx| self.replace(tx, key, plan))?;
                memory.work(100);
                session.wait(begun);
                Ok(())
            }
            Op::Update if is_there => {
                effect(key, tag);
                session.transaction_with(kind, |tx| self.update(tx, key, tag))
            }
            Op::Free if is_there => {
                effect(key, 0);
                session.transaction_with(kind, |tx| self.clear(tx, key))
            }
            Op::Exchange if key != other => {
                effect(key, self.tag(memory, other));
                effect(other, self.tag(memory, key));
                session.transaction_with(kind, |tx| self.exchange(tx, [key, other]))
            }
            Op::Call if is_there => {
                effect(key, 0);
                session.free_from(self.slot(key))
            }
            Op::Call => {
                effect(key, tag);
                let into = session.alloc_into(self.slot(key), bytes, &content(tag, bytes));
                into.map(drop)
            }
            Op::Nested { fails } => {
                effect(key, tag);
                if !fails && key != other {
                    effect(other, tag);
                }
                let too = Plan { bytes: bytes_too, ..plan };
                session.transaction_with(kind, |tx| {
                    self.replace(tx, key, plan)?;
                    self.nested(tx, [key, other], too, fails)
                })
            }
            Op::Abort => {
                unless_meant(session.transaction_with(kind, |tx| self.fail(tx, [key, other], plan)))
            }
            Op::Update | Op::Free | Op::Exchange | Op::Retire | Op::Rejoin => Ok(()),
        }
    }

    fn exchange<M: Memory>(&self, tx: &mut Tx<'_, '_, M>, keys: [u64; 2]) -> Result<(), TxError> {
        let slots = keys.map(|key| self.slot(key));
        let [left, right] = slots.map(|slot| tx.load::<Addr>(slot));
        tx.store(slots[0], right)?;
        tx.store(slots[1], left)
    }

    /// Changes all slots and fails.
    fn fail<M: Memory>(
        &self,
        tx: &mut Tx<'_, '_, M>,
        [key, other]: [u64; 2],
        plan: Plan,
    ) -> Result<(), TxError> {
        self.update(tx, key, plan.tag + 1)?;
        self.clear(tx, key)?;
        self.replace(tx, other, plan)?;
        Err(TxError::Types)
    }

    /// The nested transaction: replaces the object of the other slot, or changes all and fails.
    fn nested<M: Memory>(
        &self,
        tx: &mut Tx<'_, '_, M>,
        [key, other]: [u64; 2],
        plan: Plan,
        fails: bool,
    ) -> Result<(), TxError> {
        if !fails {
            return tx.nested(|tx| self.replace(tx, other, plan));
        }
        unless_meant(tx.nested(|tx| self.fail(tx, [key, other], plan)))
    }

    /// Checks the object of slot `key`, and returns its tag.
    fn check<M: Memory>(
        &self,
        memory: &M,
        live: &BTreeMap<Addr, u64>,
        key: u64,
        at: Addr,
    ) -> Result<u64, Damage> {
        let Some(room) = live.get(&at) else {
            return Err(Damage(format!("slot {key} leads to {at}, where no object starts")));
        };
        let (tag, bytes) = (memory.load::<u64>(at), memory.load::<u64>(at.plus(8)));
        if tag == 0 || bytes < 16 || bytes > *room {
            return Err(Damage(format!("the object of slot {key} says that it has {bytes} bytes")));
        }
        let words = bytes.min(WRITTEN_MAX) / 8;
        let step = if words > SAMPLED { SAMPLED } else { 1 };
        let looked_at = (0..words).filter(|at| at % step == 0 || at + 1 == words);
        for number in looked_at {
            if memory.load::<u64>(at.plus(8 * number)) != word(tag, bytes, number) {
                return Err(Damage(format!("word {number} of the object of slot {key} is torn")));
            }
        }
        Ok(tag)
    }
}

/// Accepts the error of a transaction that fails on purpose, which no step of it returns.
fn unless_meant(outcome: Result<(), TxError>) -> Result<(), TxError> {
    if outcome == Err(TxError::Types) { Ok(()) } else { outcome }
}

impl Workload for Scripts {
    const NAME: &'static str = "heap";
    const ABOUT: &'static str = "scripts of everything that a heap can do, on a table of objects";
    const ENTRIES: u64 = 256;
    const ENTRIES_MAX: u64 = CHUNKS_MAX / (2 * (LARGEST_CHUNKS + 1));
    const SEARCH_PERCENT: u32 = 10;
    const IN_HEAP: bool = true;

    fn layout(setup: &Setup) -> Layout {
        let options = options(setup);
        let (arena, _) = place(options.dram_bytes(), options.threads);
        Layout { pm_bytes: options.pm_bytes_max(), dram_bytes: arena.dram_bytes() }
    }

    fn create<M: Memory>(memory: &M, setup: &Setup) -> Scripts {
        let heap = Heap::create(memory, Scripts::NAME, setup.uuid(), &options(setup));
        let heap = heap.expect("options made from a setup that was checked");
        let keys = 2 * setup.entries;
        let mut session = heap.join(memory);
        let made: Result<Addr, TxError> = session.transaction(|tx| {
            let table = tx.alloc_lines(8 * keys)?;
            tx.store(heap.root().plus(TABLE), table)?;
            tx.store(heap.root().plus(KEYS), keys)?;
            Ok(table)
        });
        let table = made.expect("room for the table");
        let this = Scripts::at(heap, table, keys);
        (0..keys).for_each(|key| memory.store(this.slot(key), Addr::NULL));
        memory.persist(table, 8 * keys);
        for (number, key) in (0..).zip(initial_keys(setup)) {
            let plan = Plan { bytes: 16 + number % 150, lines: false, tag: initial_tag(number) };
            let made = session.transaction(|tx| this.replace(tx, key, plan));
            made.expect("room for the initial objects");
        }
        session.retire();
        session.leave();
        Scripts { heap: heap.with_flaw(setup.flaw.of_heap()), ..this }
    }

    fn open<M: Memory>(memory: &M, layout: Layout) -> Result<Scripts, Damage> {
        Scripts::open_flawed(memory, layout, Flaw::None)
    }

    fn open_flawed<M: Memory>(memory: &M, layout: Layout, flaw: Flaw) -> Result<Scripts, Damage> {
        let heap = Heap::read(memory, Scripts::NAME, layout.pm_bytes)?;
        let (arena, _) = place(heap.dram_bytes(), heap.threads());
        layout.hold_dram(&arena)?;
        let (heap, _) = Heap::open_flawed(memory, Scripts::NAME, layout.pm_bytes, flaw.of_heap())?;
        let none = || Damage("the root of the heap leads to no table of slots".to_owned());
        if heap.root_bytes() != ROOT_BYTES {
            return Err(none());
        }
        let table: Addr = memory.load(heap.root().plus(TABLE));
        let keys: u64 = memory.load(heap.root().plus(KEYS));
        let bytes = keys.checked_mul(8).filter(|bytes| *bytes > 0).ok_or_else(none)?;
        let is_data = heap.join(memory).transaction(|tx| tx.add(&[(table, bytes)]));
        if is_data.is_err() || !table.offset().is_multiple_of(8) {
            return Err(none());
        }
        Ok(Scripts::at(heap, table, keys))
    }

    /// `None` only while the thread leaves and joins again.
    type Local<'m, M: Memory + 'm> = Option<Session<'m, M>>;

    fn join<'m, M: Memory>(&self, memory: &'m M) -> Option<Session<'m, M>> {
        Some(self.heap.join(memory))
    }

    fn step<M: Memory>(&self, memory: &M, local: &mut Option<Session<'_, M>>, worker: &mut Worker) {
        let action = worker.action();
        let keys = [worker.below(self.keys), worker.below(self.keys)];
        let op = OPS[worker.below(OPS.len() as u64) as usize];
        memory.work(20);
        let Some(session) = local else { return };
        if action == Action::Search {
            self.tag(memory, keys[0]);
            return;
        }
        match op {
            Op::Retire => session.retire(),
            Op::Rejoin => {
                let memory = session.memory();
                if let Some(session) = local.take() {
                    session.leave();
                }
                *local = Some(self.heap.join(memory));
            }
            _ => {
                let [low, high] = [keys[0] % STRIPES, keys[1] % STRIPES];
                let (low, high) = (low.min(high), low.max(high));
                let first = self.stripes.acquire(memory, low, 0);
                let second = (low < high).then(|| self.stripes.acquire(memory, high, 1));
                let done = self.run(session, op, keys, worker);
                done.expect("a heap that was made or opened, with room for its objects");
                if let Some(second) = second {
                    self.stripes.release(memory, second);
                }
                self.stripes.release(memory, first);
            }
        }
    }

    fn contents<M: Memory>(&self, memory: &M) -> Result<Contents, Damage> {
        let mut live = BTreeMap::new();
        self.heap.objects(memory, |object| {
            live.insert(object.at, object.bytes);
        })?;
        if live.get(&self.table).is_none_or(|bytes| *bytes < 8 * self.keys) {
            return Err(Damage(format!("there is no table at {}", self.table)));
        }
        live.remove(&self.table);
        let (mut contents, mut linked) = (Contents::new(), BTreeMap::new());
        for key in 0..self.keys {
            let at: Addr = memory.load(self.slot(key));
            if at.is_null() {
                continue;
            }
            contents.insert(key, self.check(memory, &live, key, at)?);
            if let Some(other) = linked.insert(at, key) {
                return Err(Damage(format!("slots {other} and {key} lead to the same object")));
            }
        }
        match live.keys().find(|at| !linked.contains_key(at)) {
            None => Ok(contents),
            Some(at) => Err(Damage(format!("the object at {at} is live, and no slot leads to it"))),
        }
    }
}
