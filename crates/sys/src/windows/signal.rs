//! The words for asking a process to end. Windows has no signals but what a console sends: Ctrl-C is SIGINT, Ctrl-Break is SIGTERM (which
//! is how one process asks another one here), the closing of the console is SIGHUP, as the C runtime has most of them.

use std::fmt;
use std::io;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicI32, Ordering};

use windows_sys::Win32::System::Console::{
    CTRL_BREAK_EVENT, CTRL_C_EVENT, CTRL_CLOSE_EVENT, CTRL_LOGOFF_EVENT, CTRL_SHUTDOWN_EVENT,
    GenerateConsoleCtrlEvent, SetConsoleCtrlHandler,
};

use crate::Pid;
use crate::named_event::Event;

/// A signal.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Signal(i32);

macro_rules! signals {
    ($($name:ident $number:literal $doc:literal)*) => {
        impl Signal {
            $(#[doc = $doc] pub const $name: Self = Self($number);)*

            fn name(self) -> &'static str {
                match self {
                    $(Self::$name => concat!("SIG", stringify!($name)),)*
                    _ => "a signal",
                }
            }
        }
    };
}

signals! {
    HUP 1 "The console was closed."
    INT 2 "Ctrl-C."
    KILL 9 "The process is ended at once."
    TERM 15 "Ctrl-Break: the process is asked to end."
    CONT 18 "A stopped process goes on; on Windows none is ever stopped so."
}

impl Signal {
    /// Its number.
    #[must_use]
    pub fn as_raw(self) -> i32 {
        self.0
    }
}

impl fmt::Debug for Signal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl fmt::Display for Signal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A signal that has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Arrived {
    /// Which.
    pub signal: Signal,
    /// Who sent it, which Windows does not tell.
    pub sender: Option<Pid>,
}

/// Asks all processes of the console group that this child leads to end, by Ctrl-Break. An error if they are on another console.
pub fn send_break(leader: Pid) -> io::Result<()> {
    // SAFETY: takes numbers. Never with zero, which would mean every process of this console, the host too.
    super::done(unsafe { GenerateConsoleCtrlEvent(CTRL_BREAK_EVENT, leader.number()) })
}

/// Set when a key was pressed on the console, or the console was closed.
static CAME: OnceLock<Event> = OnceLock::new();
/// One bit for each of [`KINDS`] that has come and was not taken.
static PENDING: AtomicI32 = AtomicI32::new(0);
const KINDS: [Signal; 3] = [Signal::INT, Signal::TERM, Signal::HUP];

/// Watches for what the console sends, from now on in place of the default, which ends this process.
pub fn watch_console() -> io::Result<&'static Event> {
    let event = Event::new()?;
    let event = CAME.get_or_init(|| event);
    // SAFETY: the function stays, and does nothing but set a bit and an event.
    super::done(unsafe { SetConsoleCtrlHandler(Some(handler), 1) })?;
    Ok(event)
}

/// What has come since the last call.
pub fn take_console_signals() -> impl Iterator<Item = Signal> {
    if let Some(event) = CAME.get() {
        event.reset();
    }
    let pending = PENDING.swap(0, Ordering::AcqRel);
    (0..KINDS.len()).filter(move |bit| pending & 1 << bit != 0).map(|bit| KINDS[bit])
}

/// How long the kernel may be kept from ending this process after the console was closed: it waits five seconds at most.
const MAX_DELAY: std::time::Duration = std::time::Duration::from_secs(30);

/// Called in a thread of its own.
unsafe extern "system" fn handler(kind: u32) -> i32 {
    let signal = match kind {
        CTRL_C_EVENT => Signal::INT,
        CTRL_BREAK_EVENT => Signal::TERM,
        CTRL_CLOSE_EVENT | CTRL_LOGOFF_EVENT | CTRL_SHUTDOWN_EVENT => Signal::HUP,
        _ => return 0,
    };
    let bit = KINDS.iter().position(|kind| *kind == signal).unwrap_or(0);
    PENDING.fetch_or(1 << bit, Ordering::AcqRel);
    if let Some(event) = CAME.get() {
        event.set();
    }
    if signal == Signal::HUP {
        // When this function returns, the process is ended; until then the main thread tears down.
        std::thread::sleep(MAX_DELAY);
    }
    1
}
