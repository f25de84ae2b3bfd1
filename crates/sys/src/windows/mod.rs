//! The system calls of Windows, under the names that those of Linux have where both mean the same.

pub mod clock;
pub mod descriptors;
pub mod exec;
pub mod files;
pub mod job;
pub mod named_event;
pub mod pidfd;
pub mod poll;
mod private;
pub mod proc;
pub mod process;
pub mod replace;
pub mod shared_words;
pub mod signal;
pub mod startup;
pub(crate) mod world;

use std::os::windows::io::{FromRawHandle, OwnedHandle};

use windows_sys::Win32::Foundation::{HANDLE, INVALID_HANDLE_VALUE};

/// What a call has returned, as a handle that is closed, or the reason why it is none.
///
/// # Safety
/// If it is a handle, no other code closes it.
unsafe fn owned(handle: HANDLE) -> std::io::Result<OwnedHandle> {
    if handle.is_null() || handle == INVALID_HANDLE_VALUE {
        return Err(std::io::Error::last_os_error());
    }
    // SAFETY: it is a handle, and the caller has promised the rest.
    Ok(unsafe { OwnedHandle::from_raw_handle(handle) })
}

/// What a call that returns a BOOL says.
fn done(answer: i32) -> std::io::Result<()> {
    if answer == 0 { Err(std::io::Error::last_os_error()) } else { Ok(()) }
}

/// Text for a call: UTF-16 with a zero behind it. Text with a zero inside is refused.
fn wide(text: impl AsRef<std::ffi::OsStr>) -> std::io::Result<Vec<u16>> {
    use std::os::windows::ffi::OsStrExt;
    let mut wide: Vec<u16> = text.as_ref().encode_wide().collect();
    if wide.contains(&0) {
        return Err(std::io::Error::new(std::io::ErrorKind::InvalidInput, "has a zero byte inside"));
    }
    wide.push(0);
    Ok(wide)
}
