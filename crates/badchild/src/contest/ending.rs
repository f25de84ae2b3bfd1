//! The end of a round: the slot is obtained once more, and then nothing may be left, neither processes nor files.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::time::{Duration, Instant, SystemTime};

use nostray_sys::Signal;
use serde_json::Value;

use super::plan::{Ending, Plan};
use super::round::{Ring, two_at_once};
use super::strangers::SLOT;
use super::{Programs, Tally, Trouble};
use crate::{Found, comes_true};

/// The deadline to obtain the slot when no other contender comes, on a machine that is busy with other rounds. All graces of a round
/// together take a tenth of a second. A shared child without sessions is kept for ten seconds, and a holder that does not answer gets
/// five seconds.
const OBTAINED: Duration = Duration::from_secs(60);
/// The deadline for all processes to end after that.
const GONE: Duration = Duration::from_secs(40);

/// Obtains the slot, once or twice.
pub(super) fn obtain(ring: &mut Ring<'_>, plan: &Plan) -> Result<(), Trouble> {
    let waiting = if plan.is_shared { "wait for a shared one" } else { "wait" };
    match plan.ending {
        Ending::Wait => {
            ring.note("stopped processes are continued");
            go_on(&ring.scene.processes());
            last(ring, waiting, &[])
        }
        Ending::ReplaceThenWait => {
            // A contender above the handover limit only waits, and it would wait for ever for a stopped holder.
            last(ring, "replace", &["--max-handovers", "1000/1m"])?;
            last(ring, waiting, &[])
        }
    }
}

/// Continues all processes, and not only the stopped ones: SIGCONT also discards a pending stop.
fn go_on(those: &[Found]) {
    those.iter().for_each(|found| found.send(Signal::CONT));
}

/// The last contender.
struct Last(Child);

impl Drop for Last {
    fn drop(&mut self) {
        self.0.kill().ok();
        self.0.wait().ok();
    }
}

fn last(ring: &mut Ring<'_>, how: &str, options: &[&str]) -> Result<(), Trouble> {
    let if_taken = how.split(' ').next().unwrap_or_default();
    let Programs { nostray, badchild } = ring.programs;
    let name = format!("last-{if_taken}");
    ring.note(format_args!("{name} comes"));
    let start = Instant::now();
    let mut command = ring.scene.command(nostray);
    // Its child ends with its input, but other rounds may delay it.
    command.args(["run", "--eof-grace", "30s", "--slot", SLOT, "--if-taken", if_taken]).args(options);
    command.arg("--").arg(badchild).arg("claim");
    command.arg(ring.folder.path()).args([&name, "--"]).arg(badchild).args(["tree", "cooperative", "plain"]);
    command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(File::create(ring.file(&format!("{name}.err")))?);
    let mut process = Last(command.spawn()?);
    let holders = ring.file("holders");
    let has_it = || {
        let text = std::fs::read_to_string(&holders).unwrap_or_default();
        text.lines().any(|line| line.split(' ').next() == Some(name.as_str()))
    };
    let mut over = None;
    comes_true(OBTAINED, &mut || {
        over = process.0.try_wait().ok().flatten();
        over.is_some() || has_it()
    });
    let time = start.elapsed();
    if ring.file("two").exists() {
        return Err(two_at_once(ring.folder.path()));
    }
    if let Some(status) = over {
        return Err(Trouble::new(format!("{name} ended without the slot: {status}")));
    }
    if !has_it() {
        ring.evidence = Some(evidence(ring));
        // Find out whether the slot depends on a stopped process.
        go_on(&ring.scene.processes());
        let helps = comes_true(GONE, &mut || has_it());
        let then = if helps { "but does" } else { "and not even" };
        let what = format!("{name} did not obtain the slot within {OBTAINED:?}, {then} when all go on");
        return Err(Trouble::new(what));
    }
    ring.note(format_args!("{name} has the slot"));
    for (slowest, _) in ring.tally.slowest.iter_mut().zip(Tally::HOW).filter(|(_, name)| *name == how) {
        *slowest = (*slowest).max(time);
    }
    drop(process.0.stdin.take());
    let mut code = None;
    comes_true(GONE, &mut || {
        code = process.0.try_wait().ok().flatten();
        code.is_some()
    });
    match code {
        Some(status) if status.success() => Ok(()),
        other => Err(Trouble::new(format!("{name} did not end well: {other:?}"))),
    }
}

/// Waits until no process is left. Continues stopped processes, and asks a broker to leave.
pub(super) fn expect_nothing(ring: &mut Ring<'_>) -> Result<(), Trouble> {
    let start = Instant::now();
    let gone = comes_true(GONE, &mut || {
        let all = ring.scene.processes();
        go_on(&all);
        all.iter().filter(|found| found.stat.name == "nostray-broker").for_each(|broker| broker.send(Signal::TERM));
        all.is_empty()
    });
    ring.tally.slowest_end = start.elapsed();
    if gone { Ok(()) } else { Err(Trouble::new(format!("a process is left after {GONE:?}"))) }
}

/// Checks that records, queue entries and control groups are gone with their owners. A process that is killed while it writes a file
/// leaves the file behind; the next sweep removes it when it is old enough. A steward that is killed leaves its record; the next steward for
/// its key removes it, or a sweep.
pub(super) fn expect_no_files(ring: &mut Ring<'_>) -> Result<(), Trouble> {
    let of_killed_steward = |path: &PathBuf| {
        let record: Value = serde_json::from_str(&shown(path)).unwrap_or_default();
        let front = record["front"]["pid"].as_i64().and_then(|pid| i32::try_from(pid).ok());
        record["shared"].is_object() && front.is_some_and(|front| ring.killed.contains(&front))
    };
    expect_none(ring, &["json", "waits"], of_killed_steward)?;
    let long_ago = SystemTime::now() - Duration::from_secs(120);
    for path in of_pens(ring).into_iter().filter(|path| path.is_file()) {
        File::options().append(true).open(&path)?.set_modified(long_ago)?;
    }
    for words in [&["sweep"][..], &["slot", "list"]] {
        let output = ring.scene.command(&ring.programs.nostray).args(words).stdin(Stdio::null()).output()?;
        if !output.status.success() || !output.stderr.is_empty() {
            return Err(Trouble::new(format!("nostray {} says {output:?}", words.join(" "))));
        }
    }
    expect_none(ring, &["json", "waits", "lock", "new"], |_| false)
}

fn expect_none(ring: &Ring<'_>, kinds: &[&str], may_be_left: impl Fn(&PathBuf) -> bool) -> Result<(), Trouble> {
    let is_one = |path: &PathBuf| {
        path.is_dir() || path.extension().and_then(|kind| kind.to_str()).is_some_and(|kind| kinds.contains(&kind))
    };
    let left: Vec<PathBuf> = of_pens(ring).into_iter().filter(|path| is_one(path) && !may_be_left(path)).collect();
    if left.is_empty() {
        return Ok(());
    }
    let details = left.iter().map(|path| format!("{}: {}", path.display(), shown(path))).collect();
    Err(Trouble { what: "files are left".to_owned(), details })
}

/// Files and control groups that belong to pens, or to waiters.
fn of_pens(ring: &Ring<'_>) -> Vec<PathBuf> {
    let mut all = files(&ring.scene.runtime().join("nostray"));
    all.extend(files(&ring.scene.runtime().join("state/nostray/slots").join(SLOT)));
    // The files of the slot itself, and of the user's broker, stay.
    let stays = |name: &str| {
        ["journal", "lock", "alive", "history.json", "history.new"].contains(&name) || name.starts_with("broker-")
    };
    all.retain(|path| !path.file_name().and_then(|name| name.to_str()).is_some_and(stays));
    // Groups of pens on record. (A process that is killed after it makes its group and before its record leaves an empty group.)
    let on_record = journal(ring).into_iter().filter(|entry| entry["event"] == "started" || entry["what"] == "taken");
    let mut groups: Vec<PathBuf> =
        on_record.filter_map(|entry| entry["id"].as_str().and_then(control_group)).collect();
    groups.sort();
    groups.dedup();
    all.extend(groups);
    all
}

fn shown(path: &Path) -> String {
    std::fs::read_to_string(path).unwrap_or_default()
}

fn files(folder: &Path) -> Vec<PathBuf> {
    std::fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path()).collect()
}

/// The control group of a pen, below that of this process, if it exists.
fn control_group(id: &str) -> Option<PathBuf> {
    let groups = std::fs::read_to_string("/proc/self/cgroup").ok()?;
    let own = groups.lines().find_map(|line| line.strip_prefix("0::/"))?;
    let folders = ["/sys/fs/cgroup", "/sys/fs/cgroup/unified"].map(|root| Path::new(root).join(own));
    folders.into_iter().map(|folder| folder.join(format!("nostray-{id}"))).find(|group| group.exists())
}

/// The entries of nostray's journal.
fn journal(ring: &Ring<'_>) -> Vec<Value> {
    let text = std::fs::read_to_string(ring.scene.runtime().join("nostray/journal")).unwrap_or_default();
    text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect()
}

/// Counts the events of the round.
pub(super) fn count(ring: &mut Ring<'_>) {
    let holders = std::fs::read_to_string(ring.file("holders")).unwrap_or_default();
    let stories = journal(ring);
    let tally = &mut ring.tally;
    tally.rounds = 1;
    tally.children = holders.lines().count() as u64;
    // A pen of a series bears the name of the series.
    let mut pens: Vec<&str> =
        holders.lines().filter_map(|line| line.split(' ').nth(2)?.split(['@', '.']).next()).collect();
    pens.sort_unstable();
    pens.dedup();
    tally.holders = pens.len() as u64;
    for what in stories.iter().filter(|story| story["slot"] == SLOT).filter_map(|story| story["what"].as_str()) {
        let counter = match what {
            _ if what.contains("; asked to hand over") => &mut tally.asked,
            _ if what.contains("is ended from outside") => &mut tally.ended_from_outside,
            _ if what.starts_with("all keepers of") => &mut tally.swept,
            _ if what.contains("the holder is not asked to hand over") => &mut tally.settled,
            _ if what.contains("somebody who came later") => &mut tally.refused[1],
            _ if what.contains("was not free after") => &mut tally.refused[2],
            _ if what.contains("nostray slot show") => &mut tally.refused[0],
            _ if what.starts_with("nothing was started") => &mut tally.gave_up,
            _ => continue,
        };
        *counter += 1;
    }
}

/// All details that help to understand a failure.
pub(super) fn evidence(ring: &Ring<'_>) -> Vec<String> {
    let mut lines: Vec<String> = ring.scene.processes().iter().map(describe).collect();
    let runtime = ring.scene.runtime();
    for folder in [runtime.join("nostray"), runtime.join("state/nostray/slots").join(SLOT)] {
        lines.extend(files(&folder).iter().map(|path| match path.extension().and_then(|kind| kind.to_str()) {
            Some("json" | "waits") => format!("{}: {}", path.display(), shown(path)),
            _ => path.display().to_string(),
        }));
    }
    lines.extend(journal(ring).iter().map(|entry| format!("journal: {entry}")));
    for file in files(ring.folder.path()) {
        let name = file.file_name().unwrap_or_default().to_string_lossy().into_owned();
        lines.extend(shown(&file).lines().map(|line| format!("{name}: {line}")));
    }
    lines
}

/// The details of a process.
fn describe(found: &Found) -> String {
    let pid = found.stat.pid;
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let field =
        |key: &str| status.lines().find_map(|line| line.strip_prefix(key)).unwrap_or_default().trim().to_owned();
    let files = files(Path::new(&format!("/proc/{pid}/fd")));
    let files = files.iter().filter_map(|file| std::fs::read_link(file).ok()).filter(|file| file.is_absolute());
    let files: Vec<String> =
        files.filter_map(|file| Some(file.file_name()?.to_string_lossy().into_owned())).collect();
    let mark = nostray_sys::proc::environment_of(pid, "NOSTRAY_PEN").unwrap_or_default();
    format!(
        "pid {pid} ({}), parent {}, state {}, pending {}/{}, pen {}, open {}: {}",
        found.stat.name,
        field("PPid:"),
        field("State:"),
        field("SigPnd:"),
        field("ShdPnd:"),
        String::from_utf8_lossy(&mark),
        files.join(" "),
        found.command,
    )
}
