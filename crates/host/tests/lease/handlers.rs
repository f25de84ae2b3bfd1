//! What the child asks, who answers, and what a host tells its plugins.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use badchild::wait_until;
use nostray::{HandlerError, Hook, Lease, Supervisor};
use serde_json::{Value, json};

use crate::apart::apart;
use crate::children::{alive, build, expect_all_gone, expect_gone, in_time, lives, pid_of, play, server};

const METHOD: &str = "host.llm.complete";

/// Has the child ask something, and returns the whole answer that it got, as it has it on record.
async fn ask(lease: &Lease, record: &str, id: Value, method: &str) -> Value {
    let arguments = json!({ "id": id, "method": method, "params": { "n": 7 } });
    let _: Value = in_time(lease.call("ask", &arguments)).await.expect("it was answered");
    answer(record, &id).expect("on record")
}

/// What the child heard as the answer to this id.
fn answer(record: &str, id: &Value) -> Option<Value> {
    let all = lives(record);
    let mut heard = all.iter().flat_map(|life| &life.heard);
    heard.find(|message| message.get("method").is_none() && message["id"] == *id).cloned()
}

/// Answers with a word and what it was asked.
fn answer_with(lease: &Lease, word: &'static str) {
    lease.handle(METHOD, move |params| async move { Ok(json!({ "by": word, "asked": params })) });
}

#[test]
fn the_newest_lease_that_is_left_answers_and_if_there_is_none_the_child_is_told_so() {
    apart(|| {
        play(async {
            let supervisor = Supervisor::new();
            let spec = build(server("r", &[]));
            let take = || supervisor.lease(&spec).expect("a lease");
            let caller = take();
            let unhandled = ask(&caller, "r", json!(1), METHOD).await;
            assert_eq!(unhandled["error"]["code"], -32601, "{unhandled}");
            let (old, middle, new) = (take(), take(), take());
            answer_with(&new, "new");
            answer_with(&old, "old");
            answer_with(&middle, "middle");
            // A lease that changes its handler does not become newer.
            answer_with(&old, "old again");
            let text = ask(&caller, "r", json!("text"), METHOD).await;
            assert_eq!(text["result"], json!({ "by": "new", "asked": { "n": 7 } }));
            assert_eq!(ask(&caller, "r", json!(2.5), METHOD).await["result"]["by"], "new");
            let clone = new.clone();
            drop(new);
            assert_eq!(ask(&caller, "r", json!(3), METHOD).await["result"]["by"], "new", "a clone is the lease");
            drop(clone);
            assert_eq!(ask(&caller, "r", json!(4), METHOD).await["result"]["by"], "middle");
            drop(middle);
            assert_eq!(ask(&caller, "r", json!(5), METHOD).await["result"]["by"], "old again");
            drop(old);
            assert_eq!(ask(&caller, "r", json!(6), METHOD).await["error"]["code"], -32601);
            // What every client answers.
            assert_eq!(ask(&caller, "r", json!(7), "ping").await["result"], json!({}));
            expect_all_gone(&supervisor).await;
        });
    });
}

/// Counts itself as long as it is there.
struct Counted(Arc<AtomicUsize>);

impl Counted {
    fn new(count: &Arc<AtomicUsize>) -> Self {
        count.fetch_add(1, Ordering::SeqCst);
        Self(count.clone())
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

#[test]
fn a_request_goes_on_to_the_next_lease_if_its_owner_is_dropped_in_the_middle_of_it() {
    apart(|| {
        play(async {
            let supervisor = Supervisor::new();
            let spec = build(server("r", &[]));
            let take = || supervisor.lease(&spec).expect("a lease");
            let (caller, old, new) = (take(), take(), take());
            answer_with(&old, "old");
            let (handling, requests) = (Arc::new(AtomicUsize::new(0)), 10);
            let count = handling.clone();
            new.handle(METHOD, move |_| {
                let counted = Counted::new(&count);
                async move {
                    std::future::pending::<()>().await;
                    drop(counted);
                    Ok(json!("never"))
                }
            });
            let asked: Vec<_> = (0..requests)
                .map(|n| {
                    let caller = caller.clone();
                    tokio::spawn(async move { ask(&caller, "r", json!(n), METHOD).await })
                })
                .collect();
            wait_until("it handles them all", || handling.load(Ordering::SeqCst) == requests);
            drop(new);
            for answer in asked {
                assert_eq!(in_time(answer).await.expect("no panic")["result"]["by"], "old");
            }
            wait_until("what was begun is dropped", || handling.load(Ordering::SeqCst) == 0);

            // And with the last one the child gets an error in place of silence.
            let count = handling.clone();
            old.handle(METHOD, move |_| {
                let counted = Counted::new(&count);
                async move {
                    std::future::pending::<()>().await;
                    drop(counted);
                    Ok(Value::Null)
                }
            });
            let asked = {
                let caller = caller.clone();
                tokio::spawn(async move { ask(&caller, "r", json!("last"), METHOD).await })
            };
            wait_until("it handles it", || handling.load(Ordering::SeqCst) == 1);
            drop(old);
            assert_eq!(in_time(asked).await.expect("no panic")["error"]["code"], -32601);
            expect_all_gone(&supervisor).await;
        });
    });
}

#[test]
fn a_handler_that_fails_or_panics_costs_the_child_an_error_and_nothing_else() {
    apart(|| {
        play(async {
            let supervisor = Supervisor::new();
            let lease = supervisor.lease(&build(server("r", &[]))).expect("a lease");
            let pid = pid_of(&lease).await;
            lease.handle("fails", |_| async { Err(HandlerError::new(-5, "not today")) });
            lease.handle("panics", |_| async { panic!("in the middle") });
            lease.handle("panics at once", |params| {
                assert!(params.is_null(), "before there is a future");
                async { Ok(Value::Null) }
            });
            assert_eq!(
                ask(&lease, "r", json!(1), "fails").await["error"],
                json!({ "code": -5, "message": "not today" })
            );
            assert_eq!(ask(&lease, "r", json!(2), "panics").await["error"]["code"], -32603);
            assert_eq!(ask(&lease, "r", json!(3), "panics at once").await["error"]["code"], -32603);
            assert_eq!(pid_of(&lease).await, pid);
            expect_all_gone(&supervisor).await;
        });
    });
}

#[test]
fn a_request_of_a_child_that_died_is_not_answered() {
    apart(|| {
        play(async {
            let supervisor = Supervisor::new();
            let lease = supervisor.lease(&build(server("r", &[]))).expect("a lease");
            let (handling, go_on) = (Arc::new(AtomicUsize::new(0)), Arc::new(tokio::sync::Notify::new()));
            let (count, wait) = (handling.clone(), go_on.clone());
            lease.handle(METHOD, move |_| {
                let (counted, wait) = (Counted::new(&count), wait.clone());
                async move {
                    wait.notified().await;
                    drop(counted);
                    Ok(json!("late"))
                }
            });
            let arguments = json!({ "id": "of the first", "method": METHOD, "no_wait": true });
            let _: Value = in_time(lease.call("ask", &arguments)).await.expect("done");
            wait_until("it is handled", || handling.load(Ordering::SeqCst) == 1);
            in_time(lease.call::<Value>("die", &json!({ "code": 1 }))).await.expect_err("dead");
            wait_until("its handler has ended", || handling.load(Ordering::SeqCst) == 0);
            go_on.notify_waiters();
            pid_of(&lease).await;
            assert_eq!(answer("r", &json!("of the first")), None);
            // The next one may use the same id.
            go_on.notify_one();
            assert_eq!(ask(&lease, "r", json!("of the first"), METHOD).await["result"], "late");
            assert_eq!(lives("r").len(), 2);
            expect_all_gone(&supervisor).await;
        });
    });
}

#[test]
fn a_handler_may_call_the_child_with_a_weak_lease_that_keeps_nothing_alive() {
    apart(|| {
        play(async {
            let supervisor = Supervisor::new();
            let lease = supervisor.lease(&build(server("r", &[]))).expect("a lease");
            let weak = lease.downgrade();
            lease.handle(METHOD, move |_| {
                let weak = weak.clone();
                async move {
                    let lease = weak.upgrade().ok_or_else(|| HandlerError::new(-1, "too late"))?;
                    let who: Value = lease
                        .call("who", &json!({}))
                        .await
                        .map_err(|error| HandlerError::new(-2, error.to_string()))?;
                    Ok(who["pid"].clone())
                }
            });
            let pid = pid_of(&lease).await;
            assert_eq!(ask(&lease, "r", json!(1), METHOD).await["result"], pid);
            let weak = lease.downgrade();
            assert!(weak.upgrade().is_some());
            drop(lease);
            assert!(weak.upgrade().is_none());
            expect_gone("r");
            wait_until("it is forgotten", || supervisor.is_empty());
        });
    });
}

#[test]
fn a_handler_that_owns_leases_lets_go_of_them_with_its_own_lease_or_with_the_shutdown() {
    apart(|| {
        play(async {
            let supervisor = Supervisor::new();
            let count = Arc::new(AtomicUsize::new(0));
            let spec = build(server("r", &[]));
            // Another lease of the same child, and one of another child: both go when the owner goes.
            let (one, two) = (supervisor.lease(&spec).expect("a lease"), supervisor.lease(&spec).expect("a lease"));
            let other = supervisor.lease(&build(server("s", &[]))).expect("a lease");
            pid_of(&other).await;
            let owned = (two, other, Counted::new(&count));
            one.handle(METHOD, move |_| {
                let _ = &owned;
                async { Ok(Value::Null) }
            });
            pid_of(&one).await;
            drop(one);
            assert_eq!(count.load(Ordering::SeqCst), 0, "not dropped with its lease");
            expect_gone("r");
            expect_gone("s");

            // A circle: the handler owns its own lease. That is written by accident, and ends with the shutdown at last.
            let lease = supervisor.lease(&spec).expect("a lease");
            let owned = (lease.clone(), Counted::new(&count));
            lease.handle(METHOD, move |_| {
                let _ = &owned;
                async { Ok(Value::Null) }
            });
            let listener = (lease.clone(), Counted::new(&count));
            lease.on_respawn(move |_| {
                let _ = &listener;
            });
            pid_of(&lease).await;
            drop(lease);
            assert_eq!((alive("r").len(), count.load(Ordering::SeqCst)), (1, 2), "the handler holds it");
            expect_all_gone(&supervisor).await;
            wait_until("the circle is broken", || count.load(Ordering::SeqCst) == 0);
            wait_until("it is forgotten", || supervisor.is_empty());
        });
    });
}

#[test]
fn a_child_that_asks_more_than_the_host_can_handle_gets_errors_for_the_rest() {
    apart(|| {
        play(async {
            let supervisor = Supervisor::new();
            let lease = supervisor.lease(&build(server("r", &[]))).expect("a lease");
            let (handling, go_on) = (Arc::new(AtomicUsize::new(0)), Arc::new(tokio::sync::Semaphore::new(0)));
            let (count, wait) = (handling.clone(), go_on.clone());
            lease.handle(METHOD, move |_| {
                count.fetch_add(1, Ordering::SeqCst);
                let wait = wait.clone();
                async move { wait.acquire().await.map(|_| json!("done")).map_err(|_| HandlerError::new(0, "")) }
            });
            let asks =
                (0..1500).map(|n| format!("{{\"jsonrpc\":\"2.0\",\"id\":\"q{n}\",\"method\":\"{METHOD}\"}}\n"));
            let _: Value =
                in_time(lease.call("print", &json!({ "text": asks.collect::<String>() }))).await.expect("done");
            wait_until("many are handled", || handling.load(Ordering::SeqCst) == 1024);
            let answers = || -> Vec<Value> {
                let all = lives("r");
                let is_answer = |message: &&Value| message["id"].as_str().is_some_and(|id| id.starts_with('q'));
                all[0].heard.iter().filter(is_answer).cloned().collect()
            };
            wait_until("the rest is told", || answers().len() == 1500 - 1024);
            assert!(answers().iter().all(|answer| answer["error"]["code"] == -32000));
            go_on.add_permits(1);
            wait_until("all are answered", || answers().len() == 1500);
            assert_eq!(handling.load(Ordering::SeqCst), 1024);
            expect_all_gone(&supervisor).await;
        });
    });
}

/// As a host has it: a list of plugins that it builds anew whenever it likes.
static SESSION_END: Hook<String> = Hook::new();

#[test]
fn a_hook_is_installed_once_however_many_leases_and_reaches_only_live_leases() {
    apart(|| {
        play(async {
            let supervisor = Supervisor::new();
            let spec = build(server("r", &[]));
            let mut plugins: Vec<&'static Hook<String>> = Vec::new();
            let install = |plugins: &mut Vec<&'static Hook<String>>| {
                if !plugins.iter().any(|hook| std::ptr::eq(*hook, &raw const SESSION_END)) {
                    plugins.push(&SESSION_END);
                }
            };
            let told = Arc::new(Mutex::new(Vec::new()));
            let listen = |lease: &Lease, name: usize| {
                let told = told.clone();
                SESSION_END.listen(lease, move |session| {
                    told.lock().expect("no panic").push(format!("{name} {session}"));
                });
            };
            let mut leases = Vec::new();
            for name in 0..50 {
                let lease = supervisor.lease(&spec).expect("a lease");
                install(&mut plugins);
                listen(&lease, name);
                // A clone is the same lease, and a second listener takes the place of the first.
                listen(&lease.clone(), name + 100);
                leases.push(lease);
            }
            assert_eq!(plugins.len(), 1);
            let fire =
                |plugins: &[&Hook<String>]| plugins.iter().map(|hook| hook.dispatch(&"s".to_owned())).sum::<usize>();
            assert_eq!(fire(&plugins), 50);
            assert_eq!(std::mem::take(&mut *told.lock().expect("no panic")).len(), 50);
            // The host builds its list anew.
            plugins.clear();
            install(&mut plugins);
            install(&mut plugins);
            leases.truncate(2);
            assert_eq!((plugins.len(), fire(&plugins)), (1, 2));
            assert_eq!(*told.lock().expect("no panic"), ["100 s", "101 s"]);
            leases.clear();
            assert_eq!(fire(&plugins), 0);
            expect_gone("r");
            assert_eq!(lives("r").len().min(1), lives("r").len(), "one child at most");
        });
    });
}

#[test]
fn listeners_of_a_hook_may_drop_leases_listen_again_and_panic() {
    apart(|| {
        play(async {
            let supervisor = Supervisor::new();
            let spec = build(server("r", &[]));
            let hook = Arc::new(Hook::<u32>::new());
            let take = || supervisor.lease(&spec).expect("a lease");
            let told = Arc::new(Mutex::new(Vec::new()));
            let note = |word: &'static str| {
                let told = told.clone();
                move || told.lock().expect("no panic").push(word)
            };
            let (first, second, third, fourth) = (take(), take(), take(), take());
            let slot = Arc::new(Mutex::new(None));
            let (own, noted) = (slot.clone(), note("drops its own and the second"));
            hook.listen(&first, move |_| {
                noted();
                drop(own.lock().expect("no panic").take());
            });
            let noted = note("second");
            hook.listen(&second, move |_| noted());
            *slot.lock().expect("no panic") = Some((first, second));
            hook.listen(&third, |_| panic!("a listener's own affair"));
            let (again, noted, more) = (Arc::downgrade(&hook), note("fourth"), fourth.downgrade());
            let noted_again = note("fourth again");
            let noted_again = Arc::new(noted_again);
            hook.listen(&fourth, move |_| {
                noted();
                if let (Some(hook), Some(lease)) = (again.upgrade(), more.upgrade()) {
                    let noted = noted_again.clone();
                    hook.listen(&lease, move |_| noted());
                }
            });
            let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| hook.dispatch(&1)));
            assert!(panicked.is_err(), "the panic is not hidden");
            let heard = std::mem::take(&mut *told.lock().expect("no panic"));
            assert_eq!(
                heard,
                ["drops its own and the second", "fourth"],
                "the second is gone, the fourth is told all the same"
            );
            drop(third);
            assert_eq!(hook.dispatch(&2), 1);
            assert_eq!(*told.lock().expect("no panic"), ["fourth again"]);
            drop(fourth);
            assert_eq!(hook.dispatch(&3), 0);
            expect_gone("r");
            wait_until("it is forgotten", || supervisor.is_empty());
        });
    });
}
