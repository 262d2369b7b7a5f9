//! Making a record shorter that its log does not hold, so that a transaction which frees much needs
//! no room in a pool that may have none.
//!
//! What the transaction has changed in objects that it frees need not be logged. And a chunk of
//! which it frees all that is in use becomes free as a whole: one entry stands for the states of
//! its blocks. The session owns such a chunk meanwhile, so that no other one takes blocks of it.

use super::ranges::Ranges;
use super::record::{Builder, Entries, Entry};
use crate::Session;
use crate::alloc::block::Kind;
use crate::alloc::chunk::Chunk;
use crate::alloc::size_class::{CHUNK_BYTES, Class};
use rustc_hash::FxHashSet;
use seawall_memory::Memory;
use std::collections::{BTreeMap, BTreeSet};

/// A chunk that is empty once the transaction has committed.
pub(super) struct Emptied {
    chunk: u64,
    class: Class,
}

impl<M: Memory> Session<'_, M> {
    /// Takes out of a record what it says of objects that the transaction frees.
    pub(super) fn drop_freed(&self, record: &mut Builder) {
        if self.heap.layout.numbers.moves {
            return;
        }
        let mut freed = Ranges::default();
        for block in &self.buffers.freed {
            freed.add(block.at, block.end());
        }
        rebuild(record, &Parts { data: &freed, all: &Ranges::default() }, |_| ());
    }

    /// Takes out of a record the states of chunks that the transaction empties, which it then frees
    /// as a whole; to be [settled](Session::settle) when it is known whether it has committed.
    pub(super) fn drop_states(&mut self, record: &mut Builder) -> Vec<Emptied> {
        let emptied = self.claim_emptied();
        let layout = self.heap.layout;
        let mut chunks = Ranges::default();
        for Emptied { chunk, .. } in &emptied {
            chunks.add(layout.chunk(*chunk), layout.chunk(chunk + 1));
        }
        rebuild(record, &Parts { data: &chunks, all: &chunks }, |record| {
            for Emptied { chunk, .. } in &emptied {
                let entry = layout.chunk_entry(*chunk);
                record.push_word(entry, Chunk::Run(1).encode(entry));
                record.push_freed(layout.chunk(*chunk), CHUNK_BYTES);
            }
        });
        emptied
    }

    /// Makes this session own chunks of which the transaction frees all that is in use, and forget
    /// their free blocks.
    fn claim_emptied(&mut self) -> Vec<Emptied> {
        if self.heap.layout.numbers.moves {
            return Vec::new();
        }
        let taken: FxHashSet<u64> = self.buffers.taken.iter().map(|block| block.chunk).collect();
        let mut freed: BTreeMap<u64, (Class, u64)> = BTreeMap::new();
        for block in self.buffers.freed.iter().filter(|block| !taken.contains(&block.chunk)) {
            if let Kind::Small(class) = block.kind {
                freed.entry(block.chunk).or_insert((class, 0)).1 += 1;
            }
        }
        freed.retain(|chunk, (class, count)| {
            let is_emptied = |session: &Self| session.count_live(*chunk, *class) == *count;
            is_emptied(self) && self.claim(*chunk, *class, is_emptied)
        });
        self.blocks.claimed = freed.keys().copied().collect();
        let classes: BTreeSet<Class> = freed.values().map(|(class, _)| *class).collect();
        classes.into_iter().for_each(|class| self.forget_claimed(class));
        freed.into_iter().map(|(chunk, (class, _))| Emptied { chunk, class }).collect()
    }

    /// The number of blocks of the chunk that are in use.
    fn count_live(&self, chunk: u64, class: Class) -> u64 {
        let mut states = vec![0; class.blocks() as usize];
        self.memory.read(self.heap.layout.chunk(chunk), &mut states);
        states.iter().filter(|state| **state != 0).count() as u64
    }

    /// Gives up the claimed chunks: they are free if the transaction `is_good`.
    pub(super) fn settle(&mut self, emptied: &[Emptied], is_good: bool) {
        let claimed = std::mem::take(&mut self.blocks.claimed);
        for Emptied { chunk, class } in emptied {
            if is_good {
                self.put_run(*chunk, 1);
            } else {
                self.unclaim(*chunk, *class);
            }
        }
        if is_good && !emptied.is_empty() {
            self.buffers.freed.retain(|block| !claimed.contains(&block.chunk));
        }
    }
}

/// What a record need not say: of these bytes, which values they get, or anything.
struct Parts<'a> {
    data: &'a Ranges,
    all: &'a Ranges,
}

/// Copies a record without these parts; `add` adds to what is to be stored.
fn rebuild(record: &mut Builder, but: &Parts<'_>, add: impl FnOnce(&mut Builder)) {
    let mut rest = Builder::default();
    rest.clear();
    let (to_store, stored) = record.to_store_and_stored();
    copy(to_store, but, &mut rest);
    add(&mut rest);
    if stored.count() > 0 {
        rest.mark_stored();
        copy(stored, but, &mut rest);
    }
    *record = rest;
}

fn copy(entries: Entries<'_>, but: &Parts<'_>, into: &mut Builder) {
    for entry in entries {
        match entry {
            Entry::Words(at, values) => {
                let bytes = values.as_flattened();
                but.data.missing(at, at.plus(bytes.len() as u64), |from, to| {
                    let [from_byte, to_byte] =
                        [from, to].map(|it| (it.bits() - at.bits()) as usize);
                    into.push_words(from, &bytes[from_byte..to_byte]);
                    into.close();
                });
            }
            Entry::Bytes(at, ..) if but.data.overlaps(at, at.plus(8)) => {}
            Entry::Freed(at, _) if but.all.overlaps(at, at.plus(8)) => {}
            other => into.push_entry(other),
        }
    }
}
