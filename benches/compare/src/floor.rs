//! The minimum that the hardware requires, measured in the same rounds: a line and a fence, and
//! whole transactions written by hand, without allocator, checks or recovery.
//!
//! The hand-written redo transaction is one record past the caches and one fence; the data are
//! flushed once for 64 transactions, before their records could be reused. The undo transaction is
//! a record, a fence, the data and their flush, a mark that truncates the record, and a fence.

use crate::contender::{Contender, Counts, Sample, timed};
use anyhow::Result;
use seawall_memory::{Addr, LINE_BYTES, Memory, MemoryExt};
use seawall_native::{NativeMemory, Pool};
use std::rc::Rc;

/// Each thread has a log here and its data after it.
const LOG_BYTES: u64 = 256 << 10;
const DATA_BYTES: u64 = 256 << 10;
const THREAD_BYTES: u64 = LOG_BYTES + DATA_BYTES;
const BATCH: u64 = 64;
const RANGES_MAX: u64 = 4;

/// Bytes that the pool of the floors needs for `threads` threads.
pub(crate) const fn bytes(threads: u64) -> u64 {
    threads * THREAD_BYTES
}

/// A sequence that runs in a loop.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Sequence {
    /// One line past the caches, one fence.
    NtLine,
    /// One line stored and flushed, one fence.
    FlushedLine,
    /// A transaction with a redo log: `ranges` of `bytes`.
    Redo { ranges: u64, bytes: u64 },
    /// A transaction with an undo log: `ranges` of `bytes`.
    Undo { ranges: u64, bytes: u64 },
}

/// Runs a sequence `count` times, and shows the time for each of `operations`.
pub(crate) struct Floor {
    pool: Rc<Pool>,
    sequence: Sequence,
    count: u64,
    operations: usize,
}

impl Floor {
    pub(crate) fn new(pool: &Rc<Pool>, sequence: Sequence, count: u64, operations: usize) -> Floor {
        Floor { pool: Rc::clone(pool), sequence, count, operations }
    }
}

impl Contender for Floor {
    fn round(&mut self, threads: usize) -> Result<Vec<Sample>> {
        let (pool, sequence, count) = (&*self.pool, self.sequence, self.count);
        let sample = timed(threads, count, |thread, gate| {
            let memory = pool.memory(thread);
            gate.time(|| run(&memory, sequence, count));
            let done = memory.counters();
            Ok(Some(Counts { fences: done.fences, lines: done.flushed_lines }))
        })?;
        Ok(vec![sample; self.operations])
    }
}

fn run(memory: &NativeMemory<'_>, sequence: Sequence, count: u64) {
    let log = Addr::pm(memory.thread() as u64 * THREAD_BYTES);
    let data = log.plus(LOG_BYTES);
    match sequence {
        Sequence::NtLine => (0..count).for_each(|i| {
            memory.write_nt(log.plus(i * LINE_BYTES % LOG_BYTES), &[i as u8; 64]);
            memory.drain();
        }),
        Sequence::FlushedLine => (0..count).for_each(|i| {
            let at = data.plus(i * LINE_BYTES % DATA_BYTES);
            memory.write(at, &[i as u8; 64]);
            memory.flush(at, LINE_BYTES);
            memory.drain();
        }),
        Sequence::Redo { ranges, bytes } => redo(memory, log, data, (ranges, bytes), count),
        Sequence::Undo { ranges, bytes } => undo(memory, log, data, (ranges, bytes), count),
    }
}

/// The place of a range of transaction `i`.
fn place(data: Addr, i: u64, range: u64, (ranges, bytes): (u64, u64)) -> Addr {
    let part = DATA_BYTES / ranges;
    data.plus(range * part + i * bytes % part)
}

/// Room for a record of the largest transaction.
const RECORD_MAX: usize = 2048;
/// A sequence number and a word in place of a checksum; then each range with its address.
const HEAD_BYTES: u64 = 16;

fn record_bytes((ranges, bytes): (u64, u64)) -> usize {
    let len = (HEAD_BYTES + ranges * (bytes + 8)).next_multiple_of(LINE_BYTES) as usize;
    debug_assert!(len <= RECORD_MAX && ranges <= RANGES_MAX);
    len
}

fn redo(memory: &NativeMemory<'_>, log: Addr, data: Addr, shape: (u64, u64), count: u64) {
    let (ranges, bytes) = shape;
    let len = record_bytes(shape);
    let slots = LOG_BYTES / len as u64;
    let mut record = [0; RECORD_MAX];
    let mut value = [0; RECORD_MAX];
    for i in 0..count {
        value[..bytes as usize].fill(i as u8);
        record[..8].copy_from_slice(&i.to_le_bytes());
        for range in 0..ranges {
            let at = (HEAD_BYTES + range * (bytes + 8)) as usize;
            record[at..at + 8].copy_from_slice(&place(data, i, range, shape).bits().to_le_bytes());
            record[at + 8..at + 8 + bytes as usize].copy_from_slice(&value[..bytes as usize]);
        }
        memory.write_nt(log.plus(i % slots * len as u64), &record[..len]);
        memory.drain();
        for range in 0..ranges {
            memory.write(place(data, i, range, shape), &value[..bytes as usize]);
        }
        if i % BATCH == BATCH - 1 {
            for range in 0..ranges {
                for one in i + 1 - BATCH..=i {
                    memory.flush(place(data, one, range, shape), bytes);
                }
            }
            memory.drain();
        }
    }
}

fn undo(memory: &NativeMemory<'_>, log: Addr, data: Addr, shape: (u64, u64), count: u64) {
    let (ranges, bytes) = shape;
    let len = record_bytes(shape);
    let slots = LOG_BYTES / (len as u64 + LINE_BYTES);
    let mut record = [0; RECORD_MAX];
    let mut value = [0; RECORD_MAX];
    for i in 0..count {
        value[..bytes as usize].fill(i as u8);
        record[..8].copy_from_slice(&i.to_le_bytes());
        for range in 0..ranges {
            let from = place(data, i, range, shape);
            let at = (HEAD_BYTES + range * (bytes + 8)) as usize;
            record[at..at + 8].copy_from_slice(&from.bits().to_le_bytes());
            memory.read(from, &mut record[at + 8..at + 8 + bytes as usize]);
        }
        let slot = log.plus(i % slots * (len as u64 + LINE_BYTES));
        memory.write_nt(slot, &record[..len]);
        memory.drain();
        for range in 0..ranges {
            let at = place(data, i, range, shape);
            memory.write(at, &value[..bytes as usize]);
            memory.flush(at, bytes);
        }
        memory.write_nt(slot.plus(len as u64), &i.to_le_bytes());
        memory.drain();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use seawall_native::PoolOptions;

    fn counted(sequence: Sequence) -> (f64, f64) {
        let pool = Rc::new(Pool::temporary(bytes(1), &PoolOptions::default()).unwrap());
        let samples = Floor::new(&pool, sequence, 640, 1).round(1).unwrap();
        (samples[0].fences.unwrap(), samples[0].lines.unwrap())
    }

    #[test]
    fn each_sequence_has_the_fences_and_lines_that_it_is_described_with() {
        assert_eq!(counted(Sequence::NtLine), (1.0, 1.0));
        assert_eq!(counted(Sequence::FlushedLine), (1.0, 1.0));
        let small = (1, 64);
        let redo = counted(Sequence::Redo { ranges: small.0, bytes: small.1 });
        assert_eq!(redo, (1.0 + 1.0 / 64.0, 2.0 + 1.0));
        let undo = counted(Sequence::Undo { ranges: small.0, bytes: small.1 });
        assert_eq!(undo, (2.0, 2.0 + 1.0 + 1.0));
    }

    #[test]
    fn the_largest_record_fits() {
        assert!(record_bytes((1, 1024)) <= RECORD_MAX && record_bytes((4, 64)) <= RECORD_MAX);
    }
}
