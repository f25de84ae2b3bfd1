//! It ends with its terminal, with its reader, and by signals; and tells its viewers.

use std::net::TcpStream;
use std::os::unix::process::ExitStatusExt;

use badchild::{PATIENCE, comes_true};
use nostray_sys::Signal;
use testkit::screen::Screen;
use testkit::stage::Stage;

use super::http::{Web, command, next_event, parts};

#[test]
fn signals_end_it_and_viewers_are_told() {
    for (signal, code) in [(Signal::INT, 0), (Signal::TERM, 143), (Signal::HUP, 129)] {
        let stage = Stage::new();
        let mut web = Web::start(&stage);
        let mut viewer = web.events();
        next_event(&mut viewer, "snapshot");
        web.signal(signal);
        next_event(&mut viewer, "end");
        assert_eq!(web.code(), Some(code), "{signal}");
        assert!(TcpStream::connect(&web.host).is_err(), "something listens still");
        stage.scene.expect_empty();
    }
}

#[test]
fn it_ends_with_its_terminal_and_by_ctrl_c() {
    let stage = Stage::new();
    let mut screen = Screen::start(&stage, 80, &[], &["web", "--port", "0"]);
    screen.sees("Ctrl-C ends it.");
    screen.types("\x03");
    assert_eq!(screen.code(), Some(0));
    let mut screen = Screen::start(&stage, 200, &[], &["web", "--port", "0"]);
    let shown = screen.sees("Ctrl-C ends it.");
    let (host, _) = parts(shown.lines().find(|line| line.contains("http://")).expect("an address"));
    assert!(TcpStream::connect(&host).is_ok());
    // The terminal is closed. The wrapper around the command is of the test.
    screen.close_terminal();
    assert!(comes_true(PATIENCE, &mut || TcpStream::connect(&host).is_err()), "it has outlived its terminal");
    drop(screen);
    stage.scene.expect_empty();
}

#[test]
fn it_ends_when_no_process_reads_its_output() {
    let stage = Stage::new();
    let mut web = Web::start(&stage);
    web.stdout = None;
    assert_eq!(web.code(), Some(0));
    stage.scene.expect_empty();
}

#[test]
fn a_taken_port_is_said_and_the_usual_one_has_a_substitute() {
    let stage = Stage::new();
    let web = Web::start(&stage);
    let port = web.host.rsplit(':').next().expect("a port");
    let output = command(&stage, &["--port", port]).output().expect("run");
    assert_eq!(output.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&output.stderr).contains(&format!("port {port}")), "{output:?}");
    web.end();
    let (first, second) = (Web::start_with(&stage, &[]), Web::start_with(&stage, &[]));
    assert_ne!(first.host, second.host);
    first.end();
    second.end();
}

/// A kill cannot be told; the children are none of its own.
#[test]
fn a_killed_one_leaves_nothing_and_its_children_go_on() {
    let stage = Stage::new();
    let mut caller = stage.start(&["--respawn"], &[]);
    caller.initialize();
    let mut web = Web::start(&stage);
    let mut viewer = web.events();
    next_event(&mut viewer, "snapshot");
    web.signal(Signal::KILL);
    assert_eq!(web.process.wait().expect("wait").signal(), Some(9));
    assert!(caller.pid() > 0);
    caller.end(&stage);
}
