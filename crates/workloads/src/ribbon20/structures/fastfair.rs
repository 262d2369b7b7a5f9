//! FAST & FAIR: a B+-tree whose nodes are readable between any two of its stores, without a log.
//!
//! "Endurable Transient Inconsistency in Byte-Addressable Persistent B+-Tree" (Hwang, Kim, Won and
//! Nam, FAST'18, sections 3 to 5). A node is a sorted array of keys and pointers. An insert shifts
//! records to the right one by one, a delete to the left (FAST); a record whose pointer equals that
//! of its left neighbour is invalid, so every intermediate state is consistent for readers, and so
//! is every crash image: stores of a line persist in order, and an order is executed where a shift
//! leaves a line. A full node splits, and a nearly empty one is merged with its left neighbour
//! (FAIR): as in a B-link tree the other half is linked as sibling before the parent has a record
//! of it, and a search continues in the sibling.
//!
//! Differences from the publication and its code, whose bugs are known: a node stores its least
//! key, because its first record may be deleted; locks and the direction in which a node was last
//! shifted are in DRAM, so no crash leaves a lock held. A thread that splits holds the lock of the
//! new node until its link is durable, so that no insert is lost with the link; a node that was
//! merged into another is marked dead for readers that are on their way to it, and is reused;
//! recovery removes invalid records and adds children to parents that have no record of them.
//!
//! It needs memory that persists the stores of one line in order, as x86 does, and every design
//! that moves whole lines.
//!
//! | place | content |
//! |---|---|
//! | root, a line | the root node |
//! | node, first line | leftmost child (leaf: 1); sibling; level, 0 for a leaf; least key |
//! | node, other lines | records of a key and a pointer (leaf: a tag); the first null ends them |

mod change;
mod read;
mod recovery;

use crate::shared::Slots;
use crate::shared::epoch_log::OrderFlaw;
use crate::shared::inconsistency::within;
use crate::shared::{Full, Inconsistency};
use seawall_memory::{Addr, LINE_BYTES, Memory, MemoryExt};
use seawall_runtime::{Arena, Held, Stripe};

const LEFTMOST: u64 = 0;
const SIBLING: u64 = 8;
const LEVEL: u64 = 16;
const LOW: u64 = 24;
const RECORD_BYTES: u64 = 16;
const RECORDS_A_LINE: u64 = LINE_BYTES / RECORD_BYTES;
/// The leftmost child of a leaf: no tag, and not null.
const NO_CHILD: u64 = 1;
/// More levels than any valid tree has.
const LEVELS_MAX: u64 = 64;

/// In a node's line of DRAM, behind its lock: the number of changes of the shift direction (odd: to
/// the left), and whether the node is dead.
const SWITCH: u64 = 8;
const DEAD: u64 = 1 << 63;

/// The parameters of a [`FastFairTree`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FastFairShape {
    /// Threads that may use it, 1 to 1024.
    pub threads: u64,
    /// Records of a node including the terminator: a multiple of 4, 8 to 60. The publication has
    /// 28, in 512 bytes.
    pub slots: u64,
    /// The number of different keys over its lifetime, 1 to 2^30.
    pub keys: u64,
}

impl FastFairShape {
    /// Rejects parameters out of range.
    ///
    /// # Errors
    /// [`Inconsistency::Shape`], which names the parameter.
    pub fn check(self) -> Result<FastFairShape, Inconsistency> {
        within("threads", self.threads, 1, 1024)?;
        within("slots / 4", self.slots / RECORDS_A_LINE, 2, 15)?;
        within("slots % 4", self.slots % RECORDS_A_LINE, 0, 0)?;
        within("keys", self.keys, 1, 1 << 30)?;
        Ok(self)
    }

    /// A node is split when it has `slots - 1` keys, and each half has half of them in its range
    /// for its lifetime: this number of nodes is enough, on all levels.
    fn nodes(self) -> u64 {
        let (mut all, mut level) = (2, self.keys);
        while level > 1 {
            level = level / ((self.slots - 1) / 2) + 1;
            all += level;
            if level <= 2 {
                break;
            }
        }
        all + 2
    }

    fn node_bytes(self) -> u64 {
        LINE_BYTES + RECORD_BYTES * self.slots
    }
}

/// A FAST & FAIR B+-tree from key to tag.
///
/// Tags must be distinct, and greater than 1: they are the pointers of the leaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FastFairTree {
    shape: FastFairShape,
    root: Addr,
    nodes: Slots,
    /// A line of DRAM for each node, and one more for the lock of the root.
    words: Addr,
}

/// The head of a new node.
#[derive(Clone, Copy, Debug)]
struct Head {
    leftmost: u64,
    sibling: u64,
    level: u64,
    low: u64,
}

fn key(node: Addr, index: u64) -> Addr {
    node.plus(LINE_BYTES + RECORD_BYTES * index)
}

fn pointer(node: Addr, index: u64) -> Addr {
    key(node, index).plus(8)
}

/// The pointer from which a record's pointer must differ.
fn left_of(node: Addr, index: u64) -> Addr {
    if index == 0 { node.plus(LEFTMOST) } else { pointer(node, index - 1) }
}

fn starts_line(index: u64) -> bool {
    index.is_multiple_of(RECORDS_A_LINE)
}

fn word<M: Memory>(memory: &M, node: Addr, offset: u64) -> u64 {
    memory.load(node.plus(offset))
}

fn persist<M: Memory>(memory: &M, at: Addr, value: u64) {
    memory.store(at, value);
    memory.flush(at, 8);
    memory.order();
}

/// Makes a line persist before later stores, except under the planted bug.
fn settle<M: Memory>(memory: &M, at: Addr, bytes: u64, flaw: OrderFlaw) {
    if flaw != OrderFlaw::NoFlush {
        memory.flush(at, bytes);
    }
    if flaw != OrderFlaw::NoOrder {
        memory.order();
    }
}

impl FastFairTree {
    /// Places the tree; in a zeroed pool it is empty, after [`recover`](FastFairTree::recover).
    pub fn place(shape: FastFairShape, arena: &mut Arena) -> FastFairTree {
        let nodes = Slots::enough(shape.nodes(), shape.threads);
        FastFairTree {
            shape,
            root: arena.pm(LINE_BYTES),
            nodes: Slots::place(arena, nodes, shape.node_bytes(), shape.threads),
            words: arena.dram((nodes + 1) * LINE_BYTES),
        }
    }

    /// Its parameters.
    pub const fn shape(&self) -> FastFairShape {
        self.shape
    }

    /// The line of DRAM of a node.
    fn words(&self, node: Addr) -> Addr {
        let index = self.nodes.index(node).expect("a node of the tree");
        self.words.plus(index * LINE_BYTES)
    }

    fn lock(&self, node: Addr) -> Stripe {
        Stripe::at(self.words(node))
    }

    fn root_lock(&self) -> Stripe {
        Stripe::at(self.words.plus(self.nodes.count() * LINE_BYTES))
    }

    fn switch<M: Memory>(&self, memory: &M, node: Addr) -> u64 {
        memory.load(self.words(node).plus(SWITCH))
    }

    /// Records that the entries of a node are about to move in `direction` (1: to the left);
    /// readers restart if they last moved the other way.
    fn shifts<M: Memory>(&self, memory: &M, node: Addr, direction: u64) {
        let switch = self.switch(memory, node);
        if switch % 2 != direction {
            memory.store(self.words(node).plus(SWITCH), switch + 1);
        }
    }

    /// Makes readers of a node restart; the node is no longer dead.
    fn disturb<M: Memory>(&self, memory: &M, node: Addr) {
        let switch = self.switch(memory, node) & !DEAD;
        memory.store(self.words(node).plus(SWITCH), switch + 2);
    }

    fn is_dead<M: Memory>(&self, memory: &M, node: Addr) -> bool {
        self.switch(memory, node) & DEAD != 0
    }

    fn kill<M: Memory>(&self, memory: &M, node: Addr) {
        let switch = self.switch(memory, node);
        memory.store(self.words(node).plus(SWITCH), switch | DEAD);
    }

    /// Allocates an unreachable node, and fills its head. The node is [disturbed](Self::disturb)
    /// when it is complete: a reader on its way to its former content can reach it before.
    fn fresh<M: Memory>(&self, memory: &M, head: Head) -> Result<Addr, Full> {
        let node = self.nodes.take(memory).ok_or(Full)?;
        let words = [
            (LEFTMOST, head.leftmost),
            (SIBLING, head.sibling),
            (LEVEL, head.level),
            (LOW, head.low),
        ];
        for (offset, value) in words {
            memory.store(node.plus(offset), value);
        }
        memory.store(pointer(node, 0), 0u64);
        Ok(node)
    }

    /// The sibling of a node, if a key belongs there or further to the right.
    fn beyond<M: Memory>(memory: &M, node: Addr, wanted: u64) -> Option<Addr> {
        let sibling = memory.load::<Addr>(node.plus(SIBLING));
        (!sibling.is_null() && word(memory, sibling, LOW) <= wanted).then_some(sibling)
    }

    /// The number of records of a node that no other thread changes.
    fn count<M: Memory>(&self, memory: &M, node: Addr) -> u64 {
        let mut places = 0..self.shape.slots;
        let end = places.find(|index| memory.load::<u64>(pointer(node, *index)) == 0);
        end.unwrap_or(self.shape.slots)
    }

    /// Locks the node of a level to which a key belongs; `None` if the tree is not that high.
    fn hold<M: Memory>(&self, memory: &M, level: u64, wanted: u64) -> Option<(Addr, Held)> {
        'root: loop {
            let mut node = self.descend(memory, level, wanted)?;
            loop {
                let held = self.lock(node).acquire(memory);
                let is_it = !self.is_dead(memory, node)
                    && word(memory, node, LEVEL) == level
                    && word(memory, node, LOW) <= wanted;
                let beyond = FastFairTree::beyond(memory, node, wanted);
                match beyond {
                    None if is_it => return Some((node, held)),
                    _ => held.release(memory),
                }
                match beyond {
                    Some(sibling) if is_it => node = sibling,
                    _ => continue 'root,
                }
            }
        }
    }
}
