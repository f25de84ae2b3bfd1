//! `nostray top` on a real terminal (tmux): each test presses keys and reads the screen.

mod ends;
mod keys;
mod load;
mod screens;
mod sizes;
mod trouble;

use testkit::stage::{Caller, Stage};

/// Ends the sessions, and checks that no process is left.
fn end(stage: &Stage, mut callers: Vec<Caller>) {
    callers.iter_mut().for_each(Caller::close);
    for caller in &mut callers {
        caller.code();
    }
    drop(callers);
    // By itself, a broker would stay for a few seconds more.
    stage.nostray(&["broker", "stop"]);
    stage.scene.expect_empty();
}

/// The line of the list that begins with this name.
fn line_of<'a>(screen: &'a str, name: &str) -> Option<&'a str> {
    screen.lines().find(|line| line.split_whitespace().next() == Some(name))
}
