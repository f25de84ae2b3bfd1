//! Tests kill or stop the broker, the steward, or all of nostray's background processes, while several sessions have
//! calls in flight. Each call gets one error, the next call works, the next child gets all settings of the sessions,
//! and the two children never overlap.

use std::sync::Arc;
use std::time::{Duration, Instant};

use badchild::{Found, User, wait_until};
use nostray_sys::Signal;
use serde_json::{Value, json};
use testkit::debugger::Debugger;
use testkit::in_parallel;
use testkit::sharing::{BROKER, PEN, STEWARD, Watch, kill, release};
use testkit::stage::{Caller, Stage};

const NOT_LONG: Duration = Duration::from_millis(300);
/// For a child that ends neither by the end of its input nor by SIGTERM.
const STUBBORN: [&str; 6] = ["--eof-grace", "150ms", "--term-grace", "400ms", "--backoff", "1ms..20ms"];

/// The processes to kill.
fn victims(stage: &Stage, whom: &str) -> Vec<Found> {
    match whom {
        "broker" => vec![stage.the(BROKER)],
        "steward" => vec![stage.the(STEWARD)],
        "broker and steward" => vec![stage.the(BROKER), stage.the(STEWARD)],
        "steward and pen" => [STEWARD, PEN[0], PEN[1], PEN[2]].map(|name| stage.the(name)).into(),
        _ => stage.background(),
    }
}

const ALL: [&str; 5] = ["broker", "steward", "broker and steward", "steward and pen", "everything"];

/// Kills all victims at once, so that none acts on the death of another.
fn strike(victims: &[Found]) {
    victims.iter().for_each(|found| found.send(Signal::STOP));
    kill(victims);
}

/// Three sessions with settings that the next child must get.
fn three(stage: &Stage, options: &[&str], server: &[&str]) -> Vec<Caller> {
    let mut callers: Vec<_> = (0..3).map(|_| stage.shared(options, server)).collect();
    for (caller, level) in callers.iter_mut().zip(["error", "notice", "warning"]) {
        caller.result("logging/setLevel", json!({ "level": level }));
    }
    for (caller, uris) in callers.iter_mut().zip([&["test://a"][..], &["test://a", "test://b"], &[]]) {
        for uri in uris {
            caller.result("resources/subscribe", json!({ "uri": uri }));
        }
    }
    callers
}

fn in_flight(stage: &Stage, callers: &mut [Caller]) -> Vec<Vec<u64>> {
    let ask = |caller: &mut Caller| {
        vec![
            caller.ask("hang", json!({})),
            caller.ask("slow", json!({ "ms": 3_600_000 })),
            caller.ask("hang", json!({})),
        ]
    };
    let asked: Vec<_> = callers.iter_mut().map(ask).collect();
    let expected = 3 * callers.len();
    wait_until("the calls are in flight", || {
        let methods = stage.lives().pop().expect("is there").methods();
        methods.iter().filter(|method| ["hang", "slow"].contains(&method.as_str())).count() == expected
    });
    asked
}

fn expect_one_error_each(callers: &mut [Caller], asked: Vec<Vec<u64>>, whom: &str) {
    for (caller, ids) in callers.iter_mut().zip(asked) {
        for id in ids {
            let answer = caller.answer(id);
            assert_eq!(answer["error"]["code"], -32000, "{whom}: {answer}");
        }
    }
}

#[test]
fn each_call_in_flight_gets_one_error_and_the_next_call_works_with_a_child_that_has_all_settings() {
    in_parallel(ALL.to_vec(), |whom| {
        let stage = Stage::new();
        let mut callers = three(&stage, &STUBBORN, &["--ignore-eof"]);
        let old = stage.child();
        let asked = in_flight(&stage, &mut callers);
        strike(&victims(&stage, whom));
        expect_one_error_each(&mut callers, asked, whom);
        // Each front replays its session before it passes this call on.
        for caller in &mut callers {
            let told = caller.who();
            assert!(!old.is_alive(), "{whom}: two children at once");
            assert_ne!(told["pid"], old.stat.pid.as_raw_nonzero().get(), "{whom}");
        }
        stage.wait_for_leases(&[3]);
        let told = callers[0].who();
        assert_eq!(told["initialized"], true, "{whom}");
        assert_eq!(told["level"], "notice", "{whom}: not the most verbose level of all sessions");
        let mut subscriptions: Vec<_> = told["subscriptions"].as_array().expect("a list").clone();
        subscriptions.sort_by_key(Value::to_string);
        assert_eq!(subscriptions, ["test://a", "test://b"], "{whom}");
        let lives = stage.lives();
        assert_eq!(lives.len(), 2, "{whom}: {lives:#?}");
        let times = |method: &str| lives[1].methods().iter().filter(|told| *told == method).count();
        assert_eq!(times("initialize"), 1, "{whom}: {:?}", lives[1].methods());
        assert_eq!(times("resources/subscribe"), 2, "{whom}: {:?}", lives[1].methods());
        assert_eq!(times("hang") + times("slow"), 0, "{whom}: a call was made twice");
        for caller in &mut callers {
            caller.who();
            assert_eq!(caller.unasked(), Vec::<Value>::new(), "{whom}");
        }
        callers.into_iter().for_each(release);
        stage.expect_over(2, NOT_LONG);
        assert_eq!(stage.states(), Vec::<String>::new(), "{whom}: a record is left");
    });
}

/// A host with `--no-respawn` has to see the end of its child, also when the child ends with its steward or broker.
#[test]
fn without_respawn_the_death_of_steward_or_broker_ends_every_session_after_its_calls_are_answered() {
    const BY_OPERATOR: &str = "nostray broker stop";
    in_parallel(ALL.into_iter().chain([BY_OPERATOR]).collect(), |whom| {
        let stage = Stage::new();
        let options = ["--no-respawn", "--eof-grace", "150ms", "--term-grace", "400ms"];
        let mut callers = three(&stage, &options, &[]);
        let mut quiet = stage.shared(&options, &[]);
        quiet.who();
        let asked = in_flight(&stage, &mut callers);
        if whom == BY_OPERATOR {
            stage.nostray(&["broker", "stop"]);
        } else {
            strike(&victims(&stage, whom));
        }
        expect_one_error_each(&mut callers, asked, whom);
        callers.push(quiet);
        for caller in &mut callers {
            assert_eq!(caller.code(), 125, "{whom}: {}", caller.errors());
            assert!(caller.errors().contains("--no-respawn"), "{whom}: {}", caller.errors());
            assert_eq!(caller.unasked(), Vec::<Value>::new(), "{whom}");
        }
        // The next session has a child again.
        let mut next = stage.shared(&options, &[]);
        next.who();
        release(next);
        stage.expect_over(2, NOT_LONG);
    });
}

/// For a protocol that is not MCP, the methods that the user names are replayed, once for each session that has called
/// them.
#[test]
fn the_methods_that_the_user_names_are_replayed_for_each_session() {
    in_parallel(vec!["broker", "steward", "everything"], |whom| {
        let stage = Stage::new();
        let options = ["--protocol", "jsonrpc", "--replay", "session.open", "--backoff", "1ms..20ms"];
        let mut callers: Vec<_> = (0..3).map(|_| stage.share(&options, &["--plain"])).collect();
        for (n, caller) in callers.iter_mut().enumerate() {
            caller.result("session.open", json!({ "session": n }));
        }
        let asked: Vec<Vec<u64>> = callers.iter_mut().map(|caller| vec![caller.ask("hang", json!({}))]).collect();
        wait_until("the calls are in flight", || {
            stage.lives()[0].methods().iter().filter(|method| *method == "hang").count() == 3
        });
        strike(&victims(&stage, whom));
        expect_one_error_each(&mut callers, asked, whom);
        for caller in &mut callers {
            caller.who();
            assert_eq!(caller.unasked(), Vec::<Value>::new(), "{whom}");
        }
        let heard = &stage.lives()[1].heard;
        for n in 0..3 {
            let opened = heard.iter().filter(|line| line.contains(&format!("\"session\":{n}"))).count();
            assert_eq!(opened, 1, "{whom}: session {n} in {heard:#?}");
        }
        callers.into_iter().for_each(release);
        stage.expect_over(2, NOT_LONG);
    });
}

/// No session holds the child. Where a keeper is left, it ends the tree within the graces; otherwise a sweep does.
#[test]
fn without_sessions_no_process_is_left_and_no_child_is_restarted() {
    in_parallel(ALL.to_vec(), |whom| {
        let stage = Stage::new();
        let mut caller = stage.shared(&[&STUBBORN[..], &["--linger", "1h"]].concat(), &["--ignore-eof"]);
        caller.result("fork", json!({ "kind": "setsid" }));
        release(caller);
        stage.wait_for_leases(&[0]);
        strike(&victims(&stage, whom));
        if ["everything", "steward and pen"].contains(&whom) {
            // No keeper is left that could end the tree, so the next command does.
            stage.nostray(&["sweep"]);
        }
        stage.expect_over(1, NOT_LONG);
    });
}

/// Broker and steward are killed again and again, in the middle of each recovery.
#[test]
fn a_broker_that_is_killed_ten_times_in_a_row_costs_no_answer() {
    let stage = Stage::new();
    let options = ["--eof-grace", "100ms", "--term-grace", "100ms", "--backoff", "1ms..20ms"];
    let mut callers = three(&stage, &options, &[]);
    let mut last = Vec::new();
    for round in 0..10 {
        let names = [&[BROKER][..], &[STEWARD], &[BROKER, STEWARD]][round % 3];
        let asked: Vec<_> =
            callers.iter_mut().map(|caller| caller.ask("slow", json!({ "ms": 20 * round }))).collect();
        let found: Vec<_> = names.iter().flat_map(|name| stage.named(name)).collect();
        found.iter().for_each(|victim| victim.send(Signal::KILL));
        for (caller, id) in callers.iter_mut().zip(asked) {
            let answer = caller.answer(id);
            let is_error = answer["error"]["code"] == -32000;
            assert!(is_error || answer.get("result").is_some(), "round {round}: {answer}");
        }
        last = found;
    }
    wait_until("the last victims are gone", || last.iter().all(|victim| !victim.is_alive()));
    stage.wait_for_leases(&[3]);
    for caller in &mut callers {
        // A front may not have noticed the last kills yet, and each of them may cut off one more call.
        let is_served = (0..3).any(|_| caller.call("who", json!({})).get("result").is_some());
        assert!(is_served, "{}", stage.journal());
        assert_eq!(caller.unasked(), Vec::<Value>::new());
    }
    assert_eq!(callers[2].who()["level"], "notice");
    stage.wait_for_leases(&[3]);
    callers.into_iter().for_each(release);
    let lives = stage.lives().len();
    assert!((2..=12).contains(&lives), "{lives}");
    stage.expect_over(lives, NOT_LONG);
}

/// A call that the dead child has not read is on its way back to the front when the steward is killed. It is answered
/// all the same.
#[test]
fn a_call_that_comes_back_from_a_dead_child_is_answered_also_if_its_steward_dies() {
    let stage = Stage::new();
    let mut callers = three(&stage, &STUBBORN, &[]);
    let front =
        Found::by_pid(badchild::pid(i32::try_from(callers[0].process.id()).expect("small"))).expect("is there");
    // The stopped front reads the call before it learns of the child's end, and the stopped steward tells it no more
    // than that.
    front.send(Signal::STOP);
    let id = callers[0].ask("echo", json!([0]));
    stage.child().send(Signal::KILL);
    stage.wait_for_life(2);
    callers[1].who();
    let steward = stage.the(STEWARD);
    steward.send(Signal::STOP);
    let cpu = || nostray_sys::process::cpu_time(front.stat.pid).expect("is there");
    let before = cpu();
    front.send(Signal::CONT);
    wait_until("the front has run", || cpu() > before);
    // Time for the front to read all messages. If it is too short, the test proves less and still passes.
    std::thread::sleep(Duration::from_millis(100));
    kill(&[steward]);
    let answer = callers[0].answer(id);
    assert!(answer["error"]["code"] == -32000 || answer["result"] == json!([0]), "{answer}");
    for caller in &mut callers {
        caller.who();
        assert_eq!(caller.unasked(), Vec::<Value>::new());
    }
    callers.into_iter().for_each(release);
    stage.expect_over(3, NOT_LONG);
}

/// How the test stops a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Halt {
    Signal,
    Debugger,
}

const HALTS: [Halt; 2] = [Halt::Signal, Halt::Debugger];

/// An ordinary user, if the tests may become one.
fn last_user() -> User {
    User::all().pop().expect("at least the current one")
}

/// The time within which a session must notice that a process is stopped.
const NOTICED: Duration = Duration::from_secs(15);

impl Halt {
    /// The debugger, if this needs one. The victims stay stopped until it is dropped.
    fn ready(self, stage: &Stage) -> Option<Debugger> {
        (self == Self::Debugger).then(|| Debugger::start(&stage.scene))
    }

    fn hold_by(self, debugger: Option<&mut Debugger>, victims: &[Found]) {
        match debugger {
            Some(debugger) => debugger.attach(victims),
            None => victims.iter().for_each(|found| found.send(Signal::STOP)),
        }
        wait_until("the victims are stopped", || victims.iter().all(Found::is_stopped));
    }

    /// Stops the victims. A debugger holds them until it is dropped.
    fn hold(self, stage: &Stage, victims: &[Found]) -> Option<Debugger> {
        let mut debugger = self.ready(stage);
        self.hold_by(debugger.as_mut(), victims);
        debugger
    }
}

#[test]
fn calls_in_flight_at_a_stopped_steward_get_an_error_and_their_sessions_go_on_with_another_steward() {
    let alone = HALTS.map(|halt| (halt, &[][..]));
    let with_pen = HALTS.map(|halt| (halt, &PEN[..]));
    in_parallel(alone.into_iter().chain(with_pen).collect(), |(halt, pen)| {
        let stage = Arc::new(Stage::new());
        // The journal names the front that ends the steward by its command line, which has a secret here.
        let options = [&["--label", "token=hunter2"], &STUBBORN[..]].concat();
        let mut callers = three(&stage, &options, &["--ignore-eof"]);
        let (old, watch) = (stage.child(), Watch::over(&stage));
        let asked = in_flight(&stage, &mut callers);
        let steward = stage.the(STEWARD);
        // The outermost process first: each one watches the next.
        let victims: Vec<_> = [steward.clone()].into_iter().chain(pen.iter().map(|name| stage.the(name))).collect();
        let debugger = halt.hold(&stage, &victims);
        let (since, mut told) = (Instant::now(), String::new());
        for (caller, ids) in callers.iter_mut().zip(asked) {
            for id in ids {
                let answer = caller.answer(id);
                assert_eq!(answer["error"]["code"], -32000, "{halt:?} {pen:?}: {answer}");
                told += &answer["error"]["message"].to_string();
            }
        }
        assert!(told.contains("was stopped (SIGSTOP or a debugger)"), "{halt:?} {pen:?}: {told}");
        assert!(since.elapsed() < NOTICED, "{halt:?} {pen:?}: {:?}", since.elapsed());
        for caller in &mut callers {
            let told = caller.who();
            assert!(!old.is_alive(), "{halt:?} {pen:?}: two children at once");
            assert_eq!(told["initialized"], true, "{halt:?} {pen:?}");
        }
        assert!(!steward.is_alive());
        assert_eq!(callers[0].who()["level"], "notice", "{halt:?} {pen:?}");
        let journal = stage.journal();
        assert!(
            journal.contains("stopping: its steward was stopped (SIGSTOP or a debugger)"),
            "{halt:?} {pen:?}: {journal}"
        );
        assert!(!journal.contains("hunter2"), "{halt:?} {pen:?} shows a secret: {journal}");
        for caller in &mut callers {
            assert_eq!(caller.unasked(), Vec::<Value>::new(), "{halt:?} {pen:?}");
        }
        watch.expect_one();
        callers.into_iter().for_each(release);
        // The debugger belongs to the scene, too.
        drop(debugger);
        stage.expect_over(2, NOT_LONG);
    });
}

#[test]
fn a_call_to_a_stopped_steward_and_a_new_session_that_it_should_serve_are_answered() {
    let scenes = [(Halt::Signal, &[STEWARD][..]), (Halt::Debugger, &[STEWARD]), (Halt::Signal, &[BROKER, STEWARD])];
    in_parallel(scenes.to_vec(), |(halt, whom)| {
        let stage = Arc::new(Stage::for_user(last_user()));
        let mut callers = three(&stage, &STUBBORN, &["--ignore-eof"]);
        let watch = Watch::over(&stage);
        let victims: Vec<_> = whom.iter().map(|name| stage.the(name)).collect();
        let debugger = halt.hold(&stage, &victims);
        let since = Instant::now();
        let id = callers[0].ask("who", json!({}));
        let mut fourth = stage.share(&STUBBORN, &["--ignore-eof"]);
        let answer = callers[0].answer(id);
        // By the shortcut, no process may have read the call, and then the next child is asked.
        let may_be_unread = std::env::var("NOSTRAY_SHORTCUT").as_deref() == Ok("always");
        let is_made = may_be_unread && answer.get("result").is_some();
        assert!(is_made || answer["error"]["code"] == -32000, "{halt:?} {whom:?}: {answer}");
        assert!(since.elapsed() < NOTICED, "{halt:?} {whom:?}: {:?}", since.elapsed());
        fourth.initialize();
        assert!(since.elapsed() < NOTICED, "{halt:?} {whom:?}: {:?}", since.elapsed());
        callers.push(fourth);
        let pids: Vec<_> = callers.iter_mut().map(Caller::pid).collect();
        assert!(pids.iter().all(|pid| *pid == pids[0]), "{halt:?} {whom:?}: {pids:?}");
        watch.expect_one();
        callers.into_iter().for_each(release);
        drop(debugger);
        stage.expect_over(2, NOT_LONG);
    });
}

/// A broker that SIGSTOP has stopped is continued, and costs no session anything. A broker that a debugger holds is
/// replaced.
#[test]
fn a_new_session_does_not_wait_for_a_stopped_broker() {
    in_parallel(HALTS.to_vec(), |halt| {
        let stage = Arc::new(Stage::new());
        let mut callers = three(&stage, &STUBBORN, &["--ignore-eof"]);
        let (watch, broker) = (Watch::over(&stage), stage.the(BROKER));
        let id = callers[0].ask("slow", json!({ "ms": 1000 }));
        let debugger = halt.hold(&stage, std::slice::from_ref(&broker));
        let since = Instant::now();
        let mut fourth = stage.shared(&STUBBORN, &["--ignore-eof"]);
        assert!(since.elapsed() < NOTICED, "{halt:?}: {:?}", since.elapsed());
        assert!(!fourth.errors().contains("child of its own"), "{halt:?}: {}", fourth.errors());
        let answer = callers[0].answer(id);
        assert!(answer.get("result").is_some(), "{halt:?}: {answer}");
        assert_eq!(broker.is_alive(), halt == Halt::Signal, "{halt:?}");
        let pid = fourth.pid();
        for caller in &mut callers {
            let same = (0..3).find_map(|_| caller.call("who", json!({}))["result"]["pid"].as_i64());
            assert_eq!(same, Some(pid), "{halt:?}");
        }
        stage.wait_for_leases(&[4]);
        watch.expect_one();
        callers.push(fourth);
        callers.into_iter().for_each(release);
        drop(debugger);
        stage.expect_over(if halt == Halt::Signal { 1 } else { 2 }, NOT_LONG);
    });
}

/// A broker that leaves does not listen any more, but still holds its lock, so that no next broker can start.
#[test]
fn a_new_session_does_not_wait_for_a_broker_that_is_stopped_while_it_leaves() {
    in_parallel(HALTS.to_vec(), |halt| {
        let stage = Stage::new();
        let options = ["--eof-grace", "150ms", "--term-grace", "3s", "--backoff", "1ms..20ms"];
        let mut first = stage.shared(&options, &["--ignore-eof"]);
        let (broker, socket) = (stage.the(BROKER), stage.scene.runtime().join("nostray/broker-1.sock"));
        let mut debugger = halt.ready(&stage);
        broker.send(Signal::TERM);
        wait_until("the broker leaves", || !socket.exists());
        halt.hold_by(debugger.as_mut(), std::slice::from_ref(&broker));
        let since = Instant::now();
        let mut second = stage.shared(&options, &["--ignore-eof"]);
        assert!(since.elapsed() < NOTICED, "{halt:?}: {:?}", since.elapsed());
        assert!(!second.errors().contains("child of its own"), "{halt:?}: {}", second.errors());
        assert!(!broker.is_alive(), "{halt:?}");
        assert_eq!(first.pid(), second.pid(), "{halt:?}");
        [first, second].into_iter().for_each(release);
        drop(debugger);
        stage.expect_over(2, NOT_LONG);
    });
}

#[test]
fn broker_stop_and_status_do_not_wait_for_a_stopped_broker_or_steward() {
    let scenes = [
        (Halt::Signal, &[STEWARD][..]),
        (Halt::Signal, &[BROKER, STEWARD]),
        (Halt::Debugger, &[STEWARD]),
        (Halt::Debugger, &[BROKER, STEWARD]),
    ];
    in_parallel(scenes.to_vec(), |(halt, whom)| {
        let stage = Stage::new();
        let mut callers = three(&stage, &STUBBORN, &["--ignore-eof"]);
        let (old, victims) = (stage.child(), whom.iter().map(|name| stage.the(name)).collect::<Vec<_>>());
        let debugger = halt.hold(&stage, &victims);
        let since = Instant::now();
        let status = stage.nostray(&["broker", "status"]);
        assert!(since.elapsed() < NOTICED, "{halt:?} {whom:?}: {:?}", since.elapsed());
        if whom.contains(&BROKER) {
            assert_eq!(status.status.code(), Some(2), "{halt:?}: {status:?}");
            let said = String::from_utf8_lossy(&status.stderr).into_owned();
            assert!(said.contains("is stopped (SIGSTOP or a debugger)"), "{halt:?}: {said}");
        } else {
            assert!(status.status.success(), "{halt:?}: {status:?}");
        }
        let since = Instant::now();
        let stop = stage.nostray(&["broker", "stop"]);
        assert!(stop.status.success(), "{halt:?} {whom:?}: {stop:?}");
        assert!(since.elapsed() < 2 * NOTICED, "{halt:?} {whom:?}: {:?}", since.elapsed());
        let left = stage.background();
        assert!(victims.iter().all(|victim| !victim.is_alive()) && !old.is_alive(), "{halt:?} {whom:?}: {left:#?}");
        if halt == Halt::Signal {
            assert!(left.is_empty() && stage.servers().is_empty(), "{halt:?} {whom:?}: {left:#?}");
        }
        // The sessions stay. Their next call starts the next child, unless it has been started already.
        for caller in &mut callers {
            let is_served = (0..3).any(|_| caller.call("who", json!({})).get("result").is_some());
            assert!(is_served, "{halt:?} {whom:?}: {}", stage.journal());
        }
        callers.into_iter().for_each(release);
        drop(debugger);
        stage.expect_over(2, NOT_LONG);
    });
}

/// No front watches the steward any more, so the broker has to.
#[test]
fn a_stopped_steward_without_sessions_leaves_no_process() {
    let stage = Stage::for_user(last_user());
    let caller = stage.shared(&STUBBORN, &["--ignore-eof"]);
    stage.the(STEWARD).send(Signal::STOP);
    release(caller);
    stage.expect_over(1, NOT_LONG);
}
