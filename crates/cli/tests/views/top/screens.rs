//! What is on the screen.

use serde_json::json;
use testkit::stage::Stage;
use testkit::tmux::Tmux;

use super::{end, line_of};
use crate::supervised;

#[test]
fn at_80_by_24_children_states_users_rates_savings_and_events_are_there() {
    let stage = Stage::new();
    let Some(terminal) = Tmux::start(&stage, 80, 24) else { return };
    let mut callers: Vec<_> =
        (1..=3).map(|n| stage.shared(&["--key", "memory", "--session", &format!("chat-{n}")], &[])).collect();
    terminal.runs_nostray("top");
    terminal.shows("3 sessions, 1 child: ");
    callers[0].result("who", json!({}));
    callers[1].error("no-such-method", json!({}));
    let screen = terminal.shows_that("messages and errors are counted", |screen| {
        let words: Vec<&str> = line_of(screen, "memory").unwrap_or_default().split_whitespace().collect();
        // NAME STATE USED BY (two words) MEM TREND CPU MSG/m ERR/m AGE
        let number = |at: usize| words.get(at).and_then(|word| word.parse::<u64>().ok());
        number(7) > Some(0) && number(8) > Some(0) && screen.contains("── events ──") && screen.contains("held by")
    });
    assert!(screen.lines().all(|line| line.chars().count() <= 80), "{screen}");
    let heading = screen.lines().find(|line| line.starts_with("NAME")).expect("headings");
    for column in ["STATE", "USED BY", "MEM", "TREND", "CPU", "MSG/m", "ERR/m", "RST", "AGE▼"] {
        assert!(heading.contains(column), "{column} is not in:\n{screen}");
    }
    let line = line_of(&screen, "memory").expect("a line");
    assert!(line.contains(" ready ") && line.contains(" ×3 ") && line.contains('%'), "{screen}");
    assert!(line.chars().any(|c| ('▁'..='█').contains(&c)), "no memory over time: {screen}");
    assert!(screen.contains(" saved by sharing") && screen.contains("1 ready"), "{screen}");
    assert!(terminal.coloured().contains("\x1b[32m"), "no state has a colour");
    let mut sleeper = stage.start(&["--hibernate", "100ms", "--label", "name=sleeper"], &[]);
    sleeper.initialize();
    callers.push(sleeper);
    terminal.shows_that("one child is asleep", |screen| {
        let is_counted =
            [" by sleeping", "4 sessions, 2 children: ", "1 asleep"].iter().all(|text| screen.contains(text));
        is_counted && line_of(screen, "sleeper").is_some_and(|line| line.contains("asleep"))
    });
    terminal.press(&["q"]);
    drop(terminal);
    end(&stage, callers);
}

#[test]
fn without_colours_there_are_none_and_text_of_others_cannot_steer_the_terminal() {
    let stage = Stage::new();
    let Some(terminal) = Tmux::start(&stage, 80, 24) else { return };
    let evil = "\x1b[2J\x1b]0;owned\x07evil";
    let caller = supervised(&stage, evil);
    terminal.runs("export NO_COLOR=1");
    terminal.runs_nostray("top");
    let screen = terminal.shows("\\u{1b}");
    assert!(screen.contains("nostray top  1 session, 1 child"), "{screen}");
    let coloured = terminal.coloured();
    assert!(!(30..38).any(|colour| coloured.contains(&format!("\x1b[{colour}m"))), "{coloured:?}");
    terminal.press(&["q"]);
    drop(terminal);
    end(&stage, vec![caller]);
}

#[test]
fn without_a_terminal_it_names_what_to_use_instead() {
    let output = Stage::new().nostray(&["top"]);
    assert_eq!(output.status.code(), Some(2));
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(said.contains("nostray ps --watch") && said.contains("nostray ps --json"), "{said}");
    let output = Stage::new().nostray(&["top", "--interval", "soon"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&output.stderr).contains("like 2 or 0.5"), "{output:?}");
}
