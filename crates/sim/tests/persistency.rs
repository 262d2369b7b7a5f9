//! Every design leaves only images that its model allows, and each broken variant is caught.
//!
//! Random programs of a few threads store unique values: to words of their own by plain and
//! non-temporal stores, to shared words by swaps, so that the order in which stores of a word took
//! effect is known. A crash image shows for each word which store survived. The stores that must
//! have persisted before it follow from program order across fences and from conflicts (buffered
//! epoch persistency as Pelley et al. define it, ISCA'14); if one is missing, the design has broken
//! its promise. As every access is followed by a flush of its line or needs none, the same holds on
//! x86: what a thread has read, flushed and fenced persists before its later stores.
//!
//! With strands, a fence orders within its strand only, joins and drains order all strands, and the
//! stores of one line are in order across strands.

use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use seawall_memory::{Addr, Memory, MemoryExt, Model};
use seawall_sim::{
    Choice, Crash, Cycle, L2Config, Machine, Observer, Program, SimMemory, Simulation,
};
use std::cell::RefCell;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::rc::Rc;

const THREADS: usize = 4;
const SHARED: u64 = 6;
const OWN: u64 = 24;
const STEPS: usize = 60;
/// No such program takes longer, unless it is stuck.
const CYCLES_MAX: Cycle = 1 << 22;
/// Marks an output behind a drain.
const DRAINED: u64 = 1 << 32;

#[derive(Clone, Copy)]
enum Step {
    Store(u64),
    Stream(u64),
    Swap(u64),
    Load(u64),
    Order,
    Strand,
    Join,
    Drain,
    Wait(u32),
}

/// An access of a thread to a word.
#[derive(Clone, Copy)]
struct Access {
    word: u64,
    /// The value written, or 0 for a load.
    wrote: u64,
    /// The value that was read, if the access reads.
    saw: Option<u64>,
    /// Fences, new strands, and joins and drains before it.
    epoch: u32,
    strand: u32,
    joins: u32,
}

type Logs = Rc<RefCell<Vec<Vec<Access>>>>;

/// The address of a word: shared words in lines of their own, own words two to a line.
fn place(word: u64) -> Addr {
    if word < SHARED { Addr::pm(64 + word * 64) } else { Addr::pm(1024 + word * 32) }
}

fn random_steps(rng: &mut Xoshiro256PlusPlus, thread: u64, strands: bool) -> Vec<Step> {
    let own = SHARED + thread * OWN;
    let step = |rng: &mut Xoshiro256PlusPlus| match rng.random_range(0..100) {
        0..38 => Step::Store(own + rng.random_range(0..OWN)),
        38..45 => Step::Stream(own + rng.random_range(0..OWN)),
        45..60 => Step::Swap(rng.random_range(0..SHARED)),
        60..70 => Step::Load(rng.random_range(0..SHARED)),
        70..80 if strands => Step::Strand,
        80..83 if strands => Step::Join,
        70..92 => Step::Order,
        92..95 => Step::Drain,
        _ => Step::Wait(rng.random_range(1..2000)),
    };
    (0..STEPS).map(|_| step(rng)).collect()
}

fn perform(memory: &SimMemory, steps: &[Step], logs: &Logs) {
    let thread = memory.thread();
    let (mut epoch, mut strand, mut joins) = (0, 0, 0);
    let mut next = (thread as u64 + 1) << 32;
    for step in steps {
        let access = match *step {
            Step::Store(word) => {
                next += 1;
                memory.store(place(word), next);
                memory.flush(place(word), 8);
                Access { word, wrote: next, saw: None, epoch, strand, joins }
            }
            Step::Stream(word) => {
                next += 1;
                memory.write_nt(place(word), &next.to_le_bytes());
                Access { word, wrote: next, saw: None, epoch, strand, joins }
            }
            Step::Swap(word) => {
                next += 1;
                let saw = Some(memory.swap(place(word), next));
                memory.flush(place(word), 8);
                Access { word, wrote: next, saw, epoch, strand, joins }
            }
            Step::Load(word) => {
                let saw = Some(memory.load(place(word)));
                memory.flush(place(word), 8);
                Access { word, wrote: 0, saw, epoch, strand, joins }
            }
            Step::Order | Step::Join | Step::Drain => {
                match step {
                    Step::Order => memory.order(),
                    Step::Join => memory.join_strands(),
                    _ => memory.drain(),
                }
                epoch += 1;
                let mark = if matches!(step, Step::Drain) { DRAINED } else { 0 };
                joins += u32::from(!matches!(step, Step::Order));
                memory.output(logs.borrow()[thread].len() as u64 | mark);
                continue;
            }
            Step::Strand => {
                memory.strand();
                strand += 1;
                continue;
            }
            Step::Wait(instructions) => {
                memory.work(instructions);
                continue;
            }
        };
        logs.borrow_mut()[thread].push(access);
    }
}

struct Crashes {
    rng: Xoshiro256PlusPlus,
    /// The length of each thread's log that was ordered, and that was drained.
    outputs: Vec<[u64; 2]>,
    images: Vec<(Cycle, Vec<[u64; 2]>, Vec<u8>)>,
}

impl Observer for Crashes {
    fn output(&mut self, core: usize, number: u64, now: Cycle) -> Option<Cycle> {
        let done = number % DRAINED;
        self.outputs[core][0] = done;
        if number >= DRAINED {
            self.outputs[core][1] = done;
        }
        self.rng.random_bool(0.4).then(|| now + self.rng.random_range(0..1500))
    }

    fn crash(&mut self, now: Cycle, crash: Crash) {
        self.images.push((now, self.outputs.clone(), crash.pm));
    }
}

/// A store: its thread and its place in the thread's log.
type Id = (usize, usize);

struct Judge<'a> {
    model: Model,
    logs: &'a [Vec<Access>],
    writer: HashMap<u64, Id>,
    /// For each word, its stores in the order in which they took effect.
    order: BTreeMap<u64, Vec<Id>>,
}

impl Judge<'_> {
    fn new(model: Model, logs: &[Vec<Access>]) -> Judge<'_> {
        let mut writer = HashMap::new();
        let mut order: BTreeMap<u64, Vec<Id>> = BTreeMap::new();
        let mut after: HashMap<(u64, u64), Id> = HashMap::new();
        for (thread, log) in logs.iter().enumerate() {
            for (at, access) in log.iter().enumerate().filter(|(_, access)| access.wrote != 0) {
                writer.insert(access.wrote, (thread, at));
                match access.saw {
                    Some(old) => drop(after.insert((access.word, old), (thread, at))),
                    None => order.entry(access.word).or_default().push((thread, at)),
                }
            }
        }
        for word in 0..SHARED {
            let mut last = 0;
            while let Some(id) = after.get(&(word, last)) {
                order.entry(word).or_default().push(*id);
                last = logs[id.0][id.1].wrote;
            }
        }
        Judge { model, logs, writer, order }
    }

    /// True if the first of two accesses of a thread is ordered before the second.
    fn is_before(&self, first: &Access, second: &Access) -> bool {
        let is_fenced = first.epoch < second.epoch;
        match self.model {
            Model::Bsp => true,
            Model::Strand => {
                let is_one_line = place(first.word).line() == place(second.word).line();
                let is_joined = first.joins < second.joins;
                let is_inside = first.strand == second.strand && is_fenced;
                is_joined || is_inside || is_one_line && first.wrote != 0
            }
            _ => is_fenced,
        }
    }

    /// The stores that must have persisted before `store`, one step back.
    fn before(&self, (thread, at): Id) -> Vec<Id> {
        let log = &self.logs[thread];
        let mut earlier = Vec::new();
        for (place, access) in log[..at].iter().enumerate() {
            if !self.is_before(access, &log[at]) {
                continue;
            }
            if access.wrote != 0 {
                earlier.push((thread, place));
            } else {
                let read = access.saw.and_then(|value| self.writer.get(&value));
                // A thread can read what its own older strand stored without being ordered after
                // it.
                let is_conflict = |id: &&Id| self.model != Model::Strand || id.0 != thread;
                earlier.extend(read.filter(is_conflict));
            }
        }
        earlier.extend(log[at].saw.and_then(|value| self.writer.get(&value)));
        earlier
    }

    fn check(&self, outputs: &[[u64; 2]], pm: &[u8]) -> Result<(), String> {
        let mut rank: BTreeMap<u64, usize> = BTreeMap::new();
        let mut todo = Vec::new();
        for (word, stores) in &self.order {
            let at = place(*word).offset() as usize;
            let value = u64::from_le_bytes(pm[at..at + 8].try_into().unwrap());
            let writer = self.writer.get(&value);
            let shown = match stores.iter().position(|store| Some(store) == writer) {
                Some(at) => at + 1,
                None if value == 0 => 0,
                None => return Err(format!("word {word} holds {value:#x}: nobody wrote it there")),
            };
            rank.insert(*word, shown);
            todo.extend(shown.checked_sub(1).map(|at| stores[at]));
        }
        for (thread, [ordered, drained]) in outputs.iter().enumerate() {
            let done = if self.model.order_is_durable() { ordered } else { drained };
            todo.extend((0..*done as usize).map(|at| (thread, at)));
        }
        let mut seen = HashSet::new();
        while let Some(id) = todo.pop() {
            let access = &self.logs[id.0][id.1];
            if access.wrote == 0 || !seen.insert(id) {
                continue;
            }
            let stores = &self.order[&access.word];
            let Some(before) = stores.iter().position(|store| *store == id) else {
                return Err(format!("word {}: a swap saw an older value", access.word));
            };
            let must = before + 1;
            if rank[&access.word] < must {
                return Err(format!("store {:#x} to word {} is lost", access.wrote, access.word));
            }
            todo.extend(self.before(id));
        }
        Ok(())
    }
}

/// As [`tiny`], with distant controllers.
fn wide() -> Machine {
    tiny().with("wide", &[("mesh.link_latency".into(), 40.into())]).unwrap()
}

/// As [`tiny`], with a single store of each core in flight.
pub(crate) fn one_by_one() -> Machine {
    tiny().with("one by one", &[("core.stores_in_flight".into(), 1.into())]).unwrap()
}

/// A machine so small that lines leave all its caches all the time. Its stores overlap.
pub(crate) fn tiny() -> Machine {
    let text = seawall_sim::MACHINES[0].1.replace("banks = 32  ", "banks = 16  ");
    let text = text.replace("count = 32", "count = 4").replace("rows = 4 ", "rows = 2 ");
    let text = text.replace("kib = 32\n", "kib = 1\n").replace("banks = 32", "banks = 2");
    let text = text.replace("kib_per_bank = 1024", "kib_per_bank = 1");
    let text = text.replace("stores_in_flight = 1", "").replace("bank_cycles = 110", "");
    Machine::parse("tiny", &text).unwrap()
}

/// As [`tiny`], with second levels as small as the first; without a shared cache, its directory has
/// too few tags for all private caches.
pub(crate) fn levels(directory_only: bool) -> Machine {
    let mut machine = tiny();
    machine.l2 = Some(L2Config { kib: 1, ways: 4, latency: 5 });
    (machine.llc.directory_only, machine.llc.kib_per_bank) = (directory_only, 2);
    machine
}

/// Runs one random program and checks its crashes; returns the number of crashes.
fn run(design: &str, machine: &Machine, seed: u64) -> Result<usize, String> {
    run_as(None, design, machine, seed)
}

/// As [`run`], but checks against another model than the one that the design claims.
fn run_as(
    model: Option<Model>,
    design: &str,
    machine: &Machine,
    seed: u64,
) -> Result<usize, String> {
    let choice = Choice::parse(design).unwrap();
    let model = model.or(choice.model()).expect("a design with a promise");
    let mut rng = Xoshiro256PlusPlus::seed_from_u64(seed);
    let logs: Logs = Rc::new(RefCell::new(vec![Vec::new(); THREADS]));
    let programs = (0..THREADS).map(|thread| {
        let (steps, logs) =
            (random_steps(&mut rng, thread as u64, model == Model::Strand), logs.clone());
        Box::new(move |memory: &SimMemory| perform(memory, &steps, &logs)) as Program
    });
    let programs = programs.collect();
    let outputs = vec![[0; 2]; THREADS];
    let crashes = Rc::new(RefCell::new(Crashes { rng, outputs, images: Vec::new() }));
    Simulation::new(machine, &choice, vec![0; 1 << 14], vec![0; 64])
        .watched_by(crashes.clone())
        .at_most(CYCLES_MAX)
        .run(programs)
        .map_err(|error| error.to_string())?;
    let logs = logs.borrow();
    let judge = Judge::new(model, &logs);
    for (cycle, outputs, pm) in &crashes.borrow().images {
        judge
            .check(outputs, pm)
            .map_err(|what| format!("{design}, seed {seed}, crash at {cycle}: {what}"))?;
    }
    Ok(crashes.borrow().images.len())
}

pub(crate) fn runs() -> u64 {
    std::env::var("SEAWALL_REFINEMENT_RUNS").ok().and_then(|text| text.parse().ok()).unwrap_or(25)
}

#[test]
fn no_design_leaves_an_image_that_its_model_forbids() {
    let desktop = Machine::load("desktop").unwrap();
    for machine in [tiny(), one_by_one(), desktop, levels(false), levels(true)] {
        for design in seawall_sim::DESIGNS.iter().filter(|design| design.model.is_some()) {
            let crashes: usize = (0..runs())
                .map(|seed| {
                    run(design.name, &machine, seed).unwrap_or_else(|what| panic!("{what}"))
                })
                .sum();
            assert!(crashes > 100, "{}: only {crashes} crashes", design.name);
        }
    }
}

const WITH_PARAMETERS: &[&str] = &[
    "clwb:adr=true",
    "clwb:invalidating=true",
    "clwb:invalidating=true:serial=true",
    "clwb:invalidating=true:adr=true",
    "strict:adr=true",
    "lbpp:adr=true",
    "lbpp:epochs=2",
    "lbpp:registers=0",
    "lb:invalidating=true",
    "lbpp:invalidating=true",
    "bsp-naive:queue=1",
    "bsp-naive:adr=true",
    "bsp-lb:stores=3",
    "bsp-lb:stores=3:epochs=2",
    "bsp-lb-idt:stores=3",
    "bsp-lb-pf:stores=3",
    "bsp-lbpp:stores=1",
    "bsp-lbpp:stores=3",
    "bsp-lbpp:stores=20",
    "bsp-lbpp:stores=20:records=2",
    "bsp-lbpp:stores=3:buffers=1",
    "bsp-lbpp:stores=3:adr=true",
    "bsp-lbpp:stores=3:registers=0",
    "bsp-lbpp:stores=3:invalidating=true",
    "hops:adr=true",
    "hops:entries=1",
    "hops:entries=4:flush_from=1",
    "hops:entries=4:filter_bits=4",
    "hops:timestamp_bits=2",
    "hops:timestamp_bits=3:flush_from=2",
    "hops:merges=false",
    "hops:asynchronous=false",
    "hops:asynchronous=false:entries=4:filter_bits=4",
    "hops:interval=1:poll=1",
    "hops:interval=100000",
    "strand:adr=true",
    "strand:queue=1",
    "strand:entries=1",
    "strand:buffers=1:entries=1",
    "strand:queue=2:buffers=2:entries=2",
    "strand:queue=40:buffers=8:entries=12",
    "dpo:adr=true",
    "dpo:entries=1",
    "dpo:entries=2:filter_bits=4",
    "dpo:entries=32",
    "dpo:merges=false",
    "bbb:adr=false",
    "bbb:entries=1",
    "bbb:entries=2:adr=false",
    "bbb:entries=4:drain_from=1",
    "bbb:entries=4:drain_from=100",
    "asap:adr=false",
    "asap:entries=1",
    "asap:entries=4:flush_from=1",
    "asap:entries=4:filter_bits=4",
    "asap:epochs=2",
    "asap:epochs=2:entries=2:records=1:filter_bits=4",
    "asap:records=0",
    "asap:records=1",
    "asap:records=3:merges=false",
    "asap:interval=1:flush_from=1",
    "asap:interval=100000:flush_from=32",
];

#[test]
fn variants_with_parameters_keep_their_promise_too() {
    for design in WITH_PARAMETERS {
        for seed in 0..runs() {
            run(design, &tiny(), seed).unwrap_or_else(|what| panic!("{what}"));
        }
    }
}

#[test]
fn each_broken_persist_buffer_is_caught() {
    let machine = tiny();
    for design in [
        "hops:flaw='drops-dependences'",
        "hops:flaw='sends-at-once'",
        "hops:flaw='forgets-owners'",
        "hops:flaw='ignores-filter'",
        "hops:flaw='drains-early'",
        "hops:flaw='writes-evictions'",
        "hops:flaw='keeps-one-version'",
        "hops:timestamp_bits=2:flaw='ignores-wrap'",
        "strand:flaw='passes-barriers'",
        "strand:flaw='strands-at-barriers'",
        "strand:flaw='joins-older'",
        "strand:flaw='joins-nothing'",
        "strand:flaw='joins-one'",
        "strand:flaw='answers-early'",
        "dpo:flaw='ignores-markers'",
        "dpo:flaw='marks-one-controller'",
        "dpo:flaw='joins-across-fences'",
        "dpo:flaw='ignores-buffered'",
        "dpo:flaw='drains-early'",
        "bbb:entries=4:flaw='forgets-moves'",
        "bbb:flaw='allocates-late'",
        "bbb:entries=4:flaw='drops-at-send'",
        "bbb:entries=4:flaw='joins-sent'",
        "bbb:flaw='forgets-evictions'",
        "bbb:entries=2:flaw='ignores-room'",
        "bbb:entries=1:adr=false:flaw='passes-writes'",
        "asap:flaw='forgets-undo'",
        "asap:flaw='releases-undo-early'",
        "asap:flaw='speculates-twice'",
        "asap:records=2:flaw='writes-past-undo'",
        "asap:flaw='delays-lost'",
        "asap:flaw='commits-early'",
        "asap:flaw='drops-dependences'",
        "asap:flaw='keeps-epochs-whole'",
        "asap:flaw='ignores-filter'",
        "asap:records=1:flaw='ignores-nack'",
        "asap:records=1:flaw='passes-older'",
        "asap:flaw='drains-early'",
    ] {
        let caught = (0..2000).find_map(|seed| run(design, &machine, seed).err());
        println!("{caught:?}");
        assert!(caught.is_some(), "{design} was not caught");
    }
}

#[test]
fn each_broken_mechanism_is_caught() {
    let machine = tiny();
    for design in [
        "volatile",
        "lbpp:flaw='acknowledges-early'",
        "lbpp:flaw='drops-dependences'",
        "lb:flaw='ignores-inter-conflicts'",
        "lb:flaw='ignores-intra-conflicts'",
        "lb:flaw='ignores-replacement'",
        "lb-idt:flaw='loses-versions'",
        "lb:flaw='keeps-epochs-whole'",
        "lbpp:flaw='keeps-epochs-whole'",
    ] {
        let model = Some(Model::Bep);
        let caught = (0..400).any(|seed| run_as(model, design, &machine, seed).is_err());
        assert!(caught, "{design} was not caught");
    }
    for design in [
        "bsp-naive:flaw='ignores-order'",
        "bsp-naive:flaw='ignores-conflicts'",
        "bsp-lbpp:stores=3:flaw='flushes-before-log'",
        "bsp-lbpp:stores=3:flaw='sends-headers-early'",
        "bsp-lbpp:stores=3:flaw='names-early'",
        "bsp-lbpp:stores=3:flaw='undoes-all'",
        "bsp-lbpp:stores=3:flaw='logs-once'",
        "bsp-lbpp:stores=3:records=2:flaw='truncates-early'",
        "bsp-lbpp:stores=3:flaw='forgets-names'",
        "bsp-lbpp:stores=3:flaw='trusts-unnamed'",
        "bsp-lbpp:stores=3:flaw='acknowledges-early'",
        "bsp-lb:stores=3:flaw='ignores-intra-conflicts'",
        "bsp-lbpp:stores=3:flaw='drops-dependences'",
        "bsp-lb:stores=3:flaw='ignores-inter-conflicts'",
        "bsp-lb-pf:stores=20:flaw='ignores-replacement'",
        "bsp-lbpp:stores=20:flaw='keeps-epochs-whole'",
        "bsp-lbpp:stores=3:flaw='loses-versions'",
        "bsp-lbpp:stores=3:log=false",
        "clwb:flaw='fences-early'",
        "clwb:flaw='forgets-others-flushes'",
        "clwb:flaw='forgets-streams'",
    ] {
        let model = design.starts_with("bsp-").then_some(Model::Bsp);
        let caught = (0..2000).find_map(|seed| run_as(model, design, &machine, seed).err());
        println!("{caught:?}");
        assert!(caught.is_some(), "{design} was not caught");
    }
}

#[test]
fn planted_bugs_that_long_distances_show_are_caught_on_a_wide_machine() {
    let machine = wide();
    for design in ["hops", "dpo", "dpo:entries=64", "bbb:entries=4"] {
        for seed in 0..runs() {
            run(design, &machine, seed).unwrap_or_else(|what| panic!("{what}"));
        }
    }
    for design in [
        "dpo:flaw='drops-dependences'",
        "dpo:entries=64:flaw='forgets-accumulated'",
        "dpo:entries=64:flaw='ignores-buffered'",
    ] {
        let caught = (0..2000).any(|seed| run(design, &machine, seed).is_err());
        assert!(caught, "{design} was not caught");
    }
}
