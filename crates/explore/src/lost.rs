//! Why a store may be lost, in words: how far its way to persistence was begun, and which
//! assumption of the model decides where a manual or a paper leaves it open.

use crate::crash::Crash;
use crate::finding::place;
use crate::models::order::Cut;
use crate::trace::{Event, Kind, Store, Trace};
use seawall_memory::Model;

/// Why the store, which `crash` lost, is not in the image.
pub(crate) fn way(trace: &Trace, store: &Store, crash: &Crash, model: Model) -> Option<String> {
    let way = Way { trace, store, until: crash.event };
    let torn = way.is_torn(&crash.cut).then(|| {
        "a word of a wide store, whose words persist in any order: no manual promises another"
            .to_owned()
    });
    let begun = match model {
        Model::Px86 => Some(way.on_x86()),
        Model::Eadr => way.in_buffer(),
        Model::Strict => None,
        _ => way.flushed_by_another(model),
    };
    let all: Vec<String> = torn.into_iter().chain(begun).collect();
    (!all.is_empty()).then(|| all.join("; "))
}

struct Way<'a> {
    trace: &'a Trace,
    store: &'a Store,
    /// Events before the crash.
    until: usize,
}

impl Way<'_> {
    fn since(&self) -> impl Iterator<Item = &Event> {
        self.trace.events[self.store.event as usize..self.until].iter()
    }

    fn kind(&self) -> Kind {
        self.trace.events[self.store.event as usize].kind
    }

    fn writer(&self) -> u16 {
        self.trace.events[self.store.event as usize].thread
    }

    fn is_of_line(&self, of: u32) -> bool {
        of == self.trace.line_of(self.store.line)
    }

    /// Whether the crash kept other words of the same write.
    fn is_torn(&self, cut: &Cut) -> bool {
        let mut rank = vec![0; self.trace.lines.len()];
        let stores = self.trace.events[..self.until].iter().filter_map(|event| event.kind.store());
        self.store.part.is_torn()
            && stores.map(|store| &self.trace.stores[store as usize]).any(|other| {
                let rank = &mut rank[other.line as usize];
                *rank += 1;
                other.part == self.store.part && *rank <= cut.get(other.line)
            })
    }

    fn on_x86(&self) -> String {
        if let Kind::StoreNt { .. } = self.kind() {
            return "past the caches, not durable by then".into();
        }
        let is_flush =
            |event: &&Event| matches!(event.kind, Kind::Flush { line } if self.is_of_line(line));
        let Some(flush) = self.since().find(is_flush) else { return "not flushed by then".into() };
        let begun = format!("flushed at {}, not durable by then", place(flush));
        let after = self.since().skip_while(|event| !std::ptr::eq(*event, flush));
        let is_failed = |event: &&Event| event.kind == Kind::Failed && event.thread == flush.thread;
        match after.into_iter().find(is_failed) {
            Some(failed) => format!(
                "{begun} (the compare-and-exchange at {} failed, and is taken to complete no \
                 flush)",
                place(failed)
            ),
            None => begun,
        }
    }

    fn in_buffer(&self) -> Option<String> {
        let is_nt = matches!(self.kind(), Kind::StoreNt { .. });
        is_nt.then(|| "past the caches, and no fence has emptied the buffer by then".into())
    }

    /// A thread that flushes what another one stored, and has not read it, on hardware that follows
    /// loads and stores and knows no flushes.
    fn flushed_by_another(&self, model: Model) -> Option<String> {
        let writer = self.writer();
        let meets = |event: &Event| match event.kind {
            Kind::Read { line, .. } => self.is_of_line(line),
            kind => kind.store().is_some_and(|store| {
                self.is_of_line(self.trace.line_of(self.trace.stores[store as usize].line))
            }),
        };
        let (at, flush) = self.since().enumerate().find(|(_, event)| {
            event.thread != writer
                && matches!(event.kind, Kind::Flush { line } if self.is_of_line(line))
        })?;
        let has_met = self.since().take(at).any(|e| e.thread == flush.thread && meets(e));
        (!has_met).then(|| {
            format!(
                "thread {} flushed its line at {}, which orders nothing under {model}: a barrier \
                 covers what its own thread stored, and what that has loaded of other threads, so \
                 load the data before",
                flush.thread,
                place(flush)
            )
        })
    }
}
