//! `nostray log`: for a person at a terminal, for scripts, for one session, and as it goes on.

use std::fs::File;
use std::io::{BufRead, BufReader, Lines, Read};
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Output, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use badchild::{Found, PATIENCE, Scene, User, open_terminal, wait_until};
use nostray_registry::{Journal, Place, Story};
use testkit::stage::{Caller, Stage};
use testkit::{nostray, run_command};

fn log(scene: &Scene, words: &[&str]) -> Output {
    scene.command(&nostray()).arg("log").args(words).stdin(Stdio::null()).output().expect("run nostray")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Runs a child that ends at once.
fn run(scene: &Scene, options: &[&str]) {
    let mut command = run_command(scene, options, &["exit", "3"]);
    assert_eq!(command.stdin(Stdio::null()).status().expect("run").code(), Some(3));
}

/// What `nostray log` shows on a terminal, three and a half hours ahead of UTC.
fn on_terminal(scene: &Scene, words: &[&str], variables: &[(&str, &str)]) -> String {
    let (master, path) = open_terminal().expect("a terminal");
    let terminal = || File::options().read(true).write(true).open(&path).expect("open");
    let mut command = scene.command(&nostray());
    command.arg("log").args(words).stdin(Stdio::null()).stdout(terminal()).stderr(terminal());
    command.env("TZ", "TST-03:30").env("TERM", "xterm").env_remove("NO_COLOR");
    command.envs(variables.iter().copied());
    let mut process = command.spawn().expect("start");
    drop(command);
    let mut shown = Vec::new();
    let mut buffer = [0; 4096];
    // The end of a terminal is an error.
    while let Ok(count @ 1..) = File::from(master.try_clone().expect("again")).read(&mut buffer) {
        shown.extend_from_slice(&buffer[..count]);
    }
    assert!(process.wait().expect("reap").success());
    text(&shown).replace("\r\n", "\n")
}

#[test]
fn a_person_sees_local_time_and_colours_and_a_script_sees_utc_and_none() {
    let scene = Scene::apart(User::Current);
    run(&scene, &[]);
    let piped = text(&log(&scene, &[]).stdout);
    let ahead = scene.command(&nostray()).arg("log").env("TZ", "TST-03:30").output().expect("run");
    assert_eq!(text(&ahead.stdout), piped, "a script sees the same in every zone");
    assert!(!piped.contains('\x1b'), "{piped:?}");
    let times = |text: &str| text.lines().map(|line| line.split("  ").next().expect("a time").to_owned()).collect();
    let in_utc: Vec<String> = times(&piped);
    assert!(in_utc.iter().all(|time| time.ends_with('Z')), "{piped}");

    let plain = on_terminal(&scene, &[], &[("NO_COLOR", "1")]);
    assert!(!plain.contains('\x1b'), "{plain:?}");
    let local: Vec<String> = times(&plain);
    for (local, utc) in local.iter().zip(&in_utc) {
        let hours = |time: &str| -> i64 {
            let clock = time.split('T').nth(1).expect("a clock");
            clock[..2].parse::<i64>().expect("hours") * 60 + clock[3..5].parse::<i64>().expect("minutes")
        };
        assert!(local.ends_with("+03:30"), "{local}");
        assert_eq!((hours(local) - hours(utc)).rem_euclid(24 * 60), 210, "{local} {utc}");
    }
    let words = |text: &str| -> Vec<String> {
        text.lines().map(|line| line.split_once("  ").expect("a time").1.to_owned()).collect()
    };
    assert_eq!(words(&plain), words(&piped));
    let utc = on_terminal(&scene, &["--utc"], &[("NO_COLOR", "1")]);
    assert_eq!(utc, piped);

    let coloured = on_terminal(&scene, &["--utc"], &[]);
    for part in ["\x1b[2m20", "\x1b[36mstarted\x1b[0m: ", "\x1b[32mready\x1b[0m: child ", "\x1b[31mthe child exited"]
    {
        assert!(coloured.contains(part), "{part:?} is not in {coloured:?}");
    }
    let mut without = coloured.clone();
    for number in [0, 1, 2, 31, 32, 33, 36] {
        without = without.replace(&format!("\x1b[{number}m"), "");
    }
    assert_eq!(without, piped, "colours change nothing else");
    assert_eq!(on_terminal(&scene, &["--utc"], &[("TERM", "dumb")]), piped);
}

/// What a person sees can be given to `--since`.
#[test]
fn since_takes_a_moment_as_it_is_shown() {
    let scene = Scene::apart(User::Current);
    run(&scene, &[]);
    let shown = on_terminal(&scene, &[], &[("NO_COLOR", "1")]);
    let first = shown.split("  ").next().expect("a time");
    let piped = text(&log(&scene, &[]).stdout);
    assert_eq!(text(&log(&scene, &["--since", first]).stdout), piped);
    assert_eq!(text(&log(&scene, &["--since", "2100-01-01T00:00:00+03:30"]).stdout), "");
    let wrong = log(&scene, &["--since", "2026-01-31T00:00:00+3"]);
    assert_eq!(wrong.status.code(), Some(2), "{wrong:?}");
}

#[test]
fn a_session_has_the_entries_of_its_own_children_and_of_shared_ones() {
    let stage = Stage::new();
    let scene = &stage.scene;
    let run = |options: &[&str]| {
        let mut command = run_command(scene, options, &["exit", "3"]);
        command.stdin(Stdio::null()).status().expect("run");
    };
    run(&["--session", "a"]);
    run(&["--session", "b"]);
    run(&[]);
    let mut supervised = stage.start(&["--respawn", "--backoff", "1ms..1ms", "--session", "a"], &[]);
    supervised.initialize();
    supervised.error("die", serde_json::json!({ "code": 3 }));
    supervised.who();
    let mut shared: Vec<Caller> =
        ["a", "c"].map(|session| stage.shared(&["--session", session], &["--banner", "shared"])).into();
    shared.iter_mut().for_each(|caller| drop(caller.who()));
    for mut caller in shared.into_iter().chain([supervised]) {
        caller.close();
        assert_eq!(caller.code(), 0, "{}", caller.errors());
    }
    wait_until("all is told", || {
        stage.journal().lines().filter(|line| line.ends_with("nothing is left of it")).count() == 6
    });

    let all: Vec<_> = stage.journal().lines().map(str::to_owned).collect();
    let id = |line: &String| line.split("  ").nth(1).expect("an id").split('.').next().expect("an id").to_owned();
    let of = |session: &str| -> Vec<String> {
        text(&log(scene, &["--session", session]).stdout).lines().map(str::to_owned).collect()
    };
    let ids = |lines: &[String]| -> Vec<String> {
        let mut ids: Vec<_> = lines.iter().map(id).collect();
        ids.sort();
        ids.dedup();
        ids
    };
    let (a, b, c) = (of("a"), of("b"), of("c"));
    assert_eq!((ids(&a).len(), ids(&b).len(), ids(&c).len()), (3, 1, 1), "{a:#?}\n{b:#?}\n{c:#?}");
    assert!(ids(&a).contains(&ids(&c)[0]), "the shared one");
    for (session, shown) in [("a", &a), ("b", &b), ("c", &c)] {
        let mine = ids(shown);
        let expected: Vec<_> = all.iter().filter(|line| mine.contains(&id(line))).cloned().collect();
        assert_eq!(*shown, expected, "all of each child of {session}, and nothing else");
    }
    let parts = ["starts in", "number 2 answers"];
    assert!(parts.into_iter().all(|part| a.iter().any(|line| line.contains(part))), "{a:#?}");
    assert!(c.iter().any(|line| line.contains("held by")), "{c:#?}");

    let unknown = log(scene, &["--session", "x"]);
    assert_eq!(unknown.status.code(), Some(1));
    let said = text(&unknown.stderr);
    assert_eq!(said, "nostray: no child belongs to session 'x'; no child has a session\n");
    assert_eq!(text(&unknown.stdout), "");
    scene.processes().iter().for_each(|broker| broker.send(nostray_sys::Signal::TERM));
    scene.expect_empty();
}

/// A `nostray log --follow`, read line by line.
struct Reader {
    process: Child,
    lines: Receiver<String>,
}

impl Reader {
    fn start(mut command: Command) -> Self {
        let mut process =
            command.args(["log", "--follow"]).stdin(Stdio::null()).stdout(Stdio::piped()).spawn().expect("start");
        let lines: Lines<BufReader<ChildStdout>> = BufReader::new(process.stdout.take().expect("piped")).lines();
        let (to, lines_read) = channel();
        std::thread::spawn(move || lines.map_while(Result::ok).all(|line| to.send(line).is_ok()));
        Self { process, lines: lines_read }
    }

    /// The ids of the next lines.
    fn next(&self, count: usize) -> Vec<String> {
        let next =
            |number| self.lines.recv_timeout(PATIENCE).unwrap_or_else(|_| panic!("line {number} does not come"));
        (0..count).map(next).map(|line| line.split("  ").nth(1).expect("an id").to_owned()).collect()
    }

    fn found(&self) -> Found {
        Found::by_pid(badchild::pid(i32::try_from(self.process.id()).expect("small"))).expect("is there")
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        self.process.kill().ok();
        self.process.wait().ok();
    }
}

fn journal(folder: &Path) -> Journal {
    Journal::at(&Place::at(&folder.join("nostray")).expect("a place"))
}

#[test]
fn follow_begins_before_there_is_a_journal_and_goes_on_over_rotations_and_in_a_second_place() {
    let scene = Scene::apart(User::Current);
    let reader = Reader::start(scene.command(&nostray()));
    // It waits for its first place to appear.
    wait_until("it waits", || waits(&reader.found()));
    let runtime = scene.runtime();
    let first = journal(&runtime);
    first.add("a", Story::Empty);
    assert_eq!(reader.next(1), ["a"]);
    first.add("b", Story::Empty);
    std::fs::rename(first.path(), first.path().with_extension("1")).expect("rename");
    first.add("c", Story::Empty);
    assert_eq!(reader.next(2), ["b", "c"]);
    // Where records go without a runtime directory.
    let second = journal(&runtime.join("state"));
    second.add("d", Story::Empty);
    assert_eq!(reader.next(1), ["d"]);
    first.add("e", Story::Empty);
    second.add("f", Story::Empty);
    let mut both = reader.next(2);
    both.sort();
    assert_eq!(both, ["e", "f"]);
    for number in 0..3000 {
        let command = vec!["x".repeat(1000)];
        first.add(&number.to_string(), Story::Started { command, session: None, host: None });
        assert_eq!(reader.next(1), [number.to_string()]);
    }
    assert!(reader.lines.try_recv().is_err(), "something was told twice");
}

/// Whether a process waits for something.
fn waits(found: &Found) -> bool {
    let status = std::fs::read_to_string(format!("/proc/{}/status", found.stat.pid)).expect("is there");
    status.lines().any(|line| line.starts_with("State:\tS"))
}

/// The kernel tells of changes. A look now and then is for file systems of which it does not.
#[test]
fn follow_sleeps_while_nothing_happens_and_is_told_at_once() {
    let scene = Scene::apart(User::Current);
    let journal = journal(&scene.runtime());
    journal.add("a", Story::Empty);
    let reader = Reader::start(scene.command(&nostray()));
    assert_eq!(reader.next(1), ["a"]);
    let naps = || -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", reader.process.id())).expect("is there");
        let line = status.lines().find_map(|line| line.strip_prefix("voluntary_ctxt_switches:")).expect("Linux");
        line.trim().parse().expect("a number")
    };
    wait_until("it waits", || waits(&reader.found()));
    let before = naps();
    // How often it wakes up in this time is what is tested.
    std::thread::sleep(Duration::from_secs(3));
    let woken = naps() - before;
    assert!(woken <= 4, "woken {woken} times in 3 s");
    for number in 0..20 {
        journal.add(&number.to_string(), Story::Empty);
        assert_eq!(reader.next(1), [number.to_string()]);
    }
}

#[test]
fn follow_ends_when_nobody_reads_any_more() {
    let scene = Scene::apart(User::Current);
    run(&scene, &[]);
    let mut command = scene.command(&nostray());
    command.args(["log", "--follow"]).stdin(Stdio::null()).stdout(Stdio::piped());
    let mut process = command.spawn().expect("start");
    let mut output = BufReader::new(process.stdout.take().expect("piped"));
    output.read_line(&mut String::new()).expect("read");
    drop(output);
    let mut status = None;
    wait_until("it ends, though nothing more happens", || {
        status = process.try_wait().expect("look");
        status.is_some()
    });
    assert_eq!(status.and_then(|status| status.code()), Some(0));
}
