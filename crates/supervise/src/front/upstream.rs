//! The other end of a session: a child of the front's own, or a child that a steward keeps for several sessions. The
//! [session]( crate::Session) does not know which it is: it says *connect* and *disconnect*, and hears of lines, of
//! ends and of what was not read.

use std::time::Duration;

use nostray_sys::poll::{self, Until};

use super::Front;
use super::shared::Shared;
use crate::line_channel::LineChannel;
use crate::machine::{Generation, State, Why};

/// What a front connects its host with.
#[derive(Debug)]
pub(super) enum Upstream {
    /// A child of its own, which the front starts and ends: `own.rs`.
    Own,
    /// A shared child, which the front attaches to over a link: `shared.rs`.
    Shared(Box<Shared>),
}

impl Upstream {
    pub(super) fn shared(&self) -> Option<&Shared> {
        match self {
            Self::Own => None,
            Self::Shared(shared) => Some(shared),
        }
    }

    pub(super) fn shared_mut(&mut self) -> Option<&mut Shared> {
        match self {
            Self::Own => None,
            Self::Shared(shared) => Some(shared),
        }
    }
}

impl Front<'_> {
    /// The channel to the child, or to the steward that keeps it.
    pub(super) fn channel(&mut self) -> Option<&mut LineChannel> {
        match &mut self.upstream {
            Upstream::Own => self.keeper.child.as_mut().map(|child| &mut child.channel),
            Upstream::Shared(shared) => shared.link.channel(),
        }
    }

    /// Starts the front's own child, or attaches to the shared one.
    pub(super) fn connect(&mut self, generation: Generation) {
        // The host may have ended without the front having seen it. No child is started without a host.
        self.on_host_ended();
        if *self.session.state() != State::Starting(generation) {
            return self.session.child_emptied(generation, Why::Released.cause(), self.now());
        }
        match self.upstream {
            Upstream::Own => self.start(generation),
            Upstream::Shared(_) => self.attach(generation),
        }
    }

    /// Tears the front's own child down, or detaches from the shared one.
    pub(super) fn disconnect(&mut self, why: Why) {
        let eof = self.keeper.config().spec.graces.eof();
        let patience = if self.host_gone || self.is_unheard() { Duration::ZERO } else { eof };
        match self.upstream {
            Upstream::Own => self.tear_down(why, patience),
            Upstream::Shared(_) => self.detach(why, patience),
        }
    }

    /// Whether the host reads no more, so that an answer is for no process.
    fn is_unheard(&self) -> bool {
        let output = [(self.host.stdout, Until::Unheard)];
        poll::wait(&output, Some(Duration::ZERO)).is_ok_and(|fired| fired.contains(&true))
    }

    /// The child, or the steward, has closed its end.
    pub(super) fn upstream_closed(&mut self) {
        match self.upstream {
            Upstream::Own => self.keeper.is_mute(),
            Upstream::Shared(_) => self.link_is_lost(),
        }
    }
}
