//! One DIMM: the write-pending queue in front of it, its buffers, and the media behind them.
//!
//! The queue belongs to the memory controller and has 8 lines for each DIMM (LENS, MICRO'20). It
//! sends lines in the order in which it accepted them, each when the DIMM has a place for it, so a
//! line that waits holds up all lines behind it. A line that is rewritten before the DIMM has
//! acknowledged it waits before the queue: LENS rewrote one line every 186 ns where a single write
//! took 90 (FAST'20). Accepted lines survive a crash under ADR, and lines acknowledged by the DIMM
//! survive it anyway.

use super::combiner::{Combiner, Leaving, Room};
use super::media::Media;
use super::tags::Tags;
use super::{DimmTraffic, PAGE_LINES, WriteTimes, XPLINE_LINES};
use crate::Cycle;
use crate::config::{DimmConfig, MemoryConfig};
use crate::engine::calendar::Calendar;
use std::collections::VecDeque;

/// A line on its way to the DIMM.
#[derive(Clone, Copy, Debug)]
struct Sent {
    line: u64,
    acknowledged: Cycle,
}

#[derive(Clone, Debug)]
pub(super) struct Dimm {
    channel: Calendar,
    line_cycles: u64,
    post: u64,
    queue_lines: usize,
    /// When each line of the queue leaves it, oldest first; lines beyond the queue's size wait
    /// before it.
    queue: VecDeque<Cycle>,
    /// Lines that the DIMM has not acknowledged, oldest first.
    sent: VecDeque<Sent>,
    /// The latency from a line's place in the DIMM to the acknowledgement.
    acknowledge: u64,
    combiner: Combiner,
    /// The read buffer of XPLines.
    buffer: Tags,
    /// The latency from the queue to a line in the read buffer, and back.
    read: u64,
    /// The latency between media and read buffer.
    fetch: u64,
    /// The translation buffer, by page.
    pages: Tags,
    translate: u64,
    media: Media,
    lines_written: u64,
    translations_missed: u64,
}

impl Dimm {
    pub(super) fn new(memory: &MemoryConfig, config: &DimmConfig) -> Dimm {
        Dimm {
            channel: Calendar::default(),
            line_cycles: config.channel_cycles,
            post: memory.post,
            queue_lines: config.write_queue,
            queue: VecDeque::with_capacity(2 * config.write_queue),
            sent: VecDeque::with_capacity(64),
            acknowledge: memory.nvm.write - config.channel_cycles,
            combiner: Combiner::new(config.combining_sets, config.combining_lines),
            buffer: Tags::new(config.buffer_xplines, config.buffer_xplines),
            read: memory.nvm.read,
            fetch: config.fetch,
            pages: Tags::new(config.translated_pages, config.translated_ways),
            translate: config.translate,
            media: Media::new(config),
            lines_written: 0,
            translations_missed: 0,
        }
    }

    pub(super) fn read(&mut self, line: u64, at: Cycle) -> Cycle {
        let xpline = line / XPLINE_LINES;
        let found = if self.combiner.has(line) {
            at
        } else {
            match self.buffer.touch(xpline as u32) {
                Some(ready) => ready.max(at),
                None => self.fetch(xpline, at),
            }
        };
        let done = found + self.read;
        let moved = self.channel.book(done.saturating_sub(self.line_cycles), self.line_cycles);
        done.max(moved + self.line_cycles)
    }

    /// Reads an XPLine from the media into the buffer; returns when it is there.
    fn fetch(&mut self, xpline: u64, at: Cycle) -> Cycle {
        let translated = self.translated(xpline, at);
        let ready = self.media.read(translated) + self.fetch;
        self.buffer.put(xpline as u32, ready);
        ready
    }

    /// When the media address of an XPLine is known.
    fn translated(&mut self, xpline: u64, at: Cycle) -> Cycle {
        let page = (xpline * XPLINE_LINES / PAGE_LINES) as u32;
        if let Some(ready) = self.pages.touch(page) {
            return ready.max(at);
        }
        self.translations_missed += 1;
        let ready = at + self.translate;
        self.pages.put(page, ready);
        ready
    }

    /// Writes a line; the queue accepts it no earlier than `floors.0`, and the DIMM receives it no
    /// earlier than `floors.1`.
    pub(super) fn write(&mut self, line: u64, at: Cycle, floors: (Cycle, Cycle)) -> WriteTimes {
        self.lines_written += 1;
        let accepted = (self.door(line, at) + self.post).max(floors.0);
        let before = self.queue.back().copied().unwrap_or(0);
        let moved = self.channel.book(accepted, self.line_cycles) + self.line_cycles;
        let leaves = self.combine(line, moved.max(before));
        self.queue.push_back(leaves);
        let before = self.sent.back().map_or(0, |last| last.acknowledged);
        let acknowledged = (leaves + self.acknowledge).max(before).max(floors.1);
        self.sent.push_back(Sent { line, acknowledged });
        WriteTimes { accepted, left: leaves, in_dimm: acknowledged }
    }

    /// When the write-pending queue accepts a line that comes at `at`.
    fn door(&mut self, line: u64, at: Cycle) -> Cycle {
        while self.queue.front().is_some_and(|leaves| *leaves <= at) {
            self.queue.pop_front();
        }
        while self.sent.front().is_some_and(|first| first.acknowledged <= at) {
            self.sent.pop_front();
        }
        let full = self.queue.len().checked_sub(self.queue_lines);
        let free = full.map_or(at, |first| self.queue[first]);
        let same = self.sent.iter().rev().find(|sent| sent.line == line);
        free.max(same.map_or(at, |sent| sent.acknowledged))
    }

    /// Puts a line into the write buffer; returns when it has its place.
    fn combine(&mut self, line: u64, at: Cycle) -> Cycle {
        let mut at = at;
        loop {
            match self.combiner.room(line, at) {
                Room::At(free) => {
                    at = free;
                    break;
                }
                Room::Behind(leaving) => at = self.send(leaving, at),
            }
        }
        if let Some(whole) = self.combiner.put(line) {
            self.send(whole, at);
        }
        at
    }

    /// Sends an XPLine to the media at `at`; returns when their queue has accepted it.
    fn send(&mut self, leaving: Leaving, at: Cycle) -> Cycle {
        let room = self.media.room(at);
        let translated = self.translated(leaving.xpline, room);
        self.media.write(leaving.xpline as u32, translated);
        self.buffer.put(leaving.xpline as u32, room);
        self.combiner.leave(leaving, room);
        room
    }

    pub(super) fn traffic(&self) -> DimmTraffic {
        DimmTraffic {
            lines_written: self.lines_written,
            media_reads: self.media.reads,
            media_writes: self.media.writes,
            translations_missed: self.translations_missed,
            blocks_moved: self.media.moved,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Machine;

    fn config() -> (MemoryConfig, DimmConfig) {
        let memory = Machine::load("optane24").unwrap().memory;
        let dimms = memory.nvm.dimms.unwrap();
        (memory, dimms)
    }

    fn dimm() -> Dimm {
        let (memory, dimms) = config();
        Dimm::new(&memory, &dimms)
    }

    #[test]
    fn a_lone_read_adds_what_is_not_at_hand() {
        let ((memory, config), mut dimm) = (config(), dimm());
        let mut read = |line, at| dimm.read(line, at) - at;
        let (buffered, media) = (memory.nvm.read, config.media_read + config.fetch);
        assert_eq!(read(5, 10_000), buffered + media + config.translate, "nothing is known");
        assert_eq!(read(6, 20_000), buffered, "its XPLine is in the buffer");
        assert_eq!(read(40, 30_000), buffered + media, "its page has been translated");
        assert_eq!(read(64, 40_000), buffered + media + config.translate, "another page");
    }

    #[test]
    fn reads_of_an_xpline_on_its_way_wait_for_it_and_ask_the_media_once() {
        let ((_, config), mut dimm) = (config(), dimm());
        let first = dimm.read(0, 1000);
        let others: Vec<Cycle> = (1..4).map(|line| dimm.read(line, 1001)).collect();
        assert_eq!(others, [1, 2, 3].map(|turn| first + turn * config.channel_cycles));
        assert_eq!(dimm.traffic().media_reads, 1);
    }

    #[test]
    fn the_buffer_keeps_as_many_xplines_as_it_has() {
        let ((memory, config), mut dimm) = (config(), dimm());
        let xplines = config.buffer_xplines as u64;
        for xpline in 0..=xplines {
            dimm.read(xpline * XPLINE_LINES, xpline * 10_000);
        }
        let mut read = |xpline: u64, at| dimm.read(xpline * XPLINE_LINES, at) - at;
        assert_eq!(read(xplines, 1 << 30), memory.nvm.read);
        assert!(read(0, 1 << 31) > memory.nvm.read, "it made room for the last");
    }

    #[test]
    fn a_lone_line_is_accepted_at_once_and_acknowledged_when_the_dimm_has_it() {
        let ((memory, _), mut dimm) = (config(), dimm());
        let lone = dimm.write(0, 50, (0, 0));
        assert_eq!(lone.accepted, 50 + memory.post);
        assert_eq!(lone.in_dimm, 50 + memory.post + memory.nvm.write);
    }

    #[test]
    fn when_no_line_has_a_place_in_the_dimm_the_queue_fills_and_then_its_door_closes() {
        let ((memory, config), mut dimm) = (config(), dimm());
        let lines = config.combining_sets * config.combining_lines;
        let before = lines + config.write_queue + XPLINE_LINES as usize * config.media_queue;
        let mut accepted = |line: usize| dimm.write(line as u64, 10 * line as u64, (0, 0)).accepted;
        let accepted: Vec<Cycle> = (0..before + 400).map(&mut accepted).collect();
        let is_late = |line: &usize| accepted[*line] > 10 * *line as u64 + memory.post;
        let first = (0..before + 400).find(is_late).unwrap();
        assert!((before - 8..before + 32).contains(&first), "line {first}, {before} have a place");
        let xpline = (accepted[before + 399] - accepted[before + 199]) as f64 / 50.0;
        assert!((xpline / config.media_write_cycles as f64 - 1.0).abs() < 0.1, "{xpline}");
    }

    #[test]
    fn a_line_that_is_written_again_waits_until_the_dimm_has_it_and_its_neighbour_does_not() {
        let ((memory, _), mut dimm) = (config(), dimm());
        let first = dimm.write(8, 1000, (0, 0));
        assert_eq!(dimm.write(9, 1010, (0, 0)).accepted, 1010 + memory.post);
        assert_eq!(dimm.write(8, 1020, (0, 0)).accepted, first.in_dimm + memory.post);
    }

    #[test]
    fn a_line_that_waits_for_a_place_holds_up_those_behind_it() {
        let ((memory, _), mut dimm) = (config(), dimm());
        let mut ask = |line: u64| dimm.write(line, 50, (0, 0)).in_dimm - memory.nvm.write;
        // Single lines of XPLines that all go to one set, until the media queue is full.
        let same_set = |number: u64| number * 17 * XPLINE_LINES;
        let last = (1..14).map(same_set).map(&mut ask).last().unwrap();
        assert!(last > 50 + memory.nvm.write, "{last}");
        assert!(ask(XPLINE_LINES * 3) >= last, "its own set is empty");
    }

    #[test]
    fn a_line_that_was_just_written_is_read_without_the_media() {
        let ((memory, _), mut dimm) = (config(), dimm());
        let there = dimm.write(8, 1000, (0, 0)).in_dimm;
        assert_eq!(dimm.read(8, there), there + memory.nvm.read);
        assert_eq!(dimm.traffic().media_reads, 0);
    }

    #[test]
    fn floors_hold_a_write_up() {
        let ((memory, _), mut dimm) = (config(), dimm());
        assert_eq!(dimm.write(0, 10, (7000, 0)).accepted, 7000);
        let held = dimm.write(64, 10_000, (0, 50_000));
        assert_eq!((held.accepted, held.in_dimm), (10_000 + memory.post, 50_000));
    }
}
