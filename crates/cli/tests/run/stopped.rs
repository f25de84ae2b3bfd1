//! When a child is stopped (SIGSTOP, Ctrl-Z, a read in the background), its front may stop as well, so that a shell
//! sees a stopped job. No nostray process stays stopped when child, keepers or host are continued or killed then.

use std::os::unix::process::CommandExt;
use std::process::{Child, Stdio};

use badchild::{Found, Scene, User, badchild, comes_true, in_parallel, open_terminal, wait_until};
use nostray_sys::Signal;
use nostray_sys::proc::Stat;
use testkit::{nostray, own_processes};

fn is_stopped(found: &Found) -> bool {
    Stat::of(found.stat.pid).is_some_and(|now| now.start == found.stat.start && now.is_stopped())
}

/// What happens while the child is stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Then {
    ChildContinued,
    ChildKilled,
    FrontContinued,
    FrontKilled,
    SpareKilled,
    GuardKilled,
    SpareAndGuardKilled,
    HostKilled,
}

const ALL: [Then; 8] = [
    Then::ChildContinued,
    Then::ChildKilled,
    Then::FrontContinued,
    Then::FrontKilled,
    Then::SpareKilled,
    Then::GuardKilled,
    Then::SpareAndGuardKilled,
    Then::HostKilled,
];

/// The process group of the front.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Where {
    /// The host's group. The host has a parent outside the group; in an orphaned group the kernel ignores stop signals
    /// of a terminal.
    Group,
    /// The front leads a session.
    Session,
    /// A group of its own on a terminal, as a shell starts its jobs.
    Terminal,
}

#[derive(Debug, Clone, Copy)]
struct Case {
    user: User,
    isolate: bool,
    place: Where,
    by: Signal,
    then: Then,
}

fn cases() -> Vec<Case> {
    use Then::{ChildContinued, ChildKilled, HostKilled};
    let mut cases = Vec::new();
    for isolate in [false, true] {
        let mut add = |place, by, thens: &[Then]| {
            cases.extend(thens.iter().map(|&then| Case { user: User::Current, isolate, place, by, then }));
        };
        add(Where::Group, Signal::STOP, &ALL);
        add(Where::Session, Signal::STOP, &[ChildContinued, HostKilled]);
        add(Where::Terminal, Signal::TSTP, &ALL);
        add(Where::Terminal, Signal::TTIN, &[ChildKilled, HostKilled]);
    }
    if User::all().contains(&User::Nobody) {
        // For this user the guard is in a user namespace, too.
        let (user, place, by) = (User::Nobody, Where::Group, Signal::STOP);
        cases.extend([ChildContinued, ChildKilled, HostKilled].map(|then| Case {
            user,
            isolate: true,
            place,
            by,
            then,
        }));
    }
    cases
}

/// Starts a host that runs `nostray run` and waits for it. Returns its terminal, if it has one.
fn start_host(scene: &Scene, case: Case, options: &[&str]) -> (Child, Option<std::os::fd::OwnedFd>) {
    let (nostray, badchild) = (nostray().display().to_string(), badchild().display().to_string());
    let script = "import os, subprocess, sys; subprocess.Popen(sys.argv[2:], preexec_fn=eval(sys.argv[1])).wait()";
    let group = match case.place {
        Where::Group => "None",
        Where::Session => "os.setsid",
        Where::Terminal => "os.setpgrp",
    };
    let mut words = vec!["python3", "-c", script, group, &nostray, "run"];
    words.extend(["--eof-grace", "100ms", "--term-grace", "100ms"]);
    words.extend(if case.isolate { &["--isolate", "pid"][..] } else { &[] });
    words.extend(options);
    words.extend(["--", &badchild, "pause"]);
    let (mut command, master) = if case.place == Where::Terminal {
        let (master, path) = open_terminal().expect("a terminal");
        let mut command = scene.command(badchild.as_ref());
        command.args(["on-terminal", &path, "--"]).args(words);
        (command, Some(master))
    } else {
        let mut command = scene.command(words[0].as_ref());
        command.args(&words[1..]).stdin(Stdio::null()).process_group(0);
        (command, None)
    };
    (command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("start"), master)
}

/// The child of a guard, once it has executed its program.
fn child_of(scene: &Scene, guard: &Found) -> Found {
    let program = format!("{} pause", badchild().display());
    let is_it = |found: &Found| found.stat.parent == Some(guard.stat.pid) && found.command == program;
    let mut child = None;
    wait_until("the child is there", || {
        child = scene.those_with(" pause").into_iter().find(is_it);
        child.is_some()
    });
    child.expect("just seen")
}

/// Sends SIGTERM to the front as a host does, and checks that no process is left.
fn expect_end(scene: &Scene, front: &Found) {
    front.send(Signal::TERM);
    scene.expect_empty();
}

fn play(case: Case) {
    let scene = Scene::new(case.user);
    let (mut host, _master) = start_host(&scene, case, &[]);
    let own = own_processes(&scene);
    let child = child_of(&scene, &own.guard);
    child.send(case.by);
    wait_until(&format!("child and front are stopped: {case:?}"), || is_stopped(&child) && is_stopped(&own.front));
    match case.then {
        Then::ChildContinued => child.send(Signal::CONT),
        Then::ChildKilled => child.send(Signal::KILL),
        Then::FrontContinued => own.front.send(Signal::CONT),
        Then::FrontKilled => own.front.send(Signal::KILL),
        Then::SpareKilled => own.spare.send(Signal::KILL),
        Then::GuardKilled => own.guard.send(Signal::KILL),
        Then::SpareAndGuardKilled => [&own.spare, &own.guard].into_iter().for_each(|found| found.send(Signal::KILL)),
        Then::HostKilled => host.kill().expect("kill"),
    }
    if matches!(case.then, Then::ChildContinued | Then::FrontContinued) {
        wait_until(&format!("child and front are continued: {case:?}"), || {
            !is_stopped(&child) && !is_stopped(&own.front)
        });
        expect_end(&scene, &own.front);
    } else {
        let mut left = Vec::new();
        let is_over = comes_true(badchild::PATIENCE, &mut || {
            left = scene.processes();
            left.is_empty()
        });
        assert!(is_over, "{case:?}: these processes are left: {left:#?}");
    }
    host.wait().expect("reap");
}

#[test]
fn a_front_that_stopped_with_its_child_is_continued_or_ends_in_every_case() {
    in_parallel(cases(), play);
}

/// A managed front stops only on the keys of a terminal, together with the front of the pen. When the child is killed,
/// the next one starts.
#[test]
fn a_managed_front_that_stopped_with_its_child_is_continued_or_ends_in_every_case() {
    let mut cases = Vec::new();
    for isolate in [false, true] {
        for then in
            [Then::ChildContinued, Then::ChildKilled, Then::SpareKilled, Then::SpareAndGuardKilled, Then::HostKilled]
        {
            cases.push(Case { user: User::Current, isolate, place: Where::Terminal, by: Signal::TSTP, then });
        }
    }
    in_parallel(cases, |case| {
        let scene = Scene::new(User::Current);
        let (mut host, _master) = start_host(&scene, case, &["--respawn", "--backoff", "1ms..1ms"]);
        let own = own_processes(&scene);
        let child = child_of(&scene, &own.guard);
        child.send(case.by);
        wait_until(&format!("child and front are stopped: {case:?}"), || {
            is_stopped(&child) && is_stopped(&own.front)
        });
        match case.then {
            Then::ChildContinued => child.send(Signal::CONT),
            Then::ChildKilled => child.send(Signal::KILL),
            Then::SpareKilled => own.spare.send(Signal::KILL),
            Then::SpareAndGuardKilled => {
                [&own.spare, &own.guard].into_iter().for_each(|found| found.send(Signal::KILL))
            }
            _ => host.kill().expect("kill"),
        }
        if case.then != Then::HostKilled {
            wait_until(&format!("all processes are continued: {case:?}"), || {
                scene.processes().iter().all(|found| !is_stopped(found))
            });
            assert!(own.front.is_alive(), "{case:?}: the session has ended");
            if case.then != Then::ChildContinued {
                wait_until(&format!("the next child has started: {case:?}"), || {
                    !child.is_alive() && scene.those_with(" pause").iter().any(|found| found.stat.name == "badchild")
                });
            }
            own.front.send(Signal::TERM);
        }
        scene.expect_empty();
        host.wait().expect("reap");
    });
}
