//! What this machine offers for containing a tree. Each platform looks in its own `checks`.

use super::checks;

/// How well a tree is contained.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(dead_code, reason = "each platform has its own")]
pub(super) enum Tier {
    /// A control group ends it in one step that no fork can outrun.
    Cgroup,
    /// The kernel reparents orphans to the guard, which ends them one by one until the tree is empty.
    Subreaper,
    /// The kernel ends a job with the front that holds it.
    Job,
    /// Something is missing without which nostray cannot work.
    None,
}

impl Tier {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Cgroup => "cgroup",
            Self::Subreaper => "subreaper",
            Self::Job => "job",
            Self::None => "none",
        }
    }

    /// For people.
    pub(super) fn meaning(self) -> &'static str {
        match self {
            Self::Cgroup => "a control group for each tree: everything in it is ended in one step",
            Self::Subreaper => {
                "a guard that every orphan of the tree is handed to: all are ended, one after the other"
            }
            Self::Job => {
                "a job object for each tree: the kernel ends everything in it with the process that holds it"
            }
            Self::None => "this machine lacks what nostray needs",
        }
    }
}

/// One thing that was looked at.
#[derive(Debug)]
pub(super) struct Check {
    pub(super) name: &'static str,
    pub(super) ok: bool,
    /// Without it, nostray cannot contain anything.
    pub(super) essential: bool,
    pub(super) detail: String,
    /// What the user can do about it.
    pub(super) advice: Option<String>,
}

/// All of it.
#[derive(Debug)]
pub(super) struct Machine {
    /// Linux, or Windows.
    pub(super) system: &'static str,
    /// Its version.
    pub(super) kernel: String,
    pub(super) tier: Tier,
    pub(super) checks: Vec<Check>,
}

impl Machine {
    pub(super) fn examine() -> Self {
        checks::examine()
    }

    pub(super) fn is_fine(&self) -> bool {
        self.tier != Tier::None
    }
}
