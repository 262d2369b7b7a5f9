//! Wrong arguments and damaged files: errors, and nothing else.

use crate::support::{Linked, Program, compile, number_of, pool_in, pools};
use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use seawall_clib::told;
use std::os::unix::fs::FileExt;
use std::process::Child;
use std::time::{Duration, Instant};

#[test]
fn each_wrong_use_has_its_status_and_a_text_with_the_remedy() {
    let test = "each_wrong_use_has_its_status";
    for linked in [Linked::Shared, Linked::Static] {
        let Some(program) = compile(test, "tests/c/errors.c", linked) else { return };
        let folder = pools();
        let output = program.run(&[&pool_in(&folder)]);
        assert!(output.status.success(), "{linked:?}: {}", told(&output));
    }
}

/// How it has ended; `None` if it had to be ended, as it took too long.
fn ended(mut child: Child) -> Option<std::process::ExitStatus> {
    let end = Instant::now() + Duration::from_secs(20);
    while Instant::now() < end {
        if let Some(status) = child.try_wait().unwrap() {
            return Some(status);
        }
        std::thread::sleep(Duration::from_millis(2));
    }
    child.kill().unwrap();
    child.wait().unwrap();
    None
}

/// What `damage.c` ends with when a map that it has found sound cannot be read.
const NOT_READ: i32 = 3;

/// Uses a copy of the file with changed bytes, without a panic that the library catches; gives
/// whether it has ended in time.
fn use_damaged(program: &Program, whole: &[u8], seed: u64, words: &[&str]) -> bool {
    let folder = pools();
    let pool = pool_in(&folder);
    std::fs::write(&pool, whole).unwrap();
    let file = std::fs::OpenOptions::new().write(true).open(&pool).unwrap();
    let mut rng = Xoshiro256PlusPlus::seed_from_u64(seed);
    // Bytes that are in use, most of the time.
    for _ in 0..rng.random_range(1..4) {
        let mut at = rng.random_range(0..whole.len());
        at = (0..200)
            .map(|step| (at + 61 * step) % whole.len())
            .find(|at| whole[*at] != 0)
            .unwrap_or(at);
        file.write_all_at(&[rng.random_range(0..=255)], at as u64).unwrap();
    }
    let mut command = program.command();
    let [said, errors] = ["said", "errors"].map(|name| folder.path().join(name));
    let [out, err] = [&said, &errors].map(|path| std::fs::File::create(path).unwrap());
    command.arg(&pool).args(words).stdout(out).stderr(err);
    let status = ended(command.spawn().unwrap());
    if let Some(status) = status {
        let told = [said, errors].map(|path| std::fs::read_to_string(path).unwrap()).concat();
        let has_code = status.code().is_some_and(|code| code != NOT_READ);
        let is_well = has_code && !told.contains("panicked");
        assert!(is_well, "seed {seed}, {words:?}: {status}: {told}");
    }
    status.is_some()
}

/// `SEAWALL_DAMAGES` damages more often.
#[test]
fn a_damaged_file_gives_errors_and_ends_no_program() {
    let test = "a_damaged_file_gives_errors";
    let Some(program) = compile(test, "tests/c/damage.c", Linked::Shared) else { return };
    let folder = pools();
    let pool = pool_in(&folder);
    program.printed(&[&pool, "fill"]);
    let whole = std::fs::read(&pool).unwrap();
    for seed in 0..number_of("SEAWALL_DAMAGES", 150) {
        assert!(
            use_damaged(&program, &whole, seed, &["use", "checks"]),
            "seed {seed} with checks has no end"
        );
        assert!(use_damaged(&program, &whole, seed, &["use"]), "seed {seed} has no end");
    }
}

/// A list whose links were changed may have no end; a cycle has one.
#[test]
fn a_damaged_file_with_objects_that_move_ends_no_program() {
    let test = "a_damaged_file_with_objects_that_move";
    let Some(program) = compile(test, "examples/queues.c", Linked::Shared) else { return };
    let folder = pools();
    let pool = pool_in(&folder);
    program.printed(&[&pool, "fill", "3", "300"]);
    let whole = std::fs::read(&pool).unwrap();
    for seed in 0..number_of("SEAWALL_DAMAGES", 60) {
        assert!(use_damaged(&program, &whole, seed, &["compact"]), "seed {seed} has no end");
        assert!(use_damaged(&program, &whole, seed, &["fill", "3", "40"]), "seed {seed}");
    }
}

/// Valgrind knows no `clwb`.
#[test]
fn valgrind_finds_no_wrong_access_and_no_lost_memory() {
    let test = "valgrind_finds_no_wrong_access";
    let Some(program) = compile(test, "tests/c/errors.c", Linked::Shared) else { return };
    let folder = pools();
    let mut command = std::process::Command::new("valgrind");
    command.args(["-q", "--error-exitcode=9", "--leak-check=full"]);
    command.args(["--show-leak-kinds=definite", "--errors-for-leak-kinds=definite"]);
    command.args(["--", program.path().to_str().unwrap(), &pool_in(&folder)]);
    command.env("LD_LIBRARY_PATH", program.library()).env("SEAWALL_FLUSH", "clflush");
    match command.output() {
        Err(error) => println!("{test}: skipped, because there is no valgrind: {error}"),
        Ok(output) => assert!(output.status.success(), "{}", told(&output)),
    }
}
