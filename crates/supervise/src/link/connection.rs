//! A session's connection: to the broker that runs or is started, and then to the steward.

use std::io::{self, ErrorKind};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use nostray_registry::{Process, WAS_STOPPED};
use nostray_sys::identity::Identity;
use nostray_sys::local;
use nostray_sys::stream::{Ends, Pipe};

use super::Share;
use super::address::{Address, find_broker, holder_of_lock};
use super::awaited::AwaitedProcess;
use crate::line_channel::LineChannel;
use crate::machine::Cause;
use crate::wire::{Request, ToSteward, control_line};

/// How long a broker may take to listen. A broker that is stopping takes as long as its children do.
const BROKER_START_TIMEOUT: Duration = Duration::from_secs(30);
/// How long broker and steward may take to accept a session. Hosts do not wait much longer either.
const ATTACH_TIMEOUT: Duration = Duration::from_secs(10);
/// How often to try to connect while a broker is starting or leaving.
const CONNECT_INTERVAL: Duration = Duration::from_millis(10);
/// How long to wait for a broker that was started before another one is.
const START_BROKER_INTERVAL: Duration = Duration::from_secs(1);
/// How long a broker does not accept before its process is looked for: it may be stopped.
const FIND_STOPPED_BROKER_INTERVAL: Duration = Duration::from_secs(2);

/// A session's link.
#[derive(Debug)]
pub(crate) struct Link {
    pub(crate) share: Share,
    stage: Stage,
    /// Counts the connections: the number of a descriptor may be that of the one before.
    pub(crate) connections: u64,
    /// A child is there and can be talked to.
    pub(crate) is_up: bool,
    /// The session has had a child over this link.
    pub(crate) had_child: bool,
    /// What no child has got comes back; until then the host is not heard.
    pub(crate) is_settling: bool,
    /// The next line is one of the session's own that no child has read.
    pub(crate) comes_back: bool,
    /// Lines that the child has not read, before its end is told.
    pub(crate) unread: Vec<u8>,
    /// Why the child is gone, and the last that it wrote to its standard error, if it was not put to rest.
    pub(crate) lost: Option<(Cause, Vec<String>)>,
    /// Nothing more is said, and for how long the rest is heard.
    pub(crate) parting: Option<Instant>,
    /// The process that is to answer next, if it is known.
    awaited: Option<AwaitedProcess>,
}

#[derive(Debug)]
enum Stage {
    /// Not connected, and not trying to.
    Apart,
    /// Trying to connect.
    Reaching { since: Instant, knock_at: Instant, start_at: Instant, look_for_it_at: Instant },
    /// Connected; steward or broker have until then to accept the session.
    Asking(LineChannel, Instant),
    /// The session holds the child. The socket carries descriptors only.
    Holding(LineChannel, OwnedFd),
}

/// What came of an attempt.
#[derive(Debug)]
pub(crate) enum Reached {
    /// Nothing yet.
    NotYet,
    /// There is no way, and why.
    NoWay(String),
}

impl Link {
    pub(crate) fn new(share: Share) -> Self {
        Self {
            share,
            stage: Stage::Apart,
            connections: 0,
            is_up: false,
            had_child: false,
            is_settling: false,
            comes_back: false,
            unread: Vec::new(),
            lost: None,
            parting: None,
            awaited: None,
        }
    }

    pub(crate) fn channel(&mut self) -> Option<&mut LineChannel> {
        match &mut self.stage {
            Stage::Asking(channel, ..) | Stage::Holding(channel, _) => Some(channel),
            Stage::Apart | Stage::Reaching { .. } => None,
        }
    }

    pub(crate) fn look(&self) -> Option<&LineChannel> {
        match &self.stage {
            Stage::Asking(channel, ..) | Stage::Holding(channel, _) => Some(channel),
            Stage::Apart | Stage::Reaching { .. } => None,
        }
    }

    /// The socket by which the session attached.
    pub(crate) fn socket(&self) -> Option<&OwnedFd> {
        match &self.stage {
            Stage::Holding(_, socket) => Some(socket),
            Stage::Apart | Stage::Reaching { .. } | Stage::Asking(..) => None,
        }
    }

    pub(crate) fn holds(&self) -> bool {
        matches!(self.stage, Stage::Holding(..))
    }

    /// Begins to look for the broker, unless that has been done.
    pub(crate) fn reach(&mut self) {
        if matches!(self.stage, Stage::Apart) {
            let now = Instant::now();
            let look_for_it_at = now + FIND_STOPPED_BROKER_INTERVAL;
            self.stage = Stage::Reaching { since: now, knock_at: now, start_at: now, look_for_it_at };
        }
    }

    /// The steward has let the session in, and has handed over the pipes by which they talk from now on. False if it has not.
    pub(crate) fn is_welcome(&mut self) -> bool {
        let Stage::Asking(channel, _) = &mut self.stage else { return true };
        let Ok([writer, reader]) = <[OwnedFd; 2]>::try_from(channel.take_handed()) else { return false };
        let Some(socket) = channel.move_to(Ends { writer, reader }) else { return false };
        self.connections += 1;
        self.stage = match std::mem::replace(&mut self.stage, Stage::Apart) {
            Stage::Asking(channel, _) => Stage::Holding(channel, socket),
            other => other,
        };
        true
    }

    /// Lets go of everything.
    pub(crate) fn part(&mut self) {
        self.stage = Stage::Apart;
        self.awaited = None;
        (self.is_up, self.is_settling, self.comes_back, self.parting) = (false, false, false, None);
        (self.unread, self.lost) = (Vec::new(), None);
    }

    /// Says that nothing more will be said, and listens for as long to what is still answered.
    pub(crate) fn fall_silent(&mut self, patience: Duration) {
        self.parting = Some(Instant::now() + patience);
        self.fall_silent_when_said();
    }

    /// What is on its way goes first.
    pub(crate) fn fall_silent_when_said(&mut self) {
        let is_parting = self.parting.is_some();
        if let Some(channel) = self.channel().filter(|channel| is_parting && channel.is_flushed()) {
            channel.close_writer();
        }
    }

    pub(crate) fn say(&mut self, word: &ToSteward) {
        if let Some(channel) = self.channel() {
            channel.write(&control_line(word));
        }
    }

    /// The broker has handed the connection to this steward.
    pub(crate) fn handed_to(&mut self, steward: Process) {
        self.awaited = steward.identity().map(AwaitedProcess::steward);
    }

    /// Whether the process at the other end has to answer, if only to the front.
    fn is_awaited(&self) -> bool {
        match &self.stage {
            Stage::Apart => false,
            Stage::Reaching { .. } | Stage::Asking(..) => true,
            Stage::Holding(channel, _) => self.is_settling || channel.pending_bytes() > 0,
        }
    }

    /// Looks whether the process that has to answer is stopped, if it is time, and ends it. The socket then reports its end.
    pub(crate) fn look_at_awaited(&mut self, session_waits: bool) {
        let is_awaited = self.parting.is_none() && (session_waits && self.holds() || self.is_awaited());
        let Some(awaited) = &mut self.awaited else { return };
        awaited.look(is_awaited);
        // It does not answer because it is stopped, and that is being seen to.
        if let Stage::Asking(_, until) = &mut self.stage
            && awaited.is_suspected()
        {
            *until = Instant::now() + ATTACH_TIMEOUT;
        }
    }

    /// What became of the child, if the connection to the process that kept it has ended.
    pub(crate) fn why_lost(&self) -> Cause {
        let keeper = self.awaited.as_ref();
        if keeper.is_some_and(AwaitedProcess::is_suspected) {
            return Cause::because("was ended", format!("the process that kept it {WAS_STOPPED} and has been ended"));
        }
        // A steward that loses its broker closes the connection and lives on until its child has ended.
        let steward_ended = keeper.is_some_and(|process| process.is_steward() && process.who().is_ending());
        let keeper = if steward_ended { "process" } else { "broker" };
        Cause::because("was lost", format!("the {keeper} that kept it has ended"))
    }

    /// When there is something to be done by itself.
    pub(crate) fn deadline(&self) -> Option<Instant> {
        let own = match &self.stage {
            Stage::Apart => None,
            Stage::Reaching { knock_at, .. } => Some(*knock_at),
            Stage::Asking(_, until) => Some(*until),
            Stage::Holding(..) => self.parting,
        };
        own.into_iter().chain(self.awaited.as_ref().and_then(AwaitedProcess::deadline)).min()
    }

    /// Goes on looking, if it is time.
    pub(crate) fn go_on(&mut self, max_line: usize) -> Reached {
        let now = Instant::now();
        match &mut self.stage {
            Stage::Asking(_, until) if *until <= now => {
                self.part();
                Reached::NoWay("the broker does not answer; see `nostray broker status`".to_owned())
            }
            Stage::Reaching { since, knock_at, start_at, look_for_it_at } if *knock_at <= now => {
                *knock_at = now + CONNECT_INTERVAL;
                if *look_for_it_at <= now {
                    // It may be stopped (SIGSTOP) before it listens, while it holds the lock that keeps other brokers away.
                    *look_for_it_at = now + FIND_STOPPED_BROKER_INTERVAL;
                    let holder = holder_of_lock();
                    if self.awaited.as_ref().map(AwaitedProcess::who) != holder {
                        self.awaited = holder.map(AwaitedProcess::overdue_broker);
                    }
                }
                if let Some(socket) = find_broker() {
                    return match self.ask(&socket, max_line) {
                        Ok(()) => Reached::NotYet,
                        // It has ended between the two; there will be another one.
                        Err(error) if matches!(error.kind(), ErrorKind::BrokenPipe | ErrorKind::ConnectionReset) => {
                            Reached::NotYet
                        }
                        Err(error) => Reached::NoWay(format!("the broker cannot be asked: {error}")),
                    };
                }
                if now.duration_since(*since) > BROKER_START_TIMEOUT {
                    return Reached::NoWay("no broker could be reached; see `nostray broker status`".to_owned());
                }
                if *start_at <= now {
                    *start_at = now + START_BROKER_INTERVAL;
                    if let Err(why) = start_broker() {
                        return Reached::NoWay(why);
                    }
                    // It listens by now.
                    *knock_at = Instant::now();
                }
                Reached::NotYet
            }
            _ => Reached::NotYet,
        }
    }

    fn ask(&mut self, socket: &OwnedFd, max_line: usize) -> io::Result<()> {
        local::make_room(socket.as_fd());
        let mut channel = LineChannel::over_socket(socket, max_line)?;
        let mut request = serde_json::to_vec(&Request::Attach(Box::new(self.share.attach.clone())))?;
        request.push(b'\n');
        channel.try_write(&request)?;
        self.connections += 1;
        let broker = local::caller(socket.as_fd())?.pid.and_then(Identity::of);
        self.awaited = broker.map(AwaitedProcess::broker);
        self.stage = Stage::Asking(channel, Instant::now() + ATTACH_TIMEOUT);
        Ok(())
    }
}

/// Starts a broker as a daemon. Returns when it listens, or has found that there is one already.
pub fn start_broker() -> Result<(), String> {
    let address = Address::for_a_new_one()?;
    let failed = |error: io::Error| format!("a broker cannot be started: {error}");
    let ready = Pipe::new().map_err(failed)?;
    let mut command = Command::new("/proc/self/exe");
    command.arg0("nostray").args(["broker", "serve"]).arg(&address.socket);
    // Each child gets its own session's environment, not that of the host which happens to start the broker. What says where files
    // are stays.
    command.env_clear();
    for name in ["PATH", "HOME", "XDG_RUNTIME_DIR", "XDG_STATE_HOME", "XDG_CACHE_HOME", "TMPDIR", "LANG"] {
        if let Some(value) = std::env::var_os(name) {
            command.env(name, value);
        }
    }
    command.current_dir("/").stdin(Stdio::null()).stdout(ready.writer).stderr(Stdio::null());
    let mut started = command.spawn().map_err(failed)?;
    drop(command);
    // It becomes a daemon and lets its beginning end.
    started.wait().map_err(failed)?;
    let until = [(ready.reader.as_fd(), nostray_sys::poll::Until::Readable)];
    if !nostray_sys::poll::wait(&until, Some(START_BROKER_INTERVAL)).map_err(failed)?.contains(&true) {
        return Ok(());
    }
    let mut why = [0; 512];
    match nostray_sys::stream::read(&ready.reader, &mut why) {
        Ok(Some(length @ 1..)) => Err(String::from_utf8_lossy(&why[..length]).trim_end().to_owned()),
        _ => Ok(()),
    }
}
