//! The kinds of images in the order in which a search tries them: those that fail first where
//! something is wrong come first.

use crate::crashed::Prefer;
use crate::outcome::Reached;

/// A kind of images, tried at every point before the next kind is.
pub(crate) struct Phase {
    pub(crate) prefer: Prefer,
    /// Lines that may deviate from the preference, at most.
    pub(crate) deviations: usize,
    pub(crate) reached: Reached,
}

pub(crate) static PHASES: [Phase; 7] = [
    Phase { prefer: Prefer::Least, deviations: 0, reached: Reached::Part },
    Phase { prefer: Prefer::Most, deviations: 0, reached: Reached::Ends },
    Phase { prefer: Prefer::Least, deviations: 1, reached: Reached::Ends },
    Phase { prefer: Prefer::Most, deviations: 1, reached: Reached::Singles },
    Phase { prefer: Prefer::Least, deviations: 2, reached: Reached::Singles },
    Phase { prefer: Prefer::Most, deviations: 2, reached: Reached::Pairs },
    Phase { prefer: Prefer::Least, deviations: usize::MAX, reached: Reached::Pairs },
];
