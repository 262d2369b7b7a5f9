//! The values of loads and stores: what the program sees is what the machine says.
//!
//! The host's memory holds, in each word, the newest value in the order in which instructions were
//! issued. The machine may say something else for two reasons. Another core's store may not be
//! visible yet: then the program must not see it either, and the host's word is patched for this
//! one load. Or code that is not instrumented has written the word: then the machine takes the
//! value over, by a store of the thread that found it, and the word is counted as unseen.

use crate::process::failure::refuse;
use crate::process::masks::bits_of_bytes;
use crate::process::pages::pages;
use crate::process::parts::parts;
use crate::process::regions;
use crate::process::runtime::{Locked, Patch, Thread, runtime};
use crate::process::stacks;
use crate::process::stored::{Pending, Stored, Way};
use seawall_memory::{LINE_BYTES, Width};

/// The host's aligned word at `at`.
#[inline]
pub(crate) fn host_word(at: u64) -> u64 {
    // SAFETY: the page is known, so it was readable, and nothing but this OS thread writes it.
    unsafe { std::ptr::read(at as *const u64) }
}

fn set_host_word(at: u64, value: u64) {
    regions::let_write(at);
    // SAFETY: as above; the machine has a value for the word that differs, so it was written
    // before.
    unsafe { std::ptr::write(at as *mut u64, value) }
}

#[inline]
fn width_of(bytes: u64) -> Option<Width> {
    Some(match bytes {
        1 => Width::B1,
        2 => Width::B2,
        4 => Width::B4,
        8 => Width::B8,
        _ => return None,
    })
}

/// The program is about to load.
#[inline]
pub(crate) fn load(thread: &Thread, at: u64, bytes: u64) {
    let Some(width) = width_of(bytes).filter(|_| at.is_multiple_of(bytes)) else {
        return load_range(thread, at, bytes);
    };
    if pages().page(thread, at).is_pm {
        runtime().unread.loaded(thread.number, at, bytes);
    }
    thread.issued(1);
    let value = thread.through(|machine| machine.load(at, width));
    let shift = 8 * (at % 8);
    let mask = width.mask() << shift;
    if (host_word(at & !7) ^ (value << shift)) & mask != 0 {
        differs(thread, at & !7, mask, value << shift);
    }
}

/// The program is about to load a range, or an access that is not aligned.
pub(crate) fn load_range(thread: &Thread, at: u64, bytes: u64) {
    thread.loaded.borrow_mut().clear();
    load_too(thread, at, bytes);
}

/// The instruction that is about to load what is in `loaded` loads this too.
///
/// Other threads may run between two lines, so that the words are compared when all are there.
pub(crate) fn load_too(thread: &Thread, at: u64, bytes: u64) {
    restore(thread, 0, 0);
    pages().know(thread, at, bytes);
    if pages().is_persistent(at) {
        runtime().unread.loaded(thread.number, at, bytes);
    }
    let mut loaded = thread.loaded.take();
    parts(at, bytes, |part| {
        let mut words = [0; 8];
        thread.issued(1);
        thread.through(|machine| machine.load_words(part.at, &mut words[..part.words]));
        for (n, value) in words[..part.words].iter().enumerate() {
            loaded.push((part.at + 8 * n as u64, part.mask(n), *value));
        }
    });
    for (at, mask, value) in &mut loaded {
        if (host_word(*at) ^ *value) & *mask != 0 {
            differs(thread, *at, *mask, *value);
            // From now on the machine's, if it was taken over.
            *value = host_word(*at);
        }
    }
    thread.loaded.replace(loaded);
}

/// The machine says `value` for the bits `mask` of the word at `at`, and the host has another one.
#[cold]
#[inline(never)]
fn differs(thread: &Thread, at: u64, mask: u64, value: u64) {
    let runtime = runtime();
    let page = pages().page(thread, at);
    let newest = host_word(at);
    if (newest ^ page.shadow(at).get()) & mask != 0 {
        return take_over(thread, at);
    }
    set_host_word(at, newest & !mask | value & mask);
    runtime.patches.set(runtime.patches.get() + 1);
    thread.patches.borrow_mut().push(Patch { at, mask, newest });
}

/// Gives the machine a word that code without instrumentation has written.
fn take_over(thread: &Thread, at: u64) {
    let runtime = runtime();
    let page = pages().page(thread, at);
    let host = host_word(at);
    // What dead frames and threads have left was never simulated as stores, and is nobody's data.
    if page.is_pm && !stacks::is_of_a_thread(at) {
        runtime.unseen.note(at, thread.site.get());
    }
    page.shadow(at).set(host);
    runtime.count_stores(1, page.is_pm);
    thread.through(|machine| machine.store(at, Width::B8, host));
}

/// Gives the machine what code without instrumentation has written to a line.
pub(crate) fn take_over_line(thread: &Thread, line: u64) {
    let page = pages().page(thread, line);
    for at in (line..line + LINE_BYTES).step_by(8) {
        let is_patched = thread.patches.borrow().iter().any(|patch| patch.at == at);
        if host_word(at) != page.shadow(at).get() && !is_patched {
            take_over(thread, at);
        }
    }
}

/// The store of the thread's last instruction has been made in the host's memory.
pub(crate) fn finish_store(thread: &Thread, store: Pending) {
    let Pending { at, bytes, way, selected } = store;
    restore(thread, at, bytes);
    let is_plain = way == Way::Caches && selected == u64::MAX;
    let is_whole = is_plain && thread.pending_too.borrow().is_empty();
    let Some(width) = width_of(bytes).filter(|_| at.is_multiple_of(bytes) && is_whole) else {
        return finish_stores(thread, store);
    };
    let (word, shift) = (host_word(at & !7), 8 * (at % 8));
    let mask = width.mask() << shift;
    let page = pages().page(thread, at);
    let shadow = page.shadow(at);
    shadow.set(shadow.get() & !mask | word & mask);
    runtime().count_stores(1, page.is_pm);
    if page.is_pm {
        runtime().unread.stored(thread.number, at, bytes);
    }
    thread.issued(1);
    thread.through(|machine| machine.store(at, width, word >> shift & width.mask()));
}

/// As above, for all that the instruction has stored. All of it is read before any other thread
/// runs.
fn finish_stores(thread: &Thread, last: Pending) {
    let mut stored = thread.stored.take();
    for store in thread.pending_too.borrow_mut().drain(..).chain([last]) {
        lines_of(thread, store, &mut stored);
    }
    for line in &mut stored {
        let is_pm = pages().page(thread, line.at).is_pm;
        runtime().count_stores(line.count() as u64, is_pm);
        if is_pm {
            runtime().unread.stored(thread.number, line.at, 8 * line.words as u64);
        }
        if line.way != Way::Caches && !thread.machine().streams(line.at) {
            runtime().count_ordinary(is_pm);
            line.way = Way::Caches;
        }
        thread.issued(1);
    }
    for lines in stored.chunk_by(|a, b| a.way == b.way) {
        match lines[0].way {
            Way::Caches => thread.through(|machine| machine.store_lines(lines)),
            Way::Stream => lines.iter().for_each(|line| stream(thread, line)),
            Way::Direct => lines.iter().for_each(|line| {
                thread.through(|machine| machine.stream_line(line.at, line.values));
            }),
        }
    }
    stored.clear();
    thread.stored.replace(stored);
}

/// Adds the lines of a store with what the host's memory has now.
fn lines_of(thread: &Thread, store: Pending, stored: &mut Vec<Stored>) {
    let Pending { at, bytes, way, selected } = store;
    parts(at, bytes, |part| {
        let (mut values, mut masks) = ([0; 8], [0; 8]);
        for n in 0..part.words {
            let word = part.at + 8 * n as u64;
            masks[n] = part.mask(n) & selected_bits(at, selected, word);
            values[n] = host_word(word) & masks[n];
            let shadow = pages().page(thread, word).shadow(word);
            shadow.set(shadow.get() & !masks[n] | values[n]);
        }
        if masks != [0; 8] {
            stored.push(Stored { at: part.at, words: part.words, values, masks, way });
        }
    });
}

/// The bits of the word at `word` that a store of selected bytes from `at` on writes.
fn selected_bits(at: u64, selected: u64, word: u64) -> u64 {
    match selected {
        u64::MAX => u64::MAX,
        _ if word < at => bits_of_bytes(selected << (at - word)),
        _ => bits_of_bytes(selected >> (word - at)),
    }
}

impl Stored {
    /// Words of which it has bits.
    pub(crate) fn count(&self) -> usize {
        self.masks[..self.words].iter().filter(|mask| **mask != 0).count()
    }
}

/// The bytes of a line past the caches.
fn stream(thread: &Thread, line: &Stored) {
    let bytes: Vec<u8> = line.values[..line.words].iter().flat_map(|it| it.to_le_bytes()).collect();
    let is_stored = |n: usize| line.masks[n / 8] >> (8 * (n % 8)) & 1 == 1;
    let mut first = 0;
    while first < bytes.len() {
        let end = (first..bytes.len()).find(|n| !is_stored(*n)).unwrap_or(bytes.len());
        if end > first {
            let at = line.at + first as u64;
            thread.through(|machine| machine.stream(at, &bytes[first..end]));
        }
        first = end + 1;
    }
}

/// The program is about to run a locked instruction, which stores if it finds what is expected.
pub(crate) fn lock(thread: &Thread, at: u64, bytes: u64, expected: Option<u128>) {
    if at / LINE_BYTES != (at + bytes - 1) / LINE_BYTES {
        refuse("a locked instruction that crosses a cache line");
    }
    pages().know(thread, at, bytes);
    let words = locked_words(at, bytes);
    for word in words.clone() {
        let page = pages().page(thread, word);
        if host_word(word) != page.shadow(word).get() {
            take_over(thread, word);
        }
    }
    thread.issued(1);
    let found = thread.through(|machine| machine.lock(at, bytes as usize));
    for (word, value) in words.zip(found) {
        if host_word(word) != value {
            differs(thread, word, u64::MAX, value);
        }
    }
    thread.found.set(found);
    let stores = expected.is_none_or(|expected| {
        let [low, high] = found.map(u128::from);
        let differing = ((low | high << 64) >> (8 * (at % 8))) ^ expected;
        differing & (u128::MAX >> (128 - 8 * bytes)) == 0
    });
    thread.locked.set(Some(Locked { at, bytes: bytes as usize, stores }));
}

fn locked_words(at: u64, bytes: u64) -> impl Iterator<Item = u64> + Clone {
    (at & !7..at + bytes).step_by(8)
}

/// The locked instruction has run.
pub(crate) fn unlock(thread: &Thread, Locked { at, bytes, stores }: Locked) {
    let mut new = [0; 2];
    for (new, word) in new.iter_mut().zip(locked_words(at, bytes as u64)) {
        *new = host_word(word);
    }
    restore(thread, at, if stores { bytes as u64 } else { 0 });
    for word in locked_words(at, bytes as u64) {
        pages().page(thread, word).shadow(word).set(host_word(word));
    }
    let is_pm = pages().page(thread, at).is_pm;
    runtime().count_stores(stores.into(), is_pm);
    if is_pm {
        let unread = &runtime().unread;
        match stores {
            true => unread.stored(thread.number, at, bytes as u64),
            false => unread.loaded(thread.number, at, bytes as u64),
        }
    }
    thread.through(|machine| machine.unlock(at, bytes, stores.then_some(new)));
}

/// Ends the patches of the thread's last load, but for what it has itself stored since: these
/// bytes.
#[inline]
pub(crate) fn restore(thread: &Thread, at: u64, bytes: u64) {
    if thread.patches.borrow().is_empty() {
        return;
    }
    for patch in thread.patches.borrow_mut().drain(..) {
        let mut own = 0;
        parts(at, bytes, |part| {
            let word = patch.at.wrapping_sub(part.at) / 8;
            if patch.at >= part.at && word < part.words as u64 {
                own |= part.mask(word as usize);
            }
        });
        let bits = patch.mask & !own;
        set_host_word(patch.at, host_word(patch.at) & !bits | patch.newest & bits);
    }
}

/// Gives the machine the word at `at`, if code without instrumentation has written it.
pub(crate) fn take_over_word(thread: &Thread, at: u64) {
    let page = pages().page(thread, at);
    if host_word(at) != page.shadow(at).get() {
        take_over(thread, at);
    }
}

/// Waits while the word at `at` equals `value`; returns the value that ended the wait.
pub(crate) fn wait_while(thread: &Thread, at: u64, value: u64) -> u64 {
    take_over_word(thread, at);
    thread.issued(1);
    thread.through(|machine| machine.wait_while(at, value))
}
