//! **No stray processes**, for hosts that are written in Rust.
//!
//! A host starts children: MCP servers, memory bridges, workers. With this crate none of them outlives its purpose: not when the host
//! forgets to shut it down, panics, calls `exit`, drops its runtime or is killed by SIGKILL. Other processes are not touched.
//!
//! # Add it
//! ```toml
//! [dependencies]
//! nostray = "0.1"
//! tokio = { version = "1", features = ["macros", "rt-multi-thread"] }
//! ```
//!
//! | feature | default | what it adds | what it links |
//! | --- | --- | --- | --- |
//! | `supervisor` | yes | `Supervisor` and `Lease`; the streams of a [`Pen`] are tokio's `AsyncRead` and `AsyncWrite` | tokio |
//! | `tracing` | yes | events for the host's subscriber, see below | tracing |
//!
//! A host without tokio turns them off. [`Pen`], [`parent`], [`singleton`], [`Registry`] and [`Session`] work without it, in any async runtime, and
//! [`blocking`] in none:
//!
//! ```toml
//! nostray = { version = "0.1", default-features = false }
//! ```
//!
//! # One child
//! [`Pen`] is one contained child with its whole process tree. Dropping it ends the tree. A child needs a *guard*, a process between the
//! host and the child: the host's own program, started once more. [`guard!`] is all that this takes.
//!
//! ```standalone_crate
//! use nostray::{Pen, PenSpec};
//!
//! nostray::guard!(); // this program guards its own children
//!
//! #[tokio::main]
//! async fn main() -> Result<(), Box<dyn std::error::Error>> {
//!     let mut pen = Pen::spawn(&PenSpec::builder("sh").args(["-c", "exit 3"]).build()?)?;
//!     let exit = pen.wait().await?;
//!     assert_eq!(exit.code, Some(3));
//!     Ok(())
//! }
//! ```
//!
//! # One child for many owners
//! `Supervisor` and `Lease` (feature `supervisor`) are one child for many owners: clones and drops of leases are what counts. A child that
//! crashes comes back; a child that no lease holds never does. The child speaks JSON-RPC 2.0 over lines, MCP or any other.
//!
//! # What belongs to which session
//! [`Registry`] knows every child of this user, of all hosts. [`Session`] ends all children of a session with its last connection.
//!
//! # Programs that are children, or must be alone
//! [`parent`] tells a program that its parent is gone. [`singleton`] gives a name to at most one live process.
//!
//! # Events
//! With the feature `tracing` the host's subscriber gets these events, with the target `nostray`. They name the program and the pen, and
//! neither arguments nor environment.
//!
//! | event | level | fields |
//! | --- | --- | --- |
//! | `started` | info | `pen`, `program`, `session` |
//! | `ready` (of a lease's child) | info | `program`, `generation` |
//! | `exited` | info | `pen`, `code`, `signal`, `cause` |
//! | `respawned` | warn | `program`, `generation` |
//! | `lease taken`, `lease released` | debug | `program`, `lease`, `leases` |
//!
//! # What it does to the host
//! Nothing is changed in the host: no handler for SIGCHLD, no `waitpid(-1)`, no signal disposition, no subreaper. Up to two small threads
//! exist, and only while there is something to do: one reaps children whose `Pen` was dropped, one wakes tasks that wait for a `Pen`.
#![doc = include_str!("../DESIGN.md")]
#![deny(missing_docs)]
// The documentation is that of all features.
#![cfg_attr(not(feature = "supervisor"), allow(rustdoc::broken_intra_doc_links))]

pub mod blocking;
mod end;
mod error;
pub mod guard;
pub mod parent;
mod pen;
mod program;
mod reaper;
mod registry;
mod report;
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
