//! The latencies of hardware that moves objects (FFCCD, ISCA'22, Tables 1 and 2): that of a
//! look-up, and the additional latency of a line of a copy until it is durable.

use super::paths::Paths;
use super::point::ValidationPoint;
use super::scenes::Scene;
use crate::{Cycle, Machine, Program, SimError, SimMemory};
use seawall_memory::relocation::{Forwarding, RELOCATION_PAGE, Relocate, Relocation};
use seawall_memory::{Addr, Memory, MemoryExt};

const DESIGN: &str = "ffccd";
/// Cycles of a check in a filter, and of loading another filter.
const BLOOM_CYCLES: Cycle = 2;
const BLOOM_LOAD_CYCLES: Cycle = 120;
/// Cycles of a search in the PMFTLB.
const PMFTLB_CYCLES: Cycle = 4;
/// Cycles of a search in a reached buffer.
const RBB_CYCLES: Cycle = 30;

/// The start of page `number`. The directory, two pages of filters and a forwarding entry precede
/// the pages of objects.
fn page(number: u64) -> Addr {
    Addr::pm(number * RELOCATION_PAGE)
}

const REGISTERS: Relocation =
    Relocation { directory: Addr::pm(RELOCATION_PAGE), pages: 32, filters: Addr::pm(8192) };
/// A page whose first object moves, the page of its new place, and a page that is in no table.
const MOVES: u64 = 5;
const TO: u64 = 6;
const STAYS: u64 = 9;

/// Makes the tables of one object durable and sets the registers. From then on the tables are in
/// the caches of the core.
fn set(memory: &SimMemory) {
    let mut entry = Forwarding::to(page(TO));
    assert!(entry.add(page(MOVES), page(TO), 64), "slots that are near");
    memory.write(page(4), &entry.bytes());
    memory.store(REGISTERS.place(MOVES), page(4));
    let filter = REGISTERS.filter(REGISTERS.filter_of(MOVES));
    for bit in Relocation::filter_bits(MOVES) {
        let word = filter.plus(bit / 64 * 8);
        let now: u64 = memory.load(word);
        memory.store(word, now | 1 << (bit % 64));
        memory.flush(word, 8);
    }
    memory.drain();
    memory.set_relocation(Some(REGISTERS));
}

/// Cycles of a look-up of `at`, behind those of `before`.
fn look_up(machine: &Machine, before: Vec<Addr>, at: Addr) -> Result<Cycle, SimError> {
    let program = move |memory: &SimMemory| {
        set(memory);
        let _: Vec<Addr> = before.into_iter().map(|at| memory.forward(at)).collect();
        memory.drain();
        memory.output(1);
        memory.forward(at);
        memory.output(2);
    };
    Scene::lone(machine, DESIGN).between(0, vec![(0, Box::new(program) as Program)])
}

/// Cycles from the flush of the last of some lines of a page to the end of a drain; `is_copy` if
/// the lines belong to a copy.
fn persist(machine: &Machine, lines: Vec<u64>, is_copy: bool) -> Result<Cycle, SimError> {
    let last = lines.len() - 1;
    let program = move |memory: &SimMemory| {
        set(memory);
        for line in lines {
            let [to, from] = [TO, MOVES].map(|number| page(number).plus(64 * line));
            match is_copy {
                true => memory.relocate(to, from, 64),
                false => memory.store(to, 1u64),
            }
            memory.output(1);
            memory.flush(to, 64);
            memory.drain();
        }
        memory.output(2);
    };
    Scene::lone(machine, DESIGN).between_from(last, 0, vec![(0, Box::new(program) as Program)])
}

/// All points.
pub(super) fn points(machine: &Machine) -> Result<Vec<ValidationPoint>, SimError> {
    let lone = |what: &str| ValidationPoint::new(DESIGN, "lone latency", what.into());
    let (moves, stays) = (page(MOVES), page(STAYS));
    let found = look_up(machine, vec![], stays)?;
    let first = BLOOM_LOAD_CYCLES + BLOOM_CYCLES;
    let mut points = vec![
        lone("look-up in a page that stays, the first of all")
            .expect("bloom_load_cycles (120) + bloom_cycles (2)", first as f64)
            .found(found as f64, 0.0),
    ];
    let found = look_up(machine, vec![stays], stays)?;
    let point = lone("look-up in a page that stays");
    points.push(point.expect("bloom_cycles (2)", BLOOM_CYCLES as f64).found(found as f64, 0.0));
    let hit = BLOOM_CYCLES + PMFTLB_CYCLES;
    let found = look_up(machine, vec![moves], moves)?;
    let point = lone("look-up of an object that moves, known to the core");
    let formula = "bloom_cycles (2) + pmftlb_cycles (4)";
    points.push(point.expect(formula, hit as f64).found(found as f64, 0.0));
    let found = look_up(machine, vec![stays], moves)?;
    let point = lone("look-up of one that is not, its tables in the first level");
    let formula = "as one that is + 2 x l1.latency: the place, then the entry";
    let expected = hit + 2 * machine.l1.latency;
    points.push(point.expect(formula, expected as f64).found(found as f64, 0.0));

    let paths = Paths::new(machine);
    let line = page(TO).offset() / 64;
    let usual = paths.persist(0, line, true);
    // A line of the same page and controller, whose write brings the page into the buffer.
    let of_one = |other: &u64| paths.controller(line + other) == paths.controller(line);
    let other = (1..64).find(of_one).unwrap_or(1);
    let found = persist(machine, vec![0], false)?;
    let point = lone("flush and fence of a written line");
    points.push(point.expect("as of clwb:adr=true", usual as f64).found(found as f64, 0.0));
    let found = persist(machine, vec![other, 0], true)?;
    let point = lone("flush and fence of a line of a copy, its page in the reached buffer");
    let formula = "as of a written line + rbb_cycles (30)";
    points.push(point.expect(formula, (usual + RBB_CYCLES) as f64).found(found as f64, 0.0));
    if machine.memory.nvm.dimms.is_none() {
        let there = paths.corner(REGISTERS.reached(TO).offset() / 64);
        let here = paths.corner(line);
        let read = machine.memory.nvm.read;
        let fetch = paths.control(here, there) + read + paths.data(there, here);
        let found = persist(machine, vec![0], true)?;
        let point = lone("flush and fence of a line of a copy, its page not there");
        let formula = "as if it were + control message, memory.nvm.read, data message";
        let expected = (usual + RBB_CYCLES + fetch) as f64;
        points.push(point.expect(formula, expected).found(found as f64, 0.0));
    }
    Ok(points)
}
