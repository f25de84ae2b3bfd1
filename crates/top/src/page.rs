//! A page of text over the list: the keys, what a child printed, or what the journal says of it.

use nostray_registry::{Entry, Followers, Output, Place};
use nostray_terminal::fit::wrapped;
use nostray_terminal::{Ink, Zone};
use nostray_view::story_text;

use crate::app::Target;
use crate::events::is_about;
use crate::help;
use crate::keys::Key;

/// Older lines are left out. `nostray log` shows all of them.
const MAX_LINES: usize = 2000;
/// Lines that are too long go on behind this many blanks, below their text and not below their time.
const INDENT: usize = 10;

/// What a page is about.
#[derive(Debug)]
pub(crate) enum About {
    Help,
    Output { place: Place, target: Target },
    Log { target: Target },
}

/// A line, with the colour of its head.
#[derive(Debug, Clone)]
pub(crate) struct Line {
    pub(crate) time: Option<u64>,
    pub(crate) head: String,
    pub(crate) ink: Option<Ink>,
    pub(crate) tail: String,
}

/// The page.
#[derive(Debug)]
pub(crate) struct Page {
    about: About,
    pub(crate) title: String,
    lines: Vec<Line>,
    /// The first row that is shown; none if the end is shown, also when lines are added.
    first: Option<usize>,
    /// How many rows there are, and how many of them were shown last.
    extent: (usize, usize),
}

impl Page {
    pub(crate) fn open(about: About) -> Self {
        let title = match &about {
            About::Help => "Keys".to_owned(),
            About::Output { target, .. } => format!("Output of {} ({})", target.name, target.id),
            About::Log { target } => format!("Log of {} ({})", target.name, target.id),
        };
        let first = matches!(about, About::Help).then_some(0);
        let mut page = Self { about, title, lines: Vec::new(), first, extent: (0, 0) };
        page.lines = match &page.about {
            About::Help => help::lines(),
            About::Output { place, target } => output(place, &target.id),
            About::Log { target } => {
                let about = |entry: &Entry| is_about(entry, &target.id);
                Followers::from_start().more().iter().filter(|entry| about(entry)).map(of_entry).collect()
            }
        };
        page.leave_out_old();
        page
    }

    /// Adds what has come since.
    pub(crate) fn refresh(&mut self, added: &[Entry]) {
        match &self.about {
            About::Help => {}
            About::Output { place, target } => self.lines = output(place, &target.id),
            About::Log { target } => {
                self.lines.extend(added.iter().filter(|entry| is_about(entry, &target.id)).map(of_entry));
            }
        }
        self.leave_out_old();
    }

    fn leave_out_old(&mut self) {
        let old = self.lines.len().saturating_sub(MAX_LINES);
        self.lines.drain(..old);
    }

    /// False if the page is to be closed.
    pub(crate) fn press(&mut self, key: Key) -> bool {
        let (rows, height) = self.extent;
        let last = rows.saturating_sub(height);
        let first = self.first.unwrap_or(last);
        let page = height.saturating_sub(1).max(1);
        let to = match key {
            Key::Up | Key::Char('k') => first.saturating_sub(1),
            Key::Down | Key::Char('j') => first + 1,
            Key::PageUp => first.saturating_sub(page),
            Key::PageDown | Key::Char(' ') => first + page,
            Key::Home | Key::Char('g') => 0,
            Key::End | Key::Char('G') => last,
            Key::Escape | Key::Enter | Key::Char('q' | 'o' | 'l' | '?' | 'h') => return false,
            _ => return true,
        };
        self.first = (to < last || matches!(self.about, About::Help)).then_some(to.min(last));
        true
    }

    /// The rows that are shown in this width and height: the text, and how much of its beginning is the time and the head.
    pub(crate) fn rows(&mut self, width: usize, height: usize) -> Vec<Row> {
        let mut rows: Vec<Row> = self.lines.iter().flat_map(|line| rows_of(line, width)).collect();
        if rows.is_empty() {
            rows.extend(rows_of(&self.why_empty(), width));
        }
        self.extent = (rows.len(), height);
        let last = rows.len().saturating_sub(height);
        let first = self.first.unwrap_or(last).min(last);
        rows.into_iter().skip(first).take(height).collect()
    }

    fn why_empty(&self) -> Line {
        let why = match &self.about {
            About::Output { .. } => {
                "Nothing. What a supervised child prints that is no message is kept, and the stderr of a shared child. What any other child \
                 prints goes to its host."
            }
            About::Log { .. } => "The journal does not go back so far.",
            About::Help => "",
        };
        Line { time: None, head: String::new(), ink: None, tail: why.to_owned() }
    }
}

/// A row of a page.
#[derive(Debug)]
pub(crate) struct Row {
    pub(crate) time: String,
    pub(crate) head: String,
    pub(crate) ink: Option<Ink>,
    pub(crate) tail: String,
}

fn rows_of(line: &Line, width: usize) -> Vec<Row> {
    let time = line.time.map_or_else(String::new, |time| clock(time) + "  ");
    let text = nostray_sys::text::escaped(&format!("{}{}", line.head, line.tail)).into_owned();
    let room = width.saturating_sub(time.len()).max(1);
    // The indent is that of the time, which the rows below leave empty.
    let whole = wrapped(&text, Some(room), if time.is_empty() { INDENT } else { 0 });
    let head = nostray_sys::text::escaped(&line.head).into_owned();
    let mut rows = Vec::new();
    for (number, row) in whole.lines().enumerate() {
        let rest = row.strip_prefix(head.as_str()).filter(|_| number == 0 && !head.is_empty());
        let blank = " ".repeat(time.len());
        rows.push(Row {
            time: if number == 0 { time.clone() } else { blank },
            head: if rest.is_some() { head.clone() } else { String::new() },
            ink: line.ink,
            tail: rest.unwrap_or(row).to_owned(),
        });
    }
    rows
}

/// `19:07:12`, in the user's zone.
pub(crate) fn clock(time: u64) -> String {
    Zone::Local.show(time).get(11..19).unwrap_or_default().to_owned()
}

fn of_entry(entry: &Entry) -> Line {
    let words = story_text::of(&entry.story);
    Line { time: Some(entry.time), head: words.head, ink: Some(words.ink), tail: words.tail }
}

fn output(place: &Place, id: &str) -> Vec<Line> {
    let line = |printed: nostray_registry::Printed| Line {
        time: Some(printed.time),
        head: String::new(),
        ink: None,
        tail: printed.text,
    };
    Output::of(place, id).read().into_iter().map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page(lines: usize) -> Page {
        let target = Target { id: "abc".to_owned(), name: "x".to_owned() };
        let line =
            |number: usize| Line { time: None, head: String::new(), ink: None, tail: format!("line {number}") };
        let mut page = Page::open(About::Log { target });
        page.lines = (0..lines).map(line).collect();
        page
    }

    fn shown(page: &mut Page) -> Vec<String> {
        page.rows(80, 3).into_iter().map(|row| row.tail).collect()
    }

    #[test]
    fn the_end_is_shown_and_followed_until_a_person_scrolls() {
        let mut page = page(10);
        assert_eq!(shown(&mut page), ["line 7", "line 8", "line 9"]);
        assert!(page.press(Key::Up));
        assert_eq!(shown(&mut page), ["line 6", "line 7", "line 8"]);
        let more = page.lines[0].clone();
        page.lines.push(more);
        assert_eq!(shown(&mut page), ["line 6", "line 7", "line 8"]);
        assert!(page.press(Key::Home) && page.press(Key::PageDown));
        assert_eq!(shown(&mut page), ["line 2", "line 3", "line 4"]);
        page.press(Key::End);
        assert_eq!(shown(&mut page), ["line 8", "line 9", "line 0"]);
        assert!(!page.press(Key::Escape));
    }

    #[test]
    fn a_long_line_goes_on_below_and_is_safe_to_show() {
        let line = Line { time: Some(0), head: "stop".into(), ink: None, tail: "ping \x1b[2J one two".into() };
        let rows = rows_of(&line, 24);
        let all: Vec<String> = rows.iter().map(|row| format!("{}{}{}", row.time, row.head, row.tail)).collect();
        assert!(all.iter().all(|row| row.len() <= 24 && !row.contains('\x1b')), "{all:?}");
        assert_eq!((rows[0].head.as_str(), rows[0].tail.as_str()), ("stop", "ping"));
        assert!(rows[1].time.trim().is_empty() && all.len() > 1, "{all:?}");
    }
}
