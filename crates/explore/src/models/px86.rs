//! Px86 (Raad, Wickerson, Neiger, Vafeiadis, POPL'20) on sequentially consistent traces, in the
//! form of its views (Cho, Lee, Raad, Kang, PLDI'21).
//!
//! - The stores of a line persist in order; lines are independent of each other.
//! - A flush (clwb / clflushopt) remembers how many stores its line had then: a debt of the thread.
//! - A fence of the same thread (order, drain, a successful locked operation) pays its debts:
//!   those stores are durable from then on. A fence alone makes nothing durable, nor does a flush.
//! - So a line may keep any number of its stores between what is durable and what was stored.
//!
//! A locked operation that fails is a plain load: it pays no debts, as in PLDI'21. (Taken
//! as a fence, which the vendor's manual suggests, fewer images would be allowed.) Aligned stores
//! up to 8 bytes never tear; wider writes are several stores.
//!
//! Not modelled: store buffers, which only matter to two threads or more;
//! `clflush` with its own order, and non-temporal stores: the seam has no word for the first and
//! its default for the second is store + flush.

use super::{Cut, Family, Persistency, Visit, Window};
use crate::trace::{Event, Kind, LineIndex, Trace};
use std::collections::BTreeSet;

#[derive(Default)]
pub(super) struct Px86 {
    durable: Cut,
    stored: Cut,
    pending: BTreeSet<LineIndex>,
    debts: Vec<Vec<(LineIndex, u32)>>,
}

impl Px86 {
    fn debts(&mut self, thread: u16) -> &mut Vec<(LineIndex, u32)> {
        let thread = usize::from(thread);
        if self.debts.len() <= thread {
            self.debts.resize_with(thread + 1, Vec::new);
        }
        &mut self.debts[thread]
    }

    fn fence(&mut self, thread: u16) {
        for (line, stores) in std::mem::take(self.debts(thread)) {
            if stores > self.durable.get(line) {
                self.durable.set(line, stores);
                if stores == self.stored.get(line) {
                    self.pending.remove(&line);
                }
            }
        }
    }
}

impl Persistency for Px86 {
    fn follow(&mut self, trace: &Trace, event: &Event) {
        match event.kind {
            Kind::Order | Kind::Drain | Kind::Locked { .. } => self.fence(event.thread),
            Kind::Flush { line } if self.pending.contains(&line) => {
                let stores = self.stored.get(line);
                self.debts(event.thread).push((line, stores));
            }
            _ => {}
        }
        if let Some(store) = event.kind.store() {
            let line = trace.stores[store as usize].line;
            self.stored.set(line, self.stored.get(line) + 1);
            self.pending.insert(line);
        }
    }

    fn families(&self, _: usize, visit: &mut Visit<'_>) -> bool {
        let windows = self.pending.iter().map(|&line| {
            let (low, high) = (self.durable.get(line), self.stored.get(line));
            Window { line, low, high }
        });
        let family = Family { base: self.durable.clone(), windows: windows.collect() };
        let _ = visit(family);
        true
    }

    fn allows(&self, cut: &Cut) -> bool {
        let lines = self.stored.0.len().max(cut.0.len()) as u32;
        (0..lines)
            .all(|line| (self.durable.get(line)..=self.stored.get(line)).contains(&cut.get(line)))
    }
}
