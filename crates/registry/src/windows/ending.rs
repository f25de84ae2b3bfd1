//! Waits for the end of a pen that was asked to end. If its front does not act, the front is terminated, and the kernel ends the tree.

use std::time::{Duration, Instant};

use nostray_pen::Ask;
use nostray_sys::Signal;
use nostray_sys::identity::{Identity, signal_each, wait_for_end};

use crate::owner::owner_is_alive;
use crate::record::{self, Process, Record};
use crate::survivors::{Found, survivors};
use crate::{Place, sweep};

/// How long a pen may take beyond its graces.
const END_MARGIN: Duration = Duration::from_secs(15);
/// How long a pen may take that was told to stop at once.
const STOP_NOW_TIMEOUT: Duration = Duration::from_secs(5);
/// How often `tick` is called.
const CHECK_INTERVAL: Duration = Duration::from_millis(250);
/// How long a terminated process may take to be gone.
const KILLED_TIMEOUT: Duration = Duration::from_secs(5);

/// Processes are not stopped on Windows.
pub(crate) fn is_frozen(_: &Place, _: &Record) -> bool {
    false
}

/// Waits for the end of a pen that was asked to end at that moment. `asked` is its record as it was before. `tick` is called several times
/// a second. False if the pen is still there.
pub(crate) fn ensure_end(place: &Place, asked: &Record, ask: Ask, since: Instant, tick: &mut dyn FnMut()) -> bool {
    let is_now = ask == Ask::StopNow;
    let deadline =
        since + if is_now { STOP_NOW_TIMEOUT } else { asked.promised_grace() + asked.eof_grace() + END_MARGIN };
    let keepers = asked.keepers();
    let live = || keepers.iter().any(|keeper| keeper.is_alive());
    while live() && Instant::now() < deadline {
        wait_for_end(&keepers, (Instant::now() + CHECK_INTERVAL).min(deadline));
        tick();
    }
    if live() && is_now {
        signal_each(&keepers, Signal::KILL);
        wait_for_end(&keepers, Instant::now() + KILLED_TIMEOUT);
        let child = asked.child.and_then(Process::identity);
        wait_for_end(child.as_slice(), Instant::now() + KILLED_TIMEOUT);
    }
    if keepers.iter().copied().any(Identity::is_alive) {
        return false;
    }
    if record::is_on_record(place, &asked.id) && !owner_is_alive(place, &asked.id) {
        sweep::sweep_pen(place, &asked.id);
    }
    true
}

/// Ends pens whose fronts do not act. The kernel ends their trees with them, so there is no grace: nothing else could ask them.
pub(crate) fn end_from_outside(records: &[Record], _: Duration) {
    let keepers: Vec<Identity> = records.iter().flat_map(Record::keepers).collect();
    let children: Vec<Identity> =
        records.iter().filter_map(|record| record.child.and_then(Process::identity)).collect();
    signal_each(&keepers, Signal::KILL);
    wait_for_end(keepers.iter().chain(&children), Instant::now() + KILLED_TIMEOUT);
}

/// What is left of a pen that still has a front.
pub(crate) fn who_is_left(place: &Place, id: &str) -> Vec<Found> {
    Record::read(&record::path(place, id)).map_or_else(|_| Vec::new(), |record| survivors(&record))
}
