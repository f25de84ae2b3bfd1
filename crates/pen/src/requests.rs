//! What a signal says: numbers that are sent along with one make it a request, an order, or a signal of the host's that is handed on; and
//! which signals are for a pen at all.

use nostray_sys::process::{Pid, getpid};
use nostray_sys::signal::{Arrived, Signal};

use crate::reason::{Ask, Order};

/// What can be sent to a process that keeps a pen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Request {
    /// To end it.
    Ask(Ask),
    /// To end its child for a reason of its supervisor's.
    Order(Order),
}

impl From<Ask> for Request {
    fn from(ask: Ask) -> Self {
        Self::Ask(ask)
    }
}

impl From<Order> for Request {
    fn from(order: Order) -> Self {
        Self::Order(order)
    }
}

/// Numbers that make a queued signal, or a SIGTERM, to a guard a request to end its pen follow from here.
const ASKS: i32 = 0x7374_6f70;
/// The number by which a guard is told that its spare is gone. It may see that by itself, too; but whoever asked by a plain SIGTERM,
/// from outside of its pid namespace, could not be told from a stranger.
pub(crate) const SPARE_GONE: i32 = 0x7374_6f7f;
/// Numbers for orders follow from here.
const ORDERS: i32 = 0x7374_6f80;

/// The request that came with a signal.
pub(crate) fn asked(arrived: Arrived) -> Option<Ask> {
    nth(&Ask::ALL, ASKS, arrived)
}

/// The order that came with a signal.
pub(crate) fn ordered(arrived: Arrived) -> Option<Order> {
    nth(&Order::ALL, ORDERS, arrived)
}

fn nth<T: Copy>(all: &[T], first: i32, arrived: Arrived) -> Option<T> {
    let value = arrived.value.filter(|_| [Signal::TERM, Signal::queued()].contains(&arrived.signal))?;
    usize::try_from(value.checked_sub(first)?).ok().and_then(|at| all.get(at)).copied()
}

/// Whether it is one, however it came.
pub(crate) fn is_request(arrived: Arrived) -> bool {
    asked(arrived).is_some() || ordered(arrived).is_some()
}

/// The number that goes along with a request.
pub(crate) fn number_of(request: Request) -> i32 {
    match request {
        Request::Ask(ask) => number(&Ask::ALL, ASKS, ask),
        Request::Order(order) => number(&Order::ALL, ORDERS, order),
    }
}

fn number<T: PartialEq>(all: &[T], first: i32, one: T) -> i32 {
    let at = all.iter().position(|other| *other == one).unwrap_or_default();
    first + i32::try_from(at).unwrap_or_default()
}

/// Numbers that make a queued signal one that the host has sent to the process which opened this pen, and whether the kernel did.
const HANDED_ON: i32 = 0x7374_7000;
const BY_THE_KERNEL: i32 = 0x100;

/// How a signal is handed on.
pub(crate) fn handed_on(arrived: Arrived) -> i32 {
    HANDED_ON | arrived.signal.as_raw() | if arrived.from_kernel { BY_THE_KERNEL } else { 0 }
}

/// The signal that is for the pen, in its front. One that was opened by another process of ours takes the host's signals from
/// there alone: what the host sends to a whole group reaches both, and would count twice. (Nor could it be told by its sender from
/// one that is handed on: of two equal signals that wait, the kernel keeps the first one.)
pub(crate) fn for_the_pen(arrived: Arrived, opener: Option<Pid>) -> Option<Arrived> {
    let Some(opener) = opener else { return Some(arrived).filter(|arrived| is_for_the_pen(*arrived)) };
    match arrived.value {
        Some(value) if value & !0x1ff == HANDED_ON && arrived.sender == Some(opener) => {
            let signal = Signal::from_raw(value & 0xff)?;
            // Its own sender is known to the opener alone, which has it in the journal.
            Some(Arrived { signal, sender: None, from_kernel: value & BY_THE_KERNEL != 0, value: None })
        }
        Some(_) => Some(arrived).filter(|_| is_request(arrived)),
        None => Some(arrived).filter(|arrived| arrived.signal == Signal::CONT && is_for_the_pen(*arrived)),
    }
}

/// Whether a signal that came for one of our own processes is meant for the pen. A key on the terminal signals the whole
/// foreground group: the child has got it too, and decides by itself. The hang-up of the terminal is for us as well. And
/// what comes from this very process is its own: SIGPIPE, from a word that nobody wanted to hear, or SIGXFSZ, from one for
/// which there was no room.
pub(crate) fn is_for_the_pen(arrived: Arrived) -> bool {
    match arrived.signal {
        _ if arrived.sender == Some(getpid()) => false,
        Signal::CHLD | Signal::PIPE | Signal::TTIN | Signal::TTOU => false,
        Signal::HUP => true,
        _ => !arrived.from_kernel,
    }
}
