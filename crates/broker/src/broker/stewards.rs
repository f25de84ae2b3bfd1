//! The stewards of a broker, one for each child that is shared.

use std::collections::{HashMap, HashSet, VecDeque};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::time::Instant;

use nostray_pen::{Isolation, MARK};
use nostray_registry::{end_stopped_steward, masked};
use nostray_supervise::wire::{
    Attach, FromBroker, Received, SLOT_KEY, StewardSetup, ToBroker, ToFront, control_line, receive, send,
};
use nostray_sys::descriptors::{message_pair, write_to_stderr_at_once};
use nostray_sys::events::Events;
use nostray_sys::identity::Identity;
use nostray_sys::poll::Until;
use nostray_sys::signal::SignalSet;
use nostray_sys::standstill::Standstill;
use nostray_sys::{Pid, Signal};

use super::{no, say};
use crate::key::{Key, Keys, Parts, Salt};

/// How many children may be shared at a time.
const MAX_CHILDREN: usize = 512;

/// All of them.
#[derive(Debug, Default)]
pub(super) struct Stewards {
    salt: Salt,
    /// The stewards that take sessions.
    by_key: HashMap<Key, u64>,
    /// What each name stands for.
    commands: HashMap<String, (Vec<String>, usize)>,
    all: Vec<(u64, Steward)>,
    counted: u64,
}

#[derive(Debug)]
struct Steward {
    process: Child,
    /// What it is found by, but for what its child was told.
    base: Key,
    /// In what its key differs from others of the same command.
    parts: Parts,
    control: OwnedFd,
    name: Option<String>,
    id: Option<String>,
    /// What could not be sent yet.
    waiting: VecDeque<(FromBroker, Option<OwnedFd>)>,
    sent: u64,
    /// Whether it is stopped.
    standstill: Option<Standstill>,
    /// It has closed its end of the control socket.
    is_gone: bool,
}

impl Stewards {
    pub(super) fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    pub(super) fn names_on_record(&self) -> Vec<String> {
        self.all.iter().filter_map(|(_, steward)| steward.id.clone()).collect()
    }

    /// How many names [`Stewards::want`] uses.
    pub(super) fn names(&self) -> usize {
        self.all.len()
    }

    /// Returns the first name that is free.
    pub(super) fn want(&self, events: &mut Events, first: usize) -> usize {
        for (at, (stamp, steward)) in self.all.iter().enumerate() {
            let until = if steward.waiting.is_empty() { Until::Readable } else { Until::Writable };
            events.want(first + at, steward.control.as_fd(), until, *stamp);
        }
        first + self.all.len()
    }

    /// A session wants to hold a child. If that is not possible, it is told why.
    pub(super) fn lease(&mut self, attach: &Attach, connection: OwnedFd) -> Result<(), (ToFront, OwnedFd)> {
        let Keys { key, base, parts } = self.salt.keys(attach);
        let mut command = masked(&attach.command.iter().map(|word| word.0.clone()).collect::<Vec<_>>());
        if attach.settings.daemon.is_some() {
            // A name is for a child that sessions talk to, or for one daemon.
            let isolated = if attach.settings.isolation == Isolation::Pid { &["--isolate", "pid"][..] } else { &[] };
            let hold = [&["nostray", "hold"], isolated, &["--"]].concat();
            command.splice(..0, hold.into_iter().map(str::to_owned));
        }
        if let Some(name) = &attach.key
            && let Some((other, _)) = self.commands.get(name).filter(|(other, _)| *other != command)
        {
            let (other, command) = (other.join(" "), command.join(" "));
            let (what, name) = name.strip_prefix(SLOT_KEY).map_or(("--key", name.as_str()), |slot| ("slot", slot));
            let why = format!(
                "{what} {name} is in use for another command: that one is `{other}`, this one is `{command}`; choose \
                 another name, or end the other one's sessions"
            );
            return Err((no(why, true), connection));
        }
        // A session that does not know its variant yet finds it out at any child of the same base.
        let is_any = |(number, steward): &&(u64, Steward)| {
            attach.variant.is_none() && steward.base == base && self.by_key.values().any(|taking| taking == number)
        };
        let found =
            self.by_key.get(&key).copied().or_else(|| self.all.iter().find(is_any).map(|(number, _)| *number));
        let number = match found {
            Some(number) => number,
            None if self.all.len() >= MAX_CHILDREN => {
                return Err((no(format!("there are {MAX_CHILDREN} shared children already"), false), connection));
            }
            None => match Steward::start(attach, self.why_apart(attach, &parts), self.taking_sessions(), base, parts)
            {
                Ok(steward) => {
                    self.counted += 1;
                    if let Some(name) = &steward.name {
                        self.commands.entry(name.clone()).or_insert((command, 0)).1 += 1;
                    }
                    self.all.push((self.counted, steward));
                    self.by_key.insert(key, self.counted);
                    self.counted
                }
                Err(error) => return Err((no(format!("it cannot be started there: {error}"), false), connection)),
            },
        };
        if let Some((_, steward)) = self.all.iter_mut().find(|(other, _)| *other == number) {
            steward.sent += 1;
            // The front looks itself whether this one is stopped.
            if let Some(standstill) = &steward.standstill {
                say(&connection, &control_line(&ToFront::KeptBy(standstill.who().into())));
            }
            let lease = FromBroker::Attach {
                host: attach.host,
                session: attach.session.clone(),
                labels: attach.labels.clone(),
                linger: attach.linger,
            };
            steward.tell(lease, Some(connection));
        }
        Ok(())
    }

    /// The records of all children that take sessions: each is for a key of its own.
    fn taking_sessions(&self) -> HashSet<String> {
        let taking: HashSet<u64> = self.by_key.values().copied().collect();
        let all = self.all.iter().filter(|(number, _)| taking.contains(number));
        all.filter_map(|(_, steward)| steward.id.clone()).collect()
    }

    /// Why a session gets a new child although a child of its command runs: the reason that its front gives, or the differences from
    /// the most similar child.
    fn why_apart(&self, attach: &Attach, parts: &Parts) -> Option<String> {
        let taking: HashSet<u64> = self.by_key.values().copied().collect();
        let others = self.all.iter().filter(|(number, _)| taking.contains(number));
        let others = others.filter_map(|(_, steward)| Some((parts.apart_from(&steward.parts)?, &steward.id)));
        let nearest = || others.min_by_key(|((differences, _), _)| *differences);
        attach.because.clone().or_else(|| {
            let ((_, why), id) = nearest()?;
            let other = id.as_deref().unwrap_or("another one");
            Some(format!("{other} runs the same command, but {why}"))
        })
    }

    /// The control socket of the steward with this index is readable or writable. True if the steward has closed it.
    pub(super) fn on(&mut self, at: usize) -> bool {
        let Some((number, steward)) = self.all.get_mut(at) else { return false };
        let number = *number;
        steward.tell_on();
        loop {
            match receive(&steward.control) {
                Received::Message(ToBroker::Named(id), _) => steward.id = Some(id),
                // If a session is on its way to it, it stays.
                Received::Message(ToBroker::Idle { seen }, _) if seen == steward.sent => {
                    self.by_key.retain(|_, other| *other != number);
                    steward.tell(FromBroker::Leave, None);
                }
                Received::Message(ToBroker::Idle { .. }, _) => {}
                Received::Closed => {
                    steward.is_gone = true;
                    return true;
                }
                Received::Nothing => return false,
            }
        }
    }

    /// Looks which of them are stopped, and ends those for which that is proved. True if one is to be looked at again.
    ///
    /// If all are to end, a stopped steward is continued first: then it tells its sessions, and ends its child within the graces.
    pub(super) fn look_for_stopped(&mut self, all_are_to_end: bool) -> bool {
        let now = Instant::now();
        let mut suspected = false;
        for standstill in self.all.iter_mut().filter_map(|(_, steward)| steward.standstill.as_mut()) {
            if standstill.look(now) {
                end_stopped_steward(standstill.who());
            } else if standstill.is_suspected()
                && all_are_to_end
                && let Some(handle) = standstill.who().open()
            {
                handle.send(Signal::CONT).ok();
            }
            suspected |= standstill.is_suspected();
        }
        suspected
    }

    /// Forgets the stewards that have ended. True if one is about to, and is to be looked at again.
    pub(super) fn look_after(&mut self) -> bool {
        let Self { all, by_key, commands, .. } = self;
        all.retain_mut(|(number, steward)| {
            // A debugger reaps a steward that was killed under it first, and may never do so.
            let is_dead = || steward.standstill.as_ref().is_some_and(|standstill| !standstill.who().is_alive());
            let ended = !matches!(steward.process.try_wait(), Ok(None)) || steward.is_gone && is_dead();
            if ended {
                by_key.retain(|_, other| other != number);
                if let Some(name) = &steward.name
                    && let Some((_, users)) = commands.get_mut(name)
                {
                    *users -= 1;
                    if *users == 0 {
                        commands.remove(name);
                    }
                }
            }
            !ended
        });
        all.iter().any(|(_, steward)| steward.is_gone)
    }

    pub(super) fn stop(&mut self, again: bool, why: &str) {
        self.by_key.clear();
        for (_, steward) in &mut self.all {
            steward.tell(FromBroker::Stop { again, why: why.to_owned() }, None);
        }
    }
}

impl Steward {
    fn start(
        attach: &Attach,
        because: Option<String>,
        beside: HashSet<String>,
        base: Key,
        parts: Parts,
    ) -> std::io::Result<Self> {
        let (ours, theirs) = message_pair()?;
        let (key, any_dir, settings) = (attach.key.clone(), attach.any_dir, attach.settings.clone());
        StewardSetup { command: attach.command.clone(), key, any_dir, because, beside, settings }
            .send(ours.as_fd())?;
        let mut command = Command::new("/proc/self/exe");
        // Its title needs as much room as this.
        command.arg0("nostray-steward").args(["broker", "steward"]);
        command.env_clear();
        // What a host's own pen has marked would be ended with that.
        let environment = attach.environment.iter().filter(|(name, _)| name.0 != MARK);
        command.envs(environment.map(|(name, value)| (&name.0, &value.0)));
        command.current_dir(&attach.cwd.0);
        command.stdin(Stdio::from(theirs)).stdout(Stdio::null()).stderr(Stdio::inherit());
        // A program inherits the signal mask, and the broker has blocked everything.
        let ours_blocked = SignalSet::empty().set_as_mask()?;
        let process = command.spawn();
        ours_blocked.set_as_mask()?;
        let process = process?;
        let number = i32::try_from(process.id()).ok().and_then(Pid::from_raw);
        let standstill = number.and_then(Identity::of).map(Standstill::of);
        Ok(Self {
            process,
            base,
            parts,
            control: ours,
            name: attach.key.clone(),
            id: None,
            waiting: VecDeque::new(),
            sent: 0,
            standstill,
            is_gone: false,
        })
    }

    fn tell(&mut self, word: FromBroker, with: Option<OwnedFd>) {
        self.waiting.push_back((word, with));
        self.tell_on();
    }

    fn tell_on(&mut self) {
        while let Some((word, with)) = self.waiting.front() {
            match send(self.control.as_fd(), word, with.as_ref().map(AsFd::as_fd)) {
                Ok(()) => drop(self.waiting.pop_front()),
                Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => return,
                // It has ended. A session on its way to it sees the end of its connection.
                Err(error) => {
                    if error.kind() != std::io::ErrorKind::BrokenPipe {
                        write_to_stderr_at_once(&format!("nostray: a steward cannot be told anything: {error}\n"));
                    }
                    self.waiting.clear();
                }
            }
        }
    }
}
