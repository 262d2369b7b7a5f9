//! Debian's libpmemobj on our libpmem.

use crate::support::{Program, places};
use seawall_clib::Whose;

#[test]
fn pools_of_debians_libpmemobj_are_the_same_on_ours() {
    let test = "pools_of_debians_libpmemobj_are_the_same_on_ours";
    let Some(program) = Program::compile_with(test, "objects", &["-lpmemobj"]) else {
        return;
    };
    for force in ["0", "1"] {
        for place in places() {
            let text = [Whose::System, Whose::Ours].map(|whose| {
                let folder = Program::folder_in(&place);
                let pool = folder.path().join("a.pool");
                let set = [("PMEM_IS_PMEM_FORCE", force)];
                program.run(whose, &[pool.to_str().unwrap()], &set)
            });
            assert!(text[1].starts_with("check 1\n"), "{}", text[1]);
            assert_eq!(text[1], text[0], "{}", place.display());
        }
    }
}
