//! The loop that slots are for, with a real database: a server that needs longer to recover its log than its host waits, and a host
//! that starts another one each time. With a PID file nobody is ever ready. With a slot one is, whatever newcomers are told to do, and
//! the database is whole and had one user at a time.
//!
//! A program of its own: how long a host waits follows from how long a server that was measured first needed. Tests beside it that take the
//! processors away make the server late and the hosts start ever more contenders.

mod evidence;
mod hosts;
mod wreck;

use std::collections::BTreeSet;
use std::time::Instant;

use badchild::wait_until;
use testkit::stage::Stage;

use evidence::{
    Watch, expect_nobody_met_another, expect_one_owner_at_a_time, expect_ready, expect_whole, record, show, those_who,
};
use hosts::{A_FEW, Session, ends_what_it_started, expect_impatience, impatient_host};
use wreck::{Path, Wreck, patience, plain, say, slotted};

#[test]
fn with_a_pid_file_nobody_is_ever_ready_although_one_that_is_left_alone_would_be() {
    let Some(wreck) = Wreck::find() else { return };
    let stage = wreck.copy();
    let pid_file = stage.file("pid");
    let (mut count, began) = (0, Instant::now());
    let start = || {
        let caller = plain(&stage, &["--pid-file", &pid_file]);
        count += 1;
        // A file that is not written yet keeps nobody away, and two would be at it at once. That is another story.
        wait_until("it is at its work", || those_who(&stage, "opens").len() == count);
        caller
    };
    // As long as three of them would need, one after the other.
    let mut sessions = impatient_host(wreck.patience_of_host(), wreck.alone * 3, start);
    assert!(sessions.len() >= A_FEW, "{} {:#?}", sessions.len(), record(&stage));
    assert!(sessions.iter_mut().all(|session| !session.is_answered()), "{:#?}", record(&stage));
    assert_eq!(those_who(&stage, "ready"), [0; 0], "{:#?}", record(&stage));
    // Everybody but the last one was killed, by the next one.
    let mut last = sessions.pop().expect("is there");
    for mut session in sessions {
        let mut ended = None;
        wait_until("it has ended", || {
            ended = session.caller.process.try_wait().expect("look");
            ended.is_some()
        });
        assert!(ended.is_some_and(|status| status.code().is_none()), "{ended:?}");
    }
    say(&format!(
        "with a PID file: {} of {count} were killed in {:.1?}, and nobody was ready",
        count - 1,
        began.elapsed()
    ));
    // And that is all that was wrong.
    last.expect_answer();
    last.who();
    last.caller.end(&stage);
    expect_whole(&stage);
}

/// An impatient host over one wreck, until somebody has answered it; with everybody whom it has started. None where it cannot be played.
fn crowd(path: Path, if_taken: &str) -> Option<(Stage, Watch, Vec<Session>)> {
    let wreck = Wreck::find()?;
    let stage = wreck.copy();
    let watch = Watch::over(&stage);
    let start = || {
        let caller = slotted(&stage, path, if_taken, &[]);
        // Whoever comes after the first one finds it at its work.
        wait_until("it is at its work", || !those_who(&stage, "opens").is_empty());
        caller
    };
    let sessions = impatient_host(wreck.patience_of_host(), patience(), start);
    expect_impatience(&sessions);
    Some((stage, watch, sessions))
}

#[test]
fn who_waits_lets_the_first_one_get_ready_and_comes_after_it() {
    who_waits(Path::Managed);
}

#[test]
fn who_waits_for_a_file_to_be_there_lets_the_first_one_get_ready_too() {
    who_waits(Path::Direct);
}

fn who_waits(path: Path) {
    let Some((stage, watch, mut sessions)) = crowd(path, "wait") else { return };
    let (first, rest) = sessions.split_first_mut().expect("is there");
    assert!(first.is_answered() && rest.iter_mut().all(|session| !session.is_answered()));
    let pid = first.who();
    assert_eq!(those_who(&stage, "start"), [pid]);
    // The last one may have been started at the very moment.
    wait_until("the others stand in the queue", || {
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
fn who_fails_is_told_who_is_starting_and_the_first_one_gets_ready() {
    who_fails(Path::Managed);
}

#[test]
fn who_fails_for_a_file_to_be_there_is_told_the_same() {
    who_fails(Path::Direct);
}

fn who_fails(path: Path) {
    let Some((stage, watch, mut sessions)) = crowd(path, "fail") else { return };
    let mut first = sessions.remove(0);
    assert!(first.is_answered());
    sessions[0].expect_refusal(", starting for ");
    for session in &mut sessions {
        session.expect_refusal("");
        // On a busy machine, several may come between the moment when it is ready and the one when its host sees the answer.
        let errors = session.caller.errors();
        assert!([", starting for ", ", ready for "].iter().any(|state| errors.contains(state)), "{errors}");
    }
    first.who();
    expect_ready(&stage);
    first.caller.end(&stage);
    expect_one_owner_at_a_time(&stage, watch, 1);
}

#[test]
fn who_replaces_waits_for_the_first_one_to_get_ready_and_finds_its_work_done() {
    who_replaces(Path::Managed);
}

#[test]
fn who_replaces_waits_for_a_file_to_be_there_too() {
    who_replaces(Path::Direct);
}

fn who_replaces(path: Path) {
    let Some((stage, watch, mut sessions)) = crowd(path, "replace") else { return };
    let mut last = sessions.pop().expect("is there");
    last.expect_answer();
    let pid = last.who();
    let started = those_who(&stage, "start");
    assert_eq!(started.last(), Some(&pid), "{:#?}", record(&stage));
    // It has handed over when it was ready, and whoever came in between was told that somebody came later. (If somebody came at the
    // very moment, the one before it may have had its turn; and may have been asked for it before it could answer.)
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
fn who_shares_waits_with_the_first_one_and_all_are_answered() {
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
fn a_shared_server_gets_ready_although_each_host_kills_what_it_has_started() {
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

/// What is ended goes on for as long as its graces allow, and nobody else begins before that. Then the work is done, once.
#[test]
fn a_server_with_enough_grace_gets_its_work_done_although_each_host_kills_what_it_has_started() {
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
        expect_nobody_met_another(&stage, watch);
        // The first one has had the work, and nobody after it.
        let opened: Vec<_> = record(&stage).into_iter().filter(|entry| entry.what.starts_with("opens ")).collect();
        let (first, rest) = opened.split_first().expect("is there");
        assert!(first.what != "opens 0", "{opened:?}");
        let is_done = rest.iter().all(|entry| entry.what == "opens 0");
        assert!(is_done, "{path:?} {:#?}\n{}", record(&stage), stage.journal());
        assert_eq!(those_who(&stage, "closed"), those_who(&stage, "start"), "{:#?}", record(&stage));
        expect_whole(&stage);
    }
}
