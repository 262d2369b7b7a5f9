//! Small programs on a heap whose root is four links, and what each program must leave.

use seawall_memory::{Addr, Image, Memory, MemoryExt};
use seawall_runtime::{Heap, HeapFlaw, HeapOptions, Logging, Session, Tx, TxError};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

/// Links in the root.
pub const LINKS: u64 = 4;
/// The name of the heap's pool.
pub const NAME: &str = "script";

/// One transaction.
#[derive(Clone, Debug)]
pub enum ScriptStep {
    /// Allocates an object of the given bytes in place of what the link had, and fills it.
    Alloc(u64, u64),
    /// Allocates two objects of the given bytes together, in place of what the link and the next
    /// had.
    Together(u64, [u64; 2]),
    /// Allocates an object of the given bytes near that of the next link (or anywhere, if that has
    /// none), in place of what the link had.
    Near(u64, u64),
    /// Frees what the link has.
    Free(u64),
    /// Writes a new value to all objects that are linked.
    Update,
    /// Writes one byte in the middle of an object.
    Byte(u64),
    /// Allocates two objects; the second in a nested transaction that fails, or not.
    Nested(u64, u64, bool),
    /// As the step within, but fails at the end.
    Aborted(Box<ScriptStep>),
    /// As the step within, but panics at the end; in a nested transaction, or not.
    Panicked(Box<ScriptStep>, bool),
    /// Retires the logs.
    Retire,
}

/// What a script panics with.
pub struct Meant;

/// What a link leads to: the bytes of the object (of large ones some, to keep the images that
/// recovery can tell apart few); empty if there is none.
pub type State = [Vec<u8>; LINKS as usize];

/// A heap for `threads` threads that has, and may have, `chunks` chunks.
pub fn options(threads: u64, chunks: u64) -> HeapOptions {
    HeapOptions {
        bytes: chunks << 16,
        bytes_max: chunks << 16,
        threads,
        log_bytes: 8 << 10,
        root_bytes: 8 * 2 * LINKS,
        ..HeapOptions::default()
    }
}

/// The address of the link in `slot`.
pub fn link(heap: &Heap, slot: u64) -> Addr {
    heap.root().plus(16 * slot)
}

/// Bytes of an object that are written, at most: just enough to go past the log.
const WRITTEN_MAX: u64 = 4160;

/// What step `number` writes into an object of `bytes` bytes.
pub fn content(bytes: u64, number: u64) -> Vec<u8> {
    (0..bytes.min(WRITTEN_MAX)).map(|byte| (number * 31 + byte / 8 + 1) as u8).collect()
}

impl ScriptStep {
    /// Runs step number `number` of a script.
    pub fn run<M: Memory>(
        &self,
        session: &mut Session<'_, M>,
        kind: Logging,
        number: u64,
    ) -> Result<(), TxError> {
        match self {
            ScriptStep::Retire => session.retire(),
            ScriptStep::Aborted(step) => {
                let outcome = session.transaction_with(kind, |tx| {
                    step.body(tx, number)?;
                    Err::<(), TxError>(TxError::Types)
                });
                match outcome {
                    Err(TxError::Types) => {}
                    outcome => outcome?,
                }
            }
            ScriptStep::Panicked(step, is_nested) => {
                let panics = || {
                    session.transaction_with::<(), TxError>(kind, |tx| match is_nested {
                        true => tx.nested(|tx| step.panics(tx, number)),
                        false => step.panics(tx, number),
                    })
                };
                match catch_unwind(AssertUnwindSafe(panics)) {
                    Err(panic) if panic.is::<Meant>() => {}
                    Err(panic) => resume_unwind(panic),
                    Ok(outcome) => outcome?,
                }
            }
            step => session.transaction_with(kind, |tx| step.body(tx, number))?,
        }
        Ok(())
    }

    fn panics<M: Memory>(&self, tx: &mut Tx<'_, '_, M>, number: u64) -> Result<(), TxError> {
        self.body(tx, number)?;
        resume_unwind(Box::new(Meant))
    }

    fn body<M: Memory>(&self, tx: &mut Tx<'_, '_, M>, number: u64) -> Result<(), TxError> {
        let heap = tx.heap();
        match self {
            ScriptStep::Alloc(slot, bytes) => replace(tx, *slot, *bytes, number),
            ScriptStep::Together(slot, bytes) => {
                let places = tx.alloc_together(*bytes)?;
                let slots = [*slot, (slot + 1) % LINKS];
                for ((slot, at), bytes) in slots.into_iter().zip(places).zip(*bytes) {
                    put(tx, slot, at, bytes, number + slot)?;
                }
                Ok(())
            }
            ScriptStep::Near(slot, bytes) => {
                let near: Addr = tx.load(link(&heap, (slot + 1) % LINKS));
                let at =
                    if near.is_null() { tx.alloc(*bytes)? } else { tx.alloc_near(near, *bytes)? };
                put(tx, *slot, at, *bytes, number)
            }
            ScriptStep::Free(slot) => {
                let at: Addr = tx.load(link(&heap, *slot));
                if !at.is_null() {
                    tx.free(at)?;
                    tx.add(&[(link(&heap, *slot), 16)])?;
                    tx.store(link(&heap, *slot), 0u64)?;
                    tx.store(link(&heap, *slot).plus(8), 0u64)?;
                }
                Ok(())
            }
            ScriptStep::Update => {
                for slot in 0..LINKS {
                    let at: Addr = tx.load(link(&heap, slot));
                    let bytes: u64 = tx.load(link(&heap, slot).plus(8));
                    tx.write(at, &content(bytes, number))?;
                }
                Ok(())
            }
            ScriptStep::Byte(slot) => {
                let at: Addr = tx.load(link(&heap, *slot));
                let bytes: u64 = tx.load(link(&heap, *slot).plus(8));
                if bytes == 0 { Ok(()) } else { tx.store(at.plus(bytes / 2), number as u8) }
            }
            ScriptStep::Nested(slot, bytes, fails) => {
                replace(tx, *slot, *bytes, number)?;
                let inner = tx.nested(|tx| {
                    ScriptStep::Update.body(tx, number + 100)?;
                    replace(tx, (slot + 1) % LINKS, *bytes, number + 50)?;
                    if *fails { Err(TxError::Types) } else { Ok(()) }
                });
                match inner {
                    Err(TxError::Types) if *fails => Ok(()),
                    outcome => outcome,
                }
            }
            ScriptStep::Aborted(_) | ScriptStep::Panicked(..) | ScriptStep::Retire => {
                unreachable!("not within a transaction")
            }
        }
    }

    /// What it makes of `state`.
    pub fn apply(&self, state: &mut State, number: u64) {
        match self {
            ScriptStep::Alloc(slot, bytes) | ScriptStep::Near(slot, bytes) => {
                state[*slot as usize] = content(*bytes, number);
            }
            ScriptStep::Together(slot, bytes) => {
                for (slot, bytes) in [*slot, (slot + 1) % LINKS].into_iter().zip(*bytes) {
                    state[slot as usize] = content(bytes, number + slot);
                }
            }
            ScriptStep::Free(slot) => state[*slot as usize].clear(),
            ScriptStep::Update => {
                for object in state {
                    *object = content(object.len() as u64, number);
                }
            }
            ScriptStep::Byte(slot) => {
                let object = &mut state[*slot as usize];
                let middle = object.len() / 2;
                if let Some(byte) = object.get_mut(middle) {
                    *byte = number as u8;
                }
            }
            ScriptStep::Nested(slot, bytes, fails) => {
                ScriptStep::Alloc(*slot, *bytes).apply(state, number);
                if !fails {
                    ScriptStep::Update.apply(state, number + 100);
                    ScriptStep::Alloc((slot + 1) % LINKS, *bytes).apply(state, number + 50);
                }
            }
            ScriptStep::Aborted(_) | ScriptStep::Panicked(..) | ScriptStep::Retire => {}
        }
    }
}

/// Allocates an object of `bytes` bytes in place of what the link in `slot` leads to.
///
/// # Errors
/// Those of the allocation and of the writes.
pub fn replace<M: Memory>(
    tx: &mut Tx<'_, '_, M>,
    slot: u64,
    bytes: u64,
    number: u64,
) -> Result<(), TxError> {
    let at = tx.alloc(bytes)?;
    put(tx, slot, at, bytes, number)
}

/// Fills a fresh object and puts it in place of what the link has.
fn put<M: Memory>(
    tx: &mut Tx<'_, '_, M>,
    slot: u64,
    at: Addr,
    bytes: u64,
    number: u64,
) -> Result<(), TxError> {
    let link = link(&tx.heap(), slot);
    let old: Addr = tx.load(link);
    tx.fill(at, &content(bytes, number))?;
    tx.add(&[(link, 16)])?;
    tx.store(link, at)?;
    tx.store(link.plus(8), bytes.min(WRITTEN_MAX))?;
    if old.is_null() { Ok(()) } else { tx.free(old) }
}

/// The states before each step and after the last.
pub fn states(steps: &[ScriptStep]) -> Vec<State> {
    let mut state = State::default();
    let mut states = vec![state.clone()];
    for (number, step) in (1..).zip(steps) {
        step.apply(&mut state, number);
        states.push(state.clone());
    }
    states
}

/// What is looked at of a state.
pub fn seen(state: &State) -> State {
    state.clone().map(|object| {
        sampled(object.len() as u64).iter().map(|byte| object[*byte as usize]).collect()
    })
}

/// The places of a large object that are looked at.
fn sampled(bytes: u64) -> Vec<u64> {
    let step = if bytes <= 200 { 1 } else { 512 };
    (0..bytes).filter(|byte| byte % step == 0 || *byte == bytes / 2 || byte + 1 == bytes).collect()
}

/// What the heap holds, if every live object is linked once and every link leads to one.
pub fn read<M: Memory>(memory: &M, heap: &Heap) -> Result<State, String> {
    let mut live = Vec::new();
    heap.objects(memory, |object| live.push((object.at, object.bytes)))
        .map_err(|error| error.to_string())?;
    let mut state = State::default();
    let mut linked = 0;
    for (slot, object) in (0..).zip(&mut state) {
        let at: Addr = memory.load(link(heap, slot));
        let bytes: u64 = memory.load(link(heap, slot).plus(8));
        if at.is_null() {
            continue;
        }
        linked += 1;
        if !live.iter().any(|(start, size)| *start == at && *size >= bytes) {
            return Err(format!("link {slot} leads to {at}, where no object of {bytes} bytes is"));
        }
        *object = sampled(bytes).iter().map(|byte| memory.load(at.plus(*byte))).collect();
    }
    if linked == live.len() { Ok(state) } else { Err(format!("{linked} links, {live:?} live")) }
}

/// Opens the heap again after a crash.
pub fn reopen<M: Memory>(memory: &M, bytes: u64, flaw: HeapFlaw) -> Result<(Heap, State), String> {
    let (heap, _) =
        Heap::open_flawed(memory, NAME, bytes, flaw).map_err(|error| error.to_string())?;
    let state = read(memory, &heap)?;
    Ok((heap, state))
}

/// A few transactions in what was opened; they may be refused, and may not panic.
pub fn work_in(image: &Image, heap: &Heap) {
    let mut session = heap.join(image);
    for (kind, bytes) in [(Logging::Redo, 40), (Logging::Undo, 5000), (Logging::Redo, 70_000)] {
        let _ = session.transaction_with(kind, |tx| {
            let at = tx.alloc(bytes)?;
            tx.store(heap.root(), at)?;
            tx.store(at, bytes)?;
            if bytes == 5000 { tx.free(at) } else { Ok(()) }
        });
    }
    session.retire();
}
