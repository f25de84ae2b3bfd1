//! Signals to a supervised child's front mean what they mean without supervision, wherever the child is; and whoever of nostray's
//! own processes is stopped, the session goes on or ends.

use std::os::unix::process::CommandExt;
use std::process::Stdio;
use std::time::{Duration, Instant};

use badchild::{Folder, Found, Host, Scene, User, badchild, comes_true, wait_until};
use nostray_sys::Signal;
use serde_json::json;
use testkit::nostray;
use testkit::stage::{Caller, Stage};

fn named(stage: &Stage, name: &str) -> Found {
    let mut found = stage.own().into_iter().filter(|found| found.stat.name == name);
    found.next().unwrap_or_else(|| panic!("no {name} among {:#?}", stage.own()))
}

fn front(caller: &Caller) -> Found {
    Found::by_pid(badchild::pid(i32::try_from(caller.process.id()).expect("small"))).expect("is there")
}

fn is_stopped(found: &Found) -> bool {
    nostray_sys::proc::Stat::of(found.stat.pid).is_some_and(|stat| stat.is_stopped())
}

#[test]
fn what_a_host_sends_on_purpose_reaches_the_child_once() {
    let stage = Stage::new();
    let (file, options) = (stage.file("got"), ["--respawn", "--term-grace", "20s"]);
    let mut caller = stage.start_command(&options, &[&badchild().display().to_string(), "count-signals", &file]);
    wait_until("it is ready", || stage.printed().contains("ready"));
    let mut expected = String::new();
    for signal in [Signal::USR1, Signal::USR2, Signal::WINCH, Signal::CONT, Signal::TSTP, Signal::USR1] {
        front(&caller).send(signal);
        expected += &format!("{signal}\n");
        let so_far = expected.clone();
        // Signals of the same number would merge if they were sent faster than they are seen.
        wait_until("the child has it", || std::fs::read_to_string(&file).unwrap_or_default() == so_far);
    }
    front(&caller).send(Signal::TERM);
    assert_eq!(caller.code(), 0);
    assert_eq!(std::fs::read_to_string(&file).expect("read"), expected + "SIGTERM\n");
    stage.scene.expect_empty();
}

/// Two of ours are in the group that a host has made, and one of them passes it on.
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
        wait_until("it is ready", || stage.printed().contains("ready"));
        let group = format!("-{}", process.id());
        assert!(std::process::Command::new("kill").args(["-TERM", "--", &group]).status().expect("kill").success());
        assert_eq!(process.wait().expect("wait").code(), Some(0));
        assert!(std::path::Path::new(&file).exists(), "it was killed in its grace");
        stage.scene.expect_empty();
    }
}

/// A service manager, or `tree-kill`, signals every process there is.
#[test]
fn a_signal_to_all_of_our_processes_is_one_request() {
    for _ in 0..3 {
        let stage = Stage::new();
        let file = stage.file("flushed");
        let badchild = badchild().display().to_string();
        let mut caller =
            stage.start_command(&["--respawn", "--term-grace", "5s"], &[&badchild, "slow", "300", &file]);
        wait_until("it is ready", || stage.printed().contains("ready"));
        stage.own().iter().for_each(|found| found.send(Signal::TERM));
        assert_eq!(caller.code(), 0);
        assert!(std::path::Path::new(&file).exists(), "it was killed in its grace");
        stage.scene.expect_empty();
    }
}

/// Somebody has no patience left: whoever keeps the child at that moment hears of it.
#[test]
fn a_second_signal_ends_all_patience_whoever_of_us_is_left() {
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
        // Long enough for a tree that is not promised an hour.
        assert!(!comes_true(Duration::from_millis(300), &mut || stage.trees().is_empty()), "{killed}: no grace");
        front(&caller).send(Signal::TERM);
        wait_until("it has heard", || {
            String::from_utf8_lossy(&stage.nostray(&["ps", "--json"]).stdout).contains("it was stopped")
        });
        if killed == 0 {
            // The front hears of a signal before its guard does, and it is the guard who counts them.
            wait_until("its guard has heard", || stage.journal().contains("stopping: "));
        }
        // Two within a moment are one request.
        assert!(!comes_true(Duration::from_millis(100), &mut || stage.trees().is_empty()), "{killed}: no grace");
        front(&caller).send(Signal::TERM);
        stage.scene.expect_empty();
        caller.code();
        assert_eq!(stage.lives().len(), 1, "{killed}");
    }
}

/// A user may have used up all queued signals that he is allowed, and a signal is heard of all the same.
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

/// Without a child it is the front itself that the signal ends.
#[test]
fn a_signal_while_no_child_is_there_ends_the_session() {
    for (signal, code) in [(Signal::TERM, 143), (Signal::INT, 130), (Signal::HUP, 129), (Signal::QUIT, 131)] {
        let stage = Stage::new();
        let mut caller = stage.start(&["--hibernate", "30ms"], &[]);
        caller.initialize();
        stage.wait_until_asleep();
        // (More than one, if it slept before it was asked anything.)
        let lives = stage.lives().len();
        front(&caller).send(Signal::USR1); // for a child, if there were one
        front(&caller).send(signal);
        assert_eq!(caller.code(), code);
        stage.scene.expect_empty();
        assert_eq!(stage.lives().len(), lives, "nobody is woken to be ended");
    }
}

#[test]
fn those_of_us_who_keep_a_child_go_on_when_they_are_stopped() {
    let keepers = ["nostray-front", "nostray-spare", "nostray-guard"];
    for stopped in [&keepers[..1], &keepers[1..2], &keepers[2..], &keepers[..]] {
        let stage = Stage::new();
        let mut caller = stage.start_stubborn(&["--respawn", "--eof-grace", "150ms", "--term-grace", "150ms"]);
        caller.initialize();
        for name in stopped {
            named(&stage, name).send(Signal::STOP);
        }
        caller.who();
        wait_until("they go on", || stage.own().iter().all(|found| !is_stopped(found)));
        caller.close();
        assert_eq!(caller.code(), 137, "{stopped:?}");
        stage.scene.expect_empty();
    }
}

/// A host that ends while its front is stopped, or the child and everybody with it: nobody would ever act on it.
#[test]
fn a_front_that_is_stopped_hears_of_its_hosts_end_all_the_same() {
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
            wait_until("all are there", || scene.processes().len() == 7);
            let front = Found::by_pid(badchild::pid(number)).expect("is there");
            front.send(Signal::STOP);
            wait_until("it is stopped", || is_stopped(&front));
            host.kill();
            scene.expect_empty();
            host.expect_friend_untouched();
        }
    }
}

/// While the child is asleep, there is no other process of nostray that would continue the front.
#[test]
fn a_front_that_is_stopped_while_its_child_is_asleep_hears_of_its_hosts_end() {
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
        front.send(Signal::STOP);
        wait_until("it is stopped", || is_stopped(&front));
        host.kill();
        scene.expect_empty();
        host.expect_friend_untouched();
    }
}

/// Somebody looks at a child with a debugger: nostray does not interfere. When it is to end, it ends.
#[test]
fn a_child_that_is_stopped_stays_so_until_it_is_continued_or_ended() {
    let stage = Stage::new();
    let mut caller = stage.start(&["--respawn", "--eof-grace", "150ms", "--term-grace", "20s"], &[]);
    caller.initialize();
    let child = stage.child();
    child.send(Signal::STOP);
    wait_until("it is stopped", || is_stopped(&child));
    let waiting = caller.ask("who", json!({}));
    assert!(!comes_true(Duration::from_millis(300), &mut || !is_stopped(&child)), "it was continued");
    assert!(stage.own().iter().all(|found| !is_stopped(found)), "somebody of ours was stopped with it");
    wait_until("it is on record", || stage.states() == ["ready"]);
    child.send(Signal::CONT);
    assert_eq!(caller.answer(waiting)["result"]["pid"], child.stat.pid.as_raw_pid());
    child.send(Signal::STOP);
    wait_until("it is stopped", || is_stopped(&child));
    caller.close();
    assert_eq!(caller.code(), 143, "it was continued to get its SIGTERM");
    stage.scene.expect_empty();
    assert_eq!(stage.lives().len(), 1);
}

/// Whoever ends the child on purpose does not want another one: a limit of the user's, or a signal to its guard.
#[test]
fn a_child_that_was_ended_on_purpose_does_not_come_back() {
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

/// What the host had ignored ends nothing, but the child may have decided otherwise.
#[test]
fn what_the_host_has_ignored_ends_nothing_but_still_reaches_the_child() {
    let stage = Stage::new();
    let file = stage.file("got");
    let (nostray, badchild) = (nostray().display().to_string(), badchild().display().to_string());
    let script = "trap '' HUP INT; exec \"$@\"";
    let words = ["-c", script, "sh", &nostray, "run", "--respawn", "--", &badchild, "count-signals", &file];
    let mut caller = stage.start_plain("sh", &words);
    wait_until("it is ready", || stage.printed().contains("ready"));
    for signal in [Signal::HUP, Signal::INT] {
        front(&caller).send(signal);
        wait_until("it arrives", || {
            std::fs::read_to_string(&file).is_ok_and(|got| got.contains(&signal.to_string()))
        });
    }
    front(&caller).send(Signal::TERM);
    assert_eq!(caller.code(), 0);
    stage.scene.expect_empty();
}

/// What kills a process and cannot be passed on kills the front, and the guard sees to the rest.
#[test]
fn a_front_that_dies_of_something_else_takes_its_tree_along() {
    let stage = Stage::new();
    let options = ["--respawn", "--eof-grace", "100ms", "--term-grace", "100ms"];
    let command = [&badchild().display().to_string(), "tree", "stubborn", "setsid"];
    let caller = stage.start_command(&options, &command);
    wait_until("it is ready", || stage.printed().contains("ready"));
    let began = Instant::now();
    front(&caller).send(Signal::ABRT);
    drop(caller);
    stage.scene.expect_empty();
    assert!(began.elapsed() >= Duration::from_millis(150), "its graces were cut");
}
