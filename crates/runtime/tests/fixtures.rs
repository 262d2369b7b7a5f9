//! Pools made by earlier programs stay readable: a few are kept as text and opened.
//!
//! `SEAWALL_FIXTURES_WRITE=1 cargo test -p seawall-runtime fixtures` makes them anew. Do that only
//! with a new version of the format: these files stand for the pools that people have.

use seawall_memory::Image;
use seawall_runtime::{Heap, pool};
use seawall_testkit::places::{LINE, Part, Places, TEXT, word};
use seawall_testkit::script::{NAME, State, read};
use seawall_testkit::subjects::{self, Subject, pool_options};
use std::fmt::Write;
use std::path::PathBuf;

fn file(name: &str) -> PathBuf {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures");
    folder.join(format!("{name}.txt"))
}

/// The lines of a pool that are not all zero, without the zeros at their ends.
fn to_text(pm: &[u8]) -> String {
    let mut text = format!("bytes {:#x}\n", pm.len());
    for (number, line) in pm.chunks(LINE).enumerate() {
        let Some(last) = line.iter().rposition(|byte| *byte != 0) else { continue };
        write!(text, "{:x} ", number * LINE).expect("a string has room");
        line[..=last].iter().for_each(|byte| write!(text, "{byte:02x}").expect("room"));
        text.push('\n');
    }
    text
}

pub(crate) fn from_text(text: &str) -> Vec<u8> {
    let hex = |digits: &str| usize::from_str_radix(digits, 16).expect("hexadecimal digits");
    let mut lines = text.lines();
    let bytes = lines.next().and_then(|line| line.strip_prefix("bytes 0x")).expect("its size");
    let mut pm = vec![0; hex(bytes)];
    for line in lines {
        let (at, digits) = line.split_once(' ').expect("place and bytes");
        for (byte, pair) in digits.as_bytes().chunks(2).enumerate() {
            pm[hex(at) + byte] = hex(str::from_utf8(pair).expect("ASCII")) as u8;
        }
    }
    pm
}

/// The text that is kept of a pool, which is as it was when it was `pm`.
pub(crate) fn kept_as(name: &str, pm: &[u8]) -> String {
    let path = file(name);
    if std::env::var_os("SEAWALL_FIXTURES_WRITE").is_some() {
        std::fs::create_dir_all(path.parent().expect("a folder")).expect("it can be made");
        let new = path.with_extension(format!("{:?}", std::thread::current().id()));
        std::fs::write(&new, to_text(pm)).expect("it can be written");
        std::fs::rename(&new, &path).expect("it can be renamed");
    }
    let text = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{error}"));
    assert!(text.len() < 32 << 10, "{} is {} bytes long", path.display(), text.len());
    text
}

fn kept() -> impl Iterator<Item = (Subject, Vec<u8>)> {
    let subjects = subjects::all().into_iter().filter(|subject| subject.name != "generations");
    subjects.map(move |subject| {
        let pm = from_text(&kept_as(subject.name, &subject.pm));
        (subject, pm)
    })
}

#[test]
fn pools_of_earlier_programs_are_opened_and_hold_what_they_held() {
    for (subject, pm) in kept() {
        let bytes = pm.len() as u64;
        let image = Image::from_pm(pm, pool_options().dram_bytes());
        let (heap, recovered) = Heap::open(&image, NAME, bytes).expect(subject.name);
        assert_eq!(
            (recovered.replayed, recovered.rolled_back),
            subject.pending,
            "{}",
            subject.name
        );
        assert_eq!(read(&image, &heap), Ok(subject.state), "{}", subject.name);
        let image = Image::from_pm(image.into_pm(), pool_options().dram_bytes());
        let again = Heap::open(&image, NAME, bytes).expect(subject.name).1;
        assert_eq!((again.replayed, again.rolled_back), (0, 0), "{}", subject.name);
    }
}

#[test]
fn everything_is_where_the_description_of_the_format_says() {
    for (subject, pm) in kept() {
        let (places, name) = (Places::of(&pm), subject.name);
        assert_eq!(&pm[..8], b"SEAWALL\0");
        assert_eq!((word(&pm, 8), &pm[16..22]), (pool::VERSION, NAME.as_bytes()));
        assert_eq!((word(&pm, 32), &pm[64..72]), (pm.len() as u64, &b"heap  v1"[..]));
        assert_eq!(places.data + 3 * (64 << 10), pm.len());
        let used = |part| (0..pm.len()).any(|at| pm[at] != 0 && places.part(at) == part);
        assert!(used(Part::State) && used(Part::Root) && used(Part::Table) && used(Part::Chunk));
        let has_types = word(&pm, places.types) != 0;
        assert_eq!((used(Part::Types), used(Part::Texts)), (has_types, has_types), "{name}");
        assert!(!used(Part::Gap) && (name == "typed" || !has_types), "{name}");
        let records: usize = (0..2).map(|half| places.records(&pm, half).len()).sum();
        assert_eq!((records as u64, subject.pending.0), (subject.pending.0, records as u64));
        assert_eq!(!places.records(&pm, 2).is_empty(), subject.pending.1 > 0, "{name}");
        let kinds: Vec<u64> = places.entries(&pm).iter().map(|(_, kind, _)| *kind).collect();
        assert_eq!(kinds.contains(&3), name == "large", "{name}: {kinds:?}");
        let live = subject.state.iter().filter(|object| !object.is_empty()).count();
        let image = Image::from_pm(pm, pool_options().dram_bytes());
        let heap = Heap::open(&image, NAME, image.clone().into_pm().len() as u64).expect(name).0;
        assert_eq!(heap.stats(&image).expect(name).objects, live as u64);
        assert_eq!(heap.root().offset() as usize, places.root);
    }
}

#[test]
fn a_pool_keeps_what_its_types_are_called() {
    let (_, pm) = kept().find(|(subject, _)| subject.name == "typed").expect("it is kept");
    let places = Places::of(&pm);
    let leaf = b"Leaf { value: Bytes<20> }";
    assert_eq!(&pm[places.texts + 8..][..leaf.len()], leaf);
    assert_eq!(word(&pm, places.texts) >> 32 & 0xff, leaf.len() as u64);
    let mut text = [0; TEXT - 8];
    text[..leaf.len()].copy_from_slice(leaf);
    assert_eq!(word(&pm, places.texts) as u32, crc32c::crc32c(&text));
    let image = Image::from_pm(pm, pool_options().dram_bytes());
    let (heap, _) = Heap::open(&image, NAME, image.clone().into_pm().len() as u64).expect("whole");
    let types = heap.types(&image).expect("sound").into_iter();
    let types: Vec<_> = types.map(|of| (of.number, of.bytes, of.name, of.fields)).collect();
    let row = |number, bytes, name: &str, fields: &str| {
        (number, bytes, name.to_owned(), fields.to_owned())
    };
    let pair = "value: [u8; 24], next: Option<Ptr<Leaf>>, more: [u32; 2]";
    assert_eq!(types, [row(1, 20, "Leaf", "value: Bytes<20>"), row(2, 40, "Pair<Leaf, 2>", pair)]);
}

#[test]
fn text_keeps_every_byte() {
    let mut pm = vec![0; 256];
    (pm[3], pm[200]) = (9, 255);
    assert_eq!(from_text(&to_text(&pm)), pm);
    assert_eq!(subjects::all().len(), 6);
    assert_eq!(State::default().len(), 4);
}
