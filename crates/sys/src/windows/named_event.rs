//! Events: something that is set once and that processes can wait for. One with a name can be set from another process of the same user.

use std::io;
use std::os::windows::io::{AsHandle, AsRawHandle, BorrowedHandle, OwnedHandle};

use windows_sys::Win32::Foundation::{ERROR_ALREADY_EXISTS, GetLastError};
use windows_sys::Win32::System::Threading::{CreateEventW, EVENT_MODIFY_STATE, OpenEventW, ResetEvent, SetEvent};

use super::private::Private;

/// An event that stays set until it is reset.
#[derive(Debug)]
pub struct Event(OwnedHandle);

impl Event {
    /// One without a name, for this process alone.
    pub fn new() -> io::Result<Self> {
        // SAFETY: without attributes and name; the handle is not inherited.
        unsafe { super::owned(CreateEventW(std::ptr::null(), 1, 0, std::ptr::null())) }.map(Self)
    }

    /// One that other processes of this user, and no others, can set by this name. An error if the name is taken: it could be a stranger's.
    pub fn named(name: &str) -> io::Result<Self> {
        let private = Private::new()?;
        let name = super::wide(global(name))?;
        // SAFETY: attributes and name stay until the call returns. The last error is read before anything else can change it.
        let (event, existed) = unsafe {
            let event = CreateEventW(private.attributes(), 1, 0, name.as_ptr());
            let existed = GetLastError() == ERROR_ALREADY_EXISTS;
            (super::owned(event)?, existed)
        };
        if existed { Err(io::ErrorKind::AlreadyExists.into()) } else { Ok(Self(event)) }
    }

    /// Sets the event that another process has made under this name.
    pub fn set_named(name: &str) -> io::Result<()> {
        let name = super::wide(global(name))?;
        // SAFETY: the name stays until the call returns.
        let event = unsafe { super::owned(OpenEventW(EVENT_MODIFY_STATE, 0, name.as_ptr())) }?;
        // SAFETY: the handle is open.
        super::done(unsafe { SetEvent(event.as_raw_handle()) })
    }

    /// Sets it.
    pub fn set(&self) {
        // SAFETY: the handle is open, with all rights.
        unsafe { SetEvent(self.0.as_raw_handle()) };
    }

    /// Takes it back.
    pub fn reset(&self) {
        // SAFETY: as above.
        unsafe { ResetEvent(self.0.as_raw_handle()) };
    }
}

/// In the name space of all sessions: the same user may have logged in twice.
fn global(name: &str) -> String {
    format!("Global\\{name}")
}

impl AsHandle for Event {
    fn as_handle(&self) -> BorrowedHandle<'_> {
        self.0.as_handle()
    }
}
