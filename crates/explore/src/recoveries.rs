//! What is known of recovery, from crash to crash and from run to run of one program.
//!
//! Recovery is a function of the image. What it was seen to read, find and store therefore holds
//! for the images of other runs, too, if they started from the same memory and are checked by the
//! same recovery; only the judgement is a run's own. Most schedules of a program leave images that
//! recovery cannot tell from those of schedules before.

use crate::check::{Check, Findings};
use crate::crashed::{CrashImage, Pass, Prefer};
use crate::guard::guarded;
use crate::options::Search;
use crate::together::Sharing;
use crate::trace::{Trace, lines_stored};
use crate::tree::{NodeId, PassEnd, Tree};
use crate::walk::CrashPoint;
use rustc_hash::{FxBuildHasher, FxHashMap, FxHashSet};
use seawall_memory::Model;
use std::cell::RefCell;
use std::hash::{BuildHasher, Hash};
use std::sync::Arc;

/// What is known of the recovery of a program. Its memory is bounded: some 100 MB at most.
///
/// All searches that share it must be of checks with the same
/// [`recover`](crate::Check::recover).
pub struct Recoveries<F> {
    pub(crate) found: Interner<F>,
    pub(crate) seen: Seen,
}

impl<F> Default for Recoveries<F> {
    fn default() -> Recoveries<F> {
        Recoveries { found: Interner::default(), seen: Seen::default() }
    }
}

/// Nodes, events of recoveries, and findings after which what was seen is forgotten at the next
/// failure point. A point at which there are twice as many counts as one with too many images.
const NODES_MAX: usize = 1_000_000;

/// What recovery was seen to do, whatever it finds.
#[derive(Default)]
pub(crate) struct Seen {
    image: Option<CrashImage>,
    /// For each part and depth of crashes, what recovery did.
    trees: Vec<Begun>,
    /// Trees that were begun.
    begun: u32,
    depths: usize,
    /// Whether the words of recovery's non-temporal stores persist on their own.
    by_lanes: bool,
    /// Times that recovery, or a run, stored to a line which none had stored to before.
    varied: u32,
    /// Lines that runs stored to: what recovery reads there after the first crash is known.
    of_runs: FxHashSet<usize>,
    /// What threads of recovery are known to share at the start.
    sharing: Sharing,
    /// The distinct traces of recovery, by hash.
    recordings: FxHashMap<u64, Vec<Arc<Trace>>>,
    /// What crashes of recoveries led to.
    settled: FxHashMap<End, Arc<Settled>>,
    /// Events of these traces, and findings of these crashes.
    entries: usize,
    how: Option<Search>,
}

/// A tree, with its number and the value of `varied` when it was begun.
struct Begun {
    tree: Tree,
    number: u32,
    varied: u32,
}

/// An end of recovery after which no later recovery reads any word that this one did not read or
/// store to: so what crashes of it lead to is the same wherever it ends so.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct End {
    /// The tree and the node.
    pub(crate) tree: u32,
    pub(crate) node: NodeId,
    /// A hash of the values below its stores.
    pub(crate) below: u64,
    /// A hash of the lines whose words persisted out of order before it.
    pub(crate) torn: u64,
    pub(crate) model: Model,
    /// The phase of the search; `None` if all was tried.
    pub(crate) phase: Option<u8>,
}

/// What crashes of a recovery led to.
pub(crate) struct Settled {
    /// What later recoveries found.
    pub(crate) findings: Vec<u32>,
    pub(crate) states: u64,
    pub(crate) points: u64,
    /// Something was left to a later phase, or cut.
    pub(crate) skipped: bool,
    pub(crate) cut: bool,
}

impl Seen {
    /// Gets ready for the crashes of a run.
    pub(crate) fn begin(&mut self, trace: &Trace, how: &Search, parts: usize) {
        let (depths, by_lanes) = (how.depth + 1, how.model.buffers_stores());
        let fits = self.image.as_ref().is_some_and(|image| image.fits(trace, how));
        let orders_stores = |how: &Search| how.model.orders_all_stores();
        let ordered = self.how.as_ref().is_some_and(|old| orders_stores(old) == orders_stores(how));
        // The recovery after the last crash was not recorded.
        let rest =
            (self.depths, self.by_lanes, self.trees.len()) == (depths, by_lanes, depths * parts);
        let rest = rest && ordered;
        if !fits || !rest || !self.how.as_ref().is_some_and(|before| before.is_as_deep(how)) {
            let image = CrashImage::new(trace, how);
            self.sharing = self.shared();
            image.together_mut().sharing.clone_from(&self.sharing);
            self.image = Some(image);
            let tree = || Begun { tree: Tree::default(), number: 0, varied: 0 };
            self.trees = std::iter::repeat_with(tree).take(depths * parts).collect();
            self.of_runs.clear();
            self.forget();
        }
        (self.depths, self.by_lanes, self.how) = (depths, by_lanes, Some(how.clone()));
        self.image().may_store(trace);
        // A line to which only recovery had stored was not followed after the first crash.
        let known = self.of_runs.len();
        self.of_runs.extend(lines_stored(trace));
        if self.of_runs.len() > known {
            self.forget();
        }
    }

    /// Nothing is seen yet, but these words are known to be shared by threads of recovery.
    pub(crate) fn of(sharing: &Sharing) -> Seen {
        Seen { sharing: sharing.clone(), ..Seen::default() }
    }

    /// Whether threads of recovery have come to share a word since this was asked last: what was
    /// seen before is forgotten then.
    pub(crate) fn shares_more(&mut self) -> bool {
        let grew = std::mem::take(&mut self.image().together_mut().sharing.grew);
        #[cfg(test)]
        let grew = grew && !crate::together::is_one_round();
        if grew {
            self.forget();
        }
        grew
    }

    /// The words that threads of recovery are known to share.
    pub(crate) fn shared(&self) -> Sharing {
        let image = self.image.as_ref();
        image.map_or_else(|| self.sharing.clone(), |image| image.together_mut().sharing.clone())
    }

    pub(crate) fn image(&self) -> &CrashImage {
        self.image.as_ref().expect("a search has begun")
    }

    /// The number of the tree of a part, after so many crashes of recovery.
    pub(crate) fn tree_of(&self, part: usize, depth: usize) -> usize {
        part * self.depths + depth
    }

    pub(crate) fn tree(&self, tree: usize) -> &Tree {
        &self.trees[tree].tree
    }

    /// Forgets everything.
    fn forget(&mut self) {
        self.varied += 1;
        self.recordings.clear();
        self.settled.clear();
        self.entries = 0;
        (0..self.trees.len()).for_each(|tree| self.begin_tree(tree));
    }

    /// Forgets everything if it has become too much; false if not.
    pub(crate) fn forget_if_full(&mut self) -> bool {
        let is_full = self.nodes() > NODES_MAX;
        if is_full {
            self.forget();
        }
        is_full
    }

    /// Whether a failure point has too many images.
    pub(crate) fn is_too_full(&self) -> bool {
        self.nodes() > 2 * NODES_MAX
    }

    fn nodes(&self) -> usize {
        self.entries + self.trees.iter().map(|begun| begun.tree.len()).sum::<usize>()
    }

    pub(crate) fn begin_tree(&mut self, tree: usize) {
        self.begun += 1;
        let (number, varied) = (self.begun, self.varied);
        self.trees[tree] = Begun { tree: Tree::default(), number, varied };
    }

    /// The number of the tree among all that were begun.
    pub(crate) fn number_of(&self, tree: usize) -> u32 {
        self.trees[tree].number
    }

    /// What crashes after this end of recovery lead to, if that is known.
    pub(crate) fn settled(&self, end: End) -> Option<Arc<Settled>> {
        let all = self.settled.get(&End { phase: None, ..end });
        all.or_else(|| self.settled.get(&end)).cloned()
    }

    pub(crate) fn settle(&mut self, end: End, settled: Settled) {
        self.entries += settled.findings.len() + 8;
        let phase = end.phase.filter(|_| settled.skipped);
        self.settled.insert(End { phase, ..end }, Arc::new(settled));
    }

    /// Whether recovery has come to store to more lines since the tree was begun.
    pub(crate) fn is_outdated(&self, tree: usize) -> bool {
        self.trees[tree].varied != self.varied
    }

    /// Takes note of the lines that a recovery stores to.
    pub(crate) fn may_store(&mut self, recording: &Trace) {
        if self.image().may_store(recording) {
            self.varied += 1;
        }
    }

    /// Adds a pass to the tree.
    pub(crate) fn add(
        &mut self,
        tree: usize,
        pass: &[(u32, u64)],
        found: u32,
        recording: Option<Trace>,
    ) -> NodeId {
        let recording = recording.map(|recording| self.intern(recording));
        self.trees[tree].tree.add(pass, PassEnd { found, recording })
    }

    pub(crate) fn link(&mut self, tree: usize, node: NodeId, value: u64, child: NodeId) {
        self.trees[tree].tree.link(node, value, child);
    }

    fn intern(&mut self, recording: Trace) -> Arc<Trace> {
        let by_lanes = self.how.as_ref().and_then(|how| recording.by_lanes(how.model));
        let recording = by_lanes.unwrap_or(recording);
        let hash = FxBuildHasher.hash_one(
            recording.stores.iter().map(|s| (s.at.bits(), s.change.new)).collect::<Vec<_>>(),
        );
        let same = self.recordings.entry(hash).or_default();
        if let Some(known) = same.iter().find(|known| known.is_same(&recording)) {
            return known.clone();
        }
        let recording = Arc::new(recording);
        self.entries += recording.events.len();
        same.push(recording.clone());
        recording
    }
}

/// What a check has found, each different finding once: equal findings have the same number.
pub(crate) struct Interner<F> {
    found: RefCell<Vec<Result<F, String>>>,
    by_hash: RefCell<FxHashMap<u64, Vec<u32>>>,
}

impl<F> Default for Interner<F> {
    fn default() -> Interner<F> {
        Interner { found: RefCell::default(), by_hash: RefCell::default() }
    }
}

impl<F: Eq + Hash> Interner<F> {
    fn intern(&self, result: Result<F, String>) -> u32 {
        let hash = FxBuildHasher.hash_one(&result);
        let (mut found, mut by_hash) = (self.found.borrow_mut(), self.by_hash.borrow_mut());
        let same = by_hash.entry(hash).or_default();
        if let Some(known) = same.iter().find(|known| found[**known as usize] == result) {
            return *known;
        }
        same.push(found.len() as u32);
        found.push(result);
        found.len() as u32 - 1
    }
}

/// The check of a run, and what it has found.
pub(crate) struct Interned<'a, C: Check> {
    pub(crate) check: &'a C,
    pub(crate) found: &'a Interner<C::Found>,
}

impl<C: Check> Findings for Interned<'_, C> {
    fn parts(&self) -> usize {
        self.check.parts().max(1)
    }

    fn recover(&self, image: &CrashImage, part: usize) -> u32 {
        self.found.intern(self.check.recover_part(image, part))
    }

    fn panicked(&self, panic: &str) -> u32 {
        self.found.intern(Err(format!("recovery panicked: {panic}")))
    }

    fn judge(&self, found: u32, point: &CrashPoint) -> Result<(), String> {
        match &self.found.found.borrow()[found as usize] {
            Ok(found) => guarded(|| self.check.judge(found, point))
                .unwrap_or_else(|panic| Err(format!("the judgement panicked: {panic}"))),
            Err(message) => Err(message.clone()),
        }
    }

    fn is_cut(&self) -> bool {
        self.check.is_cut()
    }
}

/// Runs recovery on the images that are open, and returns what it found besides the pass.
pub(crate) fn recover(
    image: &CrashImage,
    check: &dyn Findings,
    part: usize,
    path: &[(u32, u64)],
    prefer: Prefer,
    records: bool,
) -> (u32, Pass<u32>) {
    let pass = image.pass(path, prefer, records, |image| check.recover(image, part));
    let found = match &pass.result {
        Ok(found) => *found,
        Err(panic) => check.panicked(panic),
    };
    (found, pass)
}
