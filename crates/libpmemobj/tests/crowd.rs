//! Hundreds of threads at once, with any mix of calls.

use crate::support::{compile, number_of, pools, printed};
use seawall_clib::Whose;

/// `SEAWALL_CROWDS` tries more seeds.
#[test]
fn hundreds_of_threads_with_any_mix_of_calls_leave_what_they_did() {
    let test = "hundreds_of_threads_with_any_mix_of_calls";
    let Some(program) = compile(test, "crowd") else { return };
    for seed in 1..=number_of("SEAWALL_CROWDS", 1) {
        let folder = pools();
        let folder = folder.path().to_str().unwrap();
        printed(&program, Whose::Ours, &[folder, &seed.to_string(), "300", "100"]);
    }
}
