//! What each process of the demonstration does. They are as bad as real ones, with one difference: each ends when the
//! demonstration does, however that happens, and after a while in any case.

use std::ffi::OsString;
use std::io::{self, Read};
use std::os::fd::{AsFd, BorrowedFd};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use nostray_sys::poll::{self, Until};
use nostray_sys::process::{Pid, Side, exit_now, fork, set_name, setsid};
use nostray_sys::signal::{Disposition, set_disposition};
use nostray_sys::{Pidfd, Signal, descriptors};
use nostray_terminal::{self as terminal, ExitCode};

use super::Actor;
use super::cast::Token;
use super::stop::no_signals;

/// How long an actor lives at most; the demo takes less.
const LIFETIME: Duration = Duration::from_secs(50);
/// What the child writes when its whole tree runs.
pub(super) const READY: &str = "ready";

/// Where this program is: not by the path of its file, which may be replaced at any moment while it runs.
pub(super) fn this_program() -> PathBuf {
    "/proc/self/exe".into()
}

pub(super) fn play(actor: Actor, command: &[OsString]) -> ExitCode {
    let Some(token) = Token::from_environment() else {
        terminal::complain(&"--actor is for the processes that `nostray demo` starts; run that");
        return ExitCode::from(2);
    };
    let Some(director) = token.director() else { return ExitCode::FAILURE };
    // For a user who runs `ps` meanwhile.
    set_name(match actor {
        Actor::Host => "demo-host",
        Actor::Child => "demo-child",
        Actor::Helper => "demo-helper",
        Actor::Setsid => "demo-setsid",
        Actor::Daemon => "demo-daemon",
        Actor::Stubborn => "demo-stubborn",
    });
    let played = match actor {
        Actor::Host => host(&director, command),
        Actor::Child => child(&director),
        Actor::Helper | Actor::Setsid | Actor::Daemon | Actor::Stubborn => member(&director, actor),
    };
    match played {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            terminal::complain(&format_args!("demo: the {}: {error}", actor.name()));
            ExitCode::FAILURE
        }
    }
}

/// Starts the command with a pipe for its input, as agents do, and waits to be killed.
fn host(director: &Pidfd, command: &[OsString]) -> io::Result<()> {
    // The host of a demo does not use what it inherits from the director and the terminal.
    setsid()?;
    no_signals().set_as_mask()?;
    set_disposition(Signal::TERM, Disposition::Default)?;
    let (program, args) = command.split_first().ok_or(io::ErrorKind::InvalidInput)?;
    let child = Command::new(program).args(args).stdin(Stdio::piped()).spawn()?;
    let pid = i32::try_from(child.id()).ok().and_then(Pid::from_raw).ok_or(io::ErrorKind::InvalidData)?;
    // If the command cannot even start, there is nothing to see, and the director learns it by our end.
    let handle = Pidfd::open(pid)?;
    linger(director, Some((handle.as_fd(), Until::Readable)));
    drop(child);
    Ok(())
}

/// The process that the host starts. It is well behaved: it ends with its input.
fn child(director: &Pidfd) -> io::Result<()> {
    for actor in [Actor::Helper, Actor::Setsid, Actor::Daemon, Actor::Stubborn] {
        start_member(actor)?;
    }
    terminal::write(format!("{READY}\n").as_bytes())?;
    linger(director, Some((io::stdin().as_fd(), Until::HungUp)));
    Ok(())
}

/// Starts a process below the child, and returns when it has become what it is to be.
fn start_member(actor: Actor) -> io::Result<()> {
    let mut command = Command::new(this_program());
    command.args(["demo", "--actor", actor.name()]).stdout(Stdio::piped()).stderr(Stdio::null());
    if actor != Actor::Stubborn {
        command.stdin(Stdio::null());
    }
    let mut member = command.spawn()?;
    let mut ready = [0];
    let mut says = member.stdout.take().ok_or(io::ErrorKind::BrokenPipe)?;
    says.read_exact(&mut ready).map_err(|_| io::Error::other(format!("the {} did not start", actor.name())))?;
    if actor == Actor::Daemon {
        // Its first process, which has ended as the first process of a daemon does.
        member.wait()?;
    }
    Ok(())
}

fn member(director: &Pidfd, actor: Actor) -> io::Result<()> {
    match actor {
        Actor::Setsid => drop(setsid()?),
        Actor::Daemon => {
            // As daemon(3) does, and once more, so that it does not lead its session either.
            for _ in 0..2 {
                if let Side::Parent(_) = fork()? {
                    exit_now(0);
                }
                setsid().ok();
            }
            std::env::set_current_dir("/")?;
        }
        Actor::Stubborn => {
            for signal in [Signal::TERM, Signal::HUP, Signal::INT, Signal::QUIT] {
                set_disposition(signal, Disposition::Ignored)?;
            }
        }
        Actor::Host | Actor::Child | Actor::Helper => {}
    }
    terminal::write(b".")?;
    descriptors::replace_with_null(actor != Actor::Stubborn, true)?;
    linger(director, None);
    Ok(())
}

/// Waits for the end of the demonstration, of a lifetime, or for something else.
fn linger(director: &Pidfd, other: Option<(BorrowedFd<'_>, Until)>) {
    let until = Instant::now() + LIFETIME;
    let mut events = vec![(director.as_fd(), Until::Readable)];
    events.extend(other);
    while let left = until.saturating_duration_since(Instant::now())
        && !left.is_zero()
        && poll::wait(&events, Some(left)).is_ok_and(|came| !came.contains(&true))
    {}
}
