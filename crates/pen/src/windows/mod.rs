//! A pen on Windows: one process of ours, the front, which has the only handle on the job in which the child was started.

pub(crate) mod front;
pub(crate) mod host;
pub(crate) mod requests;

pub use host::Starter;
pub use requests::{Takes, ask, bears_limit};
