//! What the operations of the child come to, and what a pool shows of it.

use crate::Plan;
use crate::work::{SHARED, link};
use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use seawall_memory::{Addr, Memory, MemoryExt};
use seawall_runtime::{Heap, Logging};
use std::collections::BTreeMap;

/// Objects of a thread up to some KiB, and large ones.
pub(crate) const SLOTS: u64 = 24;
pub(crate) const LARGE_SLOTS: u64 = 3;
/// The most bytes that are written of an object.
const WRITTEN_MAX: u64 = 4200;

/// One operation of a thread.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Act {
    AllocInto(u64, u64),
    FreeFrom(u64),
    Replace(u64, u64),
    Update(u64),
    /// Replaces one object; within it updates another and replaces the first again, or fails to.
    Nested(u64, u64, u64, bool),
    Aborted(u64, u64),
    Shared(u64),
    Retire,
}

/// Operation `number` of a thread.
pub(crate) fn act(seed: u64, thread: usize, number: u64) -> (Act, Logging) {
    let mut rng = Xoshiro256PlusPlus::seed_from_u64(seed ^ (number << 8 | thread as u64));
    let kind = if rng.random() { Logging::Redo } else { Logging::Undo };
    let slot = rng.random_range(0..SLOTS);
    let bytes = match rng.random_range(0..20) {
        0 => rng.random_range(4096..9000),
        1..=4 => rng.random_range(300..3000),
        _ => rng.random_range(24..300),
    };
    let large = (SLOTS + rng.random_range(0..LARGE_SLOTS), rng.random_range(65_000..200_000));
    let act = match rng.random_range(0..24) {
        0..=3 => Act::AllocInto(slot, bytes),
        4..=6 => Act::FreeFrom(slot),
        7..=11 => Act::Replace(slot, bytes),
        12..=14 => Act::Update(slot),
        15 => Act::Nested(slot, (slot + 1) % SLOTS, bytes.min(3000), false),
        16 => Act::Nested(slot, (slot + 1) % SLOTS, bytes.min(3000), true),
        17 | 18 => Act::Aborted(slot, bytes.min(3000)),
        19 => Act::Replace(large.0, large.1),
        20 if number.is_multiple_of(4) => Act::FreeFrom(large.0),
        20..=22 => Act::Shared(bytes.min(3000)),
        _ => Act::Retire,
    };
    (act, kind)
}

/// What an object of that operation holds: who made it, its number, its size, and a pattern.
pub(crate) fn content(thread: usize, number: u64, bytes: u64) -> Vec<u8> {
    let mut content = vec![0; bytes.min(WRITTEN_MAX) as usize];
    for (word, bytes_of) in (0..).zip(content.chunks_mut(8)) {
        let value = match word {
            0 => thread as u64,
            1 => number,
            2 => bytes,
            word => number.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ word,
        };
        bytes_of.copy_from_slice(&value.to_le_bytes()[..bytes_of.len()]);
    }
    content
}

/// Number and size of the object in each slot of one thread.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct State {
    slots: BTreeMap<u64, (u64, u64)>,
    /// How often it has replaced the shared object, and its number and size when it last did.
    shared: (u64, (u64, u64)),
}

impl State {
    pub(crate) fn apply(&mut self, seed: u64, thread: usize, number: u64) {
        match act(seed, thread, number).0 {
            Act::AllocInto(slot, bytes) => {
                self.slots.entry(slot).or_insert((number, bytes));
            }
            Act::FreeFrom(slot) => {
                self.slots.remove(&slot);
            }
            Act::Replace(slot, bytes) => {
                self.slots.insert(slot, (number, bytes));
            }
            Act::Update(slot) => self.update(slot, number),
            Act::Nested(slot, other, bytes, fails) => {
                self.slots.insert(slot, (number, if fails { bytes } else { bytes + 64 }));
                if !fails {
                    self.update(other, number);
                }
            }
            Act::Shared(bytes) => self.shared = (self.shared.0 + 1, (number, bytes)),
            Act::Aborted(..) | Act::Retire => {}
        }
    }

    fn update(&mut self, slot: u64, number: u64) {
        if let Some(object) = self.slots.get_mut(&slot) {
            object.0 = number;
        }
    }
}

/// What a pool holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Seen {
    threads: Vec<BTreeMap<u64, (u64, u64)>>,
    /// Thread, number and size of the shared object.
    shared: Option<(u64, u64, u64)>,
    counters: [u64; 2],
}

impl Seen {
    /// Reads a heap, in which every live object must be whole and linked exactly once.
    pub(crate) fn of<M: Memory>(memory: &M, heap: &Heap, threads: usize) -> Result<Seen, String> {
        let mut live = BTreeMap::new();
        heap.objects(memory, |object| {
            live.insert(object.at, object.bytes);
        })
        .map_err(|error| error.to_string())?;
        let mut take = |at: Addr| -> Result<(u64, u64, u64), String> {
            let room =
                live.remove(&at).ok_or_else(|| format!("{at} is linked twice, or is none"))?;
            let [thread, number, bytes] = [0, 8, 16].map(|word| memory.load(at.plus(word)));
            let wanted = content(thread as usize, number, bytes.min(room));
            let mut found = vec![0; wanted.len()];
            memory.read(at, &mut found);
            let is_whole = found == wanted && bytes <= room;
            if is_whole { Ok((thread, number, bytes)) } else { Err(format!("{at} is torn")) }
        };
        let mut seen = Vec::new();
        for thread in 0..threads {
            let mut slots = BTreeMap::new();
            for slot in 0..SLOTS + LARGE_SLOTS {
                let at: Addr = memory.load(link(heap, thread, slot));
                if !at.is_null() {
                    let (by, number, bytes) = take(at)?;
                    if by != thread as u64 {
                        return Err(format!("thread {thread} has an object of thread {by}"));
                    }
                    slots.insert(slot, (number, bytes));
                }
            }
            seen.push(slots);
        }
        let shared = heap.root().plus(SHARED);
        let at: Addr = memory.load(shared);
        let object = if at.is_null() { None } else { Some(take(at)?) };
        let counters = [8, 16].map(|word| memory.load(shared.plus(word)));
        match live.len() {
            0 => Ok(Seen { threads: seen, shared: object, counters }),
            leaked => Err(format!("{leaked} objects are leaked")),
        }
    }

    /// Whether each thread did one operation more than those that led to `states`. The error says
    /// what is neither.
    pub(crate) fn judge(
        &self,
        states: &[State],
        plan: &Plan,
        announced: &[u64],
    ) -> Result<Vec<bool>, String> {
        let next: Vec<State> = (states.iter().zip(announced).enumerate())
            .map(|(thread, (state, number))| {
                let mut next = state.clone();
                next.apply(plan.seed, thread, *number);
                next
            })
            .collect();
        let threads = states.len();
        let ways = (0..1 << threads).map(|way: usize| {
            (0..threads).map(|thread| way >> thread & 1 == 1).collect::<Vec<bool>>()
        });
        let explains = |way: &Vec<bool>| {
            let after = |at: usize| if way[at] { &next[at] } else { &states[at] };
            let after: Vec<&State> = (0..threads).map(after).collect();
            self.is(&after)
        };
        ways.into_iter().find(explains).ok_or_else(|| {
            format!("{self:?}\nis neither\n{states:?}\nnor, for any thread,\n{next:?}")
        })
    }

    /// True if the threads have done what `states` say, in some order.
    fn is(&self, states: &[&State]) -> bool {
        let count: u64 = states.iter().map(|state| state.shared.0).sum();
        let last = |object: &(u64, u64, u64)| {
            let state = states.get(object.0 as usize);
            state.is_some_and(|state| state.shared.1 == (object.1, object.2))
        };
        self.threads.iter().zip(states).all(|(slots, state)| *slots == state.slots)
            && self.counters == [count; 2]
            && self.shared.as_ref().map_or(count == 0, last)
    }
}
