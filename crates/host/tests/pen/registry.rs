//! What is on record of all hosts: list, watch, sweep, and the children of a session.

use std::collections::HashMap;
use std::io::Write;
use std::process::{Child as Process, Stdio};
use std::time::{Duration, Instant};

use badchild::{Found, PATIENCE, pid, wait_until};
use nostray::{CallError, Change, ChangeKind, Child, ChildState, Lease, Registry, Supervisor, SweepPolicy, Watch};
use nostray_sys::Signal;
use serde_json::{Value, json};

use crate::apart::any::{KINDS, Kind, runtime};
use crate::apart::{apart, child, expect_alone, expect_settled, keepers, leased, nostray, programs, trees};

const SHORT: Duration = Duration::from_millis(200);

fn ids(children: &[Child]) -> Vec<&str> {
    let mut ids: Vec<_> = children.iter().map(|child| child.id.as_str()).collect();
    ids.sort_unstable();
    ids
}

/// `nostray HOW OPTIONS -- badchild MANNER`, with its input in our hands. Ended with the value.
struct Run(Process);

impl Run {
    fn start(how: &str, options: &[&str], manner: &[&str]) -> Self {
        let mut run = nostray(&[how]);
        run.args(["--eof-grace", "300ms", "--term-grace", "300ms"]).args(options).arg("--");
        run.arg(programs().join("badchild")).args(manner);
        Self(run.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("start nostray"))
    }
}

impl Drop for Run {
    fn drop(&mut self) {
        drop(self.0.stdin.take());
        self.0.wait().ok();
    }
}

#[test]
fn the_list_has_the_children_of_this_host_and_of_all_others() {
    apart(|| {
        assert_eq!(Registry::new().list().len(), 0);
        let pens: Vec<_> =
            KINDS.map(|kind| kind.ready(&child(&["tree", "cooperative", "daemon"]).build().expect("right"))).into();
        let run = Run::start("run", &["--session", "s", "--label", "a=b", "--slot", "x"], &["pause"]);
        wait_until("all are ready", || {
            Registry::new().list().iter().filter(|child| child.state == ChildState::Ready).count() == 3
        });
        let list = Registry::new().list();
        let other = list.iter().find(|child| child.session.is_some()).expect("is there");
        assert_eq!((other.session.as_deref(), other.slot.as_deref()), (Some("s"), Some("x")));
        assert_eq!(other.labels.get("a").map(String::as_str), Some("b"));
        assert!(other.command.ends_with(&["pause".to_owned()]), "{other:?}");
        for (pen, number) in pens.iter().zip([2, 2]) {
            let found = list.iter().find(|child| child.id == pen.id()).expect("is there");
            assert_eq!(found.tree.len(), number, "{found:?}");
            assert!(found.memory > 0);
            let of_proc: Vec<_> = found.tree.iter().filter_map(|number| Found::by_pid(pid(*number))).collect();
            assert!(of_proc.iter().all(|found| found.command.contains("badchild")), "{of_proc:?}");
        }
        drop((pens, run));
        expect_alone();
        assert_eq!(Registry::new().list().len(), 0);
    });
}

/// Reads until something has come.
fn until(watch: &mut Watch, changes: &mut Vec<Change>, is_it: impl Fn(&Change) -> bool) {
    wait_until("it is told", || {
        changes.extend(std::iter::from_fn(|| watch.try_next()));
        changes.iter().any(&is_it)
    });
}

/// A watch that begins before anything was ever on record.
#[test]
fn a_watch_tells_all_that_happens_from_now_on_once_and_in_its_order() {
    apart(|| {
        let mut watch = Registry::new().watch();
        let mut changes = Vec::new();
        assert_eq!(watch.try_next(), None);
        let mut pen =
            Kind::Blocking.ready(&child(&["tree", "stubborn", "daemon"]).session("s").build().expect("right"));
        let id = pen.id();
        pen.stop(SHORT, SHORT);
        until(&mut watch, &mut changes, |change| change.id == id && change.kind == ChangeKind::Empty);
        let events: Vec<_> = changes.iter().map(|change| (change.id.as_str(), change.kind)).collect();
        let kinds = [
            ChangeKind::Started,
            ChangeKind::Ready,
            ChangeKind::Stopping,
            ChangeKind::Killed,
            ChangeKind::Exited,
            ChangeKind::Empty,
        ];
        let expected = kinds.map(|kind| (id.as_str(), kind));
        assert_eq!(events.len(), expected.len(), "{events:?}");
        assert!(expected.iter().all(|event| events.contains(event)), "{events:?}");
        assert_eq!((events[0], events[1], events[events.len() - 1]), (expected[0], expected[1], expected[5]));
        assert_eq!(changes[0].detail["session"], "s", "{:?}", changes[0]);
        assert!(changes.is_sorted_by_key(|change| change.time));
    });
}

#[test]
fn a_watch_in_a_runtime_misses_nothing_and_tells_nothing_twice_while_many_come_and_go() {
    apart(|| {
        let mut watch = Registry::new().watch();
        let come_and_go = || {
            for _ in 0..8 {
                Kind::Blocking.spawn(&child(&["exit", "0"]).build().expect("right")).wait();
            }
        };
        let told = std::thread::scope(|scope| {
            let busy: Vec<_> = (0..4).map(|_| scope.spawn(come_and_go)).collect();
            let told = runtime().block_on(async {
                let mut told: HashMap<(String, ChangeKind), usize> = HashMap::new();
                let mut empty = 0;
                while empty < 32 {
                    let change = tokio::time::timeout(PATIENCE, watch.next()).await.expect("comes");
                    empty += usize::from(change.kind == ChangeKind::Empty);
                    *told.entry((change.id, change.kind)).or_default() += 1;
                }
                told
            });
            busy.into_iter().for_each(|busy| busy.join().expect("no panic"));
            told
        });
        assert!(told.values().all(|count| *count == 1), "{told:?}");
        for event in [ChangeKind::Started, ChangeKind::Exited, ChangeKind::Empty] {
            assert_eq!(told.keys().filter(|(_, told)| *told == event).count(), 32, "{event:?}");
        }
    });
}

#[test]
fn a_sweep_ends_what_dead_owners_have_left_and_no_other_process() {
    apart(|| {
        let mut bystander = Kind::Blocking.ready(&child(&["tree", "stubborn", "daemon"]).build().expect("right"));
        let spared = trees();
        let mut orphaned = Kind::Blocking.ready(&child(&["tree", "stubborn", "daemon"]).build().expect("right"));
        let id = orphaned.id();
        orphaned.child(); // its guard has written its record
        expect_settled(); // or the bystander's front would sweep, too
        // No destructor ends it.
        std::mem::forget(orphaned);
        let those = trees().into_iter().filter(|found| spared.iter().all(|other| other.stat.pid != found.stat.pid));
        let those: Vec<_> = those.collect();
        assert_eq!(those.len(), 2);
        let keepers: Vec<_> = keepers().into_iter().filter(|found| found.command.contains(&id)).collect();
        keepers.iter().for_each(|keeper| keeper.send(Signal::KILL));
        // By their pids: a dying process has no token any more, but still its files.
        wait_until("its keepers are gone", || !keepers.iter().any(Found::is_alive));
        let state = Registry::new().list().into_iter().find(|child| child.id == id).map(|child| child.state);
        assert_eq!(state, Some(ChildState::Orphaned));
        let numbers = |those: &[Found]| {
            let mut numbers: Vec<_> = those.iter().map(|found| found.stat.pid.as_raw_nonzero().get()).collect();
            numbers.sort_unstable();
            numbers
        };
        for policy in [SweepPolicy::dry_run(), SweepPolicy::default()] {
            let swept = Registry::new().sweep(&policy);
            let [mut found] = <[_; 1]>::try_from(swept).expect("one");
            found.found.sort_unstable();
            assert_eq!((found.id.as_str(), found.found), (id.as_str(), numbers(&those)));
            assert_eq!(those.iter().filter(|found| found.is_alive()).count(), if policy.dry_run { 2 } else { 0 });
        }
        assert_eq!(Registry::new().sweep(&SweepPolicy::default()).len(), 0);
        assert!(spared.iter().all(Found::is_alive), "others were hit");
        bystander.kill();
        bystander.wait();
    });
}

#[test]
fn the_end_of_a_session_ends_its_children_of_all_kinds_and_no_others() {
    apart(|| {
        let registry = Registry::new();
        let mut pens: Vec<_> = KINDS
            .into_iter()
            .flat_map(|kind| {
                [["tree", "cooperative", "plain"], ["tree", "stubborn", "daemon"]]
                    .map(|manner| kind.ready(&child(&manner).session("ours").build().expect("right")))
            })
            .collect();
        let mut other = Kind::Blocking.ready(&child(&["pause"]).session("theirs").build().expect("right"));
        let without = Kind::Blocking.ready(&child(&["pause"]).build().expect("right"));
        let mut run = Run::start("run", &["--session", "ours"], &["tree", "stubborn", "daemon"]);
        wait_until("all are on record", || {
            registry.active_for_session("ours").iter().filter(|c| c.state == ChildState::Ready).count() == 5
        });
        assert_eq!(ids(&registry.active_for_session("theirs")), [other.id().as_str()]);
        assert_eq!(registry.active_for_session("our").len(), 0, "a part of a key is no key");
        let spared = other.child();
        let before = registry.active_for_session("ours").len();
        let begun = Instant::now();
        assert_eq!(registry.close_session("ours"), [""; 0]);
        assert!(begun.elapsed() < PATIENCE / 2);
        assert_eq!((before, registry.active_for_session("ours").len()), (5, 0));
        assert_eq!(trees().len(), 2, "{:?}", trees());
        assert!(spared.is_alive());
        for pen in &mut pens {
            assert!(matches!(pen.wait().cause, nostray::Cause::Asked(_)));
        }
        assert!(run.0.wait().expect("wait").code().is_some());
        assert_eq!(registry.close_session("ours"), [""; 0], "nothing to do is not wrong");
        drop((pens, other, without, run));
        expect_alone();
    });
}

/// What a person closes may have been opened in the same moment.
#[test]
fn a_child_that_is_just_being_started_ends_with_its_session_too() {
    apart(|| {
        let registry = Registry::new();
        for kind in KINDS {
            for _ in 0..5 {
                let mut pen = kind.spawn(&child(&["pause"]).session("s").build().expect("right"));
                assert_eq!(registry.close_session("s"), [""; 0]);
                assert_eq!(trees().len(), 0, "{kind:?}");
                pen.wait();
            }
        }
    });
}

/// A stop beats a lease that is still held.
#[test]
fn the_child_of_a_lease_that_ends_with_its_session_or_is_stopped_by_hand_does_not_come_back() {
    apart(|| {
        let runtime = runtime();
        for by_hand in [false, true] {
            let spec = leased(&["server", "--plain"]).session("s").build().expect("right");
            let lease = runtime.block_on(async { Supervisor::global().lease(&spec) }).expect("a lease");
            let who = |lease: &Lease| runtime.block_on(lease.call::<Value>("who", &json!({})));
            who(&lease).expect("is there");
            if by_hand {
                let id = Registry::new().active_for_session("s")[0].id.clone();
                let stopped = nostray(&["stop", &id]).stdout(Stdio::null()).stderr(Stdio::null()).status();
                assert!(stopped.expect("run").success());
            } else {
                assert_eq!(Registry::new().close_session("s"), [""; 0]);
            }
            assert_eq!(trees().len(), 0);
            // That something does not happen can only be seen by waiting for it.
            let until = Instant::now() + Duration::from_secs(1);
            while Instant::now() < until {
                runtime.block_on(async { tokio::time::sleep(Duration::from_millis(10)).await });
                assert_eq!(trees().len(), 0, "it came back");
            }
            assert!(matches!(who(&lease), Err(CallError::Refused(_))), "and a call is refused");
            assert_eq!(trees().len(), 0, "it came back for a call");
            // Another lease is another matter.
            drop(lease);
            let lease = runtime.block_on(async { Supervisor::global().lease(&spec) }).expect("a lease");
            who(&lease).expect("is there");
            drop(lease);
            runtime.block_on(Supervisor::global().shutdown());
            expect_alone();
        }
    });
}

/// A side-car has gone; the other sessions of the server must not notice.
#[test]
fn of_a_child_that_sessions_share_only_the_hold_of_the_closed_one_ends() {
    apart(|| {
        let registry = Registry::new();
        let share = |session: &str| {
            let mut run = Run::start("share", &["--session", session, "--linger", "100ms"], &["server"]);
            let params =
                r#"{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"t","version":"1"}}"#;
            let stdin = run.0.stdin.as_mut().expect("piped");
            writeln!(stdin, r#"{{"jsonrpc":"2.0","id":1,"method":"initialize","params":{params}}}"#).expect("write");
            run
        };
        let (mut first, second) = (share("first"), share("second"));
        let server = |session: &str| -> Vec<Option<i32>> {
            registry.active_for_session(session).iter().map(|child| child.pid).collect()
        };
        wait_until("both hold it", || server("first").len() == 1 && server("first") == server("second"));
        wait_until("it is there", || server("second")[0].is_some());
        let before = server("second");
        assert_eq!(registry.close_session("first"), [""; 0]);
        wait_until("the first one's front has ended", || first.0.try_wait().expect("wait").is_some());
        wait_until("its hold is over", || server("first").is_empty());
        assert_eq!(server("second"), before);
        let child = Found::by_pid(pid(before[0].expect("a number"))).expect("is there");
        assert!(child.is_alive());
        drop(second);
        wait_until("and it ends with the last one", || !child.is_alive());
        // The broker leaves by itself, but takes its time.
        nostray(&["broker", "stop"]).stdout(Stdio::null()).stderr(Stdio::null()).status().expect("run");
    });
}
