//! Structures that grow and shrink: the programs of "FFCCD: Fence-Free Crash-Consistent Concurrent
//! Defragmentation for Persistent Memory" (Xu, Ye, Solihin and Shen, ISCA'22), which measure
//! fragmentation and the cost of moving objects.
//!
//! A structure gets its entries, then loses four fifths of them, gets the same number back, and
//! loses them again, keys at random ([`Phases`]). The remaining entries are scattered over all the
//! space to which the heap has grown.
//!
//! All persistent data are typed objects reached from the root by typed pointers, so that the
//! defragmenter finds every pointer by its type. No pointer is kept from one operation to the next.
//! A structure has independent **parts**, each with a lock in DRAM; key k is in part k mod parts,
//! where its number is k / parts. All objects of a part are accessed under its lock only, by
//! readers too. A change is one redo transaction: durable when it returns, and atomic in a crash
//! before.
//!
//! To add a structure, write its file, with [`ChurnStructure`] for it, and its line in the table of
//! workloads.

use crate::Damage;
use seawall_memory::{Addr, Memory};
use seawall_runtime::typed::{Branded, Persist, Ptr, Session, Tx};
use seawall_runtime::{AccessError, TxError};

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
mod pmemobj;
mod rb;
mod redis;
mod ss;
#[cfg(test)]
mod tests;
mod turns;
mod value;
mod walk;

pub(crate) use adapter::Churned;
pub(crate) use phases::Phases;
pub use pmemobj::{Cost, UnknownCost};
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

/// The root of a part of `S`, in the pool of brand `'p`.
pub(crate) type PartOf<'p, S> = <<S as ChurnStructure>::Part as Branded>::In<'p>;

/// A structure of typed objects that maps keys to the tags of operations.
pub trait ChurnStructure: Sized + 'static {
    /// Name of the workload.
    const NAME: &'static str;
    /// One line for the list of workloads.
    const ABOUT: &'static str;
    /// The heap bytes of an entry.
    const ENTRY_BYTES: u64;
    /// Whether it has an operation beside put, remove and get: every fourth step runs it.
    const TOUCHES: bool = false;
    /// The root object of a part.
    type Part: Branded;

    /// An empty part for keys below `keys`.
    fn empty<'p>(keys: u64) -> PartOf<'p, Self>;

    /// Sets the tag of the key, whether it exists or not.
    ///
    /// # Errors
    /// If the heap is full, or the structure is damaged.
    fn put<'p, M: Memory>(
        session: &mut Session<'p, '_, M>,
        part: Ptr<'p, PartOf<'p, Self>>,
        change: &mut ChurnChange<'_>,
    ) -> Result<(), TxError>;

    /// Removes the key, if it exists.
    ///
    /// # Errors
    /// If the structure is damaged.
    fn remove<'p, M: Memory>(
        session: &mut Session<'p, '_, M>,
        part: Ptr<'p, PartOf<'p, Self>>,
        change: &mut ChurnChange<'_>,
    ) -> Result<(), TxError>;

    /// The tag of a key.
    ///
    /// # Errors
    /// If the structure is damaged.
    fn get<'p, M: Memory>(
        session: &Session<'p, '_, M>,
        part: Ptr<'p, PartOf<'p, Self>>,
        key: u64,
    ) -> Result<Option<u64>, AccessError>;

    /// Runs its other operation, if it has one.
    ///
    /// # Errors
    /// If the structure is damaged.
    fn touch<'p, M: Memory>(
        _session: &mut Session<'p, '_, M>,
        _part: Ptr<'p, PartOf<'p, Self>>,
        _change: &mut ChurnChange<'_>,
    ) -> Result<(), TxError> {
        Ok(())
    }

    /// Checks all invariants of a part, and reports every entry to the walk. Pool bytes are
    /// untrusted: it never panics or loops because of them.
    ///
    /// # Errors
    /// The invariant that does not hold.
    fn check<'p, M: Memory>(
        session: &Session<'p, '_, M>,
        part: Ptr<'p, PartOf<'p, Self>>,
        walk: &mut Walk<'_>,
    ) -> Result<(), Damage>;
}

/// The parameters of an operation that changes a part.
pub struct ChurnChange<'c> {
    /// The key's number in its part.
    pub key: u64,
    /// The new tag.
    pub tag: u64,
    /// A random number.
    pub dice: u64,
    /// Whether the structure's planted bug is active.
    pub slip: bool,
    /// Where the transaction costs as much as one of libpmemobj.
    pub lane: Lane,
    /// Called for each other key that changes, with its new tag (0: none), before the change.
    pub note: &'c mut dyn FnMut(u64, u64),
}

/// The place of a thread's logs where transactions cost as much as those of libpmemobj; none where
/// they do not.
#[derive(Clone, Copy, Debug)]
pub struct Lane(Option<Addr>);

/// A session or a transaction, for reads.
pub(crate) trait Read<'p> {
    type Error: From<AccessError>;

    fn get<T: Persist<'p>>(&self, ptr: Ptr<'p, T>) -> Result<T, Self::Error>;
}

impl<'p, M: Memory> Read<'p> for Session<'p, '_, M> {
    type Error = AccessError;

    fn get<T: Persist<'p>>(&self, ptr: Ptr<'p, T>) -> Result<T, AccessError> {
        Session::get(self, ptr)
    }
}

impl<'p, M: Memory> Read<'p> for Tx<'p, '_, '_, M> {
    type Error = TxError;

    fn get<T: Persist<'p>>(&self, ptr: Ptr<'p, T>) -> Result<T, TxError> {
        Tx::get(self, ptr)
    }
}

/// The key's bits, spread over the word; a bijection.
pub(crate) fn spread(key: u64) -> u64 {
    let key = (key ^ key >> 32).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    key ^ key >> 32
}

/// The error of an operation that finds a state which no operation leaves.
pub(crate) fn broken(what: &str) -> AccessError {
    AccessError::Damaged { what: what.to_owned() }
}
