//! Slots on Linux: front, spare and guard inherit the lock, waiters are woken by a pipe and a signal, and what blocks is done beside.

pub(crate) mod enter;
pub(crate) mod helper;
pub(crate) mod lock;
pub(crate) mod ticket_file;
pub(crate) mod time;
mod watches;

pub use enter::{Entered, enter, run};
