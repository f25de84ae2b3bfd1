//! Ending a holder of a slot, and sweeping what one has left, in a process of its own: both block.

use nostray_sys::process::{self, Pid};

use crate::Place;
use crate::holder::{Holder, end_from_outside, sweep_slot};

/// Sweeps what a dead holder of this slot has left, in a process of its own. It ends with this one: the next claim of the slot starts
/// another.
pub fn sweep_slot_apart(slot: &str, elsewhere: &[Place]) -> std::io::Result<Pid> {
    process::fork_helper("nostray-sweep", &order(slot, elsewhere), |order| {
        let (slot, elsewhere) = parse(order);
        sweep_slot(slot, &elsewhere);
    })
}

/// Ends a holder whose keepers do not act, from outside, in a process of its own.
///
/// Its tree is asked first and given the time that it was promised. Then it is killed, each process by its identity, its keepers
/// last, and what is left is swept.
pub fn end_holder_apart(holder: &Holder, elsewhere: &[Place]) -> std::io::Result<Pid> {
    let Some(slot) = &holder.record.slot else { return Err(std::io::ErrorKind::NotFound.into()) };
    // By the pen's name, and not only by the slot: another pen may hold the slot by then.
    let whose = format!("{slot}/{}", holder.record.id);
    process::fork_helper("nostray-sweep", &order(&whose, elsewhere), |order| {
        let (whose, elsewhere) = parse(order);
        let (slot, id) = whose.split_once('/').unwrap_or_default();
        end_from_outside(slot, id, &elsewhere);
        sweep_slot(slot, &elsewhere);
    })
}

/// The order to such a process, which has no other memory of its parent.
fn order(slot: &str, elsewhere: &[Place]) -> String {
    let paths = elsewhere.iter().filter_map(|place| place.path().to_str());
    [slot].into_iter().chain(paths).collect::<Vec<_>>().join("\0")
}

fn parse(order: &str) -> (&str, Vec<Place>) {
    let mut parts = order.split('\0');
    (parts.next().unwrap_or_default(), parts.filter_map(|path| Place::existing(path.as_ref())).collect())
}
