//! How another process of the same user asks a front to end its pen: by events whose names only differ in what is asked for.

use std::io;

use nostray_sys::named_event::Event;

use crate::pen_id::PenId;
use crate::reason::Ask;

/// What a front can be asked for.
#[derive(Debug)]
pub(crate) struct Requests {
    pub(crate) events: [(Ask, Event); 3],
}

impl Requests {
    pub(crate) fn listen(id: &PenId) -> io::Result<Self> {
        let [stop, now, hand_over]: [io::Result<_>; 3] =
            Ask::ALL.map(|ask| Ok((ask, Event::named(&name(id.as_str(), ask))?)));
        Ok(Self { events: [stop?, now?, hand_over?] })
    }
}

fn name(id: &str, ask: Ask) -> String {
    let word = match ask {
        Ask::Stop => "stop",
        Ask::StopNow => "stop-now",
        Ask::HandOver => "hand-over",
    };
    format!("nostray-{id}-{word}")
}

/// Asks the front of a pen to end it, on the path on which every pen ends. An error if there is no such front, or it is another user's.
pub fn ask(id: &str, ask: Ask) -> io::Result<()> {
    Event::set_named(&name(id, ask))
}

/// The form in which the front of a pen takes requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Takes {
    /// By events.
    Queued,
}

/// Whether children bear a limit with the name of their pen. There is no such limit on Windows.
#[must_use]
pub fn bears_limit() -> bool {
    false
}
