//! No process of a supervised child's tree is left, no other process is touched, and no child is started for a host
//! that has gone: for every way in which a host can end, in every state of the child, as root and as an unprivileged
//! user.

use std::io::Read;
use std::os::fd::AsFd;
use std::process::Stdio;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use badchild::{Bystanders, Found, Host, PATIENCE, User, badchild, wait_until};
use nostray_sys::Signal;
use nostray_sys::stream::Sink;
use testkit::stage::Stage;
use testkit::{GRACES, in_parallel, nostray};

#[derive(Debug, Clone, Copy, PartialEq)]
enum Event {
    StdinClosed,
    SocketClosed,
    LeakedStdinClosed,
    HostExits,
    HostKilled,
    HostKilledWhileAnotherHoldsThePipe,
    Signal(Signal),
    TwoSignals,
    FrontKilled,
    Stop,
}

const EVENTS: [Event; 13] = [
    Event::StdinClosed,
    Event::SocketClosed,
    Event::LeakedStdinClosed,
    Event::HostExits,
    Event::HostKilled,
    Event::HostKilledWhileAnotherHoldsThePipe,
    Event::Signal(Signal::TERM),
    Event::Signal(Signal::INT),
    Event::Signal(Signal::HUP),
    Event::Signal(Signal::QUIT),
    Event::TwoSignals,
    Event::FrontKilled,
    Event::Stop,
];

/// The state of the child when the event happens.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Moment {
    Starting,
    Ready,
    GoingToSleep,
    Asleep,
    /// The child has ended, and its descendants have not yet.
    Falling,
    BackingOff,
    Tripped,
}

const MOMENTS: [Moment; 7] = [
    Moment::Starting,
    Moment::Ready,
    Moment::GoingToSleep,
    Moment::Asleep,
    Moment::Falling,
    Moment::BackingOff,
    Moment::Tripped,
];

#[derive(Debug)]
struct Cell {
    user: User,
    event: Event,
    moment: Moment,
    stubborn: bool,
    kind: &'static str,
    isolated: bool,
}

/// Each event at each moment. The kinds of child take turns; the other user gets other combinations.
fn cells(user: User) -> Vec<Cell> {
    let kinds = ["plain", "term-ignoring", "setsid", "daemon"];
    let mut turn = usize::from(user == User::Nobody);
    let mut cells = Vec::new();
    for moment in MOMENTS {
        for event in EVENTS {
            let (stubborn, kind) = (turn / 4 % 2 == 0, kinds[turn % 4]);
            cells.push(Cell { user, event, moment, stubborn, kind, isolated: turn % 5 == 0 });
            turn += 1;
        }
    }
    cells
}

#[test]
fn the_tree_is_gone_and_no_other_process_is_touched() {
    let bystanders = Bystanders::start(User::Current);
    in_parallel(cells(User::Current), play);
    bystanders.expect_untouched();
}

#[test]
fn the_tree_is_gone_and_no_other_process_is_touched_as_an_unprivileged_user() {
    if !User::all().contains(&User::Nobody) {
        return; // the test above ran as an unprivileged user
    }
    let bystanders = Bystanders::start(User::Nobody);
    in_parallel(cells(User::Nobody), play);
    bystanders.expect_untouched();
}

fn play(cell: Cell) {
    let guard = std::panic::AssertUnwindSafe(|| play_it(&cell));
    if let Err(panic) = std::panic::catch_unwind(guard) {
        let text = panic.downcast_ref::<String>().cloned().unwrap_or_default();
        panic!("{cell:?}: {text}");
    }
}

fn play_it(cell: &Cell) {
    let stage = Stage::for_user(cell.user);
    let (mut host, front) = start(&stage, cell);
    reach(&stage, cell, &mut host);
    let before = stage.lives().len();
    happen(&stage, cell.event, &mut host, &front);
    // The host belongs to the scene, and some events leave it alive.
    host.order("exit");
    stage.scene.expect_empty_within(PATIENCE);
    host.expect_friend_untouched();
    assert_eq!(stage.lives().len(), before, "a child was started");
}

/// A host with a supervised server. The backoff is so long that the server is not restarted within this test, but for its first crash.
fn start(stage: &Stage, cell: &Cell) -> (Host, Found) {
    let mut words = vec![nostray().display().to_string()];
    words.extend(["run", "--backoff", "1h..1h"].iter().chain(&GRACES).map(|word| (*word).to_owned()));
    let options: &[&str] = match cell.moment {
        Moment::GoingToSleep | Moment::Asleep => &["--hibernate", "30ms"],
        Moment::Tripped => &["--max-failures", "1/1h"],
        _ => &[],
    };
    words.extend(options.iter().map(|word| (*word).to_owned()));
    if cell.isolated {
        words.extend(["--isolate", "pid"].map(str::to_owned));
    }
    let ignoring = if cell.stubborn { "trap '' TERM INT HUP QUIT;" } else { "" };
    words.extend(["--", "sh", "-c", &format!("{ignoring} exec \"$@\""), "sh"].map(str::to_owned));
    words.extend([
        badchild().display().to_string(),
        "server".to_owned(),
        "--record".to_owned(),
        stage.file("record"),
    ]);
    let server: &[&str] = match cell.moment {
        Moment::Starting => &["--start-delay", "600000"],
        Moment::BackingOff | Moment::Tripped => &["--exit-at-once", "3"],
        _ if cell.stubborn => &["--ignore-eof"],
        _ => &[],
    };
    words.extend(server.iter().map(|word| (*word).to_owned()));
    let options: &[&str] = match cell.event {
        Event::SocketClosed => &["--stdin", "socket"],
        Event::LeakedStdinClosed => &["--leak"],
        Event::HostKilledWhileAnotherHoldsThePipe => &["--hold"],
        _ => &[],
    };
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let mut host = Host::start(&stage.scene, options, &words);
    let line = host.line();
    let number = line.strip_prefix("front ").and_then(|number| number.parse().ok()).expect("the front's number");
    (host, Found::by_pid(badchild::pid(number)).expect("is there"))
}

fn ask(host: &mut Host, method: &str, params: &str) {
    host.say(&format!(r#"{{"jsonrpc":"2.0","id":1,"method":"{method}","params":{params}}}"#));
    let answer = host.line();
    assert!(answer.contains(r#""id":1"#), "{method}: {answer}");
}

fn reach(stage: &Stage, cell: &Cell, host: &mut Host) {
    let only_fronts = || stage.scene.processes().len() == 2;
    match cell.moment {
        Moment::Starting => wait_until("the child has started", || stage.lives().len() == 1),
        Moment::Ready | Moment::GoingToSleep | Moment::Asleep | Moment::Falling => {
            ask(host, "initialize", r#"{"protocolVersion":"2025-06-18","capabilities":{}}"#);
            if cell.moment == Moment::Falling {
                // After the first crash the server is restarted at once, whatever the backoff.
                ask(host, "die", "{}");
            }
            ask(host, "fork", &format!(r#"{{"kind":"{}"}}"#, cell.kind));
        }
        Moment::BackingOff | Moment::Tripped => {
            wait_until("the child has started", || stage.lives().len() == 1);
            wait_until("the tree is empty", only_fronts);
        }
    }
    match cell.moment {
        Moment::GoingToSleep => {
            // On a busy machine the child's graces may be over before it has seen the end of its input.
            let is_going = || stage.lives().last().is_some_and(|life| life.saw_the_end);
            wait_until("the child is put to sleep", || is_going() || only_fronts())
        }
        Moment::Asleep => wait_until("the child is asleep", only_fronts),
        Moment::Falling => ask(host, "die", "{}"),
        _ => {}
    }
}

fn happen(stage: &Stage, event: Event, host: &mut Host, front: &Found) {
    match event {
        Event::StdinClosed | Event::SocketClosed | Event::LeakedStdinClosed => host.order("close"),
        Event::HostExits => return host.order("exit"),
        Event::HostKilled | Event::HostKilledWhileAnotherHoldsThePipe => return host.kill(),
        Event::Signal(signal) => front.send(signal),
        Event::TwoSignals => {
            front.send(Signal::TERM);
            // Two signals in quick succession count as one request.
            std::thread::sleep(Duration::from_millis(60));
            front.send(Signal::TERM);
        }
        Event::FrontKilled => front.send(Signal::KILL),
        Event::Stop => {
            let output = stage.nostray(&["stop", "--all"]);
            assert!(output.status.success(), "{output:?}");
        }
    }
    // The host lives and holds the pipe, so only this event can end the tree.
    wait_until("only the host is left", || stage.scene.processes().len() <= 1);
}

/// A host ends at a random moment while its child keeps ending and is restarted again and again.
#[test]
fn nothing_is_started_after_the_host_has_gone() {
    in_parallel((0..24).collect(), |round: u64| {
        let stage = Stage::new();
        let words = [nostray().display().to_string(), badchild().display().to_string()];
        let mut command = vec![words[0].as_str(), "run", "--backoff", "1ms..7ms", "--max-failures", "1000/1s"];
        let (record, hold) = (stage.file("record"), round.is_multiple_of(2));
        command.extend(["--", &words[1], "server", "--record", &record, "--exit-at-once", "1"]);
        let mut host = Host::start(&stage.scene, if hold { &["--hold"] } else { &[] }, &command);
        wait_until("the child has been restarted a few times", || stage.lives().len() > 3);
        // Any moment between two starts.
        std::thread::sleep(Duration::from_micros(round * 731));
        host.kill();
        let gone = SystemTime::now().duration_since(UNIX_EPOCH).expect("a clock").as_millis();
        let ended = Instant::now();
        stage.scene.expect_empty();
        assert!(ended.elapsed() < Duration::from_secs(15), "took {:?}", ended.elapsed());
        // A child that was being started when the host ended may take a moment until it records its start.
        let late: Vec<_> = stage.lives().into_iter().filter(|life| u128::from(life.started) > gone).collect();
        assert!(late.len() <= 1, "children were started after the host had gone: {late:?}");
    });
}

/// The tree ends when its graces are over, not at some later time.
#[test]
fn a_stubborn_tree_is_gone_when_its_graces_are_over() {
    for user in User::all() {
        let stage = Stage::for_user(user);
        let cell = Cell {
            user,
            event: Event::HostKilled,
            moment: Moment::Ready,
            stubborn: true,
            kind: "daemon",
            isolated: false,
        };
        let (mut host, _) = start(&stage, &cell);
        reach(&stage, &cell, &mut host);
        let began = Instant::now();
        host.kill();
        stage.scene.expect_empty();
        let took = began.elapsed();
        assert!(took >= Duration::from_millis(350), "its graces were cut: {took:?}");
        // 350 ms of graces, and time for a busy machine.
        assert!(took < Duration::from_secs(15), "{took:?}");
    }
}

/// A host closes its end, or signals the front, and reads nothing: the front does not wait for the host for ever.
#[test]
fn a_host_that_does_not_read_does_not_keep_its_front() {
    for how in ["close", "term"] {
        let stage = Stage::new();
        let mut caller = stage.start(&["--respawn", "--eof-grace", "200ms", "--term-grace", "200ms"], &[]);
        caller.initialize();
        caller.pause(true);
        for _ in 0..40 {
            caller.ask("big", serde_json::json!({ "bytes": 60_000 }));
        }
        wait_until("the child has read some calls", || stage.lives()[0].heard.len() > 10);
        if how == "close" {
            caller.close();
        } else {
            Found::by_pid(badchild::pid(i32::try_from(caller.process.id()).expect("small")))
                .expect("is there")
                .send(Signal::TERM);
        }
        wait_until("no process is left", || stage.scene.processes().is_empty());
    }
}

/// The child does not read. The host writes more than the buffers hold, and closes its end.
#[test]
fn a_child_that_does_not_read_does_not_hide_that_its_host_has_closed() {
    let stage = Stage::new();
    let mut caller = stage.start(&["--respawn", "--eof-grace", "150ms", "--term-grace", "150ms"], &[]);
    caller.initialize();
    caller.result("stop-reading", serde_json::json!({ "file": stage.file("never") }));
    let text = "y".repeat(64 << 10);
    let line = format!("{{\"jsonrpc\":\"2.0\",\"id\":9,\"method\":\"echo\",\"params\":[\"{text}\"]}}\n");
    let (stdin, text, mut written) = (caller.take_stdin(), line.repeat(100), 0);
    let takes = |written: &mut usize| {
        let count = Sink::Pipe.write(stdin.as_fd(), &text.as_bytes()[*written..]).expect("write");
        *written += count;
        count > 0
    };
    // Write until nostray takes no more for a while.
    while badchild::comes_true(Duration::from_millis(300), &mut || takes(&mut written)) {}
    assert!(written < text.len(), "nostray took all of it");
    drop(stdin);
    wait_until("no process is left", || stage.scene.processes().is_empty());
}

/// The launcher of nostray is gone before nostray runs, while this test holds nostray's stdin.
#[test]
fn an_orphan_starts_nothing() {
    for user in User::all() {
        let stage = Stage::for_user(user);
        let me = badchild().display().to_string();
        let nostray = nostray().display().to_string();
        let mut command = stage.scene.command(me.as_ref());
        command.args(["leader", "--", &me, "after-parent", "--", &nostray, "run", "--respawn", "--", &me, "server"]);
        command.args(["--record", &stage.file("record")]);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut process = command.spawn().expect("start");
        let _held = process.stdin.take();
        process.wait().expect("the launcher ends at once");
        stage.scene.expect_empty();
        let mut said = String::new();
        process.stderr.take().expect("piped").read_to_string(&mut said).expect("read");
        assert!(said.contains("nostray: the host that started this command had already ended"), "said: {said}");
        assert!(stage.lives().is_empty());
    }
}

/// The process named by `--die-with` ends. The session ends with it, in every state of the child.
#[test]
fn the_end_of_a_named_process_ends_the_session() {
    for state in ["ready", "asleep", "backing-off"] {
        let (stage, named) = (Stage::new(), Bystander::start());
        let number = named.0.id().to_string();
        let mut options = vec!["--backoff", "1h..1h", "--eof-grace", "100ms", "--die-with", &number];
        if state == "asleep" {
            options.extend(["--hibernate", "50ms"]);
        }
        let server: &[&str] = if state == "backing-off" { &["--exit-at-once", "3"] } else { &[] };
        let mut caller = stage.start(&options, server);
        if state != "backing-off" {
            caller.initialize();
        }
        wait_until(state, || stage.states() == [state]);
        let lives = stage.lives().len();
        drop(named);
        caller.code();
        stage.scene.expect_empty();
        assert_eq!(stage.lives().len(), lives, "{state}");
    }
}

/// A process that ends when the value is dropped.
struct Bystander(std::process::Child);

impl Bystander {
    fn start() -> Self {
        Self(std::process::Command::new("sleep").arg("1000").spawn().expect("start"))
    }
}

impl Drop for Bystander {
    fn drop(&mut self) {
        self.0.kill().ok();
        self.0.wait().ok();
    }
}

/// A pen in a pen, both supervised: each front restarts its own child, and the inner pen ends with the outer one.
#[test]
fn a_supervised_child_inside_a_supervised_child_goes_with_it() {
    let stage = Stage::new();
    let (nostray, me, record) =
        (nostray().display().to_string(), badchild().display().to_string(), stage.file("record"));
    let inner =
        [nostray.as_str(), "run", "--respawn", "--backoff", "1ms..5ms", "--eof-grace", "100ms", "--term-grace"];
    let command = [&inner[..], &["100ms", "--", &me, "server", "--record", &record]].concat();
    let mut caller = stage.start_command(&["--respawn", "--backoff", "1ms..5ms", "--eof-grace", "300ms"], &command);
    caller.initialize();
    stage.child().send(Signal::KILL);
    wait_until("the inner front has restarted its child", || stage.lives().len() == 2);
    caller.who();
    assert_eq!(stage.states().len(), 2);
    // The outer front's child is the inner front.
    let front = Found::by_pid(badchild::pid(i32::try_from(caller.process.id()).expect("small"))).expect("is there");
    front.send(Signal::KILL);
    stage.scene.expect_empty();
    assert_eq!(stage.lives().len(), 2);
}
