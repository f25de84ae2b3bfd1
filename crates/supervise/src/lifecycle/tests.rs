//! What the three shells rely on: cut-offs, idleness, readiness, lingers, timers.

use super::*;
use crate::backoff::Backoff;

fn secs(seconds: u64) -> Moment {
    Moment::from_secs(seconds)
}

fn policy() -> Policy {
    Policy { respawn: true, hibernate: Some(secs(60)), start_timeout: Some(secs(10)), ..Policy::default() }
}

/// A child that one holder has taken and that has answered.
fn ready() -> Lifecycle {
    let mut life = Lifecycle::new(policy(), 1);
    assert_eq!(life.take(secs(0)), [Effect::Start(Generation(1))]);
    life.child_started(secs(0));
    assert_eq!(life.child_answered(secs(1)), []);
    assert!(matches!(life.state(), State::Ready { .. }));
    life
}

fn due(life: &mut Lifecycle, now: Moment) -> Vec<Effect> {
    let mut all = Vec::new();
    while let Some(effects) = life.tick(now) {
        all.extend(effects);
    }
    all
}

fn died() -> Cause {
    Cause::new("died")
}

const BUSY: Activity = Activity { asked: true, busy: true };
const QUIET: Activity = Activity { asked: false, busy: false };

#[test]
fn a_tear_down_carries_its_own_cut_off_and_a_death_does_not() {
    let mut life = ready();
    assert_eq!(life.observe(QUIET, secs(1)), []);
    assert_eq!(due(&mut life, secs(61)), [Effect::TearDown(Generation(1), Why::Hibernate)]);
    assert!(
        !Why::Hibernate.lets_child_answer() && Why::Stop.lets_child_answer() && Why::Released.lets_child_answer()
    );
    let mut life = ready();
    assert_eq!(life.on(Event::Died(Generation(1), died()), secs(2)), [Effect::CutOff(died())]);
}

#[test]
fn a_child_that_works_or_is_announced_a_call_is_not_put_to_sleep() {
    let mut life = ready();
    assert_eq!(life.observe(BUSY, secs(2)), []);
    assert_eq!(due(&mut life, secs(1000)), []);
    assert_eq!(life.observe(QUIET, secs(1000)), []);
    assert_eq!(life.call_announced(secs(1060)), []);
    assert_eq!(life.observe(QUIET, secs(1060)), [], "the announced call keeps it awake");
    assert_eq!(due(&mut life, secs(1060)), []);
    assert_eq!(life.deadline(), Some(secs(1061)).min(life.deadline()));
    assert_eq!(life.observe(QUIET, secs(1061)), [], "no call has come: its rest begins now");
    assert_eq!(due(&mut life, secs(1120)), []);
    assert_eq!(due(&mut life, secs(1121)), [Effect::TearDown(Generation(1), Why::Hibernate)]);
}

#[test]
fn a_start_takes_time_only_once_the_child_is_asked() {
    let mut life = Lifecycle::new(Policy { hibernate: None, ..policy() }, 1);
    assert_eq!(life.take(secs(0)), [Effect::Start(Generation(1))]);
    assert_eq!(due(&mut life, secs(100)), []);
    assert_eq!(life.observe(BUSY, secs(100)), []);
    assert_eq!(due(&mut life, secs(109)), []);
    assert_eq!(due(&mut life, secs(110)), [Effect::TearDown(Generation(1), Why::StartTimeout)]);
}

#[test]
fn a_start_that_fails_leaves_no_timer_but_the_backoff() {
    let backoff: Backoff = "4s..4s".parse().expect("right");
    let mut life = Lifecycle::new(Policy { backoff, max_age: Some(secs(1)), ..policy() }, 1);
    assert_eq!(life.take(secs(0)), [Effect::Start(Generation(1))]);
    // The shell performs the start, which fails at once.
    let effects = life.on(Event::Emptied(Generation(1), died()), secs(0));
    assert!(effects.iter().all(|effect| *effect == Effect::CutOff(died())), "{effects:?}");
    assert!((secs(2)..=secs(4)).contains(&life.pause(secs(0))));
    assert_eq!(life.deadline(), Some(life.pause(secs(0))));
    assert_eq!(due(&mut life, secs(4)), [Effect::Start(Generation(2))]);
}

#[test]
fn the_last_holder_leaves_a_linger_however_many_leave_at_once() {
    let mut life = ready();
    assert_eq!(life.take(secs(1)), []);
    assert_eq!(life.release(Some(secs(5)), false, secs(2)), []);
    assert!(!life.is_lingering());
    assert_eq!(life.release(Some(secs(5)), false, secs(2)), []);
    assert!(life.is_lingering());
    assert_eq!(due(&mut life, secs(7)), [Effect::TearDown(Generation(1), Why::Released)]);
}

#[test]
fn a_holder_that_comes_during_a_linger_takes_the_place_of_the_last_one() {
    let mut life = ready();
    assert_eq!(life.release(Some(secs(5)), false, secs(2)), []);
    assert_eq!(life.take(secs(3)), []);
    assert!(!life.is_lingering());
    assert_eq!(due(&mut life, secs(8)), []);
    assert_eq!(life.release(None, false, secs(9)), [Effect::TearDown(Generation(1), Why::Released)]);
}

#[test]
fn a_linger_counts_from_ready_and_a_start_is_given_its_time() {
    let mut life = Lifecycle::new(policy(), 1);
    assert_eq!(life.take(secs(0)), [Effect::Start(Generation(1))]);
    life.child_started(secs(0));
    assert_eq!(life.observe(BUSY, secs(0)), []);
    assert_eq!(life.release(Some(secs(2)), true, secs(1)), []);
    assert_eq!(life.observe(QUIET, secs(1)), [], "it stays busy until its first answer");
    assert!(life.is_busy());
    assert_eq!(life.child_answered(secs(6)), []);
    assert_eq!(due(&mut life, secs(7)), []);
    assert_eq!(due(&mut life, secs(8)), [Effect::TearDown(Generation(1), Why::Released)]);
}

#[test]
fn a_child_that_ends_during_a_linger_is_not_started_again() {
    let mut life = ready();
    assert_eq!(life.release(Some(secs(5)), false, secs(2)), []);
    let effects = life.on(Event::Emptied(Generation(1), died()), secs(3));
    assert!(!effects.iter().any(|effect| matches!(effect, Effect::Start(_))));
    assert_eq!(life.state(), &State::Asleep);
    assert_eq!(due(&mut life, secs(1000)), []);
}

#[test]
fn the_end_is_told_once() {
    let mut life = ready();
    assert_eq!(life.on(Event::Stop, secs(2)), [Effect::TearDown(Generation(1), Why::Stop)]);
    let effects = life.on(Event::Emptied(Generation(1), died()), secs(3));
    assert_eq!(effects.last(), Some(&Effect::Ended));
    assert_eq!(life.on(Event::Demanded, secs(4)), []);
    assert_eq!(life.on(Event::Stop, secs(5)), []);
}

#[test]
fn the_last_words_are_those_of_the_newest_generation() {
    let mut life = ready();
    life.stderr(b"first\nlast");
    assert_eq!(life.last_words(), ["first", "last"]);
    assert!(!life.on(Event::Emptied(Generation(1), died()), secs(3)).is_empty());
    assert_eq!(life.last_words(), ["first", "last"]);
    assert_eq!(due(&mut life, secs(60)), [Effect::Start(Generation(2))]);
    assert!(life.last_words().is_empty());
}
