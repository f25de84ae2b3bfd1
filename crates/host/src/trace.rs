//! The events that a host sees with [`tracing`](https://docs.rs/tracing), under the target `nostray`. Without the feature `tracing` all
//! of this is nothing.
//!
//! Events name the program, and neither its arguments nor its environment: those may be secrets.

#![cfg_attr(not(feature = "tracing"), expect(unused_variables, reason = "without the feature there are no events"))]

use std::ffi::OsString;

use crate::Exit;

/// The target of all events.
#[cfg(feature = "tracing")]
const TARGET: &str = "nostray";

/// The guard of a child was started.
pub(crate) fn started(pen: &impl std::fmt::Display, command: &[OsString], session: Option<&str>) {
    #[cfg(feature = "tracing")]
    tracing::info!(target: TARGET, %pen, program = %command[0].display(), session, "started");
}

/// Nothing is left of a child's tree.
pub(crate) fn exited(pen: &impl std::fmt::Display, exit: &Exit) {
    #[cfg(feature = "tracing")]
    tracing::info!(target: TARGET, %pen, code = exit.code, signal = exit.signal, cause = %exit.cause, "exited");
}

/// A host has taken a lease.
#[cfg(feature = "supervisor")]
pub(crate) fn lease_taken(command: &[OsString], lease: u64, leases: usize) {
    #[cfg(feature = "tracing")]
    tracing::debug!(target: TARGET, program = %command[0].display(), lease, leases, "lease taken");
}

/// The last clone of a lease was dropped.
#[cfg(feature = "supervisor")]
pub(crate) fn lease_released(command: &[OsString], lease: u64, leases: usize) {
    #[cfg(feature = "tracing")]
    tracing::debug!(target: TARGET, program = %command[0].display(), lease, leases, "lease released");
}

/// A child after the first one is being started for a lease.
#[cfg(feature = "supervisor")]
pub(crate) fn respawned(command: &[OsString], generation: u64) {
    #[cfg(feature = "tracing")]
    tracing::warn!(target: TARGET, program = %command[0].display(), generation, "respawned");
}

/// The child of a lease is ready.
#[cfg(feature = "supervisor")]
pub(crate) fn ready(command: &[OsString], generation: u64) {
    #[cfg(feature = "tracing")]
    tracing::info!(target: TARGET, program = %command[0].display(), generation, "ready");
}
