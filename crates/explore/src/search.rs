//! The search for an image that breaks the program: order, budget, and what was covered.
//!
//! Correct programs have few images. One missing flush makes them exponentially many, as its line
//! stays pending for ever, and most of those are bad: so the order matters more than the total.
//! Over all failure points at once the search goes: nothing extra durable and everything durable;
//! one line ahead of nothing or behind everything; two such lines; then every image of each family
//! that is small enough, and random images of the others (Xoshiro256PlusPlus). An image is checked
//! once for each set of promises it must keep: equal images are found by hash (128 bits, Zobrist),
//! before they are built.

use crate::crashed::{CrashImage, Cursor};
use crate::finding::Finding;
use crate::models::{Cut, Family, Model, Window};
use crate::shrink::shrink;
use crate::trace::{Trace, mix};
use crate::walk::{CrashPoint, Walk};
use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use rustc_hash::FxHashSet;
use serde::Serialize;
use std::fmt;
use std::ops::ControlFlow;

/// Says whether what survived is right: runs recovery on the image, then looks.
///
/// It must be a function of the image and of the promises in the point, and of nothing else.
pub type Check<'a> = dyn Fn(&CrashImage, &CrashPoint) -> Result<(), String> + 'a;

/// How far to search.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Search {
    /// The persistency model.
    pub model: Model,
    /// Images to check at most.
    pub budget: u64,
    /// Crash after every store too, not only before fences and outputs.
    pub thorough: bool,
    /// Images of one family up to which all of them are tried.
    pub family_limit: u64,
    /// Random images tried of each larger family.
    pub samples: u64,
    /// Memory accesses that recovery and check of one image may make.
    pub steps: u64,
    /// Seed of the random images.
    pub seed: u64,
}

impl Search {
    /// The usual search under `model`.
    pub fn new(model: Model) -> Search {
        Search {
            model,
            budget: 1_000_000,
            thorough: false,
            family_limit: 10_000,
            samples: 100,
            steps: 10_000_000,
            seed: 1,
        }
    }
}

/// How much of all that a crash may leave was looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Reached {
    /// Not even the first kind of images at every point.
    Part,
    /// At each point nothing extra and everything.
    Ends,
    /// One line ahead or behind.
    Singles,
    /// Two lines ahead or behind.
    Pairs,
    /// Every image.
    Complete,
}

/// What a search did.
#[derive(Clone, Debug, Serialize)]
pub struct Outcome {
    /// The model searched.
    pub model: Model,
    /// Moments at which power was taken to fail.
    pub points: u64,
    /// Families of images over all points, without repetition.
    pub families: u64,
    /// Families of which every image was tried.
    pub whole_families: u64,
    /// True if some point had more families than are looked at; `reached` is of the others.
    pub families_cut: bool,
    /// Images generated, with repetition.
    pub generated: u64,
    /// Different images (or equal ones with different promises), each checked once.
    pub checked: u64,
    /// The last kind of images that was tried at every point.
    pub reached: Reached,
    /// True if the budget ended the search.
    pub out_of_budget: bool,
    /// The smallest failing image made from the first one found.
    pub finding: Option<Finding>,
}

impl Outcome {
    fn new(model: Model) -> Outcome {
        Outcome {
            model,
            points: 0,
            families: 0,
            whole_families: 0,
            families_cut: false,
            generated: 0,
            checked: 0,
            reached: Reached::Part,
            out_of_budget: false,
            finding: None,
        }
    }

    /// The outcome of looking at one image, as [`replay`](crate::replay) does.
    pub fn of_replay(model: Model, finding: Option<Finding>) -> Outcome {
        Outcome { points: 1, generated: 1, checked: 1, finding, ..Outcome::new(model) }
    }

    /// Adds the outcome of the same search on another run of the program.
    pub fn add(&mut self, other: Outcome) {
        self.points += other.points;
        self.families += other.families;
        self.whole_families += other.whole_families;
        self.families_cut |= other.families_cut;
        self.generated += other.generated;
        self.checked += other.checked;
        self.reached = self.reached.min(other.reached);
        self.out_of_budget |= other.out_of_budget;
        self.finding = self.finding.take().or(other.finding);
    }
}

impl fmt::Display for Outcome {
    /// The coverage in words.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.finding.is_some() {
            return write!(f, "stopped at a failing image, after {} images", self.checked);
        }
        let words = match self.reached {
            Reached::Complete => return f.write_str("complete"),
            Reached::Part => "part of the points",
            Reached::Ends => "all points, nothing or everything persisted",
            Reached::Singles => "one line ahead or behind",
            Reached::Pairs => "all pairs of lines",
        };
        f.write_str(words)?;
        if self.families_cut {
            f.write_str("; of the first epoch sets only, where they are many")?;
        }
        if self.out_of_budget {
            write!(f, "; budget reached after {} images", self.checked)
        } else {
            let (whole, all) = (self.whole_families, self.families);
            write!(f, "; {whole} of {all} families complete, the others sampled")
        }
    }
}

/// Checks the images that a crash of the traced run may leave, until one fails or the budget ends.
pub fn search(trace: &Trace, search: &Search, check: &Check<'_>) -> Outcome {
    let mut explorer = Explorer::new(trace, search, check);
    for phase in [Phase::Ends, Phase::Singles, Phase::Pairs, Phase::Product] {
        match explorer.walk(phase) {
            ControlFlow::Break(()) => break,
            ControlFlow::Continue(()) => explorer.finish(phase),
        }
    }
    let failed = explorer.failed.take();
    let mut outcome = explorer.outcome;
    outcome.finding = failed.map(|(point, cut)| shrink(trace, search, check, point, cut));
    outcome
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Phase {
    Ends,
    Singles,
    Pairs,
    Product,
}

struct Explorer<'a> {
    trace: &'a Trace,
    options: &'a Search,
    check: &'a Check<'a>,
    cursor: Cursor<'a>,
    seen: FxHashSet<u128>,
    families: FxHashSet<u128>,
    rng: Xoshiro256PlusPlus,
    outcome: Outcome,
    failed: Option<(usize, Cut)>,
}

/// A family at a crash point, with what its images have in common.
struct Site<'a> {
    family: &'a Family,
    point: &'a CrashPoint,
    /// Hash of the base image and the promises.
    hash: u128,
}

/// Families around one epoch that are looked at in one crash point.
const FAMILIES_PER_EPOCH: usize = 4096;

impl<'a> Explorer<'a> {
    fn new(trace: &'a Trace, options: &'a Search, check: &'a Check<'a>) -> Explorer<'a> {
        Explorer {
            trace,
            options,
            check,
            cursor: Cursor::new(trace, options.steps),
            seen: FxHashSet::default(),
            families: FxHashSet::default(),
            rng: Xoshiro256PlusPlus::seed_from_u64(options.seed),
            outcome: Outcome::new(options.model),
            failed: None,
        }
    }

    fn walk(&mut self, phase: Phase) -> ControlFlow<()> {
        let mut walk = Walk::new(self.trace, self.options.model);
        self.families.clear();
        self.outcome.whole_families = 0;
        loop {
            if walk.is_failure_point(self.options.thorough) {
                self.point(phase, &walk)?;
                walk.state.forget_given();
            }
            if !walk.advance() {
                return ControlFlow::Continue(());
            }
        }
    }

    fn finish(&mut self, phase: Phase) {
        let outcome = &mut self.outcome;
        outcome.families = self.families.len() as u64;
        outcome.reached = match phase {
            Phase::Ends => Reached::Ends,
            Phase::Singles => Reached::Singles,
            Phase::Pairs => Reached::Pairs,
            Phase::Product
                if outcome.whole_families == outcome.families && !outcome.families_cut =>
            {
                Reached::Complete
            }
            Phase::Product => Reached::Pairs,
        };
    }

    fn point(&mut self, phase: Phase, walk: &Walk<'_>) -> ControlFlow<()> {
        if phase == Phase::Ends {
            self.outcome.points += 1;
        }
        let mut flow = ControlFlow::Continue(());
        let all = walk.state.families(FAMILIES_PER_EPOCH, &mut |family| {
            flow = self.family(phase, &family, &walk.point);
            flow
        });
        self.outcome.families_cut |= !all;
        flow
    }

    fn family(&mut self, phase: Phase, family: &Family, point: &CrashPoint) -> ControlFlow<()> {
        let hash = self.base_hash(family, point);
        let windows = family.windows.iter().fold(hash, |hash, window| {
            let Window { line, low, high } = *window;
            let id = mix(u64::from(line) << 32 | u64::from(high));
            hash ^ u128::from(mix(id ^ u64::from(low))) << 64 ^ u128::from(mix(id))
        });
        if !self.families.insert(windows) {
            return ControlFlow::Continue(());
        }
        self.cursor.move_to(&family.base);
        let site = Site { family, point, hash };
        match phase {
            Phase::Ends => {
                self.visit(&site, &picks(family, |window| window.low))?;
                self.visit(&site, &picks(family, |window| window.high))
            }
            Phase::Singles => self.lines(&site, 1),
            Phase::Pairs => self.lines(&site, 2),
            Phase::Product => self.product(&site),
        }
    }

    fn base_hash(&self, family: &Family, point: &CrashPoint) -> u128 {
        let mut hash = 0;
        for (line, &stores) in self.trace.lines.iter().zip(&family.base.0) {
            hash ^= line.hash[stores as usize];
        }
        for (thread, &promised) in point.promised.iter().enumerate() {
            let part = mix((promised << 16) + thread as u64 + 1);
            hash ^= u128::from(mix(part)) << 64 | u128::from(part);
        }
        hash
    }

    /// All images in which `count` lines differ from nothing extra, or from everything.
    fn lines(&mut self, site: &Site<'_>, count: usize) -> ControlFlow<()> {
        for ahead in [true, false] {
            let mut picked =
                picks(site.family, |window| if ahead { window.low } else { window.high });
            self.vary(site, &mut picked, 0, count)?;
        }
        ControlFlow::Continue(())
    }

    fn vary(
        &mut self,
        site: &Site<'_>,
        picked: &mut [u32],
        from: usize,
        count: usize,
    ) -> ControlFlow<()> {
        if count == 0 {
            return self.visit(site, picked);
        }
        for index in from..picked.len() {
            let Window { low, high, .. } = site.family.windows[index];
            let kept = picked[index];
            for stores in (low..=high).filter(|&stores| stores != kept) {
                picked[index] = stores;
                self.vary(site, picked, index + 1, count - 1)?;
            }
            picked[index] = kept;
        }
        ControlFlow::Continue(())
    }

    fn product(&mut self, site: &Site<'_>) -> ControlFlow<()> {
        let windows = &site.family.windows;
        let size = windows.iter().fold(1u64, |size, window| {
            size.saturating_mul(u64::from(window.high - window.low) + 1)
        });
        if size > self.options.family_limit {
            return self.sample(site);
        }
        let mut picked = picks(site.family, |window| window.low);
        loop {
            self.visit(site, &picked)?;
            let Some(place) = (0..windows.len()).find(|&i| picked[i] < windows[i].high) else {
                self.outcome.whole_families += 1;
                return ControlFlow::Continue(());
            };
            picked[place] += 1;
            for lower in 0..place {
                picked[lower] = windows[lower].low;
            }
        }
    }

    fn sample(&mut self, site: &Site<'_>) -> ControlFlow<()> {
        for _ in 0..self.options.samples {
            let picked = picks(site.family, |window| match self.rng.random_range(0..3) {
                0 => window.low,
                1 => window.high,
                _ => self.rng.random_range(window.low..=window.high),
            });
            self.visit(site, &picked)?;
        }
        ControlFlow::Continue(())
    }

    /// Checks the image whose windows stand as `picked`, unless it was checked before.
    fn visit(&mut self, site: &Site<'_>, picked: &[u32]) -> ControlFlow<()> {
        let windows = &site.family.windows;
        let hash = windows.iter().zip(picked).fold(site.hash, |hash, (window, &stores)| {
            let line = &self.trace.lines[window.line as usize].hash;
            hash ^ line[window.low as usize] ^ line[stores as usize]
        });
        self.outcome.generated += 1;
        if !self.seen.insert(hash) {
            return ControlFlow::Continue(());
        }
        if self.outcome.checked == self.options.budget {
            self.outcome.out_of_budget = true;
            return ControlFlow::Break(());
        }
        self.outcome.checked += 1;
        for (window, &stores) in windows.iter().zip(picked) {
            self.cursor.set(window.line, stores);
        }
        if verdict(&mut self.cursor, self.check, site.point).is_ok() {
            return ControlFlow::Continue(());
        }
        let mut cut = site.family.base.clone();
        for (window, &stores) in windows.iter().zip(picked) {
            cut.set(window.line, stores);
        }
        self.failed = Some((site.point.event, cut));
        ControlFlow::Break(())
    }
}

fn picks(family: &Family, pick: impl FnMut(&Window) -> u32) -> Vec<u32> {
    family.windows.iter().map(pick).collect()
}

/// What the check says of the image under the cursor; a panic in it is a verdict too.
pub(crate) fn verdict(
    cursor: &mut Cursor<'_>,
    check: &Check<'_>,
    point: &CrashPoint,
) -> Result<(), String> {
    match cursor.run(|image| check(image, point)) {
        Ok(result) => result,
        Err(panic) => Err(format!("recovery panicked: {panic}")),
    }
}
