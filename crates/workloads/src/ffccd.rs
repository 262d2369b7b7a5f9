//! Structures that grow and shrink: the programs of "FFCCD: Fence-Free Crash-Consistent Concurrent
//! Defragmentation for Persistent Memory" (Xu, Ye, Solihin and Shen, ISCA'22), with which
//! fragmentation is measured, and what moving objects costs.
//!
//! A structure gets its entries, then loses four fifths of them, gets as many back, and
//! loses them again, keys at random ([`Phases`]). What is left lies scattered over all the space
//! that the heap has grown to.
//!
//! Everything that persists is a typed object and reached from the root by typed pointers: what
//! moves objects finds every pointer by its type. No pointer is kept from one operation to the
//! next. A structure has **parts**, each by itself behind a lock in DRAM; key k is in part k mod
//! parts, where it is called k / parts. All objects of a part are touched under its lock only, by
//! readers too. A change is one redo transaction: durable when it returns, and whole or absent
//! after a crash before.
//!
//! To add one, write its file, with [`ChurnStructure`] for it, and its line in the table of
//! workloads.

use crate::Damage;
use seawall_memory::Memory;
use seawall_runtime::HeapError;
use seawall_runtime::typed::{Branded, Persist, Ptr, Session, Tx};

mod adapter;
mod avl;
mod bt;
mod buckets;
mod bztree;
mod directory;
mod echo;
mod fptree;
mod inner;
mod ll;
mod phases;
mod pmemkv;
mod rb;
mod redis;
mod ss;
#[cfg(test)]
mod tests;
mod value;
mod walk;

pub(crate) use adapter::Churned;
pub(crate) use phases::Phases;
pub(crate) use walk::Walk;

/// The benchmark of doubly linked lists.
pub type ChurnLl = Churned<ll::Ll>;
/// The benchmark of an AVL tree.
pub type ChurnAvl = Churned<avl::Avl>;
/// The benchmark of an array of strings.
pub type ChurnSs = Churned<ss::Ss>;
/// The benchmark of a B+ tree.
pub type ChurnBt = Churned<bt::Bt>;
/// The benchmark of a red-black tree.
pub type ChurnRb = Churned<rb::Rb>;
/// The benchmark of a tree like BzTree.
pub type ChurnBzTree = Churned<bztree::BzTree>;
/// The benchmark of a tree like FPTree.
pub type ChurnFpTree = Churned<fptree::FpTree>;
/// The benchmark of a store like Echo.
pub type ChurnEcho = Churned<echo::Echo>;
/// The benchmark of a store like pmemkv.
pub type ChurnPmemKv = Churned<pmemkv::PmemKv>;
/// The benchmark of a cache like Redis.
pub type ChurnRedis = Churned<redis::Redis>;

/// What the root of a part of `S` is, in the pool of brand `'p`.
pub(crate) type PartOf<'p, S> = <<S as ChurnStructure>::Part as Branded>::In<'p>;

/// A structure of typed objects that maps keys to the tags of operations.
pub trait ChurnStructure: Sized + 'static {
    /// Name of the workload.
    const NAME: &'static str;
    /// One line for the list of workloads.
    const ABOUT: &'static str;
    /// Bytes of the heap that an entry takes.
    const ENTRY_BYTES: u64;
    /// Whether it has an operation beside put, remove and get: each fourth step runs it.
    const TOUCHES: bool = false;
    /// What all of a part is reached from.
    type Part: Branded;

    /// A part for keys below `keys`, with none in it.
    fn empty<'p>(keys: u64) -> PartOf<'p, Self>;

    /// Gives the key the tag, whether it is there or not.
    ///
    /// # Errors
    /// When the heap is full, or the structure damaged.
    fn put<'p, M: Memory>(
        session: &mut Session<'p, '_, M>,
        part: Ptr<'p, PartOf<'p, Self>>,
        change: &mut ChurnChange<'_>,
    ) -> Result<(), HeapError>;

    /// Removes the key, if it is there.
    ///
    /// # Errors
    /// When the structure is damaged.
    fn remove<'p, M: Memory>(
        session: &mut Session<'p, '_, M>,
        part: Ptr<'p, PartOf<'p, Self>>,
        change: &mut ChurnChange<'_>,
    ) -> Result<(), HeapError>;

    /// The tag of a key.
    ///
    /// # Errors
    /// When the structure is damaged.
    fn get<'p, M: Memory>(
        session: &Session<'p, '_, M>,
        part: Ptr<'p, PartOf<'p, Self>>,
        key: u64,
    ) -> Result<Option<u64>, HeapError>;

    /// Its other operation, if it has one.
    ///
    /// # Errors
    /// When the structure is damaged.
    fn touch<'p, M: Memory>(
        _session: &mut Session<'p, '_, M>,
        _part: Ptr<'p, PartOf<'p, Self>>,
        _change: &mut ChurnChange<'_>,
    ) -> Result<(), HeapError> {
        Ok(())
    }

    /// Checks all that holds of a part, and shows every entry to the walk. Pool bytes are
    /// untrusted: it never panics or goes on for ever because of them.
    ///
    /// # Errors
    /// What is wrong.
    fn check<'p, M: Memory>(
        session: &Session<'p, '_, M>,
        part: Ptr<'p, PartOf<'p, Self>>,
        walk: &mut Walk<'_>,
    ) -> Result<(), Damage>;
}

/// What an operation changes, and how.
pub struct ChurnChange<'c> {
    /// The key, as its part calls it.
    pub key: u64,
    /// The tag that it gets.
    pub tag: u64,
    /// A random number.
    pub dice: u64,
    /// Whether to make the mistake that the structure can make.
    pub slip: bool,
    /// Told each other key that changes, and the tag that it gets (0: none), before it does.
    pub note: &'c mut dyn FnMut(u64, u64),
}

/// A session or a transaction, to read by.
pub(crate) trait Read<'p> {
    fn get<T: Persist<'p>>(&self, ptr: Ptr<'p, T>) -> Result<T, HeapError>;
}

impl<'p, M: Memory> Read<'p> for Session<'p, '_, M> {
    fn get<T: Persist<'p>>(&self, ptr: Ptr<'p, T>) -> Result<T, HeapError> {
        Session::get(self, ptr)
    }
}

impl<'p, M: Memory> Read<'p> for Tx<'p, '_, '_, M> {
    fn get<T: Persist<'p>>(&self, ptr: Ptr<'p, T>) -> Result<T, HeapError> {
        Tx::get(self, ptr)
    }
}

/// The key's bits, all over the word; no two keys have the same.
pub(crate) fn spread(key: u64) -> u64 {
    let key = (key ^ key >> 32).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    key ^ key >> 32
}

/// What an operation says that comes upon what no operation leaves.
pub(crate) fn broken(what: &str) -> HeapError {
    HeapError::Damaged { what: what.to_owned() }
}
