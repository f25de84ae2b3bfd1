//! A session's link to a shared child: where the broker is, and the connection to it.

mod address;
mod awaited;
mod connection;

pub use crate::wire::VERSION;
pub use address::{Address, BROKER, find_broker};
pub use connection::start_broker;
pub(crate) use connection::{Link, Reached};

/// What a session shares, and how.
#[derive(Debug, Clone)]
pub struct Share {
    /// What it wants to hold.
    pub attach: crate::wire::Attach,
    /// If that cannot be had, nothing else will do.
    pub required: bool,
}
