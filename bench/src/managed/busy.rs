//! The processor time of what is on the way, told by the kernel to the nanosecond. It is the part of the cost that other
//! programs on the machine change least, and what is added when more is in flight than the processors can carry.

use super::session::Session;
use crate::Failure;
use crate::programs::Programs;
use crate::variants::Variant;

/// The processes of a way, without the server.
pub(super) struct Busy {
    processes: Vec<String>,
}

impl Busy {
    /// Whom the host has started, unless that is the server itself, and all that run nostray.
    pub(super) fn of(session: &Session, programs: &Programs, way: &Variant) -> Self {
        let mut processes: Vec<String> =
            session.processes(&programs.nostray, true).iter().map(|found| found.stat.pid.to_string()).collect();
        let first = session.started.id().to_string();
        if !way.is_nothing() && !processes.contains(&first) {
            processes.push(first);
        }
        Self { processes }
    }

    /// So far, of all their threads, in microseconds.
    pub(super) fn microseconds(&self) -> Result<f64, Failure> {
        let mut nanoseconds = 0;
        for process in &self.processes {
            for thread in std::fs::read_dir(format!("/proc/{process}/task"))? {
                let told = std::fs::read_to_string(thread?.path().join("schedstat"))?;
                nanoseconds += told.split(' ').next().unwrap_or_default().parse::<u64>()?;
            }
        }
        Ok(nanoseconds as f64 / 1e3)
    }
}
