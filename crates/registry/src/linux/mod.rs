//! What of a pen may be left, and how it is ended from outside, on Linux; and what only supervised and shared children need.

pub(crate) mod debris;
pub(crate) mod ending;
pub(crate) mod folders;
pub(crate) mod predecessors;
pub(crate) mod series;
pub(crate) mod slots;
pub(crate) mod status;
pub(crate) mod stopped;
pub(crate) mod survivors;
pub(crate) mod sweep;

pub use predecessors::Predecessors;
pub use series::SeriesKeeper;
pub use slots::{end_holder_apart, sweep_slot_apart};
pub use status::{StatusEvent, StatusLines, StatusWitness};
pub use stopped::{WAS_STOPPED, end_stopped_steward};

/// Why [`nostray_sys::identity::World::current`] is not known.
#[must_use]
pub fn why_no_world() -> String {
    const BOOT: &str = "/proc/sys/kernel/random/boot_id";
    match std::fs::File::open(BOOT) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => format!("{BOOT}: {error}"),
        Err(_) if std::path::Path::new("/proc/self/stat").exists() => {
            format!("{BOOT} is not there: mount /proc without subset=pid, or this run of the machine has no name")
        }
        Err(_) => "/proc is not mounted".to_owned(),
        Ok(_) => "/proc/self/ns/pid cannot be read".to_owned(),
    }
}
