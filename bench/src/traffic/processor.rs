//! Host, server and all processes between them on one processor. A single message is with one process at a time.
//! Whether the next process has to be woken on another processor is up to chance, and the same for all ways; in a
//! virtual machine that takes several times as long as the message itself.

use std::path::Path;

use rustix::process::Pid;
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

use super::session::Session;
use crate::Failure;

/// While it lives, a session's processes and the calling thread are on one processor.
pub(super) struct OneProcessor {
    before: CpuSet,
    threads: Vec<Pid>,
}

impl OneProcessor {
    pub(super) fn of(session: &Session) -> Result<Self, Failure> {
        let before = sched_getaffinity(None)?;
        let first = (0..CpuSet::MAX_CPU).find(|&at| before.is_set(at)).ok_or("no processor")?;
        let mut one = CpuSet::new();
        one.set(first);
        let processes = session.whole();
        let threads: Vec<Pid> = processes.iter().flat_map(|found| threads_of(&found.stat.pid.to_string())).collect();
        let held = Self { before, threads };
        held.put(&one)?;
        Ok(held)
    }

    fn put(&self, set: &CpuSet) -> Result<(), Failure> {
        for &thread in &self.threads {
            // One that has ended meanwhile is nowhere.
            sched_setaffinity(Some(thread), set).ok();
        }
        Ok(sched_setaffinity(None, set)?)
    }
}

impl Drop for OneProcessor {
    fn drop(&mut self) {
        // Each may be everywhere again; that it may is what was so before.
        self.put(&self.before).ok();
    }
}

fn threads_of(process: &str) -> Vec<Pid> {
    let folder = Path::new("/proc").join(process).join("task");
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok().and_then(Pid::from_raw)).collect()
}
