//! `seawall pool`, as a user meets it: what it says of pools whole, damaged, and of other files.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

fn pool(words: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_seawall")).arg("pool").args(words).output().unwrap()
}

/// Runs it on `file`, wants exit code `code`, gives all that it printed.
fn run(code: i32, command: &str, file: &Path, more: &[&str]) -> String {
    let before = fs::read(file).ok();
    let output = pool(&[&[command, file.to_str().unwrap()], more].concat());
    let out = String::from_utf8_lossy(&output.stdout).into_owned();
    let said = format!("{out}{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(output.status.code(), Some(code), "{command}\n{said}");
    assert!(!said.contains("panicked"), "{said}");
    assert!(fs::read(file).ok() == before, "{command} changed the file");
    said
}

/// Writes one of the pools that the tests of the runtime keep as text.
fn kept(folder: &Path, name: &str) -> PathBuf {
    let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join("../runtime/tests/fixtures");
    let text = fs::read_to_string(fixtures.join(format!("{name}.txt"))).unwrap();
    let hex = |digits: &str| usize::from_str_radix(digits, 16).unwrap();
    let mut lines = text.lines();
    let mut pm = vec![0; hex(lines.next().unwrap().strip_prefix("bytes 0x").unwrap())];
    for (at, digits) in lines.map(|line| line.split_once(' ').unwrap()) {
        for byte in 0..digits.len() / 2 {
            pm[hex(at) + byte] = hex(&digits[2 * byte..2 * byte + 2]) as u8;
        }
    }
    let file = folder.join(name);
    fs::write(&file, pm).unwrap();
    file
}

#[test]
fn a_heap_is_described_and_its_pending_work_counted() {
    let folder = tempfile::tempdir().unwrap();
    let said = run(0, "info", &kept(folder.path(), "large"), &[]);
    for part in ["script (heap)", "uuid", "2 objects in 135168 bytes", "3 of 64 KiB", "sound"] {
        assert!(said.contains(part), "{part} is not in\n{said}");
    }
    let said = run(0, "check", &kept(folder.path(), "committed"), &[]);
    assert!(said.contains("replay 4 transactions and undo 0"), "{said}");
    let said = run(0, "check", &kept(folder.path(), "undo"), &[]);
    assert!(said.contains("replay 0 transactions and undo 1"), "{said}");
    assert_eq!(run(0, "check", &kept(folder.path(), "clean"), &[]).lines().count(), 1);
}

#[test]
fn the_types_of_a_heap_are_named_with_their_fields_and_objects() {
    let folder = tempfile::tempdir().unwrap();
    let (file, json) = (kept(folder.path(), "typed"), folder.path().join("out.json"));
    let said = run(0, "info", &file, &["--json", json.to_str().unwrap()]);
    for part in [
        "type 1        Leaf: 1 objects in 32 bytes\n              value: Bytes<20>\n",
        "type 2        Pair<Leaf, 2>: 1 objects in 48 bytes\n",
        "              value: [u8; 24], next: Option<Ptr<Leaf>>, more: [u32; 2]\n",
    ] {
        assert!(said.contains(part), "{part} is not in\n{said}");
    }
    let record: serde_json::Value =
        serde_json::from_str(&fs::read_to_string(&json).unwrap()).unwrap();
    let leaf = &record["heap"]["types"][0];
    assert_eq!((&leaf["name"], &leaf["size"]), (&"Leaf".into(), &20.into()));
}

#[test]
fn a_pool_of_the_version_before_is_refused_by_the_names_of_both() {
    let folder = tempfile::tempdir().unwrap();
    let file = kept(folder.path(), "clean");
    let mut bytes = fs::read(&file).unwrap();
    bytes[8] = 2;
    fs::write(&file, bytes).unwrap();
    let said = run(2, "check", &file, &[]);
    assert!(said.contains("format version 2, this program reads 3"), "{said}");
}

#[test]
fn the_record_holds_the_same_numbers() {
    let folder = tempfile::tempdir().unwrap();
    let (file, json) = (kept(folder.path(), "clean"), folder.path().join("out.json"));
    run(0, "info", &file, &["--json", json.to_str().unwrap()]);
    let record: serde_json::Value =
        serde_json::from_str(&fs::read_to_string(&json).unwrap()).unwrap();
    assert_eq!((&record["name"], &record["kind"]), (&"script".into(), &"heap".into()));
    assert_eq!(record["heap"]["types"][0]["objects"], record["heap"]["objects"]);
    assert!(record["damage"].is_null());
    let name = file.to_str().unwrap();
    assert!(
        run(2, "info", &file, &["--json", name])
            .contains("the pool file and --json name the same file")
    );
}

#[test]
fn damage_is_named_and_exits_with_1() {
    let folder = tempfile::tempdir().unwrap();
    let file = kept(folder.path(), "clean");
    let whole = fs::read(&file).unwrap();
    for (at, part) in [(70, "checksum"), (192, "generation"), (200, "number of its chunks")] {
        let mut bytes = whole.clone();
        bytes[at] ^= 1;
        fs::write(&file, bytes).unwrap();
        for command in ["info", "check"] {
            let said = run(1, command, &file, &[]);
            assert!(said.contains("DAMAGED") && said.contains(part), "{at}: {said}");
        }
    }
    fs::write(&file, &whole[..whole.len() - 64]).unwrap();
    assert!(run(1, "check", &file, &[]).contains("truncated"));
}

#[test]
fn what_is_no_pool_or_cannot_be_read_exits_with_2() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("notes");
    fs::write(&file, "no pool at all, but some text").unwrap();
    assert!(run(2, "check", &file, &[]).contains("no pool"));
    fs::write(&file, vec![0; 5000]).unwrap();
    assert!(run(2, "info", &file, &[]).contains("cut short"));
    assert!(run(2, "info", folder.path(), &[]).contains("not an ordinary file"));
    assert!(run(2, "info", &folder.path().join("missing"), &[]).contains("missing"));
    let used = kept(folder.path(), "clean");
    let lock = fs::File::open(&used).unwrap();
    lock.lock().unwrap();
    assert!(run(2, "check", &used, &[]).contains("in use"));
}

/// Bytes that a file takes on the disk.
#[cfg(unix)]
fn space(file: &Path) -> u64 {
    use std::os::unix::fs::MetadataExt;
    fs::metadata(file).unwrap().blocks() * 512
}

#[cfg(unix)]
#[test]
fn a_pool_is_judged_by_its_header_however_long_the_file_is() {
    let folder = tempfile::tempdir().unwrap();
    let long = |name: &str| {
        let file = folder.path().join(name);
        fs::OpenOptions::new().create(true).write(true).truncate(false).open(&file).unwrap()
    };
    let huge = 1 << 42;
    long("empty").set_len(huge).unwrap();
    assert!(run(2, "check", &folder.path().join("empty"), &[]).contains("cut short"));
    let sound = kept(folder.path(), "clean");
    let bytes = fs::metadata(&sound).unwrap().len();
    let said = run(0, "check", &sound, &[]);
    fs::OpenOptions::new().write(true).open(&sound).unwrap().set_len(huge).unwrap();
    assert_eq!(run(0, "check", &sound, &[]), said);
    assert!(run(0, "info", &sound, &[]).contains(&format!("{huge} (made with {bytes})")));
    assert!(space(&sound) < 2 * bytes + (1 << 20), "{} bytes", space(&sound));
}

#[cfg(unix)]
#[test]
fn recovery_gives_space_to_what_is_in_use_only() {
    let folder = tempfile::tempdir().unwrap();
    for workload in ["map", "hash"] {
        let file = folder.path().join(workload);
        let seawall = |args: &[&str]| {
            let mut command = Command::new(env!("CARGO_BIN_EXE_seawall"));
            let output = command.args(args).arg(&file).output().unwrap();
            assert!(output.status.success(), "{output:?}");
        };
        seawall(&["run", workload, "--ops", "50", "--entries", "100", "--file"]);
        let bytes = fs::metadata(&file).unwrap().len();
        let longer = fs::OpenOptions::new().write(true).open(&file).unwrap();
        longer.set_len(1 << 40).unwrap();
        seawall(&["run", workload, "--recover"]);
        assert!(space(&file) < 2 * bytes + (1 << 20), "{workload}: {} bytes", space(&file));
        assert_eq!(fs::metadata(&file).unwrap().len(), 1 << 40, "nothing was cut off");
    }
}

#[test]
fn the_pool_of_a_workload_is_described_by_its_header() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("hash.pool");
    let made = Command::new(env!("CARGO_BIN_EXE_seawall"))
        .args(["run", "hash", "--ops", "10", "--entries", "50", "--file"])
        .arg(&file)
        .output()
        .unwrap();
    assert!(made.status.success(), "{made:?}");
    let said = run(0, "info", &file, &[]);
    assert!(said.contains("hash (workload)") && said.contains("--recover"), "{said}");
}
