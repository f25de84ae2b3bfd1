//! A home in which command lines run: with nostray in PATH, and with stand-ins for the programs that the pages name.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;

use badchild::{Folder, badchild, wait_until};
use serde_json::json;
use testkit::nostray;
use testkit::stage::{Caller, Stage};

/// Programs that start the server which their arguments name, or only succeed.
const HELPERS: [(&str, &str); 4] = [
    ("npx", r#"[ "$1" = -y ] && shift; exec "$@""#),
    ("uvx", r#"exec "$@""#),
    // As Claude Code would start the server later.
    ("claude", r#"[ "$1 $2 $4" = "mcp add --" ] && shift 4 && exec "$@"; exit 64"#),
    ("pg_isready", "exit 0"),
];
const MCP_SERVER: &str = "exec BADCHILD server --both --stderr 'listening on port 8080' --banner 'some server'";
/// Programs that are children. Each leaves its name when it starts.
const SERVERS: [(&str, &str); 7] = [
    ("some-server", MCP_SERVER),
    ("memory-server", MCP_SERVER),
    ("postgres", MCP_SERVER),
    ("memory-bridge", "exec BADCHILD bridge.cjs"),
    ("llama-server", "exec sleep 600"),
    // A service or a daemon, by whether a host talks to it.
    (
        "some-service",
        r#"[ "$(readlink /proc/self/fd/0)" = /dev/null ] && exec sleep 600; exec BADCHILD server --both"#,
    ),
    // Forks into the background, as a viewer does.
    ("node", "sleep 600 & exit 0"),
];

/// The folder with the stand-ins.
fn stand_ins() -> &'static Path {
    static FOLDER: OnceLock<Folder> = OnceLock::new();
    let folder = FOLDER.get_or_init(|| {
        let folder = Folder::new("stand-ins");
        let write = |name: &str, text: &str| {
            // By another process: a program that any process has open for writing cannot be executed, and a child that another
            // thread forks meanwhile inherits the open file.
            let mut shell = Command::new("sh");
            shell.args(["-c", r#"printf '#!/bin/sh\n%s\n' "$2" >"$1" && chmod 755 "$1""#, "sh"]);
            let text = text.replace("BADCHILD", &badchild().display().to_string());
            assert!(shell.arg(folder.path().join(name)).arg(text).status().expect("run sh").success());
        };
        HELPERS.iter().for_each(|(name, text)| write(name, text));
        SERVERS.iter().for_each(|(name, text)| write(name, &format!("echo {name} >>\"$HOME/started\"\n{text}")));
        folder
    });
    folder.path()
}

/// The server that a command line starts, if it starts one: the last of its words that is the name of one.
pub(super) fn server_in(words: &[String]) -> Option<&'static str> {
    let name = |word: &String| SERVERS.iter().map(|(name, _)| *name).find(|name| name == word);
    words.iter().rev().find_map(name)
}

/// A home, with records of its own.
pub(super) struct Home {
    pub(super) stage: Stage,
}

impl Home {
    pub(super) fn new() -> Self {
        let home = Self { stage: Stage::new() };
        for folder in ["project/run", ".local/bin"] {
            std::fs::create_dir_all(home.path().join(folder)).expect("make a folder");
        }
        home
    }

    pub(super) fn path(&self) -> &Path {
        self.stage.folder.path()
    }

    /// The directory in which command lines run.
    pub(super) fn project(&self) -> PathBuf {
        self.path().join("project")
    }

    /// A command that finds the stand-ins and nostray, and little else.
    pub(super) fn command(&self, words: &[String]) -> Command {
        let nostray = nostray();
        let folders = [stand_ins(), nostray.parent().expect("a folder"), "/usr/bin".as_ref(), "/bin".as_ref()];
        // `env` looks for the program in the PATH of the new environment.
        let mut command = self.stage.scene.command("/usr/bin/env".as_ref());
        for variable in ["XDG_CONFIG_HOME", "XDG_CACHE_HOME", "CODEX_HOME", "HERMES_HOME", "NOSTRAY_PEN"] {
            command.env_remove(variable);
        }
        command.env("PATH", std::env::join_paths(folders).expect("no colon")).env("HOME", self.path());
        command.args(words).current_dir(self.project());
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    /// Starts a command, with this test as its host.
    pub(super) fn start(&self, words: &[String]) -> Caller {
        Caller::new(self.command(words).spawn().expect("start"))
    }

    /// Starts `nostray WORDS`, and makes the handshake of a session.
    pub(super) fn session(&self, words: &str) -> Caller {
        let mut caller =
            self.start(&["nostray"].into_iter().chain(words.split(' ')).map(str::to_owned).collect::<Vec<_>>());
        caller.initialize();
        caller
    }

    /// Runs a command that starts a server, as a host does: talks to the server, closes its input, and checks that nothing is left.
    pub(super) fn expect_served(&self, words: &[String]) {
        let all = words.join(" ");
        let words_of_line: Vec<String> = all.split_whitespace().map(str::to_owned).collect();
        let server = server_in(&words_of_line).unwrap_or_else(|| panic!("'{all}' starts none of the stand-ins"));
        let mut caller = self.start(words);
        if words_of_line.iter().any(|word| word == "hold") {
            // A holder does not talk to its daemon.
            wait_until(&format!("'{all}' starts {server}"), || self.has_started(server));
            wait_until("it is on record", || self.stage.nostray(&["ps", "-q"]).status.success());
        } else if server == "memory-bridge" {
            caller.result("session.open", json!({ "sessionId": "chat-17" }));
        } else {
            caller.initialize();
        }
        assert!(self.has_started(server), "'{all}' did not start {server}: {}", caller.errors());
        caller.close();
        assert_eq!(caller.code(), 0, "{all}: {}", caller.errors());
        self.end_all();
    }

    fn has_started(&self, server: &str) -> bool {
        let started = std::fs::read_to_string(self.path().join("started")).unwrap_or_default();
        started.lines().any(|line| line == server)
    }

    /// Ends what lingers, and checks that nothing is left.
    pub(super) fn end_all(&self) {
        // Fails if there is nothing to stop.
        self.stage.nostray(&["stop", "--all", "--now"]);
        // By itself, it would stay for a few seconds more.
        self.stage.nostray(&["broker", "stop"]);
        self.stage.scene.expect_empty();
    }
}
