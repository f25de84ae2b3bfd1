//! A control group (version 2) for one tree, where there is a folder that is ours to divide.
//!
//! It serves one purpose here: `cgroup.kill`, which ends a whole tree in one step that no fork can outrun.
//! It is never the proof that a tree is empty, since a process with the right can leave its group.

use std::fs::Metadata;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::fs::{Access, AtFlags, Mode, OFlags, access, accessat, mkdir, open, rmdir};

/// A group of our own, below the one we were started in.
#[derive(Debug)]
pub struct Cgroup {
    path: PathBuf,
    directory: OwnedFd,
}

/// Why there is no group.
#[derive(Debug)]
pub enum NoCgroup {
    /// No version 2 hierarchy is mounted, or this process is not in it.
    NotMounted,
    /// The folder belongs to a service manager that has not delegated it, or to the administrator.
    NotDelegated(PathBuf),
    /// The kernel is older than 5.14 and has no `cgroup.kill`.
    NoKill,
    /// The kernel refused.
    Refused(PathBuf, io::Error),
}

impl std::fmt::Display for NoCgroup {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::NotMounted => write!(f, "no cgroup v2 hierarchy is mounted"),
            Self::NotDelegated(path) => write!(f, "{} is not delegated to this user", path.display()),
            Self::NoKill => write!(f, "the kernel has no cgroup.kill (5.14 has)"),
            Self::Refused(path, error) => write!(f, "{}: {error}", path.display()),
        }
    }
}

impl Cgroup {
    /// Makes the group `name` below our own.
    pub fn create(name: &str) -> Result<Self, NoCgroup> {
        let own = own_folder().ok_or(NoCgroup::NotMounted)?;
        if !is_ours_to_divide(&own) {
            return Err(NoCgroup::NotDelegated(own));
        }
        let path = own.join(name);
        let refused = |error: rustix::io::Errno| NoCgroup::Refused(path.clone(), error.into());
        mkdir(&path, Mode::from_raw_mode(0o755)).map_err(refused)?;
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let directory = open(&path, flags, Mode::empty()).map_err(|error| {
            rmdir(&path).ok();
            refused(error)
        })?;
        let group = Self { path, directory };
        if accessat(&group.directory, "cgroup.kill", Access::WRITE_OK, AtFlags::empty()).is_err() {
            group.remove();
            return Err(NoCgroup::NoKill);
        }
        Ok(group)
    }

    /// Removes groups from the folder in which [`Cgroup::create`] makes them, if they are this user's, have no process,
    /// are older than this, and their name is meant. The age spares a group that is just being made.
    pub fn remove_empty(older_than: Duration, is_meant: impl Fn(&str) -> bool) {
        let Some(own) = own_folder().filter(|own| is_ours_to_divide(own)) else { return };
        for entry in std::fs::read_dir(own).into_iter().flatten().flatten() {
            let is_old =
                |found: &Metadata| found.modified().is_ok_and(|at| at.elapsed().is_ok_and(|age| age > older_than));
            if entry.file_name().to_str().is_some_and(&is_meant)
                && let Ok(found) = entry.metadata()
                && found.is_dir()
                && found.uid() == crate::process::user()
                && is_old(&found)
                && is_empty(&entry.path())
            {
                remove_with_inner(&entry.path(), 8);
            }
        }
    }

    /// Where it is.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Opens a group that exists already, made by a process that may be gone.
    pub fn open(path: &Path) -> io::Result<Self> {
        if !is_cgroup2(path) {
            return Err(io::ErrorKind::NotFound.into());
        }
        let directory = open(path, OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?;
        Ok(Self { path: path.to_owned(), directory })
    }

    /// The processes in it, those in groups that the tree made inside included.
    #[must_use]
    pub fn members(&self) -> Vec<crate::Pid> {
        let mut members = Vec::new();
        collect_members(&self.path, 8, &mut members);
        members
    }

    /// Stops the accounting of pressure in it, which costs each context switch of its processes a little. Linux can since 6.1.
    pub fn account_no_pressure(&self) {
        let flags = OFlags::WRONLY | OFlags::CLOEXEC;
        if let Ok(switch) = rustix::fs::openat(&self.directory, "cgroup.pressure", flags, Mode::empty()) {
            rustix::io::write(&switch, b"0").ok();
        }
    }

    /// Kills every process in it, also those that are being forked at this moment.
    pub fn kill(&self) -> io::Result<()> {
        std::fs::write(self.path.join("cgroup.kill"), "1")
    }

    /// Removes it, once it is empty. A group that stays costs little and is named for its pen; groups that the
    /// tree itself made inside go first.
    pub fn remove(&self) {
        remove_with_inner(&self.path, 8);
    }

    pub(crate) fn raw_fd(&self) -> RawFd {
        self.directory.as_raw_fd()
    }
}

fn collect_members(path: &Path, depth: u8, members: &mut Vec<crate::Pid>) {
    let list = std::fs::read_to_string(path.join("cgroup.procs")).unwrap_or_default();
    members.extend(list.lines().filter_map(|line| line.parse().ok()).filter_map(crate::Pid::from_raw));
    for inner in std::fs::read_dir(path).into_iter().flatten().flatten() {
        if depth > 0 && inner.file_type().is_ok_and(|kind| kind.is_dir()) {
            collect_members(&inner.path(), depth - 1, members);
        }
    }
}

/// Whether no process is in a group, nor in one inside of it.
fn is_empty(path: &Path) -> bool {
    let events = std::fs::read_to_string(path.join("cgroup.events")).unwrap_or_default();
    events.lines().any(|line| line == "populated 0")
}

fn remove_with_inner(path: &Path, depth: u8) {
    if rmdir(path).is_ok() || depth == 0 {
        return;
    }
    for inner in std::fs::read_dir(path).into_iter().flatten().flatten() {
        if inner.file_type().is_ok_and(|kind| kind.is_dir()) {
            remove_with_inner(&inner.path(), depth - 1);
        }
    }
    // Whether it went or is still in use: there is nothing else to try.
    rmdir(path).ok();
}

/// The folder of the group that this process is in.
fn own_folder() -> Option<PathBuf> {
    let membership = crate::proc::membership_of("self")?;
    let inside = membership.lines().find_map(|line| line.strip_prefix("0::/"))?;
    if inside.starts_with("..") {
        return None; // outside of what this cgroup namespace shows
    }
    let mount = mount_point()?;
    Some(if inside.is_empty() { mount } else { mount.join(inside) })
}

fn mount_point() -> Option<PathBuf> {
    // The two usual places, without reading the whole mount table: version 2 alone, and beside version 1.
    ["/sys/fs/cgroup", "/sys/fs/cgroup/unified"].into_iter().map(PathBuf::from).find(|path| is_cgroup2(path))
}

fn is_cgroup2(path: &Path) -> bool {
    const CGROUP2_SUPER_MAGIC: i64 = 0x6367_7270;
    #[allow(clippy::unnecessary_cast)] // its width differs between architectures
    rustix::fs::statfs(path).is_ok_and(|fs| fs.f_type as i64 == CGROUP2_SUPER_MAGIC)
}

/// A service manager owns the whole hierarchy but for what it has delegated. For an ordinary user the file
/// permissions say which that is. Root may write everywhere, so there the mark that systemd sets counts.
fn is_ours_to_divide(own: &Path) -> bool {
    if !rustix::process::geteuid().is_root() {
        return access(own, Access::WRITE_OK).is_ok() && access(own.join("cgroup.procs"), Access::WRITE_OK).is_ok();
    }
    !Path::new("/run/systemd/system").exists() || is_delegated(own)
}

fn is_delegated(own: &Path) -> bool {
    own.ancestors().take_while(|path| is_cgroup2(path)).any(|path| {
        ["trusted.delegate", "user.delegate"].iter().any(|name| {
            let mut value = [0u8; 4];
            rustix::fs::getxattr(path, *name, &mut value[..]).is_ok_and(|n| value.get(..n) == Some(b"1"))
        })
    })
}
