//! A recorded run, and the check that what a crash left is a consistent cut of it.
//!
//! Buffered strict persistency ("Memory Persistency", Pelley et al., ISCA'14; bulk mode in
//! MICRO'15, section 5.2) promises a cut after recovery: of each core's stores, a prefix is in
//! memory and no later store is; and a store that follows a read or an overwrite of another core's
//! value is in the cut only together with the store of that value. The saved states of the
//! processors name the cut, so that no search is needed: the recording is replayed up to the cut
//! and compared with the image, byte by byte.

use crate::Cycle;
use crate::run::{CoreAccess, Crash, Observer};
use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use rustc_hash::FxHashMap;

/// A store as it took effect.
#[derive(Clone, Copy)]
struct Store {
    core: u8,
    position: u64,
    /// The number of the aligned 8 bytes in memory.
    word: u64,
    mask: u64,
    value: u64,
}

/// Store `position` of `core`, or a later one, can be in the cut only if `needs` is: a core, and a
/// number of its stores.
#[derive(Clone, Copy)]
struct Rule {
    core: usize,
    position: u64,
    needs: (usize, u64),
}

/// When crashes happen.
enum When {
    /// After one in `stores_per_crash` stores, at most `delay_max` cycles later.
    Random { rng: Box<Xoshiro256PlusPlus>, stores_per_crash: f64, delay_max: Cycle },
    /// After these numbers of stores, each with its delay, in reverse order.
    At(Vec<(u64, Cycle)>),
}

/// An [`Observer`] that records a run and crashes it at random.
///
/// Every crash is checked when it happens; [`broken`](Recording::broken) returns the violations.
pub struct Recording {
    before: Vec<u8>,
    stores: Vec<Store>,
    rules: Vec<Rule>,
    /// The newest store of each word of persistent memory.
    writers: FxHashMap<u64, (usize, u64)>,
    /// For each pair of cores, the number of stores of the second that later stores of the first
    /// are known to need.
    known: Vec<Vec<u64>>,
    when: When,
    /// Stores to persistent and volatile memory so far.
    seen: u64,
    crashes: u64,
    cut: u64,
    broken: Vec<(Cycle, String)>,
}

impl Recording {
    /// Records a run on `cores` cores that starts with `before` in persistent memory. A crash comes
    /// after about one in `stores_per_crash` stores, up to `delay_max` cycles later.
    pub fn new(
        before: Vec<u8>,
        cores: usize,
        stores_per_crash: f64,
        delay_max: Cycle,
        seed: u64,
    ) -> Recording {
        let rng = Box::new(Xoshiro256PlusPlus::seed_from_u64(seed));
        Recording::when(before, cores, When::Random { rng, stores_per_crash, delay_max })
    }

    /// Like [`new`](Recording::new), but each crash comes a number of cycles after a number of
    /// stores of all cores, counted from 1; each number at most once.
    pub fn at(before: Vec<u8>, cores: usize, mut crashes: Vec<(u64, Cycle)>) -> Recording {
        crashes.sort_unstable_by(|left, right| right.cmp(left));
        Recording::when(before, cores, When::At(crashes))
    }

    fn when(before: Vec<u8>, cores: usize, when: When) -> Recording {
        Recording {
            before,
            stores: Vec::new(),
            rules: Vec::new(),
            writers: FxHashMap::default(),
            known: vec![vec![0; cores]; cores],
            when,
            seen: 0,
            crashes: 0,
            cut: 0,
            broken: Vec::new(),
        }
    }

    /// The number of crashes so far.
    pub fn crashes(&self) -> u64 {
        self.crashes
    }

    /// The number of stores in all cuts so far; 0 if nothing was ever durable.
    pub fn stores_in_cuts(&self) -> u64 {
        self.cut
    }

    /// The crashes that left no consistent cut, with the violation.
    pub fn broken(&self) -> &[(Cycle, String)] {
        &self.broken
    }

    fn word(&self, access: &CoreAccess) -> Option<u64> {
        let word = u64::from(access.line) * 8 + u64::from(access.word);
        (word * 8 < self.before.len() as u64).then_some(word)
    }

    /// Stores of the core from `access.position` on need the newest store of the word.
    fn note(&mut self, word: u64, access: &CoreAccess) {
        let Some((writer, position)) = self.writers.get(&word).copied() else { return };
        let known = &mut self.known[access.core][writer];
        if writer != access.core && *known <= position {
            *known = position + 1;
            let needs = (writer, position + 1);
            self.rules.push(Rule { core: access.core, position: access.position, needs });
        }
    }

    fn judge(&self, crash: &Crash) -> Result<(), String> {
        let cut = |core: usize| crash.stores.get(core).copied().unwrap_or(0);
        for Rule { core, position, needs: (on, stores) } in &self.rules {
            if cut(*core) > *position && cut(*on) < *stores {
                return Err(format!(
                    "store {position} of core {core} is in memory without store {} of core {on}, \
                     whose value it follows",
                    stores - 1
                ));
            }
        }
        let mut image = self.before.clone();
        for store in &self.stores {
            if store.position < cut(store.core.into()) {
                let at = store.word as usize * 8;
                let bytes: &mut [u8; 8] = (&mut image[at..at + 8]).try_into().expect("8 bytes");
                let value = u64::from_le_bytes(*bytes) & !store.mask | store.value & store.mask;
                *bytes = value.to_le_bytes();
            }
        }
        match image.iter().zip(&crash.pm).position(|(wanted, found)| wanted != found) {
            None => Ok(()),
            Some(at) => Err(format!("byte {at} is not what the stores of the cut leave there")),
        }
    }
}

impl Observer for Recording {
    fn output(&mut self, _: usize, _: u64, _: Cycle) -> Option<Cycle> {
        None
    }

    fn crash(&mut self, now: Cycle, crash: Crash) {
        self.crashes += 1;
        self.cut += crash.stores.iter().sum::<u64>();
        if let Err(what) = self.judge(&crash) {
            self.broken.push((now, what));
        }
    }

    fn mapped(&mut self, first_byte: u64, contents: &[u8]) {
        assert_eq!(first_byte, self.before.len() as u64, "pages are mapped in order");
        self.before.extend_from_slice(contents);
    }

    fn watches_accesses(&self) -> bool {
        true
    }

    fn stored(&mut self, access: CoreAccess, value: u64, now: Cycle) -> Option<Cycle> {
        if let Some(word) = self.word(&access) {
            self.note(word, &access);
            self.writers.insert(word, (access.core, access.position));
            let CoreAccess { core, position, mask, .. } = access;
            self.stores.push(Store { core: core as u8, position, word, mask, value });
        }
        self.seen += 1;
        match &mut self.when {
            When::Random { rng, stores_per_crash, delay_max } => {
                let crashes = rng.random_bool(1.0 / *stores_per_crash);
                crashes.then(|| now + rng.random_range(0..=*delay_max))
            }
            When::At(crashes) => {
                let (_, delay) = crashes.pop_if(|(after, _)| *after <= self.seen)?;
                Some(now + delay)
            }
        }
    }

    fn loaded(&mut self, access: CoreAccess) {
        if let Some(word) = self.word(&access) {
            self.note(word, &access);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn access(core: usize, word: u8, position: u64) -> CoreAccess {
        CoreAccess { core, line: 0, word, mask: u64::MAX, position }
    }

    /// Core 0 stores 7, core 1 reads it and stores 8 beside it.
    fn recording() -> Recording {
        let mut recording = Recording::new(vec![0; 64], 2, 1e18, 0, 1);
        recording.stored(access(0, 0, 0), 7, 1);
        recording.loaded(access(1, 0, 0));
        recording.stored(access(1, 1, 0), 8, 2);
        recording
    }

    fn judge(words: [u64; 2], stores: [u64; 2]) -> Result<(), String> {
        let mut pm: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        pm.resize(64, 0);
        recording().judge(&Crash { pm, stores: stores.to_vec() })
    }

    #[test]
    fn a_cut_is_consistent_if_each_value_read_is_in_it() {
        assert_eq!(judge([0, 0], [0, 0]), Ok(()));
        assert_eq!(judge([7, 0], [1, 0]), Ok(()));
        assert_eq!(judge([7, 8], [1, 1]), Ok(()));
        let error = judge([0, 8], [0, 1]).unwrap_err();
        assert!(error.contains("store 0 of core 1 is in memory without store 0 of core 0"));
    }

    #[test]
    fn crashes_come_after_the_stores_that_were_named() {
        let mut recording = Recording::at(vec![0; 64], 1, vec![(3, 10), (2, 7)]);
        let crashes = (0..4).map(|n| recording.stored(access(0, 0, n), n, 100 + n));
        assert_eq!(crashes.collect::<Vec<_>>(), [None, Some(108), Some(112), None]);
    }

    #[test]
    fn an_image_that_is_not_that_of_its_cut_is_refused() {
        assert!(judge([7, 8], [1, 0]).is_err(), "a store too many");
        assert!(judge([0, 0], [1, 0]).is_err(), "a store too few");
    }
}
