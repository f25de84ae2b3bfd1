//! A handle on one process, which stays on that process when its number is used again. (The name is that of Linux.)

use std::io;
use std::os::windows::io::{AsHandle, AsRawHandle, BorrowedHandle, OwnedHandle, RawHandle};

use windows_sys::Win32::Foundation::{ERROR_INVALID_PARAMETER, WAIT_OBJECT_0, WAIT_TIMEOUT};
use windows_sys::Win32::System::Threading::{
    GetExitCodeProcess, OpenProcess, PROCESS_QUERY_INFORMATION, PROCESS_QUERY_LIMITED_INFORMATION,
    PROCESS_SYNCHRONIZE, PROCESS_TERMINATE, PROCESS_VM_READ, TerminateProcess, WaitForSingleObject,
};

use crate::process::{Ended, getpid};
use crate::{Pid, Signal};

/// A handle on one process. Readable, as [`crate::poll`] has it, once that process has ended.
#[derive(Debug)]
pub struct Pidfd(OwnedHandle);

/// The code of a process that was ended by another one, as `taskkill /f` gives it.
const KILLED: u32 = 1;

impl Pidfd {
    /// A handle on the process that has this number now; the caller checks that it is the process that it means.
    pub fn open(pid: Pid) -> io::Result<Self> {
        let all = PROCESS_SYNCHRONIZE | PROCESS_QUERY_LIMITED_INFORMATION;
        Self::open_for(all | PROCESS_TERMINATE, pid).or_else(|error| match error.kind() {
            // Another user's, or a protected one: it can still be watched.
            io::ErrorKind::PermissionDenied => Self::open_for(all, pid),
            _ => Err(error),
        })
    }

    /// A handle by which everything of a process can be read, its user too. For processes of this user.
    pub(crate) fn open_to_query(pid: Pid) -> io::Result<Self> {
        Self::open_for(PROCESS_QUERY_INFORMATION, pid)
    }

    /// A handle by which the memory of a process of this user can be read.
    pub(crate) fn open_to_read(pid: Pid) -> io::Result<Self> {
        Self::open_for(PROCESS_QUERY_INFORMATION | PROCESS_VM_READ, pid)
    }

    fn open_for(rights: u32, pid: Pid) -> io::Result<Self> {
        // SAFETY: takes numbers, and returns a new handle or null. It is not inherited.
        unsafe { super::owned(OpenProcess(rights, 0, pid.number())) }.map(Self)
    }

    pub(crate) fn of_handle(handle: OwnedHandle) -> Self {
        Self(handle)
    }

    /// A handle on the process that a user has named by its number, or what is wrong with the number.
    pub fn of_user(number: u32) -> Result<(Pid, Self), String> {
        let pid = Pid::of_number(number).ok_or("not a process number")?;
        let handle = Self::open(pid).map_err(|error| match error.raw_os_error() {
            Some(code) if code == ERROR_INVALID_PARAMETER.cast_signed() => {
                "there is no such process (it may have ended already)".to_owned()
            }
            _ => error.to_string(),
        })?;
        match handle.has_ended() {
            Ok(false) => Ok((pid, handle)),
            Ok(true) => Err("it has ended already".to_owned()),
            Err(error) => Err(error.to_string()),
        }
    }

    /// A handle on this process itself.
    pub fn of_self() -> io::Result<Self> {
        Self::open(getpid())
    }

    /// Ends this very process (SIGKILL), or lets it go on (SIGCONT), which it does anyway. There is no other signal on Windows.
    pub fn send(&self, signal: Signal) -> io::Result<()> {
        match signal {
            // SAFETY: the handle is open.
            Signal::KILL => super::done(unsafe { TerminateProcess(self.as_raw_handle(), KILLED) }),
            Signal::CONT => Ok(()),
            _ => Err(io::ErrorKind::Unsupported.into()),
        }
    }

    /// Whether the process has ended.
    pub fn has_ended(&self) -> io::Result<bool> {
        // SAFETY: the handle is open, and nothing is waited for.
        match unsafe { WaitForSingleObject(self.as_raw_handle(), 0) } {
            WAIT_OBJECT_0 => Ok(true),
            WAIT_TIMEOUT => Ok(false),
            _ => Err(io::Error::last_os_error()),
        }
    }

    /// How it ended, once it has.
    pub fn ended(&self) -> io::Result<Ended> {
        let mut code = 0;
        // SAFETY: the handle is open, and the number is ours.
        super::done(unsafe { GetExitCodeProcess(self.as_raw_handle(), &raw mut code) })?;
        Ok(Ended::Exited(code))
    }
}

impl AsHandle for Pidfd {
    fn as_handle(&self) -> BorrowedHandle<'_> {
        self.0.as_handle()
    }
}

impl AsRawHandle for Pidfd {
    fn as_raw_handle(&self) -> RawHandle {
        self.0.as_raw_handle()
    }
}
