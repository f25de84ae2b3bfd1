//! What the witness is told of a start, and when. The child holds its end of the gate until `execve` closes it; if that fails, it leaves the
//! reason there.
//!
//! Records take time, and on a small machine the guard would take the processor from the child, which is what the host waits for. So
//! the witness is told when the guard settles, or before the next event, whichever comes first; at once, if a process waits to be told.

use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;

use nostray_sys::poll::Until;
use nostray_sys::proc::Stat;
use nostray_sys::process::{Ended, peek_at_child};
use nostray_sys::stream;

use super::{Child, Keeper, Source};
use crate::child;
use crate::guard;
use crate::witness::Event;

impl<'a> Keeper<'a> {
    /// The child waits behind this gate, or has just passed it. The gate does not block.
    pub(crate) fn gate(mut self, gate: &'a UnixStream) -> Self {
        self.gate = Some(gate);
        if self.start_is_awaited() { self.watch(Source::Gate, gate.as_fd()) } else { self }
    }

    /// Whether a host waits to be told, or the opener of the pen, which gives orders to the guard as soon as it knows the guard.
    pub(super) fn start_is_awaited(&self) -> bool {
        self.pen.spec.host_is_told || self.pen.opener.is_some()
    }

    /// The guard settles: a child that has not become its program by now is waited for.
    pub(super) fn look_at_gate_from_now_on(&mut self) {
        self.look_at_gate(None);
        if let Some(gate) = self.gate
            && !self.watches.iter().any(|(watched, ..)| *watched == Source::Gate)
        {
            self.watches.push((Source::Gate, gate.as_fd(), Until::Readable));
        }
    }

    /// A child that was killed has become its program if it has its name; only as long as it is not reaped.
    pub(super) fn look_at_gate_before_reaping(&mut self) {
        if let (Some(_), Child::Alive(child)) = (self.gate, &self.child)
            && peek_at_child(*child).is_some()
        {
            self.look_at_gate(None);
        }
    }

    /// Tells the witness that the child was started, if it was not told yet.
    pub(super) fn tell_started(&mut self) {
        if let Some(started) = self.untold.take() {
            self.pen.tell(&started());
        }
    }

    /// Tells the witness what has happened since.
    pub(super) fn tell(&mut self, event: &Event) {
        self.tell_started();
        self.pen.tell(event);
    }

    /// Tells the witness what has become of the start, once that is known. `ended` is how the child ended, if it was reaped.
    pub(super) fn look_at_gate(&mut self, ended: Option<Ended>) {
        let Some(gate) = self.gate else { return };
        let mut reason = [0; 4];
        match stream::read(gate, &mut reason) {
            Ok(None) => return,
            Ok(Some(4)) => {
                let command = self.pen.spec.command.first().map_or("".as_ref(), |command| command.as_os_str());
                let number = i32::from_ne_bytes(reason);
                let why = child::explain(command, number);
                match self.pen.spec.host_is_told {
                    true => self.pen.log.note(&why),
                    false => self.pen.log.warn(&why),
                }
                self.tell(&Event::NotExecuted { why, errno: number.saturating_abs() });
            }
            Ok(Some(_)) | Err(_) => {
                // A child that is being torn down is not ready any more.
                if self.is_executed(ended) && !self.tear_down.has_begun() {
                    self.tell(&Event::Executed);
                }
            }
        }
        self.gate = None;
        self.watches.retain(|(watched, ..)| *watched != Source::Gate);
    }

    /// A process that is killed before `execve` closes the gate as well. It still has the guard's name; a child that exits leaves a reason
    /// first, so one that has exited without was executed.
    fn is_executed(&self, ended: Option<Ended>) -> bool {
        match (ended, &self.child) {
            (Some(how), _) => matches!(how, Ended::Exited(_)),
            (None, Child::Alive(child)) => Stat::of(*child).is_none_or(|stat| stat.name != guard::NAME),
            (None, Child::Ended(_) | Child::Unknown) => false,
        }
    }
}
