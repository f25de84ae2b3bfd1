//! Starting a guard with a child, from a program with any number of threads: by `posix_spawn`, which costs the same however much memory
//! the host has, and leaves nothing of the host's changed.

use std::os::fd::OwnedFd;
use std::process::Command;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use nostray_pen::{Ask, Graces, PenId, ask};
use nostray_registry::{Labels, Place, is_on_record, sweep_pen};
use nostray_sys::Pidfd;
use nostray_sys::process::{Ended, Pid, reap_child};

use crate::guard::{GuardConfig, SlotConfig, call};
use crate::report::{Gate, GuardReport, Inbox};
use crate::spec::ChildSpec;
use crate::{Error, Exit, Stdio};
use crate::{program, trace};

/// A guard that was started. The owner of this value reaps it.
#[derive(Debug)]
pub(crate) struct Started {
    pub(crate) id: PenId,
    pid: Pid,
    pub(crate) handle: Arc<Pidfd>,
    pub(crate) graces: Graces,
    /// Whether the end of its input is ours to say.
    pub(crate) is_piped: bool,
    place: Option<Place>,
    inbox: Inbox,
    report: GuardReport,
    front: Option<Front>,
    /// The process that has started it. A process forked from that has a copy of this value, which does nothing.
    creator: u32,
}

/// A pen of this process that belongs to a session. It is not on record before its guard has come that far, and must be found all the
/// same.
#[derive(Debug)]
struct SessionPen {
    session: String,
    id: PenId,
    /// Dangling when nothing is left of the pen, or this process does not watch it any more.
    handle: Weak<Pidfd>,
    promised: Duration,
    number: PenNumber,
}

/// Counts the pens of this process, to know which were there before something happened.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct PenNumber(u64);

static NEXT: AtomicU64 = AtomicU64::new(0);

impl PenNumber {
    /// That of the next pen.
    pub(crate) fn next() -> Self {
        Self(NEXT.load(Ordering::SeqCst))
    }
}

/// A pen of this process that has not ended.
#[derive(Debug)]
pub(crate) struct FoundPen {
    pub(crate) id: String,
    pub(crate) front: Arc<Pidfd>,
    /// How long its end may take.
    pub(crate) promised: Duration,
    pub(crate) number: PenNumber,
}

static SESSION_PENS: Mutex<Vec<SessionPen>> = Mutex::new(Vec::new());

/// The pens of this process that belong to a session.
pub(crate) fn pens_of_session(key: &str) -> Vec<FoundPen> {
    let all = SESSION_PENS.lock().unwrap_or_else(PoisonError::into_inner);
    let ours = all.iter().filter(|pen| pen.session == key);
    let own = |pen: &SessionPen| {
        Some(FoundPen {
            id: pen.id.to_string(),
            front: pen.handle.upgrade()?,
            promised: pen.promised,
            number: pen.number,
        })
    };
    ours.filter_map(own).collect()
}

/// How the front has ended.
#[derive(Debug, Clone, Copy)]
enum Front {
    Reaped(Ended),
    /// The host's own `waitpid(-1)` has reaped it, and its exit status is lost.
    ReapedByHost,
}

/// Our ends of the child's streams.
#[derive(Debug, Default)]
pub(crate) struct Ends {
    pub(crate) stdin: Option<OwnedFd>,
    pub(crate) stdout: Option<OwnedFd>,
    pub(crate) stderr: Option<OwnedFd>,
}

/// Starts a guard, which starts the child. A program or a directory that is not there is an error, and nothing is started.
pub(crate) fn start(spec: &ChildSpec, streams: [Stdio; 3]) -> Result<(Started, Ends), Error> {
    let (program, word) = call()?;
    program::check(spec)?;
    let number = PenNumber(NEXT.fetch_add(1, Ordering::SeqCst));
    let id = PenId::new();
    let name = format!("nostray-host-{}-{id}", std::process::id());
    let inbox = Inbox::open(&name).map_err(Error::during("make a socket"))?;
    let gate = Gate::shut(&name).map_err(Error::during("make a socket"))?;
    let place = Place::for_writing().ok();
    let milliseconds = |time: Duration| u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
    let config = GuardConfig {
        id: id.to_string(),
        report_to: name,
        records: place.as_ref().map(|place| place.path().to_owned()),
        lasting: Place::that_lasts().ok().map(|place| place.path().to_owned()),
        eof_grace: milliseconds(spec.graces.eof()),
        term_grace: milliseconds(spec.graces.term()),
        isolate: spec.isolate_pids,
        session: spec.session.clone(),
        labels: spec.labels.clone().into_iter().collect::<Labels>(),
        slot: spec.slot.as_ref().map(|(name, if_taken)| {
            let (if_taken, timeout) = if_taken.policy();
            SlotConfig { name: name.to_string(), if_taken: if_taken.into(), timeout: timeout.map(milliseconds) }
        }),
    };
    let config = serde_json::to_string(&config)
        .map_err(|error| Error::System { action: "write the guard's config", source: error.into() })?;
    let mut command = Command::new(&program);
    command.arg(word).arg(config).args(&spec.command);
    if spec.without_environment {
        command.env_clear();
    }
    for (name, value) in &spec.environment {
        match value {
            Some(value) => command.env(name, value),
            None => command.env_remove(name),
        };
    }
    if let Some(directory) = &spec.directory {
        command.current_dir(directory);
    }
    let stream = |stdio| match stdio {
        Stdio::Piped => std::process::Stdio::piped(),
        Stdio::Inherited => std::process::Stdio::inherit(),
        Stdio::Null => std::process::Stdio::null(),
    };
    command.stdin(stream(streams[0])).stdout(stream(streams[1])).stderr(stream(streams[2]));
    let failed = |source| Error::Start { program: program.clone(), source };
    let mut child = command.spawn().map_err(failed)?;
    let ends = Ends {
        stdin: child.stdin.take().map(OwnedFd::from),
        stdout: child.stdout.take().map(OwnedFd::from),
        stderr: child.stderr.take().map(OwnedFd::from),
    };
    // It waits at the gate, so that the pid is still its own even if the host calls `waitpid(-1)`.
    let pid = i32::try_from(child.id()).ok().and_then(Pid::from_raw).ok_or(Error::NoGuard)?;
    let handle = Pidfd::open(pid).inspect_err(|_| drop(child.kill().and_then(|()| child.wait()))).map_err(failed)?;
    drop(gate);
    let handle = Arc::new(handle);
    if let Some(session) = spec.session.clone() {
        let mut all = SESSION_PENS.lock().unwrap_or_else(PoisonError::into_inner);
        all.retain(|pen| pen.handle.strong_count() > 0);
        all.push(SessionPen {
            session,
            id: id.clone(),
            handle: Arc::downgrade(&handle),
            promised: spec.graces.eof() + spec.graces.term(),
            number,
        });
    }
    trace::started(&id, &spec.command, spec.session.as_deref());
    let started = Started {
        id,
        pid,
        handle,
        graces: spec.graces,
        is_piped: streams[0] == Stdio::Piped,
        place,
        inbox,
        report: GuardReport::default(),
        front: None,
        creator: std::process::id(),
    };
    Ok((started, ends))
}

impl Started {
    /// Asks the guard to end the child.
    pub(crate) fn ask(&self, what: Ask) {
        ask(&self.handle, what).ok();
    }

    /// Whether this process has started it.
    pub(crate) fn is_ours(&self) -> bool {
        self.creator == std::process::id()
    }

    /// What the guard has reported so far.
    pub(crate) fn report(&mut self) -> &GuardReport {
        self.inbox.read(&mut self.report);
        &self.report
    }

    /// Reaps the front, if it has ended. True if it has.
    pub(crate) fn reap(&mut self) -> bool {
        if self.front.is_none() {
            self.front = match reap_child(self.pid) {
                Ok(ended) => ended.map(Front::Reaped),
                Err(_) => self.handle.has_ended().unwrap_or(true).then_some(Front::ReapedByHost),
            };
        }
        self.front.is_some()
    }

    /// Whether nothing may be left: a front that exits by itself has seen an empty tree; if the front was killed, the record tells.
    pub(crate) fn is_gone(&self) -> bool {
        match self.front {
            None => false,
            Some(Front::Reaped(Ended::Exited(_))) => true,
            Some(Front::Reaped(Ended::Killed(_)) | Front::ReapedByHost) => {
                self.place.as_ref().is_none_or(|place| !is_on_record(place, &self.id.to_string()))
            }
        }
    }

    /// Ends what is left of the tree, if all of nostray's processes around it were killed. It takes its time.
    pub(crate) fn sweeper(&self) -> impl FnOnce() + Send + 'static {
        let (place, id) = (self.place.clone(), self.id.to_string());
        move || {
            if let Some(place) = place {
                sweep_pen(&place, &id);
            }
        }
    }

    /// How it ended, once it is gone. To be called once.
    pub(crate) fn exit(&mut self) -> Option<Exit> {
        self.inbox.read(&mut self.report);
        let front = match self.front? {
            Front::Reaped(ended) => Some(ended),
            Front::ReapedByHost => self.report.over.map(Ended::Exited),
        };
        let exit = Exit::new(&self.report, front);
        trace::exited(&self.id, &exit);
        Some(exit)
    }
}
