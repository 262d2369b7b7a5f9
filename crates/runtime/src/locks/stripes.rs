//! Striped locks for the structures in a heap, with versions for readers that take no lock.
//!
//! A structure has too many nodes for a lock each, and its nodes move. So the locks are striped:
//! the address of a node selects one of a few words in DRAM. A word is incremented when its lock is
//! taken and when it is released, so it is odd while a thread writes. A reader notes the even
//! number, reads without a lock, and uses what it read only if the number is still the same (a
//! sequence lock, as in Lameter, "Effective Synchronization on Linux/NUMA Systems", 2005; for the
//! nodes of an index, Leis et al., "The ART of Practical Synchronization", DaMoN'16).
//!
//! Two nodes can share a stripe. So a thread that [acquires](Stripe::acquire) stripes holds at most
//! one *outer* stripe, and within it at most one *inner* stripe. They are different words, inner
//! ones behind outer ones, so there is no deadlock. A transaction [locks](crate::Tx::lock) any
//! number of stripes, by rules of its own. In a heap for one thread, stripes do nothing and cost
//! nothing.
//!
//! ```
//! use seawall_memory::{Image, Memory, MemoryExt};
//! use seawall_runtime::{Heap, HeapOptions};
//!
//! let options = HeapOptions { threads: 2, ..HeapOptions::default() };
//! let memory = Image::new(options.pm_bytes(), options.dram_bytes());
//! let heap = Heap::create(&memory, "striped", 42, &options)?;
//! let stripe = heap.stripes().outer(heap.root());
//! let version = stripe.version(&memory);
//! let value: u64 = memory.load(heap.root());
//! assert!(stripe.is_still(&memory, version)); // no thread wrote meanwhile: the value is valid
//! let held = stripe.acquire(&memory);
//! memory.store(heap.root(), value + 1);
//! held.release(&memory);
//! assert!(!stripe.is_still(&memory, version));
//! # Ok::<(), seawall_runtime::HeapError>(())
//! ```

use crate::Arena;
use seawall_memory::{Addr, LINE_BYTES, Memory, MemoryExt};

/// Outer stripes per thread, enough that two threads rarely collide.
const OUTER: u64 = 32;
/// Inner stripes per thread.
const INNER: u64 = 4;

/// The stripes of a heap, as [`Heap::stripes`](crate::Heap::stripes) returns them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stripes {
    words: Addr,
    /// The number of outer stripes: a power of two; 0 in a heap for one thread.
    outer: u64,
}

/// The lock and version of some addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stripe {
    /// Null in a heap for one thread.
    word: Addr,
}

/// A held stripe. [`release`](Held::release) releases it; dropping it does not: a release is a
/// memory access, which a fiber that is torn down must not make.
#[must_use = "a stripe that is never released blocks every other thread"]
#[derive(Debug)]
pub struct Held {
    stripe: Stripe,
    version: u64,
}

impl Stripes {
    pub(crate) fn place(arena: &mut Arena, threads: u64) -> Stripes {
        let threads = if threads == 1 { 0 } else { threads.next_power_of_two() };
        let words = arena.dram(threads * (OUTER + INNER) * LINE_BYTES);
        Stripes { words, outer: threads * OUTER }
    }

    /// The outer stripe of `at`; a thread holds at most one.
    #[inline]
    pub fn outer(&self, at: Addr) -> Stripe {
        self.pick(at, 0, self.outer)
    }

    /// The inner stripe of `at`; a thread holds at most one, within an outer stripe or alone.
    #[inline]
    pub fn inner(&self, at: Addr) -> Stripe {
        self.pick(at, self.outer, self.outer / OUTER * INNER)
    }

    #[inline]
    fn pick(&self, at: Addr, first: u64, count: u64) -> Stripe {
        if count == 0 {
            return Stripe { word: Addr::NULL };
        }
        // A power of two: the bits that select are in the middle of the product.
        let spread = (at.bits() / LINE_BYTES).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
        Stripe { word: self.words.plus((first + (spread & (count - 1))) * LINE_BYTES) }
    }
}

impl Stripe {
    /// A stripe of the program's own: the word of DRAM at `word`, initially zero.
    ///
    /// # Panics
    /// When `word` is no aligned word of DRAM.
    #[inline]
    pub fn at(word: Addr) -> Stripe {
        assert!(!word.is_pm() && word.bits().is_multiple_of(8), "{word} is no word of DRAM");
        Stripe { word }
    }

    /// Its word, except in a heap for one thread.
    #[inline]
    pub(crate) fn word(self) -> Option<Addr> {
        (!self.word.is_null()).then_some(self.word)
    }

    /// The word, if there is one, in a form that shows a machine which memory it is in.
    #[inline]
    fn dram(self) -> Addr {
        Addr::dram(self.word.offset())
    }

    /// Returns the version, for reads that are checked later; waits while a thread holds the
    /// stripe.
    #[inline]
    #[track_caller]
    pub fn version<M: Memory>(self, memory: &M) -> u64 {
        if self.word.is_null() {
            return 0;
        }
        let version = memory.load::<u64>(self.dram());
        if version % 2 == 0 { version } else { self.wait(memory, version) }
    }

    #[cold]
    #[inline(never)]
    fn wait<M: Memory>(self, memory: &M, mut version: u64) -> u64 {
        while version % 2 == 1 {
            version = memory.spin_while(self.word, version);
        }
        version
    }

    /// Whether no thread has held the stripe since it had that version: then what was read in
    /// between is consistent.
    #[inline]
    #[track_caller]
    pub fn is_still<M: Memory>(self, memory: &M, version: u64) -> bool {
        self.word.is_null() || memory.load::<u64>(self.dram()) == version
    }

    /// Waits for the stripe and takes it, in no particular order among the waiting threads.
    #[inline]
    #[track_caller]
    pub fn acquire<M: Memory>(self, memory: &M) -> Held {
        Held { stripe: self, version: self.lock(memory) }
    }

    /// Takes the stripe without waiting, unless another thread holds it or is quicker. A thread can
    /// hold other stripes, in any order.
    #[inline]
    #[track_caller]
    pub fn try_acquire<M: Memory>(self, memory: &M) -> Option<Held> {
        if self.word.is_null() {
            return Some(Held { stripe: self, version: 0 });
        }
        let version = memory.load::<u64>(self.dram());
        let is_taken = version.is_multiple_of(2)
            && memory.compare_exchange(self.word, version, version + 1).is_ok();
        is_taken.then_some(Held { stripe: self, version })
    }

    /// Takes the stripe; returns the version before.
    #[inline]
    #[track_caller]
    pub(crate) fn lock<M: Memory>(self, memory: &M) -> u64 {
        match self.try_lock(memory) {
            Some(version) => version,
            None => self.insist(memory),
        }
    }

    #[cold]
    #[inline(never)]
    fn insist<M: Memory>(self, memory: &M) -> u64 {
        loop {
            if let Some(version) = self.try_lock(memory) {
                return version;
            }
        }
    }

    /// Takes the stripe when no thread holds it, unless another thread is quicker.
    #[inline]
    fn try_lock<M: Memory>(self, memory: &M) -> Option<u64> {
        let version = self.version(memory);
        let is_taken =
            self.word.is_null() || memory.compare_exchange(self.word, version, version + 1).is_ok();
        is_taken.then_some(version)
    }
}

impl Held {
    /// Releases the stripe: readers see a new version.
    #[inline]
    #[track_caller]
    pub fn release<M: Memory>(self, memory: &M) {
        if !self.stripe.word.is_null() {
            memory.store(self.stripe.word, self.version + 2);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use seawall_memory::Image;

    fn place(threads: u64) -> (Image, Stripes, u64) {
        let mut arena = Arena::new();
        let stripes = Stripes::place(&mut arena, threads);
        (Image::new(64, arena.dram_bytes()), stripes, arena.dram_bytes())
    }

    #[test]
    fn stripes_stay_in_their_part_of_the_area() {
        let (_, stripes, bytes) = place(3);
        let boundary = Addr::dram(4 * OUTER * LINE_BYTES);
        for at in (0..10_000).map(|line| Addr::pm(64 * line)) {
            assert!(stripes.outer(at).word < boundary);
            assert!(stripes.inner(at).word >= boundary);
            assert!(stripes.inner(at).word.offset() < bytes);
        }
    }

    #[test]
    fn a_reader_notices_a_writer_and_only_then() {
        let (image, stripes, _) = place(2);
        let stripe = stripes.outer(Addr::pm(64));
        let version = stripe.version(&image);
        assert!(stripe.is_still(&image, version));
        let held = stripe.acquire(&image);
        assert!(!stripe.is_still(&image, version));
        held.release(&image);
        assert!(!stripe.is_still(&image, version));
        assert!(stripe.is_still(&image, stripe.version(&image)));
    }

    #[test]
    fn who_only_tries_gets_a_free_stripe_and_never_waits() {
        let (image, stripes, _) = place(2);
        let stripe = stripes.outer(Addr::pm(64));
        let held = stripe.try_acquire(&image).expect("free");
        assert!(stripe.try_acquire(&image).is_none());
        held.release(&image);
        assert!(stripe.try_acquire(&image).is_some());
    }

    #[test]
    #[should_panic(expected = "waits for itself")]
    fn a_held_stripe_makes_the_next_wait() {
        let (image, stripes, _) = place(2);
        let _held = stripes.outer(Addr::pm(64)).acquire(&image);
        let _again = stripes.outer(Addr::pm(64)).acquire(&image);
    }

    #[test]
    fn alone_there_is_nothing_to_take() {
        let (image, stripes, bytes) = place(1);
        assert_eq!(bytes, 0);
        let stripe = stripes.inner(Addr::pm(64));
        let held = stripe.acquire(&image);
        assert!(stripe.is_still(&image, stripe.version(&image)));
        held.release(&image);
    }
}
