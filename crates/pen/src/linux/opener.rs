//! A process that opens pens one after the other for one host, and is their host in turn: it holds the other ends of the child's
//! streams, and when it ends, in any way, the open pen ends as it does with any host.
//!
//! ```text
//! host ── opener ── front ── spare ── guard ── child ── ...
//! ```

mod open_pen;
mod remains;

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use nostray_sys::Pidfd;
use nostray_sys::descriptors::{self, FileLimit, StdinKind, write_to_stderr_at_once};
use nostray_sys::identity::Identity;
use nostray_sys::proc::{StartTime, Stat};
use nostray_sys::process::{self, Ended, News, Pid, Reaped, Side, getpid};
use nostray_sys::signal::{Arrived, Signal, SignalFd, is_ignored, send_to_own_child};
use nostray_sys::stream::{Pipe, do_not_wait};

use crate::front::{self, HostSetup, OpenedBy, signals_to_watch, stop_unless, watch_all};
use crate::host::{self, Host};
use crate::reason::Role;
use crate::tree::{HashSet, Strangers, Tier, Tree};
use crate::{Ask, During, Error, OWN_FAILURE, Order, PenId, Spec, Witness, guard, requests};
pub use open_pen::OpenPen;
pub use remains::Remains;

/// A process that opens pens.
#[derive(Debug)]
pub struct PenOpener {
    setup: HostSetup,
    host: Host,
    die_with: Vec<(u32, Pidfd)>,
    signals: SignalFd,
    own: Pid,
    strangers: Option<Strangers>,
    /// What the child may have open, if this process may have more.
    files: Option<FileLimit>,
    /// Children of this process that are of no pen: sweepers, and processes that could not be ended.
    others: HashSet<Identity>,
}

/// Our ends of the child's streams. None of them waits.
#[derive(Debug)]
pub struct Streams {
    /// Its input and its output. A daemon has no input, and its output is in its errors.
    pub stdio: Option<(OwnedFd, OwnedFd)>,
    /// Its errors.
    pub stderr: OwnedFd,
}

impl Streams {
    fn all(&self) -> impl Iterator<Item = &OwnedFd> {
        self.stdio.iter().flat_map(|(stdin, stdout)| [stdin, stdout]).chain([&self.stderr])
    }
}

/// The most file descriptors that it opens, with those of the pen's front and the child's streams, without what some options need.
const MAX_OPEN_FILES: u64 = 20;

/// What has become of the processes below.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReapOutcome {
    /// The front of the pen has ended.
    Front(Ended),
    /// It was stopped together with its child, by the terminal.
    Stopped(Signal),
    /// Nothing of interest.
    Nothing,
    /// The tree is empty.
    Empty,
}

impl PenOpener {
    /// **For a program that is declared with `nostray_sys::program!`, with one thread, that does nothing else.**
    pub fn open(die_with: &[u32]) -> Result<Self, Error> {
        let setup = HostSetup::take(MAX_OPEN_FILES)?;
        Self::be_continued_by_kernel(true);
        let signals = SignalFd::new(&signals_to_watch()).during("watch for signals")?;
        let host = setup.find_host(MAX_OPEN_FILES)?;
        let die_with = watch_all(die_with)?;
        Ok(Self {
            setup,
            host,
            die_with,
            signals,
            own: getpid(),
            strangers: None,
            files: None,
            others: HashSet::default(),
        })
    }

    /// From now on this process may have as many files open as its user may: each of many sessions needs some. Its pens have what their
    /// host gave.
    pub fn take_more_files(&mut self) {
        self.files = Some(FileLimit::raise());
    }

    /// Whether the kernel is to continue this process when its host ends. While a pen is open, the spare does that: a
    /// SIGCONT of the kernel could not be told from a SIGCONT that the host sends for the child.
    fn be_continued_by_kernel(yes: bool) {
        process::be_continued_when_parent_ends(yes);
    }

    /// From now on the kernel hands what is left of a pen to this process. To be called before the first pen is opened; children from
    /// before are no part of any pen.
    pub fn adopt_orphans(&mut self) -> io::Result<()> {
        process::become_subreaper()?;
        self.strangers = Strangers::of_this_process(PenId::new());
        Ok(())
    }

    /// The host, if it can be seen.
    #[must_use]
    pub fn host(&self) -> Option<Identity> {
        self.host.identity()
    }

    /// File descriptors that become readable when the host, a launcher between it and this process, or a process named by `--die-with`
    /// has ended.
    pub fn ends(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        self.handles().map(AsFd::as_fd)
    }

    fn handles(&self) -> impl Iterator<Item = &Pidfd> {
        let host = self.host.handles().map(|(_, handle)| handle);
        host.chain(self.die_with.iter().map(|(_, handle)| handle))
    }

    /// Which order tells a guard that the host, a launcher, or a process of `--die-with` has ended or is on its way out; none if all of
    /// them live.
    #[must_use]
    pub fn ending(&self) -> Option<Order> {
        match self.host.ending() {
            Some(Role::Host) => return Some(Order::HostGone),
            Some(Role::Launcher(..)) => return Some(Order::LauncherGone),
            None => {}
        }
        let pid = |number: u32| i32::try_from(number).ok().and_then(Pid::from_raw);
        let mut die_with = self.die_with.iter();
        let has_ended = die_with.any(|(number, handle)| pid(*number).is_some_and(|pid| host::is_ending(pid, handle)));
        has_ended.then_some(Order::DieWithEnded)
    }

    /// Whether the end of standard input is the host's word.
    #[must_use]
    pub fn stdin_tells(&self) -> bool {
        matches!(self.setup.stdin, StdinKind::Pipe(_) | StdinKind::Socket(_))
    }

    /// Readable when a signal has come.
    #[must_use]
    pub fn signals(&self) -> BorrowedFd<'_> {
        self.signals.as_fd()
    }

    /// The next signal for the child or for this process, SIGCHLD left out.
    #[must_use]
    pub fn next_signal(&self) -> Option<Arrived> {
        while let Ok(Some(arrived)) = self.signals.next() {
            if requests::is_request(arrived) {
                // It ends what a SIGTERM ends, and with the same code.
                return Some(Arrived { signal: Signal::TERM, ..arrived });
            }
            if requests::is_for_the_pen(arrived) || Self::is_key(arrived) {
                return Some(arrived);
            }
        }
        None
    }

    /// Whether a key on the terminal has sent it: the child, if there is one, has got it as well, and decides by itself.
    #[must_use]
    pub fn is_key(arrived: Arrived) -> bool {
        arrived.from_kernel && matches!(arrived.signal, Signal::INT | Signal::QUIT | Signal::TSTP)
    }

    /// Whether such a signal ends the pen, and not only reaches its child.
    #[must_use]
    pub fn is_the_end(arrived: Arrived) -> bool {
        matches!(arrived.signal, Signal::TERM | Signal::INT | Signal::QUIT | Signal::HUP)
            && !is_ignored(arrived.signal)
    }

    /// The request that a signal carries.
    #[must_use]
    pub fn asks(arrived: Arrived) -> Option<Ask> {
        requests::asked(arrived)
    }

    /// Whether it is `nostray restart` that asks.
    #[must_use]
    pub fn asks_to_restart(arrived: Arrived) -> bool {
        requests::ordered(arrived) == Some(crate::Order::Restart)
    }

    /// Stops this process as a terminal wants it, until it is continued.
    pub fn stop_with_terminal(by: Signal) {
        stop_unless(by, || false);
    }

    /// Opens one pen in this very process, which was the host's to wait for until now. Returns its exit code.
    pub fn become_front(self, spec: &Spec, id: PenId, witness: Box<dyn Witness>) -> Result<u8, Error> {
        Self::be_continued_by_kernel(false);
        // What has come meanwhile waits for the pen.
        drop((self.signals, self.host, self.die_with));
        front::open(spec, id, self.setup, None, witness)
    }

    /// Opens a pen. Nothing may be left of the one before. None of its processes has what is `not_for_it`.
    pub fn start(
        &self,
        spec: &Spec,
        id: PenId,
        witness: Box<dyn Witness>,
        not_for_it: &[BorrowedFd<'_>],
    ) -> Result<(OpenPen, Streams), Error> {
        let pipe = || Pipe::new().during("make a pipe");
        let Pipe { reader: errors, writer: stderr } = pipe()?;
        let (streams, theirs) = if spec.daemon {
            let null = descriptors::null().during("open /dev/null")?;
            let stdout = stderr.try_clone().during("make a pipe")?;
            (Streams { stdio: None, stderr: errors }, [null, stdout, stderr])
        } else {
            let (stdin, stdout) = (pipe()?, pipe()?);
            let ours = Streams { stdio: Some((stdin.writer, stdout.reader)), stderr: errors };
            (ours, [stdin.reader, stdout.writer, stderr])
        };
        for ours in streams.all() {
            do_not_wait(ours).during("set up a pipe")?;
        }
        let handle = Pidfd::of_self().during("make a handle on the front")?;
        match process::fork().during("start a pen")? {
            Side::Child => {
                drop(streams);
                not_for_it.iter().copied().for_each(descriptors::close_for_good);
                process::exit_now(self.be_front(spec, id, handle, theirs, witness));
            }
            // The front lives from here on, so nothing may fail any more: it would be forgotten.
            Side::Parent(pid) => {
                Self::be_continued_by_kernel(false);
                // The next handle gets the place of this one.
                drop(handle);
                let since = self.strangers.as_ref().and_then(|_| Identity::of(pid)).map(|front| front.start);
                let open_pen = OpenPen { id, front: Pidfd::open(pid).ok(), pid: Some(pid), since };
                Ok((open_pen, streams))
            }
        }
    }

    fn be_front(
        &self,
        spec: &Spec,
        id: PenId,
        handle: Pidfd,
        streams: [OwnedFd; 3],
        witness: Box<dyn Witness>,
    ) -> u8 {
        if let Some(limit) = &self.files {
            limit.restore();
        }
        process::set_name(guard::FRONT_NAME);
        process::set_title(&format!("{} {id}", guard::FRONT_NAME));
        let [stdin, stdout, stderr] = &streams;
        let mut setup = self.setup.clone();
        let opened =
            descriptors::become_stdio(stdin, stdout, stderr).during("set up the child's streams").and_then(|()| {
                // A copy here would hide the end of the child's output.
                drop(streams);
                setup.stdin = descriptors::stdin_kind();
                let opener = OpenedBy { handle, pid: self.own, ends: self.handles().collect() };
                front::open(spec, id, setup, Some(opener), witness)
            });
        opened.unwrap_or_else(|error| {
            write_to_stderr_at_once(&format!("nostray: {error}\n"));
            OWN_FAILURE
        })
    }

    /// A child of ours that is not of any pen.
    pub fn is_sweeper(&mut self, pid: Pid) {
        self.others.extend(Identity::of(pid));
    }

    /// These are left of a pen and cannot be ended. From now on they are of no pen.
    pub fn abandon(&mut self, those: &[Identity]) {
        self.others.extend(those);
    }

    /// Reaps children that have ended, and tells what that means for the pen.
    pub fn reap(&mut self, open_pen: &mut OpenPen) -> ReapOutcome {
        loop {
            match process::reap() {
                Ok(Reaped::News(News::Ended(pid, how))) => {
                    self.others.retain(|other| other.pid != pid);
                    if open_pen.pid.take_if(|front| *front == pid).is_some() {
                        return ReapOutcome::Front(how);
                    }
                }
                // A stopped front guards nothing, so it is continued; unless it stopped itself with its child.
                Ok(Reaped::News(News::Stopped(pid, Signal::STOP))) if Some(pid) == open_pen.pid => {
                    open_pen.go_on();
                }
                Ok(Reaped::News(News::Stopped(pid, by))) if Some(pid) == open_pen.pid => {
                    return ReapOutcome::Stopped(by);
                }
                // A spare or guard that has lost its front, which would have continued it.
                Ok(Reaped::News(News::Stopped(pid, Signal::STOP))) if open_pen.pid.is_none() => {
                    if Stat::of(pid).is_some_and(|stat| guard::is_keeper(&stat.name)) {
                        send_to_own_child(pid, Signal::CONT).ok();
                    }
                }
                Ok(Reaped::News(_)) => {}
                Ok(Reaped::Quiet) if !self.has_only_others(open_pen) => return ReapOutcome::Nothing,
                Ok(Reaped::Quiet | Reaped::NoChildren) | Err(_) => {
                    Self::be_continued_by_kernel(true);
                    return ReapOutcome::Empty;
                }
            }
        }
    }

    /// The same while there is no pen: an unrelated child or a sweeper may have ended.
    pub fn reap_others(&mut self) {
        while let Ok(Reaped::News(news)) = process::reap() {
            if let News::Ended(pid, _) = news {
                self.others.retain(|other| other.pid != pid);
            }
        }
    }

    /// Whether all children of this process are of no pen. The kernel's list of them is the proof.
    fn has_only_others(&self, open_pen: &OpenPen) -> bool {
        open_pen.pid.is_none() && self.tree(open_pen).has_only_strangers()
    }

    /// What is left of the pen when all its keepers were killed: the kernel has handed it to this process.
    fn tree(&self, open_pen: &OpenPen) -> Tree<'static> {
        let since = open_pen.since.unwrap_or(StartTime(0));
        let strangers = self.strangers.as_ref().map(|known| known.for_pen(open_pen.id.clone(), since));
        let mut tree = Tree::new(Tier::Subreaper).without(strangers);
        tree.spare(&self.others);
        tree
    }
}
