//! Runs tests under AddressSanitizer, ThreadSanitizer and Miri, on a nightly compiler.
//!
//! Each sees another kind of mistake, and can run other tests. The sanitizers see memory that is
//! used after its end and accesses that nothing puts in order, and get the tests whose threads are
//! the system's: explorer and simulator run them as fibers. Miri interprets, much slower, and knows
//! neither inline assembly nor files that are mapped: it gets what runs on `Image`.

use anyhow::{Context, Result};
use std::process::Command;
use std::time::Instant;

/// What is looked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Tool {
    Address,
    Thread,
    Miri,
}

/// Tests of a package: which of its targets, only those with one of these names, without those.
#[derive(Clone, Copy, Debug)]
struct Tests {
    package: &'static str,
    targets: &'static [&'static str],
    only: &'static [&'static str],
    skip: &'static [&'static str],
}

const LIB: &[&str] = &["--lib"];
const ALL: &[&str] = &["--test", "all"];

/// What both sanitizers run: pools in mapped memory, with threads of the system.
const NATIVE: &[Tests] = &[
    Tests {
        package: "seawall-runtime",
        targets: ALL,
        only: &["misuse", "defrag::threads"],
        skip: &[],
    },
    Tests { package: "seawall-ribbon", targets: ALL, only: &["real", "pool"], skip: &[] },
    Tests {
        package: "seawall-collections",
        targets: &["--test", "all", "--test", "btree"],
        only: &["full_speed", "real_threads", "linear::native"],
        skip: &[],
    },
    Tests { package: "seawall", targets: ALL, only: &["threads"], skip: &[] },
];

/// What AddressSanitizer runs besides: forks, and single threads on `Image`.
const IMAGE: &[Tests] = &[
    Tests { package: "seawall-native", targets: LIB, only: &[], skip: &[] },
    Tests { package: "seawall-native", targets: &["--test", "fork"], only: &[], skip: &[] },
    Tests { package: "seawall-runtime", targets: LIB, only: &[], skip: &[] },
    Tests { package: "seawall-collections", targets: LIB, only: &[], skip: &[] },
    Tests {
        package: "seawall-runtime",
        targets: ALL,
        only: &["heap::", "hostile", "typed::values", "defrag::holes"],
        skip: &[],
    },
    Tests { package: "seawall-testkit", targets: LIB, only: &[], skip: &[] },
];

/// What ThreadSanitizer runs besides: all but what wants more addresses than it leaves, or counts
/// the pages that are there.
const FEWER_ADDRESSES: &[Tests] = &[Tests {
    package: "seawall-native",
    targets: LIB,
    only: &[],
    skip: &[
        "no_room_to_grow",
        "without_room_on_the_disk",
        "brought_in_at_once",
        "that_gets_a_stack_and_no_more",
    ],
}];

const INTERPRETED: &[Tests] = &[
    Tests {
        package: "seawall-memory",
        targets: LIB,
        only: &[],
        // It forgets a seat, which is a leak as it should be.
        skip: &["a_forgotten_seat"],
    },
    Tests {
        package: "seawall-runtime",
        targets: LIB,
        only: &[],
        // Every byte of a chunk, for every size of block; ways of a log measured by the thousand.
        skip: &["every_byte_of_a_chunk", "route::tests"],
    },
    Tests { package: "seawall-collections", targets: LIB, only: &[], skip: &[] },
];

/// The sanitizers need a target that is named, to leave build scripts and macros alone.
const TARGET: &str = "x86_64-unknown-linux-gnu";

impl Tool {
    pub(crate) fn of_name(name: &str) -> Option<Tool> {
        match name {
            "address" => Some(Tool::Address),
            "thread" => Some(Tool::Thread),
            "miri" => Some(Tool::Miri),
            _ => None,
        }
    }

    fn tests(self) -> impl Iterator<Item = &'static Tests> {
        let (first, second): (&[Tests], &[Tests]) = match self {
            Tool::Address => (NATIVE, IMAGE),
            Tool::Thread => (NATIVE, FEWER_ADDRESSES),
            Tool::Miri => (INTERPRETED, &[]),
        };
        first.iter().chain(second)
    }

    fn variables(self) -> Vec<(&'static str, &'static str)> {
        match self {
            Tool::Address => vec![
                ("RUSTFLAGS", "-Zsanitizer=address"),
                ("CARGO_TARGET_DIR", "target/asan"),
                ("PROPTEST_CASES", "32"),
                ("SEAWALL_FUZZ_RUNS", "200"),
            ],
            Tool::Thread => {
                vec![("RUSTFLAGS", "-Zsanitizer=thread"), ("CARGO_TARGET_DIR", "target/tsan")]
            }
            Tool::Miri => vec![
                ("MIRIFLAGS", "-Zmiri-disable-isolation"),
                ("CARGO_TARGET_DIR", "target/miri"),
                ("PROPTEST_CASES", "2"),
            ],
        }
    }

    /// The words behind `cargo`.
    fn words(self, tests: &Tests) -> Vec<&'static str> {
        let mut words = match self {
            Tool::Address => vec!["+nightly", "test", "--target", TARGET],
            // The standard library, too: or its locks put nothing in order that is seen.
            Tool::Thread => vec!["+nightly", "test", "-Zbuild-std", "--target", TARGET],
            Tool::Miri => vec!["+nightly", "miri", "test"],
        };
        words.extend(["-p", tests.package]);
        words.extend(tests.targets);
        words.push("--");
        words.extend(tests.only);
        words.extend(tests.skip.iter().flat_map(|name| ["--skip", name]));
        words
    }
}

/// Runs all tests that `tool` can run; true if they pass.
pub(crate) fn run(tool: Tool) -> Result<bool> {
    let mut failed = Vec::new();
    for tests in tool.tests() {
        let words = tool.words(tests);
        let shown: Vec<String> =
            tool.variables().iter().map(|(name, value)| format!("{name}={value}")).collect();
        println!("== {} cargo {}", shown.join(" "), words.join(" "));
        let begun = Instant::now();
        let mut command = Command::new("cargo");
        command.args(&words).envs(tool.variables());
        let status = command.status().context("cannot start cargo; install it with rustup")?;
        println!("== {}: {} s", tests.package, begun.elapsed().as_secs());
        if !status.success() {
            failed.push(tests.package);
        }
    }
    if !failed.is_empty() {
        println!(
            "sanitize: failures in {}; a line with == runs one of them alone",
            failed.join(", ")
        );
    }
    Ok(failed.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_tool_has_a_name_and_tests_to_run() {
        for name in ["address", "thread", "miri"] {
            let tool = Tool::of_name(name).unwrap();
            assert!(tool.tests().count() > 1, "{name}");
        }
        assert_eq!(Tool::of_name("memory"), None);
    }

    #[test]
    fn what_is_skipped_is_behind_the_dashes() {
        let tests = INTERPRETED.first().unwrap();
        let words = Tool::Miri.words(tests).join(" ");
        let expected = "+nightly miri test -p seawall-memory --lib -- --skip a_forgotten_seat";
        assert_eq!(words, expected);
    }
}
