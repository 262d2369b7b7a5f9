//! The volatile half of an application: a front end that receives requests and sends responses.
//!
//! Programs with persistent memory access it rarely: 0.4 to 9 per cent of their accesses in WHISPER
//! (ASPLOS'17, section 5); the others go to DRAM, and nearly all of them hit. Here a front end
//! makes those others: a message buffer in which a request arrives and is parsed and a response is
//! built, the stack of the functions that handle it, and a table of sessions, statistics and the
//! like. Each thread has its own, so no line of it is shared. An application sets the number of
//! function calls per operation ([`Client::calls`]), chosen such that its share of accesses to
//! persistent memory is about the published one. There are three instructions per access, the
//! access included, as in the programs of `validation/programs.md`; their cost depends on the
//! machine (`core.parallelism`).
//!
//! None of it survives a crash; it starts from zeroed DRAM.

use seawall_memory::{Addr, LINE_BYTES, Memory, MemoryExt};
use seawall_runtime::Arena;

/// Lines of a thread's stack.
const STACK_LINES: u64 = 64;
/// Words that a call saves when it begins and restores when it ends.
const SAVED: u64 = 6;
/// Loads of arguments and local variables per call, and stores to them.
const LOCAL_LOADS: u64 = 7;
const LOCAL_STORES: u64 = 2;
/// Words of the table that a call reads; it may write one of them.
const PROBED: u64 = 2;
/// One call in this number writes to the table.
const UPDATES: u64 = 4;
/// The greatest depth of nested calls.
const DEPTH: u64 = 24;
/// The longest message, in bytes.
const MESSAGE_BYTES: u64 = 2048;
const MESSAGE_LINES: u64 = MESSAGE_BYTES / LINE_BYTES;
/// Lines of each thread's table: 128 KiB, more than a first-level cache, for a few misses.
const TABLE_LINES: u64 = 2048;
/// Instructions beside each access.
const INSTRUCTIONS: u32 = 2;
/// Bytes of DRAM of each thread.
const STRIDE: u64 = (MESSAGE_LINES + STACK_LINES + TABLE_LINES) * LINE_BYTES;

/// The front ends of all threads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Client {
    first: Addr,
    threads: u64,
}

/// The addresses of the calling thread's parts.
struct Own {
    message: Addr,
    stack: Addr,
    table: Addr,
}

fn mix(hash: u64, word: u64) -> u64 {
    (hash.rotate_left(23) ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

impl Client {
    /// The mean number of loads and stores of one call.
    pub(crate) const CALL_ACCESSES: u64 = 2 * SAVED + LOCAL_LOADS + LOCAL_STORES + PROBED;

    /// Places the front ends of `threads` threads in DRAM.
    pub(crate) fn place(arena: &mut Arena, threads: u64) -> Client {
        Client { first: arena.dram(threads * STRIDE), threads }
    }

    fn own<M: Memory>(&self, memory: &M) -> Own {
        let thread = memory.thread() as u64;
        assert!(thread < self.threads, "thread {thread} in a pool for {}", self.threads);
        let message = self.first.plus(thread * STRIDE);
        let stack = message.plus(MESSAGE_LINES * LINE_BYTES);
        Own { message, stack, table: stack.plus(STACK_LINES * LINE_BYTES) }
    }

    fn words(&self, bytes: u64) -> u64 {
        assert!(bytes <= MESSAGE_BYTES, "a message of {bytes} bytes");
        bytes.div_ceil(8)
    }

    fn work<M: Memory>(&self, memory: &M, accesses: u64) {
        memory.work(accesses as u32 * INSTRUCTIONS);
    }

    /// A request of `bytes` bytes for `key` arrives and is parsed; returns its hash. Two accesses
    /// for each word, and half an access for its tokens.
    ///
    /// # Panics
    /// If it is longer than the longest message.
    #[track_caller]
    pub(crate) fn request<M: Memory>(&self, memory: &M, key: u64, bytes: u64) -> u64 {
        let (own, words) = (self.own(memory), self.words(bytes));
        for word in 0..words {
            memory.store(own.message.plus(8 * word), mix(key, word));
        }
        let mut hash = key;
        for word in 0..words {
            hash = mix(hash, memory.load(own.message.plus(8 * word)));
            if word % 2 == 0 {
                memory.store(own.stack.plus(8 * (word / 2 % (8 * STACK_LINES))), hash);
            }
        }
        self.work(memory, 2 * words + words / 2);
        hash
    }

    /// Handles the request with `hash` in `count` function calls, nested up to the greatest depth:
    /// each saves registers, works on its arguments, probes the table, and restores the registers.
    #[track_caller]
    pub(crate) fn calls<M: Memory>(&self, memory: &M, hash: u64, count: u64) {
        let own = self.own(memory);
        let mut hash = hash;
        for call in 0..count {
            hash = mix(hash, call);
            let depth = match call / DEPTH % 2 {
                0 => call % DEPTH,
                _ => DEPTH - 1 - call % DEPTH,
            };
            let frame = own.stack.plus(depth * 2 * LINE_BYTES);
            for word in 0..SAVED {
                memory.store(frame.plus(8 * word), hash ^ word);
            }
            for local in 0..LOCAL_LOADS {
                hash ^= memory.load::<u64>(frame.plus(8 * (SAVED + local)));
                if local < LOCAL_STORES {
                    memory.store(frame.plus(8 * (SAVED + local)), hash);
                }
            }
            hash = mix(hash, self.probe(memory, own.table, hash));
            for word in (0..SAVED).rev() {
                hash ^= memory.load::<u64>(frame.plus(8 * word));
            }
            self.work(memory, Client::CALL_ACCESSES);
        }
    }

    /// Probes the line of the table for `hash`. Lines near its start are probed most often, as the
    /// busiest sessions and counters of a program are.
    fn probe<M: Memory>(&self, memory: &M, table: Addr, hash: u64) -> u64 {
        let lines = TABLE_LINES;
        let (near, far) = (hash >> 40 & 0xfff, hash >> 8 & 0xff_ffff);
        let range = if near.is_multiple_of(8) { lines } else { lines.div_ceil(16) };
        let line = table.plus(far % range * LINE_BYTES);
        let place = line.plus(8 * (hash % 8));
        let found = memory.load::<u64>(line).wrapping_add(memory.load(place));
        if hash >> 52 & (UPDATES - 1) == 0 {
            memory.store(place, found.wrapping_add(1));
        }
        found
    }

    /// Builds and sends a response of `bytes` bytes with `value`: two accesses for each word.
    ///
    /// # Panics
    /// If it is longer than the longest message.
    #[track_caller]
    pub(crate) fn respond<M: Memory>(&self, memory: &M, value: u64, bytes: u64) {
        let (own, words) = (self.own(memory), self.words(bytes));
        for word in 0..words {
            memory.store(own.message.plus(8 * word), value ^ word);
        }
        for word in 0..words {
            memory.load::<u64>(own.message.plus(8 * word));
        }
        self.work(memory, 2 * words);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use seawall_memory::{Image, Width, layer};
    use std::cell::RefCell;
    use std::collections::BTreeSet;

    /// The memory of a thread that records which DRAM words are accessed.
    struct Noting {
        image: Image,
        thread: usize,
        accesses: RefCell<Vec<Addr>>,
    }

    impl layer::Layer for Noting {
        type Below = Image;
        const WORD_BY_WORD: bool = true;

        fn below(&self) -> &Image {
            &self.image
        }

        fn thread(&self) -> usize {
            self.thread
        }
        fn load_bits(&self, at: Addr, width: Width) -> u64 {
            self.accesses.borrow_mut().push(at);
            self.image.load_bits(at, width)
        }
        fn store_bits(&self, at: Addr, width: Width, value: u64) {
            self.accesses.borrow_mut().push(at);
            self.image.store_bits(at, width, value);
        }
    }

    fn run(thread: usize, key: u64) -> Vec<Addr> {
        let mut arena = Arena::new();
        let client = Client::place(&mut arena, 2);
        let image = Image::new(arena.pm_bytes(), arena.dram_bytes());
        let memory = Noting { image, thread, accesses: RefCell::default() };
        let hash = client.request(&memory, key, 100);
        client.calls(&memory, hash, 400);
        client.respond(&memory, hash, 200);
        memory.accesses.into_inner()
    }

    #[test]
    fn it_makes_as_many_accesses_as_it_says_none_of_them_to_persistent_memory() {
        let accesses = run(0, 7);
        assert!(accesses.iter().all(|at| !at.is_pm()));
        let expected = 2 * 13 + 7 + 400 * Client::CALL_ACCESSES + 2 * 25;
        let (low, high) = (expected, expected + 400 / 2);
        assert!((low..high).contains(&(accesses.len() as u64)), "{} {expected}", accesses.len());
        assert_eq!(accesses, run(0, 7), "the same request does the same");
        assert_ne!(accesses, run(0, 8));
    }

    #[test]
    fn threads_share_no_line() {
        let lines = |thread| run(thread, 3).iter().map(|at| at.line()).collect::<BTreeSet<_>>();
        assert!(lines(0).is_disjoint(&lines(1)));
    }
}
