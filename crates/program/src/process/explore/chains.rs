//! The chains of callers that a run has met, each looked for once.

use crate::process::callers::{Chain, Frame};
use crate::process::image::{ProgramCode, word_at};
use rustc_hash::FxHashMap;

/// The chains of a run, by what stands for them.
#[derive(Default)]
pub(crate) struct Chains {
    known: FxHashMap<u64, Chain>,
    /// The last frame at each site.
    last: FxHashMap<u64, Found>,
}

/// A frame whose chain is known, as long as these words of the stack are the same.
struct Found {
    frame: Frame,
    backs: Vec<(u64, u64)>,
    key: u64,
}

impl Chains {
    /// What stands for the chain of a frame.
    pub(crate) fn key(&mut self, code: &ProgramCode, frame: Frame) -> u64 {
        let is_same = |found: &&Found| {
            found.frame == frame && found.backs.iter().all(|(at, back)| word_at(*at) == *back)
        };
        if let Some(found) = self.last.get(&frame.site).filter(is_same) {
            return found.key;
        }
        let mut backs = Vec::new();
        let chain = code.chain_by(frame, &mut backs);
        let key = chain.key();
        if chain.calls().len() > 1 {
            self.known.insert(key, chain);
        }
        self.last.insert(frame.site, Found { frame, backs, key });
        key
    }

    /// The calls of what stands for several.
    pub(crate) fn get(&self, key: u64) -> Option<&Chain> {
        self.known.get(&key)
    }
}
