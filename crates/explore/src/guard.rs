//! Runs code that may panic and returns its message, without printing it.
//!
//! Recovery meets thousands of broken images; each panic is a finding to report once, in the
//! finding's own words, not a message each time on stderr. The process's panic hook is wrapped once
//! and stays silent only on a thread that is inside [`guarded`].

use std::cell::{Cell, RefCell};
use std::panic::{AssertUnwindSafe, catch_unwind, set_hook, take_hook};
use std::sync::Once;

thread_local! {
    static INSIDE: Cell<bool> = const { Cell::new(false) };
    static SAID: RefCell<Option<String>> = const { RefCell::new(None) };
}

static HOOK: Once = Once::new();

fn install() {
    let before = take_hook();
    set_hook(Box::new(move |info| {
        if !INSIDE.get() {
            return before(info);
        }
        let text = info.payload_as_str().unwrap_or("a panic without a message");
        let place = info.location().map(|at| format!(" ({}:{})", at.file(), at.line()));
        SAID.set(Some(format!("{text}{}", place.unwrap_or_default())));
    }));
}

/// What `run` returns, or the message and place of its panic.
pub(crate) fn guarded<T>(run: impl FnOnce() -> T) -> Result<T, String> {
    HOOK.call_once(install);
    let outer = INSIDE.replace(true);
    let result = catch_unwind(AssertUnwindSafe(run));
    INSIDE.set(outer);
    result.map_err(|_| SAID.take().unwrap_or_else(|| "a panic without a message".into()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_comes_back_as_its_message_and_place() {
        let said = guarded(|| panic!("number {}", 7)).map(|()| 0).unwrap_err();
        assert!(said.starts_with("number 7 ("), "{said}");
        assert!(said.contains("guard.rs"), "{said}");
        assert_eq!(guarded(|| 3), Ok(3));
    }
}
