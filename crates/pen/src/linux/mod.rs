//! A pen on Linux: three processes around the child, `front`, `spare` and `guard`.

pub(crate) mod activity;
pub(crate) mod child;
pub(crate) mod front;
pub(crate) mod guard;
pub(crate) mod host;
pub(crate) mod keep;
pub(crate) mod killing;
pub(crate) mod mark;
pub(crate) mod opener;
pub(crate) mod ready;
pub(crate) mod relay;
pub(crate) mod requests;
pub(crate) mod tree;

use nostray_sys::{Pidfd, Signal};

use crate::reason::{Ask, Order};

pub use guard::FRONT_NAME;
pub use mark::{bears_limit, is_certainly_of_no_such_pen, is_marked};
pub use opener::{OpenPen, PenOpener, ReapOutcome, Remains, Streams};
pub use requests::Request;

/// Asks a process of this version that keeps a pen (its guard, or the spare or front that has taken its place) to end the pen, on the path
/// on which every pen ends. The caller has checked that the handle is on the right process.
pub fn ask(keeper: &Pidfd, ask: Ask) -> std::io::Result<()> {
    send(keeper, ask, Takes::Queued)
}

/// Gives an order to a process of this version that keeps a pen. The caller has checked that the handle is on the right process, and
/// ends the child's input next.
pub fn give_order(keeper: &Pidfd, order: Order) -> std::io::Result<()> {
    send(keeper, order, Takes::Queued)
}

/// The form in which the keepers of a pen take requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Takes {
    /// Queued signals: each request arrives, in order.
    Queued,
    /// SIGTERM alone, as older versions do, which would hand a queued signal to the child. Of two that are pending, the second is lost.
    Terms,
}

/// Sends a request to a keeper of any version. The caller has checked that the handle is on the right process.
pub fn send(keeper: &Pidfd, request: impl Into<Request>, takes: Takes) -> std::io::Result<()> {
    let number = requests::number_of(request.into());
    let queued = match takes {
        Takes::Queued => keeper.send_with(Signal::queued(), number),
        Takes::Terms => return keeper.send_with(Signal::TERM, number),
    };
    match queued {
        // The user has no room for another queued signal. SIGTERM needs none: at the worst it comes without its number.
        Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => keeper.send_with(Signal::TERM, number),
        sent => sent,
    }
}
