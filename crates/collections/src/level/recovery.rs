//! What a crash may leave of a Level hash table, mended; and the check of what is there.
//!
//! A crash leaves a log of an update that was under way, a table that grows (section 3.4: entries
//! of the old bottom level that are not there yet are inserted), and an entry twice that was moved.
//! Each step leaves what a crash of recovery may leave.

use super::{
    CHECK, FIRST, Homes, KEY, LOG_CHECK, LOG_SLOT, LOG_TAG, LevelHash, Place, SLOT_AT, SLOT_BYTES,
    TAG, check_of, flip, persist, taken,
};
use crate::Damage;
use seawall_memory::{Addr, Memory};
use std::collections::BTreeMap;

impl LevelHash {
    /// Finishes or undoes what a crash cut short. DRAM must be zero.
    ///
    /// # Errors
    /// When the pool is damaged beyond what a crash does.
    pub fn recover<M: Memory>(&self, memory: &M) -> Result<(), Damage> {
        let (top, grows) = self.sound_state(memory)?;
        for thread in 0..self.shape.threads {
            self.undo(memory, thread)?;
        }
        if grows {
            let no_room = |_| Damage::Broken("a table that grows has no room".to_owned());
            self.rehash(memory, top, super::Flaw::None).map_err(no_room)?;
        }
        self.each_entry(memory, top, |place, homes, key| {
            if let Some(first) = LevelHash::find(memory, homes, key).filter(|first| *first != place)
            {
                flip(memory, first.bucket, 1 << first.slot);
            }
            Ok(())
        })
    }

    fn sound_state<M: Memory>(&self, memory: &M) -> Result<(u64, bool), Damage> {
        let state = memory.load::<u64>(self.state);
        let most = 2 * (self.shape.last() - FIRST);
        if state > most + 1 || state == 1 {
            return Err(Damage::Broken(format!("the table has the impossible state {state}")));
        }
        Ok(self.state(memory))
    }

    /// Puts back what an update had logged.
    fn undo<M: Memory>(&self, memory: &M, thread: u64) -> Result<(), Damage> {
        let log = self.log(thread);
        let slot = memory.load::<u64>(log.plus(LOG_SLOT));
        if slot == 0 {
            return Ok(());
        }
        let to = || format!("the log of thread {thread}");
        let at = self.slot(slot).ok_or_else(|| Damage::Pointer { what: to(), to: slot })?;
        for (from, to) in [(LOG_TAG, TAG), (LOG_CHECK, CHECK)] {
            memory.store(at.plus(to), memory.load::<u64>(log.plus(from)));
        }
        memory.flush(at, SLOT_BYTES);
        memory.order();
        persist(memory, log.plus(LOG_SLOT), 0);
        Ok(())
    }

    /// The slot that these are the bits of.
    fn slot(&self, bits: u64) -> Option<Addr> {
        let from_start = bits.checked_sub(self.buckets.bits())?;
        let (bucket, offset) = (from_start / super::BUCKET_BYTES, from_start % super::BUCKET_BYTES);
        let is_one = bucket < (2 << self.shape.last()) - 1 && SLOT_AT.contains(&offset);
        is_one.then(|| Addr::from_bits(bits))
    }

    /// Shows the place of each entry, where it may be, and its key.
    fn each_entry<M: Memory>(
        &self,
        memory: &M,
        top: u64,
        mut each: impl FnMut(Place, &Homes, u64) -> Result<(), Damage>,
    ) -> Result<(), Damage> {
        for level in [top, top - 1] {
            for bucket in (0..1 << level).map(|index| self.bucket(level, index)) {
                for slot in taken(memory.load(bucket)) {
                    let place = Place { bucket, slot };
                    let key = memory.load::<u64>(place.at().plus(KEY));
                    each(place, &self.homes(key, top), key)?;
                }
            }
        }
        Ok(())
    }

    /// Checks every invariant and gives the tag of each key. No operation may be in flight.
    ///
    /// # Errors
    /// The invariant that does not hold.
    pub fn contents<M: Memory>(&self, memory: &M) -> Result<BTreeMap<u64, u64>, Damage> {
        let (top, grows) = self.sound_state(memory)?;
        let logs = (0..self.shape.threads).map(|thread| self.log(thread));
        if grows || logs.into_iter().any(|log| memory.load::<u64>(log.plus(LOG_SLOT)) != 0) {
            return Err(Damage::Broken("an update or growing was not finished".to_owned()));
        }
        let mut contents = BTreeMap::new();
        self.each_entry(memory, top, |place, homes, key| {
            let at = place.at();
            let [tag, check] = [TAG, CHECK].map(|offset| memory.load::<u64>(at.plus(offset)));
            if check != check_of(key, tag) {
                return Err(Damage::Torn { at, key, tag, word: CHECK / 8 });
            }
            if !homes.buckets.contains(&place.bucket) {
                let bucket = place.bucket;
                return Err(Damage::Broken(format!("key {key} is in the foreign bucket {bucket}")));
            }
            match contents.insert(key, tag) {
                None => Ok(()),
                Some(_) => Err(Damage::Broken(format!("key {key} is there twice"))),
            }
        })?;
        Ok(contents)
    }
}

#[cfg(test)]
mod tests {
    use super::super::{LevelShape, vacant};
    use super::*;
    use crate::Change;
    use proptest::prelude::*;
    use seawall_memory::Image;
    use seawall_runtime::Arena;

    fn place(capacity: u64) -> (Image, LevelHash) {
        let mut arena = Arena::new();
        let shape = LevelShape { threads: 1, capacity }.check().expect("a good shape");
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
}
