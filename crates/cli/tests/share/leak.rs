//! The leak that started this project: abandoned sessions, whose hosts are gone. They hold no child. A child that is
//! killed is restarted once, and never after the last release.

use std::sync::Arc;
use std::time::Duration;

use badchild::wait_until;
use nostray_sys::Signal;
use serde_json::Value;
use testkit::in_parallel;
use testkit::sharing::{BY_COMMAND, Random, Watch, is_long, release};
use testkit::stage::Stage;

/// How long the test watches that no child is restarted.
fn afterwards() -> Duration {
    Duration::from_secs(if is_long() { 60 } else { 5 })
}

#[test]
fn three_abandoned_sessions_and_a_live_one_have_one_child_which_is_restarted_once_and_ends_for_good() {
    let stage = Arc::new(Stage::new());
    let watch = Watch::over(&stage);
    let mut live = stage.shared(&BY_COMMAND, &[]);
    // The test kills the host of the first session, the host of the second while another process holds the pipe, and
    // the front of the third.
    let (mut killed, _) = stage.shared_by_host(&[], &BY_COMMAND, &[]);
    let (mut held, held_front) = stage.shared_by_host(&["--hold"], &BY_COMMAND, &[]);
    let (host, front) = stage.shared_by_host(&[], &BY_COMMAND, &[]);
    stage.wait_for_leases(&[4]);
    assert_eq!(stage.lives().len(), 1, "not one child for all sessions");

    killed.kill();
    held.kill();
    front.send(Signal::KILL);
    stage.wait_for_leases(&[1]);
    wait_until("the front with the held pipe is gone", || !held_front.is_alive());
    held.expect_friend_untouched();

    let first = live.pid();
    stage.child().send(Signal::KILL);
    stage.wait_for_life(2);
    assert_ne!(live.pid(), first);
    assert_eq!(live.unasked(), Vec::<Value>::new());

    drop(host);
    release(live);
    stage.expect_over(2, afterwards());
    watch.expect_one();
}

#[test]
fn a_child_that_is_killed_after_the_last_release_is_not_restarted() {
    let stage = Stage::new();
    let mut live = stage.shared(&["--linger", "1h", "--backoff", "1ms..1ms"], &[]);
    live.pid();
    release(live);
    stage.wait_for_leases(&[0]);
    stage.child().send(Signal::KILL);
    stage.expect_over(1, afterwards());
}

/// The child is killed and the last session closes at almost the same moment, in either order.
#[test]
fn a_kill_and_the_last_release_at_once_leave_no_process() {
    in_parallel((0..12).collect(), |seed| {
        let (stage, mut random) = (Stage::new(), Random::new(seed));
        let linger = ["0s", "20ms"][random.below(2) as usize];
        let mut live = stage.shared(&["--linger", linger, "--backoff", "1ms..1ms"], &[]);
        live.pid();
        let (child, pause) = (stage.child(), Duration::from_micros(random.below(4000)));
        if random.below(2) == 0 {
            child.send(Signal::KILL);
            std::thread::sleep(pause); // the test varies this gap
            live.close();
        } else {
            live.close();
            std::thread::sleep(pause); // the same gap, the other way round
            child.send(Signal::KILL);
        }
        live.code();
        stage.scene.expect_empty();
        let lives = stage.lives().len();
        assert!(lives <= 2, "seed {seed}: {lives} lives");
        stage.expect_over(lives, Duration::from_millis(300));
    });
}
