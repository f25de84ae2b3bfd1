//! Trees that do not want to end.

use std::io::{Read, Write};
use std::process::{Command, ExitCode, Stdio};
use std::time::Duration;

use nostray_sys::process::{Side, exit_now, fork, setsid};
use nostray_sys::signal::{Disposition, Signal, set_disposition};

use crate::exits::pause_for_ever;
use crate::{Args, Failure};

/// A child with one descendant of a given kind.
///
/// `tree cooperative|stubborn plain|term-ignoring|setsid|daemon [--serve FILE]`: prints `ready` when the descendant is ready, then waits
/// for the end of its input and ends. A stubborn tree ignores that and every signal that can be ignored. `--serve`: answers MCP
/// requests, and creates the file instead of printing `ready`, since not every proxy passes on a line that is not MCP.
pub(crate) fn tree(mut args: Args) -> Result<ExitCode, Failure> {
    let complete = args.option("--serve");
    let stubborn = args.next("a manner")? == "stubborn";
    let kind = args.next("a kind")?;
    if stubborn {
        ignore_everything()?;
    }
    start_member(&kind)?;
    let Some(complete) = complete else { return stay(stubborn) };
    std::fs::write(complete, "")?;
    let served = crate::servers::serve_nothing();
    if stubborn {
        pause_for_ever();
    }
    served.map(|()| ExitCode::SUCCESS)
}

/// Prints `BADCHILD_READY`, or `ready` if that is not set. Then waits for the end of its input; a stubborn tree never ends.
fn stay(stubborn: bool) -> Result<ExitCode, Failure> {
    println!("{}", std::env::var(badchild::READY).as_deref().unwrap_or("ready"));
    std::io::stdout().flush()?;
    if stubborn {
        pause_for_ever();
    }
    std::io::copy(&mut std::io::stdin(), &mut std::io::sink())?;
    Ok(ExitCode::SUCCESS)
}

/// Starts a descendant, and returns when it is complete.
pub(crate) fn start_member(kind: &str) -> Result<(), Failure> {
    let mut member = Command::new(std::env::current_exe()?).args(["member", kind]).stdout(Stdio::piped()).spawn()?;
    let mut ready = [0];
    member.stdout.take().ok_or("no pipe")?.read_exact(&mut ready)?;
    if kind == "daemon" {
        member.wait()?;
    }
    Ok(())
}

/// A descendant: `member plain|term-ignoring|setsid|daemon`.
pub(crate) fn member(mut args: Args) -> Result<ExitCode, Failure> {
    match args.next("a kind")?.as_str() {
        "plain" => {}
        "term-ignoring" => ignore_everything()?,
        "setsid" => drop(setsid()?),
        "daemon" => {
            // As daemon(3) does, with a second fork so that the daemon is not a session leader either.
            for _ in 0..2 {
                let before = std::process::id();
                if let Side::Parent(_) = fork()? {
                    exit_now(0);
                }
                setsid().ok();
                // The daemon is complete when its parent has ended.
                while std::os::unix::process::parent_id() == before {
                    std::thread::sleep(Duration::from_micros(200));
                }
            }
            std::env::set_current_dir("/")?;
        }
        other => return Err(format!("no kind '{other}'").into()),
    }
    println!("r");
    std::io::stdout().flush()?;
    close_everything();
    pause_for_ever();
}

/// `many COUNT [stubborn]`: a flat tree of so many processes, forked from one; says `ready` when all are there.
pub(crate) fn many(mut args: Args) -> Result<ExitCode, Failure> {
    let count = args.number("how many")?;
    let stubborn = args.next("").is_ok_and(|word| word == "stubborn");
    if stubborn {
        ignore_everything()?;
    }
    for _ in 1..count {
        if let Side::Child = fork()? {
            close_everything();
            pause_for_ever();
        }
    }
    stay(stubborn)
}

/// `wrap DEPTH -- CMD`: so many shells, each waiting for the next, as npx, uvx and start scripts do.
pub(crate) fn wrap(mut args: Args) -> Result<ExitCode, Failure> {
    let depth = args.number("a depth")?;
    let command = args.command();
    let mut inner = Command::new(command.first().ok_or("no command")?);
    if depth > 0 {
        // `; exit $?` keeps the shell from becoming the next one instead of waiting for it.
        inner = Command::new("sh");
        inner.args(["-c", "\"$@\"; exit $?", "sh"]).arg(std::env::current_exe()?).arg("wrap");
        inner.arg((depth - 1).to_string()).arg("--").args(&command);
    } else {
        inner.args(command.iter().skip(1));
    }
    let status = inner.status()?;
    Ok(ExitCode::from(u8::try_from(status.code().unwrap_or(98))?))
}

pub(crate) fn ignore_everything() -> Result<(), Failure> {
    for signal in [Signal::TERM, Signal::HUP, Signal::INT, Signal::QUIT, Signal::USR1, Signal::USR2, Signal::PIPE] {
        set_disposition(signal, Disposition::Ignored)?;
    }
    Ok(())
}

/// Replaces stdin, stdout and stderr by `/dev/null`, so that no reader waits for this process.
fn close_everything() {
    if let Ok(null) = std::fs::File::options().read(true).write(true).open("/dev/null") {
        rustix::stdio::dup2_stdin(&null).ok();
        rustix::stdio::dup2_stdout(&null).ok();
        rustix::stdio::dup2_stderr(&null).ok();
    }
}
