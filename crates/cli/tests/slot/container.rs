//! A holder in a pid namespace of its own, as in a container. When the namespace is gone, the slot is free, also if
//! another namespace has got the same inode number.

use std::process::{Command, Stdio};
use std::time::Duration;

use badchild::{Found, Scene, User, comes_true};
use serde_json::Value;
use testkit::nostray;
use testkit::slots::{Ring, SLOT, end, ended};
use testkit::stage::Caller;

/// Starts a holder in a pid namespace, and kills all its processes, as at the restart of a container that keeps its
/// home. `None` where user namespaces are not allowed.
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
fn a_holder_in_a_container_that_is_gone_does_not_block_the_slot() {
    let Some((ring, _)) = gone_with_its_container() else { return };
    let mut newcomer = ring.run(&["--wait-timeout", "1m"], &[]);
    ring.expect_holder(&mut newcomer);
    assert_eq!(end(newcomer), 0);
    ring.expect_over();
}

/// The kernel reuses the inode number of a namespace. The processes in the new namespace are strangers.
#[test]
fn another_container_with_the_reused_namespace_number_does_not_block_the_slot() {
    let mut alone = Command::new("unshare");
    if !alone.args(["--pid", "--fork", "true"]).stderr(Stdio::null()).status().is_ok_and(|status| status.success()) {
        return; // only root may; a user namespace beside it would take a number from the same pool
    }
    let Some((ring, dead)) = gone_with_its_container() else { return };
    let is_reaped = |found: &Found| nostray_sys::proc::Stat::of(found.stat.pid).is_none();
    if !comes_true(Duration::from_secs(10), &mut || dead.iter().all(is_reaped)) {
        return; // zombies keep the namespace, and with it the number
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
        return; // a namespace of another kind has got the number
    }
    let mut newcomer = ring.run(&["--if-taken", "fail"], &[]);
    ring.expect_holder(&mut newcomer);
    assert_eq!(end(newcomer), 0);
    for container in &mut containers {
        assert!(container.process.try_wait().expect("look").is_none(), "a stranger was signalled");
    }
    drop(containers);
    ring.expect_over();
}
