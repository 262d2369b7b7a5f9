//! Non-temporal stores that have not been ordered yet: the write-combining buffers of a run.
//!
//! A non-temporal store may leave its thread's buffer for memory at any moment up to the next fence
//! or successful locked operation of the thread, and leaves before the thread itself stores to the
//! line past no buffer; of two to one word the older one leaves first (Raad, Maranget, Vafeiadis,
//! "Extending Intel-x86 Consistency and Persistency", POPL'22). A load of the thread gets what is
//! in the buffer, and makes nothing leave: "the protocol for evicting the WC buffers is
//! implementation dependent and should not be relied on by software" (Intel's manual, volume 3, at
//! the memory type WC). In a run a store leaves at once, unless it was chosen to stay until another
//! thread has looked for it.

use crate::site::Site;
use crate::wide::Part;
use seawall_memory::{Addr, Line};

/// A non-temporal store.
#[derive(Clone, Copy)]
pub(crate) struct Combined {
    pub(crate) thread: usize,
    pub(crate) operation: u32,
    /// The aligned word, the bits that it stores, and their values.
    pub(crate) at: Addr,
    pub(crate) mask: u64,
    pub(crate) value: u64,
    pub(crate) part: Part,
    pub(crate) caller: Site,
    /// The call that made it.
    call: u64,
    /// Whether it is in memory.
    has_left: bool,
}

impl Combined {
    fn word(&self) -> u64 {
        self.at.bits() / 8
    }
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

    /// The thread makes a store; returns what leaves at once.
    pub(crate) fn store(&mut self, call: u64, store: CombinedStore) -> Vec<Combined> {
        let CombinedStore { thread, operation, at, mask, value, part, caller } = store;
        let has_left = false;
        let store = Combined { thread, operation, at, mask, value, part, caller, call, has_left };
        self.stores.push(store);
        if self.leaves_after(call).is_some() {
            return Vec::new();
        }
        self.leave(&[self.stores.len() - 1])
    }

    /// These stores leave, each behind what its thread has stored to the word before.
    fn leave(&mut self, which: &[usize]) -> Vec<Combined> {
        let Some(&last) = which.last() else { return Vec::new() };
        let mut left = Vec::new();
        for at in 0..=last {
            let one = &self.stores[at];
            let leaves = which.iter().any(|&leaving| {
                let other = &self.stores[leaving];
                at <= leaving && one.thread == other.thread && one.word() == other.word()
            });
            if leaves && !one.has_left {
                self.stores[at].has_left = true;
                left.push(self.stores[at]);
            }
        }
        left
    }

    /// The bits of the word that the thread's buffer has, and their values.
    pub(crate) fn buffered(&self, thread: usize, at: Addr) -> (u64, u64) {
        let own = |store: &&Combined| {
            store.thread == thread && !store.has_left && store.word() == at.bits() / 8
        };
        let add = |(bits, values), store: &Combined| {
            (bits | store.mask, values & !store.mask | store.value)
        };
        self.stores.iter().filter(own).fold((0, 0), add)
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
        let all = self.stores.iter().enumerate();
        let due: Vec<usize> =
            all.filter(|(_, store)| is_due(&self.late, store)).map(|(at, _)| at).collect();
        self.leave(&due)
    }

    /// The thread's stores, to the line if one is given, are ordered from now on; returns those
    /// that leave.
    pub(crate) fn settle(&mut self, thread: usize, line: Option<Line>) -> Vec<Combined> {
        let mine = |store: &Combined| {
            store.thread == thread && line.is_none_or(|line| store.at.line() == line)
        };
        let settled: Vec<Combined> = self.stores.iter().filter(|s| mine(s)).copied().collect();
        self.stores.retain(|store| !mine(store));
        settled.into_iter().filter(|store| !store.has_left).collect()
    }

    /// Another thread meets what has left, by an access to a word or a flush of a line: returns the
    /// calls whose stores could have stayed longer.
    pub(crate) fn met(&mut self, thread: usize, at: Addr, is_flush: bool) -> Vec<u64> {
        let meets = |store: &Combined| {
            let same = match is_flush {
                true => store.at.line() == at.line(),
                false => store.word() == at.bits() / 8,
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
    pub(crate) mask: u64,
    pub(crate) value: u64,
    pub(crate) part: Part,
    pub(crate) caller: Site,
}
