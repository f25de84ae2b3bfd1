//! The servers in the configurations of agent hosts: whether nostray wraps them, and the lines that wrap them.

use std::io::Read;
use std::path::{Path, PathBuf};

use serde_json::{Map, Value};

use super::command_line;
use super::formats::Format;
use super::hosts::{Folders, Source};

/// A longer file is no configuration, and is not read into memory.
const LONGEST: u64 = 64 << 20;

/// One file.
#[derive(Debug)]
pub(super) struct Config {
    pub(super) host: &'static str,
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
    pub(super) state: State,
}

/// Whether a server has to be wrapped.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum State {
    Wrapped,
    /// It is never started.
    Disabled,
    Unwrapped(Replacement),
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
        let is_done = |server: &Server| !matches!(server.state, State::Unwrapped(_));
        self.servers.as_ref().is_ok_and(|servers| servers.iter().all(is_done))
    }
}

/// Every configuration that is there.
pub(super) fn examine() -> Vec<Config> {
    let nostray = own_name();
    let read = |source: Source| {
        let text = read(&source.path)?;
        let servers =
            text.and_then(|text| source.format.read(&text)).and_then(|all| servers(&source, &all, &nostray));
        Some(Config { host: source.host, path: source.path, servers })
    };
    Folders::of_this_process().sources().into_iter().filter_map(read).collect()
}

/// `None` if there is none.
fn read(path: &Path) -> Option<Result<String, String>> {
    let found = match std::fs::metadata(path) {
        Ok(found) => found,
        Err(error) if matches!(error.kind(), std::io::ErrorKind::NotFound | std::io::ErrorKind::NotADirectory) => {
            return None;
        }
        Err(error) => return Some(Err(error.to_string())),
    };
    // Reading a pipe could block for ever.
    if !found.is_file() {
        return Some(Err("is not a file".to_owned()));
    }
    if found.len() > LONGEST {
        return Some(Err("is too long to be a configuration".to_owned()));
    }
    let mut bytes = Vec::new();
    let file = std::fs::File::open(path).and_then(|file| file.take(LONGEST).read_to_end(&mut bytes));
    Some(file.map_err(|error| error.to_string()).and_then(|_| {
        String::from_utf8(bytes)
            .map_err(|error| format!("is not UTF-8 after byte {}", error.utf8_error().valid_up_to()))
    }))
}

/// The name by which a host finds this program.
fn own_name() -> String {
    let in_path = std::env::var_os("PATH")
        .is_some_and(|path| std::env::split_paths(&path).any(|folder| folder.join("nostray").is_file()));
    let own_path = || std::env::current_exe().ok().filter(|path| path.exists());
    if in_path { None } else { own_path() }.map_or_else(|| "nostray".to_owned(), |path| path.display().to_string())
}

fn servers(source: &Source, all: &Value, nostray: &str) -> Result<Vec<Server>, String> {
    let all = match all {
        Value::Null => return Ok(Vec::new()),
        all => all.as_object().ok_or("does not have names and values at its top")?,
    };
    let mut found = Vec::new();
    let mut collect = |place: &Map<String, Value>, project: Option<&String>| match place.get(source.servers) {
        None | Some(Value::Null) => Ok(()),
        Some(Value::Object(servers)) => {
            let server = |(name, entry): (&String, &Value)| server(source.format, name, project, entry, nostray);
            found.extend(servers.iter().filter_map(server));
            Ok(())
        }
        Some(_) => Err(format!("'{}' does not hold servers by their names", source.servers)),
    };
    collect(all, None)?;
    if source.has_projects
        && let Some(Value::Object(projects)) = all.get("projects")
    {
        for (path, project) in projects {
            if let Value::Object(project) = project {
                collect(project, Some(path))?;
            }
        }
    }
    Ok(found)
}

/// `None` for what is no stdio server.
fn server(format: Format, name: &str, project: Option<&String>, entry: &Value, nostray: &str) -> Option<Server> {
    let text = |value: &Value| match value {
        Value::String(text) => Some(text.clone()),
        Value::Number(number) => Some(number.to_string()),
        Value::Bool(yes) => Some(yes.to_string()),
        _ => None,
    };
    let kind = entry.get("type").and_then(Value::as_str).unwrap_or("stdio");
    if kind != "stdio" {
        return None;
    }
    // Goose says `cmd`; Zed once had path and args below `command`.
    let command_key = if entry.get("cmd").is_some() { "cmd" } else { "command" };
    let (place, keys) = match entry.get(command_key)? {
        inner @ Value::Object(_) => (inner, ["path", "args"]),
        _ => (entry, [command_key, "args"]),
    };
    let command = place.get(keys[0]).and_then(text)?;
    let args: Vec<_> = place.get("args").and_then(Value::as_array).into_iter().flatten().filter_map(text).collect();
    let whole: Vec<String> = std::iter::once(command).chain(args).collect();
    let says = |key: &str, yes: bool| entry.get(key).and_then(Value::as_bool) == Some(yes);
    let shown = command_line::masked(&whole);
    let state = if is_wrapped(&whole) {
        State::Wrapped
    } else if says("enabled", false) || says("disabled", true) {
        State::Disabled
    } else {
        let args: Vec<_> = ["run", "--"].map(str::to_owned).into_iter().chain(shown.iter().cloned()).collect();
        State::Unwrapped(Replacement { text: format.write(keys, nostray, &args), command: nostray.to_owned(), args })
    };
    Some(Server { name: name.to_owned(), project: project.cloned(), command: shown, state })
}

/// Also as in `env A=1 nostray run -- ...` and `sh -c "exec nostray run -- ..."`. A folder of this name is not meant.
fn is_wrapped(command: &[String]) -> bool {
    let words: Vec<_> = command.iter().flat_map(|word| word.split_ascii_whitespace()).collect();
    let is_nostray = |word: &str| word.rsplit('/').next() == Some("nostray");
    words.windows(2).any(|pair| is_nostray(pair[0]) && ["run", "share", "hold"].contains(&pair[1]))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn state_of(entry: &Value) -> Option<State> {
        server(Format::Json, "x", None, entry, "nostray").map(|server| server.state)
    }

    #[test]
    fn a_wrapped_server_is_recognised_in_every_spelling() {
        for entry in [
            json!({ "command": "nostray", "args": ["run", "--", "npx"] }),
            json!({ "command": "/opt/bin/nostray", "args": ["run", "--", "npx"] }),
            json!({ "command": "env", "args": ["A=1", "nostray", "run", "--", "npx"] }),
            json!({ "command": "sh", "args": ["-c", "exec nostray run -- npx"] }),
            json!({ "command": { "path": "nostray", "args": ["run"] } }),
        ] {
            assert_eq!(state_of(&entry), Some(State::Wrapped), "{entry}");
        }
    }

    #[test]
    fn a_folder_of_that_name_wraps_nothing() {
        let entry = json!({ "command": "uvx", "args": ["--directory", "/src/nostray", "server"] });
        assert!(matches!(state_of(&entry), Some(State::Unwrapped(_))));
    }

    #[test]
    fn what_is_not_stdio_is_left_out() {
        for entry in [
            json!({ "url": "https://example.org/mcp" }),
            json!({ "type": "http", "command": "x" }),
            json!({ "type": "builtin", "name": "developer" }),
            json!({ "settings": {} }),
            json!("text"),
            json!({ "command": [] }),
        ] {
            assert_eq!(state_of(&entry), None, "{entry}");
        }
    }

    #[test]
    fn the_replacement_has_the_files_own_words_and_no_secrets() {
        let entry = json!({ "cmd": "npx", "args": ["-y", "server", "--token", "abc", 80], "envs": { "KEY": "v" } });
        let server = server(Format::Yaml, "x", None, &entry, "nostray").expect("a stdio server");
        let State::Unwrapped(replacement) = server.state else { panic!("not wrapped") };
        let expected =
            "cmd: \"nostray\"\nargs: [\"run\", \"--\", \"npx\", \"-y\", \"server\", \"--token\", \"***\", \"80\"]";
        assert_eq!(replacement.text, expected);
        let old_zed = json!({ "command": { "path": "npx", "args": ["a"] } });
        let Some(State::Unwrapped(replacement)) = state_of(&old_zed) else { panic!("not wrapped") };
        assert_eq!(replacement.text, "\"path\": \"nostray\",\n\"args\": [\"run\", \"--\", \"npx\", \"a\"]");
    }

    #[test]
    fn servers_that_are_switched_off_need_no_wrapping() {
        assert_eq!(state_of(&json!({ "command": "npx", "disabled": true })), Some(State::Disabled));
        assert_eq!(state_of(&json!({ "command": "npx", "enabled": false })), Some(State::Disabled));
    }
}
