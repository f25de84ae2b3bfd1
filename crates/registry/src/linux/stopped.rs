//! Ends a steward that was proved to be stopped (SIGSTOP, a debugger): its sessions would wait for ever. Its pen then has no host and
//! ends as every pen does; the next steward waits for that.

use nostray_pen::PenId;
use nostray_sys::Signal;
use nostray_sys::identity::{Identity, signal_each};
use nostray_sys::proc::Stat;
use nostray_sys::process::getpid;

use crate::Place;
use crate::journal::{Cause, Journal, Story};
use crate::predecessors::keepers;
use crate::record::{self, Process, Record};
use nostray_sys::secrets::describe;

/// What happened to it, in half a sentence.
pub const WAS_STOPPED: &str = "was stopped (SIGSTOP or a debugger)";

/// Kills this steward, and continues the keepers of its child, which may have been stopped with it.
pub fn end_stopped_steward(steward: Identity) {
    let is_stopped = Stat::of(steward.pid).is_some_and(|stat| stat.is_stopped());
    if steward.signal(Signal::KILL, |_| is_stopped).is_err() {
        return;
    }
    for place in Place::all() {
        for id in record::ids(&place).unwrap_or_default() {
            let is_its = |record: &Record| record.front == Process::from(steward);
            if PenId::series_of(&id).is_none() && Record::read(&record::path(&place, &id)).is_ok_and(|r| is_its(&r)) {
                let detail = format!("its steward {WAS_STOPPED} and is ended");
                let cause = Cause { reason: "stopped-steward".to_owned(), detail, sender: Some(describe(getpid())) };
                Journal::at(&place).add(&id, Story::Stopping(cause));
                signal_each(&keepers(&place, &id), Signal::CONT);
            }
        }
    }
}
