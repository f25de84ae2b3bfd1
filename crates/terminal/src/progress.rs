//! One line on a terminal, written anew each second, that says what a command waits for.

use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Quick work shows nothing.
const FIRST: Duration = Duration::from_millis(300);
const INTERVAL: Duration = Duration::from_secs(1);

/// Shows the line until it is dropped, and removes it then. Does nothing where standard output is no terminal.
#[derive(Debug)]
pub struct Progress {
    thread: Option<(Sender<()>, JoinHandle<()>)>,
}

impl Progress {
    /// `say` makes the line, of how long the work has taken so far.
    pub fn start(say: impl Fn(Duration) -> String + Send + 'static) -> Self {
        let begin = || {
            let (done, is_done) = channel();
            let thread = std::thread::Builder::new().name("progress".to_owned());
            let thread = thread.spawn(move || show_until(&is_done, &say)).ok()?;
            Some((done, thread))
        };
        Self { thread: crate::is_live().then(begin).flatten() }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if let Some((done, thread)) = self.thread.take() {
            drop(done);
            thread.join().ok();
        }
    }
}

fn show_until(is_done: &Receiver<()>, say: &dyn Fn(Duration) -> String) {
    let (since, mut pause, mut is_shown) = (Instant::now(), FIRST, false);
    while let Err(RecvTimeoutError::Timeout) = is_done.recv_timeout(pause) {
        let line = fitting(&say(since.elapsed()), crate::width());
        is_shown = crate::write(format!("\r\x1b[K{line}").as_bytes()).is_ok();
        pause = INTERVAL;
    }
    if is_shown {
        crate::write(b"\r\x1b[K").ok();
    }
}

/// A line that is wider than the terminal would be left behind when the next one is written over it.
fn fitting(line: &str, width: Option<usize>) -> String {
    line.chars().filter(|c| !c.is_control()).take(width.unwrap_or(80).saturating_sub(1)).collect()
}

#[cfg(test)]
mod tests {
    use super::fitting;

    #[test]
    fn a_line_never_wraps() {
        assert_eq!(fitting(&"x".repeat(100), Some(80)).len(), 79);
        assert_eq!(fitting("a\u{1b}[1mb\n", Some(80)), "a[1mb");
    }
}
