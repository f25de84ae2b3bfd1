//! However a host, a front or a child ends: nothing of the tree is left.

use std::time::{Duration, Instant};

use under_wine::{DEADLINE, Stage, kill, within};

/// Every process of the tree that `badchild tree` makes.
const TREE: [&str; 6] = ["child", "grandchild", "detached", "new-console", "orphan", "nested"];

/// A host with a tree that runs.
fn play(name: &str, mode: &str, options: &[&str]) -> Stage {
    let stage = Stage::new(name);
    let host = stage.host(mode, &stage.contained(options, "tree", &[]));
    TREE.iter().for_each(|role| drop(stage.told(role)));
    assert_eq!(stage.told("breakaway"), "5", "breakaway is refused: ERROR_ACCESS_DENIED");
    assert!(stage.seen().len() >= TREE.len() + 2, "{:#?}", stage.seen());
    reap(host);
    stage
}

/// A killed process of Wine's is a zombie until its parent, this program, waits for it.
fn reap(mut host: std::process::Child) {
    std::thread::spawn(move || host.wait().ok());
}

/// Without nostray, a tree stays: the test itself is tested.
#[test]
fn without_nostray_the_tree_stays() {
    let stage = Stage::new("control");
    reap(stage.host("exits", &stage.badchild("tree", &[])));
    TREE.iter().for_each(|role| drop(stage.told(role)));
    stage.go();
    let host_is_gone = || stage.find(" host ").is_none().then_some(());
    assert!(within(DEADLINE, host_is_gone).is_some());
    std::thread::sleep(Duration::from_millis(300)); // long enough for what a job would end
    assert!(stage.seen().len() >= TREE.len(), "{:#?}", stage.seen());
    stage.seen().iter().for_each(|seen| kill(seen.pid));
    stage.time_until_empty();
}

#[test]
fn a_host_that_exits() {
    let stage = play("exits", "exits", &["--eof-grace", "300ms"]);
    stage.go();
    stage.time_until_empty();
}

#[test]
fn a_host_that_is_terminated() {
    let stage = play("terminated", "waits", &["--eof-grace", "0s"]);
    stage.terminate(&stage.told("host"));
    stage.time_until_empty();
}

#[test]
fn a_host_that_is_killed_from_outside() {
    let stage = play("killed", "waits", &["--eof-grace", "0s"]);
    kill(stage.find(" host ").expect("the host").pid);
    stage.time_until_empty();
}

#[test]
fn a_front_that_is_terminated() {
    let stage = play("front", "waits", &[]);
    stage.terminate(&stage.told("front"));
    stage.told("code");
    stage.time_until_empty();
}

#[test]
fn a_front_that_is_killed_from_outside() {
    let stage = play("front-killed", "waits", &[]);
    let front =
        stage.seen().into_iter().find(|seen| seen.line.contains("nostray.exe") && !seen.line.contains(" host "));
    kill(front.expect("the front").pid);
    stage.time_until_empty();
}

#[test]
fn front_and_host_at_once() {
    let stage = play("both", "waits", &[]);
    let both: Vec<u32> =
        stage.seen().into_iter().filter(|seen| seen.line.contains("nostray.exe")).map(|seen| seen.pid).collect();
    assert_eq!(both.len(), 2);
    both.into_iter().for_each(kill);
    stage.time_until_empty();
}

#[test]
fn a_child_that_is_terminated() {
    let stage = play("child", "waits", &[]);
    stage.terminate(&stage.told("child"));
    assert_eq!(stage.told("code"), "9", "the child's own code");
    stage.time_until_empty();
}

#[test]
fn a_child_that_exits_and_leaves_others() {
    let stage = Stage::new("leaver");
    reap(stage.host("waits", &stage.contained(&[], "leaver", &[])));
    assert_eq!(stage.told("code"), "5");
    assert!(stage.find(" sleep ").is_none(), "the front ends after the tree: {:#?}", stage.seen());
    stage.time_until_empty();
}

/// A host that lets go of its child by closing its input, and a child that does not care: the child sees the end of its input, and the host
/// has to end nostray, as hosts do.
#[test]
fn the_end_of_input_ends_a_child_that_reads() {
    let stage = Stage::new("closes");
    reap(stage.host("closes", &stage.contained(&[], "echo", &[])));
    stage.told("host");
    stage.go();
    assert_eq!(stage.told("code"), "3");
    stage.time_until_empty();
}

#[test]
fn graces_are_given_to_a_child_whose_host_is_gone() {
    let stage = play("graces", "exits", &["--eof-grace", "2s"]);
    let begin = Instant::now();
    stage.go();
    stage.time_until_empty();
    assert!(begin.elapsed() > Duration::from_millis(1900), "{:?}", begin.elapsed());
}

#[test]
fn a_pen_inside_a_pen() {
    let stage = Stage::new("inside");
    let inner = stage.contained(&[], "tree", &[]);
    let mut outer = vec![stage.built("nostray.exe"), "run".to_owned(), "--".to_owned()];
    outer.extend(inner);
    reap(stage.host("waits", &outer));
    TREE.iter().for_each(|role| drop(stage.told(role)));
    let fronts: Vec<_> = stage.seen().into_iter().filter(|seen| !seen.line.contains(" host ")).collect();
    assert!(fronts.iter().filter(|seen| seen.line.contains("nostray.exe")).count() >= 2, "{fronts:#?}");
    stage.terminate(&stage.told("front"));
    stage.time_until_empty();
}

/// A host that starts nostray by `cmd /c`, as hosts do for `npx`.
fn play_behind_cmd(name: &str) -> Stage {
    let stage = Stage::new(name);
    let mut words = vec!["cmd".to_owned(), "/c".to_owned()];
    words.extend(stage.contained(&["--eof-grace", "0s"], "tree", &[]));
    reap(stage.host("waits", &words));
    TREE.iter().for_each(|role| drop(stage.told(role)));
    stage
}

#[test]
fn a_host_that_is_terminated_behind_a_launcher() {
    let stage = play_behind_cmd("behind-cmd");
    stage.terminate(&stage.told("host"));
    stage.time_until_empty();
}

#[test]
fn a_launcher_that_is_terminated() {
    let stage = play_behind_cmd("cmd");
    stage.terminate(&stage.told("front"));
    assert_eq!(stage.told("code"), "9", "the launcher's own code");
    stage.time_until_empty();
}

#[test]
fn a_process_named_by_die_with() {
    let stage = Stage::new("die-with");
    let words = stage.badchild("sleep", &["lamp"]);
    let words: Vec<&str> = words.iter().skip(1).map(String::as_str).collect();
    reap(stage.start("badchild.exe", &words));
    let lamp = stage.told("lamp");
    reap(stage.host("waits", &stage.contained(&["--die-with", &lamp], "tree", &[])));
    TREE.iter().for_each(|role| drop(stage.told(role)));
    stage.terminate(&lamp);
    assert_eq!(stage.told("code"), "1", "it was ended");
    stage.time_until_empty();
}

#[test]
fn an_idle_tree() {
    let stage = Stage::new("idle");
    reap(stage.host("waits", &stage.contained(&["--idle-timeout", "1s"], "sleep", &[])));
    stage.told("code");
    stage.time_until_empty();
}
