//! A table whose lines fit a width: some of its columns give way. Other lines may stand between its rows.

use std::borrow::Cow;

use nostray_sys::text::escaped;

use crate::Ink;
use crate::fit::{columns, cut_end, cut_middle};

/// Blanks before a column.
const GAP: usize = 2;
/// The same between two columns of numbers, in a table that does not fit otherwise.
const NARROW_GAP: usize = 1;

/// A column of a [`FittedTable`].
#[derive(Debug, Clone, Copy)]
pub struct Column {
    heading: &'static str,
    is_number: bool,
    /// How it is cut, if it is.
    bounds: Option<Bounds>,
}

#[derive(Debug, Clone, Copy)]
struct Bounds {
    least: usize,
    most: usize,
}

impl Column {
    /// Text that is never cut.
    #[must_use]
    pub const fn whole(heading: &'static str) -> Self {
        Self { heading, is_number: false, bounds: None }
    }

    /// Numbers, the last digits of which stand below each other.
    #[must_use]
    pub const fn number(heading: &'static str) -> Self {
        Self { heading, is_number: true, bounds: None }
    }

    /// Text that is cut where there is not room for all. All columns give way down to `most`, the last one last; then down to `least`, in the
    /// same order.
    #[must_use]
    pub const fn giving_way(heading: &'static str, least: usize, most: usize) -> Self {
        Self { heading, is_number: false, bounds: Some(Bounds { least, most }) }
    }
}

/// What stands in a row and a column.
#[derive(Debug, Clone)]
pub struct Cell {
    /// The longest first.
    forms: Vec<String>,
    ink: Option<Ink>,
}

impl Cell {
    /// With a colour, if colours are shown.
    #[must_use]
    pub fn inked(text: &str, ink: Option<Ink>) -> Self {
        Self { forms: vec![escaped(text).into_owned()], ink }
    }

    /// With shorter forms, the longest of which that has room is shown. If none has, the last one is cut.
    #[must_use]
    pub fn with_shorter(mut self, forms: impl IntoIterator<Item = String>) -> Self {
        self.forms.extend(forms.into_iter().map(|form| escaped(&form).into_owned()));
        self
    }

    fn natural_width(&self) -> usize {
        self.forms.first().map_or(0, |text| columns(text))
    }

    /// In its middle, since beginning and end of a name or a command tell most.
    fn fitting(&self, width: usize) -> Cow<'_, str> {
        let fits = |text: &&String| columns(text) <= width;
        let form = self.forms.iter().find(fits).or(self.forms.last());
        form.map_or(Cow::Borrowed(""), |text| cut_middle(text, width))
    }
}

impl From<String> for Cell {
    fn from(text: String) -> Self {
        Self::inked(&text, None)
    }
}

#[derive(Debug)]
enum Line {
    Row(Vec<Cell>),
    Text(String),
}

/// The table.
#[derive(Debug)]
pub struct FittedTable {
    columns: Vec<Column>,
    lines: Vec<Line>,
}

impl FittedTable {
    /// A table without rows.
    #[must_use]
    pub fn new(columns: Vec<Column>) -> Self {
        let headings = columns.iter().map(|column| column.heading.to_owned().into()).collect();
        Self { columns, lines: vec![Line::Row(headings)] }
    }

    /// Adds a row, with a cell for each column.
    pub fn row(&mut self, cells: Vec<Cell>) {
        self.lines.push(Line::Row(cells));
    }

    /// Adds a line that is not a row.
    pub fn line(&mut self, text: &str) {
        self.lines.push(Line::Text(escaped(text).into_owned()));
    }

    /// As text, with lines that are no wider than `width`.
    #[must_use]
    pub fn render(&self, width: Option<usize>, colours: bool) -> String {
        let shape = self.shape(width);
        let mut text = String::new();
        for line in &self.lines {
            let (plain, inked) = match line {
                Line::Row(cells) => {
                    (self.row_as_text(cells, &shape, false), self.row_as_text(cells, &shape, colours))
                }
                Line::Text(line) => (line.clone(), line.clone()),
            };
            match width.filter(|width| columns(&plain) > *width) {
                // The terminal is narrower than the table can be.
                Some(width) => text += &cut_end(&plain, width),
                None => text += &inked,
            }
            text.push('\n');
        }
        text
    }

    fn shape(&self, width: Option<usize>) -> Shape {
        let mut natural = vec![0; self.columns.len()];
        for cells in self.rows() {
            for (widest, cell) in natural.iter_mut().zip(cells) {
                *widest = cell.natural_width().max(*widest);
            }
        }
        let mut shape = Shape { widths: natural.clone(), gaps: vec![GAP; self.columns.len()] };
        if let Some(first) = shape.gaps.first_mut() {
            *first = 0;
        }
        let Some(width) = width.filter(|width| shape.total() > *width) else { return shape };
        for (at, pair) in self.columns.windows(2).enumerate() {
            if pair.iter().all(|column| column.is_number) {
                shape.gaps[at + 1] = NARROW_GAP;
            }
        }
        while shape.total() > width
            && let Some(at) = self.next_to_give_way(&shape.widths)
        {
            shape.widths[at] -= 1;
        }
        self.share_out(&mut shape, &natural);
        shape
    }

    /// Shorter forms may leave room, which other columns get.
    fn share_out(&self, shape: &mut Shape, natural: &[usize]) {
        let fitted = |at: usize, width: usize| {
            self.rows().filter_map(|cells| cells.get(at)).map(|cell| columns(&cell.fitting(width))).max().unwrap_or(0)
        };
        let (mut room, mut cut) = (0, Vec::new());
        for at in 0..self.columns.len() {
            let needed = fitted(at, shape.widths[at]);
            if needed < shape.widths[at] {
                room += shape.widths[at] - needed;
                shape.widths[at] = needed;
            } else {
                cut.push(at);
            }
        }
        for at in cut {
            let more = room.min(natural[at].saturating_sub(shape.widths[at]));
            shape.widths[at] += more;
            room -= more;
        }
    }

    fn rows(&self) -> impl Iterator<Item = &Vec<Cell>> {
        self.lines.iter().filter_map(|line| if let Line::Row(cells) = line { Some(cells) } else { None })
    }

    fn next_to_give_way(&self, widths: &[usize]) -> Option<usize> {
        let widest = |is_meant: &dyn Fn(usize, Bounds) -> bool| {
            let meant = |at: &usize| self.columns[*at].bounds.is_some_and(|bounds| is_meant(*at, bounds));
            (0..self.columns.len()).filter(meant).max_by_key(|at| widths[*at])
        };
        let last = self.columns.len() - 1;
        widest(&|at, bounds| at != last && widths[at] > bounds.most)
            .or_else(|| widest(&|at, bounds| at == last && widths[at] > bounds.most))
            .or_else(|| widest(&|at, bounds| at != last && widths[at] > bounds.least))
            .or_else(|| widest(&|at, bounds| at == last && widths[at] > bounds.least))
    }

    fn row_as_text(&self, cells: &[Cell], shape: &Shape, colours: bool) -> String {
        let mut line = String::new();
        let mut blanks = 0;
        for (at, (cell, column)) in cells.iter().zip(&self.columns).enumerate() {
            let text = cell.fitting(shape.widths[at]);
            let padding = shape.widths[at].saturating_sub(columns(&text));
            blanks += shape.gaps[at] + if column.is_number { padding } else { 0 };
            // Blanks are written before text only, so that no line ends with them.
            if !text.is_empty() {
                line.extend(std::iter::repeat_n(' ', std::mem::take(&mut blanks)));
                match cell.ink.filter(|_| colours) {
                    Some(ink) => line += &ink.on(&text),
                    None => line += &text,
                }
            }
            blanks += if column.is_number { 0 } else { padding };
        }
        line
    }
}

/// How wide each column is, and how many blanks are before it.
struct Shape {
    widths: Vec<usize>,
    gaps: Vec<usize>,
}

impl Shape {
    fn total(&self) -> usize {
        self.widths.iter().sum::<usize>() + self.gaps.iter().sum::<usize>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table(rows: &[[&str; 5]]) -> FittedTable {
        let columns = vec![
            Column::whole("ID"),
            Column::giving_way("NAME", 4, 20),
            Column::number("MEM"),
            Column::number("CPU"),
            Column::giving_way("COMMAND", 8, 12),
        ];
        let mut table = FittedTable::new(columns);
        for row in rows {
            table.row(row.iter().map(|text| Cell::from((*text).to_owned())).collect());
        }
        table
    }

    #[test]
    fn columns_line_up_and_no_line_ends_with_blanks() {
        let table = table(&[["k7f39q2x", "memory", "5.0M", "2%", "npx server"], ["a", "", "143M", "", ""]]);
        let expected =
            "ID        NAME     MEM  CPU  COMMAND\nk7f39q2x  memory  5.0M   2%  npx server\na                 143M\n";
        assert_eq!(table.render(None, true), expected);
        assert_eq!(table.render(Some(80), true), expected);
    }

    fn second(table: &FittedTable, width: usize) -> String {
        table.render(Some(width), false).lines().nth(1).expect("a row").to_owned()
    }

    #[test]
    fn the_command_gives_way_before_the_name_unless_that_is_too_wide() {
        let named = |name| table(&[["k7f39q2x", name, "143M", "2.0%", "npx -y @scope/server-everything"]]);
        let usual = named("server-everything");
        assert_eq!(second(&usual, 56), "k7f39q2x  server-everything  143M 2.0%  npx -y @…rything");
        assert_eq!(second(&usual, 46), "k7f39q2x  serve…thing  143M 2.0%  npx -y…thing");
        assert_eq!(second(&usual, 36), "k7f39q2x  se…g  143M 2.0%  npx …hing");
        assert_eq!(second(&usual, 20), "k7f39q2x  se…g  143…");
        let wide = named("a-name-that-is-much-too-wide-for-a-table");
        assert_eq!(second(&wide, 65), "k7f39q2x  a-name-tha…r-a-table  143M 2.0%  npx -y @sco…everything");
        for (table, width) in [&usual, &wide].into_iter().flat_map(|table| (1..90).map(move |width| (table, width))) {
            let text = table.render(Some(width), false);
            assert!(text.lines().all(|line| columns(line) <= width), "{width}: {text}");
        }
    }

    #[test]
    fn a_shorter_form_is_taken_before_anything_is_cut() {
        let columns =
            vec![Column::whole("ID"), Column::giving_way("USED BY", 7, 20), Column::giving_way("COMMAND", 7, 7)];
        let mut table = FittedTable::new(columns);
        let cell = Cell::from("claude ×2, hermes, cursor".to_owned());
        let shorter = ["claude ×2, hermes +1", "claude ×2 +2"].map(str::to_owned);
        table.row(vec!["a".to_owned().into(), cell.with_shorter(shorter), "npx some-server".to_owned().into()]);
        assert_eq!(second(&table, 46), "a   claude ×2, hermes, cursor  npx some-server");
        assert_eq!(second(&table, 45), "a   claude ×2, hermes +1  npx some-server");
        // The command gets what the shorter form leaves.
        assert_eq!(second(&table, 32), "a   claude ×2 +2  npx som…server");
        assert_eq!(second(&table, 20), "a   cla… +2  npx…ver");
    }

    #[test]
    fn colours_take_no_room_and_control_characters_are_spelled_out() {
        let mut table = FittedTable::new(vec![Column::whole("STATE"), Column::giving_way("COMMAND", 8, 12)]);
        table.row(vec![Cell::inked("ready", Some(Ink::Green)), "a\x1b[2J\nb".to_owned().into()]);
        table.line("  below\x07");
        let plain = "STATE  COMMAND\nready  a\\u{1b}[2J\\nb\n  below\\u{7}\n";
        assert_eq!(table.render(Some(40), false), plain);
        assert_eq!(table.render(Some(40), true), plain.replace("ready", "\x1b[32mready\x1b[0m"));
    }
}
