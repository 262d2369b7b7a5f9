//! Optane-like memory: DIMMs with a controller of their own, interleaved behind the machine's.
//!
//! The parts and their sizes are those that LENS and VANS (MICRO'20) found by measurement, beside
//! "An Empirical Guide to the Behavior and Use of Scalable Persistent Memory" (FAST'20). A written
//! line waits in the write-pending queue of its DIMM, is combined with its neighbours to an XPLine
//! of 256 bytes ([`combiner`]) and goes to the media, whose unit of access is the XPLine. A read
//! finds its line in the DIMM's buffer of XPLines, or goes to the media, after the address
//! translation of its page ([`tags`]). The media have one pipeline for reads and writes, and move
//! blocks that are written too often to another place ([`media`]).
//!
//! Nothing here waits for an event: a request is followed to its end when it arrives, and the
//! resources that it uses are booked. Requests arrive in time order, except for reads on their way.

mod combiner;
mod dimm;
mod media;
mod tags;

use crate::Cycle;
use crate::config::MemoryConfig;
use dimm::Dimm;

/// Lines of an XPLine, the unit of access of the media.
pub(crate) const XPLINE_LINES: u64 = 4;
/// Lines of a page of 4 KiB, the unit of interleaving and of address translation.
const PAGE_LINES: u64 = 64;

/// Interleaved DIMMs with the queues in front of them: no caches, no network, no values.
///
/// Lines are numbered from the start of persistent memory. Calls must come in time order, up to
/// small differences.
///
/// ```
/// let machine = seawall_sim::Machine::load("optane24")?;
/// let mut dimms = seawall_sim::XpDimms::new(&machine.memory).expect("it has DIMMs");
/// let first = dimms.read(0, 1000) - 1000;
/// let neighbour = dimms.read(1, 5000) - 5000;
/// assert!(neighbour < first, "it came with the first");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct XpDimms {
    dimms: Vec<Dimm>,
}

/// The times of a line write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WriteTimes {
    /// The write-pending queue has acknowledged the line: durable under ADR.
    pub accepted: Cycle,
    /// The line's place in the queue is free again.
    pub left: Cycle,
    /// The line is in the DIMM, whose content survives a power failure.
    pub in_dimm: Cycle,
}

/// The traffic of the DIMMs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DimmTraffic {
    /// Lines written by the machine.
    pub lines_written: u64,
    /// XPLines read from the media on behalf of the machine.
    pub media_reads: u64,
    /// XPLines written to the media on behalf of the machine.
    pub media_writes: u64,
    /// Page translations that missed the translation buffer.
    pub translations_missed: u64,
    /// Blocks moved for wear levelling.
    pub blocks_moved: u64,
}

impl DimmTraffic {
    /// Bytes written by the machine per byte written to the media: 0 to 1, and more if lines were
    /// rewritten before they left; 1 if nothing was written to the media. This is the effective
    /// write ratio (EWR) of FAST'20.
    pub fn write_ratio(&self) -> f64 {
        if self.media_writes == 0 {
            return 1.0;
        }
        self.lines_written as f64 / (self.media_writes * XPLINE_LINES) as f64
    }
}

impl XpDimms {
    /// The DIMMs of this memory, empty; `None` if its persistent device has none.
    pub fn new(memory: &MemoryConfig) -> Option<XpDimms> {
        let config = memory.nvm.dimms?;
        let dimm = || Dimm::new(memory, &config);
        Some(XpDimms { dimms: (0..config.count).map(|_| dimm()).collect() })
    }

    /// The DIMM of a line: pages of 4 KiB are interleaved.
    #[inline]
    pub(crate) fn home(&self, line: u64) -> usize {
        (line / PAGE_LINES % self.dimms.len() as u64) as usize
    }

    /// The DIMM of a line, and the line's number in it.
    #[inline]
    fn place(&mut self, line: u64) -> (&mut Dimm, u64) {
        let (page, home) = (line / PAGE_LINES / self.dimms.len() as u64, self.home(line));
        (&mut self.dimms[home], page * PAGE_LINES + line % PAGE_LINES)
    }

    /// Reads a line whose request is at its controller at `at`; returns when the line leaves it.
    #[inline]
    pub fn read(&mut self, line: u64, at: Cycle) -> Cycle {
        let (dimm, line) = self.place(line);
        dimm.read(line, at)
    }

    /// Writes a line that is at its controller at `at`.
    #[inline]
    pub fn write(&mut self, line: u64, at: Cycle) -> WriteTimes {
        self.write_behind(line, at, (0, 0))
    }

    /// As [`write`](XpDimms::write), but the queue accepts the line no earlier than the first cycle
    /// of `floors`, and passes it to the DIMM no earlier than the second.
    #[inline]
    pub(crate) fn write_behind(
        &mut self,
        line: u64,
        at: Cycle,
        floors: (Cycle, Cycle),
    ) -> WriteTimes {
        let (dimm, line) = self.place(line);
        dimm.write(line, at, floors)
    }

    /// The traffic of all DIMMs together.
    pub fn traffic(&self) -> DimmTraffic {
        let mut sum = DimmTraffic::default();
        for dimm in &self.dimms {
            let one = dimm.traffic();
            sum.lines_written += one.lines_written;
            sum.media_reads += one.media_reads;
            sum.media_writes += one.media_writes;
            sum.translations_missed += one.translations_missed;
            sum.blocks_moved += one.blocks_moved;
        }
        sum
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Machine;
    use rand::{RngExt, SeedableRng};
    use rand_xoshiro::Xoshiro256PlusPlus;

    fn six() -> XpDimms {
        XpDimms::new(&Machine::load("optane24").unwrap().memory).unwrap()
    }

    #[test]
    fn pages_go_round_the_dimms_and_each_has_its_own_queue() {
        let mut dimms = six();
        for page in 0..12 {
            let line = page * PAGE_LINES;
            assert_eq!(dimms.home(line), page as usize % 6);
            assert_eq!(dimms.home(line + PAGE_LINES - 1), page as usize % 6);
        }
        let lone = dimms.write(0, 0).accepted;
        let mut last = 0;
        for line in 1..40 {
            last = dimms.write(line, 0).accepted;
        }
        assert!(last > lone, "one queue is full");
        assert_eq!(dimms.write(PAGE_LINES, 0).accepted, lone, "the next DIMM's is not");
    }

    #[test]
    fn the_same_requests_get_the_same_answers() {
        let run = || {
            let (mut dimms, mut random) = (six(), Xoshiro256PlusPlus::seed_from_u64(7));
            let mut answers = Vec::new();
            for number in 0..20_000u64 {
                let line = random.random_range(0..1 << 20);
                answers.push(if random.random() {
                    dimms.read(line, number * 30)
                } else {
                    dimms.write(line, number * 30).in_dimm
                });
            }
            (answers, dimms.traffic())
        };
        assert_eq!(run(), run());
    }

    #[test]
    fn whole_xplines_are_written_once_and_lone_lines_cost_four_times_as_much() {
        let written = |step: u64| {
            let (mut dimms, mut at) = (six(), 0);
            for number in 0..40_000u64 {
                let line = number * step % (1 << 22);
                at = dimms.write(line, at).accepted;
            }
            dimms.traffic().write_ratio()
        };
        assert!(written(1) > 0.99);
        assert!((0.25..0.26).contains(&written(4 * 31)), "{}", written(4 * 31));
    }

    #[test]
    fn a_memory_without_dimms_has_none() {
        assert!(XpDimms::new(&Machine::load("desktop").unwrap().memory).is_none());
    }
}
