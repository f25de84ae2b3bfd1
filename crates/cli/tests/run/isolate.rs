//! `--isolate pid`: the kernel alone guarantees that no process stays.

use std::process::Stdio;

use badchild::{Scene, User, badchild};
use nostray_sys::Signal;
use testkit::{nostray, own_processes, start_host};

const ISOLATED: [&str; 6] = ["--isolate", "pid", "--eof-grace", "150ms", "--term-grace", "200ms"];

#[test]
fn the_child_is_in_a_namespace_with_its_own_pids_and_its_own_proc() {
    for user in User::all() {
        let scene = Scene::new(user);
        let mut command = scene.command(&nostray());
        let script = "echo pid=$$ id=$(id -u); ls /proc | grep -c '^[0-9]'; exit 6";
        let output = command
            .args(["run", "--isolate", "pid", "--", "sh", "-c", script])
            .stdin(Stdio::null())
            .output()
            .expect("run");
        let said = String::from_utf8_lossy(&output.stdout);
        let id = if user == User::Nobody { 65534 } else { own_user() };
        assert!(said.starts_with(&format!("pid=2 id={id}\n")), "{output:?}");
        let processes: u32 = said.lines().nth(1).and_then(|n| n.parse().ok()).expect("a number");
        assert!(processes < 8, "the child sees {processes} processes");
        assert_eq!(output.status.code(), Some(6));
        scene.expect_empty();
    }
}

fn own_user() -> u32 {
    nostray_sys::proc::user_of(nostray_sys::process::getpid()).expect("own user")
}

#[test]
fn no_process_is_left_whether_the_host_or_keepers_are_killed() {
    for user in User::all() {
        for victims in ["host", "front", "spare", "guard", "front spare guard"] {
            for manner in ["cooperative", "stubborn"] {
                let scene = Scene::new(user);
                let mut host = start_host(&scene, &[], &ISOLATED, &["tree", manner, "daemon"]);
                host.ready();
                let own = own_processes(&scene);
                if victims == "host" {
                    host.kill();
                }
                for (name, found) in [("front", own.front), ("spare", own.spare), ("guard", own.guard)] {
                    if victims.contains(name) {
                        found.send(Signal::KILL);
                    }
                }
                host.order("exit");
                scene.expect_empty();
            }
        }
    }
}

#[test]
fn every_exit_reason_is_passed_on() {
    let scene = Scene::new(User::Current);
    for (manner, code) in [(["exit", "42"], 42), (["die", "9"], 137), (["die", "15"], 143), (["leave", "daemon"], 99)]
    {
        let mut command = scene.command(&nostray());
        let status =
            command.args(["run", "--isolate", "pid", "--"]).arg(badchild()).args(manner).status().expect("run");
        assert_eq!(status.code(), Some(code), "{manner:?}");
    }
    scene.expect_empty();
}

/// Where pid namespaces are forbidden, nostray starts no child and names the reason.
#[test]
fn where_pid_namespaces_are_forbidden_no_child_is_started_and_the_reason_is_named() {
    let scene = Scene::new(User::Current);
    let mut command = scene.command("unshare".as_ref());
    let script = "echo 0 > /proc/sys/user/max_pid_namespaces && exec \"$@\"";
    command.args(["--user", "--map-root-user", "sh", "-c", script, "sh"]).arg(nostray());
    let output = command.args(["run", "--isolate", "pid", "--", "echo", "started"]).output().expect("run");
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!((output.status.code(), output.stdout.as_slice()), (Some(125), b"".as_slice()), "{said}");
    assert!(said.contains("user.max_pid_namespaces") && said.contains("leave --isolate out"), "{said}");
    scene.expect_empty();
}

/// Otherwise an isolated pen behaves like any other.
#[test]
fn a_signal_and_the_end_of_input_end_an_isolated_tree() {
    for event in ["close", "term"] {
        let scene = Scene::new(User::Current);
        let mut host = start_host(&scene, &[], &ISOLATED, &["tree", "stubborn", "setsid"]);
        let front = host.ready();
        if event == "close" {
            host.order("close")
        } else {
            front.send(Signal::TERM)
        }
        badchild::wait_until("only the host is left", || scene.processes().len() == 1);
        host.order("exit");
        scene.expect_empty();
    }
}
