//! `nostray broker`: the background process that keeps shared children.

use std::ffi::OsString;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::{Duration, Instant};

use clap::{Args, Subcommand};
use nostray_registry::{Pen, Process, census, end_stopped_steward};
use nostray_supervise::link::find_broker;
use nostray_supervise::wire::{Request, Status};
use nostray_sys::descriptors::write_to_stderr_at_once;
use nostray_sys::identity::Identity;
use nostray_sys::local;
use nostray_sys::poll::{Until, wait};
use nostray_sys::proc::Stat;
use nostray_sys::standstill::Standstill;
use nostray_sys::{Pidfd, Signal};
use nostray_terminal::table::{Table, ago, span};
use nostray_terminal::{self as terminal, ExitCode};
use serde_json::json;

/// See, stop or restart the background process that keeps shared children
///
/// The first `nostray share` or `nostray hold` starts it. It exits a moment after the last session has ended. Each user has one.
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
    /// Show whether a broker runs, and what it keeps; exit with 1 if none does
    Status {
        /// Print a JSON object
        #[arg(long)]
        json: bool,
    },
    /// End all shared children, and then the broker; sessions stay open, and their next call starts another broker
    Stop,
    /// The same, but sessions attach to another broker at once
    Restart,
}

/// How long a broker may take to answer.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(5);
/// How often to poll what has no event.
const PACE: Duration = Duration::from_millis(500);

/// The broker or the steward, if nostray itself has started this process as one. No user types these words, so they are no part of the
/// command line: to build that takes longer, and more memory, than all else that a broker does at its start.
pub(crate) fn run_if_called(words: &[OsString]) -> Option<u8> {
    match words.get(1..)? {
        [broker, serve, socket] if broker == "broker" && serve == "serve" => {
            Some(nostray_broker::serve(Path::new(socket)))
        }
        [broker, steward] if broker == "broker" && steward == "steward" => {
            Some(nostray_broker::keep().unwrap_or_else(|error| {
                write_to_stderr_at_once(&format!("nostray: {error}\n"));
                nostray_pen::OWN_FAILURE
            }))
        }
        _ => None,
    }
}

pub(crate) fn run(args: &BrokerArgs) -> ExitCode {
    match args.command {
        Command::Status { json } => status(json),
        Command::Stop => stop(false),
        Command::Restart => stop(true),
    }
}

/// The process at the other end. Call this before sending the request: after that the broker may exit, and its pid may be reused.
fn broker_at(socket: &OwnedFd) -> Option<Identity> {
    local::caller(socket.as_fd()).ok().and_then(|broker| Identity::of(broker.pid?))
}

/// Whether it stays stopped, and not only for the moment in which a tracer inspects it.
fn is_stopped(who: Option<Identity>) -> bool {
    let is_now =
        |who: Identity| Stat::of(who.pid).is_some_and(|stat| Identity::from(&stat) == who && stat.is_stopped());
    let until = Instant::now() + PACE;
    while who.is_some_and(is_now) {
        if Instant::now() > until {
            return true;
        }
        std::thread::sleep(PACE / 10);
    }
    false
}

fn ask_over(socket: OwnedFd, request: &Request) -> io::Result<Status> {
    let mut stream = UnixStream::from(socket);
    stream.set_nonblocking(false)?;
    stream.set_read_timeout(Some(ANSWER_TIMEOUT))?;
    let mut line = serde_json::to_vec(request)?;
    line.push(b'\n');
    stream.write_all(&line)?;
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer)?;
    Ok(serde_json::from_slice(&answer)?)
}

fn no_broker(json: bool) -> ExitCode {
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
    let Some(socket) = find_broker() else { return no_broker(json) };
    let broker = broker_at(&socket);
    if let Some(broker) = broker.filter(|_| is_stopped(broker)) {
        let pid = broker.pid;
        terminal::complain(&format_args!(
            "the broker {pid} is stopped (SIGSTOP or a debugger); the next session continues or replaces it, and `nostray broker stop` ends it"
        ));
        return ExitCode::from(2);
    }
    let status = match ask_over(socket, &Request::Status) {
        Err(error) => return no_answer(&error),
        Ok(status) => status,
    };
    let pens: Vec<Pen> = census().into_iter().filter(|pen| status.children.contains(&pen.id)).collect();
    if json {
        let children: Vec<_> = pens.iter().filter_map(as_json).collect();
        let object = json!({
            "running": true, "pid": status.pid, "version": status.version, "age": status.age,
            "stopping": status.stopping, "children": children,
        });
        return terminal::print_json(&object);
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
    let Some(socket) = find_broker() else { return no_broker(false) };
    let broker = broker_at(&socket);
    let stewards = stewards_of(broker);
    if let Some(handle) = broker.filter(|_| is_stopped(broker)).and_then(Identity::open) {
        // A stopped broker cannot read the request, and has to end its children itself, with their graces.
        handle.send(Signal::CONT).ok();
    }
    let answer = if is_stopped(broker) { None } else { Some(ask_over(socket, &Request::Stop { again })) };
    if let Some(Err(error)) = &answer {
        return no_answer(error);
    }
    let mut waiting = Waiting { since: Instant::now(), shown: false };
    // A broker ends its stewards itself, unless it has to be killed.
    let keepers = stewards.iter().filter_map(|(_, steward)| *steward).chain(broker).map(Standstill::of);
    waiting.until_ended(keepers.collect(), |who| match who.open().filter(|_| Some(who) == broker) {
        Some(broker) => drop(broker.send(Signal::KILL)),
        None => end_stopped_steward(who),
    });
    while stewards.iter().any(|(pen, _)| pen.is_there()) {
        waiting.look_again(&[]);
    }
    waiting.is_over();
    let known = broker.map_or(0, |broker| broker.pid.as_raw_nonzero().get());
    let (pid, children) = match answer {
        Some(Ok(status)) => (status.pid, status.children.len()),
        _ => (known, stewards.len()),
    };
    let what = if again { "sessions attach to another one" } else { "the next call of a session starts another one" };
    terminal::print(format!("broker {pid} stopped, with {children} shared children; {what}\n").as_bytes())
}

/// The pens that a broker keeps, by their records, each with its steward.
fn stewards_of(broker: Option<Identity>) -> Vec<(Pen, Option<Identity>)> {
    let Some(broker) = broker.map(Process::from) else { return Vec::new() };
    let steward = |pen: Pen| {
        let record =
            pen.record.as_ref().ok().filter(|record| record.shared.is_some() && record.host == Some(broker))?;
        let steward = record.front.identity();
        Some((pen, steward))
    };
    census().into_iter().filter_map(steward).collect()
}

/// A wait that shows its progress on a terminal.
struct Waiting {
    since: Instant,
    shown: bool,
}

impl Waiting {
    /// Waits until all of these processes have ended. Calls `end` for a process that is proved to be stopped.
    fn until_ended(&mut self, mut left: Vec<Standstill>, end: impl Fn(Identity)) {
        loop {
            left.retain(|standstill| standstill.who().is_alive());
            let handles: Vec<_> = left.iter().filter_map(|standstill| standstill.who().open()).collect();
            if handles.is_empty() {
                return;
            }
            self.look_again(&handles);
            for standstill in &mut left {
                if standstill.look(Instant::now()) {
                    end(standstill.who());
                }
            }
        }
    }

    /// Waits until one of these has ended, or for a moment.
    fn look_again(&mut self, handles: &[Pidfd]) {
        let handles: Vec<_> = handles.iter().map(|handle| (handle.as_fd(), Until::Readable)).collect();
        wait(&handles, Some(PACE)).ok();
        if terminal::is_live() && self.since.elapsed() > Duration::from_millis(400) {
            self.shown = true;
            terminal::write(format!("\rstopping, {:.0} s", self.since.elapsed().as_secs_f64()).as_bytes()).ok();
        }
    }

    fn is_over(&self) {
        if self.shown {
            terminal::write(b"\r\x1b[K").ok();
        }
    }
}
