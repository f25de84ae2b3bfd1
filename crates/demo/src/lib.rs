//! `nostray demo`: what survives a killed host, without nostray and with it. Two acts with the same host and the same
//! badly behaved tree, all of it played by this program.

mod act;
mod actors;
mod args;
mod cast;
mod own_state;
mod stage;
mod stop;
mod troupe;
mod voices;

use std::time::Duration;

use nostray_terminal::ExitCode;

use act::Act;
pub use args::Args;
use own_state::OwnState;
use stage::{Ink, Stage};
use stop::{Interrupts, Stop};

/// A part in the demonstration.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Actor {
    Host,
    Child,
    Helper,
    Setsid,
    Daemon,
    Stubborn,
}

impl Actor {
    /// As it is written on the command line.
    fn name(self) -> &'static str {
        match self {
            Self::Host => "host",
            Self::Child => "child",
            Self::Helper => "helper",
            Self::Setsid => "setsid",
            Self::Daemon => "daemon",
            Self::Stubborn => "stubborn",
        }
    }
}

/// How much time the audience gets.
#[derive(Debug, Clone, Copy)]
struct Pace {
    /// To look at a tree before its host is killed.
    before: Duration,
    /// To see that the tree stays when no process ends it.
    watch: Duration,
    /// To take in how an act has ended.
    after: Duration,
}

impl Pace {
    fn new(fast: bool) -> Self {
        let [before, watch, after] = if fast { [0, 1_000, 0] } else { [2_000, 2_500, 1_500] };
        let time = Duration::from_millis;
        Self { before: time(before), watch: time(watch), after: time(after) }
    }
}

/// Runs the demonstration, or one of its processes.
pub fn run(args: &Args) -> ExitCode {
    if let Some(actor) = args.actor {
        return actors::play(actor, &args.command);
    }
    match show(Pace::new(args.fast)) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(stop) => stop.report(),
    }
}

/// The whole show. Returns whether nostray has left nothing.
fn show(pace: Pace) -> Result<bool, Stop> {
    let interrupts = Interrupts::watch().map_err(|error| Stop::failed("watch for signals", error))?;
    let own_state = OwnState::new();
    let mut stage = Stage::new();
    let stage = &mut stage;
    stage.say(
        "A host starts a child, as an agent starts a server. The child starts helpers\n\
         that behave as badly as real ones. Then the host gets SIGKILL. Who is left?\n",
    )?;

    stage.say(&title(stage, "1  Without nostray", "child"))?;
    let alone = act::play(Act::Alone, &own_state, stage, &interrupts, pace)?;
    rest(stage, &interrupts, pace.after)?;

    stage.say(&title(stage, "\n2  With nostray", &format!("nostray run {} -- child", act::GRACES.join(" "))))?;
    let penned = act::play(Act::Penned, &own_state, stage, &interrupts, pace)?;
    rest(stage, &interrupts, pace.after)?;

    stage.say("")?;
    stage.summary(&alone, &penned)?;
    if penned.nothing_left {
        stage.say("\nPut `nostray run --` in front of a command, and it cannot outlive its host.")?;
    } else {
        stage.say("\nnostray has left something behind, which it never should. Please report it.")?;
    }
    Ok(penned.nothing_left)
}

/// Lets the audience take in what it has seen.
fn rest(stage: &mut Stage, interrupts: &Interrupts, time: Duration) -> Result<(), Stop> {
    interrupts.pause(time, time, |_| Ok(())).inspect_err(|stop| stage.break_off(stop))
}

fn title(stage: &Stage, name: &str, command: &str) -> String {
    format!("{}\n   {}\n", stage.ink(Ink::Bold, name), stage.ink(Ink::Dim, &format!("the host runs: {command}")))
}
