//! The lives of a leased child: how it ends, comes back, sleeps and stays away.

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use badchild::random::Random;
use badchild::{PATIENCE, wait_until};
use nostray::{CallError, Generation, Lease, LeaseSpecBuilder, Supervisor};
use nostray_sys::Signal;
use serde_json::{Value, json};

use crate::apart::{apart, file};
use crate::children::{
    Claim, alive, build, called, expect_all_gone, expect_gone, in_time, lives, mcp, ms, pid_of, play, server,
};

pub(crate) async fn kill(lease: &Lease) -> Result<Value, CallError> {
    in_time(lease.call("die", &json!({ "signal": 9, "text": "ouch" }))).await
}

/// What has no event: looks until it is so.
pub(crate) async fn comes(what: &str, mut is_so: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !is_so() {
        assert!(begun.elapsed() < PATIENCE, "did not happen: {what}");
        tokio::time::sleep(ms(2)).await;
    }
}

#[test]
fn a_child_that_died_comes_back_at_once_the_next_time_after_a_pause_and_its_leases_are_told_the_number() {
    apart(|| {
        play(async {
            let supervisor = Supervisor::new();
            let spec = mcp("r", &[]).backoff("3s..9s".parse().expect("right"));
            let lease = supervisor.lease(&build(spec)).expect("a lease");
            let told = Arc::new(Mutex::new(Vec::new()));
            let listener = told.clone();
            lease.on_respawn(move |generation| listener.lock().expect("no panic").push(generation));
            // A listener that panics harms no other listener, and a listener whose lease is gone is not told.
            lease.on_respawn(|_| panic!("a listener's own affair"));
            let gone = lease.clone();
            drop(gone);
            let other = supervisor.lease(&build(mcp("r", &[]))).expect("a lease");
            let listener = told.clone();
            other.on_respawn(move |_| listener.lock().expect("no panic").push(Generation(99)));
            drop(other);

            assert_eq!(in_time(lease.ready()).await, Ok(Generation(1)));
            assert_eq!(lease.generation(), Some(Generation(1)));
            let first = pid_of(&lease).await;
            let died = Instant::now();
            kill(&lease).await.expect_err("dead");
            assert_ne!(lease.generation(), Some(Generation(1)), "the dead one");
            assert_eq!(in_time(lease.ready()).await, Ok(Generation(2)));
            assert!(died.elapsed() < ms(1500), "a pause: {:?}", died.elapsed());
            assert_ne!(pid_of(&lease).await, first);
            let died = Instant::now();
            kill(&lease).await.expect_err("dead");
            // A call waits for the next one, too.
            pid_of(&lease).await;
            // It has served in between, so the pause does not grow.
            assert!(died.elapsed() >= ms(1500), "no pause: {:?}", died.elapsed());
            assert_eq!(lease.generation(), Some(Generation(3)));
            assert_eq!(*told.lock().expect("no panic"), [Generation(2), Generation(3)]);
            for life in lives("r") {
                assert_eq!(life.told("initialize").len(), 1, "each is greeted once");
            }
            expect_all_gone(&supervisor).await;
        });
    });
}

#[test]
fn calls_to_a_child_that_fails_too_often_are_refused_with_the_cause_until_the_child_is_mended() {
    apart(|| {
        play(async {
            let supervisor = Supervisor::new();
            let facts = file("facts").display().to_string();
            std::fs::write(&facts, r#"{ "exit": 7 }"#).expect("write");
            let spec = mcp("r", &["--facts", &facts, "--stderr", "no database"]);
            let lease = supervisor.lease(&build(spec.max_failures("3/1m".parse().expect("right")))).expect("a lease");
            let nothing = json!({});
            let (call, ready) = tokio::join!(in_time(lease.call::<Value>("who", &nothing)), in_time(lease.ready()));
            let Err(CallError::Refused(why)) = &call else { panic!("{call:?}") };
            let (before, after) = why.split_once("another ").expect("when");
            assert_eq!(before, "`badchild` failed too often (max_failures 3/1m), and is not started for ");
            assert!(after.ends_with("; most recently it exited with code 7 (last words: no database)"), "{why}");
            assert!(matches!(ready, Err(CallError::Refused(_))), "{ready:?}");
            assert_eq!(lives("r").len(), 3);
            for _ in 0..20 {
                let begun = Instant::now();
                let refused = in_time(lease.call::<Value>("who", &json!({}))).await;
                assert!(matches!(refused, Err(CallError::Refused(_))), "{refused:?}");
                assert!(begun.elapsed() < Duration::from_secs(10), "not at once");
            }
            assert_eq!(lives("r").len(), 3, "a call revived it");
            std::fs::write(&facts, "{}").expect("write");
            lease.restart();
            pid_of(&lease).await;
            expect_all_gone(&supervisor).await;
        });
    });
}

#[test]
fn a_handshake_that_is_refused_is_a_failure_with_the_childs_own_words() {
    apart(|| {
        play(async {
            let supervisor = Supervisor::new();
            let facts = file("facts").display().to_string();
            std::fs::write(&facts, r#"{ "refuse": true }"#).expect("write");
            let spec = mcp("r", &["--facts", &facts]).max_failures("2/1m".parse().expect("right"));
            let lease = supervisor.lease(&build(spec)).expect("a lease");
            let refused = in_time(lease.call::<Value>("who", &json!({}))).await;
            let Err(CallError::Refused(why)) = &refused else { panic!("{refused:?}") };
            assert!(why.contains("refused the handshake") && why.contains("this one does not want to"), "{why}");
            assert!(!why.contains("before it"), "it was the first child: {why}");
            for life in lives("r") {
                assert_eq!((life.told("who").len(), life.told("notifications/initialized").len()), (0, 0));
            }
            expect_all_gone(&supervisor).await;
        });
    });
}

#[test]
fn a_start_that_takes_too_long_is_a_failure() {
    apart(|| {
        play(async {
            let supervisor = Supervisor::new();
            let spec = mcp("r", &["--start-delay", "60000"]).start_timeout(ms(100));
            let spec = build(spec.max_failures("1/1m".parse().expect("right")));
            let lease = supervisor.lease(&spec).expect("a lease");
            let refused = in_time(lease.ready()).await;
            let Err(CallError::Refused(why)) = &refused else { panic!("{refused:?}") };
            let expected = "most recently it was ended: it took longer to start than start_timeout allows";
            assert!(why.ends_with(expected), "{why}");
            drop(lease);
            expect_gone("r");
        });
    });
}

#[test]
fn a_child_that_is_not_to_come_back_does_not_unless_it_only_slept() {
    apart(|| {
        play(async {
            let supervisor = Supervisor::new();
            // Not so soon that it could fall asleep between two calls.
            let spec = build(server("r", &[]).respawn(false).hibernate(ms(1500)));
            let lease = supervisor.lease(&spec).expect("a lease");
            pid_of(&lease).await;
            comes("it sleeps", || alive("r").is_empty()).await;
            // Sleeping is no end.
            pid_of(&lease).await;
            assert_eq!(lives("r").len(), 2);
            // Neither is a restart. This child does not sleep meanwhile, however long the test takes.
            let spec = build(server("s", &[]).respawn(false));
            let lease = supervisor.lease(&spec).expect("a lease");
            pid_of(&lease).await;
            lease.restart();
            pid_of(&lease).await;
            let same = supervisor.lease(&spec).expect("a lease");
            assert_eq!(pid_of(&lease).await, pid_of(&same).await);
            let count = lives("s").len();
            assert_eq!(count, 2);
            kill(&lease).await.expect_err("dead");
            let refused = in_time(lease.call::<Value>("who", &json!({}))).await;
            let Err(CallError::Refused(why)) = &refused else { panic!("{refused:?}") };
            assert!(why.starts_with("`badchild` was killed by signal 9"), "{why}");
            assert!(matches!(in_time(same.ready()).await, Err(CallError::Refused(_))));
            assert_eq!(lives("s").len(), count, "it came back");
            // A new lease starts it again.
            let anew = supervisor.lease(&spec).expect("a lease");
            pid_of(&anew).await;
            assert_eq!(lives("s").len(), count + 1);
            expect_all_gone(&supervisor).await;
        });
    });
}

#[test]
fn an_idle_child_sleeps_and_the_next_call_wakes_it_but_one_with_work_does_not() {
    apart(|| {
        play(async {
            let supervisor = Supervisor::new();
            let lease = supervisor.lease(&build(mcp("r", &[]).hibernate(ms(700)))).expect("a lease");
            let slow: Value =
                in_time(lease.call("slow", &json!({ "ms": 1500 }))).await.expect("it was not put to sleep");
            assert_eq!(slow["pid"], lives("r")[0].pid);
            comes("it sleeps", || alive("r").is_empty()).await;
            comes("that is told", || lease.generation().is_none()).await;
            assert_eq!(lives("r").len(), 1, "no call needs it");
            // All in one moment: it may fall asleep again before a task of its own has begun.
            let who = || pid_of(&lease);
            let pids = tokio::join!(who(), who(), who(), who(), who(), who(), who(), who());
            let mut pids = <[i64; 8]>::from(pids).to_vec();
            pids.dedup();
            assert_eq!(pids.len(), 1);
            assert_eq!(lives("r").len(), 2);
            comes("it sleeps again", || alive("r").is_empty()).await;
            assert_eq!(in_time(lease.ready()).await, Ok(Generation(3)), "ready() wakes it");
            drop(lease);
            expect_gone("r");
        });
    });
}

/// The next child is not there before nothing is left of the last one, and until then it has not been idle.
#[test]
fn a_child_that_waits_for_the_end_of_another_does_not_fall_asleep_meanwhile() {
    apart(|| {
        play(async {
            let supervisor = Supervisor::new();
            let slow_to_end =
                |spec: LeaseSpecBuilder| build(spec.hibernate(ms(20)).eof_grace(ms(200)).term_grace(ms(200)));
            let called = slow_to_end(server("called", &["--ignore-eof"]));
            let hoped_for = slow_to_end(mcp("hoped", &["--ignore-eof"]));
            for spec in [&called, &hoped_for] {
                pid_of(&supervisor.lease(spec).expect("a lease")).await;
            }
            tokio::join!(
                supervisor.shutdown(),
                async { pid_of(&supervisor.lease(&called).expect("a lease")).await },
                async { in_time(supervisor.lease(&hoped_for).expect("a lease").ready()).await.expect("ready") },
            );
            expect_all_gone(&supervisor).await;
        });
    });
}

/// Calls of several, each just when the child may fall asleep: none is lost, and none gets an error.
#[test]
fn calls_that_cross_the_falling_asleep_are_answered() {
    apart(|| {
        play(async {
            let (supervisor, spec) = (Supervisor::new(), build(server("r", &[]).hibernate(ms(20))));
            let callers = (0..3).map(|seed| {
                let lease = supervisor.lease(&spec).expect("a lease");
                tokio::spawn(async move {
                    let (mut random, begun, mut count) = (Random::new(seed), Instant::now(), 0u64);
                    // How often it finds the time to sleep, and to answer, depends on how busy the machine is.
                    while begun.elapsed() < ms(3000) || (lives("r").len() < 6 && begun.elapsed() < PATIENCE) {
                        tokio::time::sleep(Duration::from_micros(18_000 + random.below(8_000))).await;
                        let answer = in_time(lease.call::<Value>("echo", &json!({ "n": count }))).await;
                        assert_eq!(answer.expect("an answer")["n"], count);
                        count += 1;
                    }
                })
            });
            for caller in callers.collect::<Vec<_>>() {
                caller.await.expect("no panic");
            }
            assert!(lives("r").len() > 5, "it did not sleep");
            expect_all_gone(&supervisor).await;
        });
    });
}

#[test]
fn an_old_child_is_replaced_at_a_quiet_moment() {
    apart(|| {
        play(async {
            let supervisor = Supervisor::new();
            let lease = supervisor.lease(&build(mcp("r", &[]).max_age(ms(200)))).expect("a lease");
            let slow: Value =
                in_time(lease.call("slow", &json!({ "ms": 600 }))).await.expect("not cut off by its age");
            // Not necessarily the first: that one may have grown old before it was called.
            let lived = lives("r");
            let old = lived.iter().position(|life| !life.told("slow").is_empty()).expect("it was told");
            assert_eq!(slow["pid"], lived[old].pid);
            let old = Generation(old as u64 + 1);
            comes("another one is ready", || lease.generation() > Some(old)).await;
            drop(lease);
            expect_gone("r");
        });
    });
}

#[test]
fn a_restart_waits_for_what_is_in_flight_and_for_the_end_of_the_old_tree() {
    apart(|| {
        play(async {
            let supervisor = Supervisor::new();
            let claim = Claim::new("c");
            let lease = supervisor.lease(&build(claim.server(Some("term-ignoring")))).expect("a lease");
            let first = pid_of(&lease).await;
            let slow = called(&lease, "slow", json!({ "ms": 200 })).await;
            lease.restart();
            assert_eq!(in_time(slow).await.expect("no panic").expect("an answer")["pid"], first);
            comes("another one is there", || claim.holders() == 2).await;
            assert_ne!(pid_of(&lease).await, first);
            claim.expect_never_two();
            drop(lease);
            comes("nothing is left", || claim.is_free()).await;
            expect_all_gone(&supervisor).await;
        });
    });
}

#[test]
fn a_child_lingers_for_the_next_lease_and_is_never_revived_while_it_does() {
    apart(|| {
        play(async {
            let supervisor = Supervisor::new();
            let spec = build(server("r", &[]).linger(Duration::from_secs(60)));
            let lease = supervisor.lease(&spec).expect("a lease");
            let pid = pid_of(&lease).await;
            drop(lease);
            let lease = supervisor.lease(&spec).expect("a lease");
            assert_eq!(pid_of(&lease).await, pid);
            drop(lease);
            // It dies while no lease holds it.
            let all = alive("r");
            assert_eq!(all.len(), 1, "it lingers");
            all[0].send(Signal::KILL);
            comes("it is forgotten", || supervisor.is_empty()).await;
            assert_eq!(lives("r").len(), 1, "revived without a lease");

            // A shutdown does not linger.
            let lease = supervisor.lease(&spec).expect("a lease");
            pid_of(&lease).await;
            drop(lease);
            let begun = Instant::now();
            expect_all_gone(&supervisor).await;
            assert!(begun.elapsed() < Duration::from_secs(20), "{:?}", begun.elapsed());
            assert_eq!(lives("r").len(), 2);

            let short = build(server("s", &[]).linger(ms(200)));
            let lease = supervisor.lease(&short).expect("a lease");
            pid_of(&lease).await;
            let begun = Instant::now();
            drop(lease);
            comes("it is gone", || alive("s").is_empty()).await;
            assert!(begun.elapsed() >= ms(200), "it did not linger");
        });
    });
}

/// A caller that loses patience sooner than the child starts, and tries again: the start goes on, with a handshake and without.
#[test]
fn a_child_that_is_starting_is_kept_for_the_next_lease_of_an_impatient_caller() {
    apart(|| {
        play(async {
            let supervisor = Supervisor::new();
            for (record, spec) in [("p", server as fn(&str, &[&str]) -> LeaseSpecBuilder), ("m", mcp)] {
                let spec = spec(record, &["--start-delay", "3000"]).linger(ms(200)).hibernate(ms(300));
                let spec = build(spec.eof_grace(ms(100)).term_grace(ms(100)));
                let lease = supervisor.lease(&spec).expect("a lease");
                let answer = lease.call_within::<Value>("who", &json!({}), Some(ms(500))).await;
                assert!(matches!(answer, Err(CallError::TimedOut(_))), "{record}: {answer:?}");
                drop(lease);
                // Longer than the linger.
                tokio::time::sleep(ms(400)).await;
                let lease = supervisor.lease(&spec).expect("a lease");
                pid_of(&lease).await;
                drop(lease);
                assert_eq!(lives(record).len(), 1, "{record}");
                comes("it is gone", || alive(record).is_empty()).await;
            }
        });
    });
}

#[test]
fn a_shutdown_ends_all_children_also_leased_ones_and_a_new_lease_waits_for_the_end_of_the_old_child() {
    apart(|| {
        play(async {
            let supervisor = Supervisor::new();
            let claim = Claim::new("c");
            // It does not want to end, so that its end takes time.
            let spec = build(claim.server(Some("term-ignoring")));
            let lease = supervisor.lease(&spec).expect("a lease");
            let others: Vec<_> =
                (0..3).map(|n| supervisor.lease(&build(server(&format!("r{n}"), &[]))).expect("a lease")).collect();
            for other in &others {
                pid_of(other).await;
            }
            pid_of(&lease).await;
            let hanging = called(&lease, "hang", json!({})).await;
            pid_of(&lease).await;
            let mut subscription = lease.subscribe();
            let down = {
                let supervisor = supervisor.clone();
                tokio::spawn(async move { supervisor.shutdown().await })
            };
            comes("it is stopping", || lease.generation().is_none()).await;
            let anew = supervisor.lease(&spec).expect("a lease");
            let (pid, ()) = tokio::join!(pid_of(&anew), async { in_time(down).await.expect("no panic") });
            claim.expect_never_two();
            assert_eq!(claim.holders(), 2);
            assert_ne!(pid, 0);
            assert!(matches!(in_time(hanging).await.expect("no panic"), Err(CallError::CutOff(_))));
            for lease in others.iter().chain([&lease]) {
                let refused = in_time(lease.call::<Value>("who", &json!({}))).await;
                assert!(matches!(refused, Err(CallError::Refused(_))), "{refused:?}");
                assert!(matches!(in_time(lease.ready()).await, Err(CallError::Refused(_))));
                assert!(matches!(lease.notify("x", &json!({})), Err(CallError::Refused(_))));
            }
            assert_eq!(in_time(subscription.next()).await, None);
            expect_all_gone(&supervisor).await;
            assert_eq!(claim.holders(), 2, "stopping beats starting");
        });
    });
}

#[test]
fn a_tree_that_outlives_its_root_is_gone_before_the_next_child_starts() {
    apart(|| {
        play(async {
            let supervisor = Supervisor::new();
            let claim = Claim::new("c");
            let lease = supervisor.lease(&build(claim.server(Some("daemon")))).expect("a lease");
            for n in 1..=5 {
                pid_of(&lease).await;
                kill(&lease).await.expect_err("dead");
                if n % 4 == 0 {
                    lease.restart();
                }
            }
            drop(lease);
            comes("nothing is left", || supervisor.is_empty()).await;
            assert!(claim.is_free());
            claim.expect_never_two();
            assert!(claim.holders() >= 3);
            let holders = claim.holders();
            expect_all_gone(&supervisor).await;
            assert_eq!(claim.holders(), holders, "revived without a lease");
        });
    });
}

#[test]
fn a_child_whose_input_another_process_holds_open_ends_all_the_same() {
    apart(|| {
        play(async {
            let supervisor = Supervisor::new();
            let lease = supervisor.lease(&build(server("r", &[]))).expect("a lease");
            pid_of(&lease).await;
            // As a process has it that another thread of the host has forked.
            let ours = badchild::open_files().expect("read");
            let pipes = ours.iter().filter(|(_, target)| target.starts_with("pipe:"));
            let held: Vec<_> = pipes
                .filter_map(|(fd, _)| std::fs::File::options().write(true).open(format!("/proc/self/fd/{fd}")).ok())
                .collect();
            assert!(!held.is_empty(), "nothing is held open: {ours:?}");
            drop(lease);
            wait_until("it ends", || alive("r").is_empty());
            drop(held);
        });
    });
}

#[test]
fn a_child_that_the_registry_has_stopped_is_not_started_again_without_a_new_lease() {
    apart(|| {
        play(async {
            let supervisor = Supervisor::new();
            let spec = build(server("r", &[]).session("chat"));
            let lease = supervisor.lease(&spec).expect("a lease");
            pid_of(&lease).await;
            let close = tokio::task::spawn_blocking(|| nostray::Registry::new().close_session("chat"));
            assert!(in_time(close).await.expect("no panic").is_empty());
            // If the supervisor does not know the end yet, the call is cut off.
            let failed = in_time(lease.call::<Value>("who", &json!({}))).await;
            assert!(matches!(failed, Err(CallError::Refused(_) | CallError::CutOff(_))), "{failed:?}");
            let refused = in_time(lease.call::<Value>("who", &json!({}))).await;
            assert!(matches!(refused, Err(CallError::Refused(_))), "{refused:?}");
            assert!(matches!(in_time(lease.ready()).await, Err(CallError::Refused(_))));
            assert_eq!(lives("r").len(), 1, "stopping beats starting");
            let anew = supervisor.lease(&spec).expect("a lease");
            pid_of(&anew).await;
            assert_eq!(lives("r").len(), 2);
            expect_all_gone(&supervisor).await;
        });
    });
}
