//! The terminal: taken at the start, drawn on without ever waiting for it, and given back however this process ends.
//!
//! A normal end and the signals that can be caught run [`Screen::leave`]. A panic runs a hook, since the program does not unwind. After
//! SIGKILL, another process restores the terminal ([`crate::watcher`]).

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use nostray_sys::Signal;
use nostray_sys::descriptors::standard_input;
use nostray_sys::poll::{Until, wait};
use nostray_sys::signal;
use nostray_sys::stream::{Sink, own_terminal};
use nostray_sys::terminal_settings::TerminalSettings;
use ratatui::Terminal;

use crate::app::App;
use crate::backend::FrameBytes;
use crate::draw;
use crate::watcher::Watcher;

/// Another screen, which leaves what is on the first one; no cursor; lines that are too long are cut instead of continued.
const ENTER: &[u8] = b"\x1b[?1049h\x1b[?25l\x1b[?7l\x1b[2J";
const LEAVE: &[u8] = b"\x1b[?2026l\x1b[0m\x1b[?7h\x1b[?25h\x1b[?1049l";
/// A terminal that knows this shows a frame when it is whole.
const BEGIN_FRAME: &[u8] = b"\x1b[?2026h";
const END_FRAME: &[u8] = b"\x1b[?2026l";
/// A terminal that takes nothing for so long is given back as it is.
const LEAVE_TIMEOUT: Duration = Duration::from_secs(1);

/// How the terminal is given back.
#[derive(Debug, Clone)]
pub(crate) struct Restore {
    pub(crate) settings: TerminalSettings,
    pub(crate) sequence: &'static [u8],
}

/// What a panic has to restore.
static TAKEN: Mutex<Option<Restore>> = Mutex::new(None);

/// The terminal, while this process has it.
pub(crate) struct Screen {
    file: TerminalFile,
    terminal: Terminal<FrameBytes>,
    /// What was drawn and not written yet.
    unwritten: Vec<u8>,
    settings: TerminalSettings,
    watcher: Option<Watcher>,
    is_taken: bool,
}

impl Screen {
    /// Takes the terminal.
    pub(crate) fn enter() -> io::Result<Self> {
        let settings = TerminalSettings::of(standard_input())?;
        let file = TerminalFile::of_stdout()?;
        let restore = Restore { settings: settings.clone(), sequence: LEAVE };
        // Without another process (a limit), the terminal is not restored after SIGKILL, and everything else works.
        let watcher = Watcher::start(&file, &restore).ok();
        restore_on_panic();
        let Ok(terminal) = Terminal::new(FrameBytes::default());
        let mut screen = Self { file, terminal, unwritten: Vec::new(), settings, watcher, is_taken: false };
        screen.take()?;
        Ok(screen)
    }

    fn take(&mut self) -> io::Result<()> {
        // A user may have changed them while we were stopped.
        self.settings = TerminalSettings::of(standard_input())?;
        let restore = Restore { settings: self.settings.clone(), sequence: LEAVE };
        *TAKEN.lock().unwrap_or_else(PoisonError::into_inner) = Some(restore);
        if let Some(watcher) = &mut self.watcher {
            watcher.taken();
        }
        self.is_taken = true;
        self.settings.for_single_keys().apply_to(standard_input())?;
        self.unwritten.clear();
        self.unwritten.extend(ENTER);
        self.redraw_all();
        Ok(())
    }

    /// Gives the terminal back.
    pub(crate) fn leave(&mut self) -> io::Result<()> {
        if !std::mem::replace(&mut self.is_taken, false) {
            return Ok(());
        }
        let result = give_back(&self.file, &Restore { settings: self.settings.clone(), sequence: LEAVE });
        *TAKEN.lock().unwrap_or_else(PoisonError::into_inner) = None;
        if let Some(watcher) = &mut self.watcher {
            watcher.returned();
        }
        result
    }

    /// Ctrl-Z: gives the terminal back, stops, and takes the terminal again when the shell continues this process.
    pub(crate) fn suspend(&mut self) -> io::Result<()> {
        self.leave()?;
        signal::send_to_self(Signal::STOP)?;
        self.take()
    }

    /// Draws what has changed, unless the terminal has not taken the last frame yet.
    pub(crate) fn show(&mut self, app: &mut App) -> io::Result<()> {
        self.write_more()?;
        if self.is_behind() || !std::mem::replace(&mut app.is_changed, false) {
            return Ok(());
        }
        let Ok(_) = self.terminal.draw(|frame| draw::draw(frame, app));
        let drawn = self.terminal.backend_mut().take();
        if !drawn.is_empty() {
            for part in [BEGIN_FRAME, &drawn, END_FRAME] {
                self.unwritten.extend(part);
            }
        }
        self.write_more()
    }

    /// Draws all of it, not only what has changed, the next time.
    pub(crate) fn redraw_all(&mut self) {
        let Ok(()) = self.terminal.clear();
    }

    /// Whether something that was drawn is not written yet.
    pub(crate) fn is_behind(&self) -> bool {
        !self.unwritten.is_empty()
    }

    fn write_more(&mut self) -> io::Result<()> {
        while self.is_behind() {
            match self.file.write(&self.unwritten)? {
                0 => break,
                count => drop(self.unwritten.drain(..count)),
            }
        }
        Ok(())
    }
}

impl AsFd for Screen {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}

/// The terminal as something to write to that never waits.
#[derive(Debug)]
pub(crate) struct TerminalFile {
    file: OwnedFd,
    sink: Sink,
}

impl TerminalFile {
    fn of_stdout() -> io::Result<Self> {
        let stdout = io::stdout();
        Ok(match own_terminal(stdout.as_fd()) {
            Some(file) => Self { file, sink: Sink::OwnPipe },
            // It is another user's, as after `su`.
            None => Self { file: stdout.as_fd().try_clone_to_owned()?, sink: Sink::Other },
        })
    }

    fn write(&self, bytes: &[u8]) -> io::Result<usize> {
        self.sink.write(self.file.as_fd(), bytes)
    }

    /// Writes all of it to a terminal that may be held.
    pub(crate) fn write_within_a_second(&self, mut bytes: &[u8]) -> io::Result<()> {
        let deadline = Instant::now() + LEAVE_TIMEOUT;
        while !bytes.is_empty() {
            let count = self.write(bytes)?;
            bytes = &bytes[count..];
            let left = deadline.saturating_duration_since(Instant::now());
            let has_room = || wait(&[(self.as_fd(), Until::Writable)], Some(left)).is_ok_and(|fired| fired == [true]);
            if count == 0 && (left.is_zero() || !has_room()) {
                return Err(io::ErrorKind::TimedOut.into());
            }
        }
        Ok(())
    }
}

impl AsFd for TerminalFile {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        self.leave().ok(); // where leaving has failed before, there is no terminal any more
    }
}

fn give_back(file: &TerminalFile, restore: &Restore) -> io::Result<()> {
    let written = file.write_within_a_second(restore.sequence);
    restore.settings.apply_to(standard_input())?;
    written
}

/// The message of a panic is written behind this, onto the first screen.
fn restore_on_panic() {
    let message = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        let taken = TAKEN.try_lock().ok().and_then(|mut taken| taken.take());
        if let (Some(restore), Ok(file)) = (taken, TerminalFile::of_stdout()) {
            give_back(&file, &restore).ok();
        }
        message(panic);
    }));
}
