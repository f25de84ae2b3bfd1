//! One round: contenders arrive and leave, strokes hit some processes, and in the end the slot is obtained and nothing is left.

use std::fs::File;
use std::io::Write;
use std::path::Path;
use std::process::{Child, ChildStdin, Stdio};
use std::time::{Duration, Instant};

use nostray_sys::Signal;

use super::cast::{Cast, Role};
use super::ending;
use super::plan::{Contender, Deed, Leave, Plan, Stroke};
use super::strangers::{Neighbours, SLOT};
use super::{Programs, Tally, Trouble};
use crate::{FRIEND, Folder, Found, Scene};

/// The first line of a host to a child that speaks JSON-RPC.
const HELLO: &str = r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"contest","version":"1"}}}"#;

/// The state of a round.
pub(super) struct Ring<'a> {
    pub(super) programs: &'a Programs,
    pub(super) scene: &'a Scene,
    pub(super) folder: Folder,
    log: Vec<String>,
    /// The evidence at the time of a failure, if it has changed since then.
    pub(super) evidence: Option<Vec<String>>,
    pub(super) began: Instant,
    pub(super) tally: Tally,
    /// The processes that were killed.
    pub(super) killed: Vec<i32>,
}

impl Ring<'_> {
    pub(super) fn note(&mut self, what: impl std::fmt::Display) {
        self.log.push(format!("{:9.3} ms  {what}", self.began.elapsed().as_secs_f64() * 1e3));
    }

    pub(super) fn file(&self, name: &str) -> std::path::PathBuf {
        self.folder.path().join(name)
    }
}

/// Runs a round in a scene with a runtime directory of its own.
///
/// # Errors
/// If two trees held the slot at once, if the slot was not obtained in the end, if an unrelated process was hit, or if anything is left.
pub fn play(programs: &Programs, plan: &Plan, scene: &Scene) -> Result<Tally, Trouble> {
    let folder = Folder::new("contest");
    let mut ring = Ring {
        programs,
        scene,
        folder,
        log: Vec::new(),
        evidence: None,
        began: Instant::now(),
        tally: Tally::default(),
        killed: Vec::new(),
    };
    match played(&mut ring, plan) {
        Ok(()) => Ok(ring.tally),
        Err(mut trouble) => {
            let evidence = ring.evidence.take().unwrap_or_else(|| ending::evidence(&ring));
            trouble.details.extend(evidence);
            trouble.details.append(&mut ring.log);
            Err(trouble)
        }
    }
}

fn played(ring: &mut Ring<'_>, plan: &Plan) -> Result<(), Trouble> {
    let neighbours = Neighbours::start(ring.programs, ring.scene)?;
    let friends = Scene::new(ring.scene.user);
    ring.began = Instant::now();
    let mut hosts = contend(ring, plan, &friends)?;
    // No contender arrives any more, and the remaining hosts end.
    ring.note("the hosts end");
    hosts.iter_mut().for_each(Host::kill);
    // Reap the hosts: a contender must not act for a host that has ended.
    hosts.iter_mut().try_for_each(|host| host.process.wait().map(drop))?;
    ending::obtain(ring, plan)?;
    ending::expect_nothing(ring)?;
    let hit = neighbours.hit();
    if !hit.is_empty() {
        return Err(Trouble { what: "a neighbour was hit".to_owned(), details: hit });
    }
    // A host starts its friend before it prints the number of the front.
    let (expected, left) = (hosts.iter().filter(|host| host.has_started(ring)).count(), friends.processes().len());
    if left < expected {
        return Err(Trouble::new(format!("of {expected} friends of hosts, {} were hit", expected - left)));
    }
    neighbours.end()?;
    ending::expect_no_files(ring)?;
    ending::count(ring);
    Ok(())
}

/// The host of a contender.
struct Host {
    number: usize,
    process: Child,
    orders: Option<ChildStdin>,
}

impl Host {
    fn start(ring: &Ring<'_>, contender: &Contender, number: usize, friends: &Scene) -> Result<Self, Trouble> {
        let Programs { nostray, badchild } = ring.programs;
        let mut host = ring.scene.command(badchild);
        host.env(FRIEND, &friends.token).args(["host", "--stdin", contender.stdin, "--"]);
        host.arg(nostray).args(["run", "--slot", SLOT]).args(&contender.options);
        if contender.is_ready_by_file {
            let file = format!("{}.ready", contender.claim.last().map_or("", String::as_str));
            host.arg("--ready-file").arg(ring.file(&file));
        }
        let (name, options) = contender.claim.split_last().ok_or_else(|| Trouble::new("a plan without a name"))?;
        host.arg("--").arg(badchild).arg("claim").args(options).arg(ring.folder.path()).arg(name).arg("--");
        host.arg(badchild).args(&contender.manner);
        host.stdin(Stdio::piped());
        host.stdout(File::create(ring.file(&format!("{number}.out")))?);
        host.stderr(File::create(ring.file(&format!("{number}.err")))?);
        let mut process = host.spawn()?;
        let mut orders = process.stdin.take();
        if let Some(orders) = orders.as_mut().filter(|_| contender.talks) {
            // The host may have ended already.
            writeln!(orders, "say {HELLO}").ok();
        }
        Ok(Self { number, process, orders })
    }

    fn leave(&mut self, how: Leave) {
        let order = match how {
            Leave::Close => "close",
            Leave::Exit => "exit",
            Leave::Kill => return self.kill(),
        };
        if let Some(orders) = &mut self.orders {
            writeln!(orders, "{order}").ok();
        }
    }

    fn kill(&mut self) {
        self.process.kill().ok();
    }

    fn has_started(&self, ring: &Ring<'_>) -> bool {
        std::fs::read_to_string(ring.file(&format!("{}.out", self.number))).is_ok_and(|text| text.contains("front "))
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        self.kill();
        self.process.wait().ok();
    }
}

/// An event of the round.
enum Act<'a> {
    Arrive(usize, &'a Contender),
    Leave(usize, Leave),
    Strike(&'a Stroke),
    GoOn(Found),
}

fn contend(ring: &mut Ring<'_>, plan: &Plan, friends: &Scene) -> Result<Vec<Host>, Trouble> {
    let mut acts: Vec<(Duration, Act<'_>)> = Vec::new();
    for (number, contender) in plan.contenders.iter().enumerate() {
        acts.push((contender.arrives, Act::Arrive(number, contender)));
        acts.push((contender.leaves.0, Act::Leave(number, contender.leaves.1)));
    }
    acts.extend(plan.strokes.iter().map(|stroke| (stroke.at, Act::Strike(stroke))));
    // Sorted by descending time: the loop pops from the end.
    acts.sort_by_key(|(at, _)| std::cmp::Reverse(*at));
    let mut hosts: Vec<Host> = Vec::new();
    while let Some((at, act)) = acts.pop() {
        // Not a wait for an event: the plan of the round fixes the time of each act.
        std::thread::sleep(at.saturating_sub(ring.began.elapsed()));
        match act {
            Act::Arrive(number, contender) => {
                ring.note(format_args!(
                    "c{number} comes: {} -- {} {}",
                    contender.options.join(" "),
                    contender.claim.join(" "),
                    contender.manner.join(" ")
                ));
                hosts.push(Host::start(ring, contender, number, friends)?);
            }
            Act::Leave(number, how) => {
                ring.note(format_args!("c{number} leaves: {how:?}"));
                hosts.iter_mut().filter(|host| host.number == number).for_each(|host| host.leave(how));
            }
            Act::Strike(stroke) => {
                if let (Some(struck), Deed::Pause(time)) = (strike(ring, stroke), stroke.deed) {
                    acts.push((ring.began.elapsed() + time, Act::GoOn(struck)));
                    acts.sort_by_key(|(at, _)| std::cmp::Reverse(*at));
                }
            }
            Act::GoOn(found) => {
                ring.note(format_args!("{} goes on", found.stat.pid));
                found.send(Signal::CONT);
            }
        }
        if ring.file("two").exists() {
            return Err(two_at_once(ring.folder.path()));
        }
    }
    Ok(hosts)
}

/// Strikes a process in this role, if there is one now.
fn strike(ring: &mut Ring<'_>, stroke: &Stroke) -> Option<Found> {
    let mut cast = Cast::of(ring.scene);
    if stroke.role == Role::Claimant {
        // A process is a claimant for a short time only, so wait for one.
        let patience = Instant::now() + Duration::from_millis(60);
        while cast.pick(stroke.role, 0).is_none() && Instant::now() < patience {
            cast = Cast::of(ring.scene);
        }
    }
    let struck = cast.pick(stroke.role, stroke.choice)?.clone();
    let (pid, name) = (struck.stat.pid, struck.stat.name.clone());
    ring.note(format_args!("{:?} to {:?} {pid} ({name})", stroke.deed, stroke.role));
    match stroke.deed {
        Deed::Kill => {
            struck.send(Signal::KILL);
            ring.killed.push(pid.as_raw_nonzero().get());
        }
        Deed::Term => struck.send(Signal::TERM),
        Deed::Pause(_) | Deed::Freeze => struck.send(Signal::STOP),
        Deed::KillAll => {
            let all = cast.around(&struck);
            // Stop them first, so that none of them acts on the death of another.
            all.iter().for_each(|found| found.send(Signal::STOP));
            all.iter().for_each(|found| found.send(Signal::KILL));
            let pids: Vec<String> = all.iter().map(|f| format!("{} ({})", f.stat.pid, f.stat.name)).collect();
            ring.note(format_args!("which are {}", pids.join(", ")));
            ring.killed.extend(all.iter().map(|found| found.stat.pid.as_raw_nonzero().get()));
        }
    }
    if let Some(count) =
        ring.tally.strokes.get_mut(stroke.role as usize).and_then(|row| row.get_mut(stroke.deed.number()))
    {
        *count += 1;
    }
    Some(struck)
}

/// The report of the children themselves.
pub(super) fn two_at_once(folder: &Path) -> Trouble {
    let said = std::fs::read_to_string(folder.join("two")).unwrap_or_default();
    Trouble { what: "two held the slot at once".to_owned(), details: said.lines().map(str::to_owned).collect() }
}
