//! Which processes are strays, and how sure that is: stdio children that other programs have left behind.
//!
//! Names and parent 1 prove nothing: every kill in the field that relied on them hit a healthy process. The proof is that
//! the kernel knows of no process at the other end of either stream, so that no request can reach the process and no
//! answer can leave it. If its parent is gone as well, it is a *certain* stray; with less proof it is *maybe*, and never ended.

use std::collections::HashMap;
use std::io;
use std::time::Duration;

use nostray_sys::identity::Identity;
use nostray_sys::other_end::{Link, OtherEnd, Stream};
use nostray_sys::proc::{self, Stat};
use nostray_sys::process::Pid;

use super::doubts;
use super::spared::Spared;
use crate::configs::Config;
use crate::strays::{Confidence, Stray};

/// How old a process must be to count while its parent lives: the parent may be about to end it.
const ABANDONED_AFTER: Duration = Duration::from_secs(60);

/// What speaks against all strays of a report. Nothing: the kernel gives proof.
pub(crate) const LIMITS: Option<&str> = None;

/// Looks once.
pub(crate) fn look(_: &[Config]) -> io::Result<Vec<Stray>> {
    let all: HashMap<Pid, Stat> = proc::scan()?.into_iter().map(|stat| (stat.pid, stat)).collect();
    let spared = Spared::new(&all);
    let mut alone: Vec<_> = all.values().filter_map(|stat| Some((stat, Ends::of(stat)?))).collect();
    alone.retain(|(stat, _)| !spared.is_spared(stat));
    // Judges parents first, since the judgement of a child depends on its parent. A parent is older, unless it has adopted an orphan.
    alone.sort_by_key(|(stat, _)| (stat.start, stat.pid.as_raw_nonzero()));
    let mut strays: Vec<Stray> = Vec::new();
    for (stat, ends) in alone {
        let parent = stat.parent.and_then(|parent| all.get(&parent));
        let above = strays.iter().find(|stray| Some(stray.identity.pid) == stat.parent);
        if let Some((confidence, evidence)) = judge(stat, ends, parent, above)
            && let Some(stray) = describe(stat, parent, confidence, evidence)
        {
            strays.push(stray);
        }
    }
    Ok(strays)
}

/// The other ends of the streams of a process to whose stdin no process can write.
#[derive(Debug, Clone, Copy)]
struct Ends {
    input: OtherEnd,
    output: OtherEnd,
}

impl Ends {
    /// `None` if it is no stdio child, or not alone.
    fn of(stat: &Stat) -> Option<Self> {
        if stat.is_zombie() {
            return None;
        }
        let [input, output] = [Stream::Input, Stream::Output].map(|stream| OtherEnd::of(stat.pid, stream));
        let is_stdio_child = input != OtherEnd::Unknown && output != OtherEnd::Unknown;
        let ends = Self { input, output };
        (is_stdio_child && matches!(input, OtherEnd::Gone(_))).then_some(ends)
    }

    fn in_words(self) -> String {
        let link = |end: OtherEnd| match end {
            OtherEnd::Held(Link::Socket) | OtherEnd::Gone(Link::Socket) => "socket",
            _ => "pipe",
        };
        let reader = if self.is_cut_off() { "nobody reads" } else { "a process still reads" };
        format!(
            "nobody can write to its stdin any more ({}), {reader} its stdout ({})",
            link(self.input),
            link(self.output)
        )
    }

    /// Whether no process holds either other end.
    fn is_cut_off(self) -> bool {
        matches!((self.input, self.output), (OtherEnd::Gone(_), OtherEnd::Gone(_)))
    }
}

fn judge(stat: &Stat, ends: Ends, parent: Option<&Stat>, above: Option<&Stray>) -> Option<(Confidence, String)> {
    let (mut confidence, why) = match (above, parent) {
        // A stray's child that is cut off as well is as much a stray as its parent.
        (Some(above), _) if ends.is_cut_off() || above.confidence == Confidence::Maybe => {
            (above.confidence, format!("its parent {} is a stray itself", above.identity.pid))
        }
        (_, Some(parent)) if was_handed_over(stat, parent) => {
            let why = format!("whoever started it is gone (its parent is now {} {})", parent.pid, parent.name);
            (if ends.is_cut_off() { Confidence::Certain } else { return None }, why)
        }
        (None, Some(parent)) if looks_abandoned(stat, parent) => {
            (Confidence::Maybe, format!("its parent {} ({}) lives, but has let go of it", parent.pid, parent.name))
        }
        _ => return None,
    };
    let mut evidence = format!("{why}; {}", ends.in_words());
    for doubt in doubts::about(stat.pid) {
        confidence = Confidence::Maybe;
        evidence += &format!("; but {doubt}");
    }
    Some((confidence, evidence))
}

/// Whether the kernel reparented it to `parent` because its first parent had ended. A process is younger than its parent,
/// and in its parent's session unless it made its own; otherwise another process has started it.
fn was_handed_over(stat: &Stat, parent: &Stat) -> bool {
    let collects_orphans = parent.pid == Pid::INIT
        || ["systemd", "init", "tini", "dumb-init", "docker-init", "catatonit"].contains(&parent.name.as_str())
        || parent.name.starts_with("Relay("); // in WSL
    let has_own_session = stat.session == Some(stat.pid);
    collects_orphans || (!has_own_session && stat.session != parent.session) || parent.start > stat.start
}

/// Whether its living host may have forgotten it. The last process of a shell's pipeline looks the same when its producer
/// has ended, and so does every job on a terminal.
fn looks_abandoned(stat: &Stat, parent: &Stat) -> bool {
    const STARTS_PIPELINES: [&str; 12] =
        ["sh", "bash", "dash", "zsh", "fish", "ksh", "mksh", "ash", "busybox", "make", "xargs", "parallel"];
    let is_old = proc::age_of(stat.start).is_some_and(|age| age > ABANDONED_AFTER);
    is_old && !stat.has_terminal && !STARTS_PIPELINES.contains(&parent.name.as_str())
}

/// `None` if another process has this pid by now, or if this user may not read it.
fn describe(stat: &Stat, parent: Option<&Stat>, confidence: Confidence, evidence: String) -> Option<Stray> {
    let command = Some(proc::command_of(stat.pid)).filter(|words| !words.is_empty())?;
    let stray = Stray {
        identity: Identity::from(stat),
        parent: parent.map(|parent| (parent.pid, parent.name.clone())),
        age: proc::age_of(stat.start),
        memory: proc::memory_of(stat.pid),
        command,
        confidence,
        evidence,
    };
    // Everything was read by pid, so it describes this process only if the process still has that pid.
    stray.identity.is_alive().then_some(stray)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stat(pid: i32, parent: i32, session: i32, start: u64, name: &str) -> Stat {
        let mut stat = Stat::of(nostray_sys::process::getpid()).expect("own");
        let number = |n| Pid::from_raw(n);
        (stat.pid, stat.parent, stat.session) = (number(pid).expect("positive"), number(parent), number(session));
        (stat.start, stat.name, stat.has_terminal) = (proc::StartTime(start), name.to_owned(), false);
        stat
    }

    const CUT_OFF: Ends = Ends { input: OtherEnd::Gone(Link::Pipe), output: OtherEnd::Gone(Link::Pipe) };
    const READ: Ends = Ends { input: OtherEnd::Gone(Link::Pipe), output: OtherEnd::Held(Link::Pipe) };

    #[test]
    fn only_a_process_with_two_dead_ends_and_a_lost_parent_is_certain() {
        // A pid that no process has, so that /proc raises no doubts.
        let orphan = stat(i32::MAX, 1, 500, 100, "server");
        let init = stat(1, 0, 1, 1, "anything");
        let confidence = |ends, parent: &Stat| judge(&orphan, ends, Some(parent), None).map(|(sure, _)| sure);
        assert_eq!(confidence(CUT_OFF, &init), Some(Confidence::Certain));
        assert_eq!(confidence(READ, &init), None, "a process still reads its output");
        let shell = stat(400, 1, 500, 50, "bash");
        assert_eq!(confidence(CUT_OFF, &shell), None, "the middle of a pipeline");
        let host = stat(400, 1, 500, 50, "node");
        assert_eq!(confidence(CUT_OFF, &host), Some(Confidence::Maybe));
        let reaper = stat(400, 1, 400, 50, "node");
        assert_eq!(confidence(CUT_OFF, &reaper), Some(Confidence::Certain), "of a session that is not its parent's");
    }
}
