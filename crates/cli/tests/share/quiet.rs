//! A shared child of which nobody wants anything costs nothing: neither broker nor steward, nor anybody of its pen, nor the sessions'
//! fronts run while nothing happens.

use std::time::{Duration, Instant};

use badchild::{Found, PATIENCE, comes_true};
use testkit::sharing::release;
use testkit::stage::Stage;

/// How often a process has been put on a processor: without that, it cannot make a system call.
fn times_run(found: &Found) -> Option<u64> {
    let status = std::fs::read_to_string(format!("/proc/{}/status", found.stat.pid)).ok()?;
    let switches = status.lines().filter(|line| line.contains("ctxt_switches"));
    switches.map(|line| line.rsplit('\t').next()?.parse::<u64>().ok()).sum()
}

/// Long enough for whatever would come again and again.
const A_WHILE: Duration = Duration::from_millis(2500);

#[test]
fn no_process_of_ours_runs_while_three_sessions_are_idle() {
    let stage = Stage::new();
    let mut callers: Vec<_> = (0..3).map(|_| stage.shared(&[], &[])).collect();
    callers.iter_mut().for_each(|caller| drop(caller.who()));
    // Three fronts, broker, steward, and the three of the pen; those that came too late to be the broker are gone.
    let mut own = Vec::new();
    let are_all = comes_true(PATIENCE, &mut || {
        own = stage.own();
        own.len() == 8
    });
    assert!(are_all, "{own:#?}");
    let count = || own.iter().map(|found| (found.stat.name.clone(), times_run(found))).collect::<Vec<_>>();
    // They tidy up, and look for what others have left, a moment after the start; each once.
    let (mut last, mut since, mut changes) = (count(), Instant::now(), Vec::new());
    let settled = comes_true(PATIENCE, &mut || {
        let now = count();
        if now != last {
            changes.push(now.clone());
            (last, since) = (now, Instant::now());
        }
        since.elapsed() > A_WHILE
    });
    assert!(settled, "there is always something: {changes:#?}");
    callers.into_iter().for_each(release);
    stage.expect_over(1, Duration::ZERO);
}
