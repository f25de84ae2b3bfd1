//! The role of each process in a round at this moment, by `/proc`.

use nostray_sys::proc::Stat;

use crate::{Found, Pid, Scene};

/// The role of a process in a round.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// The host of a contender.
    Host,
    /// A contender without a child: it waits, is starting, sleeps, or shares another contender's child.
    Waiting,
    /// A contender that has the slot's lock already, and no child yet.
    Claimant,
    /// The front of a pen.
    Front,
    /// The front of a supervised child.
    Managed,
    /// The spare of a pen.
    Spare,
    /// The guard of a pen.
    Guard,
    /// A process of a child's tree.
    Child,
    /// The keeper of a shared child.
    Steward,
    /// The keeper of the stewards.
    Broker,
    /// The process that ends the remains of dead pens.
    Sweeper,
}

impl Role {
    /// All roles.
    pub const ALL: [Self; 11] = [
        Self::Host,
        Self::Waiting,
        Self::Claimant,
        Self::Front,
        Self::Managed,
        Self::Spare,
        Self::Guard,
        Self::Child,
        Self::Steward,
        Self::Broker,
        Self::Sweeper,
    ];
}

/// Whether the process holds the slot: a holder has the pipe that reports its end open twice.
fn has_lock(pid: Pid) -> bool {
    let files = std::fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().flatten();
    files
        .filter_map(|file| std::fs::read_link(file.path()).ok())
        .filter(|file| file.ends_with("contested/alive"))
        .count()
        > 1
}

/// All processes of a scene, each with its role.
pub(super) struct Cast(Vec<(Role, Found)>);

impl Cast {
    pub(super) fn of(scene: &Scene) -> Self {
        let all = scene.processes();
        let has_child = |parent: Pid, name: &str| {
            all.iter().any(|found| found.stat.parent == Some(parent) && found.stat.name == name)
        };
        let role = |found: &Found| {
            let pid = found.stat.pid;
            match found.stat.name.as_str() {
                "nostray" if has_child(pid, "nostray-spare") => Role::Front,
                "nostray" if has_child(pid, "nostray-front") => Role::Managed,
                "nostray" if has_lock(pid) => Role::Claimant,
                "nostray" => Role::Waiting,
                "nostray-front" => Role::Front,
                "nostray-spare" => Role::Spare,
                "nostray-guard" => Role::Guard,
                "nostray-steward" => Role::Steward,
                "nostray-broker" => Role::Broker,
                "nostray-sweep" => Role::Sweeper,
                _ if found.command.split(' ').nth(1) == Some("host") => Role::Host,
                _ => Role::Child,
            }
        };
        Self(all.iter().map(|found| (role(found), found.clone())).collect())
    }

    /// A process in this role.
    pub(super) fn pick(&self, wanted: Role, choice: u64) -> Option<&Found> {
        let those: Vec<&Found> = self.0.iter().filter(|(role, _)| *role == wanted).map(|(_, found)| found).collect();
        let at = choice.checked_rem(those.len() as u64)?;
        those.get(usize::try_from(at).ok()?).copied()
    }

    /// nostray's processes around the same child as this one, innermost first, as far as each is still the parent of the one before.
    pub(super) fn around(&self, one: &Found) -> Vec<Found> {
        let own = [Role::Guard, Role::Spare, Role::Front, Role::Managed, Role::Steward];
        let is_own = |pid: Pid| self.0.iter().find(|(role, found)| own.contains(role) && found.stat.pid == pid);
        let mut inner = one.clone();
        while let Some((_, child)) =
            self.0.iter().find(|(role, found)| own.contains(role) && found.stat.parent == Some(inner.stat.pid))
        {
            inner = child.clone();
        }
        let mut all = Vec::new();
        let mut next = Some(inner.stat.pid);
        while let Some(pid) = next {
            match is_own(pid) {
                Some((_, found)) => {
                    all.push(found.clone());
                    next = found.stat.parent;
                }
                // A process of the tree: nostray's processes are further out.
                None if all.is_empty() && self.0.iter().any(|(_, found)| found.stat.pid == pid) => {
                    next = Stat::of(pid).and_then(|stat| stat.parent);
                }
                None => break,
            }
        }
        all
    }
}
