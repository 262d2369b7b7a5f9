//! The map of byte strings with records of YCSB's size: ten fields of 100 bytes each ("Benchmarking
//! Cloud Serving Systems with YCSB", SoCC'10, section 4).

use crate::library::keyed::Keyed;
use crate::library::kv::{Range, Strings, Values};

/// The benchmark of the map with large values.
pub type Records = Keyed<Strings<Fields>>;

/// Values of ten fields of 100 bytes.
pub struct Fields;

impl Values for Fields {
    const NAME: &'static str = "records";
    const ABOUT: &'static str = "as kv, with the records of YCSB: 1000 bytes";
    const MORE: Range = 992..=992;
    const LOG_BYTES: u64 = 64 << 10;
    const ENTRY_BYTES: u64 = 1536;
}
