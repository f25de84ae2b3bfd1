//! One contained child, for a host with a tokio runtime.

use std::time::Duration;

use nostray_pen::Ask;
use nostray_sys::proc::Stat;
use nostray_sys::process::Pid;
use tokio::net::unix::pipe;
use tokio::time::timeout;

use crate::spawn::{Ends, Started, start};
use crate::watched::watched;
use crate::{Error, Exit, Spec, reaper};

/// The host's end of a child's input.
pub type Stdin = pipe::Sender;
/// The host's end of a child's output.
pub type Stdout = pipe::Receiver;
/// The host's end of a child's errors.
pub type Stderr = pipe::Receiver;

/// One child with its whole process tree, which ends with this value: when it is dropped, with or without a runtime; when the host
/// ends in whatever way; and when it is stopped.
///
/// ```standalone_crate
/// # nostray::guard::init();
/// # tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(async {
/// use nostray::{Pen, Spec};
/// use tokio::io::{AsyncReadExt, AsyncWriteExt};
///
/// let mut pen = Pen::spawn(&Spec::builder("cat").build()?)?;
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

/// How often to look whether those are gone whose front was killed.
const LOOK: Duration = Duration::from_millis(20);

impl Pen {
    /// Starts a child. To be called in a runtime.
    pub fn spawn(spec: &Spec) -> Result<Self, Error> {
        tokio::runtime::Handle::try_current().map_err(|_| Error::NoRuntime)?;
        let (started, Ends { stdin, stdout, stderr }) = start(spec)?;
        // From here on dropping it ends the child.
        let mut pen = Self { stdin: None, stdout: None, stderr: None, started: Some(started), exit: None };
        let failed = Error::during("set up the child's streams");
        (|| {
            pen.stdin = stdin.map(pipe::Sender::from_owned_fd).transpose()?;
            pen.stdout = stdout.map(pipe::Receiver::from_owned_fd).transpose()?;
            pen.stderr = stderr.map(pipe::Receiver::from_owned_fd).transpose()?;
            Ok(())
        })()
        .map_err(failed)?;
        Ok(pen)
    }

    /// Its name on record, as `nostray ps` shows it.
    #[must_use]
    pub fn id(&self) -> Option<String> {
        self.started.as_ref().map(|started| started.id.to_string())
    }

    /// The number of the child's own process, once it is known; not in a pid namespace of its own.
    pub fn child_pid(&mut self) -> Option<i32> {
        self.started.as_mut().and_then(|started| started.told().child)
    }

    /// Waits until nothing is left of the child's tree. Its input is left as it is: a child that waits for more of it waits on.
    ///
    /// Cancelling it changes nothing.
    pub async fn wait(&mut self) -> Result<Exit, Error> {
        if let Some(exit) = &self.exit {
            return Ok(exit.clone());
        }
        let Some(started) = &mut self.started else { return Err(Error::NoGuard) };
        if !started.reap() {
            let watched = watched(&started.handle).map_err(Error::during("watch the child"))?;
            while !started.reap() {
                watched.readable().await.map_err(Error::during("watch the child"))?.clear_ready();
            }
        }
        while !started.is_gone() {
            tokio::time::sleep(LOOK).await; // a record that goes has no event
            // Whether the runtime has a place for it or not: it is tried again.
            tokio::task::spawn_blocking(started.sweeper()).await.ok();
        }
        let exit = started.exit();
        self.started = None;
        self.exit = exit.clone();
        exit.ok_or(Error::NoGuard)
    }

    /// Ends the child politely: its input is closed; if it has not ended after `eof`, every process of its tree gets SIGTERM; after `term`,
    /// SIGKILL. Neither is longer than what the [`Spec`] says. Returns when nothing is left.
    pub async fn stop(&mut self, eof: Duration, term: Duration) -> Result<Exit, Error> {
        let is_piped = self.stdin.take().is_some();
        if is_piped && let Ok(ended) = timeout(eof, self.wait()).await {
            return ended;
        }
        self.ask(Ask::Stop);
        if let Ok(ended) = timeout(term, self.wait()).await {
            return ended;
        }
        self.kill();
        self.wait().await
    }

    /// Ends every process of the tree at once. [`Pen::wait`] says when that is done.
    pub fn kill(&self) {
        self.ask(Ask::StopNow);
    }

    /// Asks it to end, as the end of its input does.
    pub(crate) fn ask_to_stop(&self) {
        self.ask(Ask::Stop);
    }

    /// A handle on what ends when nothing is left.
    pub(crate) fn front(&self) -> Option<&nostray_sys::Pidfd> {
        self.started.as_ref().map(|started| &*started.handle)
    }

    /// How the child has ended, if its guard has told, while something of its tree may be left. Of one that was never executed nothing is
    /// told before all is over.
    pub(crate) fn ended(&mut self) -> Option<Exit> {
        let told = self.started.as_mut()?.told();
        (told.ended.is_some() && told.not_executed.is_none()).then(|| Exit::new(told, None))
    }

    /// Whether the child or its front is just ending or has ended, whether that was told or not. In a pid namespace of its own the child
    /// cannot be seen.
    pub(crate) fn is_ending(&mut self) -> bool {
        let Some(started) = &mut self.started else { return true };
        let child = started.told().child.and_then(Pid::from_raw);
        started.handle.has_ended().unwrap_or(true)
            || child.is_some_and(|child| Stat::of(child).is_none_or(|stat| stat.is_ending()))
    }

    fn ask(&self, what: Ask) {
        if let Some(started) = &self.started {
            started.ask(what);
        }
    }

    /// Lets go of it: it ends, and then something is done. Without a runtime, too.
    pub(crate) fn see_off(mut self, then: Box<dyn FnOnce() + Send>) {
        match self.started.take() {
            Some(started) => {
                self.stdin = None;
                reaper::see_off(started, Some(then));
            }
            None => then(),
        }
    }
}

impl Drop for Pen {
    fn drop(&mut self) {
        if let Some(started) = self.started.take() {
            self.stdin = None;
            reaper::see_off(started, None);
        }
    }
}
