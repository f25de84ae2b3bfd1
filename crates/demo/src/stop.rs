//! What ends the show before its time: a signal, an audience that has left, a failure.

use std::fmt::Display;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::time::{Duration, Instant};

use nostray_sys::poll::{self, Until};
use nostray_sys::signal::{Signal, SignalFd, SignalSet, is_ignored};
use nostray_terminal::{self as terminal, ExitCode};

/// Why the show does not go on.
#[derive(Debug)]
pub(super) enum Stop {
    /// The user or the system ends it.
    Signal(Signal),
    /// Standard output was closed: `nostray demo | head -1`.
    OutputClosed,
    /// Something went wrong that has nothing to do with what is shown.
    Failed(String),
}

impl Stop {
    pub(super) fn failed(action: &str, error: impl Display) -> Self {
        Self::Failed(format!("cannot {action}: {error}"))
    }

    pub(super) fn from_output(error: &io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::BrokenPipe => Self::OutputClosed,
            _ => Self::failed("write to standard output", error),
        }
    }

    /// Says why, where that is not known already, and returns the code to exit with: never 0, since nothing was proved.
    pub(super) fn report(&self) -> ExitCode {
        let by_signal = |signal: Signal| ExitCode::from(u8::try_from(128 + signal.as_raw()).unwrap_or(u8::MAX));
        match self {
            Self::Signal(signal) => by_signal(*signal),
            Self::OutputClosed => by_signal(Signal::PIPE),
            Self::Failed(why) => {
                terminal::complain(why);
                ExitCode::from(2)
            }
        }
    }
}

/// The signals that end the show. They are read, never handled, so that there is always time to clean up.
#[derive(Debug)]
pub(super) struct Interrupts(SignalFd);

impl Interrupts {
    pub(super) fn watch() -> io::Result<Self> {
        // A signal that is ignored (nohup, a job in the background of a script) stays ignored.
        let ending = [Signal::INT, Signal::TERM, Signal::HUP, Signal::QUIT];
        let set = set_of(|signal| ending.contains(&signal) && !is_ignored(signal));
        set.set_as_mask()?;
        Ok(Self(SignalFd::new(&set)?))
    }

    /// Waits until something can be read from one of these, or the time is over.
    pub(super) fn wait(&self, others: &[BorrowedFd<'_>], timeout: Duration) -> Result<(), Stop> {
        let mut events = vec![(self.0.as_fd(), Until::Readable)];
        events.extend(others.iter().map(|&fd| (fd, Until::Readable)));
        poll::wait(&events, Some(timeout)).map_err(|error| Stop::failed("wait", error))?;
        match self.0.next() {
            Ok(Some(arrived)) => Err(Stop::Signal(arrived.signal)),
            Ok(None) => Ok(()),
            Err(error) => Err(Stop::failed("read signals", error)),
        }
    }

    /// Lets time pass, and calls `look` with what is left of it every so often.
    pub(super) fn pause(
        &self,
        time: Duration,
        step: Duration,
        mut look: impl FnMut(Duration) -> Result<(), Stop>,
    ) -> Result<(), Stop> {
        let until = Instant::now() + time;
        loop {
            let left = until.saturating_duration_since(Instant::now());
            look(left)?;
            if left.is_zero() {
                return Ok(());
            }
            self.wait(&[], left.min(step))?;
        }
    }
}

/// No signal at all: what an actor starts with, since a mask is inherited.
pub(super) fn no_signals() -> SignalSet {
    set_of(|_| false)
}

fn set_of(wanted: impl Fn(Signal) -> bool) -> SignalSet {
    let all = (1..).map_while(Signal::from_raw);
    all.filter(|&signal| !wanted(signal)).fold(SignalSet::full(), SignalSet::without)
}
