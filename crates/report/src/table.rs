//! Tables of plain text, as all commands print them, and how they fit a terminal.
//!
//! A table is as wide as its contents, in a file, a pipe and a test. Who prints on a terminal says
//! how many columns that has ([`within`]); then prose in a last column is broken into lines, or
//! columns are left out, and a line below says which, and how to see them. The number of columns
//! belongs to the thread and is no argument, because reports put their text together in many places
//! that do not know where it goes.

use comfy_table::{CellAlignment, ColumnConstraint, LineStyle, Table, TableStyle, Width};
use std::cell::Cell;

/// A last column with wider contents is prose, which can be broken into lines.
const PROSE_COLUMNS_MIN: usize = 30;
/// Prose is not broken into lines narrower than this.
const LINE_COLUMNS_MIN: usize = 24;
/// Between two columns.
const GAP: u16 = 2;

/// The terminal on which tables are to be shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Room {
    /// Its width, in columns.
    pub columns: usize,
    /// What else shows what is left out, as in "or | cat".
    pub elsewhere: &'static str,
}

thread_local! {
    static ROOM: Cell<Option<Room>> = const { Cell::new(None) };
}

/// What `make` returns, with the tables that it makes fitted to `room`.
pub fn within<T>(room: Option<Room>, make: impl FnOnce() -> T) -> T {
    let before = ROOM.replace(room);
    let made = make();
    ROOM.set(before);
    made
}

/// How wide text may be that is at most `most` columns wide where there is room.
pub fn columns_at_most(most: usize) -> usize {
    ROOM.get().map_or(most, |room| room.columns.min(most))
}

/// A table with a rule under its head, and the columns of `numbers` aligned to the right.
pub fn plain_table(head: &[&str], numbers: std::ops::Range<usize>) -> Table {
    let style = TableStyle::new().header_separator(LineStyle::none().fill('-'));
    let mut table = Table::new();
    table.load_style(style).set_header(head.to_vec());
    for column in numbers {
        if let Some(column) = table.column_mut(column) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    for column in table.column_iter_mut() {
        column.set_padding((0, GAP));
    }
    if let Some(last) = table.column_mut(head.len() - 1) {
        last.set_padding((0, 0));
    }
    table
}

/// The lines of a table without trailing spaces. If there is not room for all columns, those on the
/// right are left out first.
pub fn text_of(table: &Table) -> String {
    text_sparing(table, &[])
}

/// As [`text_of`]; if there is not room for all columns, those of `spare` are left out first, in
/// their order.
pub fn text_sparing(table: &Table, spare: &[&str]) -> String {
    let Fitted { head, rows, note } = Fitted::of(table, spare);
    head + &rows + &note
}

/// The text of a table, in parts.
#[derive(Clone, Debug)]
pub struct Fitted {
    /// The head, and the rule under it.
    pub head: String,
    /// The rows.
    pub rows: String,
    /// Which columns are left out, if any is.
    pub note: String,
}

impl Fitted {
    /// As [`text_sparing`] has it.
    pub fn of(table: &Table, spare: &[&str]) -> Fitted {
        let Some(room) = ROOM.get() else { return Fitted::with(lines_of(table), String::new()) };
        let shape = Shape::of(table);
        if shape.whole() <= room.columns {
            return Fitted::with(lines_of(table), String::new());
        }
        let hidden = shape.left_out(room.columns, spare);
        let mut fitted = table.clone();
        for at in &hidden {
            constrain(&mut fitted, *at, ColumnConstraint::Hidden);
        }
        if let Some(columns) = shape.line_of_prose(room.columns, &hidden) {
            let width = Width::Fixed(columns.try_into().unwrap_or(u16::MAX));
            constrain(&mut fitted, shape.last(), ColumnConstraint::Absolute(width));
        }
        let names = hidden.iter().map(|at| &*shape.heads[*at]).filter(|name| !name.is_empty());
        Fitted::with(lines_of(&fitted), note(&names.collect::<Vec<_>>(), shape.whole(), room))
    }

    fn with(lines: String, note: String) -> Fitted {
        let rule = lines.find("\n-").map_or(0, |at| at + 1);
        let head = lines[rule..].find('\n').map_or(lines.len(), |at| rule + at + 1);
        Fitted { rows: lines[head..].to_owned(), head: lines[..head].to_owned(), note }
    }
}

fn lines_of(table: &Table) -> String {
    table.lines().fold(String::new(), |text, line| text + line.trim_end() + "\n")
}

fn constrain(table: &mut Table, at: usize, constraint: ColumnConstraint) {
    if let Some(column) = table.column_mut(at) {
        column.set_constraint(constraint);
    }
}

/// The head of each column of a table, and how wide it is, with the gap behind it.
struct Shape {
    heads: Vec<String>,
    widths: Vec<usize>,
    has_prose: bool,
}

impl Shape {
    fn of(table: &Table) -> Shape {
        let contents = table.column_max_content_widths();
        let last = contents.len().saturating_sub(1);
        let width =
            |(at, width): (usize, &u16)| usize::from(width + if at == last { 0 } else { GAP });
        let widths: Vec<usize> = contents.iter().enumerate().map(width).collect();
        let heads = table.header().into_iter().flat_map(|head| head.cell_iter());
        Shape {
            heads: heads.map(|cell| cell.content().trim().to_owned()).collect(),
            has_prose: widths.last().is_some_and(|width| *width >= PROSE_COLUMNS_MIN),
            widths,
        }
    }

    fn last(&self) -> usize {
        self.widths.len() - 1
    }

    fn whole(&self) -> usize {
        self.widths.iter().sum()
    }

    /// The columns that do not fit into `columns`: those of `spare`, then from the right. The first
    /// stays, and so does prose.
    fn left_out(&self, columns: usize, spare: &[&str]) -> Vec<usize> {
        let spared = spare.iter().filter_map(|name| self.heads.iter().position(|it| it == name));
        let from_the_right = (1..self.widths.len()).rev();
        let mut hidden = Vec::new();
        for at in spared.chain(from_the_right) {
            if self.fits(columns, &hidden) {
                break;
            }
            if at != 0 && !hidden.contains(&at) && !(self.has_prose && at == self.last()) {
                hidden.push(at);
            }
        }
        hidden.sort_unstable();
        hidden
    }

    fn fits(&self, columns: usize, hidden: &[usize]) -> bool {
        self.shown(hidden) <= columns || self.line_of_prose(columns, hidden).is_some()
    }

    fn shown(&self, hidden: &[usize]) -> usize {
        let all = self.widths.iter().enumerate();
        all.filter(|(at, _)| !hidden.contains(at)).map(|(_, width)| width).sum()
    }

    /// How wide the lines are into which the last column is broken, if it has to be and can be.
    fn line_of_prose(&self, columns: usize, hidden: &[usize]) -> Option<usize> {
        let shown = self.shown(hidden);
        if !self.has_prose || shown <= columns {
            return None;
        }
        let left = (self.widths[self.last()] + columns).checked_sub(shown)?;
        (left >= LINE_COLUMNS_MIN).then_some(left)
    }
}

/// What is said below a table that lacks columns; `whole` is the width of all of it.
fn note(names: &[&str], whole: usize, room: Room) -> String {
    if names.is_empty() {
        return String::new();
    }
    let said = format!(
        "({} left out; shown by a terminal of {whole} columns, COLUMNS={whole}, {})",
        names.join(", "),
        room.elsewhere
    );
    let mut text = String::new();
    let mut line = 0;
    for word in said.split(' ') {
        if line > 0 && line + 1 + word.len() > room.columns {
            text += "\n";
            line = 0;
        } else if line > 0 {
            text += " ";
            line += 1;
        }
        text += word;
        line += word.len();
    }
    text + "\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEAD: [&str; 6] = ["workload", "design", "Mop/s", "busy", "mostly", "crashes"];

    fn numbers() -> Table {
        let mut table = plain_table(&HEAD, 2..4);
        table.add_row(["a hash table", "lb:epochs=4", "60.9", "3", "intra 50, inter 6", "20 ok"]);
        table.add_row(["", "volatile", "152.8", "6", "", "-"]);
        table
    }

    fn prose() -> Table {
        let mut table = plain_table(&["machine", "cores", "what it is"], 1..2);
        let about = "the machine of a paper, with its caches, its network and its four controllers";
        table.add_row(["micro15", "32", about]);
        table
    }

    fn fitted(table: &Table, columns: usize, spare: &[&str]) -> String {
        let room = Room { columns, elsewhere: "--json FILE, or | cat" };
        within(Some(room), || text_sparing(table, spare))
    }

    fn widest(text: &str) -> usize {
        text.lines().map(|line| line.chars().count()).max().unwrap()
    }

    #[test]
    fn nothing_is_left_out_where_there_is_room_or_where_nobody_says_how_much() {
        for table in [numbers(), prose()] {
            let whole = text_of(&table);
            for columns in [widest(&whole), 120, 200] {
                assert_eq!(fitted(&table, columns, &["mostly"]), whole);
            }
            assert_ne!(fitted(&table, widest(&whole) - 1, &["mostly"]), whole);
            assert_eq!(text_of(&table), whole, "the room is forgotten afterwards");
        }
    }

    #[test]
    fn columns_are_left_out_in_the_order_that_the_table_states_and_then_from_the_right() {
        let text = fitted(&numbers(), 60, &["mostly", "busy"]);
        let head = text.lines().next().unwrap();
        assert_eq!(
            head.split_whitespace().collect::<Vec<_>>(),
            ["workload", "design", "Mop/s", "busy", "crashes"]
        );
        assert!(text.contains("(mostly left out;"), "{text}");
        assert!(widest(&text) <= 60, "{text}");
        let text = fitted(&numbers(), 46, &["mostly", "busy"]);
        assert!(text.contains("(busy, mostly left out;"), "{text}");
        let text = fitted(&numbers(), 39, &[]);
        assert!(text.contains("(busy, mostly, crashes left out;"), "{text}");
        assert!(text.contains("lb:epochs=4") && widest(&text) <= 39, "{text}");
    }

    #[test]
    fn the_note_says_how_wide_the_whole_table_is_and_names_json_where_there_is_json() {
        let whole = widest(&text_of(&numbers()));
        let text = fitted(&numbers(), 60, &["mostly"]).replace('\n', " ");
        assert!(text.contains(&format!("COLUMNS={whole}")) && text.contains("--json"), "{text}");
        assert_eq!(fitted(&numbers(), whole, &[]), text_of(&numbers()));
        let room = Room { columns: 60, elsewhere: "or | cat" };
        let text = within(Some(room), || text_of(&numbers()));
        assert!(text.contains("left out") && !text.contains("--json"), "{text}");
    }

    #[test]
    fn prose_is_broken_into_lines_and_keeps_its_words() {
        let words = |text: &str| text.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
        let whole = text_of(&prose());
        for columns in [60, 80] {
            let text = fitted(&prose(), columns, &[]);
            assert!(widest(&text) <= columns && text.lines().count() > 3, "{text}");
            let [all, broken] = [&whole, &text].map(|text| words(&text.replace('-', "")));
            assert_eq!(all, broken);
        }
        let text = fitted(&prose(), 40, &[]);
        assert!(text.contains("cores") && widest(&text) <= 40, "{text}");
        let text = fitted(&prose(), 33, &[]);
        assert!(text.contains("(cores left out;") && widest(&text) <= 33, "{text}");
    }

    #[test]
    fn the_first_column_stays_even_where_it_does_not_fit() {
        let text = fitted(&numbers(), 5, &["workload"]);
        assert!(text.starts_with("workload\n---"), "{text}");
        assert!(text.contains("a hash table") && text.contains("crashes"), "{text}");
    }
}
