//! `nostray broker`: the background process that keeps shared children.

use std::ffi::OsString;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use clap::{Args, Subcommand};
use nostray_registry::{Pen, census};
use nostray_supervise::link::{Request, Status, find_broker};
use nostray_sys::Pidfd;
use nostray_sys::descriptors::write_to_stderr_at_once;
use nostray_sys::local;
use nostray_sys::poll::{Until, wait};
use serde_json::json;

use crate::exit::ExitCode;
use crate::table::{Table, ago, span};
use crate::terminal;

/// See, stop or restart the background process that keeps shared children
///
/// It starts by itself with the first `nostray share`, and leaves by itself a moment after the last one. There is one for each user.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  nostray broker status
  nostray broker status --json | jq .children
  nostray broker stop
  nostray broker restart")]
pub(crate) struct BrokerArgs {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Show whether one is there, and what it keeps; exit with 1 if none is
    Status {
        /// Print a JSON object
        #[arg(long)]
        json: bool,
    },
    /// End all shared children, and then the broker; sessions stay open, and their next call starts another one
    Stop,
    /// The same, but sessions attach to another one at once
    Restart,
    /// Serve at this path
    #[command(hide = true)]
    Serve { socket: PathBuf },
    /// Keep a child
    #[command(hide = true)]
    Steward {
        #[arg(last = true, required = true)]
        command: Vec<OsString>,
    },
}

/// How long a broker may take to answer.
const PATIENCE: Duration = Duration::from_secs(5);

/// Whether it is one of our own processes that is to be, and no person waits.
pub(crate) fn is_background(args: &BrokerArgs) -> bool {
    matches!(args.command, Command::Serve { .. } | Command::Steward { .. })
}

pub(crate) fn run(args: BrokerArgs) -> ExitCode {
    match args.command {
        Command::Status { json } => status(json),
        Command::Stop => stop(false),
        Command::Restart => stop(true),
        Command::Serve { socket } => ExitCode::from(nostray_broker::serve(&socket)),
        Command::Steward { command } => match nostray_broker::keep(command) {
            Ok(code) => ExitCode::from(code),
            Err(error) => {
                write_to_stderr_at_once(&format!("nostray: {error}\n"));
                ExitCode::from(nostray_pen::OWN_FAILURE)
            }
        },
    }
}

/// Asks the broker, if there is one.
fn ask(request: &Request) -> Option<io::Result<Status>> {
    let socket = find_broker()?;
    Some(ask_over(socket, request))
}

fn ask_over(socket: OwnedFd, request: &Request) -> io::Result<Status> {
    let mut stream = UnixStream::from(socket);
    stream.set_nonblocking(false)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    let mut line = serde_json::to_vec(request)?;
    line.push(b'\n');
    stream.write_all(&line)?;
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer)?;
    Ok(serde_json::from_slice(&answer)?)
}

fn nobody(json: bool) -> ExitCode {
    if json {
        terminal::print(format!("{:#}\n", json!({ "running": false })).as_bytes());
    } else {
        terminal::complain(&"no broker runs; `nostray share` starts one");
    }
    ExitCode::FAILURE
}

fn no_answer(error: &io::Error) -> ExitCode {
    terminal::complain(&format_args!("there is a broker, but it does not answer: {error}"));
    ExitCode::from(2)
}

fn status(json: bool) -> ExitCode {
    let status = match ask(&Request::Status) {
        None => return nobody(json),
        Some(Err(error)) => return no_answer(&error),
        Some(Ok(status)) => status,
    };
    let pens: Vec<Pen> = census().into_iter().filter(|pen| status.children.contains(&pen.id)).collect();
    if json {
        let children: Vec<_> = pens.iter().filter_map(as_json).collect();
        let object = json!({
            "running": true, "pid": status.pid, "version": status.version, "age": status.age,
            "stopping": status.stopping, "children": children,
        });
        return terminal::print(format!("{object:#}\n").as_bytes());
    }
    let age = span(Duration::from_millis(status.age));
    let sessions: usize = pens.iter().map(leases).sum();
    let mut text = format!(
        "broker {} (nostray {}), up {age}{}: {} shared, {sessions} sessions\n",
        status.pid,
        status.version,
        if status.stopping { ", stopping" } else { "" },
        pens.len(),
    );
    if !pens.is_empty() {
        let mut table = Table::new(&["ID", "KEY", "STATE", "FOR", "SESSIONS", "NUMBER", "COMMAND"]);
        for pen in &pens {
            let Ok(record) = &pen.record else { continue };
            table.row(vec![
                pen.id.clone(),
                record.shared.as_ref().and_then(|shared| shared.key.clone()).unwrap_or_default(),
                record.state.word().to_owned(),
                span(ago(record.since)),
                leases(pen).to_string(),
                record.generation.unwrap_or(0).to_string(),
                record.command.join(" "),
            ]);
        }
        text += &table.render(terminal::width());
    }
    terminal::print(text.as_bytes())
}

fn leases(pen: &Pen) -> usize {
    pen.record.as_ref().ok().and_then(|record| record.shared.as_ref()).map_or(0, |shared| shared.leases.len())
}

fn as_json(pen: &Pen) -> Option<serde_json::Value> {
    let record = pen.record.as_ref().ok()?;
    Some(json!({
        "id": pen.id, "state": record.state.word(), "generation": record.generation, "command": record.command,
        "shared": record.shared,
    }))
}

fn stop(again: bool) -> ExitCode {
    let Some(socket) = find_broker() else { return nobody(false) };
    // Over one connection, and before it is asked: another broker may take its place at any moment, and the number may be anybody's once
    // it has left.
    let handle = local::caller(socket.as_fd()).ok().and_then(|broker| Pidfd::open(broker.pid?).ok());
    let stopped = match ask_over(socket, &Request::Stop { again }) {
        Err(error) => return no_answer(&error),
        Ok(status) => status,
    };
    let since = Instant::now();
    let mut shown = false;
    while let Some(handle) = handle.as_ref().filter(|handle| handle.has_ended().is_ok_and(|ended| !ended)) {
        wait(&[(handle.as_fd(), Until::Readable)], Some(Duration::from_millis(500))).ok();
        if terminal::is_live() && since.elapsed() > Duration::from_millis(400) {
            shown = true;
            terminal::write(format!("\rstopping, {:.0} s", since.elapsed().as_secs_f64()).as_bytes()).ok();
        }
    }
    if shown {
        terminal::write(b"\r\x1b[K").ok();
    }
    let what = if again { "sessions attach to another one" } else { "the next call of a session starts another one" };
    terminal::print(
        format!("broker {} stopped, with {} shared children; {what}\n", stopped.pid, stopped.children.len())
            .as_bytes(),
    )
}
