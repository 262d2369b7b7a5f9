//! Bugs of FAST&FAIR and its ports, planted in the tree of `fast_fair.rs`.
//!
//! Sources: the published code of FAST'18 and its port in RECIPE (SOSP'19), as found by Jaaru
//! (ASPLOS'21), Witcher (SOSP'21) and PMRace (ASPLOS'22); numbers of our list (FF-1 ..).

use crate::fast_fair::{Flaw, Tree, found_keys, judge_keys, nth_key, value_of};
use crate::kit::{Words, ensure, inserted, line, some_state, word};
use crate::program::{About, BugKind, Found, Program};
use seawall_memory::{Addr, Memory, MemoryExt};

/// Records in a node: two lines of four.
const SLOTS: u64 = 8;

fn tree(flaw: Flaw, fixed: bool) -> Tree {
    Tree { slots: SLOTS, flaw: if fixed { Flaw::None } else { flaw } }
}

/// A bug that inserts alone show: FF-5, FF-7, FF-8, and a split that links too early.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Inserts {
    pub(crate) flaw: Flaw,
    pub(crate) inserts: u64,
    pub(crate) about: About,
}

/// FF-5.
pub(crate) const ROOT: Inserts = Inserts {
    flaw: Flaw::Root,
    inserts: 9,
    about: About::new(
        "ff-5",
        BugKind::Flush,
        "a new root page is linked and never flushed",
        "FAST&FAIR btree(), 0f047e8 -> ea8a59f, issue 13 (Jaaru)",
    ),
};

/// FF-7.
pub(crate) const HEADER: Inserts = Inserts {
    flaw: Flaw::Header,
    inserts: 22,
    about: About::new(
        "ff-7",
        BugKind::Flush,
        "the constructor of a page leaves its header unflushed: its sibling and level are lost",
        "FAST&FAIR in RECIPE, header() and entry() (Jaaru)",
    ),
};

/// FF-8.
pub(crate) const EMPTY_NODE: Inserts = Inserts {
    flaw: Flaw::EmptyNode,
    inserts: 2,
    about: About::new(
        "ff-8",
        BugKind::Flush,
        "the first insert flushes one line from the page's start; its record is in the next",
        "FAST&FAIR in RECIPE btree.h:566 insert_key, open",
    ),
};

/// The split of FF's own paper, without its fence.
pub(crate) const SPLIT_EARLY: Inserts = Inserts {
    flaw: Flaw::SplitEarly,
    inserts: 8,
    about: About::new(
        "ff-split",
        BugKind::Fence,
        "a split links the sibling before its records are durable",
        "the rule of FAIR (FAST'18, section 3); as the split patches of PMTest (ASPLOS'19)",
    )
    .epochs_too(),
};

impl Program for Inserts {
    fn about(&self) -> About {
        self.about
    }

    fn setup<M: Memory>(&self, memory: &M) {
        tree(Flaw::None, true).create(memory);
    }

    fn run<M: Memory>(&self, memory: &M, fixed: bool) {
        for number in 0..self.inserts {
            let key = nth_key(number);
            tree(self.flaw, fixed).insert(memory, key, value_of(key));
            memory.output(number);
        }
    }

    fn recover<M: Memory>(&self, memory: &M, _: bool) -> Result<Found, String> {
        found_keys(&tree(Flaw::None, true), memory, self.inserts)
    }

    fn judge(&self, found: &[u64], promised: &[u64]) -> Result<(), String> {
        judge_keys(found, promised)
    }
}

/// FF-1.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ShiftLeft;

const KEYS: [u64; 6] = [10, 20, 30, 40, 50, 60];

fn present<M: Memory>(memory: &M) -> Result<Found, String> {
    Ok(tree(Flaw::None, true).leaves(memory)?.iter().map(|(key, _)| *key).collect())
}

fn fill<M: Memory>(memory: &M, keys: &[u64]) {
    tree(Flaw::None, true).create(memory);
    keys.iter().for_each(|&key| tree(Flaw::None, true).insert(memory, key, value_of(key)));
}

impl Program for ShiftLeft {
    fn about(&self) -> About {
        About::new(
            "ff-1",
            BugKind::Order,
            "a shift to the left flushes at the start of a line, as if it went to the right",
            "FAST&FAIR btree.h:220 remove_key, c86f5fb (Witcher 3)",
        )
        .epochs_too()
    }

    fn setup<M: Memory>(&self, memory: &M) {
        fill(memory, &KEYS);
    }

    fn run<M: Memory>(&self, memory: &M, fixed: bool) {
        for number in 0..2 {
            tree(Flaw::ShiftLeft, fixed).delete_one(memory, KEYS[1 + number as usize]);
            memory.output(number);
        }
    }

    fn recover<M: Memory>(&self, memory: &M, _: bool) -> Result<Found, String> {
        present(memory)
    }

    fn judge(&self, found: &[u64], promised: &[u64]) -> Result<(), String> {
        let states = [KEYS.to_vec(), vec![10, 30, 40, 50, 60], vec![10, 40, 50, 60]];
        some_state(found, promised, &states)
    }
}

/// FF-2.
#[derive(Clone, Copy, Debug)]
pub(crate) struct DeleteOneCopy;

impl Program for DeleteOneCopy {
    fn about(&self) -> About {
        About::new(
            "ff-2",
            BugKind::Recovery,
            "a crashed insert leaves a record twice; a delete makes the copy a record again",
            "FAST&FAIR delete, c86f5fb, by design (Witcher 4)",
        )
        .epochs_too()
    }

    fn setup<M: Memory>(&self, memory: &M) {
        fill(memory, &KEYS[1..5]);
    }

    fn run<M: Memory>(&self, memory: &M, _: bool) {
        tree(Flaw::None, true).insert(memory, KEYS[0], value_of(KEYS[0]));
        memory.output(0);
    }

    fn recover<M: Memory>(&self, memory: &M, fixed: bool) -> Result<Found, String> {
        let tree = tree(Flaw::None, true);
        if fixed {
            tree.repair(memory, 50);
        }
        tree.delete_one(memory, 50);
        ensure(tree.search(memory, 50).is_none(), "a deleted key is still there")?;
        present(memory)
    }

    fn judge(&self, found: &[u64], promised: &[u64]) -> Result<(), String> {
        some_state(found, promised, &[vec![20, 30, 40], vec![10, 20, 30, 40]])
    }
}

/// FF-4: two leaves with a line each (count, then keys), linked.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Merge;

impl Program for Merge {
    fn about(&self) -> About {
        About::new(
            "ff-4",
            BugKind::Atomicity,
            "a merge unlinks the right page before its records are in the left one",
            "FAST&FAIR btree.h:299 merge, c86f5fb (Witcher 6)",
        )
        .epochs_too()
    }

    fn setup<M: Memory>(&self, memory: &M) {
        let (left, right) = (line(4), line(6));
        [1, right.bits(), 10].iter().zip(0..).for_each(|(&v, i)| memory.put(word(left, i), v));
        [2, 0, 20, 30].iter().zip(0..).for_each(|(&v, i)| memory.put(word(right, i), v));
    }

    fn run<M: Memory>(&self, memory: &M, fixed: bool) {
        let (left, right) = (line(4), line(6));
        if !fixed {
            memory.put_persist(word(left, 1), 0);
        }
        for index in 0..2 {
            memory.put(word(left, 3 + index), memory.get(word(right, 2 + index)));
        }
        memory.put(left, 3);
        memory.persist(left, 64);
        if fixed {
            memory.put_persist(word(left, 1), 0);
        }
        memory.output(0);
    }

    fn recover<M: Memory>(&self, memory: &M, _: bool) -> Result<Found, String> {
        let (mut found, mut page) = (Vec::new(), line(4));
        while !page.is_null() {
            for index in 0..memory.get(page) {
                let key = memory.get(word(page, 2 + index));
                if !found.contains(&key) {
                    found.push(key);
                }
            }
            page = Addr::from_bits(memory.get(word(page, 1)));
        }
        Ok(found)
    }

    fn judge(&self, found: &[u64], _: &[u64]) -> Result<(), String> {
        ensure(found == [10, 20, 30], "a merge changed the keys")
    }
}

/// FF-10.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SiblingRead;

impl Program for SiblingRead {
    fn about(&self) -> About {
        About::new(
            "ff-10",
            BugKind::Threads,
            "a thread follows a sibling pointer that is not durable and inserts there",
            "FAST&FAIR concurrent_pmdk btree.h:560 -> 876, 878, 886 (PMRace)",
        )
        .threads(2)
    }

    fn run<M: Memory>(&self, memory: &M, fixed: bool) {
        let (page, right) = (line(4), line(6));
        if memory.thread() == 0 {
            memory.put(page, right.bits());
            memory.persist(page, 8);
        } else {
            let to = memory.get(page);
            if fixed {
                memory.persist(page, 8); // link and persist: the reader helps
            }
            let home = if to == 0 { word(page, 2) } else { word(Addr::from_bits(to), 2) };
            memory.put_persist(home, 77);
        }
        memory.output(0);
    }

    fn recover<M: Memory>(&self, memory: &M, _: bool) -> Result<Found, String> {
        let page = line(4);
        let next = memory.get(page);
        let there = if next == 0 { 0 } else { memory.get(word(Addr::from_bits(next), 2)) };
        Ok(vec![memory.get(word(page, 2)).max(there)])
    }

    fn judge(&self, found: &[u64], promised: &[u64]) -> Result<(), String> {
        inserted(found, &promised[1..], &[77])
    }
}

/// FF-11.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LastIndex;

impl Program for LastIndex {
    fn about(&self) -> About {
        About::new(
            "ff-11",
            BugKind::Flush,
            "the index of the last record is not flushed: readers after a crash stop early",
            "FAST&FAIR in RECIPE, last_index and switch_counter (PSan)",
        )
    }

    fn run<M: Memory>(&self, memory: &M, fixed: bool) {
        let page = line(4);
        for number in 0..3 {
            memory.put_persist(word(page.plus(64), number), 10 + number);
            memory.put(page, number + 1);
            if fixed {
                memory.persist(page, 8);
            }
            memory.output(number);
        }
    }

    fn recover<M: Memory>(&self, memory: &M, _: bool) -> Result<Found, String> {
        let page = line(4);
        let count = memory.get(page);
        let record = |n| if n < count { memory.get(word(page.plus(64), n)) } else { 0 };
        Ok((0..3).map(record).collect())
    }

    fn judge(&self, found: &[u64], promised: &[u64]) -> Result<(), String> {
        inserted(found, promised, &[10, 11, 12])
    }
}
