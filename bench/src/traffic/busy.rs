//! The processor time of what is on the way, told by the kernel to the nanosecond. It is the part of the cost that other
//! programs on the machine change least, and what is added when more is in flight than the processors can carry.

use std::cell::RefCell;
use std::collections::HashMap;
use std::ffi::OsString;

use super::session::Session;

/// The processes of a way, without the server.
pub(super) struct Busy {
    processes: Vec<String>,
    /// What each thread was last seen to have had, in nanoseconds: a pool ends threads that it has not needed for a while, and the kernel
    /// forgets them.
    threads: RefCell<HashMap<OsString, u64>>,
}

impl Busy {
    pub(super) fn of(session: &Session) -> Self {
        let processes = session.on_the_way().iter().map(|found| found.stat.pid.to_string()).collect();
        Self { processes, threads: RefCell::default() }
    }

    /// So far, of all their threads, in microseconds.
    pub(super) fn microseconds(&self) -> f64 {
        let mut threads = self.threads.borrow_mut();
        for process in &self.processes {
            for thread in std::fs::read_dir(format!("/proc/{process}/task")).into_iter().flatten().flatten() {
                let told = std::fs::read_to_string(thread.path().join("schedstat")).unwrap_or_default();
                if let Some(now) = told.split(' ').next().and_then(|word| word.parse().ok()) {
                    threads.insert(thread.file_name(), now);
                }
            }
        }
        threads.values().sum::<u64>() as f64 / 1e3
    }
}
