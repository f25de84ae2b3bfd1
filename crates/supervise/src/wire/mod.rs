//! What front, broker and steward say to each other, with the types of both sides.
//!
//! ```text
//! front ── Request (one line of JSON) ──> broker
//! front <─ ToFront ── ToSteward ─> steward        control lines among the lines of the session
//! broker ── StewardSetup, ToBroker, FromBroker ── steward        one datagram each, some with a file descriptor
//! ```
//!
//! Settings travel as the types that both sides use. What cannot be read is an error, never a default.

mod attach;
mod control;
mod os_text;
mod settings;
mod steward;

pub use attach::{Attach, Request, SLOT_KEY, Status};
pub use control::{ToFront, ToSteward, control_line, parse_control};
pub use os_text::OsText;
pub use settings::{ChildSettings, DaemonSettings, ReverseTo, SlotSettings};
pub use steward::{FromBroker, Received, StewardSetup, ToBroker, receive, send};

/// Raised when fronts, brokers and stewards of different versions would misunderstand each other. It is part of the socket's name, so
/// they never meet.
pub const VERSION: u32 = 6;
