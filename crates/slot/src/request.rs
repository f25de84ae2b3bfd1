//! What a caller wants of a slot, and what it is told.

use std::time::Duration;

use nostray_pen::Rate;

use crate::Name;
use crate::held_slot::HeldSlot;

/// What to do if the slot is held.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum IfTaken {
    /// Wait until it is free.
    Wait,
    /// Give up.
    Fail,
    /// Ask the holder to hand over.
    Replace,
}

/// A request for a slot.
#[derive(Debug, Clone)]
pub struct SlotRequest {
    /// Which slot.
    pub slot: Name,
    /// What to do if it is held.
    pub if_taken: IfTaken,
    /// How long to wait at most.
    pub wait_timeout: Option<Duration>,
    /// If it changed hands more often than this, no holder is asked to hand over.
    pub max_handovers: Rate,
    /// The command line, with secrets masked.
    pub command: Vec<String>,
    /// The session that it is for.
    pub session: Option<String>,
}

/// How far it has come.
#[derive(Debug)]
pub enum Step {
    /// The claim holds the slot, and nothing is left of the holder before.
    Taken(HeldSlot),
    /// Call [`crate::Claim::step`] again after an event. With a message for the user, if there is one.
    Waiting(Option<String>),
    /// The claim is refused.
    Refused(Refusal),
}

/// Why a slot is not to be had, in a sentence for a person.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal(pub String);
