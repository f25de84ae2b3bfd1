//! Finds the host and the launchers between host and front, and tells whether they still live.

use nostray_sys::Pidfd;
use nostray_sys::identity::Identity;
use nostray_sys::proc::Stat;
use nostray_sys::process::getpid;

use crate::reason::Role;
use crate::{Error, launcher};

/// The process that wants the child, and the launchers by which it started the front. **The end of any of them is the end of the host.**
#[derive(Debug)]
pub(crate) struct Host {
    /// `None` where no process has started this one that can be seen.
    process: Option<Watched>,
    /// The innermost first.
    launchers: Vec<(&'static str, Watched)>,
}

/// A process that is alive, and watched by identity.
#[derive(Debug)]
struct Watched {
    identity: Identity,
    handle: Pidfd,
}

/// So many launchers are looked past.
const MAX_LAUNCHERS: usize = 8;

impl Host {
    /// Finds the host. Windows never hands a process to another parent, but uses the number of a parent that has ended again: a parent
    /// that is younger than its child is none.
    pub(crate) fn find() -> Result<Self, Error> {
        let Some(own) = Stat::of(getpid()) else { return Ok(Self { process: None, launchers: Vec::new() }) };
        if own.has_lost_parent() {
            return Err(Error::HostGone);
        }
        let Some(mut process) = Watched::parent_of(&own)? else {
            return Ok(Self { process: None, launchers: Vec::new() });
        };
        let mut launchers = Vec::new();
        while launchers.len() < MAX_LAUNCHERS
            && let Some(name) = launcher::name_of(process.identity.pid)
            && let Some(stat) = Stat::of(process.identity.pid)
            // A launcher whose own parent has ended stands for the host: it may have been started to be left alone.
            && let Some(parent) = Watched::parent_of(&stat)?
        {
            launchers.push((name, std::mem::replace(&mut process, parent)));
        }
        Ok(Self { process: Some(process), launchers })
    }

    /// The host's identity, if the host can be seen.
    pub(crate) fn identity(&self) -> Option<Identity> {
        self.process.as_ref().map(|process| process.identity)
    }

    /// Handles on the host and on all launchers.
    pub(crate) fn handles(&self) -> impl Iterator<Item = (Role, &Pidfd)> {
        let role = |(name, process): &(&'static str, Watched)| Role::Launcher(name, process.identity.pid);
        let launchers = self.launchers.iter().map(move |launcher| (role(launcher), &launcher.1.handle));
        self.process.iter().map(|process| (Role::Host, &process.handle)).chain(launchers)
    }
}

/// The processes that have started this one, for a program that waits before it opens a pen.
#[derive(Debug)]
pub struct Starter(Host);

impl Starter {
    /// Finds them. An error if one of them has ended already.
    pub fn find() -> Result<Self, Error> {
        Host::find().map(Self)
    }

    /// The host, if it can be seen.
    #[must_use]
    pub fn host(&self) -> Option<Identity> {
        self.0.identity()
    }

    /// Handles on the host, and on the launchers between it and this process. The end of any of them is the end of the host.
    pub fn handles(&self) -> impl Iterator<Item = &Pidfd> {
        self.0.handles().map(|(_, handle)| handle)
    }
}

impl Watched {
    fn parent_of(child: &Stat) -> Result<Option<Self>, Error> {
        let Some(pid) = child.parent else { return Ok(None) };
        let Ok(handle) = Pidfd::open(pid) else { return Err(Error::HostGone) };
        // Looked at after the handle is there: from then on the number cannot be another process's.
        match handle.identity(pid) {
            Some(identity) if identity.start <= child.start => Ok(Some(Self { identity, handle })),
            _ => Err(Error::HostGone),
        }
    }
}
