//! On a terminal, job control, Ctrl-C and Ctrl-Z work as without nostray. The test types real keys.

use badchild::{Found, Scene, User};
use testkit::nostray;
use testkit::person::Person;
use testkit::puppet::wait_until_quiet;

const CTRL_C: &str = "\x03";
const CTRL_Z: &str = "\x1a";
const CTRL_D: &str = "\x04";

/// Waits until a job is the terminal's foreground group. A shell names the job that it continues a moment before
/// that, and keys that are typed in between do not reach the job.
fn sees_in_front(person: &Person, scene: &Scene, command: &str) {
    badchild::wait_until("the job has the terminal", || {
        let job = scene.processes().into_iter().find(|found| found.command == command && !found.stat.is_stopped());
        job.is_some_and(|job| badchild::foreground_group(&person.master) == Some(job.stat.pid))
    });
    // The guard passes SIGCONT on to its child, too. Wait for that: a user does not press the next key within a
    // millisecond.
    let is_ours = |found: &Found| found.stat.name.starts_with("nostray");
    scene.processes().into_iter().filter(is_ours).for_each(|found| wait_until_quiet(&found));
}

#[test]
fn a_shell_inside_has_job_control() {
    let scene = Scene::new(User::Current);
    let nostray = nostray().display().to_string();
    let mut person = Person::starts(&scene, &[&nostray, "run", "--", "bash", "--norc", "--noprofile", "-i"]);
    person.sees("prompt> ");
    person.types("sleep 1000\n");
    badchild::wait_until("sleep runs", || !scene.those_with("sleep 1000").is_empty());
    person.types(CTRL_Z);
    person.sees("Stopped");
    person.sees("prompt> ");
    person.types("fg\n");
    person.sees("sleep 1000");
    sees_in_front(&person, &scene, "sleep 1000");
    person.types(CTRL_C);
    person.sees("prompt> ");
    person.types("echo code=$?\n");
    person.sees("code=130");
    person.types("sleep 2000 & disown; exit 5\n");
    assert_eq!(person.exit_code(), Some(5));
    scene.expect_empty();
}

#[test]
fn a_shell_outside_sees_its_job_stop_and_continue() {
    let scene = Scene::new(User::Current);
    let nostray = nostray().display().to_string();
    let mut person = Person::starts(&scene, &["bash", "--norc", "--noprofile", "-i"]);
    person.sees("prompt> ");
    person.types(&format!("{nostray} run -- cat\n"));
    // Keys that are typed before cat is in the foreground would go to the shell.
    let cat_runs = || scene.processes().iter().any(|found| found.stat.name == "cat");
    badchild::wait_until("cat runs", cat_runs);
    person.types("one\n");
    person.sees("one\r\none\r\n");
    for round in ["two", "three"] {
        person.types(CTRL_Z);
        person.sees("Stopped");
        person.sees("prompt> ");
        person.types("fg\n");
        person.sees("run -- cat");
        sees_in_front(&person, &scene, &format!("{nostray} run -- cat"));
        person.types(&format!("{round}\n"));
        person.sees(&format!("{round}\r\n{round}\r\n"));
    }
    person.types(CTRL_C);
    person.sees("prompt> ");
    person.types("echo code=$?\n");
    person.sees("code=130");
    person.types(&format!("{nostray} run -- cat\n"));
    badchild::wait_until("cat runs", cat_runs);
    person.types("four\n");
    person.sees("four\r\nfour\r\n");
    person.types(CTRL_D);
    person.sees("prompt> ");
    person.types("echo code=$?; exit\n");
    person.sees("code=0");
    assert_eq!(person.exit_code(), Some(0));
    scene.expect_empty();
}

/// Ctrl-C goes to the whole foreground group. A child that handles it gets it once, and is not ended.
#[test]
fn a_key_that_the_child_handles_ends_nothing() {
    let scene = Scene::new(User::Current);
    let nostray = nostray().display().to_string();
    // Not a shell's trap: a shell may lose a signal that comes while it handles the one before.
    let script = "
import os, signal
signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
os.write(1, b'go')
for n in 1, 2:
    signal.sigwait({signal.SIGINT})
    os.write(1, b'caught=%d' % n)
os._exit(8)
";
    let mut person = Person::starts(&scene, &[&nostray, "run", "--", "python3", "-c", script]);
    person.sees("go");
    person.types(CTRL_C);
    person.sees("caught=1");
    person.types(CTRL_C);
    person.sees("caught=2");
    assert_eq!(person.exit_code(), Some(8));
    scene.expect_empty();
}

/// A background job that reads from the terminal is stopped. The shell must see that, too.
#[test]
fn a_background_job_that_reads_is_stopped_and_can_be_continued() {
    let scene = Scene::new(User::Current);
    let nostray = nostray().display().to_string();
    let mut person = Person::starts(&scene, &["bash", "--norc", "--noprofile", "-i"]);
    person.sees("prompt> ");
    person.types(&format!("{nostray} run -- cat &\n"));
    person.sees("prompt> ");
    // The shell sees the stop when the front stops, too. Spare and guard do not stop.
    let words = format!("{nostray} run -- cat");
    badchild::wait_until("cat is stopped, and the front with it", || {
        let stopped: Vec<_> = scene.processes().into_iter().filter(|found| found.stat.is_stopped()).collect();
        stopped.iter().any(|found| found.stat.name == "cat") && stopped.iter().any(|found| found.command == words)
    });
    person.types("jobs; fg\n");
    person.sees("Stopped");
    person.sees("run -- cat");
    sees_in_front(&person, &scene, &format!("{nostray} run -- cat"));
    person.types("hello\n");
    person.sees("hello\r\nhello\r\n");
    person.types(CTRL_D);
    person.sees("prompt> ");
    person.types("exit\n");
    person.exit_code();
    scene.expect_empty();
}

/// The terminal is closed while jobs run that try to survive that.
#[test]
fn closing_the_terminal_ends_everything_behind_it() {
    let scene = Scene::new(User::Current);
    let nostray = nostray().display().to_string();
    let words =
        [nostray.as_str(), "run", "--eof-grace", "200ms", "--term-grace", "200ms", "--", "bash", "--norc", "-i"];
    let mut person = Person::starts(&scene, &words);
    person.sees("prompt> ");
    person.types("nohup sleep 3000 >/dev/null & setsid sleep 4000 & (trap '' HUP TERM; sleep 5000) &\n");
    badchild::wait_until("all jobs run", || scene.those_with("sleep").len() >= 3);
    let Person { master, mut process, .. } = person;
    drop(master);
    process.wait().expect("wait");
    scene.expect_empty();
}
