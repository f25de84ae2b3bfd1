//! What becomes of calls whose child dies.

use crate::apart::{apart, expect_settled, file, keepers};
use crate::children::{
    alive, build, called, expect_all_gone, expect_told, in_time, lives, mcp, ms, pid_of, play, server,
};
use badchild::{Found, pid, wait_until};
use nostray::{CallError, Supervisor};
use nostray_sys::Signal;
use nostray_sys::proc::Stat;
use serde_json::{Value, json};

use super::lives::{comes, kill};

#[test]
fn calls_in_flight_are_cut_off_with_the_cause_and_never_made_again() {
    apart(|| {
        play(async {
            let supervisor = Supervisor::new();
            let lease = supervisor.lease(&build(server("r", &[]))).expect("a lease");
            let hanging: Vec<_> = (0..10)
                .map(|n| {
                    let lease = lease.clone();
                    tokio::spawn(async move { lease.call::<Value>("hang", &json!({ "n": n })).await })
                })
                .collect();
            expect_told("r", "hang", 10);
            let cut_off = kill(&lease).await;
            let Err(CallError::CutOff(why)) = &cut_off else { panic!("{cut_off:?}") };
            assert_eq!(why, "`badchild` was killed by signal 9 during this call (last words: ouch)");
            let text = cut_off.expect_err("cut off").to_string();
            assert_eq!(
                text,
                "`badchild` was killed by signal 9 during this call (last words: ouch); the call was not retried"
            );
            for call in hanging {
                let cut_off = in_time(call).await.expect("no panic");
                assert!(matches!(cut_off, Err(CallError::CutOff(_))), "{cut_off:?}");
            }
            pid_of(&lease).await;
            let lived = lives("r");
            assert_eq!(lived.len(), 2);
            assert_eq!((lived[1].told("hang").len(), lived[1].told("die").len()), (0, 0), "made again");
            expect_all_gone(&supervisor).await;
        });
    });
}

/// What is left in its pipe was not made, and is made with the next one; what was cancelled is not.
#[test]
fn calls_that_the_dead_child_never_read_are_made_with_the_next_one_in_order_and_once() {
    apart(|| {
        play(async {
            let supervisor = Supervisor::new();
            let lease = supervisor.lease(&build(mcp("r", &[]))).expect("a lease");
            let read = called(&lease, "hang", json!({ "n": 0 })).await;
            let stopped = json!({ "file": file("never").display().to_string() });
            in_time(lease.call::<Value>("stop-reading", &stopped)).await.expect("it says so");
            let child = alive("r").pop().expect("is there");
            let mut calls = Vec::new();
            for n in 1..=5 {
                calls.push(called(&lease, "echo", json!({ "n": n })).await);
            }
            lease.notify("told", &json!({ "n": 6 })).expect("there is room");
            let cancelled = called(&lease, "echo", json!({ "n": 7 })).await;
            cancelled.abort();
            let long = "x".repeat(300_000);
            calls.push(called(&lease, "echo", json!({ "n": 8, "long": &long })).await);
            comes("the pipe is full", || child.unread_input() > 60_000).await;
            child.send(Signal::KILL);
            let cut_off = in_time(read).await.expect("no panic");
            assert!(matches!(cut_off, Err(CallError::CutOff(_))), "{cut_off:?}");
            for (at, call) in calls.into_iter().enumerate() {
                let answer = in_time(call).await.expect("no panic").expect("an answer");
                assert_eq!(answer["n"], if at == 5 { 8 } else { at + 1 });
            }
            let lived = lives("r");
            let told: Vec<_> = lived[1].heard.iter().filter_map(|line| line["method"].as_str()).collect();
            let all = ["initialize", "notifications/initialized", "echo", "echo", "echo", "echo", "echo", "told"];
            assert_eq!(told[..8], all, "{told:?}");
            assert!(!lived[1].heard.iter().any(|line| line["params"]["n"] == 7), "{told:?}");
            expect_all_gone(&supervisor).await;
        });
    });
}

/// What the guard knows of a child's end is waited for, also on a machine where nostray's own processes come late.
#[test]
fn the_cause_is_told_also_when_the_keepers_come_late() {
    apart(|| {
        play(async {
            let supervisor = Supervisor::new();
            let lease = supervisor.lease(&build(server("r", &[]))).expect("a lease");
            let child = Found::by_pid(pid(i32::try_from(pid_of(&lease).await).expect("small"))).expect("is there");
            expect_settled(); // so that its output ends with it
            let keepers = keepers();
            // From the outside: each would continue the one inside of it.
            for name in ["nostray-front", "nostray-spare", "nostray-guard"] {
                let keeper = keepers.iter().find(|found| found.stat.name == name).expect("is there");
                keeper.send(Signal::STOP);
                comes("it is stopped", || Stat::of(keeper.stat.pid).is_some_and(|stat| stat.is_stopped())).await;
            }
            let call = called(&lease, "die", json!({ "signal": 9, "text": "ouch" })).await;
            comes("it is dead", || !child.is_alive()).await;
            // Its output has ended long ago. That its cause is not told meanwhile can only be seen by waiting.
            tokio::time::sleep(ms(500)).await;
            keepers.iter().for_each(|keeper| keeper.send(Signal::CONT));
            let cut_off = in_time(call).await.expect("no panic");
            let Err(CallError::CutOff(why)) = &cut_off else { panic!("{cut_off:?}") };
            assert!(why.contains("killed by signal 9") && why.contains("ouch"), "{why}");
            expect_all_gone(&supervisor).await;
        });
    });
}

/// All that there is to be heard of a child is heard at once by a host that comes late.
#[test]
fn the_last_words_are_told_also_when_the_host_comes_late() {
    apart(|| {
        // With one thread: a task that blocks it holds up all.
        crate::apart::any::runtime().block_on(async {
            let supervisor = Supervisor::new();
            let spec = server("r", &[]).max_failures("100/1m".parse().expect("right"));
            let lease = supervisor.lease(&build(spec)).expect("a lease");
            for n in 1..=20 {
                pid_of(&lease).await;
                let call = called(&lease, "die", json!({ "code": 3, "text": format!("ouch {n}") })).await;
                let count = || lives("r").iter().map(|life| life.told("die").len()).sum::<usize>();
                in_time(async {
                    while count() < n {
                        tokio::task::yield_now().await; // no longer: it speaks and is gone soon after
                    }
                })
                .await;
                wait_until("nothing is left", || badchild::company().is_empty());
                let cut_off = in_time(call).await.expect("no panic");
                let Err(CallError::CutOff(why)) = &cut_off else { panic!("{cut_off:?}") };
                assert!(why.contains("exited with code 3") && why.contains(&format!("ouch {n}")), "{why}");
            }
            expect_all_gone(&supervisor).await;
        });
    });
}

#[test]
fn what_the_child_said_before_its_end_counts() {
    apart(|| {
        play(async {
            let supervisor = Supervisor::new();
            // It may fail so often.
            let spec = server("r", &[]).max_failures("100/1m".parse().expect("right"));
            let lease = supervisor.lease(&build(spec)).expect("a lease");
            for _ in 0..10 {
                // Answers itself, without the end of a line, and is gone.
                let text = r#"{"jsonrpc":"2.0","id":$id,"result":"last words"}"#;
                let (silently, at_once) = (json!({ "text": text, "silent": true }), json!({ "code": 3 }));
                let say = lease.call::<String>("print", &silently);
                let die = lease.call::<Value>("die", &at_once);
                let (said, died) = tokio::join!(in_time(say), in_time(die));
                assert_eq!(said.as_deref(), Ok("last words"));
                let Err(CallError::CutOff(why)) = died else { panic!("{died:?}") };
                assert!(why.contains("exited with code 3"), "{why}");
            }
            expect_all_gone(&supervisor).await;
        });
    });
}
