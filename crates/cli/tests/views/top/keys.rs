//! What keys do.

use badchild::wait_until;
use testkit::stage::Stage;
use testkit::tmux::Tmux;

use super::{end, line_of};
use crate::supervised;

/// The names of the list, from top to bottom.
fn names(screen: &str) -> Vec<&str> {
    let below = screen.lines().skip_while(|line| !line.starts_with("NAME")).skip(1);
    let list = below.take_while(|line| !line.is_empty() && !line.starts_with('─'));
    list.filter_map(|line| line.split_whitespace().next()).collect()
}

#[test]
fn a_filter_leaves_those_that_match_and_escape_takes_it_away() {
    let stage = Stage::new();
    let Some(terminal) = Tmux::start(&stage, 80, 24) else { return };
    let callers = ["alpha", "beta", "gamma"].map(|name| supervised(&stage, name)).into();
    terminal.runs_nostray("top --interval 0.2");
    terminal.shows_that("all are there", |screen| names(screen) == ["alpha", "beta", "gamma"]);
    terminal.press(&["/"]);
    terminal.types("GAM");
    let screen = terminal.shows("filter: GAM");
    assert_eq!(names(&screen), ["gamma"], "{screen}");
    terminal.press(&["BSpace", "BSpace", "BSpace"]);
    terminal.types("bet");
    terminal.press(&["Enter"]);
    let screen = terminal.shows("/bet: 1 of 3");
    assert_eq!(names(&screen), ["beta"], "{screen}");
    terminal.press(&["/"]);
    terminal.types("nothing");
    terminal.shows("No child has this in its line");
    terminal.press(&["Escape"]);
    terminal.shows("/bet: 1 of 3");
    terminal.press(&["Escape"]);
    terminal.shows_that("all are there again", |screen| names(screen) == ["alpha", "beta", "gamma"]);
    terminal.press(&["q"]);
    drop(terminal);
    end(&stage, callers);
}

#[test]
fn the_list_is_sorted_by_the_column_that_is_marked() {
    let stage = Stage::new();
    let Some(terminal) = Tmux::start(&stage, 80, 24) else { return };
    let callers = ["beta", "alpha", "gamma"].map(|name| supervised(&stage, name)).into();
    terminal.runs_nostray("top --interval 0.2");
    terminal.shows_that("the oldest is first", |screen| names(screen) == ["beta", "alpha", "gamma"]);
    terminal.press(&["s"]);
    terminal.shows_that("it is sorted by name", |screen| {
        names(screen) == ["alpha", "beta", "gamma"] && screen.contains("NAME▲") && screen.contains("sorted by name")
    });
    for mark in ["STATE▲", "MEM▼", "CPU▼", "RST▼"] {
        terminal.press(&["s"]);
        terminal.shows(mark);
    }
    terminal.press(&["s"]);
    terminal.shows_that("the youngest is first", |screen| {
        names(screen) == ["gamma", "alpha", "beta"] && screen.contains("AGE▲")
    });
    terminal.press(&["q"]);
    terminal.shows(testkit::tmux::PROMPT);
    drop(terminal);
    end(&stage, callers);
}

#[test]
fn the_tree_shows_processes_and_holders_of_the_selected_child_then_of_all() {
    let stage = Stage::new();
    let Some(terminal) = Tmux::start(&stage, 100, 30) else { return };
    let callers = ["alpha", "beta"].map(|name| supervised(&stage, name)).into();
    terminal.runs_nostray("top --interval 0.2");
    terminal.shows_that("both are there", names_of_two);
    terminal.press(&["j", "t"]);
    terminal.shows_that("the selected child has its processes and holders", |screen| {
        let lines: Vec<&str> = screen.lines().collect();
        let held = lines.iter().position(|line| line.contains("held by "));
        let around = held.and_then(|at| lines.get(at.checked_sub(2)?..at + 3));
        screen.matches("kept by ").count() == 1
            && around.is_some_and(|around| {
                around[0].contains(" beta ")
                    && around[1].ends_with("--banner some server")
                    && around[3].contains("kept by front ")
                    && around[4].contains("  /")
            })
    });
    terminal.press(&["t"]);
    terminal.shows_that("both have theirs", |screen| screen.matches("kept by ").count() == 2);
    terminal.press(&["t"]);
    terminal.shows_that("none has", |screen| !screen.contains("kept by "));
    terminal.press(&["q"]);
    drop(terminal);
    end(&stage, callers);
}

/// With ids before the names, at this width.
fn names_of_two(screen: &str) -> bool {
    ["alpha", "beta"].iter().all(|name| screen.lines().any(|line| line.split_whitespace().nth(1) == Some(name)))
}

#[test]
fn restart_by_key_is_one_restart_and_its_outcome_is_said() {
    let stage = Stage::new();
    let Some(terminal) = Tmux::start(&stage, 80, 24) else { return };
    let mut caller = supervised(&stage, "memory");
    let before = caller.pid();
    terminal.runs_nostray("top --interval 0.2");
    terminal.shows("memory");
    terminal.press(&["r", "r"]);
    terminal.shows("restarted memory: number 2 runs");
    terminal.shows("number 2 answers");
    terminal.shows_that("it was restarted once", |screen| {
        line_of(screen, "memory").is_some_and(|line| line.split_whitespace().rev().nth(1) == Some("1"))
    });
    assert_ne!(caller.pid(), before);
    assert_eq!(stage.lives().len(), 2);
    terminal.press(&["q"]);
    drop(terminal);
    end(&stage, vec![caller]);
}

#[test]
fn a_child_that_cannot_be_restarted_says_why() {
    let stage = Stage::new();
    let Some(terminal) = Tmux::start(&stage, 80, 24) else { return };
    let mut caller = stage.start(&["--label", "name=plain"], &[]);
    caller.initialize();
    terminal.runs_nostray("top --interval 0.2");
    terminal.shows("plain");
    terminal.press(&["r"]);
    terminal.shows("could not restart plain: it is not supervised");
    terminal.press(&["q"]);
    drop(terminal);
    end(&stage, vec![caller]);
}

#[test]
fn stop_asks_and_only_yes_stops() {
    let stage = Stage::new();
    let Some(terminal) = Tmux::start(&stage, 80, 24) else { return };
    let mut caller = supervised(&stage, "memory");
    terminal.runs_nostray("top --interval 0.2");
    terminal.shows("memory");
    for no in ["n", "Escape", "q", "x"] {
        terminal.press(&["x"]);
        terminal.shows("and its whole tree? y/n");
        terminal.press(&[no]);
        terminal.shows("memory was not stopped");
    }
    caller.who();
    assert_eq!(stage.lives().len(), 1);
    terminal.press(&["x"]);
    terminal.shows("stop memory (");
    terminal.press(&["y"]);
    terminal.shows_that("it was stopped", |screen| {
        screen.contains("stopped memory") && screen.contains("Nothing runs under nostray")
    });
    caller.code();
    terminal.press(&["q"]);
    drop(terminal);
    end(&stage, vec![caller]);
}

#[test]
fn output_log_and_help_are_pages_that_close() {
    let stage = Stage::new();
    let Some(terminal) = Tmux::start(&stage, 80, 24) else { return };
    let caller = supervised(&stage, "memory");
    terminal.runs_nostray("top --interval 0.2");
    terminal.shows("memory");
    terminal.press(&["o"]);
    terminal.shows_all(&["Output of memory (", "some server"]);
    terminal.press(&["q", "l"]);
    terminal.shows_all(&["Log of memory (", "started: ", "number 1 answers"]);
    // What happens meanwhile is added.
    stage.nostray(&["restart", "memory"]);
    terminal.shows_that("the restart is in the log", |screen| {
        screen.contains("Log of memory") && screen.contains("number 2 answers")
    });
    terminal.press(&["Escape"]);
    terminal.shows("── events");
    terminal.press(&["?"]);
    terminal.shows_all(&[
        "Keys",
        "filter by",
        "sort by",
        "tree:",
        "restart a",
        "stop a child",
        "output:",
        "log:",
        "pause",
        "end;",
    ]);
    terminal.press(&["q", "Space"]);
    terminal.shows("PAUSED");
    terminal.press(&["Space"]);
    terminal.shows_that("it goes on", |screen| !screen.contains("PAUSED"));
    terminal.press(&["q"]);
    wait_until("it has ended", || stage.scene.those_with("nostray-screen").is_empty());
    drop(terminal);
    end(&stage, vec![caller]);
}

/// A person who asks for a restart and leaves at once gets the restart, and no process stays for it.
#[test]
fn a_command_is_carried_out_also_if_top_ends_at_once() {
    let stage = Stage::new();
    let Some(terminal) = Tmux::start(&stage, 80, 24) else { return };
    let caller = supervised(&stage, "memory");
    terminal.runs_nostray("top --interval 0.2");
    terminal.shows("memory");
    terminal.press(&["r", "q"]);
    wait_until("the child is restarted", || stage.lives().len() == 2);
    wait_until("no command is left", || stage.scene.those_with(" restart ").is_empty());
    drop(terminal);
    end(&stage, vec![caller]);
}
