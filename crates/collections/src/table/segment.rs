//! One segment of a table: cache lines of four slots, where a hash may be in four of them.
//!
//! A slot counts if its hash begins with the bits that all hashes of the segment share. So a
//! vacant slot holds a word whose first bit is the other one, and what a split has moved away is
//! vacant without a store. Slots that were **never used** hold one such word, those that were used
//! another: an entry goes to the first line of its four that has a vacant slot, so a search may end
//! at a line with a slot that was never used. A slot that is vacated in such a line counts as never
//! used again.
//!
//! The last three lines are the first of no entry, so no probe wraps around; hence entries that are
//! moved in the order of their first lines always find room (earliest deadline first).

use super::{DEPTH_MASK, top};
use crate::damage::Wild;
use crate::reads::Reads;
use seawall_memory::{Addr, LINE_BYTES};
use std::hint::select_unpredictable;

/// Lines in which an entry may be.
const PROBED: u64 = 4;
/// Slots of a line.
const SLOTS: u64 = LINE_BYTES / SLOT_BYTES;
const SLOT_BYTES: u64 = 16;
/// The fewest lines of a segment.
pub(super) const SEGMENT_LINES_MIN: u64 = PROBED;
/// The most lines: those of the largest block of a heap.
pub(super) const SEGMENT_LINES_MAX: u64 = 992;

/// A removal from one line in `ASKED` checks whether the segment has become sparse; from the
/// others, whether it is empty.
const ASKED: u64 = 16;
/// Lines that are looked at to guess how full a segment is.
const SAMPLED: u64 = 8;
/// A segment seems sparse if of the slots looked at, no more than this part is taken.
pub(super) const SPARSE: u64 = 4;
/// Two become one if that has this many times the slots.
const MERGED: u64 = 2;

/// A segment: where, and how many first bits its hashes share.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Segment {
    pub(super) at: Addr,
    pub(super) depth: u32,
    pub(super) lines: u64,
}

/// Where an entry is, and where a new one could go.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub(super) struct Probe {
    pub(super) found: Option<(Addr, u64)>,
    pub(super) room: Option<Addr>,
}

/// Never used, in segments of hashes that begin like this one.
#[inline]
pub(super) fn vacant(like: u64) -> u64 {
    if like >> 63 == 1 { 0 } else { !0 }
}

/// The slots of a line whose hashes are such, a bit each. All four are asked whatever the answers,
/// without a branch: which slot an entry is in, no branch could foretell, and a wrong guess would
/// stop the processor from beginning the next search while this one waits for its line.
#[inline]
fn slots_where(words: &[u64; 8], is_such: impl Fn(u64) -> bool) -> u32 {
    let slots = words.iter().step_by(2).zip(0..);
    slots.fold(0, |mask, (hash, slot)| mask | u32::from(is_such(*hash)) << slot)
}

/// Spreads the bits of a word; every word comes from exactly one other (the end of MurmurHash3).
#[inline]
pub(crate) fn mix(word: u64) -> u64 {
    let word = (word ^ word >> 33).wrapping_mul(MULTIPLIERS[0]);
    let word = (word ^ word >> 33).wrapping_mul(MULTIPLIERS[1]);
    word ^ word >> 33
}

/// The word that [`mix`] made this of.
pub(crate) fn unmix(word: u64) -> u64 {
    let word = (word ^ word >> 33).wrapping_mul(const { inverse(MULTIPLIERS[1]) });
    let word = (word ^ word >> 33).wrapping_mul(const { inverse(MULTIPLIERS[0]) });
    word ^ word >> 33
}

const MULTIPLIERS: [u64; 2] = [0xff51_afd7_ed55_8ccd, 0xc4ce_b9fe_1a85_ec53];

/// What times an odd number is 1 (Newton's method doubles the right bits, of which 3 are given).
const fn inverse(odd: u64) -> u64 {
    let (mut inverse, mut round) = (odd, 0);
    while round < 5 {
        inverse = inverse.wrapping_mul(2u64.wrapping_sub(odd.wrapping_mul(inverse)));
        round += 1;
    }
    inverse
}

impl Segment {
    /// The segment that a word of the directory names.
    #[inline]
    pub(super) fn of(entry: u64, lines: u64) -> Segment {
        let depth = (entry & DEPTH_MASK) as u32;
        Segment { at: Addr::from_bits(entry & !DEPTH_MASK), depth, lines }
    }

    /// The word of the directory that names it.
    pub(super) fn entry(self) -> u64 {
        self.at.bits() | u64::from(self.depth)
    }

    pub(super) fn bytes(self) -> u64 {
        self.lines * LINE_BYTES
    }

    /// The first line that `hash` may be in.
    #[inline]
    pub(super) fn home(self, hash: u64) -> u64 {
        ((hash & 0xffff_ffff) * (self.lines - (PROBED - 1))) >> 32
    }

    #[inline]
    fn has(self, hash: u64, like: u64) -> bool {
        top(hash ^ like, self.depth) == 0
    }

    /// The word of the first slot with that hash in the first line that it may be in, which holds
    /// nearly all.
    #[inline]
    pub(super) fn first<R: Reads>(self, from: &R, hash: u64) -> Option<u64> {
        let words = from.line(self.at.plus(self.home(hash) * LINE_BYTES));
        let word = (0..SLOTS as usize).rev().fold(0, |word, slot| {
            select_unpredictable(words[2 * slot] == hash, words[2 * slot + 1], word)
        });
        (slots_where(&words, |found| found == hash) != 0).then_some(word)
    }

    /// The slot with that hash whose word `is_it` picks, and that word.
    #[inline]
    pub(super) fn find<R: Reads>(
        self,
        from: &R,
        hash: u64,
        is_it: impl FnMut(u64) -> Result<bool, Wild>,
    ) -> Result<Option<(Addr, u64)>, Wild> {
        self.search(from, hash, is_it, |_, _| ())
    }

    /// As [`find`](Segment::find); shows the lines without that slot to `look`.
    #[inline]
    fn search<R: Reads>(
        self,
        from: &R,
        hash: u64,
        mut is_it: impl FnMut(u64) -> Result<bool, Wild>,
        mut look: impl FnMut(Addr, &[u64; 8]),
    ) -> Result<Option<(Addr, u64)>, Wild> {
        let vacant = vacant(hash);
        let home = self.at.plus(self.home(hash) * LINE_BYTES);
        for line in (0..PROBED).map(|line| home.plus(line * LINE_BYTES)) {
            let words = from.line(line);
            let mut same = slots_where(&words, |found| found == hash);
            while same != 0 {
                let slot = same.trailing_zeros();
                let word = words[(2 * slot as usize + 1) % words.len()];
                if is_it(word)? {
                    return Ok(Some((line.plus(u64::from(slot) * SLOT_BYTES), word)));
                }
                same &= same - 1;
            }
            look(line, &words);
            if slots_where(&words, |found| found == vacant) != 0 {
                return Ok(None);
            }
        }
        Ok(None)
    }

    /// As [`find`](Segment::find), and where a new entry with that hash would go.
    #[inline]
    pub(super) fn probe<R: Reads>(
        self,
        from: &R,
        hash: u64,
        is_it: impl FnMut(u64) -> Result<bool, Wild>,
    ) -> Result<Probe, Wild> {
        let mut room = None;
        let found = self.search(from, hash, is_it, |line, words| {
            let free = slots_where(words, |found| !self.has(found, hash));
            if room.is_none() && free != 0 {
                room = Some(line.plus(u64::from(free.trailing_zeros()) * SLOT_BYTES));
            }
        })?;
        Ok(Probe { found, room })
    }

    /// The bytes of an empty segment of hashes that begin like this one.
    pub(super) fn vacant_bytes(self, like: u64) -> Vec<u8> {
        vec![vacant(like) as u8; self.bytes() as usize]
    }

    /// Its slots as they are.
    pub(super) fn slots<R: Reads>(self, from: &R) -> Vec<(u64, u64)> {
        let lines = (0..self.lines).map(|line| from.line(self.line(line)));
        lines.flat_map(|words| [0, 2, 4, 6].map(|word| (words[word], words[word + 1]))).collect()
    }

    /// Its entries, if its hashes begin like this one.
    pub(super) fn live<R: Reads>(self, from: &R, like: u64) -> Vec<(u64, u64)> {
        let mut slots = self.slots(from);
        slots.retain(|(hash, _)| self.has(*hash, like));
        slots
    }

    fn line(self, line: u64) -> Addr {
        self.at.plus(line * LINE_BYTES)
    }

    /// How many entries a line holds, if the hashes of the segment begin like this one.
    fn count_in<R: Reads>(self, from: &R, line: u64, like: u64) -> u64 {
        let words = from.line(self.line(line));
        words.iter().step_by(2).filter(|hash| self.has(**hash, like)).count() as u64
    }

    /// What to store in place of `hash`, which is at `slot`, to vacate it; and whether the line
    /// holds no entry then.
    #[inline]
    pub(super) fn blank<R: Reads>(self, from: &R, slot: Addr, hash: u64) -> (u64, bool) {
        let vacant = vacant(hash);
        let words = from.line(slot.line().start());
        let never_used = slots_where(&words, |found| found == vacant) != 0;
        let entries = slots_where(&words, |found| self.has(found, hash));
        (if never_used { vacant } else { vacant ^ 1 }, entries.is_power_of_two())
    }

    /// True if few entries seem to be left around the slot, whose line has none: none in the next
    /// line, and not many in some others. Most lines ask for none in those, so that few removals
    /// look far; but the one that empties the segment always finds it sparse.
    pub(super) fn seems_sparse<R: Reads>(self, from: &R, slot: Addr, like: u64) -> bool {
        let line = (slot.bits() - self.at.bits()) / LINE_BYTES;
        if self.count_in(from, (line + 1) % self.lines, like) > 0 {
            return false;
        }
        let asks = line.is_multiple_of(ASKED.min(self.lines / SAMPLED).max(1));
        let most = if asks { self.whole_sample() / SPARSE } else { 0 };
        let mut counts = self.sampled().map(|line| self.count_in(from, line, like));
        let within = |sum: u64, count| (sum + count <= most).then_some(sum + count);
        counts.try_fold(0, within).is_some()
    }

    /// How many entries a sample of a full segment has.
    pub(super) fn whole_sample(self) -> u64 {
        SLOTS * SAMPLED.min(self.lines)
    }

    /// How many entries there are in some lines.
    pub(super) fn sample<R: Reads>(self, from: &R, like: u64) -> u64 {
        self.sampled().map(|line| self.count_in(from, line, like)).sum()
    }

    fn sampled(self) -> impl Iterator<Item = u64> {
        let count = SAMPLED.min(self.lines);
        (0..count).map(move |at| at * self.lines / count)
    }

    /// The bytes of a segment of these entries, which are few enough for it to be worth while and
    /// all find room.
    pub(super) fn merged_bytes(self, like: u64, entries: &mut [(u64, u64)]) -> Option<Vec<u8>> {
        if entries.len() as u64 * MERGED > self.lines * SLOTS {
            return None;
        }
        entries.sort_unstable_by_key(|(hash, _)| self.home(*hash));
        self.placed(like, entries)
    }

    /// The bytes of a segment of these entries, whose hashes begin like `like`. If they were in a
    /// segment of this size, where searches found them, they have room.
    pub(super) fn filled_bytes(self, like: u64, entries: &mut [(u64, u64)]) -> Option<Vec<u8>> {
        if let Some(bytes) = self.placed(like, entries) {
            return Some(bytes);
        }
        entries.sort_unstable_by_key(|(hash, _)| self.home(*hash));
        self.placed(like, entries)
    }

    fn placed(self, like: u64, entries: &[(u64, u64)]) -> Option<Vec<u8>> {
        let mut bytes = self.vacant_bytes(like);
        let mut used = vec![0; self.lines as usize];
        for (hash, word) in entries {
            let home = self.home(*hash);
            let line = (home..home + PROBED).find(|line| used[*line as usize] < SLOTS)?;
            let slot = &mut used[line as usize];
            let at = (line * LINE_BYTES + *slot * SLOT_BYTES) as usize;
            bytes[at..at + 8].copy_from_slice(&hash.to_le_bytes());
            bytes[at + 8..at + 16].copy_from_slice(&word.to_le_bytes());
            *slot += 1;
        }
        Some(bytes)
    }

    /// What is wrong with its slots as they are, if its hashes begin like `like`: an entry
    /// that a search does not reach.
    pub(super) fn unreachable(self, like: u64, slots: &[(u64, u64)]) -> Option<u64> {
        let vacant = vacant(like);
        let ends: Vec<bool> = slots
            .chunks(SLOTS as usize)
            .map(|line| line.iter().any(|(hash, _)| *hash == vacant))
            .collect();
        let place = |at: usize| at as u64 / SLOTS;
        let is_lost = |(at, hash): (usize, u64)| {
            let (home, line) = (self.home(hash), place(at));
            !(home..home + PROBED).contains(&line)
                || ends[home as usize..line as usize].contains(&true)
        };
        let live = slots.iter().map(|(hash, _)| *hash).enumerate();
        let mut live = live.filter(|(_, hash)| self.has(*hash, like));
        live.find(|entry| is_lost(*entry)).map(|(_, hash)| hash)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use seawall_memory::{Image, MemoryExt};
    use std::collections::BTreeMap;

    proptest! {
        #[test]
        fn mixing_loses_nothing(word: u64) {
            prop_assert_eq!(unmix(mix(word)), word);
            prop_assert_eq!(mix(unmix(word)), word);
        }

        #[test]
        fn entries_that_had_room_have_room_in_any_order(
            lines in SEGMENT_LINES_MIN..12,
            homes in proptest::collection::vec((any::<u32>(), 0u64..PROBED), 0..60),
            rotate in 0usize..60,
        ) {
            let segment = Segment { at: Addr::NULL, depth: 1, lines };
            let mut used: BTreeMap<u64, u64> = BTreeMap::new();
            let mut entries = Vec::new();
            for (number, (low, behind)) in (0..).zip(homes) {
                let hash = 1 << 63 | number << 32 | u64::from(low);
                let line = used.entry(segment.home(hash) + behind).or_default();
                if *line < SLOTS {
                    *line += 1;
                    entries.push((hash, number));
                }
            }
            let rotate = rotate % entries.len().max(1);
            entries.rotate_left(rotate);
            let bytes = segment.filled_bytes(1 << 63, &mut entries).unwrap();
            let words = bytes.as_chunks::<8>().0.as_chunks::<2>().0;
            let slots: Vec<(u64, u64)> =
                words.iter().map(|slot| slot.map(u64::from_le_bytes).into()).collect();
            prop_assert_eq!(segment.unreachable(1 << 63, &slots), None);
            let live = slots.iter().filter(|(hash, _)| segment.has(*hash, 1 << 63)).count();
            prop_assert_eq!(live, entries.len());
        }
    }

    #[test]
    fn the_first_line_is_searched_as_the_others_are() {
        let image = Image::new(4096, 0);
        let segment = Segment { at: Addr::pm(1024), depth: 1, lines: 4 };
        for slots in 0..3u64.pow(4) {
            let hashes = [0, 1, 2, 3].map(|slot| (5 << 32) + slots / 3u64.pow(slot) % 3);
            for (slot, hash) in (0..).zip(hashes) {
                image.store(segment.at.plus(SLOT_BYTES * slot), hash);
                image.store(segment.at.plus(SLOT_BYTES * slot + 8), 10 + slot);
            }
            for hash in (0..3).map(|low| (5 << 32) + low) {
                let word = hashes.iter().zip(10..).find(|(found, _)| **found == hash);
                let word = word.map(|(_, word)| word);
                assert_eq!(segment.first(&image, hash), word, "{hashes:x?}");
                let found = segment.find(&image, hash, |_| Ok(true)).unwrap();
                assert_eq!(found.map(|(_, word)| word), word, "{hashes:x?}");
            }
        }
    }

    #[test]
    fn vacant_words_belong_to_no_segment_that_they_are_in() {
        for like in [0, 1 << 62, 1 << 63, !0] {
            let segment = Segment { at: Addr::NULL, depth: 1, lines: 4 };
            assert!(!segment.has(vacant(like), like) && !segment.has(vacant(like) ^ 1, like));
        }
    }
}
