//! The tests of the crate: it has no unit tests, which would compile all of it once more.

mod handles;
mod watched;
