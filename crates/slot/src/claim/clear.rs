//! A slot whose lock is held: ending what is left of the holder before, and only then taking the slot.

use nostray_registry::{Holder, Process, describe};

use super::Claim;
use crate::Error;
use crate::held_slot::HeldSlot;
use crate::history::{History, HolderEntry};
use crate::queue::Kind;
use crate::request::{SlotRequest, Step};

/// How often to sweep what a dead holder has left, before the claim is refused.
const MAX_SWEEPS: u32 = 3;

impl Claim {
    /// The lock is held. Nothing is started before the old tree is gone: if all its keepers were killed, it may not be.
    pub(super) fn clear(&mut self) -> Result<Step, Error> {
        let places = History::read(&self.place).places();
        let before = Holder::all_of(self.request.slot.as_str(), &places);
        let before: Vec<Holder> = before.into_iter().filter(|holder| holder.record.id != self.id).collect();
        let before: Vec<Holder> = before.into_iter().filter(Holder::may_be_left).collect();
        if let Some(kept) = before.iter().find(|holder| holder.is_kept()) {
            // It holds another lock: the directory of the slot was removed, or the holder has another one.
            return self.taken(false, Some(kept.clone()));
        }
        let Some(last) = before.first() else { return self.take() };
        if self.request.wait_timeout.is_some_and(|time| self.began.elapsed() >= time) {
            return self.taken(false, Some(last.clone()));
        }
        if self.helper.is_some() || before.iter().any(Holder::is_owned) {
            return Ok(Step::Waiting(None)); // a helper, or another sweep, ends it
        }
        let candidates: Vec<String> = last.record.candidates.iter().filter_map(describe_candidate).collect();
        if candidates.is_empty() && !last.record.candidates.is_empty() {
            self.sweeps = self.sweeps.min(MAX_SWEEPS - 1); // all that may have been left of it has ended since
        }
        if self.sweeps == MAX_SWEEPS {
            self.held = None;
            let (slot, id) = (&self.request.slot, &last.record.id);
            let text = if candidates.is_empty() {
                format!(
                    "slot {slot} is free, but something is left of {id} that had it, and cannot be ended; `nostray sweep` tells what"
                )
            } else {
                format!(
                    "slot {slot} is free, but it is not proved that nothing is left of {id}, which had it: {} may be; end what is, or \
                     say `nostray sweep --forget {id}`",
                    shortened(&candidates)
                )
            };
            return Ok(Step::Refused(self.refuse(text)));
        }
        self.sweeps += 1;
        self.tell(&format!("all keepers of {} were killed; what is left of it is ended first", last.record.id));
        self.help(None);
        Ok(Step::Waiting(None))
    }

    fn take(&mut self) -> Result<Step, Error> {
        let Some(held) = self.held.take() else { return Ok(Step::Waiting(None)) };
        let SlotRequest { slot, command, session, .. } = self.request.clone();
        let replaced = self.ticket.as_ref().filter(|ticket| ticket.kind() == Kind::Replace);
        let replaced = replaced.map(|ticket| ticket.turn.since());
        let mut entry = HolderEntry::begin(&self.id, command, session);
        (entry.host, entry.replaced) = (self.host, replaced);
        History::add(&self.place, entry, self.asked.as_ref().map(|(id, _)| id.as_str()))?;
        self.ticket = None;
        Ok(Step::Taken(HeldSlot::new(held, self.place.clone(), slot, self.id.clone())))
    }
}

/// A process that may be left of a holder, for a person.
fn describe_candidate(process: &Process) -> Option<String> {
    let identity = process.identity().filter(|identity| identity.is_alive())?;
    Some(format!("process {} ({})", identity.pid, describe(identity.pid)))
}

/// The first few of them.
fn shortened(candidates: &[String]) -> String {
    const MAX_NAMED: usize = 3;
    let more = candidates.len().saturating_sub(MAX_NAMED);
    let more = if more == 0 { String::new() } else { format!(" and {more} more") };
    candidates.iter().take(MAX_NAMED).cloned().collect::<Vec<_>>().join(", ") + &more
}
