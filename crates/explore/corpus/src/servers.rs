//! Bugs of servers and key-value stores: memcached-pmem, Redis, HSE, APEX, and ports to PMDK.
//!
//! Found by Witcher (SOSP'21), Yashme (ASPLOS'22), PMDebugger (ASPLOS'21), XFDetector (ASPLOS'20),
//! Agamotto (OSDI'20), Pathfinder (OOPSLA'25) and users (MC-, RE-, HS-, AP-, WI- of our list).

use crate::kit::{Words, ensure, inserted, line, some_state, word};
use crate::program::{About, BugKind, Found, Program};
use seawall_memory::{Addr, Memory, MemoryExt};

/// An item of the cache: linked flag and value in one line, its CAS id in the next.
const fn item(number: u64) -> Addr {
    line(10 + 2 * number)
}

fn cas_id(item: Addr) -> Addr {
    item.plus(64)
}

/// Values and CAS ids of the linked items.
fn linked_items<M: Memory>(memory: &M) -> Result<Found, String> {
    let mut found = Vec::new();
    for number in 0..2 {
        let linked = memory.get(item(number)) == 1;
        found.push(if linked { memory.get(word(item(number), 1)) } else { 0 });
        let right = memory.get(cas_id(item(number))) == 100 + number;
        ensure(!linked || right, "a linked item has the CAS id of an older one")?;
    }
    Ok(found)
}

/// MC-1 and MC-2.
#[derive(Clone, Copy, Debug)]
pub(crate) enum CasId {
    NotFlushed,
    AfterLink,
}

impl Program for CasId {
    fn about(&self) -> About {
        match self {
            CasId::NotFlushed => About::new(
                "mc-1",
                BugKind::Flush,
                "the CAS id of an item is not flushed: after a restart a stale one passes",
                "memcached-pmem items.c:537, 8f121f6, PR 6, issue 4 bug 1 (Witcher 47), open",
            ),
            CasId::AfterLink => About::new(
                "mc-2",
                BugKind::Order,
                "the CAS id is set after the item is linked",
                "memcached-pmem items.c:538, issue 4 bug 2",
            )
            .epochs_too(),
        }
    }

    fn run<M: Memory>(&self, memory: &M, fixed: bool) {
        for number in 0..2 {
            let (at, id) = (item(number), cas_id(item(number)));
            memory.put(word(at, 1), 10 + number);
            memory.flush(at, 16);
            if fixed || matches!(self, CasId::NotFlushed) {
                memory.put(id, 100 + number);
            }
            if fixed {
                memory.flush(id, 8);
            }
            memory.order();
            memory.put_persist(at, 1);
            if !fixed && matches!(self, CasId::AfterLink) {
                memory.put_persist(id, 100 + number);
            }
            memory.output(number);
        }
    }

    fn recover<M: Memory>(&self, memory: &M, _: bool) -> Result<Found, String> {
        linked_items(memory)
    }

    fn judge(&self, found: &[u64], promised: &[u64]) -> Result<(), String> {
        inserted(found, promised, &[10, 11])
    }
}

/// MC-4 and MC-6: what a compiler may make of a plain store of 8 bytes.
#[derive(Clone, Copy, Debug)]
pub(crate) enum TornField {
    SlabId,
    PoolValid,
}

const VALID: u64 = 0x5EA5_0001_ACED_0001;

impl TornField {
    fn values(self) -> &'static [u64] {
        match self {
            TornField::SlabId => &[0x0000_0001_0000_0007, 0x0000_0002_0000_0009],
            TornField::PoolValid => &[VALID],
        }
    }
}

impl Program for TornField {
    fn about(&self) -> About {
        let (name, what) = match self {
            TornField::SlabId => ("mc-4", "a slab's id is a plain store, which may be made in two"),
            TornField::PoolValid => ("mc-6", "the pool's valid mark is a plain store: half a mark"),
        };
        let source = "memcached-pmem pslab.c, 8f121f6 -> 04ac69c, 6b778fd, d6531da (Yashme)";
        About::new(name, BugKind::Tearing, what, source).epochs_too()
    }

    fn run<M: Memory>(&self, memory: &M, fixed: bool) {
        let field = line(3);
        for (number, &value) in (0..).zip(self.values()) {
            if fixed {
                memory.store(field, value);
            } else {
                memory.store(field, value as u32);
                memory.store(field.plus(4), (value >> 32) as u32);
            }
            memory.persist(field, 8);
            memory.output(number);
        }
    }

    fn recover<M: Memory>(&self, memory: &M, _: bool) -> Result<Found, String> {
        Ok(vec![memory.get(line(3))])
    }

    fn judge(&self, found: &[u64], promised: &[u64]) -> Result<(), String> {
        let states: Vec<[u64; 1]> = [0].iter().chain(self.values()).map(|&v| [v]).collect();
        some_state(found, promised, &states)
    }
}

/// MC-14, one of the 19.
#[derive(Clone, Copy, Debug)]
pub(crate) struct UnlinkNotFlushed;

impl Program for UnlinkNotFlushed {
    fn about(&self) -> About {
        About::new(
            "mc-14",
            BugKind::Flush,
            "the flag of a deleted item is not flushed: it comes back after a restart",
            "memcached-pmem, one of 19 reports without a durability guarantee (PMDebugger)",
        )
    }

    fn setup<M: Memory>(&self, memory: &M) {
        (0..2).for_each(|number| memory.put(item(number), 1));
    }

    fn run<M: Memory>(&self, memory: &M, fixed: bool) {
        for number in 0..2 {
            memory.put(item(number), 0);
            if fixed {
                memory.flush(item(number), 8);
            }
            memory.order();
            memory.output(number);
        }
    }

    fn recover<M: Memory>(&self, memory: &M, _: bool) -> Result<Found, String> {
        Ok((0..2).map(|number| memory.get(item(number))).collect())
    }

    fn judge(&self, found: &[u64], promised: &[u64]) -> Result<(), String> {
        some_state(found, promised, &[[1, 1], [0, 1], [0, 0]])
    }
}

/// RE-1.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RedisRoot;

impl Program for RedisRoot {
    fn about(&self) -> About {
        About::new(
            "re-1",
            BugKind::Flush,
            "the root of the pool is filled without a flush or a log; keys are added to it",
            "Redis 3.2 with PM, server.c:4029 initPersistentMemory (XFDetector, Agamotto)",
        )
    }

    fn run<M: Memory>(&self, memory: &M, fixed: bool) {
        let (root, entries) = (line(1), line(2));
        memory.put(root, 8); // entries that there is room for
        memory.put(word(root, 1), entries.bits());
        if fixed {
            memory.persist(root, 16);
        }
        for number in 0..2 {
            memory.put_persist(word(entries, number), 10 + number);
            memory.output(number);
        }
    }

    fn recover<M: Memory>(&self, memory: &M, _: bool) -> Result<Found, String> {
        let (room, entries) = (memory.get(line(1)), memory.get(word(line(1), 1)));
        if room == 0 || entries == 0 {
            return Ok(vec![0, 0]); // a new server
        }
        Ok((0..2).map(|n| memory.get(word(Addr::from_bits(entries), n))).collect())
    }

    fn judge(&self, found: &[u64], promised: &[u64]) -> Result<(), String> {
        inserted(found, promised, &[10, 11])
    }
}

/// HS-1.
#[derive(Clone, Copy, Debug)]
pub(crate) struct HeaderChecksum;

const GENERATION: Addr = line(2);
/// Checksum of the header; here in another line than what it is of.
const CHECKSUM: Addr = line(3);

const fn checksum(generation: u64) -> u64 {
    (generation ^ 0xfeed).wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

impl Program for HeaderChecksum {
    fn about(&self) -> About {
        About::new(
            "hs-1",
            BugKind::Atomicity,
            "an erase writes the generation and then the checksum: no valid header between",
            "HSE mdc_file.c:444, omf.c:50-55, issue 471 (Pathfinder)",
        )
        .epochs_too()
    }

    fn setup<M: Memory>(&self, memory: &M) {
        for copy in [0, 8] {
            memory.put(GENERATION.plus(64 * copy), 1);
            memory.put(CHECKSUM.plus(64 * copy), checksum(1));
        }
    }

    fn run<M: Memory>(&self, memory: &M, fixed: bool) {
        for number in 0..3 {
            let generation = 2 + number;
            let copy = if fixed { 8 * 64 * (generation % 2) } else { 0 };
            memory.put_persist(GENERATION.plus(copy), generation);
            memory.put_persist(CHECKSUM.plus(copy), checksum(generation));
            memory.output(number);
        }
    }

    fn recover<M: Memory>(&self, memory: &M, fixed: bool) -> Result<Found, String> {
        let copies: &[u64] = if fixed { &[0, 8] } else { &[0] };
        let valid = |&copy: &u64| {
            let generation = memory.get(GENERATION.plus(64 * copy));
            let sum = memory.get(CHECKSUM.plus(64 * copy));
            (sum == checksum(generation)).then_some(generation)
        };
        let newest = copies.iter().filter_map(valid).max();
        newest.map(|generation| vec![generation]).ok_or_else(|| "no header is valid".into())
    }

    fn judge(&self, found: &[u64], promised: &[u64]) -> Result<(), String> {
        some_state(found, promised, &[[1], [2], [3], [4]])
    }
}

/// AP-1.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PayloadSeen;

impl Program for PayloadSeen {
    fn about(&self) -> About {
        About::new(
            "ap-1",
            BugKind::Threads,
            "a lock-free get returns a payload that is not durable; its caller stores a copy",
            "APEX apex_nodes.h:3798, issue 7",
        )
        .threads(2)
    }

    fn setup<M: Memory>(&self, memory: &M) {
        memory.put(line(4), 50);
    }

    fn run<M: Memory>(&self, memory: &M, fixed: bool) {
        let (payload, copy) = (line(4), line(6));
        if memory.thread() == 0 {
            for number in 0..2 {
                memory.put(payload, 51 + number);
                memory.persist(payload, 8);
                memory.output(number);
            }
        } else {
            for number in 0..2 {
                let seen = memory.get(payload);
                if fixed {
                    memory.persist(payload, 8);
                }
                memory.put_persist(copy, seen);
                memory.output(number);
            }
        }
    }

    fn recover<M: Memory>(&self, memory: &M, _: bool) -> Result<Found, String> {
        let (payload, copy) = (memory.get(line(4)), memory.get(line(6)));
        ensure(copy <= payload, "a copy is newer than what it was copied from")?;
        Ok(vec![payload])
    }

    fn judge(&self, found: &[u64], promised: &[u64]) -> Result<(), String> {
        some_state(found, promised, &[[50], [51], [52]])
    }
}

/// WI-1.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PoolCreate;

impl Program for PoolCreate {
    fn about(&self) -> About {
        About::new(
            "wi-1",
            BugKind::Recovery,
            "a pool whose creation was cut short is opened as a whole one: its root is null",
            "Witcher's ports, init_nvmm_pool, 22 places, issue 1",
        )
        .epochs_too()
    }

    fn run<M: Memory>(&self, memory: &M, _: bool) {
        create_pool(memory);
        memory.output(0);
        let root = Addr::from_bits(memory.get(line(2)));
        memory.put_persist(root, 7);
        memory.output(1);
    }

    fn recover<M: Memory>(&self, memory: &M, fixed: bool) -> Result<Found, String> {
        let is_whole = memory.get(line(1)) != 0 && memory.get(line(2)) != 0;
        let is_pool = if fixed { is_whole } else { memory.get(line(1)) != 0 };
        if !is_pool {
            create_pool(memory);
        }
        Ok(vec![memory.get(memory.follow(line(2))?)])
    }

    fn judge(&self, found: &[u64], promised: &[u64]) -> Result<(), String> {
        some_state(found, promised, &[[0], [0], [7]])
    }
}

fn create_pool<M: Memory>(memory: &M) {
    memory.put_persist(line(1), VALID);
    memory.put_persist(line(2), line(4).bits());
}
