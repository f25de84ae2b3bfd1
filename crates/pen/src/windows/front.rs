//! The front: what the host started, and the only process of ours. It starts the child inside a job, waits for every reason to end the
//! tree, and ends it. **The kernel ends the job with its last handle, and only the front has one.** So the tree ends with the front, however
//! that ends.

use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

use nostray_sys::descriptors::{self, StdinKind};
use nostray_sys::exec::Program;
use nostray_sys::job::Job;
use nostray_sys::named_event::Event as Set;
use nostray_sys::poll::{self, AsFd, Until};
use nostray_sys::process::{Code, Ended, Pid};
use nostray_sys::signal::{self, Signal};
use nostray_sys::{Pidfd, process};

use crate::condition::Ready;
use crate::host::Host;
use crate::idle::{IdleWatch, Sample};
use crate::log::Log;
use crate::pen_id::{MARK, PenId};
use crate::reason::{Ask, Reason, Role};
use crate::tear_down::{Action, TearDown};
use crate::windows::requests::Requests;
use crate::witness::{Event, Objection, Opening, Witness};
use crate::{During, Error, Isolation, Spec};

/// As a shell has them.
const NOT_FOUND: Code = 127;
const NOT_EXECUTABLE: Code = 126;
/// The code of processes that are ended at the end of all graces, as `taskkill /f` gives it.
const KILLED: Code = 1;
/// When the witness has time for what can wait.
const SETTLED_AFTER: Duration = Duration::from_secs(1);
/// How often to look whether a job is empty that was terminated: the kernel tells, but not of a job that was empty before.
const EMPTY_INTERVAL: Duration = Duration::from_millis(50);

pub(crate) fn run(spec: &Spec, id: PenId, mut witness: Box<dyn Witness>) -> Result<Code, Error> {
    refuse_what_is_not_here(spec)?;
    let host = Host::find()?;
    let stdin = descriptors::stdin_kind();
    let log = Log::open(spec, id.clone())?;
    let die_with = watch_all(&spec.die_with)?;
    let console = signal::watch_console().during("watch the console")?;
    let job = Job::new().during("make a job")?;
    let requests = match Requests::listen(&id) {
        Ok(requests) => Some(requests),
        Err(error) => {
            log.warn(format_args!("`nostray stop` will not reach this child: {error}"));
            None
        }
    };
    match witness.opens(&Opening { id: &id, spec, tier: "job", cgroup: None }) {
        Ok(()) => {}
        Err(Objection::Warning(why)) => log.warn(format_args!("this child is contained, but not on record: {why}")),
        Err(Objection::Refusal(why)) => return Err(Error::Refused(why)),
    }
    process::set_variable(MARK, &mark_for_child(&id)).during("mark the child")?;
    // On a console, with a person in front of it, keys reach the child as they would without nostray. Elsewhere the child leads a group,
    // so that it can be sent a Ctrl-Break.
    let own_group = stdin != StdinKind::Terminal;
    let started =
        Program::new(&spec.command, spec.argv0.as_deref()).and_then(|program| program.start_in(&job, own_group));
    let (pid, child) = match started {
        Ok(started) => started,
        Err(error) => {
            let why = explain(spec, &error);
            match spec.host_is_told {
                true => log.note(&why),
                false => log.warn(&why),
            }
            let code = if error.kind() == io::ErrorKind::NotFound { NOT_FOUND } else { NOT_EXECUTABLE };
            witness.sees(&Event::Started { host: host.identity(), spare: None, guard: None, child: None });
            witness.sees(&Event::NotExecuted { why, errno: error.raw_os_error().unwrap_or(0) });
            witness.sees(&Event::ChildEnded(Ended::Exited(code)));
            witness.sees(&Event::Empty);
            return Ok(code);
        }
    };
    descriptors::close_stdin_and_stdout();
    let identity = child.identity(pid);
    log.note(format_args!("child {pid} started"));
    witness.sees(&Event::Started { host: host.identity(), spare: None, guard: None, child: identity });
    witness.sees(&Event::Executed);
    let now = Instant::now();
    let keeper = Keeper {
        log,
        job,
        child: (pid, child),
        own_group,
        stdin,
        gone: vec![false; host.handles().count() + die_with.len()],
        host,
        die_with,
        requests,
        console,
        tear_down: TearDown::new(spec.graces),
        idle: spec.idle_timeout.map(|timeout| IdleWatch::new(timeout, now)),
        settles: Some(now + SETTLED_AFTER),
        ended: None,
        empty: None,
        is_killing: false,
        witness,
    };
    Ok(keeper.keep())
}

fn refuse_what_is_not_here(spec: &Spec) -> Result<(), Error> {
    match spec {
        Spec { isolation: Isolation::Pid, .. } => Err(Error::NotHere("--isolate")),
        Spec { daemon: true, .. } => Err(Error::NotHere("a child that is a daemon")),
        Spec { ready: Ready::Started, .. } => Ok(()),
        _ => Err(Error::NotHere("a definition of ready")),
    }
}

/// Opens a handle on each process that the user named with `--die-with`.
fn watch_all(numbers: &[u32]) -> Result<Vec<(u32, Pidfd)>, Error> {
    let watch = |&pid: &u32| Ok((pid, Pidfd::of_user(pid).map_err(|why| Error::DieWith { pid, why })?.1));
    numbers.iter().map(watch).collect()
}

/// A pen inside a pen bears both names, the outer one first.
fn mark_for_child(id: &PenId) -> String {
    match std::env::var(MARK) {
        Ok(outer) if !outer.is_empty() => format!("{outer}/{id}"),
        _ => id.to_string(),
    }
}

fn explain(spec: &Spec, error: &io::Error) -> String {
    let command = spec.command.first().map_or("".as_ref(), |command| command.as_os_str()).display();
    match error.kind() {
        io::ErrorKind::NotFound => format!(
            "cannot run '{command}': not found; check its spelling, and that it is in the PATH that the host gives \
             to its children (or name it with its full path)"
        ),
        _ => format!("cannot run '{command}': {error}"),
    }
}

/// What can happen.
#[derive(Debug, Clone, Copy)]
enum Source {
    Child,
    /// The end of a process that is watched, by its place among all of them.
    Watched(usize),
    Asked(Ask),
    Console,
    Empty,
}

/// Keeps the tree until it is empty.
struct Keeper {
    log: Log,
    job: Job,
    child: (Pid, Pidfd),
    own_group: bool,
    stdin: StdinKind,
    host: Host,
    die_with: Vec<(u32, Pidfd)>,
    /// Which of host, launchers and `die_with` have ended.
    gone: Vec<bool>,
    requests: Option<Requests>,
    console: &'static Set,
    tear_down: TearDown,
    idle: Option<IdleWatch>,
    settles: Option<Instant>,
    ended: Option<Ended>,
    /// Set when the job is empty. Only from the end of the child or the beginning of the tear-down on: it takes a thread.
    empty: Option<Arc<Set>>,
    is_killing: bool,
    witness: Box<dyn Witness>,
}

impl Keeper {
    /// Returns the code of the child once nothing is left.
    fn keep(mut self) -> Code {
        loop {
            let events = self.events();
            let sources: Vec<_> = events.iter().map(|(source, _)| *source).collect();
            let waits: Vec<_> = events.iter().map(|(_, handle)| (*handle, Until::Readable)).collect();
            let timeout = self.deadline().map(|at| at.saturating_duration_since(Instant::now()));
            let come = poll::wait(&waits, timeout).unwrap_or_else(|_| {
                std::thread::sleep(EMPTY_INTERVAL); // waiting has failed: sleep instead
                Vec::new()
            });
            for source in sources.into_iter().zip(come).filter(|(_, come)| *come).map(|(source, _)| source) {
                self.happened(source);
            }
            self.tick();
            if self.ended.is_some() && self.is_empty() {
                self.log.note("nothing is left of the tree");
                self.witness.sees(&Event::Empty);
                return self.ended.map_or(crate::OWN_FAILURE, Ended::shell_code);
            }
        }
    }

    fn events(&self) -> Vec<(Source, poll::BorrowedFd<'_>)> {
        let mut events = Vec::new();
        if self.ended.is_none() {
            events.push((Source::Child, self.child.1.as_fd()));
        }
        let watched =
            self.host.handles().map(|(_, handle)| handle).chain(self.die_with.iter().map(|(_, handle)| handle));
        events.extend(
            watched
                .enumerate()
                .filter(|(at, _)| !self.gone[*at])
                .map(|(at, handle)| (Source::Watched(at), handle.as_fd())),
        );
        let requests = self.requests.iter().flat_map(|requests| &requests.events);
        events.extend(requests.map(|(ask, event)| (Source::Asked(*ask), event.as_fd())));
        events.push((Source::Console, self.console.as_fd()));
        events.extend(self.empty.iter().map(|event| (Source::Empty, event.as_fd())));
        events
    }

    fn deadline(&self) -> Option<Instant> {
        let idle = self.idle.as_ref().filter(|_| !self.tear_down.has_begun()).map(IdleWatch::deadline);
        let look = self.is_killing.then(|| Instant::now() + EMPTY_INTERVAL);
        [self.tear_down.deadline().filter(|_| !self.is_killing), idle, look, self.settles].into_iter().flatten().min()
    }

    fn happened(&mut self, source: Source) {
        match source {
            Source::Child => {
                let how = self.child.1.ended().unwrap_or(Ended::Exited(crate::OWN_FAILURE));
                self.log.note(format_args!("child {} {how}", self.child.0));
                self.ended = Some(how);
                self.witness.sees(&Event::ChildEnded(how));
                if !self.is_empty() {
                    self.because(Reason::ChildEnded);
                }
            }
            Source::Watched(at) => {
                self.gone[at] = true;
                let roles: Vec<Role> = self.host.handles().map(|(role, _)| role).collect();
                let reason = match roles.get(at) {
                    Some(role) => {
                        if self.stdin == StdinKind::Pipe {
                            // The host's end of the pipe was closed with the host, and the child sees the end of its input.
                            self.tear_down.input_closed();
                        }
                        Reason::from(*role)
                    }
                    None => Reason::DieWithEnded(self.die_with.get(at - roles.len()).map_or(0, |(pid, _)| *pid)),
                };
                self.because(reason);
            }
            Source::Asked(ask) => {
                for (other, event) in self.requests.iter().flat_map(|requests| &requests.events) {
                    if *other == ask {
                        event.reset();
                    }
                }
                self.because(Reason::Asked { sender: None, ask });
            }
            Source::Console => {
                for signal in signal::take_console_signals() {
                    match signal {
                        Signal::HUP => self.because(Reason::TerminalClosed),
                        // A key reaches the child as well, if it is of our group; then the child decides.
                        _ if !self.own_group => {}
                        _ => self.because(Reason::Signal { signal, sender: None, for_front: true }),
                    }
                }
            }
            Source::Empty => {
                if let Some(empty) = &self.empty {
                    empty.reset();
                }
            }
        }
    }

    fn tick(&mut self) {
        let now = Instant::now();
        if self.settles.is_some_and(|at| at <= now) {
            self.settles = None;
            self.witness.settled();
        }
        if let Some(action) = self.tear_down.tick(now) {
            self.act(action);
        }
        if let Some(idle) = self.idle.as_mut().filter(|idle| !self.tear_down.has_begun() && idle.deadline() <= now)
            && idle.is_idle(Sample::of(self.job.activity().unwrap_or_default()), now)
        {
            let timeout = idle.timeout();
            self.because(Reason::Idle(timeout));
        }
    }

    fn because(&mut self, reason: Reason) {
        self.log.note(&reason);
        let begins = !self.tear_down.has_begun();
        let action = self.tear_down.because(&reason, Instant::now());
        if begins && self.tear_down.has_begun() {
            if self.empty.is_none() {
                self.empty = self.job.when_empty().ok();
            }
            self.witness.sees(&Event::Stopping(reason));
        }
        if let Some(action) = action {
            self.act(action);
        }
    }

    fn act(&mut self, action: Action) {
        match action {
            Action::Deliver(Signal::HUP) => {} // the console tells all its processes
            Action::Deliver(_) | Action::Terminate => {
                let sent = if self.own_group && descriptors::has_console() {
                    signal::send_break(self.child.0)
                } else {
                    Err(io::ErrorKind::Unsupported.into())
                };
                match sent {
                    Ok(()) => self.log.note("Ctrl-Break to the whole tree"),
                    // There is no other way to ask, and so nothing to wait for.
                    Err(error) => {
                        self.log.note(format_args!("no Ctrl-Break can be sent ({error})"));
                        self.kill();
                    }
                }
            }
            Action::Kill => self.kill(),
        }
    }

    /// Ends every process. One that has just ended by itself is not counted.
    fn kill(&mut self) {
        let left = self.job.count().unwrap_or(0);
        if left > 0 && !self.is_killing {
            self.log.note("ending the whole tree");
            self.witness.sees(&Event::Killing(left));
        }
        self.is_killing = true;
        if let Err(error) = self.job.terminate(KILLED) {
            self.log.warn(format_args!("cannot end the tree: {error}"));
        }
    }

    /// **A tree is empty when no process of its job lives.**
    fn is_empty(&self) -> bool {
        self.job.is_empty().unwrap_or(false)
    }
}
