//! Help, version, completions, the manual, the log, and the messages for wrong options.

use std::process::{Command, Output, Stdio};

use badchild::{Folder, Scene, User};
use testkit::{nostray, run_command};

fn call(words: &[&str]) -> Output {
    Command::new(nostray()).args(words).stdin(Stdio::null()).output().expect("run")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).expect("text")
}

const COMMANDS: [&str; 21] = [
    "run",
    "share",
    "hold",
    "ps",
    "top",
    "stop",
    "restart",
    "slot",
    "wait",
    "sweep",
    "log",
    "web",
    "metrics",
    "broker",
    "wrap",
    "unwrap",
    "hosts",
    "doctor",
    "demo",
    "completions",
    "man",
];

#[test]
fn every_command_has_a_help_text_with_examples() {
    let help = text(&call(&["--help"]).stdout);
    for command in COMMANDS {
        assert!(help.contains(&format!("\n  {command} ")), "{command} is not in:\n{help}");
        let output = call(&[command, "--help"]);
        assert!(output.status.success());
        assert!(text(&output.stdout).contains("Examples:\n  nostray "), "{command} has no examples");
    }
}

/// `-h` is for a glance: a screen of 24 lines, with an example.
#[test]
fn the_short_help_fits_a_screen_and_has_an_example() {
    for words in std::iter::once(&["-h"][..])
        .chain(COMMANDS.iter().map(|command| [*command, "-h"]).collect::<Vec<_>>().iter().map(|words| &words[..]))
    {
        let output = Command::new(nostray()).args(words).env("COLUMNS", "80").output().expect("run");
        let help = text(&output.stdout);
        // The list of commands is longer, and as long as it is.
        let limit = if words.len() == 1 { 32 } else { 24 };
        assert!(help.lines().count() <= limit, "{words:?} has {} lines:\n{help}", help.lines().count());
        assert!(help.lines().all(|line| line.chars().count() <= 80), "{words:?}:\n{help}");
        assert!(help.contains("\n  nostray "), "{words:?} has no example:\n{help}");
    }
}

/// Options are grouped by what a user wants, and internal commands and options are nowhere.
#[test]
fn the_long_help_is_grouped_and_keeps_internals_to_itself() {
    let help = text(&call(&["run", "--help"]).stdout);
    for heading in
        ["How it ends:", "How to find it:", "When it is ready:", "One live owner for a name:", "How it is kept"]
    {
        assert!(help.contains(&format!("\n{heading}")), "{heading} is not in:\n{help}");
    }
    let everything = text(&call(&["--help"]).stdout) + &text(&call(&["broker", "--help"]).stdout) + &help;
    let pages =
        text(&call(&["man"]).stdout) + &text(&call(&["man", "broker"]).stdout) + &text(&call(&["man", "run"]).stdout);
    for internal in ["steward", "\n  serve", "--remember", "\n  complete ", "nostray\\-complete"] {
        assert!(!everything.contains(internal) && !pages.contains(internal), "{internal}");
    }
}

#[test]
fn the_help_of_idle_timeout_says_that_pings_count_and_names_hibernate() {
    let help = text(&call(&["run", "--help"]).stdout);
    let about = &help
        [help.find("--idle-timeout <TIME>").expect("an option")..help.find("--die-with <PID>").expect("the next")];
    assert!(about.contains("pings") && about.contains("--hibernate"), "{about}");
}

#[test]
fn the_version_is_that_of_the_package() {
    assert_eq!(text(&call(&["--version"]).stdout), format!("nostray {}\n", env!("CARGO_PKG_VERSION")));
}

#[test]
fn every_shell_gets_its_completions() {
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let output = call(&["completions", shell]);
        assert!(output.status.success() && text(&output.stdout).contains("term-grace"), "{shell}");
    }
    let script = text(&call(&["completions", "bash"]).stdout);
    let mut bash = Command::new("bash").arg("-n").stdin(Stdio::piped()).spawn().expect("bash");
    std::io::Write::write_all(&mut bash.stdin.take().expect("piped"), script.as_bytes()).expect("write");
    assert!(bash.wait().expect("wait").success(), "bash does not understand the script");
}

#[test]
fn the_manual_has_a_page_for_each_command() {
    let page = text(&call(&["man"]).stdout);
    assert!(page.contains(".TH NOSTRAY 1"), "{page}");
    let page = text(&call(&["man", "run"]).stdout);
    assert!(page.contains(".TH NOSTRAY\\-RUN 1") || page.contains(".TH NOSTRAY-RUN 1"), "{page}");
    assert!(page.contains("idle") && page.contains("125"), "{page}");
    assert!(
        page.contains(".SH \"EXAMPLES\"") && page.contains(".SH \"EXIT STATUS\"") && !page.contains("EXTRA"),
        "{page}"
    );
    let folder = Folder::new("man");
    let output = call(&["man", "--dir", folder.path().to_str().expect("text")]);
    assert!(output.status.success(), "{output:?}");
    for name in ["nostray", "nostray-run", "nostray-slot-list", "nostray-broker-stop"] {
        let page = std::fs::read_to_string(folder.path().join(format!("{name}.1"))).expect(name);
        assert!(page.contains(".SH NAME") && page.contains(".SH SYNOPSIS"), "{name}:\n{page}");
    }
    let names: Vec<_> =
        std::fs::read_dir(folder.path()).expect("a folder").map(|entry| entry.expect("a page").file_name()).collect();
    assert!(
        !names
            .iter()
            .any(|name| name.to_string_lossy().contains("steward") || name.to_string_lossy().contains("help")),
        "{names:?}"
    );
    let wrong = call(&["man", "nothing"]);
    assert_eq!(wrong.status.code(), Some(2));
    assert!(text(&wrong.stderr).contains("nostray help"));
}

#[test]
fn wrong_calls_are_2_and_say_what_to_do() {
    for words in [&["nonsense"][..], &["demo", "--nonsense"], &["completions", "nonsense"]] {
        let output = call(words);
        assert_eq!((output.status.code(), output.stdout.len()), (Some(2), 0), "{words:?}");
        assert!(text(&output.stderr).contains("--help"), "{}", text(&output.stderr));
    }
}

#[test]
fn a_closed_stdout_is_no_reason_to_panic() {
    for words in [&["--help"][..], &["man"], &["completions", "zsh"]] {
        let (reader, writer) = std::io::pipe().expect("pipe");
        drop(reader);
        let output = Command::new(nostray()).args(words).stdout(writer).stderr(Stdio::piped()).output().expect("run");
        assert!(!text(&output.stderr).contains("panic"), "{words:?}: {}", text(&output.stderr));
    }
}

#[test]
fn the_log_file_tells_the_story_and_stderr_stays_silent() {
    let (scene, folder) = (Scene::new(User::Current), Folder::new("log"));
    let log = folder.path().join("log");
    for _ in 0..2 {
        let options = ["--log-file", log.to_str().expect("text"), "--eof-grace", "1m"];
        let mut command = run_command(&scene, &options, &["tree", "cooperative", "plain"]);
        let output = command.stdin(Stdio::piped()).stderr(Stdio::piped()).output().expect("run");
        assert_eq!(text(&output.stderr), "");
    }
    let story = std::fs::read_to_string(&log).expect("read");
    for part in ["keeps child", "stdin was closed", "exited with code 0", "SIGTERM to the whole tree"] {
        assert_eq!(story.matches(part).count(), 2, "'{part}' twice in:\n{story}");
    }
    scene.expect_empty();
}

#[test]
fn a_full_disk_for_the_log_does_not_keep_the_tree_alive() {
    let scene = Scene::new(User::Current);
    let options = ["--log-file", "/dev/full", "--eof-grace", "0s", "--term-grace", "0s"];
    let output = run_command(&scene, &options, &["tree", "stubborn", "daemon"]).output().expect("run");
    // Killed, or ended by SIGTERM before the child had set it to ignored.
    assert!(matches!(output.status.code(), Some(137 | 143)), "{output:?}");
    scene.expect_empty();
}
