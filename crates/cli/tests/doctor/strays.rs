//! `nostray doctor` finds the stdio children that dead hosts have left behind, and no other process. With `--kill` it
//! ends them.

use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};
use std::time::Duration;

use badchild::{Bystanders, Folder, Found, Pid, Scene, User, badchild, open_terminal, pid, wait_until};
use nostray_sys::Signal;
use nostray_sys::proc::Stat;
use serde_json::Value;
use testkit::nostray;

/// The command of a server that says `ready` and ignores the end of its input.
fn pause() -> String {
    format!("{} pause", badchild().display())
}

/// A command of a scene, not in a pen, as a user's shell would start it.
fn command(scene: &Scene, program: &str) -> Command {
    let mut command = scene.command(program.as_ref());
    command.env_remove("NOSTRAY_PEN").stderr(Stdio::null());
    command
}

/// Starts a host that runs `sh -c SCRIPT`, waits for `ready` and kills the host. No process then holds the other ends
/// of the script's pipes. Returns the process that the host had started, if it lives.
fn leave_behind(scene: &Scene, options: &[&str], script: &str) -> Option<Found> {
    leave_command_behind(scene, options, &["sh", "-c", script])
}

fn leave_command_behind(scene: &Scene, options: &[&str], words: &[&str]) -> Option<Found> {
    // A shell of the scene makes the pipe for the command's stdout, so that it belongs to the scene's user. Doctor
    // opens a pipe again to see whether a process holds its other end; as another user it may not open a pipe that root
    // made.
    let mut shell = command(scene, "sh");
    shell.args(["-c", "\"$@\" | cat", "sh"]).arg(badchild()).arg("host").args(options).arg("--").args(words);
    let mut shell = shell.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("start a host");
    let mut says = BufReader::new(shell.stdout.take().expect("piped"));
    let (mut front, mut ready) = (None, false);
    while front.is_none() || !ready {
        let mut line = String::new();
        assert_ne!(says.read_line(&mut line).expect("read"), 0, "the host has ended: {words:?}");
        ready |= line.trim() == "ready";
        front = line.strip_prefix("front ").map(|number| pid(number.trim().parse().expect("a number"))).or(front);
    }
    let processes = scene.processes();
    let below = |above: Pid| processes.iter().filter(move |found| found.stat.parent == Some(above));
    let shell_pid = pid(i32::try_from(shell.id()).expect("small"));
    for host in below(shell_pid) {
        // Every `badchild host` also starts a friend, which these tests do not need.
        below(host.stat.pid).filter(|found| Some(found.stat.pid) != front).for_each(|found| found.send(Signal::KILL));
        host.send(Signal::KILL);
    }
    shell.wait().expect("reap the shell");
    front.and_then(Found::by_pid).filter(Found::is_alive)
}

fn leave_server(scene: &Scene, options: &[&str], words: &str) -> Found {
    leave_behind(scene, options, &format!("exec {} {words}", pause()))
        .expect("the server ignores the end of its input")
}

fn doctor(scene: &Scene, home: &Folder, words: &[&str]) -> Output {
    let mut command = command(scene, nostray().to_str().expect("text"));
    for variable in ["XDG_CONFIG_HOME", "XDG_STATE_HOME", "XDG_RUNTIME_DIR", "CODEX_HOME", "HERMES_HOME"] {
        command.env_remove(variable);
    }
    command.env("HOME", home.path()).current_dir(home.path()).arg("doctor").args(words);
    command.stdin(Stdio::null()).stderr(Stdio::piped()).output().expect("run doctor")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).expect("text")
}

/// The findings of `doctor --json`.
fn findings(scene: &Scene, words: &[&str]) -> Value {
    let home = Folder::new("home");
    let output = doctor(scene, &home, &[&["--json"], words].concat());
    assert_eq!(text(&output.stderr), "");
    assert!(matches!(output.status.code(), Some(0 | 1)), "{:?}", output.status);
    serde_json::from_slice(&output.stdout).expect("one JSON object")
}

/// Doctor's entry for this process, if it takes the process for a stray.
fn stray<'a>(findings: &'a Value, found: &Found) -> Option<&'a Value> {
    let number = i64::from(found.stat.pid.as_raw_nonzero().get());
    findings["strays"].as_array().expect("a list").iter().find(|stray| stray["pid"] == number)
}

fn expect_certain(findings: &Value, found: &Found, evidence: &[&str]) {
    let stray = stray(findings, found).unwrap_or_else(|| panic!("{found:?} is not in {findings:#}"));
    assert_eq!(stray["confidence"], "certain", "{stray:#}");
    for part in evidence {
        assert!(stray["evidence"].as_str().expect("text").contains(part), "'{part}' is not in {stray:#}");
    }
    assert!(stray["remedy"].as_str().expect("text").starts_with("nostray run -- "), "{stray:#}");
    assert!(stray["memory_bytes"].as_u64().is_some_and(|bytes| bytes > 0), "{stray:#}");
    assert!(stray["age_seconds"].as_u64().is_some_and(|seconds| seconds < 600), "{stray:#}");
    assert_eq!(stray["start"], found.stat.start.0);
}

const GONE: [&str; 3] = ["whoever started it is gone", "nobody can write to its stdin", "nobody reads its stdout"];

#[test]
fn a_server_that_ignores_the_end_of_its_input_is_found() {
    for user in User::all() {
        for (stdin, kind) in [("pipe", "stdin any more (pipe)"), ("socket", "stdin any more (socket)")] {
            let scene = Scene::new(user);
            let server = leave_server(&scene, &["--stdin", stdin], "");
            expect_certain(&findings(&scene, &[]), &server, &[&GONE[..], &[kind]].concat());
        }
    }
}

#[test]
fn a_server_behind_a_shell_is_found_together_with_the_shell() {
    let scene = Scene::new(User::Current);
    let shell = leave_behind(&scene, &[], &format!("exec 3<&0; {} <&3 & wait", pause())).expect("the shell waits");
    let findings = findings(&scene, &[]);
    expect_certain(&findings, &shell, &GONE);
    let mut below = scene.processes().into_iter().filter(|found| found.stat.parent == Some(shell.stat.pid));
    let server = below.next().expect("there");
    expect_certain(&findings, &server, &[&format!("its parent {} is a stray itself", shell.stat.pid)]);
}

#[test]
fn a_server_whose_wrappers_are_gone_is_found() {
    let scene = Scene::new(User::Current);
    let path = badchild().display().to_string();
    leave_command_behind(&scene, &[], &[&path, "wrap", "2", "--", &path, "pause"]);
    for wrapper in scene.those_with(" wrap ") {
        wrapper.send(Signal::KILL);
    }
    wait_until("the wrappers are gone", || scene.those_with(" wrap ").is_empty());
    let server = scene.those_with("pause").pop().expect("there");
    expect_certain(&findings(&scene, &[]), &server, &GONE);
}

#[test]
fn a_server_in_a_session_of_its_own_is_found() {
    let scene = Scene::new(User::Current);
    let path = badchild().display().to_string();
    let server =
        leave_command_behind(&scene, &[], &[&path, "leader", "--", &path, "pause"]).expect("the server stays");
    expect_certain(&findings(&scene, &[]), &server, &GONE);
}

/// The report for people; in a pipe it has no colours.
#[test]
fn the_report_names_the_evidence_and_the_remedy() {
    let (scene, home) = (Scene::new(User::Current), Folder::new("home"));
    let server = leave_server(&scene, &[], "--api-key hunter2");
    let output = doctor(&scene, &home, &["--pid", &server.stat.pid.to_string()]);
    let report = text(&output.stdout);
    assert_eq!(output.status.code(), Some(1), "{report}");
    for part in ["Containment", "Directories", "nobody can write to its stdin", "nostray run -- ", "--api-key ***"] {
        assert!(report.contains(part), "'{part}' is not in:\n{report}");
    }
    assert!(report.contains(&format!("BAD   {} ", server.stat.pid)), "{report}");
    assert!(!report.contains("hunter2") && !report.contains('\x1b'), "{report}");
}

/// An agent that has put itself into the background. It hides its environment, so an ordinary user's scene does not find it to end it.
struct SshAgent {
    said: PathBuf,
}

impl Drop for SshAgent {
    fn drop(&mut self) {
        let said = std::fs::read_to_string(&self.said).unwrap_or_default();
        let number = said.split_once("SSH_AGENT_PID=").and_then(|(_, rest)| rest.split(';').next()?.parse().ok());
        if let Some(agent) = number.and_then(Pid::from_raw).and_then(Found::by_pid) {
            agent.send(Signal::TERM);
        }
    }
}

/// Healthy processes that resemble strays in one way or another.
#[must_use]
fn lookalikes(scene: &Scene, folder: &Folder) -> SshAgent {
    let at = |name: &str| folder.path().join(name).display().to_string();
    // A job that outlives its shell on purpose, started by nohup without a terminal.
    leave_behind(scene, &[], "nohup sleep 1001 >/dev/null 2>&1 & echo ready");
    // The last process of a pipeline: it writes to a file, and the first process has ended.
    leave_behind(scene, &[], &format!("true | sleep 1002 >{} & echo ready", at("out")));
    // Two processes that hold the two ends of one pipe.
    leave_behind(scene, &[], &format!("(sleep 1003 | sleep 1004) </dev/null >{} & echo ready", at("two")));
    // A server with a file for input, a daemon, and a server of a service that closed its streams.
    leave_behind(scene, &[], &format!("exec {} </dev/null", pause()));
    leave_behind(
        scene,
        &[],
        &format!("{} leave daemon 0; echo ready; exec sleep 1005 </dev/null", badchild().display()),
    );
    leave_behind(scene, &[], "echo ready; exec sleep 1006 <&- >&-");
    // Programs that put themselves into the background.
    let agent = SshAgent { said: folder.path().join("agent-said") };
    let start = format!("ssh-agent -a {} > {}", at("agent"), agent.said.display());
    leave_behind(scene, &[], &format!("{start}; echo ready; exec sleep 1007 </dev/null"));
    leave_behind(
        scene,
        &[],
        &format!("tmux -S {} new -d sleep 1008; echo ready; exec sleep 1 </dev/null", at("tmux")),
    );
    let bus = format!("dbus-daemon --session --fork --address=unix:path={}", at("bus"));
    leave_behind(scene, &[], &format!("{bus}; echo ready; exec sleep 1 </dev/null"));
    agent
}

#[test]
fn healthy_processes_are_not_reported() {
    for user in User::all() {
        let (scene, folder) = (Scene::new(user), Folder::new("lookalikes"));
        let _agent = lookalikes(&scene, &folder);
        // Children of a live host: a server, a server behind a shell, pipelines, xargs.
        let mut hosts = Vec::new();
        for script in [
            format!("exec {}", pause()),
            format!("{}; exit 0", pause()),
            "true | sleep 1009".to_owned(),
            "true | sleep 1010 | true".to_owned(),
            "echo 1011 | xargs sleep".to_owned(),
            "yes 1012 | xargs -n1 -P2 sleep".to_owned(),
        ] {
            let mut host = command(&scene, "sh");
            hosts.push(
                host.args(["-c", &script]).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("start"),
            );
        }
        // Servers whose streams their live host has just closed: it may be about to end them.
        for _ in 0..2 {
            let mut child = command(&scene, &badchild().display().to_string());
            let mut child = child.arg("pause").stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("start");
            child.stdout.as_mut().expect("piped").read_exact(&mut [0; 6]).expect("ready");
            (child.stdin, child.stdout) = (None, None);
            hosts.push(child);
        }
        wait_until("the children of xargs run", || !scene.those_with("sleep 1012").is_empty());

        let findings = findings(&scene, &[]);
        let named: Vec<_> = scene
            .processes()
            .into_iter()
            .filter_map(|found| Some((stray(&findings, &found)?.clone(), found)))
            .collect();
        assert!(named.is_empty(), "{user:?}: {named:#?}");
        for mut host in hosts {
            host.kill().expect("kill");
            host.wait().expect("reap");
        }
    }
}

#[test]
fn processes_in_a_pen_are_not_reported() {
    let scene = Scene::new(User::Current);
    let words = testkit::run_words(&["--eof-grace", "1m"], &["pause"]);
    leave_command_behind(&scene, &[], &words.iter().map(String::as_str).collect::<Vec<_>>());
    let findings = findings(&scene, &[]);
    let processes = scene.processes();
    assert!(processes.len() >= 3, "the pen ended too early: {processes:#?}");
    for found in processes {
        assert_eq!(stray(&findings, &found), None, "{found:?}");
    }
}

#[test]
fn strays_of_other_users_are_not_shown() {
    if User::all().len() < 2 {
        return; // only root can be two users
    }
    let theirs = Scene::new(User::Nobody);
    let server = leave_server(&theirs, &[], "");
    assert_eq!(stray(&findings(&Scene::new(User::Current), &[]), &server), None);
    expect_certain(&findings(&theirs, &[]), &server, &GONE);
}

/// `--kill` for these processes only: a test must not end strays of the user who runs the tests.
fn kill_words(meant: &[&Found]) -> Vec<String> {
    let mut words = vec!["--kill".to_owned()];
    words.extend(meant.iter().flat_map(|found| ["--pid".to_owned(), found.stat.pid.to_string()]));
    words
}

#[test]
fn kill_ends_strays_and_no_other_process() {
    for user in User::all() {
        let (bystanders, others, folder) = (Bystanders::start(user), Scene::new(user), Folder::new("lookalikes"));
        let _agent = lookalikes(&others, &folder);
        let nohup = ["nohup", &badchild().display().to_string(), "pause"];
        let doubtful = leave_command_behind(&others, &[], &nohup).expect("the server stays");
        let strays = Scene::new(user);
        let polite = leave_server(&strays, &[], "");
        leave_behind(&strays, &[], "trap '' TERM; echo ready; while :; do sleep 1000; done");
        wait_until("the shell sleeps", || strays.those_with("sleep 1000").len() == 2);
        let deaf = strays.those_with("sleep 1000");
        // Some lookalikes may still be about to end or to become another program.
        let those =
            || others.processes().into_iter().map(|found| (found.stat.pid, found.command)).collect::<Vec<_>>();
        wait_until("no lookalike starts or ends", || {
            let one = those();
            // Compares two samples: the test gets no event when processes stop coming and going.
            std::thread::sleep(Duration::from_millis(300));
            one == those()
        });
        let before = others.processes();

        let meant: Vec<_> = [&polite].into_iter().chain(&deaf).chain(&before).collect();
        let words = kill_words(&meant);
        let words: Vec<_> = words.iter().map(String::as_str).chain(["--yes"]).collect();
        let findings = findings(&others, &words);
        let outcome = |found: &Found| stray(&findings, found).map(|stray| stray["outcome"].clone());
        assert_eq!(outcome(&polite), Some("ended".into()), "{findings:#}");
        for found in &deaf {
            assert_eq!(outcome(found), Some("killed".into()), "{findings:#}");
        }
        assert_eq!(outcome(&doubtful), Some("spared".into()), "{findings:#}");
        strays.expect_empty();
        for found in &before {
            assert!(found.is_alive() || found.command == "sleep 1", "{found:?} was hit: {findings:#}");
        }
        bystanders.expect_untouched();
    }
}

#[test]
fn kill_asks_on_the_terminal_about_each_stray() {
    let scene = Scene::new(User::Current);
    let both = [leave_server(&scene, &[], ""), leave_server(&scene, &[], "")];
    let home = Folder::new("home");
    let (master, name) = open_terminal().expect("a terminal");
    let mut process = command(&scene, &badchild().display().to_string());
    process.args(["on-terminal", &name, "--", &nostray().display().to_string(), "doctor"]);
    process.args(kill_words(&both.iter().collect::<Vec<_>>())).env("HOME", home.path());
    let mut process = process.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().expect("start doctor");
    let mut terminal = std::fs::File::from(master);
    for answer in ["\n", "y\n"] {
        let mut asked = String::new();
        while !asked.ends_with("[y/N] ") {
            let mut bytes = [0; 1];
            assert_eq!(terminal.read(&mut bytes).expect("read from the terminal"), 1);
            asked.push(char::from(bytes[0]));
        }
        assert!(both.iter().any(|found| asked.contains(&found.stat.pid.to_string())), "{asked}");
        assert!(both.iter().all(Found::is_alive), "a stray was ended before doctor had asked about both");
        terminal.write_all(answer.as_bytes()).expect("answer");
    }
    let mut said = String::new();
    process.stdout.take().expect("piped").read_to_string(&mut said).expect("read");
    assert_eq!(process.wait().expect("wait").code(), Some(1), "{said}");
    assert!(said.contains("left alone, as you said") && said.contains("ended by SIGTERM"), "{said}");
    assert_eq!(both.iter().filter(|found| found.is_alive()).count(), 1);
}

#[test]
fn kill_without_a_terminal_and_without_yes_is_refused() {
    let (scene, home) = (Scene::new(User::Current), Folder::new("home"));
    let server = leave_server(&scene, &[], "");
    let output = doctor(&scene, &home, &["--kill", "--pid", &server.stat.pid.to_string()]);
    assert_eq!((output.status.code(), output.stdout.len()), (Some(2), 0));
    assert!(text(&output.stderr).contains("stdin is not a terminal; add --yes"), "{}", text(&output.stderr));
    assert!(server.is_alive());
    assert_eq!(doctor(&scene, &home, &["--yes"]).status.code(), Some(2), "--yes alone means nothing");
}

/// A pid that belongs to no process any more names no stray.
#[test]
fn kill_with_a_pid_of_no_process_ends_no_process() {
    let (scene, home) = (Scene::new(User::Current), Folder::new("home"));
    let mut ended = command(&scene, "true").process_group(0).spawn().expect("start");
    let number = ended.id();
    ended.wait().expect("reap");
    assert!(Stat::of(pid(i32::try_from(number).expect("small"))).is_none());
    let output = doctor(&scene, &home, &["--kill", "--yes", "--pid", &number.to_string()]);
    assert_eq!(output.status.code(), Some(2), "{}", text(&output.stdout));
    assert!(
        text(&output.stderr).contains(&format!("there is no process {number}; there are ")),
        "{}",
        text(&output.stderr)
    );
}
