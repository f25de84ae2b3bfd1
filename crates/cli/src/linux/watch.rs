//! `nostray ps --watch`: the same again and again, in place on a terminal.

use std::io;
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use nostray_sys::poll::{Until, wait};
use nostray_sys::signal::{self, Signal, SignalFd, SignalSet};
use nostray_terminal::{self as terminal, ExitCode};

/// Another screen, which leaves what is on the first one; no cursor; lines that are too long are cut instead of continued.
const ENTER: &str = "\x1b[?1049h\x1b[?25l\x1b[?7l";
const LEAVE: &str = "\x1b[?7h\x1b[?25h\x1b[?1049l";
/// To the left upper corner.
const HOME: &str = "\x1b[H";
/// Clears the rest of the line, or of the screen.
const CLEAR_LINE: &str = "\x1b[K";
const CLEAR_BELOW: &str = "\x1b[J";

/// Draws until SIGINT, or until standard output is closed. `in_place`: on a terminal, over what was drawn before.
pub(crate) fn watch(interval: Duration, in_place: bool, draw: &mut dyn FnMut() -> String) -> ExitCode {
    let signals = match Signals::new() {
        Ok(signals) => signals,
        Err(error) => {
            terminal::complain(&format_args!("cannot wait for signals: {error}"));
            return ExitCode::from(nostray_pen::OWN_FAILURE);
        }
    };
    let mut screen = Screen { is_live: in_place && terminal::is_live(), is_first: true };
    let ended = screen.enter().and_then(|()| redraw(interval, &signals, &mut screen, draw));
    // If the terminal is gone, there is nothing to restore.
    screen.leave().ok();
    match ended {
        Ok(code) => code,
        // The reader has closed the pipe, or the terminal is gone.
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe || !is_open() => ExitCode::SUCCESS,
        Err(error) => {
            terminal::complain(&format_args!("cannot write to standard output: {error}"));
            ExitCode::from(2)
        }
    }
}

fn redraw(
    interval: Duration,
    signals: &Signals,
    screen: &mut Screen,
    draw: &mut dyn FnMut() -> String,
) -> io::Result<ExitCode> {
    loop {
        screen.show(&draw())?;
        let next = Instant::now() + interval;
        loop {
            match signals.wait_until(next)? {
                Event::Time => break,
                Event::Closed => return Ok(ExitCode::SUCCESS),
                Event::Signal(Signal::WINCH) if screen.is_live => break,
                Event::Signal(Signal::WINCH) => {}
                Event::Signal(Signal::TSTP) => {
                    screen.leave()?;
                    signal::send_to_self(Signal::STOP)?;
                    // Continued.
                    screen.enter()?;
                    break;
                }
                // The only way to end it, so this is no failure.
                Event::Signal(Signal::INT) => return Ok(ExitCode::SUCCESS),
                Event::Signal(other) => return Ok(ExitCode::from(128 + u8::try_from(other.as_raw()).unwrap_or(0))),
            }
        }
    }
}

/// Whether standard output can still be written to.
fn is_open() -> bool {
    let closed = wait(&[(io::stdout().as_fd(), Until::HungUp)], Some(Duration::ZERO));
    closed.is_ok_and(|closed| closed != [true])
}

enum Event {
    Time,
    Signal(Signal),
    /// Standard output is a pipe without a reader, or a terminal that is gone.
    Closed,
}

/// The signals that would end or stop this process without restoring the terminal, and the one of a new size.
struct Signals(SignalFd);

impl Signals {
    fn new() -> io::Result<Self> {
        // One that is ignored, as below `nohup`, stays ignored; blocked, it would arrive all the same.
        let all = [Signal::INT, Signal::TERM, Signal::HUP, Signal::QUIT, Signal::TSTP, Signal::WINCH];
        let wanted = all.into_iter().filter(|signal| !signal::is_ignored(*signal));
        let set = wanted.fold(SignalSet::empty(), SignalSet::with);
        set.set_as_mask()?;
        Ok(Self(SignalFd::new(&set)?))
    }

    fn wait_until(&self, deadline: Instant) -> io::Result<Event> {
        loop {
            if let Some(arrived) = self.0.next()? {
                return Ok(Event::Signal(arrived.signal));
            }
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Ok(Event::Time);
            }
            let stdout = io::stdout();
            let events = [(self.0.as_fd(), Until::Readable), (stdout.as_fd(), Until::HungUp)];
            if let [false, true] = wait(&events, Some(left))?[..] {
                return Ok(Event::Closed);
            }
        }
    }
}

struct Screen {
    /// What was written can be written over.
    is_live: bool,
    /// Nothing was written so far.
    is_first: bool,
}

impl Screen {
    fn enter(&self) -> io::Result<()> {
        if self.is_live { terminal::write(ENTER.as_bytes()) } else { Ok(()) }
    }

    fn leave(&self) -> io::Result<()> {
        if self.is_live { terminal::write(LEAVE.as_bytes()) } else { Ok(()) }
    }

    fn show(&mut self, text: &str) -> io::Result<()> {
        let is_first = std::mem::replace(&mut self.is_first, false);
        if self.is_live {
            return terminal::write(in_place(text, terminal::height()).as_bytes());
        }
        // An empty line keeps one table from the next, where a person may read them.
        let gap = if is_first { "" } else { "\n" };
        terminal::write(format!("{gap}{text}").as_bytes())
    }
}

/// Over what was drawn before, in one write so that nothing flickers, and with no more lines than the terminal shows.
fn in_place(text: &str, height: Option<usize>) -> String {
    let mut lines: Vec<&str> = text.lines().collect();
    let too_many = height.filter(|height| lines.len() > *height);
    let more = too_many.map(|height| {
        lines.truncate(height.saturating_sub(1));
        format!("… {} more lines", text.lines().count() - lines.len())
    });
    lines.extend(more.as_deref());
    // No line end behind the last line: it would scroll a full screen.
    format!("{HOME}{}{CLEAR_LINE}{CLEAR_BELOW}", lines.join(&format!("{CLEAR_LINE}\n")))
}

#[cfg(test)]
mod tests {
    use super::in_place;

    #[test]
    fn a_screen_is_drawn_over_and_never_scrolls() {
        assert_eq!(in_place("a\nb\n", None), "\x1b[Ha\x1b[K\nb\x1b[K\x1b[J");
        assert_eq!(in_place("a\nb\n", Some(2)), "\x1b[Ha\x1b[K\nb\x1b[K\x1b[J");
        assert_eq!(in_place("a\nb\nc\n", Some(2)), "\x1b[Ha\x1b[K\n… 2 more lines\x1b[K\x1b[J");
    }
}
