//! Files and folders of ours in places that other processes can reach.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::windows::fs::OpenOptionsExt;
use std::os::windows::io::AsRawHandle;
use std::path::{Path, PathBuf};

use windows_sys::Win32::Storage::FileSystem::{
    BY_HANDLE_FILE_INFORMATION, FILE_FLAG_BACKUP_SEMANTICS, FILE_FLAG_OPEN_REPARSE_POINT, GetFileInformationByHandle,
};

/// A file that only this user reads: what lies in a private folder is private here.
pub fn private(options: &mut OpenOptions) -> &mut OpenOptions {
    options
}

/// The same for a file that other users may read.
pub fn public(options: &mut OpenOptions) -> &mut OpenOptions {
    options
}

/// For opening a file that may be something else: not through a link.
pub fn not_through_a_link(options: &mut OpenOptions) -> &mut OpenOptions {
    options.custom_flags(FILE_FLAG_OPEN_REPARSE_POINT)
}

/// Makes a folder that only this user may look into.
pub fn make_private_folder(path: &Path) -> io::Result<()> {
    super::private::make_folder(path)
}

/// An error if this is not a folder of this user; or a link to one.
pub fn is_own_folder(path: &Path) -> io::Result<()> {
    let refuse = |why: &str| Err(io::Error::new(io::ErrorKind::PermissionDenied, why));
    if !std::fs::symlink_metadata(path)?.is_dir() {
        return refuse("is not a directory");
    }
    if !super::private::is_own(path)? {
        return refuse("belongs to another user");
    }
    Ok(())
}

/// Whether an open file is this user's. It is opened in a folder that only this user may write to.
pub fn is_own_file(file: &File) -> io::Result<bool> {
    file.metadata().map(|_| true)
}

/// Names one file, whatever it is called, and one state of it.
pub type Stamp = (u64, u64, i64, i64);

/// The file behind a name, and when it was last written.
#[must_use]
pub fn stamp_of(path: &Path) -> Option<Stamp> {
    let file = File::options()
        .access_mode(0)
        .custom_flags(FILE_FLAG_OPEN_REPARSE_POINT | FILE_FLAG_BACKUP_SEMANTICS)
        .open(path)
        .ok()?;
    let found = information(&file).ok()?;
    let written = found.ftLastWriteTime;
    let (device, number) = id(&found);
    Some((device, number, i64::from(written.dwHighDateTime), i64::from(written.dwLowDateTime)))
}

/// Volume and number of an open file: the head of its stamp.
pub fn id_of(file: &File) -> io::Result<(u64, u64)> {
    information(file).map(|found| id(&found))
}

fn id(found: &BY_HANDLE_FILE_INFORMATION) -> (u64, u64) {
    let number = u64::from(found.nFileIndexHigh) << 32 | u64::from(found.nFileIndexLow);
    (found.dwVolumeSerialNumber.into(), number)
}

fn information(file: &File) -> io::Result<BY_HANDLE_FILE_INFORMATION> {
    // SAFETY: all-zero is valid; the handle is open as long as the file is borrowed.
    unsafe {
        let mut found: BY_HANDLE_FILE_INFORMATION = std::mem::zeroed();
        super::done(GetFileInformationByHandle(file.as_raw_handle(), &raw mut found))?;
        Ok(found)
    }
}

/// The file that a path leads to, through all links, in the form in which people write it.
pub fn real_path(path: &Path) -> io::Result<PathBuf> {
    let real = path.canonicalize()?;
    let plain = real.to_str().and_then(|text| text.strip_prefix(r"\\?\")).filter(|text| !text.starts_with("UNC"));
    Ok(plain.map_or_else(|| real.clone(), PathBuf::from))
}

/// How many names lead to a file.
pub(crate) fn names_of(file: &File) -> io::Result<u32> {
    information(file).map(|found| found.nNumberOfLinks)
}

/// The folder for what programs keep of a user on this machine.
#[must_use]
pub fn local_data_folder() -> Option<PathBuf> {
    let named = |name: &str| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    // A host may leave a variable out of the environment that it gives to its children.
    named("LOCALAPPDATA").or_else(|| named("USERPROFILE").map(|home| home.join("AppData").join("Local")))
}
