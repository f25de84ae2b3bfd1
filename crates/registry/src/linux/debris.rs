//! Removing what dead processes leave beside their records: empty control groups, locks, half-written and damaged files.

use std::collections::HashSet;
use std::time::Duration;

use nostray_pen::PenId;
use nostray_sys::cgroup::Cgroup;

use crate::owner::owner_is_alive;
use crate::{Place, record};

/// A pen whose every process was killed before it was on record has left an empty group. Groups of those on record are theirs to
/// remove, or the sweep's.
pub(crate) fn remove_groups_without_record<'a>(on_record: impl Iterator<Item = &'a String>) {
    let on_record: HashSet<&str> = on_record.map(String::as_str).collect();
    Cgroup::remove_empty(MIN_DEBRIS_AGE, |name| PenId::of_group(name).is_some_and(|id| !on_record.contains(id)));
}

/// What is younger may be of a pen that is just starting.
const MIN_DEBRIS_AGE: Duration = Duration::from_secs(60);

/// Renames a damaged record, so that a person can look at it and no command stumbles over it.
pub(crate) fn set_aside(place: &Place, id: &str) {
    std::fs::rename(record::path(place, id), place.file(&format!("{id}.damaged"))).ok();
    std::fs::remove_file(record::lock_path(place, id)).ok();
}

/// Removes files that belong to no record: locks and half-written records of processes that died in between. And damaged records that
/// are older than a week.
pub(crate) fn remove_debris(place: &Place) {
    const WEEK: Duration = Duration::from_secs(7 * 24 * 3600);
    for entry in std::fs::read_dir(place.path()).into_iter().flatten().flatten() {
        let path = entry.path();
        let Some((id, kind)) =
            path.file_stem().and_then(|s| s.to_str()).zip(path.extension().and_then(|e| e.to_str()))
        else {
            continue;
        };
        let older_than = |span: Duration| {
            entry.metadata().and_then(|m| m.modified()).is_ok_and(|at| at.elapsed().is_ok_and(|age| age > span))
        };
        let debris = match kind {
            // The broker holds it: it must always be the same file.
            "lock" if id.starts_with("broker-") => false,
            // A young one is of a pen that is just starting, between the lock and the record.
            "lock" | "new" => {
                older_than(MIN_DEBRIS_AGE) && !record::path(place, id).exists() && !owner_is_alive(place, id)
            }
            "damaged" => older_than(WEEK),
            _ => false,
        };
        if debris {
            std::fs::remove_file(&path).ok();
        }
    }
}
