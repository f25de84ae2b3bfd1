//! One child for many owners, and calls to it.

use std::sync::Arc;
use std::time::{Duration, Instant};

use badchild::{PATIENCE, wait_until};
use nostray::{CallError, Error, Stdio, Supervisor};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use serde_json::{Value, json};
use tokio::sync::Notify;

use crate::apart::{apart, file};
use crate::children::{
    alive, build, expect_all_gone, expect_gone, expect_told, in_time, lives, mcp, ms, pid_of, play, server,
};

#[test]
fn many_leases_and_clones_are_one_child_with_one_handshake_until_the_last_of_them_is_dropped() {
    apart(|| {
        play(async {
            let supervisor = Supervisor::new();
            let spec = build(mcp("r", &[]));
            let mut leases: Vec<_> = (0..20).map(|_| supervisor.lease(&spec).expect("a lease")).collect();
            leases.extend(leases.clone());
            // Another value that says the same, and what the child would not notice.
            leases.push(supervisor.lease(&build(mcp("r", &[]).session("s").label("a", "b"))).expect("a lease"));
            let mut pids = Vec::new();
            for lease in &leases {
                pids.push(pid_of(lease).await);
            }
            pids.dedup();
            assert_eq!(pids.len(), 1, "not one child: {pids:?}");
            let lived = lives("r");
            assert_eq!(lived.len(), 1, "not one life");
            assert_eq!(lived[0].told("initialize").len(), 1, "initialize twice");
            assert_eq!(lived[0].told("notifications/initialized").len(), 1);
            assert_eq!(supervisor.len(), 1);

            while let Some(lease) = leases.pop() {
                assert_eq!(alive("r").len(), 1, "gone too early");
                drop(lease);
            }
            expect_gone("r");
            wait_until("it is forgotten", || supervisor.is_empty());
            assert_eq!(lives("r").len(), 1, "started again");
        });
    });
}

#[test]
fn two_supervisors_share_nothing_and_all_clones_of_one_share_all() {
    apart(|| {
        play(async {
            let (one, two) = (Supervisor::new(), Supervisor::new());
            let spec = build(server("r", &[]));
            let first = pid_of(&one.lease(&spec).expect("a lease")).await;
            let (of_one, of_clone, of_two) = (one.lease(&spec), one.clone().lease(&spec), two.lease(&spec));
            let pids = [
                pid_of(&of_one.expect("a lease")).await,
                pid_of(&of_clone.expect("a lease")).await,
                pid_of(&of_two.expect("a lease")).await,
            ];
            assert_eq!(pids[0], pids[1]);
            assert_ne!(pids[0], pids[2]);
            assert_ne!(first, 0);
            in_time(one.shutdown()).await;
            expect_all_gone(&two).await;
        });
    });
}

#[derive(Debug, Serialize, Deserialize, PartialEq)]
struct Point {
    x: i64,
    name: Option<String>,
    huge: u128,
}

#[test]
fn calls_and_notifications_are_typed_and_say_exactly_what_they_were_given() {
    apart(|| {
        play(async {
            let supervisor = Supervisor::new();
            let lease = supervisor.lease(&build(server("r", &[]))).expect("a lease");
            let point =
                Point { x: -7, name: Some("zwei\nZeilen \u{2028} \"\\".to_owned()), huge: u128::from(u64::MAX) + 1 };
            let back: Point = in_time(lease.call("echo", &point)).await.expect("an answer");
            assert_eq!(back, point, "what a 64-bit number cannot hold, included");

            let order = r#"{"z":1,"a":1e400,"m":[0.10]}"#;
            let raw = RawValue::from_string(format!(" {order}\n")).expect("JSON");
            let raw: Box<RawValue> = in_time(lease.call("echo", &raw)).await.expect("an answer");
            assert_eq!(raw.get(), order, "neither order nor digits are changed");
            let spread = RawValue::from_string("{\n\"a\":\r\n[1,\n2]}".to_owned()).expect("JSON");
            let spread: Value = in_time(lease.call("echo", &spread)).await.expect("lines in it are no lines");
            assert_eq!(spread, json!({ "a": [1, 2] }));

            let wrong = in_time(lease.call::<Point>("echo", &json!({ "x": "text" }))).await;
            assert!(matches!(wrong, Err(CallError::Json(_))), "{wrong:?}");
            let answered = in_time(lease.call::<Value>("no/such", &json!({}))).await;
            assert_eq!(
                answered,
                Err(CallError::Answered { code: -32601, message: "no method 'no/such'".to_owned(), data: None })
            );
            let nothing: Option<Value> = in_time(lease.call("who", &())).await.expect("an answer");
            assert!(nothing.is_some());
            // Without parameters there are none: `null` is nothing that JSON-RPC allows there.
            assert!(lives("r")[0].told("who")[0].get("params").is_none());

            lease.notify("tell", &json!({ "n": 1 })).expect("told");
            expect_told("r", "tell", 1);
            let told = lives("r")[0].told("tell")[0].clone();
            assert_eq!(told, json!({ "jsonrpc": "2.0", "method": "tell", "params": { "n": 1 } }));
            expect_all_gone(&supervisor).await;
        });
    });
}

#[test]
fn a_subscription_hears_what_the_child_says_from_then_on_in_order_until_the_end() {
    apart(|| {
        play(async {
            let supervisor = Supervisor::new();
            let lease = supervisor.lease(&build(server("r", &[]))).expect("a lease");
            let before: Value =
                in_time(lease.call("notify", &json!({ "method": "early", "params": {} }))).await.expect("done");
            assert_eq!(before, json!({}));
            let (mut one, mut two) = (lease.subscribe(), lease.clone().subscribe());
            let _: Value = in_time(lease.call("flood", &json!({ "count": 500, "bytes": 10 }))).await.expect("done");
            for subscription in [&mut one, &mut two] {
                for n in 0..500 {
                    let said = in_time(subscription.next()).await.expect("there is more");
                    assert_eq!((said.method.as_str(), &said.params["n"]), ("flood", &json!(n)));
                }
            }
            // It survives the child, and ends with the last hold on it.
            let _ = in_time(lease.call::<Value>("die", &json!({ "signal": 9 }))).await.expect_err("dead");
            let _: Value = in_time(lease.call("notify", &json!({ "method": "again" }))).await.expect("done");
            assert_eq!(in_time(one.next()).await.expect("there is more").method, "again");
            drop(lease);
            expect_gone("r");
            assert_eq!(in_time(two.next()).await.expect("there is more").method, "again");
            assert_eq!(in_time(two.next()).await, None, "it is over");
        });
    });
}

#[test]
fn a_subscriber_that_does_not_listen_costs_a_bounded_amount_of_memory() {
    apart(|| {
        play(async {
            let supervisor = Supervisor::new();
            let lease = supervisor.lease(&build(server("r", &[]))).expect("a lease");
            let mut deaf = lease.subscribe();
            let before = resident();
            // So much takes a program that is not optimised a while.
            let much = json!({ "count": 120, "bytes": 1 << 20 });
            let flood = lease.call::<Value>("flood", &much);
            tokio::time::timeout(2 * PATIENCE, flood).await.expect("in time").expect("done");
            let more = resident().saturating_sub(before);
            assert!(more < 80 << 20, "{more} bytes for 120 MiB that the subscriber does not read");
            // It hears the newest.
            let first = in_time(deaf.next()).await.expect("there is more").params["n"].as_u64().expect("a number");
            assert!(first > 80, "{first}");
            let mut last = first;
            while last < 119 {
                last = in_time(deaf.next()).await.expect("there is more").params["n"].as_u64().expect("a number");
            }
            expect_all_gone(&supervisor).await;
        });
    });
}

fn resident() -> usize {
    let status = std::fs::read_to_string("/proc/self/status").expect("read");
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).expect("a line");
    line.trim().trim_end_matches(" kB").trim().parse::<usize>().expect("a number") << 10
}

#[test]
fn a_call_that_takes_too_long_fails_and_the_child_is_told_with_its_id() {
    apart(|| {
        play(async {
            let supervisor = Supervisor::new();
            let lease = supervisor.lease(&build(server("r", &[]).call_timeout(ms(500)))).expect("a lease");
            let _: Value = in_time(lease.call_within("who", &json!({}), None)).await.expect("an answer");
            let late = in_time(lease.call::<Value>("hang", &json!({}))).await;
            assert_eq!(late, Err(CallError::TimedOut(ms(500))));
            expect_told("r", "notifications/cancelled", 1);
            let life = &lives("r")[0];
            assert_eq!(life.told("notifications/cancelled")[0]["params"]["requestId"], life.told("hang")[0]["id"]);
            // The call's own deadline counts, and a late answer goes to no call. The answer comes when the test says
            // so, so it does not depend on how late the test runs.
            let now = Arc::new(Notify::new());
            let then = now.clone();
            lease.handle("later", move |_| {
                let then = then.clone();
                async move {
                    then.notified().await;
                    Ok(json!("now"))
                }
            });
            let ask = json!({ "id": "q", "method": "later" });
            let late = in_time(lease.call_within::<Value>("ask", &ask, Some(ms(20)))).await;
            assert_eq!(late, Err(CallError::TimedOut(ms(20))));
            now.notify_one();
            let is_answer = |message: &Value| message["id"] == "q" && message["result"] == "now";
            wait_until("it has heard that, and answers", || lives("r")[0].heard.iter().any(is_answer));
            let slow: Value =
                in_time(lease.call_within("slow", &json!({ "ms": 300 }), Some(Duration::from_secs(20))))
                    .await
                    .expect("in time");
            assert!(slow["pid"].is_number());
            expect_all_gone(&supervisor).await;
        });
    });
}

#[test]
fn dropping_the_future_of_a_call_cancels_it_and_a_call_that_was_not_sent_is_never_sent() {
    apart(|| {
        play(async {
            let supervisor = Supervisor::new();
            let lease = supervisor.lease(&build(server("r", &[]))).expect("a lease");
            pid_of(&lease).await;
            let calls: Vec<_> = (0..5)
                .map(|n| {
                    let lease = lease.clone();
                    tokio::spawn(async move { lease.call::<Value>("hang", &json!({ "n": n })).await })
                })
                .collect();
            expect_told("r", "hang", 5);
            calls[3].abort();
            expect_told("r", "notifications/cancelled", 1);
            let life = &lives("r")[0];
            let third = life.told("hang").into_iter().find(|call| call["params"]["n"] == 3).expect("told");
            assert_eq!(life.told("notifications/cancelled")[0]["params"]["requestId"], third["id"]);
            assert!(!calls[0].is_finished(), "the others go on");

            // A call that waits for a child which is not there yet has no child to be cancelled at.
            let spec = build(server("s", &["--start-delay", "300"]));
            let lease = supervisor.lease(&spec).expect("a lease");
            tokio::time::timeout(ms(1), lease.call::<Value>("hang", &json!({}))).await.ok();
            pid_of(&lease).await;
            assert!(lives("s")[0].told("hang").len() <= 1);
            assert_eq!(lives("s")[0].told("hang").len(), lives("s")[0].told("notifications/cancelled").len());
            expect_all_gone(&supervisor).await;
        });
    });
}

#[test]
fn calls_wait_while_the_child_starts_and_come_in_their_order_after_the_handshake() {
    apart(|| {
        play(async {
            let supervisor = Supervisor::new();
            let begun = Instant::now();
            let lease = supervisor.lease(&build(mcp("r", &["--start-delay", "300"]))).expect("a lease");
            lease.notify("first", &json!({})).expect("told");
            let echo = |n: u64| {
                let lease = lease.clone();
                async move { in_time(lease.call::<Value>("echo", &json!(n))).await.expect("an answer") }
            };
            let (a, b, c) = tokio::join!(echo(1), echo(2), echo(3));
            assert_eq!((a, b, c), (json!(1), json!(2), json!(3)));
            assert!(begun.elapsed() >= ms(300));
            let methods: Vec<_> = lives("r")[0].heard.iter().map(|message| message["method"].clone()).collect();
            let order = ["initialize", "notifications/initialized", "first", "echo", "echo", "echo"];
            assert_eq!(methods, order.map(Value::from));
            assert_eq!(lease.generation(), in_time(lease.ready()).await.ok());
            expect_all_gone(&supervisor).await;
        });
    });
}

#[test]
fn a_key_that_is_in_use_for_another_command_is_refused_and_names_both() {
    apart(|| {
        play(async {
            let supervisor = Supervisor::new();
            let lease = supervisor.lease(&build(server("r", &[]).key("memory"))).expect("a lease");
            let same =
                supervisor.lease(&build(server("r", &[]).key("memory").env("A", "1"))).expect("the same command");
            assert_eq!(pid_of(&lease).await, pid_of(&same).await);
            let error = supervisor.lease(&build(server("s", &[]).key("memory"))).expect_err("another command");
            assert!(matches!(error, Error::Spec { what: "key", .. }), "{error}");
            drop((lease, same));
            expect_gone("r");
            wait_until("it is forgotten", || supervisor.is_empty());
            let other = supervisor.lease(&build(server("s", &[]).key("memory"))).expect("free again");
            pid_of(&other).await;
            expect_all_gone(&supervisor).await;
        });
    });
}

#[test]
fn the_stderr_of_a_child_is_its_own_affair_and_a_lease_needs_a_runtime() {
    apart(|| {
        play(async {
            let supervisor = Supervisor::new();
            let quiet =
                supervisor.lease(&build(server("r", &[]).stderr(Stdio::Null))).expect("errors are its own affair");
            pid_of(&quiet).await;
            expect_all_gone(&supervisor).await;
        });
        assert!(matches!(Supervisor::new().lease(&build(server("r", &[]))), Err(Error::NoRuntime)));
    });
}

#[test]
fn a_program_that_is_not_there_is_told_at_once_and_tried_again_by_the_next_lease() {
    apart(|| {
        play(async {
            let supervisor = Supervisor::new();
            let path = file("later");
            let spec = build(nostray::LeaseSpec::builder(&path).args(["server", "--plain"]));
            let lease = supervisor.lease(&spec).expect("a lease");
            let refused = in_time(lease.call::<Value>("who", &json!({}))).await;
            let Err(CallError::Refused(why)) = &refused else { panic!("{refused:?}") };
            assert!(why.contains("later") || why.contains("No such file"), "{why}");
            assert!(
                matches!(in_time(lease.ready()).await, Err(CallError::Refused(_))),
                "ready() does not wait for ever"
            );
            assert!(matches!(lease.notify("x", &json!({})), Err(CallError::Refused(_))));
            let linked = std::os::unix::fs::symlink(crate::apart::programs().join("badchild"), &path);
            linked.expect("make a link");
            let again = supervisor.lease(&spec).expect("a lease");
            pid_of(&again).await;
            drop(lease);
            pid_of(&again).await;
            expect_all_gone(&supervisor).await;
        });
    });
}
