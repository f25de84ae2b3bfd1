//! Connections whose request has not been read to its end.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

use nostray_supervise::wire::Request;
use nostray_sys::stream;

/// How long a caller may take to send its request.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(10);
/// The longest request, in bytes: an environment and a command line are not larger.
const MAX_REQUEST: usize = 8 << 20;

/// One connection.
#[derive(Debug)]
pub(super) struct Caller {
    connection: Option<OwnedFd>,
    said: Vec<u8>,
    since: Instant,
}

/// What has come of reading a request.
#[derive(Debug)]
pub(super) enum Asked {
    NotYet,
    Gone,
    For(Request, OwnedFd),
}

impl Caller {
    pub(super) fn new(connection: OwnedFd) -> Self {
        Self { connection: Some(connection), said: Vec::new(), since: Instant::now() }
    }

    pub(super) fn fd(&self) -> BorrowedFd<'_> {
        // It is there until the caller is taken out of the list.
        self.connection
            .as_ref()
            .map_or_else(|| unreachable!("a caller that has asked is not waited for"), AsFd::as_fd)
    }

    pub(super) fn deadline(&self) -> Instant {
        self.since + REQUEST_TIMEOUT
    }

    pub(super) fn is_too_slow(&self) -> bool {
        self.deadline() <= Instant::now()
    }

    /// Reads on. A caller sends nothing more before it is answered, so what was read is the request and nothing else.
    pub(super) fn hear(&mut self) -> Asked {
        let Some(connection) = &self.connection else { return Asked::Gone };
        let mut buffer = [0; 16 << 10];
        loop {
            match stream::read(connection, &mut buffer) {
                Ok(None) => return Asked::NotYet,
                Ok(Some(0)) | Err(_) => return Asked::Gone,
                Ok(Some(count)) => self.said.extend_from_slice(&buffer[..count]),
            }
            if self.said.last() == Some(&b'\n') {
                return match (serde_json::from_slice(&self.said), self.connection.take()) {
                    (Ok(request), Some(connection)) => Asked::For(request, connection),
                    _ => Asked::Gone,
                };
            }
            if self.said.len() > MAX_REQUEST {
                return Asked::Gone;
            }
        }
    }
}
