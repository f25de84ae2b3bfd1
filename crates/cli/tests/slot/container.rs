//! A holder that was in a pid namespace of its own, as in a container: when that is gone, its slot is free, whoever else has got its number.

use std::process::{Command, Stdio};
use std::time::Duration;

use badchild::{Found, Scene, User, comes_true};
use serde_json::Value;
use testkit::nostray;
use testkit::slots::{Ring, SLOT, end, ended};
use testkit::stage::Caller;

/// A holder in a pid namespace that is gone with all that was in it, as after the restart of a container that keeps its home. None where
/// there is no such thing.
fn gone_with_its_container() -> Option<(Ring, Vec<Found>)> {
    let ring = Ring::new();
    let wrapper = ["--user", "--map-root-user", "--pid", "--fork", "--kill-child", "--mount-proc"];
    if !Command::new("unshare").args(wrapper).arg("true").status().is_ok_and(|status| status.success()) {
        return None;
    }
    let (words, nostray) = (ring.words(&[]), nostray().display().to_string());
    let mut all = wrapper.to_vec();
    all.extend([nostray.as_str(), "run", "--slot", SLOT, "--no-sweep", "--"]);
    all.extend(words.iter().map(String::as_str));
    let mut inside = ring.stage.start_plain("unshare", &all);
    inside.initialize();
    let processes = ring.stage.scene.processes();
    testkit::slots::kill_at_once(&processes);
    ended(&mut inside);
    ring.stage.scene.expect_empty();
    Some((ring, processes))
}

#[test]
fn a_holder_in_a_container_that_is_gone_keeps_nobody_from_the_slot() {
    let Some((ring, _)) = gone_with_its_container() else { return };
    let mut newcomer = ring.run(&["--wait-timeout", "1m"], &[]);
    ring.expect_holder(&mut newcomer);
    assert_eq!(end(newcomer), 0);
    ring.expect_over();
}

/// The kernel gives the number of a namespace that is gone to the next one: whoever is in that is a stranger.
#[test]
fn another_container_with_the_number_of_one_that_is_gone_keeps_nobody_from_the_slot() {
    let mut alone = Command::new("unshare");
    if !alone.args(["--pid", "--fork", "true"]).stderr(Stdio::null()).status().is_ok_and(|status| status.success()) {
        return; // only root may; and a namespace of each other kind beside it would get a number from the same store
    }
    let Some((ring, dead)) = gone_with_its_container() else { return };
    let is_reaped = |found: &Found| nostray_sys::proc::Stat::of(found.stat.pid).is_none();
    if !comes_true(Duration::from_secs(10), &mut || dead.iter().all(is_reaped)) {
        return; // whoever got its zombies keeps them, and with them the number
    }
    let records: Vec<Value> = ring
        .records()
        .iter()
        .map(|path| serde_json::from_slice(&std::fs::read(path).expect("read")).expect("JSON"))
        .collect();
    let number = records[0]["pid_namespace"].as_u64().expect("a number");
    let strangers = Scene::new(User::Current);
    let mut containers = Vec::new();
    let mut is_found = false;
    while !is_found && containers.len() < 50 {
        let mut container = strangers.command("unshare".as_ref());
        let script = "readlink /proc/self/ns/pid; exec sleep 1000";
        container.args(["--pid", "--fork", "--kill-child", "sh", "-c", script]);
        let mut container =
            Caller::new(container.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().expect("start"));
        is_found = String::from_utf8_lossy(&container.next_line()).trim() == format!("pid:[{number}]");
        containers.push(container);
    }
    if !is_found {
        return; // a namespace of another kind has got it
    }
    let mut newcomer = ring.run(&["--if-taken", "fail"], &[]);
    ring.expect_holder(&mut newcomer);
    assert_eq!(end(newcomer), 0);
    for container in &mut containers {
        assert!(container.process.try_wait().expect("look").is_none(), "a stranger was hit");
    }
    drop(containers);
    ring.expect_over();
}
