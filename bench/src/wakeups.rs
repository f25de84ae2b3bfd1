//! How often processes were woken up. One that is not makes no context switch, so the kernel's counters tell without disturbing it.

use std::collections::HashMap;

use badchild::{Found, Pid};

use crate::Failure;

/// The context switches of some processes up to a moment, voluntary and not, by process and thread.
pub(crate) struct Switches(HashMap<(Pid, String), u64>);

impl Switches {
    pub(crate) fn of(processes: &[Found]) -> Result<Self, Failure> {
        let mut all = HashMap::new();
        for found in processes {
            let pid = found.stat.pid;
            // A status counts for one thread alone, also that of a process.
            for thread in std::fs::read_dir(format!("/proc/{pid}/task"))? {
                let thread = thread?;
                // A thread may end at any time.
                if let Ok(status) = std::fs::read_to_string(thread.path().join("status")) {
                    all.insert((pid, thread.file_name().to_string_lossy().into_owned()), counted(&status)?);
                }
            }
        }
        Ok(Self(all))
    }

    /// How many there have been since then.
    pub(crate) fn since(&self, earlier: &Self) -> u64 {
        let new = |(thread, count): (&(Pid, String), &u64)| {
            count.saturating_sub(earlier.0.get(thread).copied().unwrap_or(0))
        };
        self.0.iter().map(new).sum()
    }
}

fn counted(status: &str) -> Result<u64, Failure> {
    let lines = status.lines().filter(|line| line.contains("ctxt_switches"));
    lines.map(|line| Ok(line.rsplit(':').next().unwrap_or_default().trim().parse::<u64>()?)).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_kinds_of_switches_count() {
        let status = "Name:\tx\nvoluntary_ctxt_switches:\t12\nnonvoluntary_ctxt_switches:\t30\n";
        assert_eq!(counted(status).expect("numbers"), 42);
    }

    #[test]
    fn a_thread_that_is_new_counts_from_nothing() {
        let thread = |number: &str| (badchild::pid(7), number.to_owned());
        let earlier = Switches([(thread("7"), 10), (thread("8"), 5)].into());
        let later = Switches([(thread("7"), 13), (thread("9"), 4)].into());
        assert_eq!(later.since(&earlier), 7);
    }
}
