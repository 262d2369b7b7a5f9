//! The files that commands write, from outside: none takes the place of what the command reads,
//! makes or writes besides, by any name of it, and none is emptied when the command is stopped.

#![cfg(unix)]

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

fn seawall(folder: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_seawall"));
    command.current_dir(folder);
    command
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn refused(folder: &Path, line: &str) -> String {
    let output = seawall(folder).args(line.split(' ')).output().unwrap();
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "seawall {line}\n{said}");
    assert!(said.contains("name the same file"), "seawall {line}\n{said}");
    said
}

/// A folder with a file of every kind that commands read, and other names of each.
struct Inputs(tempfile::TempDir);

const MACHINE: &str = "title = 't'\nmachine = 'm.toml'\nkernels = ['lu:8']\ndesigns = ['bsp-lb']\n\
                       [[factor]]\nname = 'banks'\nmachine = 'memory.banks'\nvalues = [2]\n";
const FIGURE: &str = "title = 'tiny'\nsource = 'none'\nmachine = 'm.toml'\noperations = 20\n\
                      workloads = ['sps']\nmetric = 'throughput'\nbaseline = 'lb'\n\
                      tolerance = 0.01\n[[series]]\nname = 'LB++'\ndesign = 'lbpp'\npaper = 9.0\n";
const NAMES: [&str; 5] = ["a.pool", "m.toml", "s.toml", "f.toml", "t.litmus"];

impl Inputs {
    fn new() -> Inputs {
        let inputs = Inputs(tempfile::tempdir().unwrap());
        let make = ["run", "queue", "--ops", "5", "--entries", "8", "--file", "a.pool"];
        assert!(seawall(inputs.path()).args(make).output().unwrap().status.success());
        let machine = seawall(inputs.path()).args(["show", "machine", "desktop"]).output().unwrap();
        fs::write(inputs.at("m.toml"), machine.stdout).unwrap();
        fs::write(inputs.at("s.toml"), MACHINE).unwrap();
        fs::write(inputs.at("f.toml"), FIGURE).unwrap();
        fs::write(inputs.at("t.litmus"), "title: t\nthread: W x 1\nmemory: x\n").unwrap();
        for name in NAMES {
            symlink(name, inputs.at(&format!("soft-{name}"))).unwrap();
            fs::hard_link(inputs.at(name), inputs.at(&format!("hard-{name}"))).unwrap();
        }
        inputs
    }

    fn path(&self) -> &Path {
        self.0.path()
    }

    fn at(&self, name: &str) -> PathBuf {
        self.path().join(name)
    }

    fn read(&self) -> Vec<Vec<u8>> {
        NAMES.iter().map(|name| fs::read(self.at(name)).unwrap()).collect()
    }
}

#[test]
fn no_command_writes_over_what_it_reads_by_any_name_of_it() {
    let inputs = Inputs::new();
    let before = inputs.read();
    let over = [
        ("run queue --recover a.pool --json", "a.pool"),
        ("pool info a.pool --json", "a.pool"),
        ("pool check a.pool --json", "a.pool"),
        ("compare -w hash -d lb -m m.toml --ops 5 --crashes 0 --json", "m.toml"),
        ("compare -w hash -d lb -m m.toml --ops 5 --crashes 0 --plot", "m.toml"),
        ("compare -w hash -d lb -m m.toml --ops 5 --crashes 0 --html", "m.toml"),
        ("compare -w hash -d lb -m m.toml --ops 5 --crashes 0 --csv", "m.toml"),
        ("compare -w hash -d lb -m m.toml --ops 5 --crashes 0 --latex", "m.toml"),
        ("kernels lu:8 -m m.toml --crashes 0 --json", "m.toml"),
        ("kernels lu:8 -m m.toml --crashes 0 --csv", "m.toml"),
        ("kernels lu:8 -m m.toml --crashes 0 --html", "m.toml"),
        ("compare -w hash -d lb -m m.toml --ops 5 --crashes 0 --trace", "m.toml"),
        ("kernels lu:8 -d bsp-lb -m m.toml --crashes 0 --trace", "m.toml"),
        ("compare --program true -d lb -m m.toml --crashes 0 --trace", "m.toml"),
        ("compare --program true -d lb -m m.toml --crashes 0 --csv", "m.toml"),
        ("kernels lu:8 -m m.toml --crashes 0 --plot", "m.toml"),
        ("sweep s.toml --out new.jsonl --plot", "s.toml"),
        ("sweep s.toml --out new.jsonl --plot", "m.toml"),
        ("sweep s.toml --out new.jsonl --html", "m.toml"),
        ("sweep s.toml --out new.jsonl --latex", "m.toml"),
        ("sweep s.toml --out", "s.toml"),
        ("reproduce f.toml --json", "f.toml"),
        ("reproduce f.toml --json", "m.toml"),
        ("reproduce f.toml --html", "f.toml"),
        ("litmus t.litmus --crashes 1 --json", "t.litmus"),
        ("bench sim -m m.toml --cores 1 -w hash -d lb --references 1000 --json", "m.toml"),
        ("bench dimms -m m.toml --json", "m.toml"),
        ("bench cc -m m.toml --threads 1 --json", "m.toml"),
        ("validate -m m.toml --json", "m.toml"),
        ("whisper echo -m m.toml --ops 5 --json", "m.toml"),
    ];
    for (line, file) in over {
        for name in ["", "./", "soft-", "hard-"].map(|other| format!("{other}{file}")) {
            refused(inputs.path(), &format!("{line} {name}"));
        }
    }
    assert_eq!(inputs.read(), before);
    for name in NAMES {
        let soft = inputs.at(&format!("soft-{name}"));
        assert!(soft.is_symlink(), "{name}");
    }
    assert!(!inputs.at("new.jsonl").exists(), "nothing has begun");
}

#[test]
fn no_command_writes_over_what_it_makes_or_writes_besides() {
    let inputs = Inputs::new();
    symlink("new", inputs.at("link")).unwrap();
    let lines = [
        "run queue --ops 5 --file new --json new",
        "run queue --ops 5 --file ./new --json link",
        "run queue --ops 5 --file new --witness link",
        "run queue --ops 5 --witness new --json new",
        "sweep s.toml --out new.partial --plot new",
        "sweep s.toml --out new --plot link",
        "sweep s.toml --plot s.jsonl",
        "sweep s.toml --html s.jsonl",
        "explore hash --resume new --json new",
        "explore hash --resume new --html link",
        "explore hash --json new --html ./new",
        "compare -w hash --json new --plot link",
        "compare -w hash --html new --plot link",
        "compare -w hash --csv new --latex link",
        "compare -w hash -d lb --json new --trace link",
        "kernels lu:8 --json new --plot link",
        "validate --json new.svg --plots .",
        "reproduce f.toml --json new.svg --plots .",
    ];
    let count = || fs::read_dir(inputs.path()).unwrap().count();
    let before = count();
    for line in lines {
        refused(inputs.path(), line);
        assert_eq!(count(), before, "seawall {line} has begun");
    }
}

#[test]
fn what_is_standard_output_by_another_name_keeps_what_is_printed() {
    let inputs = Inputs::new();
    for name in ["/dev/stdout", "out.txt"] {
        let out = fs::File::create(inputs.at("out.txt")).unwrap();
        let args = ["pool", "info", "a.pool", "--json", name];
        assert!(seawall(inputs.path()).args(args).stdout(out).status().unwrap().success());
        let said = fs::read_to_string(inputs.at("out.txt")).unwrap();
        assert!(said.contains("\n{\"file\":\"a.pool\""), "{name}: {said}");
        assert!(said.contains("\nname          queue (workload)\n"), "{name}: {said}");
    }
    let args = ["pool", "check", "a.pool", "--json", "/dev/stdout"];
    let piped = seawall(inputs.path()).args(args).output().unwrap();
    assert_eq!(text(&piped.stdout).lines().count(), 2, "{piped:?}");
}

#[cfg(target_os = "linux")]
#[test]
fn a_named_pipe_is_written_to_as_it_is() {
    let inputs = Inputs::new();
    assert!(Command::new("mkfifo").arg(inputs.at("pipe")).status().unwrap().success());
    let args = ["pool", "check", "a.pool", "--json", "pipe"];
    let child = seawall(inputs.path()).args(args).stdout(Stdio::null()).spawn().unwrap();
    let mut said = String::new();
    fs::File::open(inputs.at("pipe")).unwrap().read_to_string(&mut said).unwrap();
    assert!(child.wait_with_output().unwrap().status.success());
    assert!(said.contains("a.pool"), "{said}");
}

/// Waits until the command is ready for signals, and sends one.
#[cfg(target_os = "linux")]
fn stop(child: Child, signal: &str) -> Output {
    let id = child.id().to_string();
    let is_ready = || {
        let tasks = fs::read_dir(format!("/proc/{id}/task")).into_iter().flatten().flatten();
        let names = tasks.filter_map(|task| fs::read_to_string(task.path().join("comm")).ok());
        names.into_iter().any(|name| name.trim() == "signals")
    };
    while !is_ready() {
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    assert!(Command::new("kill").args([signal, &id]).status().unwrap().success());
    child.wait_with_output().unwrap()
}

#[cfg(target_os = "linux")]
fn start(folder: &Path, line: &str) -> Child {
    let mut command = seawall(folder);
    command.args(line.split(' ')).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
}

#[cfg(target_os = "linux")]
#[test]
fn no_command_that_is_stopped_empties_a_result_file_and_each_says_so() {
    let inputs = Inputs::new();
    let long = MACHINE.replace("lu:8", "lu:2000");
    fs::write(inputs.at("s.toml"), long).unwrap();
    let lines = [
        "compare -w hash -d lb --ops 100000000 --json old",
        "compare -w hash -d lb --ops 100000000 --plot old",
        "compare -w hash -d lb --ops 100000000 --html old",
        "kernels lu:2000 --json old",
        "kernels lu:2000 --html old",
        "compare -w hash -d lb --ops 100000000 --trace old",
        "kernels lu:2000 -d bsp-lb --trace old",
        "kernels lu:2000 --plot old",
        "sweep s.toml --plot old",
        "sweep s.toml --html old",
        "sweep s.toml --csv old",
        "compare -w hash -d lb --ops 100000000 --latex old",
        "run hash --seconds 600 --json old",
        "explore btree --threads 2 --ops 8 --budget 100000000 --json old",
        "explore btree --threads 2 --ops 8 --budget 100000000 --html old",
        "litmus A04 --crashes 1000000000 --json old",
        "reproduce micro15-fig11 --json old",
        "reproduce micro15-fig11 --html old",
        "bench sim --references 1000000000000 --json old",
        "bench dimms --requests 1000000000 --json old",
        "bench explore --seconds 1000 --json old",
        "whisper echo --ops 1000000 --json old",
        "validate --json old",
        "corpus --long --json old",
    ];
    for (at, line) in lines.iter().enumerate() {
        fs::write(inputs.at("old"), "of yesterday").unwrap();
        let signal = if at % 2 == 0 { "-INT" } else { "-TERM" };
        let output = stop(start(inputs.path(), line), signal);
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "seawall {line}\n{said}");
        assert!(said.contains("stopped") && said.contains("old is as it was"), "{line}: {said}");
        assert_eq!(fs::read_to_string(inputs.at("old")).unwrap(), "of yesterday", "{line}");
        let partial = fs::metadata(inputs.at("old.partial"));
        assert_eq!(partial.is_ok(), said.contains("old.partial"), "{line}: {said}");
        assert!(partial.is_ok_and(|file| file.len() > 0) || !said.contains("old.partial"));
        let _ = fs::remove_file(inputs.at("old.partial"));
    }
    let names = fs::read_dir(inputs.path()).unwrap().map(|entry| entry.unwrap().file_name());
    assert!(names.into_iter().all(|name| !name.to_string_lossy().ends_with(".part")));
}

#[cfg(target_os = "linux")]
#[test]
fn ctrl_c_while_a_command_reads_its_inputs_ends_it_with_a_word() {
    let inputs = Inputs::new();
    fs::write(inputs.at("old"), "of yesterday").unwrap();
    let pipe = inputs.at("pipe.litmus");
    assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    let child = start(inputs.path(), "litmus pipe.litmus --crashes 1000000000 --json old");
    // It opens once the command waits for what is written.
    let mut input_of_child = fs::File::options().write(true).open(&pipe).unwrap();
    let id = child.id().to_string();
    assert!(Command::new("kill").args(["-INT", &id]).status().unwrap().success());
    input_of_child.write_all(&fs::read(inputs.at("t.litmus")).unwrap()).unwrap();
    // Who reads it once more finds a file.
    fs::remove_file(&pipe).unwrap();
    fs::copy(inputs.at("t.litmus"), &pipe).unwrap();
    drop(input_of_child);
    let output = child.wait_with_output().unwrap();
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(said.contains("stopped") && said.contains("old is as it was"), "{said}");
    assert_eq!(fs::read_to_string(inputs.at("old")).unwrap(), "of yesterday");
}

#[cfg(target_os = "linux")]
#[test]
fn what_was_finished_goes_beside_the_old_results() {
    let inputs = Inputs::new();
    for name in ["old.json", "old.svg", "old.html"] {
        fs::write(inputs.at(name), "of yesterday").unwrap();
    }
    let line = "kernels radix:64,lu:2000 -d bsp-lb --crashes 0 -j 1 --json old.json --plot old.svg \
                --html old.html";
    let mut child = start(inputs.path(), line);
    let mut stderr = BufReader::new(child.stderr.take().unwrap());
    let mut said = String::new();
    while !said.contains("radix: done") {
        assert!(stderr.read_line(&mut said).unwrap() > 0, "{said}");
    }
    assert_eq!(stop(child, "-TERM").status.code(), Some(2));
    stderr.read_to_string(&mut said).unwrap();
    for name in ["old.json", "old.svg", "old.html"] {
        assert_eq!(fs::read_to_string(inputs.at(name)).unwrap(), "of yesterday");
        let wanted = format!("finished is in {name}.partial; {name} is as it was");
        assert!(said.contains(&wanted), "{said}");
    }
    let records = fs::read_to_string(inputs.at("old.json.partial")).unwrap();
    assert_eq!(records.matches("\"partial\":true").count(), 2, "{records}");
    assert!(fs::read_to_string(inputs.at("old.svg.partial")).unwrap().contains("</svg>"));
    let page = fs::read_to_string(inputs.at("old.html.partial")).unwrap();
    assert!(page.contains("Stopped after 2 of 4 cells") && !page.contains("id=\"partial\" hidden"));
}
