//! What is shown, and what a key does to it. Nothing here draws or waits.

use std::time::{Duration, Instant};

use nostray_terminal::Ink;
use nostray_view::{Action, Condition, Listed, Looker, Saved, Sort, Troubles};

use crate::commands::{Commands, doing};
use crate::draw::Look;
use crate::events::Events;
use crate::filter::Filter;
use crate::keys::Key;
use crate::page::{About, Page};
use crate::rows;

/// For so long the outcome of a key is shown.
const STATUS_TIME: Duration = Duration::from_secs(6);

/// The children below whose lines their processes and holders are shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Trees {
    None,
    Selected,
    All,
}

/// What keys mean at the moment.
#[derive(Debug)]
pub(crate) enum Mode {
    List,
    /// The filter is typed; it was `before`.
    Filter {
        before: String,
    },
    /// Whether to stop this child.
    Confirm(Target),
    Page(Page),
}

/// The child that a key is about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Target {
    pub(crate) id: String,
    pub(crate) name: String,
}

/// What the last key did, or how a command has ended.
#[derive(Debug)]
pub(crate) struct Status {
    pub(crate) text: String,
    pub(crate) ink: Option<Ink>,
    until: Instant,
}

/// What the loop is to do after a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Next {
    Stay,
    /// Look at the children at once.
    Look,
    /// Draw all of the screen.
    Redraw,
    End,
}

/// All children together.
#[derive(Debug, Default)]
pub(crate) struct Totals {
    /// How many children are in each state, of those in which there are any.
    pub(crate) states: Vec<(Condition, usize)>,
    pub(crate) sessions: usize,
    pub(crate) memory: u64,
    pub(crate) cpu_percent: f64,
    pub(crate) saved: Saved,
}

impl Totals {
    fn of(children: &[Listed]) -> Self {
        let count = |state| (state, children.iter().filter(|child| child.condition == state).count());
        Self {
            states: Condition::ALL.map(count).into_iter().filter(|(_, count)| *count > 0).collect(),
            sessions: children.iter().map(Listed::sessions).sum(),
            memory: children.iter().map(|child| child.tally.memory).sum(),
            cpu_percent: children.iter().filter_map(|child| child.cpu_percent).sum(),
            saved: children.iter().map(Listed::saved).sum(),
        }
    }
}

/// All that is shown.
#[derive(Debug)]
pub(crate) struct App {
    /// From which on steps of time are counted.
    pub(crate) started: Instant,
    pub(crate) look: Look,
    pub(crate) looker: Looker,
    /// All children, in order.
    pub(crate) children: Vec<Listed>,
    /// The places in `children` of those that the filter lets pass.
    pub(crate) passed: Vec<usize>,
    pub(crate) totals: Totals,
    pub(crate) events: Events,
    /// What cannot be read, or does not work.
    pub(crate) troubles: Vec<String>,
    watch: Troubles,
    pub(crate) sort: Sort,
    pub(crate) filter: Filter,
    pub(crate) trees: Trees,
    pub(crate) mode: Mode,
    /// The place in `passed` of the selected child, and its id, by which it is found after a refresh.
    pub(crate) selected: usize,
    selected_id: Option<String>,
    /// The place in `passed` of the first child on the screen.
    pub(crate) first: usize,
    /// How many lines of the list are on the screen.
    pub(crate) page_length: usize,
    pub(crate) commands: Commands,
    status: Option<Status>,
    pub(crate) is_paused: bool,
    /// The screen does not show all of this yet.
    pub(crate) is_changed: bool,
}

impl App {
    pub(crate) fn new(sort: Sort, filter: &str) -> Self {
        Self {
            started: Instant::now(),
            look: Look::of_terminal(),
            looker: Looker::default(),
            children: Vec::new(),
            passed: Vec::new(),
            totals: Totals::default(),
            events: Events::default(),
            troubles: Vec::new(),
            watch: Troubles::default(),
            sort,
            filter: Filter::new(filter),
            trees: Trees::None,
            mode: Mode::List,
            selected: 0,
            selected_id: None,
            first: 0,
            page_length: 1,
            commands: Commands::default(),
            status: None,
            is_paused: false,
            is_changed: true,
        }
    }

    /// Looks at everything.
    pub(crate) fn look(&mut self) {
        self.children = self.looker.quick();
        self.totals = Totals::of(&self.children);
        self.troubles = self.watch.look(&self.children);
        let added = self.events.look(&self.children);
        if let Mode::Page(page) = &mut self.mode {
            page.refresh(&added);
        }
        self.arrange();
    }

    /// Sorts, filters, and finds the selected child again.
    fn arrange(&mut self) {
        self.sort.sort(&mut self.children);
        let passes = |(_, child): &(usize, &Listed)| self.filter.passes(child);
        self.passed = self.children.iter().enumerate().filter(passes).map(|(at, _)| at).collect();
        let is_selected = |at: &usize| self.selected_id.as_ref() == Some(&self.children[*at].pen.id);
        // A child that has ended leaves its place to the next one.
        let found = self.passed.iter().position(is_selected);
        self.select(found.unwrap_or(self.selected));
    }

    fn select(&mut self, at: usize) {
        self.selected = at.min(self.passed.len().saturating_sub(1));
        self.selected_id = self.selected_child().map(|child| child.pen.id.clone());
        self.is_changed = true;
    }

    /// The child at this place of those that the filter lets pass.
    pub(crate) fn child(&self, at: usize) -> Option<&Listed> {
        self.passed.get(at).and_then(|at| self.children.get(*at))
    }

    pub(crate) fn selected_child(&self) -> Option<&Listed> {
        self.child(self.selected)
    }

    /// What stands below a child's line.
    pub(crate) fn lines_below(&self, at: usize, width: usize) -> Vec<String> {
        let is_open = match self.trees {
            Trees::None => false,
            Trees::Selected => at == self.selected,
            Trees::All => true,
        };
        match self.child(at).filter(|_| is_open) {
            Some(child) => rows::below(child, &self.looker, width),
            None => Vec::new(),
        }
    }

    /// What is said in the last line, if there is something to say.
    pub(crate) fn status(&self) -> Option<&Status> {
        self.status.as_ref()
    }

    fn say(&mut self, text: impl Into<String>, ink: Option<Ink>) {
        self.status = Some(Status { text: text.into(), ink, until: Instant::now() + STATUS_TIME });
        self.is_changed = true;
    }

    /// When what is shown changes without a look.
    pub(crate) fn next_change(&self) -> Option<Instant> {
        self.status.as_ref().map(|status| status.until)
    }

    /// Takes away what has been said for long enough.
    pub(crate) fn forget_old_status(&mut self, now: Instant) {
        if self.next_change().is_some_and(|until| now >= until) {
            self.status = None;
            self.is_changed = true;
        }
    }

    /// Says how commands have ended. False if none has.
    pub(crate) fn take_results(&mut self) -> bool {
        let results = self.commands.take_results();
        for result in &results {
            self.say(result.text(), (!result.is_success).then_some(Ink::Red));
        }
        !results.is_empty()
    }

    pub(crate) fn press(&mut self, key: Key) -> Next {
        self.is_changed = true;
        match (key, &mut self.mode) {
            // Where the terminal does not make a signal of it.
            (Key::Ctrl('c'), _) => Next::End,
            (Key::Ctrl('l'), _) => Next::Redraw,
            (key, Mode::List) => self.press_in_list(key),
            (key, Mode::Filter { .. }) => self.press_in_filter(key),
            (key, Mode::Confirm(target)) => {
                let target = target.clone();
                self.mode = Mode::List;
                match key {
                    Key::Char('y' | 'Y') => self.start(Action::Stop, target),
                    _ => self.say(format!("{} was not stopped", target.name), None),
                }
                Next::Stay
            }
            (key, Mode::Page(page)) => {
                if !page.press(key) {
                    self.mode = Mode::List;
                }
                Next::Stay
            }
        }
    }

    fn press_in_list(&mut self, key: Key) -> Next {
        let page = self.page_length.saturating_sub(1).max(1);
        match key {
            Key::Char('q') => return Next::End,
            Key::Escape if self.filter.is_empty() => return Next::End,
            Key::Escape => {
                self.filter = Filter::new("");
                self.arrange();
            }
            Key::Up | Key::Char('k') => self.select(self.selected.saturating_sub(1)),
            Key::Down | Key::Char('j') => self.select(self.selected + 1),
            Key::PageUp => self.select(self.selected.saturating_sub(page)),
            Key::PageDown => self.select(self.selected + page),
            Key::Home | Key::Char('g') => self.select(0),
            Key::End | Key::Char('G') => self.select(usize::MAX),
            Key::Char('/') => self.mode = Mode::Filter { before: self.filter.text().to_owned() },
            Key::Char('s') => {
                self.sort = next_sort(self.sort);
                self.say(format!("sorted by {}", crate::columns::sort_in_words(self.sort)), None);
                self.arrange();
            }
            Key::Char('t') => {
                let (trees, said) = match self.trees {
                    Trees::None => (Trees::Selected, "tree of the selected child"),
                    Trees::Selected => (Trees::All, "trees of all children"),
                    Trees::All => (Trees::None, "no trees"),
                };
                self.trees = trees;
                self.say(said, None);
            }
            Key::Char(' ') => {
                self.is_paused = !self.is_paused;
                return if self.is_paused { Next::Stay } else { Next::Look };
            }
            Key::Char('?' | 'h') => self.mode = Mode::Page(Page::open(About::Help)),
            Key::Char('o' | 'l' | 'r' | 'x') => self.press_about_child(key),
            _ => {}
        }
        Next::Stay
    }

    fn press_about_child(&mut self, key: Key) {
        let Some(child) = self.selected_child() else {
            self.say("no child is selected", None);
            return;
        };
        let name = if child.name.is_empty() { &child.pen.id } else { &child.name };
        let target = Target { id: child.pen.id.clone(), name: name.clone() };
        match key {
            Key::Char('o') => {
                let about = About::Output { place: child.pen.place.clone(), target };
                self.mode = Mode::Page(Page::open(about));
            }
            Key::Char('l') => self.mode = Mode::Page(Page::open(About::Log { target })),
            Key::Char('r') => self.start(Action::Restart, target),
            _ => self.mode = Mode::Confirm(target),
        }
    }

    fn press_in_filter(&mut self, key: Key) -> Next {
        let mut text = self.filter.text().to_owned();
        match key {
            Key::Enter => self.mode = Mode::List,
            Key::Escape => {
                if let Mode::Filter { before } = std::mem::replace(&mut self.mode, Mode::List) {
                    text = before;
                }
            }
            Key::Backspace => drop(text.pop()),
            Key::Ctrl('u') => text.clear(),
            Key::Up => self.select(self.selected.saturating_sub(1)),
            Key::Down => self.select(self.selected + 1),
            Key::Char(letter) => text.push(letter),
            _ => {}
        }
        if text != self.filter.text() {
            self.filter = Filter::new(&text);
            self.arrange();
        }
        Next::Stay
    }

    fn start(&mut self, action: Action, target: Target) {
        let said = format!("{} {} …", doing(action), target.name);
        match self.commands.start(action, target) {
            Ok(()) => self.say(said, None),
            Err(why) => self.say(why, Some(Ink::Red)),
        }
    }
}

fn next_sort(sort: Sort) -> Sort {
    match sort {
        Sort::Started => Sort::Name,
        Sort::Name => Sort::State,
        Sort::State => Sort::Memory,
        Sort::Memory => Sort::Cpu,
        Sort::Cpu => Sort::Restarts,
        Sort::Restarts => Sort::Age,
        Sort::Age => Sort::Started,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_sort_comes_once() {
        let (mut sort, mut seen) = (Sort::Started, Vec::new());
        while !seen.contains(&sort) {
            seen.push(sort);
            sort = next_sort(sort);
        }
        assert_eq!((sort, seen.len()), (Sort::Started, 7));
    }

    #[test]
    fn keys_about_a_child_say_so_where_there_is_none() {
        for key in ['o', 'l', 'r', 'x'] {
            let mut app = App::new(Sort::Started, "");
            assert_eq!(app.press(Key::Char(key)), Next::Stay);
            assert_eq!(app.status().map(|status| status.text.as_str()), Some("no child is selected"));
        }
    }

    #[test]
    fn escape_takes_the_filter_away_before_it_ends() {
        let mut app = App::new(Sort::Started, "memory");
        app.press(Key::Char('/'));
        app.press(Key::Char('x'));
        assert_eq!(app.filter.text(), "memoryx");
        app.press(Key::Escape);
        assert_eq!(app.filter.text(), "memory");
        app.press(Key::Char('/'));
        app.press(Key::Ctrl('u'));
        app.press(Key::Char('q'));
        assert_eq!(app.press(Key::Enter), Next::Stay);
        assert_eq!(app.filter.text(), "q");
        assert_eq!(app.press(Key::Escape), Next::Stay);
        assert!(app.filter.is_empty());
        assert_eq!(app.press(Key::Escape), Next::End);
    }
}
