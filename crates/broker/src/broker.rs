//! The broker: the one process of a user by which sessions that want the same child find each other. It starts a steward for each
//! such child, hands it the connections of the sessions that attach, and does nothing else. It leaves when it has neither callers nor
//! stewards.

mod callers;
mod stewards;

use std::fs::File;
use std::io::{self, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use nostray_registry::{Cause, files};
use nostray_supervise::link::BROKER;
use nostray_supervise::wire::{Request, Status, ToFront, control_line};
use nostray_sys::descriptors::{replace_with_null, write_to_stderr_at_once};
use nostray_sys::events::Events;
use nostray_sys::local;
use nostray_sys::poll::Until;
use nostray_sys::process::{become_daemon, getpid, set_name, user};
use nostray_sys::signal::{Disposition, Signal, SignalFd, SignalSet, set_disposition};
use nostray_sys::standstill::Standstill;

use callers::{Asked, Caller};
use stewards::Stewards;

/// How long a broker stays without callers and stewards.
const IDLE_TIMEOUT: Duration = Duration::from_secs(1);
/// After an event: sessions tend to come in numbers.
const TIDY_AFTER: Duration = Duration::from_millis(500);
/// How long a new broker that finds the lock taken waits for the other one to listen, or to leave.
const OTHER_BROKER_TIMEOUT: Duration = Duration::from_secs(1);
/// How many connections may have an unfinished request.
const MAX_CALLERS: usize = 1024;
/// The log is begun anew beyond this size.
const MAX_LOG_BYTES: u64 = 256 << 10;

/// Serves at this path, as a daemon, until it has been idle for a while. Returns the exit code.
///
/// **For a program that is declared with `nostray_sys::program!`, with one thread, that does nothing else.**
#[must_use]
pub fn serve(socket: &Path) -> u8 {
    match Broker::begin(socket) {
        Ok(Some(broker)) => broker.run(),
        Ok(None) => 0,
        Err(error) => {
            let why = format!("a broker cannot serve at {}: {error}", socket.display());
            write_to_stderr_at_once(&format!("nostray: {why}\n"));
            // The front that started this broker waits for the end of its stdout, and reads nothing else.
            writeln!(io::stdout(), "{why}").ok();
            nostray_pen::OWN_FAILURE
        }
    }
}

struct Broker {
    socket: PathBuf,
    listener: Option<OwnedFd>,
    /// Held by the one broker of a user.
    _lock: File,
    signals: SignalFd,
    events: Events,
    callers: Vec<(u64, Caller)>,
    accepted: u64,
    stewards: Stewards,
    began: Instant,
    /// Since when it has had neither callers nor stewards.
    idle_since: Option<Instant>,
    is_stopping: bool,
    /// When to look for stopped stewards. SIGCHLD reports a SIGSTOP, so the broker does not poll for it. Nothing reports a debugger's
    /// stop, so the broker polls while it waits for its stewards to end.
    look_at: Option<Instant>,
    /// When to give back the memory that the last sessions' start has needed.
    tidy_at: Option<Instant>,
}

const SIGNALS: usize = 0;
const LISTENER: usize = 1;
const FIRST: usize = 2;

impl Broker {
    /// None if there is one already.
    fn begin(socket: &Path) -> io::Result<Option<Self>> {
        become_daemon()?;
        set_name(BROKER);
        let until = Instant::now() + OTHER_BROKER_TIMEOUT;
        let lock = loop {
            if let Some(lock) = take_lock(&socket.with_extension("lock"))? {
                break lock;
            }
            if local::connect_to(socket).is_ok() || Instant::now() > until {
                return Ok(None);
            }
            // flock cannot be polled together with a connect, so retry both.
            std::thread::sleep(Duration::from_millis(5));
        };
        open_log(&socket.with_extension("log")).ok();
        // Signals that the first session's host ignores must not be ignored by the children of other sessions.
        for signal in [Signal::HUP, Signal::INT, Signal::QUIT, Signal::TERM, Signal::PIPE, Signal::CHLD] {
            set_disposition(signal, Disposition::Default)?;
        }
        let set = SignalSet::full();
        set.set_as_mask()?;
        let signals = SignalFd::new(&set)?;
        // The broker that left it there is dead: it would hold the lock.
        std::fs::remove_file(socket).ok();
        let listener = local::listen_at(socket)?;
        std::fs::set_permissions(socket, std::fs::Permissions::from_mode(0o600))?;
        // Tells the front that started this broker that it listens.
        replace_with_null(true, true)?;
        Ok(Some(Self {
            socket: socket.to_owned(),
            listener: Some(listener),
            _lock: lock,
            signals,
            events: Events::new()?,
            callers: Vec::new(),
            accepted: 0,
            stewards: Stewards::default(),
            began: Instant::now(),
            idle_since: Some(Instant::now()),
            is_stopping: false,
            look_at: None,
            tidy_at: None,
        }))
    }

    fn run(mut self) -> u8 {
        let mut names = Vec::new();
        loop {
            self.callers.retain(|(_, caller)| !caller.is_too_slow());
            if self.look_at.is_some_and(|at| at <= Instant::now()) {
                let again =
                    self.stewards.look_for_stopped(self.is_stopping) | self.stewards.look_after() || self.is_stopping;
                self.look_at = again.then(|| Instant::now() + Standstill::PACE);
            }
            if self.tidy_at.is_some_and(|at| at <= Instant::now()) {
                self.tidy_at = None;
                nostray_sys::allocator::release_free();
                nostray_sys::memory::release_program_pages_at_next_wait();
            }
            let is_idle = self.callers.is_empty() && self.stewards.is_empty();
            self.idle_since = is_idle.then(|| self.idle_since.unwrap_or_else(Instant::now));
            if is_idle && (self.is_stopping || self.idle_since.is_some_and(|since| since.elapsed() >= IDLE_TIMEOUT)) {
                break;
            }
            names.clear();
            if let Err(error) = self.wait(&mut names) {
                write_to_stderr_at_once(&format!("nostray: the broker cannot wait for events: {error}\n"));
                self.stop(true, "the broker cannot wait for events");
                break;
            }
            for &name in &names {
                self.on(name);
                self.tidy_at = Some(Instant::now() + TIDY_AFTER);
            }
        }
        // A front that comes now starts another broker, which waits for the lock.
        std::fs::remove_file(&self.socket).ok();
        0
    }

    fn wait(&mut self, names: &mut Vec<usize>) -> io::Result<()> {
        let idle = self.idle_since.map(|since| since + IDLE_TIMEOUT);
        let slow = self.callers.iter().map(|(_, caller)| caller.deadline()).min();
        let timeout = [idle, slow, self.look_at, self.tidy_at].into_iter().flatten().min();
        let timeout = timeout.map(|at| at.saturating_duration_since(Instant::now()));
        self.events.want(SIGNALS, self.signals.as_fd(), Until::Readable, 0);
        if let Some(listener) = self.listener.as_ref().filter(|_| self.callers.len() < MAX_CALLERS) {
            self.events.want(LISTENER, listener.as_fd(), Until::Readable, 0);
        }
        let first = self.stewards.want(&mut self.events, FIRST);
        for (at, (stamp, caller)) in self.callers.iter().enumerate() {
            self.events.want(first + at, caller.fd(), Until::Readable, *stamp);
        }
        self.events.wait(timeout, names)
    }

    fn on(&mut self, name: usize) {
        match name {
            SIGNALS => {
                while let Ok(Some(arrived)) = self.signals.next() {
                    match arrived.signal {
                        Signal::TERM | Signal::INT | Signal::HUP => {
                            self.stop(false, &format!("the broker was stopped: {}", Cause::of_signal(arrived)));
                        }
                        Signal::CHLD => drop(self.look_at.get_or_insert_with(Instant::now)),
                        _ => {}
                    }
                }
            }
            LISTENER => self.let_in(),
            // Which caller it is may have changed by what accepted before; each is asked whether it has said something.
            name if name >= FIRST + self.stewards.names() => self.hear_callers(),
            name => {
                // It ends. If that cannot be seen yet, SIGCHLD tells; but not while a debugger holds it.
                if self.stewards.on(name - FIRST) && self.stewards.look_after() {
                    self.look_at.get_or_insert_with(|| Instant::now() + Standstill::PACE);
                }
            }
        }
    }

    fn let_in(&mut self) {
        let Some(listener) = &self.listener else { return };
        while let Ok(Some(connection)) = local::let_in(listener.as_fd()) {
            let is_ours = local::caller(connection.as_fd()).is_ok_and(|caller| caller.user == user());
            if is_ours && self.callers.len() < MAX_CALLERS {
                self.accepted += 1;
                self.callers.push((self.accepted, Caller::new(connection)));
            }
        }
        self.hear_callers();
    }

    fn hear_callers(&mut self) {
        let mut asked = Vec::new();
        self.callers.retain_mut(|(_, caller)| match caller.hear() {
            Asked::NotYet => true,
            Asked::Gone => false,
            Asked::For(request, connection) => {
                asked.push((request, connection));
                false
            }
        });
        for (request, connection) in asked {
            self.answer(request, connection);
        }
    }

    fn answer(&mut self, request: Request, connection: OwnedFd) {
        let answer = match request {
            // The front finds the connection closed, and looks for the next broker.
            Request::Attach(_) if self.is_stopping => return,
            Request::Attach(attach) => match self.stewards.lease(&attach, connection) {
                Ok(()) => return,
                Err((why, connection)) => {
                    say(&connection, &control_line(&why));
                    return;
                }
            },
            Request::Status => self.status(),
            Request::Stop { again } => {
                self.stop(again, "the broker was stopped");
                self.status()
            }
        };
        let mut answer = serde_json::to_vec(&answer).unwrap_or_default();
        answer.push(b'\n');
        say(&connection, &answer);
    }

    fn status(&self) -> Status {
        Status {
            pid: getpid().as_raw_nonzero().get(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            age: u64::try_from(self.began.elapsed().as_millis()).unwrap_or(u64::MAX),
            children: self.stewards.names_on_record(),
            stopping: self.is_stopping,
        }
    }

    /// Ends all children, and then itself. The lock is held until nothing of them is left.
    fn stop(&mut self, again: bool, why: &str) {
        if !std::mem::replace(&mut self.is_stopping, true) {
            self.listener = None;
            std::fs::remove_file(&self.socket).ok();
            self.stewards.stop(again, why);
            self.look_at.get_or_insert_with(Instant::now);
        }
    }
}

/// None if another broker holds it, or if the file was replaced meanwhile: then another broker may hold the new file.
fn take_lock(path: &Path) -> io::Result<Option<File>> {
    let lock = files::to_lock_or_make(path)?;
    if lock.try_lock().is_err() {
        return Ok(None);
    }
    let (ours, there) = (lock.metadata()?, std::fs::metadata(path));
    Ok(there.is_ok_and(|there| there.ino() == ours.ino() && there.dev() == ours.dev()).then_some(lock))
}

/// A short answer fits into any socket.
fn say(connection: &OwnedFd, text: &[u8]) {
    nostray_sys::stream::Sink::Socket.write(connection.as_fd(), text).ok();
}

fn open_log(path: &Path) -> io::Result<()> {
    if std::fs::metadata(path).is_ok_and(|found| found.len() > MAX_LOG_BYTES) {
        std::fs::remove_file(path)?;
    }
    let log = files::to_append(path)?;
    nostray_sys::descriptors::become_stderr(&log.into())
}

/// Why a session cannot hold a child, and whether it never will.
fn no(why: impl Into<String>, for_good: bool) -> ToFront {
    ToFront::No { why: why.into(), for_good }
}
