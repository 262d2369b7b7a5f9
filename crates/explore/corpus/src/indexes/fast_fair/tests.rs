use super::*;
use crate::indexes::Threads;
use crate::indexes::tests::holds_what_a_map_holds;
use crate::program::{Case, Entry};
use crate::run::{CaseReport, Effort, explore};
use seawall_explore::Model;

fn explored(fixed: bool, effort: &Effort) -> CaseReport {
    let report = explore(&Entry(Threads(FastFairThreads::new())), fixed, Model::Px86, effort);
    println!("fixed {fixed}, depth {}: {report:?}", effort.depth);
    report
}

#[test]
fn one_thread_finds_in_it_what_a_map_holds() {
    for (slots, nodes, keys) in [(4, 400, 120), (8, 200, 150), (28, 40, 251)] {
        let index = FastFairThreads { slots, nodes, ..FastFairThreads::new() };
        holds_what_a_map_holds(index, keys, 500);
    }
}

#[test]
fn an_insert_behind_a_link_that_is_not_durable_is_found_lost() {
    let report = explored(false, &Effort::default());
    let message = report.message.expect("the bug is found");
    assert!(message.contains("is lost after a crash"), "{message}");
}

#[test]
fn a_writer_that_makes_the_link_durable_first_loses_nothing() {
    let report = explored(true, &Effort::default());
    assert_eq!(report.message, None);
}
