//! What a call has written and a plain store has replaced stays replaced: for each pair of calls,
//! and each way to store, with a kill behind it.

use crate::support::{compile, number_of, pool_in, pools, printed, run};
use seawall_clib::Whose;

/// `SEAWALL_OVERWRITES=2` runs each call with each other and each store; else each with each store
/// and one other call, in turns.
#[test]
fn a_plain_store_over_what_a_call_has_written_is_kept() {
    let Some(program) = compile("a_plain_store_is_kept", "overwrites") else { return };
    let names = printed(&program, Whose::Ours, &["list"]);
    let named = |kind: &str| -> Vec<&str> {
        names.lines().filter_map(|line| line.strip_prefix(kind)).collect()
    };
    let (calls, stores) = (named("call "), named("store "));
    assert!(calls.len() >= 18 && stores.len() >= 5, "{names}");
    let is_all = number_of("SEAWALL_OVERWRITES", 1) > 1;
    let mut runs = 0;
    for (place, call) in calls.iter().enumerate() {
        for (turn, store) in stores.iter().enumerate() {
            for (other_place, other) in calls.iter().enumerate() {
                if !is_all && other_place != (place * 5 + turn) % calls.len() {
                    continue;
                }
                for whose in [Whose::System, Whose::Ours] {
                    let folder = pools();
                    let pool = pool_in(&folder, "pool");
                    let pool = pool.to_str().unwrap();
                    let killed = run(&program, whose, &["run", pool, call, store, other]);
                    assert_eq!(killed.status.code(), None, "{whose:?} {call} {store} {other}");
                    let found = printed(&program, whose, &["check", pool]);
                    assert_eq!(found, "right\n", "{whose:?} {call} {store} {other}");
                    runs += 1;
                }
            }
        }
    }
    assert!(runs >= 180, "{runs}");
}
