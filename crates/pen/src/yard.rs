//! A process that opens pens one after the other for one host, and is their host in turn: it holds the other ends of the child's
//! streams, and when it goes, in whatever way, the pen that is open ends as it does with any host.
//!
//! ```text
//! host ── yard ── front ── spare ── guard ── child ── ...
//! ```

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use nostray_sys::Pidfd;
use nostray_sys::descriptors::{self, StdinKind, write_to_stderr_at_once};
use nostray_sys::identity::Identity;
use nostray_sys::proc;
use nostray_sys::process::{self, Ended, News, Pid, Reaped, Side};
use nostray_sys::signal::{Arrived, Signal, SignalFd, is_ignored};
use nostray_sys::stream::{Pipe, do_not_wait};

use crate::front::{self, Given, signals_to_watch, stop_like_the_child, watch_all};
use crate::host::{self, Host};
use crate::tree::{Strangers, Tier, Tree};
use crate::{During, Error, OWN_FAILURE, PenId, Spec, Witness, keep};

/// Such a process.
#[derive(Debug)]
pub struct Yard {
    given: Given,
    host: Host,
    die_with: Vec<(u32, Pidfd)>,
    signals: SignalFd,
    strangers: Option<Strangers>,
    /// A child of our own that is no pen: it looks for what others have left.
    sweeper: Option<Identity>,
}

/// A pen that was opened.
#[derive(Debug)]
pub struct Penned {
    /// Its name.
    pub id: PenId,
    /// The pen's front, which is our own child.
    pub front: Pidfd,
    pid: Pid,
}

/// Our ends of the child's streams. None of them waits.
#[derive(Debug)]
pub struct Streams {
    /// Its input.
    pub stdin: OwnedFd,
    /// Its output.
    pub stdout: OwnedFd,
    /// Its errors.
    pub stderr: OwnedFd,
}

/// What has become of the processes below.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Yielded {
    /// The front of the pen has ended.
    Front(Ended),
    /// It was stopped together with its child, by the terminal.
    Stopped(Signal),
    /// Nothing of interest.
    Nothing,
    /// Nobody is left: the tree is empty.
    Empty,
}

impl Yard {
    /// **For a program that is declared with `nostray_sys::program!`, with one thread, that does nothing else.**
    pub fn open(die_with: &[u32]) -> Result<Self, Error> {
        let given = Given::take()?;
        let signals = SignalFd::new(&signals_to_watch()).during("watch for signals")?;
        let host = host::find(given.stdin)?;
        let die_with = watch_all(die_with)?;
        process::become_subreaper().during("become a subreaper")?;
        let strangers = Strangers::of_this_process(PenId::new());
        Ok(Self { given, host, die_with, signals, strangers, sweeper: None })
    }

    /// Who started us, if that can be seen.
    #[must_use]
    pub fn host(&self) -> Option<Identity> {
        self.host.identity()
    }

    /// What becomes readable when it is over: the host has ended, or a process that the user has named.
    pub fn ends(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        let host = match &self.host {
            Host::Alive(_, handle) => Some(handle.as_fd()),
            Host::Elsewhere => None,
        };
        host.into_iter().chain(self.die_with.iter().map(|(_, handle)| handle.as_fd()))
    }

    /// Whether the end of standard input is the host's word.
    #[must_use]
    pub fn stdin_tells(&self) -> bool {
        matches!(self.given.stdin, StdinKind::Pipe(_) | StdinKind::Socket(_))
    }

    /// Readable when a signal has come.
    #[must_use]
    pub fn signals(&self) -> BorrowedFd<'_> {
        self.signals.as_fd()
    }

    /// The next signal that is for the child or for us. What only says that a child has news is not.
    #[must_use]
    pub fn next_signal(&self) -> Option<Arrived> {
        while let Ok(Some(arrived)) = self.signals.next() {
            if keep::is_for_the_pen(arrived) {
                return Some(arrived);
            }
        }
        None
    }

    /// Whether such a signal ends the pen, and not only reaches its child.
    #[must_use]
    pub fn is_the_end(arrived: Arrived) -> bool {
        matches!(arrived.signal, Signal::TERM | Signal::INT | Signal::QUIT | Signal::HUP)
            && !is_ignored(arrived.signal)
    }

    /// Whether it is `nostray stop` that asks, and if so, whether without any grace.
    #[must_use]
    pub fn asks_to_stop(arrived: Arrived) -> Option<bool> {
        match arrived.value {
            Some(keep::STOP) if arrived.signal == Signal::TERM => Some(false),
            Some(keep::STOP_NOW) if arrived.signal == Signal::TERM => Some(true),
            _ => None,
        }
    }

    /// Stops this process as a terminal wants it, until it is continued.
    pub fn stop_with_terminal(by: Signal) {
        stop_like_the_child(by);
    }

    /// Opens a pen. Nothing may be left of the one before.
    pub fn start(&self, spec: &Spec, id: PenId, witness: Box<dyn Witness>) -> Result<(Penned, Streams), Error> {
        let pipe = || Pipe::new().during("make a pipe");
        let (stdin, stdout, stderr) = (pipe()?, pipe()?, pipe()?);
        match process::fork().during("start a pen")? {
            Side::Child => {
                drop((stdin.writer, stdout.reader, stderr.reader));
                process::exit_now(self.be_front(spec, id, [stdin.reader, stdout.writer, stderr.writer], witness));
            }
            Side::Parent(pid) => {
                // Not reaped yet, so the number is its own.
                let front = Pidfd::open(pid).during("watch the pen")?;
                let streams = Streams { stdin: stdin.writer, stdout: stdout.reader, stderr: stderr.reader };
                for ours in [&streams.stdin, &streams.stdout, &streams.stderr] {
                    do_not_wait(ours).during("set up a pipe")?;
                }
                Ok((Penned { id, front, pid }, streams))
            }
        }
    }

    fn be_front(&self, spec: &Spec, id: PenId, streams: [OwnedFd; 3], witness: Box<dyn Witness>) -> u8 {
        process::set_name("nostray-front");
        let [stdin, stdout, stderr] = &streams;
        let mut given = self.given.clone();
        let opened =
            descriptors::become_stdio(stdin, stdout, stderr).during("set up the child's streams").and_then(|()| {
                // Whoever held these would keep the end of the child's output from being seen.
                drop(streams);
                given.stdin = descriptors::stdin_kind();
                front::open(spec, id, given, witness)
            });
        opened.unwrap_or_else(|error| {
            write_to_stderr_at_once(&format!("nostray: {error}\n"));
            OWN_FAILURE
        })
    }

    /// A child of ours that is not of any pen.
    pub fn is_sweeper(&mut self, pid: Pid) {
        self.sweeper = Identity::of(pid);
    }

    /// Looks after those who have ended.
    pub fn reap(&self, penned: &Penned) -> Yielded {
        loop {
            match process::reap() {
                Ok(Reaped::News(News::Ended(pid, how))) if pid == penned.pid => return Yielded::Front(how),
                // One who is stopped cannot take part; unless it stopped itself, as its child was.
                Ok(Reaped::News(News::Stopped(pid, Signal::STOP))) if pid == penned.pid => {
                    penned.front.send(Signal::CONT).ok();
                }
                Ok(Reaped::News(News::Stopped(pid, by))) if pid == penned.pid => return Yielded::Stopped(by),
                Ok(Reaped::News(_)) => {}
                Ok(Reaped::Nobody) | Err(_) => return Yielded::Empty,
                Ok(Reaped::Quiet) => {
                    return if self.has_only_others(penned) { Yielded::Empty } else { Yielded::Nothing };
                }
            }
        }
    }

    /// Whether all our children are such as are of no pen. The kernel's list of them is the proof.
    fn has_only_others(&self, penned: &Penned) -> bool {
        if self.strangers.is_none() && self.sweeper.is_none() {
            return false;
        }
        let Some(children) = proc::children_of_self() else { return false };
        children.into_iter().all(|pid| {
            let is_sweeper = self.sweeper.is_some() && Identity::of(pid) == self.sweeper;
            is_sweeper || (pid != penned.pid && self.tree(penned).is_stranger(pid))
        })
    }

    /// What the pen has left when all who kept it were killed: it has been handed to us.
    fn tree(&self, penned: &Penned) -> Tree<'_> {
        Tree::new(Tier::Subreaper).without(self.strangers.as_ref().map(|known| known.for_pen(penned.id.clone())))
    }

    /// SIGTERM to what is left of a pen whose every keeper was killed.
    pub fn terminate_orphans(&self, penned: &Penned) {
        self.tree(penned).terminate();
    }

    /// SIGKILL to it. To be repeated until nobody is left.
    pub fn kill_orphans(&self, penned: &Penned) {
        self.tree(penned).kill_round();
    }
}
