//! Bugs of file systems for persistent memory: NOVA, NOVA-Fortis, PMFS, WineFS.
//!
//! Found by Chipmunk (EuroSys'23), Vinter (ATC'22) and users; the numbers are those of NOVA's
//! issues (nova-91 ..). A file system here is what the bug needs: a few inodes, a log, a journal
//! (the redo log of `tx.rs`).

use crate::kit::{Words, ensure, inserted, line, some_state, word};
use crate::program::{About, BugKind, Found, Program};
use crate::tx::{redo, redo_apply};
use seawall_memory::{Addr, Memory, MemoryExt};

/// Head and tail of an inode's log, a line each; the log's page.
const HEAD: Addr = line(2);
const TAIL: Addr = line(3);
const PAGE: Addr = line(10);

/// NOVA-91 and NOVA-94.
#[derive(Clone, Copy, Debug)]
pub(crate) enum LogHead {
    NotFlushed,
    NotBeforeTail,
}

impl Program for LogHead {
    fn about(&self) -> About {
        match self {
            LogHead::NotFlushed => About::new(
                "nova-91",
                BugKind::Flush,
                "mkdir does not flush the head of the new directory's log",
                "NOVA issue 91, PR 92 (Chipmunk)",
            ),
            LogHead::NotBeforeTail => About::new(
                "nova-94",
                BugKind::Fence,
                "the tail of a log may be durable when its head is not: a null pointer at mount",
                "NOVA issue 94 -> PR 95 (Chipmunk)",
            )
            .epochs_too(),
        }
    }

    fn run<M: Memory>(&self, memory: &M, fixed: bool) {
        memory.put_persist(PAGE, 10);
        memory.put(HEAD, PAGE.bits());
        if fixed || matches!(self, LogHead::NotBeforeTail) {
            memory.flush(HEAD, 8);
        }
        if fixed || matches!(self, LogHead::NotFlushed) {
            memory.order();
        }
        memory.put_persist(TAIL, 1);
        memory.output(0);
        memory.put_persist(word(PAGE, 1), 11);
        memory.put_persist(TAIL, 2);
        memory.output(1);
    }

    fn recover<M: Memory>(&self, memory: &M, _: bool) -> Result<Found, String> {
        let mut found = vec![0; 2];
        for index in 0..memory.get(TAIL) {
            found[index as usize] = memory.get(word(memory.follow(HEAD)?, index));
        }
        Ok(found)
    }

    fn judge(&self, found: &[u64], promised: &[u64]) -> Result<(), String> {
        inserted(found, promised, &[10, 11])
    }
}

/// Directory entry `index`: the number of an inode, or 0.
const fn entry(index: u64) -> Addr {
    line(4 + index)
}

/// The link count of an inode.
const fn links(inode: u64) -> Addr {
    line(20 + inode)
}

/// NOVA-116 and NOVA-119.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Rename {
    TwoSteps,
    LinksOutside,
}

impl Program for Rename {
    fn about(&self) -> About {
        let (name, what, source) = match self {
            Rename::TwoSteps => (
                "nova-116",
                "rename removes the old name and then adds the new one: the file has none between",
                "NOVA issue 116 -> PR 135 (Chipmunk)",
            ),
            Rename::LinksOutside => (
                "nova-119",
                "rename over a file changes that file's link count outside the journal",
                "NOVA issue 119 (Chipmunk)",
            ),
        };
        About::new(name, BugKind::Atomicity, what, source).epochs_too()
    }

    fn setup<M: Memory>(&self, memory: &M) {
        memory.put(entry(0), 1);
        memory.put(links(1), 1);
        memory.put(entry(1), 2);
        memory.put(links(2), 1);
    }

    fn run<M: Memory>(&self, memory: &M, fixed: bool) {
        let names = [(entry(0), 0), (entry(1), 1)];
        let all = [names[0], names[1], (links(2), 0)];
        match self {
            _ if fixed => redo(memory, &all),
            Rename::TwoSteps => all.iter().for_each(|&(at, value)| memory.put_persist(at, value)),
            Rename::LinksOutside => {
                memory.put_persist(links(2), 0);
                redo(memory, &names);
            }
        }
        memory.output(0);
    }

    fn recover<M: Memory>(&self, memory: &M, _: bool) -> Result<Found, String> {
        redo_apply(memory);
        let names = [memory.get(entry(0)), memory.get(entry(1))];
        for inode in [1, 2] {
            let named = names.iter().filter(|name| **name == inode).count() as u64;
            ensure(memory.get(links(inode)) == named, "a link count differs from the names")?;
        }
        Ok(names.into())
    }

    fn judge(&self, found: &[u64], promised: &[u64]) -> Result<(), String> {
        some_state(found, promised, &[[1, 2], [0, 1]])
    }
}

/// NOVA-120.
#[derive(Clone, Copy, Debug)]
pub(crate) struct UnlinkNoFence;

impl Program for UnlinkNoFence {
    fn about(&self) -> About {
        About::new(
            "nova-120",
            BugKind::Fence,
            "link and unlink return before the fence that makes their log entries durable",
            "NOVA issue 120 (Chipmunk)",
        )
    }

    fn run<M: Memory>(&self, memory: &M, fixed: bool) {
        for number in 0..3 {
            memory.put_flush(word(PAGE, number), 10 + number);
            memory.order();
            memory.put_flush(TAIL, number + 1);
            if fixed {
                memory.drain();
            }
            memory.output(number);
        }
    }

    fn recover<M: Memory>(&self, memory: &M, _: bool) -> Result<Found, String> {
        let tail = memory.get(TAIL);
        Ok((0..3).map(|n| if n < tail { memory.get(word(PAGE, n)) } else { 0 }).collect())
    }

    fn judge(&self, found: &[u64], promised: &[u64]) -> Result<(), String> {
        inserted(found, promised, &[10, 11, 12])
    }
}

/// NOVA-118 and NOVA-127.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ReplicaNoFence;

fn write_inode<M: Memory>(memory: &M, at: Addr, size: u64) {
    memory.put(at, size);
    memory.put(word(at, 1), size ^ 0xabcd); // its checksum
    memory.flush(at, 16);
}

fn read_inode<M: Memory>(memory: &M, at: Addr) -> Option<u64> {
    let size = memory.get(at);
    (memory.get(word(at, 1)) == size ^ 0xabcd).then_some(size)
}

impl Program for ReplicaNoFence {
    fn about(&self) -> About {
        About::new(
            "nova-118",
            BugKind::Fence,
            "inode and replica are written without a fence between: a crash may tear both",
            "NOVA-Fortis issues 118, 127 (Chipmunk)",
        )
        .epochs_too()
    }

    fn setup<M: Memory>(&self, memory: &M) {
        write_inode(memory, line(2), 1);
        write_inode(memory, line(3), 1);
    }

    fn run<M: Memory>(&self, memory: &M, fixed: bool) {
        for number in 0..2 {
            write_inode(memory, line(2), 2 + number);
            if fixed {
                memory.order();
            }
            write_inode(memory, line(3), 2 + number);
            memory.drain();
            memory.output(number);
        }
    }

    fn recover<M: Memory>(&self, memory: &M, _: bool) -> Result<Found, String> {
        let (first, second) = (read_inode(memory, line(2)), read_inode(memory, line(3)));
        let size = first.or(second).ok_or("neither the inode nor its replica is whole")?;
        let (bad, good) = if first.is_some() { (line(3), second) } else { (line(2), first) };
        if good != Some(size) {
            write_inode(memory, bad, size);
            memory.drain();
        }
        Ok(vec![size])
    }

    fn judge(&self, found: &[u64], promised: &[u64]) -> Result<(), String> {
        some_state(found, promised, &[[1], [2], [3]])
    }
}

/// NOVA-125.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LinksInPlace;

impl Program for LinksInPlace {
    fn about(&self) -> About {
        About::new(
            "nova-125",
            BugKind::Order,
            "unlink lowers the link count in place before the name is gone: a name without a file",
            "NOVA issue 125, open (Chipmunk)",
        )
        .epochs_too()
    }

    fn setup<M: Memory>(&self, memory: &M) {
        memory.put(entry(0), 1);
        memory.put(links(1), 1);
    }

    fn run<M: Memory>(&self, memory: &M, fixed: bool) {
        if !fixed {
            memory.put_persist(links(1), 0);
        }
        memory.put_persist(entry(0), 0);
        if fixed {
            memory.put_persist(links(1), 0); // a file without a name is freed at mount
        }
        memory.output(0);
    }

    fn recover<M: Memory>(&self, memory: &M, _: bool) -> Result<Found, String> {
        let name = memory.get(entry(0));
        ensure(name == 0 || memory.get(links(1)) > 0, "a name of a file that is deleted")?;
        if name == 0 {
            memory.put_persist(links(1), 0);
        }
        Ok(vec![name])
    }

    fn judge(&self, found: &[u64], promised: &[u64]) -> Result<(), String> {
        some_state(found, promised, &[[1], [0]])
    }
}

/// The last bytes of a write: NOVA (Vinter), and PMFS.
#[derive(Clone, Copy, Debug)]
pub(crate) enum WriteTail {
    Nova,
    Pmfs,
}

const TEXT: [u8; 20] = *b"twenty bytes of text";

impl Program for WriteTail {
    fn about(&self) -> About {
        match self {
            WriteTail::Nova => About::new(
                "nova-tail",
                BugKind::Flush,
                "a write goes past the caches but for its last bytes, which nobody flushes",
                "NOVA, partial last bytes of a write (Vinter, ATC'22)",
            ),
            WriteTail::Pmfs => About::new(
                "pmfs-tail",
                BugKind::Flush,
                "as many lines are flushed as the length has, from an address inside a line",
                "PMFS (Chipmunk's PMFS_BUG4), so in WineFS",
            ),
        }
    }

    fn run<M: Memory>(&self, memory: &M, fixed: bool) {
        match self {
            WriteTail::Nova => {
                let data = line(10).plus(48); // 16 bytes, and 4 in the next line
                memory.write_nt(data, &TEXT[..16]);
                memory.write(data.plus(16), &TEXT[16..]);
                if fixed {
                    memory.flush(data.plus(16), 4);
                }
            }
            WriteTail::Pmfs => {
                let data = line(10).plus(48);
                memory.write(data, &TEXT);
                let len = TEXT.len() as u64;
                if fixed {
                    memory.flush(data, len);
                } else {
                    (0..len.div_ceil(64)).for_each(|i| memory.flush(data.plus(64 * i), 1));
                }
            }
        }
        memory.order();
        memory.put_persist(line(2), TEXT.len() as u64);
        memory.output(0);
    }

    fn recover<M: Memory>(&self, memory: &M, _: bool) -> Result<Found, String> {
        let size = memory.get(line(2));
        let mut bytes = vec![0; size as usize];
        memory.read(line(10).plus(48), &mut bytes);
        ensure(bytes == TEXT[..bytes.len()], "the file has other bytes than were written")?;
        Ok(vec![size])
    }

    fn judge(&self, found: &[u64], promised: &[u64]) -> Result<(), String> {
        inserted(found, promised, &[TEXT.len() as u64])
    }
}

/// PMFS issue 8.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FastPath;

impl Program for FastPath {
    fn about(&self) -> About {
        About::new(
            "pmfs-8",
            BugKind::Fence,
            "the fast path of write flushes the data and returns without a fence",
            "PMFS-new issue 8, so WineFS issue 1 -> PR 7 (Chipmunk)",
        )
    }

    fn run<M: Memory>(&self, memory: &M, fixed: bool) {
        for number in 0..2 {
            memory.put_flush(line(10 + number), 10 + number);
            if fixed {
                memory.drain();
            }
            memory.output(number);
        }
    }

    fn recover<M: Memory>(&self, memory: &M, _: bool) -> Result<Found, String> {
        Ok(vec![memory.get(line(10)), memory.get(line(11))])
    }

    fn judge(&self, found: &[u64], promised: &[u64]) -> Result<(), String> {
        let lost = (0..2).any(|n| n < promised[0] && found[n as usize] != 10 + n);
        ensure(!lost, "a write that returned is lost")
    }
}

/// PMFS, the truncate list.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TruncateList;

const INODE_BLOCKS: Addr = line(2);
const TRUNCATE: Addr = line(3);

impl Program for TruncateList {
    fn about(&self) -> About {
        About::new(
            "pmfs-truncate",
            BugKind::Recovery,
            "mount works off the truncate list before the scan that finds the blocks in use",
            "PMFS (Chipmunk's PMFS_BUG1)",
        )
        .epochs_too()
    }

    fn setup<M: Memory>(&self, memory: &M) {
        memory.put(INODE_BLOCKS, 0b1111);
    }

    fn run<M: Memory>(&self, memory: &M, _: bool) {
        memory.put_persist(TRUNCATE, 0b1100); // blocks to give back, whatever happens
        memory.put_persist(INODE_BLOCKS, 0b0011);
        memory.put_persist(TRUNCATE, 0);
        memory.output(0);
    }

    fn recover<M: Memory>(&self, memory: &M, fixed: bool) -> Result<Found, String> {
        let truncated = memory.get(TRUNCATE);
        let scan = memory.get(INODE_BLOCKS);
        let used = if fixed { scan & !truncated } else { scan };
        memory.put_persist(INODE_BLOCKS, scan & !truncated);
        memory.put_persist(TRUNCATE, 0);
        let owned = memory.get(INODE_BLOCKS);
        ensure(used == owned, "blocks are marked as in use that no file has")?;
        Ok(vec![owned])
    }

    fn judge(&self, found: &[u64], promised: &[u64]) -> Result<(), String> {
        some_state(found, promised, &[[0b1111], [0b0011]])
    }
}

/// WineFS, the journals.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CpuJournals;

/// The undo journal of a CPU: valid, address, old word, address, old word.
const fn journal(cpu: u64) -> Addr {
    line(30 + cpu)
}

impl Program for CpuJournals {
    fn about(&self) -> About {
        About::new(
            "winefs-journal",
            BugKind::Recovery,
            "mount reads the journal of the first CPU only",
            "WineFS, per-CPU journals at recovery (Chipmunk)",
        )
        .epochs_too()
    }

    fn run<M: Memory>(&self, memory: &M, _: bool) {
        for number in 0..2 {
            let own = journal(number % 2);
            for field in 0..2 {
                let at = line(10 + field);
                memory.put(word(own, 1 + 2 * field), at.bits());
                memory.put(word(own, 2 + 2 * field), memory.get(at));
            }
            memory.persist(own, 64);
            memory.put_persist(own, 1);
            (0..2).for_each(|field| memory.put_flush(line(10 + field), 10 + number));
            memory.order();
            memory.put_persist(own, 0);
            memory.output(number);
        }
    }

    fn recover<M: Memory>(&self, memory: &M, fixed: bool) -> Result<Found, String> {
        for cpu in 0..if fixed { 2 } else { 1 } {
            let own = journal(cpu);
            if memory.get(own) == 1 {
                for field in 0..2 {
                    let at = memory.follow(word(own, 1 + 2 * field))?;
                    memory.put_flush(at, memory.get(word(own, 2 + 2 * field)));
                }
                memory.order();
                memory.put_persist(own, 0);
            }
        }
        Ok(vec![memory.get(line(10)), memory.get(line(11))])
    }

    fn judge(&self, found: &[u64], promised: &[u64]) -> Result<(), String> {
        some_state(found, promised, &[[0, 0], [10, 10], [11, 11]])
    }
}

/// WineFS, strict mode.
#[derive(Clone, Copy, Debug)]
pub(crate) struct StrictWrite;

impl Program for StrictWrite {
    fn about(&self) -> About {
        About::new(
            "winefs-strict",
            BugKind::Atomicity,
            "an overwrite that is promised to be atomic goes into the block in place",
            "WineFS, strict mode (Chipmunk)",
        )
        .epochs_too()
    }

    fn setup<M: Memory>(&self, memory: &M) {
        memory.put(line(2), line(10).bits());
    }

    fn run<M: Memory>(&self, memory: &M, fixed: bool) {
        for number in 0..2 {
            let here = memory.get(line(2));
            let other = if here == line(10).bits() { line(20) } else { line(10) };
            let block = if fixed { other } else { Addr::from_bits(here) };
            (0..2).for_each(|part| memory.put(block.plus(64 * part), 10 + number));
            memory.flush(block, 128);
            memory.order();
            if fixed {
                memory.put_persist(line(2), block.bits());
            }
            memory.output(number);
        }
    }

    fn recover<M: Memory>(&self, memory: &M, _: bool) -> Result<Found, String> {
        let block = memory.follow(line(2))?;
        Ok(vec![memory.get(block), memory.get(block.plus(64))])
    }

    fn judge(&self, found: &[u64], promised: &[u64]) -> Result<(), String> {
        some_state(found, promised, &[[0, 0], [10, 10], [11, 11]])
    }
}
