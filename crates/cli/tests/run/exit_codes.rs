//! The exit code is the command's own, for every code and every signal, as a shell reports it without nostray.

use std::process::{Command, Stdio};

use badchild::{Scene, User, badchild};
use testkit::{in_parallel, nostray};

/// What a shell reports for a command.
fn reported(scene: &Scene, words: &[&str]) -> i32 {
    let mut shell = scene.command("sh".as_ref());
    let status = shell
        .args(["-c", "\"$@\"; exit $?", "sh"])
        .args(words)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .expect("run sh");
    status.code().expect("a shell exits")
}

#[test]
fn every_exit_code_is_passed_on() {
    let scene = Scene::new(User::Current);
    let (nostray, badchild) = (nostray(), badchild());
    let (nostray, badchild) = (nostray.display().to_string(), badchild.display().to_string());
    in_parallel((0..256).collect(), |code: i32| {
        let words = [nostray.as_str(), "run", "--", &badchild, "exit", &code.to_string()];
        assert_eq!(reported(&scene, &words), code);
    });
    scene.expect_empty();
}

#[test]
fn every_signal_is_reported_as_a_shell_does() {
    let scene = Scene::new(User::Current);
    let (nostray, badchild) = (nostray(), badchild());
    let (nostray, badchild) = (nostray.display().to_string(), badchild.display().to_string());
    // SIGSTOP, SIGTSTP, SIGTTIN and SIGTTOU stop a process instead of ending it: see stopped.rs
    let signals = (1..32).filter(|signal| !(19..23).contains(signal)).collect();
    in_parallel(signals, |signal: i32| {
        let number = signal.to_string();
        let direct = reported(&scene, &[&badchild, "die", &number]);
        let contained = reported(&scene, &[&nostray, "run", "--", &badchild, "die", &number]);
        assert_eq!(contained, direct, "signal {signal}");
    });
    scene.expect_empty();
}

fn run(words: &[&str]) -> (i32, String) {
    let output = Command::new(nostray()).args(words).stdin(Stdio::null()).output().expect("run nostray");
    assert_eq!(output.stdout, b"", "nostray wrote to stdout");
    (output.status.code().expect("exits"), String::from_utf8(output.stderr).expect("text"))
}

#[test]
fn a_command_that_is_not_there_is_127_and_says_what_to_do() {
    let (code, said) = run(&["run", "--", "no-such-command-at-all"]);
    assert_eq!(code, 127);
    assert!(said.starts_with("nostray: cannot run 'no-such-command-at-all': not found"), "{said}");
    assert!(said.contains("PATH"), "{said}");
    let (code, _) = run(&["run", "--", "/no/such/path"]);
    assert_eq!(code, 127);
}

#[test]
fn a_command_that_cannot_be_executed_is_126_and_says_what_to_do() {
    let folder = badchild::Folder::new("not-executable");
    let file = folder.path().join("file");
    std::fs::write(&file, "text").expect("write");
    let (code, said) = run(&["run", "--", &file.display().to_string()]);
    assert_eq!(code, 126);
    assert!(said.contains("permission denied") && said.contains("chmod +x"), "{said}");
    let (code, _) = run(&["run", "--", "/"]);
    assert_eq!(code, 126);
}

#[test]
fn a_script_without_a_first_line_is_run_by_the_shell_as_execvp_does() {
    let folder = badchild::Folder::new("script");
    let file = folder.path().join("script");
    // Another process writes: a child that another test forks would inherit a file that this process has open for
    // writing.
    let write = "printf 'exit 9\\n' >\"$0\" && chmod 755 \"$0\"";
    assert!(std::process::Command::new("sh").args(["-c", write]).arg(&file).status().expect("run sh").success());
    assert_eq!(run(&["run", "--", &file.display().to_string()]).0, 9);
}

#[test]
fn own_failures_are_125_and_no_child_is_started() {
    let folder = badchild::Folder::new("own-failure");
    let witness = folder.path().join("witness");
    let touch = ["--", "touch", &witness.display().to_string()].map(str::to_owned);
    let nowhere = folder.path().join("no/such/folder/log").display().to_string();
    let cases: [(&[&str], &str); 8] = [
        (&["--log-file", &nowhere], "cannot open the log file"),
        (&["--die-with", "4194304"], "no such process"),
        (&["--die-with", "0"], "not a process number"),
        (&["--die-with", "x"], "invalid value"),
        (&["--no-such-option"], "unexpected argument"),
        (&["--eof-grace", "soon"], "2s, 500ms"),
        (&["--isolate", "everything"], "possible values: pid"),
        (&["--idle-timeout", "0s"], "more than zero"),
    ];
    for (options, expected) in cases {
        let words: Vec<&str> =
            ["run"].into_iter().chain(options.iter().copied()).chain(touch.iter().map(String::as_str)).collect();
        let (code, said) = run(&words);
        assert_eq!(code, 125, "{options:?}");
        assert!(said.contains(expected), "{options:?} said: {said}");
        assert!(!witness.exists(), "{options:?} started the command");
    }
    let (code, said) = run(&["run"]);
    assert_eq!(code, 125);
    assert!(said.contains("CMD"), "{said}");
}

#[test]
fn no_more_processes_allowed_is_125_and_says_which_limit() {
    if !User::all().contains(&User::Nobody) {
        return; // needs a user with nothing else running
    }
    let scene = Scene::new(User::Nobody);
    let mut command = scene.command("prlimit".as_ref());
    command.arg("--nproc=1").arg(nostray()).args(["run", "--", "true"]);
    let output = command.stdin(Stdio::null()).output().expect("run");
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(125), "{said}");
    assert!(said.contains("ulimit -u"), "{said}");
}
