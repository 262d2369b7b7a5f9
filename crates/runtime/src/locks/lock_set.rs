//! The locks that a transaction holds until its end, so that it can change several structures.
//!
//! A change of one structure takes few locks, in an order that the structure determines. A
//! transaction over several takes them in the order of its program, and holds all of them until it
//! has committed or is rolled back (two-phase locking: Eswaran, Gray, Lorie and Traiger, "The
//! Notions of Consistency and Predicate Locks in a Database System", CACM 1976). Two rules prevent
//! deadlock and endless retries:
//!
//! 1. A transaction **waits** for a lock only if its address is above those of all that it holds.
//!    Any other lock is tried once; if another thread holds it, the operation fails with
//!    [`TxError::Busy`](crate::TxError::Busy).
//! 2. [`Session::retry`] then rolls the transaction back, and runs it again with that lock, and
//!    those that it failed for before, taken first, in the order of their addresses. So does
//!    [`Session::start`] after a transaction that a call began.
//!
//! So a thread waits only for a lock above all those that it holds, and there can be no cycle of
//! waits. Each round adds a lock, so there are no more rounds than locks. A transaction that takes
//! one lock never runs twice.
//!
//! The locks are [stripes](crate::Stripes), in DRAM: free after a crash.

use crate::tx::{Logging, Tx};
use crate::{Session, Stripe, TxError};
use seawall_memory::{Addr, Memory, MemoryExt};

impl<'m, M: Memory> Session<'m, M> {
    /// Runs `body` as a transaction, as [`transaction_with`](Session::transaction_with) does, and
    /// again whenever it fails for a lock that another thread holds: for bodies that change several
    /// structures, or one at several places. A failed run leaves nothing, except what `body` did to
    /// its own variables.
    ///
    /// # Errors
    /// What `body` returns, except [`TxError::Busy`]; then nothing has changed.
    #[inline]
    pub fn retry<T, E: From<TxError>>(
        &mut self,
        kind: Logging,
        mut body: impl FnMut(&mut Tx<'_, 'm, M>) -> Result<T, E>,
    ) -> Result<T, E> {
        let outcome = self.transaction_with(kind, &mut body);
        if outcome.is_ok() || self.holds.lacked.is_none() {
            return outcome;
        }
        self.run_again(kind, body)
    }

    #[cold]
    #[inline(never)]
    fn run_again<T, E: From<TxError>>(
        &mut self,
        kind: Logging,
        mut body: impl FnMut(&mut Tx<'_, 'm, M>) -> Result<T, E>,
    ) -> Result<T, E> {
        let mut first = Vec::new();
        while let Some(lacked) = self.holds.lacked {
            first.push(lacked);
            first.sort_unstable();
            self.holds.first.clone_from(&first);
            let outcome = self.transaction_with(kind, &mut body);
            if outcome.is_ok() || self.holds.lacked.is_none() {
                return outcome;
            }
        }
        unreachable!("it lacked a lock")
    }

    /// Takes the locks that the transaction which begins is known to need.
    #[inline]
    pub(crate) fn hold_first(&mut self) {
        self.holds.lacked = None;
        if !self.holds.first.is_empty() {
            self.take_first();
        }
    }

    #[cold]
    fn take_first(&mut self) {
        for word in std::mem::take(&mut self.holds.first) {
            let version = Stripe::at(word).lock(self.memory);
            self.holds.held.push((word, version));
        }
    }

    /// Releases the locks of a transaction that has ended.
    #[inline]
    pub(crate) fn hold_no_more(&mut self) {
        for (word, before) in &self.holds.held {
            self.memory.store(*word, before.wrapping_add(2));
        }
        self.holds.held.clear();
    }

    /// Whether the addresses are in the root or the chunks of the heap, where a transaction can
    /// write.
    #[inline]
    pub fn is_data(&self, at: Addr, bytes: u64) -> bool {
        self.holds(at, bytes)
    }
}

impl<M: Memory> Tx<'_, '_, M> {
    /// Takes the lock until the end of the transaction, unless the transaction holds it already.
    /// The holder sees what the last holder committed, and no other thread changes that meanwhile.
    ///
    /// # Errors
    /// [`TxError::Busy`] if another thread holds it and this one holds locks that do not all come
    /// before it.
    #[inline]
    #[track_caller]
    pub fn lock(&mut self, lock: Stripe) -> Result<(), TxError> {
        let Some(word) = lock.word() else { return Ok(()) };
        let holds = &self.session.holds;
        if holds.held.is_empty() || (holds.before(word).is_none() && holds.may_wait(word)) {
            let version = lock.lock(self.session.memory);
            self.session.holds.held.push((word, version));
            return Ok(());
        }
        if self.try_lock(lock) { Ok(()) } else { Err(self.lacks(word)) }
    }

    /// Takes the lock without waiting; returns false if another thread holds it.
    #[track_caller]
    pub fn try_lock(&mut self, lock: Stripe) -> bool {
        let Some(word) = lock.word() else { return true };
        let memory = self.session.memory;
        if self.session.holds.before(word).is_some() {
            return true;
        }
        let version: u64 = memory.load(word);
        let is_taken = version.is_multiple_of(2)
            && memory.compare_exchange(word, version, version + 1).is_ok();
        if is_taken {
            self.session.holds.held.push((word, version));
        }
        is_taken
    }

    /// Takes all of these locks without waiting, if the versions of all are still those that were
    /// [seen](Tx::version), so that all that was read since is valid. Otherwise returns false and
    /// takes none of them.
    #[track_caller]
    pub fn lock_seen(&mut self, locks: &[(Stripe, u64)]) -> bool {
        let memory = self.session.memory;
        let holds = &mut self.session.holds;
        let count = holds.held.len();
        for (lock, seen) in locks {
            let Some(word) = lock.word() else { continue };
            let is_taken = match holds.before(word) {
                Some(before) => *seen == before || *seen == before + 1,
                None => {
                    let is_free = seen.is_multiple_of(2);
                    is_free && memory.compare_exchange(word, *seen, seen + 1).is_ok()
                }
            };
            if !is_taken {
                for (word, before) in holds.held.drain(count..) {
                    memory.store(word, before);
                }
                return false;
            }
            if holds.before(word).is_none() {
                holds.held.push((word, *seen));
            }
        }
        true
    }

    /// Returns the version of a lock, for reads that are checked later; waits while another thread
    /// holds the lock. The version is odd if this transaction holds it.
    ///
    /// # Errors
    /// As [`lock`](Tx::lock).
    #[inline]
    #[track_caller]
    pub fn version(&mut self, lock: Stripe) -> Result<u64, TxError> {
        let Some(word) = lock.word() else { return Ok(0) };
        let version: u64 = self.session.memory.load(word);
        if version.is_multiple_of(2) {
            Ok(version)
        } else {
            self.version_of_taken(lock, word, version)
        }
    }

    #[cold]
    #[inline(never)]
    #[track_caller]
    fn version_of_taken(&mut self, lock: Stripe, word: Addr, version: u64) -> Result<u64, TxError> {
        let holds = &self.session.holds;
        if holds.before(word).is_some() {
            return Ok(version);
        }
        if holds.may_wait(word) {
            return Ok(lock.version(self.session.memory));
        }
        Err(self.lacks(word))
    }

    fn lacks(&mut self, word: Addr) -> TxError {
        self.session.holds.lacked = Some(word);
        TxError::Busy
    }

    /// As [`Session::is_data`].
    #[inline]
    pub fn is_data(&self, at: Addr, bytes: u64) -> bool {
        self.session.holds(at, bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Heap, HeapOptions};
    use seawall_memory::Image;

    const LOCKS: [u64; 3] = [0, 64, 128];

    fn made() -> (Image, Heap, [Stripe; 3]) {
        let options = HeapOptions { threads: 2, ..HeapOptions::default() };
        let image = Image::new(options.pm_bytes(), options.dram_bytes() + 192);
        let heap = Heap::create(&image, "locks", 7, &options).expect("good options");
        let locks = LOCKS.map(|at| Stripe::at(Addr::dram(options.dram_bytes() + at)));
        (image, heap, locks)
    }

    #[test]
    fn locks_are_held_until_the_transaction_has_committed_or_failed() {
        let (image, heap, [low, high, _]) = made();
        let mut session = heap.join(&image);
        for fails in [false, true] {
            let versions = [low, high].map(|lock| lock.version(&image));
            let outcome = session.transaction(|tx| {
                tx.lock(low)?;
                let _: Result<(), TxError> = tx.nested(|tx| {
                    tx.lock(high)?;
                    Err(TxError::Types)
                });
                tx.lock(low)?;
                assert!(!low.is_still(tx.memory(), versions[0]));
                assert!(!high.is_still(tx.memory(), versions[1]));
                if fails { Err(TxError::Types) } else { Ok(()) }
            });
            assert_eq!(outcome.is_err(), fails);
            assert_eq!([low, high].map(|lock| lock.version(&image)), versions.map(|v| v + 2));
        }
    }

    #[test]
    fn what_is_out_of_order_and_taken_fails_and_is_taken_first_the_next_time() {
        let (image, heap, [low, high, _]) = made();
        let mut session = heap.join(&image);
        let mut other = Some(low.acquire(&image));
        let mut runs = 0;
        let outcome = session.retry(Logging::Redo, |tx| {
            runs += 1;
            tx.lock(high)?;
            let outcome = tx.lock(low);
            if let Some(other) = other.take() {
                assert_eq!(outcome, Err(TxError::Busy));
                other.release(tx.memory());
            }
            outcome
        });
        assert_eq!((outcome, runs), (Ok(()), 2));
        assert_eq!((low.version(&image), high.version(&image)), (4, 4));
        let outcome = session.transaction(|tx| tx.lock(high));
        assert_eq!(outcome, Ok(()));
        assert_eq!(low.version(&image), 4, "it is not taken first any more");
    }

    #[test]
    fn what_a_transaction_lacked_that_a_call_began_is_taken_first_by_its_repetition() {
        let (image, heap, [low, high, _]) = made();
        let mut session = heap.join(&image);
        let is_taken = |lock: Stripe| image.load::<u64>(lock.word().unwrap()) % 2 == 1;
        let other = low.acquire(&image);
        let mut tx = session.start(Logging::Redo).unwrap();
        tx.lock(high).unwrap();
        assert_eq!(tx.lock(low), Err(TxError::Busy));
        tx.abort().unwrap();
        other.release(&image);
        let tx = session.start(Logging::Redo).unwrap();
        assert!(is_taken(low) && !is_taken(high));
        tx.commit().unwrap();
        let tx = session.start(Logging::Redo).unwrap();
        assert!(!is_taken(low), "it was no repetition");
        tx.commit().unwrap();
    }

    #[test]
    fn all_of_several_locks_are_taken_at_their_versions_or_none() {
        let (image, heap, [one, two, three]) = made();
        let mut session = heap.join(&image);
        let outcome: Result<(), TxError> = session.transaction(|tx| {
            let seen = [tx.version(one)?, tx.version(two)?];
            two.acquire(tx.memory()).release(tx.memory());
            assert!(!tx.lock_seen(&[(one, seen[0]), (two, seen[1])]));
            assert!(one.is_still(tx.memory(), seen[0]), "given back as it was");
            assert!(tx.lock_seen(&[(one, seen[0]), (one, seen[0]), (two, seen[1] + 2)]));
            let again = tx.version(one)?;
            assert!(tx.lock_seen(&[(one, again), (three, 0)]), "what is held has not changed");
            assert!(!tx.lock_seen(&[(one, again + 2)]));
            Ok(())
        });
        assert_eq!(outcome, Ok(()));
        assert_eq!([one, two, three].map(|lock| lock.version(&image)), [2, 4, 2]);
    }

    #[test]
    fn locks_of_a_transaction_that_panicked_are_free_again_with_the_next_one() {
        let (image, heap, [lock, ..]) = made();
        let mut session = heap.join(&image);
        let panics = std::panic::AssertUnwindSafe(|| {
            session.transaction::<(), TxError>(|tx| {
                tx.lock(lock)?;
                panic!("a bug of the program")
            })
        });
        assert!(std::panic::catch_unwind(panics).is_err());
        assert_eq!(session.transaction(|tx| tx.lock(lock)), Ok(()));
        assert_eq!(lock.version(&image), 4);
    }
}
