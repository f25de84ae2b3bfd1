//! A host that died before nostray ran must not be confused with the process that adopts its orphans, nor the other way
//! round.

use std::process::{Command, Stdio};

use badchild::{Scene, User, badchild};
use testkit::{nostray, run_words};

fn has_started(scene: &Scene, words: &[String]) -> bool {
    let mut command = scene.command(&badchild());
    let mut process = command.args(words).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("start");
    let held = process.stdin.take();
    process.wait().expect("the launcher ends");
    let mut said = String::new();
    std::io::Read::read_to_string(&mut process.stdout.take().expect("piped"), &mut said).expect("read");
    drop(held);
    scene.expect_empty();
    said.contains("ready")
}

/// In a session of its own, as most hosts start servers, with a pipe that another process still holds.
#[test]
fn an_orphan_in_a_session_of_its_own_starts_no_child() {
    let scene = Scene::new(User::Current);
    let me = badchild().display().to_string();
    let mut words = ["after-parent", "--", &me, "leader", "--"].map(str::to_owned).to_vec();
    words.extend(run_words(&["--eof-grace", "0s"], &["tree", "cooperative", "plain"]));
    assert!(!has_started(&scene, &words));
}

/// Inside a pen, the guard adopts orphans.
#[test]
fn an_orphan_inside_a_pen_starts_no_child() {
    let scene = Scene::new(User::Current);
    let me = badchild().display().to_string();
    let nostray = nostray().display().to_string();
    let inner = run_words(&["--eof-grace", "0s"], &["tree", "cooperative", "plain"]).join(" ");
    // The outer child stays until the orphan has said why it starts no child, or has started one.
    let script = format!("{me} after-parent -- {inner} 2>&1 & cat");
    let mut command = scene.command(nostray.as_ref());
    let mut process = command
        .args(["run", "--", "sh", "-c", &script])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("start");
    let mut said = String::new();
    let mut output = std::io::BufReader::new(process.stdout.take().expect("piped"));
    std::io::BufRead::read_line(&mut output, &mut said).expect("read");
    drop(process.stdin.take());
    process.wait().expect("wait");
    assert!(said.contains("had already ended"), "said: {said}");
    scene.expect_empty();
}

/// An agent that is the first process of a container starts servers with a pipe and in sessions of their own.
#[test]
fn a_host_that_is_the_first_process_of_its_container_is_a_host() {
    let scene = Scene::new(User::Current);
    let mut unshare = scene.command("unshare".as_ref());
    let script = "import subprocess,sys\n\
                  p=subprocess.Popen(sys.argv[1:],stdin=subprocess.PIPE,start_new_session=True)\n\
                  print('code',p.wait())";
    let wrapper = ["--user", "--map-root-user", "--pid", "--fork", "--mount-proc"];
    if !Command::new("unshare").args(wrapper).arg("true").status().is_ok_and(|status| status.success()) {
        assert!(std::env::var_os("CI").is_none(), "no pid namespaces in CI");
        skipped("unshare does not work here");
        return;
    }
    unshare.args(wrapper).args(["python3", "-c", script]).arg(nostray()).args(["run", "--"]).arg(badchild());
    let output = unshare.args(["exit", "7"]).output().expect("unshare");
    assert_eq!(String::from_utf8_lossy(&output.stdout), "code 7\n", "{output:?}");
    scene.expect_empty();
}

#[allow(clippy::print_stderr, reason = "a skipped test must be seen")]
fn skipped(why: &str) {
    eprintln!("SKIPPED: {why}");
}

/// Children that the process had before it became nostray are not part of the tree, and are never ended.
#[test]
fn earlier_children_of_the_process_are_not_touched() {
    for killed in ["neither", "both"] {
        let (scene, strangers) = (Scene::new(User::Current), Scene::new(User::Current));
        let mut shell = scene.command("bash".as_ref());
        let sleep = strangers.command(badchild().as_ref());
        let token =
            sleep.get_envs().find_map(|(key, value)| (key == badchild::TOKEN).then_some(value?)).expect("set");
        let script = format!(
            "{token_name}={token} {me} pause >/dev/null & {token_name}={token} {me} pause >/dev/null & exec {run}",
            token_name = badchild::TOKEN,
            token = token.display(),
            me = badchild().display(),
            run = run_words(&testkit::GRACES, &["tree", "stubborn", "daemon"]).join(" "),
        );
        let mut process =
            shell.args(["-c", &script]).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("start");
        badchild::wait_until("all processes run", || {
            scene.processes().len() == 5 && strangers.processes().len() == 2
        });
        if killed == "both" {
            let own = testkit::own_processes(&scene);
            own.guard.send(nostray_sys::Signal::KILL);
            own.spare.send(nostray_sys::Signal::KILL);
        } else {
            drop(process.stdin.take());
        }
        process.wait().expect("wait");
        scene.expect_empty();
        assert_eq!(strangers.processes().len(), 2, "{killed} killed");
    }
}
