//! `nostray top`: what nostray runs, for whom and at what cost, live on a whole terminal.
//!
//! One thread and one loop ([`run`]) wait for keys, signals, the next refresh, and the end of commands that a key has started. A refresh
//! is a [`nostray_view::Looker::quick`] look; `app` has what is shown and what a key does to it, `draw` puts it on the screen, and
//! `screen` owns the terminal and gives it back however this process ends.

mod app;
mod backend;
mod columns;
mod commands;
mod draw;
mod events;
mod filter;
mod help;
mod keys;
mod page;
mod rows;
mod screen;
mod signals;
mod sparkline;
mod watcher;

use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::time::{Duration, Instant};

use nostray_sys::Signal;
use nostray_sys::descriptors::standard_input;
use nostray_sys::poll::{Until, wait};
use nostray_sys::stream;
use nostray_sys::terminal_settings::is_terminal;
use nostray_terminal::{self as terminal, ExitCode};
use nostray_view::SortOption;

use app::{App, Next};
use keys::Keys;
use screen::Screen;
use signals::Signals;

/// Watch children live: CPU, memory, messages, errors, events
///
/// One line for each child, refreshed each second: its name, its state, the programs that use it, the memory of its tree and how that
/// has changed, its use of the processor; of a supervised or shared child also the messages and the failed calls a minute, and how often
/// it was restarted. Above that, what sharing and sleeping save. Below, what has happened last.
///
/// Press ? for the keys: filter, sort, tree, restart, stop, output, log.
#[derive(Debug, clap::Args)]
#[command(after_long_help = "\
Examples:
  nostray top
  nostray top memory           (only children with this word in their line)
  nostray top --sort cpu --interval 5

Without a terminal, use `nostray ps --watch` or `nostray ps --json`.")]
pub struct Args {
    /// Only children with this in their name, id, state, session, users or command
    #[arg(value_name = "FILTER")]
    filter: Option<String>,

    /// Time between two refreshes
    #[arg(long, value_name = "SECONDS", default_value = "1", value_parser = terminal::interval)]
    interval: Duration,

    #[command(flatten)]
    order: SortOption,
}

/// A wrong call, or a terminal that cannot be used.
const WRONG_CALL: u8 = 2;

/// Shows it until a key or a signal ends it.
#[must_use]
pub fn run(args: &Args) -> ExitCode {
    if !terminal::is_live() || !is_terminal(standard_input()) {
        terminal::complain(
            &"`top` needs a terminal on standard input and output, and TERM other than dumb; `nostray ps --watch` prints a table \
              again and again, `nostray ps --json` is for scripts",
        );
        return ExitCode::from(WRONG_CALL);
    }
    match watch(args) {
        Ok(code) => code,
        // The terminal is gone, and with it the person.
        Err(error) if is_gone(&error) => ExitCode::SUCCESS,
        Err(error) => {
            terminal::complain(&format_args!("cannot use the terminal: {error}"));
            ExitCode::from(WRONG_CALL)
        }
    }
}

/// How a terminal answers whose other end was closed.
fn is_gone(error: &io::Error) -> bool {
    const EIO: i32 = 5;
    error.raw_os_error() == Some(EIO) || error.kind() == io::ErrorKind::BrokenPipe
}

fn watch(args: &Args) -> io::Result<ExitCode> {
    // Before the first look, so that a signal that arrives during it ends us in order.
    let signals = Signals::new()?;
    let mut screen = Screen::enter()?;
    let mut app = App::new(args.order.sort, args.filter.as_deref().unwrap_or_default());
    let ended = refresh_until_the_end(args.interval, &signals, &mut screen, &mut app);
    let left = screen.leave();
    app.commands.end();
    let code = ended?;
    match left {
        // A terminal that takes nothing would not take an error either, and writing it would wait for ever.
        Err(error) if error.kind() == io::ErrorKind::TimedOut => {}
        left => left?,
    }
    Ok(code)
}

fn refresh_until_the_end(
    interval: Duration,
    signals: &Signals,
    screen: &mut Screen,
    app: &mut App,
) -> io::Result<ExitCode> {
    let mut keys = Keys::default();
    let mut next_look = Instant::now();
    loop {
        let now = Instant::now();
        if now >= next_look {
            if !app.is_paused {
                app.look();
            }
            next_look = now + interval;
        }
        app.forget_old_status(now);
        screen.show(app)?;
        match next_event(signals, screen, app, &mut keys, next_look)? {
            Event::Nothing => {}
            Event::LookNow => next_look = Instant::now(),
            Event::End(code) => return Ok(code),
        }
    }
}

/// What the loop is to do next.
enum Event {
    Nothing,
    LookNow,
    End(ExitCode),
}

/// Waits for the first of: a signal, a key, news of a command, room for output, the next refresh.
fn next_event(
    signals: &Signals,
    screen: &mut Screen,
    app: &mut App,
    keys: &mut Keys,
    next_look: Instant,
) -> io::Result<Event> {
    if let Some(signal) = signals.next()? {
        return on_signal(signal, screen, app);
    }
    let deadlines = [Some(next_look).filter(|_| !app.is_paused), keys.deadline(), app.next_change()];
    let left = |deadline: Instant| deadline.saturating_duration_since(Instant::now());
    let timeout = deadlines.into_iter().flatten().min().map(left);
    let commands = app.commands.to_poll();
    let mut events: Vec<(BorrowedFd<'_>, Until)> =
        vec![(signals.as_fd(), Until::Readable), (standard_input(), Until::Readable)];
    events.extend(screen.is_behind().then(|| (screen.as_fd(), Until::Writable)));
    let first_command = events.len();
    events.extend(commands.iter().map(|fd| (*fd, Until::Readable)));
    let fired = wait(&events, timeout)?;
    let (has_keys, has_news) = (fired[1], fired[first_command..].contains(&true));
    if has_news && app.take_results() {
        return Ok(Event::LookNow);
    }
    let mut pressed = keys.overdue(Instant::now());
    if has_keys {
        let mut bytes = [0; 256];
        match stream::read(standard_input(), &mut bytes)? {
            Some(0) => return Ok(Event::End(ExitCode::SUCCESS)),
            Some(count) => pressed.extend(keys.read(&bytes[..count], Instant::now())),
            None => {}
        }
    }
    let mut result = Event::Nothing;
    for key in pressed {
        match app.press(key) {
            Next::Stay => {}
            Next::Look => result = Event::LookNow,
            Next::Redraw => screen.redraw_all(),
            Next::End => return Ok(Event::End(ExitCode::SUCCESS)),
        }
    }
    Ok(result)
}

fn on_signal(signal: Signal, screen: &mut Screen, app: &mut App) -> io::Result<Event> {
    match signal {
        Signal::WINCH => {
            app.is_changed = true;
            Ok(Event::Nothing)
        }
        Signal::TSTP => {
            screen.suspend()?;
            app.is_changed = true;
            Ok(Event::LookNow)
        }
        // A key to end it, so this is no failure.
        Signal::INT => Ok(Event::End(ExitCode::SUCCESS)),
        other => Ok(Event::End(ExitCode::from(128 + u8::try_from(other.as_raw()).unwrap_or(0)))),
    }
}
