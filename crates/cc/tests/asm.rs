//! Instrumented programs compute what they computed before, and what they do is counted exactly.
//! The entries of `asm/harness.c` spoil all registers and flags that a call site gives up.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use tempfile::TempDir;

const LEVELS: [&[&str]; 8] = [
    &["-O0"],
    &["-O1"],
    &["-O2"],
    &["-O3"],
    &["-O2", "-march=native"],
    &["-O3", "-march=native"],
    &["-O2", "-fPIC"],
    &["-Os", "-g", "-fcf-protection"],
];

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/asm")
}

fn runs(compiler: &str) -> bool {
    let found =
        cfg!(target_arch = "x86_64") && Command::new(compiler).arg("--version").output().is_ok();
    if !found {
        println!("skipped: {compiler} for x86-64 is not installed");
    }
    found
}

fn run(command: &mut Command) -> Output {
    let output = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    assert!(
        output.status.success(),
        "{command:?}: {}\n{}{}",
        output.status,
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
    output
}

/// A place where programs are built.
struct Bench {
    place: TempDir,
    compiler: &'static str,
}

impl Bench {
    fn new(compiler: &'static str) -> Option<Self> {
        runs(compiler).then(|| Bench { place: tempfile::tempdir().unwrap(), compiler })
    }

    fn path(&self, name: &str) -> PathBuf {
        self.place.path().join(name)
    }

    /// Compiles a source to an object, instrumented or not.
    fn object(&self, source: &str, options: &[&str], instrumented: bool) -> PathBuf {
        let assembly = self.path(&format!("{source}.{instrumented}.s"));
        let mut compile = Command::new(self.compiler);
        compile.args(options).arg("-S").arg(folder().join(source)).arg("-o").arg(&assembly);
        run(&mut compile);
        if instrumented {
            let text = std::fs::read_to_string(&assembly).unwrap();
            let text = seawall_cc::asm::instrument(&text).unwrap_or_else(|error| panic!("{error}"));
            std::fs::write(&assembly, text).unwrap();
        }
        let object = assembly.with_extension("o");
        run(Command::new(self.compiler).arg("-c").arg(&assembly).arg("-o").arg(&object));
        object
    }

    fn link(&self, name: &str, objects: &[&Path]) -> PathBuf {
        let program = self.path(name);
        run(Command::new(self.compiler).args(objects).arg("-o").arg(&program));
        program
    }

    fn harness(&self) -> PathBuf {
        let object = self.path("harness.o");
        let mut compile = Command::new("gcc");
        compile.args(["-O2", "-mgeneral-regs-only", "-Wall", "-c"]);
        run(compile.arg(folder().join("harness.c")).arg("-o").arg(&object));
        object
    }

    /// Builds and runs a program both ways, at all levels.
    fn compare(&self, source: &str) {
        let harness = self.harness();
        for options in LEVELS {
            let outputs = [false, true].map(|instrumented| {
                let object = self.object(source, options, instrumented);
                run(&mut Command::new(self.link("program", &[&object, &harness]))).stdout
            });
            let [plain, instrumented] = outputs.map(|bytes| String::from_utf8(bytes).unwrap());
            assert!(!plain.is_empty());
            assert_eq!(plain, instrumented, "{source} {options:?}");
        }
    }
}

#[test]
fn c_programs_compute_what_they_did() {
    if let Some(bench) = Bench::new("gcc") {
        bench.compare("plain.c");
    }
}

#[test]
fn cpp_programs_compute_what_they_did() {
    if let Some(bench) = Bench::new("g++") {
        bench.compare("plain.cc");
    }
}

#[test]
fn each_event_is_seen_with_its_address() {
    let Some(bench) = Bench::new("gcc") else { return };
    let harness = bench.harness();
    for options in LEVELS {
        let object = bench.object("events.c", options, true);
        run(&mut Command::new(bench.link("events", &[&object, &harness])));
    }
}

#[test]
fn instructions_are_counted_as_the_processor_steps() {
    let Some(bench) = Bench::new("gcc") else { return };
    let harness = bench.harness();
    let steps = bench.object("steps.c", &["-O1"], false);
    for level in LEVELS {
        // The assembler fills gaps before loops with instructions that are not in the text.
        let options = [level, &["-fno-align-loops", "-fno-align-jumps", "-fno-align-labels"]];
        let options = &options.concat()[..];
        let counts = [false, true].map(|instrumented| {
            let kernel = bench.object("kernels.c", options, instrumented);
            let mut program = Command::new(bench.link("steps", &[&kernel, &steps, &harness]));
            if instrumented {
                program.arg("by itself");
            }
            let output = program.output().unwrap();
            (output.status.success(), String::from_utf8(output.stdout).unwrap())
        });
        let [(traced, stepped), (_, counted)] = counts;
        if !traced {
            println!("skipped: this process may not trace another");
            return;
        }
        assert_eq!(stepped, counted, "{options:?}");
    }
}
