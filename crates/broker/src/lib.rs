//! One child for many sessions: the broker by which a user's sessions find each other, the steward that keeps one shared child for all
//! sessions that hold it, and the router that knows which message belongs to which session.
//!
//! ```text
//! host ── front ══ steward ── pen: front ── spare ── guard ── child
//!                  broker
//! ```
#![doc = include_str!("../DESIGN.md")]

mod broker;
mod environment;
mod key;
mod router;
mod steward;

pub use broker::serve;
pub use environment::session_named_by_host;
pub use router::{Edits, Effect, FromChild, FromSession, Piece, ReverseTo, Router, Routing, SessionId, WireIds};
pub use steward::run as keep;
