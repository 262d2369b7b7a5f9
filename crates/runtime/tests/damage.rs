//! One flipped bit, or a file cut short: refused with a name, or exactly as harmless as
//! `docs/format.md` says of the place. `SEAWALL_FLIPS=1` tries every bit of every line in use.

use proptest::prelude::*;
use seawall_memory::Image;
use seawall_runtime::{Heap, HeapError, HeapFlaw};
use seawall_testkit::places::{
    CHUNK, CLOSED_WORD, LINE, Part, Places, SIZES, STATES, TEXT, TYPES, word,
};
use seawall_testkit::script::{NAME, State, read, work_in};
use seawall_testkit::subjects::{self, Subject, pool_options};

/// What opening a damaged pool may come to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    /// It is refused.
    Refused,
    /// As without the damage, but for the bit itself, if that was not written over.
    Itself,
    /// Refused, or written over by what the logs hold.
    RefusedOrHealed,
    /// A log seems to end earlier: what the last record of its thread says did not happen.
    Unseen,
}

/// What came of it.
#[derive(Debug)]
enum Outcome {
    Refused(HeapError),
    Opened(Vec<u8>, Result<State, String>),
}

/// Opens the pool and looks at all of it. What is refused at once is left as it was.
fn open(pm: Vec<u8>) -> Outcome {
    let bytes = pm.len() as u64;
    let image = Image::from_pm(pm.clone(), pool_options().dram_bytes());
    let heap = match Heap::open(&image, NAME, bytes) {
        Ok((heap, _)) => heap,
        Err(error) => {
            assert!(image.into_pm() == pm, "written before all was known to be sound: {error}");
            return Outcome::Refused(error);
        }
    };
    let looked = heap.objects(&image, |_| {}).and_then(|()| {
        heap.stats(&image)?;
        heap.types(&image).map(|_| ())
    });
    match looked {
        Err(error) => Outcome::Refused(error.into()),
        Ok(()) => {
            let state = read(&image, &heap);
            Outcome::Opened(image.into_pm(), state)
        }
    }
}

struct Damage {
    subject: Subject,
    places: Places,
    /// The pool as opening it leaves it.
    opened: Vec<u8>,
}

impl Damage {
    fn of(subject: Subject) -> Damage {
        let places = Places::of(&subject.pm);
        let Outcome::Opened(opened, state) = open(subject.pm.clone()) else {
            panic!("{} is refused", subject.name)
        };
        assert_eq!(state.as_ref(), Ok(&subject.state));
        Damage { subject, places, opened }
    }

    fn fate(&self, bit: usize) -> Fate {
        let (at, pm, places) = (bit / 8, &self.subject.pm, &self.places);
        let has_logs = self.subject.pending != (0, 0);
        let checked = if has_logs { Fate::RefusedOrHealed } else { Fate::Refused };
        match places.part(at) {
            Part::Header => Fate::Refused,
            Part::State if at < places.state + 16 => Fate::Refused,
            Part::Thread if bit - 8 * places.thread >= 8 * 8 * (CLOSED_WORD + 2) => Fate::Itself,
            Part::Thread if bit - 8 * places.thread >= 62 => Fate::Refused,
            Part::Log(log) => {
                let records = places.records(pm, log);
                let inside =
                    |(start, bytes): &(usize, usize)| (*start..start + bytes).contains(&at);
                let is_last = records.last().is_some_and(inside) && self.is_newest(log);
                match records.iter().any(inside) {
                    false => Fate::Itself,
                    true if is_last => Fate::Unseen,
                    true => Fate::Refused,
                }
            }
            Part::Table => {
                let chunk = (at - places.table) / 8;
                let counts = places.entries(&self.opened).iter().any(|(of, ..)| *of == chunk);
                if counts { checked } else { Fate::Itself }
            }
            Part::Chunk => {
                let (chunk, inside) = ((at - places.data) / CHUNK, (at - places.data) % CHUNK);
                let entries = places.entries(&self.opened);
                let (_, kind, class) = *entries.iter().rfind(|(of, ..)| *of <= chunk).expect("one");
                let is_state = kind == 2 && inside < (CHUNK - STATES) / SIZES[class];
                if is_state { checked } else { Fate::Itself }
            }
            Part::Types if at < places.types + 16 * TYPES => checked,
            Part::Texts => {
                let number = (at - places.texts) / TEXT;
                let is_used = word(&self.opened, places.types + 16 * number) != 0;
                if is_used { checked } else { Fate::Itself }
            }
            Part::State | Part::Thread | Part::Root | Part::Types | Part::Gap => Fate::Itself,
        }
    }

    /// True if no record of the thread is newer than those of this log.
    fn is_newest(&self, log: usize) -> bool {
        let newer = (word(&self.subject.pm, self.places.state) & 1) as usize;
        log == 2 || log == newer || self.places.records(&self.subject.pm, newer).is_empty()
    }

    fn flip(&self, bit: usize) -> Result<(), String> {
        let mut pm = self.subject.pm.clone();
        pm[bit / 8] ^= 1 << (bit % 8);
        let fate = self.fate(bit);
        let is_as_said = match (&fate, &open(pm)) {
            (Fate::Refused | Fate::RefusedOrHealed, Outcome::Refused(error)) => {
                let text = error.to_string();
                ["damaged", "pool"].iter().any(|word| text.contains(word))
            }
            (Fate::Itself, Outcome::Opened(found, _)) => {
                let other = |at: &usize| found[*at] != self.opened[*at];
                found == &self.opened || (0..found.len()).filter(other).all(|at| at == bit / 8)
            }
            (Fate::RefusedOrHealed, Outcome::Opened(found, _)) => found == &self.opened,
            (Fate::Unseen, Outcome::Opened(..)) => true,
            _ => false,
        };
        let part = self.places.part(bit / 8);
        let said = || format!("{}: bit {bit} in {part:?} is not {fate:?}", self.subject.name);
        if is_as_said { Ok(()) } else { Err(said()) }
    }
}

fn subjects() -> impl Iterator<Item = Damage> {
    subjects::all().into_iter().map(Damage::of)
}

#[test]
fn a_flipped_bit_of_a_line_in_use_is_noticed_or_harmless_as_described() {
    let every = std::env::var("SEAWALL_FLIPS").map_or(61, |every| every.parse().expect("a number"));
    for damage in subjects() {
        let pm = &damage.subject.pm;
        let in_use = |line: &usize| pm[line * LINE..][..LINE].iter().any(|byte| *byte != 0);
        let lines = (0..pm.len() / LINE).filter(in_use);
        let bits = lines.flat_map(|line| line * 8 * LINE..(line + 1) * 8 * LINE);
        for bit in bits.step_by(every) {
            damage.flip(bit).unwrap();
        }
        let first = [(0, damage.places.root), (damage.places.thread, damage.places.logs)];
        for bit in first.into_iter().flat_map(|(from, to)| (8 * from..8 * to).step_by(3)) {
            damage.flip(bit).unwrap();
        }
    }
}

#[test]
fn without_the_record_that_a_flip_hides_the_heap_is_as_before_it() {
    for damage in subjects().filter(|damage| damage.subject.name == "committed") {
        let records = |half| damage.places.records(&damage.subject.pm, half);
        let last = (0..2).flat_map(records).last().expect("something is committed");
        let mut pm = damage.subject.pm.clone();
        pm[last.0 + 9] ^= 4;
        let Outcome::Opened(_, state) = open(pm) else { panic!("refused") };
        let state = state.expect("a whole heap");
        assert_ne!(state, damage.subject.state);
        assert!(state[2].is_empty() && !state[3].is_empty(), "it is not the state before");
    }
}

fn generations() -> Damage {
    subjects().find(|damage| damage.subject.name == "generations").expect("it is one of them")
}

#[test]
fn the_newer_half_of_a_log_tells_where_the_older_one_ended() {
    let damage = generations();
    let pm = &damage.subject.pm;
    let newer = (word(pm, damage.places.state) & 1) as usize;
    let older = damage.places.records(pm, 1 - newer);
    assert!(older.len() > 2 && damage.is_newest(newer) && !damage.is_newest(1 - newer));
    for gone in 1..=older.len() {
        let (start, _) = older[older.len() - gone];
        let mut cut = pm.clone();
        cut[start..damage.places.log(2 - newer)].fill(0);
        let error = match open(cut.clone()) {
            Outcome::Refused(error) => error.to_string(),
            Outcome::Opened(..) => panic!("{gone} records are missing and nobody noticed"),
        };
        assert!(error.contains("does not end where its next half says"), "{error}");
        let image = Image::from_pm(cut, pool_options().dram_bytes());
        let (_, recovered) =
            Heap::open_flawed(&image, NAME, pm.len() as u64, HeapFlaw::NoBefore).expect("unseen");
        assert_eq!(recovered.replayed + gone as u64, damage.subject.pending.0);
    }
}

#[test]
fn a_header_behind_what_is_not_whole_is_damage_even_if_its_record_is_not_whole() {
    let damage = generations();
    let pm = &damage.subject.pm;
    let newer = (word(pm, damage.places.state) & 1) as usize;
    let records = damage.places.records(pm, newer);
    let [.., (before, _), (last, _)] = records[..] else { panic!("too few records") };
    let mut pm = pm.clone();
    pm[before + 30] ^= 1;
    pm[last + 30] ^= 1;
    let Outcome::Refused(error) = open(pm) else { panic!("two records are lost unnoticed") };
    assert!(error.to_string().contains("does not add up before another"), "{error}");
}

proptest! {
    #[test]
    fn a_flipped_bit_anywhere_is_noticed_or_harmless_as_described(seed: u64) {
        for damage in subjects() {
            let bits = 8 * damage.subject.pm.len() as u64;
            for round in 0..8u64 {
                let bit = seed.rotate_left(8 * round as u32) % bits;
                prop_assert_eq!(damage.flip(bit as usize), Ok(()));
            }
        }
    }

    #[test]
    fn bytes_that_are_overwritten_never_cause_a_panic(
        edits in proptest::collection::vec((any::<u64>(), any::<u64>()), 1..20),
        subject in 0usize..6,
    ) {
        let damage = Damage::of(subjects::all().remove(subject));
        let mut pm = damage.subject.pm.clone();
        for (place, value) in edits {
            let words = if place % 3 == 0 { pm.len() } else { damage.places.data } as u64 / 8;
            let at = 8 * (place / 3 % words) as usize;
            pm[at..at + 8].copy_from_slice(&value.to_le_bytes());
        }
        work(open(pm));
    }
}

fn work(outcome: Outcome) {
    if let Outcome::Opened(pm, _) = outcome {
        let bytes = pm.len() as u64;
        let image = Image::from_pm(pm, pool_options().dram_bytes());
        if let Ok((heap, _)) = Heap::open(&image, NAME, bytes) {
            work_in(&image, &heap);
        }
    }
}

#[test]
fn a_pool_that_was_cut_short_anywhere_is_refused_and_says_so() {
    for damage in subjects() {
        let whole = &damage.subject.pm;
        let edges = [0, 1, 7, 8, 191, 192, 193, 255, 256, whole.len() - 8, whole.len() - 1];
        let steps = (0..whole.len()).step_by(1021);
        for bytes in edges.into_iter().chain(steps) {
            let Outcome::Refused(error) = open(whole[..bytes].to_vec()) else {
                panic!("{bytes} bytes of {} are opened", damage.subject.name)
            };
            let text = error.to_string();
            let is_named = if bytes < 192 { "too few" } else { "truncated" };
            assert!(text.contains(is_named), "{bytes}: {text}");
        }
    }
}
