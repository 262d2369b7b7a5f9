//! The recovery table of a memory controller, which makes early writes recoverable.
//!
//! Memory holds at most one early value of each line: one that a crash must undo. While it does, an
//! *undo record* holds the newest safe value, and ADR writes it over the line when the power fails.
//! A further early value of a line that has a record waits in a *delay record*; a crash drops it.
//! The commit of an epoch frees its undo records, because its values can stay in memory, and moves
//! its delayed values to the place of the line's safe value: memory, or the undo record of a later
//! epoch. A value on its way into the write queue keeps its record, from which ADR would write it;
//! so a commit need not wait for the queue.

use super::Flaw;
use crate::LineId;
use crate::families::buffers::Source;
use crate::memory::versions::LineData;

/// The destination of a flush.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Taken {
    /// To memory.
    Written,
    /// To memory, when the old value has been read from there into a new undo record.
    AfterRead,
    /// Into a new delay record.
    Delayed,
    /// Into an existing record.
    Kept,
    /// Nowhere: no record is free.
    Refused,
}

/// The kind of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// Memory has the owner's early value; the record holds the safe one.
    Undo,
    /// The owner's value waits in the record.
    Delay,
    /// The owner has committed; the value is on its way into the write queue.
    Leaving,
}

#[derive(Clone, Copy, Debug)]
struct Record {
    id: u8,
    line: LineId,
    owner: Source,
    kind: Kind,
    /// `None` while the value is being read.
    data: Option<LineData>,
}

/// A write to memory by a commit; its record stays until [`Table::left`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Write {
    pub(super) id: u8,
    pub(super) line: LineId,
    pub(super) data: LineData,
}

/// The records of a controller, in the order of their creation.
pub(super) struct Table {
    records: Vec<Record>,
    free: Vec<u8>,
    flaw: Flaw,
}

impl Table {
    /// An empty table of `size` records.
    pub(super) fn new(size: usize, flaw: Flaw) -> Table {
        Table { records: Vec::new(), free: (0..size as u8).rev().collect(), flaw }
    }

    fn is_flaw(&self, flaw: Flaw) -> bool {
        self.flaw == flaw
    }

    fn undo(&mut self, line: LineId) -> Option<&mut Record> {
        self.records.iter_mut().find(|record| record.kind == Kind::Undo && record.line == line)
    }

    /// Removes and returns the records for which `goes` holds.
    fn remove(&mut self, goes: impl Fn(&Record) -> bool) -> Vec<Record> {
        let records = std::mem::take(&mut self.records);
        let (gone, rest): (Vec<_>, _) = records.into_iter().partition(goes);
        self.records = rest;
        self.free.extend(gone.iter().map(|record| record.id));
        gone
    }

    /// Handles a flush of `owner`, early or safe.
    pub(super) fn take(
        &mut self,
        line: LineId,
        owner: Source,
        data: LineData,
        is_early: bool,
    ) -> Taken {
        let is_live = |record: &&mut Record| record.line == line && record.kind != Kind::Leaving;
        let mut live = self.records.iter_mut().filter(is_live).peekable();
        let is_known = live.peek().is_some();
        if let Some(own) = live.find(|record| record.owner == owner) {
            if own.kind == Kind::Undo {
                return Taken::Written;
            }
            own.data = Some(data);
            return Taken::Kept;
        }
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
        if is_known && self.is_flaw(Flaw::SpeculatesTwice) {
            return Taken::Written;
        }
        let Some(id) = self.free.pop() else { return Taken::Refused };
        let (kind, data, taken) = match is_known {
            true => (Kind::Delay, Some(data), Taken::Delayed),
            false => (Kind::Undo, None, Taken::AfterRead),
        };
        self.records.push(Record { id, line, owner, kind, data });
        taken
    }

    /// Stores the old value of `line`, unless a safe one has replaced it meanwhile.
    pub(super) fn remember(&mut self, line: LineId, old: LineData) {
        if let Some(undo) = self.undo(line) {
            undo.data.get_or_insert(old);
        }
    }

    /// Removes the undo record of `owner` for `line`, too early.
    pub(super) fn forget(&mut self, line: LineId, owner: Source) {
        self.remove(|record| {
            record.kind == Kind::Undo && (record.line, record.owner) == (line, owner)
        });
    }

    /// Commits `owner`; returns the writes to memory that are due now.
    pub(super) fn commit(&mut self, owner: Source) -> Vec<Write> {
        let loses = self.is_flaw(Flaw::DelaysLost);
        self.remove(|record| record.owner == owner && (loses || record.kind == Kind::Undo));
        let mut writes = Vec::new();
        for at in 0..self.records.len() {
            let Record { id, line, owner: of, kind, data } = self.records[at];
            if of != owner || kind != Kind::Delay {
                continue;
            }
            match self.undo(line) {
                Some(undo) => undo.data = data,
                None => {
                    let data = data.expect("a delayed value is there from the start");
                    writes.push(Write { id, line, data });
                }
            }
        }
        // These values follow the ones that left before: a crash writes them in that order.
        for mut record in self.remove(|record| record.owner == owner) {
            if writes.iter().any(|write| write.id == record.id) {
                self.free.retain(|id| *id != record.id);
                record.kind = Kind::Leaving;
                self.records.push(record);
            }
        }
        writes
    }

    /// The write queue has accepted the value of record `id`.
    pub(super) fn left(&mut self, id: u8) {
        self.remove(|record| record.id == id);
    }

    /// The power fails: writes values that were on their way to memory, and the safe values over
    /// early writes.
    pub(super) fn restore(&self, image: &mut [LineData]) {
        for kind in [Kind::Leaving, Kind::Undo] {
            for record in self.records.iter().filter(|record| record.kind == kind) {
                if let Some(data) = record.data {
                    image[record.line as usize] = data;
                }
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
            Rig { table: Table::new(size, Flaw::None), memory: [0; 8] }
        }

        /// Flushes the number of core `value`, in an epoch of that core.
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
            for write in self.table.commit(epoch(value)) {
                self.memory = write.data;
                self.table.left(write.id);
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
    fn values_that_have_not_left_for_memory_are_restored_in_the_order_of_their_commits() {
        for order in [[1, 2, 3], [1, 3, 2], [2, 1, 3], [2, 3, 1], [3, 1, 2], [3, 2, 1]] {
            let mut rig = Rig::new(3);
            order.iter().for_each(|value| assert_ne!(rig.flush(*value, true), Taken::Refused));
            let mut writes = Vec::new();
            for value in 1..=3 {
                writes.extend(rig.table.commit(epoch(value)));
                assert_eq!(rig.after_crash(), value as u64, "{order:?}");
            }
            for write in writes {
                rig.memory = write.data;
                rig.table.left(write.id);
                assert_eq!(rig.after_crash(), 3, "{order:?}");
            }
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
        let mut table = Table::new(1, Flaw::None);
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
        let writes = rig.table.commit(epoch(2));
        assert_eq!(rig.after_crash(), 2, "it is committed, wherever it is");
        assert_eq!(rig.flush(3, true), Taken::AfterRead, "what leaves is memory's");
        assert_eq!(rig.flush(4, true), Taken::Refused, "it has not left");
        rig.table.left(writes[0].id);
        assert_eq!(rig.flush(4, true), Taken::Delayed);
    }
}
