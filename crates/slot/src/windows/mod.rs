//! Slots on Windows: the front alone has the lock, and a claim looks again and again.

pub(crate) mod helper;
pub(crate) mod lock;
pub(crate) mod ticket_file;
pub(crate) mod time;

use std::time::Instant;

use nostray_pen::{PenId, Spec, Starter, Witness};
use nostray_sys::descriptors::write_to_stderr_at_once;
use nostray_sys::poll::{self, AsFd, Until};
use nostray_sys::process::Code;

use crate::held_slot::SlotWitness;
use crate::request::{Refusal, SlotRequest, Step};
use crate::{Claim, Error, NOT_NOW};

/// Runs a command in a pen that holds a slot, and returns the exit code to end with. Where the pen's record is kept, its slot must be said.
pub fn run(
    spec: &Spec,
    id: PenId,
    witness: Box<dyn Witness>,
    request: SlotRequest,
) -> Result<Code, nostray_pen::Error> {
    let refused = |error: Error| nostray_pen::Error::Refused(error.to_string());
    let starter = Starter::find()?;
    let mut claim = Claim::new(request, &id).map_err(refused)?.for_host(starter.host());
    loop {
        // First a look at the host: no holder is asked for anything on behalf of a host that is gone.
        if starter.handles().any(|handle| handle.has_ended().unwrap_or(false)) {
            return Ok(over(claim.give_up("its host has ended")));
        }
        match claim.step().map_err(refused)? {
            Step::Taken(held) => return nostray_pen::run(spec, id, Box::new(SlotWitness::new(held, witness))),
            Step::Refused(refusal) => return Ok(over(refusal)),
            Step::Waiting(news) => news.iter().for_each(|text| say(text)),
        }
        let ends: Vec<_> = starter.handles().map(|handle| (handle.as_fd(), Until::Readable)).collect();
        let left = claim.deadline().saturating_duration_since(Instant::now());
        if poll::wait(&ends, Some(left)).is_err() {
            std::thread::sleep(left); // waiting has failed: sleep instead
        }
    }
}

fn over(Refusal(why): Refusal) -> Code {
    say(&why);
    NOT_NOW
}

fn say(text: &str) {
    write_to_stderr_at_once(&format!("nostray: {text}\n"));
}
