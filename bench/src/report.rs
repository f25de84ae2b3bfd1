//! Tables, for a terminal and as Markdown.

use std::path::Path;

use crate::{Failure, machine, screen};

/// How wide a terminal is taken to be.
const WIDTH: usize = 100;

/// What is shown and what is written are the same.
pub(crate) struct Report {
    markdown: String,
}

impl Report {
    /// Begins with where this was measured.
    pub(crate) fn new(title: &str) -> Self {
        let machine = machine::describe();
        screen::clear();
        screen::print(&machine);
        Self { markdown: format!("# {title}\n\n{machine}\n") }
    }

    pub(crate) fn say(&mut self, line: &str) {
        screen::clear();
        screen::print(line);
        self.markdown.push_str(&format!("\n{line}\n"));
    }

    pub(crate) fn add(&mut self, table: &Table) {
        screen::clear();
        screen::print(table.text().trim_end_matches('\n'));
        self.markdown.push_str(&table.markdown());
    }

    /// Into a file, if one was asked for.
    pub(crate) fn write(&self, file: Option<&Path>) -> Result<(), Failure> {
        let Some(file) = file else { return Ok(()) };
        Ok(std::fs::write(file, &self.markdown).map_err(|error| format!("{}: {error}", file.display()))?)
    }
}

/// One measurement's results.
pub(crate) struct Table {
    pub(crate) title: String,
    pub(crate) columns: Vec<String>,
    pub(crate) rows: Vec<Vec<String>>,
    /// What a reader should know about them.
    pub(crate) notes: Vec<String>,
}

impl Table {
    pub(crate) fn new(title: impl Into<String>, columns: &[&str]) -> Self {
        let columns = columns.iter().map(|&column| column.to_owned()).collect();
        Self { title: title.into(), columns, rows: Vec::new(), notes: Vec::new() }
    }

    pub(crate) fn row(&mut self, cells: impl IntoIterator<Item = String>) {
        self.rows.push(cells.into_iter().collect());
    }

    pub(crate) fn note(&mut self, text: impl Into<String>) {
        self.notes.push(text.into());
    }

    /// Aligned: names to the left, numbers to the right.
    pub(crate) fn text(&self) -> String {
        let lines = || std::iter::once(&self.columns).chain(&self.rows);
        let width = |at: usize| lines().filter_map(|line| line.get(at)).map(|cell| cell.chars().count()).max();
        let widths: Vec<usize> = (0..self.columns.len()).map(|at| width(at).unwrap_or(0)).collect();
        let mut text = format!("\n{}\n", self.title);
        for line in lines() {
            let cells = line.iter().zip(&widths).enumerate().map(|(at, (cell, &width))| {
                if at == 0 { format!("{cell:<width$}") } else { format!("{cell:>width$}") }
            });
            text.push_str("  ");
            text.push_str(cells.collect::<Vec<_>>().join("  ").trim_end());
            text.push('\n');
        }
        for note in &self.notes {
            text.push_str(&wrapped(note));
        }
        text
    }

    pub(crate) fn markdown(&self) -> String {
        let line = |cells: &[String]| format!("| {} |\n", cells.join(" | "));
        let mut text = format!("\n## {}\n\n{}", self.title, line(&self.columns));
        let rule: Vec<String> =
            (0..self.columns.len()).map(|at| if at == 0 { "---" } else { "---:" }.to_owned()).collect();
        text.push_str(&line(&rule));
        for row in &self.rows {
            text.push_str(&line(row));
        }
        for note in &self.notes {
            text.push_str(&format!("\n{note}\n"));
        }
        text
    }
}

fn wrapped(note: &str) -> String {
    let mut text = String::new();
    let mut line = String::from("  *");
    for word in note.split_whitespace() {
        if line.chars().count() + 1 + word.chars().count() > WIDTH {
            text.push_str(&line);
            text.push('\n');
            line = String::from("   ");
        }
        line.push(' ');
        line.push_str(word);
    }
    text + &line + "\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_stand_below_each_other() {
        let mut table = Table::new("t", &["name", "us"]);
        table.row(["direct".to_owned(), "9".to_owned()]);
        table.row(["x".to_owned(), "1000".to_owned()]);
        assert_eq!(table.text(), "\nt\n  name      us\n  direct     9\n  x       1000\n");
        assert!(table.markdown().contains("| --- | ---: |\n| direct | 9 |\n"));
    }

    #[test]
    fn a_note_keeps_to_the_width() {
        let long = wrapped(&"word ".repeat(60));
        assert!(long.lines().count() > 1 && long.lines().all(|line| line.len() <= WIDTH));
    }
}
