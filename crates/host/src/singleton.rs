//! The slot for a program that guards itself: at most one live process of this user holds a name.
//!
//! The kernel decides who, by a lock that is free when the process has ended, however it ended. It is the same slot as that of `nostray
//! run --slot` and of [`crate::PenSpecBuilder::slot`]; a newcomer that replaces such a holder sends it SIGTERM, and a program that has
//! something to save handles that.

use std::time::{Duration, Instant};

use nostray_pen::{PenId, Spec};
use nostray_registry::{RecordDetails, SeriesKeeper, State, masked};
use nostray_slot::{Claim, HeldSlot, MAX_HANDOVERS, Refusal, SlotRequest, Step};
use nostray_sys::poll;

use crate::wakeup::sleep_until;
use crate::{Error, IfTaken};

/// A name that this process holds, until it is dropped or the process ends.
#[derive(Debug)]
pub struct Singleton {
    held: Option<Holding>,
    /// The process that has acquired it. A process forked from it has a copy of this value, which does nothing.
    creator: u32,
}

#[derive(Debug)]
struct Holding {
    tenancy: HeldSlot,
    record: SeriesKeeper,
}

impl Singleton {
    /// Says that this program is ready: until then no newcomer may replace it. A singleton that is dropped without has never
    /// been ready.
    pub fn ready(&mut self) {
        if let Some(Holding { tenancy, record }) = &mut self.held {
            record.enter(State::Ready, 0);
            tenancy.is_ready();
        }
    }
}

impl Drop for Singleton {
    fn drop(&mut self) {
        let Some(mut holding) = self.held.take() else { return };
        if self.creator != std::process::id() {
            // The lock is one for both of us, and to let go of it here would be to let go of it there.
            std::mem::forget(holding);
            return;
        }
        holding.record.close();
        holding.tenancy.ends_because(&"it was released");
        holding.tenancy.is_over();
    }
}

/// Gets a name, without a runtime.
///
/// ```
/// use nostray::{IfTaken, singleton};
///
/// let mut only_one = singleton::acquire("nostray-example", IfTaken::Fail)?;
/// assert!(singleton::acquire("nostray-example", IfTaken::Fail).is_err());
/// // open the database, however long that takes
/// only_one.ready();
/// # Ok::<(), nostray::Error>(())
/// ```
pub fn acquire(name: &str, if_taken: IfTaken) -> Result<Singleton, Error> {
    let (mut claim, id, spec) = claim(name, if_taken)?;
    loop {
        if let Some(singleton) = step(&mut claim, &id, &spec)? {
            return Ok(singleton);
        }
        let events: Vec<_> = claim.watches().collect();
        let left = claim.deadline().saturating_duration_since(Instant::now());
        poll::wait(&events, Some(left)).map_err(Error::during("wait for the slot"))?;
    }
}

/// The same in a runtime. Cancelling it gives up the place in the queue.
pub async fn acquire_async(name: &str, if_taken: IfTaken) -> Result<Singleton, Error> {
    let (mut claim, id, spec) = claim(name, if_taken)?;
    loop {
        if let Some(singleton) = step(&mut claim, &id, &spec)? {
            return Ok(singleton);
        }
        // It says itself when to look again, soon after something has happened and then once a second; the end of the holder is
        // looked for in between.
        let until = claim.deadline().min(Instant::now() + POLL_INTERVAL);
        sleep_until(Some(until)).await.map_err(Error::during("wait for the slot"))?;
    }
}

const POLL_INTERVAL: Duration = Duration::from_millis(50);

fn claim(name: &str, if_taken: IfTaken) -> Result<(Claim, PenId, Spec), Error> {
    let slot = name.parse().map_err(|why: String| Error::spec("name", why))?;
    let (if_taken, wait_timeout) = if_taken.policy();
    let id = PenId::new();
    let spec = Spec::new(std::env::args_os().collect());
    let wish = SlotRequest {
        slot,
        if_taken,
        wait_timeout,
        max_handovers: MAX_HANDOVERS,
        command: masked(&spec.command),
        session: None,
    };
    Ok((Claim::new(wish, &id)?.without_forking(), id, spec))
}

fn step(claim: &mut Claim, id: &PenId, spec: &Spec) -> Result<Option<Singleton>, Error> {
    match claim.step()? {
        Step::Waiting(_) => Ok(None),
        Step::Refused(Refusal(why)) => Err(Error::Taken(why)),
        Step::Taken(mut tenancy) => {
            let slot = tenancy.slot().to_string();
            let details = RecordDetails { slot: Some(slot), sweep: false, ..RecordDetails::default() };
            match SeriesKeeper::of_program(id, spec, &details) {
                Ok(mut record) => {
                    record.enter(State::Starting, 0);
                    Ok(Some(Singleton { held: Some(Holding { tenancy, record }), creator: std::process::id() }))
                }
                Err(error) => {
                    // Without a record, a newcomer could not be told which process holds the slot.
                    tenancy.is_over();
                    Err(error.into())
                }
            }
        }
    }
}
