//! The pages of the program that the machine knows, and for each word the value that the program's
//! own instructions left there.
//!
//! A page becomes known when the program first touches it, with what it has then; a page of a pool
//! with what its file has. Where the host's memory differs from the shadow, something else than an
//! instrumented instruction has written it.

use crate::process::failure::fail;
use crate::process::regions::{is_persistent, original};
use crate::process::runtime::{OneThread, Thread};
use crate::request::PAGE;
use rustc_hash::FxHashMap;
use std::cell::{Cell, RefCell};
use std::ops::Range;

const WORDS: usize = (PAGE / 8) as usize;
const CACHED: usize = 1024;

/// The number of a page, and the page.
type Cached = (u64, Option<&'static Page>);

/// What is known of a page.
pub(crate) struct Page {
    shadow: [Cell<u64>; WORDS],
    pub(crate) is_pm: bool,
}

/// The pages.
pub(crate) struct Pages {
    known: RefCell<FxHashMap<u64, &'static Page>>,
    cached: Box<[Cell<Cached>]>,
    /// The persistent ones in the order in which the machine got them.
    persistent: RefCell<Vec<u64>>,
    /// Whether pages are to be known with what they have, whoever has stored it.
    is_as_it_is: Cell<bool>,
}

static PAGES: OneThread<Pages> = OneThread(std::cell::OnceCell::new());

/// The pages of this process.
#[inline]
pub(crate) fn pages() -> &'static Pages {
    PAGES.0.get_or_init(Pages::default)
}

impl Default for Pages {
    fn default() -> Pages {
        let empty = (0..CACHED).map(|_| Cell::new((u64::MAX, None)));
        Pages {
            known: RefCell::default(),
            cached: empty.collect(),
            persistent: RefCell::default(),
            is_as_it_is: Cell::new(false),
        }
    }
}

impl Pages {
    /// The page that has `at`; the machine gets it if it does not have it yet.
    #[inline]
    pub(crate) fn page(&self, thread: &Thread, at: u64) -> &'static Page {
        let number = at / PAGE;
        match self.cached[number as usize % CACHED].get() {
            (cached, Some(page)) if cached == number => page,
            _ => self.look_up(thread, number),
        }
    }

    /// Makes the pages of these bytes known.
    #[inline]
    pub(crate) fn know(&self, thread: &Thread, at: u64, bytes: u64) {
        let (mut number, last) = (at / PAGE, (at + bytes - 1) / PAGE);
        while number <= last {
            self.page(thread, number * PAGE);
            number += 1;
        }
    }

    /// Makes all pages of a range known, however long it is.
    pub(crate) fn know_all(&self, thread: &Thread, at: u64, bytes: u64) {
        if bytes > 0 {
            self.know(thread, at, bytes);
        }
    }

    /// Makes pages known with what they have, whoever has stored it.
    pub(crate) fn as_it_is(&self, know: impl FnOnce(&Pages)) {
        self.is_as_it_is.set(true);
        know(self);
        self.is_as_it_is.set(false);
    }

    /// Bytes of persistent and of other memory that are known.
    pub(crate) fn touched(&self) -> [u64; 2] {
        let persistent = self.persistent.borrow().len() as u64;
        let all = self.known.borrow().len() as u64;
        [persistent * PAGE, all.saturating_sub(persistent) * PAGE]
    }

    #[inline(never)]
    fn look_up(&self, thread: &Thread, number: u64) -> &'static Page {
        let known = self.known.borrow().get(&number).copied();
        let page = known.unwrap_or_else(|| self.add(thread, number));
        self.cached[number as usize % CACHED].set((number, Some(page)));
        page
    }

    fn add(&self, thread: &Thread, number: u64) -> &'static Page {
        if number == 0 {
            fail("touched memory that it does not have (a null pointer)");
        }
        let at = number * PAGE;
        let is_pm = is_persistent(at);
        // One copy for both, as this runs on a stack of the program, maybe in this very page.
        let mut contents = Vec::with_capacity(PAGE as usize);
        // SAFETY: the program is about to access the page; if it is not mapped, the fault comes
        // here instead of there, and is told as the program's. The vector may lie in the page,
        // where that is of the process's own heap, as variables of threads can be.
        unsafe {
            std::ptr::copy(at as *const u8, contents.as_mut_ptr(), PAGE as usize);
            contents.set_len(PAGE as usize);
        }
        // What differs from the file was stored by code that is not seen: it is taken over.
        let original = (is_pm && !self.is_as_it_is.get()).then(|| original(at)).flatten();
        let contents = original.unwrap_or(contents);
        let word = |n: usize| {
            let word = contents[8 * n..8 * n + 8].try_into().expect("8 bytes");
            Cell::new(u64::from_le_bytes(word))
        };
        let page: &'static Page =
            Box::leak(Box::new(Page { shadow: std::array::from_fn(word), is_pm }));
        thread.through(|machine| machine.map(at, is_pm, &contents));
        self.known.borrow_mut().insert(number, page);
        if is_pm {
            self.persistent.borrow_mut().push(at);
        }
        page
    }

    /// The persistent pages in the order in which the machine got them.
    pub(crate) fn persistent(&self) -> Vec<u64> {
        self.persistent.borrow().clone()
    }

    /// The persistent pages that are known now and have bytes of `range`, in the order of their
    /// addresses. A range may be far longer than what is known of it.
    pub(crate) fn persistent_in(&self, range: Range<u64>) -> Vec<u64> {
        let (persistent, known) = (self.persistent.borrow(), self.known.borrow());
        let numbers = range.start / PAGE..range.end.div_ceil(PAGE);
        let count = numbers.end.saturating_sub(numbers.start);
        if count <= persistent.len() as u64 {
            let is_pm = |number: &u64| known.get(number).is_some_and(|page| page.is_pm);
            return numbers.filter(is_pm).map(|number| number * PAGE).collect();
        }
        let is_in = |page: &u64| numbers.contains(&(page / PAGE));
        let mut pages: Vec<u64> = persistent.iter().copied().filter(is_in).collect();
        pages.sort_unstable();
        pages
    }

    /// Whether `at` is in persistent memory that is known.
    #[inline]
    pub(crate) fn is_persistent(&self, at: u64) -> bool {
        let number = at / PAGE;
        match self.cached[number as usize % CACHED].get() {
            (cached, Some(page)) if cached == number => page.is_pm,
            _ => self.known(at).is_some_and(|page| page.is_pm),
        }
    }

    /// A page that is known.
    pub(crate) fn known(&self, at: u64) -> Option<&'static Page> {
        self.known.borrow().get(&(at / PAGE)).copied()
    }
}

impl Page {
    /// The word at `at`, which is in this page.
    #[inline]
    pub(crate) fn shadow(&self, at: u64) -> &Cell<u64> {
        &self.shadow[(at % PAGE / 8) as usize]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_persistent_pages_of_a_range_are_found_however_long_it_is() {
        let pages = Pages::default();
        for (number, is_pm) in [(9, true), (3, true), (4, false), (5, true)] {
            let page = Page { shadow: std::array::from_fn(|_| Cell::new(0)), is_pm };
            pages.known.borrow_mut().insert(number, Box::leak(Box::new(page)));
            if is_pm {
                pages.persistent.borrow_mut().push(number * PAGE);
            }
        }
        let numbers = |range: Range<u64>| -> Vec<u64> {
            pages.persistent_in(range).into_iter().map(|page| page / PAGE).collect()
        };
        assert_eq!(numbers(0..u64::MAX), [3, 5, 9]);
        assert_eq!(numbers(3 * PAGE + 64..5 * PAGE + 64), [3, 5]);
        assert_eq!(numbers(3 * PAGE + 64..5 * PAGE), [3]);
        assert_eq!(numbers(4 * PAGE..9 * PAGE), [5]);
        assert_eq!(numbers(6 * PAGE..6 * PAGE), [0u64; 0]);
    }
}
