//! The error of a call: a number for `errno` and a sentence for `pmem_errormsg`.
//!
//! The sentence is kept in memory of the thread that never moves and has no destructor, since
//! programs keep the pointer, and may ask for it while a thread ends.

use std::cell::Cell;
use std::ffi::{c_char, c_int};
use std::fmt::Display;
use std::io;

/// Bytes of the longest sentence, with the zero that ends it; it may hold a whole path.
const BYTES: usize = 4096 + 512;

thread_local! {
    static TEXT: [Cell<u8>; BYTES] = const { [const { Cell::new(0) }; BYTES] };
}

/// Why a call failed.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct CallError {
    /// For `errno`.
    pub(crate) number: c_int,
    /// For `pmem_errormsg`.
    pub(crate) text: String,
}

impl CallError {
    pub(crate) fn new(number: c_int, text: impl Into<String>) -> CallError {
        CallError { number, text: text.into() }
    }

    /// What the system said when `action` was tried.
    pub(crate) fn system(action: impl Display, error: &io::Error) -> CallError {
        let number = error.raw_os_error().unwrap_or(libc::EIO);
        // Without the number that the standard library appends.
        let said = io::Error::from_raw_os_error(number).to_string();
        let said = said.split(" (os error").next().unwrap_or_default().to_owned();
        CallError { number, text: format!("cannot {action}: {said}") }
    }
}

/// Keeps `text` as this thread's message, cut at a character if it is too long.
pub(crate) fn keep(text: &str) {
    let mut len = text.len().min(BYTES - 1);
    while !text.is_char_boundary(len) {
        len -= 1;
    }
    TEXT.with(|kept| {
        for (to, byte) in kept.iter().zip(text.bytes().take(len)) {
            to.set(byte);
        }
        if let Some(end) = kept.get(len) {
            end.set(0);
        }
    });
}

/// This thread's message, ended by a zero; it is empty at first.
pub(crate) fn kept() -> *const c_char {
    TEXT.with(|kept| kept.as_ptr().cast())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text() -> String {
        let bytes = TEXT.with(|kept| kept.iter().map(Cell::get).collect::<Vec<u8>>());
        let end = bytes.iter().position(|byte| *byte == 0).unwrap();
        String::from_utf8(bytes[..end].to_vec()).unwrap()
    }

    #[test]
    fn a_message_belongs_to_its_thread_and_stays_where_it_is() {
        keep("first, and longer");
        let at = kept();
        std::thread::spawn(|| assert_eq!(text(), "")).join().unwrap();
        keep("second");
        assert_eq!((text(), kept()), ("second".to_owned(), at));
    }

    #[test]
    fn a_long_message_is_cut_between_characters() {
        keep(&"\u{e4}".repeat(BYTES));
        assert_eq!(text(), "\u{e4}".repeat((BYTES - 1) / 2));
        keep(&format!("x{}", "\u{e4}".repeat(BYTES)));
        assert_eq!(text().len() % 2, 1);
    }

    #[test]
    fn an_error_of_the_system_has_its_number_and_its_words() {
        let error = CallError::system("open a", &io::Error::from_raw_os_error(libc::ENOENT));
        assert_eq!(error, CallError::new(libc::ENOENT, "cannot open a: No such file or directory"));
        let error = CallError::system("open a", &io::ErrorKind::Other.into());
        assert_eq!(error.number, libc::EIO);
    }
}
