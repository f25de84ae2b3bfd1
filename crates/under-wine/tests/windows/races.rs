//! Ends at any moment of a start.

use std::time::Duration;

use under_wine::{DEADLINE, Stage, kill, within};

/// Kills one of the processes at moments that move through the whole start, from when the host's own call has returned. (A host that is
/// killed inside of `CreateProcess` can leave a process in which not one instruction has run, whichever program that is.)
fn killed_during_the_start(name: &str, is_victim: fn(&str) -> bool) {
    let stage = Stage::new(name);
    for round in 0..25_u64 {
        let mut host = stage.host("waits", &stage.contained(&["--eof-grace", "0s"], "tree", &[]));
        stage.told("front");
        std::thread::sleep(Duration::from_millis(round * 8)); // the moment is what this test varies
        stage.seen().iter().filter(|seen| is_victim(&seen.line)).for_each(|seen| kill(seen.pid));
        // The host ends by itself if its front has.
        stage.time_until_empty_but(" host ");
        stage.seen().iter().for_each(|seen| kill(seen.pid));
        host.wait().expect("ended");
        stage.clear();
    }
}

#[test]
fn a_host_that_is_killed_while_it_starts_a_child() {
    killed_during_the_start("race-host", |line| line.contains(" host "));
}

#[test]
fn a_front_that_is_killed_while_it_starts_a_child() {
    killed_during_the_start("race-front", |line| line.contains("nostray.exe") && !line.contains(" host "));
}

/// Kills one of the processes while the child starts others as fast as it can. (Wine counts a process for ever as one of the job if its maker
/// was ended inside of `CreateProcess`.)
fn killed_during_a_storm(name: &str, is_victim: fn(&str) -> bool) {
    let stage = Stage::new(name);
    for round in 0..25_u64 {
        let mut host = stage.host("waits", &stage.contained(&["--eof-grace", "0s"], "storm", &[]));
        let has_begun = within(DEADLINE, || (stage.has_told("storm") || stage.has_told("code")).then_some(()));
        assert!(has_begun.is_some(), "{}", stage.evidence());
        if stage.has_told("code") {
            // Wine refuses a start now and then, with its internal error.
            assert_eq!(stage.told("code"), "126");
        }
        std::thread::sleep(Duration::from_millis(round * 3)); // the moment is what this test varies
        stage.seen().iter().filter(|seen| is_victim(&seen.line)).for_each(|seen| kill(seen.pid));
        stage.time_until_empty_but(" host ");
        stage.seen().iter().for_each(|seen| kill(seen.pid));
        host.wait().expect("ended");
        stage.clear();
    }
}

#[test]
fn a_host_that_is_killed_while_its_child_starts_others() {
    killed_during_a_storm("storm-host", |line| line.contains(" host "));
}

#[test]
fn a_child_that_is_killed_while_it_starts_others() {
    killed_during_a_storm("storm-child", |line| line.contains(" storm ") && !line.contains("nostray.exe"));
}
