//! The instructions that touch mapped memory: every one an atomic of its width.
//!
//! So two threads of a program may meet on a word without undefined behaviour. Loads acquire and
//! stores release: on x86 that is what every `mov` does, and on Arm a lock in DRAM needs it. Where
//! accesses of different widths meet, Rust's memory model says nothing and the hardware's holds.

use crate::flush::{store_half_past_caches, store_past_caches};
use seawall_memory::Width;
use std::sync::atomic::Ordering::{Acquire, Release};
use std::sync::atomic::{AtomicU8, AtomicU16, AtomicU32, AtomicU64};

/// # Safety
/// `place` is aligned to `width` and lies in a live mapping.
#[inline]
pub(crate) unsafe fn load_at(place: *mut u8, width: Width) -> u64 {
    // SAFETY: the caller vouches for it; every access to a mapping is atomic.
    unsafe {
        match width {
            Width::B1 => AtomicU8::from_ptr(place).load(Acquire).into(),
            Width::B2 => AtomicU16::from_ptr(place.cast()).load(Acquire).into(),
            Width::B4 => AtomicU32::from_ptr(place.cast()).load(Acquire).into(),
            Width::B8 => AtomicU64::from_ptr(place.cast()).load(Acquire),
        }
    }
}

/// # Safety
/// `place` is aligned to `width` and lies in a live mapping.
#[inline]
pub(crate) unsafe fn store_at(place: *mut u8, width: Width, value: u64) {
    // SAFETY: the caller vouches for it; every access to a mapping is atomic.
    unsafe {
        match width {
            Width::B1 => AtomicU8::from_ptr(place).store(value as u8, Release),
            Width::B2 => AtomicU16::from_ptr(place.cast()).store(value as u16, Release),
            Width::B4 => AtomicU32::from_ptr(place.cast()).store(value as u32, Release),
            Width::B8 => AtomicU64::from_ptr(place.cast()).store(value, Release),
        }
    }
}

/// Loads `into.len()` bytes from `place`: whole words in the middle, the widest that fit at the
/// edges.
///
/// # Safety
/// The bytes lie in a live mapping.
#[inline]
pub(crate) unsafe fn load_range(place: *mut u8, into: &mut [u8]) {
    let (head, rest) = into.split_at_mut(bytes_to_word(place, into.len()));
    // SAFETY: the caller vouches for the whole range, and `place + head` is at a word.
    unsafe {
        let mut from = place.add(head.len());
        load_edge(place, head);
        let (words, tail) = rest.as_chunks_mut::<8>();
        for word in words {
            *word = load_at(from, Width::B8).to_le_bytes();
            from = from.add(8);
        }
        load_edge(from, tail);
    }
}

/// Stores `from` at `place`, whole words in the middle by `store_word`, the widest plain stores
/// that fit at the edges. Returns the bytes of each edge.
///
/// # Safety The bytes lie in a live mapping, and `store_word` stores at the aligned place that is
/// its argument.
#[inline]
pub(crate) unsafe fn store_range(
    place: *mut u8,
    from: &[u8],
    store_word: impl Fn(*mut u8, u64),
) -> (u64, u64) {
    let (head, rest) = from.split_at(bytes_to_word(place, from.len()));
    let (words, tail) = rest.as_chunks::<8>();
    // SAFETY: the caller vouches for the whole range.
    unsafe {
        let mut to = place.add(head.len());
        store_edge(place, head);
        for word in words {
            store_word(to, u64::from_le_bytes(*word));
            to = to.add(8);
        }
        store_edge(to, tail);
    }
    (head.len() as u64, tail.len() as u64)
}

/// Stores `from` from `place` on past the caches, except what no aligned half of a word covers:
/// those bytes are stored plainly, and are the caller's to flush. Gives how many of them there are
/// at each end.
///
/// # Safety
/// The bytes lie in a live, writable mapping.
#[inline]
pub(crate) unsafe fn stream_range(place: *mut u8, from: &[u8]) -> (u64, u64) {
    let (head, rest) = from.split_at((place.addr().wrapping_neg() % 4).min(from.len()));
    // SAFETY: the caller vouches for the whole range, and every place is aligned as it must be.
    unsafe {
        store_edge(place, head);
        let mut to = place.add(head.len());
        let is_half = to.addr() % 8 != 0 && rest.len() >= 4;
        let (half, rest) = rest.split_at(if is_half { 4 } else { 0 });
        let (words, rest) = rest.as_chunks::<8>();
        let (half_after, tail) = rest.as_chunks::<4>();
        if let Some(half) = half.first_chunk() {
            store_half_past_caches(to.cast(), u32::from_le_bytes(*half));
            to = to.add(4);
        }
        for word in words {
            store_past_caches(to.cast(), u64::from_le_bytes(*word));
            to = to.add(8);
        }
        if let Some(half) = half_after.first() {
            store_half_past_caches(to.cast(), u32::from_le_bytes(*half));
            to = to.add(4);
        }
        store_edge(to, tail);
        (head.len() as u64, tail.len() as u64)
    }
}

/// Bytes from `place` to the next whole word, at most `len`.
#[inline]
fn bytes_to_word(place: *mut u8, len: usize) -> usize {
    ((place as usize).wrapping_neg() % 8).min(len)
}

/// The widest access at `place` that is aligned and moves no more than `left` bytes; for edges,
/// which are shorter than a word.
fn edge_width(place: *mut u8, left: usize) -> Width {
    match (place.addr().trailing_zeros(), left) {
        (2.., 4..) => Width::B4,
        (1.., 2..) => Width::B2,
        _ => Width::B1,
    }
}

/// # Safety
/// The bytes lie in a live mapping.
#[inline]
unsafe fn load_edge(place: *mut u8, into: &mut [u8]) {
    if !into.is_empty() {
        // SAFETY: the caller vouches for the range.
        unsafe { load_bytes(place, into) }
    }
}

/// # Safety
/// The bytes lie in a live mapping.
unsafe fn load_bytes(place: *mut u8, into: &mut [u8]) {
    let mut done = 0;
    while done < into.len() {
        // SAFETY: the caller vouches for the range; `edge_width` sees to alignment.
        let (bits, count) = unsafe {
            let from = place.add(done);
            let width = edge_width(from, into.len() - done);
            (load_at(from, width).to_le_bytes(), width as usize)
        };
        into[done..done + count].copy_from_slice(&bits[..count]);
        done += count;
    }
}

/// # Safety
/// The bytes lie in a live mapping.
#[inline]
unsafe fn store_edge(place: *mut u8, from: &[u8]) {
    if !from.is_empty() {
        // SAFETY: the caller vouches for the range.
        unsafe { store_bytes(place, from) }
    }
}

/// # Safety
/// The bytes lie in a live mapping.
unsafe fn store_bytes(place: *mut u8, from: &[u8]) {
    let mut done = 0;
    while done < from.len() {
        // SAFETY: the caller vouches for the range; `edge_width` sees to alignment.
        unsafe {
            let to = place.add(done);
            let width = edge_width(to, from.len() - done);
            let count = width as usize;
            let mut bits = [0; 8];
            bits[..count].copy_from_slice(&from[done..done + count]);
            store_at(to, width, u64::from_le_bytes(bits));
            done += count;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::RefCell;

    #[test]
    fn a_range_past_the_caches_leaves_less_than_half_a_word_at_each_end() {
        let mut memory = [0u64; 12];
        let base: *mut u8 = (&raw mut memory).cast();
        let bytes: Vec<u8> = (1..=64).collect();
        for start in 0..16 {
            for len in 0..64 {
                // SAFETY: 16 + 64 bytes are inside `memory`, which only this thread uses.
                let (head, tail) = unsafe { stream_range(base.add(start), &bytes[..len]) };
                crate::flush::fence(crate::flush::FlushKind::None);
                assert!(head < 4 && tail < 4);
                assert!(head == 0 || (start + head as usize).is_multiple_of(4) || len < 4);
                let mut back = vec![0; len];
                // SAFETY: as above.
                unsafe { load_range(base.add(start), &mut back) };
                assert_eq!(back, bytes[..len]);
            }
        }
    }

    #[test]
    fn a_range_is_whole_words_and_edges_shorter_than_a_word() {
        let mut memory = [0u64; 12];
        let base: *mut u8 = (&raw mut memory).cast();
        let bytes: Vec<u8> = (1..=64).collect();
        for start in 0..16 {
            for len in 0..64 {
                let words = RefCell::new(Vec::new());
                // SAFETY: 16 + 64 bytes are inside `memory`, which only this thread uses.
                let (head, tail) = unsafe {
                    store_range(base.add(start), &bytes[..len], |to, value| {
                        words.borrow_mut().push(to.addr() - base.addr());
                        store_at(to, Width::B8, value);
                    })
                };
                let words = words.into_inner();
                assert!(head < 8 && tail < 8);
                assert_eq!(head as usize + 8 * words.len() + tail as usize, len);
                assert!(words.iter().all(|at| at % 8 == 0), "{words:?}");
                let mut back = vec![0; len];
                // SAFETY: as above.
                unsafe { load_range(base.add(start), &mut back) };
                assert_eq!(back, bytes[..len]);
            }
        }
    }
}
