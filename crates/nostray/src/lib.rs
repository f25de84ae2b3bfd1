//! **No stray processes**, for hosts that are written in Rust.
//!
//! A host starts children: MCP servers, memory bridges, workers. With this crate none of them outlives its purpose: not when the host
//! forgets to shut it down, panics, calls `exit`, drops its runtime or is killed by SIGKILL; and nobody else is touched.
//!
//! - [`Pen`] is one contained child with its whole process tree. Dropping it ends the tree.
//! - [`Supervisor`] and [`Lease`] are one child for many owners: clones and drops of leases are what counts it. A child that crashes
//!   comes back, one that nobody holds never does.
//! - [`Registry`] knows every child of this user, of all hosts; [`Session`] ends all that belong to one.
//! - [`parent`] is for programs that are children themselves, and [`singleton`] for those that must be alone.
//! - [`blocking`] is a small part of it for hosts without a runtime.
//!
//! ```standalone_crate
//! use nostray::{Pen, PenSpec};
//!
//! fn main() -> Result<(), Box<dyn std::error::Error>> {
//!     nostray::guard::init(); // the first line, before any thread: this program guards its own children
//!     let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
//!     runtime.block_on(async {
//!         let mut pen = Pen::spawn(&PenSpec::builder("sh").args(["-c", "exit 3"]).build()?)?;
//!         let exit = pen.wait().await?;
//!         assert_eq!(exit.code, Some(3));
//!         Ok(())
//!     })
//! }
//! ```
//!
//! Nothing is changed in the host: no handler for SIGCHLD, no `waitpid(-1)`, no signal disposition, no subreaper.

#![deny(missing_docs)]

pub mod blocking;
mod end;
mod error;
pub mod guard;
mod news;
pub mod parent;
mod pen;
mod program;
mod reaper;
mod registry;
mod session;
pub mod singleton;
mod spawn;
mod spec;
mod streams;
#[cfg(feature = "supervisor")]
mod supervisor;
mod trace;
mod wakeup;

pub use end::{Cause, Exit};
pub use error::Error;
pub use pen::Pen;
pub use registry::{Change, ChangeKind, Child, ChildState, Registry, SweepPolicy, Swept, Watch};
pub use session::{Ending, Session};
pub use spec::{IfTaken, PenSpec, PenSpecBuilder, Stdio};
pub use streams::{Stderr, Stdin, Stdout};

#[cfg(feature = "supervisor")]
pub use error::{CallError, JsonError};
#[cfg(feature = "supervisor")]
pub use nostray_supervise::{Backoff, Rate};
#[cfg(feature = "supervisor")]
pub use spec::{Handshake, LeaseSpec, LeaseSpecBuilder, McpClient, Protocol};
#[cfg(feature = "supervisor")]
pub use supervisor::{Generation, HandlerError, Hook, Lease, Notification, Subscription, Supervisor, WeakLease};
