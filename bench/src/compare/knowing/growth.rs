//! How what is known grows with the children: how long a look takes, what is held in memory, and who wakes up while nothing happens.

use std::ffi::OsString;
use std::process::Stdio;
use std::time::Duration;

use badchild::{Found, comes_true};

use crate::Failure;
use crate::compare::Ground;
use crate::compare::behind::Measured;
use crate::looks::{Look, Looks, time};
use crate::memory::Held;
use crate::pens::{Crowd, Pens};
use crate::programs::running;
use crate::report::Table;
use crate::stats::Spread;
use crate::supervisors::{Kind, Supervisor};
use crate::traffic::watch;
use crate::wakeups::Switches;

/// Start-up is over by then.
const SETTLED: Duration = Duration::from_millis(500);
/// More children than this are asked of nostray alone: the others take minutes to start them.
const MOST_OF_OTHERS: usize = 100;
/// With how many pens there is a look at a machine with [`PROCESSES`].
const PENS: usize = 100;
const PROCESSES: usize = 1000;

/// How much.
pub(super) struct Amount<'a> {
    pub(super) counts: &'a [usize],
    pub(super) rounds: usize,
    pub(super) idle: Duration,
}

/// With so many children.
pub(super) struct Grown {
    pub(super) count: usize,
    pub(super) looks: Looks,
    /// Pens that `nostray ps --json` has shown.
    pub(super) listed: usize,
    /// Of all of nostray's processes.
    pub(super) pss: f64,
    pub(super) wakeups: f64,
    /// What supervisord and pm2 take for as many, if they were asked.
    pub(super) others: Vec<Other>,
    /// The same look with as many pens as [`PENS`] on a machine with about [`PROCESSES`].
    pub(super) crowded: Option<Spread>,
}

/// supervisord, or pm2.
pub(super) struct Other {
    pub(super) name: &'static str,
    question: &'static str,
    times: Vec<f64>,
    pss: f64,
}

impl Other {
    pub(super) fn time(&self) -> Measured {
        Measured::new(format!("`{}`", self.question), Spread::of(&self.times))
    }

    pub(super) fn memory(&self) -> Measured {
        Measured::new(self.name, Spread::of(&[self.pss]))
    }
}

pub(super) fn measure(ground: &Ground, amount: &Amount<'_>) -> Result<Vec<Grown>, Failure> {
    let mut pens = Pens::start(&ground.programs, 0)?;
    amount.counts.iter().map(|&count| one(ground, &mut pens, count, amount)).collect()
}

fn one(ground: &Ground, pens: &mut Pens, count: usize, amount: &Amount<'_>) -> Result<Grown, Failure> {
    let programs = &ground.programs;
    watch::doing(format!("starting {count} pens"));
    pens.grow(programs, count)?;
    // What is held when nothing happens is the question.
    std::thread::sleep(SETTLED);
    let own = running(&programs.nostray);
    let before = Switches::of(&own)?;
    std::thread::sleep(amount.idle); // the time in which nothing may happen is what is measured
    let wakeups = Switches::of(&own)?.since(&before) as f64 / amount.idle.as_secs_f64();
    let pss = held(&own)?;
    let output = pens.scene.command(&programs.nostray).args(["ps", "--json"]).stdin(Stdio::null()).output()?;
    // Every pen has one, and nothing else has.
    let listed = String::from_utf8_lossy(&output.stdout).matches("\"eof_grace\"").count();

    let others = if count <= MOST_OF_OTHERS { others(ground, count, amount.rounds)? } else { Vec::new() };
    watch::doing(format!("looking at {count} children"));
    let looks = Looks::take(programs, &pens.scene, amount.rounds)?;
    let crowded = if count == PENS {
        let here = nostray_sys::proc::scan()?.len();
        let _crowd = Crowd::start(programs, PROCESSES.saturating_sub(here).max(1))?;
        Some(Looks::take(programs, &pens.scene, amount.rounds)?.ratio(Look::Ps))
    } else {
        None
    };
    Ok(Grown { count, looks, listed, pss, wakeups, others, crowded })
}

fn others(ground: &Ground, count: usize, rounds: usize) -> Result<Vec<Other>, Failure> {
    let child: [OsString; 2] = [ground.programs.badchild.clone().into(), "pause".into()];
    let mut all: Vec<(Other, Supervisor)> = Vec::new();
    for kind in Kind::all(&ground.peers) {
        watch::doing(format!("starting {count} children of {}", kind.name()));
        let supervisor = kind.start(&child, count)?;
        if !comes_true(badchild::PATIENCE, &mut || supervisor.children(&child).len() == count) {
            let there = supervisor.children(&child).len();
            return Err(format!("{} has started {there} of {count} children", kind.name()).into());
        }
        let other = Other { name: kind.name(), question: kind.question(), times: Vec::new(), pss: 0.0 };
        all.push((other, supervisor));
    }
    for _ in 0..rounds {
        for (other, supervisor) in &mut all {
            other.times.push(time(&mut supervisor.question())?);
        }
    }
    for (other, supervisor) in &mut all {
        other.pss = held(&supervisor.own(&child))?;
    }
    watch::doing(format!("ending {count} children of the others"));
    Ok(all.into_iter().map(|(other, _)| other).collect())
}

/// PSS of all of them, in KiB.
fn held(processes: &[Found]) -> Result<f64, Failure> {
    processes.iter().map(|found| Ok(Held::of(found)?.pss)).sum()
}

pub(super) fn time_table(all: &[Grown], rounds: usize) -> Table {
    let looks = [Look::System, Look::Ps, Look::Sweep];
    let names = looks.map(|look| format!("`{}`", look.name()));
    let others = all.iter().max_by_key(|grown| grown.others.len()).map(|grown| grown.others.as_slice());
    let others = others.unwrap_or_default();
    let columns = std::iter::once("children".to_owned()).chain(names);
    let columns: Vec<String> = columns.chain(others.iter().map(|other| format!("`{}`", other.question))).collect();
    let columns: Vec<&str> = columns.iter().map(String::as_str).collect();
    let mut table = Table::new("One look at so many children: ms", &columns);
    for grown in all {
        let ours = looks.map(|look| grown.looks.spread(look).show(1));
        let theirs = others.iter().map(|other| {
            let same = grown.others.iter().find(|same| same.name == other.name);
            same.map_or_else(|| "-".to_owned(), |same| same.time().value.show(0))
        });
        table.row(std::iter::once(grown.count.to_string()).chain(ours).chain(theirs));
    }
    table.note(format!(
        "Each child is a process that does nothing; nostray has it in a pen (`nostray run`), supervisord and pm2 have started it \
         themselves. {rounds} times each. `nostray ps` also sums up memory, open files and processor time of each tree, which `ps -e` \
         and supervisorctl do not. More than {MOST_OF_OTHERS} children were not asked of supervisord and pm2."
    ));
    table
}

pub(super) fn memory_table(all: &[Grown], idle: Duration) -> Table {
    let columns = ["pens", "all, KiB", "each, KiB", "wake-ups a second", "supervisord, KiB", "pm2, KiB"];
    let mut table =
        Table::new("What so many pens hold while nothing happens: PSS of all of nostray's processes", &columns);
    for grown in all {
        let other = |name: &str| {
            let found = grown.others.iter().find(|other| other.name == name);
            found.map_or_else(|| "-".to_owned(), |other| format!("{:.0}", other.pss))
        };
        table.row([
            grown.count.to_string(),
            format!("{:.0}", grown.pss),
            format!("{:.0}", grown.pss / grown.count as f64),
            format!("{:.2}", grown.wakeups),
            other("supervisord"),
            other("pm2"),
        ]);
    }
    table.note(format!(
        "Wake-ups: context switches of all of these processes within {idle:?}. PSS counts a page that n processes share as 1/n in each. \
         supervisord and pm2 are one daemon for all children, which goes with none of its children's hosts."
    ));
    table
}
