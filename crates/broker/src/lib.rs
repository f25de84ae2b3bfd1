//! One child for many sessions: the broker that a user's sessions find each other by, the steward that keeps one shared child for
//! all who hold it, and the router that knows which message is whose.
//!
//! ```text
//! host ── front ══ steward ── pen: front ── spare ── guard ── child
//!                  broker
//! ```

mod broker;
mod environment;
mod key;
mod router;
mod steward;

pub use broker::serve;
pub use environment::session_named_by_host;
pub use router::{Edits, Effect, FromChild, FromSession, Piece, ReverseTo, Router, Routing, SessionId, WireIds};
pub use steward::run as keep;
