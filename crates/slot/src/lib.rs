//! A slot is a name that at most one live tree holds.
//!
//! Ownership is a kernel lock (`lock`), which is released when the tree's guard ends, and that is after the tree is empty. A claim that
//! finds the slot taken waits in the `queue`, decides (`decide`) what to do from what it sees of the holder, and starts nothing before the
//! old tree is empty: not when the holder was asked to end, and not when its files are gone.
#![doc = include_str!("../DESIGN.md")]

mod name;

#[cfg(target_os = "linux")]
mod linux;
#[cfg(windows)]
mod windows;

// What is per platform has the same names on each, so the rest of this crate does not ask where it is.
#[cfg(target_os = "linux")]
use linux::{all, claim, decide, held_slot, history, lock, look, place_of, queue, request};

#[cfg(target_os = "linux")]
pub use linux::{
    Claim, Entered, Error, HeldSlot, HolderEntry, IfTaken, Kind, MAX_HANDOVERS, Moment, Refusal, Slot, SlotRequest,
    SlotWitness, Step, Waiter, enter, is_held_around_us, run, slot, slots,
};
pub use name::Name;
#[cfg(windows)]
pub use windows::{IfTaken, SlotRequest, run};

/// Exit code of a command that did not get its slot: try again later, as `sysexits.h` has it.
pub const NOT_NOW: nostray_sys::process::Code = 75;
