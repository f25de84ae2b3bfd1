//! What a guard tells the host that started it: datagrams to a socket without a place in the file system, so that nothing is left of
//! it. What is lost is missed by nobody who does not ask why.

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
pub(crate) enum News {
    /// The child runs.
    Started(Option<i32>),
    Ready,
    Stopping(String, String),
    /// Code, or signal.
    Ended(Option<i32>, Option<i32>),
    NotExecuted(String),
    Failed(String),
    /// Nothing is left, and this is the code that the front ends with: whoever waits for all children of the host takes that code away.
    Over(u8),
}

/// All that a guard has told.
#[derive(Debug, Clone, Default)]
pub(crate) struct Told {
    pub(crate) is_started: bool,
    pub(crate) child: Option<i32>,
    pub(crate) is_ready: bool,
    pub(crate) stopping: Option<(String, String)>,
    pub(crate) ended: Option<(Option<i32>, Option<i32>)>,
    pub(crate) not_executed: Option<String>,
    pub(crate) failed: Option<String>,
    pub(crate) over: Option<u8>,
}

impl Told {
    fn take(&mut self, news: News) {
        match news {
            News::Started(child) => {
                self.is_started = true;
                self.child = child;
            }
            News::Ready => self.is_ready = true,
            News::Stopping(word, detail) => self.stopping = Some((word, detail)),
            News::Ended(code, signal) => self.ended = Some((code, signal)),
            News::NotExecuted(why) => self.not_executed = Some(why),
            News::Failed(why) => self.failed = Some(why),
            News::Over(code) => self.over = Some(code),
        }
    }
}

/// Where it arrives.
#[derive(Debug)]
pub(crate) struct Inbox {
    mailbox: Mailbox,
}

/// Is there while the host has not got a handle on the front that it has started. A front that ended meanwhile could be reaped by
/// somebody who waits for all children of the host, and its number would be somebody else's.
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
        let deadline = Instant::now() + AT_THE_GATE;
        let (Ok(address), Ok(socket)) = (Self::address(news), UnixDatagram::unbound()) else { return };
        while socket.connect_addr(&address).is_ok() && Instant::now() < deadline {
            // Hardly ever: a host has its handle before a child has ended. A name that is given up has no event.
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}

const AT_THE_GATE: Duration = Duration::from_secs(2);
const LONGEST: usize = 8 << 10;

impl Inbox {
    /// One that is known by this name.
    pub(crate) fn open(name: &str) -> io::Result<Self> {
        Ok(Self { mailbox: Mailbox::open(name)? })
    }

    /// Takes in what has come.
    pub(crate) fn read(&self, told: &mut Told) {
        let mut buffer = vec![0; LONGEST];
        while let Ok(Some(letter)) = self.mailbox.next(&mut buffer) {
            // Anybody on the machine can see its name and write to it; only what a process of this user says is news.
            if letter.user == Some(nostray_sys::process::user())
                && let Ok(news) = serde_json::from_slice(&buffer[..letter.length])
            {
                told.take(news);
            }
        }
    }
}

/// In the guard: tells what it sees, beside another witness.
#[derive(Debug)]
pub(crate) struct Teller {
    inner: Box<dyn Witness>,
    outbox: Outbox,
    ready_at_start: bool,
}

/// The way to the host. **It keeps nothing open**: of a guard's processes each closes what it does not know, and a number that was
/// closed under its owner's hands is soon somebody else's.
#[derive(Debug)]
pub(crate) struct Outbox(Option<SocketAddr>);

impl Outbox {
    pub(crate) fn to(name: &str) -> Self {
        Self(SocketAddr::from_abstract_name(name).ok())
    }

    pub(crate) fn tell(&self, news: &News) {
        let (Some(to), Ok(text), Ok(socket)) = (&self.0, serde_json::to_vec(news), UnixDatagram::unbound()) else {
            return;
        };
        // A host that does not read must not stop a guard.
        if socket.set_nonblocking(true).is_ok() {
            socket.send_to_addr(&text[..text.len().min(LONGEST)], to).ok();
        }
    }
}

impl Teller {
    pub(crate) fn new(inner: Box<dyn Witness>, name: &str) -> Self {
        Self { inner, outbox: Outbox::to(name), ready_at_start: true }
    }
}

impl Witness for Teller {
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
                self.outbox.tell(&News::Started(child.map(|child| child.pid.as_raw_nonzero().get())));
                if self.ready_at_start {
                    self.outbox.tell(&News::Ready);
                }
            }
            Event::Ready => self.outbox.tell(&News::Ready),
            Event::Stopping(reason) => {
                self.outbox.tell(&News::Stopping(reason.word().to_owned(), reason.to_string()));
            }
            Event::ChildEnded(Ended::Exited(code)) => self.outbox.tell(&News::Ended(Some(i32::from(*code)), None)),
            Event::ChildEnded(Ended::Killed(signal)) => {
                self.outbox.tell(&News::Ended(None, Some(signal.as_raw())));
            }
            Event::NotExecuted(why) => self.outbox.tell(&News::NotExecuted(why.clone())),
            _ => {}
        }
    }
}
