//! Kills what is left of a tree, in rounds, since a tree may fork as fast as it is killed. The keeper of a tree does it, and the opener
//! of a pen when all its keepers are dead.

use std::time::{Duration, Instant};

use nostray_sys::identity::Identity;
use nostray_sys::proc::{Stat, user_of};
use nostray_sys::process::Pid;
use nostray_sys::secrets::describe;

use crate::tree::{Round, Tree};

/// How soon after a round of killing the next one may follow, at first and at most. The end of each process is
/// an event of its own; this is only for processes that were forked meanwhile.
const FIRST_PAUSE: Duration = Duration::from_millis(5);
const MAX_PAUSE: Duration = Duration::from_millis(500);
/// A tree that was killed in one step is left to end by itself as long as its processes do, but no longer than this: what has left the
/// group may be among them.
const MAX_WAIT: Duration = Duration::from_millis(100);
/// How often in a row to kill our own children before looking for others.
const MAX_BURST: usize = 20;
/// Rounds in which nothing was left but what may not be signalled, before it is given up.
const MAX_REFUSED_ROUNDS: u32 = 3;
/// How long killed processes may take to end before the user is told.
const SLOW_DEATH_WARNING: Duration = Duration::from_secs(5);

/// The tree's subreaper.
pub(crate) trait Reaper<'a> {
    fn tree(&mut self) -> &mut Tree<'a>;

    /// Reaps every process that has ended. False when the tree is empty.
    fn reap(&mut self) -> bool;
}

/// How far the killing has come.
#[derive(Debug)]
pub(crate) struct Killing {
    at_once: bool,
    next: Option<Instant>,
    /// Until when the end of a process puts the first round off.
    wait_until: Option<Instant>,
    pause: Duration,
    refusals: u32,
    slow_at: Option<Instant>,
}

impl Default for Killing {
    fn default() -> Self {
        Self { at_once: false, next: None, wait_until: None, pause: FIRST_PAUSE, refusals: 0, slow_at: None }
    }
}

/// What came of a round.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum RoundOutcome {
    /// Nothing to report. Perhaps the tree is empty.
    Nothing,
    /// A killed process takes long to end. Reported once.
    Slow,
    /// Only these are left, and they may not be signalled.
    Refused(Vec<Identity>),
}

impl Killing {
    /// From now on.
    pub(crate) fn begin(&mut self, tree: &Tree<'_>, now: Instant) {
        // What is killed in one step needs a moment before it makes sense to look for the rest.
        let at_once = tree.is_killed_at_once();
        self.next = Some(now + if at_once { FIRST_PAUSE } else { Duration::ZERO });
        self.wait_until = at_once.then_some(now + MAX_WAIT);
        self.slow_at = Some(now + SLOW_DEATH_WARNING);
    }

    /// A process of the tree has ended. A round would take the processor from those that are ending.
    pub(crate) fn put_off(&mut self, now: Instant) {
        if let Some(latest) = self.wait_until {
            self.next = Some((now + FIRST_PAUSE).min(latest));
        }
    }

    /// When the next round is due, once it has begun.
    pub(crate) fn next(&self) -> Option<Instant> {
        self.next
    }

    /// Kills every process that is left.
    pub(crate) fn round<'a>(&mut self, reaper: &mut dyn Reaper<'a>) -> RoundOutcome {
        if !std::mem::replace(&mut self.at_once, true) && !reaper.tree().kill_at_once() {
            self.wait_until = None;
        }
        if self.wait_until.is_some() && self.next.is_some_and(|next| Instant::now() < next) {
            return RoundOutcome::Nothing;
        }
        self.wait_until = None;
        // Kill, reap, and kill the children that the dead have left to this process, as long as there are any.
        for _ in 0..MAX_BURST {
            if reaper.tree().kill_children() == 0 || !reaper.reap() {
                break;
            }
        }
        let now = Instant::now();
        if self.next.is_some_and(|next| now < next) {
            return RoundOutcome::Nothing;
        }
        let round = reaper.tree().kill_round();
        // Reaping comes first: a look at thousands takes long, and what has ended makes it longer.
        self.next = Some(Instant::now() + self.pause.max(2 * now.elapsed()));
        self.pause = (self.pause * 2).min(MAX_PAUSE);
        match round {
            Round::OnlyRefused(refused) => {
                self.refusals += 1;
                if self.refusals >= MAX_REFUSED_ROUNDS {
                    RoundOutcome::Refused(refused)
                } else {
                    RoundOutcome::Nothing
                }
            }
            Round::Killed if self.slow_at.is_some_and(|at| at <= now) => {
                self.slow_at = None;
                RoundOutcome::Slow
            }
            Round::Killed => RoundOutcome::Nothing,
        }
    }
}

pub(crate) fn could_not_signal(pid: Pid) -> String {
    let user = user_of(pid).map_or_else(String::new, |uid| format!(" of user {uid}"));
    format!(
        "process {pid}{user} ({}) may not be signalled by this user and was left running; \
         end it as its owner, or with sudo",
        describe(pid)
    )
}

pub(crate) fn does_not_die(stat: &Stat) -> String {
    let why = if stat.is_uninterruptible() { ", it waits for a device or a network file system" } else { "" };
    format!("process {} ({}) was killed and has not ended yet{why}; waiting", stat.pid, describe(stat.pid))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tree::Tier;

    fn begun(tier: Tier<'static>, now: Instant) -> Killing {
        let mut killing = Killing::default();
        killing.begin(&Tree::new(tier), now);
        killing
    }

    #[test]
    fn a_tree_that_was_killed_in_one_step_is_left_alone_while_it_ends_but_not_for_ever() {
        let t = Instant::now();
        let mut killing = begun(Tier::Namespace, t);
        assert_eq!(killing.next(), Some(t + FIRST_PAUSE));
        killing.put_off(t + FIRST_PAUSE / 2);
        assert_eq!(killing.next(), Some(t + FIRST_PAUSE / 2 + FIRST_PAUSE));
        killing.put_off(t + MAX_WAIT);
        assert_eq!(killing.next(), Some(t + MAX_WAIT));
    }

    #[test]
    fn a_tree_that_is_killed_process_by_process_is_not_left_alone() {
        let t = Instant::now();
        let mut killing = begun(Tier::Subreaper, t);
        killing.put_off(t + FIRST_PAUSE);
        assert_eq!(killing.next(), Some(t));
    }
}
