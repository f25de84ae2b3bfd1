//! The journal tells the truth, in order: what never ran was never ready, and a child ends for the first reason and not for what followed
//! from it.

use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::os::fd::AsFd;
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::process::{Child, Stdio};
use std::time::Duration;

use badchild::{Found, Scene, User, wait_until};
use nostray_sys::Signal;
use nostray_sys::descriptors::DO_NOT_WAIT;
use nostray_sys::poll::{Until, wait};
use serde_json::Value;
use testkit::{GRACES, nostray, own_processes, run_command, run_words, start_host};

/// What the journal of this scene tells, as `EVENT` or `EVENT DETAIL`.
fn story(scene: &Scene) -> Vec<String> {
    let lines = std::fs::read_to_string(scene.runtime().join("nostray/journal")).unwrap_or_default();
    // A line that crosses a page of the file can be read while the kernel has written only its first part.
    let lines =
        lines.split_inclusive('\n').filter_map(|line| line.strip_suffix('\n')).filter(|line| !line.is_empty());
    lines.map(|line| in_short(&serde_json::from_str(line).expect("JSON"))).collect()
}

fn in_short(entry: &Value) -> String {
    let event = entry["event"].as_str().expect("an event");
    match event {
        "stopping" => format!("stopping {}", entry["reason"].as_str().expect("a reason")),
        "exited" => format!("exited {}", entry["how"].as_str().expect("a text")),
        _ => event.to_owned(),
    }
}

/// The same, once nothing is left of the last child.
fn whole_story(scene: &Scene) -> Vec<String> {
    wait_until("it is over", || story(scene).last().is_some_and(|last| last == "empty"));
    story(scene)
}

#[test]
fn what_could_not_be_executed_was_never_ready_and_the_journal_says_why() {
    let scene = Scene::apart(User::Current);
    let folder = badchild::Folder::new("scripts");
    let script = |name: &str, text: &str, mode: u32| {
        let path = folder.path().join(name);
        std::fs::write(&path, text).expect("write");
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).expect("set");
        path.display().to_string()
    };
    let commands = [
        ("no-such-command".to_owned(), 127, "not found; check its spelling"),
        (script("closed", "#!/bin/sh\n", 0o644), 126, "permission denied; make it executable"),
        (script("astray", "#!/no/such/shell\n", 0o755), 127, "not found"),
    ];
    for options in [&[][..], &["--isolate", "pid"], &["--slot", "s"], &["--ready-file", "never"]] {
        for (command, code, why) in &commands {
            let mut run = scene.command(&nostray());
            run.arg("run").args(options).args(["--", command]).stdin(Stdio::null()).stderr(Stdio::piped());
            let output = run.output().expect("run");
            if options.contains(&"pid") && output.status.code() == Some(125) {
                continue; // this machine allows no namespace
            }
            assert_eq!(output.status.code(), Some(*code), "{output:?}");
            let told = story(&scene);
            let told: Vec<_> = told[told.iter().rposition(|event| event == "started").expect("started")..].to_vec();
            assert_eq!(told, ["started", "not-executed", "empty"], "{options:?} {command}");
            let journal = scene.command(&nostray()).arg("log").output().expect("run");
            let journal = String::from_utf8(journal.stdout).expect("UTF-8");
            let line = journal.lines().rev().nth(1).expect("three lines");
            assert!(line.contains("could not be executed: cannot run") && line.contains(why), "{journal}");
        }
    }
    scene.expect_empty();
}

/// However short it lives: the guard may not have looked before its end.
#[test]
fn what_ran_was_ready_before_it_ended() {
    let scene = Scene::apart(User::Current);
    for code in 0..40 {
        let mut run = run_command(&scene, &[], &["exit", &code.to_string()]);
        assert_eq!(run.stdin(Stdio::null()).status().expect("run").code(), Some(code));
        let told = story(&scene);
        let ended = format!("exited exited with code {code}");
        assert_eq!(told[told.len() - 4..], ["started", "ready", &ended, "empty"], "{told:?}");
    }
    scene.expect_empty();
}

/// What happens to a child and to its input while its guard cannot look, and why the child ended then.
struct Race {
    /// A script of `sh`, which says that it is there first.
    script: &'static str,
    /// What is done to the child.
    act: fn(&Found, &mut Child),
    story: &'static [&'static str],
}

const RACES: [Race; 7] = [
    Race {
        script: "echo ready; exec sleep 1000",
        act: |child, _| child.send(Signal::KILL),
        story: &["started", "ready", "exited was killed by signal 9 (SIGKILL)", "empty"],
    },
    Race {
        script: "echo ready; exec sleep 1000",
        act: |child, _| child.send(Signal::SEGV),
        story: &["started", "ready", "exited was killed by signal 11 (SIGSEGV)", "empty"],
    },
    Race {
        script: "echo ready; read line; exit 3",
        act: |_, host| host.stdin.as_mut().expect("open").write_all(b"x\n").expect("write"),
        story: &["started", "ready", "exited exited with code 3", "empty"],
    },
    // What it leaves behind is ended because the child has ended.
    Race {
        script: "sleep 1000 & echo ready; read line; exit 3",
        act: |_, host| host.stdin.as_mut().expect("open").write_all(b"x\n").expect("write"),
        story: &["started", "ready", "exited exited with code 3", "stopping child-ended", "empty"],
    },
    // A child that ends with its input does what it is asked to.
    Race {
        script: "echo ready; while read line; do :; done; exit 0",
        act: |_, _| {},
        story: &["started", "ready", "stopping stdin-closed", "exited exited with code 0", "empty"],
    },
    // Nothing tells which came first, and a child that ends well may have been asked to.
    Race {
        script: "echo ready; read line; exit 0",
        act: |_, host| host.stdin.as_mut().expect("open").write_all(b"x\n").expect("write"),
        story: &["started", "ready", "stopping stdin-closed", "exited exited with code 0", "empty"],
    },
    Race {
        script: "echo ready; while :; do echo x || exit 0; done",
        act: |child, _| child.send(Signal::PIPE),
        story: &["started", "ready", "stopping stdin-closed", "exited was killed by signal 13 (SIGPIPE)", "empty"],
    },
];

/// The guard is stopped meanwhile, with all that would continue it, so it sees both at once.
#[test]
fn a_child_that_was_killed_did_not_end_because_its_host_closed_the_pipe_then() {
    for isolate in [&[][..], &["--isolate", "pid"]] {
        for Race { script, act, story } in RACES {
            let scene = Scene::apart(User::Current);
            let mut command = scene.command(&nostray());
            command.arg("run").args(GRACES).args(isolate).args(["--", "sh", "-c", script]);
            let mut host = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("start");
            let mut output = BufReader::new(host.stdout.take().expect("piped"));
            let mut line = String::new();
            output.read_line(&mut line).expect("read");
            if line.is_empty() {
                assert_eq!(host.wait().expect("reap").code(), Some(125), "this machine allows no namespace");
                continue;
            }
            // As it would be: the story begins before the race.
            wait_until("it is told", || self::story(&scene).last().is_some_and(|last| last == "ready"));
            let own = own_processes(&scene);
            let is_child = |found: &Found| found.command.starts_with("sh -c") || found.command.starts_with("sleep");
            let child = scene.processes().into_iter().filter(is_child).min_by_key(|found| found.stat.start);
            let child = child.expect("a child");
            let keepers = [&own.front, &own.spare, &own.guard];
            keepers.iter().for_each(|keeper| keeper.send(Signal::STOP));
            wait_until("they are stopped", || {
                keepers.iter().all(|keeper| Found::by_pid(keeper.stat.pid).is_some_and(|now| now.stat.is_stopped()))
            });
            let input = input_of(&own.guard);
            act(&child, &mut host);
            if !story.contains(&"stopping stdin-closed") {
                wait_until("it has ended", || !child.is_alive());
            }
            drop(host.stdin.take());
            // A process that another test forks at this moment has the pipe, too, until it executes its program.
            wait_until("the input has ended", || {
                wait(&[(input.as_fd(), Until::HungUp)], Some(Duration::ZERO)).expect("poll")[0]
            });
            if story.contains(&"stopping stdin-closed") {
                drop(output);
                wait_until("it has ended", || !child.is_alive());
            }
            keepers.iter().rev().for_each(|keeper| keeper.send(Signal::CONT));
            host.wait().expect("reap");
            assert_eq!(self::story(&scene), story, "{script} {isolate:?}");
            scene.expect_empty();
        }
    }
}

/// Another reader of the pipe that is the child's input. To be opened before its last writer closes it: then poll tells of that.
fn input_of(guard: &Found) -> File {
    let path = format!("/proc/{}/fd/0", guard.stat.pid);
    File::options().read(true).custom_flags(DO_NOT_WAIT).open(path).expect("open the input")
}

/// As hosts do: the moment that the child's output ends, its input is closed. Nothing is stopped, so the guard is mostly first.
#[test]
fn a_host_that_closes_the_pipe_as_soon_as_its_child_is_killed_is_not_the_reason() {
    let scene = Scene::apart(User::Current);
    for _ in 0..40 {
        let mut command = run_command(&scene, &GRACES, &["pause"]);
        let mut host = command.spawn().expect("start");
        let mut output = BufReader::new(host.stdout.take().expect("piped"));
        let mut line = String::new();
        output.read_line(&mut line).expect("read");
        wait_until("it is told", || story(&scene).last().is_some_and(|last| last == "ready"));
        let child = scene.those_with("pause").into_iter().find(|found| found.stat.name == "badchild");
        child.expect("a child").send(Signal::KILL);
        // Its output ends while the child is still exiting.
        assert_eq!(output.read_line(&mut line).expect("read"), 0);
        drop(host.stdin.take());
        host.wait().expect("reap");
        let told = story(&scene);
        let expected = ["started", "ready", "exited was killed by signal 9 (SIGKILL)", "empty"];
        assert_eq!(told[told.len() - 4..], expected, "{told:?}");
    }
    scene.expect_empty();
}

/// The pipe of a host that is killed closes before the end of the host can be seen.
#[test]
fn a_host_that_was_killed_has_ended_and_has_not_only_closed_the_pipe() {
    for options in [&[][..], &["--isolate", "pid"]] {
        for round in 0..15 {
            let scene = Scene::apart(User::Current);
            let mut host =
                start_host(&scene, &[], &[&GRACES[..], options].concat(), &["tree", "cooperative", "plain"]);
            let lines = [host.line(), host.line()];
            if !options.is_empty() && !lines.contains(&"ready".to_owned()) {
                continue; // this machine allows no namespace
            }
            assert!(lines.contains(&"ready".to_owned()), "{lines:?}");
            wait_until("it is told", || story(&scene).last().is_some_and(|last| last == "ready"));
            host.kill();
            let told = whole_story(&scene);
            assert_eq!(told[2], "stopping host-gone", "round {round} {options:?}: {told:?}");
            scene.expect_empty();
        }
    }
}

#[test]
fn a_host_that_closes_the_pipe_and_lives_on_has_not_ended() {
    let scene = Scene::apart(User::Current);
    let mut host = start_host(&scene, &[], &GRACES, &["tree", "cooperative", "plain"]);
    host.ready();
    wait_until("it is told", || story(&scene).last().is_some_and(|last| last == "ready"));
    host.order("close");
    let told = whole_story(&scene);
    assert_eq!(told[2], "stopping stdin-closed", "{told:?}");
}

#[test]
fn the_end_of_a_process_of_die_with_that_held_the_pipe_is_the_reason() {
    let scene = Scene::apart(User::Current);
    // Holds the only writing end of the pipe, and is not the host of the child.
    let fifo = badchild::Folder::new("fifo");
    let path = fifo.path().join("pipe").display().to_string();
    assert!(std::process::Command::new("mkfifo").arg(&path).status().expect("run").success());
    // A scene of its own, so that a test that fails leaves no process behind.
    let others = Scene::new(User::Current);
    let holder = others
        .command("sleep".as_ref())
        .arg("1000")
        .stdin(Stdio::null())
        .stdout(std::fs::File::options().read(true).write(true).open(&path).expect("open"))
        .spawn();
    let mut holder = holder.expect("start");
    let number = holder.id().to_string();
    let words = run_words(&[&GRACES[..], &["--die-with", &number]].concat(), &["tree", "cooperative", "plain"]);
    let mut command = scene.command(words[0].as_ref());
    command.args(&words[1..]).stdout(Stdio::piped());
    command.stdin(std::fs::File::options().read(true).write(false).open(&path).expect("open"));
    let mut process = command.spawn().expect("start");
    drop(command);
    BufReader::new(process.stdout.take().expect("piped")).read_line(&mut String::new()).expect("ready");
    wait_until("it is told", || story(&scene).last().is_some_and(|last| last == "ready"));
    holder.kill().expect("kill");
    holder.wait().expect("reap");
    process.wait().expect("reap");
    assert_eq!(story(&scene)[2], "stopping die-with-ended");
    scene.expect_empty();
}

#[test]
fn a_child_that_is_stopped_before_it_runs_is_not_told_ready_afterwards() {
    let scene = Scene::apart(User::Current);
    for _ in 0..30 {
        // Its input has ended before it is started.
        let (input, writer) = std::io::pipe().expect("a pipe");
        drop(writer);
        let mut run = run_command(&scene, &["--eof-grace", "0s", "--term-grace", "0s"], &["pause"]);
        run.stdin(input).stdout(Stdio::null()).status().expect("run");
        let told = story(&scene);
        let stopping = told.iter().rposition(|event| event.starts_with("stopping")).expect("stopping");
        assert!(!told[stopping..].contains(&"ready".to_owned()), "{told:?}");
    }
    scene.expect_empty();
}
