//! Tables for people.

use std::time::Duration;

use nostray_sys::text::escaped;

use crate::moment::Zone;

/// Rows under headings, a line each whatever is in them. The last column takes what room is left on the line.
#[derive(Debug)]
pub struct Table {
    rows: Vec<Vec<String>>,
}

impl Table {
    /// A table without rows.
    #[must_use]
    pub fn new(headings: &[&str]) -> Self {
        Self { rows: vec![headings.iter().map(|heading| (*heading).to_owned()).collect()] }
    }

    /// Adds a row. Control characters in a cell are spelled out.
    pub fn row(&mut self, cells: Vec<String>) {
        self.rows.push(cells.iter().map(|cell| escaped(cell).into_owned()).collect());
    }

    /// As text, with the last column cut to the width of the terminal, if there is one.
    pub fn render(&self, width: Option<usize>) -> String {
        let columns = self.rows.iter().map(Vec::len).max().unwrap_or(0);
        let widths: Vec<usize> = (0..columns)
            .map(|column| {
                self.rows.iter().filter_map(|row| row.get(column)).map(|c| c.chars().count()).max().unwrap_or(0)
            })
            .collect();
        let mut text = String::new();
        for row in &self.rows {
            let mut line = String::new();
            for (cell, width) in row.iter().zip(&widths) {
                line += &format!("{cell:width$}  ");
            }
            let line = line.trim_end();
            match width.filter(|width| line.chars().count() > *width) {
                Some(width) => text.extend(line.chars().take(width.saturating_sub(1)).chain(['…'])),
                None => text += line,
            }
            text.push('\n');
        }
        text
    }
}

/// Bytes as people read them.
pub fn bytes(number: u64) -> String {
    const UNITS: [&str; 4] = ["K", "M", "G", "T"];
    let mut value = number as f64 / 1024.0;
    let mut unit = 0;
    while value >= 1000.0 && unit + 1 < UNITS.len() {
        value /= 1024.0;
        unit += 1;
    }
    if value < 10.0 { format!("{value:.1}{}", UNITS[unit]) } else { format!("{value:.0}{}", UNITS[unit]) }
}

/// A share of one processor, in at most five characters.
#[must_use]
pub fn percent(number: f64) -> String {
    if number < 9.95 { format!("{number:.1}%") } else { format!("{number:.0}%") }
}

/// A span of time as people read it: its two largest units.
pub fn span(time: Duration) -> String {
    let seconds = time.as_secs();
    match seconds {
        0..60 => format!("{seconds}s"),
        60..3600 => format!("{}m{}s", seconds / 60, seconds % 60),
        3600..86_400 => format!("{}h{}m", seconds / 3600, seconds % 3600 / 60),
        _ => format!("{}d{}h", seconds / 86_400, seconds % 86_400 / 3600),
    }
}

/// A span of time in at most five characters, for some thousand days: its two largest units, or one if that is ten or more.
pub fn short_span(time: Duration) -> String {
    let seconds = time.as_secs();
    match seconds {
        600..3600 => format!("{}m", seconds / 60),
        36_000..86_400 => format!("{}h", seconds / 3600),
        864_000.. => format!("{}d", seconds / 86_400),
        _ => span(time),
    }
}

/// How long ago a moment of Unix time in milliseconds was.
pub fn ago(moment: u64) -> Duration {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    now.saturating_sub(Duration::from_millis(moment))
}

/// A moment of Unix time in milliseconds, as text.
pub fn moment(milliseconds: u64) -> String {
    Zone::Utc.show(milliseconds)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_line_up_and_the_last_is_cut() {
        let mut table = Table::new(&["ID", "COMMAND"]);
        table.row(vec!["abcdef".to_owned(), "a long command".to_owned()]);
        assert_eq!(table.render(None), "ID      COMMAND\nabcdef  a long command\n");
        assert_eq!(table.render(Some(12)), "ID      COM…\nabcdef  a l…\n");
    }

    #[test]
    fn numbers_are_short() {
        assert_eq!((bytes(0), bytes(5 << 20), bytes(3 << 30)), ("0.0K".into(), "5.0M".into(), "3.0G".into()));
        let shares = [0.0, 0.04, 0.3, 9.94, 9.96, 100.0, 1599.6].map(percent);
        assert_eq!(shares, ["0.0%", "0.0%", "0.3%", "9.9%", "10%", "100%", "1600%"]);
        assert_eq!(span(Duration::from_secs(59)), "59s");
        assert_eq!(span(Duration::from_secs(3700)), "1h1m");
        let short = [9, 599, 600, 3599, 3600, 35_999, 36_000, 86_399, 86_400, 863_999, 864_000, 86_400_000];
        let short = short.map(|seconds| short_span(Duration::from_secs(seconds)));
        let expected = ["9s", "9m59s", "10m", "59m", "1h0m", "9h59m", "10h", "23h", "1d0h", "9d23h", "10d", "1000d"];
        assert_eq!(short, expected);
        assert_eq!(moment(u64::MAX), "9999-12-31T23:59:59Z");
    }
}
