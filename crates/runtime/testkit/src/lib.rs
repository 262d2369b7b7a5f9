//! What the tests of `seawall-runtime` and the fuzzers of its pools share.
//!
//! [`script`] has changes of a heap and what it must hold after them; [`subjects`] are pools in all
//! states that recovery knows; [`places`] finds the parts of a pool by `docs/format.md` alone;
//! [`fuzz`] and [`moves`] are the targets of the fuzzers.

#![forbid(unsafe_code)]

pub mod fuzz;
pub mod moves;
pub mod places;
pub mod script;
pub mod subjects;
