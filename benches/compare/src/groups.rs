//! The table of comparisons: groups of operations, their contenders, and the targets.

use crate::contender::Contender;
use crate::floor::{self, Floor, Sequence};
use crate::keys::Keys;
use crate::ours::maps::Maps;
use crate::ours::{self, OurPool};
use crate::pmdk::{self, MapKind, Operation};
use crate::theirs;
use anyhow::{Context, Result};
use seawall_collections::BTree;
use seawall_collections::Map;
use seawall_native::{Pool as NativePool, PoolOptions};
use seawall_runtime::Logging;
use std::path::{Path, PathBuf};
use std::rc::Rc;

const SMALL_POOL_BYTES: u64 = 256 << 20;
/// A map's pool, for each key: the tables before and after a doubling, and the log between them.
const MAP_BYTES_PER_KEY: u64 = 1536;

/// What a contender is, for the report.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    /// libpmemobj.
    Theirs,
    /// seawall.
    Ours,
    /// seawall, in a pool whose programs also store in place, as those of libpmemobj do.
    InPlace,
    /// The minimum that the hardware requires.
    Floor,
    /// A whole operation written by hand.
    ByHand,
}

impl Role {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Role::Theirs => "theirs",
            Role::Ours => "ours",
            Role::InPlace => "in place",
            Role::Floor => "floor",
            Role::ByHand => "by hand",
        }
    }
}

/// A contender in a group.
pub(crate) struct Entry {
    pub(crate) name: &'static str,
    pub(crate) role: Role,
    pub(crate) contender: Box<dyn Contender>,
}

/// Operations that are measured together, with the resources that they need.
pub(crate) struct Group {
    pub(crate) operations: &'static [&'static str],
    pub(crate) entries: Vec<Entry>,
    /// Files to be removed when the group is done.
    pub(crate) files: Vec<PathBuf>,
}

/// The name of a group, and its description.
pub(crate) struct Kind {
    pub(crate) name: &'static str,
    pub(crate) about: &'static str,
    /// False if it is always run by one thread.
    pub(crate) has_threads: bool,
    make: fn(&Sizes<'_>) -> Result<Group>,
}

/// The sizes of a measurement.
pub(crate) struct Sizes<'a> {
    pub(crate) folder: &'a Path,
    /// Operations of each thread in a round.
    pub(crate) operations: u64,
    pub(crate) keys: usize,
    /// Objects in the pool that is reopened.
    pub(crate) objects: u64,
    pub(crate) threads: usize,
    /// Runs libpmemobj only.
    pub(crate) is_theirs_only: bool,
}

/// All groups, in the order of the report.
pub(crate) const KINDS: &[Kind] = &[
    Kind {
        name: "tx-64",
        about: "begin, add 64 B, write them, commit",
        has_threads: true,
        make: |sizes| small(sizes, &["tx, 64 B"], Operation::Tx64, Some((1, 64))),
    },
    Kind {
        name: "tx-256",
        about: "the same with 256 B",
        has_threads: true,
        make: |sizes| small(sizes, &["tx, 256 B"], Operation::Tx256, Some((1, 256))),
    },
    Kind {
        name: "tx-1k",
        about: "the same with 1 KiB",
        has_threads: true,
        make: |sizes| small(sizes, &["tx, 1 KiB"], Operation::Tx1024, Some((1, 1024))),
    },
    Kind {
        name: "tx-64k",
        about: "the same with 64 KiB",
        has_threads: true,
        make: |sizes| {
            let sizes = Sizes { operations: (sizes.operations / 64).max(1), ..*sizes };
            small(&sizes, &["tx, 64 KiB"], Operation::Tx64K, None)
        },
    },
    Kind {
        name: "many-ranges",
        about: "one transaction that adds and writes 1000 ranges of 64 B, one after the other",
        has_threads: true,
        make: |sizes| {
            let sizes = Sizes { operations: (sizes.operations / 1000).max(1), ..*sizes };
            small(&sizes, &["tx, 1000 x 64 B"], Operation::TxMany, None)
        },
    },
    Kind {
        name: "four-ranges",
        about: "one transaction that adds and writes four ranges of 64 B",
        has_threads: true,
        make: |sizes| small(sizes, &["tx, 4 x 64 B"], Operation::TxFour, Some((4, 64))),
    },
    Kind {
        name: "abort",
        about: "begin, add 64 B, write them, abort",
        has_threads: true,
        make: |sizes| small(sizes, &["tx, 64 B, abort"], Operation::TxAbort, None),
    },
    Kind {
        name: "alloc-free",
        about: "allocate 64 B and link them, free them: both atomic, no transaction",
        has_threads: true,
        make: |sizes| small(sizes, &["alloc + free, 64 B"], Operation::AllocFree, None),
    },
    Kind {
        name: "tx-alloc",
        about: "begin, allocate 64 B, link them, commit",
        has_threads: true,
        make: |sizes| small(sizes, &["tx with alloc, 64 B"], Operation::TxAlloc, None),
    },
    Kind {
        name: "hash",
        about: "hash map with 8-byte keys: insert, look up, remove all",
        has_threads: true,
        make: hash,
    },
    Kind {
        name: "tree",
        about: "ordered map with 8-byte keys: insert, look up, remove all",
        has_threads: true,
        make: tree,
    },
    Kind {
        name: "create",
        about: "make a pool that can hold 1 GiB",
        has_threads: false,
        make: create,
    },
    Kind {
        name: "reopen",
        about: "open a pool whose user was killed in a transaction of 1000 x 512 B; allocate once",
        has_threads: false,
        make: reopen,
    },
];

impl Kind {
    /// Sets the group up.
    ///
    /// # Errors
    /// If a pool cannot be created.
    pub(crate) fn make(&self, sizes: &Sizes<'_>) -> Result<Group> {
        let mut group = (self.make)(sizes)?;
        if sizes.is_theirs_only {
            group.entries.retain(|entry| entry.role == Role::Theirs);
        }
        Ok(group)
    }
}

fn entry(name: &'static str, role: Role, contender: impl Contender + 'static) -> Entry {
    Entry { name, role, contender: Box::new(contender) }
}

/// A pool of libpmemobj and its file.
fn their_pool(sizes: &Sizes<'_>, bytes: u64) -> Result<(Rc<pmdk::Pool>, PathBuf)> {
    let path = sizes.folder.join("theirs.pmdk");
    Ok((Rc::new(pmdk::Pool::create(&path, bytes)?), path))
}

/// The floors' pool and its file.
fn floor_pool(sizes: &Sizes<'_>) -> Result<(Rc<NativePool>, PathBuf)> {
    let path = sizes.folder.join("floor.pool");
    let bytes = floor::bytes(sizes.threads as u64);
    let pool = NativePool::create(&path, bytes, &PoolOptions::default());
    Ok((Rc::new(pool.context("cannot make the pool of the floors")?), path))
}

/// The floors of a group.
fn floors(sizes: &Sizes<'_>, pool: &Rc<NativePool>, operations: usize) -> Vec<Entry> {
    let floor = |sequence| Floor::new(pool, sequence, sizes.operations, operations);
    vec![
        entry("floor: NT line + fence", Role::Floor, floor(Sequence::NtLine)),
        entry("floor: clwb line + fence", Role::Floor, floor(Sequence::FlushedLine)),
    ]
}

/// A pool of seawall and its file.
fn our_pool(sizes: &Sizes<'_>, bytes: u64, in_place: bool) -> Result<(Rc<OurPool>, PathBuf)> {
    let path = sizes.folder.join(if in_place { "in-place.pool" } else { "ours.pool" });
    let pool = OurPool::create(&path, bytes, in_place).context("cannot make a pool of seawall")?;
    Ok((Rc::new(pool), path))
}

/// Our forms of an operation, with the names that they have in the report, in pools of both kinds.
fn our_forms(operation: Operation) -> Vec<([&'static str; 2], ours::Operation)> {
    use ours::Operation as Ours;
    let form: fn(Logging) -> Ours = match operation {
        Operation::Tx64 => Ours::Tx64,
        Operation::Tx256 => Ours::Tx256,
        Operation::Tx1024 => Ours::Tx1024,
        Operation::Tx64K => Ours::Tx64K,
        Operation::TxMany => Ours::TxMany,
        Operation::TxFour => Ours::TxFour,
        Operation::TxAbort => Ours::TxAbort,
        Operation::AllocFree => return vec![(["seawall", "in place"], Ours::AllocFree)],
        Operation::TxAlloc => return vec![(["seawall", "in place"], Ours::TxAlloc)],
        Operation::FreeLinked | Operation::AllocLost => return Vec::new(),
    };
    vec![
        (["seawall redo", "in place, redo"], form(Logging::Redo)),
        (["seawall undo", "in place, undo"], form(Logging::Undo)),
    ]
}

fn small(
    sizes: &Sizes<'_>,
    operations: &'static [&'static str],
    operation: Operation,
    shape: Option<(u64, u64)>,
) -> Result<Group> {
    let (theirs, their_file) = their_pool(sizes, SMALL_POOL_BYTES)?;
    let (ours, our_file) = our_pool(sizes, SMALL_POOL_BYTES, false)?;
    let (in_place, in_place_file) = our_pool(sizes, SMALL_POOL_BYTES, true)?;
    let (native, native_file) = floor_pool(sizes)?;
    let count = sizes.operations;
    let theirs = theirs::Small::new(&theirs, operation, count);
    let mut entries = vec![entry("libpmemobj", Role::Theirs, theirs)];
    for (names, form) in our_forms(operation) {
        for (name, role, pool) in
            [(names[0], Role::Ours, &ours), (names[1], Role::InPlace, &in_place)]
        {
            entries.push(entry(name, role, ours::Small::new(pool, form, count)?));
        }
    }
    if let Some((ranges, bytes)) = shape {
        let by_hand = |sequence| Floor::new(&native, sequence, count, 1);
        let redo = by_hand(Sequence::Redo { ranges, bytes });
        let undo = by_hand(Sequence::Undo { ranges, bytes });
        entries.push(entry("by hand: redo", Role::ByHand, redo));
        entries.push(entry("by hand: undo", Role::ByHand, undo));
    }
    entries.extend(floors(sizes, &native, 1));
    Ok(Group { operations, entries, files: vec![their_file, our_file, in_place_file, native_file] })
}

fn maps(
    sizes: &Sizes<'_>,
    operations: &'static [&'static str],
    theirs: &[(&'static str, MapKind)],
    ours: fn(&Path, &Rc<Keys>) -> Entry,
) -> Result<Group> {
    let keys = Rc::new(Keys::new(sizes.keys));
    let bytes = (sizes.keys as u64 * MAP_BYTES_PER_KEY).max(SMALL_POOL_BYTES);
    let (pool, their_file) = their_pool(sizes, bytes)?;
    let (native, native_file) = floor_pool(sizes)?;
    let mut entries: Vec<Entry> = theirs
        .iter()
        .map(|(name, kind)| entry(name, Role::Theirs, theirs::Map::new(&pool, *kind, &keys)))
        .collect();
    entries.push(ours(sizes.folder, &keys));
    entries.extend(floors(sizes, &native, operations.len()));
    Ok(Group { operations, entries, files: vec![their_file, native_file] })
}

fn hash(sizes: &Sizes<'_>) -> Result<Group> {
    let operations = &["hash map, insert", "hash map, look up", "hash map, remove"];
    let theirs = &[("hashmap_tx", MapKind::HashTx), ("hashmap_rp", MapKind::HashRp)];
    maps(sizes, operations, theirs, |folder, keys| {
        entry("seawall Map", Role::Ours, Maps::<Map>::new(folder, keys))
    })
}

fn tree(sizes: &Sizes<'_>) -> Result<Group> {
    let operations = &["ordered map, insert", "ordered map, look up", "ordered map, remove"];
    maps(sizes, operations, &[("btree", MapKind::Btree)], |folder, keys| {
        entry("seawall BTree", Role::Ours, Maps::<BTree>::new(folder, keys))
    })
}

fn create(sizes: &Sizes<'_>) -> Result<Group> {
    let theirs = theirs::Create::new(sizes.folder);
    let ours = ours::Create::new(sizes.folder);
    let entries =
        vec![entry("libpmemobj", Role::Theirs, theirs), entry("seawall", Role::Ours, ours)];
    Ok(Group { operations: &["create 1 GiB"], entries, files: Vec::new() })
}

fn reopen(sizes: &Sizes<'_>) -> Result<Group> {
    let theirs = theirs::Reopen::new(sizes.folder, sizes.objects)?;
    let ours = ours::Reopen::new(sizes.folder, sizes.objects)?;
    let files = vec![theirs.path().to_path_buf(), ours.path().to_path_buf()];
    let entries =
        vec![entry("libpmemobj", Role::Theirs, theirs), entry("seawall", Role::Ours, ours)];
    Ok(Group { operations: &["open after a kill"], entries, files })
}
