//! The recording machine in addresses of the host.

use super::server;
use super::space::{Space, space};
use crate::explore::wire::Did;
use crate::process::failure::fail;
use crate::process::machine::Machine;
use crate::process::stacks;
use crate::process::stored::Stored;
use crate::request::PAGE;
use seawall_explore::Traced;
use seawall_memory::{Addr, Fence, Memory, Width};
use std::cell::Cell;

/// One thread's view.
pub(crate) struct Recording<'a> {
    memory: &'a Traced<'a>,
    space: &'static Space,
    nanoseconds: Cell<u64>,
    /// What the locked instruction found that is under way.
    found: Cell<[u64; 2]>,
    /// Copies that are under way, each within the one before.
    copies: Cell<u32>,
}

/// From one look at the clock to the next: time passes, but nothing takes time.
const TICK_NANOSECONDS: u64 = 1_000_000;

/// Where a thread waits to be woken: a word of the first page.
pub(crate) fn bell(core: usize) -> Addr {
    Addr::dram(64 * core as u64)
}

impl<'a> Recording<'a> {
    pub(crate) fn new(memory: &'a Traced<'a>) -> Recording<'a> {
        Recording {
            memory,
            space: space(),
            nanoseconds: Cell::new(0),
            found: Cell::default(),
            copies: Cell::default(),
        }
    }

    /// The machine, told which instruction calls it.
    fn by_instruction(&self) -> &Traced<'a> {
        if server::is_late() {
            fail(&format!("did not end within {} s", self.space.seconds()));
        }
        self.memory.at_instruction(self.space.site());
        self.memory
    }

    fn store_masked(&self, at: u64, mask: u64, value: u64) {
        self.space.note_store(at);
        let to = self.space.place(at);
        self.log_store(to, mask, value);
        self.by_instruction().store_bits_of(to, mask, value);
    }

    fn log_store(&self, to: Addr, mask: u64, value: u64) {
        self.space.log(match mask {
            u64::MAX => Did::Wrote(to, Width::B8, value),
            _ => Did::WroteBits(to, mask, value),
        });
    }
}

impl Machine for Recording<'_> {
    fn map(&self, page: u64, is_pm: bool, contents: &[u8]) {
        let at = self.space.add(page, is_pm);
        let words = contents.as_chunks::<8>().0.iter().map(|word| u64::from_le_bytes(*word));
        self.memory.fill(at, words);
    }

    fn load(&self, at: u64, width: Width) -> u64 {
        let from = self.space.place(at);
        let value = self.by_instruction().load_bits(from, width);
        self.space.log(Did::Read(from, width, value));
        value
    }

    fn load_words(&self, at: u64, into: &mut [u64]) {
        for (at, into) in (at..).step_by(8).zip(into) {
            *into = self.load(at, Width::B8);
        }
    }

    fn store(&self, at: u64, width: Width, value: u64) {
        self.space.note_store(at);
        let to = self.space.place(at);
        self.space.log(Did::Wrote(to, width, value));
        self.by_instruction().store_bits(to, width, value);
    }

    fn store_words(&self, at: u64, words: &[u64], masks: &[u64]) {
        for (at, (word, mask)) in (at..).step_by(8).zip(words.iter().zip(masks)) {
            self.store_masked(at, *mask, *word);
        }
    }

    fn store_lines(&self, lines: &[Stored]) {
        let words = lines.iter().flat_map(|line| {
            let all = line.values.iter().zip(&line.masks).take(line.words);
            (line.at..).step_by(8).zip(all).filter(|(_, (_, mask))| **mask != 0)
        });
        let words: Vec<(Addr, u64, u64)> = words
            .map(|(at, (value, mask))| {
                self.space.note_store(at);
                (self.space.place(at), *mask, *value)
            })
            .collect();
        let is_wide = words.len() > 1 && self.copies.get() == 0;
        if is_wide {
            self.space.log(Did::BeganWrite(words.len() as u64));
        }
        words.iter().for_each(|(to, mask, value)| self.log_store(*to, *mask, *value));
        if is_wide {
            self.space.log(Did::EndedWrite);
        }
        self.by_instruction().store_words(words.into_iter());
    }

    fn stream(&self, at: u64, bytes: &[u8]) {
        self.space.note_store(at);
        let to = self.space.place(at);
        let mut done = 0;
        while done < bytes.len() {
            let start = to.plus(done as u64);
            let most = (8 - start.offset() % 8) as usize;
            let part = &bytes[done..bytes.len().min(done + most)];
            let value = part.iter().rev().fold(0, |value, byte| value << 8 | u64::from(*byte));
            self.space.log(Did::Streamed(start, part.len() as u8, value));
            done += part.len();
        }
        self.by_instruction().write_nt(to, bytes);
    }

    fn stream_line(&self, at: u64, words: [u64; 8]) {
        self.space.note_store(at);
        let to = self.space.place(at);
        self.space.log(Did::StreamedLine(to, words));
        self.by_instruction().write_line(to, words);
    }

    fn begin_copy(&self) {
        self.copies.set(self.copies.get() + 1);
        if self.copies.get() == 1 {
            self.space.log(Did::BeganWrite(u64::MAX));
            self.memory.begin_copy();
        }
    }

    fn end_copy(&self) {
        self.copies.set(self.copies.get().saturating_sub(1));
        if self.copies.get() == 0 {
            self.space.log(Did::EndedWrite);
            self.memory.end_copy();
        }
    }

    fn lock(&self, at: u64, bytes: usize) -> [u64; 2] {
        let (from, words) = self.words(at, bytes);
        let found = self.by_instruction().lock(from, words);
        self.found.set(found);
        for (n, value) in found.iter().take(words).enumerate() {
            self.space.log(Did::Read(from.plus(8 * n as u64), Width::B8, *value));
        }
        found
    }

    fn unlock(&self, at: u64, bytes: usize, new: Option<[u64; 2]>) {
        let (to, words) = self.words(at, bytes);
        // Compilers use a locked instruction on the stack, which changes nothing, as a fence.
        if stacks::end_of(at) != at && new.is_none_or(|new| new == self.found.get()) {
            return self.full_fence();
        }
        if let Some(new) = new {
            self.space.note_store(at);
            if words > 1 {
                self.space.log(Did::BeganWrite(words as u64));
            }
            for (n, value) in new.iter().take(words).enumerate() {
                self.space.log(match to.is_pm() {
                    true => Did::Locked(to.plus(8 * n as u64), *value),
                    false => Did::LockedElsewhere,
                });
            }
            if words > 1 {
                self.space.log(Did::EndedWrite);
            }
        }
        self.by_instruction().unlock(to, words, new);
    }

    fn flush(&self, line: u64) {
        if !self.space.is_unlisted(line) {
            let at = self.space.place(line);
            self.space.log(Did::Flushed(at));
            self.by_instruction().flush(at, 64);
        }
    }

    fn fence(&self, fence: Fence) {
        self.space.log(Did::Fenced(fence));
        self.by_instruction().fence(fence);
    }

    fn full_fence(&self) {
        self.space.log(Did::LockedElsewhere);
        self.by_instruction().full_fence();
    }

    fn work(&self, _: u64) {}

    /// No store is recorded: a load of the word takes over what the host has there.
    fn frame(&self, _: u64, _: u32, _: u32, _: u64) -> bool {
        false
    }

    fn wait_while(&self, at: u64, value: u64) -> u64 {
        self.by_instruction().spin_while(self.space.place(at), value)
    }

    fn output(&self, number: u64) {
        self.by_instruction().output(number);
    }

    fn nanoseconds(&self) -> u64 {
        let now = self.nanoseconds.get() + TICK_NANOSECONDS;
        self.nanoseconds.set(now);
        now
    }

    fn park(&self) {
        self.memory.sleep_until_set(bell(self.memory.thread()));
    }

    fn unpark(&self, core: usize) {
        self.by_instruction().store_bits(bell(core), Width::B8, 1);
    }

    fn sleep(&self, deadline: Option<u64>) -> bool {
        let Some(deadline) = deadline else {
            self.park();
            return true;
        };
        let bell = bell(self.memory.thread());
        while self.memory.load_bits(bell, Width::B8) == 0 {
            if self.nanoseconds() >= deadline {
                return false;
            }
        }
        self.memory.store_bits(bell, Width::B8, 0);
        true
    }

    fn look(&self, at: u64) -> u64 {
        let from = self.space.place(at);
        let found = self.by_instruction().look_at_queue(from);
        self.space.log(Did::Read(from, Width::B8, found));
        found
    }

    fn turn(&self, at: u64) {
        self.look(at);
    }

    fn begin_region(&self) {}

    fn end_region(&self) {}

    fn end(&self) {
        server::exited(|| self.memory.take_trace())
    }
}

impl Recording<'_> {
    /// The first of the aligned words that have the bytes, and how many there are.
    fn words(&self, at: u64, bytes: usize) -> (Addr, usize) {
        let first = at & !7;
        (self.space.place(first), ((at + bytes as u64 - first).div_ceil(8)) as usize)
    }
}

const _: () = assert!(64 * crate::process::runtime::THREADS_MAX as u64 <= PAGE);
