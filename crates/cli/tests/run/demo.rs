//! `nostray demo` tells the truth, and leaves no process behind, however it ends.

use std::io::{BufRead, BufReader, Read};
use std::process::{Child, ChildStdout, Command, ExitStatus, Stdio};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use badchild::{Folder, Found, Scene, User, pid, publish, wait_until};
use nostray_sys::Signal;

/// How long the demo's processes may stay when the demo was killed and could not end them. By themselves they would
/// stay for much longer.
const A_FEW_SECONDS: Duration = Duration::from_secs(20);
/// The processes of the tree that do not end by themselves.
const BAD: [&str; 4] = ["helper", "setsid", "daemon", "stubborn"];

fn demo(scene: &Scene, options: &[&str]) -> Command {
    let mut command = scene.command(&publish(env!("CARGO_BIN_EXE_nostray").as_ref()));
    command.arg("demo").args(options).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

fn end_of(process: &mut Child) -> ExitStatus {
    let mut status = None;
    wait_until("the demo ends", || {
        status = process.try_wait().expect("wait for the demo");
        status.is_some()
    });
    status.expect("seen")
}

fn complaints_of(process: &mut Child) -> String {
    let mut complaints = String::new();
    process.stderr.take().expect("piped").read_to_string(&mut complaints).expect("read");
    complaints
}

fn expect_no_process(scene: &Scene) {
    // Look at once, without waiting: before it ends, a demo makes sure that no process is left.
    let left = scene.processes();
    assert!(left.is_empty(), "the demo left processes: {left:#?}");
}

/// The moments at which a demo is ended: each act, before the host is killed and after.
const MOMENTS: [[&[&str]; 2]; 4] = [
    [&["Without nostray"], &["stubborn", "running"]],
    [&["Without nostray"], &["child", "gone"]],
    [&["With nostray"], &["guard", "running"]],
    [&["With nostray"], &["child", "gone"]],
];

/// One test at a time: a demo gives up when a step exceeds its limit, and twelve demos at once are slow on a busy
/// machine.
static FEW: Mutex<()> = Mutex::new(());

/// Starts a demo for each moment, and calls `act` when the moment has come: the demo has written a line with all of the
/// first words, and then a line with all of the second ones.
fn at_every_moment(act: impl Fn(&Scene, Child, BufReader<ChildStdout>) + Sync) {
    let _few = FEW.lock().unwrap_or_else(PoisonError::into_inner);
    let one = &|moment: [&[&str]; 2]| {
        let scene = Scene::new(User::Current);
        let mut process = demo(&scene, &[]).spawn().expect("start the demo");
        let mut says = BufReader::new(process.stdout.take().expect("piped"));
        for words in moment {
            let mut line = String::new();
            while !words.iter().all(|word| line.contains(word)) {
                line.clear();
                if says.read_line(&mut line).expect("read") == 0 {
                    panic!("the demo never said {words:?}, but: {}", complaints_of(&mut process));
                }
            }
        }
        act(&scene, process, says);
    };
    std::thread::scope(|scope| {
        for moment in MOMENTS {
            scope.spawn(move || one(moment));
        }
    });
}

#[test]
fn the_demo_names_survivors_without_nostray_and_none_with_it() {
    for user in User::all() {
        let scene = Scene::new(user);
        let mut process = demo(&scene, &["--fast"]).spawn().expect("start the demo");
        let status = end_of(&mut process);
        expect_no_process(&scene);
        let mut said = String::new();
        process.stdout.take().expect("piped").read_to_string(&mut said).expect("read");
        assert_eq!((status.code(), complaints_of(&mut process).as_str()), (Some(0), ""), "{user:?}: {said}");

        let (alone, rest) = said.split_once("With nostray").expect("a second act");
        let (penned, summary) = rest.split_once("after the kill").expect("a summary");
        let has = |text: &str, name: &str, state: &str| {
            text.lines().any(|line| line.contains(&format!("* {name} ")) && line.contains(state))
        };
        for name in BAD {
            assert!(has(alone, name, " alive ") && !has(alone, name, " gone "), "{name}: {said}");
            assert!(has(penned, name, " gone ") && !has(penned, name, " alive "), "{name}: {said}");
            let words: Vec<_> = summary.lines().map(|line| line.split_whitespace().collect::<Vec<_>>()).collect();
            assert!(words.contains(&vec![name, "survived", "gone"]), "{name}: {said}");
        }
        for name in ["front", "spare", "guard"] {
            assert!(has(penned, name, " gone "), "{name}: {said}");
        }
        assert!(!said.contains('\x1b'), "escape sequences in a pipe: {said:?}");
        assert!(said.lines().all(|line| line.len() < 80), "a line is too long: {said}");
    }
}

#[test]
fn a_signal_ends_the_demo_at_every_moment_and_no_process_is_left() {
    for signal in [Signal::INT, Signal::TERM, Signal::HUP] {
        at_every_moment(|scene, mut process, _says| {
            send(&process, signal);
            assert_eq!(end_of(&mut process).code(), Some(128 + signal.as_raw()));
            expect_no_process(scene);
        });
    }
}

#[test]
fn the_demos_processes_end_even_if_the_demo_is_killed() {
    at_every_moment(|scene, mut process, _says| {
        send(&process, Signal::KILL);
        assert_eq!(end_of(&mut process).code(), None);
        scene.expect_empty_within(A_FEW_SECONDS);
    });
}

/// Its pen is no child of the user's, so neither records nor journal tell of it, however the demo ends. What a killed demo leaves is
/// removed by the next one.
#[test]
fn it_keeps_its_records_to_itself_and_removes_them() {
    let _few = FEW.lock().unwrap_or_else(PoisonError::into_inner);
    let scene = Scene::apart(User::Current);
    let folder = Folder::new("demos");
    let left = || -> Vec<_> {
        let entries = std::fs::read_dir(folder.path()).expect("read").flatten();
        entries.map(|entry| entry.file_name().into_string().expect("a name")).collect()
    };
    for signal in [None, Some(Signal::INT), Some(Signal::KILL), Some(Signal::HUP)] {
        let mut command = demo(&scene, if signal.is_some() { &[] } else { &["--fast"] });
        let mut process = command.env("TMPDIR", folder.path()).spawn().expect("start the demo");
        let mut says = BufReader::new(process.stdout.take().expect("piped"));
        if let Some(signal) = signal {
            let mut line = String::new();
            while !(line.contains("guard") && line.contains("running")) {
                line.clear();
                assert_ne!(says.read_line(&mut line).expect("read"), 0, "{}", complaints_of(&mut process));
            }
            let own = left();
            assert!(own.len() == 1 && own[0].starts_with("nostray-demo-"), "{own:?}");
            let journal = folder.path().join(&own[0]).join("nostray/journal");
            badchild::wait_until("its pen is on record there", || journal.exists());
            send(&process, signal);
        } else {
            says.read_to_string(&mut String::new()).expect("read");
        }
        end_of(&mut process);
        scene.expect_empty_within(A_FEW_SECONDS);
        assert_eq!(left().len(), usize::from(signal == Some(Signal::KILL)), "{signal:?}: {:?}", left());
        let told = scene.command(env!("CARGO_BIN_EXE_nostray").as_ref()).arg("log").output().expect("run");
        assert_eq!(String::from_utf8_lossy(&told.stdout), "", "{signal:?}");
        assert!(!scene.runtime().join("nostray").exists(), "{signal:?}");
    }
}

#[test]
fn the_demo_ends_when_its_reader_is_gone_and_no_process_is_left() {
    at_every_moment(|scene, mut process, says| {
        drop(says);
        assert_eq!(end_of(&mut process).code(), Some(128 + Signal::PIPE.as_raw()));
        expect_no_process(scene);
        assert_eq!(complaints_of(&mut process), "");
    });
}

#[test]
fn the_demo_needs_no_open_files() {
    let scene = Scene::new(User::Current);
    let mut shell = scene.command("sh".as_ref());
    shell.args(["-c", "exec \"$@\" <&- >&- 2>&-", "sh", env!("CARGO_BIN_EXE_nostray"), "demo", "--fast"]);
    assert_eq!(end_of(&mut shell.spawn().expect("start a shell")).code(), Some(0));
    expect_no_process(&scene);
}

#[test]
fn children_that_the_demo_did_not_start_are_neither_counted_nor_ended() {
    let scene = Scene::new(User::Current);
    // The shell starts a process and then becomes the demo, which therefore has a child that it does not know.
    let mut shell = scene.command("sh".as_ref());
    let script = "env -u BADCHILD_TOKEN sleep 60 >&- 2>&- & echo $!; exec \"$@\"";
    shell.args(["-c", script, "sh", env!("CARGO_BIN_EXE_nostray"), "demo", "--fast"]).stdout(Stdio::piped());
    let mut process = shell.spawn().expect("start a shell");
    let mut number = String::new();
    let mut says = BufReader::new(process.stdout.take().expect("piped"));
    says.read_line(&mut number).expect("read");
    let stranger = Found::by_pid(pid(number.trim().parse().expect("a number"))).expect("just started");
    assert_eq!(end_of(&mut process).code(), Some(0));
    expect_no_process(&scene);
    assert!(stranger.is_alive(), "the demo ended a stranger");
    stranger.send(Signal::KILL);
}

#[test]
fn the_demo_works_inside_a_pen() {
    let scene = Scene::new(User::Current);
    let nostray = env!("CARGO_BIN_EXE_nostray");
    let mut command = scene.command(nostray.as_ref());
    command.args(["run", "--", nostray, "demo", "--fast"]).stdin(Stdio::null()).stdout(Stdio::null());
    assert_eq!(end_of(&mut command.spawn().expect("start a pen")).code(), Some(0));
    expect_no_process(&scene);
}

#[test]
fn the_demo_goes_on_when_its_file_is_removed() {
    let scene = Scene::new(User::Current);
    let folder = Folder::new("replaced");
    let program = folder.path().join("nostray");
    // Another process copies: if this one had the file open for writing while another test forks, the file could not be
    // executed.
    let copied = Command::new("cp").arg(env!("CARGO_BIN_EXE_nostray")).arg(&program).status();
    assert!(copied.expect("copy it").success());
    let mut command = scene.command(&program);
    let mut process = command.args(["demo", "--fast"]).stdout(Stdio::piped()).spawn().expect("start the demo");
    let mut says = BufReader::new(process.stdout.take().expect("piped"));
    says.read_line(&mut String::new()).expect("read");
    std::fs::remove_file(&program).expect("remove it");
    assert_eq!(end_of(&mut process).code(), Some(0));
    expect_no_process(&scene);
}

#[test]
fn an_actor_of_the_demo_does_not_run_by_itself() {
    let scene = Scene::new(User::Current);
    let output = demo(&scene, &["--actor", "daemon"]).output().expect("start an actor");
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&output.stderr).contains("nostray demo"));
    expect_no_process(&scene);
}

fn send(process: &Child, signal: Signal) {
    let found = Found::by_pid(pid(i32::try_from(process.id()).expect("small"))).expect("the demo is alive");
    found.send(signal);
}
