//! The search for an image that breaks the program: order, budget, and what was covered.
//!
//! Correct programs leave few images. One missing flush makes them exponentially many, as its line
//! stays pending for ever, and most of those fail: so the order matters more than the total. The
//! search tries one kind of image at all failure points, then the next kind: as little as possible
//! persisted, and as much as possible; one line ahead of the former or behind the latter; two such
//! lines; then every image, and random ones (Xoshiro256PlusPlus) at points that have too many.
//!
//! At each point only images that hold a store which could not persist at an earlier point are
//! new; the others are checked again only if more has been promised since. An image is decided only
//! where recovery reads it ([`CrashImage`]), and recovery runs only if no earlier run read the same
//! values ([`Tree`]). Power may fail again while recovery runs, up to [`Search::depth`] times.
//! Whose turn it is in a recovery by several threads is a choice like that of a value.

use crate::below::Known;
use crate::check::{Check, Findings};
use crate::crash::Crash;
use crate::crashed::{CrashImage, DEPTH_MAX, Prefer};
use crate::open::Layer;
use crate::options::Search;
use crate::outcome::{PointsTried, Reached, SearchOutcome};
use crate::phases::{PHASES, Phase};
use crate::recoveries::{Interned, Recoveries, Seen, recover};
use crate::shrink::shrink;
use crate::trace::Trace;
use crate::tree::{Next, NodeId, PassEnd};
use crate::walk::{CrashPoint, Walk, is_failure_point};
use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use rustc_hash::{FxBuildHasher, FxHashSet};
use std::hash::BuildHasher;
use std::ops::ControlFlow;
use std::ptr;
use std::sync::Arc;

mod cut_short;
mod groups;

/// Searches for a crash state that fails the check, until it finds one or the budget ends.
pub fn search<C: Check>(trace: &Trace, search: &Search, check: &C) -> SearchOutcome {
    search_watched(trace, search, check, &mut |_| ControlFlow::Continue(()))
}

/// As [`search`], but calls `watch` after each failure point with the part that is done, from 0 to
/// 1 (an estimate: later phases take longer), and stops when it breaks.
pub fn search_watched<C: Check>(
    trace: &Trace,
    search: &Search,
    check: &C,
    watch: &mut dyn FnMut(f64) -> ControlFlow<()>,
) -> SearchOutcome {
    search_on(Arc::new(trace.clone()), search, check, &mut Recoveries::default(), watch)
}

/// As [`search_watched`], with what is known of recovery from the searches of other runs.
pub fn search_on<C: Check>(
    trace: Arc<Trace>,
    search: &Search,
    check: &C,
    known: &mut Recoveries<C::Found>,
    watch: &mut dyn FnMut(f64) -> ControlFlow<()>,
) -> SearchOutcome {
    let (trace, search) = &prepared(trace, search);
    let Recoveries { found, seen } = known;
    let check = &Interned { check, found };
    let (mut outcome, failed) = look_again(trace, search, check, seen, watch);
    outcome.finding = failed.map(|crashes| {
        // The failure may need fewer crashes.
        let fewer = Search { depth: crashes.len().saturating_sub(2), ..search.clone() };
        let known = &mut Seen::of(&seen.shared());
        let fewer = (fewer.depth > 0).then(|| look(trace, &fewer, check, known, watch).1);
        shrink(trace, search, check, fewer.flatten().unwrap_or(crashes))
    });
    outcome
}

/// Whether every image of the run was tried, and recovery handles each.
pub(crate) fn is_clean_on<C: Check>(
    trace: Arc<Trace>,
    search: &Search,
    check: &C,
    known: &mut Recoveries<C::Found>,
    watch: &mut dyn FnMut(f64) -> ControlFlow<()>,
) -> bool {
    let (trace, search) = &prepared(trace, search);
    let Recoveries { found, seen } = known;
    let (outcome, failed) = look_again(trace, search, &Interned { check, found }, seen, watch);
    failed.is_none() && outcome.is_complete()
}

/// The run as the model sees it, and the search within what is possible.
fn prepared(trace: Arc<Trace>, search: &Search) -> (Arc<Trace>, Search) {
    let by_lanes = trace.by_lanes(search.model);
    let search = Search { depth: search.depth.min(DEPTH_MAX), ..search.clone() };
    (by_lanes.map_or(trace, Arc::new), search)
}

/// What was tried, and the crashes that recovery does not handle.
type Looked = (SearchOutcome, Option<Vec<Crash>>);

/// As [`look`]; again where recovery was not interrupted, as its threads had not yet come to share
/// words.
fn look_again(
    trace: &Arc<Trace>,
    search: &Search,
    check: &dyn Findings,
    seen: &mut Seen,
    watch: &mut dyn FnMut(f64) -> ControlFlow<()>,
) -> Looked {
    loop {
        let looked = look(trace, search, check, seen, watch);
        if looked.0.stopped || !seen.shares_more() {
            return looked;
        }
    }
}

/// The failure points of a search.
pub(crate) fn points(trace: &Trace, search: &Search) -> u64 {
    let end = search.events.end.min(trace.events.len() + 1);
    let is_one = |event: &usize| {
        trace.repeats.get(*event) != Some(&true)
            && is_failure_point(trace, *event, search.model, search.thorough)
    };
    (search.events.start..end).filter(is_one).count() as u64
}

fn look(
    trace: &Arc<Trace>,
    search: &Search,
    check: &dyn Findings,
    seen: &mut Seen,
    watch: &mut dyn FnMut(f64) -> ControlFlow<()>,
) -> Looked {
    let mut explorer = Explorer::new(trace, search, check, seen, watch);
    for (at, phase) in PHASES.iter().enumerate() {
        explorer.done_before = at as f64 / PHASES.len() as f64;
        if explorer.phase(phase).is_break() {
            break;
        }
    }
    explorer.outcome.has_read = explorer.image().has_read();
    let has_threads = explorer.image().together_mut().were_several;
    explorer.outcome.has_threads = has_threads;
    if explorer.failed.is_none() && !explorer.outcome.is_complete() {
        let whole = explorer.whole.len() as u64;
        explorer.outcome.tried = Some(PointsTried { whole, all: points(trace, search) });
    }
    let Explorer { failed, outcome, .. } = explorer;
    (outcome, failed)
}

/// Open words and turns of one image up to which each is tried with all its values: each takes some
/// of the stack.
const NESTING_MAX: usize = 1000;

/// Reads of recovery that are followed until a search asks whether it may go on, besides after each
/// point.
const TOLD_EVERY: u32 = 4096;

struct Explorer<'a> {
    trace: &'a Arc<Trace>,
    options: &'a Search,
    check: &'a dyn Findings,
    seen: &'a mut Seen,
    /// The part of the image under search.
    part: usize,
    /// Findings that passed the check, with what was promised then.
    judged: FxHashSet<(u32, u64)>,
    /// Words and values from the root of the tree to the current node.
    path: Vec<(u32, u64)>,
    /// The same of the recoveries that were cut short.
    outer: Vec<Vec<(u32, u64)>>,
    /// The events before the crash of each layer.
    events: Vec<usize>,
    /// Lines whose words persisted out of order, on the path to the current node.
    torn: Vec<u32>,
    /// Lines that deviate from what the phase prefers, on the path to the current node.
    deviating: Vec<u32>,
    /// For each depth, what the recovery that is cut short there has read or stored.
    known: Vec<Known>,
    /// What recoveries found that followed crashes of others.
    findings: Vec<u32>,
    /// States that were not known from before.
    tried: u64,
    phase: &'static Phase,
    /// Some state was left to a later phase.
    skipped: bool,
    /// The events at whose points none was.
    whole: FxHashSet<usize>,
    /// Some point had more states than were tried: in this phase, and at this point.
    cut: bool,
    cut_here: bool,
    /// States that may still be tried at this point.
    left: u64,
    /// Reads of recovery that were followed.
    followed: u32,
    /// Words and turns that are open on the way to the current node.
    nesting: usize,
    watch: &'a mut dyn FnMut(f64) -> ControlFlow<()>,
    /// The part of the search that is done by earlier phases, and of this phase.
    done_before: f64,
    done: f64,
    rng: Xoshiro256PlusPlus,
    outcome: SearchOutcome,
    failed: Option<Vec<Crash>>,
}

/// How to choose among the values that a word may have.
#[derive(Clone, Copy)]
enum Choose {
    Deviating(usize),
    Randomly,
}

impl<'a> Explorer<'a> {
    fn new(
        trace: &'a Arc<Trace>,
        options: &'a Search,
        check: &'a dyn Findings,
        seen: &'a mut Seen,
        watch: &'a mut dyn FnMut(f64) -> ControlFlow<()>,
    ) -> Explorer<'a> {
        seen.begin(trace, options, check.parts());
        Explorer {
            trace,
            options,
            check,
            seen,
            part: 0,
            judged: FxHashSet::default(),
            path: Vec::new(),
            outer: Vec::new(),
            events: Vec::new(),
            torn: Vec::new(),
            deviating: Vec::new(),
            known: vec![Known::default(); options.depth],
            findings: Vec::new(),
            tried: 0,
            phase: &PHASES[0],
            skipped: false,
            whole: FxHashSet::default(),
            cut: false,
            cut_here: false,
            left: 0,
            followed: 0,
            nesting: 0,
            watch,
            done_before: 0.0,
            done: 0.0,
            rng: Xoshiro256PlusPlus::seed_from_u64(options.seed),
            outcome: SearchOutcome::of(options.model),
            failed: None,
        }
    }

    fn image(&self) -> &CrashImage {
        self.seen.image()
    }

    /// Tries the images of a phase; breaks if nothing is left to do.
    fn phase(&mut self, phase: &'static Phase) -> ControlFlow<()> {
        (self.skipped, self.cut) = (false, false);
        self.walk(phase)?;
        if !self.skipped {
            self.outcome.reached = Reached::Complete;
            return ControlFlow::Break(());
        }
        if !self.cut {
            self.outcome.reached = phase.reached;
        }
        ControlFlow::Continue(())
    }

    fn walk(&mut self, phase: &'static Phase) -> ControlFlow<()> {
        self.phase = phase;
        let first = ptr::eq(phase, &PHASES[0]);
        let mut walk = Walk::new(self.trace, self.options.model);
        let mut promised = None;
        let end = self.options.events.end.min(self.trace.events.len() + 1);
        loop {
            let here = self.options.events.contains(&walk.point.event);
            let repeats = self.trace.repeats.get(walk.point.event) == Some(&true);
            if here && !repeats && walk.is_failure_point(self.options.thorough) {
                self.outcome.points += u64::from(first);
                let grown = walk.state.order.take_grown();
                let told = promises(&walk.point);
                let all = promised != Some(told);
                promised = Some(told);
                let skipped = std::mem::take(&mut self.skipped);
                self.point(&mut walk, all, &grown)?;
                if !self.skipped {
                    self.whole.insert(walk.point.event);
                }
                self.skipped |= skipped;
                let done = walk.point.event - self.options.events.start;
                self.done = done as f64 / (end - self.options.events.start) as f64;
                self.tell()?;
            }
            if walk.point.event + 1 >= end || !walk.advance() {
                return ControlFlow::Continue(());
            }
        }
    }

    fn point(&mut self, walk: &mut Walk<'a>, all: bool, grown: &[(u32, u32)]) -> ControlFlow<()> {
        // Recovery knows the length of the pool without a read, which a tree would record.
        let is_longer = self.image().set_crash(self.trace, walk.point.event, walk.pm_bytes);
        if is_longer {
            (0..self.check.parts()).for_each(|part| self.clear_trees(part, 0));
        }
        self.seen.forget_if_full();
        let order = std::mem::take(&mut walk.state.order);
        self.image().open().push(Layer { trace: self.trace.clone(), order });
        self.events.push(walk.point.event);
        self.cut_here = false;
        let flow = (0..self.check.parts()).try_for_each(|part| {
            self.part = part;
            self.findings.clear();
            self.left = self.options.point_limit;
            self.layer(&walk.point, all || is_longer, grown)
        });
        self.events.pop();
        walk.state.order = self.image().open().pop().order;
        if self.cut_here && self.phase.deviations == usize::MAX {
            self.outcome.sampled_points += 1;
        }
        flow
    }

    /// Tries the images that are open now; where a point has too many, random ones of them.
    fn states(&mut self, point: &CrashPoint, choose: Choose) -> ControlFlow<()> {
        let before = std::mem::take(&mut self.path);
        let mut flow = ControlFlow::Continue(());
        if self.left > 0 {
            flow = self.start(point, choose);
        } else {
            (self.skipped, self.cut, self.cut_here) = (true, true, true);
        }
        let samples =
            if self.cut_here && self.events.len() == 1 { self.options.samples } else { 0 };
        for _ in 0..samples {
            if flow.is_break() {
                break;
            }
            self.left = 1;
            flow = self.start(point, Choose::Randomly);
            self.left = 0;
        }
        self.path = before;
        flow
    }

    fn start(&mut self, point: &CrashPoint, choose: Choose) -> ControlFlow<()> {
        let tree = self.tree();
        if self.events.len() > 1 && self.seen.is_outdated(tree) {
            self.clear_tree(tree);
        }
        let root = match self.seen.tree(tree).root() {
            Some(root) => root,
            None => self.run()?,
        };
        self.descend(root, point, choose)
    }

    /// The tree of the current part and depth.
    fn tree(&self) -> usize {
        self.seen.tree_of(self.part, self.events.len() - 1)
    }

    fn clear_tree(&mut self, tree: usize) {
        self.seen.begin_tree(tree);
    }

    /// Begins the trees of the part anew, from this depth on.
    fn clear_trees(&mut self, part: usize, from: usize) {
        for depth in from..=self.options.depth {
            self.clear_tree(self.seen.tree_of(part, depth));
        }
    }

    /// Follows what recovery would read from `node` on, and branches where a word may have several
    /// values.
    fn descend(&mut self, mut node: NodeId, point: &CrashPoint, choose: Choose) -> ControlFlow<()> {
        let (depth, tree) = (self.events.len() - 1, self.tree());
        let begun = self.path.len();
        let flow = loop {
            let word = match self.seen.tree(tree).next(node) {
                Next::Read(word) => word,
                Next::Done(PassEnd { found, recording }) => {
                    let (found, recording) = (*found, recording.clone());
                    break self.done(node, found, recording, point);
                }
            };
            if !self.image().is_choice(word) {
                self.known[..depth].iter_mut().for_each(|known| known.read(word));
            }
            let value = match self.image().only(word) {
                Some(value) => value,
                None if self.nesting < NESTING_MAX => {
                    break self.branch(node, word, point, choose);
                }
                None => self.preferred(word),
            };
            match self.follow(node, word, value) {
                ControlFlow::Continue(next) => node = next,
                ControlFlow::Break(()) => break ControlFlow::Break(()),
            }
        };
        self.path.truncate(begun);
        flow
    }

    /// The value that the phase prefers for a word of which too many are open already.
    fn preferred(&mut self, word: u32) -> u64 {
        (self.skipped, self.cut, self.cut_here) = (true, true, true);
        self.outcome.is_full = true;
        let (mut possible, _) = self.image().possible(word);
        let is_last = self.phase.prefer == Prefer::Most && !self.image().is_choice(word);
        let chosen = possible.swap_remove(if is_last { possible.len() - 1 } else { 0 });
        let kept = self.image().open().keep(&chosen.keeps);
        debug_assert!(kept, "what is possible can be kept");
        chosen.value
    }

    /// The child of `node` for this value of the word; runs recovery if there is none yet.
    #[inline]
    fn follow(&mut self, node: NodeId, word: u32, value: u64) -> ControlFlow<(), NodeId> {
        let tree = self.tree();
        self.followed = self.followed.wrapping_add(1);
        if self.followed.is_multiple_of(TOLD_EVERY) {
            self.tell()?;
        }
        self.path.push((word, value));
        if let Some(child) = self.seen.tree(tree).child(node, value) {
            return ControlFlow::Continue(child);
        }
        let child = self.run()?;
        self.seen.link(tree, node, value, child);
        ControlFlow::Continue(child)
    }

    fn branch(
        &mut self,
        node: NodeId,
        word: u32,
        point: &CrashPoint,
        choose: Choose,
    ) -> ControlFlow<()> {
        let (mut possible, are_all) = self.image().possible(word);
        self.skipped |= !are_all;
        self.cut |= !are_all && self.phase.deviations > 1;
        let is_choice = self.image().is_choice(word);
        if self.phase.prefer == Prefer::Most && !is_choice {
            possible.reverse();
        }
        let length = self.path.len();
        if let Choose::Randomly = choose {
            let at = self.rng.random_range(0..possible.len());
            possible.swap(0, at);
            possible.truncate(1);
        }
        for (at, possible) in possible.into_iter().enumerate() {
            // The first value that the phase does not prefer makes the line deviate; a choice among
            // threads counts as a line.
            let line = if is_choice { word } else { word / 8 };
            let deviates = at > 0 && !self.deviating.contains(&line);
            let choose = match choose {
                Choose::Deviating(0) if deviates => {
                    self.skipped = true;
                    break;
                }
                Choose::Deviating(left) if deviates => Choose::Deviating(left - 1),
                _ => choose,
            };
            if self.left == 0 {
                (self.skipped, self.cut, self.cut_here) = (true, true, true);
                break;
            }
            let marks = self.image().open().mark();
            self.deviating.extend(deviates.then_some(line));
            let mut flow = ControlFlow::Continue(());
            let keeps = self.image().open().keep(&possible.keeps);
            let tears =
                !is_choice && !self.torn.contains(&line) && self.image().open().is_torn(word);
            self.torn.extend(tears.then_some(line));
            if keeps && self.torn.len() <= self.options.torn_lines {
                flow = match self.follow(node, word, possible.value) {
                    ControlFlow::Continue(child) => {
                        self.nesting += 1;
                        let flow = self.descend(child, point, choose);
                        self.nesting -= 1;
                        flow
                    }
                    ControlFlow::Break(()) => ControlFlow::Break(()),
                };
            }
            self.image().open().undo(marks);
            self.path.truncate(length);
            if tears {
                self.torn.pop();
            }
            if deviates {
                self.deviating.pop();
            }
            flow?;
        }
        ControlFlow::Continue(())
    }

    /// Runs recovery on the path so far, and adds its further reads to the tree.
    fn run(&mut self) -> ControlFlow<(), NodeId> {
        self.outcome.runs += 1;
        let records = self.events.len() <= self.options.depth;
        let (image, prefer) = (self.image(), self.phase.prefer);
        let (found, pass) = recover(image, self.check, self.part, &self.path, prefer, records);
        if self.check.is_cut() {
            self.outcome.stopped = true;
            let _ = self.tell();
            return ControlFlow::Break(());
        }
        let recording = (records && !pass.recording.stores.is_empty()).then_some(pass.recording);
        let node = self.seen.add(self.tree(), &pass.reads, found, recording);
        if self.seen.is_too_full() {
            self.left = 0;
            self.outcome.is_full = true;
        }
        ControlFlow::Continue(node)
    }

    /// Checks what recovery found in all images that are open now, then crashes that recovery.
    fn done(
        &mut self,
        node: NodeId,
        found: u32,
        recording: Option<Arc<Trace>>,
        point: &CrashPoint,
    ) -> ControlFlow<()> {
        if self.tried >= self.options.budget {
            self.outcome.out_of_budget = true;
            return ControlFlow::Break(());
        }
        self.left = self.left.saturating_sub(1);
        self.tried += 1;
        self.outcome.states += 1;
        if !self.is_good(found, point) {
            let cuts = self.image().open().largest().into_iter();
            let paths = self.outer.iter().chain([&self.path]);
            let turns = paths.map(|path| self.image().together_mut().turns_of(path));
            let crashes = cuts.zip(&self.events).zip(turns);
            let crash = |((cut, &event), turns)| Crash { event, cut, turns };
            self.failed = Some(crashes.map(crash).collect());
            return ControlFlow::Break(());
        }
        self.findings.push(found);
        match recording {
            Some(recording) => self.crashes_of(node, recording, point),
            None => ControlFlow::Continue(()),
        }
    }

    /// Tells how far the search is, and whether it may go on.
    fn tell(&mut self) -> ControlFlow<()> {
        let flow = (self.watch)(self.done_before + self.done / PHASES.len() as f64);
        self.outcome.stopped |= flow.is_break();
        flow
    }

    /// Whether the check lets the finding pass here.
    fn is_good(&mut self, found: u32, point: &CrashPoint) -> bool {
        let told = (found, promises(point));
        if self.judged.contains(&told) {
            return true;
        }
        let good = self.check.judge(found, point).is_ok();
        self.outcome.has_asked |= point.was_asked();
        if good {
            self.judged.insert(told);
        }
        good
    }
}

/// A hash of what the check depends on besides what recovery found.
fn promises(point: &CrashPoint) -> u64 {
    FxBuildHasher.hash_one(point.told())
}
