//! Where numbers of processes have a meaning, and which process has a number.

use crate::identity::Identity;
use crate::proc::StartTime;
use crate::{Pid, Pidfd};

/// Where numbers of processes mean what they mean here. On Windows that is the machine: the time at which a process was made is a moment
/// of the calendar, so a number from before the last start of the machine names no process of today.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct World {
    /// The run of the machine.
    pub boot: String,
    /// There are no pid namespaces.
    pub pid_namespace: u64,
}

impl World {
    /// This one.
    #[must_use]
    pub fn current() -> Option<Self> {
        Some(Self { boot: "windows".to_owned(), pid_namespace: 0 })
    }
}

impl Identity {
    /// The process that has this number now.
    #[must_use]
    pub fn of(pid: Pid) -> Option<Self> {
        Pidfd::open(pid).ok()?.identity(pid)
    }

    /// A handle on this very process, if it has not ended.
    #[must_use]
    pub fn open(self) -> Option<Pidfd> {
        // Compared after the handle is there: from then on the number cannot be another process's.
        let handle = Pidfd::open(self.pid).ok()?;
        (handle.identity(self.pid) == Some(self)).then_some(handle)
    }

    /// Whether it has not ended.
    #[must_use]
    pub fn is_alive(self) -> bool {
        self.open().is_some()
    }
}

impl Pidfd {
    /// Who that is, if it has not ended.
    #[must_use]
    pub fn identity(&self, pid: Pid) -> Option<Identity> {
        let [made, ..] = self.times().ok()?;
        (!self.has_ended().ok()?).then_some(Identity { pid, start: StartTime(made) })
    }
}
