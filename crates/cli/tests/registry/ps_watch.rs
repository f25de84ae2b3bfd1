//! `nostray ps --watch`: draws over what it drew, follows the size of the terminal, and leaves the terminal as it was.

use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};

use badchild::{PATIENCE, comes_true, wait_until};
use nostray_sys::Signal;
use nostray_sys::proc::Stat;
use testkit::nostray;
use testkit::screen::Screen;
use testkit::stage::{Caller, Stage};

const ENTER: &str = "\x1b[?1049h\x1b[?25l";
const SHOW_CURSOR: &str = "\x1b[?25h";
const LEAVE: &str = "\x1b[?1049l";
const HOME: &str = "\x1b[H";
const CTRL_C: &str = "\x03";
const CTRL_Z: &str = "\x1a";

fn child_called(stage: &Stage, name: &str) -> Caller {
    let mut caller = stage.start(&["--label", &format!("name={name}")], &[]);
    caller.initialize();
    caller
}

/// Ends with the cursor shown, on the first screen.
fn expect_restored(screen: &mut Screen) {
    screen.sees(SHOW_CURSOR);
    screen.sees(LEAVE);
    assert_eq!(screen.code(), Some(0));
    assert!(!screen.seen.contains("\x1b[?25l"), "{:?}", screen.seen);
}

#[test]
fn it_draws_in_place_until_ctrl_c_and_shows_the_cursor_again() {
    let stage = Stage::new();
    let mut screen = Screen::start(&stage, 80, &[], &["ps", "--watch", "0.1"]);
    screen.sees(ENTER);
    screen.sees(HOME);
    screen.sees("Nothing runs under nostray");
    let mut caller = child_called(&stage, "newcomer");
    screen.sees("newcomer");
    // The next one is drawn over this one: what is between clears the rest of the lines, and scrolls nothing.
    screen.sees(HOME);
    let drawn = screen.sees(HOME);
    assert!(drawn.contains("newcomer") && drawn.contains("\x1b[K\r\n") && drawn.ends_with("\x1b[J"), "{drawn:?}");
    assert!(!drawn.trim_end_matches("\x1b[J").ends_with('\n') && !drawn.contains("\x1b[2J"), "{drawn:?}");
    caller.close();
    assert_eq!(caller.code(), 0);
    screen.sees("Nothing runs under nostray");
    screen.types(CTRL_C);
    expect_restored(&mut screen);
    stage.scene.expect_empty();
}

#[test]
fn a_new_size_is_drawn_at_once_and_a_stopped_job_gives_the_terminal_back() {
    let stage = Stage::new();
    let mut callers: Vec<Caller> = (0..6).map(|number| child_called(&stage, &format!("number-{number}"))).collect();
    // It draws for the size, and not for the time.
    let mut screen = Screen::start(&stage, 80, &[("NO_COLOR", "1")], &["ps", "--watch", "1h"]);
    screen.sees(HOME);
    screen.sees("\x1b[J");
    screen.resize(50, 4);
    screen.sees(HOME);
    let drawn = screen.sees("\x1b[J").replace("\x1b[K", "").replace('\r', "");
    assert_eq!(drawn.lines().count(), 4, "{drawn:?}");
    assert!(drawn.lines().all(|line| line.chars().count() <= 50), "{drawn:?}");
    assert!(drawn.ends_with("… 4 more lines"), "{drawn:?}");

    screen.types(CTRL_Z);
    screen.sees(SHOW_CURSOR);
    screen.sees(LEAVE);
    let pid = badchild::pid(i32::try_from(screen.process.id()).expect("small"));
    wait_until("it is stopped", || Stat::of(pid).is_some_and(|stat| stat.is_stopped()));
    badchild::Found::by_pid(pid).expect("is there").send(Signal::CONT);
    screen.sees(ENTER);
    screen.sees(HOME);
    screen.sees("more lines");
    badchild::Found::by_pid(pid).expect("is there").send(Signal::INT);
    expect_restored(&mut screen);
    callers.iter_mut().for_each(Caller::close);
    callers.iter_mut().for_each(|caller| assert_eq!(caller.code(), 0));
    stage.scene.expect_empty();
}

fn piped(stage: &Stage, words: &[&str]) -> Command {
    let mut command = stage.scene.command(&nostray());
    command.args(words).stdin(Stdio::null()).stdout(Stdio::piped());
    command
}

#[test]
fn where_there_is_no_terminal_each_table_follows_the_last_and_a_closed_pipe_ends_it() {
    let stage = Stage::new();
    let mut caller = child_called(&stage, "steady");
    let mut process = piped(&stage, &["ps", "--watch", "0.1"]).spawn().expect("start");
    let mut lines = BufReader::new(process.stdout.take().expect("piped")).lines().map(|line| line.expect("text"));
    for round in 0..3 {
        if round > 0 {
            assert_eq!(lines.next().as_deref(), Some(""));
        }
        let (heading, row) = (lines.next().expect("a heading"), lines.next().expect("a row"));
        assert!(heading.starts_with("ID ") && row.contains("  steady  "), "{heading}\n{row}");
        assert!(!row.contains('\x1b'), "{row:?}");
    }
    drop(lines);
    let mut status = None;
    comes_true(PATIENCE, &mut || {
        status = process.try_wait().expect("look");
        status.is_some()
    });
    assert_eq!(status.and_then(|status| status.code()), Some(0));

    // It does not take until the next table to notice.
    let mut process = piped(&stage, &["ps", "--watch", "1h", "--json"]).spawn().expect("start");
    let mut reader = BufReader::new(process.stdout.take().expect("piped"));
    let mut line = String::new();
    while !line.starts_with('}') {
        line.clear();
        assert_ne!(reader.read_line(&mut line).expect("read"), 0, "the object has no end");
    }
    drop(reader);
    let is_over = comes_true(PATIENCE, &mut || process.try_wait().expect("look").is_some());
    assert!(is_over, "nobody reads what it writes");
    caller.close();
    assert_eq!(caller.code(), 0);
    stage.scene.expect_empty();
}

/// Since the last table, not since the start: a child that spins shows it, and one that has stopped spinning, too.
#[test]
fn the_processor_is_measured_between_two_tables() {
    let stage = Stage::new();
    let script = "read -r line; n=0; while [ $n -lt 3000000 ]; do n=$((n + 1)); done; echo done; read -r line";
    let mut caller = stage.start_command(&["--label", "name=spins"], &["sh", "-c", script]);
    wait_until("it is ready", || stage.states() == ["ready"]);
    let mut process = piped(&stage, &["ps", "--watch", "0.2", "--json"]).spawn().expect("start");
    let mut lines = BufReader::new(process.stdout.take().expect("piped")).lines().map(|line| line.expect("text"));
    let mut next_percent = || {
        let line = lines.find(|line| line.trim_start().starts_with("\"cpu_percent\"")).expect("goes on");
        let number = line.split(':').nth(1).expect("a value").trim().trim_end_matches(',').to_owned();
        number.parse::<f64>().expect("a number")
    };
    next_percent();
    caller.write(b"go\n");
    // On a busy machine it gets a part of a processor.
    while next_percent() < 20.0 {}
    assert_eq!(caller.next_line(), b"done\n");
    // Since its start it would be more than this for minutes.
    assert!((0..300).any(|_| next_percent() < 1.0), "it seems to spin still");
    process.kill().expect("kill");
    process.wait().expect("reap");
    caller.close();
    caller.code();
    stage.scene.expect_empty();
}

#[test]
fn an_interval_that_makes_no_sense_is_refused_with_an_example() {
    for (interval, hint) in [("soon", "like 2 or 0.5"), ("0", "too short")] {
        let output = Stage::new().nostray(&["ps", "--watch", interval]);
        assert_eq!(output.status.code(), Some(2));
        assert!(String::from_utf8_lossy(&output.stderr).contains(hint), "{output:?}");
    }
}
