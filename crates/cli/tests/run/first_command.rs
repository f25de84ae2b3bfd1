//! The first command that a new user types, and what is said if it is not quite right.

use std::process::{Command, Output, Stdio};

use badchild::{Folder, Scene, User};
use testkit::nostray;

fn call(words: &[&str]) -> Output {
    Command::new(nostray()).args(words).stdin(Stdio::null()).output().expect("run")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).expect("text")
}

/// Options of nostray stand before the command. Everything after its first word is the command's, as with `env` and `nice`.
#[test]
fn the_command_needs_no_dashes_before_it() {
    let scene = Scene::new(User::Current);
    let show = r#"printf '<%s>' "$@""#;
    for (words, expected) in [
        (&["run", "sh", "-c", show, "sh", "-y", "--respawn", "--", "-h"][..], "<-y><--respawn><--><-h>"),
        (&["run", "--", "sh", "-c", show, "sh", "-y", "--", "x"], "<-y><--><x>"),
        (&["run", "--session", "s", "-v", "sh", "-c", show, "sh", "--session", "t"], "<--session><t>"),
        (&["run", "--eof-grace=1s", "--", "sh", "-c", show, "sh", "--version"], "<--version>"),
        (&["share", "--any-dir", "sh", "-c", show, "sh", "--help"], "<--help>"),
    ] {
        let output = scene.command(&nostray()).args(words).stdin(Stdio::null()).output().expect("run");
        assert_eq!(text(&output.stdout), expected, "{words:?}: {output:?}");
        assert_eq!(output.status.code(), Some(0), "{words:?}: {output:?}");
    }
    scene.expect_empty();
}

/// A slip in our own options is an error, not the name of a program.
#[test]
fn an_unknown_option_before_the_command_is_an_error() {
    for words in [&["run", "--respwan", "true"][..], &["run", "-x", "true"], &["run"], &["run", "--respawn"]] {
        let output = call(words);
        assert_eq!(output.status.code(), Some(125), "{words:?}: {output:?}");
        assert!(text(&output.stderr).starts_with("error: "), "{output:?}");
    }
    assert!(text(&call(&["run", "--respwan", "true"]).stderr).contains("--respawn"), "the right one is shown");
}

#[test]
fn a_program_without_run_is_shown_the_right_line() {
    let folder = Folder::new("programs");
    std::os::unix::fs::symlink("/bin/true", folder.path().join("npx")).expect("linked");
    let path = format!("{}:/bin:/usr/bin", folder.path().display());
    let output = Command::new(nostray()).args(["npx", "-y", "some server"]).env("PATH", path).output().expect("run");
    assert_eq!(output.status.code(), Some(2));
    let said = text(&output.stderr);
    assert!(said.contains("to run that program under nostray: nostray run npx -y 'some server'\n"), "{said}");
}

#[test]
fn words_of_other_tools_and_slips_are_understood() {
    for (word, line) in [
        ("watch", "nostray ps --watch"),
        ("kill", "nostray stop"),
        ("logs", "nostray log"),
        ("shrae", "nostray share"),
        ("restrat", "nostray restart"),
    ] {
        let output = call(&[word]);
        assert_eq!(output.status.code(), Some(2));
        assert!(text(&output.stderr).contains(&format!(": {line}\n")), "{word}: {}", text(&output.stderr));
    }
}

#[test]
fn a_command_in_one_string_is_shown_split() {
    let scene = Scene::new(User::Current);
    for words in [&["run", "--", "npx -y server"][..], &["run", "--respawn", "--", "npx -y server"]] {
        let output = scene.command(&nostray()).args(words).stdin(Stdio::null()).output().expect("run");
        assert_eq!(output.status.code(), Some(127), "{output:?}");
        let said = text(&output.stderr);
        assert!(said.contains("spaces") && said.contains("nostray run -- npx -y server"), "{said}");
    }
    // A program whose name has spaces is no mistake.
    let folder = Folder::new("programs");
    let program = folder.path().join("my server");
    std::os::unix::fs::symlink("/bin/true", &program).expect("linked");
    let output = scene.command(&nostray()).arg("run").arg(&program).stdin(Stdio::null()).output().expect("run");
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    scene.expect_empty();
}
