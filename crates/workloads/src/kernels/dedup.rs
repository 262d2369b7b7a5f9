//! Compression with removal of duplicates, with the sharing of PARSEC's "dedup" (Bienia et al.,
//! PACT'08): a pipeline of stages over shared queues, with a hash table in the middle.
//!
//! Stage 0 divides blocks of the input into chunks by their content; stage 1 hashes chunks and
//! finds duplicates; stage 2 compresses the others; stage 3, one thread, writes the output in the
//! order of the input. A thread starts at the stage of its number modulo four and continues with
//! the next when its stage is finished: so one thread is enough.
//!
//! The copy of a chunk that the table keeps depends on the schedule, but not the output: the first
//! copy in input order in full, the others by its number. The check compares the output, word by
//! word.
//!
//! In the pool: input, chunks, queues, table, the dictionary of each thread, compressed chunks and
//! output. Content is divided and compressed by words of 8 bytes.

use super::sync::{Team, lock, unlock};
use crate::{Counts, Damage, Input, Kernel, Mix, Words};
use seawall_memory::Memory;
use seawall_runtime::Arena;
use std::ops::RangeInclusive;

mod codec;
mod queue;

use codec::{Cutter, DICTIONARY, Hasher, Packer};
use queue::Queue;

const STAGES: u64 = 4;

/// Words of a block of the input, and the greatest number of its chunks.
const BLOCK: u64 = 4096;
const BLOCK_CHUNKS: u64 = BLOCK / Cutter::LEAST + 1;

/// Words of a chunk, and offsets.
const CHUNK: u64 = 8;
const START: u64 = 0;
const LENGTH: u64 = 1;
const HASH: u64 = 2;
/// The next chunk in its bucket.
const NEXT: u64 = 3;
/// The chunk with the same content that the table keeps, once known.
const KEPT: u64 = 4;
/// Its compressed words, once it is compressed.
const PACKED: u64 = 5;
/// Its number in the output, once written.
const WRITTEN: u64 = 6;

/// Words of a bucket: its lock and its first chunk.
const BUCKET: u64 = 2;

/// The bit of an output word that announces a chunk; the other bits are its length.
const FULL: u64 = 1 << 63;

/// The pipeline.
#[derive(Clone, Copy, Debug)]
pub struct Dedup {
    team: Team,
    words: u64,
    blocks: u64,
    input: Words,
    /// Blocks taken by stage 0, whether stage 3 is taken, and the number of threads that left each
    /// stage.
    counters: Words,
    chunks: Words,
    /// The number of chunks of each block, plus one, once it is divided.
    cut: Words,
    queues: [Queue; 2],
    buckets: Words,
    dictionaries: Words,
    packed: Words,
    output: Words,
}

/// Indices into `counters`, a line each.
const BLOCKS_TAKEN: u64 = 0;
const WRITER_TAKEN: u64 = 8;
const LEFT: u64 = 16;

impl Dedup {
    fn chunk(&self, chunk: u64) -> Words {
        self.chunks.part(chunk * CHUNK..(chunk + 1) * CHUNK)
    }

    /// Threads that take part in `stage`: those that start there or before.
    fn members(&self, stage: u64) -> u64 {
        (0..self.team.threads()).filter(|thread| thread % STAGES <= stage).count() as u64
    }

    /// Leaves `stage`; the last thread to leave closes the queue of the next.
    fn leave<M: Memory>(&self, memory: &M, stage: u64) {
        let left = self.counters.claim(memory, LEFT + 8 * stage, 1);
        if left + 1 == self.members(stage) {
            for _ in 0..self.members(stage + 1) {
                self.queues[stage as usize].close(memory);
            }
        }
    }

    fn cut_blocks<M: Memory>(&self, memory: &M) {
        loop {
            let block = self.counters.claim(memory, BLOCKS_TAKEN, 1);
            if block >= self.blocks {
                return;
            }
            let end = self.words.min((block + 1) * BLOCK);
            let (mut cutter, mut start, mut count) = (Cutter::default(), block * BLOCK, 0);
            for place in block * BLOCK..end {
                let is_last = cutter.cuts_after(self.input.get(memory, place));
                memory.work(6);
                if is_last || place + 1 == end {
                    let id = block * BLOCK_CHUNKS + count;
                    let chunk = self.chunk(id);
                    chunk.put(memory, START, start);
                    chunk.put(memory, LENGTH, place + 1 - start);
                    self.queues[0].push(memory, id);
                    (start, count) = (place + 1, count + 1);
                }
            }
            self.cut.put(memory, block, count + 1);
        }
    }

    /// The chunk of the same content that the table keeps: the chunk itself, if it is the first.
    fn find<M: Memory>(&self, memory: &M, id: u64) -> u64 {
        let chunk = self.chunk(id);
        let (start, length) = (chunk.get(memory, START), chunk.get(memory, LENGTH));
        let mut hasher = Hasher::default();
        for place in start..start + length {
            hasher.add(self.input.get(memory, place));
            memory.work(6);
        }
        let hash = hasher.hash();
        chunk.put(memory, HASH, hash);
        let bucket = hash % (self.buckets.count() / BUCKET) * BUCKET;
        lock(memory, self.buckets.at(bucket));
        let first = self.buckets.get(memory, bucket + 1);
        let mut next = first;
        let kept = loop {
            let Some(other) = next.checked_sub(1) else {
                chunk.put(memory, NEXT, first);
                self.buckets.put(memory, bucket + 1, id + 1);
                break id;
            };
            memory.work(4);
            let same = self.chunk(other);
            if same.get(memory, HASH) == hash && same.get(memory, LENGTH) == length {
                break other;
            }
            next = same.get(memory, NEXT);
        };
        unlock(memory, self.buckets.at(bucket));
        chunk.put(memory, KEPT, kept + 1);
        kept
    }

    fn pack<M: Memory>(&self, memory: &M, id: u64) {
        let chunk = self.chunk(id);
        let (start, length) = (chunk.get(memory, START), chunk.get(memory, LENGTH));
        let own = memory.thread() as u64 * DICTIONARY;
        let dictionary = self.dictionaries.part(own..own + DICTIONARY);
        let (mut packer, to) = (Packer::default(), 2 * start);
        let mut count = 0;
        let mut put = |word| {
            self.packed.put(memory, to + count, word);
            count += 1;
        };
        for place in 0..length {
            let word = self.input.get(memory, start + place);
            let slot = Packer::slot(word);
            let seen = dictionary.get(memory, slot);
            memory.work(8);
            let mut earlier = None;
            if let Some(seen) = seen.checked_sub(start + 1).filter(|seen| *seen < place) {
                earlier = (self.input.get(memory, start + seen) == word).then_some(seen);
            }
            dictionary.put(memory, slot, start + place + 1);
            packer.add(word, earlier, &mut put);
        }
        packer.finish(&mut put);
        chunk.put(memory, PACKED, count);
    }

    fn write<M: Memory>(&self, memory: &M) {
        let (mut to, mut written) = (1, 0);
        let mut put = |word| {
            self.output.put(memory, to, word);
            to += 1;
        };
        for block in 0..self.blocks {
            let count = memory.spin_while(self.cut.at(block), 0) - 1;
            for id in block * BLOCK_CHUNKS..block * BLOCK_CHUNKS + count {
                let kept = memory.spin_while(self.chunk(id).at(KEPT), 0) - 1;
                let chunk = self.chunk(kept);
                let number = chunk.get(memory, WRITTEN);
                memory.work(8);
                if number != 0 {
                    put(number);
                    continue;
                }
                let packed = memory.spin_while(chunk.at(PACKED), 0);
                put(packed | FULL);
                let from = 2 * chunk.get(memory, START);
                for place in from..from + packed {
                    put(self.packed.get(memory, place));
                    memory.work(2);
                }
                written += 1;
                chunk.put(memory, WRITTEN, written);
            }
        }
        self.output.put(memory, 0, to - 1);
    }

    fn run_stage<M: Memory>(&self, memory: &M, stage: u64) {
        match stage {
            0 => self.cut_blocks(memory),
            1 => {
                while let Some(id) = self.queues[0].pop(memory) {
                    if self.find(memory, id) == id {
                        self.queues[1].push(memory, id);
                    }
                }
            }
            2 => {
                while let Some(id) = self.queues[1].pop(memory) {
                    self.pack(memory, id);
                }
            }
            _ => {
                if self.counters.claim(memory, WRITER_TAKEN, 1) == 0 {
                    self.write(memory);
                }
                return;
            }
        }
        if stage < 2 {
            self.leave(memory, stage);
        }
    }
}

impl Kernel for Dedup {
    const NAME: &'static str = "dedup";
    const ABOUT: &'static str = "pipeline with a shared hash table: cut, find, compress, write";
    const UNIT: &'static str = "KiB of input";
    const SIZE: u64 = 4 << 10;
    const QUICK: u64 = 768;
    const SMALL: u64 = 80;
    const SIZES: RangeInclusive<u64> = 1..=1 << 22;
    const MIX: Mix = Mix {
        program: "PARSEC's dedup, 1 MB",
        run: Counts {
            instructions: 156_582_052,
            heap_stores: 30_013_435,
            stack_loads: 5_402_045,
            stack_stores: 3_118_800,
            per_1000: 58_000,
        },
        start: None,
        heap_lines: 242,
        stack_lines: 3,
        parallelism: 1330,
    };

    fn place(input: &Input, arena: &mut Arena) -> Dedup {
        let team = Team::place(input, arena, 1);
        let words = input.size * 128;
        let blocks = words.div_ceil(BLOCK);
        let chunks = blocks * BLOCK_CHUNKS;
        let slots = words / Cutter::LEAST + blocks + team.threads();
        let buckets = (words / Cutter::MEAN).next_power_of_two();
        Dedup {
            team,
            words,
            blocks,
            input: Words::place(arena, words),
            counters: Words::place(arena, LEFT + 8 * STAGES),
            chunks: Words::place(arena, chunks * CHUNK),
            cut: Words::place(arena, blocks),
            queues: [(); 2].map(|()| Queue::place(arena, slots)),
            buckets: Words::place(arena, buckets * BUCKET),
            dictionaries: Words::place(arena, DICTIONARY * team.threads()),
            packed: Words::place(arena, 2 * words),
            output: Words::place(arena, 2 * words + 1),
        }
    }

    fn fill<M: Memory>(&self, memory: &M) {
        for (place, word) in (0..).zip(codec::contents(&self.team.input, self.words)) {
            self.input.put(memory, place, word);
        }
    }

    fn run<M: Memory>(&self, memory: &M) {
        for stage in memory.thread() as u64 % STAGES..STAGES {
            self.run_stage(memory, stage);
        }
    }

    fn check<M: Memory>(&self, memory: &M) -> Result<(), Damage> {
        let contents = codec::contents(&self.team.input, self.words);
        let mut expected = codec::plain(&contents, BLOCK as usize, FULL);
        expected.insert(0, expected.len() as u64);
        expected.resize(self.output.count() as usize, 0);
        self.output.compare(memory, "word of the output", expected)
    }

    fn results(&self) -> Vec<Words> {
        vec![self.output]
    }
}
