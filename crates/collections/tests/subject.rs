//! Both maps behind one set of operations on numbers, so that every test is a test of both.

use seawall_collections::{KvMap, Map, MapError, MapFlaw, MapOptions, MapSize};
use seawall_memory::{Addr, Image, Memory};
use seawall_runtime::{Heap, HeapOptions, Session, Tx};
use std::collections::BTreeMap;

pub(crate) const NAME: &str = "maps";

/// What a map holds.
pub(crate) type Contents = BTreeMap<u64, u64>;

/// A map whose keys and values stand for numbers.
pub(crate) trait Subject: Copy + Send + Sync + 'static {
    /// Objects of the heap for each key.
    const RECORDS: u64;
    fn create<M: Memory>(
        tx: &mut Tx<'_, '_, M>,
        link: Addr,
        options: &MapOptions,
    ) -> Result<Self, MapError>;
    fn open<M: Memory>(session: &mut Session<'_, M>, link: Addr) -> Result<Self, MapError>;
    fn flawed(self, flaw: MapFlaw) -> Self;
    /// True if there was one before.
    fn insert<M: Memory>(
        &self,
        session: &mut Session<'_, M>,
        key: u64,
        value: u64,
    ) -> Result<bool, MapError>;
    fn remove<M: Memory>(&self, session: &mut Session<'_, M>, key: u64) -> Result<bool, MapError>;
    fn get<M: Memory>(&self, memory: &M, key: u64) -> Option<u64>;
    fn len<M: Memory>(&self, memory: &M) -> u64;
    fn contents<M: Memory>(&self, memory: &M) -> Result<Contents, String>;
    fn check<M: Memory>(&self, memory: &M, heap: &Heap) -> Result<MapSize, String>;
}

impl Subject for Map {
    const RECORDS: u64 = 0;

    fn create<M: Memory>(
        tx: &mut Tx<'_, '_, M>,
        link: Addr,
        options: &MapOptions,
    ) -> Result<Map, MapError> {
        Map::create(tx, link, options)
    }

    fn open<M: Memory>(session: &mut Session<'_, M>, link: Addr) -> Result<Map, MapError> {
        Map::open(session, link)
    }

    fn flawed(self, flaw: MapFlaw) -> Map {
        self.with_flaw(flaw)
    }

    fn insert<M: Memory>(
        &self,
        session: &mut Session<'_, M>,
        key: u64,
        value: u64,
    ) -> Result<bool, MapError> {
        self.insert(session, key, value).map(|old| old.is_some())
    }

    fn remove<M: Memory>(&self, session: &mut Session<'_, M>, key: u64) -> Result<bool, MapError> {
        self.remove(session, key).map(|old| old.is_some())
    }

    fn get<M: Memory>(&self, memory: &M, key: u64) -> Option<u64> {
        self.get(memory, key).expect("sound")
    }

    fn len<M: Memory>(&self, memory: &M) -> u64 {
        self.len(memory).expect("sound")
    }

    fn contents<M: Memory>(&self, memory: &M) -> Result<Contents, String> {
        let mut contents = Contents::new();
        let mut twice = None;
        self.for_each(memory, |key, value| {
            twice = contents.insert(key, value).map(|_| key).or(twice);
        })
        .map_err(|error| error.to_string())?;
        twice.map_or(Ok(contents), |key| Err(format!("key {key} is shown twice")))
    }

    fn check<M: Memory>(&self, memory: &M, heap: &Heap) -> Result<MapSize, String> {
        self.check(memory, heap).map_err(|damage| damage.to_string())
    }
}

/// The bytes that stand for a number as key; of any length from none.
pub(crate) fn key_bytes(key: u64) -> Vec<u8> {
    let digits = key.to_le_bytes();
    let len = 8 - key.leading_zeros() as usize / 8;
    [&digits[..len], &vec![7; if len > 1 { 0 } else { 70 * (key % 2) as usize }]].concat()
}

/// The bytes that stand for a number as value: some of it is in every one, and every 16th is long.
pub(crate) fn value_bytes(value: u64) -> Vec<u8> {
    let len = if value % 16 == 15 { 4100 } else { value as usize % 50 };
    let mut bytes = value.to_le_bytes().to_vec();
    bytes.extend((0..len).map(|byte| (value as u8).wrapping_add(byte as u8)));
    bytes
}

pub(crate) fn value_of(bytes: &[u8]) -> Result<u64, String> {
    let first = bytes.first_chunk().copied().map(u64::from_le_bytes);
    first.filter(|value| value_bytes(*value) == bytes).ok_or_else(|| format!("torn: {bytes:?}"))
}

impl Subject for KvMap {
    const RECORDS: u64 = 1;

    fn create<M: Memory>(
        tx: &mut Tx<'_, '_, M>,
        link: Addr,
        options: &MapOptions,
    ) -> Result<KvMap, MapError> {
        KvMap::create(tx, link, options)
    }

    fn open<M: Memory>(session: &mut Session<'_, M>, link: Addr) -> Result<KvMap, MapError> {
        KvMap::open(session, link)
    }

    fn flawed(self, flaw: MapFlaw) -> KvMap {
        self.with_flaw(flaw)
    }

    fn insert<M: Memory>(
        &self,
        session: &mut Session<'_, M>,
        key: u64,
        value: u64,
    ) -> Result<bool, MapError> {
        self.insert(session, &key_bytes(key), &value_bytes(value))
    }

    fn remove<M: Memory>(&self, session: &mut Session<'_, M>, key: u64) -> Result<bool, MapError> {
        self.remove(session, &key_bytes(key))
    }

    fn get<M: Memory>(&self, memory: &M, key: u64) -> Option<u64> {
        self.get(memory, &key_bytes(key)).expect("sound").map(|bytes| value_of(&bytes).unwrap())
    }

    fn len<M: Memory>(&self, memory: &M) -> u64 {
        self.len(memory).expect("sound")
    }

    fn contents<M: Memory>(&self, memory: &M) -> Result<Contents, String> {
        let mut contents = Contents::new();
        let mut wrong = None;
        self.for_each(memory, |key, value| {
            let digits = &key[..key.len().min(8)];
            let digits = if key.len() > 8 { &digits[..1] } else { digits };
            let key = digits.iter().rev().fold(0, |key, digit| key << 8 | u64::from(*digit));
            match value_of(value) {
                Ok(value) if contents.insert(key, value).is_some() => {
                    wrong = Some(format!("key {key} is shown twice"));
                }
                Ok(_) => {}
                Err(why) => wrong = Some(why),
            }
        })
        .map_err(|error| error.to_string())?;
        wrong.map_or(Ok(contents), Err)
    }

    fn check<M: Memory>(&self, memory: &M, heap: &Heap) -> Result<MapSize, String> {
        self.check(memory, heap).map_err(|damage| damage.to_string())
    }
}

pub(crate) fn heap_options(threads: u64, chunks: u64) -> HeapOptions {
    HeapOptions {
        bytes: chunks << 16,
        bytes_max: chunks << 16,
        threads,
        log_bytes: 16 << 10,
        root_bytes: 8,
        ..HeapOptions::default()
    }
}

/// Segments of 16 entries, so that everything happens soon.
pub(crate) const TINY: MapOptions = MapOptions { segment_lines: 4, depth: 1 };

/// Four segments, which few keys make sparse.
pub(crate) const WIDE: MapOptions = MapOptions { segment_lines: 12, depth: 2 };

/// A heap that holds a map and nothing else.
pub(crate) fn made<S: Subject>(
    options: &HeapOptions,
    map_options: &MapOptions,
) -> (Image, Heap, S) {
    let image = Image::new(options.pm_bytes(), options.dram_bytes());
    let heap = Heap::create(&image, NAME, 7, options).expect("good options");
    let mut session = heap.join(&image);
    let map = session.transaction(|tx| S::create(tx, heap.root(), map_options)).expect("room");
    session.leave();
    (image, heap, map)
}

/// Everything that holds of the map in a heap, and what the map holds.
pub(crate) fn whole<S: Subject, M: Memory>(
    memory: &M,
    heap: &Heap,
    map: &S,
) -> Result<Contents, String> {
    let size = map.check(memory, heap)?;
    let objects = heap.stats(memory).map_err(|error| error.to_string())?.objects;
    let contents = map.contents(memory)?;
    if objects != size.objects {
        return Err(format!("{objects} objects, of which the map has {}", size.objects));
    }
    if contents.len() as u64 != size.keys || map.len(memory) != size.keys {
        return Err(format!("{} keys are shown, there are {}", contents.len(), size.keys));
    }
    Ok(contents)
}

/// Opens heap and map again after a crash.
pub(crate) fn reopened<S: Subject, M: Memory>(
    memory: &M,
    bytes: u64,
) -> Result<(Heap, S, Contents), String> {
    let (heap, _) = Heap::open(memory, NAME, bytes).map_err(|error| error.to_string())?;
    let map = {
        let mut session = heap.join(memory);
        S::open(&mut session, heap.root()).map_err(|error| error.to_string())?
    };
    let contents = whole(memory, &heap, &map)?;
    Ok((heap, map, contents))
}
