//! What a run tells of its calls, for the search for other schedules.

use super::Traced;
use crate::access::{Access, Met, Use, shared_word};
use seawall_memory::Addr;
use std::ops::Range;

impl Traced<'_> {
    /// Records which word this call of the seam uses.
    pub(super) fn note_access(&self, at: Addr, does: Use) {
        self.note_access_behind(at, does, 0..0);
    }

    /// As [`note_access`](Self::note_access), for a load that could be so far behind.
    pub(super) fn note_access_behind(&self, at: Addr, does: Use, behind: Range<u32>) {
        let shared = &*self.shared;
        if shared.notes_accesses {
            let call = shared.calls();
            let (thread, word) = (self.thread as u16, at.bits() / 8);
            let others = shared.others(self.thread);
            let behind = (behind.start, behind.end);
            let mut trace = shared.trace.borrow_mut();
            let (returned, events) = (None, trace.events.len() as u32);
            let access = Access { call, thread, word, does, returned, events, others, behind };
            trace.accesses.push(access);
            let crossed = shared.crosses(self.thread, shared_word(at)).into_iter();
            trace.crossed.extend(crossed.map(|store| Met { store, call }));
        }
    }

    /// Records what the access that was noted last returned.
    pub(super) fn note_returned(&self, value: u64) {
        if self.shared.notes_accesses
            && let Some(last) = self.shared.trace.borrow_mut().accesses.last_mut()
        {
            last.returned = Some(value);
        }
    }
}

/// What a load does that was to return an older value, if one.
pub(super) fn load(older: Option<u64>) -> Use {
    older.map_or(Use::Load, |_| Use::LoadOlder)
}
