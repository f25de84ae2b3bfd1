//! *Ready* as a fact that a user can define, and noticing it.
//!
//! `wish` is what may be meant by it. `means` is what noticing it takes, made before the forks; `readiness` is the noticing, in
//! whoever keeps the tree. Beside them is a file for each kind: `lines` and `errors` (a line on standard error), `file`, `command`,
//! `notices` (what the child tells itself); and `pace`, for what nobody tells.

mod command;
mod errors;
mod file;
mod lines;
mod means;
mod notices;
mod pace;
mod readiness;
mod wish;

pub(crate) use means::Means;
pub(crate) use notices::Notice;
pub(crate) use readiness::{Readiness, Stream};
pub use wish::{Pattern, Port, Ready};
