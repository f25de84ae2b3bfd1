//! However many sessions begin at once, there is one broker and one child. A stop or restart of the broker costs no
//! session and no request. A command without a session is run instead of shared.

use std::os::unix::fs::DirBuilderExt;
use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;

use badchild::{badchild, comes_true, open_terminal, wait_until};
use nostray_supervise::link::VERSION;
use serde_json::{Value, json};
use testkit::sharing::{BROKER, STEWARD, Watch, release};
use testkit::stage::{Caller, Stage};
use testkit::{in_parallel, nostray};

const MANY: usize = 50;
const NOT_LONG: Duration = Duration::from_millis(300);

/// Sends the first messages of a session, without waiting for answers.
fn begin(caller: &mut Caller, n: usize) -> (u64, u64) {
    let client = json!({ "name": "test", "version": "1" });
    let hello = json!({ "protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": client });
    let hello = caller.ask("initialize", hello);
    caller.tell("notifications/initialized", None);
    (hello, caller.ask("echo", json!({ "n": n })))
}

fn is_answered(caller: &mut Caller, n: usize, (hello, echo): (u64, u64)) {
    assert!(caller.answer(hello).get("result").is_some());
    assert_eq!(caller.answer(echo)["result"], json!({ "n": n }), "{}", caller.errors());
}

fn brokers_and_children(stage: &Stage) -> (usize, usize) {
    (stage.named(BROKER).len(), stage.servers().len())
}

#[test]
fn fifty_sessions_at_the_same_instant_have_one_broker_and_one_child() {
    let stage = Arc::new(Stage::new());
    let watch = Watch::over(&stage);
    let mut callers: Vec<_> = (0..MANY).map(|_| stage.share(&[], &["--start-delay", "100"])).collect();
    let asked: Vec<_> = callers.iter_mut().enumerate().map(|(n, caller)| begin(caller, n)).collect();
    for (n, (caller, ids)) in callers.iter_mut().zip(asked).enumerate() {
        is_answered(caller, n, ids);
    }
    // Processes that lost the race to be the broker end soon.
    wait_until("one broker, one child", || brokers_and_children(&stage) == (1, 1));
    stage.wait_for_leases(&[MANY]);
    assert_eq!(stage.named(STEWARD).len(), 1);
    let said: Vec<_> = callers.iter().map(Caller::errors).filter(|errors| !errors.is_empty()).collect();
    assert!(said.is_empty(), "{said:#?}");
    callers.into_iter().for_each(release);
    stage.expect_over(1, NOT_LONG);
    let methods = stage.lives()[0].methods();
    assert_eq!(methods.iter().filter(|method| *method == "initialize").count(), 1);
    assert_eq!(methods.iter().filter(|method| *method == "echo").count(), MANY);
    watch.expect_one();
}

#[test]
fn a_broker_that_is_stopped_while_fifty_attach_costs_no_answer() {
    let stage = Arc::new(Stage::new());
    let watch = Watch::over(&stage);
    let mut callers: Vec<_> = (0..MANY).map(|_| stage.share(&[], &[])).collect();
    // A broker that has not answered in time may still have got the request. Code 1 means that there is no broker.
    let mut stops = 0;
    let mut stop = || {
        let status = stage.nostray(&["broker", "stop"]).status;
        stops += usize::from(status.code() != Some(1));
        status.success()
    };
    wait_until("there is a broker", &mut stop);
    let asked: Vec<_> = callers.iter_mut().enumerate().map(|(n, caller)| begin(caller, n)).collect();
    // Stop the broker once more, while the sessions attach.
    stop();
    for (n, (caller, (hello, echo))) in callers.iter_mut().zip(asked).enumerate() {
        // A handshake waits for the next child. A call that the stopped child had read is lost with it. The session
        // goes on.
        let (welcome, answer) = (caller.answer(hello), caller.answer(echo));
        assert!(welcome.get("result").is_some(), "{welcome}");
        assert!(answer["result"] == json!({ "n": n }) || answer["error"]["code"] == -32000, "{answer}");
        assert_eq!(caller.result("echo", json!([n])), json!([n]));
        assert_eq!(caller.unasked(), Vec::<Value>::new());
    }
    wait_until("one broker, one child", || brokers_and_children(&stage) == (1, 1));
    stage.wait_for_leases(&[MANY]);
    callers.into_iter().for_each(release);
    let lives = stage.lives().len();
    assert!(lives <= 1 + stops, "{lives} after {stops} stops");
    stage.expect_over(lives, NOT_LONG);
    watch.expect_one();
}

#[test]
fn after_a_restart_of_the_broker_sessions_go_on_by_themselves() {
    let stage = Arc::new(Stage::new());
    let watch = Watch::over(&stage);
    let mut callers: Vec<_> = (0..5).map(|_| stage.shared(&[], &[])).collect();
    callers[0].result("logging/setLevel", json!({ "level": "notice" }));
    callers[1].result("resources/subscribe", json!({ "uri": "test://a" }));
    let before = (stage.the(BROKER).stat.pid, callers[0].pid());
    let restarted = stage.nostray(&["broker", "restart"]);
    assert!(restarted.status.success(), "{restarted:?}");
    // No session has called.
    wait_until("all sessions hold the next child", || stage.leases() == [5]);
    stage.wait_for_life(2);
    let told = callers[4].who();
    assert_ne!((stage.the(BROKER).stat.pid, told["pid"].as_i64().expect("a number")), before);
    let replayed = comes_true(badchild::PATIENCE, &mut || {
        let told = callers[4].who();
        told["level"] == "notice" && told["subscriptions"] == json!(["test://a"])
    });
    assert!(replayed, "{:?}", callers[4].who());
    for caller in &mut callers {
        caller.who();
        assert_eq!(caller.unasked(), Vec::<Value>::new());
        assert_eq!(caller.errors(), "");
    }
    callers.into_iter().for_each(release);
    stage.expect_over(2, NOT_LONG);
    watch.expect_one();
}

#[test]
fn after_a_stop_of_the_broker_nothing_runs_until_the_next_call() {
    let stage = Stage::new();
    let mut callers: Vec<_> = (0..3).map(|_| stage.shared(&[], &[])).collect();
    let slow = callers[0].ask("slow", json!({ "ms": 3_600_000 }));
    wait_until("the call is in flight", || stage.lives()[0].methods().contains(&"slow".to_owned()));
    let stopped = stage.nostray(&["broker", "stop"]);
    assert!(stopped.status.success(), "{stopped:?}");
    let error = callers[0].answer(slow);
    assert_eq!(error["error"]["code"], -32000, "{error}");
    let only_fronts = || stage.scene.processes().iter().all(|found| found.command.contains(" share "));
    assert!(only_fronts(), "{:?}", stage.scene.processes());
    assert!(!stage.nostray(&["broker", "status"]).status.success());
    let starts_again = comes_true(Duration::from_secs(1), &mut || !only_fronts() || stage.lives().len() > 1);
    assert!(!starts_again, "{:?}", stage.scene.processes());
    // After one session has called, the others may hold the next child or not. Either way the next call of each works.
    for caller in &mut callers {
        assert_eq!(caller.result("echo", json!({})), json!({}));
        assert_eq!(caller.unasked(), Vec::<Value>::new());
        // Processes that lost the race to be the broker end soon.
        wait_until("one broker, one child", || brokers_and_children(&stage) == (1, 1));
    }
    callers.into_iter().for_each(release);
    stage.expect_over(2, NOT_LONG);
}

/// `broker stop` sends one request. With two, the second could reach the next broker, and stop that one instead.
#[test]
fn broker_stop_sends_one_request() {
    let stage = Stage::new();
    let place = stage.scene.runtime().join("nostray");
    std::fs::DirBuilder::new().mode(0o700).create(&place).expect("mkdir");
    let socket = place.join(format!("broker-{VERSION}.sock"));
    let status = json!({ "pid": 7_777_777, "version": "0", "age": 0, "children": ["a", "b"], "stopping": true });
    let mut broker = stage.scene.command(&badchild());
    broker.arg("called").arg(&socket).arg(status.to_string()).stdin(Stdio::null()).stdout(Stdio::piped());
    let broker = broker.spawn().expect("start");
    wait_until("the broker listens", || socket.exists());
    let stopped = stage.nostray(&["broker", "stop"]);
    assert!(stopped.status.success(), "{stopped:?}");
    assert!(
        String::from_utf8_lossy(&stopped.stdout).starts_with("broker 7777777 stopped, with 2 shared"),
        "{stopped:?}"
    );
    let heard = broker.wait_with_output().expect("its end").stdout;
    assert_eq!(serde_json::from_slice::<Value>(&heard).expect("JSON"), json!({ "stop": { "again": false } }));
    stage.scene.expect_empty();
}

/// A session that ends without a broker does not start one.
#[test]
fn a_session_that_ends_after_broker_stop_starts_no_broker() {
    let stage = Stage::new();
    let callers: Vec<_> = (0..3).map(|_| stage.shared(&[], &[])).collect();
    assert!(stage.nostray(&["broker", "stop"]).status.success());
    callers.into_iter().for_each(release);
    stage.expect_over(1, NOT_LONG);
}

/// The stdin of a host that probes a command, or of a user who tries it: no session.
const PROBES: [&str; 5] = ["/dev/null", "an empty file", "a closed pipe", "a pipe that is closed soon", "a terminal"];

#[test]
fn a_command_without_a_session_prints_and_exits_as_with_run() {
    in_parallel(PROBES.to_vec(), |probe| {
        let stage = Stage::new();
        let terminal = (probe == "a terminal").then(|| open_terminal().expect("a terminal"));
        let mut command = match &terminal {
            Some((_, path)) => {
                let mut command = stage.scene.command(&badchild());
                command.args(["on-terminal", path, "--"]).arg(nostray());
                command
            }
            None => stage.scene.command(&nostray()),
        };
        command
            .args(["share", "--", "sh", "-c", "echo v20.1.0; exit 7"])
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        command.stdin(match probe {
            "an empty file" => {
                let empty = stage.file("empty");
                std::fs::write(&empty, "").expect("write");
                std::fs::File::open(empty).expect("open").into()
            }
            "a closed pipe" | "a pipe that is closed soon" => Stdio::piped(),
            _ => Stdio::null(),
        });
        let mut caller = Caller::new(command.spawn().expect("start"));
        if probe == "a pipe that is closed soon" {
            // As with a host that has something else to do first.
            std::thread::sleep(Duration::from_millis(50));
        }
        caller.close();
        assert_eq!(caller.code(), 7, "{probe}: {}", caller.errors());
        assert_eq!(String::from_utf8_lossy(&caller.next_line()), "v20.1.0\n", "{probe}");
        assert!(stage.background().is_empty(), "{probe}: {:#?}", stage.background());
        stage.scene.expect_empty();
    });
}

/// Some hosts start all their servers first and talk to them later. Some wait for a first line of the server.
#[test]
fn a_session_whose_first_message_comes_late_is_shared_and_its_child_starts_before_that() {
    let stage = Stage::new();
    let mut late = stage.share(&[], &[]);
    stage.wait_for_life(1);
    let mut other = stage.shared(&[], &[]);
    late.initialize();
    assert_eq!(late.pid(), other.pid());
    [late, other].into_iter().for_each(release);
    stage.expect_over(1, NOT_LONG);
}
