//! A slot is a name that at most one live tree holds.
//!
//! Ownership is a kernel lock (`lock`), which is released when the tree's guard ends, and that is after the tree is empty. A claim that
//! finds the slot taken waits in the `queue`, decides (`decide`) what to do from what it sees of the holder, and starts nothing before the
//! old tree is empty: not when the holder was asked to end, and not when its files are gone.
#![doc = include_str!("../DESIGN.md")]

mod claim;
mod decide;
mod error;
mod held_slot;
mod history;
mod lock_file;
mod look;
mod name;
mod queue;
mod request;

#[cfg(target_os = "linux")]
mod linux;
#[cfg(windows)]
mod windows;

// What is per platform has the same names on each, so the rest of this crate does not ask where it is.
#[cfg(target_os = "linux")]
use linux::{helper, lock, ticket_file, time};
#[cfg(windows)]
use windows::{helper, lock, ticket_file, time};

pub use claim::Claim;
pub use error::Error;
pub use held_slot::{HeldSlot, SlotWitness};
pub use history::{HolderEntry, Moment};
#[cfg(target_os = "linux")]
pub use linux::{Entered, enter, run};
pub use look::{Slot, is_held_around_us, slot, slots};
pub use name::Name;
pub use queue::{Kind, Waiter};
pub use request::{IfTaken, Refusal, SlotRequest, Step};
#[cfg(windows)]
pub use windows::run;

/// Exit code of a command that did not get its slot: try again later, as `sysexits.h` has it.
pub const NOT_NOW: nostray_sys::process::Code = 75;

/// If a slot changed hands more often than this, no holder is asked to hand over, unless a user says otherwise.
pub const MAX_HANDOVERS: nostray_pen::Rate =
    nostray_pen::Rate { times: 3, within: std::time::Duration::from_secs(60) };

/// The directory of a slot.
pub(crate) fn place_of(name: &Name) -> Result<nostray_registry::Place, Error> {
    Ok(all()?.below(name.as_str())?)
}

/// The directory of all slots.
pub(crate) fn all() -> Result<nostray_registry::Place, Error> {
    Ok(nostray_registry::Place::that_lasts()?.below("slots")?)
}
