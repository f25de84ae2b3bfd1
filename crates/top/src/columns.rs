//! The columns of the list. Their widths depend on the terminal alone, so that the list stands still while children come and go.

use std::time::Instant;

use nostray_terminal::Ink;
use nostray_terminal::fit::{columns, cut_middle};
use nostray_terminal::table::{ago, bytes, percent, short_span};
use nostray_view::{Listed, Looker, Sort};

use crate::sparkline;

/// In place of a number that there is none of.
const NONE: &str = "-";
const GAP: usize = 1;

/// What a column shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Column {
    Id,
    Name,
    State,
    UsedBy,
    Memory,
    /// Memory over time.
    Trend,
    Cpu,
    Messages,
    Errors,
    Restarts,
    Age,
    Sessions,
    Command,
}

use Column::*;

/// From left to right.
const ORDER: [Column; 13] =
    [Id, Name, State, UsedBy, Memory, Trend, Cpu, Messages, Errors, Restarts, Age, Sessions, Command];
/// Those that matter most come first: the rest is left out where there is no room. With the least width, and the width of a terminal from
/// which on they are shown.
const BY_WEIGHT: [(Column, usize, usize); 13] = [
    (Name, 10, 0),
    (State, 11, 0),
    (Memory, 5, 0),
    (Cpu, 5, 0),
    (UsedBy, 10, 0),
    (Age, 5, 0),
    (Restarts, 4, 0),
    (Messages, 5, 0),
    (Errors, 5, 0),
    (Trend, 6, 0),
    (Id, 8, 96),
    (Command, 12, 120),
    (Sessions, 10, 140),
];
/// Those that take the room that is left, in turns, each up to its most.
const FLEXIBLE: [(Column, usize); 5] = [(Name, 24), (UsedBy, 24), (Trend, 20), (Sessions, 20), (Command, usize::MAX)];

/// A column at its place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Placed {
    pub(crate) column: Column,
    pub(crate) left: usize,
    pub(crate) width: usize,
}

/// The columns that a line of this width has.
pub(crate) fn fitting(width: usize) -> Vec<Placed> {
    let mut widths: Vec<(Column, usize)> = Vec::new();
    let mut used = 0;
    for (column, least, from) in BY_WEIGHT {
        let more = least + if widths.is_empty() { 0 } else { GAP };
        if width >= from && used + more <= width {
            widths.push((column, least));
            used += more;
        }
    }
    let mut left = width.saturating_sub(used);
    while left > 0 {
        let before = left;
        for (column, most) in FLEXIBLE {
            let found = widths.iter_mut().find(|(other, width)| *other == column && *width < most);
            if let Some((_, width)) = found.filter(|_| left > 0) {
                *width += 1;
                left -= 1;
            }
        }
        if left == before {
            break;
        }
    }
    let mut at = 0;
    let mut place = |column: Column| {
        let (_, width) = *widths.iter().find(|(other, _)| *other == column)?;
        let left = at;
        at += width + GAP;
        Some(Placed { column, left, width })
    };
    ORDER.into_iter().filter_map(&mut place).collect()
}

impl Column {
    pub(crate) fn heading(self) -> &'static str {
        match self {
            Id => "ID",
            Name => "NAME",
            State => "STATE",
            UsedBy => "USED BY",
            Memory => "MEM",
            Trend => "TREND",
            Cpu => "CPU",
            Messages => "MSG/m",
            Errors => "ERR/m",
            Restarts => "RST",
            Age => "AGE",
            Sessions => "SESSION",
            Command => "COMMAND",
        }
    }

    /// Whether its last digits stand below each other.
    pub(crate) fn is_number(self) -> bool {
        matches!(self, Memory | Cpu | Messages | Errors | Restarts | Age)
    }
}

/// The column that a sort is by, and whether the highest come first.
pub(crate) fn sorted_by(sort: Sort) -> (Column, bool) {
    match sort {
        Sort::Started => (Age, true),
        Sort::Age => (Age, false),
        Sort::Name => (Name, false),
        Sort::State => (State, false),
        Sort::Memory => (Memory, true),
        Sort::Cpu => (Cpu, true),
        Sort::Restarts => (Restarts, true),
    }
}

/// Which children come first.
pub(crate) fn sort_in_words(sort: Sort) -> &'static str {
    match sort {
        Sort::Started => "start, the oldest first",
        Sort::Age => "age, the youngest first",
        Sort::Name => "name",
        Sort::State => "state, those that need you first",
        Sort::Memory => "memory",
        Sort::Cpu => "CPU",
        Sort::Restarts => "restarts",
    }
}

/// What is needed to fill cells.
#[derive(Debug)]
pub(crate) struct Cells<'a> {
    pub(crate) looker: &'a Looker,
    /// From which on steps of time are counted.
    pub(crate) origin: Instant,
    pub(crate) in_unicode: bool,
}

impl Cells<'_> {
    /// What stands in a column for a child, no wider than this, and its colour.
    pub(crate) fn cell(&self, child: &Listed, column: Column, width: usize) -> (String, Option<Ink>) {
        let measured = |text: String| if child.is_running() { text } else { NONE.to_owned() };
        let rates = || child.traffic.as_ref().and_then(|_| self.looker.rates(&child.pen.id));
        let rate = |number: Option<f64>| number.map_or_else(|| NONE.to_owned(), count);
        let (text, ink) = match column {
            Id => (child.pen.id.clone(), None),
            Name if child.name.is_empty() => (child.pen.id.clone(), None),
            Name => (child.name.clone(), None),
            State => (child.condition.word().to_owned(), Some(child.condition.ink())),
            UsedBy => (list(&child.programs(), NONE, width), None),
            Memory => (measured(bytes(child.tally.memory)), None),
            Trend => {
                let samples = self.looker.history(&child.pen.id);
                (sparkline::memory(samples, self.origin, width, self.in_unicode), Some(Ink::Cyan))
            }
            Cpu => (child.cpu_percent.map_or_else(|| NONE.to_owned(), percent), None),
            Messages => (rate(rates().map(|rates| rates.messages)), None),
            Errors => {
                let errors = rates().map(|rates| rates.errors);
                (rate(errors), errors.filter(|errors| *errors > 0.0).map(|_| Ink::Red))
            }
            Restarts => match child.restarts() {
                Some(0) | None => (String::new(), None),
                Some(times) => (count(times as f64), Some(Ink::Yellow)),
            },
            Age => (child.record().map_or_else(|| NONE.to_owned(), |it| short_span(ago(it.started))), None),
            Sessions => (list(&child.session_names(), "", width), None),
            Command => (child.record().map_or_else(String::new, |record| record.command.join(" ")), None),
        };
        (cut_middle(&nostray_sys::text::escaped(&text), width).into_owned(), ink)
    }
}

/// A list: `claude ×3, hermes`. Where that has no room, its beginning and how many more there are: `claude ×3 +1`.
fn list(texts: &[String], none: &str, width: usize) -> String {
    let whole = if texts.is_empty() { none.to_owned() } else { texts.join(", ") };
    let shorter =
        (1..texts.len()).rev().map(|shown| format!("{} +{}", texts[..shown].join(", "), texts.len() - shown));
    let forms: Vec<String> = std::iter::once(whole).chain(shorter).collect();
    let fits = |text: &&String| columns(text) <= width;
    forms.iter().find(fits).or(forms.last()).cloned().unwrap_or_default()
}

/// A number in at most five characters.
fn count(number: f64) -> String {
    match number.round() {
        whole @ ..100_000.0 => format!("{whole:.0}"),
        whole @ ..9_999_500.0 => format!("{:.0}k", whole / 1e3),
        whole => format!("{:.0}M", whole / 1e6),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn at_80_columns_all_that_matter_fit_and_the_line_is_full() {
        let placed = fitting(80);
        let shown: Vec<Column> = placed.iter().map(|placed| placed.column).collect();
        assert_eq!(shown, [Name, State, UsedBy, Memory, Trend, Cpu, Messages, Errors, Restarts, Age]);
        assert_eq!(placed.last().map(|last| last.left + last.width), Some(80));
    }

    #[test]
    fn no_width_is_exceeded_and_narrow_ones_keep_what_matters() {
        for width in 0..300 {
            let placed = fitting(width);
            assert!(placed.iter().all(|placed| placed.left + placed.width <= width), "{width}");
            assert!(placed.windows(2).all(|pair| pair[0].left + pair[0].width < pair[1].left), "{width}");
        }
        let names = |width: usize| fitting(width).iter().map(|placed| placed.column).collect::<Vec<_>>();
        assert_eq!(names(40), [Name, State, Memory, Cpu, Age]);
        assert_eq!(names(20), [Name, Memory]);
        assert!(names(120).contains(&Command) && names(100).contains(&Id) && names(140).contains(&Sessions));
    }

    #[test]
    fn numbers_and_lists_are_short() {
        let told = [0.4, 7.0, 99_999.4, 123_456.0, 9_999_499.0, 123_456_789.0].map(count);
        assert_eq!(told, ["0", "7", "99999", "123k", "9999k", "123M"]);
        let texts = ["claude ×3".to_owned(), "hermes".to_owned(), "zed".to_owned()];
        assert_eq!(list(&texts, "-", 24), "claude ×3, hermes, zed");
        assert_eq!(list(&texts, "-", 20), "claude ×3, hermes +1");
        assert_eq!(list(&texts, "-", 12), "claude ×3 +2");
        assert_eq!(list(&[], "-", 12), "-");
    }

    #[test]
    fn every_heading_has_room_for_its_mark() {
        for (column, least, _) in BY_WEIGHT {
            assert!(column.heading().len() <= least);
        }
        for sort in [Sort::Started, Sort::Age, Sort::Name, Sort::State, Sort::Memory, Sort::Cpu, Sort::Restarts] {
            let (column, _) = sorted_by(sort);
            let least = BY_WEIGHT.iter().find(|(other, ..)| *other == column).map(|(_, least, _)| *least);
            assert!(Some(column.heading().len()) < least, "{column:?}");
        }
    }
}
