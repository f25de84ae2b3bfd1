//! Every configuration on this machine, with its servers and what has become of each.

use std::collections::HashSet;
use std::path::{Path, PathBuf};

use crate::document::Format;
use crate::edit;
use crate::entries::{Entry, State};
use crate::file;
use crate::hosts::{Folders, Host, Source};
use crate::invocation::{Grammar, Invocation, Wrapping, recognise};

/// Which files are meant.
#[derive(Debug, Default)]
pub struct Scope {
    /// Of these hosts only; of all if there is none.
    pub hosts: Vec<&'static Host>,
    /// Also in these projects.
    pub projects: Vec<PathBuf>,
    /// Instead of all others: files of hosts that the table does not have.
    pub files: Vec<(PathBuf, Format)>,
}

/// A file that is there.
#[derive(Debug)]
pub struct Config {
    /// Which one.
    pub source: Source,
    /// Its servers, or why the file cannot be used.
    pub entries: Result<Vec<Entry>, String>,
}

/// What has become of an entry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Standing {
    /// nostray starts it.
    Wrapped(Invocation),
    /// nostray starts it, called by another program.
    WrappedByHand,
    /// It names nostray, and would not run, for this reason.
    Broken(String),
    /// nostray does not start it.
    Unwrapped,
    /// The host does not start it at present.
    Disabled,
    /// The host connects to it, and starts nothing.
    Remote,
    /// Nothing can be put in front of its command, for this reason.
    Stuck(&'static str),
}

/// Everything that is there.
#[must_use]
pub fn survey(folders: &Folders, scope: &Scope) -> Vec<Config> {
    if !scope.files.is_empty() {
        let named = scope.files.iter().map(|(path, format)| Source::named(path.clone(), *format));
        return named.map(|source| read(source, &mut Vec::new()).unwrap_or_else(gone)).collect();
    }
    let mut projects = scope.projects.clone();
    let mut seen = HashSet::new();
    let mut all = Vec::new();
    let mut add = |sources: Vec<Source>, projects: &mut Vec<PathBuf>| {
        for source in sources {
            let is_meant = scope.hosts.is_empty() || source.host.is_some_and(|host| scope.hosts.contains(&host));
            // Two names may lead to one file.
            let is_new = source.path.canonicalize().is_ok_and(|path| seen.insert(path));
            if is_meant
                && is_new
                && let Ok(config) = read(source, projects)
            {
                all.push(config);
            }
        }
    };
    add(folders.of_user(), &mut projects);
    let mut at = 0;
    while let Some(project) = projects.get(at).cloned() {
        if !projects[..at].contains(&project) {
            add(folders.of_project(&project), &mut projects);
        }
        at += 1;
    }
    all
}

fn gone(source: Source) -> Config {
    Config { source, entries: Err("is not there".to_owned()) }
}

/// Gives the source back if there is no file.
fn read(source: Source, projects: &mut Vec<PathBuf>) -> Result<Config, Source> {
    let Some(bytes) = file::read(&source.path) else { return Err(source) };
    let entries = bytes.and_then(|bytes| {
        projects.extend(edit::projects(&bytes, source.format, source.shape).into_iter().filter(|path| path.is_dir()));
        edit::read(&bytes, source.format, source.shape).map_err(|error| match error {
            edit::Error::Unreadable(why) => why,
            other => other.to_string(),
        })
    });
    Ok(Config { source, entries })
}

/// What has become of an entry. `is_program` says whether a name or a path is a program that can be started.
#[must_use]
pub fn standing(entry: &Entry, grammar: Grammar<'_>, is_program: &dyn Fn(&str) -> bool) -> Standing {
    match (&entry.state, recognise(&entry.words, grammar)) {
        (State::Remote, _) => Standing::Remote,
        (_, Wrapping::Direct(invocation)) if !is_program(&invocation.program) => {
            Standing::Broken(format!("there is no program {}", nostray_sys::text::escaped(&invocation.program)))
        }
        (State::Stuck(why), _) => Standing::Stuck(why),
        (_, Wrapping::Direct(invocation)) => Standing::Wrapped(invocation),
        (_, Wrapping::Indirect) => Standing::WrappedByHand,
        (_, Wrapping::Refused) => {
            Standing::Broken("this version of nostray does not understand its words".to_owned())
        }
        (State::Disabled, Wrapping::None) => Standing::Disabled,
        (State::Stdio, Wrapping::None) => Standing::Unwrapped,
    }
}

/// Whether a name or a path is a program that this user can start.
#[must_use]
pub fn is_program(word: &str) -> bool {
    // A variable is expanded by the host.
    word.contains("${") || resolve(word).is_some()
}

/// The file that a name or a path leads to, if this user can start it.
#[must_use]
pub fn resolve(word: &str) -> Option<PathBuf> {
    if Path::new(word).components().count() > 1 { executable(Path::new(word)) } else { all_in_path(word).next() }
}

/// All files of this name in PATH that this user can start, in the order of PATH.
pub fn all_in_path(name: &str) -> impl Iterator<Item = PathBuf> + use<> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders: Vec<_> = std::env::split_paths(&path).collect();
    let name = name.to_owned();
    folders.into_iter().filter_map(move |folder| executable(&folder.join(&name)))
}

fn executable(path: &Path) -> Option<PathBuf> {
    nostray_sys::exec::executable(path).ok()
}

/// What to write for this program, so that a host finds it. Hosts often give their children a short PATH, so that only a program in a
/// folder of the system is found by its name.
#[must_use]
pub fn own_name() -> String {
    let own = std::env::current_exe().ok().filter(|path| path.exists());
    let is_own = |path: &Path| path.canonicalize().ok() == own.as_ref().and_then(|own| own.canonicalize().ok());
    let name = format!("nostray{}", std::env::consts::EXE_SUFFIX);
    let in_folder = |folder: &Path| Some(folder.join(&name)).filter(|path| is_own(path));
    if ["/usr/bin", "/bin", "/usr/local/bin"].iter().any(|folder| in_folder(Path::new(folder)).is_some()) {
        return "nostray".to_owned();
    }
    // As PATH names it: a link there stays right when the program behind it is replaced.
    let path = std::env::var_os("PATH").unwrap_or_default();
    let named =
        std::env::split_paths(&path).filter(|folder| folder.is_absolute()).find_map(|folder| in_folder(&folder));
    named.or(own).and_then(|path| path.to_str().map(str::to_owned)).unwrap_or_else(|| "nostray".to_owned())
}
