//! Processes that have nothing to do with the slot, and must not be touched.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};

use super::{Programs, Trouble};
use crate::programs::publish_as;
use crate::{Folder, Found, Scene, User};

/// Processes of the same user that are called like nostray's own, and that look like contenders on their command line.
#[derive(Debug)]
pub struct Lookalikes {
    processes: Vec<Child>,
    before: Vec<Found>,
    /// A scene of their own. Dropping the value kills them.
    _scenes: Vec<Scene>,
    _folder: Folder,
}

impl Lookalikes {
    /// Starts one process for each name of nostray's own processes.
    ///
    /// # Panics
    /// If they cannot be started.
    #[must_use]
    pub fn start(programs: &Programs) -> Self {
        let folder = Folder::new("lookalikes");
        let (mut processes, scenes) = (Vec::new(), User::all().into_iter().map(Scene::new).collect::<Vec<_>>());
        for scene in &scenes {
            for name in ["nostray", "nostray-front", "nostray-spare", "nostray-guard", "nostray-sweep"] {
                let program = publish_as(&programs.badchild, &folder, name);
                let mut command = scene.command(&program);
                command.args(["pause", "run", "--slot", SLOT, "--if-taken", "replace"]).stdin(Stdio::null());
                processes.push(ready(command.stdout(Stdio::piped())).expect("start a lookalike"));
            }
        }
        let before = processes.iter().filter_map(found).collect();
        Self { processes, before, _scenes: scenes, _folder: folder }
    }

    /// The processes that have ended or are stopped.
    #[must_use]
    pub fn hit(&self) -> Vec<String> {
        let number = self.before.len();
        let missing = (number < self.processes.len()).then(|| format!("only {number} were there"));
        let gone = self.before.iter().filter(|found| !is_as_before(found));
        gone.map(|found| format!("{} {}", found.stat.pid, found.command)).chain(missing).collect()
    }
}

impl Drop for Lookalikes {
    fn drop(&mut self) {
        for process in &mut self.processes {
            process.kill().ok();
            process.wait().ok();
        }
    }
}

/// The slot of every round: each round has a runtime directory of its own.
pub(super) const SLOT: &str = "contested";

/// Pens beside the slot in a round: one without a slot, and one with another slot.
pub(super) struct Neighbours {
    scene: Scene,
    processes: Vec<Child>,
    before: Vec<Found>,
}

impl Neighbours {
    pub(super) fn start(programs: &Programs, place: &Scene) -> Result<Self, Trouble> {
        let scene = Scene::new(place.user);
        let mut processes = Vec::new();
        for options in [&[][..], &["--slot", "another", "--if-taken", "replace"]] {
            let mut command = scene.command(&programs.nostray);
            place.lend_its_place(&mut command);
            command.args(["run", "--eof-grace", "30s"]).args(options).arg("--").arg(&programs.badchild);
            command.args(["tree", "cooperative", "setsid"]);
            let command = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
            processes.push(ready(command)?);
        }
        let mut neighbours = Self { scene, processes, before: Vec::new() };
        // Front, spare, guard, child and grandchild of each. A sweeper may be there too, and it has its parent's name for a moment.
        let complete = crate::comes_true(crate::PATIENCE, &mut || {
            neighbours.before = neighbours.scene.processes();
            neighbours.before.retain(|found| found.stat.name != "nostray-sweep");
            neighbours.before.len() == 10
        });
        if complete {
            return Ok(neighbours);
        }
        Err(Trouble { what: "not all neighbours are there".to_owned(), details: neighbours.names() })
    }

    fn names(&self) -> Vec<String> {
        self.before.iter().map(|found| format!("{} {} {}", found.stat.pid, found.stat.name, found.command)).collect()
    }

    /// The processes that have ended or are stopped.
    pub(super) fn hit(&self) -> Vec<String> {
        let gone = self.before.iter().filter(|found| !is_as_before(found));
        gone.map(|found| format!("{} {} {}", found.stat.pid, found.stat.name, found.command)).collect()
    }

    /// Ends them as a host does, and waits until nothing is left.
    pub(super) fn end(mut self) -> Result<(), Trouble> {
        self.processes.iter_mut().for_each(|process| drop(process.stdin.take()));
        for process in &mut self.processes {
            let mut code = None;
            crate::comes_true(crate::PATIENCE, &mut || {
                code = process.try_wait().ok().flatten();
                code.is_some()
            });
            if code.and_then(|status| status.code()) != Some(0) {
                return Err(Trouble::new(format!("a neighbour did not end well: {code:?}")));
            }
        }
        if crate::comes_true(crate::PATIENCE, &mut || self.scene.processes().is_empty()) {
            return Ok(());
        }
        Err(Trouble { what: "something is left of a neighbour".to_owned(), details: self.names() })
    }
}

impl Drop for Neighbours {
    fn drop(&mut self) {
        for process in &mut self.processes {
            process.kill().ok();
            process.wait().ok();
        }
    }
}

/// Starts it, and waits until it says a line.
fn ready(command: &mut Command) -> std::io::Result<Child> {
    let mut process = command.spawn()?;
    if let Some(stdout) = process.stdout.take() {
        BufReader::new(stdout).read_line(&mut String::new())?;
    }
    Ok(process)
}

fn found(process: &Child) -> Option<Found> {
    Found::by_pid(crate::pid(i32::try_from(process.id()).ok()?))
}

/// Whether it lives, and is not stopped.
fn is_as_before(found: &Found) -> bool {
    found.is_alive() && nostray_sys::proc::Stat::of(found.stat.pid).is_some_and(|stat| !stat.is_stopped())
}
