//! The event queue: a time wheel of everything that waits for a cycle.
//!
//! The order is exact and part of every result: by cycle, and within a cycle engine events in the
//! order of their requests, then store buffers, then programs, each by core number. Near cycles are
//! slots of a wheel; later events wait in a heap.

use crate::Cycle;
use std::cmp::{Ordering, Reverse};
use std::collections::BinaryHeap;

const SLOTS: usize = 4096;
const WORDS: usize = SLOTS / 64;
const NONE: u32 = u32::MAX;
/// The most cycles that a program runs in one turn, so that other threads can observe its progress.
const TURN_MAX: Cycle = 1 << 22;

/// A turn in the simulated order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Turn<E> {
    /// An event inside the machine.
    Event(E),
    /// A core's store buffer.
    Stores(usize),
    /// A core's program.
    Program(usize),
}

#[derive(Clone, Copy)]
struct Slot {
    stores: u64,
    programs: u64,
    first: u32,
    last: u32,
}

impl Slot {
    const EMPTY: Slot = Slot { stores: 0, programs: 0, first: NONE, last: NONE };

    fn is_empty(&self) -> bool {
        self.stores == 0 && self.programs == 0 && self.first == NONE
    }
}

/// A turn too far ahead for the wheel; ordered by cycle, then by order of request.
struct Far<E> {
    key: Reverse<(Cycle, u64)>,
    turn: Turn<E>,
}

impl<E> PartialEq for Far<E> {
    fn eq(&self, other: &Self) -> bool {
        self.key == other.key
    }
}
impl<E> Eq for Far<E> {}
impl<E> PartialOrd for Far<E> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}
impl<E> Ord for Far<E> {
    fn cmp(&self, other: &Self) -> Ordering {
        self.key.cmp(&other.key)
    }
}

/// The wheel.
pub(crate) struct Queue<E> {
    slots: Box<[Slot; SLOTS]>,
    occupied: [u64; WORDS],
    /// The words of `occupied` that are not zero, a bit each.
    words: u64,
    events: Vec<(E, u32)>,
    free: u32,
    far: BinaryHeap<Far<E>>,
    asked: u64,
    now: Cycle,
    next: Cycle,
    /// How far a program can run: to the next turn, and at most for `TURN_MAX` cycles.
    horizon: Cycle,
    turns: u64,
}

impl<E: Copy> Queue<E> {
    pub(crate) fn new() -> Queue<E> {
        Queue {
            slots: Box::new([Slot::EMPTY; SLOTS]),
            occupied: [0; WORDS],
            words: 0,
            events: Vec::new(),
            free: NONE,
            far: BinaryHeap::new(),
            asked: 0,
            now: 0,
            next: Cycle::MAX,
            horizon: TURN_MAX,
            turns: 0,
        }
    }

    /// The number of turns so far.
    #[inline]
    pub(crate) fn turns(&self) -> u64 {
        self.turns
    }

    /// The cycle of the last turn.
    #[inline]
    pub(crate) fn now(&self) -> Cycle {
        self.now
    }

    /// True if a program at `clock` on `core` precedes everything that waits, and has not exceeded
    /// the length of a turn.
    #[inline]
    pub(crate) fn is_first(&self, core: usize, clock: Cycle) -> bool {
        if clock != self.next {
            return clock < self.horizon;
        }
        let slot = &self.slots[clock as usize % SLOTS];
        slot.first == NONE && slot.stores == 0 && slot.programs & ((1 << core) - 1) == 0
    }

    /// Schedules a turn of `core`'s program at `at`.
    #[inline]
    pub(crate) fn program(&mut self, at: Cycle, core: usize) {
        match self.slot(at) {
            Some(slot) => slot.programs |= 1 << core,
            None => self.put_far(at, Turn::Program(core)),
        }
    }

    /// Schedules a turn of `core`'s store buffer at `at`.
    #[inline]
    pub(crate) fn stores(&mut self, at: Cycle, core: usize) {
        match self.slot(at) {
            Some(slot) => slot.stores |= 1 << core,
            None => self.put_far(at, Turn::Stores(core)),
        }
    }

    /// Schedules `event` at `at`.
    #[inline]
    pub(crate) fn event(&mut self, at: Cycle, event: E) {
        match self.slot(at) {
            Some(_) => self.put_event(at.max(self.now), event),
            None => self.put_far(at, Turn::Event(event)),
        }
    }

    /// The slot of cycle `at`, or of the present cycle if `at` is past; `None` if it is too far
    /// ahead.
    #[inline]
    fn slot(&mut self, at: Cycle) -> Option<&mut Slot> {
        let at = at.max(self.now);
        self.next = self.next.min(at);
        self.horizon = self.horizon.min(at);
        if at - self.now >= SLOTS as u64 {
            return None;
        }
        let index = at as usize % SLOTS;
        self.occupied[index / 64] |= 1 << (index % 64);
        self.words |= 1 << (index / 64);
        Some(&mut self.slots[index])
    }

    fn put_far(&mut self, at: Cycle, turn: Turn<E>) {
        self.asked += 1;
        self.far.push(Far { key: Reverse((at, self.asked)), turn });
    }

    fn put_event(&mut self, at: Cycle, event: E) {
        let node = self.node(event);
        let slot = &mut self.slots[at as usize % SLOTS];
        if slot.first == NONE {
            slot.first = node;
        } else {
            self.events[slot.last as usize].1 = node;
        }
        slot.last = node;
    }

    fn node(&mut self, event: E) -> u32 {
        if self.free == NONE {
            self.events.push((event, NONE));
            return self.events.len() as u32 - 1;
        }
        let node = self.free;
        self.free = self.events[node as usize].1;
        self.events[node as usize] = (event, NONE);
        node
    }

    /// Removes the next turn; `None` if nothing waits.
    #[inline]
    pub(crate) fn pop(&mut self) -> Option<(Cycle, Turn<E>)> {
        if self.next == Cycle::MAX {
            return None;
        }
        if self.next != self.now {
            self.now = self.next;
            self.bring_near();
        }
        self.turns += 1;
        let index = self.now as usize % SLOTS;
        let slot = &mut self.slots[index];
        let turn = if slot.first != NONE {
            let node = slot.first;
            let (event, following) = self.events[node as usize];
            slot.first = following;
            self.events[node as usize].1 = self.free;
            self.free = node;
            Turn::Event(event)
        } else if slot.stores != 0 {
            let core = slot.stores.trailing_zeros();
            slot.stores &= slot.stores - 1;
            Turn::Stores(core as usize)
        } else {
            debug_assert!(slot.programs != 0, "an occupied slot holds something");
            let core = slot.programs.trailing_zeros();
            slot.programs &= slot.programs - 1;
            Turn::Program(core as usize)
        };
        if self.slots[index].is_empty() {
            self.occupied[index / 64] &= !(1 << (index % 64));
            self.words &= !(u64::from(self.occupied[index / 64] == 0) << (index / 64));
            self.next = self.find_next();
        }
        self.horizon = self.next.min(self.now + TURN_MAX);
        Some((self.now, turn))
    }

    fn bring_near(&mut self) {
        while let Some(Far { key: Reverse((at, _)), turn }) = self.far.peek() {
            if at - self.now >= SLOTS as u64 {
                return;
            }
            let (at, turn) = (*at, *turn);
            self.far.pop();
            match turn {
                Turn::Stores(core) => self.stores(at, core),
                Turn::Program(core) => self.program(at, core),
                Turn::Event(event) => self.event(at, event),
            }
        }
    }

    fn find_next(&self) -> Cycle {
        let start = self.now as usize % SLOTS;
        let first = self.occupied[start / 64] & (u64::MAX << (start % 64));
        if first != 0 {
            return self.now + (first.trailing_zeros() as usize - start % 64) as u64;
        }
        // The word of the present comes last: what is left in it is a whole turn of the wheel
        // ahead.
        let words = self.words.rotate_right((start / 64) as u32 + 1);
        if words != 0 {
            let word = (start / 64 + 1 + words.trailing_zeros() as usize) % WORDS;
            let index = word * 64 + self.occupied[word].trailing_zeros() as usize;
            return self.now + ((index + SLOTS - start) % SLOTS) as u64;
        }
        self.far.peek().map_or(Cycle::MAX, |far| far.key.0.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn within_a_cycle_events_come_first_then_stores_then_programs() {
        let mut queue = Queue::new();
        queue.program(5, 1);
        queue.program(5, 0);
        queue.stores(5, 3);
        queue.event(5, 'a');
        queue.event(5, 'b');
        let turns: Vec<_> = std::iter::from_fn(|| queue.pop()).map(|(_, turn)| turn).collect();
        assert_eq!(
            turns,
            [
                Turn::Event('a'),
                Turn::Event('b'),
                Turn::Stores(3),
                Turn::Program(0),
                Turn::Program(1)
            ]
        );
    }

    #[test]
    fn a_program_is_first_only_if_nothing_waits_before_it() {
        let mut queue: Queue<()> = Queue::new();
        assert!(queue.is_first(3, 100));
        queue.program(100, 2);
        assert!(queue.is_first(1, 100) && !queue.is_first(3, 100) && queue.is_first(3, 99));
        queue.stores(100, 5);
        assert!(!queue.is_first(1, 100));
    }

    proptest! {
        #[test]
        fn turns_come_in_time_order_however_far_ahead_they_were_asked(
            asks in proptest::collection::vec(0u64..20_000, 1..60),
        ) {
            let mut queue = Queue::new();
            for at in &asks {
                queue.event(*at, *at);
            }
            let mut expected = asks.clone();
            expected.sort();
            // Ask for one more in the middle, relative to then.
            let (_, first) = queue.pop().unwrap();
            prop_assert_eq!(first, Turn::Event(expected[0]));
            let late = queue.now() + 9_000;
            queue.event(late, late);
            expected.push(late);
            expected[1..].sort();
            for at in &expected[1..] {
                prop_assert_eq!(queue.pop(), Some((*at, Turn::Event(*at))));
            }
            prop_assert_eq!(queue.pop(), None);
        }
    }
}
