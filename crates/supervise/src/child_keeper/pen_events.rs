//! What the processes of a pen report to the front or steward that opened it.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use nostray_pen::{Event, Objection, Opening, Witness};
use nostray_registry::Process;
use nostray_sys::descriptors::{message_pair, receive_message, send_message};
use serde::{Deserialize, Serialize};

/// One piece of event.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum PenEvent {
    /// The pen is about to be; the folder of its control group.
    Opened(Option<String>),
    Started {
        spare: Option<Process>,
        guard: Option<Process>,
    },
    /// The child has become its program.
    Executed,
    /// It is ready, as the user has defined it.
    Ready,
    /// The child says that it is stopping.
    SaysStopping,
    /// The child says how it is doing.
    Status(String),
    /// It is being torn down: the name of the reason.
    Stopping(String),
    /// The child has ended.
    Ended(String),
    /// The child could not be executed.
    NotExecuted(String),
    /// These may not be signalled, and were left alone.
    Refused(Vec<Process>),
}

/// A witness that passes on what it sees, after another one has seen it.
#[derive(Debug)]
pub(super) struct PenEventSender {
    inner: Box<dyn Witness>,
    /// It is known that nothing can be put on record.
    off_record: bool,
    to: OwnedFd,
}

/// Where it arrives.
#[derive(Debug)]
pub(super) struct PenEventReceiver {
    from: OwnedFd,
    /// All processes of the pen have closed their end.
    closed: bool,
}

/// No message is longer: a path at most, or a few processes.
const MAX_EVENT_BYTES: usize = 16 << 10;
/// How many processes that may not be signalled are named.
const MAX_REFUSED: usize = 64;

impl PenEventSender {
    pub(super) fn new(inner: Box<dyn Witness>, off_record: bool) -> io::Result<(Self, PenEventReceiver)> {
        let (to, from) = message_pair()?;
        Ok((Self { inner, off_record, to }, PenEventReceiver { from, closed: false }))
    }

    /// What cannot be told is found out by the end of the processes.
    fn tell(&self, event: &PenEvent) {
        if let Ok(text) = serde_json::to_vec(event) {
            send_message(self.to.as_fd(), &text).ok();
        }
    }
}

impl Witness for PenEventSender {
    fn opens(&mut self, opening: &Opening<'_>) -> Result<(), Objection> {
        self.tell(&PenEvent::Opened(opening.cgroup.map(|path| path.display().to_string())));
        let opened = self.inner.opens(opening);
        // Once is enough, however many children there will be.
        if self.off_record { Ok(()) } else { opened }
    }

    fn settled(&mut self) {
        self.inner.settled();
    }

    fn sees(&mut self, event: &Event) {
        self.inner.sees(event);
        match event {
            Event::Started { spare, guard, .. } => {
                self.tell(&PenEvent::Started { spare: spare.map(Process::from), guard: guard.map(Process::from) });
            }
            Event::Executed => self.tell(&PenEvent::Executed),
            Event::Ready => self.tell(&PenEvent::Ready),
            Event::SaysStopping => self.tell(&PenEvent::SaysStopping),
            Event::Status(text) => self.tell(&PenEvent::Status(text.clone())),
            Event::Stopping(reason) => self.tell(&PenEvent::Stopping(reason.word().to_owned())),
            Event::ChildEnded(how) => self.tell(&PenEvent::Ended(how.to_string())),
            Event::NotExecuted { why, .. } => self.tell(&PenEvent::NotExecuted(why.clone())),
            Event::Refused(left) => {
                self.tell(&PenEvent::Refused(left.iter().take(MAX_REFUSED).copied().map(Process::from).collect()));
            }
            _ => {}
        }
    }
}

impl PenEventReceiver {
    /// The next piece of event.
    pub(super) fn next(&mut self) -> Option<PenEvent> {
        let mut buffer = [0; MAX_EVENT_BYTES];
        loop {
            match receive_message(self.from.as_fd(), &mut buffer) {
                Ok(0) => {
                    self.closed = true;
                    return None;
                }
                Ok(length) => {
                    if let Ok(event) = serde_json::from_slice(&buffer[..length]) {
                        return Some(event);
                    }
                }
                Err(_) => return None,
            }
        }
    }

    /// Readable when there is event; nothing if there will be none.
    pub(super) fn fd(&self) -> Option<BorrowedFd<'_>> {
        (!self.closed).then(|| self.from.as_fd())
    }
}
