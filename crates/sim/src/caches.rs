//! The caches of the machine: private caches, the shared cache, and coherence between them.

pub(crate) mod coherence;
pub(crate) mod patience;
pub(crate) mod prefetching;
pub(crate) mod private;
pub(crate) mod shared;
pub(crate) mod stream_prefetcher;
