//! Finding the pen's own processes from outside, by who is whose parent at this moment.

use badchild::{Found, Pid};
use nostray_sys::proc::Stat;

/// The pen's own processes, from the host inwards.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Role {
    Front,
    Spare,
    Guard,
}

/// Those that have been seen so far. Who was seen once is known for ever, also after its parent has died.
#[derive(Default)]
pub(crate) struct Chain {
    seen: [Option<Found>; 3],
}

impl Chain {
    /// Looks for those that are not known yet.
    pub(crate) fn look(&mut self, host: Pid) {
        let mut parent = Some(host);
        for slot in &mut self.seen {
            if slot.is_none() {
                *slot = parent.and_then(own_child);
            }
            parent = slot.as_ref().map(|found| found.stat.pid);
        }
    }

    pub(crate) fn get(&self, role: Role) -> Option<&Found> {
        self.seen[role as usize].as_ref()
    }
}

/// The child of a process that is one of the pen's own. Each of them has one such child at most, as long as nobody has
/// died; hosts have other children, too.
fn own_child(parent: Pid) -> Option<Found> {
    // All of them have one thread, so its children are all there are.
    let list = std::fs::read_to_string(format!("/proc/{parent}/task/{parent}/children")).ok()?;
    let children = list.split_ascii_whitespace().filter_map(|number| number.parse().ok()).map(badchild::pid);
    let is_own = |stat: &Stat| matches!(stat.name.as_str(), "nostray" | "nostray-spare" | "nostray-guard");
    children.filter_map(Found::by_pid).find(|found| is_own(&found.stat))
}
