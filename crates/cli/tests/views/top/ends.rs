//! However it ends, the terminal is as it was, and no process is left.

use badchild::{Found, wait_until};
use nostray_sys::Signal;
use testkit::screen::Screen;
use testkit::stage::Stage;
use testkit::tmux::{PROMPT, Tmux};

/// What was on the screen before.
const BEFORE: &str = "what was there before";

fn has_left(stage: &Stage, top: &Found) {
    wait_until("it has ended, and the process that watches it", || {
        !top.is_alive() && stage.scene.those_with("nostray-screen").is_empty()
    });
}

/// What the process says that restores the terminal in place of a killed one.
const KILLED: &str = "nostray top was killed; the terminal is restored";

/// Ends it, and checks that the shell can be used as before. `said` is on the screen then.
fn ends(end: impl Fn(&Tmux<'_>, &Found), code: &str, said: &str) {
    let stage = Stage::new();
    let Some(terminal) = Tmux::start(&stage, 80, 24) else { return };
    terminal.runs(&format!("echo {}", BEFORE.replace(' ', "\\ ")));
    terminal.shows_that("the shell echoes", |screen| screen.lines().any(|line| line == BEFORE));
    let settings = terminal.settings();
    let top = terminal.runs_nostray("top");
    let screen = terminal.shows("Nothing runs under nostray");
    assert!(!screen.contains(BEFORE), "{screen}");
    end(&terminal, &top);
    has_left(&stage, &top);
    terminal.shows_that("the first screen is back", |screen| {
        screen.contains(BEFORE) && screen.contains(said) && !screen.contains("Nothing runs under nostray")
    });
    if said == KILLED {
        // The shell may have been quicker, and have prompted on the screen that was left.
        terminal.press(&["Enter"]);
    }
    terminal.shows_that("the shell prompts", |screen| screen.trim_end().ends_with(PROMPT));
    terminal.runs("echo code=$?");
    let screen = terminal.shows(&format!("\ncode={code}\n"));
    // Typed once and shown once: the shell reads keys as before.
    assert_eq!(screen.matches("echo code=").count(), 1, "{screen}");
    assert_eq!(terminal.settings(), settings);
    drop(terminal);
    stage.scene.expect_empty();
}

#[test]
fn by_a_key() {
    ends(|terminal, _| terminal.press(&["q"]), "0", "");
    ends(|terminal, _| terminal.press(&["Escape"]), "0", "");
    ends(|terminal, _| terminal.press(&["C-c"]), "0", "");
}

#[test]
fn by_a_signal_that_it_can_handle() {
    ends(|_, top| top.send(Signal::TERM), "143", "");
    ends(|_, top| top.send(Signal::HUP), "129", "");
    ends(|_, top| top.send(Signal::INT), "0", "");
    ends(|_, top| top.send(Signal::QUIT), "131", "");
}

#[test]
fn by_a_signal_that_it_cannot_handle() {
    ends(|_, top| top.send(Signal::KILL), "137", KILLED);
    ends(|_, top| top.send(Signal::SEGV), "139", KILLED);
    // A job is a group: the process that restores the terminal is not in it.
    let kill_job = |_: &Tmux<'_>, top: &Found| {
        let group = top.stat.pid.as_raw_nonzero().get();
        assert!(
            std::process::Command::new("kill")
                .args(["-9", "--", &format!("-{group}")])
                .status()
                .is_ok_and(|status| status.success())
        );
    };
    ends(kill_job, "137", KILLED);
}

#[test]
fn a_stopped_job_gives_the_terminal_back_and_takes_it_again() {
    let stage = Stage::new();
    let Some(terminal) = Tmux::start(&stage, 80, 24) else { return };
    let settings = terminal.settings();
    let top = terminal.runs_nostray("top");
    terminal.shows("Nothing runs under nostray");
    terminal.press(&["C-z"]);
    terminal.shows("Stopped");
    assert!(top.is_stopped());
    assert_eq!(terminal.settings(), settings);
    terminal.runs("fg");
    terminal.shows_that("it is drawn again", |screen| {
        screen.starts_with("nostray top ") && screen.contains("Nothing runs under nostray")
    });
    terminal.press(&["C-z"]);
    terminal.shows("Stopped");
    // Killed while it is stopped: the terminal is the shell's, and nothing is written to it.
    top.send(Signal::KILL);
    has_left(&stage, &top);
    assert_eq!(terminal.settings(), settings);
    drop(terminal);
    stage.scene.expect_empty();
}

/// The window is closed.
#[test]
fn a_terminal_that_is_gone_ends_it() {
    let stage = Stage::new();
    let mut screen = Screen::start(&stage, 80, &[], &["top"]);
    // Blanks are not drawn on an empty screen.
    screen.sees("Nothing");
    let top = Found::by_pid(badchild::pid(i32::try_from(screen.process.id()).expect("small"))).expect("is there");
    screen.hang_up();
    has_left(&stage, &top);
    stage.scene.expect_empty();
}

/// A terminal that takes nothing (its window does not read) keeps it neither from ending nor busy.
#[test]
fn a_terminal_that_takes_nothing_does_not_hold_it() {
    let stage = Stage::new();
    let mut screen = Screen::start(&stage, 80, &[], &["top", "--interval", "0.1"]);
    // Blanks are not drawn on an empty screen.
    screen.sees("Nothing");
    let top = Found::by_pid(badchild::pid(i32::try_from(screen.process.id()).expect("small"))).expect("is there");
    // Each size draws the whole screen. What the test does not read fills the buffer of the terminal.
    for round in 0..2000_u16 {
        screen.resize(80 + round % 2, 24);
        std::thread::yield_now();
    }
    top.send(Signal::TERM);
    has_left(&stage, &top);
    assert_eq!(screen.code(), Some(143));
    stage.scene.expect_empty();
}
