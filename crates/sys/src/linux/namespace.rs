//! A pid namespace, by which the kernel alone guarantees that nothing stays: when its first process
//! ends, the kernel kills every other one in it.

use std::io;

use rustix::mount::{MountFlags, MountPropagationFlags, mount, mount_change};
use rustix::process::{getgid, getuid};
use rustix::thread::UnshareFlags;

/// The children that this process forks from now on live in a pid namespace of their own, the first one as
/// its first process. An unprivileged user gets a user namespace around it, with the same ids inside.
pub fn enter_for_children() -> io::Result<()> {
    let flags = UnshareFlags::NEWPID | UnshareFlags::NEWNS;
    let (uid, gid) = (getuid().as_raw(), getgid().as_raw());
    match unshare(flags) {
        Ok(()) => return Ok(()),
        Err(rustix::io::Errno::PERM) => unshare(flags | UnshareFlags::NEWUSER)?,
        Err(error) => return Err(error.into()),
    }
    std::fs::write("/proc/self/setgroups", "deny")?;
    std::fs::write("/proc/self/uid_map", format!("{uid} {uid} 1"))?;
    std::fs::write("/proc/self/gid_map", format!("{gid} {gid} 1"))?;
    Ok(())
}

fn unshare(flags: UnshareFlags) -> rustix::io::Result<()> {
    // SAFETY: none of these flags unshares the descriptor table, which is what the function warns of.
    unsafe { rustix::thread::unshare_unsafe(flags) }
}

/// In the first process of the namespace: a `/proc` that shows the namespace's own processes.
pub fn mount_own_proc() -> io::Result<()> {
    mount_change("/", MountPropagationFlags::REC | MountPropagationFlags::DOWNSTREAM)?;
    mount("proc", "/proc", "proc", MountFlags::NOSUID | MountFlags::NODEV | MountFlags::NOEXEC, None)?;
    Ok(())
}

/// Why the machine forbids it, in words that say what to change.
#[must_use]
pub fn why_forbidden(error: &io::Error) -> &'static str {
    match error.raw_os_error() {
        Some(libc::EPERM) => {
            "this user may not make user namespaces (a container's seccomp filter, or the settings \
             kernel.unprivileged_userns_clone or kernel.apparmor_restrict_unprivileged_userns)"
        }
        Some(libc::ENOSPC | libc::EUSERS) => {
            "the limit of namespaces is reached (user.max_user_namespaces, user.max_pid_namespaces)"
        }
        Some(libc::EINVAL | libc::ENOSYS) => "the kernel was built without pid namespaces",
        Some(libc::EACCES) => "a security module forbids it",
        _ => "the kernel refused",
    }
}
