//! `nostray slot hold`: a program or script that must be alone itself, not by a child.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use badchild::{badchild, wait_until};
use nostray_sys::Signal;
use serde_json::{Value, json};
use testkit::nostray;
use testkit::slots::{NOT_NOW, Ring, SLOT, end};

/// `nostray slot hold db`, started by the test.
struct Hold {
    process: Child,
    stdin: Option<ChildStdin>,
    stdout: BufReader<ChildStdout>,
}

fn hold_command(ring: &Ring, options: &[&str]) -> Command {
    let mut hold = ring.stage.scene.command(&nostray());
    hold.args(["slot", "hold", SLOT]).args(options);
    hold.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    hold
}

impl Hold {
    fn start(ring: &Ring, options: &[&str]) -> Self {
        let mut process = hold_command(ring, options).spawn().expect("start");
        let stdout = BufReader::new(process.stdout.take().expect("piped"));
        Self { stdin: process.stdin.take(), stdout, process }
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        self.stdout.read_line(&mut line).expect("read");
        line.trim_end().to_owned()
    }

    fn release(mut self) -> Option<i32> {
        drop(self.stdin.take());
        self.process.wait().expect("wait").code()
    }
}

#[test]
fn it_is_held_until_stdin_ends_and_the_host_is_who_holds_it() {
    let ring = Ring::new();
    let mut first = Hold::start(&ring, &[]);
    assert_eq!(first.line(), format!("holding {SLOT}"));
    wait_until("it is on record", || ring.state() == "ready");
    let shown = ring.show();
    assert_eq!(shown["holder"]["host"]["pid"], std::process::id(), "{shown:#}");
    let command = shown["holder"]["command"][0].as_str().expect("a command").to_owned();
    assert!(command.contains("slot-"), "not the command of this test: {command}");
    // Others are refused, or wait for their turn, whatever they are.
    assert_eq!(hold_command(&ring, &["--if-taken", "fail"]).status().expect("run").code(), Some(NOT_NOW));
    let late = hold_command(&ring, &["--wait-timeout", "200ms"]).status().expect("run");
    assert_eq!(late.code(), Some(NOT_NOW));
    let mut next = ring.run(&[], &[]);
    wait_until("a child waits", || ring.waiting().len() == 1);
    assert_eq!(first.release(), Some(0));
    ring.expect_holder(&mut next);
    assert_eq!(ring.history()[0]["why"], "it was released");
    assert_eq!(end(next), 0);
    ring.expect_over();
}

#[test]
fn a_newcomer_asks_and_waits_until_the_host_has_finished() {
    let ring = Ring::new();
    let mut first = Hold::start(&ring, &["--json"]);
    let heard = |line: &str| serde_json::from_str::<Value>(line).expect("JSON");
    assert_eq!(heard(&first.line()), json!({ "event": "held", "slot": SLOT }));
    let mut newcomer = ring.run(&["--if-taken", "replace"], &[]);
    let asked = heard(&first.line());
    assert_eq!((&asked["event"], &asked["slot"]), (&json!("asked"), &json!(SLOT)));
    assert!(asked["text"].as_str().is_some_and(|text| text.contains("hand over")), "{asked}");
    wait_until("it is stopping", || ring.state() == "stopping");
    // Longer than a holder that does not respond is waited for.
    std::thread::sleep(std::time::Duration::from_secs(6));
    assert_eq!(ring.state(), "stopping", "{:#}", ring.show());
    assert!(first.process.try_wait().expect("look").is_none(), "the holder was ended from outside");
    assert!(ring.stage.lives().is_empty(), "the newcomer did not wait");
    assert_eq!(first.release(), Some(0));
    ring.expect_holder(&mut newcomer);
    assert_eq!(ring.history()[0]["handed_over"], true, "{:#?}", ring.history());
    assert_eq!(end(newcomer), 0);
    ring.expect_over();
}

/// A database that takes long to open must not be taken away while it opens.
#[test]
fn a_holder_that_is_starting_is_not_asked_before_it_says_that_it_is_ready() {
    let ring = Ring::new();
    let mut first = Hold::start(&ring, &["--unready"]);
    assert_eq!(first.line(), format!("holding {SLOT}"));
    wait_until("it is on record", || ring.state() == "starting");
    let newcomer = Hold::start(&ring, &["--if-taken", "replace"]);
    wait_until("the newcomer waits", || ring.waiting().len() == 1);
    assert_eq!(ring.state(), "starting");
    let stdin = first.stdin.as_mut().expect("open");
    stdin.write_all(b"some noise\nready\n").expect("write");
    assert!(first.line().starts_with(&format!("asked to hand over {SLOT}: ")));
    assert_eq!(first.release(), Some(0));
    let mut newcomer = newcomer;
    assert_eq!(newcomer.line(), format!("holding {SLOT}"));
    assert_eq!(newcomer.release(), Some(0));
    ring.expect_over();
}

#[test]
fn it_is_free_when_the_host_is_killed_whatever_holds_the_pipe() {
    let ring = Ring::new();
    // The host leaks the pipe's write end into another process.
    let script = format!(
        "coproc \"$0\" slot hold {SLOT}; read -r line <&\"${{COPROC[0]}}\"; exec 8>&\"${{COPROC[1]}}\"; \
         sleep 1000 >&8 & echo \"$line\"; wait"
    );
    let mut host = ring.stage.scene.command("bash".as_ref());
    host.args(["-c", &script]).arg(nostray()).stdin(Stdio::null()).stdout(Stdio::piped());
    let mut host = host.spawn().expect("start");
    let mut line = String::new();
    BufReader::new(host.stdout.take().expect("piped")).read_line(&mut line).expect("read");
    assert_eq!(line.trim_end(), format!("holding {SLOT}"));
    host.kill().expect("kill");
    host.wait().expect("reap");
    let mut next = Hold::start(&ring, &[]);
    assert_eq!(next.line(), format!("holding {SLOT}"));
    assert_eq!(next.release(), Some(0));
    wait_until("it is free", || ring.state() == "free");
}

#[test]
fn it_is_free_when_the_holder_itself_is_killed_or_signalled() {
    let ring = Ring::new();
    for (signal, code) in [(Signal::KILL, None), (Signal::TERM, Some(143)), (Signal::INT, Some(130))] {
        let mut first = Hold::start(&ring, &[]);
        assert_eq!(first.line(), format!("holding {SLOT}"));
        let pid = badchild::pid(i32::try_from(first.process.id()).expect("small"));
        nostray_sys::signal::send_to_own_child(pid, signal).expect("signal");
        assert_eq!(first.process.wait().expect("wait").code(), code);
        wait_until("it is free", || ring.state() == "free");
    }
    ring.expect_over();
}

#[test]
fn an_operator_can_take_it_away() {
    let ring = Ring::new();
    let mut first = Hold::start(&ring, &[]);
    assert_eq!(first.line(), format!("holding {SLOT}"));
    wait_until("it is on record", || ring.state() == "ready");
    let output = ring.stage.nostray(&["slot", "release", "--now", SLOT]);
    assert!(output.status.success(), "{output:?}");
    assert_eq!(first.process.wait().expect("wait").code(), Some(0));
    ring.expect_over();
}

/// `</dev/null &` is how a script starts what is to run beside it.
#[test]
fn without_a_stdin_that_can_end_the_hosts_end_counts_alone() {
    let ring = Ring::new();
    let mut host = ring.stage.scene.command("bash".as_ref());
    host.args(["-c", &format!("\"$0\" slot hold {SLOT} </dev/null & exec \"$1\" pause")])
        .arg(nostray())
        .arg(badchild());
    let mut host = host.stdin(Stdio::null()).stdout(Stdio::null()).spawn().expect("start");
    wait_until("it is held", || ring.state() == "ready");
    host.kill().expect("kill");
    host.wait().expect("reap");
    ring.expect_over();
}
