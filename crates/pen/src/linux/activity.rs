//! Everything that moves when a process does anything: its processor time, and the bytes that it reads and writes.

use nostray_sys::proc::{StartTime, Stat, bytes_moved};
use nostray_sys::process::{Pid, cpu_time};

/// For each of these processes.
pub(crate) fn activity(members: &[Stat]) -> Vec<(Pid, StartTime, Option<u64>, Option<u64>)> {
    let counters = |member: &Stat| (member.pid, member.start, cpu_time(member.pid), bytes_moved(member.pid));
    members.iter().map(counters).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_of_this_process_shows() {
        let me = vec![Stat::of(nostray_sys::process::getpid()).expect("stat")];
        let before = activity(&me);
        assert_ne!(before, activity(&me), "looking is work");
    }
}
