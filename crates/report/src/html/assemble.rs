//! Puts a page together: the template, its style and scripts, the charts' library, and the data.
//!
//! Data cannot end the element that they are in, whatever they contain: as JSON they have no `<`,
//! and as text no character that HTML would read. The page forbids browsers any access to a
//! network.

use super::HtmlPage;
use std::fmt::Write;

const TEMPLATE: &str = include_str!("page.html");
const STYLE: &str = include_str!("page.css");
const SCRIPTS: [&str; 5] = [
    include_str!("parts.js"),
    include_str!("charts.js"),
    include_str!("section.js"),
    include_str!("detail.js"),
    include_str!("page.js"),
];

/// The library of charts and its licences (`crates/report/vega/README.md`).
const VEGA: [&str; 3] = [
    include_str!("../../vega/vega.min.js"),
    include_str!("../../vega/vega-lite.min.js"),
    include_str!("../../vega/vega-embed.min.js"),
];
const LICENCES: &str = include_str!("../../vega/LICENSES.txt");

/// Where scripts name a file for debuggers, which a page that stands alone does not have.
const SOURCE_MAP: &str = "//# sourceMappingURL=";

/// What every page shows beside what its command says.
#[derive(Clone, Copy, Debug)]
pub struct Shown<'a> {
    /// The command, as it was typed.
    pub command: &'a str,
    /// What it printed.
    pub printed: &'a str,
    /// Its records, as JSON Lines.
    pub records: &'a str,
    /// True if it was stopped before everything was done.
    pub is_partial: bool,
}

impl HtmlPage {
    /// The page as HTML.
    pub fn to_html(&self, shown: Shown<'_>) -> String {
        let records: Vec<&str> = shown.records.lines().collect();
        let page = serde_json::to_string(self).expect("pages are plain data");
        let mut html = String::with_capacity(VEGA.map(str::len).iter().sum::<usize>() + page.len());
        for piece in TEMPLATE.split_inclusive("}}") {
            let Some((text, name)) = piece.rsplit_once("{{") else {
                html += piece;
                continue;
            };
            html += text;
            match name.trim_end_matches("}}") {
                "title" => html += &text_in_html(&self.title),
                "style" => html += STYLE,
                "command" => html += &text_in_html(shown.command),
                "version" => html += crate::version(),
                "partial" => html += if shown.is_partial { "" } else { "hidden" },
                "printed" => html += &text_in_html(shown.printed),
                "page" => html += &json_in_html(&page),
                "records" => html += &json_in_html(&format!("[{}]", records.join(",\n"))),
                "vega" => VEGA.into_iter().for_each(|script| html += without_source_map(script)),
                "scripts" => {
                    for script in SCRIPTS {
                        let _ = write!(html, "<script>\n{script}</script>\n");
                    }
                }
                "licences" => html += &text_in_html(LICENCES),
                other => unreachable!("the template asks for {other}"),
            }
        }
        html
    }
}

fn without_source_map(script: &str) -> &str {
    script.find(SOURCE_MAP).map_or(script, |at| &script[..at])
}

/// JSON in which nothing is left that could end a script: it has `<` in strings only.
fn json_in_html(json: &str) -> String {
    json.replace('<', "\\u003c")
}

/// Text with nothing in it that HTML would read.
fn text_in_html(plain: &str) -> String {
    let plain = plain.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
    plain.replace('"', "&quot;").replace('\'', "&#39;")
}

#[cfg(test)]
mod tests {
    use super::super::{HtmlColumn, HtmlForm, HtmlRow, HtmlSection};
    use super::*;
    use serde_json::{Value, json};
    use sha2::{Digest, Sha256};

    const EVIL: &str = "</script><script>alert(1)</script><!-- {{page}} & 'x' \"y\" \u{2028}";

    fn evil() -> HtmlPage {
        let section = HtmlSection {
            heading: Some(EVIL.into()),
            columns: vec![HtmlColumn::new("name", HtmlForm::Text)],
            rows: vec![HtmlRow::new([("name", json!(EVIL))])],
            ..HtmlSection::default()
        };
        HtmlPage { title: EVIL.into(), sections: vec![section], ..HtmlPage::default() }
    }

    fn evil_html() -> String {
        let records = format!("{}\n{}\n", json!({"name": EVIL}), json!({"count": 2}));
        let shown = Shown { command: EVIL, printed: EVIL, records: &records, is_partial: false };
        evil().to_html(shown)
    }

    /// What is in the element with that id.
    fn json_of(html: &str, id: &str) -> Value {
        let head = format!("<script type=\"application/json\" id=\"{id}\">");
        let from = html.find(&head).expect("it is there") + head.len();
        let end = from + html[from..].find("</script>").expect("it ends");
        serde_json::from_str(&html[from..end]).expect("it is JSON")
    }

    #[test]
    fn no_name_ends_the_element_that_it_is_in() {
        let html = evil_html();
        let [evil, plain] = [
            html,
            HtmlPage::default().to_html(Shown {
                command: "",
                printed: "",
                records: "",
                is_partial: false,
            }),
        ];
        for mark in ["<script", "</script", "<!--"] {
            assert_eq!(evil.matches(mark).count(), plain.matches(mark).count(), "{mark}");
        }
        assert_eq!(json_of(&evil, "page")["sections"][0]["rows"][0]["values"]["name"], EVIL);
        assert_eq!(json_of(&evil, "records"), json!([{"name": EVIL}, {"count": 2}]));
    }

    #[test]
    fn a_page_loads_nothing() {
        let html = evil_html();
        let of_data = VEGA.map(without_source_map).into_iter().fold(html, |html, script| {
            assert!(html.contains(script));
            html.replace(script, "")
        });
        let own = of_data.replace(&text_in_html(LICENCES), "");
        for mark in [" src=", "<link", "@import", "url(", "://", "sourceMapping"] {
            assert!(!own.contains(mark), "{mark}");
        }
        assert!(own.contains("default-src 'none'"), "the browser holds the page to it");
    }

    #[test]
    fn scripts_are_inside_their_elements_and_the_template_is_used_up() {
        let all = VEGA.into_iter().chain(SCRIPTS).chain([STYLE]);
        for text in all {
            let text = text.to_ascii_lowercase();
            assert!(["</script", "</style", "<!--"].iter().all(|mark| !text.contains(mark)));
        }
        assert!(SCRIPTS.iter().chain([&STYLE, &TEMPLATE]).all(|text| text.is_ascii()));
        let shown = Shown { command: "c", printed: "", records: "", is_partial: true };
        let html = HtmlPage::default().to_html(shown);
        let own = VEGA.map(without_source_map).into_iter().fold(html, |h, v| h.replace(v, ""));
        assert!(!own.contains("{{"), "nothing is left to fill in");
        assert_eq!(own.matches("id=\"partial\"").count(), 1);
        assert!(own.contains("id=\"partial\" >"), "a stopped run says so");
    }

    #[test]
    fn the_library_of_charts_is_as_its_authors_publish_it() {
        let sums = include_str!("../../vega/SHA256SUMS");
        let files = ["vega.min.js", "vega-lite.min.js", "vega-embed.min.js"];
        assert_eq!(sums.lines().count(), files.len());
        for (file, text) in files.into_iter().zip(VEGA) {
            let digest = Sha256::digest(text.as_bytes());
            let hex: String = digest.iter().map(|byte| format!("{byte:02x}")).collect();
            assert!(sums.contains(&format!("{hex}  {file}\n")), "{file} has sha256 {hex}");
        }
    }
}
