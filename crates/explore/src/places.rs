//! The calls before which an interruption may show something: fences, and calls that race with one
//! of another thread in some run of the exploration.
//!
//! Two calls of different threads *race* if they depend on each other ([`Use`]) and the second
//! thread does not know the first call: it has not loaded what the first thread stored after it,
//! nor what a thread that knew it stored. So what one thread does before it starts another one,
//! hands over a lock or wakes a sleeper races with nothing that the other does from then on,
//! and neither does what comes before a thread's end with what comes after its join. All of these
//! are loads and stores of words, which a run has; nothing else is known of locks and threads, but
//! that a thread which sleeps until a word is set, or has not begun before that, does nothing, and
//! its load of the word comes after the store that has woken it.
//!
//! A thread that overwrites what another one stored or loaded does not come to know it: under x86
//! its later flushes need not cover what the other had stored before.

use crate::access::{Access, Use};
use crate::trace::Trace;
use rustc_hash::{FxHashMap, FxHashSet};
use seawall_memory::{Addr, Model};
use std::rc::Rc;

/// What the reduction leaves out: tests hold it to what leaves out too much.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reduction {
    /// What shows nothing new.
    Redundant,
    /// Too much: calls that race only in another run are no places.
    OtherRuns,
    /// Too much: fences that are not to a shared word are no places.
    Fences,
    /// Too much: the default thread goes on when one waits or ends.
    Handovers,
    /// Too much: what may have persisted does not tell moments of runs apart.
    Images,
}

/// The places that the runs so far have shown.
pub(crate) struct Places {
    model: Model,
    /// Which thread uses which word or line in a race, and how.
    racing: FxHashSet<(u16, u64, Use)>,
    /// There is one more.
    pub(crate) grew: bool,
}

/// How many accesses of each thread a thread knows.
type Clock = Vec<u32>;

/// An access of a run so far: the thread, its number in the thread, and what it does.
type Past = (u16, u32, Use);

#[derive(Default)]
struct Seen {
    /// By what depends on each other: lines, and words of volatile memory.
    past: FxHashMap<u64, Vec<Past>>,
    /// What those know who load the word.
    stores: FxHashMap<u64, Rc<Clock>>,
    /// How often words that threads sleep for were set since they were cleared.
    set: FxHashMap<u64, u32>,
}

impl Seen {
    /// Whether a thread that slept for the word can have been woken by one store alone.
    fn is_set_once(&self, word: u64) -> bool {
        self.set.get(&word) == Some(&1)
    }
}

impl Places {
    pub(crate) fn new(model: Model) -> Places {
        Places { model, racing: FxHashSet::default(), grew: false }
    }

    /// Whether an interruption before the call is to be tried.
    pub(crate) fn contains(&self, access: &Access) -> bool {
        let orders_all = self.model.orders_all_stores()
            && access.does.changes()
            && Addr::from_bits(8 * access.word).is_pm();
        let use_ = (access.thread, access.shared_word(), access.does);
        access.does == Use::Fence || orders_all || self.racing.contains(&use_)
    }

    /// Looks for the races of a run.
    pub(crate) fn follow(&mut self, trace: &Trace) {
        let mut clocks = vec![vec![0; trace.threads]; trace.threads];
        let mut seen = Seen::default();
        let wakes = trace.accesses.iter().filter(|access| access.does == Use::Wake);
        seen.set.extend(wakes.map(|access| (access.word, 0)));
        for access in trace.accesses.iter().filter(|access| access.does != Use::Fence) {
            if access.does != Use::Wake || !seen.is_set_once(access.word) {
                self.note_races(access, &seen, &clocks[usize::from(access.thread)]);
            }
            let own = &mut clocks[usize::from(access.thread)];
            own[usize::from(access.thread)] += 1;
            if access.does.learns()
                && let Some(known) = seen.stores.get(&access.word)
            {
                own.iter_mut().zip(known.iter()).for_each(|(own, known)| *own = (*own).max(*known));
            }
            let number = own[usize::from(access.thread)];
            if let Some(set) = seen.set.get_mut(&access.word) {
                *set = if access.does == Use::Wake { 0 } else { *set + 1 };
            }
            match access.does {
                Use::Store | Use::Exchange | Use::Wake => {
                    seen.stores.insert(access.word, Rc::new(own.clone()));
                }
                Use::StoreNt => drop(seen.stores.remove(&access.word)),
                _ => {}
            }
            // Of a thread's accesses of a kind the last one stands for those before it: whoever
            // knows it knows them.
            let past = seen.past.entry(access.shared_word()).or_default();
            past.retain(|(thread, _, does)| (*thread, *does) != (access.thread, access.does));
            past.push((access.thread, number, access.does));
        }
    }

    /// The access races with the past ones that its thread does not know.
    fn note_races(&mut self, access: &Access, seen: &Seen, known: &Clock) {
        let Some(past) = seen.past.get(&access.shared_word()) else { return };
        for &(thread, number, does) in past.iter() {
            let races = thread != access.thread
                && (access.does.changes() || does.changes())
                && known[usize::from(thread)] < number;
            if races {
                let word = access.shared_word();
                self.grew |= self.racing.insert((thread, word, does));
                self.grew |= self.racing.insert((access.thread, word, access.does));
            }
        }
    }
}
