//! The child inherits everything as the host set it, except for one variable and one limit.

use std::collections::BTreeSet;
use std::io::{Read, Write};
use std::process::{Command, Stdio};

use badchild::{Scene, User, badchild};
use testkit::nostray;

/// The output of `badchild status` when a shell starts it after this preparation, without and with nostray.
fn compare(preparation: &str) -> (BTreeSet<String>, BTreeSet<String>) {
    let scene = Scene::new(User::Current);
    let look = |wrapper: &str| {
        let mut shell = scene.command("bash".as_ref());
        shell.args(["-c", &format!("{preparation}\nexec {wrapper} {} status", badchild().display())]);
        let output = shell.stdin(Stdio::null()).output().expect("run bash");
        assert!(output.status.success(), "{output:?}");
        let text = String::from_utf8(output.stdout).expect("text");
        // Pipes have numbers, which differ between any two runs.
        let lines = text.lines().filter(|line| !line.starts_with("Max realtime timeout"));
        lines.map(|line| line.split(":[").next().unwrap_or(line).to_owned()).collect()
    };
    let result = (look(""), look(&format!("{} run --", nostray().display())));
    scene.expect_empty();
    result
}

#[track_caller]
fn assert_same(preparation: &str) {
    let (direct, contained) = compare(preparation);
    let lost: Vec<_> = direct.difference(&contained).collect();
    let added: Vec<_> = contained.difference(&direct).filter(|line| !line.starts_with("env NOSTRAY_PEN=")).collect();
    assert!(lost.is_empty() && added.is_empty(), "after `{preparation}`: lost {lost:#?}, added {added:#?}");
}

#[test]
fn environment_directory_limits_and_files_are_the_hosts() {
    assert_same("cd /tmp; umask 027; ulimit -n 200; ulimit -c 0; export A='b c' EMPTY= ODD=$'\\xff\\n'");
    assert_same("exec 5</dev/null 7>/dev/null 33<>/dev/null");
    assert_same("renice -n 7 -p $$ >/dev/null");
}

#[test]
fn signal_dispositions_are_the_hosts_sigpipe_and_sigchld_included() {
    assert_same("trap '' PIPE");
    assert_same("trap - PIPE");
    assert_same("trap '' CHLD");
    assert_same("trap '' INT QUIT HUP TERM USR1 TSTP TTIN TTOU");
}

#[test]
fn streams_that_the_host_closed_stay_closed() {
    assert_same("exec <&-");
    assert_same("exec 2>&-");
    assert_same("exec <&- 2>&-");
}

#[test]
fn the_signal_mask_is_the_hosts() {
    let scene = Scene::new(User::Current);
    let mask_seen = |wrapper: &[&str]| {
        let script = "import os,signal,sys\n\
                      signal.pthread_sigmask(signal.SIG_BLOCK,{signal.SIGUSR1,signal.SIGTERM,signal.SIGCHLD})\n\
                      os.execv(sys.argv[1],sys.argv[1:])";
        let mut python = scene.command("python3".as_ref());
        let output =
            python.args(["-c", script]).args(wrapper).arg(badchild()).arg("status").output().expect("python");
        let text = String::from_utf8(output.stdout).expect("text");
        text.lines().find(|line| line.starts_with("SigBlk")).expect("in the status").to_owned()
    };
    let nostray = nostray().display().to_string();
    let (direct, contained) = (mask_seen(&[]), mask_seen(&[&nostray, "run", "--"]));
    assert_eq!(contained, direct);
    assert!(!direct.ends_with("0000000000000000"), "no signal was blocked: {direct}");
    scene.expect_empty();
}

/// If a process ignores SIGCHLD, its children leave no exit status; front and guard must not inherit that from the
/// host.
#[test]
fn a_host_that_ignores_sigchld_still_gets_the_exit_code() {
    let scene = Scene::new(User::Current);
    let mut shell = scene.command("bash".as_ref());
    let script = format!("trap '' CHLD; exec {} run -- {} exit 42", nostray().display(), badchild().display());
    assert_eq!(shell.args(["-c", &script]).status().expect("bash").code(), Some(42));
    scene.expect_empty();
}

/// Only the child holds files that the host passed on: a reader that waits for their end waits for the child, not for
/// nostray.
#[test]
fn no_nostray_process_keeps_the_hosts_files_open() {
    let (scene, folder) = (Scene::new(User::Current), badchild::Folder::new("passed-on"));
    let fifo = folder.path().join("fifo");
    assert!(Command::new("mkfifo").arg(&fifo).status().expect("mkfifo").success());
    let mut shell = scene.command("sh".as_ref());
    // The child closes its stdout and the passed-on 5, and lives on.
    let script = "exec 5>\"$1\"; exec \"$0\" run -- sh -c 'exec 1>&- 5>&-; read -r line; exit 6'";
    shell.args(["-c", script]).arg(nostray()).arg(&fifo);
    let mut process = shell.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("start");
    let mut nothing = String::new();
    std::fs::File::open(&fifo).expect("open").read_to_string(&mut nothing).expect("the end of 5");
    process.stdout.take().expect("piped").read_to_string(&mut nothing).expect("the end of stdout");
    assert_eq!(nothing, "");
    assert!(process.try_wait().expect("look").is_none(), "the child has ended, so this test proves nothing");
    process.stdin.take().expect("piped").write_all(b"go\n").expect("write");
    assert_eq!(process.wait().expect("wait").code(), Some(6));
    scene.expect_empty();
}

#[test]
fn a_pen_inside_a_pen_has_both_marks() {
    let scene = Scene::new(User::Current);
    let nostray = nostray();
    let mut outer = scene.command(&nostray);
    outer.args(["run", "--"]).arg(&nostray).args(["run", "--", "sh", "-c", "echo $NOSTRAY_PEN"]);
    let output = outer.stdin(Stdio::null()).output().expect("run");
    let mark = String::from_utf8(output.stdout).expect("text");
    let pens: Vec<_> = mark.trim().split('/').collect();
    assert_eq!(pens.len(), 2, "{mark}, {:?}", String::from_utf8_lossy(&output.stderr));
    assert!(pens.iter().all(|pen| pen.split_once('@').is_some_and(|(id, _)| id.len() == 8)), "{mark}");
    scene.expect_empty();
}
