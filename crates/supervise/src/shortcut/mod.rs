//! The shortcut: while a session is busy and all is well, its steward reads the host's stdin and writes to the host's stdout by itself. So a
//! message wakes one process of ours in each direction and not two.
//!
//! ```text
//! host ══ lines ══ steward ══ lines ══ child
//!   ·                 │
//!   · front ── control lines, memory in common
//! ```
//!
//! Only usual calls and their results go that way: those that a [`Session`](crate::Session) has to know nothing of but that they are in
//! flight. Before anything else passes, the steward gives the way back to the front. It may be killed at any moment, and then the front must
//! know what was asked, what was answered and what no process has taken yet. So:
//!
//! - **What the host says** is read straight into the memory in common, and counted there as *taken* when it is in the table of calls. What was
//!   read and not taken is said to the front.
//! - **A call** is in the table, under the host's id, until its answer has reached the host.
//! - **An answer** is written into a pipe between front and steward, the *transit*; then the call is marked as answered; then the kernel moves
//!   the answer from there into the host's stdout. Each byte is in one of the two pipes. So what is in the transit was not delivered, and
//!   a call that is marked and not there was.

mod front_end;
mod memory;
mod steward_end;

pub(crate) use front_end::{FrontEnd, TakenBack};
pub use steward_end::{StewardEnd, Unusual};

#[cfg(test)]
mod tests;
