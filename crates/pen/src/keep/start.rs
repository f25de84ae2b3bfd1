//! Whether the child has become its program. The child holds its end of the gate until `execve` closes it; if that fails, it leaves the
//! reason there.

use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;

use nostray_sys::proc::Stat;
use nostray_sys::process::Ended;
use nostray_sys::stream;

use super::{Child, Keeper, Source};
use crate::child;
use crate::guard;
use crate::witness::Event;

impl<'a> Keeper<'a> {
    /// The child waits behind this gate, or has just passed it. The gate does not block.
    pub(crate) fn gate(mut self, gate: &'a UnixStream) -> Self {
        self.gate = Some(gate);
        self.watch(Source::Gate, gate.as_fd())
    }

    /// Tells the witness what has become of the start, once that is known. `ended` is how the child ended, if it was reaped.
    pub(super) fn look_at_gate(&mut self, ended: Option<Ended>) {
        let Some(gate) = self.gate else { return };
        let mut reason = [0; 4];
        match stream::read(gate, &mut reason) {
            Ok(None) => return,
            Ok(Some(4)) => {
                let command = self.pen.spec.command.first().map_or("".as_ref(), |command| command.as_os_str());
                let why = child::explain(command, i32::from_ne_bytes(reason));
                self.pen.log.warn(&why);
                self.pen.tell(&Event::NotExecuted(why));
            }
            Ok(Some(_)) | Err(_) => {
                // A child that is being torn down is not ready any more.
                if self.is_executed(ended) && !self.tear_down.has_begun() {
                    self.pen.tell(&Event::Executed);
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
