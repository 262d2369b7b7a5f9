//! The recovery table of a memory controller: what makes writes before their time harmless.
//!
//! Of each line, memory has the value of one epoch at most that may still have to go. If it may, an
//! *undo record* has the newest value that is safe, and ADR writes it over the line when the power
//! fails. A value that comes early while a line has a record already waits in a *delay record*;
//! a crash drops it. The commit of an epoch frees its undo records, as memory may keep its values,
//! and moves its delayed values to where the safe value of their line is: memory, or the undo
//! record of a later epoch.

use super::super::buffers::Source;
use super::Flaw;
use crate::LineId;
use crate::values::LineData;

/// Where a flush has gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Taken {
    /// To memory.
    Written,
    /// To memory, as soon as the old value has been read from there into a new undo record.
    AfterRead,
    /// Into a new delay record.
    Delayed,
    /// Into a record that was there.
    Kept,
    /// Nowhere: no record is free.
    Refused,
}

#[derive(Clone, Copy, Debug)]
struct Record {
    line: LineId,
    /// Whose value memory has, or waits here.
    owner: Source,
    is_undo: bool,
    /// None while it is being read.
    data: Option<LineData>,
}

/// The records of a controller, in the order in which they were made.
pub(super) struct Table {
    records: Vec<Record>,
    size: usize,
    /// Delayed values on their way into the write queue, by the core that commits: each still has
    /// its record.
    leaving: Vec<usize>,
    flaw: Flaw,
}

impl Table {
    /// A table of `size` records, none of them used, on a machine of so many cores.
    pub(super) fn new(size: usize, cores: usize, flaw: Flaw) -> Table {
        Table { records: Vec::new(), size, leaving: vec![0; cores], flaw }
    }

    fn has_room(&self) -> bool {
        self.records.len() + self.leaving.iter().sum::<usize>() < self.size
    }

    fn undo(&mut self, line: LineId) -> Option<&mut Record> {
        self.records.iter_mut().find(|record| record.is_undo && record.line == line)
    }

    /// A flush of `owner` comes, early or when all before it was committed.
    pub(super) fn take(
        &mut self,
        line: LineId,
        owner: Source,
        data: LineData,
        is_early: bool,
    ) -> Taken {
        let of_line = |record: &&mut Record| record.line == line;
        let mut records = self.records.iter_mut().filter(of_line);
        if let Some(own) = records.find(|record| record.owner == owner) {
            if own.is_undo {
                return Taken::Written;
            }
            own.data = Some(data);
            return Taken::Kept;
        }
        let is_known = self.records.iter().any(|record| record.line == line);
        if !is_early {
            let goes_past = self.is_flaw(Flaw::WritesPastUndo);
            return match self.undo(line) {
                Some(undo) if !goes_past => {
                    undo.data = Some(data);
                    Taken::Kept
                }
                _ => Taken::Written,
            };
        }
        if !self.has_room() {
            return Taken::Refused;
        }
        if is_known && self.is_flaw(Flaw::SpeculatesTwice) {
            return Taken::Written;
        }
        let value = is_known.then_some(data);
        self.records.push(Record { line, owner, is_undo: !is_known, data: value });
        if is_known { Taken::Delayed } else { Taken::AfterRead }
    }

    fn is_flaw(&self, flaw: Flaw) -> bool {
        self.flaw == flaw
    }

    /// The old value of `line` has been read, unless a safe one has taken its place meanwhile.
    pub(super) fn remember(&mut self, line: LineId, old: LineData) {
        let undo = self.undo(line).expect("it was made with the read");
        undo.data.get_or_insert(old);
    }

    /// The undo record of `owner` for `line` goes, before its time.
    pub(super) fn forget(&mut self, line: LineId, owner: Source) {
        self.records.retain(|record| {
            !(record.is_undo && (record.line, record.owner) == (line, owner))
        });
    }

    /// `owner` commits: gives what has to be written to memory, of which [`left`](Table::left)
    /// tells one by one.
    pub(super) fn commit(&mut self, owner: Source) -> Vec<(LineId, LineData)> {
        let records = std::mem::take(&mut self.records);
        let (own, others): (Vec<_>, _) =
            records.into_iter().partition(|record| record.owner == owner);
        self.records = others;
        if self.is_flaw(Flaw::DelaysLost) {
            return Vec::new();
        }
        let mut writes = Vec::new();
        for record in own.iter().filter(|record| !record.is_undo) {
            let data = record.data.expect("a delayed value is there from the start");
            match self.undo(record.line) {
                Some(undo) => undo.data = Some(data),
                None => writes.push((record.line, data)),
            }
        }
        self.leaving[owner.core] += writes.len();
        writes
    }

    /// The write queue has a delayed value that `core` commits. True if it was the last.
    pub(super) fn left(&mut self, core: usize) -> bool {
        self.leaving[core] -= 1;
        self.leaving[core] == 0
    }

    /// The power fails: the safe values go over what was written early.
    pub(super) fn restore(&self, image: &mut [LineData]) {
        for record in self.records.iter().filter(|record| record.is_undo) {
            if let Some(data) = record.data {
                image[record.line as usize] = data;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LINE: LineId = 1;

    /// A table beside one line of memory, as a controller uses it.
    struct Rig {
        table: Table,
        memory: LineData,
    }

    impl Rig {
        fn new(size: usize) -> Rig {
            Rig { table: Table::new(size, 8, Flaw::None), memory: [0; 8] }
        }

        /// The epoch of core `value` writes its number.
        fn flush(&mut self, value: usize, is_early: bool) -> Taken {
            let taken = self.table.take(LINE, epoch(value), [value as u64; 8], is_early);
            if taken == Taken::AfterRead {
                self.table.remember(LINE, self.memory);
            }
            if matches!(taken, Taken::AfterRead | Taken::Written) {
                self.memory = [value as u64; 8];
            }
            taken
        }

        fn commit(&mut self, value: usize) {
            for (_, data) in self.table.commit(epoch(value)) {
                self.memory = data;
                self.table.left(value);
            }
        }

        fn after_crash(&self) -> u64 {
            let mut image = [[9; 8], self.memory];
            self.table.restore(&mut image);
            image[1][0]
        }
    }

    fn epoch(core: usize) -> Source {
        Source { core, epoch: 5 }
    }

    #[test]
    fn in_whatever_order_three_epochs_come_a_crash_leaves_the_last_committed() {
        for order in [[1, 2, 3], [1, 3, 2], [2, 1, 3], [2, 3, 1], [3, 1, 2], [3, 2, 1]] {
            let mut rig = Rig::new(3);
            for value in order {
                assert_ne!(rig.flush(value, true), Taken::Refused);
                assert_eq!(rig.after_crash(), 0, "{order:?}");
            }
            for value in 1..=3 {
                rig.commit(value);
                assert_eq!(rig.after_crash(), value as u64, "{order:?}");
            }
            assert_eq!(rig.memory, [3; 8], "{order:?}");
            assert!(rig.table.records.is_empty());
        }
    }

    #[test]
    fn a_safe_flush_behind_an_early_one_becomes_what_a_crash_restores() {
        let mut rig = Rig::new(1);
        assert_eq!(rig.flush(2, true), Taken::AfterRead);
        assert_eq!(rig.flush(1, false), Taken::Kept);
        assert_eq!((rig.after_crash(), rig.memory[0]), (1, 2));
        rig.commit(2);
        assert_eq!(rig.after_crash(), 2);
        assert_eq!(rig.flush(3, false), Taken::Written);
    }

    #[test]
    fn a_safe_value_that_comes_while_the_old_one_is_read_is_newer_than_that() {
        let mut table = Table::new(1, 8, Flaw::None);
        assert_eq!(table.take(LINE, epoch(2), [2; 8], true), Taken::AfterRead);
        assert_eq!(table.take(LINE, epoch(1), [1; 8], false), Taken::Kept);
        table.remember(LINE, [0; 8]);
        let mut image = [[2; 8]; 2];
        table.restore(&mut image);
        assert_eq!(image[1], [1; 8]);
    }

    #[test]
    fn a_full_table_refuses_what_is_early_and_nothing_else() {
        let mut rig = Rig::new(2);
        rig.flush(1, true);
        rig.flush(2, true);
        assert_eq!(rig.flush(3, true), Taken::Refused);
        assert_eq!(rig.flush(2, true), Taken::Kept, "it has its record");
        assert_eq!(rig.flush(1, true), Taken::Written, "memory has its value");
        rig.commit(1);
        assert_eq!(rig.table.commit(epoch(2)), [(LINE, [2; 8])]);
        rig.table.size = 1;
        assert_eq!(rig.flush(3, true), Taken::Refused, "the value has not left its record");
        assert!(rig.table.left(2));
        assert_eq!(rig.flush(3, true), Taken::AfterRead);
    }
}
