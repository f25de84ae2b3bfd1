//! What only this user may open: folders, and named events.

use std::io;
use std::os::windows::ffi::OsStrExt;
use std::os::windows::io::{AsRawHandle, BorrowedHandle};
use std::path::Path;

use windows_sys::Win32::Foundation::LocalFree;
use windows_sys::Win32::Security::Authorization::{
    ConvertSidToStringSidW, ConvertStringSecurityDescriptorToSecurityDescriptorW, GetNamedSecurityInfoW,
    SDDL_REVISION_1, SE_FILE_OBJECT,
};
use windows_sys::Win32::Security::{
    EqualSid, GetTokenInformation, OWNER_SECURITY_INFORMATION, PSECURITY_DESCRIPTOR, PSID, SECURITY_ATTRIBUTES,
    TOKEN_QUERY, TOKEN_USER, TokenUser,
};
use windows_sys::Win32::Storage::FileSystem::CreateDirectoryW;
use windows_sys::Win32::System::Threading::{GetCurrentProcess, OpenProcessToken};

/// The account of this process, as the system has it.
struct User(Vec<u64>);

impl User {
    fn current() -> io::Result<Self> {
        // SAFETY: takes nothing, and returns the pseudo handle of this process, which is always valid.
        Self::of(unsafe { BorrowedHandle::borrow_raw(GetCurrentProcess()) })
    }

    fn of(process: BorrowedHandle<'_>) -> io::Result<Self> {
        let mut token = std::ptr::null_mut();
        // SAFETY: the handle is open as long as it is borrowed; the new handle is ours.
        let token = unsafe {
            super::done(OpenProcessToken(process.as_raw_handle(), TOKEN_QUERY, &raw mut token))?;
            super::owned(token)?
        };
        let mut size = 0;
        // SAFETY: without room, the call tells how much is needed. The second one writes no more than there is. Eight bytes are aligned
        // as the structure at the head has to be.
        unsafe {
            GetTokenInformation(token.as_raw_handle(), TokenUser, std::ptr::null_mut(), 0, &raw mut size);
            let mut room = vec![0_u64; (size as usize).div_ceil(8).max(8)];
            let bytes = u32::try_from(room.len() * 8).unwrap_or(size);
            let to = room.as_mut_ptr().cast();
            super::done(GetTokenInformation(token.as_raw_handle(), TokenUser, to, bytes, &raw mut size))?;
            Ok(Self(room))
        }
    }

    fn sid(&self) -> PSID {
        // SAFETY: the system has written this structure at the head; it points into the same memory.
        unsafe { (*self.0.as_ptr().cast::<TOKEN_USER>()).User.Sid }
    }

    fn text(&self) -> io::Result<String> {
        let mut text = std::ptr::null_mut();
        // SAFETY: the identifier is valid. The text ends with a zero, and is freed after it was copied.
        unsafe {
            super::done(ConvertSidToStringSidW(self.sid(), &raw mut text))?;
            let length = (0..).take_while(|at| *text.add(*at) != 0).count();
            let copied = String::from_utf16_lossy(std::slice::from_raw_parts(text, length));
            LocalFree(text.cast());
            Ok(copied)
        }
    }
}

/// Says to a call that makes something that only this user may open it.
pub(crate) struct Private {
    descriptor: PSECURITY_DESCRIPTOR,
    attributes: SECURITY_ATTRIBUTES,
}

impl Private {
    pub(crate) fn new() -> io::Result<Self> {
        // Protected: nothing is inherited from above. All rights to this user alone, here and in what is made inside.
        let words = super::wide(format!("D:P(A;OICI;GA;;;{})", User::current()?.text()?))?;
        let mut descriptor = std::ptr::null_mut();
        // SAFETY: the text ends with a zero; the descriptor is ours to free.
        super::done(unsafe {
            ConvertStringSecurityDescriptorToSecurityDescriptorW(
                words.as_ptr(),
                SDDL_REVISION_1,
                &raw mut descriptor,
                std::ptr::null_mut(),
            )
        })?;
        let attributes = SECURITY_ATTRIBUTES {
            nLength: size_of::<SECURITY_ATTRIBUTES>() as u32,
            lpSecurityDescriptor: descriptor,
            bInheritHandle: 0,
        };
        Ok(Self { descriptor, attributes })
    }

    pub(crate) fn attributes(&self) -> *const SECURITY_ATTRIBUTES {
        &raw const self.attributes
    }
}

impl Drop for Private {
    fn drop(&mut self) {
        // SAFETY: it came from the system, which says that it is freed so.
        unsafe { LocalFree(self.descriptor) };
    }
}

/// Makes a folder that only this user may look into.
pub(super) fn make_folder(path: &Path) -> io::Result<()> {
    let private = Private::new()?;
    // SAFETY: path and attributes stay until the call returns.
    super::done(unsafe { CreateDirectoryW(super::wide(path)?.as_ptr(), private.attributes()) })
}

/// Whether a process acts for this user.
pub(super) fn is_own_process(process: BorrowedHandle<'_>) -> io::Result<bool> {
    let (user, other) = (User::current()?, User::of(process)?);
    // SAFETY: both identifiers are valid as long as their users are there.
    Ok(unsafe { EqualSid(user.sid(), other.sid()) } != 0)
}

/// Whether a folder or file belongs to this user (or to the administrators that this user is one of, as Windows does for elevated
/// processes: that is the user's as well).
pub(super) fn is_own(path: &Path) -> io::Result<bool> {
    let user = User::current()?;
    let path: Vec<u16> = path.as_os_str().encode_wide().chain([0]).collect();
    let (mut owner, mut descriptor) = (std::ptr::null_mut(), std::ptr::null_mut());
    // SAFETY: the path ends with a zero; the identifier points into the descriptor, which is freed last.
    unsafe {
        let answer = GetNamedSecurityInfoW(
            path.as_ptr(),
            SE_FILE_OBJECT,
            OWNER_SECURITY_INFORMATION,
            &raw mut owner,
            std::ptr::null_mut(),
            std::ptr::null_mut(),
            std::ptr::null_mut(),
            &raw mut descriptor,
        );
        if answer != 0 {
            return Err(io::Error::from_raw_os_error(answer.cast_signed()));
        }
        let same = EqualSid(owner, user.sid()) != 0 || is_administrators(owner);
        LocalFree(descriptor);
        Ok(same)
    }
}

/// Whether an identifier is that of the group of administrators.
///
/// # Safety
/// It is a valid identifier.
unsafe fn is_administrators(sid: PSID) -> bool {
    use windows_sys::Win32::Security::{IsWellKnownSid, WinBuiltinAdministratorsSid};
    // SAFETY: the caller has promised it.
    unsafe { IsWellKnownSid(sid, WinBuiltinAdministratorsSid) != 0 }
}

#[cfg(test)]
mod tests {
    use std::os::windows::io::AsHandle;

    use windows_sys::Win32::Security::Authorization::{
        ConvertSecurityDescriptorToStringSecurityDescriptorW, GetSecurityInfo, SE_KERNEL_OBJECT,
    };
    use windows_sys::Win32::Security::DACL_SECURITY_INFORMATION;

    use super::*;
    use crate::named_event::Event;

    /// The access list of an event, or of what is open, in the words of the system.
    fn access_list_of(handle: BorrowedHandle<'_>, kind: i32) -> String {
        let (mut descriptor, mut text, mut length) = (std::ptr::null_mut(), std::ptr::null_mut(), 0);
        // SAFETY: the handle is open. The descriptor and the text are ours to free, and the text is as long as is said.
        unsafe {
            let (none, dacl) = (std::ptr::null_mut(), DACL_SECURITY_INFORMATION);
            let (owner, group, list, audit) = (none, none, std::ptr::null_mut(), std::ptr::null_mut());
            let raw = handle.as_raw_handle();
            let answer = GetSecurityInfo(raw, kind, dacl, owner, group, list, audit, &raw mut descriptor);
            assert_eq!(answer, 0);
            let (to, size) = (&raw mut text, &raw mut length);
            let told =
                ConvertSecurityDescriptorToStringSecurityDescriptorW(descriptor, SDDL_REVISION_1, dacl, to, size);
            super::super::done(told).expect("told");
            let said = String::from_utf16_lossy(std::slice::from_raw_parts(text, length as usize));
            LocalFree(text.cast());
            LocalFree(descriptor);
            said.trim_end_matches('\0').to_owned()
        }
    }

    #[test]
    fn a_named_event_is_for_this_user_alone() {
        let event = Event::named(&format!("nostray-test-{}", crate::process::random())).expect("made");
        let list = access_list_of(event.as_handle(), SE_KERNEL_OBJECT);
        let user = User::current().and_then(|user| user.text()).expect("a user");
        assert!(list.starts_with("D:P(A;") && list.ends_with(&format!(";;;{user})")), "{list}");
        assert_eq!(list.matches('(').count(), 1, "no one else: {list}");
        // A control: without these words, the system has a list of its own or none.
        let open = access_list_of(Event::new().expect("made").as_handle(), SE_KERNEL_OBJECT);
        assert_ne!(open, list);
    }

    #[test]
    fn a_folder_is_for_this_user_alone() {
        use std::os::windows::fs::OpenOptionsExt;
        use windows_sys::Win32::Storage::FileSystem::FILE_FLAG_BACKUP_SEMANTICS;
        let path = std::env::temp_dir().join(format!("nostray-test-{}", crate::process::random()));
        make_folder(&path).expect("made");
        let folder = std::fs::File::options().read(true).custom_flags(FILE_FLAG_BACKUP_SEMANTICS).open(&path);
        let list = access_list_of(folder.expect("open").as_handle(), SE_FILE_OBJECT);
        let is_own = is_own(&path);
        std::fs::remove_dir(&path).expect("removed");
        let user = User::current().and_then(|user| user.text()).expect("a user");
        // Wine, which keeps the mode of a file alone, names the system as well.
        let is_allowed = |entry: &&str| entry.ends_with(&format!("{user})")) || entry.ends_with(";;;SY)");
        let others: Vec<&str> = list.split('(').skip(1).filter(|entry| !is_allowed(entry)).collect();
        assert!(list.starts_with("D:") && list.contains(&user) && others.is_empty(), "{list}");
        assert!(is_own.expect("known"));
        assert!(make_folder(&path.join("below")).is_err(), "there is nothing above it");
    }
}
