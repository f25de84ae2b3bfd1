//! What is compared: no wrapper, nostray, and what people use instead.

use std::ffi::OsString;
use std::io::BufReader;
use std::os::fd::AsFd;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::Duration;

use badchild::{Found, Scene, User};
use nostray_sys::poll::{Until, wait};
use nostray_sys::{Pidfd, Signal};

use crate::Failure;
use crate::peers::{Peer, Peers};
use crate::programs::{Programs, in_path};

/// The child sees all of the machine, and ends with the process that started bwrap.
pub(crate) const BWRAP: [&str; 4] = ["--dev-bind", "/", "/", "--die-with-parent"];
/// The same, with a pid namespace: the child sees only its own processes.
pub(crate) const BWRAP_PID: [&str; 3] = ["--unshare-pid", "--proc", "/proc"];

#[derive(Clone, PartialEq, Eq)]
enum Kind {
    Direct,
    Nostray,
    Other,
}

/// One way to start a command.
#[derive(Clone)]
pub(crate) struct Variant {
    pub(crate) name: &'static str,
    kind: Kind,
    /// The wrapper with its options; nothing for direct.
    prefix: Vec<OsString>,
    /// With whose rights.
    pub(crate) user: User,
}

impl Variant {
    fn new(name: &'static str, kind: Kind, prefix: impl IntoIterator<Item = impl Into<OsString>>) -> Self {
        Self { name, kind, prefix: prefix.into_iter().map(Into::into).collect(), user: User::Current }
    }

    /// A wrapper of which nothing is known but the words in front of the child.
    pub(crate) fn other(name: &'static str, prefix: impl IntoIterator<Item = impl Into<OsString>>) -> Self {
        Self::new(name, Kind::Other, prefix)
    }

    /// A peer with its options, if it is here.
    pub(crate) fn of_peer(name: &'static str, peer: &Peer, words: &[&str]) -> Option<Self> {
        let program = peer.as_ref().ok()?.clone().into_os_string();
        Some(Self::other(name, std::iter::once(program).chain(words.iter().map(OsString::from))))
    }

    pub(crate) fn is_direct(&self) -> bool {
        self.kind == Kind::Direct
    }

    pub(crate) fn is_nostray(&self) -> bool {
        self.kind == Kind::Nostray
    }

    /// The whole command line for a child. `options` are for nostray; the others have none of the kind.
    pub(crate) fn words(&self, options: &[&str], child: &[OsString]) -> Vec<OsString> {
        let mut words = self.prefix.clone();
        if self.is_nostray() {
            words.extend(options.iter().map(Into::into));
            words.push("--".into());
        }
        words.extend_from_slice(child);
        words
    }

    /// Starts a child, with pipes for stdin and stdout as hosts do.
    pub(crate) fn start(&self, child: &[OsString]) -> Result<Started, Failure> {
        self.start_saying(child, Stdio::inherit())
    }

    /// The same, with a place for what it says on stderr.
    pub(crate) fn start_saying(&self, child: &[OsString], stderr: Stdio) -> Result<Started, Failure> {
        let scene = scene(self.user);
        let words = self.words(&[], child);
        let mut command = scene.command(words.first().ok_or("no command")?.as_ref());
        command.args(words.iter().skip(1)).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(stderr);
        let mut process = command.spawn().map_err(|error| format!("{}: {error}", self.name))?;
        let input = process.stdin.take().ok_or("no pipe")?;
        let output = BufReader::new(process.stdout.take().ok_or("no pipe")?);
        Ok(Started { process, input: Some(input), output, scene })
    }
}

/// A scene whose programs see the records of every [`Variant`] that was started: they are in one folder for all scenes made here.
pub(crate) fn scene(user: User) -> Scene {
    Scene::new(user)
}

/// A child in its wrapper. Both are ended with the value.
pub(crate) struct Started {
    process: Child,
    pub(crate) input: Option<ChildStdin>,
    pub(crate) output: BufReader<ChildStdout>,
    pub(crate) scene: Scene,
}

impl Started {
    /// The processes of the wrapper, without the child that it wraps.
    pub(crate) fn wrappers_own(&self, child: &[OsString]) -> Vec<Found> {
        let program = child.first().map(|word| word.to_string_lossy().into_owned()).unwrap_or_default();
        let mut own = self.scene.processes();
        own.retain(|found| !found.command.starts_with(&program));
        own.sort_by_key(|found| (found.stat.start, found.stat.pid.as_raw_nonzero()));
        own
    }

    /// The pid of the process that the host has started.
    pub(crate) fn id(&self) -> u32 {
        self.process.id()
    }

    /// Whether it is gone by itself.
    pub(crate) fn has_ended(&mut self) -> bool {
        !matches!(self.process.try_wait(), Ok(None))
    }

    /// Waits for its end.
    pub(crate) fn wait(&mut self) -> std::io::Result<()> {
        self.input = None;
        self.process.wait().map(drop)
    }
}

impl Drop for Started {
    fn drop(&mut self) {
        // Politely first, so that wrappers may tidy up; the scene ends what is left.
        self.input = None;
        if let (Ok(None), Ok(number)) = (self.process.try_wait(), i32::try_from(self.process.id()))
            && let Ok(handle) = Pidfd::open(badchild::pid(number))
        {
            handle.send(Signal::TERM).ok();
            wait(&[(handle.as_fd(), Until::Readable)], Some(Duration::from_secs(3))).ok();
        }
        self.process.kill().ok();
        self.process.wait().ok();
    }
}

/// All ways that this machine has, and a line about each that it has not.
pub(crate) fn find(programs: &Programs) -> (Vec<Variant>, Vec<String>) {
    let mut found = vec![direct(), nostray_run(programs)];
    let mut missing = Vec::new();
    let bwrap = [&["bwrap"], &BWRAP[..]].concat();
    let bwrap_pid = [&bwrap[..], &BWRAP_PID].concat();
    for (name, prefix) in [
        ("tini -s", &["tini", "-s", "--"][..]),
        ("dumb-init", &["dumb-init", "--"]),
        ("bwrap", &bwrap),
        ("bwrap pid ns", &bwrap_pid),
    ] {
        let variant = Variant::new(name, Kind::Other, prefix);
        match works(&variant) {
            Ok(()) => found.push(variant),
            Err(why) => missing.push(format!("{name} is left out: {why}")),
        }
    }
    (found, missing)
}

fn works(variant: &Variant) -> Result<(), String> {
    let words = variant.words(&[], &["/bin/true".into()]);
    let program = words.first().and_then(|word| word.to_str()).unwrap_or_default();
    let path = in_path(program).ok_or_else(|| format!("{program} is not in PATH"))?;
    let output = Command::new(path).args(&words[1..]).output().map_err(|error| error.to_string())?;
    if output.status.success() {
        return Ok(());
    }
    Err(format!("{program} fails here: {}", String::from_utf8_lossy(&output.stderr).trim()))
}

/// Nothing around the child.
pub(crate) fn direct() -> Variant {
    Variant::new("direct", Kind::Direct, [""; 0])
}

pub(crate) fn nostray_run(programs: &Programs) -> Variant {
    Variant::new("nostray run", Kind::Nostray, [programs.nostray.clone().into_os_string(), "run".into()])
}

/// No wrapper, nostray (with a control group and, where that can be tried, without), and the wrappers among the peers.
pub(crate) fn with_peers(programs: &Programs, peers: &Peers) -> Vec<Variant> {
    let own = [direct(), nostray_run(programs)];
    let other = Variant::of_peer;
    let others = [
        other("tini -s", &peers.tini, &["-s", "--"]),
        other("dumb-init", &peers.dumb_init, &["--"]),
        other("bwrap", &peers.bwrap, &BWRAP),
        other("bwrap pid ns", &peers.bwrap, &[&BWRAP[..], &BWRAP_PID].concat()),
        other("setpriv --pdeathsig KILL", &peers.setpriv, &["--pdeathsig", "KILL", "--"]),
    ];
    own.into_iter().chain(without_group(programs)).chain(others.into_iter().flatten()).collect()
}

/// A way in which nostray stands before a server.
pub(crate) fn nostray(programs: &Programs, name: &'static str, words: &[&str]) -> Variant {
    let words = words.iter().chain(&["--"]).map(OsString::from);
    Variant::other(name, std::iter::once(programs.nostray.clone().into()).chain(words))
}

/// Direct once more, under another name: how far it is from direct is what chance does on this machine.
pub(crate) fn control() -> Variant {
    Variant::new("direct, again", Kind::Other, [""; 0])
}

/// nostray for a user to whom no control group is delegated, where that can be tried: by root alone.
pub(crate) fn without_group(programs: &Programs) -> Option<Variant> {
    let nostray = programs.nostray.clone().into_os_string();
    let variant = Variant::new("nostray, no cgroup", Kind::Nostray, [nostray, "run".into()]);
    User::all().contains(&User::Nobody).then_some(Variant { user: User::Nobody, ..variant })
}
