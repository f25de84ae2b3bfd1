//! One round: a host starts a tree, the plan's victims are killed, and in the end no process may be left.

use std::time::{Duration, Instant};

use badchild::{Found, Pid, Scene};
use nostray_sys::Signal;

use super::Stage;
use super::chain::{Chain, Role};
use super::plan::{Moment, Plan, Victim};
use crate::Failure;
use crate::host::{Host, READY};

/// Much longer than both graces together: the machine may be busy with other rounds.
const DEADLINE: Duration = Duration::from_secs(30);
/// How much longer a survivor is watched, to tell a slow end from none.
const AFTERWARDS: Duration = Duration::from_secs(20);
/// So many looks in a row must find no process. In the middle of an `execve` a process has no environment, and a look
/// can miss a process that is forked during it.
const LOOKS: usize = 3;

/// What a round came to when nothing was wrong.
pub(crate) struct Outcome {
    /// Whether the managed front, front, spare, guard and host were killed.
    pub(crate) killed: [bool; 5],
    /// From the last kill to the end of the last process.
    pub(crate) time: Duration,
}

/// What was wrong.
pub(crate) struct Trouble {
    pub(crate) what: String,
    pub(crate) details: Vec<String>,
    /// The round could not even begin, since there are too many processes.
    pub(crate) no_room: bool,
}

impl Trouble {
    pub(crate) fn new(what: impl Into<String>, details: Vec<String>) -> Self {
        let what = what.into();
        // The text of EAGAIN from fork: this process reports it, or the host on its stdout.
        let no_room = what.contains("Resource temporarily unavailable");
        Self { what, details, no_room }
    }
}

impl From<Failure> for Trouble {
    fn from(error: Failure) -> Self {
        Self::new(error.to_string(), Vec::new())
    }
}

/// What was done, and when.
struct Log {
    start: Instant,
    lines: Vec<String>,
}

impl Log {
    fn add(&mut self, what: impl std::fmt::Display) {
        self.lines.push(format!("{:9.3} ms  {what}", self.start.elapsed().as_secs_f64() * 1e3));
    }
}

pub(crate) fn play(stage: &Stage, plan: &Plan, scene: &Scene) -> Result<Outcome, Trouble> {
    let folder = badchild::Folder::new("race");
    let (said, complaints) = (folder.path().join("nostray.log"), folder.path().join("stderr"));
    let nostray = stage.programs.nostray.as_os_str().to_owned();
    let mut command = vec![nostray, "run".into(), "--log-file".into(), said.clone().into()];
    // Pens of other rounds must not sweep up what this one leaves behind.
    command.extend(["--no-sweep", "--eof-grace", "50ms", "--term-grace", "50ms"].map(Into::into));
    let (lock, two) = (folder.path().join("lock"), folder.path().join("two"));
    if plan.managed {
        command.extend(["--backoff", "1ms..20ms", "--max-failures", "1000/1s", "--"].map(Into::into));
        // The tree inherits the lock: it is held for as long as any process of the tree lives.
        let script = "exec 9>\"$0\"; flock -n 9 || echo two >>\"$1\"; shift; exec \"$@\"";
        command.extend(["sh", "-c", script].map(Into::into));
        command.extend([lock.into(), two.clone().into()]);
        command.extend(["env".into(), format!("{}={READY}", badchild::READY).into()]);
    } else {
        command.push("--".into());
    }
    command.extend([
        stage.programs.badchild.as_os_str().to_owned(),
        "tree".into(),
        plan.manner.into(),
        plan.kind.into(),
    ]);

    let stderr = std::fs::File::create(&complaints).map_err(Failure::from)?.into();
    let mut log = Log { start: Instant::now(), lines: Vec::new() };
    let mut host = Host::start(scene, &stage.programs.badchild, &["--stdin", plan.stdin], &command, stderr)?;
    let host_pid = host.pid()?;
    let mut chain = Chain::new(plan.managed);
    let result = kill_all(plan, &mut host, host_pid, &mut chain, &mut log);
    let with_log = |what: String, mut details: Vec<String>, log: Log| {
        details.extend(log.lines);
        for (name, file) in [("log", &said), ("stderr", &complaints)] {
            let text = std::fs::read_to_string(file).unwrap_or_default();
            details.extend(text.lines().map(|line| format!("{name}: {line}")));
        }
        Trouble::new(what, details)
    };
    let killed = match result {
        Ok(killed) => killed,
        Err(error) => return Err(with_log(error.to_string(), describe(&scene.processes()), log)),
    };
    // A process of the pen is gone, or its stdin is closed: the tree has to end although the host lives. A supervised
    // child comes back, unless its managed front is gone.
    let goes_on = if plan.managed { !killed[Role::Managed as usize] } else { killed == [false; 5] };
    if goes_on && !matches!(plan.moment, Moment::StdinClosed(_)) {
        if plan.managed && plan.seed.is_multiple_of(2) {
            host.close();
        } else {
            host.kill().map_err(|error| Trouble::from(Failure::from(error)))?;
        }
    }
    let last_kill = Instant::now();
    let others = || {
        let mut left = scene.processes();
        left.retain(|found| found.stat.pid != host_pid);
        left
    };
    if let Err(left) = ends(&others) {
        let mut details = describe(&left);
        let end = last_kill + AFTERWARDS;
        while Instant::now() < end && !others().is_empty() {
            std::thread::sleep(Duration::from_millis(50));
        }
        details.push(match others().len() {
            0 => format!("... gone {:?} after the last kill", last_kill.elapsed()),
            count => format!("... {count} still there {AFTERWARDS:?} later"),
        });
        return Err(with_log(format!("{} left after {DEADLINE:?}", left.len()), details, log));
    }
    let time = last_kill.elapsed();
    // It was started before the front.
    if two.exists() {
        return Err(with_log("a child was started beside the last one".to_owned(), Vec::new(), log));
    }
    if chain.outermost().is_some() && !host.has_its_friend() {
        return Err(with_log("the host's friend was hit".to_owned(), Vec::new(), log));
    }
    drop(host);
    match ends(&|| scene.processes()) {
        Ok(()) => Ok(Outcome { killed, time }),
        Err(left) => Err(with_log("a process outlived the host".to_owned(), describe(&left), log)),
    }
}

/// Kills the plan's victims that are there at that moment. Returns whether managed front, front, spare, guard and host
/// were killed.
fn kill_all(
    plan: &Plan,
    host: &mut Host,
    host_pid: Pid,
    chain: &mut Chain,
    log: &mut Log,
) -> Result<[bool; 5], Failure> {
    match plan.moment {
        Moment::Spawned(time) => spin(time),
        Moment::Seen(time) => {
            let awaited = plan.first_of_pen().unwrap_or(Role::Front);
            let patience = Instant::now() + Duration::from_secs(5);
            while chain.get(awaited).is_none() && Instant::now() < patience {
                chain.look(host_pid);
            }
            log.add(format_args!("{awaited:?} seen"));
            spin(time);
        }
        Moment::StdinClosed(time) => {
            host.ready(DEADLINE)?;
            chain.look(host_pid);
            host.close();
            log.add("stdin closed");
            spin(time);
        }
    }
    let mut killed = [false; 5];
    for (at, (pause, victim)) in plan.kills.iter().enumerate() {
        // Find the processes to be killed at once before the first kill: looking takes time between the kills.
        if at > 0 && *pause > Duration::from_micros(1) {
            spin(*pause);
        }
        if at == 0 || *pause > Duration::from_micros(1) {
            chain.look(host_pid);
        }
        match victim {
            Victim::Host => {
                log.add("SIGKILL to the host");
                host.kill()?;
                killed[4] = true;
            }
            Victim::Own(role) => match chain.get(*role).filter(|found| found.is_alive()) {
                Some(found) => {
                    log.add(format_args!("SIGKILL to {role:?} {} ({})", found.stat.pid, found.stat.name));
                    found.send(Signal::KILL);
                    killed[*role as usize] = true;
                }
                None => log.add(format_args!("{role:?} is not there")),
            },
        }
    }
    Ok(killed)
}

/// Waits exactly: sleeping alone is late by a good part of what it is about.
fn spin(time: Duration) {
    let end = Instant::now() + time;
    std::thread::sleep(time.saturating_sub(Duration::from_millis(1)));
    while Instant::now() < end {
        std::hint::spin_loop();
    }
}

/// Waits for several looks in a row that find no process. At the deadline, returns the processes that are left.
fn ends(processes: &dyn Fn() -> Vec<Found>) -> Result<(), Vec<Found>> {
    let deadline = Instant::now() + DEADLINE;
    let mut empty = 0;
    loop {
        let left = processes();
        empty = if left.is_empty() { empty + 1 } else { 0 };
        if empty == LOOKS {
            return Ok(());
        }
        if Instant::now() > deadline && !left.is_empty() {
            return Err(left);
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// What there is to know about each.
pub(crate) fn describe(those: &[Found]) -> Vec<String> {
    let line = |found: &Found| {
        let status = std::fs::read_to_string(format!("/proc/{}/status", found.stat.pid)).unwrap_or_default();
        let field =
            |key: &str| status.lines().find_map(|line| line.strip_prefix(key)).unwrap_or_default().trim().to_owned();
        format!(
            "pid {} ({}), parent {:?}, state {}, pending {}/{}, blocked {}, ignored {}: {}",
            found.stat.pid,
            found.stat.name,
            found.stat.parent.map(|pid| pid.as_raw_nonzero().get()),
            field("State:"),
            field("SigPnd:"),
            field("ShdPnd:"),
            field("SigBlk:"),
            field("SigIgn:"),
            found.command,
        )
    };
    those.iter().map(line).collect()
}
