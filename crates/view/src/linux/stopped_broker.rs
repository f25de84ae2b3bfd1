//! A broker that is stopped.

use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use nostray_supervise::link::find_broker;
use nostray_sys::identity::Identity;
use nostray_sys::local;
use nostray_sys::proc::Stat;

/// How often to look for a broker that is not known. Each time is a connection that a stopped broker does not accept.
const PACE: Duration = Duration::from_secs(10);

/// Looks for it. Knows the broker's process, so that a look is one read of `/proc`.
#[derive(Debug, Default)]
pub(crate) struct StoppedBroker {
    broker: Option<Identity>,
    looked: Option<Instant>,
    /// A debugger stops a process for a moment. Only what two looks find is said.
    was_stopped: bool,
}

impl StoppedBroker {
    /// What there is to say of it now.
    pub(crate) fn look(&mut self) -> Option<String> {
        let now = Instant::now();
        if !self.broker.is_some_and(Identity::is_alive) && self.looked.is_none_or(|at| now.duration_since(at) > PACE)
        {
            self.looked = Some(now);
            let caller = find_broker().and_then(|socket| local::caller(socket.as_fd()).ok());
            self.broker = caller.and_then(|broker| Identity::of(broker.pid?));
        }
        let stat = self.broker.and_then(|who| Stat::of(who.pid).filter(|stat| Identity::from(stat) == who));
        let stopped = stat.filter(Stat::is_stopped);
        let was_stopped = std::mem::replace(&mut self.was_stopped, stopped.is_some());
        stopped.filter(|_| was_stopped).map(|stat| {
            format!(
                "the broker {} is stopped (SIGSTOP or a debugger); the next session continues or replaces it",
                stat.pid
            )
        })
    }
}
