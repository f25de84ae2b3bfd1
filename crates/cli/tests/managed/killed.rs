//! nostray's own four processes around a supervised child are killed, one, two, three or all of them. As long as the managed front
//! lives, the session goes on with another child, which starts when nothing is left of the old one; without it, nothing stays.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use badchild::{Bystanders, Found, Over, PATIENCE, Scene, User, badchild, comes_true, wait_until};
use nostray_sys::Signal;
use nostray_sys::proc::environment_of;
use serde_json::json;
use testkit::stage::{Caller, Stage};
use testkit::{in_parallel, run_command};

const MANAGED: &str = "nostray";
const FRONT: &str = "nostray-front";
const SPARE: &str = "nostray-spare";
const GUARD: &str = "nostray-guard";

/// Random numbers that come again with the same seed.
struct Random(u64);

impl Random {
    fn new(seed: u64) -> Self {
        Self((seed + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15))
    }

    fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % bound
    }

    fn shuffle<T>(&mut self, those: &mut [T]) {
        for at in (1..those.len()).rev() {
            those.swap(at, self.below(at as u64 + 1) as usize);
        }
    }
}

fn own(scene: &Scene, name: &str) -> Option<Found> {
    scene.processes().into_iter().find(|found| found.stat.name == name)
}

/// A server that holds a lock for as long as anybody of its tree lives, and says so if somebody else had it.
fn start(stage: &Stage, options: &[&str], stubborn: bool) -> Caller {
    let mut caller = start_silent(stage, options, stubborn);
    caller.initialize();
    caller
}

fn start_silent(stage: &Stage, options: &[&str], stubborn: bool) -> Caller {
    let ignoring = if stubborn { "trap '' TERM INT HUP QUIT" } else { ":" };
    let script = format!("{ignoring}; exec 9>$0; flock -n 9 || echo two of them >>$1; shift; exec \"$@\"");
    let (lock, overlap, record) = (stage.file("lock"), stage.file("overlap"), stage.file("record"));
    let badchild = badchild().display().to_string();
    let mut command = vec!["sh", "-c", &script, &lock, &overlap, &badchild, "server", "--record", &record];
    if stubborn {
        command.push("--ignore-eof");
    }
    let mut options = [&["--respawn", "--backoff", "1ms..5ms", "--eof-grace", "100ms"], options].concat();
    if !options.contains(&"--term-grace") {
        options.extend(["--term-grace", "150ms"]);
    }
    stage.start_command(&options, &command)
}

/// The generations that somebody of the tree is of, at this moment.
fn generations(stage: &Stage) -> Vec<String> {
    let mark = |found: Found| environment_of(found.stat.pid, "NOSTRAY_PEN");
    let of = |mark: Vec<u8>| String::from_utf8_lossy(&mark).split('@').next().unwrap_or_default().to_owned();
    let mut all: Vec<String> = stage.trees().into_iter().filter_map(mark).map(of).collect();
    all.sort();
    all.dedup();
    all
}

#[derive(Debug)]
struct Cell {
    user: User,
    victims: Vec<&'static str>,
    stubborn: bool,
    kind: &'static str,
    isolated: bool,
}

/// Every set of those who keep the child, with the managed front alive.
fn cells() -> Vec<Cell> {
    let keepers = [FRONT, SPARE, GUARD];
    let mut cells = Vec::new();
    for set in 1..8usize {
        for (turn, user) in User::all().into_iter().enumerate() {
            for stubborn in [false, true] {
                let victims =
                    keepers.into_iter().enumerate().filter(|(at, _)| set >> at & 1 == 1).map(|(_, who)| who);
                let kind = ["daemon", "term-ignoring", "setsid", "plain"][(set + turn) % 4];
                cells.push(Cell {
                    user,
                    victims: victims.collect(),
                    stubborn,
                    kind,
                    isolated: (set + turn) % 3 == 0,
                });
            }
        }
    }
    cells
}

#[test]
fn whoever_keeps_the_child_is_killed_and_the_session_goes_on_with_one_more() {
    let bystanders = Bystanders::start(User::Current);
    let numbered: Vec<_> = cells().into_iter().enumerate().collect();
    in_parallel(numbered, |(seed, cell)| {
        let guard = std::panic::AssertUnwindSafe(|| goes_on(seed as u64, &cell));
        if let Err(panic) = std::panic::catch_unwind(guard) {
            let text = panic.downcast_ref::<String>().cloned().unwrap_or_default();
            panic!("seed {seed}, {cell:?}: {text}");
        }
    });
    bystanders.expect_untouched();
}

/// Its front does not know the guard by then, and ends it like any process of the tree; seen from a pid namespace, nobody has sent
/// that signal.
#[test]
fn a_spare_that_is_killed_in_the_first_moment_is_no_reason_to_stop() {
    in_parallel((0..30).collect(), |round| {
        let stage = Stage::new();
        let isolation: &[&str] = if round % 3 == 0 { &[] } else { &["--isolate", "pid"] };
        let mut caller = start_silent(&stage, isolation, false);
        wait_until("there is a guard", || own(&stage.scene, GUARD).is_some());
        let guard = own(&stage.scene, GUARD).expect("is there");
        // A guard that is slow sees both at once: that its spare is gone, and what its front has sent.
        let spare = own(&stage.scene, SPARE).expect("is there");
        spare.send(Signal::STOP);
        guard.send(Signal::STOP);
        spare.send(Signal::KILL);
        // What comes then is for the next one.
        let next = || own(&stage.scene, GUARD).is_some_and(|next| next.stat.pid != guard.stat.pid);
        wait_until("there is another guard", || !guard.is_alive() && next());
        caller.initialize();
        caller.who();
        caller.close();
        caller.code();
        stage.scene.expect_empty();
    });
}

fn goes_on(seed: u64, cell: &Cell) {
    let mut random = Random::new(seed);
    let stage = Stage::for_user(cell.user);
    let isolation: &[&str] = if cell.isolated { &["--isolate", "pid"] } else { &[] };
    let mut caller = start(&stage, isolation, cell.stubborn);
    caller.result("fork", json!({ "kind": cell.kind }));
    let old = stage.trees();
    let hanging = caller.ask("hang", json!({}));
    caller.who();
    let front = own(&stage.scene, MANAGED).expect("is there");
    let mut victims: Vec<_> = cell.victims.iter().map(|name| own(&stage.scene, name).expect("is there")).collect();
    random.shuffle(&mut victims);
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        // However this comes to its end: a scope waits for its threads also when it panics.
        let whoever_looks = Over(&done);
        scope.spawn(|| {
            while !done.load(Ordering::Relaxed) {
                let seen = generations(&stage);
                if seen.len() > 1 {
                    std::fs::write(stage.file("seen"), format!("{seen:?}")).expect("write");
                }
                // A look as often as the machine can would take the processor from those who are looked at.
                std::thread::sleep(Duration::from_millis(3));
            }
        });
        for (at, victim) in victims.iter().enumerate() {
            if at > 0 {
                // The time between two kills is what varies here.
                std::thread::sleep(Duration::from_micros(random.below(50_000)));
            }
            victim.send(Signal::KILL);
        }
        // Whatever it comes to: the old tree goes, and a new one answers.
        let answer = caller.answer(hanging);
        assert_eq!(answer["error"]["code"], -32000, "{answer}");
        // While the old tree goes down, calls wait for the new one.
        let pid = caller.pid();
        assert!(old.iter().all(|found| !found.is_alive()), "the old ones are there: {old:?}");
        assert!(cell.isolated || stage.trees().iter().any(|found| i64::from(found.stat.pid.as_raw_pid()) == pid));
        caller.who();
        drop(whoever_looks);
    });
    assert!(front.is_alive());
    assert_eq!(stage.lives().len(), 2, "not exactly one more");
    for evidence in ["overlap", "seen"] {
        let text = std::fs::read_to_string(stage.file(evidence)).unwrap_or_default();
        assert_eq!(text, "", "two generations at once");
    }
    assert_eq!(caller.unasked(), Vec::<serde_json::Value>::new());
    // It is one session, and what was killed has left nothing on record.
    wait_until("it is on record", || stage.states() == ["ready"]);
    let records = || {
        let entries = std::fs::read_dir(stage.scene.runtime().join("nostray")).expect("read").flatten();
        entries.filter(|entry| entry.path().extension().is_some_and(|kind| kind == "json")).count()
    };
    assert_eq!(records(), 2, "the session, and its child");
    caller.close();
    caller.code();
    stage.scene.expect_empty();
    assert_eq!(records(), 0);
    let groups = std::fs::read_dir("/sys/fs/cgroup").into_iter().flatten().flatten();
    let named = groups.filter(|entry| entry.file_name().to_string_lossy().starts_with("nostray-"));
    let id =
        stage.journal().split_whitespace().nth(1).unwrap_or_default().split('.').next().unwrap_or("?").to_owned();
    let left: Vec<_> = named.filter(|entry| entry.file_name().to_string_lossy().contains(&id)).collect();
    assert!(left.is_empty(), "{left:?}");
}

/// From the first microsecond on, with the managed front among those who are killed or not; but never all four.
#[test]
fn whoever_of_us_is_killed_whenever_nobody_is_left() {
    let bystanders = Bystanders::start(User::Current);
    in_parallel((0..60).collect(), |seed: u64| {
        let mut random = Random::new(seed);
        let users = User::all();
        let scene = Scene::new(users[random.below(users.len() as u64) as usize]);
        let kind = ["plain", "term-ignoring", "setsid", "daemon"][random.below(4) as usize];
        let manner = ["cooperative", "stubborn"][random.below(2) as usize];
        let options =
            ["--respawn", "--backoff", "1ms..20ms", "--eof-grace", "50ms", "--term-grace", "100ms", "--no-sweep"];
        let mut command = run_command(&scene, &options, &["tree", manner, kind]);
        let mut process =
            command.stdout(std::process::Stdio::null()).stderr(std::process::Stdio::null()).spawn().expect("start");
        if random.below(3) == 0 {
            pass(Duration::from_micros(random.below(20_000)));
            drop(process.stdin.take());
        }
        pass(Duration::from_micros(random.below(30_000)));
        let mut names = [MANAGED, FRONT, SPARE, GUARD];
        random.shuffle(&mut names);
        let count = 1 + random.below(3) as usize;
        for name in &names[..count] {
            scene.processes().iter().filter(|found| found.stat.name == *name).for_each(|it| it.send(Signal::KILL));
            pass(Duration::from_micros(random.below(50_000)));
        }
        drop(process.stdin.take());
        let ended = comes_true(PATIENCE, &mut || scene.processes().is_empty());
        assert!(ended, "seed {seed}, {manner} {kind}, {:?}: left are {:#?}", &names[..count], scene.processes());
        process.wait().expect("reap");
    });
    bystanders.expect_untouched();
}

/// Lets so much time pass, more exactly than a sleep would.
fn pass(time: Duration) {
    let start = Instant::now();
    while start.elapsed() < time {
        std::thread::yield_now();
    }
}

#[test]
fn a_killed_front_takes_its_tree_along_politely() {
    for user in User::all() {
        let stage = Stage::for_user(user);
        let mut caller = stage.start(&["--respawn"], &[]);
        caller.initialize();
        own(&stage.scene, MANAGED).expect("is there").send(Signal::KILL);
        stage.scene.expect_empty();
        assert!(stage.lives()[0].saw_the_end, "it was asked by the end of its input");
        let journal = stage.journal();
        assert!(!journal.contains("did not end when asked"), "{journal}");
        // What is left on record is swept.
        let swept = stage.nostray(&["sweep"]);
        assert!(swept.status.success(), "{swept:?}");
        assert_eq!(stage.states(), Vec::<String>::new());
    }
}

/// All four: nobody of ours is left. The next nostray that runs ends the tree.
#[test]
fn when_all_of_us_are_killed_the_next_command_sweeps() {
    for user in User::all() {
        for next in ["sweep", "run", "managed run"] {
            let stage = Stage::for_user(user);
            let mut caller = start(&stage, &["--no-sweep"], true);
            caller.result("fork", json!({ "kind": "daemon" }));
            let four = [MANAGED, FRONT, SPARE, GUARD].map(|name| own(&stage.scene, name).expect("is there"));
            four.iter().for_each(|found| found.send(Signal::STOP)); // so that none of them acts on the death of another
            four.iter().for_each(|found| found.send(Signal::KILL)); // the outermost first: the end of the others continues it
            wait_until("they are gone", || four.iter().all(|found| !found.is_alive()));
            let left = stage.trees();
            assert_eq!(left.len(), 2, "{left:?}");
            match next {
                "sweep" => assert!(stage.nostray(&["sweep"]).status.success()),
                "run" => {
                    let mut command = run_command(&stage.scene, &[], &["pause"]);
                    let mut process = command.spawn().expect("start");
                    wait_until("it has swept", || left.iter().all(|found| !found.is_alive()));
                    process.kill().expect("kill");
                    process.wait().expect("reap");
                }
                _ => {
                    // It looks a moment after its start.
                    let mut other = stage.start_command(&["--respawn"], &["cat"]);
                    wait_until("it has swept", || left.iter().all(|found| !found.is_alive()));
                    other.close();
                    other.code();
                }
            }
            stage.scene.expect_empty();
            wait_until("nothing is on record", || stage.states().is_empty());
        }
    }
}

/// Children from before are nobody's business, also when those who keep the child are killed beside them.
#[test]
fn beside_children_from_before_the_next_one_waits_for_the_last_one_all_the_same() {
    // Who of them has just ended when is a matter of luck, and of many tries.
    let all = [&[FRONT][..], &[FRONT, SPARE], &[FRONT, SPARE, GUARD]];
    in_parallel(all.into_iter().cycle().take(18).collect(), |victims: &[&str]| {
        let (stage, strangers) = (Stage::new(), Scene::new(User::Current));
        let sleeper = strangers.command(&badchild());
        let token =
            sleeper.get_envs().find_map(|(key, value)| (key == badchild::TOKEN).then_some(value?)).expect("set");
        let nostray = testkit::nostray().display().to_string();
        let script = format!(
            "{}={} {} pause >/dev/null 2>&1 & exec {nostray} run --respawn --backoff 1ms..5ms --eof-grace 100ms \
             --term-grace 300ms -- sh -c 'exec 9>$0; flock -n 9 || echo two >>$1; shift; exec \"$@\"' \"$@\"",
            badchild::TOKEN,
            token.display(),
            badchild().display(),
        );
        let badchild = badchild().display().to_string();
        let (lock, overlap, record) = (stage.file("lock"), stage.file("overlap"), stage.file("record"));
        let words = ["-c", &script, "bash", &lock, &overlap, &badchild, "server", "--record", &record];
        let mut caller = stage.start_plain("bash", &words);
        caller.initialize();
        caller.result("fork", json!({ "kind": "term-ignoring" }));
        let old = stage.trees();
        let found: Vec<_> = victims.iter().map(|name| own(&stage.scene, name).expect("is there")).collect();
        found.iter().for_each(|victim| victim.send(Signal::KILL));
        wait_until("another one", || stage.lives().len() == 2);
        caller.who();
        assert!(old.iter().all(|found| !found.is_alive()), "{victims:?}: the old ones are there: {old:?}");
        assert!(!std::path::Path::new(&overlap).exists(), "{victims:?}: two of them");
        caller.close();
        caller.code();
        stage.scene.expect_empty();
        assert_eq!(strangers.processes().len(), 1, "{victims:?}: a stranger was hit");
    });
}

/// Also while there is no child: a child from before that ends is not left unburied.
#[test]
fn nobody_is_left_unburied_while_the_child_is_asleep() {
    let stage = Stage::new();
    let nostray = testkit::nostray().display().to_string();
    let (badchild, record, file) = (badchild().display().to_string(), stage.file("record"), stage.file("go"));
    let script = "(until [ -e \"$0\" ]; do sleep 0.01; done) >/dev/null 2>&1 & exec \"$@\"";
    let mut words = vec!["-c", script, &file, &nostray, "run", "--hibernate", "50ms", "--eof-grace", "1s", "--"];
    words.extend([badchild.as_str(), "server", "--record", &record]);
    let mut caller = stage.start_plain("sh", &words);
    caller.initialize();
    wait_until("it sleeps", || stage.states() == ["asleep"]);
    let front = badchild::pid(i32::try_from(caller.process.id()).expect("small"));
    let children = || std::fs::read_to_string(format!("/proc/{front}/task/{front}/children")).expect("is there");
    wait_until("those who kept it are gone", || children().split_whitespace().count() == 1);
    std::fs::write(&file, "").expect("write");
    wait_until("it is buried", || children().is_empty());
    caller.end(&stage);
}

/// A front that has nothing to do but to wait for its orphans does nothing else.
#[test]
fn waiting_for_orphans_costs_nothing() {
    let stage = Stage::new();
    let mut caller = start(&stage, &["--term-grace", "5s"], true);
    caller.result("fork", json!({ "kind": "term-ignoring" }));
    let front = own(&stage.scene, MANAGED).expect("is there");
    let keepers = [FRONT, SPARE, GUARD].map(|name| own(&stage.scene, name).expect("is there"));
    keepers.iter().for_each(|found| found.send(Signal::STOP));
    keepers.iter().for_each(|found| found.send(Signal::KILL));
    wait_until("they are gone", || keepers.iter().all(|found| !found.is_alive()));
    wait_until("it has taken over", || stage.states() == ["stopping"]);
    let cpu = || nostray_sys::process::cpu_time(front.stat.pid).expect("is there");
    let (before, began) = (cpu(), Instant::now());
    // The grace of those who are left: time is what this is about.
    std::thread::sleep(Duration::from_millis(800));
    let (used, time) = (cpu() - before, began.elapsed().as_nanos());
    assert!(u128::from(used) * 20 < time, "used {used} ns of {time}");
    caller.who();
    assert_eq!(stage.lives().len(), 2);
    caller.close();
    caller.code();
    stage.scene.expect_empty();
}

/// Fork storms whose every keeper was killed, which only the managed front can end.
#[test]
fn a_fork_storm_ends_that_nobody_keeps_any_more() {
    for user in User::all() {
        let stage = Stage::for_user(user);
        let options = ["--backoff", "1h..1h", "--eof-grace", "50ms", "--term-grace", "50ms"];
        let mut caller = stage.start_command(&options, &[&badchild().display().to_string(), "storm", "10"]);
        wait_until("it storms", || stage.printed().contains("ready"));
        let own = stage.own();
        for name in [GUARD, SPARE, FRONT] {
            own.iter().filter(|found| found.stat.name == name).for_each(|it| it.send(Signal::KILL));
        }
        wait_until("only the front is left", || {
            stage.scene.processes().iter().all(|found| found.stat.name == MANAGED)
        });
        caller.close();
        caller.code();
        stage.scene.expect_empty();
    }
}
