//! What keeps the page from knowing everything, in sentences: a registry that cannot be read, a broker that is stopped.

use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use nostray_registry::Place;
use nostray_supervise::link::find_broker;
use nostray_sys::identity::Identity;
use nostray_sys::local;
use nostray_sys::proc::Stat;

/// How often to look for a broker. A look connects, which wakes it.
const BROKER_PACE: Duration = Duration::from_secs(10);

#[derive(Debug, Default)]
pub(crate) struct Notes {
    broker: Option<Identity>,
    searched: Option<Instant>,
    /// The broker was stopped at the last look: a tracer stops a process for a moment, too.
    was_stopped: bool,
}

impl Notes {
    /// What there is to say now. `is_sharing`: some child is shared, so that there is a broker.
    pub(crate) fn now(&mut self, is_sharing: bool) -> Vec<String> {
        let refused = Place::unreadable().into_iter().map(|(path, why)| format!("{}: {why}", path.display()));
        let mut notes: Vec<String> = refused.map(|why| format!("Records cannot be read: {why}")).collect();
        notes.extend(self.broker(is_sharing));
        notes
    }

    fn broker(&mut self, is_sharing: bool) -> Option<String> {
        if !is_sharing {
            return None;
        }
        let is_due = self.searched.is_none_or(|last| last.elapsed() > BROKER_PACE);
        if !self.broker.is_some_and(Identity::is_alive) && is_due {
            self.searched = Some(Instant::now());
            self.broker =
                find_broker().and_then(|socket| local::caller(socket.as_fd()).ok()?.pid).and_then(Identity::of);
        }
        let is_stopped =
            |who: &Identity| Stat::of(who.pid).is_some_and(|stat| Identity::from(&stat) == *who && stat.is_stopped());
        let stopped = self.broker.filter(is_stopped);
        let was_stopped = std::mem::replace(&mut self.was_stopped, stopped.is_some());
        stopped.filter(|_| was_stopped).map(|who| {
            format!(
                "The broker {} is stopped (SIGSTOP or a debugger). The next session continues or replaces it, and `nostray broker stop` ends it.",
                who.pid
            )
        })
    }
}
