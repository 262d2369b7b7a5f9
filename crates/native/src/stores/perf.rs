//! Samples of one thread, from the ring that `perf_event_open` shares with the kernel.
//!
//! The ring is one page of numbers and then records, whose places are counted without end: the
//! kernel puts them in at `head`, we take them out at `tail`. A record begins with a word of type
//! and length; of samples we ask for the address and for what accessed it. Whatever is in the ring
//! is taken for untrusted: what does not add up ends the reading, and the rest is dropped.

use crate::map::{Mapping, page_bytes};
use std::fs::File;
use std::io;
use std::os::fd::{FromRawFd, OwnedFd};
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};

/// Pages of records: as many as unprivileged programs get for a few threads.
const PAGES: u64 = 4;

/// In the first page, as words.
const HEAD: usize = 1024 / 8;
const TAIL: usize = 1032 / 8;
const DATA_OFFSET: usize = 1040 / 8;
const DATA_BYTES: usize = 1048 / 8;

/// `PERF_RECORD_SAMPLE`, and `PERF_SAMPLE_ADDR | PERF_SAMPLE_DATA_SRC`.
const SAMPLE: u32 = 9;
const SAMPLE_WORDS: u64 = 1 << 3 | 1 << 15;
/// Words of such a record: its head, the address, what accessed it.
const RECORD_WORDS: u64 = 3;
/// In the last of them: a store (`PERF_MEM_OP_STORE`).
const IS_STORE: u64 = 1 << 2;

/// Bits of `Attr::flags`.
pub(super) const EXCLUDE_KERNEL: u64 = 1 << 5;
pub(super) const EXCLUDE_HYPERVISOR: u64 = 1 << 6;
/// Two bits from here: how precise an address must be; 2 asks for the instruction itself.
pub(super) const PRECISE: u64 = 2 << 15;

/// `PERF_FLAG_FD_CLOEXEC`.
const CLOSE_ON_EXEC: libc::c_ulong = 8;

/// What to sample: `struct perf_event_attr` as far as its second version has it.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Attr {
    pub(super) kind: u32,
    pub(super) bytes: u32,
    pub(super) config: u64,
    pub(super) period: u64,
    pub(super) sample_words: u64,
    pub(super) read_format: u64,
    pub(super) flags: u64,
    pub(super) wakeup_events: u32,
    pub(super) breakpoint: u32,
    pub(super) config1: u64,
    pub(super) config2: u64,
}

/// The samples of one thread.
pub(super) struct Ring {
    mapping: Mapping,
    data: std::ops::Range<usize>,
    /// It ends when this is closed.
    _event: File,
}

impl Ring {
    /// Begins to sample thread `thread` of this process, 0 for the calling one.
    pub(super) fn of_thread(attr: &Attr, thread: i32) -> io::Result<Ring> {
        let bytes = size_of::<Attr>() as u32;
        let attr = Attr { bytes, sample_words: SAMPLE_WORDS, ..*attr };
        let (any_cpu, no_group) = (-1, -1);
        // SAFETY: the call reads as many bytes of `attr` as it says; what it returns is a file of
        // ours alone, or -1.
        let event = unsafe {
            let call = libc::SYS_perf_event_open;
            let file = libc::syscall(call, &attr, thread, any_cpu, no_group, CLOSE_ON_EXEC);
            match i32::try_from(file) {
                Ok(file @ 0..) => File::from(OwnedFd::from_raw_fd(file)),
                _ => return Err(io::Error::last_os_error()),
            }
        };
        let mapping = Mapping::of_file(&event, (1 + PAGES) * page_bytes())?;
        let words = page_bytes() as usize / 8;
        let mut ring = Ring { mapping, data: words..words * (1 + PAGES as usize), _event: event };
        let said = [DATA_OFFSET, DATA_BYTES].map(|at| ring.words()[at].load(Relaxed) as usize / 8);
        if said != [0, 0] {
            ring.data = said[0]..said[0] + said[1];
        }
        match ring.words().get(ring.data.clone()) {
            Some(data) if !data.is_empty() => Ok(ring),
            _ => Err(io::Error::other("the kernel names no place for its samples")),
        }
    }

    fn words(&self) -> &[AtomicU64] {
        let words = self.mapping.bytes() as usize / 8;
        // SAFETY: the mapping has `words` words, starts at a page and outlives the reference; the
        // kernel writes it, and so it is read by atomics alone.
        unsafe { std::slice::from_raw_parts(self.mapping.base().cast(), words) }
    }

    /// Shows the addresses sampled since the last call: all, or those of stores.
    pub(super) fn read(&self, only_stores: bool, mut found: impl FnMut(u64)) {
        let words = self.words();
        let (tail, head) = (words[TAIL].load(Relaxed), words[HEAD].load(Acquire));
        samples(&words[self.data.clone()], tail, head, |address, source| {
            if !only_stores || source & IS_STORE != 0 {
                found(address);
            }
        });
        words[TAIL].store(head, Release);
    }
}

/// The samples in `data` between the places `tail` and `head`, which are counted in bytes: address
/// and source of each. Ends at the first record that cannot be.
fn samples(data: &[AtomicU64], tail: u64, head: u64, mut found: impl FnMut(u64, u64)) {
    let word = |at: u64| data[(at % data.len() as u64) as usize].load(Relaxed);
    let (mut at, end) = (tail / 8, head / 8);
    if end.wrapping_sub(at) > data.len() as u64 {
        return;
    }
    while at < end {
        let record = word(at);
        let (kind, bytes) = (record as u32, record >> 48);
        let words = bytes / 8;
        if words == 0 || !bytes.is_multiple_of(8) || words > end - at {
            return;
        }
        if kind == SAMPLE && words == RECORD_WORDS {
            found(word(at + 1), word(at + 2));
        }
        at += words;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WORDS: usize = 16;

    fn header(kind: u32, bytes: u64) -> u64 {
        u64::from(kind) | 2 << 32 | bytes << 48
    }

    /// A ring in which records were put from `tail` on.
    fn ring(tail: u64, records: &[u64]) -> (Vec<AtomicU64>, u64) {
        let data: Vec<AtomicU64> = (0..WORDS).map(|_| AtomicU64::new(u64::MAX)).collect();
        for (at, word) in (tail / 8..).zip(records) {
            data[at as usize % WORDS].store(*word, Relaxed);
        }
        (data, tail + 8 * records.len() as u64)
    }

    fn found(data: &[AtomicU64], tail: u64, head: u64) -> Vec<(u64, u64)> {
        let mut all = Vec::new();
        samples(data, tail, head, |address, source| all.push((address, source)));
        all
    }

    #[test]
    fn samples_are_found_among_other_records() {
        let lost = [header(2, 24), 1, 99];
        let comm = [header(3, 16), 5];
        let one = [header(SAMPLE, 24), 0x1000, IS_STORE];
        let other = [header(SAMPLE, 24), 0x2040, 1 << 1];
        let records = [&one[..], &lost, &comm, &other].concat();
        let (data, head) = ring(0, &records);
        assert_eq!(found(&data, 0, head), [(0x1000, IS_STORE), (0x2040, 2)]);
        assert_eq!(found(&data, head, head), []);
    }

    #[test]
    fn records_go_on_at_the_beginning_of_the_ring() {
        let records = [header(SAMPLE, 24), 7, IS_STORE, header(SAMPLE, 24), 8, IS_STORE];
        for tail in (0..3 * WORDS as u64).map(|word| 8 * word) {
            let (data, head) = ring(tail, &records);
            assert_eq!(found(&data, tail, head), [(7, IS_STORE), (8, IS_STORE)], "{tail}");
        }
    }

    #[test]
    fn a_record_that_cannot_be_ends_the_reading_and_nothing_before_it_is_lost() {
        let good = [header(SAMPLE, 24), 7, IS_STORE];
        for bytes in [0, 4, 7, 23, 64, 0xfff8, 0xffff] {
            let bad = [header(SAMPLE, bytes), 8, IS_STORE, header(SAMPLE, 24), 9, IS_STORE];
            let (data, head) = ring(0, &[&good[..], &bad].concat());
            assert_eq!(found(&data, 0, head), [(7, IS_STORE)], "{bytes}");
        }
        let (data, head) = ring(0, &[header(SAMPLE, 16), 8, header(SAMPLE, 32), 1, 2, 3]);
        assert_eq!(found(&data, 0, head), [], "samples of another form are none of ours");
        let (data, head) = ring(0, &[&good[..], &good[..2]].concat());
        assert_eq!(found(&data, 0, head), [(7, IS_STORE)], "the last one is not whole");
    }

    #[test]
    fn places_that_cannot_be_give_nothing() {
        let (data, head) = ring(0, &[header(SAMPLE, 24), 7, IS_STORE]);
        for (tail, head) in [(head, 0), (0, 8 * WORDS as u64 + 8), (0, u64::MAX), (u64::MAX, 3)] {
            assert_eq!(found(&data, tail, head), [], "{tail} to {head}");
        }
    }

    #[test]
    fn any_words_in_the_ring_give_addresses_or_nothing() {
        let mut seed = 1u64;
        let mut random = || {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            seed >> 20
        };
        for _ in 0..10_000 {
            let words: Vec<u64> = (0..WORDS)
                .map(|_| if random() % 2 == 0 { header(SAMPLE, random() % 64) } else { random() })
                .collect();
            let tail = random() % 4096;
            let (data, head) = ring(tail, &words);
            assert!(found(&data, tail, head).len() <= WORDS / RECORD_WORDS as usize + 1);
        }
    }
}
