//! The flusher: takes requests on, flushes, fences, and only then says so.
//!
//! It claims from as many FIFOs as it needs for a batch before it flushes anything, because a
//! locked operation waits for flushes as a fence does; one fence then serves them all. Requests to
//! clean lines early come after everything else, and from flusher 0 alone, so that one number says
//! which of a thread's are done.

use super::counts::{FLUSHER_CLEANED, FLUSHER_FENCES, FLUSHER_LINES};
use super::estimate::Tuner;
use super::flaws::RibbonFlaw;
use super::{
    BATCH_LINES, BELLS, CLAIMED, CLEAN_LINES, CONTROL, DONE, EARLY_DONE, EARLY_PUSHED, Fifo,
    PUSHED, RATE, Ribbon, STOPPED, count_of, generation_of, word_of,
};
use seawall_memory::{Addr, Memory, MemoryExt};

/// What a [`Flusher`] did when it was asked to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FlusherStep {
    /// It flushed, and fenced, that many lines.
    Flushed(u64),
    /// There was nothing to do.
    Idle,
    /// It is one flusher too many at present.
    Surplus,
    /// The Ribbon was closed.
    Closed,
}

/// A part of a FIFO that this flusher has taken on.
#[derive(Clone, Copy, Debug)]
struct Claim {
    fifo: Fifo,
    /// The word with the generation and the first request's number.
    claimed: u64,
    lines: u64,
}

/// A flusher, for one thread to run; see [`Ribbon::flusher`].
///
/// It may stop, or be lost, at any moment: what it had taken on is flushed again by its owner.
pub struct Flusher<'m, M> {
    ribbon: Ribbon,
    memory: &'m M,
    index: u64,
    /// The thread whose FIFO it looks at first.
    turn: u64,
    tuner: Option<Tuner>,
    claims: Vec<Claim>,
    /// What it cleans now: up to which request.
    cleaning: Vec<(Fifo, u64)>,
    lines: u64,
    cleaned: u64,
    fences: u64,
}

impl<'m, M: Memory> Flusher<'m, M> {
    pub(super) fn new(ribbon: Ribbon, memory: &'m M, index: u64) -> Flusher<'m, M> {
        let options = &ribbon.options;
        assert!(index < options.flushers, "flusher {index} of {}", options.flushers);
        let tuner =
            Tuner::new(options.flushers_min, options.flushers, options.period, options.window);
        let line = ribbon.flusher_line(index);
        Flusher {
            memory,
            index,
            turn: index % options.threads,
            tuner: tuner.filter(|_| index == 0),
            claims: Vec::with_capacity(BATCH_LINES as usize),
            cleaning: Vec::new(),
            lines: memory.load(line.plus(FLUSHER_LINES)),
            cleaned: memory.load(line.plus(FLUSHER_CLEANED)),
            fences: memory.load(line.plus(FLUSHER_FENCES)),
            ribbon,
        }
    }

    /// Does at most one batch.
    pub fn step(&mut self) -> FlusherStep {
        let control: u64 = self.memory.load(self.ribbon.word(CONTROL));
        if control & STOPPED != 0 {
            return FlusherStep::Closed;
        }
        self.tune();
        if self.index + control >= self.ribbon.options.flushers && self.index > 0 {
            return FlusherStep::Surplus;
        }
        match self.batch() {
            0 if self.cleans() => match self.clean() {
                0 => FlusherStep::Idle,
                lines => FlusherStep::Flushed(lines),
            },
            0 => FlusherStep::Idle,
            lines => FlusherStep::Flushed(lines),
        }
    }

    /// Steps until the Ribbon is closed.
    pub(super) fn serve(&mut self) {
        let mut idle = 0;
        loop {
            match self.step() {
                FlusherStep::Closed => return,
                FlusherStep::Flushed(_) => idle = 0,
                FlusherStep::Surplus => self.wait_for_control(),
                FlusherStep::Idle if idle < self.ribbon.options.polls => idle += 1,
                FlusherStep::Idle => {
                    idle = 0;
                    if let Some(bell) = self.lie_down() {
                        self.memory.spin_while(self.ribbon.word(self.bell_line()), bell);
                    }
                }
            }
        }
    }

    /// Before a rest: owners will change the word that [`bell`](Flusher::bell) reads when they have
    /// work. Gives what it holds, or `None` if there is work now. An owner may miss the moment and
    /// not ring; then it executes its requests itself, and the next one rings.
    pub fn lie_down(&self) -> Option<u64> {
        let bell = self.bell();
        self.memory.swap(self.ribbon.resting(self.bell_line()), 1);
        let control: u64 = self.memory.load(self.ribbon.word(CONTROL));
        let is_needed = control & STOPPED != 0 || self.ribbon.has_work(self.memory, self.cleans());
        (!is_needed).then_some(bell)
    }

    /// True for the flusher that estimates how many should work.
    pub(super) fn is_first(&self) -> bool {
        self.index == 0
    }

    /// How many flushers work at present.
    pub(super) fn active(&self) -> u64 {
        self.ribbon.active(self.memory)
    }

    /// The word that changes when an owner has work for flushers that rest.
    pub fn bell(&self) -> u64 {
        self.memory.load(self.ribbon.word(self.bell_line()))
    }

    fn bell_line(&self) -> u64 {
        BELLS[usize::from(self.index > 0)]
    }

    fn cleans(&self) -> bool {
        self.index == 0 && self.ribbon.options.cleans()
    }

    fn wait_for_control(&self) {
        let at = self.ribbon.word(CONTROL);
        let control: u64 = self.memory.load(at);
        if control & STOPPED == 0 && self.index + control >= self.ribbon.options.flushers {
            self.memory.spin_while(at, control);
        }
    }

    fn tune(&mut self) {
        let Some(tuner) = &mut self.tuner else { return };
        let (ribbon, memory) = (&self.ribbon, self.memory);
        if let Some(tuned) = tuner.tick(memory.now(), || ribbon.lines_flushed(memory)) {
            memory.store(ribbon.word(RATE), (tuned.rate * f64::from(1 << 20)) as u64);
            ribbon.set_active(memory, tuned.active as u64);
        }
    }

    /// Claims, flushes, fences, counts; returns how many lines.
    fn batch(&mut self) -> u64 {
        let mut room = BATCH_LINES;
        let threads = self.ribbon.options.threads;
        for _ in 0..threads {
            let fifo = self.ribbon.fifo(self.turn);
            if let Some(claim) = self.claim(fifo, room) {
                room -= claim.lines;
                self.claims.push(claim);
            }
            if room == 0 {
                break;
            }
            self.turn = if self.turn + 1 == threads { 0 } else { self.turn + 1 };
        }
        let lines = BATCH_LINES - room;
        if lines == 0 {
            return 0;
        }
        for claim in &self.claims {
            let first = count_of(claim.claimed);
            for number in first..first + claim.lines {
                let line = Addr::from_bits(self.memory.load(claim.fifo.slot(number)));
                self.memory.flush(line, 1);
            }
        }
        let fences_late = self.ribbon.options.has(RibbonFlaw::DoneBeforeFence);
        if !fences_late {
            self.memory.drain();
        }
        for claim in self.claims.drain(..) {
            complete(self.memory, claim, fences_late);
        }
        if fences_late {
            self.memory.drain();
        }
        self.lines += lines;
        self.count(FLUSHER_LINES, self.lines);
        lines
    }

    fn claim(&self, fifo: Fifo, room: u64) -> Option<Claim> {
        let at = fifo.word(CLAIMED);
        let claimed: u64 = self.memory.load(at);
        let pushed: u64 = self.memory.load(fifo.word(PUSHED));
        let lines = count_of(pushed.wrapping_sub(claimed)).min(room);
        if lines == 0 {
            return None;
        }
        let next = word_of(generation_of(claimed), count_of(claimed) + lines);
        let is_mine = self.memory.compare_exchange(at, claimed, next).is_ok();
        is_mine.then_some(Claim { fifo, claimed, lines })
    }

    /// Cleans lines that threads have handed on.
    fn clean(&mut self) -> u64 {
        let (mut lines, threads) = (0, self.ribbon.options.threads);
        for thread in 0..threads {
            let fifo = self.ribbon.fifo(thread);
            let done: u64 = self.memory.load(fifo.word(EARLY_DONE));
            let pushed: u64 = self.memory.load(fifo.word(EARLY_PUSHED));
            let upto = pushed.min(done + (CLEAN_LINES / threads).max(BATCH_LINES));
            for number in done..upto {
                let line = Addr::from_bits(self.memory.load(fifo.early_slot(number)));
                self.memory.flush(line, 1);
            }
            if upto > done {
                self.cleaning.push((fifo, upto));
                lines += upto - done;
            }
        }
        if lines > 0 {
            self.memory.drain();
            for (fifo, upto) in self.cleaning.drain(..) {
                self.memory.store(fifo.word(EARLY_DONE), upto);
            }
            self.cleaned += lines;
            self.count(FLUSHER_CLEANED, self.cleaned);
        }
        lines
    }

    /// Publishes a number of this flusher, and one more fence.
    fn count(&mut self, place: u64, value: u64) {
        self.fences += 1;
        let line = self.ribbon.flusher_line(self.index);
        self.memory.store(line.plus(place), value);
        self.memory.store(line.plus(FLUSHER_FENCES), self.fences);
    }
}

/// Marks a claim as done, unless its owner has taken it over. The locked operation is a fence
/// itself on x86; with the planted bug there is none.
fn complete<M: Memory>(memory: &M, claim: Claim, has_no_fence: bool) {
    let at = claim.fifo.word(DONE);
    let generation = generation_of(claim.claimed);
    let mut done: u64 = memory.load(at);
    while generation_of(done) == generation {
        let next = word_of(generation, count_of(done) + claim.lines);
        if has_no_fence {
            return memory.store(at, next);
        }
        match memory.compare_exchange(at, done, next) {
            Ok(_) => return,
            Err(now) => done = now,
        }
    }
}
