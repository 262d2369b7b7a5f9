//! Memory by its address, as C programs hand it over: written back, copied, filled, synced.
//!
//! A [`NativeMemory`](crate::NativeMemory) checks every range against its pool. A library that C
//! programs load has no pool to check against: the caller vouches for the range, as for `memcpy`.
//! Aligned words are never torn: a copy or a fill whose place and length are multiples of 8
//! consists of stores of at least 8 bytes. Nothing here waits; what was stored past the caches or
//! flushed is done after [`raw_fence`].

use crate::flush::{self, FlushKind};
use crate::map;
use seawall_memory::LINE_BYTES;
use std::io;

const LINE: usize = LINE_BYTES as usize;

/// The hints of `pmem_memcpy` and `pmemobj_memcpy`, which have the same numbers.
pub mod move_flags {
    /// Does not wait for what was flushed.
    pub const NO_DRAIN: u32 = 1 << 0;
    /// Past the caches.
    pub const NON_TEMPORAL: u32 = 1 << 1;
    /// Through the caches.
    pub const TEMPORAL: u32 = 1 << 2;
    /// As [`NON_TEMPORAL`].
    pub const WRITE_COMBINING: u32 = 1 << 3;
    /// As [`TEMPORAL`].
    pub const WRITE_BACK: u32 = 1 << 4;
    /// Does not flush.
    pub const NO_FLUSH: u32 = 1 << 5;
}

/// Whether a move of `len` bytes goes past the caches, if moves from `least` bytes on do, or none
/// does. What must not be flushed does not leave the caches either; of hints that contradict each
/// other, the one to leave them counts.
#[inline]
pub fn raw_goes_past_caches(flags: u32, len: usize, least: Option<usize>) -> bool {
    use move_flags::{NO_FLUSH, NON_TEMPORAL, TEMPORAL, WRITE_BACK, WRITE_COMBINING};
    match least {
        None => false,
        Some(_) if flags & NO_FLUSH != 0 => false,
        Some(_) if flags & (NON_TEMPORAL | WRITE_COMBINING) != 0 => true,
        Some(_) if flags & (TEMPORAL | WRITE_BACK) != 0 => false,
        Some(least) => len >= least,
    }
}

/// Bytes from which moves go past the caches, where nothing else is asked for.
pub const PAST_CACHES_BYTES: usize = 256;

/// Bytes at both ends of a range that went through the caches, and are the caller's to flush.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RawEdges {
    /// Bytes from the start of the range.
    pub head: usize,
    /// Bytes before its end.
    pub tail: usize,
}

/// Starts the write-back of every line that holds one of `len` bytes from `at`.
///
/// # Safety
/// The bytes are mapped, and the CPU runs `kind`, as one that [`Flush`](crate::Flush) chose.
#[inline]
pub unsafe fn raw_flush(kind: FlushKind, at: *const u8, len: usize) {
    if kind == FlushKind::None {
        return;
    }
    each_line(at.addr(), len, |line| {
        // SAFETY: the line holds a byte that the caller vouches for; so it is mapped.
        unsafe { flush::flush_line(kind, at.with_addr(line)) }
    });
}

/// The addresses of the lines of a range, which ends at the end of memory if it is too long.
#[inline]
fn each_line(at: usize, len: usize, mut visit: impl FnMut(usize)) {
    let Some(before_last) = len.checked_sub(1) else { return };
    let last = at.saturating_add(before_last) & !(LINE - 1);
    let mut line = at & !(LINE - 1);
    loop {
        visit(line);
        if line == last {
            return;
        }
        line += LINE;
    }
}

/// Orders all flushes and stores past the caches before it before all stores after it.
#[inline]
pub fn raw_fence(kind: FlushKind) {
    flush::fence(kind);
}

/// Copies `len` bytes, which may overlap; past the caches if `past_caches`, down to aligned pieces
/// of four bytes.
///
/// # Safety
/// The bytes at `from` may be read, and those at `to` written.
pub unsafe fn raw_copy(to: *mut u8, from: *const u8, len: usize, past_caches: bool) -> RawEdges {
    let past = past_caches && flush::CAN_STORE_PAST_CACHES;
    let (head, middle, tail) = parts(to, len);
    // SAFETY: the caller vouches for both ranges, and the parts are inside. Each piece is loaded
    // before it is stored, and the order keeps what a later piece reads: upwards if the bytes
    // move down, else downwards.
    unsafe {
        if to.addr().wrapping_sub(from.addr()) >= len {
            copy_up(to, from, head, past);
            for at in (head..head + middle).step_by(LINE) {
                store_line(to.add(at), from.add(at), past);
            }
            copy_up(to.add(head + middle), from.add(head + middle), tail, past);
        } else {
            copy_down(to.add(head + middle), from.add(head + middle), tail, past);
            for at in (head..head + middle).step_by(LINE).rev() {
                store_line(to.add(at), from.add(at), past);
            }
            copy_down(to, from, head, past);
        }
    }
    edges(to, len, past)
}

/// Fills `len` bytes with `byte`; past the caches as [`raw_copy`].
///
/// # Safety
/// The bytes at `to` may be written.
pub unsafe fn raw_fill(to: *mut u8, byte: u8, len: usize, past_caches: bool) -> RawEdges {
    let past = past_caches && flush::CAN_STORE_PAST_CACHES;
    let (head, middle, tail) = parts(to, len);
    let pattern = [byte; LINE];
    // SAFETY: the caller vouches for the range, and the parts are inside; an edge is shorter than a
    // line.
    unsafe {
        copy_up(to, pattern.as_ptr(), head, past);
        for at in (head..head + middle).step_by(LINE) {
            store_line(to.add(at), pattern.as_ptr(), past);
        }
        copy_up(to.add(head + middle), pattern.as_ptr(), tail, past);
    }
    edges(to, len, past)
}

/// Writes the pages that hold `len` bytes from `at` to the disk.
///
/// # Errors
/// As msync(2): also when the bytes are not mapped.
///
/// # Safety
/// None of the pages is a mapping whose content must not reach its file yet.
pub unsafe fn raw_sync(at: *const u8, len: usize) -> io::Result<()> {
    let before = at.addr() % map::page_bytes() as usize;
    let start = at.with_addr(at.addr() - before).cast_mut().cast();
    // SAFETY: msync changes no byte of memory; the caller vouches for those of files.
    unsafe { rustix::mm::msync(start, len.saturating_add(before), rustix::mm::MsyncFlags::SYNC)? };
    Ok(())
}

/// Bytes up to the first whole line, in whole lines, and behind them.
#[inline]
fn parts(to: *mut u8, len: usize) -> (usize, usize, usize) {
    let head = (to.addr().wrapping_neg() % LINE).min(len);
    let tail = (len - head) % LINE;
    (head, len - head - tail, tail)
}

fn edges(to: *mut u8, len: usize, past: bool) -> RawEdges {
    if !past {
        return RawEdges { head: len, tail: 0 };
    }
    let head = (to.addr().wrapping_neg() % 4).min(len);
    RawEdges { head, tail: (to.addr().wrapping_add(len) % 4).min(len - head) }
}

/// # Safety
/// `to` is the start of a line that may be written, and the line's bytes at `from` may be read.
#[inline]
unsafe fn store_line(to: *mut u8, from: *const u8, past: bool) {
    // SAFETY: the caller vouches for both.
    unsafe {
        if past {
            flush::store_line_past_caches(to, from);
        } else {
            flush::store_line(to, from);
        }
    }
}

/// Copies less than a line upwards, in the widest stores that are aligned.
///
/// # Safety
/// The bytes may be read and written.
unsafe fn copy_up(to: *mut u8, from: *const u8, len: usize, past: bool) {
    let mut done = 0;
    while done < len {
        // SAFETY: the piece is inside of what the caller vouches for.
        unsafe {
            let to = to.add(done);
            let bytes = piece_bytes(to.addr().trailing_zeros(), len - done);
            copy_piece(to, from.add(done), bytes, past);
            done += bytes;
        }
    }
}

/// As [`copy_up`], from the end.
///
/// # Safety
/// As there.
unsafe fn copy_down(to: *mut u8, from: *const u8, len: usize, past: bool) {
    let mut left = len;
    while left > 0 {
        let zeros = to.addr().wrapping_add(left).trailing_zeros();
        let bytes = piece_bytes(zeros, left);
        left -= bytes;
        // SAFETY: the piece is inside of what the caller vouches for, and ends where the address is
        // a multiple of its size.
        unsafe { copy_piece(to.add(left), from.add(left), bytes, past) };
    }
}

/// The widest piece of at most `left` bytes next to an address with so many zeros at its end.
#[inline]
fn piece_bytes(zeros: u32, left: usize) -> usize {
    match (zeros, left) {
        (3.., 8..) => 8,
        (2.., 4..) => 4,
        (1.., 2..) => 2,
        _ => 1,
    }
}

/// Copies one piece with one load and one store.
///
/// # Safety
/// It may be read and written, and `to` is aligned to its size: 1, 2, 4 or 8.
#[inline]
unsafe fn copy_piece(to: *mut u8, from: *const u8, bytes: usize, past: bool) {
    // SAFETY: the caller vouches for the bytes and for the alignment of the store. Volatile, so
    // that it remains one store.
    unsafe {
        match bytes {
            8 => {
                let word = from.cast::<u64>().read_unaligned();
                if past {
                    flush::store_past_caches(to.cast(), word);
                } else {
                    to.cast::<u64>().write_volatile(word);
                }
            }
            4 => {
                let half = from.cast::<u32>().read_unaligned();
                if past {
                    flush::store_half_past_caches(to.cast(), half);
                } else {
                    to.cast::<u32>().write_volatile(half);
                }
            }
            2 => to.cast::<u16>().write_volatile(from.cast::<u16>().read_unaligned()),
            _ => to.write_volatile(from.read()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn numbers(len: usize) -> Vec<u8> {
        (0..len).map(|at| (at * 7 + at / 256) as u8).collect()
    }

    proptest! {
        #[test]
        fn each_line_of_a_range_is_visited_once(at in 0usize..1 << 40, len in 0usize..3000) {
            let mut lines = Vec::new();
            each_line(at, len, |line| lines.push(line));
            let mut expected: Vec<usize> = (at..at + len).map(|byte| byte / 64 * 64).collect();
            expected.dedup();
            prop_assert_eq!(lines, expected);
        }

        #[test]
        fn a_copy_is_what_memmove_makes_of_it(
            to in 0usize..1500, from in 0usize..1500, len in 0usize..1000, past_caches: bool,
        ) {
            let mut bytes = numbers(2500);
            let mut expected = bytes.clone();
            expected.copy_within(from..from + len, to);
            let base = bytes.as_mut_ptr();
            // SAFETY: both ranges are inside of `bytes`.
            let edges = unsafe { raw_copy(base.add(to), base.add(from), len, past_caches) };
            raw_fence(FlushKind::None);
            prop_assert_eq!(bytes, expected);
            prop_assert!(edges.head + edges.tail <= len);
            if past_caches && flush::CAN_STORE_PAST_CACHES {
                prop_assert!(edges.head < 4 && edges.tail < 4);
            } else {
                prop_assert_eq!(edges, RawEdges { head: len, tail: 0 });
            }
        }

        #[test]
        fn a_fill_writes_its_bytes_and_no_other(
            to in 0usize..300, len in 0usize..600, byte: u8, past_caches: bool,
        ) {
            let mut bytes = numbers(900);
            let mut expected = bytes.clone();
            expected[to..to + len].fill(byte);
            // SAFETY: the range is inside of `bytes`.
            unsafe { raw_fill(bytes.as_mut_ptr().add(to), byte, len, past_caches) };
            raw_fence(FlushKind::None);
            prop_assert_eq!(bytes, expected);
        }
    }

    #[test]
    fn hints_decide_before_the_length_and_who_asks_for_none_before_both() {
        use move_flags::*;
        let past = |flags, len| raw_goes_past_caches(flags, len, Some(256));
        assert!(!past(0, 255) && past(0, 256));
        assert!(past(NON_TEMPORAL, 1) && past(WRITE_COMBINING | TEMPORAL, 1));
        assert!(!past(TEMPORAL, 1 << 20) && !past(WRITE_BACK, 1 << 20));
        assert!(!past(NO_FLUSH | NON_TEMPORAL, 1 << 20));
        assert!(!raw_goes_past_caches(NON_TEMPORAL, 1 << 20, None));
        assert!(raw_goes_past_caches(NO_DRAIN, 1, Some(0)));
    }

    #[test]
    fn what_is_multiples_of_eight_is_never_stored_in_smaller_pieces() {
        for len in (8..64).step_by(8) {
            assert_eq!(piece_bytes(3, len), 8);
        }
    }

    #[test]
    fn the_end_of_memory_is_the_end_of_a_range() {
        let mut lines = 0;
        each_line(usize::MAX - 100, usize::MAX, |_| lines += 1);
        assert_eq!(lines, 2);
    }

    #[test]
    fn pages_that_are_not_mapped_cannot_be_synced() {
        // SAFETY: no file is mapped there.
        let error = unsafe { raw_sync(std::ptr::without_provenance(1 << 40), 1) }.unwrap_err();
        assert_eq!(error.raw_os_error(), Some(libc::ENOMEM));
    }
}
