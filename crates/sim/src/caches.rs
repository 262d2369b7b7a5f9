//! The caches of the machine: private ones, the shared one, and the coherence between them.

pub(crate) mod coherence;
pub(crate) mod private;
pub(crate) mod shared;
pub(crate) mod stream_prefetcher;
