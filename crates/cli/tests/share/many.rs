//! Many sessions share a child: each of them needs files in the steward, which are not the child's to have.

use badchild::Found;
use testkit::nostray;
use testkit::sharing::{BY_COMMAND, STEWARD};
use testkit::stage::{Caller, Stage};

/// Fewer than the sessions of this test need in the steward.
const SOFT: &str = "64";
const HARD: &str = "2048";
const SESSIONS: usize = 40;

/// The limits on open files of a process: the one that it may raise, and the one to which it may.
fn limits(found: &Found) -> [String; 2] {
    let limits = std::fs::read_to_string(format!("/proc/{}/limits", found.stat.pid)).expect("limits");
    let line = limits.lines().find_map(|line| line.strip_prefix("Max open files")).expect("a limit on open files");
    let mut words = line.split_whitespace().map(str::to_owned);
    [words.next().expect("soft"), words.next().expect("hard")]
}

#[test]
fn a_steward_raises_its_limit_on_files_for_its_sessions_and_not_for_the_child() {
    let stage = Stage::new();
    let command = stage.server(&["--claim", &stage.file("claim")]);
    let program = nostray().display().to_string();
    let limit = format!("--nofile={SOFT}:{HARD}");
    let words = [&[limit.as_str(), &program, "share", "--linger", "200ms"], &BY_COMMAND[..], &["--"]].concat();
    let words: Vec<&str> = words.into_iter().chain(command.iter().map(String::as_str)).collect();
    let mut sessions: Vec<Caller> = (0..SESSIONS).map(|_| stage.start_plain("prlimit", &words)).collect();
    sessions.iter_mut().for_each(|session| drop(session.initialize()));
    stage.wait_for_leases(&[SESSIONS]);
    assert_eq!(limits(&stage.the(STEWARD)), [HARD, HARD]);
    let [server] = &stage.servers()[..] else { panic!("not one server: {:#?}", stage.servers()) };
    assert_eq!(limits(server), [SOFT, HARD], "the child has what its host has");
    sessions.iter_mut().for_each(|session| assert_eq!(session.pid().to_string(), server.stat.pid.to_string()));
    drop(sessions);
    stage.scene.expect_empty();
}
