//! Ends a pen from outside. Its keepers end it when they are asked to, but they may be stopped (SIGSTOP, a debugger), by their own child
//! again and again. Then the tree is ended first, each process by its identity, while the keepers hold it together: what is below them is
//! of it, marked or not. After that no process is left that could stop the keepers, and they end by themselves, or are killed.

use std::collections::HashSet;
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use nostray_pen::{Ask, PenId};
use nostray_sys::cgroup::Cgroup;
use nostray_sys::escalation::{Escalation, KILL_WAIT, Step};
use nostray_sys::identity::{Identity, World, signal_each, wait_for_end};
use nostray_sys::poll::{Until, wait};
use nostray_sys::proc::Stat;
use nostray_sys::{Pidfd, Signal};

use crate::Place;
use crate::owner::owner_is_alive;
use crate::policy::Policy;
use crate::record::{self, Record};
use crate::survivors::{Found, Machine, signal_some, wait_for_found};
use crate::sweep;

/// How long a pen may take beyond its graces.
const END_MARGIN: Duration = Duration::from_secs(15);
/// How long a pen may take that was told to stop at once.
const STOP_NOW_TIMEOUT: Duration = Duration::from_secs(5);
/// How often the keepers are checked meanwhile.
const CHECK_INTERVAL: Duration = Duration::from_millis(250);
/// Keepers that are found stopped so often, though they were continued each time, do not end the pen.
const MAX_STOPPED_CHECKS: u32 = 6;
/// How long keepers may take to see that their tree is empty, and a killed process to be gone.
const CONTINUED_KEEPERS_TIMEOUT: Duration = Duration::from_secs(2);
const KILLED_KEEPERS_TIMEOUT: Duration = Duration::from_secs(5);
/// How long another process may hold the lock of a pen without keepers, and how often to try it.
const LOCK_TIMEOUT: Duration = Duration::from_secs(5);
const LOCK_INTERVAL: Duration = Duration::from_millis(5);

/// The records of a pen, and of the pens in its series.
fn records_of(place: &Place, id: &str) -> Vec<Record> {
    let world = World::current();
    let ids = record::ids(place).unwrap_or_default().into_iter();
    let ids = ids.filter(|other| other == id || PenId::series_of(other) == Some(id));
    let records = ids.filter_map(|id| Record::read(&record::path(place, &id)).ok());
    records.filter(|record| Some(record.world()) == world).collect()
}

fn keepers_of(records: &[Record]) -> Vec<Identity> {
    let mut keepers: Vec<Identity> =
        records.iter().flat_map(Record::keepers).filter(|keeper| keeper.is_alive()).collect();
    keepers.dedup();
    keepers
}

fn is_stopped(keeper: &Identity) -> bool {
    Stat::of(keeper.pid).is_some_and(|stat| stat.start == keeper.start && stat.is_stopped())
}

/// Whether all keepers of a pen are stopped, so that none of them keeps it.
pub(crate) fn is_frozen(place: &Place, record: &Record) -> bool {
    let are_stopped = |keepers: Vec<Identity>| !keepers.is_empty() && keepers.iter().all(is_stopped);
    World::current() == Some(record.world())
        && are_stopped(keepers_of(std::slice::from_ref(record)))
        // And those of the child that it has now, if it has one after the other.
        && (record.generation.is_none() || are_stopped(keepers_of(&records_of(place, &record.id))))
}

/// Waits for the end of a pen that was asked to end, and ends it from outside if its keepers do not. `asked` is its record as it was before.
/// `tick` is called at every check. False if the pen is still there.
pub(crate) fn ensure_end(place: &Place, asked: &Record, ask: Ask, since: Instant, tick: &mut dyn FnMut()) -> bool {
    let id = asked.id.as_str();
    let mut records = records_of(place, id);
    // A keeper removes its record just before it exits, so the record that was read before still tells whom to wait for.
    if records.iter().all(|record| record.id != id) && Some(asked.world()) == World::current() {
        records.push(asked.clone());
    }
    let promised = records.iter().map(Record::promised_grace).max().unwrap_or_default();
    let is_now = ask == Ask::StopNow;
    let deadline = if is_now { since + STOP_NOW_TIMEOUT } else { since + promised + END_MARGIN };
    let keepers = keepers_of(&records);
    let mut handles: Vec<Pidfd> = keepers.iter().filter_map(|keeper| keeper.open()).collect();
    let mut frozen = 0;
    signal_each(&keepers, Signal::CONT);
    while !handles.is_empty() && Instant::now() < deadline && frozen < MAX_STOPPED_CHECKS {
        let events: Vec<_> = handles.iter().map(|handle| (handle.as_fd(), Until::Readable)).collect();
        let mut ended = wait(&events, Some(CHECK_INTERVAL)).unwrap_or_default().into_iter();
        handles.retain(|_| !ended.next().unwrap_or(false));
        if keepers.iter().any(is_stopped) {
            frozen += 1;
            signal_each(&keepers, Signal::CONT);
        }
        tick();
    }
    if !handles.is_empty() && (is_now || frozen == MAX_STOPPED_CHECKS) {
        end_from_outside(&records, if is_now { Duration::ZERO } else { promised });
        let is_its = |other: &str| other == id || PenId::series_of(other) == Some(id);
        sweep::sweep_those(&Policy::thorough(), std::slice::from_ref(place), |_, other| is_its(other));
    }
    // The lock of a pen whose keepers have all ended can still be held: for a moment by a prober, and by a sweep until that is done.
    let until = Instant::now() + if handles.is_empty() || is_now { LOCK_TIMEOUT } else { Duration::ZERO };
    loop {
        if !record::is_on_record(place, id) || !owner_is_alive(place, id) {
            return true;
        }
        if Instant::now() >= until {
            return false;
        }
        tick();
        std::thread::sleep(LOCK_INTERVAL); // flock cannot be polled
    }
}

/// What is left of a pen that still has keepers.
pub(crate) fn who_is_left(place: &Place, id: &str) -> Vec<Found> {
    let machine = Machine::now();
    records_of(place, id).iter().flat_map(|record| machine.survivors(record)).collect()
}

/// Ends pens whose keepers do not act. Their trees get SIGTERM and this grace first.
pub(crate) fn end_from_outside(records: &[Record], grace: Duration) {
    let keepers = keepers_of(records);
    let is_of_tree = |found: &Found| !keepers.contains(&found.process);
    // With the keepers: whether a survivor by descent still is one is seen from its parent, and that may be a keeper.
    let look = || -> Vec<Found> {
        let machine = Machine::now();
        records.iter().flat_map(|record| machine.survivors(record)).collect()
    };
    let trees = |found: &[Found]| found.iter().filter(|one| is_of_tree(one)).cloned().collect::<Vec<_>>();
    let (until, term_grace) = (Instant::now(), grace.min(Policy::thorough().budget));
    let mut escalation = match grace {
        Duration::ZERO => Escalation::Terminating { until },
        _ => Escalation::Asked { until, term_grace },
    };
    loop {
        let mut found = look();
        let until = match escalation.next(Instant::now(), trees(&found).len()) {
            Step::Terminate(until) => {
                signal_some(&found, Signal::TERM, is_of_tree);
                signal_some(&found, Signal::CONT, is_of_tree);
                until
            }
            Step::Kill => {
                for group in records.iter().filter_map(|record| Cgroup::open(record.cgroup.as_deref()?.as_ref()).ok())
                {
                    group.kill().ok();
                }
                found = stop_all(found, is_of_tree, look);
                signal_some(&found, Signal::KILL, is_of_tree);
                Instant::now() + KILL_WAIT
            }
            Step::Done => break,
        };
        wait_for_found(&trees(&found), until);
    }
    signal_each(&keepers, Signal::CONT);
    wait_for_end(&keepers, Instant::now() + CONTINUED_KEEPERS_TIMEOUT);
    signal_each(&keepers, Signal::KILL);
    wait_for_end(&keepers, Instant::now() + KILLED_KEEPERS_TIMEOUT);
}

/// Stops all processes of a tree before the first one is killed, or they would fork meanwhile. Returns the last look, which found no
/// new ones.
fn stop_all(found: Vec<Found>, is_of_tree: impl Fn(&Found) -> bool, look: impl Fn() -> Vec<Found>) -> Vec<Found> {
    let (mut stopped, mut found) = (HashSet::new(), found);
    loop {
        let is_new = |one: &Found| is_of_tree(one) && !stopped.contains(&one.process);
        if !found.iter().any(is_new) {
            return found;
        }
        signal_some(&found, Signal::STOP, is_new);
        stopped.extend(found.iter().map(|one| one.process));
        found = look();
    }
}

#[cfg(test)]
mod tests {
    use std::process::{Child, Command, Stdio};

    use nostray_sys::Pid;

    use super::*;
    use crate::record::{Process, VERSION};

    fn record_of(front: &Child) -> Record {
        let pid = Pid::from_raw(i32::try_from(front.id()).expect("a pid")).expect("a pid");
        let world = World::current().expect("/proc");
        let record = serde_json::json!({
            "version": VERSION, "id": "k7f39q2x", "state": { "name": "ready" }, "since": 1, "started": 1, "command": ["true"], "cwd": "/",
            "boot": world.boot, "pid_namespace": world.pid_namespace, "front": Process::of(pid).expect("runs"),
            "tier": "subreaper", "eof_grace": 0, "term_grace": 0,
        });
        serde_json::from_value(record).expect("a record")
    }

    fn place(name: &str) -> Place {
        let directory = std::env::temp_dir().join(format!("nostray-ending-{name}-{}", std::process::id()));
        Place::at(&directory).expect("a place")
    }

    /// The front removes its record and exits after that. `cat` stands for a front between the two.
    #[test]
    fn a_front_that_has_removed_its_record_is_waited_for() {
        let place = place("removed");
        let mut front = Command::new("cat").stdin(Stdio::piped()).stdout(Stdio::null()).spawn().expect("cat");
        let record = record_of(&front);
        let mut input = front.stdin.take();
        let ended = ensure_end(&place, &record, Ask::Stop, Instant::now(), &mut || drop(input.take()));
        assert!(ended, "nothing of it is left");
        assert!(front.try_wait().expect("look").is_some(), "the front was not waited for");
        std::fs::remove_dir_all(place.path()).expect("removed");
    }

    /// A killed front leaves its record, and a prober holds the lock for a moment to learn whether there is an owner.
    #[test]
    fn a_prober_is_not_taken_for_an_owner() {
        let place = place("probed");
        let mut front = Command::new("true").spawn().expect("true");
        let record = record_of(&front);
        front.wait().expect("ended");
        std::fs::write(record::path(&place, &record.id), serde_json::to_vec(&record).expect("JSON"))
            .expect("written");
        let lock = std::fs::File::create(record::lock_path(&place, &record.id)).expect("created");
        lock.lock().expect("locked");
        let mut prober = Some(lock);
        assert!(ensure_end(&place, &record, Ask::Stop, Instant::now(), &mut || drop(prober.take())));
        assert!(prober.is_none(), "the lock was not tried again");
        std::fs::remove_dir_all(place.path()).expect("removed");
    }
}
