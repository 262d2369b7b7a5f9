//! `--csv` and `--latex`: the tables of a page for other programs and for papers.
//!
//! Both have the columns and the rows of the page, and the unit behind a head that does not say it.
//! A file of CSV (RFC 4180) has the numbers with up to six decimals, and nothing where there is
//! none; LaTeX has them with the digits that are printed, in a `tabular` that needs no package.

use super::{HtmlColumn, HtmlForm, HtmlPage, HtmlRow, HtmlSection};
use serde_json::Value;

/// Decimals in CSV: a ratio or a share to a millionth, and of millions each one.
const DECIMALS: usize = 6;

impl HtmlPage {
    /// Each table as comma-separated values, with an empty line between two.
    pub(crate) fn to_csv(&self) -> String {
        self.sheets(HtmlSection::to_csv)
    }

    /// Each table as a `tabular`; `command` made them.
    pub(crate) fn to_latex(&self, command: &str) -> String {
        let command = command.replace(['\n', '\r'], " ");
        format!("% {command}\n{}", self.sheets(HtmlSection::to_latex))
    }

    fn sheets(&self, sheet: impl Fn(&HtmlSection) -> String) -> String {
        let sections = self.sections.iter().filter(|section| !section.rows.is_empty());
        sections.map(sheet).collect::<Vec<_>>().join("\n")
    }
}

impl HtmlSection {
    fn sheet_columns(&self) -> &[HtmlColumn] {
        if self.sheet.is_empty() { &self.columns } else { &self.sheet }
    }

    fn to_csv(&self) -> String {
        let columns = self.sheet_columns();
        let heads = columns.iter().map(|column| quoted(&column.head()));
        let mut text = heads.collect::<Vec<_>>().join(",") + "\n";
        for row in &self.rows {
            let cells = columns.iter().map(|column| quoted(&column.in_csv(row)));
            text += &(cells.collect::<Vec<_>>().join(",") + "\n");
        }
        text
    }

    fn to_latex(&self) -> String {
        let columns = self.sheet_columns();
        let sides = columns.iter().map(|column| if column.is_number() { 'r' } else { 'l' });
        let heads = columns.iter().map(|column| escaped(&column.head()));
        let mut text = format!(
            "\\begin{{tabular}}{{{}}}\n\\hline\n{} \\\\\n\\hline\n",
            sides.collect::<String>(),
            heads.collect::<Vec<_>>().join(" & "),
        );
        let mut above: Vec<String> = Vec::new();
        for row in &self.rows {
            let cells: Vec<String> =
                columns.iter().map(|column| escaped(&column.printed(row))).collect();
            let repeated = repeated(columns, &cells, &above);
            let shown = cells.iter().enumerate();
            let shown = shown.map(|(at, cell)| if at < repeated { "" } else { &**cell });
            text += &(shown.collect::<Vec<_>>().join(" & ") + " \\\\\n");
            above = cells;
        }
        text + "\\hline\n\\end{tabular}\n"
    }
}

/// How many names at the start of a row are those of the row above it; the last name is shown.
fn repeated(columns: &[HtmlColumn], cells: &[String], above: &[String]) -> usize {
    let names = columns.iter().take_while(|column| !column.is_number()).count();
    let same = cells.iter().zip(above).take_while(|(here, above)| here == above).count();
    same.min(names.saturating_sub(1))
}

impl HtmlColumn {
    fn is_number(&self) -> bool {
        matches!(self.form, HtmlForm::Number(_) | HtmlForm::Percent)
    }

    fn head(&self) -> String {
        match (self.form, self.unit) {
            (HtmlForm::Percent, _) => format!("{} (%)", self.title),
            (_, "") => self.title.clone(),
            (_, unit) => format!("{} ({unit})", self.title),
        }
    }

    /// The number that a row has here, in the unit of the head.
    fn number(&self, row: &HtmlRow) -> Option<f64> {
        let value = row.values.get(&self.field)?.as_f64()?;
        Some(if self.form == HtmlForm::Percent { 100.0 * value } else { value })
    }

    fn text<'a>(&self, row: &'a HtmlRow) -> &'a str {
        row.values.get(&self.field).and_then(Value::as_str).unwrap_or_default()
    }

    fn in_csv(&self, row: &HtmlRow) -> String {
        let Some(number) = self.number(row) else { return self.text(row).to_owned() };
        let digits = format!("{number:.DECIMALS$}");
        digits.trim_end_matches('0').trim_end_matches('.').to_owned()
    }

    fn printed(&self, row: &HtmlRow) -> String {
        let decimals = match self.form {
            HtmlForm::Number(decimals) => decimals.into(),
            _ => 0,
        };
        match (self.number(row), row.values.get(&self.field)) {
            (Some(number), _) => format!("{number:.decimals$}"),
            (None, Some(Value::Null)) => "-".into(),
            (None, _) => self.text(row).to_owned(),
        }
    }
}

fn quoted(text: &str) -> String {
    match text.contains(['"', ',', '\n', '\r']) {
        true => format!("\"{}\"", text.replace('"', "\"\"")),
        false => text.to_owned(),
    }
}

/// `text` without what means something to TeX. A bracket or a star would be an argument of the `\\`
/// before it, and two dashes would be one.
fn escaped(text: &str) -> String {
    let mut escaped = String::new();
    for (at, c) in text.chars().enumerate() {
        match c {
            '&' | '%' | '$' | '#' | '_' | '{' | '}' => escaped.extend(['\\', c]),
            '\\' => escaped += "\\textbackslash{}",
            '~' => escaped += "\\textasciitilde{}",
            '^' => escaped += "\\textasciicircum{}",
            '<' => escaped += "\\textless{}",
            '>' => escaped += "\\textgreater{}",
            '|' => escaped += "\\textbar{}",
            '[' | '*' if at == 0 => escaped.extend(['{', c, '}']),
            '-' if escaped.ends_with('-') => escaped += "{}-",
            '\n' | '\r' => escaped.push(' '),
            other => escaped.push(other),
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn page() -> HtmlPage {
        let row = |workload: &str, design: &str, ratio: Value, busy: f64, said: &str| {
            HtmlRow::new([
                ("workload", json!(workload)),
                ("design", json!(design)),
                ("ratio", ratio),
                ("busy", json!(busy)),
                ("said", json!(said)),
            ])
        };
        HtmlPage {
            sections: vec![HtmlSection {
                columns: vec![
                    HtmlColumn::new("workload", HtmlForm::Text),
                    HtmlColumn::new("design", HtmlForm::Text),
                    HtmlColumn::new("ratio", HtmlForm::Number(2)).titled("vs lb"),
                    HtmlColumn::new("busy", HtmlForm::Percent),
                    HtmlColumn::new("said", HtmlForm::Text).titled("mostly").unit("%"),
                ],
                rows: vec![
                    row("a_b", "lb", json!(1.0), 0.07, "intra 50, inter 6"),
                    row("a_b", "x:y='1'", json!(2.0 / 3.0), 0.5, "20 \"ok\""),
                    row("[c]", "lb", Value::Null, 1.0, ""),
                    HtmlRow::new([("workload", json!("mean")), ("ratio", json!(0.5))]),
                ],
                ..HtmlSection::default()
            }],
            ..HtmlPage::default()
        }
    }

    #[test]
    fn csv_has_each_name_in_each_row_and_more_digits_than_are_printed() {
        let wanted = "workload,design,vs lb,busy (%),mostly (%)\n\
                      a_b,lb,1,7,\"intra 50, inter 6\"\n\
                      a_b,x:y='1',0.666667,50,\"20 \"\"ok\"\"\"\n\
                      [c],lb,,100,\n\
                      mean,,0.5,,\n";
        assert_eq!(page().to_csv(), wanted);
    }

    #[test]
    fn latex_has_the_printed_digits_and_a_name_once() {
        let wanted = "% seawall compare -d lb  --latex t.tex\n\
                      \\begin{tabular}{llrrl}\n\
                      \\hline\n\
                      workload & design & vs lb & busy (\\%) & mostly (\\%) \\\\\n\
                      \\hline\n\
                      a\\_b & lb & 1.00 & 7 & intra 50, inter 6 \\\\\n \
                      & x:y='1' & 0.67 & 50 & 20 \"ok\" \\\\\n\
                      {[}c] & lb & - & 100 &  \\\\\n\
                      mean &  & 0.50 &  &  \\\\\n\
                      \\hline\n\
                      \\end{tabular}\n";
        assert_eq!(page().to_latex("seawall compare -d lb \n--latex t.tex"), wanted);
    }

    #[test]
    fn nothing_of_a_text_means_something_to_tex() {
        assert_eq!(
            escaped("\\a{b}~^"),
            "\\textbackslash{}a\\{b\\}\\textasciitilde{}\\textasciicircum{}"
        );
        assert_eq!(escaped("<50%>|$#&"), "\\textless{}50\\%\\textgreater{}\\textbar{}\\$\\#\\&");
        assert_eq!(escaped("a---b -c"), "a-{}-{}-b -c");
        assert_eq!((escaped("*a*"), escaped("a\nb")), ("{*}a*".into(), "a b".into()));
    }

    #[test]
    fn a_section_may_have_other_columns_in_files_than_on_the_page() {
        let mut page = page();
        page.sections[0].sheet = vec![HtmlColumn::new("design", HtmlForm::Text)];
        page.sections.push(page.sections[0].clone());
        page.sections.push(HtmlSection::default());
        let once = "design\nlb\nx:y='1'\nlb\n\n";
        assert_eq!(page.to_csv(), format!("{once}\n{once}"));
        assert!(!serde_json::to_string(&page).unwrap().contains("sheet"));
    }
}
