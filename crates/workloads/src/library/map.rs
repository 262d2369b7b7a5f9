//! Put, delete and search in a concurrent map from `u64` to `u64` on a heap.
//!
//! Small maps have the smallest segments, so that short runs split some of them.

use crate::Damage;
use crate::library::keyed::{Keyed, KeyedStructure};
use seawall_collections::{Map as Table, MapError, MapOptions};
use seawall_memory::{Addr, Memory};
use seawall_runtime::{Heap, Session};

/// The benchmark of the map.
pub type Map = Keyed<Table>;

impl From<MapError> for Damage {
    fn from(error: MapError) -> Damage {
        Damage(error.to_string())
    }
}

/// The options of a map for this number of entries.
pub(crate) fn shape(entries: u64) -> MapOptions {
    let usual = MapOptions::default();
    MapOptions { segment_lines: (entries / 8).clamp(4, usual.segment_lines), ..usual }
}

impl KeyedStructure for Table {
    const NAME: &'static str = "map";
    const ABOUT: &'static str = "put, delete and search in a concurrent map of u64 on a heap";
    const LOG_BYTES: u64 = 16 << 10;
    const CHUNKS_A_THREAD: u64 = 1;
    const DRAM_BYTES: u64 = 0;
    const REPLACES: bool = true;

    fn create<M: Memory>(
        session: &mut Session<'_, M>,
        link: Addr,
        _: Addr,
        entries: u64,
    ) -> Result<Table, Damage> {
        Ok(session.transaction(|tx| Table::create(tx, link, &shape(entries)))?)
    }

    fn open<M: Memory>(session: &mut Session<'_, M>, link: Addr, _: Addr) -> Result<Table, Damage> {
        Ok(Table::open(session, link)?)
    }

    fn get<M: Memory>(
        &self,
        session: &mut Session<'_, M>,
        key: u64,
    ) -> Result<Option<u64>, Damage> {
        Ok(Table::get(self, session.memory(), key)?)
    }

    fn insert<M: Memory>(
        &self,
        session: &mut Session<'_, M>,
        key: u64,
        tag: u64,
    ) -> Result<(), Damage> {
        Table::insert(self, session, key, tag)?;
        Ok(())
    }

    fn remove<M: Memory>(&self, session: &mut Session<'_, M>, key: u64) -> Result<(), Damage> {
        Table::remove(self, session, key)?;
        Ok(())
    }

    fn check<M: Memory>(
        &self,
        memory: &M,
        heap: &Heap,
        each: impl FnMut(u64, u64),
    ) -> Result<(), Damage> {
        Table::check(self, memory, heap)?;
        Ok(self.for_each(memory, each)?)
    }
}
