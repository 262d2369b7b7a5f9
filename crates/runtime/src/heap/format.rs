//! Holds `docs/format.md` to the code: every number in its table, and the size classes.

use super::layout::{
    CHUNKS_MAX, LOG_BYTES_MAX, LOG_BYTES_MIN, ROOT_BYTES_MAX, TEXT_BYTES, THREADS_MAX, TYPES_MAX,
};
use crate::alloc::chunk::UNTYPED;
use crate::alloc::map::{GRANULE_BYTES, GRANULES, SHELF_STATE_BYTES};
use crate::alloc::shelf::MORE;
use crate::alloc::size_class::{BLOCK_BYTES_MAX, CHUNK_BYTES, SIZES, STATE_BYTES};
use crate::heap::checked_word::LIMIT;
use crate::pool::{HEADER_BYTES, VERSION};
use crate::tx::direct::DIRECT_BYTES;
use crate::tx::record::{COUNT_MAX, HEADER_WORDS};

const PAGE: &str = include_str!("../../format.md");

#[test]
fn the_description_of_the_format_has_the_numbers_of_the_code() {
    let numbers = [
        ("format version", VERSION),
        ("bytes of the header", HEADER_BYTES),
        ("bytes of a chunk", CHUNK_BYTES),
        ("bytes of states at the start of a chunk", STATE_BYTES),
        ("bytes of states at the start of a shelf", SHELF_STATE_BYTES),
        ("bytes of a granule", GRANULE_BYTES),
        ("granules of a shelf", GRANULES),
        ("type number of a granule that belongs to the object before it", MORE.into()),
        ("size classes", SIZES.len() as u64),
        ("largest block", BLOCK_BYTES_MAX),
        ("types", TYPES_MAX),
        ("bytes of what a type is called, with the word before it", TEXT_BYTES),
        ("type number of objects allocated as bytes", UNTYPED.into()),
        ("threads at most", THREADS_MAX),
        ("bytes of a log half at least", LOG_BYTES_MIN),
        ("bytes of a log half at most", LOG_BYTES_MAX),
        ("chunks at most", CHUNKS_MAX),
        ("bytes of the root object at most", ROOT_BYTES_MAX),
        ("bytes from which a fresh object is written past the log", DIRECT_BYTES),
        ("words of a record's header", HEADER_WORDS as u64),
        ("words of one entry at most", COUNT_MAX as u64),
        ("bits of a checked word's value", LIMIT.ilog2().into()),
    ];
    let (_, table) = PAGE.split_once("## The numbers").expect("the section");
    let rows = table.lines().skip_while(|line| !line.starts_with("|---")).skip(1);
    let rows: Vec<&str> = rows.take_while(|line| line.starts_with('|')).collect();
    let wanted = numbers.map(|(name, value)| format!("| {name} | {value} |"));
    assert_eq!(rows, wanted);
}

#[test]
fn the_description_of_the_format_lists_the_size_classes() {
    let (_, list) = PAGE.split_once("Classes: ").expect("the list");
    let (list, _) = list.split_once('.').expect("its end");
    let sizes: Vec<u64> = list.split_whitespace().map(|size| size.parse().expect("one")).collect();
    assert_eq!(sizes, SIZES);
}
