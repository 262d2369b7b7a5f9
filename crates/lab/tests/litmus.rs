//! Litmus tests over the simulated designs: no design leaves what its model forbids, and each
//! broken mechanism is caught by some tests of the suite.

use seawall_lab::Progress;
use seawall_lab::litmus::{LitmusOptions, LitmusPlan, LitmusReport};
use std::sync::Arc;

fn run(options: &LitmusOptions) -> LitmusReport {
    let plan = LitmusPlan::new(options).unwrap_or_else(|error| panic!("{error}"));
    plan.run(&Progress::hidden(), &Arc::default()).unwrap_or_else(|error| panic!("{error}"))
}

fn crashes() -> u64 {
    std::env::var("SEAWALL_LITMUS_CRASHES").ok().and_then(|text| text.parse().ok()).unwrap_or(20)
}

#[test]
fn no_design_leaves_what_its_model_forbids() {
    let models = vec!["none".into()];
    let report = run(&LitmusOptions { models, crashes: crashes(), ..LitmusOptions::default() });
    assert_eq!(report.disagreements(), 0, "{}", report.to_text());
    assert!(report.crashes() >= 8 * 240 * crashes(), "{}", report.to_text());
    println!("{}", report.to_text());
}

const FLAWS: &[&str] = &[
    "lbpp:flaw='acknowledges-early'",
    "lbpp:flaw='drops-dependences'",
    "lb:flaw='ignores-inter-conflicts'",
    "lb:flaw='ignores-intra-conflicts'",
    "lb:flaw='ignores-replacement'",
    "lb-idt:flaw='loses-versions'",
    "lb:flaw='keeps-epochs-whole'",
    "lbpp:flaw='keeps-epochs-whole'",
    "clwb:flaw='fences-early'",
    "clwb:flaw='forgets-others-flushes'",
];

#[test]
fn each_broken_mechanism_is_caught_by_tests_of_the_suite() {
    for design in FLAWS {
        let options = LitmusOptions {
            models: vec!["none".into()],
            designs: vec![(*design).into()],
            crashes: crashes(),
            ..LitmusOptions::default()
        };
        let report = run(&options);
        let caught = report.tests.iter().filter(|test| test.designs[0].violation.is_some());
        let caught: Vec<(&str, u64)> =
            caught.map(|test| (&*test.id, test.designs[0].crashes)).collect();
        println!("{design}: {caught:?}");
    }
}
