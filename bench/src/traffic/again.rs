//! A host that does not give up: it calls again when it is refused, or when nothing is heard.

use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use nostray_sys::poll::{Until, wait};

use super::request::{Request, number_of};
use super::session::Session;
use crate::Failure;

/// How long it waits for an answer before it calls once more.
pub(crate) const UNHEARD: Duration = Duration::from_secs(1);
/// How long it waits after a refusal, so that it is not what keeps the machine busy.
pub(crate) const REFUSED: Duration = Duration::from_millis(1);

/// What became of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Insisted {
    Answered,
    /// The other end of the pipe is closed.
    Ended,
    /// Not answered well in all the time there was.
    Unanswered,
}

impl Session {
    /// Makes a call, and makes it again, until it is answered well. Looks at every byte of the answer.
    pub(crate) fn insist(&mut self, request: &mut Request, within: Duration) -> Result<Insisted, Failure> {
        let deadline = Instant::now() + within;
        while Instant::now() < deadline {
            let number = self.next;
            self.next += 1;
            if self.write(request.numbered(number)).is_err() {
                return Ok(Insisted::Ended);
            }
            let until = deadline.min(Instant::now() + UNHEARD);
            match self.hear(request, until)? {
                Heard::Answer => return Ok(Insisted::Answered),
                Heard::End => return Ok(Insisted::Ended),
                Heard::Refusal => std::thread::sleep(REFUSED), // as a host would, and not all of a processor
                Heard::Nothing => {}
            }
        }
        Ok(Insisted::Unanswered)
    }

    fn hear(&mut self, request: &Request, until: Instant) -> Result<Heard, Failure> {
        loop {
            while let Some(line) = self.lines.next() {
                match number_of(line) {
                    Ok(None) => {}
                    // Also to a call before this one.
                    Ok(Some(_)) if request.is_in(line) => return Ok(Heard::Answer),
                    Ok(Some(_)) | Err(_) => return Ok(Heard::Refusal),
                }
            }
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Ok(Heard::Nothing);
            }
            let came = wait(&[(self.started.output.get_ref().as_fd(), Until::Readable)], Some(left))?;
            // A peer that is killed with unread input resets the connection.
            if came.contains(&true) && !self.lines.read(&mut self.started.output).unwrap_or(false) {
                return Ok(Heard::End);
            }
        }
    }
}

enum Heard {
    Answer,
    Refusal,
    Nothing,
    End,
}
