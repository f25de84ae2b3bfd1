//! Which nostray this is, where it came from, and which others there are in PATH.

use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use nostray_sys::Pidfd;
use nostray_sys::files::real_path;
use nostray_sys::poll::{self, AsFd, Until};
use nostray_sys::process::Pid;
use nostray_wrap::survey;

use super::origin::Origin;
use super::packages;

/// A file that is a nostray.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Program {
    /// As PATH names it, or a configuration.
    pub(super) name: PathBuf,
    /// After links.
    pub(super) path: PathBuf,
    /// What it says that it is; `None` if it says nothing, or does not answer.
    pub(super) version: Option<String>,
    pub(super) origin: Origin,
}

/// The program that runs, and those in PATH.
#[derive(Debug)]
pub(super) struct Programs {
    pub(super) own: Program,
    /// In the order of PATH, each once. The program that runs may be among them.
    pub(super) in_path: Vec<Program>,
}

impl Programs {
    pub(super) fn examine() -> Self {
        let path = std::env::current_exe().unwrap_or_else(|_| "/proc/self/exe".into());
        let path = real_path(&path).unwrap_or(path);
        let version = Some(env!("CARGO_PKG_VERSION").to_owned());
        let own = Program { name: path.clone(), origin: Origin::of(&path), path, version };
        let mut in_path: Vec<Program> = Vec::new();
        for name in survey::all_in_path("nostray") {
            let Ok(path) = real_path(&name) else { continue };
            if in_path.iter().all(|known| known.path != path) {
                in_path.push(own.or_at(name, path));
            }
        }
        Self { own, in_path }
    }

    /// The program that a host starts by this word of its configuration, if it is another one than the one that runs. A host may have
    /// another PATH, which cannot be known here.
    pub(super) fn other_named(&self, word: &str) -> Option<Program> {
        let name = survey::resolve(word)?;
        let path = real_path(&name).ok()?;
        let known = self.in_path.iter().find(|known| known.path == path).cloned();
        Some(known.unwrap_or_else(|| self.own.or_at(name, path))).filter(|program| !self.own.is_same(program))
    }

    /// The one in PATH that comes before the one that runs. `None` where PATH has none, or has the one that runs first.
    pub(super) fn first_in_path(&self) -> Option<&Program> {
        self.in_path.first().filter(|first| !self.own.is_same(first))
    }

    /// The others in PATH, which no host finds by their name.
    pub(super) fn hidden_in_path(&self) -> impl Iterator<Item = &Program> {
        self.in_path.iter().skip(1).filter(|program| !self.own.is_same(program))
    }
}

impl Program {
    /// The nostray at this path. This one needs not be asked for its version.
    fn or_at(&self, name: PathBuf, path: PathBuf) -> Self {
        let version = if path == self.path { self.version.clone() } else { version_of(&path) };
        Self { origin: Origin::of(&path), name, path, version }
    }

    /// Whether both are of one installation: npm's is a script that becomes the program.
    fn is_same(&self, other: &Self) -> bool {
        self.path == other.path || modules(&self.path).is_some_and(|ours| modules(&other.path) == Some(ours))
    }

    /// For people, without its path.
    pub(super) fn in_words(&self) -> String {
        let version =
            self.version.as_ref().map_or("says no version".to_owned(), |version| format!("version {version}"));
        format!("{version}, {}", self.origin.in_words())
    }
}

/// The outermost `node_modules` that a file is in, or that it starts a program of.
fn modules(path: &Path) -> Option<PathBuf> {
    let outermost = path.ancestors().filter(|above| above.ends_with("node_modules")).last();
    outermost.map(Path::to_owned).or_else(|| packages::modules_of_script(path))
}

/// A program that does not answer within this time is not waited for: one that is called nostray is none then, or is broken.
const TIME_TO_ANSWER: Duration = Duration::from_secs(2);

fn version_of(path: &Path) -> Option<String> {
    let said = answer(Command::new(path).arg("--version"))?;
    said.strip_prefix("nostray ").map(|version| nostray_sys::text::escaped(version).into_owned())
}

/// The first line that another program prints.
pub(crate) fn answer(command: &mut Command) -> Option<String> {
    let mut process = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().ok()?;
    let handle = i32::try_from(process.id()).ok().and_then(Pid::from_raw).and_then(|pid| Pidfd::open(pid).ok());
    let has_ended = handle.is_some_and(|handle| {
        poll::wait(&[(handle.as_fd(), Until::Readable)], Some(TIME_TO_ANSWER)).is_ok_and(|fired| fired == [true])
    });
    if !has_ended {
        process.kill().ok(); // it may have ended since
    }
    process.wait().ok()?;
    // What it has started may hold the pipe open, so only what is there is read.
    let mut said = [0; 256];
    let count = if has_ended { process.stdout.take()?.read(&mut said).ok()? } else { 0 };
    String::from_utf8_lossy(&said[..count]).lines().next().map(str::to_owned)
}
