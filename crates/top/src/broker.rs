//! Whether the broker of shared children is stopped. Sessions that begin would have to wait for it.

use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use nostray_supervise::link::find_broker;
use nostray_sys::identity::Identity;
use nostray_sys::local;
use nostray_sys::proc::Stat;
use nostray_view::Listed;

/// How often to look for a broker that is not known. Each time is a connection that a stopped broker does not accept.
const PACE: Duration = Duration::from_secs(10);

/// Knows the broker's process, so that a look is one read of `/proc`.
#[derive(Debug, Default)]
pub(crate) struct BrokerWatch {
    known: Option<Identity>,
    looked: Option<Instant>,
    /// A debugger stops a process for a moment. Only what two looks find is said.
    was_stopped: bool,
}

impl BrokerWatch {
    /// What is wrong with it, if something is. Without shared children, no session needs it.
    pub(crate) fn look(&mut self, children: &[Listed]) -> Option<String> {
        let is_shared = |child: &Listed| child.record().is_some_and(|record| record.shared.is_some());
        if !children.iter().any(is_shared) {
            return None;
        }
        let now = Instant::now();
        if !self.known.is_some_and(Identity::is_alive) && self.looked.is_none_or(|at| now.duration_since(at) > PACE) {
            self.looked = Some(now);
            let caller = find_broker().and_then(|socket| local::caller(socket.as_fd()).ok());
            self.known = caller.and_then(|broker| Identity::of(broker.pid?));
        }
        let stat = self.known.and_then(|who| Stat::of(who.pid).filter(|stat| Identity::from(stat) == who));
        let is_stopped = stat.as_ref().is_some_and(Stat::is_stopped);
        let is_said = std::mem::replace(&mut self.was_stopped, is_stopped) && is_stopped;
        stat.filter(|_| is_said).map(|stat| {
            format!(
                "the broker {} is stopped (SIGSTOP or a debugger); the next session continues or replaces it",
                stat.pid
            )
        })
    }
}
