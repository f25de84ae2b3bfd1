//! `nostray slot hold`: a process that holds a slot for the process that started it, which may be a script.

use std::time::Duration;

use nostray_pen::{Ask, PenId, PenOpener, Reason, Spec};
use nostray_registry::{RecordDetails, SeriesKeeper, State, masked};
use nostray_slot::{Entered, HeldSlot, MAX_HANDOVERS, Name, SlotRequest, enter};
use nostray_sys::descriptors::{StdinKind, standard_input, stdin_kind};
use nostray_sys::poll::{self, Until};
use nostray_sys::proc;
use nostray_sys::process::Ended;
use nostray_sys::stream;
use nostray_sys::text::escaped;
use nostray_terminal::{self as terminal, ExitCode};
use serde_json::json;

use crate::args::positive_duration;

/// Hold a slot for the process that started this one
///
/// For scripts and programs that must be alone themselves. The slot is held until stdin ends, or the process that started this one
/// does, whichever comes first; a stdin without an end of its own (/dev/null, a file) does not count. A line on stdout says when the slot
/// is held. If a newcomer asks for the slot (--if-taken replace, or `nostray slot release`), another line says so: finish, then close
/// stdin. The newcomer waits until then.
#[derive(Debug, clap::Args)]
#[command(after_long_help = "\
Examples:
  nostray slot hold memory
      Holds it until Ctrl-D or Ctrl-C.

  coproc nostray slot hold memory
  read -r <&\"${COPROC[0]}\"
      In a bash script: from here on it is the only one. The slot is free again
      when the script ends, in any way.

  nostray slot hold --if-taken fail memory </dev/null &
      For as long as the shell lives.

Lines on stdout: `holding NAME`, `asked to hand over NAME: WHY`. With --json:
  {\"event\":\"held\",\"slot\":NAME}, {\"event\":\"asked\",\"slot\":NAME,\"text\":WHY}

Exit codes:
  0 when it was released; 75 if the slot was not to be had; 128+n if signal n
  ended it; 1 if slots do not work here.")]
pub(crate) struct HoldArgs {
    /// Which slot
    name: Name,

    /// What to do if the slot is taken
    #[arg(long, value_name = "WHAT", default_value = "wait")]
    if_taken: HoldIfTaken,

    /// Wait no longer than this for the slot, then exit with 75 [default: for ever]
    #[arg(long, value_name = "TIME", value_parser = positive_duration)]
    wait_timeout: Option<Duration>,

    /// The holder is starting until it writes the line `ready` to stdin; until then, no newcomer asks it to hand over
    #[arg(long)]
    unready: bool,

    /// The holder's session, by which `ps` and `stop` find it
    #[arg(long, value_name = "SESSION")]
    session: Option<String>,

    /// For programs
    #[arg(long)]
    json: bool,
}

/// What to do if the slot is taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum HoldIfTaken {
    /// Wait until it is free: first come, first served
    Wait,
    /// Exit with 75, and say who holds it
    Fail,
    /// Ask the holder to hand over, and wait until nothing is left of its tree
    Replace,
}

impl From<HoldIfTaken> for nostray_slot::IfTaken {
    fn from(what: HoldIfTaken) -> Self {
        match what {
            HoldIfTaken::Wait => Self::Wait,
            HoldIfTaken::Fail => Self::Fail,
            HoldIfTaken::Replace => Self::Replace,
        }
    }
}

/// The line by which the process that started this one says that it is ready.
const READY: &[u8] = b"ready";
/// Longer input is no such line.
const MAX_LINE: usize = 4096;

pub(crate) fn run(args: &HoldArgs) -> Result<ExitCode, String> {
    let mut opener = PenOpener::open(&[]).map_err(|error| error.to_string())?;
    let host = opener.host();
    // The slot is the host's, so the host is what lists show.
    let command = host.map_or_else(Vec::new, |host| proc::command_of(host.pid));
    let spec = Spec::new(command.into_iter().map(Into::into).collect());
    let id = PenId::new();
    let request = SlotRequest {
        slot: args.name.clone(),
        if_taken: args.if_taken.into(),
        wait_timeout: args.wait_timeout,
        max_handovers: MAX_HANDOVERS,
        command: masked(&spec.command),
        session: args.session.clone(),
    };
    let held = match enter(&mut opener, request, &id, None).map_err(|error| error.to_string())? {
        Entered::Over(code) => return Ok(ExitCode::from(code)),
        Entered::Got(held) => held,
    };
    let slot = Some(args.name.to_string());
    let details = RecordDetails { slot, session: args.session.clone(), sweep: false, ..RecordDetails::default() };
    // Without a record, a newcomer could not ask for the slot.
    let record = SeriesKeeper::open(&id, &spec, &details, host).map_err(|error| error.to_string())?;
    Ok(Holder { opener, held, record, args, input: Vec::new() }.hold())
}

/// Why a slot is given back.
enum Released {
    /// The host has closed its end, or has ended.
    ByHost(&'static str),
    By(nostray_sys::Signal),
    /// `nostray stop --now`, or `nostray slot release --now`.
    AtOnce(Reason),
}

struct Holder<'a> {
    opener: PenOpener,
    held: HeldSlot,
    record: SeriesKeeper,
    args: &'a HoldArgs,
    /// What has come of a line.
    input: Vec<u8>,
}

impl Holder<'_> {
    fn hold(mut self) -> ExitCode {
        self.record.enter(State::Starting, 0);
        if !self.args.unready {
            self.is_ready();
        }
        self.say("held", "holding", None);
        let released = self.wait();
        let (why, code) = match &released {
            Released::ByHost(why) => ((*why).to_owned(), ExitCode::SUCCESS),
            Released::By(signal) => (format!("{signal} came"), ExitCode::from(Ended::Killed(*signal).shell_code())),
            Released::AtOnce(reason) => (reason.to_string(), ExitCode::SUCCESS),
        };
        self.record.close();
        self.held.ends_because(&why);
        self.held.is_over();
        code
    }

    fn is_ready(&mut self) {
        self.record.enter(State::Ready, 0);
        self.held.is_ready();
    }

    /// Waits until the host lets go of the slot: a newcomer's request alone does not end the host's work.
    fn wait(&mut self) -> Released {
        let reads = stdin_kind() != StdinKind::Mute;
        loop {
            let mut events = vec![(self.opener.signals(), Until::Readable)];
            events.extend(self.opener.ends().map(|fd| (fd, Until::Readable)));
            let ends = events.len();
            if reads {
                events.push((standard_input(), Until::Readable));
            }
            let fired = poll::wait(&events, None).unwrap_or_default();
            let any = |range: std::ops::Range<usize>| fired.get(range).is_some_and(|fired| fired.contains(&true));
            let (host_ended, stdin_speaks) = (any(1..ends), any(ends..ends + 1));
            while let Some(arrived) = self.opener.next_signal() {
                match PenOpener::asks(arrived) {
                    Some(Ask::StopNow) => {
                        return Released::AtOnce(Reason::Asked { sender: arrived.sender, ask: Ask::StopNow });
                    }
                    Some(ask) => self.is_asked(ask, &Reason::Asked { sender: arrived.sender, ask }),
                    None if PenOpener::is_the_end(arrived) => return Released::By(arrived.signal),
                    None => {}
                }
            }
            self.opener.reap_others();
            if host_ended {
                return Released::ByHost("the host has ended");
            }
            if stdin_speaks && !self.read() {
                return Released::ByHost("it was released");
            }
        }
    }

    fn is_asked(&mut self, ask: Ask, why: &Reason) {
        if ask == Ask::HandOver {
            self.held.hands_over();
        }
        self.record.enter(State::Stopping { reason: why.to_string() }, 0);
        self.held.ends_because(why);
        self.held.is_stopping();
        self.say("asked", "asked to hand over", Some(&why.to_string()));
    }

    /// Takes in what the host writes. False at the end of it.
    fn read(&mut self) -> bool {
        let mut buffer = [0; MAX_LINE];
        match stream::read(standard_input(), &mut buffer) {
            Ok(Some(0)) | Err(_) => return false,
            Ok(None) => return true,
            Ok(Some(length)) => self.input.extend_from_slice(&buffer[..length]),
        }
        while let Some(end) = self.input.iter().position(|byte| *byte == b'\n') {
            let line: Vec<u8> = self.input.drain(..=end).collect();
            if line.trim_ascii() == READY {
                self.is_ready();
            }
        }
        if self.input.len() > MAX_LINE {
            self.input.clear();
        }
        true
    }

    /// Tells the host. If the host does not listen, the slot is held all the same.
    fn say(&self, event: &str, words: &str, text: Option<&str>) {
        let name = &self.args.name;
        let line = match (self.args.json, text) {
            (true, None) => format!("{}\n", json!({ "event": event, "slot": name.as_str() })),
            (true, Some(text)) => format!("{}\n", json!({ "event": event, "slot": name.as_str(), "text": text })),
            (false, None) => format!("{words} {name}\n"),
            (false, Some(text)) => format!("{words} {name}: {}\n", escaped(text)),
        };
        terminal::write(line.as_bytes()).ok();
    }
}
