//! Litmus tests over the simulated designs: no design leaves what its model forbids, and each
//! broken mechanism is caught by some tests of the suite.

use seawall_lab::Experiment;
use seawall_lab::Progress;
use seawall_lab::litmus::{LitmusOptions, LitmusReport};
use seawall_sim::DESIGNS;
use std::sync::Arc;

fn run(options: &LitmusOptions) -> LitmusReport {
    let plan = options.plan().unwrap_or_else(|error| panic!("{error}"));
    LitmusOptions::run(plan, &Progress::hidden(), &Arc::default())
        .unwrap_or_else(|error| panic!("{error}"))
}

/// Crashes of each test under each design; more for a longer look.
fn crashes() -> u64 {
    std::env::var("SEAWALL_LITMUS_CRASHES").ok().and_then(|text| text.parse().ok()).unwrap_or(20)
}

fn without_models(designs: &[&str], tests: &[&str], crashes: u64) -> LitmusReport {
    let names = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
    run(&LitmusOptions {
        tests: names(tests),
        models: names(&["none"]),
        designs: names(designs),
        crashes,
        ..LitmusOptions::default()
    })
}

#[test]
fn no_design_leaves_what_its_model_forbids() {
    let report = without_models(&[], &[], crashes());
    assert_eq!(report.disagreements(), 0, "{}", report.to_text());
    let default = DESIGNS.iter().filter(|design| design.by_default());
    let promising = default.filter(|design| design.model.is_some()).count();
    assert_eq!(report.designs.len(), promising);
    assert!(report.crashes() >= promising as u64 * 260 * crashes(), "{}", report.to_text());
}

/// Each deliberate flaw, with tests (or families) that catch it within so many crashes. Which of
/// them does so first changes with the timing of the machine; one of them has to. Without a flaw
/// the same tests find nothing, as [`no_design_leaves_what_its_model_forbids`] and the long mode
/// show.
const CAUGHT: &[(&str, &[&str], u64)] = &[
    ("lbpp:flaw='acknowledges-early'", &["I20", "G35", "H17", "A15"], 300),
    ("lbpp:flaw='drops-dependences'", &["H04", "D41", "H06", "I18"], 500),
    ("lb:flaw='ignores-inter-conflicts'", &["G39", "G40", "H05", "G11"], 300),
    ("lb:flaw='ignores-intra-conflicts'", &["H25", "I09", "I01", "I20"], 300),
    ("lb:flaw='ignores-replacement'", &["A14", "D40", "N06", "I09", "I20"], 500),
    ("lb-idt:flaw='loses-versions'", &["C37", "threads", "dependence"], 1500),
    ("lb:flaw='keeps-epochs-whole'", &["H11", "H12", "B09"], 100),
    ("lbpp:flaw='keeps-epochs-whole'", &["H27", "D41", "H07", "H11"], 300),
    ("bsp-lbpp:stores=2:records=4:flaw='flushes-before-log'", &["B07", "D07", "D11", "G15"], 500),
    ("bsp-lb-idt:stores=2:records=4:flaw='sends-headers-early'", &["idioms", "A21", "B07"], 500),
    ("bsp-lbpp:stores=2:records=4:flaw='names-early'", &["A21", "A41", "C36", "D01"], 500),
    ("bsp-lb-idt:stores=2:records=4:flaw='undoes-all'", &["C41", "F09", "G11", "H20", "H29"], 500),
    ("bsp-lbpp:stores=2:records=4:flaw='forgets-names'", &["G35", "G37", "G38", "G39"], 500),
    ("bsp-lb-idt:stores=2:records=4:flaw='drops-dependences'", &["C09", "G09", "G39", "H05"], 500),
    (
        "bsp-lb:stores=2:records=4:flaw='ignores-inter-conflicts'",
        &["B08", "C01", "B31", "C34"],
        500,
    ),
    ("bsp-lbpp:stores=2:records=4:flaw='ignores-intra-conflicts'", &["C10", "C11", "D32"], 500),
    ("bsp-lb-pf:stores=2:records=4:flaw='ignores-replacement'", &["A01", "A17", "A09", "A22"], 500),
    ("hops:flaw='drops-dependences'", &["H04", "D41", "H06", "I18"], 500),
    ("hops:flaw='sends-at-once'", &["I20", "G35", "H17", "A15"], 300),
    ("hops:flaw='ignores-filter'", &["A14", "D40", "N06", "I09", "I20", "threads"], 1000),
    ("hops:flaw='drains-early'", &["G35", "G37", "G38", "idioms"], 500),
    ("hops:flaw='keeps-one-version'", &["H25", "I09", "I01", "I20"], 300),
    ("asap:flaw='forgets-undo'", &["I20", "G35", "H17", "A15"], 300),
    ("asap:flaw='drops-dependences'", &["H04", "D41", "H06", "I18"], 500),
    ("asap:records=1:flaw='ignores-nack'", &["I20", "G35", "H17", "A15"], 300),
    ("bsp-naive:flaw='ignores-order'", &["G01", "G04", "H17", "I20"], 300),
    ("bsp-naive:flaw='ignores-conflicts'", &["C36", "D41", "H04", "H06"], 500),
    ("bsp-naive:flaw='splits-stores'", &["N44", "N47"], 300),
    ("strand:flaw='passes-barriers'", &["A07", "A16", "B03"], 300),
    ("strand:flaw='joins-one'", &["S06"], 1000),
    ("dpo:flaw='forgets-sent'", &["G39", "H04"], 1000),
    ("dpo:flaw='drops-dependences'", &["C03", "D32", "D39", "E11", "G39"], 1000),
    ("clwb:flaw='fences-early'", &["F06", "N31", "F14", "E10"], 300),
    ("clwb:flaw='forgets-others-flushes'", &["C48", "threads"], 1000),
];

#[test]
fn each_broken_mechanism_is_caught_by_tests_of_the_suite() {
    for (design, tests, crashes) in CAUGHT {
        let report = without_models(&[design], tests, *crashes);
        let caught = report.tests.iter().filter(|test| test.designs[0].violation.is_some());
        let caught: Vec<&str> = caught.map(|test| test.id.as_str()).collect();
        println!("{design}: caught by {caught:?} of {tests:?}");
        assert!(!caught.is_empty(), "{design} passes {tests:?}");
    }
}

#[test]
fn a_pair_does_not_depend_on_what_else_is_run() {
    let (alone, together) = (
        without_models(&["lbpp"], &["G11"], 100),
        without_models(&["clwb", "lbpp"], &["epoch"], 100),
    );
    let together = together.tests.iter().find(|test| test.id == "G11").unwrap();
    let record = |cell| serde_json::to_string(cell).unwrap();
    assert_eq!(record(&alone.tests[0].designs[0]), record(&together.designs[1]));
}
