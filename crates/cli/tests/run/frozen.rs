//! A child that stops its keepers, once or again and again. Each command of the user that ends a tree ends it.

use std::process::{Child, Output, Stdio};

use badchild::{Found, Scene, User, in_parallel, wait_until};
use nostray_sys::Signal;
use testkit::debugger::Debugger;
use testkit::nostray;

/// Finds all its keepers, from the guard up to the outermost front, and stops them. It has a daemon without an
/// environment, and ignores every signal that it can.
const SCRIPT: &str = r#"
trap '' TERM HUP INT
setsid sh -c 'env -i sleep 1000 > /dev/null &'
up=$PPID; keepers=
while case "$(cat /proc/$up/comm)" in nostray*) true;; *) false;; esac; do
  keepers="$keepers $up"; read -r _ _ _ up _ < /proc/$up/stat
done
# The ones continue the others, until all of them are stopped.
for i in 1 2 3; do
  [ "$0" = once ] || while :; do kill -STOP $keepers; done &
done
until [ "$0" = once ] && [ "$stopped" = "$keepers" ]; do
  kill -STOP $keepers; stopped=
  for keeper in $keepers; do
    read -r _ _ state _ < /proc/$keeper/stat; [ "$state" = T ] && stopped="$stopped $keeper"
  done
done
sleep 1000
"#;

struct Frozen {
    scene: Scene,
    process: Child,
    daemon: Found,
    id: String,
}

fn nostray_in(scene: &Scene, words: &[&str]) -> Output {
    scene.command(&nostray()).args(words).stdin(Stdio::null()).output().expect("run nostray")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn frozen(user: User, how: &str, options: &[&str]) -> Frozen {
    let scene = Scene::apart(user);
    let mut command = scene.command(&nostray());
    command.args(["run", "--no-sweep", "--eof-grace", "200ms", "--term-grace", "300ms"]);
    command.args(options).args(["--", "sh", "-c", SCRIPT, how]);
    let process = command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("start");
    let mut processes = Vec::new();
    wait_until("the keepers are stopped", || {
        processes = scene.processes();
        let own: Vec<_> = processes.iter().filter(|found| found.stat.name.starts_with("nostray")).collect();
        own.len() >= 3 && own.iter().all(|found| found.stat.is_stopped())
    });
    let daemon = daemon_of(&processes);
    let id = text(&nostray_in(&scene, &["ps", "-q"]).stdout).trim().to_owned();
    Frozen { scene, process, daemon, id }
}

/// The daemon without an environment, which the kernel reparented to the guard.
fn daemon_of(processes: &[Found]) -> Found {
    let guards: Vec<_> = processes.iter().filter(|found| found.stat.name == "nostray-guard").collect();
    let mut daemon = None;
    wait_until("the daemon is a child of the guard", || {
        let all = nostray_sys::proc::scan().expect("scan");
        let is_it = |stat: &&nostray_sys::proc::Stat| {
            stat.name == "sleep" && guards.iter().any(|guard| stat.parent == Some(guard.stat.pid))
        };
        daemon = all.iter().find(is_it).and_then(|stat| Found::by_pid(stat.pid));
        daemon.is_some()
    });
    daemon.expect("found")
}

impl Drop for Frozen {
    fn drop(&mut self) {
        self.daemon.send(Signal::KILL);
    }
}

impl Frozen {
    fn expect_over(mut self, output: &Output) {
        let said = text(&output.stdout) + &text(&output.stderr);
        assert!(output.status.success(), "{said}");
        // Not `try ` alone: an id may end like that.
        assert!(!said.contains("; try "), "the command advises what was just done: {said}");
        wait_until("the front has ended", || self.process.try_wait().expect("look").is_some());
        assert!(!self.daemon.is_alive(), "the daemon is left: {said}");
        self.scene.expect_empty();
        assert_eq!(
            nostray_in(&self.scene, &["ps", "-q"]).status.code(),
            Some(1),
            "the pen is still on record: {said}"
        );
    }
}

#[test]
fn a_child_that_stops_its_keepers_is_ended_by_stop_and_by_sweep() {
    let mut cells = Vec::new();
    for user in User::all() {
        for how in ["once", "again"] {
            for options in [&[][..], &["--respawn"]] {
                for words in [&["stop", "--all"][..], &["stop", "--all", "--now"], &["sweep"]] {
                    cells.push((user, how, options, words));
                }
            }
        }
    }
    in_parallel(cells, |(user, how, options, words)| {
        let frozen = frozen(user, how, options);
        let shown = text(&nostray_in(&frozen.scene, &["ps", "--json"]).stdout);
        assert!(shown.contains("\"state\": \"frozen\""), "{shown}");
        let output = nostray_in(&frozen.scene, words);
        frozen.expect_over(&output);
    });
}

#[test]
fn a_dry_run_and_the_sweep_of_another_run_leave_a_frozen_child_alone() {
    let frozen = frozen(User::Current, "once", &[]);
    let dry = nostray_in(&frozen.scene, &["sweep", "--dry-run"]);
    assert!(text(&dry.stdout).contains("would be ended") && text(&dry.stdout).contains(&frozen.id), "{dry:?}");
    assert!(nostray_in(&frozen.scene, &["run", "--", "true"]).status.success());
    assert!(frozen.daemon.is_alive());
    let forgotten = nostray_in(&frozen.scene, &["sweep", "--forget", &frozen.id]);
    assert!(text(&forgotten.stderr).contains("is guarded"), "{forgotten:?}");
    let output = nostray_in(&frozen.scene, &["stop", "--now", &frozen.id]);
    frozen.expect_over(&output);
}

/// Only SIGKILL has an effect on keepers that a debugger holds.
#[test]
fn a_child_whose_keepers_a_debugger_holds_is_ended_from_outside() {
    let cells = [&["stop", "--all"][..], &["stop", "--all", "--now"], &["sweep"]];
    in_parallel(cells.to_vec(), |words| {
        let frozen = frozen(User::Current, "once", &[]);
        let debugged = Scene::new(User::Current);
        let mut debugger = Debugger::start(&debugged);
        let own: Vec<Found> =
            frozen.scene.processes().into_iter().filter(|found| found.stat.name.starts_with("nostray")).collect();
        debugger.attach(&own);
        let output = nostray_in(&frozen.scene, words);
        frozen.expect_over(&output);
    });
}
