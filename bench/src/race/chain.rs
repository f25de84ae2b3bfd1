//! Finds the pen's own processes from outside, by their parents at this moment.

use badchild::{Found, Pid};
use nostray_sys::proc::Stat;

/// The pen's own processes, from the host inwards.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Role {
    /// The front of a supervised child. Without supervision there is none.
    Managed,
    Front,
    Spare,
    Guard,
}

impl Role {
    pub(crate) const ALL: [Self; 4] = [Self::Managed, Self::Front, Self::Spare, Self::Guard];

    /// Those of one path.
    pub(crate) fn on_path(managed: bool) -> Vec<Self> {
        Self::ALL.into_iter().filter(|role| managed || *role != Self::Managed).collect()
    }
}

/// The pen's own processes that have been seen so far. A process that was seen once stays known, also after its parent
/// has died.
pub(crate) struct Chain {
    managed: bool,
    seen: [Option<Found>; 4],
}

impl Chain {
    pub(crate) fn new(managed: bool) -> Self {
        Self { managed, seen: Default::default() }
    }

    /// Looks for the processes that are not known yet.
    pub(crate) fn look(&mut self, host: Pid) {
        let mut parent = Some(host);
        for role in Role::on_path(self.managed) {
            let slot = &mut self.seen[role as usize];
            if slot.is_none() {
                *slot = parent.and_then(own_child);
            }
            parent = slot.as_ref().map(|found| found.stat.pid);
        }
    }

    pub(crate) fn get(&self, role: Role) -> Option<&Found> {
        self.seen[role as usize].as_ref()
    }

    /// The process that the host has started.
    pub(crate) fn outermost(&self) -> Option<&Found> {
        self.get(if self.managed { Role::Managed } else { Role::Front })
    }
}

/// The child of a process that is one of the pen's own. Each of them has one such child at most, as long as none of
/// them has died; hosts have other children, too.
fn own_child(parent: Pid) -> Option<Found> {
    // All of them have one thread, so its children are all there are.
    let list = std::fs::read_to_string(format!("/proc/{parent}/task/{parent}/children")).ok()?;
    let children = list.split_ascii_whitespace().filter_map(|number| number.parse().ok()).map(badchild::pid);
    let is_own =
        |stat: &Stat| matches!(stat.name.as_str(), "nostray" | "nostray-front" | "nostray-spare" | "nostray-guard");
    children.filter_map(Found::by_pid).find(|found| is_own(&found.stat))
}
