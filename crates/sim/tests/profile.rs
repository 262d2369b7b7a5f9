//! A profile of a simulated program: every cycle of a core is at one site, for one reason.

use seawall_memory::{Addr, Fence, Memory, MemoryExt};
use seawall_sim::{Choice, Machine, Program, Reason, RunOutcome, SimMemory, Simulation, SiteTime};

const DESIGNS: [&str; 6] = ["volatile", "clwb", "lb", "lbpp", "hops", "strict"];

fn run(design: &str, has_profile: bool, marks: bool) -> RunOutcome {
    let machine = Machine::load("desktop").expect("a machine");
    let design = Choice::parse(design).expect("a design");
    let program = move |memory: &SimMemory| {
        let thread = memory.thread() as u64;
        for n in 0..300 {
            if marks && thread == 0 && n == 50 {
                memory.roi_begin();
            }
            memory.set_site(1);
            memory.store(Addr::pm(64 * (n % 7) + 8 * thread), n);
            memory.set_site(2);
            memory.flush(Addr::pm(64 * (n % 7)), 64);
            memory.set_site(3);
            memory.fence(Fence::Order);
            memory.set_site(4);
            memory.load::<u64>(Addr::pm(4096 * (n * 5 % 251)));
            memory.set_site(5);
            memory.work(40);
            if marks && thread == 0 && n == 250 {
                memory.roi_end();
            }
        }
    };
    let programs = (0..3).map(|_| Box::new(program) as Program).collect();
    let simulation = Simulation::new(&machine, &design, vec![0; 1 << 20], Vec::new()).cold();
    let simulation = if has_profile { simulation.with_profile() } else { simulation };
    simulation.run(programs).expect("it ends")
}

#[test]
fn the_sites_of_a_core_have_all_of_its_cycles_by_reason() {
    for (design, marks) in DESIGNS.into_iter().flat_map(|it| [(it, false), (it, true)]) {
        let outcome = run(design, true, marks);
        for (core, sites) in outcome.sites.iter().enumerate() {
            let all: u64 = sites.iter().map(SiteTime::cycles).sum();
            assert_eq!(all, outcome.cycles, "{design}, core {core}, {marks}");
            for reason in Reason::ALL {
                let sum: u64 = sites.iter().map(|site| site.stalls.get(reason)).sum();
                let counted = outcome.stalls[core].get(reason);
                assert_eq!(sum, counted, "{design}, core {core}: {}", reason.name());
            }
        }
    }
}

#[test]
fn a_profile_changes_nothing() {
    for design in DESIGNS {
        let (plain, with) = (run(design, false, true), run(design, true, true));
        assert!(plain.sites.is_empty(), "{design}");
        assert_eq!(plain, RunOutcome { sites: Vec::new(), ..with }, "{design}");
    }
}

#[test]
fn each_wait_counts_for_the_site_that_causes_it() {
    let at = |outcome: &RunOutcome, site: usize, reason: Reason| -> u64 {
        outcome.sites.iter().map(|core| core[site].stalls.get(reason)).sum()
    };
    let alone = |outcome: &RunOutcome, site: usize, reason: Reason| {
        let there = at(outcome, site, reason);
        let elsewhere = (0..=5).filter(|other| *other != site);
        let elsewhere: u64 = elsewhere.map(|other| at(outcome, other, reason)).sum();
        assert!(there > 0 && elsewhere == 0, "{}: {there}, {elsewhere}", reason.name());
    };
    alone(&run("clwb", true, false), 3, Reason::Fence);
    alone(&run("lb", true, false), 1, Reason::IntraConflict);
    alone(&run("volatile", true, false), 4, Reason::LoadMemory);
    let conflicts = run("lb", true, false).sites.iter().map(|core| core[1].conflicts).sum::<u64>();
    assert!(conflicts > 300, "{conflicts}");
}
