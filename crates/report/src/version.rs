//! Which seawall has made a result: its release, and the commit that it was built from.
//!
//! The commit is known to what is built last, the command and the Python package, so that no other
//! crate is compiled again when there is a new one.

use std::sync::OnceLock;

/// The release alone.
const RELEASE: &str = env!("CARGO_PKG_VERSION");

static BUILD: OnceLock<&'static str> = OnceLock::new();

/// Says once, before there are results, that this is the release of that commit:
/// `0.1.0+4f1c0d2a77b3`, with `.changed` at its end if the tree was not that of the commit.
pub fn name_build(version: &'static str) {
    let _ = BUILD.set(version);
}

/// The version that records have, a semantic one: the release, and the commit if it is known.
pub fn version() -> &'static str {
    BUILD.get().copied().unwrap_or(RELEASE)
}

/// Whether this is a version of the same release.
pub fn is_of_release(version: &str) -> bool {
    version.split('+').next() == Some(RELEASE)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_commit_is_one_of_its_release() {
        assert!(is_of_release(RELEASE) && is_of_release(&format!("{RELEASE}+abc.changed")));
        assert!(!is_of_release(&format!("{RELEASE}1")) && !is_of_release("0.0.0+abc"));
    }
}
