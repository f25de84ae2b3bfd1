//! Sessions: what ends with a connection, and what survives a reconnect.

use std::time::{Duration, Instant};

use badchild::{Found, PATIENCE, wait_until};
use nostray::{Cause, Ending, Session};

use crate::apart::any::{Any, KINDS, Kind, runtime};
use crate::apart::{apart, child, expect_alone, trees};

/// For how long a session is kept in these tests.
const KEPT: Duration = Duration::from_millis(1200);

/// A child of a session, and its process.
fn worker(kind: Kind, session: &str) -> (Any, Found) {
    worker_with(kind, session, Duration::from_millis(150))
}

/// The same with a grace of its own.
fn worker_with(kind: Kind, session: &str, grace: Duration) -> (Any, Found) {
    let spec = child(&["tree", "stubborn", "daemon"]).session(session).term_grace(grace);
    let mut pen = kind.ready(&spec.build().expect("right"));
    let found = pen.child();
    (pen, found)
}

/// That something does not happen can only be seen by waiting for it.
fn stays(found: &Found, time: Duration) {
    let until = Instant::now() + time;
    while Instant::now() < until {
        assert!(found.is_alive(), "it has ended");
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn with_the_last_connection_of_a_side_car_its_workers_end_at_once() {
    apart(|| {
        for kind in KINDS {
            let connect = |key: &str| Session::connect(key, Ending::CloseOnDisconnect);
            // Longer than a busy machine takes for a drop that does not wait.
            let grace = Duration::from_secs(3);
            let (mut pen, ours) = worker_with(kind, "ours", grace);
            let (other_pen, theirs) = worker(kind, "theirs");
            let (first, second, other) = (connect("ours"), connect("ours"), connect("theirs"));
            assert_eq!((first.key(), other.key()), ("ours", "theirs"));
            drop(first);
            stays(&ours, KEPT);
            let begun = Instant::now();
            drop(second);
            assert!(begun.elapsed() < grace, "the drop does not wait");
            wait_until("its worker ends", || !ours.is_alive());
            assert!(matches!(pen.wait().cause, Cause::Asked(_)), "{kind:?}");
            assert!(theirs.is_alive());
            drop(other);
            wait_until("and so does the other's", || !theirs.is_alive());
            drop(other_pen);
            expect_alone();
        }
    });
}

#[test]
fn a_session_that_reconnects_in_time_keeps_its_children_and_otherwise_they_end() {
    apart(|| {
        for kind in KINDS {
            let connect = || Session::connect("s", Ending::KeepFor(KEPT));
            let (mut pen, found) = worker(kind, "s");
            // With a time that does not run out in this test,
            for _ in 0..3 {
                drop(Session::connect("s", Ending::KeepFor(PATIENCE)));
                stays(&found, KEPT / 4);
            }
            // and with a time that is over while a session is connected again.
            drop(connect());
            let back = connect();
            stays(&found, KEPT * 2);
            let begun = Instant::now();
            drop(back);
            assert!(matches!(pen.wait().cause, Cause::Asked(_)), "{kind:?}");
            assert!(begun.elapsed() >= KEPT && begun.elapsed() < PATIENCE, "{:?}", begun.elapsed());
            assert_eq!(trees().len(), 0);
        }
    });
}

/// The timer of an earlier life of a key is no concern of the next one.
#[test]
fn a_session_that_was_over_and_is_there_again_is_not_ended_by_what_was_left_of_the_first() {
    apart(|| {
        drop(Session::connect("s", Ending::KeepFor(KEPT)));
        drop(Session::connect("s", Ending::CloseOnDisconnect));
        // That one is over when its worker is.
        let session = Session::connect("s", Ending::CloseOnDisconnect);
        let (mut early, _) = worker(Kind::Blocking, "s");
        drop(session);
        early.wait();
        // Connect before it has a worker: while no session is connected, the first timer may end the worker.
        let connections: Vec<_> = (0..8).map(|_| Session::connect("s", Ending::CloseOnDisconnect)).collect();
        let (pen, found) = worker(Kind::Blocking, "s");
        stays(&found, KEPT * 2);
        drop(connections);
        wait_until("it ends", || !found.is_alive());
        drop(pen);
    });
}

/// The end of the worker before takes its time, and the reconnect does not wait for it.
#[test]
fn what_is_started_after_a_reconnect_is_not_ended_with_the_connection_before() {
    apart(|| {
        let spec = child(&["pause"]).session("s").build().expect("right");
        let mut before: Option<Any> = None;
        for round in 0..15 {
            let session = Session::connect("s", Ending::CloseOnDisconnect);
            let pen = Kind::Blocking.ready(&spec);
            if let Some(mut before) = before.take() {
                assert!(matches!(before.wait().cause, Cause::Asked(_)));
            }
            let mut pen = pen;
            let found = pen.child();
            stays(&found, Duration::from_millis(10 * (round % 3)));
            before = Some(pen);
            drop(session);
        }
    });
}

#[test]
fn a_session_ends_without_a_runtime_and_after_one_and_at_a_panic() {
    apart(|| {
        let (pen, found) = worker(Kind::Async, "in a runtime");
        let runtime = runtime();
        runtime.spawn(async {
            let _session = Session::connect("in a runtime", Ending::CloseOnDisconnect);
            std::future::pending::<()>().await;
        });
        runtime.block_on(tokio::task::yield_now());
        drop(runtime);
        wait_until("it ends with the runtime", || !found.is_alive());
        drop(pen);
        let (pen, found) = worker(Kind::Blocking, "in a panic");
        let panicked = std::thread::spawn(|| {
            let _session = Session::connect("in a panic", Ending::KeepFor(Duration::from_millis(1)));
            panic!("as threads do");
        });
        assert!(panicked.join().is_err());
        wait_until("it ends with the thread", || !found.is_alive());
        drop(pen);
    });
}

#[test]
fn a_close_is_for_all_connections_and_waits() {
    apart(|| {
        let (pen, found) = worker(Kind::Blocking, "s");
        let forever = Session::connect("s", Ending::KeepFor(Duration::MAX));
        let other = Session::connect("s", Ending::KeepFor(Duration::MAX));
        drop(forever);
        assert!(found.is_alive());
        assert_eq!(other.close(), [""; 0]);
        assert!(!found.is_alive());
        assert_eq!(trees().len(), 0);
        drop(pen);
        // And what is started for the same key later is not its concern.
        let (pen, found) = worker(Kind::Blocking, "s");
        let session = Session::connect("s", Ending::CloseOnDisconnect);
        stays(&found, KEPT);
        drop((session, pen));
    });
}

/// A worker that is just being started when the connection goes.
#[test]
fn a_worker_that_was_started_a_moment_ago_ends_with_its_session() {
    apart(|| {
        for kind in KINDS {
            let session = Session::connect("s", Ending::CloseOnDisconnect);
            let mut pen = kind.spawn(&child(&["pause"]).session("s").build().expect("right"));
            drop(session);
            pen.wait();
            assert_eq!(trees().len(), 0);
        }
    });
}
