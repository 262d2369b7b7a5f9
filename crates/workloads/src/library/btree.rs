//! Insert, delete and search in a concurrent B+tree on a heap.

use crate::Damage;
use crate::library::keyed::{Keyed, KeyedStructure};
use seawall_collections::{BTree as Tree, BTreeError};
use seawall_memory::{Addr, Memory};
use seawall_runtime::{Heap, Session};

const VERSIONS: u64 = 1 << 12;

/// The B+tree benchmark.
pub type BTree = Keyed<Tree>;

impl From<BTreeError> for Damage {
    fn from(error: BTreeError) -> Damage {
        Damage(error.to_string())
    }
}

impl KeyedStructure for Tree {
    const NAME: &'static str = "btree";
    const ABOUT: &'static str = "insert, delete and search in a concurrent B+tree on a heap";
    const LOG_BYTES: u64 = 8 << 10;
    const CHUNKS_A_THREAD: u64 = 1;
    const DRAM_BYTES: u64 = Tree::dram_bytes(VERSIONS);
    const REPLACES: bool = false;

    fn create<M: Memory>(
        session: &mut Session<'_, M>,
        link: Addr,
        dram: Addr,
        _: u64,
    ) -> Result<Tree, Damage> {
        Ok(Tree::create(session, link, dram, VERSIONS)?)
    }

    fn open<M: Memory>(
        session: &mut Session<'_, M>,
        link: Addr,
        dram: Addr,
    ) -> Result<Tree, Damage> {
        Ok(Tree::open(session, link, dram, VERSIONS)?)
    }

    fn get<M: Memory>(
        &self,
        session: &mut Session<'_, M>,
        key: u64,
    ) -> Result<Option<u64>, Damage> {
        Ok(Tree::get(self, session, key)?)
    }

    fn insert<M: Memory>(
        &self,
        session: &mut Session<'_, M>,
        key: u64,
        tag: u64,
    ) -> Result<(), Damage> {
        Tree::insert(self, session, key, tag)?;
        Ok(())
    }

    fn remove<M: Memory>(&self, session: &mut Session<'_, M>, key: u64) -> Result<(), Damage> {
        Tree::remove(self, session, key)?;
        Ok(())
    }

    fn check<M: Memory>(
        &self,
        memory: &M,
        heap: &Heap,
        each: impl FnMut(u64, u64),
    ) -> Result<(), Damage> {
        Tree::check(self, memory, heap, each)?;
        Ok(())
    }
}
