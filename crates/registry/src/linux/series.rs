//! The record of a front that starts one child after the other: there for as long as the front is, also while no child is. Each
//! child's pen has a record of its own beside it.

use std::collections::HashSet;

use nostray_pen::{PenId, Spec, Takes};
use nostray_sys::cgroup::Cgroup;
use nostray_sys::identity::Identity;
use nostray_sys::process::Pid;

use crate::Error;
use crate::journal::{Story, now};
use crate::output::Output;
use crate::predecessors::Predecessors;
use crate::record::{self, LastExit, Process, Record, Shared, State};
use crate::sweep;
use crate::witness::{About, Open, RecordDetails, ancestors_of, remove};
use nostray_sys::secrets::masked_text;

/// Keeps such a record.
#[derive(Debug)]
pub struct SeriesKeeper {
    open: Open,
    output: Output,
    sweeps: bool,
}

impl SeriesKeeper {
    /// Puts it on record.
    pub fn open(id: &PenId, spec: &Spec, details: &RecordDetails, host: Option<Identity>) -> Result<Self, Error> {
        Self::of(id, spec, details, host, Takes::Queued)
    }

    /// The same for a program that holds a slot itself. It knows none of our signals, and a queued one would kill it.
    pub fn of_program(id: &PenId, spec: &Spec, details: &RecordDetails) -> Result<Self, Error> {
        Self::of(id, spec, details, None, Takes::Terms)
    }

    fn of(
        id: &PenId,
        spec: &Spec,
        details: &RecordDetails,
        host: Option<Identity>,
        takes: Takes,
    ) -> Result<Self, Error> {
        let about = About { id, spec, tier: "none", cgroup: None };
        let open = Open::new(details, &about, takes, |record| {
            record.generation = Some(0);
            record.host = host.map(Process::from);
            record.ancestors = ancestors_of(&record.front);
            record.state = State::Asleep;
        })?;
        let output = Output::of(&open.place, &open.record.id);
        Ok(Self { open, output, sweeps: details.sweep })
    }

    /// The child is in this state, and it is that generation's.
    pub fn enter(&mut self, state: State, generation: u64) {
        let state = state.without_secrets();
        if self.open.record.state != state || self.open.record.generation != Some(generation) {
            self.open.record.generation = Some(generation);
            if state == State::Starting {
                self.open.record.slept_with = None;
            }
            self.open.enter(state);
        }
    }

    /// What passes is counted under this file descriptor of this process.
    pub fn counts(&mut self, traffic: i32) {
        self.open.record.traffic = Some(traffic);
        self.open.write();
    }

    /// A child has ended, so. Written with the state that follows.
    pub fn ended(&mut self, how: &str) {
        self.open.record.last_exit = Some(LastExit { time: now(), how: masked_text(how) });
    }

    /// The child is about to be put to sleep, and uses so much memory. Written with the state that follows.
    pub fn falls_asleep_with(&mut self, bytes: u64) {
        self.open.record.slept_with = Some(bytes);
    }

    /// It holds a slot from now on.
    pub fn hold(&mut self, slot: &str) {
        self.open.record.slot = Some(slot.to_owned());
        self.open.write();
        self.tell(Story::Slot { slot: slot.to_owned(), what: "taken".to_owned() });
    }

    /// The child says that it is doing so.
    pub fn status(&mut self, status: Option<&str>) {
        let status = status.map(masked_text);
        if self.open.record.status != status {
            self.open.record.status = status;
            self.open.write();
        }
    }

    /// These sessions hold it, as a shared child.
    pub fn share(&mut self, shared: Shared) {
        if self.open.record.shared.as_ref() != Some(&shared) {
            self.open.record.shared = Some(shared);
            self.open.write();
        }
    }

    /// What people call it: see [`Record::name`].
    #[must_use]
    pub fn name(&self) -> String {
        self.open.record.name()
    }

    /// Whether sessions hold it, as a shared child.
    #[must_use]
    pub fn is_shared(&self) -> bool {
        self.open.record.shared.is_some()
    }

    /// What was started for the same purpose by a broker or a steward that is dead, and may not have ended yet. The records `beside` are of
    /// other purposes, and are not read.
    #[must_use]
    pub fn predecessors(&self, beside: &HashSet<String>) -> Predecessors {
        Predecessors::of(&self.open.record, beside)
    }

    /// Where it is kept.
    #[must_use]
    pub fn id(&self) -> &str {
        &self.open.record.id
    }

    /// A line for the journal.
    pub fn tell(&self, story: Story) {
        self.open.tell(story);
    }

    /// Something that the child printed and that was not for the host.
    pub fn printed(&mut self, why: &str, line: &[u8]) {
        self.output.add(why, line);
    }

    /// Looks for what dead pens have left, and ends it in a process of its own. Returns that process.
    #[must_use]
    pub fn sweep(&self) -> Option<Pid> {
        crate::output::forget_old(&self.open.place);
        if self.sweeps { sweep::beside_a_start() } else { None }
    }

    /// Nothing is left of a child's pen. Its keeper has removed its record, unless all keepers were killed.
    pub fn bury(&self, id: &PenId) {
        let id = id.to_string();
        if let Ok(record) = Record::read(&record::path(&self.open.place, &id)) {
            if let Some(group) = record.cgroup.and_then(|path| Cgroup::open(path.as_ref()).ok()) {
                group.remove();
            }
            self.open.tell_of(&id, Story::Empty);
            remove(&self.open.place, &id);
        }
    }

    /// It is over.
    pub fn close(self) {
        remove(&self.open.place, &self.open.record.id);
    }
}
