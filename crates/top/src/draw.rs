//! Puts what there is to show on the screen.
//!
//! From top to bottom: two lines about all children, a line for each trouble, the list, the last events, and a line of keys.

use nostray_sys::text::escaped;
use nostray_terminal::Ink;
use nostray_terminal::fit::{columns, cut_end};
use nostray_terminal::table::{bytes, percent};
use nostray_view::story_text;
use ratatui::Frame;
use ratatui::buffer::Buffer;
use ratatui::layout::{Position, Rect};
use ratatui::style::{Color, Modifier, Style};

use crate::app::{App, Mode};
use crate::columns::{Cells, Placed, fitting, sorted_by};
use crate::page::{Page, clock};
use crate::rows::first_on_screen;

/// The smallest terminal that has room for the list.
const LEAST_WIDTH: u16 = 24;
const LEAST_HEIGHT: u16 = 6;
/// From this height on, the last events are shown.
const HEIGHT_FOR_EVENTS: u16 = 16;
/// Of all lines, one in so many is for events.
const EVENTS_SHARE: u16 = 4;
const MAX_EVENTS: u16 = 12;
const MAX_TROUBLES: usize = 3;
/// The room for the name of an event's child.
const EVENT_NAME: usize = 14;
const KEYS: &str = "q quit  / filter  s sort  t tree  r restart  x stop  o output  l log  ? help";

/// How text looks here.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Look {
    pub(crate) in_colour: bool,
    pub(crate) in_unicode: bool,
}

impl Look {
    /// As the environment says.
    pub(crate) fn of_terminal() -> Self {
        Self { in_colour: nostray_terminal::colours(), in_unicode: nostray_terminal::shows_unicode() }
    }

    fn style(self, ink: Option<Ink>) -> Style {
        let coloured = |colour| if self.in_colour { Style::new().fg(colour) } else { Style::new() };
        match ink {
            None => Style::new(),
            Some(Ink::Bold) => Style::new().add_modifier(Modifier::BOLD),
            Some(Ink::Dim) => Style::new().add_modifier(Modifier::DIM),
            Some(Ink::Red) => coloured(Color::Red),
            Some(Ink::Green) => coloured(Color::Green),
            Some(Ink::Yellow) => coloured(Color::Yellow),
            Some(Ink::Cyan) => coloured(Color::Cyan),
        }
    }
}

/// A line of the screen that is filled from left to right.
struct Line<'a> {
    buffer: &'a mut Buffer,
    look: Look,
    x: u16,
    y: u16,
    end: u16,
}

impl Line<'_> {
    /// Adds a text. Control characters of others never reach the terminal.
    fn put(&mut self, text: &str, ink: Option<Ink>) {
        if self.y >= self.buffer.area.bottom() {
            return;
        }
        let room = usize::from(self.end.saturating_sub(self.x));
        let text = escaped(text);
        let text = cut_end(&text, room);
        (self.x, _) = self.buffer.set_stringn(self.x, self.y, text, room, self.look.style(ink));
    }

    fn go_to(&mut self, x: usize) {
        self.x = u16::try_from(x).unwrap_or(u16::MAX).min(self.end);
    }
}

/// Draws all of it.
pub(crate) fn draw(frame: &mut Frame<'_>, app: &mut App) {
    let area = frame.area();
    let mut canvas = Canvas { buffer: frame.buffer_mut(), area, look: app.look };
    if area.width < LEAST_WIDTH || area.height < LEAST_HEIGHT {
        canvas.too_small(app);
        return;
    }
    let is_page = matches!(app.mode, Mode::Page(_));
    if is_page {
        if let Mode::Page(page) = &mut app.mode {
            canvas.page(page);
        }
        return;
    }
    let top = canvas.head(app);
    let events = canvas.height_of_events(app);
    let bottom = area.height.saturating_sub(1 + events);
    canvas.list(app, top, bottom);
    canvas.events(app, bottom, events);
    let cursor = canvas.last_line(app);
    if let Some(cursor) = cursor {
        frame.set_cursor_position(cursor);
    }
}

struct Canvas<'a> {
    buffer: &'a mut Buffer,
    area: Rect,
    look: Look,
}

impl Canvas<'_> {
    fn line(&mut self, y: u16) -> Line<'_> {
        Line { buffer: self.buffer, look: self.look, x: 0, y, end: self.area.width }
    }

    fn width(&self) -> usize {
        usize::from(self.area.width)
    }

    fn too_small(&mut self, app: &App) {
        let (width, height) = (self.area.width, self.area.height);
        let lines = [
            children_in_words(app.children.len()),
            format!("{width}x{height}: too small"),
            format!("needs {LEAST_WIDTH}x{LEAST_HEIGHT}"),
            "q quits".to_owned(),
        ];
        for (y, text) in (0..height).zip(&lines) {
            self.line(y).put(text, None);
        }
    }

    /// The lines about all children. Returns the first line below them.
    fn head(&mut self, app: &App) -> u16 {
        let totals = &app.totals;
        let mut line = self.line(0);
        line.put("nostray top", Some(Ink::Bold));
        let sessions = if totals.sessions == 1 { "session" } else { "sessions" };
        line.put(&format!("  {} {sessions}, {}", totals.sessions, children_in_words(app.children.len())), None);
        let saved = totals.saved.in_words();
        if !saved.is_empty() {
            line.put(": ", None);
            line.put(&saved, Some(Ink::Green));
        }
        if app.is_paused {
            line.put("  PAUSED: space goes on", Some(Ink::Yellow));
        }
        let mut line = self.line(1);
        line.put(&format!("{} memory  {} CPU", bytes(totals.memory), percent(totals.cpu_percent)), None);
        for (number, (state, count)) in totals.states.iter().enumerate() {
            line.put(if number == 0 { "  " } else { ", " }, None);
            line.put(&format!("{count} {}", state.word()), Some(state.ink()));
        }
        let mut y = 2;
        for trouble in app.troubles.iter().take(MAX_TROUBLES) {
            self.line(y).put(trouble, Some(Ink::Red));
            y += 1;
        }
        y
    }

    /// The headings and the children, from the line `top` to the line before `bottom`.
    fn list(&mut self, app: &mut App, top: u16, bottom: u16) {
        let placed = fitting(self.width());
        self.headings(app, &placed, top);
        let width = self.width();
        let height = usize::from(bottom.saturating_sub(top + 1));
        app.page_length = height;
        let mut rows = |at: usize| 1 + app.lines_below(at, width).len();
        app.first = first_on_screen(app.first, app.selected, app.passed.len(), height, &mut rows);
        let cells = Cells { looker: &app.looker, origin: app.started, in_unicode: self.look.in_unicode };
        let (mut y, mut at) = (top + 1, app.first);
        while y < bottom
            && let Some(child) = app.child(at)
        {
            for Placed { column, left, width } in &placed {
                let (text, ink) = cells.cell(child, *column, *width);
                let pad = if column.is_number() { width.saturating_sub(columns(&text)) } else { 0 };
                let mut line = self.line(y);
                line.go_to(left + pad);
                line.put(&text, ink);
            }
            if at == app.selected {
                let row = Rect { x: 0, y, width: self.area.width, height: 1 };
                self.buffer.set_style(row, Style::new().add_modifier(Modifier::REVERSED));
            }
            y += 1;
            for text in app.lines_below(at, width).iter().take(usize::from(bottom.saturating_sub(y))) {
                self.line(y).put(text, Some(Ink::Dim));
                y += 1;
            }
            at += 1;
        }
        if app.passed.is_empty() {
            let why = match app.children.is_empty() {
                true if app.troubles.is_empty() => {
                    "Nothing runs under nostray. `nostray wrap` puts it in front of your servers."
                }
                true => "",
                false => "No child has this in its line. Esc takes the filter away.",
            };
            self.line(top + 1).put(why, None);
        }
    }

    fn headings(&mut self, app: &App, placed: &[Placed], y: u16) {
        let (sorted, is_highest_first) = sorted_by(app.sort);
        let mark = match (self.look.in_unicode, is_highest_first) {
            (true, true) => "▼",
            (true, false) => "▲",
            (false, true) => "v",
            (false, false) => "^",
        };
        for Placed { column, left, width } in placed {
            let mark = if *column == sorted { mark } else { "" };
            let text = format!("{}{mark}", column.heading());
            let pad = if column.is_number() { width.saturating_sub(columns(&text)) } else { 0 };
            let mut line = self.line(y);
            line.go_to(left + pad);
            line.put(&text, Some(Ink::Bold));
        }
    }

    /// With the line above them.
    fn height_of_events(&self, app: &App) -> u16 {
        if self.area.height < HEIGHT_FOR_EVENTS || app.events.last.is_empty() {
            return 0;
        }
        (self.area.height / EVENTS_SHARE).min(MAX_EVENTS)
    }

    fn events(&mut self, app: &App, top: u16, height: u16) {
        let Some(shown) = height.checked_sub(1) else { return };
        let rule = if self.look.in_unicode { "─" } else { "-" };
        let mut line = self.line(top);
        line.put(&format!("{rule}{rule} events "), Some(Ink::Dim));
        line.put(&rule.repeat(usize::from(line.end - line.x)), Some(Ink::Dim));
        let skipped = app.events.last.len().saturating_sub(usize::from(shown));
        for (y, event) in (top + 1..).zip(app.events.last.iter().skip(skipped)) {
            let words = story_text::of(&event.entry.story);
            let name = event.name.as_deref().unwrap_or(&event.entry.id);
            let mut line = self.line(y);
            line.put(&clock(event.entry.time), Some(Ink::Dim));
            line.go_to(10);
            line.put(&nostray_terminal::fit::cut_middle(&escaped(name), EVENT_NAME), None);
            line.go_to(10 + EVENT_NAME + 1);
            line.put(&words.head, Some(words.ink));
            line.put(&words.tail, None);
        }
    }

    /// What can be done, or what was. Returns where the cursor is, if text is typed.
    fn last_line(&mut self, app: &App) -> Option<Position> {
        let y = self.area.height - 1;
        let (passed, all) = (app.passed.len(), app.children.len());
        let mut line = self.line(y);
        match &app.mode {
            Mode::Filter { .. } => {
                line.put("filter: ", Some(Ink::Bold));
                line.put(app.filter.text(), None);
                return Some(Position { x: line.x.min(line.end.saturating_sub(1)), y });
            }
            Mode::Confirm(target) => {
                let question = format!("stop {} ({}) and its whole tree? y/n", target.name, target.id);
                line.put(&question, Some(Ink::Yellow));
            }
            Mode::List | Mode::Page(_) => {
                if !app.filter.is_empty() {
                    line.put(&format!("/{}: {passed} of {all}  ", app.filter.text()), Some(Ink::Bold));
                }
                match app.status() {
                    Some(status) => line.put(&status.text, status.ink),
                    None => line.put(KEYS, Some(Ink::Dim)),
                }
            }
        }
        None
    }

    fn page(&mut self, page: &mut Page) {
        self.line(0).put(&page.title, Some(Ink::Bold));
        let height = usize::from(self.area.height.saturating_sub(2));
        for (y, row) in (1..).zip(page.rows(self.width(), height)) {
            let mut line = self.line(y);
            line.put(&row.time, Some(Ink::Dim));
            line.put(&row.head, row.ink);
            line.put(&row.tail, None);
        }
        self.line(self.area.height - 1).put("q or Esc closes  ↑ ↓ PgUp PgDn scroll", Some(Ink::Dim));
    }
}

fn children_in_words(count: usize) -> String {
    if count == 1 { "1 child".to_owned() } else { format!("{count} children") }
}
