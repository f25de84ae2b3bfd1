//! The crash loop that slots prevent, with a real database: a server needs longer to recover its log than its host
//! waits, and the host starts another server each time. With a PID file no server is ever ready. With a slot one is,
//! with every policy of the newcomers, and the database is intact and had one user at a time.
//!
//! A test program of its own: the patience of the hosts follows from the time that a server needed in a first
//! measurement. Tests that take the CPUs at the same time delay the server, and the hosts start ever more contenders.

mod evidence;
mod hosts;
mod wreck;

use std::collections::BTreeSet;
use std::time::Instant;

use badchild::wait_until;
use testkit::stage::Stage;

use evidence::{
    Watch, expect_no_two_servers_at_once, expect_one_owner_at_a_time, expect_ready, expect_whole, pids_with, record,
    show,
};
use hosts::{A_FEW, Session, ends_what_it_started, expect_impatience, impatient_host};
use wreck::{Path, Wreck, patience, plain, say, slotted};

#[test]
fn with_a_pid_file_no_server_is_ever_ready_although_a_server_left_alone_would_be() {
    let Some(wreck) = Wreck::find() else { return };
    let stage = wreck.copy();
    let pid_file = stage.file("pid");
    let (mut count, began) = (0, Instant::now());
    let start = || {
        let caller = plain(&stage, &["--pid-file", &pid_file]);
        count += 1;
        // Wait until the server is at work: before it has written its PID file, a second server would start beside it,
        // which is another problem.
        wait_until("the server is at work", || pids_with(&stage, "opens").len() == count);
        caller
    };
    // As long as three servers would need, one after the other.
    let mut sessions = impatient_host(wreck.patience_of_host(), wreck.alone * 3, start);
    assert!(sessions.len() >= A_FEW, "{} {:#?}", sessions.len(), record(&stage));
    assert!(sessions.iter_mut().all(|session| !session.is_answered()), "{:#?}", record(&stage));
    assert_eq!(pids_with(&stage, "ready"), [0; 0], "{:#?}", record(&stage));
    // The next server killed each of them except the last.
    let mut last = sessions.pop().expect("is there");
    for mut session in sessions {
        let mut ended = None;
        wait_until("the server has ended", || {
            ended = session.caller.process.try_wait().expect("look");
            ended.is_some()
        });
        assert!(ended.is_some_and(|status| status.code().is_none()), "{ended:?}");
    }
    say(&format!(
        "with a PID file: {} of {count} servers were killed in {:.1?}, and none was ready",
        count - 1,
        began.elapsed()
    ));
    // Left alone, the last server gets ready.
    last.expect_answer();
    last.who();
    last.caller.end(&stage);
    expect_whole(&stage);
}

/// Runs an impatient host with one wreck until a server answers, and returns all its sessions. `None` where the test is
/// skipped.
fn crowd(path: Path, if_taken: &str) -> Option<(Stage, Watch, Vec<Session>)> {
    let wreck = Wreck::find()?;
    let stage = wreck.copy();
    let watch = Watch::over(&stage);
    let start = || {
        let caller = slotted(&stage, path, if_taken, &[]);
        // Later sessions find the first server at work.
        wait_until("the server is at work", || !pids_with(&stage, "opens").is_empty());
        caller
    };
    let sessions = impatient_host(wreck.patience_of_host(), patience(), start);
    expect_impatience(&sessions);
    Some((stage, watch, sessions))
}

#[test]
fn newcomers_that_wait_let_the_first_server_get_ready_and_come_after_it() {
    newcomers_wait(Path::Managed);
}

#[test]
fn newcomers_that_wait_let_the_first_server_get_ready_also_with_a_ready_file() {
    newcomers_wait(Path::Direct);
}

fn newcomers_wait(path: Path) {
    let Some((stage, watch, mut sessions)) = crowd(path, "wait") else { return };
    let (first, rest) = sessions.split_first_mut().expect("is there");
    assert!(first.is_answered() && rest.iter_mut().all(|session| !session.is_answered()));
    let pid = first.who();
    assert_eq!(pids_with(&stage, "start"), [pid]);
    // The last session may have been started only now.
    wait_until("the others are in the queue", || {
        show(&stage)["waiting"].as_array().map(Vec::len) == Some(rest.len())
    });
    expect_ready(&stage);
    let mut rest = sessions.split_off(1);
    let mut first = sessions.remove(0);
    first.caller.close();
    assert_eq!(first.caller.code(), 0, "{}", first.caller.errors());
    // First come, first served.
    rest[0].expect_answer();
    assert_ne!(rest[0].who(), pid);
    expect_ready(&stage);
    for session in rest.iter_mut().rev() {
        session.caller.close();
        let code = if session.is_answered { 0 } else { 75 };
        assert_eq!(session.caller.code(), code, "{}", session.caller.errors());
    }
    stage.scene.expect_empty();
    expect_one_owner_at_a_time(&stage, watch, 2);
}

#[test]
fn newcomers_that_fail_are_told_that_a_server_is_starting_and_the_first_server_gets_ready() {
    newcomers_fail(Path::Managed);
}

#[test]
fn newcomers_that_fail_are_told_that_a_server_is_starting_also_with_a_ready_file() {
    newcomers_fail(Path::Direct);
}

fn newcomers_fail(path: Path) {
    let Some((stage, watch, mut sessions)) = crowd(path, "fail") else { return };
    let mut first = sessions.remove(0);
    assert!(first.is_answered());
    sessions[0].expect_refusal(", starting for ");
    for session in &mut sessions {
        session.expect_refusal("");
        // On a busy machine, several newcomers may come after the server is ready and before its host sees the answer.
        let errors = session.caller.errors();
        assert!([", starting for ", ", ready for "].iter().any(|state| errors.contains(state)), "{errors}");
    }
    first.who();
    expect_ready(&stage);
    first.caller.end(&stage);
    expect_one_owner_at_a_time(&stage, watch, 1);
}

#[test]
fn newcomers_that_replace_wait_until_the_first_server_is_ready_and_find_its_work_done() {
    newcomers_replace(Path::Managed);
}

#[test]
fn newcomers_that_replace_wait_until_the_first_server_is_ready_also_with_a_ready_file() {
    newcomers_replace(Path::Direct);
}

fn newcomers_replace(path: Path) {
    let Some((stage, watch, mut sessions)) = crowd(path, "replace") else { return };
    let mut last = sessions.pop().expect("is there");
    last.expect_answer();
    let pid = last.who();
    let started = pids_with(&stage, "start");
    assert_eq!(started.last(), Some(&pid), "{:#?}", record(&stage));
    // The first server handed over when it was ready, and the newcomers in between were told that a later one replaces
    // it. If the last newcomer came at that very moment, the one before it may have had the slot, and may have been
    // asked to hand over before it could answer.
    let mut owners = 1;
    for (at, session) in sessions.iter_mut().enumerate() {
        let code = session.caller.code();
        assert!(at > 0 || code != 75, "{}", session.caller.errors());
        if code != 75 {
            owners += 1;
        } else {
            session.expect_refusal("somebody who came later replaces it instead");
        }
    }
    assert!((2..=3).contains(&owners), "{owners}");
    let journal = stage.journal();
    assert!(journal.contains("asked to hand over"), "{journal}");
    expect_ready(&stage);
    last.caller.end(&stage);
    let shown = show(&stage);
    assert!(shown["history"][0]["why"].as_str().is_some_and(|why| why.contains("hand")), "{shown:#}");
    expect_one_owner_at_a_time(&stage, watch, owners);
}

#[test]
fn newcomers_that_share_wait_for_the_first_server_and_all_are_answered() {
    let Some((stage, watch, mut sessions)) = crowd(Path::Managed, "share") else { return };
    let all: BTreeSet<i64> = sessions
        .iter_mut()
        .map(|session| {
            session.expect_answer();
            session.who()
        })
        .collect();
    assert_eq!(all.len(), 1, "{all:?}");
    for mut session in sessions {
        session.caller.close();
        assert_eq!(session.caller.code(), 0, "{}", session.caller.errors());
    }
    let released = stage.nostray(&["slot", "release", "db"]);
    assert!(released.status.success(), "{released:?}");
    stage.scene.expect_empty();
    expect_one_owner_at_a_time(&stage, watch, 1);
}

#[test]
fn a_shared_server_gets_ready_although_the_host_ends_each_session_that_it_started() {
    let Some(wreck) = Wreck::find() else { return };
    let stage = wreck.copy();
    let watch = Watch::over(&stage);
    let (count, mut session) =
        ends_what_it_started(&stage, wreck.patience_of_host(), || slotted(&stage, Path::Managed, "share", &[]));
    assert!(count >= 3, "{count}");
    session.who();
    session.caller.close();
    assert_eq!(session.caller.code(), 0, "{}", session.caller.errors());
    assert!(stage.nostray(&["slot", "release", "db"]).status.success());
    stage.scene.expect_empty();
    expect_one_owner_at_a_time(&stage, watch, 1);
}

/// A server that has to end goes on within its grace, and no other server starts before that. So the recovery is done
/// once.
#[test]
fn a_server_with_enough_grace_gets_its_work_done_although_the_host_ends_each_session_that_it_started() {
    let Some(wreck) = Wreck::find() else { return };
    for (path, if_taken) in [(Path::Managed, "wait"), (Path::Direct, "replace")] {
        let stage = wreck.copy();
        let watch = Watch::over(&stage);
        let grace = format!("{}s", patience().as_secs());
        let start = || slotted(&stage, path, if_taken, &["--eof-grace", &grace]);
        let (count, mut session) = ends_what_it_started(&stage, wreck.patience_of_host(), start);
        assert!(count >= 3, "{count}");
        session.who();
        session.caller.end(&stage);
        expect_no_two_servers_at_once(&stage, watch);
        // The first server had to recover the log, and no server after it.
        let opened: Vec<_> = record(&stage).into_iter().filter(|entry| entry.what.starts_with("opens ")).collect();
        let (first, rest) = opened.split_first().expect("is there");
        assert!(first.what != "opens 0", "{opened:?}");
        let is_done = rest.iter().all(|entry| entry.what == "opens 0");
        assert!(is_done, "{path:?} {:#?}\n{}", record(&stage), stage.journal());
        assert_eq!(pids_with(&stage, "closed"), pids_with(&stage, "start"), "{:#?}", record(&stage));
        expect_whole(&stage);
    }
}
