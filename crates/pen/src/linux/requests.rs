//! What a signal means to a pen: a number sent along with it makes it a request, an order, or a forwarded signal of the host; and which
//! signals are for a pen at all.

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

/// The first of the numbers that make a queued signal, or a SIGTERM, a request to end the pen.
const FIRST_ASK: i32 = 0x7374_6f70;
/// The number by which a front tells the guard that its spare is gone. The guard may see that by itself, too; but in a pid namespace of
/// its own it could not tell a plain SIGTERM of the front from that of a stranger.
pub(crate) const SPARE_GONE: i32 = 0x7374_6f7f;
/// The first of the numbers for orders.
const FIRST_ORDER: i32 = 0x7374_6f80;

/// The request that came with a signal.
pub(crate) fn asked(arrived: Arrived) -> Option<Ask> {
    nth(&Ask::ALL, FIRST_ASK, arrived)
}

/// The order that came with a signal.
pub(crate) fn ordered(arrived: Arrived) -> Option<Order> {
    nth(&Order::ALL, FIRST_ORDER, arrived)
}

fn nth<T: Copy>(all: &[T], first: i32, arrived: Arrived) -> Option<T> {
    let value = arrived.value.filter(|_| [Signal::TERM, Signal::queued()].contains(&arrived.signal))?;
    usize::try_from(value.checked_sub(first)?).ok().and_then(|at| all.get(at)).copied()
}

/// Whether a signal is a request or an order.
pub(crate) fn is_request(arrived: Arrived) -> bool {
    asked(arrived).is_some() || ordered(arrived).is_some()
}

/// The number that goes along with a request.
pub(crate) fn number_of(request: Request) -> i32 {
    match request {
        Request::Ask(ask) => number(&Ask::ALL, FIRST_ASK, ask),
        Request::Order(order) => number(&Order::ALL, FIRST_ORDER, order),
    }
}

fn number<T: PartialEq>(all: &[T], first: i32, one: T) -> i32 {
    let at = all.iter().position(|other| *other == one).unwrap_or_default();
    first + i32::try_from(at).unwrap_or_default()
}

/// Numbers that make a queued signal a forwarded one: the host, or the kernel, has sent it to the opener of this pen.
const FORWARDED_SIGNAL: i32 = 0x7374_7000;
const FROM_KERNEL: i32 = 0x100;

/// How a signal is handed on.
pub(crate) fn handed_on(arrived: Arrived) -> i32 {
    FORWARDED_SIGNAL | arrived.signal.as_raw() | if arrived.from_kernel { FROM_KERNEL } else { 0 }
}

/// The signal for the pen, in its front. A front that was forked by an opener takes the host's signals from the opener alone: a signal
/// to the whole process group reaches both, and would count twice. (The sender does not tell them apart: of two equal pending signals,
/// the kernel keeps the first.)
pub(crate) fn for_the_pen(arrived: Arrived, opener: Option<Pid>) -> Option<Arrived> {
    let Some(opener) = opener else { return Some(arrived).filter(|arrived| is_for_the_pen(*arrived)) };
    match arrived.value {
        Some(value) if value & !0x1ff == FORWARDED_SIGNAL && arrived.sender == Some(opener) => {
            let signal = Signal::from_raw(value & 0xff)?;
            // Only the opener knows the sender, and has it in the journal.
            Some(Arrived { signal, sender: None, from_kernel: value & FROM_KERNEL != 0, value: None })
        }
        Some(_) => Some(arrived).filter(|_| is_request(arrived)),
        None => Some(arrived).filter(|arrived| arrived.signal == Signal::CONT && is_for_the_pen(*arrived)),
    }
}

/// Whether a signal to front, spare, guard or opener is meant for the pen. A key on the terminal signals the whole foreground group: the
/// child has got it too, and decides by itself. The hang-up of the terminal is for the pen as well. A signal from this very process is
/// not: SIGPIPE from a message without a reader, or SIGXFSZ from a file without room.
pub(crate) fn is_for_the_pen(arrived: Arrived) -> bool {
    match arrived.signal {
        _ if arrived.sender == Some(getpid()) => false,
        Signal::CHLD | Signal::PIPE | Signal::TTIN | Signal::TTOU => false,
        Signal::HUP => true,
        _ => !arrived.from_kernel,
    }
}
