//! Flipped bits in a pool that a crash left in the middle of a cycle.

use super::{List, NAME, Thread, defragmenter, made, options, push, retain, values};
use crate::fixtures::{from_text, kept_as};
use seawall_memory::Image;
use seawall_runtime::defrag::Protocol;
use seawall_runtime::typed;
use seawall_runtime::{HeapError, HeapOptions};
use seawall_testkit::places::{Part, Places, word};

const CHUNKS: u64 = 8;
const KEPT: [u64; 4] = [49, 48, 16, 0];
/// Where the description of the format has the parts of a table, and bytes of an entry.
const ENTRIES: usize = 64;
const ENTRY: usize = 192;

fn small() -> HeapOptions {
    HeapOptions { threads: 1, log_bytes: 4096, ..options(CHUNKS) }
}

/// A pool whose cycle has moved some objects.
fn in_a_cycle() -> Vec<u8> {
    let (image, heap) = made(&small());
    let mut thread = Thread::join(heap, &image).unwrap();
    push(&mut thread, 0..60).unwrap();
    retain(&mut thread, |value| KEPT.contains(&value)).unwrap();
    let mut defragmenter = defragmenter(Protocol::Sfccd);
    while defragmenter.counts().moved == 0 {
        let _ = thread.defragment(&mut defragmenter).unwrap();
    }
    thread.untyped().retire();
    image.clone().into_pm()
}

/// The values of a pool, and what recovery moved; nothing has changed if it is refused.
fn open(pm: &[u8]) -> Result<(u64, Vec<u64>), String> {
    let image = Image::from_pm(pm.to_vec(), small().dram_bytes());
    let opened = typed::open::<List<'_>, _, HeapError>(&image, NAME, pm.len() as u64, |pool| {
        Ok((pool.heap(), pool.recovered().moved))
    });
    let (heap, moved) = match opened {
        Ok(opened) => opened,
        Err(error) => {
            assert!(image.into_pm() == pm, "written before it was refused: {error}");
            return Err(error.to_string());
        }
    };
    let mut thread = Thread::join(heap, &image).unwrap();
    values(&mut thread).map(|values| (moved, values))
}

/// The offset of the table, by the description of the format.
fn table_of(pm: &[u8], places: &Places) -> usize {
    let chunk = (word(pm, places.state + 16) & ((1 << 40) - 1)) - 1;
    places.data + chunk as usize * (64 << 10)
}

#[test]
fn a_pool_in_the_middle_of_a_cycle_is_as_the_description_of_the_format_says() {
    let pm = from_text(&kept_as("moving", &in_a_cycle()));
    let places = Places::of(&pm);
    assert_eq!((&pm[64..72], word(&pm, 112)), (&b"heap  v3"[..], 0));
    let table = table_of(&pm, &places);
    let value = |at: usize| word(&pm, at) & ((1 << 40) - 1);
    let (pages, protocol) = (value(table) >> 3, value(table) & 7);
    assert_eq!(protocol, 4, "sfccd");
    let mut objects = 0;
    for entry in (0..pages as usize).map(|number| table + ENTRIES + number * ENTRY) {
        assert_eq!(value(entry) & 1, 1, "in force");
        let of_page = word(&pm, entry + 16).count_ones() + word(&pm, entry + 24).count_ones();
        objects += of_page;
        let moved = pm[entry + 64..entry + ENTRY].iter().filter(|byte| **byte == 1).count();
        assert_eq!(moved, of_page as usize);
        let mut bytes = value(entry + 8).to_le_bytes().to_vec();
        bytes.extend_from_slice(&pm[entry + 16..entry + 32]);
        bytes.extend_from_slice(&(value(entry) >> 1).to_le_bytes());
        assert_eq!(value(entry + 48), u64::from(crc32c::crc32c(&bytes)));
    }
    assert_eq!(objects, 4);
    assert_eq!(open(&pm), Ok((4, KEPT.to_vec())));
}

#[test]
fn a_flipped_bit_of_the_table_is_refused_or_means_nothing() {
    let pm = in_a_cycle();
    let places = Places::of(&pm);
    let table = table_of(&pm, &places);
    let pages = ((word(&pm, table) & ((1 << 40) - 1)) >> 3) as usize;
    let state_line = places.state..places.state + 64;
    let mut refused = 0;
    for at in state_line.chain(64..128).chain(table..table + ENTRIES + pages * ENTRY) {
        for bit in 0..8 {
            let mut damaged = pm.clone();
            damaged[at] ^= 1 << bit;
            match open(&damaged) {
                Ok(found) => assert_eq!(found, (4, KEPT.to_vec()), "bit {bit} of byte {at}"),
                Err(why) => {
                    refused += 1;
                    let is_named = why.contains("damaged") || why.contains("not a pool");
                    assert!(is_named || why.contains("header"), "{why}");
                }
            }
        }
    }
    // Of the state line, the header, and of the entries all but the bytes of what has moved.
    let checked = 3 * 64 + 64 * 8 + pages * (64 * 3 + 128);
    assert!(refused >= checked, "{refused} of {checked}");
    assert!(places.part(table) == Part::Chunk);
}
