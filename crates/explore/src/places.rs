//! The calls before which an interruption may show something: fences, and calls that race with one
//! of another thread in some run of the exploration.
//!
//! Two calls of different threads *race* if they depend on each other ([`Use`]) and the second
//! thread does not know the first call: it has not loaded what the first thread stored after it,
//! nor what a thread that knew it stored. So what one thread does before it starts another one,
//! hands over a lock or wakes a sleeper races with nothing that the other does from then on,
//! and neither does what comes before a thread's end with what comes after its join. All of these
//! are loads and stores of words, which a run has; nothing else is known of locks and threads.
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
    /// Which thread uses which word or line in a race, and whether it changes it.
    racing: FxHashSet<(u16, u64, bool)>,
    /// There is one more.
    pub(crate) grew: bool,
}

/// How many accesses of each thread a thread knows.
type Clock = Vec<u32>;

/// An access of a run so far: the thread, its number in the thread, and whether it changes things.
type Past = (u16, u32, bool);

#[derive(Default)]
struct Seen {
    /// By what depends on each other: lines, and words of volatile memory.
    past: FxHashMap<u64, Vec<Past>>,
    /// What those know who load the word.
    stores: FxHashMap<u64, Rc<Clock>>,
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
        let use_ = (access.thread, access.shared_word(), access.does.changes());
        access.does == Use::Fence || orders_all || self.racing.contains(&use_)
    }

    /// Looks for the races of a run.
    pub(crate) fn follow(&mut self, trace: &Trace) {
        let mut clocks = vec![vec![0; trace.threads]; trace.threads];
        let mut seen = Seen::default();
        for access in trace.accesses.iter().filter(|access| access.does != Use::Fence) {
            self.note_races(access, &mut seen, &clocks[usize::from(access.thread)]);
            let own = &mut clocks[usize::from(access.thread)];
            own[usize::from(access.thread)] += 1;
            if access.does.learns()
                && let Some(known) = seen.stores.get(&access.word)
            {
                own.iter_mut().zip(known.iter()).for_each(|(own, known)| *own = (*own).max(*known));
            }
            let number = own[usize::from(access.thread)];
            match access.does {
                Use::Store | Use::Exchange => {
                    seen.stores.insert(access.word, Rc::new(own.clone()));
                }
                Use::StoreNt => drop(seen.stores.remove(&access.word)),
                _ => {}
            }
            let past = seen.past.entry(access.shared_word()).or_default();
            past.push((access.thread, number, access.does.changes()));
        }
    }

    /// The access races with the past ones that its thread does not know.
    fn note_races(&mut self, access: &Access, seen: &mut Seen, known: &Clock) {
        let Some(past) = seen.past.get_mut(&access.shared_word()) else { return };
        let changes = access.does.changes();
        for &(thread, number, others) in past.iter() {
            let races = thread != access.thread
                && (changes || others)
                && known[usize::from(thread)] < number;
            if races {
                let word = access.shared_word();
                self.grew |= self.racing.insert((thread, word, others));
                self.grew |= self.racing.insert((access.thread, word, changes));
            }
        }
        // Of a thread's accesses of a kind the last one stands for those before it: whoever knows
        // it knows them.
        past.retain(|(thread, _, others)| (*thread, *others) != (access.thread, changes));
    }
}
