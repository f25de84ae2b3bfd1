//! Tests kill one, two, three or all of the four nostray processes around a supervised child. While the managed front
//! lives, the session goes on with the next child, which starts when the old tree is empty. Without the managed front,
//! no process stays.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use badchild::random::Random;
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

fn shuffle<T>(random: &mut Random, all: &mut [T]) {
    for at in (1..all.len()).rev() {
        all.swap(at, random.index(at + 1));
    }
}

fn own(scene: &Scene, name: &str) -> Option<Found> {
    scene.processes().into_iter().find(|found| found.stat.name == name)
}

/// A session whose server holds a lock for as long as a process of its tree lives, and reports if another tree holds
/// it.
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

/// The generations that have a live process at this moment.
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

/// Every set of keepers as victims; the managed front lives.
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
fn any_keepers_are_killed_and_the_session_goes_on_with_exactly_one_more_child() {
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

/// The pen's front does not know the guard yet, and ends it like any process of the tree. In a pid namespace, the guard
/// cannot see which process sent that signal.
#[test]
fn a_spare_that_is_killed_in_the_first_moment_is_no_reason_to_stop() {
    in_parallel((0..30).collect(), |round| {
        let stage = Stage::new();
        let isolation: &[&str] = if round % 3 == 0 { &[] } else { &["--isolate", "pid"] };
        let mut caller = start_silent(&stage, isolation, false);
        wait_until("there is a guard", || own(&stage.scene, GUARD).is_some());
        let guard = own(&stage.scene, GUARD).expect("is there");
        // Stop the guard, so that it later sees both at once: the end of its spare, and the signal of the front.
        let spare = own(&stage.scene, SPARE).expect("is there");
        spare.send(Signal::STOP);
        guard.send(Signal::STOP);
        spare.send(Signal::KILL);
        // The handshake below is for the next child.
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
    shuffle(&mut random, &mut victims);
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        // Ends the watching thread also after a panic, because the scope waits for its threads.
        let end_of_watch = Over(&done);
        scope.spawn(|| {
            while !done.load(Ordering::Relaxed) {
                let seen = generations(&stage);
                if seen.len() > 1 {
                    std::fs::write(stage.file("seen"), format!("{seen:?}")).expect("write");
                }
                // Without this pause, the watching thread takes the CPU from the processes that it watches.
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
        // In every case the old tree ends, and the next child answers.
        let answer = caller.answer(hanging);
        assert_eq!(answer["error"]["code"], -32000, "{answer}");
        // While the old tree ends, calls wait for the next child.
        let pid = caller.pid();
        assert!(old.iter().all(|found| !found.is_alive()), "processes of the old tree live: {old:?}");
        assert!(cell.isolated || stage.trees().iter().any(|found| i64::from(found.stat.pid.as_raw_pid()) == pid));
        caller.who();
        drop(end_of_watch);
    });
    assert!(front.is_alive());
    assert_eq!(stage.lives().len(), 2, "not exactly one more child was started");
    for evidence in ["overlap", "seen"] {
        let text = std::fs::read_to_string(stage.file(evidence)).unwrap_or_default();
        assert_eq!(text, "", "two generations at once");
    }
    assert_eq!(caller.unasked(), Vec::<serde_json::Value>::new());
    // There is one session, and the killed keepers have left no record.
    wait_until("the next child is on record", || stage.states() == ["ready"]);
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

/// Kills one to three of the four nostray processes, at any moment from the start on.
#[test]
fn no_process_is_left_when_up_to_three_nostray_processes_are_killed_at_any_moment() {
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
        shuffle(&mut random, &mut names);
        let count = 1 + random.below(3) as usize;
        for name in &names[..count] {
            scene.processes().iter().filter(|found| found.stat.name == *name).for_each(|it| it.send(Signal::KILL));
            pass(Duration::from_micros(random.below(50_000)));
        }
        drop(process.stdin.take());
        let ended = comes_true(PATIENCE, &mut || scene.processes().is_empty());
        assert!(
            ended,
            "seed {seed}, {manner} {kind}, {:?}: these processes are left: {:#?}",
            &names[..count],
            scene.processes()
        );
        process.wait().expect("reap");
    });
    bystanders.expect_untouched();
}

/// Waits for this time, more exactly than a sleep.
fn pass(time: Duration) {
    let start = Instant::now();
    while start.elapsed() < time {
        std::thread::yield_now();
    }
}

#[test]
fn the_tree_of_a_killed_front_ends_by_the_end_of_its_input() {
    for user in User::all() {
        let stage = Stage::for_user(user);
        let mut caller = stage.start(&["--respawn"], &[]);
        caller.initialize();
        own(&stage.scene, MANAGED).expect("is there").send(Signal::KILL);
        stage.scene.expect_empty();
        assert!(stage.lives()[0].saw_the_end, "the child must see the end of its input");
        let journal = stage.journal();
        assert!(!journal.contains("did not end when asked"), "{journal}");
        // A sweep drops the record that is left.
        let swept = stage.nostray(&["sweep"]);
        assert!(swept.status.success(), "{swept:?}");
        assert_eq!(stage.states(), Vec::<String>::new());
    }
}

/// All four nostray processes are killed. The next nostray command ends the tree.
#[test]
fn when_all_nostray_processes_are_killed_the_next_command_sweeps() {
    for user in User::all() {
        for next in ["sweep", "run", "managed run"] {
            let stage = Stage::for_user(user);
            let mut caller = start(&stage, &["--no-sweep"], true);
            caller.result("fork", json!({ "kind": "daemon" }));
            let four = [MANAGED, FRONT, SPARE, GUARD].map(|name| own(&stage.scene, name).expect("is there"));
            four.iter().for_each(|found| found.send(Signal::STOP)); // so that none acts on the death of another
            four.iter().for_each(|found| found.send(Signal::KILL)); // outermost first: the end of the others continues it
            wait_until("all four are gone", || four.iter().all(|found| !found.is_alive()));
            let left = stage.trees();
            assert_eq!(left.len(), 2, "{left:?}");
            match next {
                "sweep" => assert!(stage.nostray(&["sweep"]).status.success()),
                "run" => {
                    let mut command = run_command(&stage.scene, &[], &["pause"]);
                    let mut process = command.spawn().expect("start");
                    wait_until("the tree is swept", || left.iter().all(|found| !found.is_alive()));
                    process.kill().expect("kill");
                    process.wait().expect("reap");
                }
                _ => {
                    // A managed front sweeps a moment after its start.
                    let mut other = stage.start_command(&["--respawn"], &["cat"]);
                    wait_until("the tree is swept", || left.iter().all(|found| !found.is_alive()));
                    other.close();
                    other.code();
                }
            }
            stage.scene.expect_empty();
            wait_until("nothing is on record", || stage.states().is_empty());
        }
    }
}

/// The process had a child of its own before it became nostray. The front leaves that child alone, also when keepers
/// are killed.
#[test]
fn beside_an_earlier_child_of_the_process_the_next_child_waits_for_the_old_tree() {
    // The order in which the victims end varies, so try many times.
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
        wait_until("the next child has started", || stage.lives().len() == 2);
        caller.who();
        assert!(old.iter().all(|found| !found.is_alive()), "{victims:?}: processes of the old tree live: {old:?}");
        assert!(!std::path::Path::new(&overlap).exists(), "{victims:?}: two trees at once");
        caller.close();
        caller.code();
        stage.scene.expect_empty();
        assert_eq!(strangers.processes().len(), 1, "{victims:?}: the earlier child was ended");
    });
}

/// Also while the supervised child sleeps, the front reaps a child that the process had before it became nostray.
#[test]
fn an_earlier_child_of_the_process_is_reaped_while_the_supervised_child_is_asleep() {
    let stage = Stage::new();
    let nostray = testkit::nostray().display().to_string();
    let (badchild, record, file) = (badchild().display().to_string(), stage.file("record"), stage.file("go"));
    let script = "(until [ -e \"$0\" ]; do sleep 0.01; done) >/dev/null 2>&1 & exec \"$@\"";
    let mut words = vec!["-c", script, &file, &nostray, "run", "--hibernate", "50ms", "--eof-grace", "1s", "--"];
    words.extend([badchild.as_str(), "server", "--record", &record]);
    let mut caller = stage.start_plain("sh", &words);
    caller.initialize();
    wait_until("the child is asleep", || stage.states() == ["asleep"]);
    let front = badchild::pid(i32::try_from(caller.process.id()).expect("small"));
    let children = || std::fs::read_to_string(format!("/proc/{front}/task/{front}/children")).expect("is there");
    wait_until("the keepers are gone", || children().split_whitespace().count() == 1);
    std::fs::write(&file, "").expect("write");
    wait_until("the earlier child is reaped", || children().is_empty());
    caller.end(&stage);
}

/// A front that only waits for its orphans uses next to no CPU time.
#[test]
fn a_front_that_waits_for_orphans_uses_no_cpu_time() {
    let stage = Stage::new();
    let mut caller = start(&stage, &["--term-grace", "5s"], true);
    caller.result("fork", json!({ "kind": "term-ignoring" }));
    let front = own(&stage.scene, MANAGED).expect("is there");
    let keepers = [FRONT, SPARE, GUARD].map(|name| own(&stage.scene, name).expect("is there"));
    keepers.iter().for_each(|found| found.send(Signal::STOP));
    keepers.iter().for_each(|found| found.send(Signal::KILL));
    wait_until("the keepers are gone", || keepers.iter().all(|found| !found.is_alive()));
    wait_until("the managed front has taken over", || stage.states() == ["stopping"]);
    let cpu = || nostray_sys::process::cpu_time(front.stat.pid).expect("is there");
    let (before, began) = (cpu(), Instant::now());
    // The orphans' grace runs during this time, in which the test measures the CPU time.
    std::thread::sleep(Duration::from_millis(800));
    let (used, time) = (cpu() - before, began.elapsed().as_nanos());
    assert!(u128::from(used) * 20 < time, "used {used} ns of {time}");
    caller.who();
    assert_eq!(stage.lives().len(), 2);
    caller.close();
    caller.code();
    stage.scene.expect_empty();
}

/// All keepers of a fork storm are killed. Only the managed front can end it.
#[test]
fn a_fork_storm_without_keepers_ends() {
    for user in User::all() {
        let stage = Stage::for_user(user);
        let options = ["--backoff", "1h..1h", "--eof-grace", "50ms", "--term-grace", "50ms"];
        let mut caller = stage.start_command(&options, &[&badchild().display().to_string(), "storm", "10"]);
        wait_until("the storm has begun", || stage.printed().contains("ready"));
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
