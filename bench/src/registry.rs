//! What knowing costs: `nostray ps` and `nostray sweep` against `ps -e`, with many other processes on the machine and with
//! many pens on record, in the same run and taking turns.

use std::io::{BufRead, BufReader};
use std::process::{Child, Stdio};
use std::time::Instant;

use badchild::{Scene, User};

use crate::Failure;
use crate::programs::Programs;
use crate::report::Table;
use crate::screen;
use crate::stats::{Spread, ratios};
use crate::targets::verdict;

/// What is timed.
const COMMANDS: [&str; 4] = ["ps -e", "nostray ps", "nostray sweep", "nostray sweep, one dead pen"];

/// Options of `registry`.
pub(crate) struct Options {
    pub(crate) quick: bool,
}

pub(crate) fn run(options: &Options) -> Result<(), Failure> {
    let programs = Programs::build()?;
    let rounds = if options.quick { 5 } else { 15 };
    let others: &[usize] = if options.quick { &[100, 1000] } else { &[100, 1000, 5000] };
    let pens: &[usize] = if options.quick { &[1, 100] } else { &[1, 100, 1000] };

    let mut table =
        Table::new("Other processes on the machine, 1 pen", &["processes", "what", "ms", "ratio to ps -e"]);
    let mut targets = Vec::new();
    for &count in others {
        let crowd = Crowd::start(&programs, count)?;
        let pen = Pens::start(&programs, 1)?;
        let times = time_all(&programs, &pen.scene, rounds)?;
        add(&mut table, count, &times);
        if count == 5000 {
            let ratio = Spread::of(&ratios(&times[3], &times[0])).median;
            targets.push(format!(
                "{}: scan of a sweep at 5,000 processes is {ratio:.2} of ps -e (0.30)",
                verdict(ratio <= 0.3)
            ));
        }
        drop((crowd, pen));
    }
    screen::print(table.text());

    let mut table = Table::new("Pens on record", &["pens", "what", "ms", "ratio to ps -e"]);
    for &count in pens {
        let pens = Pens::start(&programs, count)?;
        let crowd = if count == 100 { Some(Crowd::start(&programs, 500)?) } else { None };
        let times = time_all(&programs, &pens.scene, rounds)?;
        add(&mut table, count, &times);
        if count == 100 {
            let ratio = Spread::of(&ratios(&times[1], &times[0])).median;
            targets.push(format!(
                "{}: ps of 100 pens at 1,000 processes is {ratio:.2} of ps -e (1.00)",
                verdict(ratio <= 1.0)
            ));
        }
        drop((crowd, pens));
    }
    screen::print(table.text());
    for target in targets {
        screen::print(&target);
    }
    Ok(())
}

fn add(table: &mut Table, count: usize, times: &[Vec<f64>; 4]) {
    for (name, values) in COMMANDS.iter().zip(times) {
        let ratio = Spread::of(&ratios(values, &times[0])).show(2);
        table.row([count.to_string(), (*name).to_owned(), Spread::of(values).show(2), ratio]);
    }
}

/// Milliseconds of each command, round by round.
fn time_all(programs: &Programs, scene: &Scene, rounds: usize) -> Result<[Vec<f64>; 4], Failure> {
    let mut times: [Vec<f64>; 4] = Default::default();
    let dead = Scene::apart(User::Current);
    for _ in 0..rounds {
        let nostray = programs.nostray.as_path();
        times[0].push(time(scene, "ps".as_ref(), &["-e"])?);
        times[1].push(time(scene, nostray, &["ps"])?);
        times[2].push(time(scene, nostray, &["sweep"])?);
        // A dead pen makes a sweep look through the whole machine. Its record names nobody who is left.
        leave_a_dead_record(programs, &dead)?;
        times[3].push(time(&dead, nostray, &["sweep", "--dry-run"])?);
    }
    Ok(times)
}

fn time(scene: &Scene, program: &std::path::Path, words: &[&str]) -> Result<f64, Failure> {
    let mut command = scene.command(program);
    command.args(words).stdin(Stdio::null()).stdout(Stdio::null());
    let started = Instant::now();
    let status = command.status()?;
    let took = started.elapsed().as_secs_f64() * 1000.0;
    if status.code().is_none_or(|code| code > 1) {
        return Err(format!("{} {words:?} failed", program.display()).into());
    }
    Ok(took)
}

/// A record whose pen has ended, as a crash of everything would leave it.
fn leave_a_dead_record(programs: &Programs, scene: &Scene) -> Result<(), Failure> {
    let folder = scene.runtime().join("nostray");
    let is_record = |path: &std::path::Path| path.extension().is_some_and(|kind| kind == "json");
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

fn start_pen(programs: &Programs, scene: &Scene) -> Result<Child, Failure> {
    let mut command = scene.command(&programs.nostray);
    command.args(["run", "--no-sweep", "--"]).arg(&programs.badchild).arg("pause");
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
    BufReader::new(child.stdout.take().ok_or("no pipe")?).read_line(&mut String::new())?;
    Ok(child)
}

/// Pens on record.
struct Pens {
    scene: Scene,
    children: Vec<Child>,
}

impl Pens {
    fn start(programs: &Programs, count: usize) -> Result<Self, Failure> {
        let mut pens = Self { scene: Scene::apart(User::Current), children: Vec::new() };
        for _ in 0..count {
            let child = start_pen(programs, &pens.scene)?;
            pens.children.push(child);
        }
        Ok(pens)
    }
}

impl Drop for Pens {
    fn drop(&mut self) {
        for child in &mut self.children {
            drop(child.stdin.take());
        }
        for child in &mut self.children {
            child.wait().ok();
        }
    }
}

/// Processes that have nothing to do with nostray.
struct Crowd {
    child: Child,
    _scene: Scene,
}

impl Crowd {
    fn start(programs: &Programs, count: usize) -> Result<Self, Failure> {
        let scene = Scene::new(User::Current);
        let mut command = scene.command(&programs.badchild);
        let mut child =
            command.args(["many", &count.to_string()]).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
        BufReader::new(child.stdout.take().ok_or("no pipe")?).read_line(&mut String::new())?;
        Ok(Self { child, _scene: scene })
    }
}

impl Drop for Crowd {
    fn drop(&mut self) {
        drop(self.child.stdin.take());
        self.child.wait().ok();
    }
}
