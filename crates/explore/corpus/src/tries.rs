//! Bugs of RECIPE's other two tries: P-HOT and P-Masstree.
//!
//! RECIPE (SOSP'19); found by Witcher (SOSP'21), Jaaru (ASPLOS'21) and by reading (RH- and RM- of
//! our list). Two of them flush the address of a pointer where its target was meant, or the
//! reverse: a flush of something that is not persistent memory is silent.

use crate::kit::{Words, ensure, inserted, line, some_state, word};
use crate::program::{About, BugKind, Found, Program};
use seawall_memory::{Addr, Memory, MemoryExt};

/// Where the root's child pointer is.
const SLOT: Addr = line(1);

fn value_below<M: Memory>(memory: &M, slot: Addr) -> Result<u64, String> {
    match memory.get(slot) {
        0 => Ok(0),
        node => {
            let value = memory.get(word(Addr::from_bits(node), 3));
            ensure(value != 0, "a linked node is empty")?;
            Ok(value)
        }
    }
}

/// The slot holds nothing, the first node or the second.
fn linked(found: &[u64], promised: &[u64]) -> Result<(), String> {
    some_state(found, promised, &[[0], [10], [11]])
}

/// RH-2.
#[derive(Clone, Copy, Debug)]
pub(crate) struct NodeNoFence;

impl Program for NodeNoFence {
    fn about(&self) -> About {
        About::new(
            "rh-2",
            BugKind::Fence,
            "a new node is flushed and its pointer stored without a fence between",
            "RECIPE P-HOT HOTRowexNode.hpp:315 addEntry, 5b4cf3e -> 950ae0e (Witcher 37)",
        )
        .epochs_too()
    }

    fn run<M: Memory>(&self, memory: &M, fixed: bool) {
        for number in 0..2 {
            let node = line(10 + number);
            memory.put(word(node, 3), 10 + number);
            memory.flush(node, 64);
            if fixed {
                memory.order();
            }
            memory.put_persist(SLOT, node.bits());
            memory.output(number);
        }
    }

    fn recover<M: Memory>(&self, memory: &M, _: bool) -> Result<Found, String> {
        Ok(vec![value_below(memory, SLOT)?])
    }

    fn judge(&self, found: &[u64], promised: &[u64]) -> Result<(), String> {
        linked(found, promised)
    }
}

/// RH-3.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LocationFlushed;

impl Program for LocationFlushed {
    fn about(&self) -> About {
        About::new(
            "rh-3",
            BugKind::Flush,
            "the flush takes the address of the variable that holds the place, not the place",
            "RECIPE P-HOT HOTRowex.hpp:264 and three more, 5b4cf3e -> 950ae0e (Witcher 38)",
        )
    }

    fn run<M: Memory>(&self, memory: &M, fixed: bool) {
        let variable = Addr::dram(128);
        for number in 0..2 {
            let node = line(10 + number);
            memory.put(word(node, 3), 10 + number);
            memory.persist(node, 64);
            memory.put(variable, SLOT.bits());
            memory.put(SLOT, node.bits());
            memory.persist(if fixed { SLOT } else { variable }, 8);
            memory.output(number);
        }
    }

    fn recover<M: Memory>(&self, memory: &M, _: bool) -> Result<Found, String> {
        Ok(vec![value_below(memory, SLOT)?])
    }

    fn judge(&self, found: &[u64], promised: &[u64]) -> Result<(), String> {
        linked(found, promised)
    }
}

/// RM-2.
#[derive(Clone, Copy, Debug)]
pub(crate) struct NextFlushed;

impl Program for NextFlushed {
    fn about(&self) -> About {
        About::new(
            "rm-2",
            BugKind::Flush,
            "the flush takes the value of next, so the target's line, and not the place of next",
            "RECIPE P-Masstree, recovery of next, 5b4cf3e -> 80f0808",
        )
    }

    fn setup<M: Memory>(&self, memory: &M) {
        memory.put(word(line(10), 3), 10);
    }

    fn run<M: Memory>(&self, memory: &M, fixed: bool) {
        for number in 0..2 {
            let (here, next) = (line(10 + 2 * number), line(12 + 2 * number));
            memory.put_persist(word(next, 3), 11 + number);
            memory.put(here, next.bits());
            memory.persist(if fixed { here } else { next }, 8);
            memory.output(number);
        }
    }

    fn recover<M: Memory>(&self, memory: &M, _: bool) -> Result<Found, String> {
        let second = value_below(memory, line(10))?;
        let third = if second == 0 { 0 } else { value_below(memory, line(12))? };
        Ok(vec![second, third])
    }

    fn judge(&self, found: &[u64], promised: &[u64]) -> Result<(), String> {
        inserted(found, promised, &[11, 12])
    }
}

/// RM-3.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TwigHead;

impl Program for TwigHead {
    fn about(&self) -> About {
        About::new(
            "rm-3",
            BugKind::Flush,
            "the loop that flushes a chain of new layers advances its head, which is then linked",
            "RECIPE P-Masstree, new trie layer, 462858e -> aa9b5e0",
        )
        .epochs_too()
    }

    fn run<M: Memory>(&self, memory: &M, fixed: bool) {
        for number in 0..3 {
            let next = if number < 2 { line(11 + number).bits() } else { 0 };
            memory.put(line(10 + number), next);
            memory.put(word(line(10 + number), 3), 10 + number);
        }
        let head = line(10);
        let mut flushed = head;
        loop {
            memory.flush(flushed, 64);
            match memory.get(flushed) {
                0 => break,
                next => flushed = Addr::from_bits(next),
            }
        }
        memory.order();
        memory.put_persist(SLOT, if fixed { head.bits() } else { flushed.bits() });
        memory.output(0);
    }

    fn recover<M: Memory>(&self, memory: &M, _: bool) -> Result<Found, String> {
        let (mut found, mut at) = (Vec::new(), memory.get(SLOT));
        while at != 0 {
            found.push(memory.get(word(Addr::from_bits(at), 3)));
            at = memory.get(Addr::from_bits(at));
        }
        Ok(found)
    }

    fn judge(&self, found: &[u64], promised: &[u64]) -> Result<(), String> {
        some_state(found, promised, &[vec![], vec![10, 11, 12]])
    }
}
