//! Signals to a supervised child's front have the same effect as without supervision, in every state of the child. When
//! any nostray process is stopped, the session goes on or ends.

use std::os::unix::process::CommandExt;
use std::process::Stdio;
use std::time::{Duration, Instant};

use badchild::{Folder, Found, Host, Scene, User, badchild, comes_true, wait_until};
use nostray_sys::Signal;
use serde_json::json;
use testkit::nostray;
use testkit::puppet::wait_until_quiet;
use testkit::stage::{Caller, Stage};

fn named(stage: &Stage, name: &str) -> Found {
    let mut found = stage.own().into_iter().filter(|found| found.stat.name == name);
    found.next().unwrap_or_else(|| panic!("no {name} among {:#?}", stage.own()))
}

fn front(caller: &Caller) -> Found {
    Found::by_pid(badchild::pid(i32::try_from(caller.process.id()).expect("small"))).expect("is there")
}

#[test]
fn a_signal_that_the_host_sends_reaches_the_child_once() {
    let stage = Stage::new();
    let (file, options) = (stage.file("got"), ["--respawn", "--term-grace", "20s"]);
    let mut caller = stage.start_command(&options, &[&badchild().display().to_string(), "count-signals", &file]);
    wait_until("the child is ready", || stage.printed().contains("ready"));
    let mut expected = String::new();
    for signal in [Signal::USR1, Signal::USR2, Signal::WINCH, Signal::CONT, Signal::TSTP, Signal::USR1] {
        front(&caller).send(signal);
        expected += &format!("{signal}\n");
        let so_far = expected.clone();
        // Two pending signals of the same number merge, so wait for each.
        wait_until("the child has it", || std::fs::read_to_string(&file).unwrap_or_default() == so_far);
    }
    front(&caller).send(Signal::TERM);
    assert_eq!(caller.code(), 0);
    assert_eq!(std::fs::read_to_string(&file).expect("read"), expected + "SIGTERM\n");
    stage.scene.expect_empty();
}

/// Two nostray processes are in the group that the host has made, and one of them passes the signal on.
#[test]
fn a_signal_to_the_group_that_a_host_has_made_is_one_request() {
    for session in [false, true] {
        let stage = Stage::new();
        let file = stage.file("flushed");
        let words = testkit::run_words(&["--respawn"], &["slow", "300", &file]);
        let mut command = stage.scene.command(if session { badchild() } else { nostray() }.as_ref());
        if session {
            command.args(["leader", "--"]).args(&words);
        } else {
            command.args(&words[1..]).process_group(0);
        }
        let mut process = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("start");
        wait_until("the child is ready", || stage.printed().contains("ready"));
        let group = format!("-{}", process.id());
        assert!(std::process::Command::new("kill").args(["-TERM", "--", &group]).status().expect("kill").success());
        assert_eq!(process.wait().expect("wait").code(), Some(0));
        assert!(std::path::Path::new(&file).exists(), "the child was killed within its grace");
        stage.scene.expect_empty();
    }
}

/// A service manager, or `tree-kill`, signals every process of the tree.
#[test]
fn a_signal_to_all_nostray_processes_is_one_request() {
    for _ in 0..3 {
        let stage = Stage::new();
        let file = stage.file("flushed");
        let badchild = badchild().display().to_string();
        let mut caller =
            stage.start_command(&["--respawn", "--term-grace", "5s"], &[&badchild, "slow", "300", &file]);
        wait_until("the child is ready", || stage.printed().contains("ready"));
        stage.own().iter().for_each(|found| found.send(Signal::TERM));
        assert_eq!(caller.code(), 0);
        assert!(std::path::Path::new(&file).exists(), "the child was killed within its grace");
        stage.scene.expect_empty();
    }
}

/// A second signal cuts the graces short, whichever keepers are left at that moment.
#[test]
fn a_second_signal_ends_the_graces_whichever_keepers_are_left() {
    let keepers = ["nostray-front", "nostray-spare", "nostray-guard"];
    for killed in 0..=3 {
        let stage = Stage::new();
        let script = "trap '' TERM INT HUP QUIT; exec \"$@\"";
        let (badchild, record) = (badchild().display().to_string(), stage.file("record"));
        let command = ["sh", "-c", script, "sh", &badchild, "server", "--record", &record, "--ignore-eof"];
        let options = ["--respawn", "--eof-grace", "1h", "--term-grace", "1h"];
        let mut caller = stage.start_command(&options, &command);
        caller.initialize();
        caller.result("fork", json!({ "kind": "daemon" }));
        for name in &keepers[..killed] {
            named(&stage, name).send(Signal::KILL);
        }
        // A tree without its grace of an hour would end within this time.
        assert!(!comes_true(Duration::from_millis(300), &mut || stage.trees().is_empty()), "{killed}: no grace");
        front(&caller).send(Signal::TERM);
        wait_until("the front has got the signal", || {
            String::from_utf8_lossy(&stage.nostray(&["ps", "--json"]).stdout).contains("the child was stopped")
        });
        if killed == 0 {
            // The guard counts the signals, and gets each one after the front.
            wait_until("the guard has got the signal", || stage.journal().contains("stopping: "));
        }
        // Two signals in quick succession count as one request.
        assert!(!comes_true(Duration::from_millis(100), &mut || stage.trees().is_empty()), "{killed}: no grace");
        front(&caller).send(Signal::TERM);
        stage.scene.expect_empty();
        caller.code();
        assert_eq!(stage.lives().len(), 1, "{killed}");
    }
}

/// The user's limit of queued signals is used up. A signal still arrives.
#[test]
fn a_signal_ends_the_child_also_where_no_signal_can_be_queued() {
    let stage = Stage::new();
    let (nostray, badchild, record) =
        (nostray().display().to_string(), badchild().display().to_string(), stage.file("record"));
    let words =
        ["--sigpending=0", &nostray, "run", "--respawn", "--eof-grace", "100ms", "--term-grace", "100ms", "--"];
    let mut caller =
        stage.start_plain("prlimit", &[&words[..], &[&badchild, "server", "--record", &record]].concat());
    caller.initialize();
    front(&caller).send(Signal::TERM);
    caller.code();
    stage.scene.expect_empty();
    assert_eq!(stage.lives().len(), 1);
}

/// Without a child the signal ends the front itself.
#[test]
fn a_signal_while_no_child_is_there_ends_the_session() {
    for (signal, code) in [(Signal::TERM, 143), (Signal::INT, 130), (Signal::HUP, 129), (Signal::QUIT, 131)] {
        let stage = Stage::new();
        let mut caller = stage.start(&["--hibernate", "30ms"], &[]);
        caller.initialize();
        stage.wait_until_asleep();
        // More than one, if the child slept before its handshake.
        let lives = stage.lives().len();
        front(&caller).send(Signal::USR1); // for a child, if there were one
        front(&caller).send(signal);
        assert_eq!(caller.code(), code);
        stage.scene.expect_empty();
        assert_eq!(stage.lives().len(), lives, "the child was woken to be ended");
    }
}

#[test]
fn stopped_keepers_are_continued() {
    let keepers = ["nostray-front", "nostray-spare", "nostray-guard"];
    for stopped in [&keepers[..1], &keepers[1..2], &keepers[2..], &keepers[..]] {
        let stage = Stage::new();
        let mut caller = stage.start_stubborn(&["--respawn", "--eof-grace", "150ms", "--term-grace", "150ms"]);
        caller.initialize();
        for name in stopped {
            named(&stage, name).send(Signal::STOP);
        }
        caller.who();
        wait_until("the keepers are continued", || stage.own().iter().all(|found| !found.is_stopped()));
        caller.close();
        assert_eq!(caller.code(), 137, "{stopped:?}");
        stage.scene.expect_empty();
    }
}

/// A host ends while its front is stopped. Without a keeper that continues the front, no process would act on the
/// host's end.
#[test]
fn a_stopped_front_acts_on_its_hosts_end() {
    for user in User::all() {
        for (hold, leader, isolate) in
            [(false, false, false), (true, false, false), (true, true, false), (true, true, true)]
        {
            let scene = Scene::new(user);
            let (nostray, badchild) = (nostray().display().to_string(), badchild().display().to_string());
            let mut words: Vec<&str> = if leader { vec![&badchild, "leader", "--"] } else { Vec::new() };
            words.extend([&nostray, "run", "--respawn", "--eof-grace", "100ms", "--term-grace", "100ms"]);
            words.extend(if isolate { &["--isolate", "pid"][..] } else { &[] });
            words.extend(["--", badchild.as_str(), "tree", "cooperative", "setsid"]);
            let mut host = Host::start(&scene, if hold { &["--hold"] } else { &[] }, &words);
            let number = host.line().strip_prefix("front ").and_then(|number| number.parse().ok()).expect("a number");
            wait_until("all processes run", || scene.processes().len() == 7);
            let front = Found::by_pid(badchild::pid(number)).expect("is there");
            front.send(Signal::STOP);
            wait_until("the front is stopped", || front.is_stopped());
            host.kill();
            scene.expect_empty();
            host.expect_friend_untouched();
        }
    }
}

/// While the child is asleep, there is no other process of nostray that would continue the front.
#[test]
fn a_stopped_front_whose_child_is_asleep_acts_on_its_hosts_end() {
    for hold in [false, true] {
        let (scene, folder) = (Scene::new(User::Current), Folder::new("asleep"));
        let (nostray, badchild) = (nostray().display().to_string(), badchild().display().to_string());
        let record = folder.path().join("record").display().to_string();
        let words = [&nostray, "run", "--hibernate", "30ms", "--", &badchild, "server", "--record", &record];
        let mut host = Host::start(&scene, if hold { &["--hold"] } else { &[] }, &words);
        let number = host.line().strip_prefix("front ").and_then(|number| number.parse().ok()).expect("a number");
        wait_until("the child has started and is asleep", || {
            std::fs::read_to_string(&record).is_ok_and(|text| text.contains(" end")) && scene.processes().len() == 2
        });
        let front = Found::by_pid(badchild::pid(number)).expect("is there");
        // The processes of the pen have ended, and the front has reaped them.
        let children = format!("/proc/{number}/task/{number}/children");
        wait_until("it has no child left", || std::fs::read_to_string(&children).is_ok_and(|list| list.is_empty()));
        wait_until_quiet(&front);
        front.send(Signal::STOP);
        wait_until("the front is stopped", || front.is_stopped());
        host.kill();
        scene.expect_empty();
        host.expect_friend_untouched();
    }
}

/// A user may stop a child to look at it, as with a debugger: nostray does not continue it. When the child has to end,
/// it ends.
#[test]
fn a_stopped_child_stays_stopped_until_it_is_continued_or_ended() {
    let stage = Stage::new();
    let mut caller = stage.start(&["--respawn", "--eof-grace", "150ms", "--term-grace", "20s"], &[]);
    caller.initialize();
    let child = stage.child();
    child.send(Signal::STOP);
    wait_until("the child is stopped", || child.is_stopped());
    let waiting = caller.ask("who", json!({}));
    assert!(!comes_true(Duration::from_millis(300), &mut || !child.is_stopped()), "the child was continued");
    assert!(stage.own().iter().all(|found| !found.is_stopped()), "a nostray process was stopped with the child");
    wait_until("the child is on record", || stage.states() == ["ready"]);
    child.send(Signal::CONT);
    assert_eq!(caller.answer(waiting)["result"]["pid"], child.stat.pid.as_raw_pid());
    child.send(Signal::STOP);
    wait_until("the child is stopped", || child.is_stopped());
    caller.close();
    assert_eq!(caller.code(), 143, "the child must be continued to get its SIGTERM");
    stage.scene.expect_empty();
    assert_eq!(stage.lives().len(), 1);
}

/// A limit of the user, or a signal to the guard, ends the child on purpose: the front does not restart it.
#[test]
fn a_child_that_was_ended_on_purpose_is_not_restarted() {
    for how in ["idle", "guard"] {
        let stage = Stage::new();
        let options: &[&str] = if how == "idle" { &["--respawn", "--idle-timeout", "3s"] } else { &["--respawn"] };
        let mut caller = stage.start(options, &[]);
        caller.initialize();
        if how == "guard" {
            named(&stage, "nostray-guard").send(Signal::TERM);
        }
        assert_eq!(caller.code(), 143, "{how}: {}", caller.errors());
        stage.scene.expect_empty();
        assert_eq!(stage.lives().len(), 1, "{how}");
    }
}

/// A signal that the host ignores does not end the session. The child may handle it, so the front passes it on.
#[test]
fn a_signal_that_the_host_ignores_ends_nothing_but_reaches_the_child() {
    let stage = Stage::new();
    let file = stage.file("got");
    let (nostray, badchild) = (nostray().display().to_string(), badchild().display().to_string());
    let script = "trap '' HUP INT; exec \"$@\"";
    let words = ["-c", script, "sh", &nostray, "run", "--respawn", "--", &badchild, "count-signals", &file];
    let mut caller = stage.start_plain("sh", &words);
    wait_until("the child is ready", || stage.printed().contains("ready"));
    for signal in [Signal::HUP, Signal::INT] {
        front(&caller).send(signal);
        wait_until("the child has the signal", || {
            std::fs::read_to_string(&file).is_ok_and(|got| got.contains(&signal.to_string()))
        });
    }
    front(&caller).send(Signal::TERM);
    assert_eq!(caller.code(), 0);
    stage.scene.expect_empty();
}

/// SIGABRT kills the front and is not passed on. The guard then ends the tree, within its graces.
#[test]
fn the_tree_of_a_front_that_dies_of_sigabrt_ends_within_its_graces() {
    let stage = Stage::new();
    let options = ["--respawn", "--eof-grace", "100ms", "--term-grace", "100ms"];
    let command = [&badchild().display().to_string(), "tree", "stubborn", "setsid"];
    let caller = stage.start_command(&options, &command);
    wait_until("the child is ready", || stage.printed().contains("ready"));
    let began = Instant::now();
    front(&caller).send(Signal::ABRT);
    drop(caller);
    stage.scene.expect_empty();
    assert!(began.elapsed() >= Duration::from_millis(150), "its graces were cut");
}
