//! Stdio children that other programs have left behind.
//!
//! Names and parent 1 prove nothing: every kill that was based on them in the field hit somebody healthy. What counts is
//! that the kernel knows of nobody at the other end of both streams, so that nobody can ever ask the process anything or
//! hear its answer. With that, and a parent that is gone, it is certain; with less it is *maybe*, and never ended.

use std::collections::HashMap;
use std::io;
use std::time::Duration;

use nostray_sys::identity::Identity;
use nostray_sys::other_end::{Link, OtherEnd, Stream};
use nostray_sys::proc::{self, Stat};
use nostray_sys::process::Pid;

use super::doubts;
use super::spared::Spared;

/// How long a process must have been alone to count: one that has just lost its host may be about to end.
const SETTLING: Duration = Duration::from_secs(2);
/// How old a process must be to count while its parent lives: the parent may be about to end it.
const ABANDONED_AFTER: Duration = Duration::from_secs(60);

/// How sure it is that nobody needs a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Confidence {
    Certain,
    Maybe,
}

/// A process that was left behind.
#[derive(Debug, Clone)]
pub(super) struct Stray {
    pub(super) identity: Identity,
    pub(super) parent: Option<(Pid, String)>,
    /// As it was started, secrets included.
    pub(super) command: Vec<String>,
    pub(super) age: Option<Duration>,
    pub(super) memory: Option<u64>,
    pub(super) confidence: Confidence,
    /// Why, in words.
    pub(super) evidence: String,
}

/// Looks twice, a moment apart, so that nobody is named who is just ending.
pub(super) fn find(is_meant: impl Fn(&Stray) -> bool) -> io::Result<Vec<Stray>> {
    let mut first = look()?;
    first.retain(is_meant);
    if first.is_empty() {
        return Ok(first);
    }
    // Two looks with time between them: what is only just ending is no stray.
    std::thread::sleep(SETTLING);
    let mut still = look()?;
    still.retain(|stray| first.iter().any(|before| before.identity == stray.identity));
    Ok(still)
}

/// Looks once.
pub(super) fn look() -> io::Result<Vec<Stray>> {
    let all: HashMap<Pid, Stat> = proc::scan()?.into_iter().map(|stat| (stat.pid, stat)).collect();
    let spared = Spared::new(&all);
    let mut alone: Vec<_> = all.values().filter_map(|stat| Some((stat, Ends::of(stat)?))).collect();
    alone.retain(|(stat, _)| !spared.is_spared(stat));
    // Parents first, since a child's case rests on its parent's. A parent is older, but for those who were handed over.
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

/// What is at the other ends of a process that has nobody who could write to it, or nobody who reads what it says.
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
        let reader = if self.is_cut_off() { "nobody reads" } else { "somebody still reads" };
        format!(
            "nobody can write to its stdin any more ({}), {reader} its stdout ({})",
            link(self.input),
            link(self.output)
        )
    }

    /// Nobody at either end.
    fn is_cut_off(self) -> bool {
        matches!((self.input, self.output), (OtherEnd::Gone(_), OtherEnd::Gone(_)))
    }
}

fn judge(stat: &Stat, ends: Ends, parent: Option<&Stat>, above: Option<&Stray>) -> Option<(Confidence, String)> {
    let (mut confidence, why) = match (above, parent) {
        // What a stray has started, and what nobody holds either, is no better off.
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

/// Whether the kernel gave it to `parent` because the one who started it had ended. A process is in its parent's session
/// unless it made its own, and younger than its parent; else somebody else has started it.
fn was_handed_over(stat: &Stat, parent: &Stat) -> bool {
    let collects_orphans = parent.pid == Pid::INIT
        || ["systemd", "init", "tini", "dumb-init", "docker-init", "catatonit"].contains(&parent.name.as_str())
        || parent.name.starts_with("Relay("); // in WSL
    let has_own_session = stat.session == Some(stat.pid);
    collects_orphans || (!has_own_session && stat.session != parent.session) || parent.start > stat.start
}

/// Whether it may be one that its living host has forgotten. In a shell's pipeline, a consumer whose producer has ended
/// looks just the same, and so does every job on a terminal.
fn looks_abandoned(stat: &Stat, parent: &Stat) -> bool {
    const STARTS_PIPELINES: [&str; 12] =
        ["sh", "bash", "dash", "zsh", "fish", "ksh", "mksh", "ash", "busybox", "make", "xargs", "parallel"];
    let is_old = proc::age_of(stat.start).is_some_and(|age| age > ABANDONED_AFTER);
    is_old && !stat.has_terminal && !STARTS_PIPELINES.contains(&parent.name.as_str())
}

/// `None` if it is somebody else by now, or not ours to look at.
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
    // Everything was read by number; it is about this process only if it still has it.
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
        // A number that nobody has, so that there is nothing to doubt about it in /proc.
        let orphan = stat(i32::MAX, 1, 500, 100, "server");
        let init = stat(1, 0, 1, 1, "anything");
        let confidence = |ends, parent: &Stat| judge(&orphan, ends, Some(parent), None).map(|(sure, _)| sure);
        assert_eq!(confidence(CUT_OFF, &init), Some(Confidence::Certain));
        assert_eq!(confidence(READ, &init), None, "somebody still listens");
        let shell = stat(400, 1, 500, 50, "bash");
        assert_eq!(confidence(CUT_OFF, &shell), None, "the middle of a pipeline");
        let host = stat(400, 1, 500, 50, "node");
        assert_eq!(confidence(CUT_OFF, &host), Some(Confidence::Maybe));
        let reaper = stat(400, 1, 400, 50, "node");
        assert_eq!(confidence(CUT_OFF, &reaper), Some(Confidence::Certain), "of a session that is not its parent's");
    }
}
