//! The host recovers, not nostray: a bridge keeps open turns in memory, and its host begins them again when the bridge
//! is gone. If nostray hid the crash, the host would not know. So a dead bridge ends its sessions, unless `--respawn`
//! is given.

use std::time::Duration;

use badchild::{comes_true, wait_until};
use serde_json::json;
use testkit::memory::{Host, Memory};

const JSON_RPC: [&str; 4] = ["--protocol", "jsonrpc", "--route-by", "params.sessionId"];

fn options(more: &[&'static str]) -> Vec<&'static str> {
    [&JSON_RPC[..], more].concat()
}

/// Kills the bridges of these hosts in the middle of open turns. Returns how many turns the hosts stored and lost.
fn killed_in_mid_turn(memory: &Memory, hosts: &[&str], command: &[String]) -> (u64, u64) {
    let start = |name: &&str| memory.host(&["--name", name, "--turns", "9", "--pause-in", "2,5,7"], command, |_| {});
    let mut hosts: Vec<Host> = hosts.iter().map(start).collect();
    for host in &hosts {
        host.expect("started");
    }
    for turn in [2, 5, 7] {
        for host in &hosts {
            host.expect(&format!("in turn {turn}"));
        }
        memory.kill_bridges();
        hosts.iter_mut().for_each(Host::go_on);
    }
    let tallies: Vec<_> = hosts.iter().map(Host::tally).collect();
    hosts.into_iter().for_each(Host::end);
    (tallies.iter().map(|tally| tally.0).sum(), tallies.iter().map(|tally| tally.1).sum())
}

#[test]
fn a_host_that_recovers_by_itself_loses_no_turn() {
    for hosts in [&["a"][..], &["a", "b"], &["a", "b", "c"]] {
        let turns = 9 * hosts.len() as u64;
        let (without, with) = (Memory::new(), Memory::new());
        let direct = killed_in_mid_turn(&without, hosts, &without.bridge());
        let shared = killed_in_mid_turn(&with, hosts, &with.shared(&JSON_RPC));
        assert_eq!(direct, (turns, 0), "{hosts:?}");
        assert_eq!(shared, direct, "{hosts:?}");
        with.expect_no_crossing();
        with.many.expect_no_process();
        without.scene().expect_empty();
    }
}

/// The reason why `--respawn` is not the default.
#[test]
fn with_respawn_the_turns_that_were_open_are_lost() {
    let memory = Memory::new();
    let command = memory.shared(&options(&["--respawn"]));
    assert_eq!(killed_in_mid_turn(&memory, &["a", "b"], &command), (18 - 2 * 3, 2 * 3));
    memory.many.expect_no_process();
}

/// A host that was written for a bridge of its own takes an error for the answer, and retries only after a closed pipe.
#[test]
fn a_call_in_flight_is_not_answered_and_the_host_makes_the_turn_again() {
    for (more, lost) in [(&[][..], 0), (&["--respawn"], 1)] {
        let memory = Memory::new();
        let command = memory.shared(&options(more));
        let host = memory.host(&["--name", "a", "--turns", "5", "--crash-in", "1"], &command, |_| {});
        host.expect("started");
        let (stored, refused, _) = host.tally();
        assert_eq!((stored, refused), (5 - lost, lost), "{more:?}");
        host.end();
        memory.many.expect_no_process();
    }
}

/// The same for a supervised `run`.
#[test]
fn a_supervised_bridge_of_one_host_ends_its_session_as_well() {
    let memory = Memory::new();
    let mut command = memory.shared(&["--protocol", "jsonrpc"]);
    let run = ["run", "--protocol", "jsonrpc", "--"].map(str::to_owned);
    let end_of_options = command.iter().position(|word| word == "--").expect("there");
    command.splice(1..=end_of_options, run);
    let host = memory.host(&["--name", "a", "--turns", "5", "--crash-in", "1"], &command, |_| {});
    host.expect("started");
    assert_eq!(host.tally(), (5, 0, 1));
    host.end();
    memory.scene().expect_empty();
}

#[test]
fn after_a_crash_all_hosts_get_one_new_bridge() {
    let memory = Memory::new();
    let command = memory.shared(&options(&["--linger", "10s"]));
    let start = |name: &str| {
        memory.host(&["--name", name, "--providers", "2", "--turns", "2", "--pause-in", "1"], &command, |_| {})
    };
    let mut hosts = ["a", "b", "c"].map(start);
    for host in &hosts {
        host.expect("started");
        host.expect("in turn 1");
    }
    let first = memory.bridges();
    assert_eq!(first.len(), 1, "{first:#?}");
    memory.kill_bridges();
    hosts.iter_mut().for_each(Host::go_on);
    for host in &hosts {
        let (stored, lost, reconnects) = host.tally();
        assert_eq!((stored, lost), (4, 0));
        assert!(reconnects >= 2, "not every provider has seen the end: {reconnects}");
    }
    assert_eq!(memory.bridges().len(), 1);
    memory.many.wait_for_leases(6);
    memory.expect_no_crossing();
    hosts.into_iter().for_each(Host::end);
    assert!(memory.many.nostray(&["stop", "--all"]).status.success());
    memory.many.expect_no_process();
}

/// A session that comes while a dead bridge's tree is still being ended waits for the next bridge, and does not end
/// with a bridge that it never had.
#[test]
fn a_session_that_comes_while_the_last_tree_ends_gets_the_next_bridge() {
    let memory = Memory::new();
    let leave = "trap '' TERM; sleep 1000 >/dev/null 2>&1 & exec \"$@\"";
    let mut command = memory.shared(&options(&["--term-grace", "3s"]));
    let bridge = command.iter().position(|word| word == "--").expect("there") + 1;
    command.splice(bridge..bridge, ["sh", "-c", leave, "sh"].map(str::to_owned));
    let first = memory.host(&["--name", "a", "--turns", "1", "--pause-in", "0"], &command, |_| {});
    first.expect("started");
    first.expect("in turn 0");
    memory.kill_bridges();
    let second = memory.host(&["--name", "b", "--turns", "3"], &command, |_| {});
    let (stored, lost, reconnects) = second.tally();
    assert_eq!((stored, lost, reconnects), (3, 0, 0));
    second.end();
    let mut first = first;
    first.go_on();
    assert_eq!(first.tally().1, 0);
    first.end();
    memory.many.expect_no_process();
}

/// The backoff does not grow for a bridge that was ready before each crash.
#[test]
fn a_bridge_that_serves_in_between_is_restarted_without_a_growing_backoff() {
    let memory = Memory::new();
    let more = ["--respawn", "--backoff", "50ms..1h", "--max-failures", "100/1m"];
    let mut caller = memory.many.share(&options(&more), &["--plain"]);
    for round in 0..8 {
        caller.error("die", json!({ "code": 3 }));
        // With a backoff that doubles, the eighth pause would be 6.4 s.
        let began = std::time::Instant::now();
        caller.result("echo", json!({ "round": round }));
        assert!(began.elapsed() < Duration::from_secs(3), "{round}: {:?}", began.elapsed());
    }
    memory.many.end_all([caller]);
}

/// All sessions end at once, also a session without calls in flight.
#[test]
fn an_idle_session_ends_with_the_bridge_and_with_its_exit_code() {
    let memory = Memory::new();
    let mut caller = memory.many.share(&options(&[]), &["--plain"]);
    let mut idle = memory.many.share(&options(&[]), &["--plain"]);
    idle.result("echo", json!({}));
    caller.send(&json!({ "jsonrpc": "2.0", "id": 1, "method": "die", "params": { "code": 3 } }));
    for caller in [&mut caller, &mut idle] {
        assert_eq!(caller.code(), 3);
        assert!(caller.errors().contains("exited with code 3"), "{}", caller.errors());
        assert!(!caller.errors().contains("panicked"), "{}", caller.errors());
    }
    memory.many.expect_no_process();
    let again = comes_true(Duration::from_millis(300), &mut || memory.many.stage.lives().len() > 1);
    assert!(!again, "a bridge was started without a session");
    wait_until("nothing is on record", || memory.many.pens().is_empty());
}
