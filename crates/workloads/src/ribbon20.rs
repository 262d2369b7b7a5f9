//! The programs of Ribbon's evaluation (PACT'20): Level hashing, FAST & FAIR, records of several
//! fields, and dictionaries of small objects.

pub(crate) mod fastfair;
pub(crate) mod index;
pub(crate) mod level;
pub mod objects;
pub(crate) mod records;
pub mod structures;
