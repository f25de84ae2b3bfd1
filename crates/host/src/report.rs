//! What a guard tells the host that started it: datagrams to a socket without a place in the file system, so that nothing is left of
//! it. A datagram that is lost costs the cause of an exit, and nothing else.

use std::io;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::time::{Duration, Instant};

use nostray_pen::{Event, Objection, Opening, Ready, Witness};
use nostray_sys::mailbox::Mailbox;
use nostray_sys::process::Ended;
use serde::{Deserialize, Serialize};

/// One piece of news.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) enum GuardMessage {
    /// The child is about to become its program.
    Started(Option<i32>),
    Ready,
    Stopping(String, String),
    /// Code, or signal.
    Ended(Option<i32>, Option<i32>),
    NotExecuted(String),
    Failed(String),
    /// Nothing is left, and this is the front's exit code: a host's own `waitpid(-1)` may steal the exit status, so it is sent as well.
    Over(u8),
}

/// All that a guard has reported.
#[derive(Debug, Clone, Default)]
pub(crate) struct GuardReport {
    pub(crate) is_started: bool,
    pub(crate) child: Option<i32>,
    pub(crate) is_ready: bool,
    pub(crate) stopping: Option<(String, String)>,
    pub(crate) ended: Option<(Option<i32>, Option<i32>)>,
    pub(crate) not_executed: Option<String>,
    pub(crate) failed: Option<String>,
    pub(crate) over: Option<u8>,
}

impl GuardReport {
    fn take(&mut self, news: GuardMessage) {
        match news {
            GuardMessage::Started(child) => {
                self.is_started = true;
                self.child = child;
            }
            GuardMessage::Ready => self.is_ready = true,
            GuardMessage::Stopping(word, detail) => self.stopping = Some((word, detail)),
            GuardMessage::Ended(code, signal) => self.ended = Some((code, signal)),
            GuardMessage::NotExecuted(why) => self.not_executed = Some(why),
            GuardMessage::Failed(why) => self.failed = Some(why),
            GuardMessage::Over(code) => self.over = Some(code),
        }
    }
}

/// Where it arrives.
#[derive(Debug)]
pub(crate) struct Inbox {
    mailbox: Mailbox,
}

/// Is there while the host has not got a handle on the front that it has started. A front that ended meanwhile could be reaped by
/// the host's own `waitpid(-1)`, and its pid would be used again.
#[derive(Debug)]
pub(crate) struct Gate {
    _socket: UnixDatagram,
}

impl Gate {
    /// One for the front that tells its news to this name.
    pub(crate) fn shut(news: &str) -> io::Result<Self> {
        Ok(Self { _socket: UnixDatagram::bind_addr(&Self::address(news)?)? })
    }

    fn address(news: &str) -> io::Result<SocketAddr> {
        SocketAddr::from_abstract_name(format!("{news}-gate"))
    }

    /// In the front: returns once it is open. A host that has forked another process just then has left it shut, and that is no reason to
    /// stay for ever.
    pub(crate) fn wait_until_open(news: &str) {
        let deadline = Instant::now() + GATE_TIMEOUT;
        let (Ok(address), Ok(socket)) = (Self::address(news), UnixDatagram::unbound()) else { return };
        while socket.connect_addr(&address).is_ok() && Instant::now() < deadline {
            // Hardly ever: a host has its handle before a child has ended. A name that is given up has no event.
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}

const GATE_TIMEOUT: Duration = Duration::from_secs(2);
const MAX_MESSAGE: usize = 8 << 10;

impl Inbox {
    /// Opens the socket with this name.
    pub(crate) fn open(name: &str) -> io::Result<Self> {
        Ok(Self { mailbox: Mailbox::open(name)? })
    }

    /// Takes in what has come.
    pub(crate) fn read(&self, report: &mut GuardReport) {
        let mut buffer = vec![0; MAX_MESSAGE];
        while let Ok(Some(letter)) = self.mailbox.next(&mut buffer) {
            // Every user of the machine can see the name of the socket and write to it; only messages of this user count.
            if letter.user == Some(nostray_sys::process::user())
                && let Ok(news) = serde_json::from_slice(&buffer[..letter.length])
            {
                report.take(news);
            }
        }
    }
}

/// In the guard: tells what it sees, beside another witness.
#[derive(Debug)]
pub(crate) struct ReportingWitness {
    inner: Box<dyn Witness>,
    outbox: Outbox,
    ready_at_start: bool,
}

/// The way to the host. **It keeps nothing open**: of a guard's processes each closes what it does not know, and a number that was
/// closed behind its owner's back is soon used for another file.
#[derive(Debug)]
pub(crate) struct Outbox(Option<SocketAddr>);

impl Outbox {
    pub(crate) fn to(name: &str) -> Self {
        Self(SocketAddr::from_abstract_name(name).ok())
    }

    pub(crate) fn tell(&self, news: &GuardMessage) {
        let (Some(to), Ok(text), Ok(socket)) = (&self.0, serde_json::to_vec(news), UnixDatagram::unbound()) else {
            return;
        };
        // A host that does not read must not stop a guard.
        if socket.set_nonblocking(true).is_ok() {
            socket.send_to_addr(&text[..text.len().min(MAX_MESSAGE)], to).ok();
        }
    }
}

impl ReportingWitness {
    pub(crate) fn new(inner: Box<dyn Witness>, name: &str) -> Self {
        Self { inner, outbox: Outbox::to(name), ready_at_start: true }
    }
}

impl Witness for ReportingWitness {
    fn opens(&mut self, opening: &Opening<'_>) -> Result<(), Objection> {
        self.ready_at_start = matches!(opening.spec.ready, Ready::Started);
        self.inner.opens(opening)
    }

    fn settled(&mut self) {
        self.inner.settled();
    }

    fn sees(&mut self, event: &Event) {
        self.inner.sees(event);
        match event {
            Event::Started { child, .. } => {
                self.outbox.tell(&GuardMessage::Started(child.map(|child| child.pid.as_raw_nonzero().get())));
            }
            Event::Executed if self.ready_at_start => self.outbox.tell(&GuardMessage::Ready),
            Event::Ready => self.outbox.tell(&GuardMessage::Ready),
            Event::Stopping(reason) => {
                self.outbox.tell(&GuardMessage::Stopping(reason.word().to_owned(), reason.to_string()));
            }
            Event::ChildEnded(Ended::Exited(code)) => {
                self.outbox.tell(&GuardMessage::Ended(Some(i32::from(*code)), None))
            }
            Event::ChildEnded(Ended::Killed(signal)) => {
                self.outbox.tell(&GuardMessage::Ended(None, Some(signal.as_raw())));
            }
            Event::NotExecuted { why, .. } => self.outbox.tell(&GuardMessage::NotExecuted(why.clone())),
            _ => {}
        }
    }
}
