//! Slots on Windows: the first to come waits, or is told that it is taken. Asking a holder to hand over is not there yet.

use std::fs::File;
use std::time::{Duration, Instant};

use nostray_pen::{Event, Objection, Opening, PenId, Spec, Witness};
use nostray_registry::{Pen, Place, census, files, sweep_pen};
use nostray_sys::descriptors::write_to_stderr_at_once;
use nostray_sys::identity::Identity;
use nostray_sys::process::{Code, getppid};

use crate::{NOT_NOW, Name};

/// How often to look: a lock cannot be waited for together with the end of the host.
const PACE: Duration = Duration::from_millis(50);

/// What to do if the slot is held.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum IfTaken {
    /// Wait until it is free.
    Wait,
    /// Give up.
    Fail,
}

/// A request for a slot.
#[derive(Debug, Clone)]
pub struct SlotRequest {
    /// Which slot.
    pub slot: Name,
    /// What to do if it is held.
    pub if_taken: IfTaken,
    /// How long to wait at most.
    pub wait_timeout: Option<Duration>,
}

/// Runs a command in a pen that holds a slot, and returns the exit code to end with. Where the pen's record is kept, its slot must be said.
pub fn run(
    spec: &Spec,
    id: PenId,
    witness: Box<dyn Witness>,
    request: &SlotRequest,
) -> Result<Code, nostray_pen::Error> {
    let refused = |why: String| nostray_pen::Error::Refused(why);
    let lock = lock_of(&request.slot).map_err(|error| refused(format!("slot {}: {error}", request.slot)))?;
    let host = getppid().and_then(Identity::of);
    let deadline = request.wait_timeout.map(|timeout| Instant::now() + timeout);
    let mut has_said = false;
    while lock.try_lock().is_err() {
        let taken = || format!("slot {} is {}", request.slot, describe(&request.slot));
        let over = if request.if_taken == IfTaken::Fail {
            Some(taken())
        } else if deadline.is_some_and(|deadline| deadline <= Instant::now()) {
            Some(format!("{}, and did not become free in time", taken()))
        } else if host.is_some_and(|host| !host.is_alive()) {
            Some(format!("gave up waiting for slot {}: its host has ended", request.slot))
        } else {
            None
        };
        if let Some(why) = over {
            write_to_stderr_at_once(&format!("nostray: {why}\n"));
            return Ok(NOT_NOW);
        }
        if !std::mem::replace(&mut has_said, true) {
            write_to_stderr_at_once(&format!("nostray: {}; waiting\n", taken()));
        }
        std::thread::sleep(PACE);
    }
    // The kernel ends the job of a holder that was killed, and the lock may be free a moment before that is done.
    for pen in holders(&request.slot) {
        sweep_pen(&pen.place, &pen.id);
    }
    nostray_pen::run(spec, id, Box::new(SlotWitness { inner: witness, lock, slot: request.slot.clone() }))
}

fn lock_of(slot: &Name) -> Result<File, String> {
    let place =
        Place::that_lasts().and_then(|place| place.below("slots")).and_then(|place| place.below(slot.as_str()));
    let place = place.map_err(|error| error.to_string())?;
    files::to_lock_or_make(&place.path().join("lock")).map_err(|error| error.to_string())
}

/// Every pen on record that holds this slot, or did until it was killed.
fn holders(slot: &Name) -> Vec<Pen> {
    let holds = |pen: &Pen| pen.record.as_ref().is_ok_and(|record| record.slot.as_deref() == Some(slot.as_str()));
    census().into_iter().filter(holds).collect()
}

fn describe(slot: &Name) -> String {
    let holder = holders(slot).into_iter().find(|pen| pen.owner_alive);
    match holder.as_ref().and_then(|pen| Some((&pen.id, pen.record.as_ref().ok()?))) {
        Some((id, record)) => format!("taken by {id} ({})", nostray_registry::short_name(&record.command)),
        None => "taken by a pen that is just starting or ending".to_owned(),
    }
}

/// Holds the slot as long as the tree is not empty, around the witness that keeps the pen's record.
#[derive(Debug)]
struct SlotWitness {
    inner: Box<dyn Witness>,
    lock: File,
    slot: Name,
}

impl Witness for SlotWitness {
    /// A pen that is not on record is refused: the next claim could not find it if its front was killed.
    fn opens(&mut self, opening: &Opening<'_>) -> Result<(), Objection> {
        self.inner.opens(opening).map_err(|objection| match objection {
            Objection::Warning(why) => {
                Objection::Refusal(format!("slot {} is only for a child that can be put on record: {why}", self.slot))
            }
            refusal @ Objection::Refusal(_) => refusal,
        })
    }

    fn settled(&mut self) {
        self.inner.settled();
    }

    fn sees(&mut self, event: &Event) {
        self.inner.sees(event);
        if matches!(event, Event::Empty) {
            self.lock.unlock().ok(); // the kernel does it as well when this process ends
        }
    }
}
