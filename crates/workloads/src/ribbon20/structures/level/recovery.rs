//! Recovery of a Level hash table after a crash, and the check of its invariants.
//!
//! A crash can leave the log of an update under way, a growing table (section 3.4: missing entries
//! of the old bottom level are inserted; without room for them growing is undone), and a moved
//! entry twice. The states between the steps of recovery are among these.

use super::{
    CHECK, FIRST, LOG_CHECK, LOG_SLOT, LOG_TAG, LevelHash, SLOT_AT, SLOT_BYTES, TAG, check_of,
    flip, persist,
};
use crate::shared::Inconsistency;
use crate::shared::epoch_log::OrderFlaw;
use seawall_memory::{Addr, Memory, MemoryExt};
use std::collections::BTreeMap;

impl LevelHash {
    /// Finishes or undoes what a crash interrupted. DRAM must be zero.
    ///
    /// # Errors
    /// If the pool is damaged beyond what a crash can do.
    pub fn recover<M: Memory>(&self, memory: &M) -> Result<(), Inconsistency> {
        let (top, grows) = self.sound_state(memory)?;
        for thread in 0..self.shape.threads {
            self.undo(memory, thread)?;
        }
        if grows {
            // Without room the growth is undone.
            let _ = self.end_growing(memory, top, OrderFlaw::None);
        }
        self.drop_copies(memory, self.state(memory).0);
        Ok(())
    }

    /// Keeps one entry of each key; of two in both levels the one in the lower.
    pub(super) fn drop_copies<M: Memory>(&self, memory: &M, top: u64) {
        for (place, key) in self.entries(memory, [top, top - 1]) {
            let first = LevelHash::find(memory, &self.homes(key, top), key);
            if let Some(first) = first.filter(|first| *first != place) {
                flip(memory, first.bucket, 1 << first.slot);
            }
        }
    }

    fn sound_state<M: Memory>(&self, memory: &M) -> Result<(u64, bool), Inconsistency> {
        let state = memory.load::<u64>(self.state);
        let most = 2 * (self.shape.last() - FIRST);
        if state > most + 1 || state == 1 {
            return Err(Inconsistency::Broken(format!(
                "the table has the impossible state {state}"
            )));
        }
        Ok(self.state(memory))
    }

    /// Restores the entry in the log of an update.
    fn undo<M: Memory>(&self, memory: &M, thread: u64) -> Result<(), Inconsistency> {
        let log = self.log(thread);
        let slot = memory.load::<u64>(log.plus(LOG_SLOT));
        if slot == 0 {
            return Ok(());
        }
        let to = || format!("the log of thread {thread}");
        let at = self.slot(slot).ok_or_else(|| Inconsistency::Pointer { what: to(), to: slot })?;
        for (from, to) in [(LOG_TAG, TAG), (LOG_CHECK, CHECK)] {
            memory.store(at.plus(to), memory.load::<u64>(log.plus(from)));
        }
        memory.flush(at, SLOT_BYTES);
        memory.order();
        persist(memory, log.plus(LOG_SLOT), 0);
        Ok(())
    }

    /// The slot at this address.
    fn slot(&self, bits: u64) -> Option<Addr> {
        let from_start = bits.checked_sub(self.buckets.bits())?;
        let (bucket, offset) = (from_start / super::BUCKET_BYTES, from_start % super::BUCKET_BYTES);
        let is_one = bucket < (2 << self.shape.last()) - 1 && SLOT_AT.contains(&offset);
        is_one.then(|| Addr::from_bits(bits))
    }

    /// Checks every invariant and returns the tag of each key. No operation may be in flight.
    ///
    /// # Errors
    /// The invariant that does not hold.
    pub fn contents<M: Memory>(&self, memory: &M) -> Result<BTreeMap<u64, u64>, Inconsistency> {
        let (top, grows) = self.sound_state(memory)?;
        let logs = (0..self.shape.threads).map(|thread| self.log(thread));
        if grows || logs.into_iter().any(|log| memory.load::<u64>(log.plus(LOG_SLOT)) != 0) {
            return Err(Inconsistency::Broken("an update or growing was not finished".to_owned()));
        }
        let mut contents = BTreeMap::new();
        for (place, key) in self.entries(memory, [top, top - 1]) {
            let at = place.at();
            let [tag, check] = [TAG, CHECK].map(|offset| memory.load::<u64>(at.plus(offset)));
            if check != check_of(key, tag) {
                return Err(Inconsistency::Torn { at, key, tag, word: CHECK / 8 });
            }
            if !self.homes(key, top).buckets.contains(&place.bucket) {
                let bucket = place.bucket;
                return Err(Inconsistency::Broken(format!(
                    "key {key} is in the foreign bucket {bucket}"
                )));
            }
            if contents.insert(key, tag).is_some() {
                return Err(Inconsistency::Broken(format!("key {key} is there twice")));
            }
        }
        Ok(contents)
    }
}

#[cfg(test)]
mod tests {
    use super::super::{KEY, LevelShape, Place, vacant};
    use super::*;
    use crate::shared::{Change, Full};
    use proptest::prelude::*;
    use seawall_explore::{CrashImage, CrashPoint, Model, Reached, Schedule, Schedules, Search};
    use seawall_explore::{check, record, search};
    use seawall_memory::Image;
    use seawall_runtime::Arena;
    use std::cell::Cell;
    use std::rc::Rc;

    fn place(capacity: u64) -> (Image, LevelHash) {
        placed(1, capacity)
    }

    fn placed(threads: u64, capacity: u64) -> (Image, LevelHash) {
        let mut arena = Arena::new();
        let shape = LevelShape { threads, capacity }.check().expect("a good shape");
        let table = LevelHash::place(shape, &mut arena);
        let image = Image::new(arena.pm_bytes(), arena.dram_bytes());
        table.recover(&image).expect("an empty pool");
        (image, table)
    }

    proptest! {
        #[test]
        fn it_does_what_a_map_does(
            steps in proptest::collection::vec((0u8..4, 0u64..48), 0..400),
        ) {
            let (image, table) = place(48);
            let mut model = BTreeMap::new();
            for (number, (action, key)) in steps.into_iter().enumerate() {
                let (tag, is_there) = (number as u64 + 1, model.contains_key(&key));
                match action {
                    0 => prop_assert_eq!(table.search(&image, key), model.get(&key).copied()),
                    1 => {
                        let inserted = table.insert(&image, key, Change::of(tag));
                        prop_assert_eq!(inserted, Ok(!is_there));
                        model.entry(key).or_insert(tag);
                    }
                    2 => {
                        prop_assert_eq!(table.update(&image, key, Change::of(tag)), is_there);
                        model.entry(key).and_modify(|old| *old = tag);
                    }
                    _ => {
                        prop_assert_eq!(table.delete(&image, key, Change::of(tag)), is_there);
                        model.remove(&key);
                    }
                }
            }
            prop_assert_eq!(table.contents(&image), Ok(model.clone()));
            prop_assert_eq!(table.recover(&image), Ok(()));
            prop_assert_eq!(table.contents(&image), Ok(model));
        }

        #[test]
        fn wild_bytes_are_damage_and_never_a_panic_or_a_loop(
            wild in proptest::collection::vec((any::<u16>(), any::<u64>()), 1..40), small: bool,
        ) {
            let (image, table) = place(20);
            for key in 0..20 {
                prop_assert_eq!(table.insert(&image, key, Change::of(key + 1)), Ok(true));
            }
            let bytes = image.clone().into_pm().len() as u64;
            for (word, value) in wild {
                let value = if small { value % bytes / 8 * 8 } else { value };
                image.store(Addr::pm(u64::from(word) * 8 % (bytes - 8)), value);
            }
            let _ = table.contents(&image);
            let _ = table.recover(&image);
        }
    }

    #[test]
    fn it_grows_from_twelve_slots_until_its_capacity_and_keeps_all_keys() {
        let (image, table) = place(3000);
        for key in 0..3000 {
            assert_eq!(table.insert(&image, key, Change::of(key + 1)), Ok(true), "{key}");
        }
        assert!(table.state(&image).0 > FIRST + 5);
        assert_eq!(table.contents(&image).map(|contents| contents.len()), Ok(3000));
    }

    #[test]
    fn an_insert_between_full_buckets_moves_an_entry_instead_of_growing() {
        let (image, table) = place(1 << 12);
        let (mut key, mut moved) = (0, false);
        while table.state(&image).0 < 6 || !moved {
            let homes = table.homes(key, table.state(&image).0);
            let full = homes.buckets.iter().all(|bucket| vacant(&image, *bucket).is_none());
            let before = table.state(&image).0;
            table.insert(&image, key, Change::of(key + 1)).expect("room");
            moved |= full && table.state(&image).0 == before;
            key += 1;
        }
        assert_eq!(table.contents(&image).map(|contents| contents.len() as u64), Ok(key));
    }

    /// The place of a key after an insert that adds no level.
    fn after_insert(image: &Image, table: &LevelHash, new: u64, key: u64) -> Option<Place> {
        let (after, top) = (image.clone(), table.state(image).0);
        table.insert(&after, new, Change::of(new + 1)).expect("room");
        let found = || LevelHash::find(&after, &table.homes(key, top), key);
        (table.state(&after).0 == top).then(found).flatten()
    }

    /// A table, a key whose insert moves an entry, and a key whose insert without a move takes the
    /// slot to which that entry moves. All stripes are different.
    fn two_for_a_slot() -> (Image, LevelHash, [u64; 2]) {
        let (image, table) = placed(2, 1 << 10);
        for key in 0.. {
            let homes = |key| table.homes(key, table.state(&image).0);
            let moved = (0..key).find_map(|other| {
                let before = LevelHash::find(&image, &homes(other), other);
                after_insert(&image, &table, key, other).filter(|place| Some(*place) != before)
            });
            let is_rival = |to: Place, rival: u64| {
                let shares = homes(rival).stripes.iter().any(|it| homes(key).stripes.contains(it));
                let is_home = homes(rival).buckets.contains(&to.bucket);
                is_home && !shares && after_insert(&image, &table, rival, rival) == Some(to)
            };
            let rival = moved.and_then(|to| (key + 1..key + 4000).find(|it| is_rival(to, *it)));
            if let Some(rival) = rival {
                return (image, table, [key, rival]);
            }
            table.insert(&image, key, Change::of(key + 1)).expect("room");
        }
        unreachable!("a table has full buckets before it grows")
    }

    #[test]
    fn a_move_waits_for_who_inserts_where_the_entry_goes() {
        let (image, table, [key, rival]) = two_for_a_slot();
        let mut wanted = table.contents(&image).expect("whole");
        wanted.extend([(key, 9), (rival, 9)]);
        let preemptions =
            Schedules { interruptions: 2, limit: 400, ..Schedules::new(Model::Strict) };
        let base = Schedule { threads: 2, ..Schedule::default() };
        let runs = preemptions.all(&base, |schedule| {
            let (ended, wanted) = (Rc::new(Cell::new(0)), wanted.clone());
            record(image.clone(), schedule, move |memory| {
                let mine = [rival, key][memory.thread()];
                assert_eq!(table.insert(memory, mine, Change::of(9)), Ok(true));
                ended.set(ended.get() + 1);
                if ended.get() == 2 {
                    assert_eq!(table.contents(memory), Ok(wanted.clone()));
                }
            })
        });
        assert!(runs.expect("no insert is lost").runs.len() > 20);
    }

    #[test]
    fn an_update_of_a_full_bucket_is_undone_from_its_log() {
        let (image, table) = place(16);
        let full = |bucket: &Addr| vacant(&image, *bucket).is_none();
        let mut key = 0;
        let homes = loop {
            table.insert(&image, key, Change::of(key + 1)).expect("room");
            key += 1;
            let homes = table.homes(0, table.state(&image).0);
            let place = LevelHash::find(&image, &homes, 0).expect("it is there");
            if full(&place.bucket) {
                break place;
            }
        };
        let before = table.contents(&image).expect("whole");
        let log = table.log(0);
        assert!(table.update(&image, 0, Change::of(99)));
        assert_eq!(table.search(&image, 0), Some(99));
        image.store(log.plus(LOG_SLOT), homes.at());
        assert!(table.contents(&image).is_err(), "an open log");
        table.recover(&image).expect("what a crash may leave");
        assert_eq!(table.contents(&image), Ok(before));
    }

    #[test]
    fn more_keys_than_there_is_room_for_are_refused() {
        let (image, table) = place(4);
        let inserted = (0..100).map(|key| table.insert(&image, key, Change::of(9)));
        let fitted = inserted.filter(|outcome| *outcome == Ok(true)).count();
        assert!((4..=24).contains(&fitted), "{fitted}");
        assert_eq!(table.contents(&image).expect("whole").len(), fitted);
    }

    /// A table that is too crowded to grow.
    struct Crowded {
        image: Image,
        table: LevelHash,
        contents: BTreeMap<u64, u64>,
        /// A key for which the table would have to grow, when another entry finds no room.
        refused: u64,
    }

    /// A table far below its capacity, filled with keys that collide.
    fn crowded(threads: u64) -> Crowded {
        let (mut image, table) = placed(threads, 1 << 9);
        let collides = |key: &u64| {
            let [first, second] = [0, 1].map(|hash| LevelHash::index(*key, hash, 5));
            [2, 8, 9].contains(&first) && [18, 31].contains(&second)
        };
        let mut contents = BTreeMap::new();
        for key in (0..).filter(collides) {
            let before = image.clone();
            if table.insert(&image, key, Change::of(key + 1)) == Err(Full) {
                image = before;
                assert!(table.state(&image).0 < table.shape.last());
                return Crowded { image, table, contents, refused: key };
            }
            contents.insert(key, key + 1);
        }
        unreachable!("a bucket has an end")
    }

    /// Makes room, changes the remaining entries, and fills the table until it has grown.
    fn goes_on<M: Memory>(
        memory: &M,
        table: &LevelHash,
        mut contents: BTreeMap<u64, u64>,
    ) -> Result<(), String> {
        let top = table.state(memory).0;
        for key in contents.keys().copied().step_by(2).collect::<Vec<u64>>() {
            table.delete(memory, key, Change::of(0));
            contents.remove(&key);
        }
        for (key, tag) in &mut contents {
            *tag = 9;
            table.update(memory, *key, Change::of(*tag));
        }
        for key in (1 << 20..).take_while(|_| table.state(memory).0 == top) {
            table.insert(memory, key, Change::of(9)).map_err(|full| full.to_string())?;
            contents.insert(key, 9);
        }
        match table.contents(memory) {
            Ok(found) if found == contents => Ok(()),
            found => Err(format!("a table that goes on has {found:?}")),
        }
    }

    #[test]
    fn an_insert_that_cannot_grow_is_refused_and_the_table_is_as_it_was() {
        let Crowded { image, table, contents, refused } = crowded(1);
        let state = table.state(&image);
        for _ in 0..2 {
            assert_eq!(table.insert(&image, refused, Change::of(7)), Err(Full));
            assert_eq!(table.state(&image), state);
            assert_eq!(table.contents(&image), Ok(contents.clone()));
        }
        assert_eq!(goes_on(&image, &table, contents), Ok(()));
    }

    #[test]
    fn no_crash_while_a_table_cannot_grow_loses_anything() {
        let Crowded { image, table, contents, refused } = crowded(1);
        let top = table.state(&image).0;
        let near = Place { bucket: table.homes(refused, top).buckets[0], slot: 0 };
        let gone = image.load::<u64>(near.at().plus(KEY));
        let trace = record(image, &Schedule::default(), move |memory| {
            assert_eq!(table.insert(memory, refused, Change::of(7)), Err(Full));
            memory.output(0);
            assert!(table.delete(memory, gone, Change::of(0)));
            memory.output(1);
            assert_eq!(table.insert(memory, refused, Change::of(7)), Ok(true));
            memory.output(2);
        });
        let trace = trace.expect("it ends");
        let mut without = contents.clone();
        without.remove(&gone);
        let mut exchanged = without.clone();
        exchanged.insert(refused, 7);
        let states = [contents.clone(), contents, without, exchanged];
        let recover = |image: &CrashImage| {
            let contents = table.recover(image).and_then(|()| table.contents(image));
            contents.map_err(|damage| damage.to_string())
        };
        let recover_and_go_on = |image: &CrashImage| {
            let contents = recover(image)?;
            goes_on(image, &table, contents.clone()).map(|()| contents)
        };
        let judge = |found: &BTreeMap<u64, u64>, point: &CrashPoint| {
            let (least, most) = (point.promised[0] as usize, point.outputs[0] as usize + 1);
            match states[least..=most.min(3)].contains(found) {
                true => Ok(()),
                false => Err(format!("after {least} operations: {found:?}")),
            }
        };
        for model in Model::all() {
            let how = Search { depth: 1, ..Search::new(model) };
            let once = Search { depth: 0, ..how.clone() };
            for outcome in [
                search(&trace, &how, &check(recover, judge)),
                search(&trace, &once, &check(recover_and_go_on, judge)),
            ] {
                let found = outcome.finding.map(|finding| finding.to_string());
                assert_eq!((found, outcome.reached), (None, Reached::Complete), "{model}");
            }
        }
    }

    #[test]
    fn who_reads_while_a_table_cannot_grow_finds_what_is_there() {
        let Crowded { image, table, refused, .. } = crowded(2);
        let top = table.state(&image).0;
        // Entries of the lower level first: they have no room in the levels that are tried.
        let keys: Vec<u64> = table.entries(&image, [top - 1, top]).map(|(_, key)| key).collect();
        let preemptions =
            Schedules { interruptions: 1, limit: 1000, ..Schedules::new(Model::Strict) };
        let base = Schedule { threads: 2, ..Schedule::default() };
        let runs = preemptions.all(&base, |schedule| {
            let keys = keys.clone();
            record(image.clone(), schedule, move |memory| {
                if memory.thread() == 0 {
                    assert_eq!(table.insert(memory, refused, Change::of(7)), Err(Full));
                    return;
                }
                for key in &keys {
                    assert_eq!(table.search(memory, *key), Some(key + 1));
                }
                assert_eq!(table.search(memory, refused), None);
            })
        });
        assert!(runs.expect("no reader misses a key").tried.complete);
    }
}
