//! FFCCD's hardware: copies that need no flush and no fence, lookups of moved objects, and the
//! machine of the paper. The tests of crashes are in [`crashes`].

mod crashes;

use crate::hops::word;
use crate::persistency::{levels, tiny};
use seawall_memory::relocation::{
    FILTER_BYTES, FILTERS, Forwarding, RELOCATION_PAGE, Relocate, Relocation,
};
use seawall_memory::{Addr, LINE_BYTES, Memory, MemoryExt};
use seawall_sim::validation::Paths;
use seawall_sim::{
    Choice, Crash, Cycle, DESIGNS, Machine, Observer, Program, Reason, RunOutcome, SimMemory,
    Simulation,
};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

/// Pages of the pool: the header's, the directory's, two of filters, one of forwarding entries, and
/// those of objects.
pub(crate) const PAGES: u64 = 24;
/// The first page of objects.
pub(crate) const OBJECTS: u64 = 5;

/// Where page `number` starts.
pub(crate) fn page(number: u64) -> Addr {
    Addr::pm(number * RELOCATION_PAGE)
}

/// The registers of all tests.
pub(crate) fn registers() -> Relocation {
    Relocation { directory: page(1), pages: PAGES, filters: page(2) }
}

/// The value of an object's word before anything is moved; each word has a different one.
pub(crate) fn original(at: Addr) -> u64 {
    0x5000_0000_0000 + at.offset()
}

/// A pool with objects everywhere, none of which moves yet.
pub(crate) fn pool() -> Vec<u8> {
    let mut pm = vec![0; (PAGES * RELOCATION_PAGE) as usize];
    for at in (page(OBJECTS).offset()..PAGES * RELOCATION_PAGE).step_by(8) {
        put(&mut pm, Addr::pm(at), &original(Addr::pm(at)).to_le_bytes());
    }
    pm
}

fn put(pm: &mut [u8], at: Addr, bytes: &[u8]) {
    pm[at.offset() as usize..][..bytes.len()].copy_from_slice(bytes);
}

/// Writes the tables for objects that move from one address to another.
fn put_tables(pm: &mut [u8], moves: &[(Addr, Addr)]) {
    let mut entries: BTreeMap<u64, Forwarding> = BTreeMap::new();
    for (from, to) in moves {
        let page = registers().page_of(*from).unwrap();
        assert!(entries.entry(page).or_insert_with(|| Forwarding::to(*to)).add(*from, *to, 16));
    }
    for (number, (of, entry)) in entries.iter().enumerate() {
        let place = page(4).plus(number as u64 * Forwarding::BYTES);
        put(pm, place, &entry.bytes());
        put(pm, registers().place(*of), &place.bits().to_le_bytes());
        put_in_filter(pm, *of);
    }
}

fn put_in_filter(pm: &mut [u8], of: u64) {
    let filter = registers().filter(registers().filter_of(of));
    for bit in Relocation::filter_bits(of) {
        pm[filter.plus(bit / 8).offset() as usize] |= 1 << (bit % 8);
    }
}

fn machine() -> Machine {
    Machine::load("ffccd22").unwrap()
}

/// Runs `programs` and returns what they did.
fn run(machine: &Machine, design: &str, pm: Vec<u8>, programs: Vec<Program>) -> RunOutcome {
    let design = Choice::parse(design).unwrap();
    Simulation::new(machine, &design, pm, vec![0; 4096]).at_most(1 << 24).run(programs).unwrap()
}

/// As [`run`], for one program that returns a value.
fn ask<T: Default + 'static>(
    design: &str,
    pm: Vec<u8>,
    program: impl FnOnce(&SimMemory) -> T + 'static,
) -> (RunOutcome, T) {
    let answer = Rc::new(RefCell::new(T::default()));
    let given = answer.clone();
    let program: Program = Box::new(move |memory| *given.borrow_mut() = program(memory));
    let outcome = run(&machine(), design, pm, vec![program]);
    (outcome, answer.take())
}

/// Makes the core wait until everything that it requested has arrived.
fn rest(memory: &SimMemory) {
    memory.work(50_000);
}

#[test]
fn a_copy_has_the_bytes_whatever_its_length_and_place() {
    for design in ["ffccd", "clwb", "ffccd:checklookup=false", "eadr"] {
        for (from, to, len) in
            [(8, 8, 64), (0, 40, 200), (56, 0, 24), (24, 16, 8), (0, 0, 4096), (8, 56, 13)]
        {
            let (from, to) = (page(OBJECTS).plus(from), page(OBJECTS + 3).plus(to));
            let (outcome, ()) = ask(design, pool(), move |memory| {
                memory.set_relocation(Some(registers()));
                memory.relocate(to, from, len);
            });
            let mut expected = pool();
            let start = from.offset() as usize;
            put(&mut expected, to, &pool()[start..start + len as usize]);
            let objects = page(OBJECTS).offset() as usize;
            assert_eq!(outcome.pm[objects..], expected[objects..], "{design}, {len} bytes");
        }
    }
}

#[test]
fn the_core_that_copies_sees_its_copy_at_once_and_what_it_stores_behind_stays() {
    let (from, to) = (page(OBJECTS), page(OBJECTS + 1).plus(24));
    let (outcome, seen) = ask("ffccd", pool(), move |memory| {
        memory.set_relocation(Some(registers()));
        memory.store(from.plus(16), 7u64);
        memory.relocate(to, from, 96);
        memory.store(to.plus(8), 8u64);
        memory.relocate(to.plus(128), to, 64);
        [0, 8, 16].map(|word| memory.load::<u64>(to.plus(128 + word)))
    });
    assert_eq!(seen, [original(from), 8, 7]);
    assert_eq!(word(&outcome.pm, to.plus(8)), 8);
    assert_eq!(outcome.counters.relocated_lines, 2 + 2);
}

#[test]
fn no_core_sees_a_part_of_a_line_of_a_copy() {
    for machine in [tiny(), levels(false), levels(true), machine()] {
        let (from, to) = (page(OBJECTS), page(OBJECTS + 1));
        let writes = move |memory: &SimMemory| {
            memory.set_relocation(Some(registers()));
            memory.work(1000);
            for line in 0..20 {
                memory.relocate(to.plus(64 * line), from.plus(8 + 64 * line), 64);
            }
        };
        let reads = move |memory: &SimMemory| {
            for turn in 0..4000u64 {
                let line = to.plus(64 * (turn / 2 % 20));
                let (first, second) = if turn % 2 == 0 { (0, 56) } else { (56, 0) };
                let is_new = |at: Addr| memory.load::<u64>(at) != original(at);
                let first = is_new(line.plus(first));
                assert!(is_new(line.plus(second)) || !first, "turn {turn}");
            }
        };
        let programs: Vec<Program> = vec![Box::new(writes), Box::new(reads), Box::new(reads)];
        run(&machine, "ffccd", pool(), programs);
    }
}

#[test]
fn a_program_waits_for_no_fence_and_no_write_of_its_copies() {
    const LINES: u64 = 16;
    let moved = |design: &str| {
        ask(design, pool(), |memory| {
            let (from, to) = (page(OBJECTS), page(OBJECTS + 1));
            memory.set_relocation(Some(registers()));
            for line in 0..LINES {
                let _ = memory.load_line(from.plus(64 * line));
                memory.store(to.plus(64 * line), 0u64);
            }
            memory.drain();
            rest(memory);
            let start = memory.now();
            (0..LINES).for_each(|line| {
                memory.relocate(to.plus(64 * line), from.plus(64 * line), 64);
            });
            memory.now() - start
        })
    };
    let (hardware, cycles) = moved("ffccd");
    assert!(cycles <= LINES, "{cycles} cycles for {LINES} lines");
    assert_eq!((hardware.counters.flushes, hardware.counters.fences), (0, 1));
    assert_eq!(hardware.counters.reached_misses, 0, "nothing has left the caches");
    let (software, in_software) = moved("clwb:adr=true");
    assert_eq!(software.counters.fences, 1 + LINES);
    assert!(in_software > 10 * cycles, "{in_software} and {cycles} cycles");
}

/// The images of crashes at outputs.
#[derive(Default)]
struct AtOutputs(BTreeMap<u64, Vec<u8>>, Vec<u64>);

impl Observer for AtOutputs {
    fn output(&mut self, _: usize, number: u64, now: Cycle) -> Option<Cycle> {
        self.1.push(number);
        Some(now)
    }

    fn crash(&mut self, _: Cycle, crash: Crash) {
        let number = self.1[self.0.len()];
        self.0.insert(number, crash.pm);
    }
}

/// The image of a crash at each output of the programs.
fn left(design: &str, programs: Vec<Program>) -> BTreeMap<u64, Vec<u8>> {
    let design = Choice::parse(design).unwrap();
    let crashes = Rc::new(RefCell::new(AtOutputs::default()));
    Simulation::new(&machine(), &design, pool(), vec![0; 4096])
        .watched_by(crashes.clone())
        .run(programs)
        .unwrap();
    crashes.take().0
}

/// Whether the reached bit of the line at `at` is set in `pm`.
pub(crate) fn is_reached(pm: &[u8], at: Addr) -> bool {
    let bits = word(pm, registers().reached(registers().page_of(at).unwrap()));
    bits >> (at.offset() % RELOCATION_PAGE / LINE_BYTES) & 1 == 1
}

#[test]
fn a_copy_orders_nothing_and_only_its_own_lines_are_reached() {
    let (other, from, to) = (page(OBJECTS + 2), page(OBJECTS), page(OBJECTS + 1));
    let program: Program = Box::new(move |memory| {
        memory.set_relocation(Some(registers()));
        memory.store(other, 1u64);
        memory.relocate(to, from, 128);
        memory.flush(to, 8);
        memory.order();
        memory.output(0);
    });
    let pm = &left("ffccd", vec![program])[&0];
    assert_eq!(word(pm, other), original(other), "it was stored before, and not flushed");
    assert_eq!(word(pm, to), original(from));
    assert_eq!(word(pm, to.plus(64)), original(to.plus(64)));
    assert_eq!([0, 64, 128].map(|line| is_reached(pm, to.plus(line))), [true, false, false]);
}

#[test]
fn a_flush_behind_the_write_of_a_copied_line_is_not_durable_before_it() {
    let lost = |design: &str| {
        let (from, to, flag) = (page(OBJECTS), page(OBJECTS + 1), Addr::dram(0));
        let copies = move |memory: &SimMemory| {
            memory.set_relocation(Some(registers()));
            memory.relocate(to, from, 64);
            memory.store(flag, 1u64);
            memory.work(4000);
            memory.store(to.plus(8), 7u64);
            memory.flush(to, 64);
            memory.drain();
            memory.output(0);
        };
        let flushes = move |memory: &SimMemory| {
            memory.spin_while(flag, 0);
            memory.flush(to, 64);
        };
        let programs: Vec<Program> = vec![Box::new(copies), Box::new(flushes)];
        word(&left(design, programs)[&0], to.plus(8)) != 7
    };
    assert!(!lost("ffccd") && !lost("ffccd:rbb_cycles=9000"));
    assert!(lost("ffccd:rbb_cycles=9000:flaw=overtakes"));
}

#[test]
fn no_bit_of_an_older_cycle_is_set_in_the_next() {
    let invented = |design: &str| {
        let (from, to) = (page(OBJECTS), page(OBJECTS + 1));
        let program = move |memory: &SimMemory| {
            memory.set_relocation(Some(registers()));
            memory.relocate(to, from, 64);
            memory.set_relocation(None);
            memory.set_relocation(Some(registers()));
            memory.persist(to, 64);
            memory.output(0);
        };
        is_reached(&left(design, vec![Box::new(program)])[&0], to)
    };
    assert!(!invented("ffccd"));
    assert!(invented("ffccd:flaw=keeps-pending"));
}

#[test]
fn without_registers_and_outside_of_the_directory_a_copy_is_written_as_any_line() {
    let (from, inside, outside) = (page(OBJECTS), page(OBJECTS + 1), page(PAGES - 1));
    let small = Relocation { pages: PAGES - 1, ..registers() };
    for set in [None, Some(small)] {
        let (outcome, ()) = ask("ffccd", pool(), move |memory| {
            memory.set_relocation(set);
            let to = if set.is_none() { inside } else { outside };
            memory.relocate(to, from, 64);
            memory.persist(to, 64);
        });
        let counters = outcome.counters;
        assert_eq!(counters.reached_hits + counters.reached_misses, 0);
        assert_eq!(counters.relocated_lines, 1);
    }
}

/// Objects of three pages, and a page that passes the filter and has no entry.
fn moves() -> Vec<(Addr, Addr)> {
    let pages = (0..3).flat_map(|page| (0..40).map(move |slot| (page, 80 * slot)));
    pages.map(|(n, at)| (page(OBJECTS + n).plus(at), page(15 + n).plus(400 + at))).collect()
}

fn expected(at: Addr) -> Addr {
    moves().iter().find(|(from, _)| *from == at).map_or(at, |(_, to)| *to)
}

fn tables() -> Vec<u8> {
    let mut pm = pool();
    put_tables(&mut pm, &moves());
    put_in_filter(&mut pm, OBJECTS + 5);
    pm
}

/// Addresses of objects that move, of words inside them, and of pages that stay.
fn asked() -> Vec<Addr> {
    let goes = moves().into_iter().map(|(from, _)| from);
    let stays = [0, 16, 4080].map(|at| page(OBJECTS + 5).plus(at));
    let inside = moves().into_iter().map(|(from, _)| from.plus(16));
    goes.chain(inside).chain(stays).chain([page(OBJECTS + 4), Addr::dram(64)]).collect()
}

#[test]
fn a_lookup_answers_what_the_entry_says_and_else_what_was_asked() {
    for entries in [1, 2, 16, 64] {
        let design = format!("ffccd:pmftlb_entries={entries}");
        let (outcome, answers) = ask(&design, tables(), |memory| {
            memory.set_relocation(Some(registers()));
            let ask = |at: Addr| (at, memory.forward(at));
            asked().into_iter().chain(asked()).map(ask).collect::<Vec<_>>()
        });
        assert!(answers.iter().all(|(at, to)| *to == expected(*at)), "{design}");
        let counters = outcome.counters;
        assert_eq!(counters.checklookups, 2 * asked().len() as u64);
        // One filter covers 128 MiB.
        assert!(counters.pmftlb_hits > 0 && counters.filter_loads == 1, "{design}");
        // 12 quarters have entries; the page without one is read each time.
        let misses = counters.pmftlb_misses;
        let least = 12 + 6;
        assert!(if entries >= 16 { misses == least } else { misses > least }, "{misses}");
    }
}

#[test]
fn without_the_instruction_or_the_registers_every_object_stays() {
    for (design, set) in [
        ("ffccd:checklookup=false", Some(registers())),
        ("clwb", Some(registers())),
        ("ffccd", None),
    ] {
        let (outcome, stay) = ask(design, tables(), move |memory| {
            memory.set_relocation(set);
            let forwards = memory.forwards();
            assert_eq!(forwards, design == "ffccd");
            asked().into_iter().all(|at| memory.forward(at) == at)
        });
        assert!(stay, "{design}");
        assert_eq!(outcome.counters.pmftlb_misses, 0);
    }
}

#[test]
fn cores_forget_what_they_knew_when_the_registers_are_set() {
    let answers = |design: &str| {
        let (from, to) = moves()[3];
        let program = move |memory: &SimMemory| {
            memory.set_relocation(Some(registers()));
            let first = memory.forward(from);
            memory.set_relocation(None);
            let between = memory.forward(from);
            let mut entry = Forwarding::to(page(20));
            entry.add(from, page(20).plus(160), 16);
            let empty = [0; (FILTERS * FILTER_BYTES) as usize];
            let mut filters = empty.to_vec();
            filters.resize(pool().len(), 0);
            put_in_filter(&mut filters, OBJECTS);
            let filters = &filters[registers().filters.offset() as usize..][..empty.len()];
            memory.write_nt(registers().filters, filters);
            memory.write_nt(page(4), &entry.bytes());
            memory.write_nt(registers().place(OBJECTS), &page(4).bits().to_le_bytes());
            memory.drain();
            memory.set_relocation(Some(registers()));
            let other = moves()[50].0;
            vec![first, between, memory.forward(from), memory.forward(other)]
        };
        let (_, answers) = ask(design, tables(), program);
        let other = moves()[50].0;
        assert_eq!(answers[..2], [to, from]);
        answers[2..] == [page(20).plus(160), other]
    };
    assert!(answers("ffccd"));
    assert!(!answers("ffccd:flaw=stale-lookups"));
}

#[test]
fn a_lookup_costs_what_the_paper_says() {
    let cost = |design: &str, known: bool, at: Addr| {
        let (outcome, cycles) = ask(design, tables(), move |memory| {
            memory.set_relocation(Some(registers()));
            memory.forward(if known { at } else { Addr::dram(64) });
            rest(memory);
            let (start, to) = (memory.now(), memory.forward(at));
            // A locked operation waits for all earlier loads.
            memory.swap(Addr::dram(0), to.bits());
            memory.now() - start
        });
        (cycles, outcome.stalls[0].get(Reason::Forwarding))
    };
    let (stays, goes) = (page(OBJECTS + 4), moves()[1].0);
    let more = |key: &str, published: u64, known: bool, at: Addr| {
        let design = format!("ffccd:{key}={}", published + 1000);
        assert_eq!(cost(&design, known, at).0 - cost("ffccd", known, at).0, 1000, "{key}");
    };
    more("bloom_cycles", 2, true, stays);
    more("bloom_load_cycles", 120, false, stays);
    more("pmftlb_cycles", 4, true, goes);
    let (load, stalled) = cost("ffccd", false, stays);
    assert!((100..=122).contains(&stalled), "{stalled}");
    let walk = cost("ffccd", false, goes).0;
    assert!(walk >= load + 4 + 2 * machine().l1.latency, "{walk}: two dependent reads");
}

#[test]
fn a_write_of_a_copied_line_is_as_late_as_its_reached_buffer() {
    let cycles = |design: &str, lines: &'static [u64]| {
        let (outcome, cycles) = ask(design, pool(), move |memory| {
            memory.set_relocation(Some(registers()));
            let mut took = 0;
            for line in lines {
                let to = page(OBJECTS + 8).plus(64 * line);
                memory.relocate(to, page(OBJECTS), 64);
                rest(memory);
                let start = memory.now();
                memory.persist(to, 64);
                took = memory.now() - start;
                rest(memory);
            }
            took
        });
        (cycles, outcome.counters.reached_hits, outcome.counters.reached_misses)
    };
    let (hit, hits, misses) = cycles("ffccd", &[3, 4]);
    assert_eq!((hits, misses), (1, 1));
    assert_eq!(hit - cycles("ffccd:rbb_cycles=0", &[3, 4]).0, 30);
    let (miss, ..) = cycles("ffccd", &[4]);
    assert_eq!(miss - hit, machine().memory.nvm.read, "the page's word is read");
}

#[test]
fn the_machine_of_the_paper_has_its_latencies() {
    let machine = machine();
    let paths = Paths::new(&machine);
    let second = Paths::mean(4096, |line| paths.llc_load(0, line + 1));
    assert!((24.0..26.0).contains(&second), "{second} cycles");
    assert_eq!(machine.llc.banks * machine.llc.kib_per_bank, 3 << 10);
    assert_eq!((machine.l1.kib, machine.l1.latency), (48, 4));
}

#[test]
fn programs_that_move_nothing_run_as_under_clwb() {
    for machine in [tiny(), levels(false), levels(true), machine()] {
        let outcome = |design: &str| {
            let program = |memory: &SimMemory| {
                for number in 0..600u64 {
                    let at = page(OBJECTS).plus(number * 5 % 97 * 64 + 8 * memory.thread() as u64);
                    memory.store(at, number);
                    memory.flush(at, 8);
                    match number % 7 {
                        0 => memory.drain(),
                        3 => memory.write_nt(at.plus(4096), &number.to_le_bytes()),
                        5 => drop(memory.fetch_add(page(OBJECTS), 1)),
                        _ => memory.order(),
                    }
                }
            };
            run(&machine, design, pool(), (0..4).map(|_| Box::new(program) as Program).collect())
        };
        assert_eq!(outcome("ffccd"), outcome("clwb:adr=true"));
        assert_eq!(outcome("ffccd:adr=false"), outcome("clwb"));
    }
    let named_only: Vec<&str> =
        DESIGNS.iter().filter(|entry| !entry.by_default()).map(|entry| entry.name).collect();
    assert_eq!(named_only, ["ffccd"]);
}
