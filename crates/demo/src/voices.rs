//! The output of the host and its descendants: the ready line, and error messages.

use std::io::{PipeReader, Read};
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use nostray_sys::poll::{self, Until};

use super::actors::READY;
use super::stop::{Interrupts, Stop};
use super::troupe::START_LIMIT;

/// Their common standard output and standard error.
#[derive(Debug)]
pub(super) struct Voices {
    pipe: PipeReader,
    heard: Vec<u8>,
}

impl Voices {
    pub(super) fn new(pipe: PipeReader) -> Self {
        Self { pipe, heard: Vec::new() }
    }

    fn lines(&self) -> Vec<String> {
        String::from_utf8_lossy(&self.heard).lines().map(str::to_owned).collect()
    }

    /// Reads once; false at the end.
    fn listen(&mut self) -> bool {
        let mut buffer = [0; 4096];
        let n = self.pipe.read(&mut buffer).unwrap_or(0);
        self.heard.extend(buffer.iter().take(n));
        n > 0
    }

    /// Waits until the whole tree runs.
    pub(super) fn wait_for_ready(&mut self, interrupts: &Interrupts) -> Result<(), Stop> {
        let deadline = Instant::now() + START_LIMIT;
        while !self.lines().iter().any(|line| line == READY) {
            let left = deadline.saturating_duration_since(Instant::now());
            interrupts.wait(&[self.pipe.as_fd()], left)?;
            if left.is_zero() || (self.has_more() && !self.listen()) {
                let why = if left.is_zero() { "it took too long" } else { "it ended too early" };
                return Err(Stop::failed("start the tree", format!("{why}; it said: {:?}", self.lines())));
            }
        }
        Ok(())
    }

    fn has_more(&self) -> bool {
        poll::wait(&[(self.pipe.as_fd(), Until::Readable)], Some(Duration::ZERO))
            .is_ok_and(|came| came.contains(&true))
    }

    /// The lines other than the ready line.
    pub(super) fn said(mut self) -> Vec<String> {
        while self.has_more() && self.listen() {}
        self.lines().into_iter().filter(|line| line != READY).collect()
    }
}
