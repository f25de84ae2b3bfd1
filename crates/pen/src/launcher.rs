//! Recognises a launcher: a program that a host starts only to start another one, and that then waits for it. `npx nostray run …` puts
//! npm and a shell between host and front.
//!
//! A host that is taken for a launcher would add its own parent to what is watched, and the tree might end too early. So a process is a
//! launcher only if program and command line say so. pipx, `env`, `nice`, `setsid` and the like become the program that they launch, and
//! are not there any more.

use nostray_sys::proc::{command_in_memory_of, program_of};
use nostray_sys::process::Pid;

/// What a process is called, if it is a launcher.
pub(crate) fn name_of(pid: Pid) -> Option<&'static str> {
    let kind = Kind::of(&program_of(pid)?.to_ascii_lowercase())?;
    kind.name_by(&command_in_memory_of(pid))
}

/// A program that may be a launcher; its command line decides.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Node,
    Bun,
    /// A package manager that is a program of its own.
    Manager(&'static str),
    Shell,
    Busybox,
    /// The shell of Windows, which hosts put before `npx`.
    Cmd,
}

impl Kind {
    /// By the name of the program's file.
    fn of(program: &str) -> Option<Self> {
        Some(match program.strip_suffix(".exe").unwrap_or(program) {
            "node" | "nodejs" => Self::Node,
            "bun" | "bunx" => Self::Bun,
            "uv" | "uvx" => Self::Manager("uv"),
            "pnpm" => Self::Manager("pnpm"),
            "sh" | "dash" | "ash" | "bash" | "zsh" | "ksh" | "ksh93" | "mksh" => Self::Shell,
            "busybox" => Self::Busybox,
            "cmd" => Self::Cmd,
            _ => return None,
        })
    }

    fn name_by(self, command: &[String]) -> Option<&'static str> {
        let (first, rest) = command.split_first()?;
        match self {
            Self::Manager(name) => Some(name),
            // npm shows the command that it runs in place of its arguments.
            Self::Node if first.starts_with("npm ") => Some("npm"),
            Self::Node => package_manager(file_name(rest.iter().find(|word| !word.starts_with('-'))?)),
            Self::Bun if file_name(first) == "bunx" => Some("bunx"),
            Self::Bun => rest.iter().find(|word| !word.starts_with('-')).filter(|word| *word == "x").map(|_| "bunx"),
            Self::Shell => launches(rest).then_some("sh"),
            Self::Cmd => cmd_launches(rest).then_some("cmd"),
            Self::Busybox => {
                let applet = if file_name(first) == "busybox" { rest } else { command };
                let (shell, rest) = applet.split_first()?;
                (["sh", "ash"].contains(&file_name(shell)) && launches(rest)).then_some("sh")
            }
        }
    }
}

fn file_name(path: &str) -> &str {
    path.rsplit(['/', '\\']).next().unwrap_or(path)
}

/// Which package manager a script of Node's is.
fn package_manager(script: &str) -> Option<&'static str> {
    let name = match script.rsplit_once('.') {
        Some((name, "js" | "cjs" | "mjs")) => name,
        _ => script,
    };
    Some(match name {
        "npm" | "npm-cli" | "npx" | "npx-cli" => "npm",
        "pnpm" | "pnpx" => "pnpm",
        "yarn" | "yarnpkg" => "yarn",
        "corepack" => "corepack",
        // The file that a project brings along: `yarn-4.5.0.cjs`.
        _ if name.strip_prefix("yarn-")?.starts_with(|first: char| first.is_ascii_digit()) => "yarn",
        _ => return None,
    })
}

/// Whether a shell with these arguments starts one program, and nothing after it.
fn launches(arguments: &[String]) -> bool {
    let mut arguments = arguments.iter();
    while let Some(word) = arguments.next() {
        match word.strip_prefix(['-', '+']) {
            Some(long) if long.starts_with('-') => {}
            Some(short) if short.contains('c') => {
                return arguments.next().is_some_and(|script| is_one_program(script));
            }
            // `-o pipefail`
            Some(short) if short.ends_with(['o', 'O']) => drop(arguments.next()),
            Some(short) if !short.is_empty() => {}
            // A file with a script, or standard input: a program with a life of its own.
            _ => return false,
        }
    }
    false
}

/// The same for `cmd.exe`, which takes all that follows `/c` as its command.
fn cmd_launches(arguments: &[String]) -> bool {
    let mut arguments = arguments.iter();
    let has_command = arguments.any(|word| word.eq_ignore_ascii_case("/c"));
    let mut command = arguments.peekable();
    has_command && command.peek().is_some() && command.all(|word| !word.contains(['&', '|', '(', '\n']))
}

/// Commands that a shell runs by itself, and that start no program. They may come before the one program.
const OWN_COMMANDS: [&str; 9] = [".", ":", "cd", "export", "set", "source", "ulimit", "umask", "unset"];

/// Commands that may run a whole script in the shell. They may not be the one program.
const SCRIPTS: [&str; 3] = [".", "source", "eval"];

/// Whether a script starts one program, with nothing after it, and nothing before it but commands of the shell's own. Any doubt is a no.
fn is_one_program(script: &str) -> bool {
    let Some(commands) = commands_of(script.trim_end_matches(|end: char| end == ';' || end.is_whitespace())) else {
        return false;
    };
    let mut names = commands.iter().map(|command| command.split_ascii_whitespace().next().unwrap_or_default());
    names.next_back().is_some_and(|last| !last.is_empty() && !SCRIPTS.contains(&last))
        && names.all(|name| OWN_COMMANDS.contains(&name))
}

/// The commands of a script that runs one after the other. `None` for a pipeline, a job in the background, a subshell, the output of a
/// command, and an open quote. (What a compound command begins with, like `if` or `{`, is no command of the shell's own.)
fn commands_of(script: &str) -> Option<Vec<&str>> {
    let (mut commands, mut begin, mut quote, mut before) = (Vec::new(), 0, None, ' ');
    let mut letters = script.char_indices().peekable();
    while let Some((at, letter)) = letters.next() {
        match (quote, letter) {
            (Some('\''), _) if letter != '\'' => {}
            (_, '`') | (None, '|' | '(' | ')') => return None,
            (Some(_), '(') if before == '$' => return None,
            (_, '\\') if quote != Some('\'') => drop(letters.next()),
            (None, '\'' | '"') => quote = Some(letter),
            (Some(open), _) if letter == open => quote = None,
            (Some(_), _) => {}
            // `2>&1`
            (None, '&') if ['<', '>'].contains(&before) => {}
            (None, ';' | '\n' | '&') => {
                if letter == '&' && letters.next_if(|(_, next)| *next == '&').is_none() {
                    return None;
                }
                commands.push(&script[begin..at]);
                begin = letters.peek().map_or(script.len(), |(next, _)| *next);
            }
            (None, _) => {}
        }
        before = letter;
    }
    commands.push(&script[begin..]);
    quote.is_none().then_some(commands)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(program: &str, command: &[&str]) -> Option<&'static str> {
        let command: Vec<_> = command.iter().map(|word| (*word).to_owned()).collect();
        Kind::of(program)?.name_by(&command)
    }

    /// As `/proc` shows them while they run.
    #[test]
    fn launchers_are_recognised_by_program_and_command_line() {
        let cases: [(&str, &[&str], &str); 25] = [
            ("node", &["npm exec nostray run -- npx -y some-server", "", "", ""], "npm"),
            ("node", &["npm run serve", "", ""], "npm"),
            ("node", &["node", "/usr/bin/npx", "-y", "nostray", "run"], "npm"),
            ("nodejs", &["/usr/bin/node", "/usr/lib/node_modules/npm/bin/npm-cli.js", "exec", "nostray"], "npm"),
            ("node", &["node", "--no-warnings", "/usr/bin/npx", "nostray"], "npm"),
            ("node", &["node", "/home/u/.local/bin/pnpm", "dlx", "nostray", "run"], "pnpm"),
            ("node", &["node", "/usr/lib/node_modules/pnpm/bin/pnpm.cjs", "exec", "nostray"], "pnpm"),
            ("node", &["node", "/usr/bin/pnpx", "nostray"], "pnpm"),
            ("pnpm", &["/usr/bin/pnpm", "exec", "nostray", "run"], "pnpm"),
            ("node", &["node", "/usr/bin/yarn", "-s", "exec", "nostray"], "yarn"),
            ("node", &["/usr/bin/node", "/srv/app/.yarn/releases/yarn-4.5.0.cjs", "dlx", "nostray"], "yarn"),
            ("node", &["node", "/usr/bin/corepack", "pnpm", "exec", "nostray"], "corepack"),
            ("bun.exe", &["node_modules/.bin/bun", "x", "nostray", "run"], "bunx"),
            ("bun", &["bun", "--bun", "x", "nostray"], "bunx"),
            ("bunx.exe", &["node_modules/.bin/bunx", "nostray", "run"], "bunx"),
            ("bun", &["bunx", "nostray", "run"], "bunx"),
            ("uv", &["/usr/bin/uv", "tool", "uvx", "nostray", "run"], "uv"),
            ("uv", &["uv", "run", "nostray", "run"], "uv"),
            ("dash", &["sh", "-c", "'nostray' run -- npx -y some-server"], "sh"),
            ("bash", &["bash", "-lc", ". ~/.nvm/nvm.sh && npx nostray run -- some-server"], "sh"),
            ("bash", &["/bin/bash", "--norc", "-e", "-o", "pipefail", "-c", "cd /srv; nostray run some"], "sh"),
            ("busybox", &["busybox", "sh", "-c", "nostray run some"], "sh"),
            ("busybox", &["/bin/sh", "-c", "nostray run some"], "sh"),
            ("zsh", &["zsh", "-c", "nostray run some"], "sh"),
            ("ksh93", &["ksh", "-c", "nostray run some"], "sh"),
        ];
        for (program, command, expected) in cases {
            assert_eq!(name(program, command), Some(expected), "{program} {command:?}");
        }
    }

    #[test]
    fn hosts_are_not_launchers() {
        let cases: [(&str, &[&str]); 21] = [
            ("node", &["node", "/opt/agent/cli.js", "npx", "nostray"]),
            ("node", &["node", "/usr/bin/claude", "npm exec nostray"]),
            ("node", &["claude"]),
            ("node", &["npmish exec nostray"]),
            ("node", &["node", "/opt/npm-agent/server.js"]),
            ("node", &["node", "/opt/yarn-agent.js"]),
            ("node", &["node"]),
            ("bun", &["bun", "run", "agent.ts"]),
            ("bun", &["bun", "agent.ts", "x"]),
            ("python3.11", &["python3", "-c", "npx", "nostray"]),
            ("python3.11", &["npm exec nostray"]),
            ("uvicorn", &["uv", "run", "nostray"]),
            ("bash", &["-bash"]),
            ("bash", &["bash"]),
            ("bash", &["bash", "-i"]),
            ("bash", &["bash", "--login"]),
            ("bash", &["bash", "/srv/start.sh", "-c", "nostray run some"]),
            ("bash", &["bash", "-s", "-"]),
            ("bash", &["bash", "-c"]),
            ("busybox", &["busybox", "httpd", "-c", "nostray run some"]),
            ("busybox", &["init"]),
        ];
        for (program, command) in cases {
            assert_eq!(name(program, command), None, "{program} {command:?}");
        }
    }

    #[test]
    fn a_shell_launches_if_its_script_starts_one_program_and_nothing_after_it() {
        for script in [
            "nostray run some",
            " nostray run some; ",
            "'nostray' run -- 'a; b' \"c | d && e\" f\\;g",
            "A=b exec nostray run some 2>&1 >>log </dev/null",
            "cd \"$HOME/a b\" && nostray run some",
            "set -e; export A=b\numask 077\nnostray run some",
            "source venv/bin/activate && nostray run some",
            "nostray run \"${SERVER:-some}\" $A",
            "\"$@\"",
        ] {
            assert!(is_one_program(script), "{script}");
        }
        for script in [
            "",
            " ; ",
            "nostray run some; more",
            "nostray run some\nmore",
            "nostray run some && more",
            "nostray run some || more",
            "nostray run some | tee log",
            "nostray run some & wait",
            "nostray run some &",
            "(nostray run some)",
            "{ nostray run some; }",
            "if true; then nostray run some; fi",
            "while nostray run some; do :; done",
            "echo $(nostray run some)",
            "echo \"$(nostray run some)\"",
            "echo \"`nostray run some`\"",
            "cd x; first; nostray run some",
            "trap cleanup EXIT; nostray run some",
            ". ./script",
            "cd x && source script",
            "eval 'nostray run some; more'",
            "nostray run 'some",
        ] {
            assert!(!is_one_program(script), "{script}");
        }
    }
}
