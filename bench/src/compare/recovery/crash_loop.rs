//! A server that ends as soon as it has started, and a host that keeps calling: how often it is started.

use std::io::{Read, Write};
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use nostray_sys::poll::{Until, wait};

use super::book::Book;
use crate::Failure;
use crate::compare::Ground;
use crate::compare::ways::{self, Contender};
use crate::report::Table;
use crate::supervisors::Kind;
use crate::traffic::{Filling, INITIALIZE, Request, Server};
use crate::variants::Started;

/// How long the host waits between two calls.
const PAUSE: Duration = Duration::from_millis(100);
/// How long a first start may take, with all of them starting at once.
const PATIENCE: Duration = Duration::from_secs(60);

/// One contender.
pub(super) struct Looped {
    pub(super) name: &'static str,
    pub(super) ours: bool,
    pub(super) spawns: usize,
    /// How many of them were in the last third of the time.
    late: usize,
    host: Fate,
}

/// What the host has seen of it.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Fate {
    /// It has called and heard so many lines.
    Connected { calls: u64, heard: usize },
    /// The same, until its pipe was closed.
    Closed { calls: u64, heard: usize },
    /// What listens between host and server gave up before a host could come.
    NeverBegan,
    /// No host speaks with the child.
    None,
}

impl Fate {
    fn show(self) -> String {
        match self {
            Self::Connected { calls, heard } => format!("open: {heard} lines for {calls} calls"),
            Self::Closed { calls, heard } => format!("closed: {heard} lines for {calls} calls"),
            Self::NeverBegan => "nothing listens".to_owned(),
            Self::None => "-".to_owned(),
        }
    }
}

/// What keeps starting the server.
enum Looper {
    Contender(Contender),
    Supervisor(Kind),
}

/// All of them at once, each for so long after the server's first start.
pub(super) fn measure(ground: &Ground, time: Duration) -> Result<Vec<Looped>, Failure> {
    let contenders = ways::all(ground).into_iter().map(Looper::Contender);
    let loopers: Vec<Looper> =
        contenders.chain(Kind::all(&ground.peers).into_iter().map(Looper::Supervisor)).collect();
    std::thread::scope(|scope| {
        let threads: Vec<_> = loopers.iter().map(|looper| scope.spawn(move || looper.watch(ground, time))).collect();
        threads.into_iter().map(|thread| thread.join().map_err(|_| "a thread failed")?).collect()
    })
}

impl Looper {
    fn watch(&self, ground: &Ground, time: Duration) -> Result<Looped, Failure> {
        let book = Book::new();
        let command = book.crashing_child(&ground.programs);
        let (name, ours) = match self {
            Self::Contender(contender) => (contender.name(), contender.ours),
            Self::Supervisor(kind) => (kind.name(), false),
        };
        let explain = |error: Failure| format!("{name}, a server that crashes: {error}");
        let (mut host, _beside, _supervisor) = match self {
            Self::Contender(contender) => {
                let server = Server { name: "a server that crashes".to_owned(), command };
                match (contender.start)(&server) {
                    Ok((front, beside)) => (Some(Host::new(front)), beside, None),
                    Err(_) if book.signatures() > 0 => {
                        let spawns = book.signatures();
                        return Ok(Looped { name, ours, spawns, late: 0, host: Fate::NeverBegan });
                    }
                    Err(error) => return Err(explain(error).into()),
                }
            }
            Self::Supervisor(kind) => (None, None, Some(kind.start(&command, 1).map_err(explain)?)),
        };
        // Some start a server only when a host greets it.
        let deadline = Instant::now() + PATIENCE;
        while book.signatures() == 0 && Instant::now() < deadline {
            keep_calling(host.as_mut(), PAUSE)?;
        }
        let start = Instant::now();
        let mut pass = |until: Duration| -> Result<usize, Failure> {
            while start.elapsed() < until {
                let pause = PAUSE.min(until.saturating_sub(start.elapsed()));
                keep_calling(host.as_mut(), pause)?;
            }
            Ok(book.signatures())
        };
        let early = pass(time * 2 / 3)?;
        let spawns = pass(time)?;
        let host = match host {
            None => Fate::None,
            Some(Host { has_ended: true, calls, heard, .. }) => Fate::Closed { calls, heard },
            Some(Host { calls, heard, .. }) => Fate::Connected { calls, heard },
        };
        Ok(Looped { name, ours, spawns, late: spawns - early, host })
    }
}

/// Passes so much time, with a host that calls if there is one.
fn keep_calling(host: Option<&mut Host>, time: Duration) -> Result<(), Failure> {
    match host {
        Some(host) => host.call_and_listen(time),
        None => {
            std::thread::sleep(time); // time is what is measured
            Ok(())
        }
    }
}

/// A host that calls on, whatever the answers are.
struct Host {
    front: Started,
    request: Request,
    calls: u64,
    /// Lines.
    heard: usize,
    has_ended: bool,
}

impl Host {
    fn new(front: Started) -> Self {
        Self { front, request: Request::new(200, Filling::Text), calls: 0, heard: 0, has_ended: false }
    }

    /// Sends a greeting at first and calls after it, and reads what comes meanwhile.
    fn call_and_listen(&mut self, time: Duration) -> Result<(), Failure> {
        let until = Instant::now() + time;
        if !self.has_ended {
            let line = if self.calls == 0 { INITIALIZE } else { self.request.numbered(self.calls) };
            let input = self.front.input.as_mut().ok_or("no input")?;
            self.has_ended = input.write_all(line).is_err();
            self.calls += 1;
        }
        while let left = until.saturating_duration_since(Instant::now())
            && !left.is_zero()
        {
            if self.has_ended {
                std::thread::sleep(left); // time is what is measured
            } else if wait(&[(self.front.output.get_ref().as_fd(), Until::Readable)], Some(left))?.contains(&true) {
                let mut bytes = [0; 1 << 16];
                let count = self.front.output.get_mut().read(&mut bytes).unwrap_or(0);
                self.heard += bytes[..count].iter().filter(|&&byte| byte == b'\n').count();
                self.has_ended = count == 0;
            }
        }
        Ok(())
    }
}

pub(super) fn table(all: &[Looped], time: Duration) -> Table {
    let seconds = time.as_secs();
    let title = format!("Starts of a server that ends at once, in the first {seconds} s");
    let last = format!("of them in the last {} s", (time / 3).as_secs());
    let mut table = Table::new(title, &["", "starts", &last, "the host's pipe"]);
    for looped in all {
        let cells = [looped.spawns.to_string(), looped.late.to_string(), looped.host.show()];
        table.row(std::iter::once(looped.name.to_owned()).chain(cells));
    }
    table.note(format!(
        "All at once, each with what it does by default; the server signs a book when it starts. A host greets it and calls every \
         {PAUSE:?}, whatever the answers are; when its pipe is closed, or the gateway does not listen, the host \
         starts nothing by itself. supervisord and pm2 have no host that calls their child. nostray gives up after \
         five failures in a minute, and then tries once more in each minute in which the host calls."
    ));
    if seconds < 60 {
        table.note(format!(
            "A quick run: {seconds} s instead of a minute, so contenders that go on would have started it more often."
        ));
    }
    table
}
