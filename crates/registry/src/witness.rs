//! Keeping the record of one pen, as its witness.

use std::fs::File;
use std::time::Duration;

use nostray_pen::{Event, Objection, Opening, PenId, Ready, Spec, Takes, Witness};
use nostray_sys::files::private;
use nostray_sys::identity::{Identity, World};
use nostray_sys::proc::{Stat, group_of};
use nostray_sys::process::{Pid, getpid};

use crate::journal::{Cause, Journal, Story, now};
use crate::record::{self, Labels, Process, Record, Shared, State, VERSION};
use crate::sweep;
use crate::{Error, Place};
use nostray_sys::secrets::{describe, masked, masked_text};

/// The cause on record for a child that has said itself that it is stopping.
pub const SAYS_STOPPING: &str = "the child says that it is stopping";

/// What a record says that the pen itself does not know.
#[derive(Debug, Clone, Default)]
pub struct RecordDetails {
    /// The session that it belongs to.
    pub session: Option<String>,
    /// The user's labels.
    pub labels: Labels,
    /// The slot that it holds.
    pub slot: Option<String>,
    /// Its holders, if it is a shared child.
    pub shared: Option<Shared>,
    /// Whether to look, a moment after the start, for what dead pens have left.
    pub sweep: bool,
}

/// Keeps the record of a pen, and its lines in the journal.
#[derive(Debug)]
pub struct RecordKeeper {
    details: RecordDetails,
    open: Option<Open>,
}

#[derive(Debug)]
pub(crate) struct Open {
    pub(crate) place: Place,
    pub(crate) journal: Journal,
    pub(crate) record: Record,
    /// Whether it is ready as soon as it runs.
    ready_at_once: bool,
    /// Its program could not be executed, which says more than the exit code.
    not_executed: bool,
    /// Held by front, spare and guard together: it is free when all of them are gone.
    _lock: File,
}

impl RecordKeeper {
    /// For a pen that is about to be opened.
    #[must_use]
    pub fn new(details: RecordDetails) -> Self {
        Self { details, open: None }
    }

    fn start(&self, opening: &Opening<'_>) -> Result<Open, Error> {
        let about = About { id: opening.id, spec: opening.spec, tier: opening.tier, cgroup: opening.cgroup };
        Open::new(&self.details, &about, Takes::Queued, |_| {})
    }
}

/// What a record begins with.
pub(crate) struct About<'a> {
    pub(crate) id: &'a PenId,
    pub(crate) spec: &'a Spec,
    pub(crate) tier: &'static str,
    pub(crate) cgroup: Option<&'a std::path::Path>,
}

impl Witness for RecordKeeper {
    fn opens(&mut self, opening: &Opening<'_>) -> Result<(), Objection> {
        self.open = Some(self.start(opening).map_err(|error| Objection::Warning(error.to_string()))?);
        Ok(())
    }

    fn settled(&mut self) {
        if self.details.sweep {
            sweep::beside_a_start();
        }
    }

    fn sees(&mut self, event: &Event) {
        if let Some(open) = &mut self.open {
            open.sees(event);
        }
    }
}

impl Open {
    /// Puts it on record. `complete` has the last word on what is written.
    pub(crate) fn new(
        details: &RecordDetails,
        about: &About<'_>,
        takes: Takes,
        complete: impl FnOnce(&mut Record),
    ) -> Result<Self, Error> {
        let place = Place::for_writing()?;
        let world = World::current().ok_or_else(|| Error::NoProc { why: crate::why_no_world() })?;
        let id = about.id.to_string();
        let own =
            Stat::of(getpid()).ok_or_else(|| Error::NoProc { why: "/proc/self/stat cannot be read".to_owned() })?;
        let milliseconds = |time: Duration| u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
        // The lock first: a record whose lock is free is a dead pen's. (No sweep touches a young lock without a record.)
        let lock_path = record::lock_path(&place, &id);
        let lock = private(File::options().write(true).create_new(true)).open(&lock_path);
        let lock = lock.map_err(Error::io(&lock_path))?;
        lock.try_lock().map_err(|error| Error::Io { path: lock_path.clone(), error: error.into() })?;
        let mut record = Record {
            version: VERSION,
            id,
            state: State::Starting,
            since: now(),
            started: now(),
            command: masked(&about.spec.command),
            cwd: std::env::current_dir().map_or_else(|_| String::new(), |path| path.display().to_string()),
            session: details.session.clone(),
            labels: details.labels.clone(),
            boot: world.boot,
            pid_namespace: world.pid_namespace,
            host: None,
            front: Identity::from(&own).into(),
            spare: None,
            guard: None,
            child: None,
            ancestors: Vec::new(),
            sid: Some(own.session.map_or(0, |session| session.as_raw_nonzero().get())),
            around: group_of(own.pid),
            candidates: Vec::new(),
            tier: about.tier.to_owned(),
            cgroup: about.cgroup.map(|path| path.display().to_string()),
            eof_grace: milliseconds(about.spec.graces.eof()),
            term_grace: milliseconds(about.spec.graces.term()),
            generation: None,
            status: None,
            queued: takes == Takes::Queued,
            limited: nostray_pen::bears_limit(),
            slot: details.slot.clone(),
            shared: details.shared.clone(),
            traffic: None,
            last_exit: None,
            slept_with: None,
        };
        complete(&mut record);
        if let Err(error) = record.write(&place) {
            std::fs::remove_file(&lock_path).ok();
            return Err(Error::Io { path: record::path(&place, &record.id), error });
        }
        let ready_at_once = about.spec.ready == Ready::Started;
        Ok(Self { journal: Journal::at(&place), place, record, ready_at_once, not_executed: false, _lock: lock })
    }

    fn sees(&mut self, event: &Event) {
        match event {
            Event::Started { host, spare, guard, child } => {
                let record = &mut self.record;
                record.host = host.map(Process::from);
                record.spare = spare.map(Process::from);
                record.guard = guard.map(Process::from);
                record.child = child.map(Process::from);
                record.ancestors = ancestors_of(&record.front);
                let host = record.host.and_then(Process::identity).map(|host| describe(host.pid));
                // In a pid namespace of its own, the guard does not see the host.
                let host = host.filter(|text| !text.is_empty());
                self.journal.add(
                    &self.record.id,
                    Story::Started {
                        command: self.record.command.clone(),
                        session: self.record.session.clone(),
                        host,
                    },
                );
                self.write();
            }
            Event::Executed if self.ready_at_once => self.is_ready(),
            Event::Ready => self.is_ready(),
            Event::SaysStopping => {
                self.enter(State::Stopping { reason: SAYS_STOPPING.to_owned() });
                self.tell(Story::Stopping(Cause {
                    reason: "says-stopping".to_owned(),
                    detail: SAYS_STOPPING.to_owned(),
                    sender: None,
                }));
            }
            Event::Status(text) => {
                self.record.status = Some(masked_text(text)).filter(|text| !text.is_empty());
                self.write();
            }
            Event::Stopping(reason) => {
                // Not written yet: most trees end so soon that the record is removed before a reader could see this.
                self.become_state(State::Stopping { reason: reason.to_string() });
                self.tell(Story::Stopping(Cause::of(reason)));
            }
            Event::Lingering => self.write(),
            Event::Forked { child } => {
                self.record.child = child.map(Process::from);
                self.write();
                self.tell(Story::Forked { child: self.record.child.map(|child| child.pid) });
            }
            Event::ChildEnded(_) if self.not_executed => {}
            Event::ChildEnded(how) => self.tell(Story::Exited { code: how.shell_code(), how: how.to_string() }),
            Event::NotExecuted { why, .. } => {
                self.not_executed = true;
                self.tell(Story::NotExecuted { why: why.clone() });
            }
            Event::Killing(processes) => self.tell(Story::Killed { processes: *processes }),
            Event::Refused(left) => {
                let names: Vec<_> =
                    left.iter().map(|process| format!("{} ({})", process.pid, describe(process.pid))).collect();
                self.tell(Story::Refused { why: format!("may not be signalled: {}", names.join(", ")) });
            }
            Event::Empty => {
                self.tell(Story::Empty);
                remove(&self.place, &self.record.id);
            }
            _ => {}
        }
    }

    fn is_ready(&mut self) {
        self.enter(State::Ready);
        self.tell(Story::Ready { child: self.record.child.map(|child| child.pid) });
    }

    pub(crate) fn enter(&mut self, state: State) {
        self.become_state(state);
        self.write();
    }

    fn become_state(&mut self, state: State) {
        self.record.state = state.without_secrets();
        self.record.since = now();
    }

    pub(crate) fn write(&self) {
        // The old record is still true enough: it names the same processes.
        self.record.write(&self.place).ok();
    }

    pub(crate) fn tell(&self, story: Story) {
        self.tell_of(&self.record.id, story);
    }

    pub(crate) fn tell_of(&self, id: &str, story: Story) {
        self.journal.add(id, story);
    }
}

/// Removes a pen from the registry: first the record, then the lock, so that no reader ever sees a record without a lock.
pub(crate) fn remove(place: &Place, id: &str) {
    std::fs::remove_file(record::path(place, id)).ok();
    std::fs::remove_file(record::lock_path(place, id)).ok();
}

/// Those above the front, up to the first process of all.
pub(crate) fn ancestors_of(front: &Process) -> Vec<Process> {
    let mut ancestors = Vec::new();
    let mut next: Option<Pid> = front.identity().and_then(|front| Stat::of(front.pid)).and_then(|stat| stat.parent);
    while let Some(stat) = next.and_then(Stat::of).filter(|_| ancestors.len() < 64) {
        ancestors.push(Process::from(Identity::from(&stat)));
        next = stat.parent;
    }
    ancestors
}
