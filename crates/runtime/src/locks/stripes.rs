//! Locks for the structures in a heap, with versions for readers that take none.
//!
//! A structure has more nodes than anybody wants locks, and its nodes move; so the locks are
//! striped: the address of a node names one of a few words in DRAM. A word counts up when its lock
//! is taken and when it is given back, so it is odd while somebody writes. A reader notes the even
//! number, reads without a lock, and believes what it read only if the number is still the same (a
//! sequence lock, as in Lameter, "Effective Synchronization on Linux/NUMA Systems", 2005; for the
//! nodes of an index, Leis et al., "The ART of Practical Synchronization", DaMoN'16).
//!
//! Two nodes may share a stripe, so a thread that [acquires](Stripe::acquire) stripes holds at most
//! one *outer* stripe, and within it at most one *inner* one; they are different words, inner ones
//! behind outer ones, and no deadlock can come of it. A transaction [locks](crate::Tx::lock) any
//! number, by rules of its own. In a heap for one thread there is nobody to exclude, and all this
//! costs nothing.
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
//! assert!(stripe.is_still(&memory, version)); // nobody wrote meanwhile: the value counts
//! let held = stripe.acquire(&memory);
//! memory.store(heap.root(), value + 1);
//! held.release(&memory);
//! assert!(!stripe.is_still(&memory, version));
//! # Ok::<(), seawall_runtime::HeapError>(())
//! ```

use crate::Arena;
use seawall_memory::{Addr, LINE_BYTES, Memory, MemoryExt};

/// Outer stripes for each thread, so that two threads rarely meet by chance.
const OUTER: u64 = 32;
/// Inner stripes for each thread.
const INNER: u64 = 4;

/// The stripes of a heap; [`Heap::stripes`](crate::Heap::stripes) gives them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stripes {
    words: Addr,
    /// How many outer ones there are: a power of two; 0 in a heap for one thread.
    outer: u64,
}

/// The lock and version of some addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stripe {
    /// Null where there is nobody to exclude.
    word: Addr,
}

/// A stripe that is held. It is given back by [`release`](Held::release), not when dropped: giving
/// back is a memory access, which a fiber that is torn down must not make.
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

    /// The stripe of `at` of which a thread holds one at most.
    #[inline]
    pub fn outer(&self, at: Addr) -> Stripe {
        self.pick(at, 0, self.outer)
    }

    /// The stripe of `at` of which a thread that holds an outer one, or none, holds one at most.
    #[inline]
    pub fn inner(&self, at: Addr) -> Stripe {
        self.pick(at, self.outer, self.outer / OUTER * INNER)
    }

    #[inline]
    fn pick(&self, at: Addr, first: u64, count: u64) -> Stripe {
        if count == 0 {
            return Stripe { word: Addr::NULL };
        }
        // A power of two: the bits that are wanted are in the middle of the product.
        let spread = (at.bits() / LINE_BYTES).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
        Stripe { word: self.words.plus((first + (spread & (count - 1))) * LINE_BYTES) }
    }
}

impl Stripe {
    /// A lock of your own: the word of DRAM at `word`, zero at first.
    ///
    /// # Panics
    /// When `word` is no aligned word of DRAM.
    #[inline]
    pub fn at(word: Addr) -> Stripe {
        assert!(!word.is_pm() && word.bits().is_multiple_of(8), "{word} is no word of DRAM");
        Stripe { word }
    }

    /// Where it is, if there is anybody to exclude.
    #[inline]
    pub(crate) fn word(self) -> Option<Addr> {
        (!self.word.is_null()).then_some(self.word)
    }

    /// The word, if there is one, said so that a machine sees of which memory it is.
    #[inline]
    fn dram(self) -> Addr {
        Addr::dram(self.word.offset())
    }

    /// The version to read under; waits while somebody holds the stripe.
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

    /// True if nobody has held the stripe since it had that version: what was read meanwhile is as
    /// if read at one moment.
    #[inline]
    #[track_caller]
    pub fn is_still<M: Memory>(self, memory: &M, version: u64) -> bool {
        self.word.is_null() || memory.load::<u64>(self.dram()) == version
    }

    /// Waits for the stripe and takes it, in no particular order among those who wait.
    #[inline]
    #[track_caller]
    pub fn acquire<M: Memory>(self, memory: &M) -> Held {
        Held { stripe: self, version: self.lock(memory) }
    }

    /// Takes the stripe, unless somebody holds it or is quicker; does not wait. For a thread that
    /// holds other stripes, in whatever order.
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

    /// Takes the stripe; gives the version before.
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

    /// Takes the stripe once nobody holds it, unless somebody else is quicker.
    #[inline]
    fn try_lock<M: Memory>(self, memory: &M) -> Option<u64> {
        let version = self.version(memory);
        let is_taken =
            self.word.is_null() || memory.compare_exchange(self.word, version, version + 1).is_ok();
        is_taken.then_some(version)
    }
}

impl Held {
    /// Gives the stripe back: readers see a new version.
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
