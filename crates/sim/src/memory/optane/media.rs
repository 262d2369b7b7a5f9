//! The media behind a DIMM's controller: XPLines, one pipeline, and wear levelling.
//!
//! A read occupies the pipeline for the time of its bandwidth (6.6 GB/s per DIMM, FAST'20) and has
//! its data after the latency; a write occupies it longer (2.3 GB/s), whatever part of the XPLine
//! is new, because the old one is read before the new one is written. Both share the pipeline, and
//! writes wait for it in a short queue.
//!
//! Cells wear out, so after a certain number of writes of an XPLine its block is moved: the XPLines
//! of the block are read and written one after the other, and other accesses of the media wait.
//! Rewriting one XPLine showed such stalls of 52 us about every 14 000 writes (LENS), and FAST'20
//! saw that 0.006 % of hot writes take 50 us, fewer if more XPLines share the writes.

use crate::Cycle;
use crate::config::DimmConfig;
use crate::engine::calendar::Calendar;
use rustc_hash::FxHashMap;

/// The media of one DIMM.
#[derive(Clone, Debug)]
pub(super) struct Media {
    pipeline: Calendar,
    /// When waiting writes leave the queue.
    starts: Vec<Cycle>,
    queue: usize,
    read: u64,
    read_cycles: u64,
    write_cycles: u64,
    block_xplines: u32,
    wear: u16,
    /// For each written block, the writes of its XPLines since it was last moved.
    worn: FxHashMap<u32, Box<[u16]>>,
    pub(super) reads: u64,
    pub(super) writes: u64,
    pub(super) moved: u64,
}

impl Media {
    pub(super) fn new(config: &DimmConfig) -> Media {
        Media {
            pipeline: Calendar::default(),
            starts: Vec::with_capacity(config.media_queue),
            queue: config.media_queue,
            read: config.media_read,
            read_cycles: config.media_read_cycles,
            write_cycles: config.media_write_cycles,
            block_xplines: config.wear_block_kib * 4,
            wear: config.wear_writes,
            worn: FxHashMap::default(),
            reads: 0,
            writes: 0,
            moved: 0,
        }
    }

    /// Reads an XPLine requested at `at`; returns when it has been read.
    pub(super) fn read(&mut self, at: Cycle) -> Cycle {
        self.reads += 1;
        self.pipeline.book(at, self.read_cycles) + self.read
    }

    /// When the queue has room for a write that comes at `at`.
    pub(super) fn room(&mut self, at: Cycle) -> Cycle {
        if self.starts.len() < self.queue {
            return at;
        }
        self.starts.retain(|start| *start > at);
        if self.starts.len() < self.queue {
            return at;
        }
        let earliest = (0..self.starts.len()).min_by_key(|place| self.starts[*place]);
        self.starts.swap_remove(earliest.unwrap_or(0))
    }

    /// Writes an XPLine for which the queue has [`room`](Media::room); the write starts at `at` or
    /// later.
    pub(super) fn write(&mut self, xpline: u32, at: Cycle) {
        self.writes += 1;
        if self.wears_out(xpline) {
            self.moved += 1;
            let each = self.read + self.write_cycles;
            self.pipeline.book(at, u64::from(self.block_xplines) * each);
        }
        self.starts.push(self.pipeline.book(at, self.write_cycles));
    }

    /// Counts a write; returns true if the block must be moved, which resets its counts.
    fn wears_out(&mut self, xpline: u32) -> bool {
        let (block, place) = (xpline / self.block_xplines, xpline % self.block_xplines);
        let fresh = || vec![0; self.block_xplines as usize].into_boxed_slice();
        let worn = self.worn.entry(block).or_insert_with(fresh);
        worn[place as usize] += 1;
        let is_worn = worn[place as usize] >= self.wear;
        if is_worn {
            worn.fill(0);
        }
        is_worn
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Machine;

    fn config() -> DimmConfig {
        Machine::load("optane24").unwrap().memory.nvm.dimms.unwrap()
    }

    fn write(media: &mut Media, xpline: u32, at: Cycle) -> Cycle {
        let room = media.room(at);
        media.write(xpline, room);
        room
    }

    #[test]
    fn reads_overlap_but_for_the_bandwidth() {
        let (config, mut media) = (config(), Media::new(&config()));
        assert_eq!(media.read(100), 100 + config.media_read);
        assert_eq!(media.read(100), 100 + config.media_read_cycles + config.media_read);
        assert_eq!(media.reads, 2);
    }

    #[test]
    fn a_write_waits_when_as_many_as_the_queue_has_wait_before_it() {
        let (config, mut media) = (config(), Media::new(&config()));
        // The first starts at once, and leaves the queue with that.
        let rooms: Vec<Cycle> =
            (0..config.media_queue as u32 + 3).map(|xpline| write(&mut media, xpline, 5)).collect();
        let (free, waits) = rooms.split_at(config.media_queue + 1);
        assert!(free.iter().all(|at| *at == 5), "{rooms:?}");
        assert_eq!(waits, [5 + config.media_write_cycles, 5 + 2 * config.media_write_cycles]);
    }

    #[test]
    fn reads_and_writes_share_the_pipeline() {
        let (config, mut media) = (config(), Media::new(&config()));
        write(&mut media, 0, 0);
        assert_eq!(media.read(0), config.media_write_cycles + config.media_read);
    }

    #[test]
    fn the_block_of_an_xpline_that_was_written_often_is_moved_while_all_others_wait() {
        let config = DimmConfig { wear_writes: 10, ..config() };
        let mut media = Media::new(&config);
        let move_cycles = 256 * (config.media_read + config.media_write_cycles);
        let mut at = 0;
        for number in 1..=25u64 {
            at += 1_000_000;
            write(&mut media, 300, at);
            let waited = media.read(at) - at - config.media_read;
            let moves = u64::from(number.is_multiple_of(10)) * move_cycles;
            assert_eq!(waited, config.media_write_cycles + moves, "write {number}");
        }
        assert_eq!(media.moved, 2);
    }

    #[test]
    fn writes_spread_over_a_block_move_it_that_much_later() {
        let config = DimmConfig { wear_writes: 10, ..config() };
        let mut media = Media::new(&config);
        for number in 0..256 * 9 {
            write(&mut media, number % 256, u64::from(number) * 1000);
        }
        assert_eq!(media.moved, 0);
        write(&mut media, 7, 1 << 40);
        assert_eq!(media.moved, 1);
        for number in 0..256 * 9 {
            write(&mut media, number % 256, 1 << 41);
        }
        assert_eq!(media.moved, 1, "all were counted anew");
    }
}
