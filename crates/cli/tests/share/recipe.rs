//! The recipe of `examples/memory-bridge`, as its README describes it: its folder with a `node` comes first in the PATH
//! of the hosts. The hosts probe for Node, start a viewer as a daemon, have several providers, end each other's bridges
//! by a pattern, and reconnect.

use std::path::Path;
use std::process::Command;

use badchild::{Found, wait_until};
use testkit::memory::{Host, Memory};
use testkit::nostray;

const RECIPE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/memory-bridge");

/// The PATH of a host: the recipe first, then nostray and the real node.
fn path(memory: &Memory, with_nostray: bool) -> std::ffi::OsString {
    let recipe = memory.many.stage.file("recipe");
    if !Path::new(&recipe).exists() {
        // Copied to a folder that every user may read.
        assert!(Command::new("cp").arg("-r").arg(RECIPE).arg(&recipe).status().expect("run cp").success());
    }
    let folder = memory.many.stage.folder.path().to_owned();
    let nostray = nostray().parent().expect("a folder").to_owned();
    let nostray = with_nostray.then_some(nostray);
    let folders = [recipe.into()].into_iter().chain(nostray).chain([folder, "/usr/bin".into(), "/bin".into()]);
    std::env::join_paths(folders).expect("no colon")
}

fn host(memory: &Memory, name: &str, options: &[&str]) -> Host {
    let store = memory.many.stage.file("store");
    let command = ["node", "bridge.cjs", "--store", &store].map(str::to_owned);
    let options = [&["--name", name, "--providers", "2", "--probe", "--viewer"], options].concat();
    memory.host(&options, &command, |host| {
        host.env("PATH", path(memory, true));
        // Each host has variables and a directory of its own, as real hosts do.
        host.env("HOST_NAME", name).current_dir(if name == "a" { "/" } else { "/tmp" });
    })
}

fn wait_for_one_viewer(memory: &Memory) -> Found {
    wait_until("there is one viewer", || memory.viewers().len() == 1);
    memory.viewers().remove(0)
}

/// Stops children that linger.
fn end_all(memory: &Memory) {
    assert!(memory.many.nostray(&["stop", "--all"]).status.success());
    memory.many.expect_no_process();
}

#[test]
fn hosts_have_one_bridge_and_one_viewer_and_neither_outlives_the_last_host() {
    let memory = Memory::new();
    let hosts = ["a", "b"].map(|name| host(&memory, name, &["--turns", "4"]));
    for host in &hosts {
        assert_eq!(host.tally(), (8, 0, 0));
    }
    assert_eq!((memory.bridges().len(), memory.lives()), (1, 1));
    let viewer = wait_for_one_viewer(&memory);
    memory.expect_no_crossing();
    let [first, second] = hosts;
    first.kill();
    // The second host still holds bridge and viewer.
    memory.many.wait_for_leases_of_any(3);
    assert!(viewer.is_alive());
    assert_eq!(memory.bridges().len(), 1);
    second.kill();
    wait_until("the viewer has ended", || memory.viewers().is_empty());
    end_all(&memory);
    assert_eq!(memory.lives(), 1, "a bridge was started without a session");
}

#[test]
fn a_host_that_ends_leftovers_by_a_pattern_costs_the_others_a_reconnect_and_no_turn() {
    let memory = Memory::new();
    let mut first = host(&memory, "a", &["--turns", "4", "--pause-in", "1,2"]);
    first.expect("started");
    first.expect("in turn 1");
    let keepers: Vec<Found> = memory.many.stewards();
    assert!(!keepers.is_empty());
    let second = host(&memory, "b", &["--turns", "4", "--kill-leftovers"]);
    second.expect("started");
    first.go_on();
    // Both connections of `a` have lost their bridge, and `a` has begun its turn again with the bridge of `b`.
    first.expect("in turn 2");
    let bridges = memory.bridges();
    assert_eq!(bridges.len(), 1, "{bridges:#?}");
    first.go_on();
    let (stored, lost, reconnects) = first.tally();
    assert_eq!((stored, lost), (8, 0));
    assert!(reconnects >= 2, "{reconnects}");
    assert_eq!(second.tally().1, 0);
    // One bridge for `a`, and one after the kill. A session that comes while the first bridge ends may cost a third.
    assert!(memory.lives() <= 3, "{} bridges", memory.lives());
    memory.expect_no_crossing();
    wait_for_one_viewer(&memory);
    let journal = memory.many.says(&["log"]);
    for keeper in ["guard was killed", "spare was killed", "steward was killed"] {
        assert!(!journal.contains(keeper), "the pattern hit a nostray process: {journal}");
    }
    first.end();
    second.end();
    end_all(&memory);
}

#[test]
fn commands_that_are_neither_bridge_nor_viewer_run_node_itself() {
    let memory = Memory::new();
    let node = |words: &[&str], with_nostray: bool| {
        let mut command = memory.scene().command("sh".as_ref());
        command.env("PATH", path(&memory, with_nostray)).args(["-c", "exec node \"$@\"", "sh"]).args(words);
        command.output().expect("run node")
    };
    assert_eq!(node(&["--version"], true).stdout, b"v20.0.0\n");
    assert_eq!(node(&["exit", "7"], true).status.code(), Some(7));
    // A host without nostray still gets its bridge, with a warning.
    let plain = node(&["bridge.cjs"], false);
    assert!(plain.status.success());
    assert!(String::from_utf8_lossy(&plain.stderr).contains("runs without it"), "{plain:?}");
    assert!(String::from_utf8_lossy(&plain.stdout).contains("[bridge] listening"), "{plain:?}");
    // Not even an empty broker was started.
    assert_eq!(memory.many.brokers().len(), 0);
}
