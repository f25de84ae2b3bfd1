//! Where this was measured.

use std::path::Path;

/// The machine in a line.
pub(crate) fn describe() -> String {
    let kernel = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    let cpuinfo = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = cpuinfo.lines().find_map(|line| line.strip_prefix("model name")).unwrap_or(": unknown processor");
    let cores = std::thread::available_parallelism().map_or(0, usize::from);
    let meminfo = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let kib = meminfo.lines().find_map(|line| line.strip_prefix("MemTotal:")).unwrap_or_default();
    let gib = kib.trim().trim_end_matches("kB").trim().parse::<f64>().unwrap_or_default() / f64::from(1 << 20);
    let user = if badchild::User::all().len() > 1 { "root" } else { "an ordinary user" };
    let model = model.trim_start_matches([' ', '\t', ':']);
    let records = file_system(&std::env::temp_dir());
    format!("Linux {}, {cores} cores of {model}, {gib:.1} GiB, as {user}, records on {records}", kernel.trim())
}

/// The kind of file system that a folder is on.
fn file_system(folder: &Path) -> String {
    let mounts = std::fs::read_to_string("/proc/self/mounts").unwrap_or_default();
    let mounts = mounts.lines().filter_map(|line| {
        let mut words = line.split(' ').skip(1);
        Some((words.next()?, words.next()?))
    });
    // Of two that are mounted at the same place, the later one is seen.
    let deepest = mounts.filter(|(place, _)| folder.starts_with(place)).max_by_key(|(place, _)| place.len());
    deepest.map_or_else(|| "an unknown file system".to_owned(), |(_, kind)| kind.to_owned())
}

/// The memory that can be had without taking it from another process, in MiB.
pub(crate) fn free_mib() -> Option<usize> {
    let meminfo = std::fs::read_to_string("/proc/meminfo").ok()?;
    let kib = meminfo.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    Some(kib.trim().trim_end_matches("kB").trim().parse::<usize>().ok()? >> 10)
}
