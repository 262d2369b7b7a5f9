//! The layout of a core's log and saved states in persistent memory, and the format of their words.
//!
//! Behind the program's lines there is one line that names the last durable epoch of every core
//! ([`names`](super::names)). Then each core has: room for the processor state at the end of each
//! epoch that can be in flight or without its name, and of the one before; and its log, a ring of
//! records of eight lines as in ATOM (HPCA'17, section IV): a header, then up to seven old lines. A
//! header line names the epoch, and for each old line its address and the epoch of its version, if
//! that one was not named yet: `0`, or core + 1 in 8 bits and the epoch's low 24 bits. The write of
//! a line is atomic.

use crate::memory::versions::LineData;
use crate::{Epoch, LineId};

/// Lines of a record, its header included.
pub(super) const RECORD_LINES: LineId = 8;
/// Old lines in a record.
pub(super) const ENTRIES: usize = 7;
/// The number of low bits of an epoch that a header stores with an old line's version.
const EPOCH_BITS: u32 = 24;

/// The layout.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Layout {
    pub(super) cores: LineId,
    /// The first line behind the program's.
    pub(super) first: LineId,
    pub(super) records: LineId,
    pub(super) state_lines: LineId,
    /// The number of states kept: one more than epochs in flight and without their names.
    pub(super) states: LineId,
}

impl Layout {
    fn lines_per_core(&self) -> LineId {
        self.states * self.state_lines + self.records * RECORD_LINES
    }

    pub(super) fn lines(&self) -> LineId {
        1 + self.cores * self.lines_per_core()
    }

    /// The line that names the last durable epoch of every core.
    pub(super) fn names(&self) -> LineId {
        self.first
    }

    fn core(&self, core: usize) -> LineId {
        self.first + 1 + core as LineId * self.lines_per_core()
    }

    /// The first line of the state of `core` at the end of `epoch`.
    pub(super) fn state(&self, core: usize, epoch: Epoch) -> LineId {
        self.core(core) + epoch % self.states * self.state_lines
    }

    /// The last line of that state.
    pub(super) fn last_of_state(&self, core: usize, epoch: Epoch) -> LineId {
        self.state(core, epoch) + self.state_lines - 1
    }

    /// The header of record `number` of `core`; numbers only grow.
    pub(super) fn record(&self, core: usize, number: u64) -> LineId {
        let place = (number % u64::from(self.records)) as LineId;
        self.core(core) + self.states * self.state_lines + place * RECORD_LINES
    }
}

/// The first line of a saved state: the epoch that it ends, and the core's number of stores up to
/// there. They stand for the registers, because the simulated core does not interpret instructions.
pub(super) fn state_line(epoch: Epoch, stores: u64) -> LineData {
    [epoch.into(), stores, 0, 0, 0, 0, 0, 0]
}

/// The epoch and the number of stores of a saved state.
pub(super) fn read_state(line: &LineData) -> (Epoch, u64) {
    (line[0] as Epoch, line[1])
}

/// A record's header while it is filled.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Header {
    pub(super) epoch: Epoch,
    pub(super) entries: usize,
    words: [u64; ENTRIES],
}

impl Header {
    pub(super) fn new(epoch: Epoch) -> Header {
        Header { epoch, ..Header::default() }
    }

    /// Adds an old line, with the version `prior` that it holds if that one is not named.
    pub(super) fn push(&mut self, line: LineId, prior: Option<(usize, Epoch)>) {
        let prior = prior.map_or(0, |(core, epoch)| {
            (core as u64 + 1) << EPOCH_BITS | u64::from(epoch) & ((1 << EPOCH_BITS) - 1)
        });
        self.words[self.entries] = prior << 32 | u64::from(line);
        self.entries += 1;
    }

    pub(super) fn is_full(&self) -> bool {
        self.entries == ENTRIES
    }

    pub(super) fn to_line(self) -> LineData {
        let mut line = [0; 8];
        line[0] = u64::from(self.epoch) << 32 | self.entries as u64;
        line[1..].copy_from_slice(&self.words);
        line
    }

    /// Decodes a header line; `None` if it is empty.
    pub(super) fn read(line: &LineData) -> Option<Header> {
        let (epoch, entries) = ((line[0] >> 32) as Epoch, (line[0] & 0xffff_ffff) as usize);
        let words = line[1..].try_into().expect("seven words");
        (epoch > 0 && entries <= ENTRIES).then_some(Header { epoch, entries, words })
    }

    /// Each old line: its address, and the core and the low bits of the epoch of its version.
    pub(super) fn lines(&self) -> impl Iterator<Item = (LineId, Option<(usize, Epoch)>)> + '_ {
        self.words[..self.entries].iter().map(|word| {
            let prior = word >> 32;
            let version = || ((prior >> EPOCH_BITS) as usize - 1, low_bits(prior as Epoch));
            (*word as LineId, (prior != 0).then(version))
        })
    }
}

/// The low bits of an epoch that a header stores.
pub(super) fn low_bits(epoch: Epoch) -> Epoch {
    epoch & ((1 << EPOCH_BITS) - 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_header_says_what_was_put_into_it() {
        let mut header = Header::new(7);
        header.push(3, None);
        header.push(u32::MAX - 1, Some((63, (1 << EPOCH_BITS) + 5)));
        let read = Header::read(&header.to_line()).unwrap();
        assert_eq!(read, header);
        let lines: Vec<_> = read.lines().collect();
        assert_eq!(lines, [(3, None), (u32::MAX - 1, Some((63, 5)))]);
        assert_eq!(Header::read(&[0; 8]), None);
    }

    #[test]
    fn areas_of_the_cores_follow_each_other_without_overlap() {
        let layout = Layout { cores: 3, first: 100, records: 4, state_lines: 2, states: 3 };
        let mut starts = vec![(layout.names(), 1)];
        for core in 0..3 {
            starts.extend((0..3).map(|epoch| (layout.state(core, epoch), 2)));
            starts.extend((0..4).map(|number| (layout.record(core, number), RECORD_LINES)));
        }
        let mut next = 100;
        for (start, lines) in starts {
            assert_eq!(start, next);
            next += lines;
        }
        assert_eq!(next, 100 + layout.lines());
        assert_eq!(layout.record(1, 4), layout.record(1, 0));
    }
}
