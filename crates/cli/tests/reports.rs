//! Reports in HTML from outside: they have the records of `--json`, the command as it was typed,
//! and commands that repeat what they show. What a browser makes of them: `scripts/browser.sh`.

#[path = "shared/embedded.rs"]
mod embedded;

use embedded::embedded;
use serde_json::Value;
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

const SWEEP: &str = "title = 't'\nmachine = 'desktop'\nkernels = ['lu:4']\ndesigns = ['bsp-lb']\n\
                     [[factor]]\nname = 'cores'\nmachine = 'core.count'\nvalues = [1, 2]\n\
                     [[factor]]\nname = 'stores'\ndesign = 'stores'\nvalues = [50, 500]\n";
const FIGURE: &str = "title = '</script><b>'\nsource = 'none'\nmachine = 'desktop'\n\
                      operations = 20\nworkloads = ['sps', 'queue']\nmetric = 'throughput'\n\
                      workload_tolerance = 0.01\n\
                      baseline = 'lb'\ntolerance = 0.01\n[[series]]\nname = 'LB++'\n\
                      design = 'lbpp'\npaper = 9.0\n\
                      [series.workloads]\nqueue = 9.0\n";

struct Folder(tempfile::TempDir);

impl Folder {
    fn new() -> Folder {
        let folder = Folder(tempfile::tempdir().unwrap());
        fs::write(folder.at("s.toml"), SWEEP).unwrap();
        fs::write(folder.at("f.toml"), FIGURE).unwrap();
        folder
    }

    fn at(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn seawall(&self, line: &str) -> Output {
        let mut command = Command::new(env!("CARGO_BIN_EXE_seawall"));
        command.current_dir(self.0.path()).args(shlex::split(line).unwrap());
        let output = command.output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(matches!(output.status.code(), Some(0 | 1)), "seawall {line}\n{said}");
        output
    }

    fn read(&self, name: &str) -> String {
        fs::read_to_string(self.at(name)).unwrap()
    }

    /// The data of the report that `line` and `--html` make.
    fn report(&self, line: &str) -> Report {
        self.seawall(&format!("{line} --html page.html"));
        Report::of(self.read("page.html"))
    }
}

struct Report {
    html: String,
    page: Value,
    records: Vec<Value>,
}

impl Report {
    fn of(html: String) -> Report {
        let (page, records) = (embedded(&html, "page"), embedded(&html, "records"));
        Report { page, records: records.as_array().unwrap().clone(), html }
    }

    fn rows(&self, section: usize) -> &[Value] {
        self.page["sections"][section]["rows"].as_array().unwrap()
    }
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap()
}

fn lines(text: &str) -> Vec<Value> {
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// Each row names records that there are, and the values of all of its columns.
fn check_rows(report: &Report) {
    for section in report.page["sections"].as_array().unwrap() {
        for row in section["rows"].as_array().unwrap() {
            let records = row["records"].as_array().unwrap();
            assert!(records.iter().all(|at| at.as_u64().unwrap() < report.records.len() as u64));
            let commands = row["commands"].as_array().unwrap().len();
            assert!(commands <= 1 || commands == records.len(), "{row}");
        }
        for column in section["columns"].as_array().unwrap() {
            let field = column["field"].as_str().unwrap();
            let has = |row: &Value| row["values"].get(field).is_some();
            assert!(section["rows"].as_array().unwrap().iter().any(has), "no row has {field}");
        }
    }
}

#[test]
fn a_report_has_the_records_of_json_and_the_same_bytes_each_time() {
    let folder = Folder::new();
    let line = "compare -w hash,queue -d lb,lbpp,volatile -m desktop --ops 20 --crashes 2 \
                --json a.json";
    let report = folder.report(line);
    assert_eq!(report.records, lines(&folder.read("a.json")));
    check_rows(&report);
    assert_eq!(report.rows(0).len(), 2 * 3 + 3, "the cells and the means");
    assert!(report.html.contains(&format!("{line} --html page.html")), "the command");
    assert!(report.html.contains("id=\"partial\" hidden"), "all was done");
    let first = &report.rows(0)[0];
    assert_eq!(first["values"]["relative"], report.records[0]["relative"]);
    let shares: f64 =
        first["shares"].as_array().unwrap().iter().map(|it| it.as_f64().unwrap()).sum();
    assert!((shares - 1.0).abs() < 1e-9, "{shares}");
    assert_eq!(folder.report(line).html, report.html);
}

/// The words of a row, in whatever form.
fn words(row: &str) -> Vec<&str> {
    row.trim_end_matches("\\\\").split(['&', ' ']).filter(|word| !word.is_empty()).collect()
}

/// The rows of a tabular.
fn tabular(text: &str) -> Vec<&str> {
    text.lines().filter(|line| line.ends_with(" \\\\")).skip(1).collect()
}

/// The rows of a file of CSV without quotes, by the heads.
fn csv(text: &str) -> Vec<BTreeMap<&str, &str>> {
    let mut lines = text.lines().map(|line| line.split(',').collect::<Vec<_>>());
    let heads = lines.next().unwrap();
    lines.map(|cells| heads.iter().copied().zip(cells).collect()).collect()
}

#[test]
fn latex_has_the_table_that_is_printed_and_csv_the_numbers_of_the_records() {
    let folder = Folder::new();
    let line = "compare -w hash,queue -d lb,volatile -m desktop --ops 20 --crashes 2 --json a.json \
                --csv a.csv --latex a.tex";
    let printed = String::from_utf8(folder.seawall(line).stdout).unwrap();
    let latex = folder.read("a.tex");
    let rows: Vec<Vec<&str>> = tabular(&latex).into_iter().map(words).collect();
    let is_row = |line: &&str| ["lb ", "volatile "].iter().any(|design| line.contains(design));
    let table = printed.split_once("---\n").unwrap().1.lines().filter(is_row);
    assert_eq!(rows, table.take(6).map(words).collect::<Vec<_>>());
    assert!(latex.starts_with("% seawall compare -w hash,queue "));
    let sheet = folder.read("a.csv");
    let rows = csv(&sheet);
    let records = lines(&folder.read("a.json"));
    assert_eq!(rows.len(), records.len() + 2, "the cells and the means");
    for (row, record) in rows.iter().zip(&records) {
        assert_eq!(
            (row["workload"], row["design"]),
            (text(&record["workload"]), text(&record["design"]))
        );
        let relative = record["relative"].as_f64().unwrap();
        assert!((row["vs lb"].parse::<f64>().unwrap() - relative).abs() < 1e-6, "{row:?}");
        assert_eq!(row["confl. (%)"].is_empty(), record["conflicting_epochs"].is_null());
    }
    assert_eq!((rows[4]["workload"], rows[4]["vs lb"]), ("geo. mean", "1"));
}

#[test]
fn a_table_of_kernels_and_of_a_sweep_has_its_names_in_each_row() {
    let folder = Folder::new();
    folder.seawall("kernels lu:4,radix:64 -d bsp-lb -m desktop --crashes 1 --csv k.csv");
    let sheet = folder.read("k.csv").replace("\"", "");
    let names: Vec<_> = csv(&sheet).iter().map(|row| (row["kernel"], row["design"])).collect();
    assert_eq!(names[..3], [("lu", "volatile"), ("lu", "bsp-lb"), ("radix", "volatile")]);
    folder.seawall("sweep s.toml --csv s.csv --latex s.tex");
    let sheet = folder.read("s.csv").replace("\"", "");
    let rows = csv(&sheet);
    let names = |at: usize| ["factor", "design", "value", "base"].map(|name| rows[at][name]);
    assert_eq!(rows.len(), 4);
    assert_eq!(names(1), ["cores", "bsp-lb", "2", ""]);
    assert_eq!(names(2), ["stores", "bsp-lb", "50", ""]);
    let head = "factor & design & value & base & lu & mean & of base & inter (\\%) & busy (\\%)";
    assert!(folder.read("s.tex").contains(head));
}

#[test]
fn a_command_with_marks_of_html_in_it_is_shown_as_it_was_typed() {
    let folder = Folder::new();
    let line = "compare -w sps -d lb -m desktop --ops 5 --crashes 0 --html 'a</b>&'\\''.html'";
    fs::create_dir(folder.at("a<")).unwrap(); // its name ends at the slash
    folder.seawall(line);
    let report = Report::of(folder.read("a</b>&'.html"));
    assert!(report.html.contains("a&lt;/b&gt;&amp;&#39;.html"), "it is escaped");
    assert!(!report.html.contains("a</b>"));
}

#[test]
fn kernels_and_figures_have_the_records_of_json_too() {
    let folder = Folder::new();
    for line in [
        "kernels lu:4,radix:64 -d bsp-lb -m desktop --crashes 1 --json a.json",
        "reproduce f.toml --json a.json",
        "explore ff-8 --seconds 0 --quick --json a.json",
    ] {
        let report = folder.report(line);
        assert_eq!(report.records, lines(&folder.read("a.json")), "{line}");
        check_rows(&report);
        assert!(!report.rows(0).is_empty(), "{line}");
    }
}

#[test]
fn a_value_of_a_figure_says_where_the_time_went_of_its_workload_or_of_all() {
    let folder = Folder::new();
    let report = folder.report("reproduce f.toml");
    assert!(!report.page["parts"].as_array().unwrap().is_empty(), "the colours of reasons");
    let row = |value: &str| {
        let found = report.rows(0).iter().find(|row| row["values"]["value"] == value);
        found.unwrap_or_else(|| panic!("no row {value}"))
    };
    assert_eq!(row("LB++, queue")["values"]["workload"], "queue");
    assert!(row("LB++, mean")["values"]["workload"].is_null());
    let at = row("LB++, queue")["records"][0].as_u64().unwrap();
    let record = &report.records[at as usize];
    let shares = |of: &Value| -> Vec<(String, f64)> {
        let shares = of.as_object().unwrap().iter();
        shares.map(|(reason, share)| (reason.clone(), share.as_f64().unwrap())).collect()
    };
    let each = ["sps", "queue"].map(|name| shares(&record["stalls_of"][name]));
    assert_ne!(each[0], each[1]);
    for (at, (reason, mean)) in shares(&record["stalls"]).into_iter().enumerate() {
        assert_eq!(each[0][at].0, reason);
        assert!((mean - (each[0][at].1 + each[1][at].1) / 2.0).abs() < 1e-12, "{reason}");
    }
    for of in each {
        let sum: f64 = of.iter().map(|(_, share)| share).sum();
        assert!((sum - 1.0).abs() < 1e-9, "{sum}");
    }
}

#[test]
fn a_finding_has_the_stores_and_what_was_before_the_crash() {
    let folder = Folder::new();
    let report = folder.report("explore ff-8 --seconds 0 --quick");
    let headings: Vec<&str> =
        (0..5).filter_map(|at| report.page["sections"][at]["heading"].as_str()).collect();
    assert!(headings[1].starts_with("Fails under "), "{headings:?}");
    assert!(headings[2].starts_with("Before the crash"), "{headings:?}");
    let finding = report.records[0]["models"].as_array().unwrap();
    let finding = finding.iter().find_map(|model| model["finding"].as_object()).unwrap();
    let fates =
        |fate: &str| report.rows(1).iter().filter(|row| row["values"]["fate"] == fate).count();
    assert_eq!(fates("lost"), finding["lost"].as_array().unwrap().len());
    assert_eq!(fates("early"), finding["early"].as_array().unwrap().len());
    assert!(fates("lost") > 0);
}

#[test]
fn the_commands_of_a_sweep_repeat_its_points() {
    let folder = Folder::new();
    let report = folder.report("sweep s.toml");
    assert_eq!(report.records.len(), folder.read("s.jsonl").lines().count());
    check_rows(&report);
    assert_eq!(report.rows(0).len(), 4, "two values of two factors");
    for row in report.rows(0) {
        let at = row["records"][0].as_u64().unwrap() as usize;
        let command = row["commands"][0].as_str().unwrap();
        let line = command.strip_prefix("seawall ").expect("it is a command");
        folder.seawall(&format!("{line} --json again.json"));
        let again = lines(&folder.read("again.json"));
        let same = again.iter().find(|record| record["design"] != "volatile").unwrap();
        assert_eq!(same["cycles"], report.records[at]["cycles"], "{command}");
        assert_eq!(same["counters"], report.records[at]["counters"], "{command}");
    }
}

#[test]
fn a_report_of_a_figure_says_how_to_repeat_it() {
    let folder = Folder::new();
    let report = folder.report("reproduce f.toml --quick");
    let row = &report.rows(0)[0];
    assert_eq!(row["commands"][0], "seawall reproduce f.toml --quick");
    assert_eq!(row["values"]["outcome"], "does not hold");
    assert_eq!(row["values"]["paper"], 9.0);
    assert!(!report.html.contains("</script><b>"), "the title is text");
    assert!(Path::new(&folder.at("page.html")).exists());
}

#[test]
fn the_version_and_each_record_name_the_commit() {
    let folder = Folder::new();
    let text = |output: Output| String::from_utf8(output.stdout).unwrap();
    let said = text(folder.seawall("--version"));
    let version = said.trim().strip_prefix("seawall ").expect("the name goes before it");
    folder.seawall("compare -w sps -d eadr --ops 20 --entries 64 --json out.json");
    let records = fs::read_to_string(folder.at("out.json")).unwrap();
    assert!(records.lines().count() > 0);
    for line in records.lines() {
        assert!(line.contains(&format!("\"version\":\"{version}\"")), "{line}");
    }
    let mut git = Command::new("git");
    git.args(["rev-parse", "HEAD"]).current_dir(env!("CARGO_MANIFEST_DIR"));
    if let Some(head) = git.output().ok().filter(|output| output.status.success()) {
        let commit = version.split_once('+').expect("this is a checkout").1;
        let commit = commit.trim_end_matches(".changed");
        assert!(commit.len() >= 12 && text(head).starts_with(commit), "{version}");
    }
}
