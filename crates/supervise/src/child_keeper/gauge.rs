//! How much memory a child's tree uses: as its control group counts it where there is a memory controller, otherwise by adding
//! up its processes.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use nostray_sys::identity::Identity;
use nostray_sys::proc::{self, memory_of, resident_of};
use nostray_sys::process::Pid;

/// How often to look.
pub(super) const PERIOD: Duration = Duration::from_secs(1);

/// How to find out.
#[derive(Debug)]
pub(super) enum Gauge {
    Group(PathBuf),
    Processes,
}

impl Gauge {
    /// For a pen whose control group, if there is one, is in this folder.
    pub(super) fn of(group: Option<&Path>) -> Self {
        match group.filter(|folder| folder.join("memory.current").exists()) {
            Some(folder) => Self::Group(folder.to_owned()),
            None => Self::Processes,
        }
    }

    /// The bytes that the tree below `guard` uses, if more than `limit`.
    pub(super) fn over(&self, limit: u64, guard: Identity) -> Option<u64> {
        let used = match self {
            Self::Group(folder) => working_set(folder).unwrap_or(0),
            Self::Processes => {
                let members = below(guard);
                // Counts a shared page once for each process: quick, and never too little.
                let most: u64 = members.iter().filter_map(|pid| resident_of(*pid)).sum();
                if most <= limit { most } else { members.iter().filter_map(|pid| memory_of(*pid)).sum() }
            }
        };
        (used > limit).then_some(used)
    }
}

/// What a group uses, without the cached files that the kernel drops when it needs room.
fn working_set(folder: &Path) -> Option<u64> {
    let read = |name: &str| std::fs::read_to_string(folder.join(name)).ok();
    let current: u64 = read("memory.current")?.trim().parse().ok()?;
    let cached = read("memory.stat")
        .and_then(|stat| stat.lines().find_map(|line| line.strip_prefix("inactive_file ")?.trim().parse().ok()))
        .unwrap_or(0);
    Some(current.saturating_sub(cached))
}

/// The bytes that the processes below this one use.
pub(super) fn memory_below(guard: Identity) -> u64 {
    below(guard).into_iter().filter_map(memory_of).sum()
}

fn below(guard: Identity) -> Vec<Pid> {
    let mut by_parent: HashMap<Pid, Vec<Pid>> = HashMap::new();
    for stat in proc::scan().unwrap_or_default() {
        if let Some(parent) = stat.parent.filter(|_| !stat.is_zombie()) {
            by_parent.entry(parent).or_default().push(stat.pid);
        }
    }
    let (mut members, mut parents) = (Vec::new(), vec![guard.pid]);
    while let Some(parent) = parents.pop() {
        let children = by_parent.remove(&parent).unwrap_or_default();
        members.extend(&children);
        parents.extend(children);
    }
    members
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cached_files_do_not_count() {
        let folder = std::env::temp_dir().join(format!("nostray-gauge-{}", nostray_sys::process::random()));
        std::fs::create_dir(&folder).expect("folder");
        std::fs::write(folder.join("memory.current"), "1000\n").expect("write");
        std::fs::write(folder.join("memory.stat"), "anon 300\ninactive_file 600\nactive_file 100\n").expect("write");
        let gauge = Gauge::of(Some(&folder));
        let me = Identity::of(nostray_sys::process::getpid()).expect("me");
        assert_eq!(gauge.over(399, me), Some(400));
        assert_eq!(gauge.over(400, me), None);
        std::fs::remove_dir_all(folder).expect("remove");
        assert!(matches!(Gauge::of(None), Gauge::Processes));
    }
}
