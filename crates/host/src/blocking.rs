//! For hosts without a runtime.

use std::fs::File;
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use nostray_pen::Ask;
use nostray_sys::poll::{Until, wait};

use crate::spawn::{Ends, Started, start};
use crate::{Error, Exit, PenSpec, reaper};

/// One child with its whole process tree, as [`crate::Pen`], with calls that wait.
///
/// ```standalone_crate
/// # nostray::guard::init();
/// use std::io::Write;
/// use nostray::{PenSpec, Stdio, blocking::Pen};
///
/// let mut pen = Pen::spawn(&PenSpec::builder("cat").stdout(Stdio::Inherited).build()?)?;
/// pen.stdin.take().expect("piped").write_all(b"hello\n")?;
/// assert!(pen.wait()?.success());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Pen {
    /// Its input, if it is piped. Dropping it is how a child is asked to end.
    pub stdin: Option<File>,
    /// Its output, if it is piped.
    pub stdout: Option<File>,
    /// Its errors, if they are piped.
    pub stderr: Option<File>,
    started: Option<Started>,
    exit: Option<Exit>,
}

/// How often to look whether the tree is gone, if its front was killed.
const POLL_INTERVAL: Duration = Duration::from_millis(20);

impl Pen {
    /// Starts a child. A program that is not there, or may not be executed, is an error ([`Error::Program`]), and nothing is started.
    pub fn spawn(spec: &PenSpec) -> Result<Self, Error> {
        let (started, Ends { stdin, stdout, stderr }) = start(&spec.child, spec.streams)?;
        let [stdin, stdout, stderr] = [stdin, stdout, stderr].map(|end| end.map(File::from));
        Ok(Self { stdin, stdout, stderr, started: Some(started), exit: None })
    }

    /// Its name on record, as `nostray ps` shows it.
    #[must_use]
    pub fn id(&self) -> Option<String> {
        self.started.as_ref().map(|started| started.id.to_string())
    }

    /// The number of the child's own process, once it is known; not in a pid namespace of its own.
    pub fn child_pid(&mut self) -> Option<i32> {
        self.started.as_mut().and_then(|started| started.report().child)
    }

    /// Waits until nothing is left of the child's tree.
    pub fn wait(&mut self) -> Result<Exit, Error> {
        self.wait_until(None)?.ok_or(Error::NoGuard)
    }

    /// The same, for no longer than this.
    pub fn wait_for(&mut self, time: Duration) -> Result<Option<Exit>, Error> {
        // A time that no clock can show is for ever.
        self.wait_until(Instant::now().checked_add(time))
    }

    fn wait_until(&mut self, deadline: Option<Instant>) -> Result<Option<Exit>, Error> {
        if let Some(exit) = &self.exit {
            return Ok(Some(exit.clone()));
        }
        let Some(started) = &mut self.started else { return Err(Error::NoGuard) };
        let left = || deadline.map(|at| at.saturating_duration_since(Instant::now()));
        while !started.reap() {
            let events = [(started.handle.as_fd(), Until::Readable)];
            wait(&events, left()).map_err(Error::during("watch the child"))?;
            if left() == Some(Duration::ZERO) && !started.reap() {
                return Ok(None);
            }
        }
        while !started.is_gone() {
            if left() == Some(Duration::ZERO) {
                return Ok(None);
            }
            std::thread::sleep(POLL_INTERVAL); // a record that goes has no event
            started.sweeper()();
        }
        self.exit = started.exit();
        self.started = None;
        Ok(self.exit.clone())
    }

    /// Ends the child politely, as [`crate::Pen::stop`] does, and waits until nothing is left.
    pub fn stop(&mut self, eof: Duration, term: Duration) -> Result<Exit, Error> {
        if self.stdin.take().is_some()
            && let Some(exit) = self.wait_for(eof)?
        {
            return Ok(exit);
        }
        self.ask(Ask::Stop);
        if let Some(exit) = self.wait_for(term)? {
            return Ok(exit);
        }
        self.kill();
        self.wait()
    }

    /// Ends every process of the tree at once. [`Pen::wait`] says when that is done.
    pub fn kill(&self) {
        self.ask(Ask::StopNow);
    }

    fn ask(&self, what: Ask) {
        if let Some(started) = &self.started {
            started.ask(what);
        }
    }
}

impl Drop for Pen {
    fn drop(&mut self) {
        if let Some(started) = self.started.take() {
            self.stdin = None;
            reaper::end_in_background(started, None);
        }
    }
}
