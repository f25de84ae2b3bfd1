//! An idle shared child costs nothing: broker, steward, keepers of the pen and fronts of the sessions do not run while
//! nothing happens.

use std::time::{Duration, Instant};

use badchild::{Found, PATIENCE, comes_true};
use testkit::sharing::release;
use testkit::stage::Stage;

/// How often a process has been scheduled on a CPU. A process that is not scheduled makes no system call.
fn times_run(found: &Found) -> Option<u64> {
    let status = std::fs::read_to_string(format!("/proc/{}/status", found.stat.pid)).ok()?;
    let switches = status.lines().filter(|line| line.contains("ctxt_switches"));
    switches.map(|line| line.rsplit('\t').next()?.parse::<u64>().ok()).sum()
}

/// Longer than the period of any timer that nostray could have.
const A_WHILE: Duration = Duration::from_millis(2500);

#[test]
fn no_nostray_process_runs_while_three_sessions_are_idle() {
    let stage = Stage::new();
    let mut callers: Vec<_> = (0..3).map(|_| stage.shared(&[], &[])).collect();
    callers.iter_mut().for_each(|caller| drop(caller.who()));
    // Three fronts, broker, steward, and three keepers of the pen. Processes that lost the race to be the broker have
    // ended.
    let mut own = Vec::new();
    let are_all = comes_true(PATIENCE, &mut || {
        own = stage.own();
        own.len() == 8
    });
    assert!(are_all, "{own:#?}");
    let count = || own.iter().map(|found| (found.stat.name.clone(), times_run(found))).collect::<Vec<_>>();
    // A moment after the start these processes sweep and tidy up, each once.
    let (mut last, mut since, mut changes) = (count(), Instant::now(), Vec::new());
    let settled = comes_true(PATIENCE, &mut || {
        let now = count();
        if now != last {
            changes.push(now.clone());
            (last, since) = (now, Instant::now());
        }
        since.elapsed() > A_WHILE
    });
    assert!(settled, "some process keeps running: {changes:#?}");
    callers.into_iter().for_each(release);
    stage.expect_over(1, Duration::ZERO);
}
