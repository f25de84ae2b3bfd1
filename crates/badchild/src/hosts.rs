//! Hosts, which start a command as agents do, and then come to a bad end.

use std::io::{BufRead, Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::process::{Command, ExitCode, Stdio};

use nostray_sys::exec::Program;
use nostray_sys::process::{Side, exit_now, fork, getpid, getppid, setsid};
use rustix::io::{FdFlags, fcntl_setfd};

use crate::{Args, Failure};

/// `host [--stdin pipe|socket|null|terminal] [--hold] [--leak] -- CMD`
///
/// Starts CMD and prints its number. Obeys lines on its own stdin: `close` (the command's stdin, or its terminal), `say LINE`
/// (to the command), `exit`. `--hold`: another process holds the command's stdin open, too. `--leak`: the command itself does.
pub(crate) fn host(mut args: Args) -> Result<ExitCode, Failure> {
    let kind = args.option("--stdin").unwrap_or_else(|| "pipe".to_owned());
    let (hold, leak) = (args.flag("--hold"), args.flag("--leak"));
    let mut words = args.command();
    let mut held: Option<OwnedFd> = None;
    let stdin = match kind.as_str() {
        "pipe" => {
            let (read, write) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC)?;
            held = Some(write);
            Stdio::from(read)
        }
        "socket" => {
            let (ours, theirs) = UnixStream::pair()?;
            held = Some(ours.into());
            Stdio::from(OwnedFd::from(theirs))
        }
        "terminal" => {
            let (master, name) = badchild::open_terminal()?;
            held = Some(master);
            let me = std::env::current_exe()?.display().to_string();
            words.splice(0..0, [me, "on-terminal".to_owned(), name, "--".to_owned()]);
            Stdio::null()
        }
        _ => Stdio::null(),
    };
    let inherit = |held: &Option<OwnedFd>, yes: bool| {
        let flags = if yes { FdFlags::empty() } else { FdFlags::CLOEXEC };
        held.as_ref().map_or(Ok(()), |fd| fcntl_setfd(fd, flags))
    };
    inherit(&held, hold)?;
    // Another process of this host, which is unrelated to the command (but may hold its stdin).
    let mut friend = Command::new(std::env::current_exe()?);
    if let Some(token) = std::env::var_os(badchild::FRIEND) {
        friend.env(badchild::TOKEN, token);
    }
    let mut friend = friend.arg("pause").stdin(Stdio::null()).stdout(Stdio::piped()).spawn()?;
    friend.stdout.take().ok_or("no pipe")?.read_exact(&mut [0])?;
    inherit(&held, leak)?;
    let child = Command::new(words.first().ok_or("no command")?).args(words.iter().skip(1)).stdin(stdin).spawn()?;
    println!("front {}", child.id());
    std::io::stdout().flush()?;
    for order in std::io::stdin().lock().lines() {
        let order = order?;
        match order.as_str() {
            "close" => drop(held.take()),
            "exit" => break,
            other => match (other.strip_prefix("say "), &held) {
                (Some(line), Some(held)) => drop(rustix::io::write(held, format!("{line}\n").as_bytes())?),
                _ => return Err(format!("no order '{other}'").into()),
            },
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// `on-terminal PATH [--output-too] -- CMD`: becomes CMD, as the leader of a session on that terminal. Its stdout becomes the terminal
/// only with `--output-too`.
pub(crate) fn on_terminal(mut args: Args) -> Result<ExitCode, Failure> {
    let path = args.next("a terminal")?;
    let output_too = args.flag("--output-too");
    setsid()?;
    let terminal = std::fs::File::options().read(true).write(true).open(path)?;
    rustix::process::ioctl_tiocsctty(terminal.as_fd()).ok();
    rustix::stdio::dup2_stdin(&terminal)?;
    rustix::stdio::dup2_stderr(&terminal)?;
    if output_too {
        rustix::stdio::dup2_stdout(&terminal)?;
    }
    drop(terminal);
    let program = Program::new(args.command().into_iter().map(Into::into))?;
    Err(program.exec_with("BADCHILD_TERMINAL".as_ref(), "1".as_ref()).into())
}

/// `after-parent -- CMD`: ends, and leaves behind a process that becomes CMD only then.
pub(crate) fn after_parent(args: Args) -> Result<ExitCode, Failure> {
    let program = Program::new(args.command().into_iter().map(Into::into))?;
    let parent = getpid();
    if let Side::Parent(_) = fork()? {
        exit_now(0);
    }
    while getppid() == Some(parent) {
        std::thread::yield_now();
    }
    Err(program.exec_with("BADCHILD_ORPHAN".as_ref(), "1".as_ref()).into())
}

/// `leader -- CMD`: becomes CMD as the leader of a session of its own, as hosts start servers.
pub(crate) fn leader(args: Args) -> Result<ExitCode, Failure> {
    setsid().ok();
    let program = Program::new(args.command().into_iter().map(Into::into))?;
    Err(program.exec_with("BADCHILD_LEADER".as_ref(), "1".as_ref()).into())
}
