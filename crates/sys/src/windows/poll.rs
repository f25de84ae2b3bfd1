//! Waiting for the first of several events, with an optional deadline, and no wake-up for anything else.

use std::io;
use std::os::windows::io::{AsHandle, AsRawHandle, BorrowedHandle};
use std::time::{Duration, Instant};

use windows_sys::Win32::Foundation::{WAIT_FAILED, WAIT_OBJECT_0, WAIT_TIMEOUT};
use windows_sys::Win32::System::Threading::{INFINITE, Sleep, WaitForMultipleObjects, WaitForSingleObject};

/// What can be waited for: on Windows a handle of a process or of an event.
pub trait AsFd {
    /// The handle.
    fn as_fd(&self) -> BorrowedFd<'_>;
}

impl<T: AsHandle> AsFd for T {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.as_handle()
    }
}

/// A handle that is borrowed.
pub type BorrowedFd<'a> = BorrowedHandle<'a>;

/// What to wait for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Until {
    /// It is signalled: the process has ended, the event is set.
    Readable,
}

/// The kernel waits for no more at once.
const MOST: usize = 64;
/// More than that are looked at in turns, so often.
const TURN: Duration = Duration::from_millis(50);

/// Waits until one of the events has come, and says for each whether it has. Without a timeout there is no wake-up until then.
pub fn wait(events: &[(BorrowedFd<'_>, Until)], duration: Option<Duration>) -> io::Result<Vec<bool>> {
    let handles: Vec<_> = events.iter().map(|(handle, _)| handle.as_raw_handle()).collect();
    let deadline = duration.map(|duration| Instant::now() + duration.min(Duration::from_secs(366 * 24 * 3600)));
    loop {
        let left = deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
        let turn = if handles.len() > MOST { Some(left.map_or(TURN, |left| left.min(TURN))) } else { left };
        let milliseconds = turn.map_or(INFINITE, |turn| {
            // Rounded up, or the last millisecond before a deadline would be spent awake.
            u32::try_from(turn.as_micros().div_ceil(1000)).unwrap_or(INFINITE - 1).min(INFINITE - 1)
        });
        let some = &handles[..handles.len().min(MOST)];
        let answer = if some.is_empty() {
            // SAFETY: takes a number.
            unsafe { Sleep(milliseconds) };
            WAIT_TIMEOUT
        } else {
            // SAFETY: the handles are open as long as they are borrowed, and there are as many as is said.
            unsafe { WaitForMultipleObjects(some.len() as u32, some.as_ptr(), 0, milliseconds) }
        };
        if answer == WAIT_FAILED {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: as above; nothing is waited for. Only events that stay set are waited for here, so a look takes none away.
        let come: Vec<bool> =
            handles.iter().map(|handle| unsafe { WaitForSingleObject(*handle, 0) } == WAIT_OBJECT_0).collect();
        if come.contains(&true) || deadline.is_some_and(|deadline| deadline <= Instant::now()) {
            return Ok(come);
        }
    }
}
