//! How much room there is on the terminal on which results are printed.

use seawall_report::Room;
use std::io::{IsTerminal, stdout};
use terminal_size::{Width, terminal_size_of};

/// The variable with the number of columns, which goes before what the terminal says of itself.
const COLUMNS: &str = "COLUMNS";

/// The room on the terminal; a file or a pipe has any. `has_json`: the command has `--json`.
pub(crate) fn room(has_json: bool) -> Option<Room> {
    let stated = std::env::var(COLUMNS).ok();
    let own = terminal_size_of(stdout()).map(|(Width(columns), _)| columns.into());
    let columns = columns(stdout().is_terminal(), stated.as_deref(), own)?;
    let elsewhere = if has_json { "--json FILE, or | cat" } else { "or | cat" };
    Some(Room { columns, elsewhere })
}

/// A terminal whose size nobody knows is wide enough.
fn columns(is_terminal: bool, stated: Option<&str>, own: Option<usize>) -> Option<usize> {
    let stated = stated.and_then(|text| text.parse().ok()).filter(|columns| *columns > 0);
    stated.or(own.filter(|columns| *columns > 0)).filter(|_| is_terminal)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_variable_goes_before_the_terminal_and_neither_narrows_a_pipe() {
        assert_eq!(columns(true, None, Some(80)), Some(80));
        assert_eq!(columns(true, Some("120"), Some(80)), Some(120));
        assert_eq!(columns(true, Some("120"), None), Some(120));
        for wrong in ["", "0", "wide", "-1"] {
            assert_eq!(columns(true, Some(wrong), Some(80)), Some(80), "{wrong}");
        }
        assert_eq!(columns(true, None, Some(0)), None);
        assert_eq!(columns(false, Some("40"), Some(80)), None);
    }
}
