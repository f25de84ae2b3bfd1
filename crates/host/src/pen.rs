//! One contained child, for a host with an async runtime: any.

use std::time::Duration;

use nostray_pen::Ask;
#[cfg(feature = "supervisor")]
use nostray_sys::proc::Stat;
#[cfg(feature = "supervisor")]
use nostray_sys::process::Pid;

use crate::spawn::{Ends, Started, start};
use crate::spec::ChildSpec;
use crate::streams::{Stderr, Stdin, Stdout};
use crate::wakeup::{ended, sleep, timeout, unblock};
use crate::{Error, Exit, PenSpec, Stdio, reaper};

/// One child with its whole process tree. The tree ends when this value is dropped, with or without a runtime; when the
/// host ends, in any way; and when the pen is stopped.
///
/// ```standalone_crate
/// # nostray::guard::init();
/// # #[cfg(feature = "supervisor")]
/// # tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(async {
/// use nostray::{Pen, PenSpec};
/// use tokio::io::{AsyncReadExt, AsyncWriteExt};
///
/// let mut pen = Pen::spawn(&PenSpec::builder("cat").build()?)?;
/// let (mut stdin, mut stdout) = (pen.stdin.take().expect("piped"), pen.stdout.take().expect("piped"));
/// stdin.write_all(b"hello").await?;
/// drop(stdin); // the end of its input is what a child is asked to end by
/// let mut text = String::new();
/// stdout.read_to_string(&mut text).await?;
/// assert_eq!(text, "hello");
/// assert!(pen.wait().await?.success());
/// # Ok::<(), Box<dyn std::error::Error>>(()) })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Pen {
    /// Its input, if it is piped. Dropping it is how a child is asked to end.
    pub stdin: Option<Stdin>,
    /// Its output, if it is piped.
    pub stdout: Option<Stdout>,
    /// Its errors, if they are piped.
    pub stderr: Option<Stderr>,
    /// Until nothing is left of it.
    started: Option<Started>,
    exit: Option<Exit>,
}

/// How often to look whether the tree is gone, if its front was killed.
const POLL_INTERVAL: Duration = Duration::from_millis(20);

impl Pen {
    /// Starts a child. A program that is not there, or may not be executed, is an error ([`Error::Program`]), and nothing is started.
    pub fn spawn(spec: &PenSpec) -> Result<Self, Error> {
        Self::start(&spec.child, spec.streams)
    }

    pub(crate) fn start(child: &ChildSpec, streams: [Stdio; 3]) -> Result<Self, Error> {
        let (started, Ends { stdin, stdout, stderr }) = start(child, streams)?;
        let (stdin, stdout, stderr) = (stdin.map(Stdin::new), stdout.map(Stdout::new), stderr.map(Stderr::new));
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

    /// Waits until nothing is left of the child's tree. Its input is left as it is: a child that waits for more of it waits on.
    ///
    /// Cancelling it changes nothing.
    pub async fn wait(&mut self) -> Result<Exit, Error> {
        if let Some(exit) = &self.exit {
            return Ok(exit.clone());
        }
        let Some(started) = &mut self.started else { return Err(Error::NoGuard) };
        while !started.reap() {
            ended(&started.handle).await.map_err(Error::during("watch the child"))?;
        }
        while !started.is_gone() {
            // A record that is removed has no event.
            sleep(POLL_INTERVAL).await.map_err(Error::during("watch the child"))?;
            // If there is no thread to be had, the next round tries again.
            unblock(started.sweeper()).await.ok();
        }
        let exit = started.exit();
        self.started = None;
        self.exit = exit.clone();
        exit.ok_or(Error::NoGuard)
    }

    /// Ends the child politely: its input is closed; if it has not ended after `eof`, every process of its tree gets SIGTERM; after `term`,
    /// SIGKILL. Neither is longer than what the [`PenSpec`] says. Returns when nothing is left.
    pub async fn stop(&mut self, eof: Duration, term: Duration) -> Result<Exit, Error> {
        let is_piped = self.stdin.take().is_some();
        let failed = || Error::during("watch the child");
        if is_piped && let Some(exit) = timeout(eof, self.wait()).await.map_err(failed())? {
            return exit;
        }
        self.ask(Ask::Stop);
        if let Some(exit) = timeout(term, self.wait()).await.map_err(failed())? {
            return exit;
        }
        self.kill();
        self.wait().await
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

/// For the driver of a lease.
#[cfg(feature = "supervisor")]
impl Pen {
    /// Asks it to end, as the end of its input does.
    pub(crate) fn ask_to_stop(&self) {
        self.ask(Ask::Stop);
    }

    /// A handle on what ends when nothing is left.
    pub(crate) fn front(&self) -> Option<&nostray_sys::Pidfd> {
        self.started.as_ref().map(|started| &*started.handle)
    }

    /// How the child has ended, if its guard has reported that, while something of its tree may be left. The guard reports a child that
    /// was never executed only at the very end.
    pub(crate) fn ended(&mut self) -> Option<Exit> {
        let report = self.started.as_mut()?.report();
        (report.ended.is_some() && report.not_executed.is_none()).then(|| Exit::new(report, None))
    }

    /// Whether the child or its front is just ending or has ended, whether the guard has reported that or not. In a pid namespace of its own the child
    /// cannot be seen.
    pub(crate) fn is_ending(&mut self) -> bool {
        let Some(started) = &mut self.started else { return true };
        let child = started.report().child.and_then(Pid::from_raw);
        started.handle.has_ended().unwrap_or(true)
            || child.is_some_and(|child| Stat::of(child).is_none_or(|stat| stat.is_ending()))
    }

    /// Lets go of it: it ends, and then something is done. Without a runtime, too.
    pub(crate) fn end_in_background(mut self, then: Box<dyn FnOnce() + Send>) {
        match self.started.take() {
            Some(started) => {
                self.stdin = None;
                reaper::end_in_background(started, Some(then));
            }
            None => then(),
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
