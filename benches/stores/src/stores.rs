//! The stores, each in the setting that waits for the medium and in one that does not.

mod fjall;
#[expect(unsafe_code, reason = "the file must not be changed by others")]
mod lmdb;
mod redb;
mod seawall;
mod sled;

use crate::store::Contender;

const ALL: &str = "all";
const NOTHING_SURE: &str = "perhaps broken";

/// Every store in every setting. The first of each kind is the one that others are compared with.
pub(crate) static CONTENDERS: &[Contender] = &[
    Contender {
        store: "seawall Map",
        setting: "domain line",
        is_synced: false,
        promise: [ALL, "all on persistent memory, else perhaps broken"],
        open: seawall::map_by_line,
    },
    Contender {
        store: "seawall BTree",
        setting: "domain line",
        is_synced: false,
        promise: [ALL, "all on persistent memory, else perhaps broken"],
        open: seawall::tree_by_line,
    },
    Contender {
        store: "redb",
        setting: "Durability::None",
        is_synced: false,
        promise: ["all up to the last commit that was synced"; 2],
        open: redb::unsynced,
    },
    Contender {
        store: "LMDB",
        setting: "NO_SYNC",
        is_synced: false,
        promise: [ALL, NOTHING_SURE],
        open: lmdb::unsynced,
    },
    Contender {
        store: "fjall",
        setting: "PersistMode::Buffer",
        is_synced: false,
        promise: [ALL, "a prefix"],
        open: fjall::unsynced,
    },
    Contender {
        store: "sled",
        setting: "flush every 500 ms",
        is_synced: false,
        promise: ["a prefix, up to 500 ms old"; 2],
        open: sled::unsynced,
    },
    Contender {
        store: "seawall Map",
        setting: "domain page (msync)",
        is_synced: true,
        promise: [ALL; 2],
        open: seawall::map_by_page,
    },
    Contender {
        store: "seawall BTree",
        setting: "domain page (msync)",
        is_synced: true,
        promise: [ALL; 2],
        open: seawall::tree_by_page,
    },
    Contender {
        store: "redb",
        setting: "Durability::Immediate",
        is_synced: true,
        promise: [ALL; 2],
        open: redb::synced,
    },
    Contender {
        store: "LMDB",
        setting: "sync",
        is_synced: true,
        promise: [ALL; 2],
        open: lmdb::synced,
    },
    Contender {
        store: "fjall",
        setting: "PersistMode::SyncAll",
        is_synced: true,
        promise: [ALL; 2],
        open: fjall::synced,
    },
    Contender {
        store: "sled",
        setting: "flush each",
        is_synced: true,
        promise: [ALL; 2],
        open: sled::synced,
    },
];
