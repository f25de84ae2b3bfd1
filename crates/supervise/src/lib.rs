//! A child that stays: started when it is needed, started again when it crashes, put to sleep when nobody calls, recycled when it
//! grows too large, and given up when it keeps failing, while the host's session goes on as if it were one process.
//!
//! [`Machine`] decides when a child is started and ended, and [`Session`] what is said to whom; neither knows of a clock, a
//! process or a file. `front` is the thin loop around them that does what they say.

mod backoff;
mod cache;
mod flights;
mod front;
mod lists;
mod machine;
mod memory;
mod reverse;
mod session;
mod tail;
mod waiting;

pub use backoff::{Backoff, Rate};
pub use cache::Cache;
pub use front::{Error, Options, run};
pub use machine::{Action, Cause, Event, Generation, Machine, Moment, Policy, State, Timer, Why};
pub use session::{Effect, Protocol, Session, Settings, Verdict};
