//! Queues whose insert copies the entry under the lock and then advances the head: the
//! copy-while-locked queue of MICRO'15, Figure 10.
//!
//! Adding is two epochs, copy and advance, removing is one, and neither needs a log: the 8-byte
//! store of the head (or tail) is atomic. Head and tail only increase; the entry of position p is
//! in place p mod capacity.
//!
//! No persisted [lock version](crate::LockVersions) is needed. Every operation loads head and tail
//! under the lock, and every change stores one of them in its last epoch, so under buffered epoch
//! persistency each operation already follows the last change of either end.
//!
//! One lock serialises all threads, so a pool can hold several queues, each with its own lock.

use super::entry::{self, ENTRY_BYTES};
use crate::shared::epoch_log::OrderFlaw;
use crate::shared::inconsistency::within;
use crate::shared::{Change, Full, Inconsistency};
use seawall_memory::{Addr, LINE_BYTES, Memory, MemoryExt};
use seawall_runtime::{Arena, Locks};
use std::collections::BTreeMap;

const HEAD: u64 = 0;
const TAIL: u64 = LINE_BYTES;
const ENDS_BYTES: u64 = 2 * LINE_BYTES;

const KEY: u64 = 0;
const TAG: u64 = 8;
const PAYLOAD: u64 = 2;

/// The bits of a position; a key is `queue << 40 | position`.
const POSITIONS_BITS: u32 = 40;

/// The parameters of a [`Queues`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueueShape {
    /// Threads that may use it, 1 to 1024.
    pub threads: u64,
    /// Queues, each with a lock; 1 to 4096.
    pub queues: u64,
    /// The capacity of each queue in entries, 1 to 2^24.
    pub capacity: u64,
}

impl QueueShape {
    /// Rejects parameters out of range.
    ///
    /// # Errors
    /// [`Inconsistency::Shape`], which names the parameter.
    pub fn check(self) -> Result<QueueShape, Inconsistency> {
        within("threads", self.threads, 1, 1024)?;
        within("queues", self.queues, 1, 4096)?;
        within("capacity", self.capacity, 1, 1 << 24)?;
        Ok(self)
    }
}

/// A set of first-in-first-out queues of tagged entries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Queues {
    shape: QueueShape,
    ends: Addr,
    entries: Addr,
    locks: Locks,
}

impl Queues {
    /// Places the queues; in a zeroed pool they are empty.
    pub fn place(shape: QueueShape, arena: &mut Arena) -> Queues {
        Queues {
            shape,
            ends: arena.pm(shape.queues * ENDS_BYTES),
            entries: arena.pm(shape.queues * shape.capacity * ENTRY_BYTES),
            locks: Locks::place(arena, shape.queues, shape.threads, 1),
        }
    }

    /// Its parameters.
    pub const fn shape(&self) -> QueueShape {
        self.shape
    }

    fn end(&self, queue: u64, end: u64) -> Addr {
        self.ends.plus(queue * ENDS_BYTES + end)
    }

    fn entry(&self, queue: u64, position: u64) -> Addr {
        let place = queue * self.shape.capacity + position % self.shape.capacity;
        self.entries.plus(place * ENTRY_BYTES)
    }

    fn key(queue: u64, position: u64) -> u64 {
        queue << POSITIONS_BITS | position
    }

    fn ends<M: Memory>(&self, memory: &M, queue: u64) -> (u64, u64) {
        (memory.load(self.end(queue, HEAD)), memory.load(self.end(queue, TAIL)))
    }

    /// Adds an entry at the head of `queue`; returns its key.
    ///
    /// # Errors
    /// [`Full`] if there is no room; nothing changed.
    ///
    /// # Panics
    /// If there is no such queue.
    #[track_caller]
    pub fn enqueue<M: Memory, F: FnMut(u64, u64)>(
        &self,
        memory: &M,
        queue: u64,
        mut change: Change<F>,
    ) -> Result<u64, Full> {
        let guard = self.locks.acquire(memory, queue, 0);
        let (head, tail) = self.ends(memory, queue);
        if head - tail == self.shape.capacity {
            self.locks.release(memory, guard);
            return Err(Full);
        }
        let key = Queues::key(queue, head);
        (change.note)(key, change.tag);
        let at = self.entry(queue, head);
        memory.store(at.plus(KEY), key);
        memory.store(at.plus(TAG), change.tag);
        entry::fill(memory, at, PAYLOAD, key, change.tag);
        if change.flaw != OrderFlaw::NoFlush {
            memory.flush(at, ENTRY_BYTES);
        }
        if change.flaw != OrderFlaw::NoOrder {
            memory.order();
        }
        self.advance(memory, self.end(queue, HEAD), head);
        self.locks.release(memory, guard);
        Ok(key)
    }

    /// Removes the entry at the tail of `queue`, which it reads; returns its tag, or `None` if the
    /// queue is empty.
    ///
    /// # Panics
    /// If there is no such queue.
    #[track_caller]
    pub fn dequeue<M: Memory, F: FnMut(u64, u64)>(
        &self,
        memory: &M,
        queue: u64,
        mut change: Change<F>,
    ) -> Option<u64> {
        let guard = self.locks.acquire(memory, queue, 0);
        let (head, tail) = self.ends(memory, queue);
        let tag = (head != tail).then(|| {
            let at = self.entry(queue, tail);
            (change.note)(Queues::key(queue, tail), 0);
            entry::read(memory, at);
            let tag = memory.load(at.plus(TAG));
            self.advance(memory, self.end(queue, TAIL), tail);
            tag
        });
        self.locks.release(memory, guard);
        tag
    }

    /// The tag of the entry at the tail of `queue`, which it reads; `None` if the queue is empty.
    ///
    /// # Panics
    /// If there is no such queue.
    #[track_caller]
    pub fn peek<M: Memory>(&self, memory: &M, queue: u64) -> Option<u64> {
        let guard = self.locks.acquire(memory, queue, 0);
        let (head, tail) = self.ends(memory, queue);
        let tag = (head != tail).then(|| {
            let at = self.entry(queue, tail);
            entry::read(memory, at);
            memory.load(at.plus(TAG))
        });
        self.locks.release(memory, guard);
        tag
    }

    #[track_caller]
    fn advance<M: Memory>(&self, memory: &M, end: Addr, from: u64) {
        memory.store(end, from + 1);
        memory.flush(end, 8);
        memory.order();
    }

    /// Checks the ends of every queue; after a crash no operation needs to be finished.
    ///
    /// # Errors
    /// If the ends of a queue are where no operation puts them.
    pub fn recover<M: Memory>(&self, memory: &M) -> Result<(), Inconsistency> {
        for queue in 0..self.shape.queues {
            let (head, tail) = self.ends(memory, queue);
            if head >= 1 << POSITIONS_BITS || tail > head || head - tail > self.shape.capacity {
                return Err(Inconsistency::Broken(format!(
                    "queue {queue} has its head at {head} and its tail at {tail}, of {} places",
                    self.shape.capacity
                )));
            }
        }
        Ok(())
    }

    /// Checks every invariant and returns the tag of each entry by its key, which contains queue
    /// and position. No operation may be in flight.
    ///
    /// # Errors
    /// The invariant that does not hold.
    pub fn contents<M: Memory>(&self, memory: &M) -> Result<BTreeMap<u64, u64>, Inconsistency> {
        self.recover(memory)?;
        let mut contents = BTreeMap::new();
        for queue in 0..self.shape.queues {
            let (head, tail) = self.ends(memory, queue);
            for position in tail..head {
                let at = self.entry(queue, position);
                let (key, tag) = (memory.load::<u64>(at.plus(KEY)), memory.load(at.plus(TAG)));
                entry::check(memory, at, PAYLOAD, key, tag)?;
                if key != Queues::key(queue, position) {
                    return Err(Inconsistency::Broken(format!(
                        "place {position} of queue {queue} holds the entry of key {key:#x}"
                    )));
                }
                contents.insert(key, tag);
            }
        }
        Ok(contents)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use seawall_memory::Image;
    use std::collections::VecDeque;

    fn place() -> (Image, Queues, u64) {
        let mut arena = Arena::new();
        let shape = QueueShape { threads: 1, queues: 2, capacity: 5 };
        let queue = Queues::place(shape.check().expect("a good shape"), &mut arena);
        (Image::new(arena.pm_bytes(), arena.dram_bytes()), queue, arena.pm_bytes())
    }

    proptest! {
        #[test]
        fn it_does_what_a_deque_does(
            steps in proptest::collection::vec((0u8..3, 0u64..2), 0..100),
        ) {
            let (image, queues, _) = place();
            let mut models = [VecDeque::new(), VecDeque::new()];
            for (number, (action, queue)) in steps.into_iter().enumerate() {
                let tag = number as u64 + 1;
                let model = &mut models[queue as usize];
                match action {
                    0 => prop_assert_eq!(queues.peek(&image, queue), model.front().copied()),
                    1 => {
                        let added = queues.enqueue(&image, queue, Change::of(tag));
                        prop_assert_eq!(added.is_ok(), model.len() < 5);
                        if added.is_ok() {
                            model.push_back(tag);
                        }
                    }
                    _ => {
                        let removed = queues.dequeue(&image, queue, Change::of(tag));
                        prop_assert_eq!(removed, model.pop_front());
                    }
                }
            }
            let tags: Vec<u64> = models.into_iter().flatten().collect();
            let contents = queues.contents(&image).expect("whole");
            prop_assert_eq!(contents.into_values().collect::<Vec<_>>(), tags);
        }

        #[test]
        fn wild_bytes_are_damage_and_never_a_panic_or_a_loop(
            wild in proptest::collection::vec((any::<u16>(), any::<u64>()), 1..40), small: bool,
        ) {
            let (image, queue, bytes) = place();
            queue.enqueue(&image, 0, Change::of(1)).expect("room");
            for (word, value) in wild {
                let value = if small { value % 12 } else { value };
                image.store(Addr::pm(u64::from(word) * 8 % (bytes - 8)), value);
            }
            let _ = queue.contents(&image);
        }
    }
}
