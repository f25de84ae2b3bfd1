//! The process that a session waits for: first the broker, then the steward that keeps its child. If it is stopped (SIGSTOP, a
//! debugger), it would be waited for for ever. So while something is awaited, and only then, the process is looked at every few seconds.

use std::time::{Duration, Instant};

use nostray_registry::end_stopped_steward;
use nostray_sys::Signal;
use nostray_sys::identity::Identity;
use nostray_sys::standstill::Standstill;

/// How long something is awaited before the first look.
const FIRST: Duration = Duration::from_secs(2);
/// How often to look while nothing is wrong: a call may take an hour.
const PACE: Duration = Duration::from_secs(4);

/// The process that a session waits for.
#[derive(Debug)]
pub(crate) struct AwaitedProcess {
    standstill: Standstill,
    role: Role,
    look_at: Option<Instant>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Role {
    Broker {
        /// It was stopped, and was told to go on.
        was_continued: bool,
    },
    Steward,
}

impl AwaitedProcess {
    pub(crate) fn broker(who: Identity) -> Self {
        Self { standstill: Standstill::of(who), role: Role::Broker { was_continued: false }, look_at: None }
    }

    /// A broker that has been awaited for a while.
    pub(crate) fn overdue_broker(who: Identity) -> Self {
        Self { look_at: Some(Instant::now()), ..Self::broker(who) }
    }

    pub(crate) fn steward(who: Identity) -> Self {
        Self { standstill: Standstill::of(who), role: Role::Steward, look_at: None }
    }

    pub(crate) fn who(&self) -> Identity {
        self.standstill.who()
    }

    pub(crate) fn is_steward(&self) -> bool {
        self.role == Role::Steward
    }

    /// When to look next, if something is awaited.
    pub(crate) fn deadline(&self) -> Option<Instant> {
        self.look_at
    }

    /// Whether it was stopped when it was last looked at.
    pub(crate) fn is_suspected(&self) -> bool {
        self.standstill.is_suspected()
    }

    /// Looks at the process if it is time, and ends it once it is proved to be stopped.
    pub(crate) fn look(&mut self, is_awaited: bool) {
        if !is_awaited {
            self.look_at = None;
            self.standstill.begin_again();
            return;
        }
        let now = Instant::now();
        if *self.look_at.get_or_insert(now + FIRST) > now {
            return;
        }
        let is_proved = self.standstill.look(now);
        self.look_at = Some(now + if self.is_suspected() { Standstill::PACE } else { PACE });
        if is_proved {
            self.end();
        }
    }

    fn end(&mut self) {
        match &mut self.role {
            Role::Steward => end_stopped_steward(self.standstill.who()),
            // With the broker, the children of all sessions end. To continue it costs them nothing.
            Role::Broker { was_continued } if !*was_continued => {
                *was_continued = true;
                self.send(Signal::CONT);
            }
            Role::Broker { .. } => self.send(Signal::KILL),
        }
    }

    fn send(&self, signal: Signal) {
        if let Some(handle) = self.who().open() {
            handle.send(signal).ok();
        }
    }
}
