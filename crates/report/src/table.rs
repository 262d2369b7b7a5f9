//! Tables of plain text, as all commands print them.

use comfy_table::{CellAlignment, LineStyle, Table, TableStyle};

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
        column.set_padding((0, 2));
    }
    if let Some(last) = table.column_mut(head.len() - 1) {
        last.set_padding((0, 0));
    }
    table
}

/// The lines of a table without trailing spaces.
pub fn text_of(table: &Table) -> String {
    table.lines().fold(String::new(), |text, line| text + line.trim_end() + "\n")
}
