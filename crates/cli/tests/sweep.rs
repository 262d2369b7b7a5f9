//! `seawall sweep` from outside: what is printed is the same whatever interrupted the run, a file
//! of something else is not touched, and what is wrong with an experiment is named.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

const EXPERIMENT: &str = "bsp-sweep-quick";

fn sweep(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_seawall")).arg("sweep").args(args).output().unwrap()
}

/// Runs `seawall sweep`, wants exit code `code`, gives what it printed.
fn run(code: i32, args: &[&str]) -> String {
    let output = sweep(args);
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let (out, err) = (text(&output.stdout), text(&output.stderr));
    assert_eq!(output.status.code(), Some(code), "sweep {args:?}\n{out}\n{err}");
    assert!(!err.contains("panicked"), "sweep {args:?}\n{err}");
    if code == 2 { err } else { out }
}

#[cfg(unix)]
fn start(args: &[&str]) -> Child {
    let mut command = Command::new(env!("CARGO_BIN_EXE_seawall"));
    command.arg("sweep").args(args).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
}

/// Sends what Ctrl-C sends, and waits for the end.
#[cfg(unix)]
fn interrupt(child: Child) -> Output {
    let id = child.id().to_string();
    assert!(Command::new("kill").args(["-INT", &id]).status().unwrap().success());
    child.wait_with_output().unwrap()
}

/// Whole lines of a file.
fn lines_of(path: &Path) -> usize {
    fs::read_to_string(path).map_or(0, |text| text.matches('\n').count())
}

struct Folder(tempfile::TempDir);

impl Folder {
    fn new() -> Folder {
        Folder(tempfile::tempdir().unwrap())
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn write(&self, name: &str, text: &str) -> String {
        fs::write(self.path(name), text).unwrap();
        self.path(name).to_str().unwrap().to_owned()
    }
}

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

/// The first of these, or all in the long run (`SEAWALL_LONG=1`).
fn chosen(counts: [usize; 3]) -> impl Iterator<Item = usize> {
    let is_long_run = std::env::var_os("SEAWALL_LONG").is_some();
    counts.into_iter().take(if is_long_run { 3 } else { 1 })
}

#[test]
fn the_table_and_the_file_are_the_same_with_any_jobs_and_after_any_interruption() {
    let folder = Folder::new();
    let out = folder.path("out.jsonl");
    let whole = run(0, &[EXPERIMENT, "--out", text(&out)]);
    assert!(whole.contains("each left a consistent cut"), "{whole}");
    let lines = fs::read_to_string(&out).unwrap();
    assert_eq!(run(0, &[EXPERIMENT, "--out", text(&out)]), whole, "nothing was left to do");
    assert_eq!(fs::read_to_string(&out).unwrap(), lines);
    let alone = folder.path("alone.jsonl");
    assert_eq!(run(0, &[EXPERIMENT, "--out", text(&alone), "--jobs", "1"]), whole);
    assert_eq!(fs::read_to_string(&alone).unwrap(), lines);
    let mut kept: Vec<&str> = lines.lines().collect();
    kept.reverse();
    for count in chosen([9, 1, kept.len() - 1]) {
        let next = kept.get(count).map_or("", |line| &line[..line.len() / 2]);
        let part = kept[..count].join("\n") + "\n" + next;
        let file = folder.write("part.jsonl", &part);
        assert_eq!(run(0, &[EXPERIMENT, "--out", &file, "--jobs", "2"]), whole, "after {count}");
        assert_eq!(fs::read_to_string(&file).unwrap(), lines, "after {count}");
    }
}

#[cfg(unix)]
#[test]
fn a_sweep_that_was_really_interrupted_prints_the_same_table_in_the_end() {
    let folder = Folder::new();
    let whole = run(0, &[EXPERIMENT, "--out", text(&folder.path("whole.jsonl"))]);
    for count in chosen([7, 1, 20]) {
        let out = folder.path(&format!("{count}.jsonl"));
        let mut child = start(&[EXPERIMENT, "--out", text(&out), "--jobs", "2"]);
        while lines_of(&out) < count && child.try_wait().unwrap().is_none() {
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
        interrupt(child);
        assert!(lines_of(&out) >= count);
        assert_eq!(run(0, &[EXPERIMENT, "--out", text(&out)]), whole, "after {count} points");
    }
}

#[test]
fn each_line_says_all_that_the_point_depends_on() {
    let folder = Folder::new();
    let out = folder.path("out.jsonl");
    run(0, &[EXPERIMENT, "--out", text(&out)]);
    let lines = fs::read_to_string(&out).unwrap();
    for line in lines.lines() {
        let record: serde_json::Value = serde_json::from_str(line).unwrap();
        for key in ["experiment", "kernel", "size", "threads", "seed", "design", "cycles", "time"] {
            assert!(!record[key].is_null(), "{key} in {line}");
        }
        assert!(record["machine_parameters"]["core"]["count"].is_u64(), "{line}");
        assert!(record["parameters"].is_object() && record["version"].is_string(), "{line}");
        let cycles = record["stall_cycles"].as_object().unwrap().values();
        let all: u64 = cycles.map(|cycles| cycles.as_u64().unwrap()).sum();
        let threads = record["threads"].as_u64().unwrap();
        assert_eq!(all, threads * record["cycles"].as_u64().unwrap(), "{line}");
    }
    let all: std::collections::BTreeSet<&str> = lines.lines().collect();
    assert_eq!(all.len(), lines.lines().count(), "each point once");
}

#[test]
fn a_file_of_another_experiment_is_refused_and_not_touched() {
    let folder = Folder::new();
    let small = "title = 't'\nmachine = 'desktop'\nkernels = ['lu:8']\ndesigns = ['bsp-lb']\n\
                 [[factor]]\nname = 'banks'\nmachine = 'memory.banks'\nvalues = [2, 4]\n";
    let one = folder.write("one.toml", small);
    let two = folder.write("two.toml", &small.replace("lu:8", "lu:9"));
    let out = folder.path("out.jsonl");
    run(0, &[&one, "--out", text(&out)]);
    let before = fs::read(&out).unwrap();
    let message = run(2, &[&two, "--out", text(&out)]);
    for words in ["out.jsonl, line 1", "lu:8", "--out"] {
        assert!(message.contains(words), "{words} in {message}");
    }
    assert_eq!(fs::read(&out).unwrap(), before);
    let lines = String::from_utf8(before.clone()).unwrap();
    let other = folder.write("other.jsonl", &lines.replace("\"cycles\":", "\"cycles\":9"));
    let message = run(2, &[&one, "--out", &other]);
    assert!(message.contains("another build") && message.contains("not 9"), "{message}");
    let letter = folder.write("letter.txt", "dear reader");
    run(2, &[&one, "--out", &letter]);
    assert_eq!(fs::read_to_string(&letter).unwrap(), "dear reader");
    assert!(run(2, &[&one, "--out", "/dev/null"]).contains("no ordinary file"));
    assert!(run(2, &[&one, "--out", "/no/such/folder/x"]).contains("/no/such/folder/x"));
    assert!(run(2, &[&one, "--out", &two]).contains("is not of this experiment"));
    let more = folder.write("one.toml", &small.replace("[2, 4]", "[2, 4, 8]"));
    run(0, &[&more, "--out", text(&out)]);
    assert!(fs::read(&out).unwrap().starts_with(&before), "a value more goes on");
}

#[test]
fn what_is_wrong_with_an_experiment_is_named_with_what_would_be_right() {
    let folder = Folder::new();
    let good = "title = 't'\nmachine = 'desktop'\nkernels = ['lu:8']\ndesigns = ['bsp-lb']\n\
                [[factor]]\nname = 'cores'\nmachine = 'core.count'\nvalues = [1, 2]\n";
    let refused = |from: &str, to: &str, words: &[&str]| {
        assert!(good.contains(from), "{from}");
        let file = folder.write("bad.toml", &good.replace(from, to));
        let message = run(2, &[&file, "--out", text(&folder.path("none.jsonl"))]);
        for word in words {
            assert!(message.contains(word), "{to}: {word} in\n{message}");
        }
    };
    refused("title", "titel", &["titel", "title"]);
    refused("values", "value", &["value", "values"]);
    refused("'desktop'", "'desktopp'", &["desktopp", "micro15, desktop"]);
    refused("'lu:8'", "'lv'", &["lv", "ssca2"]);
    refused("['lu:8']", "[]", &["kernels", "at least one"]);
    refused("'bsp-lb'", "'bsp'", &["bsp", "bsp-lb"]);
    refused("[1, 2]", "[1, 65]", &["cores", "core.count = 65", "1 to 64"]);
    refused("[1, 2]", "[1, 1]", &["cores", "value 1", "twice"]);
    refused("[1, 2]", "['one']", &["one"]);
    refused("[1, 2]", "[]", &["cores", "at least one"]);
    refused("[1, 2]", "[[1, 2]]", &["cores", "must be one"]);
    refused("'core.count'", "'core.counts'", &["core.counts", "count"]);
    refused("machine = 'core", "design = 'core", &["cores", "core.count", "epochs"]);
    refused("machine = 'core.count'\n", "", &["cores", "machine = "]);
    refused("name", "designs = ['lb']\nname", &["cores", "lb", "designs"]);
    refused("title", "factors = 'two'\ntitle", &["two", "one"]);
    refused("title", "threads = 5\ntitle", &["5 threads", "at most 4"]);
    refused("title", "threads = 0\ntitle", &["threads is 0", "at least 1"]);
    let file = folder.write("bad.toml", &good.replace("title", "threads = 0\ntitle"));
    assert!(!run(2, &[&file]).contains("--threads"));
    refused("'core.count'", "['core.count', 'core.count']", &["cores", "core.count", "twice"]);
    let missing = run(2, &["/no/such.toml"]);
    assert!(missing.contains("cannot read") && !missing.contains("writable"), "{missing}");
    assert!(run(2, &["bsp"]).contains("known: bsp-sweep, bsp-sweep-quick"));
    assert!(run(2, &["/no/such.toml"]).contains("/no/such.toml"));
    assert!(run(2, &[EXPERIMENT, "--jobs", "0"]).contains("--jobs"));
    assert!(!folder.path("none.jsonl").exists());
}

#[test]
fn workloads_take_in_a_sweep_what_they_take_in_compare() {
    let folder = Folder::new();
    let file = folder.write(
        "w.toml",
        "title = 't'\nmachine = 'desktop'\nkernels = ['lu:4']\nworkloads = ['hash', 'queue']\n\
         operations = 40\nentries = 512\ndesigns = ['lbpp']\ncrashes = 2\n\
         [[factor]]\nname = 'cores'\nmachine = 'core.count'\nvalues = [2, 4]\n",
    );
    let (out, json) = (folder.path("w.jsonl"), folder.path("c.jsonl"));
    let printed = run(0, &[&file, "--out", text(&out)]);
    assert!(printed.contains("design  value    lu  hash  queue  mean"), "{printed}");
    assert!(printed.contains("12 results: all right; 8 crashes: none broke"), "{printed}");
    let lines = fs::read_to_string(&out).unwrap();
    let mut cut = lines.lines().rev().take(5).collect::<Vec<_>>().join("\n");
    cut.truncate(cut.len() - 9);
    let part = folder.write("part.jsonl", &cut);
    assert_eq!(run(0, &[&file, "--out", &part]), printed, "it goes on");
    assert_eq!(fs::read_to_string(&part).unwrap(), lines);
    let words = "compare -w hash,queue -d volatile,lbpp --baseline volatile --ops 40 --entries 512 \
                 --crashes 2 -m desktop:core.count=2 --json";
    let mut compare = Command::new(env!("CARGO_BIN_EXE_seawall"));
    assert!(compare.args(words.split(' ')).arg(&json).output().unwrap().status.success());
    let records = |text: String| -> Vec<serde_json::Value> {
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    };
    let swept = records(lines);
    for cell in records(fs::read_to_string(json).unwrap()) {
        let is_it = |record: &&serde_json::Value| {
            let of = |key: &str| record[key] == cell[key];
            of("workload") && of("design") && record["threads"] == 2
        };
        let record = swept.iter().find(is_it).unwrap();
        assert_eq!((&record["cycles"], &record["counters"]), (&cell["cycles"], &cell["counters"]));
        let time = record["time"].as_f64().unwrap();
        assert!((time * cell["relative"].as_f64().unwrap() - 1.0).abs() < 1e-9, "{record}");
        let judged = (cell["model"] != "none").then_some(2);
        assert_eq!(record["judged"].as_u64(), judged, "{record}");
    }
}

#[test]
fn what_is_wrong_with_what_a_sweep_runs_is_named() {
    let folder = Folder::new();
    let refused = |runs: &str, words: &str| {
        let text = format!(
            "title = 't'\nmachine = 'desktop'\n{runs}\ndesigns = ['lb']\n\
             [[factor]]\nname = 'cores'\nmachine = 'core.count'\nvalues = [1]\n"
        );
        let message = run(2, &[&folder.write("bad.toml", &text)]);
        assert!(message.contains(words), "{runs}: {words} in\n{message}");
    };
    refused("", "kernels is empty; it must be a list of at least one, or give workloads");
    refused("workloads = ['hsh']", "a similar name exists: 'hash'");
    refused("workloads = ['hash', 'hash']", "hash is named twice");
    refused("workloads = ['hash']\noperations = 0", "operations is 0; it must be 1 to");
    refused("workloads = ['hash']\nsize = 'small'", "where there is a size");
    refused("kernels = ['lu:4']\noperations = 9", "where there are operations or entries");
    refused("kernels = ['lu:4']\nfence = 'drain'", "where there are checks, pm, fence or from");
    refused("programs = ['no-such-program']", "there is none called 'no-such-program'");
    refused("programs = ['cat']", "cat");
    refused("programs = ['cat']\npm = 'none'", "unknown variant `none`, expected one of `files`");
}

#[test]
fn all_combinations_meet_and_are_drawn() {
    let folder = Folder::new();
    let file = folder.write(
        "all.toml",
        "title = 't'\nmachine = 'desktop'\nkernels = ['lu:8']\ndesigns = ['bsp-lbpp']\n\
         factors = 'all'\n\
         [[factor]]\nname = 'stores'\ndesign = 'stores'\nvalues = [50, 10000]\n\
         [[factor]]\nname = 'pairs'\ndesign = 'registers'\nvalues = [0, 4]\n\
         [[factor]]\nname = 'banks'\nmachine = ['llc.banks', 'llc.kib_per_bank']\n\
         values = [[2, 4096], [4, 2048], [8, 1024]]\n",
    );
    let (out, plot) = (folder.path("all.jsonl"), folder.path("all.svg"));
    let printed = run(0, &[&file, "--out", text(&out), "--plot", text(&plot)]);
    assert!(printed.contains("mean over all values of the other factors"), "{printed}");
    assert_eq!(fs::read_to_string(&out).unwrap().lines().count(), 2 * 2 * 3 + 3);
    let svg = fs::read_to_string(&plot).unwrap();
    assert!(svg.contains("by stores") && svg.contains("by banks"), "a chart for each factor");
    assert!(run(2, &[&file, "--out", text(&out), "--plot", text(&out)]).contains("same file"));
}

#[test]
fn a_key_of_two_factors_is_refused_where_they_meet() {
    let folder = Folder::new();
    let of = |mode: &str, first: &str, second: &str| {
        let text = format!(
            "title = 't'\nmachine = 'desktop'\nkernels = ['lu:8']\nfactors = '{mode}'\n\
             designs = ['bsp-lb', 'bsp-lbpp']\n\
             [[factor]]\nname = 'a'\n{first}\n[[factor]]\nname = 'b'\n{second}\n"
        );
        let file = folder.write("two.toml", &text);
        let out = folder.path("two.jsonl");
        let _ = fs::remove_file(&out);
        (file, out)
    };
    let short = "design = 'stores'\nvalues = [50, 60]";
    let long = "design = 'stores'\nvalues = [900]";
    let (lb, lbpp) = ("\ndesigns = ['bsp-lb']", "\ndesigns = ['bsp-lbpp']");
    let (file, out) = of("all", short, long);
    let message = run(2, &[&file, "--out", text(&out)]);
    for words in ["'a'", "'b'", "stores"] {
        assert!(message.contains(words), "{words} in {message}");
    }
    let (file, out) = of("all", &format!("{short}{lb}"), long);
    run(2, &[&file, "--out", text(&out)]);
    let (file, out) = of("all", &format!("{short}{lb}"), &format!("{long}{lbpp}"));
    run(0, &[&file, "--out", text(&out)]);
    let (file, out) = of("one", short, long);
    run(0, &[&file, "--out", text(&out)]);
}

#[test]
fn points_go_to_a_file_of_the_whole_name_and_an_optional_number_is_swept() {
    let folder = Folder::new();
    folder.write(
        "x.v1.toml",
        "title = 't'\nmachine = 'desktop'\nkernels = ['lu:8']\ndesigns = ['bsp-lb']\n\
         [[factor]]\nname = 'width'\nmachine = 'core.parallelism'\nvalues = [500, 4000]\n",
    );
    let mut command = Command::new(env!("CARGO_BIN_EXE_seawall"));
    let status = command.args(["sweep", "x.v1.toml"]).current_dir(&folder.0).output().unwrap();
    assert!(status.status.success());
    assert_eq!(lines_of(&folder.path("x.v1.jsonl")), 4);
}

#[cfg(unix)]
#[test]
fn an_interrupted_sweep_says_how_to_go_on_and_its_points_stay() {
    let folder = Folder::new();
    let long = "title = 't'\nmachine = 'desktop'\nkernels = ['ocean:20', 'lu:1500']\n\
                designs = ['bsp-lb']\nfactors = 'all'\nbaseline = 'volatile'\n\
                [[factor]]\nname = 'banks'\nmachine = 'memory.banks'\nvalues = [2, 4]\n";
    let file = folder.write("long.toml", long);
    let out = folder.path("out.jsonl");
    let plot = folder.path("part.svg");
    let child = start(&[&file, "--out", text(&out), "--jobs", "1", "--plot", text(&plot)]);
    while lines_of(&out) == 0 {
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    let refused = sweep(&[&file, "--out", text(&out)]);
    assert!(String::from_utf8_lossy(&refused.stderr).contains("another seawall"));
    let output = interrupt(child);
    assert_eq!(output.status.code(), Some(2));
    let printed = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(printed.contains("PARTIAL: ") && printed.contains("goes on from there"), "{printed}");
    let partial = fs::read_to_string(folder.path("part.svg.partial")).unwrap();
    assert!(partial.contains("</svg>") && !plot.exists());
    let text = fs::read_to_string(&out).unwrap();
    assert!(text.ends_with('\n') && text.lines().count() < 8, "{text}");
}

#[test]
fn a_cluster_needs_a_python_and_has_no_jobs() {
    let words = ["sweep", EXPERIMENT, "--dask", "tcp://127.0.0.1:9"];
    let mut command = Command::new(env!("CARGO_BIN_EXE_seawall"));
    let output = command.args(words).env("SEAWALL_PYTHON", "/no/such/python").output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(
        said.contains("cannot run /no/such/python") && said.contains("SEAWALL_PYTHON"),
        "{said}"
    );
    let said = run(2, &[EXPERIMENT, "--dask", "tcp://127.0.0.1:9", "--jobs", "2"]);
    assert!(said.contains("cannot be used with"), "{said}");
}
