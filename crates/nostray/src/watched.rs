//! Waiting in a runtime for the end of a process.

use std::io;
use std::os::fd::OwnedFd;

use nostray_sys::Pidfd;
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

/// Readable when the process has ended.
#[expect(
    deprecated,
    reason = "what is wrong with it concerns values that do not own their descriptor; this one does"
)]
pub(crate) fn watched(handle: &Pidfd) -> io::Result<AsyncFd<OwnedFd>> {
    AsyncFd::with_interest(handle.duplicate()?, Interest::READABLE)
}
