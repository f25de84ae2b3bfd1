//! Trees that fork as fast as they can, spin, or do not let themselves be found, still end.
//!
//! A test program of its own: a storm takes every CPU and a thousand pids, so that no test with a deadline can run
//! beside it.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use badchild::{Bystanders, Scene, User};
use testkit::{GRACES, start_host};

/// One storm at a time.
static ALONE: Mutex<()> = Mutex::new(());

fn ends(user: User, options: &[&str], manner: &[&str]) {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let bystanders = Bystanders::start(User::Current);
    let scene = Scene::new(user);
    let options: Vec<_> = GRACES.iter().chain(options).copied().collect();
    let mut host = start_host(&scene, &[], &options, manner);
    host.ready();
    host.kill();
    scene.expect_empty_within(Duration::from_secs(60));
    host.expect_friend_untouched();
    bystanders.expect_untouched();
}

/// Root has a control group here, where the machine allows one. The unprivileged user has none, so the guard kills its
/// tree round by round.
#[test]
fn fork_storms_end() {
    for user in User::all() {
        ends(user, &[], &["storm", "60"]);
    }
}

#[test]
fn chains_in_which_each_process_leaves_at_once_end() {
    for user in User::all() {
        ends(user, &[], &["chain", "6"]);
    }
}

#[test]
fn a_fork_storm_in_a_namespace_ends() {
    for user in User::all() {
        ends(user, &["--isolate", "pid"], &["storm", "60"]);
    }
}

#[test]
fn a_server_that_spins_and_ignores_everything_ends() {
    for user in User::all() {
        ends(user, &[], &["spin"]);
    }
}

#[test]
fn a_thousand_processes_that_ignore_everything_end() {
    for user in User::all() {
        ends(user, &[], &["many", "1000", "stubborn"]);
    }
}
