//! Servers that print garbage, floods and long lines, that do not read, and that do not answer.

use std::time::Instant;

use badchild::PATIENCE;
use nostray::{CallError, LeaseSpec, Supervisor};
use serde_json::{Value, json};

use crate::apart::{apart, file};
use crate::children::{alive, build, expect_all_gone, expect_gone, in_time, ms, pid_of, play, server};

/// What this process holds in memory.
fn resident() -> usize {
    let status = std::fs::read_to_string("/proc/self/status").expect("read");
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).expect("a line");
    line.trim().trim_end_matches(" kB").trim().parse::<usize>().expect("a number") << 10
}

/// A server in a few lines of Python.
fn python(name: &str, program: &str) -> nostray::LeaseSpecBuilder {
    let path = file(name);
    std::fs::write(&path, format!("import sys, json, time, os\n{program}\n")).expect("write");
    let spec = LeaseSpec::builder("python3").arg("-u").arg(path).backoff("5ms..20ms".parse().expect("right"));
    spec.eof_grace(ms(300)).term_grace(ms(300))
}

#[test]
fn lines_that_are_no_messages_are_dropped_and_end_nothing() {
    apart(|| {
        play(async {
            let supervisor = Supervisor::new();
            let banner = "starting up...";
            let lease = supervisor.lease(&build(server("r", &["--banner", banner]))).expect("a lease");
            let pid = pid_of(&lease).await;
            let garbage = [
                "not json\n",
                "\n\n\r\n",
                "{}\n",
                "null\n",
                "{\"jsonrpc\":\"2.0\"}\n",
                // A list is not an answer, whatever its elements are.
                "[$id,null,null,5,null]\n",
                "{\"jsonrpc\":\"2.0\",\"id\":\"text\",\"result\":1}\n",
                "{\"jsonrpc\":\"2.0\",\"id\":-1,\"result\":1}\n",
                "{\"jsonrpc\":\"2.0\",\"id\":999999,\"result\":1}\n",
                "\u{2028}\n",
            ];
            for text in garbage {
                let printed = in_time(lease.call::<Value>("print", &json!({ "text": text }))).await;
                assert_eq!(printed, Ok(json!({})), "{text}");
            }
            let bytes: Value = in_time(lease.call("print", &json!({ "hex": "00ff0afe0a" }))).await.expect("done");
            assert_eq!(bytes, json!({}));
            assert_eq!(pid_of(&lease).await, pid, "it was not harmed");
            expect_all_gone(&supervisor).await;
        });
    });
}

#[test]
fn an_answer_that_is_an_error_of_no_known_shape_is_an_answer() {
    apart(|| {
        play(async {
            let supervisor = Supervisor::new();
            let lease = supervisor.lease(&build(server("r", &[]))).expect("a lease");
            for error in [r#""just text""#, r#"{"code":"E1","message":7}"#, r#"{"code":1.5}"#, "[]", "17"] {
                let text = format!("{{\"jsonrpc\":\"2.0\",\"id\":$id,\"error\":{error}}}\n");
                let answered = in_time(lease.call::<Value>("print", &json!({ "text": text, "silent": true }))).await;
                assert!(matches!(answered, Err(CallError::Answered { .. })), "{error}: {answered:?}");
            }
            let text = "{\"jsonrpc\":\"2.0\",\"id\":$id,\"result\":null,\"error\":null}\n";
            let fine = in_time(lease.call::<Value>("print", &json!({ "text": text, "silent": true }))).await;
            assert_eq!(fine, Ok(Value::Null));
            expect_all_gone(&supervisor).await;
        });
    });
}

#[test]
fn lines_of_sixteen_mebibytes_go_both_ways_and_their_memory_is_used_again() {
    apart(|| {
        play(async {
            let supervisor = Supervisor::new();
            let lease = supervisor.lease(&build(server("r", &[]))).expect("a lease");
            let mut before = 0;
            for round in 0..2 {
                let big: String = in_time(lease.call("big", &json!({ "bytes": 16 << 20 }))).await.expect("an answer");
                assert_eq!(big.len(), 16 << 20);
                let back: String = in_time(lease.call("echo", &big)).await.expect("an answer");
                assert!(back == big, "changed on its way");
                // What the allocator keeps is not ours to say, but it is kept once.
                if round == 0 {
                    before = resident();
                }
            }
            let more = resident().saturating_sub(before);
            assert!(more < 80 << 20, "{more} bytes more than after the first one");
            expect_all_gone(&supervisor).await;
        });
    });
}

#[test]
fn an_answer_that_is_too_long_is_told_to_its_caller() {
    apart(|| {
        play(async {
            let supervisor = Supervisor::new();
            let lease = supervisor.lease(&build(server("r", &[]).max_line(1 << 20))).expect("a lease");
            let too_long = in_time(lease.call::<String>("big", &json!({ "bytes": 3 << 20 }))).await;
            let Err(CallError::TooLong { length }) = &too_long else {
                panic!("{:?}", too_long.map(|text| text.len()))
            };
            assert!(*length > 3 << 20, "{length}");
            pid_of(&lease).await;
            expect_all_gone(&supervisor).await;
        });
    });
}

#[test]
fn a_child_that_prints_without_end_is_heard_answered_and_ended() {
    apart(|| {
        play(async {
            let supervisor = Supervisor::new();
            let flood = r#"
import threading
def flood():
    line = b'{"jsonrpc":"2.0","method":"noise","params":{}}\n' * 500
    while True:
        os.write(1, line)
for _ in range(2):
    threading.Thread(target=flood, daemon=True).start()
for line in sys.stdin:
    m = json.loads(line)
    if "id" in m:
        os.write(1, b'\n' + json.dumps({"jsonrpc":"2.0","id":m["id"],"result":m.get("params")}).encode() + b'\n')
"#;
            let lease = supervisor.lease(&build(python("flood", flood))).expect("a lease");
            let mut noise = lease.subscribe();
            for n in 0..5 {
                let back: Value = in_time(lease.call("echo", &json!({ "n": n }))).await.expect("an answer");
                assert_eq!(back["n"], n);
            }
            assert_eq!(in_time(noise.next()).await.expect("there is some").method, "noise");
            drop((lease, noise));
            let begun = Instant::now();
            while !badchild::company().is_empty() {
                assert!(begun.elapsed() < PATIENCE, "its lease is gone, and it floods on");
                tokio::time::sleep(ms(10)).await;
            }
        });
    });
}

#[test]
fn a_child_that_does_not_read_costs_a_bounded_amount_of_memory_and_hinders_no_other_child() {
    apart(|| {
        play(async {
            let supervisor = Supervisor::new();
            let stuck = supervisor.lease(&build(server("stuck", &[]))).expect("a lease");
            let fine = supervisor.lease(&build(server("fine", &[]))).expect("a lease");
            let never = file("never").display().to_string();
            let _: Value = in_time(stuck.call("stop-reading", &json!({ "file": never }))).await.expect("done");
            let before = resident();
            let text = "x".repeat(1 << 20);
            let mut refused = 0;
            for _ in 0..80 {
                match stuck.notify("tell", &text) {
                    Ok(()) => {}
                    Err(CallError::Full) => refused += 1,
                    Err(other) => panic!("{other}"),
                }
                // Others are served meanwhile.
                if refused % 20 == 1 {
                    pid_of(&fine).await;
                }
            }
            assert!(refused > 50, "{refused}");
            let more = resident().saturating_sub(before);
            assert!(more < 60 << 20, "{more} bytes for a child that does not read");
            // Calls wait, keep their deadlines, and are dropped when the caller has given up.
            for _ in 0..20 {
                let late = in_time(stuck.call_within::<Value>("echo", &text, Some(ms(5)))).await;
                assert_eq!(late, Err(CallError::TimedOut(ms(5))));
            }
            let more = resident().saturating_sub(before);
            assert!(more < 60 << 20, "{more} bytes for calls that the caller has given up");
            pid_of(&fine).await;
            // It is let go of as any other.
            drop(stuck);
            expect_gone("stuck");
            pid_of(&fine).await;

            let stuck = supervisor.lease(&build(server("stuck", &[]))).expect("a lease");
            let _: Value = in_time(stuck.call("stop-reading", &json!({ "file": never }))).await.expect("done");
            let waiting = {
                let (lease, text) = (stuck.clone(), "y".repeat(8 << 20));
                tokio::spawn(async move { lease.call::<Value>("echo", &text).await })
            };
            tokio::task::yield_now().await;
            expect_all_gone(&supervisor).await;
            let cut_off = in_time(waiting).await.expect("no panic");
            assert!(matches!(cut_off, Err(CallError::CutOff(_) | CallError::Refused(_))), "{cut_off:?}");
        });
    });
}

#[test]
fn a_child_that_asks_and_does_not_read_the_answers_is_not_obeyed_for_ever() {
    apart(|| {
        play(async {
            let supervisor = Supervisor::new();
            let asks = r#"
line = (json.dumps({"jsonrpc":"2.0","id":"x"*60000,"method":"ping"}) + "\n").encode()
while True:
    os.write(1, line)
"#;
            let spec = python("asks", asks).max_failures("1/1m".parse().expect("right"));
            let lease = supervisor.lease(&build(spec)).expect("a lease");
            let before = resident();
            // There is much to be answered until then.
            let nothing = json!({});
            let call = tokio::time::timeout(2 * PATIENCE, lease.call::<Value>("echo", &nothing)).await;
            let call = call.expect("it is obeyed for ever");
            let (Err(CallError::CutOff(why)) | Err(CallError::Refused(why))) = &call else { panic!("{call:?}") };
            assert!(why.contains("does not read"), "{why}");
            let more = resident().saturating_sub(before);
            assert!(more < 200 << 20, "{more} bytes");
            drop(lease);
            expect_all_gone(&supervisor).await;
        });
    });
}

#[test]
fn a_child_that_never_answers_is_let_go_of_all_the_same() {
    apart(|| {
        play(async {
            let supervisor = Supervisor::new();
            for stubborn in [false, true] {
                let name = if stubborn { "s" } else { "r" };
                let options: &[&str] = if stubborn { &["--ignore-eof"] } else { &[] };
                let lease = supervisor.lease(&build(server(name, options))).expect("a lease");
                let calls: Vec<_> = (0..100)
                    .map(|_| {
                        let lease = lease.clone();
                        tokio::spawn(async move { lease.call::<Value>("hang", &json!({})).await })
                    })
                    .collect();
                crate::children::expect_told(name, "hang", 100);
                assert!(lease.generation().is_none(), "it has answered nothing");
                for call in calls {
                    call.abort();
                }
                // While the lease is held: a released child may be ended before it has read all.
                crate::children::expect_told(name, "notifications/cancelled", 100);
                drop(lease);
                expect_gone(name);
                assert!(alive(name).is_empty());
            }
            expect_all_gone(&supervisor).await;
        });
    });
}

#[test]
fn a_child_that_closes_its_output_and_lives_on_is_replaced() {
    apart(|| {
        play(async {
            let supervisor = Supervisor::new();
            let lease = supervisor.lease(&build(server("r", &["--ignore-eof"]))).expect("a lease");
            let first = pid_of(&lease).await;
            let cut_off = in_time(lease.call::<Value>("close-output", &json!({}))).await;
            let Err(CallError::CutOff(why)) = &cut_off else { panic!("{cut_off:?}") };
            assert_eq!(why, "`badchild` closed its output during this call");
            assert_ne!(pid_of(&lease).await, first);
            expect_all_gone(&supervisor).await;
        });
    });
}

/// The cause that is told is the closed output, and not that nostray ended the child for it.
#[test]
fn a_child_that_closes_its_output_is_replaced_for_that_also_when_the_host_comes_late() {
    apart(|| {
        // With one thread: a task that blocks it holds up all.
        crate::apart::any::runtime().block_on(async {
            let supervisor = Supervisor::new();
            let lease = supervisor.lease(&build(server("r", &["--ignore-eof"]))).expect("a lease");
            pid_of(&lease).await;
            let count = || badchild::open_files().expect("read").len();
            let before = count();
            let call = crate::children::called(&lease, "close-output", json!({})).await;
            in_time(async {
                while count() == before {
                    tokio::time::sleep(ms(1)).await;
                }
            })
            .await;
            // Its input is closed, too, and so it ends.
            badchild::wait_until("nothing is left", || badchild::company().is_empty());
            let cut_off = in_time(call).await.expect("no panic");
            let Err(CallError::CutOff(why)) = &cut_off else { panic!("{cut_off:?}") };
            assert_eq!(why, "`badchild` closed its output during this call");
            expect_all_gone(&supervisor).await;
        });
    });
}
