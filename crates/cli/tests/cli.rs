//! The command line from outside: exit codes, messages, and files that must not be touched.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

fn seawall(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_seawall")).args(args).output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Runs it, wants exit code `code`, gives what it printed.
fn run(code: i32, args: &[&str]) -> String {
    let output = seawall(args);
    let (out, err) = (text(&output.stdout), text(&output.stderr));
    assert_eq!(output.status.code(), Some(code), "seawall {args:?}\n{out}\n{err}");
    assert!(!err.contains("panicked"), "seawall {args:?}\n{err}");
    if code == 2 { err } else { out }
}

fn refuses(args: &[&str], words: &[&str]) {
    let message = run(2, args);
    for word in words {
        assert!(message.contains(word), "seawall {args:?}: {word} is not in\n{message}");
    }
}

const SMALL: [&str; 11] = [
    "compare",
    "--machine",
    "desktop",
    "--ops",
    "40",
    "--entries",
    "64",
    "--workloads",
    "hash,queue",
    "--designs",
    "lb,lbpp",
];

fn small<'a>(more: &[&'a str]) -> Vec<&'a str> {
    SMALL.iter().chain(more).copied().collect()
}

fn path(path: &Path) -> &str {
    path.to_str().unwrap()
}

#[test]
fn a_name_like_an_unknown_one_is_offered() {
    refuses(&["compare", "--designs", "lbq"], &["tip: a similar name exists: 'lb"]);
    refuses(&["run", "hsh"], &["tip: a similar name exists: 'hash'"]);
    refuses(&["explore", "btre"], &["tip: a similar name exists: 'btree'"]);
    refuses(&["corpus", "p-clth"], &["tip: a similar name exists: 'p-clht"]);
    refuses(&["litmus", "--designs", "hopps"], &["tip: a similar name exists: 'hops'"]);
    refuses(&["show", "machine", "micro51"], &["tip: a similar name exists: 'micro15'"]);
    let nothing_alike = run(2, &["compare", "--designs", "zzz"]);
    assert!(!nothing_alike.contains("tip"), "{nothing_alike}");
}

#[test]
fn a_shell_completes_names_and_manual_pages_have_the_commands_and_their_flags() {
    for shell in ["bash", "elvish", "fish", "powershell", "zsh"] {
        let script = run(0, &["completions", shell]);
        assert!(script.contains("SEAWALL_COMPLETE") && script.contains("seawall"), "{shell}");
    }
    let script = run(0, &["completions", "bash"])
        + "\n\
        for COMP_LINE in \"$@\"; do\n\
            COMP_POINT=${#COMP_LINE}; _seawall seawall; echo \"${COMPREPLY[*]}\"\n\
        done";
    let binaries = Path::new(env!("CARGO_BIN_EXE_seawall")).parent().unwrap();
    let all = format!("{}:{}", binaries.display(), std::env::var("PATH").unwrap_or_default());
    let lines = ["seawall compare -w que", "seawall compare -d lb,lbpp:ep", "seawall repr"];
    let mut bash = Command::new("bash");
    let output = bash.env("PATH", all).args(["-c", &script, "bash"]).args(lines).output().unwrap();
    assert_eq!(text(&output.stdout).lines().collect::<Vec<_>>(), ["queue", "epochs=", "reproduce"]);
    assert!(output.stderr.is_empty(), "{}", text(&output.stderr));
    let folder = tempfile::tempdir().unwrap();
    run(0, &["man", path(folder.path())]);
    let page = fs::read_to_string(folder.path().join("seawall-compare.1")).unwrap();
    assert!(page.contains("\\-\\-crashes"), "{page}");
    assert!(folder.path().join("seawall.1").exists());
    let file = folder.path().join("seawall.1");
    refuses(&["man", path(&file)], &["seawall.1"]);
}

#[test]
fn what_is_unknown_is_answered_with_what_is_known() {
    refuses(&["compare", "--designs", "lbq"], &["lbq", "lb-idt", "lbpp"]);
    refuses(&["compare", "--designs", "lbpp:epoch=3"], &["epoch", "epochs", "registers"]);
    refuses(&["compare", "--designs", "hops:entries=x"], &["hops", "entries=x", "1 to 255"]);
    refuses(&["show", "design", "asap:flaw=x"], &["asap", "flaw=x", "none, "]);
    refuses(&["compare", "--workloads", "hsah"], &["hsah", "hash", "rbtree"]);
    refuses(&["compare", "--machine", "micro16"], &["micro16", "micro15", "desktop", ".toml"]);
    refuses(&["compare", "--designz", "lb"], &["--designz", "--designs"]);
    refuses(&["run", "hsah"], &["hsah", "hash"]);
    refuses(&["explore", "hsah"], &["hsah", "hash"]);
    refuses(&["explore", "hash", "--model", "tso"], &["tso", "px86", "bep"]);
    refuses(&["run", "hash", "--ribbon=maybe"], &["maybe", "auto", "always", "never"]);
    refuses(&["run", "hash", "--flushers", "2"], &["--ribbon"]);
    refuses(&["run", "hash", "--early"], &["--ribbon"]);
    refuses(&["run", "hash", "--dirtiness", "--ribbon"], &["--dirtiness", "--ribbon"]);
    let wish = ["run", "hash", "--ribbon", "--early=late"];
    refuses(&wish, &["late", "auto", "samples", "pages", "soft-dirty", "hook"]);
    refuses(&["run", "hash", "--ribbon", "--recover", "a.pool"], &["--ribbon", "--recover"]);
    refuses(&["run", "hash", "--ribbon=always", "--domain", "none"], &["domain none", "auto"]);
    refuses(&["compare", "--designs", "lb,hops", "--ribbon"], &["lb, hops flush no lines"]);
    refuses(&["compare", "--designs", "clwb", "--early"], &["--ribbon"]);
    refuses(&["compare", "--ribbon", "--early=pages"], &["'pages'", "hook, samples"]);
    refuses(
        &["compare", "--designs", "clwb", "--threads", "30", "--ribbon", "--flushers", "3"],
        &["30 threads and 3 flushers", "core.count"],
    );
    refuses(
        &["explore", "hash", "--mix", "ycsb-e"],
        &["hash does not have its keys", "fastfair, redis-ycsb, redis"],
    );
    refuses(&["explore", "hash", "--mix", "ycsb-x"], &["ycsb-x", "ycsb-load"]);
    refuses(&["run", "hash", "--domain", "disk"], &["disk", "line", "page"]);
    refuses(&["reproduce", "s2-fig99"], &["s2-fig99", "micro15-fig11"]);
    refuses(&["reproduce", "micro15-flush", "--jobs", "0"], &["--jobs is 0", "1 to 1024"]);
    refuses(
        &["reproduce", "micro15-fig14", "--programs", "nowhere"],
        &["nowhere has none of the programs", "stamp-tl2/ssca2/ssca2"],
    );
    let without = ["reproduce", "micro15-fig11", "--programs", "nowhere"];
    refuses(&without, &["none of them has programs", "leave the option out"]);
    refuses(&["reproduce", "micro15-flush", "--keep", "Cargo.toml"], &["Cargo.toml", "--keep"]);
    refuses(&["show", "machine", "micro16"], &["micro15"]);
    refuses(&["show", "design", "lbq"], &["lbpp"]);
    refuses(&["list", "desings"], &["designs"]);
    refuses(&["explore", "hash", "--model", "px86,"], &["--model", "a name is missing"]);
    refuses(&["explore", "hash", "--model", "px86, bpe"], &["unknown persistency model `bpe`"]);
    refuses(&["compare", "-w", "hash,,queue"], &["--workloads", "a name is missing"]);
}

#[test]
fn numbers_out_of_range_are_named_with_their_range() {
    refuses(&small(&["--threads", "0"]), &["--threads", "at least 1"]);
    refuses(&small(&["--threads", "5"]), &["5 threads", "at most 4"]);
    refuses(&["compare", "--ops", "0"], &["--ops", "1 to"]);
    refuses(&["compare", "--search", "101"], &["--search", "0 to 100"]);
    refuses(&["compare", "--jobs", "0"], &["--jobs"]);
    refuses(&["compare", "--entries", "0"], &["entries", "1 to"]);
    refuses(&["compare", "--entries", "200000000"], &["--entries", "fewer", "bytes"]);
    refuses(&["run", "hash", "--threads", "0"], &["threads", "1 to 1024"]);
    refuses(&["run", "hash", "--seconds=-1"], &["seconds"]);
    refuses(&["explore", "hash", "--threads", "0"], &["threads"]);
    refuses(&["explore", "hash", "--replay", "nonsense"], &["nonsense"]);
    refuses(&["explore", "hash", "--budget", "0"], &["budget is 0"]);
    refuses(&["bench", "sim", "--references", "0"], &["--references", "1000 to"]);
    refuses(&["compare", "--baseline", "lb", "--designs", "clwb"], &["baseline", "clwb"]);
    refuses(&small(&["--json", "one", "--plot", "one"]), &["--json", "--plot", "same file"]);
}

#[test]
fn a_trace_is_of_one_cell_and_its_window_is_one_of_the_run() {
    let one =
        ["compare", "-m", "desktop", "--ops", "40", "-w", "hash", "-d", "lbpp", "--trace", "x"];
    let with = |window: &'static str| [&one[..], &["--trace-window", window]].concat();
    for window in ["5", "9..3", "a..b", "op:1..2"] {
        refuses(&with(window), &["--trace-window", window, "10000..20000", "ops:100..200"]);
    }
    refuses(&with("ops:180.."), &["ops:180..", "the run has 180 operations"]);
    refuses(&small(&["--trace", "x"]), &["4 are named", "hash under lb,", "name one workload"]);
    refuses(
        &["kernels", "lu", "--trace", "x"],
        &["4 are named", "lu under bsp-lb-idt", "one design"],
    );
    let kernel = ["kernels", "lu:8", "-d", "bsp-lb", "--trace", "x", "--trace-window", "ops:1..2"];
    refuses(&kernel, &["in cycles", "a kernel reports no operations"]);
    refuses(&["compare", "--trace-window", "1..2"], &["--trace <FILE>"]);
    let program = ["compare", "--program", "true", "--trace", "x"];
    refuses(&[&program[..], &["-d", "lb,clwb"]].concat(), &["true under lb,", "name one"]);
    assert!(!Path::new("x").exists());
}

#[test]
fn a_trace_is_written_and_the_output_says_what_it_has() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("t.perfetto");
    let small = ["compare", "-m", "desktop", "--ops", "40", "-w", "hash", "-d", "clwb"];
    let line = [&small[..], &["--ribbon", "--flushers", "1"]].concat();
    let said = run(0, &[&line[..], &["--trace", path(&file)]].concat());
    assert!(said.contains("trace of hash under clwb+ribbon: cycles 0 to "), "{said}");
    let whole = fs::read(&file).unwrap();
    assert_eq!(whole[0], 10, "a packet, in a field of number 1");
    let window = ["--trace-window", "ops:60..90", "--trace", path(&file)];
    let said = run(0, &[&line[..], &window].concat());
    assert!(said.contains("trace of hash under clwb+ribbon: cycles "), "{said}");
    assert!(fs::read(&file).unwrap().len() < whole.len() / 2);
    let late = ["--trace-window", "99999999..", "--trace", path(&file)];
    let said = run(0, &[&line[..], &late].concat());
    assert!(said.contains("empty, as the run ends at cycle "), "{said}");
}

#[test]
fn an_error_says_its_cause_once() {
    let message = run(2, &["compare", "--machine", "/no/such/machine.toml"]);
    assert_eq!(message.matches("No such file").count(), 1, "{message}");
    let message = run(2, &["reproduce", "s2-fig99"]);
    assert!(message.contains("known: pact20-4") && message.contains("s2-fig99"), "{message}");
}

#[test]
fn options_of_workloads_are_refused_beside_a_program_of_others() {
    let options = [
        "--defragment=ffccd",
        "--cost=libpmemobj",
        "--workloads=hash",
        "--threads=2",
        "--ops=9",
        "--entries=9",
        "--search=9",
        "--mix=ycsb-a",
        "--flaw=no-order",
    ];
    for option in options {
        refuses(&["compare", "--program", "true", option], &["cannot be used with", "--program"]);
    }
    for options in [
        ["compare", "--workloads=queue", "--check=true"],
        ["compare", "--workloads=queue", "--profile"],
        ["compare", "--ops=5", "--program-seconds=3"],
        ["kernels", "lu", "--pm=all"],
        ["explore", "queue", "--check=true"],
        ["explore", "queue", "--prepare=true"],
    ] {
        let option = options[2].split('=').next().unwrap();
        refuses(&options, &[option, "--program"]);
    }
    refuses(&["explore", "--program", "true", "--ribbon"], &["is an option of: seawall compare"]);
}

#[test]
fn a_machine_that_cannot_be_is_refused_with_the_key() {
    let folder = tempfile::tempdir().unwrap();
    let good = run(0, &["show", "machine", "desktop"]);
    let file = folder.path().join("mine.toml");
    let refused = |from: &str, to: &str, words: &[&str]| {
        assert!(good.contains(from), "{from} in\n{good}");
        fs::write(&file, good.replacen(from, to, 1)).unwrap();
        refuses(&["compare", "--machine", path(&file)], words);
    };
    refused("count = 4 ", "count = 0 ", &["core.count = 0", "1 to 64"]);
    refused("kib = 32 ", "kib = 33 ", &["power of two"]);
    refused("banks = 4 ", "banks = 3 ", &["llc.banks = 3", "power of two"]);
    refused("rob = 224", "robb = 224", &["robb", "store_buffer"]);
    refused("[mesh]", "[mash]", &["mash", "mesh"]);
    refused("ghz = 3.0", "ghz = \"fast\"", &["ghz"]);
    refuses(&["compare", "--machine", "/no/such/machine.toml"], &["/no/such/machine.toml"]);
    fs::write(&file, &good).unwrap();
    run(0, &["show", "machine", path(&file)]);
}

#[test]
fn a_comparison_twice_writes_the_same_bytes() {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, more: &[&str]| {
        let file = folder.path().join(name);
        let mut args = small(more);
        args.extend(["--json", path(&file)]);
        run(0, &args);
        fs::read(&file).unwrap()
    };
    let first = write("one", &[]);
    assert_eq!(first, write("two", &["--jobs", "1"]));
    assert_ne!(first, write("three", &["--seed", "2"]));
    for line in text(&first).lines() {
        let record: serde_json::Value = serde_json::from_str(line).unwrap();
        for key in [
            "workload",
            "design",
            "machine",
            "threads",
            "throughput",
            "relative",
            "conflicting_epochs",
            "crashes",
            "broken",
            "stalls",
        ] {
            assert!(!record[key].is_null(), "{key} in {line}");
        }
    }
    assert_eq!(text(&first).lines().count(), 4);
}

#[test]
fn a_broken_structure_is_found_with_the_command_that_repeats_it() {
    let found = run(1, &small(&["--flaw", "no-order", "--crashes", "100"]));
    assert!(found.contains("BROKEN") && found.contains("cycle"), "{found}");
    let command = found.lines().find_map(|line| line.trim().strip_prefix("repeat: seawall "));
    let command: Vec<&str> = command.expect("a command").split(' ').collect();
    assert!(run(1, &command).contains("BROKEN"));
}

#[test]
fn with_a_ribbon_designs_that_flush_have_a_second_row_that_is_crashed_too() {
    let folder = tempfile::tempdir().unwrap();
    let [json, plot] = ["json", "svg"].map(|name| folder.path().join(name));
    let sizes = ["compare", "--machine", "desktop", "--ops", "40", "--entries", "64"];
    let what = ["--workloads", "hash", "--designs", "lb,clwb", "--threads", "2"];
    let ribbon = ["--ribbon=always", "--flushers", "1", "--early"];
    let files = ["--json", path(&json), "--plot", path(&plot)];
    let shown = run(0, &[&sizes[..], &what, &ribbon, &files].concat());
    for words in ["clwb+ribbon", "60 crashes injected", "lines flushed by flushers", "there: lb"] {
        assert!(shown.contains(words), "{words} in\n{shown}");
    }
    assert!(fs::read_to_string(&plot).unwrap().contains("clwb+ribbon"));
    let records: Vec<serde_json::Value> = text(&fs::read(&json).unwrap())
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let designs: Vec<_> = records.iter().map(|record| &record["design"]).collect();
    assert_eq!(designs, ["lb", "clwb", "clwb+ribbon"]);
    assert!(records[1]["ribbon"].is_null());
    let [_, _, with] = &records[..] else { panic!("three") };
    assert_eq!((&with["ribbon"]["mode"], &with["crashes"]), (&"always".into(), &20.into()));
    assert!(with["flushed"]["by_flushers"].as_f64().unwrap() > 0.0, "{with}");
    let command = with["command"].as_str().unwrap().strip_prefix("seawall ").unwrap();
    assert!(run(0, &command.split(' ').collect::<Vec<_>>()).contains("clwb+ribbon"));
}

#[test]
fn a_plot_is_drawn_and_a_file_that_cannot_be_written_is_said_before_the_run() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("plot.svg");
    run(0, &small(&["--plot", path(&file)]));
    assert!(fs::read_to_string(&file).unwrap().contains("</svg>"));
    refuses(&small(&["--json", "/no/such/folder/x"]), &["/no/such/folder/x", "writable"]);
    refuses(&small(&["--plot", path(folder.path())]), &[path(folder.path())]);
}

#[test]
fn crashes_that_a_run_is_too_short_for_are_said_to_be_left_out() {
    let one = |crashes| small(&["--threads", "1", "--crashes", crashes]);
    let told = run(0, &one("1000"));
    assert!(told.contains("--crashes 1000 was cut to 45: "), "{told}");
    assert!(!run(0, &one("44")).contains("was cut"));
}

#[test]
fn entries_that_a_heap_has_no_room_for_are_refused() {
    for command in [&["run", "heap"][..], &["compare", "-w", "heap", "-d", "lb"]] {
        let args = [command, &["--entries", "100000000"]].concat();
        refuses(&args, &["entries is 100000000", "1 to 44739242"]);
    }
}

/// Runs it with at most so many KiB of addresses.
#[cfg(target_os = "linux")]
fn with_addresses(kib: u64, args: &[&str]) -> Output {
    let line = format!("ulimit -v {kib}; exec \"$@\"");
    let shell = ["-c", &line, "sh", env!("CARGO_BIN_EXE_seawall")];
    Command::new("sh").args(shell).args(args).output().unwrap()
}

#[cfg(target_os = "linux")]
#[test]
fn without_memory_or_threads_a_command_says_what_to_do_and_does_not_panic() {
    let commands = [
        &["compare", "-w", "hash", "-d", "lb,clwb", "--ops", "10", "--crashes", "1"][..],
        &["kernels", "lu:8", "--crashes", "1"],
        &["explore", "hash", "--ops", "2", "--budget", "100"],
        &["run", "c-ll", "--ops", "5", "--defragment", "sfccd"],
        &["litmus", "A04", "--crashes", "2"],
    ];
    let starts =
        |kib: &u64| matches!(with_addresses(*kib, &["--version"]).status.code(), Some(0 | 2));
    let least = (30_000..60_000).step_by(500).find(starts).expect("the loader finds room");
    for kib in [least, 60_000, 100_000] {
        for args in commands {
            let output = with_addresses(kib, args);
            let said = text(&output.stderr);
            let code = output.status.code();
            assert!(matches!(code, Some(0 | 2)), "{kib} {args:?}: {code:?}\n{said}");
            assert!(!said.contains("panicked"), "{kib} {args:?}\n{said}");
            assert!(code == Some(0) || said.contains("error: "), "{kib} {args:?}\n{said}");
        }
    }
    let said = text(&with_addresses(60_000, commands[1]).stderr);
    assert!(said.contains("no memory for") && said.contains("--jobs"), "{said}");
}

#[cfg(target_os = "linux")]
#[test]
fn a_full_disk_is_an_error_that_names_the_file() {
    refuses(&small(&["--json", "/dev/full"]), &["/dev/full", "room"]);
    let full = fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
    let output = Command::new(env!("CARGO_BIN_EXE_seawall"))
        .args(["list", "designs"])
        .stdout(full)
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stderr).contains("standard output"));
}

#[test]
fn a_reader_that_goes_away_is_no_error() {
    let mut child = Command::new(env!("CARGO_BIN_EXE_seawall"))
        .args(["list", "designs"])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    assert_eq!(child.wait().unwrap().code(), Some(0));
}

#[test]
fn a_run_leaves_a_pool_that_recovers() {
    let folder = tempfile::tempdir().unwrap();
    let pool = folder.path().join("hash.pool");
    let ran = run(0, &["run", "hash", "--ops", "500", "--threads", "2", "--file", path(&pool)]);
    for word in ["flush", "durability", "operations/s"] {
        assert!(ran.contains(word), "{word} in\n{ran}");
    }
    let recovered = run(0, &["run", "hash", "--recover", path(&pool)]);
    assert!(recovered.contains("invariants hold"), "{recovered}");
}

#[test]
fn a_run_with_a_ribbon_says_what_it_did_and_leaves_a_pool_that_recovers() {
    let folder = tempfile::tempdir().unwrap();
    let (pool, json) = (folder.path().join("hash.pool"), folder.path().join("run.json"));
    let args = ["run", "hash", "--ops", "500", "--ribbon", "--file", path(&pool)];
    let ran = run(0, &[&args[..], &["--flushers", "2", "--json", path(&json)]].concat());
    assert!(ran.contains("ribbon      auto, "), "{ran}");
    let record: serde_json::Value = serde_json::from_slice(&fs::read(&json).unwrap()).unwrap();
    assert_eq!(
        (&record["ribbon"]["mode"], &record["ribbon"]["flushers"]),
        (&"auto".into(), &2.into())
    );
    assert!(record["ribbon"]["at_once"].as_u64() > Some(0), "{record}");
    run(0, &["run", "hash", "--recover", path(&pool)]);
}

#[test]
fn an_existing_file_is_never_run_on() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("letter.txt");
    fs::write(&file, "dear reader").unwrap();
    refuses(&["run", "hash", "--ops", "1", "--file", path(&file)], &[path(&file)]);
    assert_eq!(fs::read_to_string(&file).unwrap(), "dear reader");
}

fn pool(folder: &Path) -> PathBuf {
    let pool = folder.join("queue.pool");
    run(0, &["run", "queue", "--ops", "50", "--entries", "64", "--file", path(&pool)]);
    pool
}

#[test]
fn a_file_that_is_no_pool_of_ours_is_refused_and_left_as_it_is() {
    let folder = tempfile::tempdir().unwrap();
    let good = fs::read(pool(folder.path())).unwrap();
    let refused = |name: &str, bytes: &[u8], words: &[&str]| {
        let file = folder.path().join(name);
        fs::write(&file, bytes).unwrap();
        refuses(&["run", "queue", "--recover", path(&file)], &[words, &[path(&file)]].concat());
        assert_eq!(fs::read(&file).unwrap(), bytes, "{name} was changed");
    };
    refused("empty", b"", &[]);
    refused("letter", b"dear reader", &[]);
    refused("zeros", &vec![0; 1 << 16], &[]);
    refused("truncated", &good[..good.len() / 2], &["bytes"]);
    refused("short", &good[..100], &[]);
    let mut other = good.clone();
    other[..8].copy_from_slice(b"NOTOURS!");
    refused("other", &other, &[]);
    let file = folder.path().join("queue.pool");
    refuses(&["run", "hash", "--recover", path(&file)], &["queue", "hash"]);
    refuses(&["run", "queue", "--recover", "/no/such/pool"], &["/no/such/pool"]);
}

#[test]
fn figures_are_listed_and_printed_beside_the_papers() {
    let list = run(0, &["reproduce", "--list"]);
    for name in ["micro15-fig11", "micro15-fig12", "micro15-flush"] {
        assert!(list.contains(name), "{list}");
    }
    let folder = tempfile::tempdir().unwrap();
    let (figure, json) = (folder.path().join("tiny.toml"), folder.path().join("tiny.json"));
    let tiny = "title = 'tiny'\nsource = 'none'\nmachine = 'desktop'\noperations = 20\n\
                workloads = ['sps']\nmetric = 'throughput'\nbaseline = 'lb'\ntolerance = 0.01\n\
                [[series]]\nname = 'LB++'\ndesign = 'lbpp'\npaper = 99.0\n";
    fs::write(&figure, tiny).unwrap();
    let printed = run(0, &["reproduce", path(&figure), "--json", path(&json)]);
    assert!(printed.contains("99.00") && printed.contains("NO"), "{printed}");
    run(1, &["reproduce", path(&figure), "--strict"]);
    let (kept, pages) = (folder.path().join("kept"), folder.path().join("pages"));
    for already in ["0 runs were done already", "2 runs were done already"] {
        let words = ["reproduce", path(&figure), "--keep", path(&kept), "--pages", path(&pages)];
        let done = seawall(&words);
        assert_eq!(String::from_utf8_lossy(&done.stdout), printed);
        let said = String::from_utf8_lossy(&done.stderr).into_owned();
        assert!(said.contains(already), "{said}");
        let page = fs::read_to_string(pages.join("tiny.md")).unwrap();
        assert!(page.contains("(tiny-values.svg)") && page.contains("does not hold"), "{page}");
        assert!(fs::read_to_string(pages.join("tiny-values.svg")).unwrap().contains("LB++, mean"));
    }
    let record: serde_json::Value = serde_json::from_slice(&fs::read(&json).unwrap()).unwrap();
    for key in ["figure", "series", "point", "paper", "measured", "tolerance", "holds"] {
        assert!(!record[key].is_null(), "{key} in {record}");
    }
    assert_eq!(record["holds"], false);
}

#[cfg(unix)]
#[test]
fn an_interrupted_comparison_prints_what_is_done_and_says_that_it_is_partial() {
    let long = SMALL.map(|arg| if arg == "40" { "100000000" } else { arg });
    let child = Command::new(env!("CARGO_BIN_EXE_seawall"))
        .args(long)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    std::thread::sleep(std::time::Duration::from_millis(700));
    let id = child.id().to_string();
    assert!(Command::new("kill").args(["-INT", &id]).status().unwrap().success());
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(2), "{}", text(&output.stderr));
    assert_eq!(text(&output.stdout), "PARTIAL: stopped before any result was complete\n");
}

#[test]
fn the_simulator_is_timed_beside_gem5() {
    let folder = tempfile::tempdir().unwrap();
    let json = folder.path().join("speed.json");
    let args = ["bench", "sim", "--machine", "desktop", "--cores", "1,4", "--workloads", "queue"];
    let more = ["--designs", "lbpp", "--references", "2000", "--runs", "1", "--json", path(&json)];
    let printed = run(0, &[&args[..], &more].concat());
    assert!(printed.contains("gem5") && printed.contains("peak resident memory"), "{printed}");
    let records = fs::read_to_string(&json).unwrap();
    let records: Vec<serde_json::Value> =
        records.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(records.len(), 4, "two of the queue, two of ht");
    for record in records {
        assert!(record["references_per_second"].as_f64().unwrap() > 0.0, "{record}");
        assert!(record["cores"].is_u64() && record["workload"].is_string(), "{record}");
    }
}

#[test]
fn instructions_are_counted_of_a_point_alone_and_only_where_valgrind_is() {
    let point = ["bench", "sim", "--machine", "desktop", "--cores", "1", "-w", "queue", "-d", "lb"];
    let alone = run(0, &[&point[..], &["--references", "2000", "--alone"]].concat());
    let references = alone.strip_prefix("references ").map(|number| number.trim().parse::<u64>());
    assert!(matches!(references, Some(Ok(1000..4000))), "{alone}");
    let mut command = Command::new(env!("CARGO_BIN_EXE_seawall"));
    let output = command.args(point).arg("--instructions").env("PATH", "").output().unwrap();
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(said.contains("Valgrind") && said.contains("leave the option out"), "{said}");
    assert!(!said.contains("done"), "before anything is timed: {said}");
}

#[test]
fn everything_can_be_listed_and_shown() {
    for (what, word) in [
        ("designs", "lbpp"),
        ("workloads", "sps"),
        ("machines", "micro15"),
        ("figures", "micro15-"),
    ] {
        assert!(run(0, &["list", what]).contains(word));
    }
    assert!(run(0, &["show", "design", "lbpp"]).contains("registers = 4"));
    assert!(run(0, &["doctor"]).contains("flush"));
    assert!(run(0, &["--version"]).contains("seawall"));
    assert!(run(0, &["compare", "--help"]).contains("--designs"));
}
