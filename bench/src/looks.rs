//! Commands that look at what runs, and how long they take: `nostray ps` and `nostray sweep` against `ps -e`, taking turns.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Instant;

use badchild::{Scene, User};

use crate::Failure;
use crate::pens::start_pen;
use crate::programs::Programs;
use crate::stats::{Spread, ratios};
use crate::traffic::watch;

/// One that is timed.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Look {
    /// `ps -e`, what knowing anything about processes costs on this machine.
    System,
    Ps,
    Sweep,
    /// A dead pen makes a sweep look through the whole machine.
    SweepOfOneDead,
}

impl Look {
    /// In this order they take turns.
    pub(crate) const ALL: [Self; 4] = [Self::System, Self::Ps, Self::Sweep, Self::SweepOfOneDead];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::System => "ps -e",
            Self::Ps => "nostray ps",
            Self::Sweep => "nostray sweep",
            Self::SweepOfOneDead => "nostray sweep, one dead pen",
        }
    }
}

/// Milliseconds of each, round by round.
pub(crate) struct Looks([Vec<f64>; 4]);

impl Looks {
    /// Has all of them look, with the pens of this scene on record.
    pub(crate) fn take(programs: &Programs, scene: &Scene, rounds: usize) -> Result<Self, Failure> {
        let mut times: [Vec<f64>; 4] = Default::default();
        let nostray = programs.nostray.as_path();
        let dead = Scene::apart(User::Current);
        for round in 0..rounds {
            watch::doing(format!("looking around, {} of {rounds}", round + 1));
            times[0].push(time(scene.command("ps".as_ref()).arg("-e"))?);
            times[1].push(time(scene.command(nostray).arg("ps"))?);
            times[2].push(time(scene.command(nostray).arg("sweep"))?);
            // None of the processes in its record is left.
            leave_a_dead_record(programs, &dead)?;
            times[3].push(time(dead.command(nostray).args(["sweep", "--dry-run"]))?);
        }
        Ok(Self(times))
    }

    pub(crate) fn of(&self, look: Look) -> &[f64] {
        &self.0[look as usize]
    }

    pub(crate) fn spread(&self, look: Look) -> Spread {
        Spread::of(self.of(look))
    }

    /// How many times as long as `ps -e`, within a round.
    pub(crate) fn ratio(&self, look: Look) -> Spread {
        Spread::of(&ratios(self.of(look), self.of(Look::System)))
    }
}

/// How many milliseconds a command takes that is to succeed.
pub(crate) fn time(command: &mut Command) -> Result<f64, Failure> {
    command.stdin(Stdio::null()).stdout(Stdio::null());
    let started = Instant::now();
    let status = command.status()?;
    let took = started.elapsed().as_secs_f64() * 1000.0;
    // One says that nothing was found, or that something was.
    if status.code().is_none_or(|code| code > 1) {
        return Err(format!("{command:?} failed: {status}").into());
    }
    Ok(took)
}

/// A record whose pen has ended, as a crash of everything would leave it.
fn leave_a_dead_record(programs: &Programs, scene: &Scene) -> Result<(), Failure> {
    let folder = scene.runtime().join("nostray");
    let is_record = |path: &Path| path.extension().is_some_and(|kind| kind == "json");
    let find = || std::fs::read_dir(&folder).ok()?.flatten().map(|entry| entry.path()).find(|path| is_record(path));
    if find().is_some() {
        return Ok(());
    }
    let mut pen = start_pen(programs, scene)?;
    let path = find().ok_or("a pen without a record")?;
    let record = std::fs::read(&path)?;
    drop(pen.stdin.take());
    pen.wait()?;
    std::fs::write(&path, record)?;
    std::fs::write(path.with_extension("lock"), "")?;
    Ok(())
}
