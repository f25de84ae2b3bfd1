//! What a host has after ten thousand leases (`NOSTRAY_LONG=1`; fewer every day) is what it had before the first: threads, files, memory.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use badchild::{comes_true, open_files, wait_until};
use nostray::{CallError, Hook, Lease, LeaseSpec, Subscription, Supervisor};
use serde_json::{Value, json};
use tokio::runtime::Builder;

use crate::apart::{apart, expect_alone};
use crate::children::{build, in_time, ms, pid_of, rounds, runtime, server};

/// What the kernel says that this process has.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Has {
    threads: usize,
    files: Vec<(i32, String)>,
}

fn has() -> Has {
    let threads = std::fs::read_dir("/proc/self/task").expect("read").count();
    // A file may be opened anew under another number, or be another pipe.
    let mut files = open_files().expect("read");
    for (fd, target) in &mut files {
        *fd = 0;
        target.truncate(target.find('[').unwrap_or(target.len()));
    }
    files.sort();
    Has { threads, files }
}

fn resident() -> usize {
    let status = std::fs::read_to_string("/proc/self/status").expect("read");
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).expect("a line");
    line.trim().trim_end_matches(" kB").trim().parse::<usize>().expect("a number") << 10
}

/// Runs so many rounds, and compares what there was with what there is. What is needed once (buffers of the allocator, the records
/// of the registry) is there after the first part of them.
#[expect(clippy::print_stderr, reason = "the numbers are what the long variant is for")]
fn expect_no_leak(what: &str, rounds: usize, mut round: impl FnMut(usize)) {
    let before = has();
    let warm = rounds.div_ceil(5);
    (0..warm).for_each(&mut round);
    let at_first = resident();
    (warm..rounds).for_each(&mut round);
    let at_last = resident();
    // The thread that sees children to their end leaves when there is nothing to do.
    comes_true(badchild::PATIENCE, &mut || has() == before);
    let after = has();
    eprintln!(
        "{what}: {rounds} rounds, {} threads and {} files before, {} and {} after, {} KiB after {warm} rounds, {} KiB at the end",
        before.threads,
        before.files.len(),
        after.threads,
        after.files.len(),
        at_first >> 10,
        at_last >> 10
    );
    assert_eq!(after, before);
    let more = at_last.saturating_sub(at_first);
    assert!(more < 3 << 20, "{what}: {more} bytes more after {rounds} rounds");
    expect_alone();
}

fn take(supervisor: &Supervisor, spec: &LeaseSpec) -> Lease {
    supervisor.lease(spec).expect("a lease")
}

/// Its record grows with every line, and is nothing that nostray needs.
fn quiet(key: Option<usize>) -> LeaseSpec {
    let spec = crate::apart::leased(&["server", "--plain"]);
    let spec = key.map_or(spec.clone(), |key| spec.key(format!("key {key}")));
    build(spec.eof_grace(ms(300)).term_grace(ms(300)))
}

#[test]
fn leases_come_and_go_and_leave_nothing() {
    apart(|| {
        let (runtime, supervisor) = (runtime(), Supervisor::new());
        // What a runtime opens for its clock is not counted as ours.
        runtime.block_on(async { tokio::time::sleep(ms(1)).await });
        expect_no_leak("one runtime", rounds(100, 10_000), |round| {
            runtime.block_on(async {
                // Every third key is a new one, and every fifth is let go of before it has begun.
                let spec = quiet(Some(if round % 3 == 0 { round } else { 0 }));
                let lease = take(&supervisor, &spec);
                if round % 5 != 0 {
                    pid_of(&lease.clone()).await;
                }
                if round % 7 == 0 {
                    lease.notify("x", &json!({})).expect("told");
                    drop(in_time(lease.call_within::<Value>("hang", &json!({}), Some(ms(1)))).await);
                }
                drop(lease);
                // Mostly the next one meets the end of this one.
                if round % 4 == 0 {
                    in_time(async {
                        while !supervisor.is_empty() {
                            tokio::time::sleep(ms(1)).await; // with a deadline around it; that it is empty has no event
                        }
                    })
                    .await;
                }
            });
            if round % 50 == 49 {
                wait_until("all are gone", || supervisor.is_empty());
            }
        });
        assert!(supervisor.is_empty());
    });
}

#[test]
fn many_leases_of_one_child_leave_nothing() {
    apart(|| {
        let (runtime, supervisor) = (runtime(), Supervisor::new());
        let (spec, hook) = (quiet(None), Hook::<u32>::new());
        let before = {
            // As above.
            runtime.block_on(async { tokio::time::sleep(ms(1)).await });
            has()
        };
        let base = runtime.block_on(async { take(&supervisor, &spec) });
        let pid = runtime.block_on(pid_of(&base));
        expect_holds(rounds(10_000, 1_000_000), |round| {
            runtime.block_on(async {
                // Now and then wait for the child's driver: orders that it has not read yet take memory, too.
                if round % 1000 == 0 {
                    pid_of(&base).await;
                }
                let lease = take(&supervisor, &spec);
                lease.handle("m", |_| async { Ok(Value::Null) });
                lease.on_respawn(|_| ());
                hook.listen(&lease, |_| ());
                drop(lease.subscribe());
            });
        });
        assert_eq!(hook.dispatch(&1), 0);
        assert_eq!(runtime.block_on(pid_of(&base)), pid, "the same child all the time");
        drop(base);
        wait_until("all is as before", || has() == before);
        expect_alone();
    });
}

/// Memory stays as it is; what belongs to a child that is there all the time is not counted.
fn expect_holds(rounds: usize, mut round: impl FnMut(usize)) {
    (0..rounds / 5).for_each(&mut round);
    let at_first = resident();
    (rounds / 5..rounds).for_each(&mut round);
    let more = resident().saturating_sub(at_first);
    assert!(more < 3 << 20, "{more} bytes more after {rounds} rounds");
}

#[test]
fn a_lease_outlives_its_runtime_and_is_used_in_another_one() {
    apart(|| {
        let supervisor = Supervisor::new();
        expect_no_leak("a runtime each", rounds(30, 2_000), |round| {
            let spec = quiet(Some(round % 3));
            let first = if round % 2 == 0 {
                runtime()
            } else {
                Builder::new_current_thread().enable_all().build().expect("a runtime")
            };
            let (lease, before) = first.block_on(async {
                let lease = take(&supervisor, &spec);
                let pid = pid_of(&lease).await;
                (lease, pid)
            });
            let mut subscription = lease.subscribe();
            // Something is in flight when the runtime goes.
            let hanging = {
                let lease = lease.clone();
                first.spawn(async move { lease.call::<Value>("hang", &json!({})).await })
            };
            if round % 3 == 0 {
                first.shutdown_background();
            } else {
                drop(first);
            }
            drop(hanging);
            wait_until("its driver is gone", || lease.generation().is_none());
            // Without a runtime no message can be sent, and the error says so.
            assert!(matches!(lease.notify("x", &json!({})), Err(CallError::Closed)));
            let second = runtime();
            second.block_on(async {
                // Another child, after the end of the first.
                let pid = pid_of(&lease).await;
                assert_ne!(pid, before);
                assert_eq!(lease.generation().map(|generation| generation.0), Some(2));
                let _: Value = in_time(lease.call("notify", &json!({ "method": "hello" }))).await.expect("done");
                assert_eq!(in_time(subscription.next()).await.expect("there is more").method, "hello");
            });
            if round % 2 == 0 {
                drop((second, lease)); // no runtime is left that hears of the release
            } else {
                drop((lease, second));
            }
            wait_until("it is forgotten", || supervisor.is_empty());
        });
    });
}

#[test]
fn a_runtime_that_ends_before_anything_has_begun_keeps_nothing_and_breaks_nothing() {
    apart(|| {
        let supervisor = Supervisor::new();
        expect_no_leak("a runtime that never ran", rounds(30, 2_000), |round| {
            let spec = quiet(None);
            let idle = Builder::new_current_thread().enable_all().build().expect("a runtime");
            let lease = {
                let _inside = idle.enter();
                take(&supervisor, &spec)
            };
            drop(idle);
            if round % 2 == 0 {
                drop(lease);
                assert!(supervisor.is_empty());
                return;
            }
            let runtime = runtime();
            runtime.block_on(pid_of(&lease));
            // One that ends while leases are taken in it from elsewhere.
            let handle = runtime.handle().clone();
            let take = || {
                let _inside = handle.enter();
                take(&supervisor, &quiet(Some(round)))
            };
            let other = std::thread::scope(|scope| {
                let taking = scope.spawn(take);
                drop(runtime);
                taking.join().expect("no panic")
            });
            drop((lease, other));
            wait_until("it is forgotten", || supervisor.is_empty());
        });
    });
}

/// As hosts write it: an object that owns a lease and all that belongs to it, and that the host never shuts down.
struct Provider {
    lease: Lease,
    _subscription: Subscription,
    _others: Vec<Arc<Provider>>,
    _counted: Counted,
}

#[derive(Debug)]
struct Counted(Arc<AtomicUsize>);

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

impl Provider {
    fn new(supervisor: &Supervisor, hook: &Hook<u32>, count: &Arc<AtomicUsize>, others: Vec<Arc<Self>>) -> Arc<Self> {
        count.fetch_add(1, Ordering::SeqCst);
        let lease = take(supervisor, &quiet(None));
        Arc::new_cyclic(|weak: &std::sync::Weak<Self>| {
            let of_handler = weak.clone();
            lease.handle("host.llm.complete", move |_| {
                let is_there = of_handler.upgrade().is_some();
                async move { Ok(json!(is_there)) }
            });
            let of_hook = weak.clone();
            hook.listen(&lease, move |_| drop(of_hook.upgrade()));
            Self { _subscription: lease.subscribe(), lease, _others: others, _counted: Counted(count.clone()) }
        })
    }
}

#[test]
fn abandoned_object_graphs_let_go_of_their_child_however_they_are_abandoned() {
    apart(|| {
        let (supervisor, hook) = (Supervisor::new(), Hook::<u32>::new());
        let count = Arc::new(AtomicUsize::new(0));
        expect_no_leak("abandoned providers", rounds(20, 1_000), |round| {
            let runtime = runtime();
            let provider = |others| Provider::new(&supervisor, &hook, &count, others);
            runtime.block_on(async {
                let mut graph = vec![provider(Vec::new())];
                for _ in 0..20 {
                    let next = provider(graph.clone());
                    graph.push(next);
                }
                pid_of(&graph[0].lease).await;
                match round % 4 {
                    // Forgotten in a task that never ends, until its runtime does.
                    0 => {
                        tokio::spawn(async move {
                            std::future::pending::<()>().await;
                            drop(graph);
                        });
                    }
                    // In the middle of calls.
                    1 => {
                        for provider in graph {
                            tokio::spawn(async move { provider.lease.call::<Value>("hang", &json!({})).await });
                        }
                    }
                    // By a panic.
                    2 => {
                        let task = tokio::spawn(async move {
                            let _graph = graph;
                            std::panic::resume_unwind(Box::new("a bug of the host"));
                        });
                        in_time(task).await.expect_err("it panics");
                    }
                    // In a thread that has ended, behind a lock that is poisoned.
                    _ => {
                        let shared = Arc::new(Mutex::new(graph));
                        let poisoned = shared.clone();
                        std::thread::spawn(move || {
                            let _graph = poisoned.lock().expect("not yet");
                            std::panic::resume_unwind(Box::new("a bug of the host"));
                        })
                        .join()
                        .expect_err("it panics");
                        assert!(shared.is_poisoned());
                    }
                }
            });
            drop(runtime);
            wait_until("all are dropped", || count.load(Ordering::SeqCst) == 0);
            wait_until("its child is gone", || supervisor.is_empty());
            assert_eq!(hook.dispatch(&1), 0);
        });
        // And in one runtime, without any of it: the last one to go takes the child along.
        let runtime = runtime();
        runtime.block_on(async {
            let spec = build(server("r", &[]));
            let lease = take(&supervisor, &spec);
            pid_of(&lease).await;
            drop(lease);
            crate::children::expect_gone("r");
        });
    });
}
