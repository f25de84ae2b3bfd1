//! Terminals of other sizes.

use testkit::stage::Stage;
use testkit::tmux::Tmux;

use super::{end, line_of};
use crate::supervised;

#[test]
fn a_new_size_is_drawn_at_once_with_the_columns_that_fit() {
    let stage = Stage::new();
    let Some(terminal) = Tmux::start(&stage, 80, 24) else { return };
    let callers: Vec<_> = ["alpha", "beta"].map(|name| supervised(&stage, name)).into();
    // It draws for the size, and not for the time.
    terminal.runs_nostray("top --interval 1h");
    terminal.shows("beta");
    terminal.resize(120, 40);
    terminal.shows_that("it is wide, and its keys are in the last line", |screen| {
        let has_headings = screen.lines().any(|line| line.starts_with("ID ") && line.contains("COMMAND"));
        let last = screen.trim_end().lines().last();
        has_headings && screen.contains("badchild") && last.is_some_and(|line| line.starts_with("q quit"))
    });
    terminal.resize(40, 10);
    let screen = terminal
        .shows_that("it is narrow", |screen| !screen.contains("USED BY") && line_of(screen, "beta").is_some());
    let line = line_of(&screen, "beta").expect("a line");
    assert!(line.contains("ready") && line.contains('%'), "{screen}");
    assert!(screen.lines().all(|line| line.chars().count() <= 40) && !screen.contains("events"), "{screen}");
    terminal.resize(20, 5);
    terminal.shows_all(&["20x5: too small", "2 children", "q quits"]);
    terminal.resize(1, 1);
    terminal.resize(80, 24);
    let screen = terminal.shows_that("all is back", |screen| screen.contains("USED BY") && screen.contains("events"));
    assert!(line_of(&screen, "alpha").is_some() && line_of(&screen, "beta").is_some(), "{screen}");
    terminal.resize(20, 5);
    terminal.shows("too small");
    terminal.press(&["q"]);
    terminal.shows_that("the shell is back", |screen| !screen.contains("too small"));
    drop(terminal);
    end(&stage, callers);
}

#[test]
fn more_children_than_lines_scroll_with_the_selection() {
    let stage = Stage::new();
    let Some(terminal) = Tmux::start(&stage, 80, 12) else { return };
    let callers: Vec<_> = (0..12).map(|number| supervised(&stage, &format!("number-{number}"))).collect();
    terminal.runs_nostray("top --interval 0.2");
    terminal.shows("12 children");
    terminal.press(&["End"]);
    terminal.shows_that("the last is there", |screen| screen.contains("number-11") && !screen.contains("number-0"));
    terminal.press(&["x"]);
    terminal.shows("stop number-11 (");
    terminal.press(&["n", "Home"]);
    terminal.shows_that("the first is there", |screen| screen.contains("number-0") && !screen.contains("number-11"));
    terminal.press(&["PageDown", "PageDown", "Up", "x"]);
    terminal.shows("stop number-10 (");
    terminal.press(&["n", "q"]);
    drop(terminal);
    end(&stage, callers);
}
