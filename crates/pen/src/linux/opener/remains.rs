//! Ending what is left of a pen whose front, spare and guard were all killed: the kernel has handed it to the opener.

use std::path::Path;
use std::time::{Duration, Instant};

use nostray_sys::cgroup::Cgroup;
use nostray_sys::descriptors::write_to_stderr_at_once;
use nostray_sys::escalation::Escalation;
use nostray_sys::identity::Identity;
use nostray_sys::process::{self, News, Reaped};

use super::{OpenPen, PenOpener};
use crate::killing::{Killing, Reaper, RoundOutcome, could_not_signal, does_not_die};
use crate::tree::Tree;

impl PenOpener {
    /// Begins to end what is left of a pen without keepers: SIGTERM to every process, and SIGKILL after a grace.
    #[must_use]
    pub fn end_remains(&self, open_pen: &OpenPen, grace: Duration, group: Option<&Path>) -> Remains {
        let mut tree = self.tree(open_pen);
        tree.terminate();
        let group = group.and_then(|path| Cgroup::open(path).ok());
        let escalation = Escalation::Terminating { until: Instant::now() + grace };
        Remains { tree, group, escalation, killing: Killing::default() }
    }
}

/// What is left of a pen whose keepers were all killed, and how far its end has come.
#[derive(Debug)]
pub struct Remains {
    tree: Tree<'static>,
    group: Option<Cgroup>,
    escalation: Escalation,
    killing: Killing,
}

impl Remains {
    /// When there is more to be done, unless they end before.
    #[must_use]
    pub fn deadline(&self) -> Option<Instant> {
        self.escalation.deadline().or(self.killing.next())
    }

    /// Ends the grace.
    pub fn hurry(&mut self) {
        if let Escalation::Terminating { until } = &mut self.escalation {
            *until = Instant::now();
        }
    }

    /// Does what is due. Returns the processes that are left and may not be signalled; they are left alone from then on.
    pub fn go_on(&mut self, opener: &mut PenOpener) -> Vec<Identity> {
        let now = Instant::now();
        if self.escalation.tick(now).is_some() {
            if let Some(group) = &self.group {
                group.kill().ok();
            }
            self.killing.begin(&self.tree, now);
        }
        let Escalation::Killing(_) = self.escalation else { return Vec::new() };
        self.tree.spare(&opener.others);
        match self.killing.round(&mut RemainsReaper { tree: &mut self.tree, opener }) {
            RoundOutcome::Nothing => {}
            RoundOutcome::Slow => {
                for stat in self.tree.members() {
                    write_to_stderr_at_once(&format!("nostray: {}\n", does_not_die(&stat)));
                }
            }
            RoundOutcome::Refused(refused) => {
                for refused in &refused {
                    write_to_stderr_at_once(&format!("nostray: {}\n", could_not_signal(refused.pid)));
                }
                opener.abandon(&refused);
                return refused;
            }
        }
        Vec::new()
    }

    /// Removes the control group of an empty tree.
    pub fn dissolve(&self) {
        if let Some(group) = &self.group {
            group.remove();
        }
    }
}

/// The tree that is being killed, with the opener that reaps it.
struct RemainsReaper<'a> {
    tree: &'a mut Tree<'static>,
    opener: &'a mut PenOpener,
}

impl Reaper<'static> for RemainsReaper<'_> {
    fn tree(&mut self) -> &mut Tree<'static> {
        self.tree
    }

    fn reap(&mut self) -> bool {
        loop {
            match process::reap() {
                Ok(Reaped::News(News::Ended(pid, _))) => self.opener.others.retain(|other| other.pid != pid),
                Ok(Reaped::News(_)) => {}
                Ok(Reaped::Quiet) => return !self.tree.has_only_strangers(),
                Ok(Reaped::NoChildren) | Err(_) => return false,
            }
        }
    }
}
