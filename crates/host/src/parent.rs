//! For programs that are children themselves, and cannot be wrapped: noticing that the parent is gone, by event and not by polling.
//!
//! A parent is known by its identity, so that neither a number that was used again nor a reaper that children are handed to is taken for
//! it. A parent that ended before [`Parent::current`] was called cannot be told from that reaper; call it early.

use std::os::fd::AsFd;
use std::sync::Arc;
use std::time::Duration;

use nostray_sys::poll::{Until, wait};
use nostray_sys::process::{Pid, getppid};
use nostray_sys::{Pidfd, Signal};

use crate::Error;
use crate::wakeup::ended;

/// The process that started this one.
#[derive(Debug)]
pub struct Parent {
    pid: Pid,
    handle: Arc<Pidfd>,
}

impl Parent {
    /// The parent as it is now.
    pub fn current() -> Result<Self, Error> {
        let gone =
            || std::io::Error::new(std::io::ErrorKind::NotFound, "it has ended, or is in another pid namespace");
        let failed = Error::during("watch the parent");
        let pid = match getppid() {
            Some(pid) => pid,
            None => return Err(failed(gone())),
        };
        let handle = Pidfd::open(pid).map_err(Error::during("watch the parent"))?;
        // Opened by number, so it is the parent only if that still has it.
        if getppid() == Some(pid) { Ok(Self { pid, handle: Arc::new(handle) }) } else { Err(failed(gone())) }
    }

    /// Its number.
    #[must_use]
    pub fn pid(&self) -> i32 {
        self.pid.as_raw_nonzero().get()
    }

    /// Waits until it is gone.
    pub async fn gone(&self) -> Result<(), Error> {
        while !self.is_gone() {
            ended(&self.handle).await.map_err(Error::during("watch the parent"))?;
        }
        Ok(())
    }

    /// The same for a program without a runtime.
    pub fn wait_until_gone(&self) -> Result<(), Error> {
        while !self.is_gone() {
            wait(&[(self.handle.as_fd(), Until::Readable)], None).map_err(Error::during("watch the parent"))?;
        }
        Ok(())
    }

    /// Whether it is gone.
    #[must_use]
    pub fn is_gone(&self) -> bool {
        self.handle.has_ended().unwrap_or(true)
    }
}

/// Resolves when the parent is gone.
///
/// ```
/// # async fn serve() {}
/// # tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(async {
/// tokio::select! {
///     () = serve() => {}
///     gone = nostray::parent::watch() => gone?,
/// }
/// # Ok::<(), nostray::Error>(()) })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub async fn watch() -> Result<(), Error> {
    Parent::current()?.gone().await
}

/// Ends this program when its parent is gone: by SIGTERM, as a user would, and five seconds later by SIGKILL. One line, for the
/// beginning of `main`; a thread of its own waits.
pub fn die_with_parent() -> Result<(), Error> {
    let parent = Parent::current()?;
    let work = move || {
        parent.wait_until_gone().ok();
        if let Ok(this) = Pidfd::of_self() {
            this.send(Signal::TERM).ok();
            // The time that a program has to end itself; if it does, this thread ends with it.
            std::thread::sleep(Duration::from_secs(5));
            this.send(Signal::KILL).ok();
        }
    };
    let thread = std::thread::Builder::new().name("nostray-parent".to_owned()).stack_size(64 << 10).spawn(work);
    thread.map(drop).map_err(Error::during("watch the parent"))
}
