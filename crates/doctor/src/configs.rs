//! The servers in the configurations of agent hosts: whether nostray wraps them, and the lines that wrap them. `nostray wrap` reads the same
//! files in the same way.

use std::path::PathBuf;

use nostray_wrap::hosts::{Folders, Host};
use nostray_wrap::plan::bare;
use nostray_wrap::survey::{self, Scope, Standing};
use nostray_wrap::{Entry, Format, Grammar, Prefix, Wishes, choose, lines_to_paste};

use super::program::Programs;
use super::{command_line, packages};

/// One file.
#[derive(Debug)]
pub(super) struct Config {
    pub(super) host: &'static Host,
    pub(super) path: PathBuf,
    /// Its stdio servers, or why the file cannot be used.
    pub(super) servers: Result<Vec<Server>, String>,
}

/// A server that talks over stdin and stdout.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Server {
    pub(super) name: String,
    /// The project that it is configured for, where a file has several.
    pub(super) project: Option<String>,
    /// Without secrets.
    pub(super) command: Vec<String>,
    /// Without nostray's words, and as it is in the file.
    pub(super) bare: Vec<String>,
    pub(super) state: State,
    /// What speaks against the nostray that a wrapped server names.
    pub(super) doubt: Option<Doubt>,
}

/// Something that works today, and may surprise a user.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Doubt {
    pub(super) why: String,
    pub(super) advice: String,
}

/// Whether a server has to be wrapped.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum State {
    /// Its line would really run.
    Wrapped,
    /// It names nostray, and would not run.
    Broken(String),
    /// It is never started.
    Disabled,
    Unwrapped(Replacement),
    /// `nostray wrap` cannot put anything in front of it.
    Stuck(String),
}

/// What to write instead of a server's command and arguments, without secrets.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Replacement {
    pub(super) command: String,
    pub(super) args: Vec<String>,
    /// As lines of the file.
    pub(super) text: String,
}

impl Config {
    pub(super) fn is_fine(&self) -> bool {
        let is_done = |server: &Server| matches!(server.state, State::Wrapped | State::Disabled);
        self.servers.as_ref().is_ok_and(|servers| servers.iter().all(is_done))
    }
}

/// Every configuration that is there.
pub(super) fn examine(grammar: Grammar<'_>, programs: &Programs) -> Vec<Config> {
    let program = survey::own_name();
    let scope = Scope { projects: std::env::current_dir().into_iter().collect(), ..Scope::default() };
    let config = |config: survey::Config| {
        let format = config.source.format;
        let server = |entry: &Entry| server(entry, format, grammar, &program, programs);
        let servers = config.entries.map(|entries| entries.iter().filter_map(server).collect());
        Some(Config { host: config.source.host?, path: config.source.path, servers })
    };
    survey::survey(&Folders::of_this_process(), &scope).into_iter().filter_map(config).collect()
}

/// `None` for what the host does not start.
fn server(entry: &Entry, format: Format, grammar: Grammar<'_>, program: &str, programs: &Programs) -> Option<Server> {
    let bare = bare(entry, grammar);
    let mut doubt = None;
    let state = match survey::standing(entry, grammar, &survey::is_program) {
        Standing::Remote => return None,
        Standing::WrappedByHand => State::Wrapped,
        Standing::Wrapped(invocation) => {
            doubt = doubt_about(&invocation.program, programs);
            State::Wrapped
        }
        Standing::Broken(why) => State::Broken(why),
        Standing::Disabled => State::Disabled,
        Standing::Stuck(why) => State::Stuck(why.to_owned()),
        Standing::Unwrapped => {
            let choice = choose(entry, &bare, &Wishes { run_alone: packages::RUN_ALONE, ..Wishes::default() });
            let prefix = Prefix { program: program.to_owned(), way: choice.way, options: choice.options };
            let own =
                [prefix.way.name().to_owned()].into_iter().chain(prefix.options.clone()).chain(["--".to_owned()]);
            let args = own.chain(command_line::masked(&bare)).collect();
            State::Unwrapped(Replacement {
                text: lines_to_paste(format, entry, &prefix),
                command: program.to_owned(),
                args,
            })
        }
    };
    let command = command_line::masked(&entry.words);
    Some(Server { name: entry.name.clone(), project: entry.project.clone(), command, bare, state, doubt })
}

/// What speaks against this word of a configuration, by which a host starts nostray.
fn doubt_about(word: &str, programs: &Programs) -> Option<Doubt> {
    let other = programs.other_named(word);
    let named = other.as_ref().unwrap_or(&programs.own);
    // A name stays right when the program behind it is replaced.
    if word.contains(std::path::is_separator)
        && let Some((why, instead)) = named.origin.may_vanish()
    {
        let advice =
            format!("install one that stays (`{instead}`), then `nostray unwrap` and `nostray wrap` with that one");
        return Some(Doubt { why: format!("it names {word}: {why}"), advice });
    }
    let other = other?;
    let why = format!("it names another nostray, {} ({})", other.path.display(), other.in_words());
    let advice = "update that one; or `nostray unwrap` and `nostray wrap`, which write this one".to_owned();
    Some(Doubt { why, advice })
}
