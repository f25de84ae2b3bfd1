//! `nostray hold`: one daemon for many hosts. It runs while at least one host holds it, in the foreground or in the
//! background, and is restarted if the user wants that. After the last holder no process of it is left. No holder
//! writes a byte to its stdout.

use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use badchild::{Found, Host, badchild, comes_true, open_terminal, wait_until};
use nostray_sys::Signal;
use serde_json::Value;
use testkit::sharing::{BROKER, PEN, STEWARD, kill};
use testkit::stage::{Caller, Stage};
use testkit::{in_parallel, nostray};

/// A daemon on a stage of its own. All its processes inherit a lock, so each life notices if the life before it is not
/// over.
struct Play {
    stage: Stage,
}

/// Writes to both streams, and ends with the code that it reads from a FIFO.
const TALKS: &str = "echo said; echo complained >&2; read code < \"$0\"; exit $code";

impl Play {
    fn new() -> Self {
        let play = Self { stage: Stage::new() };
        assert!(Command::new("mkfifo").arg(play.stage.file("code")).status().expect("run mkfifo").success());
        play
    }

    /// The command line of the daemon, a process that becomes `sh -c SCRIPT`.
    fn alone(&self, script: &str) -> Vec<String> {
        let (folder, code) = (self.stage.folder.path().display().to_string(), self.stage.file("code"));
        let words = [&*badchild().display().to_string(), "claim", &folder, "d", "--", "sh", "-c", script, &code];
        words.map(str::to_owned).into()
    }

    /// The same with a descendant in a session of its own.
    fn script(&self, script: &str) -> Vec<String> {
        let mut words = self.alone(script);
        words.splice(2..2, ["--with".to_owned(), "setsid".to_owned()]);
        words
    }

    fn words(&self, options: &[&str], daemon: &[String]) -> Vec<String> {
        let mut words = vec!["hold".to_owned()];
        for (option, value) in [("--key", "d"), ("--linger", "100ms"), ("--term-grace", "500ms")] {
            if !options.contains(&option) {
                words.extend([option.to_owned(), value.to_owned()]);
            }
        }
        words.extend(options.iter().map(|word| (*word).to_owned()).chain(["--".to_owned()]));
        words.extend_from_slice(daemon);
        words
    }

    fn hold_any(&self, options: &[&str], daemon: &[String]) -> Caller {
        let words = self.words(options, daemon);
        let words: Vec<_> = words.iter().map(String::as_str).collect();
        self.stage.start_plain(&nostray().display().to_string(), &words)
    }

    /// A holder of the daemon in the foreground.
    fn hold(&self, options: &[&str]) -> Caller {
        self.hold_any(options, &self.script(TALKS))
    }

    /// This many holders, once they hold the daemon and it runs.
    fn holders(&self, count: usize, options: &[&str]) -> Vec<Caller> {
        let holders = (0..count).map(|_| self.hold(options)).collect();
        self.stage.wait_for_leases(&[count]);
        self.wait_for_life(1);
        holders
    }

    /// The pids of the daemon's first process in each life so far.
    fn lives(&self) -> Vec<i32> {
        let holders = std::fs::read_to_string(self.stage.file("holders")).unwrap_or_default();
        holders.lines().filter_map(|line| line.split(' ').nth(1)?.parse().ok()).collect()
    }

    /// Waits until this life, the last one so far, has executed its script. Returns its first process.
    fn wait_for_life(&self, number: usize) -> Found {
        wait_until(&format!("life {number}\n{}", self.stage.journal()), || self.lives().len() >= number);
        assert_eq!(self.lives().len(), number, "{}", self.stage.journal());
        let pid = badchild::pid(self.lives()[number - 1]);
        wait_until("the daemon runs its script", || {
            Found::by_pid(pid).is_some_and(|found| found.command.starts_with("sh -c"))
        });
        Found::by_pid(pid).expect("is there")
    }

    /// Makes the daemon exit with this code.
    fn exit(&self, code: u8) {
        std::fs::write(self.stage.file("code"), format!("{code}\n")).expect("the daemon reads");
    }

    fn pen(&self) -> Value {
        let output = self.stage.nostray(&["ps", "--json"]);
        let shown: Value = serde_json::from_slice(&output.stdout).unwrap_or_default();
        shown["pens"][0].clone()
    }

    /// Checks that no process is left, that none comes back, and that no two lives overlapped.
    fn expect_over(&self, lives: usize) {
        self.stage.scene.expect_empty();
        let again = comes_true(Duration::from_millis(300), &mut || !self.stage.scene.processes().is_empty());
        assert!(!again, "a process came back: {:#?}\n{}", self.stage.scene.processes(), self.stage.journal());
        assert_eq!(self.lives().len(), lives, "{}", self.stage.journal());
        let two = std::fs::read_to_string(self.stage.file("two")).unwrap_or_default();
        assert_eq!(two, "", "{}", self.stage.journal());
        assert_eq!(self.stage.states(), Vec::<String>::new(), "a record is left");
    }
}

/// Waits for the end of a holder. Returns its exit code and its stderr; its stdout must be empty.
fn ended(mut holder: Caller) -> (i32, String) {
    let (code, errors) = (holder.code(), holder.errors());
    assert_eq!(holder.line_within(Duration::from_secs(2)), None, "on stdout");
    (code, errors)
}

fn release(mut holder: Caller) {
    holder.close();
    assert_eq!(ended(holder), (0, String::new()));
}

#[test]
fn three_holders_have_one_daemon_until_the_last_holder_has_gone_and_the_linger_is_over() {
    let play = Play::new();
    let mut holders = play.holders(3, &["--linger", "1s"]);
    let daemon = play.wait_for_life(1);
    let input = std::fs::read_link(format!("/proc/{}/fd/0", daemon.stat.pid)).expect("its stdin");
    // The shell opens the FIFO as its stdin only for `read`.
    assert!([Path::new("/dev/null"), Path::new(&play.stage.file("code"))].contains(&input.as_path()), "{input:?}");
    release(holders.remove(0));
    play.stage.wait_for_leases(&[2]);
    let mut killed = holders.remove(0);
    killed.process.kill().expect("kill");
    killed.process.wait().expect("reap");
    play.stage.wait_for_leases(&[1]);
    assert!(daemon.is_alive());
    // A holder that comes during the linger finds the same daemon.
    release(holders.remove(0));
    let last = play.hold(&["--linger", "1s"]);
    play.stage.wait_for_leases(&[1]);
    assert!(daemon.is_alive());
    let released = Instant::now();
    release(last);
    play.stage.expect_no_tree();
    assert!(released.elapsed() >= Duration::from_secs(1), "{:?}", released.elapsed());
    play.expect_over(1);
}

/// Each end happens beside a holder that goes on.
#[test]
fn a_holder_ends_with_its_input_with_its_front_and_with_its_host() {
    let ends = ["input", "socket", "front", "SIGTERM", "host", "host, with the pipe held", "host, without input"];
    in_parallel(ends.to_vec(), |end| {
        let play = Play::new();
        let other = play.holders(1, &[]).remove(0);
        let daemon = play.wait_for_life(1);
        let how: &[&str] = match end {
            "socket" => &["--stdin", "socket"],
            "host, with the pipe held" => &["--hold"],
            "host, without input" => &["--stdin", "null"],
            _ => &[],
        };
        let mut words = play.words(&[], &play.script(TALKS));
        words.insert(0, nostray().display().to_string());
        let words: Vec<_> = words.iter().map(String::as_str).collect();
        let mut host = Host::start(&play.stage.scene, how, &words);
        let front = host.line().strip_prefix("front ").and_then(|number| number.parse().ok()).expect("its number");
        let front = Found::by_pid(badchild::pid(front)).expect("is there");
        play.stage.wait_for_leases(&[2]);
        // A line on the front's stdin does not reach the daemon, and the front does not read it.
        if how.is_empty() {
            host.say("a word");
        }
        match end {
            "input" | "socket" => host.order("close"),
            "front" => front.send(Signal::KILL),
            "SIGTERM" => front.send(Signal::TERM),
            _ => host.kill(),
        }
        play.stage.wait_for_leases(&[1]);
        wait_until("the front is gone", || !front.is_alive());
        assert!(daemon.is_alive(), "{end}");
        drop(host);
        release(other);
        play.expect_over(1);
    });
}

#[test]
fn a_holder_whose_input_has_ended_before_it_started_holds_nothing() {
    let play = Play::new();
    for _ in 0..3 {
        let mut holder = play.hold(&["--linger", "0s"]);
        holder.close();
        assert_eq!(ended(holder), (0, String::new()));
    }
    play.stage.scene.expect_empty();
    assert!(!Path::new(&play.stage.file("two")).exists());
}

#[test]
fn without_input_the_host_alone_decides_and_on_a_terminal_so_do_its_keys() {
    let play = Play::new();
    let (master, path) = open_terminal().expect("a terminal");
    let mut person = play.stage.scene.command(&badchild());
    person.args(["on-terminal", &path, "--"]).arg(nostray()).args(play.words(&[], &play.script(TALKS)));
    person.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let person = Caller::new(person.spawn().expect("start"));
    play.stage.wait_for_leases(&[1]);
    play.wait_for_life(1);
    (&std::fs::File::from(master.try_clone().expect("again"))).write_all(b"typed\n\x03").expect("type");
    assert_eq!(ended(person), (130, String::new()));
    play.expect_over(1);
}

#[test]
fn without_respawn_the_holders_end_with_the_daemon_and_its_code() {
    in_parallel(vec![0, 3, 137], |code| {
        let play = Play::new();
        // A daemon that exits with 0 and leaves a process has forked into the background.
        let words = if code == 0 { play.alone(TALKS) } else { play.script(TALKS) };
        let holders: Vec<_> = (0..3).map(|_| play.hold_any(&[], &words)).collect();
        play.stage.wait_for_leases(&[3]);
        let daemon = play.wait_for_life(1);
        match code {
            137 => daemon.send(Signal::KILL),
            _ => play.exit(u8::try_from(code).expect("small")),
        }
        for holder in holders {
            let (found, errors) = ended(holder);
            assert_eq!(found, code, "{errors}");
            assert!(errors.contains("not started again: the child "), "{errors}");
        }
        play.expect_over(1);
    });
}

#[test]
fn with_respawn_one_daemon_is_restarted_for_all_holders() {
    let play = Play::new();
    let holders: Vec<_> = (0..3).map(|_| play.hold_any(&["--backoff", "1ms..20ms"], &play.alone(TALKS))).collect();
    play.stage.wait_for_leases(&[3]);
    play.wait_for_life(1).send(Signal::KILL);
    for (life, code) in [(2, 0), (3, 3)] {
        play.wait_for_life(life);
        play.exit(code);
    }
    play.wait_for_life(4);
    assert_eq!(play.stage.leases(), [3]);
    holders.into_iter().for_each(release);
    play.expect_over(4);
}

/// No session calls a daemon, so the steward restarts it while a holder is there.
#[test]
fn a_daemon_that_fails_too_often_is_started_once_more_after_a_while() {
    let play = Play::new();
    let began = Instant::now();
    let holder =
        play.hold_any(&["--respawn", "--backoff", "1ms..10ms", "--max-failures", "3/2s"], &play.script("exit 5"));
    wait_until("the daemon is given up", || holder.errors().contains("the daemon failed too often (3/2s)"));
    assert_eq!(play.lives().len(), 3, "{}", play.stage.journal());
    wait_until("the daemon is started once more", || play.lives().len() == 4);
    assert!(began.elapsed() >= Duration::from_secs(2), "{:?}", began.elapsed());
    wait_until("the daemon is given up again", || holder.errors().matches("failed too often").count() == 2);
    let mut holder = holder;
    holder.close();
    assert_eq!(ended(holder).0, 0);
    play.expect_over(4);
}

#[test]
fn a_command_that_cannot_be_executed_ends_every_holder() {
    let play = Play::new();
    let nothing = ["/nonexistent/daemon".to_owned()];
    for options in [&[][..], &["--respawn"]] {
        let (code, errors) = ended(play.hold_any(options, &nothing));
        assert!(code == 127 && errors.contains("/nonexistent/daemon"), "{code}: {errors}");
    }
    play.expect_over(0);
}

/// As `viewer --daemon` does: forked twice, in a session of its own, with all files closed.
#[test]
fn a_daemon_that_forks_into_the_background_is_held_and_ended_like_any_other() {
    in_parallel(vec![&[][..], &["--isolate", "pid"]], |options| {
        let play = Play::new();
        let forks = [badchild().display().to_string(), "leave".to_owned(), "daemon".to_owned(), "0".to_owned()];
        let (first, second) = (play.hold_any(options, &forks), play.hold_any(options, &forks));
        play.stage.wait_for_leases(&[2]);
        let journal = || play.stage.journal();
        wait_until("the daemon is in the background", || journal().contains("forked into the background"));
        wait_until("only the daemon is left of the tree", || play.stage.trees().len() == 1);
        let daemon = play.stage.trees().remove(0);
        if options.is_empty() {
            wait_until("the daemon is on record", || {
                play.pen()["child"]["pid"] == daemon.stat.pid.as_raw_nonzero().get()
            });
        }
        assert_eq!(play.stage.states(), ["ready"]);
        release(first);
        play.stage.wait_for_leases(&[1]);
        assert!(daemon.is_alive());
        release(second);
        play.expect_over(0);
        assert_eq!(journal().matches("started: ").count(), 1, "{}", journal());
    });
}

#[test]
fn the_exit_code_of_a_daemon_in_the_background_counts_and_its_end_starts_the_next_one() {
    // The script leaves a second process in the background, which ends with the daemon.
    const FORKS: &str = "sh -c 'read code < \"$0\"; exit $code' \"$0\" & exit 0";
    for code in [4, 0] {
        let play = Play::new();
        let holder = play.hold_any(&[], &play.script(FORKS));
        wait_until("the daemon is in the background", || play.stage.journal().contains("forked into the background"));
        // The descendant in a session of its own is older than the shell in the background, so it counts as the child
        // until it ends.
        let setsid = play.stage.scene.those_with("member setsid").remove(0);
        assert_eq!(play.pen()["child"]["pid"], setsid.stat.pid.as_raw_nonzero().get());
        play.exit(code);
        setsid.send(Signal::TERM);
        assert_eq!(ended(holder).0, 143);
        play.expect_over(1);
    }
    let play = Play::new();
    let daemon = ["sh", "-c", FORKS, &play.stage.file("code")].map(str::to_owned);
    let holder = play.hold_any(&["--backoff", "1ms..20ms"], &daemon);
    for life in 1..=2 {
        wait_until("the daemon is in the background", || {
            play.stage.journal().matches("forked into the background").count() == life
        });
        play.exit(4);
    }
    wait_until("the daemon has ended twice", || {
        play.stage.journal().matches("the child exited with code 4").count() >= 2
    });
    release(holder);
    play.stage.scene.expect_empty();
}

/// A crash counts as a crash also if it leaves processes.
#[test]
fn processes_that_a_crash_leaves_behind_are_no_daemon() {
    let play = Play::new();
    let leaves = [badchild().display().to_string(), "leave".to_owned(), "daemon".to_owned(), "3".to_owned()];
    let (code, errors) = ended(play.hold_any(&[], &leaves));
    assert_eq!(code, 3, "{errors}");
    play.expect_over(0);
}

/// Kills these processes at once.
fn strike(stage: &Stage, whom: &str) {
    let victims: Vec<_> = match whom {
        "broker" => vec![stage.the(BROKER)],
        "steward" => vec![stage.the(STEWARD)],
        "pen" => PEN.map(|name| stage.the(name)).into(),
        "steward and pen" => [STEWARD, PEN[0], PEN[1], PEN[2]].map(|name| stage.the(name)).into(),
        _ => stage.background(),
    };
    victims.iter().for_each(|found| found.send(Signal::STOP));
    kill(&victims);
}

const ALL: [&str; 5] = ["broker", "steward", "pen", "steward and pen", "everything"];

#[test]
fn with_respawn_the_holders_go_on_with_another_daemon_whichever_nostray_processes_are_killed() {
    in_parallel(ALL.to_vec(), |whom| {
        let play = Play::new();
        let holders = play.holders(3, &["--backoff", "1ms..20ms"]);
        let old = play.wait_for_life(1);
        strike(&play.stage, whom);
        play.wait_for_life(2);
        assert!(!old.is_alive(), "{whom}");
        play.stage.wait_for_leases(&[3]);
        holders.into_iter().for_each(release);
        play.expect_over(2);
    });
}

#[test]
fn without_respawn_the_holders_end_whichever_nostray_processes_are_killed() {
    in_parallel(ALL.to_vec(), |whom| {
        let play = Play::new();
        let holders = play.holders(3, &[]);
        play.wait_for_life(1);
        strike(&play.stage, whom);
        for holder in holders {
            let (code, errors) = ended(holder);
            assert_eq!(code, 125, "{whom}: {errors}");
            assert!(errors.contains("not started again"), "{whom}: {errors}");
        }
        if matches!(whom, "steward and pen" | "everything") {
            // No keeper is left that would end the descendant in a session of its own.
            play.stage.nostray(&["sweep"]);
        }
        play.stage.scene.expect_empty();
        // A steward that was killed leaves its record to the next sweep.
        play.stage.nostray(&["sweep"]);
        play.expect_over(1);
    });
}

#[test]
fn a_key_is_for_one_command_and_either_held_or_shared() {
    let play = Play::new();
    let holder = play.holders(1, &[]).remove(0);
    let (code, errors) = ended(play.hold_any(&[], &["sleep".to_owned(), "1000".to_owned()]));
    assert!(code == 125 && errors.contains("--key d is in use for another command"), "{code}: {errors}");
    assert!(errors.contains("nostray hold -- sleep 1000"), "{errors}");
    let (code, errors) = ended(play.hold(&["--isolate", "pid"]));
    assert!(code == 125 && errors.contains("this one is `nostray hold --isolate pid -- "), "{code}: {errors}");
    let daemon = play.script(TALKS);
    let share = |key: &str| {
        let words = ["share", "--key", key, "--linger", "0s", "--"].map(str::to_owned);
        let words: Vec<_> = words.iter().chain(&daemon).map(String::as_str).collect();
        play.stage.start_plain(&nostray().display().to_string(), &words)
    };
    let mut shared = share("d");
    shared.write(b"{}\n");
    let (code, errors) = ended(shared);
    assert!(code == 125 && errors.contains("that one is `nostray hold -- "), "{code}: {errors}");
    release(holder);
    play.expect_over(1);
    // The other way round: the key is shared, and a holder wants it.
    let stage = Stage::new();
    let shared = stage.shared(&["--key", "d", "--linger", "0s"], &[]);
    let server = stage.server(&["--claim", &stage.file("claim")]);
    let words: Vec<_> = ["hold", "--key", "d", "--"].into_iter().chain(server.iter().map(String::as_str)).collect();
    let (code, errors) = ended(stage.start_plain(&nostray().display().to_string(), &words));
    assert!(code == 125 && errors.contains("this one is `nostray hold -- "), "{code}: {errors}");
    testkit::sharing::release(shared);
    stage.expect_over(1, Duration::from_millis(100));
}

/// Under the default key.
#[test]
fn without_a_name_the_same_command_is_held_and_shared_apart() {
    let stage = Stage::new();
    let mut shared = stage.shared(&["--linger", "0s"], &[]);
    let server = stage.server(&["--claim", &stage.file("claim")]);
    let words: Vec<_> =
        ["hold", "--linger", "0s", "--"].into_iter().chain(server.iter().map(String::as_str)).collect();
    // The holder finds the end of its input at once.
    let (code, _) = ended(stage.start_plain(&nostray().display().to_string(), &words));
    assert_eq!(code, 0);
    shared.pid();
    assert_eq!(stage.lives().len(), 2);
    testkit::sharing::release(shared);
    stage.scene.expect_empty();
    assert!(!stage.journal().contains("runs the same command"), "{}", stage.journal());
}

#[test]
fn operators_see_its_holders_and_its_output_and_can_restart_and_stop_it() {
    let play = Play::new();
    let stage = &play.stage;
    let mut holders = vec![play.hold(&["--session", "one"]), play.hold(&["--session", "two"]), play.hold(&[])];
    stage.wait_for_leases(&[3]);
    let daemon = play.wait_for_life(1);
    wait_until("the daemon has written to stderr", || stage.printed().contains("output: complained"));
    let pen = play.pen();
    assert_eq!((&pen["state"], &pen["shared"]["key"]), (&"ready".into(), &"d".into()), "{pen}");
    let id = pen["id"].as_str().expect("an id");
    let text = |words: &[&str]| String::from_utf8_lossy(&stage.nostray(words).stdout).into_owned();
    assert!(text(&["log", id, "--output"]).contains("said"), "{}", text(&["log", id, "--output"]));
    let tree = text(&["ps", "--tree"]);
    let is_held_by = |end: &str| tree.lines().any(|line| line.starts_with("  held by ") && line.contains(end));
    assert!(is_held_by(", session one,") && is_held_by(", session two,"), "{tree}");
    assert!(tree.contains("member setsid"), "{tree}");
    // The restart comes at once: a daemon has no calls in flight.
    assert!(stage.nostray(&["restart", "d"]).status.success());
    let next = play.wait_for_life(2);
    assert!(!daemon.is_alive());
    assert!(stage.nostray(&["stop", "--session", "one"]).status.success());
    assert_eq!(ended(holders.remove(0)).1, "");
    stage.wait_for_leases(&[2]);
    assert!(next.is_alive());
    let stopped = text(&["stop", id]);
    assert!(stopped.contains("stopped"), "{stopped}");
    for holder in holders {
        let (code, errors) = ended(holder);
        assert_eq!(code, 143, "{errors}");
    }
    play.expect_over(2);
}

/// For a shared child, the next call starts the next child. A holder makes no calls.
#[test]
fn broker_stop_ends_the_holders() {
    for options in [&[][..], &["--respawn"]] {
        let play = Play::new();
        let holders = play.holders(2, options);
        assert!(play.stage.nostray(&["broker", "stop"]).status.success());
        for holder in holders {
            let (code, errors) = ended(holder);
            assert!(code == 125 && errors.contains("the broker that kept it was stopped"), "{code}: {errors}");
        }
        play.expect_over(1);
    }
}

#[test]
fn without_a_directory_for_a_broker_no_daemon_is_started() {
    if Path::new(&format!("/run/user/{}", nostray_sys::process::user())).exists() {
        return; // the broker has a directory in any case
    }
    let play = Play::new();
    let words = play.words(&[], &play.script(TALKS));
    let mut holder = play.stage.scene.command(&nostray());
    holder.env("XDG_RUNTIME_DIR", "/dev/null").env("HOME", "/dev/null").env_remove("XDG_STATE_HOME").args(words);
    holder.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let (code, errors) = ended(Caller::new(holder.spawn().expect("start")));
    assert!(code == 125 && errors.contains("cannot be shared"), "{code}: {errors}");
    play.stage.scene.expect_empty();
    assert!(play.lives().is_empty());
}

#[test]
fn a_daemon_is_starting_until_the_users_definition_of_ready_is_met() {
    let play = Play::new();
    let file = play.stage.file("ready");
    let holder = play.holders(1, &["--ready-file", &file, "--linger", "300ms"]).remove(0);
    assert_eq!(play.stage.states(), ["starting"]);
    // The linger counts from ready.
    let daemon = play.wait_for_life(1);
    release(holder);
    assert!(!comes_true(Duration::from_secs(1), &mut || !daemon.is_alive()), "{}", play.stage.journal());
    std::fs::write(&file, "").expect("write");
    play.expect_over(1);

    let play = Play::new();
    let options = ["--ready-file", &play.stage.file("ready"), "--ready-timeout", "300ms"];
    let (code, errors) = ended(play.hold(&options));
    assert!(code != 0 && errors.contains("not started again"), "{code}: {errors}");
    play.expect_over(1);
}
