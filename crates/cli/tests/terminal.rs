//! What a terminal of some width shows, on one that util-linux's `script` makes. Without that
//! program the tests are left out, with a line.

use std::process::{Command, Stdio};

/// What a terminal writes to erase a line, as the bar of progress is.
const ERASED: &str = "\u{1b}[2K";

/// What `seawall words` leaves on a terminal of that many columns, which `COLUMNS` states if
/// `is_stated`, and else the terminal itself.
fn on_terminal(words: &str, columns: usize, is_stated: bool) -> Option<String> {
    let seawall = env!("CARGO_BIN_EXE_seawall");
    let line = match is_stated {
        true => format!("stty rows 40 cols 300; COLUMNS={columns} '{seawall}' {words}"),
        false => format!("stty rows 40 cols {columns}; '{seawall}' {words}"),
    };
    let mut script = Command::new("script");
    script.args(["-qec", &line, "/dev/null"]).env_remove("COLUMNS").stdin(Stdio::null());
    let Ok(output) = script.output() else {
        eprintln!("left out: there is no program `script`");
        return None;
    };
    let text = String::from_utf8_lossy(&output.stdout).replace('\r', "");
    assert!(output.status.success(), "{text}");
    let left = text.lines().map(|line| line.rsplit(ERASED).next().unwrap_or_default());
    Some(left.fold(String::new(), |all, line| all + line + "\n"))
}

fn in_a_pipe(words: &str) -> String {
    let mut seawall = Command::new(env!("CARGO_BIN_EXE_seawall"));
    // A pipe has any number of columns, also for a shell that exports how many it has.
    let output = seawall.args(words.split(' ')).env("COLUMNS", "60").output().unwrap();
    assert!(output.status.success());
    String::from_utf8(output.stdout).unwrap()
}

fn widest(text: &str) -> usize {
    text.lines().map(|line| line.chars().count()).max().unwrap()
}

/// The table of `compare`, and what is said of it before its legend.
fn table(text: &str) -> &str {
    let table = &text[text.find("workload").unwrap()..];
    table.split("\nconfl.: ").next().unwrap()
}

#[test]
fn lists_are_broken_into_lines_that_fit() {
    for what in ["designs", "workloads", "kernels", "machines", "figures", "models", "corpus"] {
        let words = format!("list {what}");
        let whole = in_a_pipe(&words);
        for columns in [60, 80, 120, 200] {
            let Some(text) = on_terminal(&words, columns, columns != 80) else { return };
            if widest(&whole) <= columns {
                assert_eq!(text, whole, "{columns}");
                continue;
            }
            let lines = text.lines().filter(|line| !line.starts_with("or the path"));
            for line in lines {
                assert!(line.chars().count() <= columns, "{columns} {what}: {line}");
            }
            // Every name is still there, in the first column.
            let names = |text: &str| -> Vec<String> {
                let first = text.lines().filter_map(|line| line.split(' ').next());
                first.filter(|word| word.len() > 1).map(str::to_owned).collect()
            };
            let shown = names(&text);
            assert!(
                names(&whole)[2..].iter().all(|name| shown.contains(name)),
                "{columns}: {text}"
            );
        }
    }
}

#[test]
fn a_narrow_terminal_shows_fewer_columns_and_says_which_and_the_crashes_stay() {
    let words = "compare --machine desktop --ops 40 --entries 64 --workloads hash --designs \
                 lb,lbpp --crashes 2";
    let whole = in_a_pipe(words);
    assert!(whole.contains("confl.  busy  mem.  lock  persist") && !whole.contains("left out"));
    for columns in [60, 80, 120, 200] {
        let Some(text) = on_terminal(words, columns, columns == 60) else { return };
        let table = table(&text);
        assert!(widest(table) <= columns, "{table}");
        let is_whole = widest(self::table(&whole)) <= columns;
        assert_eq!(table.contains("left out"), !is_whole, "{columns}\n{table}");
        assert_eq!(is_whole, columns >= 120, "{columns}");
        for word in ["design", "vs lb", "persist", "crashes", "2 ok"] {
            assert!(table.contains(word), "{columns}: {word}\n{table}");
        }
    }
}
