//! What the keeper of a tree does about readiness: it acts on what `ready` has noticed, and passes on the child's stderr.

use std::time::Instant;

use nostray_sys::proc::Stat;

use super::Keeper;
use crate::ready::{Notice, Readiness};
use crate::reason::Reason;
use crate::witness::Event;

impl Keeper<'_> {
    /// From now on it is awaited that the child is ready.
    pub(crate) fn await_ready(mut self) -> Self {
        if let Some(ready) = &mut self.ready {
            ready.await_it(self.pen.spec.ready_timeout, Instant::now());
        }
        self
    }

    /// The tree is empty, and the host gets all of the child's stderr that is left. A host that does not read is waited for until there is
    /// a reason to end, and then for one eof grace.
    pub(super) fn pass_on_the_rest(&mut self) {
        let mut since = Instant::now();
        loop {
            let Some(ready) = &mut self.ready else { return };
            let mut has_moved = false;
            if ready.pass_on_the_rest(&mut has_moved) {
                return;
            }
            if has_moved {
                since = Instant::now();
            }
            let until = self.end_requested.then(|| since + self.pen.spec.graces.eof());
            if until.is_some_and(|until| until <= Instant::now()) {
                return;
            }
            self.wait_until(until);
        }
    }

    /// Readiness before the child's end counts, and the witness is told of it first; after the end, nothing does.
    pub(super) fn before_child_is_told_ended(&mut self) {
        if let Some(ready) = &mut self.ready {
            ready.pass_on();
        }
        self.look_once_more();
        self.await_ready_no_more();
    }

    /// Whether it has become ready since the last look.
    pub(super) fn look_once_more(&mut self) {
        if let Some(ready) = &mut self.ready {
            ready.look_once_more(&self.tree);
            self.on_noticed();
        }
    }

    pub(super) fn await_ready_no_more(&mut self) {
        if let Some(ready) = &mut self.ready {
            ready.await_no_more(Instant::now());
        }
    }

    /// Acts on what the child says, and on what was found out about it.
    pub(super) fn on_noticed(&mut self) {
        let notices = self.ready.as_mut().map(|ready| ready.noticed()).unwrap_or_default();
        for notice in notices {
            match notice {
                Notice::Ready if self.ready.as_ref().is_some_and(|ready| ready.is_awaited()) => {
                    self.await_ready_no_more();
                    self.pen.log.note("the child is ready");
                    self.tell(&Event::Ready);
                }
                Notice::Stopping if !self.tear_down.has_begun() => {
                    self.pen.log.note("the child says that it is stopping");
                    self.tell(&Event::SaysStopping);
                }
                Notice::Extend(time) => self.tear_down.extend(Instant::now() + time),
                Notice::Status(text) => self.tell(&Event::Status(text)),
                Notice::Ready | Notice::Stopping => {}
            }
        }
    }

    pub(super) fn look_whether_ready(&mut self) {
        let (Some(ready), now) = (&mut self.ready, Instant::now()) else { return };
        ready.look(&self.pen.plan, &self.tree, now);
        self.on_noticed();
        if self.ready.as_ref().is_some_and(|ready| ready.is_overdue(now)) {
            let after = self.pen.spec.ready_timeout.unwrap_or_default();
            self.because(Reason::ReadyTimeout { after, missing: self.pen.spec.ready.to_string() });
        }
    }
}

/// Members of the tree, without what nostray has started in it to find out whether the child is ready.
pub(super) fn without_own(members: Vec<Stat>, ready: Option<&Readiness<'_>>) -> Vec<Stat> {
    match ready {
        Some(ready) => ready.without_own(members),
        None => members,
    }
}
