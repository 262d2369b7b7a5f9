//! The programs of Ribbon's evaluation (PACT'20): Level hashing, FAST & FAIR, records of several
//! fields, Redis with YCSB's records and with TPC-C's rows, and dictionaries of small objects.

pub(crate) mod fastfair;
pub(crate) mod hashes;
pub(crate) mod index;
pub(crate) mod level;
pub mod objects;
pub(crate) mod records;
pub(crate) mod redis_tpcc;
pub mod structures;
