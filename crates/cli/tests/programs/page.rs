//! The page of a program, `--html`: it has the numbers of the records, and what crashes came to.

use super::embedded::embedded;
use super::{Place, without_gcc};
use serde_json::Value;

#[test]
fn a_page_of_a_program_has_its_records_and_what_crashes_came_to() {
    if without_gcc("a_page_of_a_program_has_its_records_and_what_crashes_came_to") {
        return;
    }
    let place = Place::new();
    place.compile("queue.c");
    let files = ["--crashes", "60", "--json", "a.json", "--html", "page.html"];
    place.crash(
        1,
        ("queue", 1),
        "clwb,volatile,lbpp",
        &[&files[..], &["--fence", "drain"]].concat(),
    );
    let read = |name: &str| std::fs::read_to_string(place.folder.path().join(name)).unwrap();
    let html = read("page.html");
    let (page, records) = (embedded(&html, "page"), embedded(&html, "records"));
    let lines: Vec<Value> =
        read("a.json").lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(records.as_array(), Some(&lines), "the records of --json");
    let title = page["title"].as_str().unwrap();
    assert!(title.starts_with("./queue run {pool} 4 60 1 on "), "{title}");
    let notes = page["notes"].as_array().unwrap();
    let is_bad = |note: &&Value| note["is_bad"] == true;
    let bad = notes.iter().find(is_bad).expect("what broke is said");
    assert!(bad["text"].as_str().unwrap().contains("BROKEN"), "{bad}");
    let section = &page["sections"][0];
    let rows = section["rows"].as_array().unwrap();
    let columns = section["columns"].as_array().unwrap();
    assert_eq!(rows.len(), lines.len());
    for (at, row) in rows.iter().enumerate() {
        assert_eq!(row["records"], serde_json::json!([at]), "{row}");
        let (values, record) = (&row["values"], &lines[at]);
        for column in columns {
            assert!(values.get(column["field"].as_str().unwrap()).is_some(), "{column}: {row}");
        }
        assert_eq!(values["design"], record["design"]);
        assert_eq!(values["time"], record["time"]);
        assert_eq!(values["mcycles"].as_f64(), Some(record["cycles"].as_f64().unwrap() / 1e6));
        let shares = row["shares"].as_array().unwrap();
        assert_eq!(shares.len(), page["parts"].as_array().unwrap().len());
        let sum: f64 = shares.iter().map(|share| share.as_f64().unwrap()).sum();
        assert!((sum - 1.0).abs() < 1e-9, "{sum}");
        let fate = match (record["crashes"].as_u64(), record["broken"].as_u64()) {
            (None, _) => "unjudged",
            (_, Some(0)) => "good",
            _ => "bad",
        };
        assert_eq!(row["fate"], fate, "{row}");
    }
    let fates: Vec<&str> = rows.iter().filter_map(|row| row["fate"].as_str()).collect();
    assert!(fates.contains(&"bad") && fates.contains(&"good"), "{fates:?}");
}
