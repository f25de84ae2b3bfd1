//! Where numbers of processes have a meaning, and which process has a number.

use std::fs::File;
use std::io::{self, Read};

use crate::identity::Identity;
use crate::proc::Stat;
use crate::{Pid, Pidfd};

/// The run of the machine, and the pid namespace, in which numbers have a meaning. Numbers of two worlds never name the same
/// process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct World {
    /// The kernel's own name for this run.
    pub boot: String,
    /// The inode of the pid namespace.
    pub pid_namespace: u64,
}

impl World {
    /// The world of this process; `None` if that cannot be read.
    #[must_use]
    pub fn current() -> Option<Self> {
        Self::look().ok()
    }

    /// The same, or why it cannot be read: no `/proc`, too many open files.
    pub fn look() -> io::Result<Self> {
        // In one read: every start of a pen asks, and a buffer that grows takes three.
        let mut boot = [0; 64];
        let length = File::open("/proc/sys/kernel/random/boot_id")?.read(&mut boot)?;
        let boot = String::from_utf8_lossy(&boot[..length]).trim().to_owned();
        // `pid:[4026531836]`. Not by `stat`, for which the kernel first makes an inode.
        let name = std::fs::read_link("/proc/self/ns/pid")?;
        let inode = name.to_str().and_then(|name| name.strip_prefix("pid:[")?.strip_suffix(']')?.parse().ok());
        let pid_namespace = inode.ok_or(io::ErrorKind::InvalidData)?;
        Ok(Self { boot, pid_namespace })
    }
}

impl Identity {
    /// The process that has this pid now.
    #[must_use]
    pub fn of(pid: Pid) -> Option<Self> {
        Stat::of(pid).map(|stat| Self::from(&stat))
    }

    /// A handle on this very process, if it has not ended (a zombie has). Opened first and compared then, so that the handle cannot be on
    /// another process that has got the pid since.
    #[must_use]
    pub fn open(self) -> Option<Pidfd> {
        let handle = Pidfd::open(self.pid).ok()?;
        let now = Stat::of(self.pid)?;
        (now.start == self.start && !now.is_zombie()).then_some(handle)
    }

    /// Whether it has not ended.
    #[must_use]
    pub fn is_alive(self) -> bool {
        Stat::of(self.pid).is_some_and(|now| now.start == self.start && !now.is_zombie())
    }

    /// Whether it has ended or is on its way out. The kernel marks a process before it closes the process's files.
    #[must_use]
    pub fn is_ending(self) -> bool {
        Stat::of(self.pid).is_none_or(|now| now.start != self.start || now.is_ending())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_world_has_a_name() {
        let world = World::current().expect("proc is mounted");
        assert_eq!(world.boot.len(), 36);
        let namespace = std::fs::metadata("/proc/self/ns/pid").expect("proc is mounted");
        assert_eq!(world.pid_namespace, std::os::unix::fs::MetadataExt::ino(&namespace));
        assert_eq!(Some(world), World::current());
    }
}
