//! x86-TSO and its persistency as views: what `px86` and `eadr` share.
//!
//! After Cho, Lee, Raad, Kang, "Revamping Hardware Persistency Models" (PLDI'21): memory is a list
//! of stores in TSO order, and a thread is what it knows of that list, as places in it:
//!
//! - `coherent`, for each word: the newest store to it that the thread made or read;
//! - `new`: a later load returns nothing that is overwritten before this place;
//! - `ready`: what a later write-back is known to come after;
//! - `debts`, for each line: what will have persisted after the next fence.
//!
//! A load returns any store to its word that is not overwritten before `coherent` or `new`: so the
//! delay of store buffers shows without buffers.

use super::Target;
use super::threads::PerThread;
use crate::words::LineIndex;
use rustc_hash::FxHashMap;
use std::collections::BTreeMap;

/// A place in memory's list of stores: how many there are up to and including one.
pub(crate) type Place = u32;

#[derive(Clone, Default)]
struct Thread {
    coherent: FxHashMap<u32, Place>,
    /// The largest of `coherent`, for each line and in all.
    line: FxHashMap<LineIndex, Place>,
    most: Place,
    new: Place,
    ready: Place,
    debts: BTreeMap<LineIndex, Place>,
}

#[derive(Clone, Default)]
pub(super) struct Views {
    threads: PerThread<Thread>,
    stores: Place,
    /// For each line what persists in order of it: itself or its words, with the places of their
    /// stores.
    lines: FxHashMap<LineIndex, Vec<(LineIndex, Vec<Place>)>>,
    /// The newest store to each word.
    newest: FxHashMap<u32, Place>,
}

impl Thread {
    fn sees(&mut self, line: LineIndex, word: u32, place: Place) {
        raise(self.coherent.entry(word).or_default(), place);
        raise(self.line.entry(line).or_default(), place);
        raise(&mut self.most, place);
    }
}

fn raise(place: &mut Place, to: Place) {
    *place = (*place).max(to);
}

impl Views {
    pub(super) fn store(&mut self, thread: u16, target: Target) {
        let Target { line, log, word, .. } = target;
        self.stores += 1;
        let place = self.stores;
        let logs = self.lines.entry(line).or_default();
        match logs.iter_mut().find(|(known, _)| *known == log) {
            Some((_, places)) => places.push(place),
            None => logs.push((log, vec![place])),
        }
        self.newest.insert(word, place);
        self.threads.of(thread).sees(line, word, place);
    }

    /// The thread reads the store at `from`, or the newest one.
    pub(super) fn load(&mut self, thread: u16, line: LineIndex, word: u32, from: Option<Place>) {
        let place = from.or(self.newest.get(&word).copied()).unwrap_or(0);
        let view = self.threads.of(thread);
        if view.coherent.get(&word).copied().unwrap_or(0) != place {
            raise(&mut view.new, place);
            raise(&mut view.ready, place);
        }
        view.sees(line, word, place);
    }

    /// The thread learns, by other memory, of all that was stored up to `place`.
    pub(super) fn learn(&mut self, thread: u16, place: Place) {
        let view = self.threads.of(thread);
        raise(&mut view.most, place);
        raise(&mut view.new, place);
        raise(&mut view.ready, place);
    }

    /// `clwb` or `clflushopt`, and what a non-temporal store does besides storing.
    pub(super) fn write_back(&mut self, thread: u16, line: LineIndex) {
        let view = self.threads.of(thread);
        let seen = view.line.get(&line).copied().unwrap_or(0).max(view.ready);
        raise(view.debts.entry(line).or_default(), seen);
    }

    /// `clflush`: returns logs, each with the number of its stores that are durable now.
    pub(super) fn flush(&mut self, thread: u16, line: LineIndex) -> Vec<(LineIndex, u32)> {
        let seen = self.threads.of(thread).most;
        self.stores_up_to(line, seen).collect()
    }

    /// `sfence`: returns logs, each with the number of its stores that are durable now.
    pub(super) fn fence(&mut self, thread: u16) -> Vec<(LineIndex, u32)> {
        let view = self.threads.of(thread);
        view.ready = view.ready.max(view.most);
        let debts = std::mem::take(&mut view.debts);
        debts.into_iter().flat_map(|(line, place)| self.stores_up_to(line, place)).collect()
    }

    /// `mfence`, and a locked operation once it has stored, which `fence` the thread too: no later
    /// load is older, nor, after a locked operation, than the newest store of any thread.
    pub(super) fn full_fence(&mut self, thread: u16, locked: bool) {
        let newest = self.stores;
        let view = self.threads.of(thread);
        let place = if locked { newest } else { view.most };
        raise(&mut view.most, place);
        raise(&mut view.new, place);
        raise(&mut view.ready, place);
    }

    /// A load of the word by the thread returns no store that is overwritten before this place.
    pub(super) fn oldest(&self, thread: u16, word: u32) -> Place {
        let Some(view) = self.threads.get(thread) else { return 0 };
        view.coherent.get(&word).copied().unwrap_or(0).max(view.new)
    }

    fn stores_up_to(
        &self,
        line: LineIndex,
        place: Place,
    ) -> impl Iterator<Item = (LineIndex, u32)> + '_ {
        let logs = self.lines.get(&line).map_or(&[][..], |logs| logs);
        let stores = move |places: &[Place]| places.partition_point(|&at| at <= place) as u32;
        logs.iter().map(move |(log, places)| (*log, stores(places)))
    }
}
