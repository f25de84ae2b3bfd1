//! *Ready* as a fact that a user can define, and noticing it.
//!
//! `crate::condition` is what a user may define as ready. `detector` holds what detecting it takes, made before the forks. `readiness` detects it,
//! in the process that keeps the tree. Beside them is a file for each kind: `lines` and `stderr` (a line on standard error), `file`,
//! `command`, `notices` (`sd_notify`); and `poll_interval` for the kinds that send no event.

mod command;
mod detector;
mod file;
mod lines;
mod notices;
mod poll_interval;
mod readiness;
mod stderr;

pub(crate) use crate::condition::{Pattern, Port, Ready};
pub(crate) use detector::Detector;
pub(crate) use notices::Notice;
pub(crate) use readiness::{Readiness, Stream};
