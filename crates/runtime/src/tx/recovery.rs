//! Recovery from a crash when a heap is opened: replay what was committed, undo what was not.
//!
//! The records of the two generations that can be live are read from all logs, sorted by stamp, and
//! stored in place; then the old values of undo transactions that did not end are restored.
//!
//! A log ends at the first record that is not whole, where the crash tore it. A crash tears only
//! the last record of a thread. So a header of the same generation behind it, or a word which
//! states that the older half was longer (in the first record of the next generation, or in the
//! thread's line), exists only if the medium failed; then the heap is refused. Nothing is stored
//! before all that was read is known to be sound, and a second recovery after a crash of the first
//! stores the same bytes.
//!
//! Arbitrary bytes are read in time linear in the logs: a record that is not whole ends a log, and
//! behind it only the headers are read.

use super::checksum::{Keys, LINE_WORDS};
use super::reach;
use super::record::{Builder, Entry, Number, Record};
use super::redo_log::store_in_place;
use crate::defrag::recovery::Resumed;
use crate::flaws::HeapFlaw;
use crate::heap::checked_word::{self, LIMIT};
use crate::heap::holes::Holed;
use crate::{AccessError, Heap, HeapError, Recovered};
use seawall_memory::{Addr, LINE_BYTES, Line, Memory, MemoryExt};
use std::collections::BTreeMap;
use std::ops::Range;

/// The limit of generations and transaction numbers: no heap lives long enough to reach it.
const NUMBER_MAX: u64 = LIMIT / 2;
const DONE_MAX: u64 = 1 << 62;
/// The number of the undo log among a thread's three logs.
const UNDO: u64 = 2;
/// The unit of prefetching, at least two in a row. A pool ends at a multiple of it.
const BLOCK_BYTES: u64 = 4 << 10;

/// Recovers the heap in a pool of `bytes` bytes; returns the generation that is truncated now.
pub(crate) fn recover<M: Memory>(
    memory: &Holed<'_, M>,
    heap: &Heap,
    bytes: u64,
) -> Result<(u64, Recovered), HeapError> {
    let layout = heap.layout;
    let chunks = heap.chunks(memory)?;
    debug_assert!(layout.pm_bytes(chunks) <= bytes, "checked when the header was read");
    let retired = checked_word::load(memory, layout.retired)
        .ok()
        .filter(|retired| *retired < NUMBER_MAX)
        .ok_or_else(|| AccessError::damaged("the generation of its logs does not add up"))?;
    let mut records = Vec::new();
    for thread in 0..layout.numbers.threads {
        let mut found = read_halves(memory, heap, thread, retired)?;
        for record in &mut found {
            take_in(memory, heap, record, chunks)?;
        }
        records.extend(found.into_iter().map(|record| (thread, record)));
    }
    let undos: Vec<Vec<(u64, Record)>> = (0..layout.numbers.threads)
        .map(|thread| read_undo(memory, heap, thread, &records))
        .collect::<Result<_, _>>()?;
    for (thread, record) in records.iter().chain(undos.iter().flatten()) {
        check(heap, *thread, record, chunks)?;
    }
    if records.is_empty() && undos.iter().all(Vec::is_empty) {
        // Otherwise the logs must be replayed first.
        crate::defrag::recovery::check(memory, heap)?;
    }
    if !heap.flaw.is(HeapFlaw::NoOrder) {
        records.sort_by_key(|(_, record)| record.stamp);
    }
    let mut recovered = Recovered { replayed: records.len() as u64, ..Recovered::default() };
    let freed = void_ranges(&records);
    bring_in(memory, &records, &undos, &freed);
    let (mut dirty, mut ended) = (Vec::new(), Vec::new());
    let mut put_in_place = || {
        replay(memory, heap, (&records, &freed), &mut dirty);
        ended.clear();
        for (thread, undo) in (0..).zip(&undos) {
            ended.extend(roll_back(memory, heap, thread, undo, &mut dirty));
        }
    };
    put_in_place();
    let cycle = crate::defrag::recovery::resume(memory, heap)?;
    let is_over = cycle.as_ref().is_some_and(Resumed::copies_over);
    if is_over && !heap.flaw.is(HeapFlaw::ReplaysOnce) {
        put_in_place();
    }
    dirty.sort_unstable();
    dirty.dedup();
    for run in dirty.chunk_by(|before, after| before.0 + 1 == after.0) {
        memory.flush(run[0].start(), run.len() as u64 * LINE_BYTES);
    }
    memory.drain();
    memory.check_room()?;
    recovered.moved = cycle.map_or(0, |cycle| cycle.end(memory));
    for (done, number) in &ended {
        memory.store(*done, checked_word::encode(*done, *number));
        memory.flush(*done, 8);
    }
    recovered.rolled_back = ended.len() as u64;
    // Skips both generations: what a torn record left in them must never be read again.
    let now = retired + 2;
    memory.store(layout.retired, checked_word::encode(layout.retired, now));
    memory.persist(layout.retired, 8);
    Ok((now, recovered))
}

/// Returns the number of the transaction that an earlier session of this thread left open when it
/// was dropped, and the parts of the log that have its old values: address and lines.
pub(crate) fn left_open<M: Memory>(
    memory: &M,
    heap: &Heap,
    thread: u64,
) -> Option<(u64, Vec<(Addr, u64)>)> {
    let at = heap.layout.undo(thread);
    let number = checked_word::claimed(memory, heap.layout.ended(thread)) + 1;
    let bits = memory.load(at.plus(16));
    if Number::decode(bits, &Keys::of(heap.uuid, at), 0).generation != number {
        return None;
    }
    let parts = read_parts(memory, heap, thread, number).ok()?;
    let lines = |records: &[Record]| records.iter().map(Record::lines).sum();
    Some((number, parts.iter().map(|(at, records)| (*at, lines(records))).collect()))
}

/// Reads the old values of an undo transaction of that number, which are in these parts of a log.
///
/// # Errors
/// When the medium has lost some of them.
pub(crate) fn old_values<M: Memory>(
    memory: &M,
    heap: &Heap,
    number: u64,
    parts: &[(Addr, u64)],
) -> Result<Builder, AccessError> {
    let mut old = Builder::default();
    old.clear();
    for (at, lines) in parts {
        let records = read_whole(memory, &Keys::of(heap.uuid, *at), (*at, *lines), number);
        if records.iter().map(Record::lines).sum::<u64>() < *lines {
            let what = format!("the old values that are logged at {at} do not add up");
            return Err(AccessError::damaged(what));
        }
        let entries = records.iter().flat_map(Record::entries);
        let is_value = |entry: &Entry<'_>| matches!(entry, Entry::Words(..) | Entry::Bytes(..));
        entries.filter(is_value).for_each(|entry| old.push_entry(entry));
    }
    Ok(old)
}

/// Reads the records of an undo transaction: those of a thread's log, then those of extensions.
fn read_parts<M: Memory>(
    memory: &M,
    heap: &Heap,
    thread: u64,
    number: u64,
) -> Result<Vec<(Addr, Vec<Record>)>, AccessError> {
    let chunks = heap.chunks(memory)?;
    let first = read_log(memory, heap, (thread, UNDO), number)?;
    let mut parts = vec![(heap.layout.undo(thread), first)];
    while let Some((at, bytes)) = parts.last().and_then(|(_, part)| part.last()?.elsewhere()) {
        let is_new = parts.iter().all(|(known, _)| *known != at);
        if !is_new || !is_extension(heap, at, bytes, chunks) {
            let what = "goes on where no log can be";
            return Err(AccessError::damaged(format!("the undo log of thread {thread} {what}")));
        }
        let part = (at, bytes / LINE_BYTES);
        parts.push((at, read_whole(memory, &Keys::of(heap.uuid, at), part, number)));
    }
    Ok(parts)
}

/// Whether a log can go on there.
fn is_extension(heap: &Heap, at: Addr, bytes: u64, chunks: u64) -> bool {
    let is_chunk = heap.layout.chunk_of(at).is_some_and(|chunk| heap.layout.chunk(chunk) == at);
    is_chunk && bytes > 0 && heap.layout.holds(at, bytes, chunks)
}

/// Reads whole records of `generation` from the start of that many lines at `at`.
fn read_whole<M: Memory>(
    memory: &M,
    keys: &Keys,
    (at, lines): (Addr, u64),
    generation: u64,
) -> Vec<Record> {
    let (mut records, mut line) = (Vec::new(), 0);
    while let Some(record) = read_record(memory, keys, at, line..lines, generation) {
        line += record.lines();
        records.push(record);
    }
    records
}

/// Reads a thread's records of the two generations after the truncated one.
fn read_halves<M: Memory>(
    memory: &M,
    heap: &Heap,
    thread: u64,
    retired: u64,
) -> Result<Vec<Record>, AccessError> {
    let [older, newer] = [1, 2].map(|ahead| read_half(memory, heap, thread, retired + ahead));
    let (mut records, newer) = (older?, newer?);
    let lines: u64 = records.iter().map(Record::lines).sum();
    let closed = closed(memory, heap, thread, retired)?;
    let mut ends = closed.into_iter().map(Some).chain(newer.first().map(before));
    if !heap.flaw.is(HeapFlaw::NoBefore) && ends.any(|end| end != Some(lines)) {
        let what = "does not end where its next half says that it did";
        return Err(AccessError::damaged(format!("the log of thread {thread} {what}")));
    }
    records.extend(newer);
    Ok(records)
}

/// Adds the entries that a record has elsewhere.
fn take_in<M: Memory>(
    memory: &M,
    heap: &Heap,
    record: &mut Record,
    chunks: u64,
) -> Result<(), AccessError> {
    let Some((at, bytes)) = record.elsewhere() else { return Ok(()) };
    let read = || {
        let lines = is_extension(heap, at, bytes, chunks).then_some(bytes / LINE_BYTES)?;
        read_record(memory, &Keys::of(heap.uuid, at), at, 0..lines, record.generation)
    };
    match read()
        .filter(|other| (other.stamp, other.generation) == (record.stamp, record.generation))
    {
        Some(other) => {
            record.take_in(other);
            Ok(())
        }
        None => Err(AccessError::damaged(format!("the log record at {at} does not add up"))),
    }
}

/// Reads a thread's records of `generation`.
fn read_half<M: Memory>(
    memory: &M,
    heap: &Heap,
    thread: u64,
    generation: u64,
) -> Result<Vec<Record>, AccessError> {
    let found = read_log(memory, heap, (thread, generation % 2), generation)?;
    if found.iter().any(|record| record.generation != generation) {
        let what = "holds a record of a generation that has not begun";
        return Err(AccessError::damaged(format!("the log of thread {thread} {what}")));
    }
    Ok(found)
}

/// Returns how many lines the records of the generation after the truncated one take in the log of
/// a thread, if that was recorded when the heap moved on to the next generation.
fn closed<M: Memory>(
    memory: &M,
    heap: &Heap,
    thread: u64,
    retired: u64,
) -> Result<Option<u64>, AccessError> {
    let [generation, lines] =
        heap.layout.closed(thread).map(|at| checked_word::load(memory, at).ok());
    match generation.zip(lines) {
        Some((generation, lines)) if generation <= retired + 1 => {
            Ok((generation == retired + 1).then_some(lines))
        }
        _ => Err(AccessError::damaged(format!(
            "where thread {thread} ended its log does not add up"
        ))),
    }
}

/// Returns the lines of the previous generation, as the first record of a generation states them.
fn before(first: &Record) -> Option<u64> {
    first.entries().find_map(|entry| match entry {
        Entry::Before(lines) => Some(lines),
        _ => None,
    })
}

/// Reads the records of `generation`, or of later ones, up to the first that is not whole.
fn read_log<M: Memory>(
    memory: &M,
    heap: &Heap,
    (thread, log): (u64, u64),
    generation: u64,
) -> Result<Vec<Record>, AccessError> {
    let at = match log {
        UNDO => heap.layout.undo(thread),
        half => heap.layout.log(thread, half),
    };
    let keys = Keys::of(heap.uuid, at);
    let lines = reach::lines(memory, heap, (thread, log), generation)?;
    let records = read_whole(memory, &keys, (at, lines), generation);
    let line: u64 = records.iter().map(Record::lines).sum();
    let is_header = |line: &u64| {
        let number = load_number(memory, &keys, at, *line);
        number.generation == generation && number.lines <= lines - line
    };
    match (line + 1..lines).find(is_header) {
        None => Ok(records),
        Some(_) => Err(AccessError::damaged(format!(
            "the log of thread {thread} has a record that does not add up before another"
        ))),
    }
}

/// Decodes word 2 of a record at line `line` of the log at `at`.
fn load_number<M: Memory>(memory: &M, keys: &Keys, at: Addr, line: u64) -> Number {
    Number::decode(memory.load(at.plus(line * LINE_BYTES + 16)), keys, line)
}

/// Reads the record that starts at the first of these lines of the log at `at`, if a whole one of
/// `generation`, or of a later one, starts there.
fn read_record<M: Memory>(
    memory: &M,
    keys: &Keys,
    at: Addr,
    lines: Range<u64>,
    generation: u64,
) -> Option<Record> {
    let line = lines.start;
    if lines.is_empty() {
        return None;
    }
    let number = load_number(memory, keys, at, line);
    if number.generation < generation || number.lines > lines.end - line {
        return None;
    }
    let mut record = vec![[[0; 8]; LINE_WORDS]; number.lines as usize];
    memory.read(at.plus(line * LINE_BYTES), record.as_flattened_mut().as_flattened_mut());
    Record::parse(&record, line, keys)
}

/// Reads the old values of the undo transaction that a thread had open, if any.
fn read_undo<M: Memory>(
    memory: &M,
    heap: &Heap,
    thread: u64,
    logged: &[(u64, Record)],
) -> Result<Vec<(u64, Record)>, AccessError> {
    let mine = logged.iter().filter(|(of, _)| *of == thread);
    let ends = mine.flat_map(|(_, record)| record.entries()).filter_map(|entry| match entry {
        Entry::End(number) => Some(number),
        _ => None,
    });
    let ended = ends.fold(read_thread_line(memory, heap, thread)?, u64::max);
    if ended >= NUMBER_MAX {
        let what = "ends a transaction whose number is out of range";
        return Err(AccessError::damaged(format!("the log of thread {thread} {what}")));
    }
    let parts = read_parts(memory, heap, thread, ended + 1)?;
    let records: Vec<Record> = parts.into_iter().flat_map(|(_, records)| records).collect();
    if records.iter().any(|record| record.generation != ended + 1) {
        let what = "holds old values of a transaction that is not the one after the last that";
        return Err(AccessError::damaged(format!("the undo log of thread {thread} {what} ended")));
    }
    Ok(records.into_iter().map(|record| (thread, record)).collect())
}

/// Returns the number of a thread's last undo transaction whose end is stored in place.
fn read_thread_line<M: Memory>(memory: &M, heap: &Heap, thread: u64) -> Result<u64, AccessError> {
    let ended = checked_word::load(memory, heap.layout.ended(thread)).ok();
    let done: u64 = memory.load(heap.layout.done(thread));
    match ended.filter(|ended| *ended < NUMBER_MAX && done < DONE_MAX) {
        Some(ended) => Ok(ended),
        None => {
            Err(AccessError::damaged(format!("what thread {thread} has finished does not add up")))
        }
    }
}

/// Refuses records that write where no transaction can.
fn check(heap: &Heap, thread: u64, record: &Record, chunks: u64) -> Result<(), AccessError> {
    let sound = record.entries().all(|entry| {
        let (at, bytes) = match entry {
            Entry::Words(at, values) => (at, 8 * values.len() as u64),
            Entry::Bytes(at, ..) => (at, 8),
            Entry::Freed(at, bytes) => (at, bytes),
            Entry::End(number) => return number < NUMBER_MAX,
            // Checked when it was read.
            Entry::Before(_) | Entry::Elsewhere(..) => return true,
        };
        let is_data = heap.layout.holds(at, bytes, chunks);
        bytes > 0 && at.offset().is_multiple_of(8) && (is_data || heap.layout.is_entry(at, bytes))
    });
    if sound {
        Ok(())
    } else {
        Err(AccessError::damaged(format!("the log of thread {thread} writes no data")))
    }
}

/// Prefetches the pages that are about to be written, neighbours together.
fn bring_in<M: Memory>(
    memory: &M,
    records: &[(u64, Record)],
    undos: &[Vec<(u64, Record)>],
    freed: &Void,
) {
    let mut blocks: Vec<u64> = Vec::new();
    let undone = undos.iter().flatten().map(|record| (usize::MAX, record));
    for (place, (_, record)) in records.iter().enumerate().chain(undone) {
        for entry in record.entries() {
            if let Entry::Words(at, values) = entry
                && !is_void(freed, at, place)
            {
                let last = at.offset() + 8 * values.len() as u64 - 1;
                blocks.extend(at.offset() / BLOCK_BYTES..=last / BLOCK_BYTES);
            }
        }
    }
    blocks.sort_unstable();
    blocks.dedup();
    for run in blocks.chunk_by(|before, after| before + 1 == *after) {
        let bytes = run.len() as u64 * BLOCK_BYTES;
        if run.len() > 1 {
            memory.will_write(Addr::pm(run[0] * BLOCK_BYTES), bytes);
        }
    }
}

/// Stores all entries that no later free made void, the oldest first.
fn replay<M: Memory>(
    memory: &M,
    heap: &Heap,
    (records, freed): (&[(u64, Record)], &Void),
    dirty: &mut Vec<Line>,
) {
    for (place, (thread, record)) in records.iter().enumerate() {
        for entry in record.entries() {
            let mut store = |entry| {
                let dirtied = store_in_place(memory, &heap.layout, *thread, entry);
                if let Some((line, lines)) = dirtied {
                    dirty.extend((line.0..line.0 + lines).map(Line));
                }
            };
            match entry {
                Entry::Freed(..) | Entry::Before(_) | Entry::Elsewhere(..) => {}
                Entry::Words(..) if freed.is_empty() => store(entry),
                Entry::Words(at, values) => {
                    // A run of words can reach from one object into the next.
                    for (at, value) in (0..).map(|word| at.plus(8 * word)).zip(values) {
                        if !is_void(freed, at, place) {
                            store(Entry::Words(at, std::slice::from_ref(value)));
                        }
                    }
                }
                Entry::Bytes(at, ..) if is_void(freed, at, place) => {}
                entry => store(entry),
            }
        }
    }
}

/// Maps the starts of freed ranges to their ends and the records that freed them.
type Void = BTreeMap<u64, Vec<(u64, usize)>>;

fn void_ranges(records: &[(u64, Record)]) -> Void {
    let mut freed = Void::new();
    for (place, (_, record)) in records.iter().enumerate() {
        for entry in record.entries() {
            if let Entry::Freed(at, bytes) = entry {
                freed.entry(at.offset()).or_default().push((at.offset() + bytes, place));
            }
        }
    }
    freed
}

/// Whether the record at `place` or a later one freed the range that `at` is in. (What a
/// transaction frees is not allocated again before it commits.)
fn is_void(freed: &Void, at: Addr, place: usize) -> bool {
    if freed.is_empty() {
        return false;
    }
    let before = freed.range(..=at.offset()).rev().flat_map(|(_, ranges)| ranges);
    before.into_iter().any(|(end, freer)| *end > at.offset() && *freer >= place)
}

/// Restores the old values of a thread's undo transaction, if one was open. Returns the word to
/// store as the end of the transaction when they are durable. They go past the caches, as nothing
/// reads them soon.
fn roll_back<M: Memory>(
    memory: &M,
    heap: &Heap,
    thread: u64,
    undo: &[(u64, Record)],
    dirty: &mut Vec<Line>,
) -> Option<(Addr, u64)> {
    let number = undo.first()?.1.generation;
    for (_, record) in undo.iter().rev() {
        for entry in record.entries() {
            if let Entry::Words(at, values) = entry {
                memory.write_nt(at, values.as_flattened());
            } else if let Some((line, lines)) = store_in_place(memory, &heap.layout, thread, entry)
            {
                dirty.extend((line.0..line.0 + lines).map(Line));
            }
        }
    }
    Some((heap.layout.ended(thread), number))
}
