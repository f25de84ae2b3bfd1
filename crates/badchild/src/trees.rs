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
/// `tree cooperative|stubborn plain|term-ignoring|setsid|daemon [--serve FILE]`: says `ready` when the descendant is, then waits for
/// the end of its input and ends, or (stubborn) ignores that and every signal that can be ignored. `--serve`: makes the file instead of
/// saying anything, which not everybody hands on, and answers requests meanwhile, as somebody in front of an MCP server expects.
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

/// Says that all is ready, in the words of `BADCHILD_READY` if there are any; then waits for the end of its input, or
/// (stubborn) for nothing.
fn stay(stubborn: bool) -> Result<ExitCode, Failure> {
    println!("{}", std::env::var(badchild::READY).as_deref().unwrap_or("ready"));
    std::io::stdout().flush()?;
    if stubborn {
        pause_for_ever();
    }
    std::io::copy(&mut std::io::stdin(), &mut std::io::sink())?;
    Ok(ExitCode::SUCCESS)
}

/// Starts a descendant, and returns when it has become what it is to be.
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
            // As daemon(3) does, and a second fork so that it is no session leader either.
            for _ in 0..2 {
                let before = std::process::id();
                if let Side::Parent(_) = fork()? {
                    exit_now(0);
                }
                setsid().ok();
                // It is complete when nothing is left of the one that forked it.
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

/// Holds no file that anybody could wait for, and no directory.
fn close_everything() {
    if let Ok(null) = std::fs::File::options().read(true).write(true).open("/dev/null") {
        rustix::stdio::dup2_stdin(&null).ok();
        rustix::stdio::dup2_stdout(&null).ok();
        rustix::stdio::dup2_stderr(&null).ok();
    }
}
