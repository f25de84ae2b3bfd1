//! Ending sessions of a shared child, for `nostray stop`.

use std::os::fd::AsFd;
use std::time::Duration;

use nostray_pen::{Ask, Takes};
use nostray_registry::Pen;
use nostray_sys::Signal;
use nostray_sys::identity::Identity;
use nostray_sys::poll::{Until, wait};
use nostray_terminal as terminal;

use crate::selection::Selection;

/// How long a session may take to let go of a child.
const MARGIN: Duration = Duration::from_secs(15);

/// Ends the selected sessions of a shared child. False if one did not end.
pub(crate) fn end(pen: &Pen, sessions: &Selection, ask: Ask) -> bool {
    let Ok(record) = &pen.record else { return true };
    let mut all_ended = true;
    for lease in sessions.leases(record) {
        let Some(front) = lease.front.identity().and_then(Identity::open) else { continue };
        // The front may be of another version than its steward, so send plain SIGTERMs; every request makes it detach.
        let asked = nostray_pen::send(&front, ask, Takes::Terms).is_ok();
        front.send(Signal::CONT).ok(); // a stopped front would not read the request
        let ended = asked && wait(&[(front.as_fd(), Until::Readable)], Some(MARGIN)).is_ok_and(|ended| ended[0]);
        all_ended &= ended;
        let name = lease.session.clone().unwrap_or_default();
        let text = if ended { "let go of it" } else { "has not let go of it" };
        let command = record.command.join(" ");
        let said = format!("{}  session {name} ({}) {text}  ({command})", pen.id, lease.front.pid);
        terminal::print(terminal::line(&said).as_bytes());
    }
    all_ended
}
