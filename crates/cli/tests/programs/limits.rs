//! Limits and signals: a command ends when it must, whatever it waits for, and leaves neither a
//! process nor a file.

use super::{Place, without_gcc};
use std::fs;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// A command with a folder for temporary files of its own, by which its processes are known.
struct Begun {
    child: Child,
    folder: PathBuf,
}

impl Begun {
    /// Starts a command whose signals do what they do by default.
    fn new(place: &Place, words: &[&str]) -> Begun {
        let folder = place.folder.path().join("temporary");
        fs::create_dir_all(&folder).unwrap();
        let seawall = place.seawall();
        let mut command = Command::new("env");
        command.args(["--default-signal=HUP,INT,QUIT,TERM"]).arg(seawall.get_program());
        command.args(words).env("TMPDIR", &folder).current_dir(place.folder.path());
        let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        Begun { child, folder }
    }

    fn signal(&self, name: &str) {
        let number = self.child.id().to_string();
        assert!(Command::new("kill").args([name, &number]).status().unwrap().success());
    }

    /// Waits until the program says by a file that it has come to where it never ends.
    fn is_here(&mut self) {
        wait_until("the program does not come there", || {
            let ended = self.child.try_wait().unwrap();
            assert!(ended.is_none(), "ended too early: {}", self.said());
            has_here(&self.folder)
        });
    }

    /// What it has printed, once it has ended.
    fn said(&mut self) -> String {
        let mut said = String::new();
        self.child.stdout.take().unwrap().read_to_string(&mut said).unwrap();
        self.child.stderr.take().unwrap().read_to_string(&mut said).unwrap();
        said
    }

    /// Waits until nothing is left of a command that was killed. Those who clean up do so beside
    /// whoever has killed it.
    fn is_gone(&self, what: &str) {
        let nothing = (Vec::new(), Vec::new());
        let last = Instant::now() + Duration::from_secs(120);
        while self.left() != nothing {
            assert!(Instant::now() < last, "{what}: has left {:?}", self.left());
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    /// The processes of its programs, and the files that are there.
    fn left(&self) -> (Vec<u32>, Vec<PathBuf>) {
        let files = fs::read_dir(&self.folder).unwrap().map(|entry| entry.unwrap().path());
        (processes_of(&self.folder), files.collect())
    }
}

fn wait_until(what: &str, mut is_so: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !is_so() {
        assert!(begun.elapsed() < Duration::from_secs(120), "{what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Whether a file below this folder says that a program is there.
fn has_here(folder: &Path) -> bool {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    entries.map(|entry| entry.path()).any(|path| {
        path.extension().is_some_and(|end| end == "here") || path.is_dir() && has_here(&path)
    })
}

/// The processes that were started with this folder in their words.
fn processes_of(folder: &Path) -> Vec<u32> {
    let folder = folder.display().to_string();
    let all = fs::read_dir("/proc").unwrap().flatten();
    let numbers = all.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    let is_of = |number: &u32| {
        let words = fs::read(format!("/proc/{number}/cmdline")).unwrap_or_default();
        String::from_utf8_lossy(&words).contains(&folder)
    };
    numbers.filter(is_of).collect()
}

/// Each command stands where only a signal ends it.
const ENDLESS: [&[&str]; 5] = [
    &["compare", "--designs", "clwb", "--program", "./leaves both {pool}"],
    &["compare", "--designs", "clwb", "--no-native", "--program", "./leaves loop {pool}"],
    &["explore", "--prepare", "./leaves both {pool}", "--program", "./leaves run {pool}"],
    &["explore", "--program", "./leaves loop {pool}"],
    &["explore", "--program", "./leaves run {pool}", "--check", "./leaves stuck {pool}"],
];

#[test]
fn a_signal_ends_a_command_and_leaves_neither_a_process_nor_a_file() {
    if without_gcc("a_signal_ends_a_command_and_leaves_neither_a_process_nor_a_file") {
        return;
    }
    let place = Place::new();
    place.compile("leaves.c");
    for words in ENDLESS {
        let mut words = [words, &["--program-seconds", "1000"]].concat();
        if words[0] == "explore" {
            words.extend(["--models", "px86", "--seconds", "0"]);
            if !words.contains(&"--check") {
                words.extend(["--check", "./leaves check {pool}"]);
            }
        }
        for signal in ["-INT", "-TERM", "-HUP", "-QUIT", "-KILL"] {
            let mut begun = Begun::new(&place, &words);
            begun.is_here();
            begun.signal(signal);
            let code = begun.child.wait().unwrap().code();
            if signal == "-KILL" {
                begun.is_gone(&format!("{words:?}"));
                continue;
            }
            assert_eq!(begun.left(), (Vec::new(), Vec::new()), "{signal}: {words:?}");
            let said = begun.said();
            assert_eq!(code, Some(2), "{signal}: {words:?}: {said}");
            assert!(said.contains("stop") || said.contains("interrupted"), "{words:?}: {said}");
        }
    }
}

/// A command that runs programs one after the other, natively and on a machine, is killed where it
/// is at that moment: before the first, in one, between two. `SEAWALL_KILLS` kills more often.
#[test]
fn a_kill_at_any_moment_leaves_neither_a_process_nor_a_file() {
    if without_gcc("a_kill_at_any_moment_leaves_neither_a_process_nor_a_file") {
        return;
    }
    let place = Place::new();
    place.compile("leaves.c");
    let commands: [&[&str]; 2] = [
        &["compare", "--designs", "clwb,lb", "--program", "./leaves run {pool}"],
        &["explore", "--program", "./leaves run {pool}", "--check", "./leaves check {pool}"],
    ];
    let whole = commands.map(|words| {
        let started = Instant::now();
        let mut begun = Begun::new(&place, words);
        assert_eq!(begun.child.wait().unwrap().code(), Some(0), "{}", begun.said());
        assert_eq!(begun.left(), (Vec::new(), Vec::new()), "{words:?}");
        started.elapsed()
    });
    let kills = std::env::var("SEAWALL_KILLS").map_or(16, |text| text.parse().unwrap());
    // Each moment is where those before have left the most room, nearly.
    let moment = |kill: usize| (kill as f64 * 0.618_033_988_75).fract();
    for kill in 0..kills {
        let (words, whole) = (commands[kill % 2], whole[kill % 2]);
        let delay = whole.mul_f64(moment(kill / 2));
        let mut begun = Begun::new(&place, words);
        std::thread::sleep(delay);
        begun.child.kill().unwrap();
        begun.child.wait().unwrap();
        begun.is_gone(&format!("{words:?} killed after {delay:?}"));
    }
}

#[test]
fn what_a_program_leaves_running_ends_with_its_native_run() {
    if without_gcc("what_a_program_leaves_running_ends_with_its_native_run") {
        return;
    }
    let place = Place::new();
    place.compile("leaves.c");
    let words = ["compare", "--designs", "clwb", "--program", "./leaves behind {pool}"];
    let mut begun = Begun::new(&place, &words);
    let code = begun.child.wait().unwrap().code();
    assert_eq!(begun.left(), (Vec::new(), Vec::new()));
    let said = begun.said();
    assert_eq!(code, Some(2), "{said}");
    assert!(said.contains("uses fork, which cannot be simulated"), "{said}");
}

#[test]
fn the_time_of_an_exploration_is_over_whatever_it_waits_for() {
    if without_gcc("the_time_of_an_exploration_is_over_whatever_it_waits_for") {
        return;
    }
    let place = Place::new();
    place.compile("leaves.c");
    let run = "./leaves run {pool}";
    let explore = |code, words: &[&str], check: &str| {
        let usual = ["--models", "px86", "--program-seconds", "40", "--check", check];
        place.run(code, &[&["explore"], words, &usual].concat())
    };
    let check = "./leaves check {pool}";
    for words in [
        ["--seconds", "1", "--program", "./leaves loop {pool}", "--prepare", run],
        ["--seconds", "1", "--program", run, "--prepare", "./leaves loop {pool}"],
    ] {
        let error = explore(2, &words, check);
        assert!(error.contains("the time was over") && error.contains("--seconds"), "{error}");
    }
    let said = explore(0, &["--seconds", "6", "--program", run], "./leaves stuck {pool}");
    assert!(said.contains("not complete, for lack of time"), "{said}");
}
