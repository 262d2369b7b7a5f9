//! Non-temporal stores that have not been ordered yet: the write-combining buffers of a run.
//!
//! A non-temporal store may leave its thread's buffer for memory at any moment up to the next fence
//! or locked operation of the thread, and leaves before the thread itself loads or stores to the
//! line again (Raad, Maranget, Vafeiadis, "Extending Intel-x86 Consistency and Persistency",
//! POPL'22). In a run it leaves at once, unless it was chosen to stay until another thread has
//! looked for it.

use crate::site::Site;
use seawall_memory::{Addr, Line, Width};

/// A non-temporal store.
#[derive(Clone, Copy)]
pub(crate) struct Combined {
    pub(crate) thread: usize,
    pub(crate) operation: u32,
    pub(crate) at: Addr,
    pub(crate) width: Width,
    pub(crate) value: u64,
    pub(crate) caller: Site,
    /// The call that made it.
    call: u64,
    /// Whether it is in memory.
    has_left: bool,
}

/// The buffers of all threads.
pub(crate) struct Combining {
    stores: Vec<Combined>,
    /// The calls whose stores stay, each with the call after which it leaves.
    late: Vec<(u64, u64)>,
}

impl Combining {
    pub(crate) fn new(late: Vec<(u64, u64)>) -> Combining {
        Combining { stores: Vec::new(), late }
    }

    /// The thread makes a store; returns whether it leaves at once.
    pub(crate) fn store(&mut self, call: u64, store: CombinedStore) -> bool {
        let CombinedStore { thread, operation, at, width, value, caller } = store;
        let has_left = self.leaves_after(call).is_none();
        self.stores.push(Combined { thread, operation, at, width, value, caller, call, has_left });
        has_left
    }

    fn leaves_after(&self, call: u64) -> Option<u64> {
        self.late.iter().filter(|(of, _)| *of == call).map(|(_, past)| *past).max()
    }

    /// True if nothing has to be looked for.
    pub(crate) fn is_empty(&self) -> bool {
        self.stores.is_empty()
    }

    /// The stores that leave before this call, as their time has come.
    pub(crate) fn due(&mut self, call: u64) -> Vec<Combined> {
        let is_due = |late: &[(u64, u64)], store: &Combined| {
            let past = late.iter().filter(|(of, _)| *of == store.call).map(|(_, past)| *past);
            !store.has_left && past.max().is_none_or(|past| past < call)
        };
        let late = &self.late;
        let due = self.stores.iter_mut().filter(|store| is_due(late, store));
        due.map(|store| {
            store.has_left = true;
            *store
        })
        .collect()
    }

    /// The thread's stores, to the line if one is given, are ordered from now on; returns those
    /// that leave, and whether there were any.
    pub(crate) fn settle(&mut self, thread: usize, line: Option<Line>) -> (Vec<Combined>, bool) {
        let mine = |store: &Combined| {
            store.thread == thread && line.is_none_or(|line| store.at.line() == line)
        };
        let settled: Vec<Combined> = self.stores.iter().filter(|s| mine(s)).copied().collect();
        self.stores.retain(|store| !mine(store));
        let any = !settled.is_empty();
        (settled.into_iter().filter(|store| !store.has_left).collect(), any)
    }

    /// Another thread meets what has left, by an access to a word or a flush of a line: returns the
    /// calls whose stores could have stayed longer.
    pub(crate) fn met(&mut self, thread: usize, at: Addr, is_flush: bool) -> Vec<u64> {
        let meets = |store: &Combined| {
            let same = match is_flush {
                true => store.at.line() == at.line(),
                false => store.at.bits() / 8 == at.bits() / 8,
            };
            store.thread != thread && store.has_left && same
        };
        let met = self.stores.iter().filter(|store| meets(store)).map(|store| store.call).collect();
        if !is_flush {
            self.stores.retain(|store| !meets(store));
        }
        met
    }
}

/// What a thread stores.
pub(crate) struct CombinedStore {
    pub(crate) thread: usize,
    pub(crate) operation: u32,
    pub(crate) at: Addr,
    pub(crate) width: Width,
    pub(crate) value: u64,
    pub(crate) caller: Site,
}
