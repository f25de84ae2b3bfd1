//! Which variables say only where and by which session a server was called, and not what it is to do. `environment.txt` has the list,
//! with the program that sets each.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::sync::OnceLock;

const LIST: &str = include_str!("environment.txt");

/// A variable with such a word in its name may decide for which account a server acts. A pattern leaves none of them out; only a line
/// with the whole name does.
const ACCOUNTS: [&str; 15] = [
    "ACCESS", "ACCOUNT", "AUTH", "AWS", "CONFIG", "COOKIE", "CRED", "HOME", "KEY", "PASS", "PROFILE", "SECRET",
    "TENANT", "TOKEN", "USER",
];

/// No name of a session is longer.
const LONGEST_NAME: usize = 128;

/// A line of the list: a name or a pattern, what it names, and where it comes from.
#[derive(Debug, Clone, Copy)]
struct Line<'a> {
    pattern: &'a str,
    names: &'a str,
    #[cfg_attr(not(test), expect(dead_code, reason = "for the readers of the list"))]
    from: &'a str,
}

fn lines() -> impl Iterator<Item = Line<'static>> {
    static LINES: OnceLock<Vec<Line<'static>>> = OnceLock::new();
    let parse = |line: &'static str| {
        let (pattern, rest) = line.split_once(' ').unwrap_or((line, ""));
        let (names, from) = rest.trim_start().split_once(' ').unwrap_or((rest, ""));
        Line { pattern, names, from: from.trim_start() }
    };
    let lines = || LIST.lines().filter(|line| !line.is_empty() && !line.starts_with('#')).map(parse).collect();
    LINES.get_or_init(lines).iter().copied()
}

impl Line<'_> {
    fn matches(&self, name: &OsStr) -> bool {
        match self.pattern.strip_suffix('*') {
            None => name == self.pattern,
            Some(beginning) => name.as_bytes().starts_with(beginning.as_bytes()) && !may_name_an_account(name),
        }
    }
}

fn may_name_an_account(name: &OsStr) -> bool {
    let name = name.to_string_lossy().to_uppercase();
    ACCOUNTS.iter().any(|word| name.contains(word))
}

/// Whether the default key leaves this variable out.
pub(crate) fn is_left_out(name: &OsStr) -> bool {
    lines().any(|line| line.matches(name))
}

/// How the host calls its session, if it says so in a variable. `value_of` looks one up.
#[must_use]
pub fn session_named_by_host(value_of: impl Fn(&str) -> Option<OsString>) -> Option<String> {
    let is_a_name =
        |text: &String| (1..=LONGEST_NAME).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_graphic());
    let marked = lines().filter(|line| line.names == "session-name");
    marked.filter_map(|line| value_of(line.pattern)?.into_string().ok()).find(is_a_name)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn left_out(name: &str) -> bool {
        is_left_out(OsStr::new(name))
    }

    #[test]
    fn every_line_says_what_it_names_and_where_it_comes_from() {
        let mut seen = Vec::new();
        for line in lines() {
            assert!(!seen.contains(&line.pattern), "{} is there twice", line.pattern);
            assert!(!line.from.is_empty(), "{line:?}");
            let kinds = ["session-name", "session", "terminal", "window", "login", "call"];
            assert!(kinds.contains(&line.names), "{line:?}");
            let name = line.pattern.trim_end_matches('*');
            assert!(name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_'), "{line:?}");
            assert!(line.names != "session-name" || name == line.pattern, "a pattern names no session: {line:?}");
            seen.push(line.pattern);
        }
        assert!(left_out(nostray_pen::MARK));
    }

    #[test]
    fn what_names_a_session_a_terminal_a_window_or_a_login_is_left_out() {
        for name in ["CLAUDE_CODE_SESSION_ID", "OPENCODE_PID", "XDG_SESSION_ID", "GPG_TTY", "KITTY_WINDOW_ID", "_"] {
            assert!(left_out(name), "{name}");
        }
        for name in ["VSCODE_IPC_HOOK", "VSCODE_IPC_HOOK_CLI", "npm_lifecycle_script", "KONSOLE_DBUS_SERVICE"] {
            assert!(left_out(name), "{name}");
        }
    }

    /// Also with the beginning of every pattern in front.
    #[test]
    fn what_may_decide_for_whom_a_server_acts_always_counts() {
        let accounts = [
            "TOKEN",
            "API_KEY",
            "PROFILE",
            "SECRET",
            "PASSWORD",
            "AUTH",
            "HOME",
            "USER",
            "CONFIG_DIR",
            "CREDENTIALS",
        ];
        for line in lines() {
            let beginning = line.pattern.trim_end_matches('*');
            for account in accounts {
                for name in [format!("{beginning}{account}"), format!("{beginning}_{account}")] {
                    assert!(!left_out(&name), "{name}");
                }
            }
        }
        for name in [
            "HOME",
            "USER",
            "LOGNAME",
            "PATH",
            "LANG",
            "XDG_CONFIG_HOME",
            "XDG_RUNTIME_DIR",
            "AWS_PROFILE",
            "AWS_REGION",
            "GH_TOKEN",
            "CLAUDE_CODE_OAUTH_TOKEN",
            "CLAUDE_CONFIG_DIR",
            "CODEX_HOME",
            "CODEX_API_KEY",
            "OPENAI_API_KEY",
            "SSH_AUTH_SOCK",
            "DBUS_SESSION_BUS_ADDRESS",
            "DISPLAY",
            "WAYLAND_DISPLAY",
            "KUBECONFIG",
            "KRB5CCNAME",
            "npm_config__authToken",
            "npm_config_registry",
            "HERMES_SESSION_USER_ID",
            "OPENCODE_SERVER_PASSWORD",
            "CLAUDE_PROJECT_DIR",
            "VSCODE_GIT_IPC_HANDLE",
            "",
        ] {
            assert!(!left_out(name), "{name}");
        }
    }

    #[test]
    fn a_session_has_the_name_that_its_host_gave_it_if_that_is_one() {
        let named = |set: &'static [(&str, &str)]| {
            session_named_by_host(|name| set.iter().find(|(other, _)| *other == name).map(|(_, value)| value.into()))
        };
        assert_eq!(named(&[("CODEX_THREAD_ID", "b"), ("CLAUDE_CODE_SESSION_ID", "a")]).as_deref(), Some("a"));
        assert_eq!(named(&[("CLAUDE_CODE_SESSION_ID", ""), ("CODEX_THREAD_ID", "b")]).as_deref(), Some("b"));
        assert_eq!(named(&[("CLAUDE_CODE_SESSION_ID", "two\nlines")]), None);
        assert_eq!(named(&[("TMUX_PANE", "%1"), ("OPENCODE_PID", "7")]), None, "no host has named the session so");
    }
}
