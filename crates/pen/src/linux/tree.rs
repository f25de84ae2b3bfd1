//! Every process of a tree: finding them, asking them to end, killing them.
//!
//! Only the tree's subreaper may use this: the tree is all that descends from this process.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, DefaultHasher};
use std::io;
use std::time::Duration;

use nostray_sys::Pidfd;

use crate::mark::{PenId, is_marked_in};
use crate::{guard, requests};
use nostray_sys::cgroup::Cgroup;
use nostray_sys::identity::Identity;
use nostray_sys::proc::{self, StartTime, Stat};
use nostray_sys::process::{Pid, getpid, has_children, session_of};
use nostray_sys::signal::{Signal, send_to_namespace, send_to_own_child};

/// Without random keys, for which every start would have to ask the kernel. No program chooses pids so that they collide.
pub(crate) type HashSet<T> = std::collections::HashSet<T, BuildHasherDefault<DefaultHasher>>;

/// What, beside ancestry, holds the tree together.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Tier<'a> {
    /// A control group, which can be killed in one step.
    Cgroup(&'a Cgroup),
    /// A pid namespace of which this process is the first.
    Namespace,
    /// Nothing.
    Subreaper,
}

impl Tier<'_> {
    /// What it is called in records.
    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::Cgroup(_) => "cgroup",
            Self::Namespace => "pid-namespace",
            Self::Subreaper => "subreaper",
        }
    }
}

impl std::fmt::Display for Tier<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Cgroup(_) => "a control group",
            Self::Namespace => "a pid namespace",
            Self::Subreaper => "a subreaper",
        })
    }
}

/// The tree below this process.
#[derive(Debug)]
pub(crate) struct Tree<'a> {
    tier: Tier<'a>,
    strangers: Option<Strangers>,
    /// Children of this process that are not of the tree, even if they bear its mark.
    spared: HashSet<Identity>,
    /// Processes that this user may not signal.
    refused: HashSet<Identity>,
    /// Children of this process that got SIGTERM. They keep their numbers until they are reaped.
    terminated: HashSet<Pid>,
    /// New processes kept appearing between looking and killing.
    storms: bool,
}

/// What a round of killing came to.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Round {
    /// All processes that were found have been killed; what is left is dying or has just been forked.
    Killed,
    /// Only these are left, and none of them may be signalled.
    OnlyRefused(Vec<Identity>),
}

/// How often to scan for processes that were born during the last scan. Not too often: no process is reaped meanwhile, and the dead take
/// up pids until they are.
const MAX_SCANS: usize = 3;

impl<'a> Tree<'a> {
    pub(crate) fn new(tier: Tier<'a>) -> Self {
        Self {
            tier,
            strangers: None,
            spared: HashSet::default(),
            refused: HashSet::default(),
            terminated: HashSet::default(),
            storms: false,
        }
    }

    pub(crate) fn tier(&self) -> Tier<'a> {
        self.tier
    }

    /// The same tree, without these children of this process and what descends from them.
    pub(crate) fn without(self, strangers: Option<Strangers>) -> Self {
        Self { strangers, ..self }
    }

    /// From now on these children of this process are not of the tree.
    pub(crate) fn spare(&mut self, those: &HashSet<Identity>) {
        self.spared.clone_from(those);
    }

    /// Whether this process has children, but only such as are not of the tree: then ECHILD will not come, and
    /// the kernel's list of our children is as good a proof.
    pub(crate) fn has_only_strangers(&self) -> bool {
        self.may_have_strangers()
            && proc::children_of_self().is_some_and(|children| children.into_iter().all(|pid| self.is_stranger(pid)))
    }

    fn may_have_strangers(&self) -> bool {
        self.strangers.is_some() || !self.spared.is_empty()
    }

    fn is_stranger(&self, pid: Pid) -> bool {
        self.may_have_strangers() && Stat::of(pid).is_some_and(|stat| self.excludes(&stat))
    }

    /// Whether a child of this process is not of the tree.
    fn excludes(&self, child: &Stat) -> bool {
        self.spared.contains(&child.into())
            || self.strangers.as_ref().is_some_and(|strangers| strangers.include(child))
    }

    /// The children of this process, also those that have ended and were not reaped yet.
    pub(crate) fn children(&self) -> Vec<Stat> {
        let children = proc::children_of_self().unwrap_or_default().into_iter().filter_map(Stat::of);
        children.filter(|stat| !self.excludes(stat)).collect()
    }

    /// The living processes of the tree.
    pub(crate) fn members(&self) -> Vec<Stat> {
        let mut by_parent: HashMap<Option<Pid>, Vec<Stat>> = HashMap::new();
        for stat in proc::scan().unwrap_or_default() {
            by_parent.entry(stat.parent).or_default().push(stat);
        }
        let mut members = Vec::new();
        let mut parents = vec![getpid()];
        while let Some(parent) = parents.pop() {
            for stat in by_parent.remove(&Some(parent)).unwrap_or_default() {
                // Only children of our own can be strangers; what descends from them is not looked at.
                if parent != getpid() || !self.excludes(&stat) {
                    parents.push(stat.pid);
                    members.push(stat);
                }
            }
        }
        members.retain(|stat| !stat.is_zombie());
        members
    }

    /// How many processes there are, as far as that can be told without a look at all of `/proc`.
    pub(crate) fn size(&self) -> usize {
        match self.tier {
            Tier::Cgroup(group) => group.members().len(),
            Tier::Namespace | Tier::Subreaper => self.members().len(),
        }
    }

    /// SIGTERM to every process that has not had it; a stopped process is continued, or it could not act on it.
    pub(crate) fn terminate(&mut self) {
        if matches!(self.tier, Tier::Namespace) {
            send_to_namespace(Signal::TERM).ok();
            send_to_namespace(Signal::CONT).ok();
        } else {
            self.signal_all(Signal::TERM);
        }
    }

    /// SIGTERM to our own children alone, without a look at all of `/proc`. False if that is the whole tree.
    pub(crate) fn terminate_children(&mut self) -> bool {
        if matches!(self.tier, Tier::Namespace) {
            self.terminate();
            return false;
        }
        for pid in proc::children_of_self().unwrap_or_default() {
            self.terminate_child(pid);
            self.terminated.insert(pid);
        }
        true
    }

    /// SIGTERM to a child of our own, and SIGCONT. Without a look at `/proc`, which takes ten times as long, unless more must be known: who
    /// is a stranger, which process is a guard (which leads a session), which one may not be signalled.
    fn terminate_child(&mut self, pid: Pid) {
        let may_be_guard = session_of(Some(pid)).is_ok_and(|session| session == Some(pid));
        let is_sent = !may_be_guard
            && !self.may_have_strangers()
            && send_to_own_child(pid, Signal::TERM).and_then(|()| send_to_own_child(pid, Signal::CONT)).is_ok();
        if !is_sent && let Some(stat) = Stat::of(pid).filter(|stat| !self.excludes(stat) && !stat.is_zombie()) {
            self.signal_one(&stat, Signal::TERM);
        }
    }

    /// This process has reaped a child, whose number may be another process's from now on.
    pub(crate) fn has_reaped(&mut self, pid: Pid) {
        self.terminated.remove(&pid);
    }

    /// Whether there is a way to kill it in one step.
    pub(crate) fn is_killed_at_once(&self) -> bool {
        !matches!(self.tier, Tier::Subreaper)
    }

    /// SIGKILL to every process in one step, where there is a way to; no fork slips through. A process with the right to
    /// may have left the group, so it is not the last word.
    pub(crate) fn kill_at_once(&self) -> bool {
        match self.tier {
            Tier::Namespace => send_to_namespace(Signal::KILL).is_ok(),
            Tier::Cgroup(group) => group.kill().is_ok(),
            Tier::Subreaper => false,
        }
    }

    /// SIGKILL to our own children, that is to every process whose parent in the tree has ended. Returns how many there
    /// were. Cheap, so that it can be repeated: a chain in which each process forks the next one and ends is faster than a
    /// look at all of `/proc`, but each of its links is handed to us.
    pub(crate) fn kill_children(&self) -> usize {
        let children = proc::children_of_self().unwrap_or_default();
        for &pid in &children {
            if !self.is_stranger(pid) {
                send_to_own_child(pid, Signal::KILL).ok();
            }
        }
        children.len()
    }

    /// SIGKILL to every process that can be found.
    pub(crate) fn kill_round(&mut self) -> Round {
        if self.storms {
            // Stopped first, they cannot fork while the rest is being found.
            self.signal_all(Signal::STOP);
        }
        self.storms = self.signal_all(Signal::KILL) > 1;
        let left = self.members();
        if !left.is_empty() && left.iter().all(|stat| self.refused.contains(&stat.into())) {
            return Round::OnlyRefused(left.iter().map(Identity::from).collect());
        }
        Round::Killed
    }

    /// Sends `signal` to every process, but no second SIGTERM, and looks again, a few times, for processes that were forked
    /// meanwhile. Returns how often a look found new processes.
    fn signal_all(&mut self, signal: Signal) -> usize {
        let mut done = HashSet::default();
        for scans in 0..MAX_SCANS {
            let mut fresh = self.members();
            fresh.retain(|stat| {
                let is_done = signal == Signal::TERM && self.terminated.contains(&stat.pid);
                !is_done && done.insert(Identity::from(stat))
            });
            if fresh.is_empty() {
                return scans;
            }
            for stat in &fresh {
                self.signal_one(stat, signal);
            }
        }
        MAX_SCANS
    }

    fn signal_one(&mut self, stat: &Stat, signal: Signal) {
        match send(stat, signal) {
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
                self.refused.insert(stat.into());
            }
            // Gone by itself: that is what was wanted.
            Err(_) => {}
            Ok(()) if signal == Signal::TERM && stat.is_stopped() => {
                send(stat, Signal::CONT).ok();
            }
            Ok(()) => {}
        }
    }

    /// Once the tree is empty: gives back what held it.
    pub(crate) fn dissolve(&self) {
        if let Tier::Cgroup(group) = self.tier {
            group.remove();
        }
    }
}

/// Signals the process that was seen, and no other that has got its pid since.
fn send(stat: &Stat, signal: Signal) -> io::Result<()> {
    if stat.parent == Some(getpid()) {
        // A child keeps its number until it is reaped, which only this thread does.
        if signal == Signal::TERM && stat.name == guard::NAME {
            // A guard that was handed to the front: it has lost its spare, and this is no request.
            return Pidfd::open(stat.pid)?.send_with(signal, requests::SPARE_GONE);
        }
        return send_to_own_child(stat.pid, signal);
    }
    let is_member = |handle: &Pidfd| (0..MAX_SCANS).find_map(|_| descends_from_self(stat.pid, handle)) == Some(true);
    Identity::from(stat).signal(signal, is_member)
}

/// Whether the process of `handle`, which has the number `pid`, descends from this one: now, and not when `/proc` was read.
/// `None` if a process in between ended meanwhile.
///
/// A look at all of `/proc` is no picture of one moment: a number that was a member's when it was read may be a stranger's when
/// the "children" of that number are; and two processes that get the same number within one tick have the same start time, too.
/// But a process that has not ended keeps its number, so what `/proc` says of the number as long as a handle says that it has
/// not ended is about that process. Each one on the way up is pinned like that.
fn descends_from_self(pid: Pid, handle: &Pidfd) -> Option<bool> {
    let (mut pid, mut pinned) = (pid, None);
    loop {
        let handle = pinned.as_ref().unwrap_or(handle);
        let Some(parent) = parent_of(pid, handle) else { return if pinned.is_some() { None } else { Some(false) } };
        if parent == getpid() {
            return Some(true);
        }
        if parent == Pid::INIT {
            return Some(false);
        }
        let next = Pidfd::open(parent).ok()?;
        // Opened by number: it is the parent only if it still is after that.
        if parent_of(pid, handle) != Some(parent) {
            return None;
        }
        (pid, pinned) = (parent, Some(next));
    }
}

/// The parent of a process that has not ended.
fn parent_of(pid: Pid, handle: &Pidfd) -> Option<Pid> {
    let parent = Stat::of(pid)?.parent?;
    handle.has_ended().is_ok_and(|ended| !ended).then_some(parent)
}

/// Children that this process had before it became a front (`foo & exec nostray run ...`): not of the tree, and not to be
/// touched. What such a child leaves behind is handed to the front like everything else, so where there are strangers, only a process that
/// bears the pen's mark is of the tree.
#[derive(Debug)]
pub(crate) struct Strangers {
    known: HashSet<Identity>,
    id: PenId,
    /// For an opener: since when this pen exists. Its spare and guard, which were forked and never became another program, bear no mark;
    /// they are known by their names.
    since: Option<StartTime>,
}

impl Strangers {
    /// In the front, before it starts anything.
    pub(crate) fn of_this_process(id: PenId) -> Option<Self> {
        if !has_children() {
            return None;
        }
        let children = proc::children_of_self().unwrap_or_default();
        let known: HashSet<_> = children.into_iter().filter_map(Identity::of).collect();
        (!known.is_empty()).then_some(Self { known, id, since: None })
    }

    /// The same strangers, to a pen that this process has opened.
    pub(crate) fn for_pen(&self, id: PenId, since: StartTime) -> Self {
        Self { known: self.known.clone(), id, since: Some(since) }
    }

    fn include(&self, stat: &Stat) -> bool {
        let keeps = || self.since.is_some_and(|since| stat.start >= since) && guard::is_keeper(&stat.name);
        self.known.contains(&stat.into()) || !keeps() && self.is_certainly_unmarked(stat)
    }

    /// Whether a process has an environment without the mark in it. An ending process has no environment, long before its end can be seen;
    /// taken for a stranger, it would hide its children, which are handed to this process later. A process in `execve` has none for a
    /// moment.
    fn is_certainly_unmarked(&self, stat: &Stat) -> bool {
        const MAX_SCANS: usize = 20;
        let id = self.id.to_string();
        for _ in 0..MAX_SCANS {
            // In this order: the environment counts only if the process still lives afterwards.
            let environment = proc::environment(stat.pid);
            match Stat::of(stat.pid) {
                Some(now) if now.start == stat.start && !now.is_ending() => {}
                _ => return false,
            }
            match environment {
                Ok(environment) if !environment.is_empty() => return !is_marked_in(&environment, &id),
                Err(error) if error.kind() == io::ErrorKind::PermissionDenied => return true,
                _ => std::thread::sleep(Duration::from_millis(1)),
            }
        }
        true
    }
}
